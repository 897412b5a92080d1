//! `fuzz`: fuzzes the parsers of `landau-wire`, for a given processor time each.
//!
//! A target that ends early has found a failing input: the input and the last lines of the target's output are shown.
//! The corpus stays in `target/fuzz/`, so that the next run continues where this one stopped; a target begins with the
//! files in `seeds/TARGET`, if there are any. Fuzzing needs a nightly compiler and `cargo-fuzz`, so it is not part of
//! `ci`.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use landau_sys::process::OwnedChild;
use landau_sys::system::cpu_time_ns;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

/// The directory of the targets, relative to the root of the workspace.
const FOLDER: &str = "crates/wire/fuzz";
/// The compilation target, which names a directory of cargo-fuzz's build.
const SYSTEM: &str = "x86_64-unknown-linux-gnu";
/// Longer than the longest line and the longest head that the parsers take by default (4,096 and 8,192 bytes).
const LONGEST: &str = "-max_len=9000";

/// Arguments of `fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Targets to fuzz [default: all]
    targets: Vec<String>,
    /// Fuzz each target for this many minutes of processor time
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Fuzz this many targets at a time
    #[arg(long, default_value_t = 2)]
    at_once: usize,
}

/// A running target.
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
        ensure!(known.contains(name), "unknown target {name}; the targets are {}", known.join(", "));
    }
    ensure!(words.minutes > 0.0 && words.at_once > 0, "--minutes and --at-once must be more than 0");
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

/// Returns the names of all targets, from the names of their files.
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

/// Returns the file with the words of a target's protocol, which its name starts with; without a name it is HTTP.
fn dictionary_of(name: &str) -> &'static str {
    match name.split_once('_') {
        Some(("smtp", _)) => "smtp.dict",
        Some(("dns", _)) => "dns.dict",
        _ => "http.dict",
    }
}

fn build(folder: &Path) -> Result<()> {
    let words = ["+nightly", "fuzz", "build", "--fuzz-dir", FOLDER, "--target-dir"];
    // Found in PATH, so that it is rustup's: the cargo that started this program does not know `+nightly`.
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
    let sources = workspace::root().join(FOLDER);
    let (seeds, dictionary) = (sources.join("seeds").join(name), sources.join(dictionary_of(name)));
    let target = folder.join("build").join(SYSTEM).join("release").join(name);
    let mut command = Program::new("nice")
        .args(["-n", "19"])
        .arg(&target)
        .arg(&corpus)
        .args(seeds.is_dir().then_some(seeds))
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
    /// Returns how the target ended, if it has: early, or killed here because its time is up.
    fn step(&mut self, limit_ns: u64) -> Result<Option<Ended>> {
        if let Some(status) = self.child.try_wait().context("wait for a fuzz target")? {
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

    /// Prints the result of a target. Returns whether it found nothing.
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
            println!("  ended early, {status}; the last lines of {}:", self.log.display());
            let lines: Vec<_> = said.lines().collect();
            findings.extend(lines[lines.len().saturating_sub(20)..].iter().map(|line| (*line).to_owned()));
        }
        for line in findings {
            println!("  {line}");
        }
        Ok(is_clean && matches!(ended, Ended::InTime))
    }
}
