//! `fuzz`: the parsers of the wire, fed with whatever a fuzzer thinks of, for so many minutes of processor time each.
//!
//! A target that ends before its time has found something: what it found and what it said are shown. The corpus stays
//! in `target/fuzz/`, so that the next run goes on where this one stopped. Needs a nightly compiler and `cargo-fuzz`,
//! which is why `ci` does not do this.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use landau_sys::process::OwnedChild;
use landau_sys::system::cpu_time_ns;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

/// Where the targets are, from the workspace's root.
const FOLDER: &str = "crates/wire/fuzz";
/// The system that the fuzzer's own build asks for by name.
const SYSTEM: &str = "x86_64-unknown-linux-gnu";
/// Longer than the longest line and the longest head that the parsers take by default (4,096 and 8,192 bytes).
const LONGEST: &str = "-max_len=9000";

/// Arguments of `fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Only these targets [default: all]
    targets: Vec<String>,
    /// Minutes of processor time for each
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// How many at once
    #[arg(long, default_value_t = 2)]
    at_once: usize,
}

/// A target at work.
struct Running {
    name: String,
    child: OwnedChild,
    log: PathBuf,
    findings: PathBuf,
    busy_ns: u64,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let known = known()?;
    for name in &words.targets {
        ensure!(known.contains(name), "no target {name}; there are {}", known.join(", "));
    }
    ensure!(words.minutes > 0.0 && words.at_once > 0, "at least some time, and at least one at once");
    let folder = workspace::target()?.join("fuzz");
    build(&folder)?;
    let chosen = if words.targets.is_empty() { known } else { words.targets.clone() };
    let limit_ns = (words.minutes * 60e9) as u64;
    let mut waiting = chosen.iter();
    let mut running: Vec<Running> = Vec::new();
    let mut is_good = true;
    loop {
        while running.len() < words.at_once
            && let Some(name) = waiting.next()
        {
            running.push(start(&folder, name)?);
        }
        if running.is_empty() {
            return Ok(is_good);
        }
        std::thread::sleep(Duration::from_millis(200));
        let mut still = Vec::new();
        for mut one in running {
            match one.step(limit_ns)? {
                None => still.push(one),
                Some(ended) => is_good &= one.tell(&ended)?,
            }
        }
        running = still;
    }
}

/// The targets, by their files.
fn known() -> Result<Vec<String>> {
    let folder = workspace::root().join(FOLDER).join("fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn build(folder: &Path) -> Result<()> {
    let words = ["+nightly", "fuzz", "build", "--fuzz-dir", FOLDER, "--target-dir"];
    // By the name that the toolchain's manager answers to: the cargo that started this one knows nothing of `+nightly`.
    Program::new("cargo")
        .args(words)
        .arg(folder.join("build"))
        .run()
        .context("build the fuzz targets: needs `rustup toolchain install nightly` and `cargo install cargo-fuzz`")
}

fn start(folder: &Path, name: &str) -> Result<Running> {
    let (corpus, findings) = (folder.join("corpus").join(name), folder.join("findings").join(name));
    for folder in [&corpus, &findings] {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let log = folder.join(format!("{name}.log"));
    let said = File::create(&log).with_context(|| format!("write {}", log.display()))?;
    let dictionary = workspace::root().join(FOLDER).join("http.dict");
    let target = folder.join("build").join(SYSTEM).join("release").join(name);
    let mut command = Program::new("nice")
        .args(["-n", "19"])
        .arg(&target)
        .arg(&corpus)
        .arg(format!("-dict={}", dictionary.display()))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .args([LONGEST, "-timeout=20", "-rss_limit_mb=1500"])
        .command();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let child = OwnedChild::spawn(&mut command).context("start `nice`")?;
    Ok(Running { name: name.to_owned(), child, log, findings, busy_ns: 0 })
}

/// How a target ended.
enum Ended {
    InTime,
    Early(ExitStatus),
}

impl Running {
    /// Whether it has ended: by itself, or because its time is up.
    fn step(&mut self, limit_ns: u64) -> Result<Option<Ended>> {
        if let Some(status) = self.child.try_wait().context("ask for a fuzz target")? {
            return Ok(Some(Ended::Early(status)));
        }
        self.busy_ns = cpu_time_ns(self.child.id()).unwrap_or(self.busy_ns);
        if self.busy_ns < limit_ns {
            return Ok(None);
        }
        self.child.kill().context("end a fuzz target")?;
        self.child.wait().context("wait for a fuzz target")?;
        Ok(Some(Ended::InTime))
    }

    /// Says what came of it; whether nothing was found.
    fn tell(&self, ended: &Ended) -> Result<bool> {
        let said = fs::read_to_string(&self.log).with_context(|| format!("read {}", self.log.display()))?;
        let reached = said.lines().rfind(|line| line.starts_with('#')).unwrap_or("nothing was run");
        let mut findings = Vec::new();
        for entry in fs::read_dir(&self.findings)? {
            findings.push(entry?.path().display().to_string());
        }
        let minutes = self.busy_ns as f64 / 60e9;
        let is_clean = findings.is_empty();
        println!("{}: {minutes:.1} minutes of processor time, {} found; {reached}", self.name, findings.len());
        if let Ended::Early(status) = ended {
            println!("  ended by itself, {status}; its last lines in {}:", self.log.display());
            let lines: Vec<_> = said.lines().collect();
            findings.extend(lines[lines.len().saturating_sub(20)..].iter().map(|line| (*line).to_owned()));
        }
        for line in findings {
            println!("  {line}");
        }
        Ok(is_clean && matches!(ended, Ended::InTime))
    }
}
