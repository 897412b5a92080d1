//! `fuzz`: fuzzes the parsers of `landau-wire` and the sessions of `landau-mail`, each for a given processor time.
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
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, SystemTime};

/// The directories of the targets, relative to the root of the workspace.
const FOLDERS: [&str; 2] = ["crates/wire/fuzz", "crates/mail/fuzz"];
/// The directory with the words of the protocols.
const DICTIONARIES: &str = "crates/wire/fuzz";
/// The compilation target, which names a directory of cargo-fuzz's build.
const SYSTEM: &str = "x86_64-unknown-linux-gnu";
/// The maximum input length. It exceeds the longest line and the longest head that the parsers accept by default (4,096
/// and 8,192 bytes).
const LONGEST: &str = "-max_len=9000";

/// Arguments of `fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Targets to fuzz [default: all]
    targets: Vec<String>,
    /// Fuzz each target for this many minutes of processor time
    #[arg(long, default_value_t = 60.0)]
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
    /// The findings of earlier runs.
    known: Files,
    busy_ns: u64,
}

/// Files with their modification times. The name of a finding is a hash of its content, so an input that is found again
/// is rewritten under the same name.
type Files = BTreeMap<PathBuf, SystemTime>;

pub(crate) fn run(words: &Words) -> Result<bool> {
    let known = known()?;
    for name in &words.targets {
        let names: Vec<&str> = known.iter().map(|target| target.name.as_str()).collect();
        ensure!(names.contains(&name.as_str()), "unknown target {name}; the targets are {}", names.join(", "));
    }
    ensure!(words.minutes > 0.0 && words.at_once > 0, "--minutes and --at-once must be more than 0");
    let folder = workspace::target()?.join("fuzz");
    let is_chosen = |target: &Target| words.targets.is_empty() || words.targets.contains(&target.name);
    let chosen: Vec<Target> = known.into_iter().filter(is_chosen).collect();
    for sources in FOLDERS.into_iter().filter(|sources| chosen.iter().any(|target| target.sources == *sources)) {
        build(&folder, sources)?;
    }
    let limit_ns = (words.minutes * 60e9) as u64;
    let mut waiting = chosen.iter();
    let mut running: Vec<Running> = Vec::new();
    let mut is_good = true;
    loop {
        while running.len() < words.at_once
            && let Some(target) = waiting.next()
        {
            running.push(start(&folder, target)?);
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

/// A target.
struct Target {
    name: String,
    /// The directory of the target.
    sources: &'static str,
}

/// Returns all targets, from the names of their files.
fn known() -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for sources in FOLDERS {
        let folder = workspace::root().join(sources).join("fuzz_targets");
        for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
            targets.extend(name.map(|name| Target { name, sources }));
        }
    }
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(targets)
}

/// Returns the dictionary of a target's protocol, which is the first part of the target's name. The default is HTTP.
fn dictionary_of(name: &str) -> &'static str {
    match name.split_once('_') {
        Some(("smtp" | "mail", _)) => "smtp.dict",
        Some(("dns", _)) => "dns.dict",
        Some(("http2", _)) => "http2.dict",
        _ if name == "hpack" => "http2.dict",
        _ => "http.dict",
    }
}

fn build(folder: &Path, sources: &str) -> Result<()> {
    let words = ["+nightly", "fuzz", "build", "--fuzz-dir", sources, "--target-dir"];
    // Looked up in PATH, to find rustup's cargo: the cargo that started this program does not understand `+nightly`.
    Program::new("cargo")
        .args(words)
        .arg(folder.join("build"))
        .run()
        .context("build the fuzz targets: needs `rustup toolchain install nightly` and `cargo install cargo-fuzz`")
}

fn start(folder: &Path, Target { name, sources }: &Target) -> Result<Running> {
    let (corpus, findings) = (folder.join("corpus").join(name), folder.join("findings").join(name));
    for folder in [&corpus, &findings] {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let log = folder.join(format!("{name}.log"));
    let said = File::create(&log).with_context(|| format!("write {}", log.display()))?;
    let root = workspace::root();
    let (seeds, dictionary) =
        (root.join(sources).join("seeds").join(name), root.join(DICTIONARIES).join(dictionary_of(name)));
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
    let known = files_in(&findings)?;
    let child = OwnedChild::spawn(&mut command).context("start `nice`")?;
    Ok(Running { name: name.to_owned(), child, log, findings, known, busy_ns: 0 })
}

/// Returns the files of a directory.
fn files_in(folder: &Path) -> Result<Files> {
    let mut files = Files::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        let written = path.metadata().and_then(|metadata| metadata.modified());
        files.insert(path.clone(), written.with_context(|| format!("examine {}", path.display()))?);
    }
    Ok(files)
}

/// Returns the files that were created or written since `known`.
fn new_files(folder: &Path, known: &Files) -> Result<Vec<PathBuf>> {
    let is_new = |(path, written): &(PathBuf, SystemTime)| known.get(path) != Some(written);
    Ok(files_in(folder)?.into_iter().filter(is_new).map(|(path, _)| path).collect())
}

/// How a target ended.
enum Ended {
    InTime,
    Early(ExitStatus),
}

impl Running {
    /// Returns how the target ended, if it has ended: early, or killed by this function because its time is used up.
    fn step(&mut self, limit_ns: u64) -> Result<Option<Ended>> {
        if let Some(status) = self.child.try_wait().context("wait for a fuzz target")? {
            return Ok(Some(Ended::Early(status)));
        }
        self.busy_ns = cpu_time_ns(self.child.id()).unwrap_or(self.busy_ns);
        if self.busy_ns < limit_ns {
            return Ok(None);
        }
        self.child.kill().context("kill a fuzz target")?;
        self.child.wait().context("wait for a fuzz target")?;
        Ok(Some(Ended::InTime))
    }

    /// Prints the result of a target. Returns whether the target found nothing new. The findings of earlier runs are
    /// only counted.
    fn tell(&self, ended: &Ended) -> Result<bool> {
        let said = fs::read_to_string(&self.log).with_context(|| format!("read {}", self.log.display()))?;
        let reached = said.lines().rfind(|line| line.starts_with('#')).unwrap_or("nothing was run");
        let mut findings: Vec<String> =
            new_files(&self.findings, &self.known)?.iter().map(|path| path.display().to_string()).collect();
        let minutes = self.busy_ns as f64 / 60e9;
        let is_clean = findings.is_empty();
        println!("{}: {minutes:.1} minutes of processor time, {} found; {reached}", self.name, findings.len());
        if !self.known.is_empty() {
            println!("  {} has {} findings of earlier runs", self.findings.display(), self.known.len());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a target that fails permanently because of an input that an earlier run found.
    #[test]
    fn findings_of_earlier_runs_are_not_judged() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        for name in ["crash-1", "crash-2"] {
            fs::write(file(name), "").unwrap();
        }
        let known = files_in(folder.path()).unwrap();
        assert_eq!(new_files(folder.path(), &known).unwrap(), Vec::<PathBuf>::new());
        fs::write(file("crash-3"), "").unwrap();
        let again = File::options().write(true).open(file("crash-1")).unwrap();
        again.set_modified(known[&file("crash-1")] + Duration::from_secs(1)).unwrap();
        assert_eq!(new_files(folder.path(), &known).unwrap(), [file("crash-1"), file("crash-3")]);
    }
}
