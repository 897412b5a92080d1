//! `bench crash`: measures what SIGKILL costs.
//!
//! A short study is started repeatedly and killed at a random time, drawn from a seed. Then this chore checks that the
//! record is valid, that no process of the run remains, that `--resume` completes the run, and that `verify` succeeds.
//!
//! The loss is the time between the kill and the last event in the record. The times of a pass are relative to its
//! start, but those of its windows are relative to its first step. The set-up time therefore makes the measured loss
//! larger than the real one, never smaller.

use super::median::median;
use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result};
use jiff::Timestamp;
use landau_record::schema::EndOutcome;
use landau_record::{Pass, Record};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The tolerated loss, in seconds.
const LOSS_S: f64 = 1.0;

/// The time in which all processes of a killed run must have ended.
const GRACE: Duration = Duration::from_secs(3);

/// A study of some seconds that creates descriptors, mappings, files, threads and processes. It excludes `bind`, which
/// waits for up to a minute if there are sockets in `TIME_WAIT`.
const STUDY: &str = "run nop socket mmap fork thread --study smoke --passes 2 --quiet --no-report \
    --set nop.n=1000000 --set socket.n=10000 --set mmap.n=10000 --set mmap.file=50MiB \
    --set fork.n=300 --set thread.n=300";

/// Arguments of `bench crash`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Number of runs to kill
    #[arg(long, default_value_t = 50)]
    kills: u32,
    /// Seed of the random times
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The program and the directory of the runs.
struct Bench {
    landau: PathBuf,
    /// The working directory of each process of a run; the processes are found by it.
    folder: tempfile::TempDir,
}

/// The result of a killed run.
#[derive(Debug, Default)]
struct Outcome {
    /// The loss in seconds; `None` if the run was killed before the first line.
    loss_s: Option<f64>,
    /// The number of processes that did not end.
    survivors: usize,
    /// Errors.
    faults: Vec<String>,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let bench =
        Bench { landau: workspace::landau()?, folder: tempfile::tempdir().context("create a temporary directory")? };
    let began = Instant::now();
    bench.command(&study(), "whole").run().context("run the study without a kill")?;
    let whole = began.elapsed();
    println!("the study takes {:.1} s without a kill", whole.as_secs_f64());
    println!("kill   at s  lines  passes  torn  lost s  resumed");
    let mut random = ChaCha8Rng::seed_from_u64(words.seed);
    let mut outcomes = Vec::new();
    for kill in 1..=words.kills {
        let share = random.next_u64() as f64 / u64::MAX as f64;
        let outcome = bench.kill(kill, whole.mul_f64(share))?;
        for fault in &outcome.faults {
            println!("       {fault}");
        }
        outcomes.push(outcome);
    }
    Ok(judge(&outcomes))
}

/// Returns the arguments of the study.
fn study() -> Vec<&'static str> {
    STUDY.split_whitespace().collect()
}

fn judge(outcomes: &[Outcome]) -> bool {
    let losses: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.loss_s).collect();
    let worst = losses.iter().copied().fold(0.0, f64::max);
    let survivors: usize = outcomes.iter().map(|outcome| outcome.survivors).sum();
    let faults: usize = outcomes.iter().map(|outcome| outcome.faults.len()).sum();
    let early = outcomes.len() - losses.len();
    println!(
        "{} kills, {early} of them before the first line: at most {worst:.2} s lost (median {:.2} s), \
         {survivors} processes left over, {faults} faults",
        outcomes.len(),
        median(losses)
    );
    faults == 0 && survivors == 0 && worst <= LOSS_S
}

impl Bench {
    fn command(&self, words: &[&str], name: &str) -> Program {
        let record = self.record(name);
        let target = if words.contains(&"--resume") { vec![] } else { vec![Path::new("--output"), &record] };
        Program::new(&self.landau)
            .within(self.folder.path())
            .args(words)
            .arg("--dir")
            .arg(self.folder.path())
            .args(target)
    }

    fn record(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.landau.ndjson"))
    }

    /// Starts a run, kills it after `delay`, and checks its record and its processes.
    fn kill(&self, number: u32, delay: Duration) -> Result<Outcome> {
        let name = format!("kill-{number}");
        let mut command = self.command(&study(), &name).command();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("start landau")?;
        std::thread::sleep(delay);
        let has_ended = child.try_wait().context("poll landau")?.is_some();
        child.kill().context("kill landau")?;
        let killed_s = seconds(Timestamp::now());
        child.wait().context("wait for landau")?;
        let mut outcome = Outcome { survivors: self.survivors()?, ..Outcome::default() };
        let path = self.record(&name);
        let record = Record::read(&path);
        let row = match &record {
            Ok(record) => {
                let loss_s = if has_ended { 0.0 } else { (killed_s - latest_s(record)?).max(0.0) };
                let torn = if record.torn.is_some() { "yes" } else { "no" };
                outcome.loss_s = Some(loss_s);
                let faults = self.resume(&path, record)?;
                let word = if faults.is_empty() { "and verified" } else { "NO" };
                outcome.faults.extend(faults);
                format!("{:7}{:8}{torn:>6}{loss_s:8.2}  {word}", record.line_count, record.passes.len())
            }
            Err(error) if !path.exists() || std::fs::metadata(&path).is_ok_and(|meta| meta.len() == 0) => {
                format!("  no line yet ({error})")
            }
            Err(error) => {
                outcome.faults.push(format!("the record cannot be read: {error}"));
                String::new()
            }
        };
        if outcome.survivors > 0 {
            outcome.faults.push(format!("{} processes were left over", outcome.survivors));
        }
        println!("{number:4} {:7.2}{row}", delay.as_secs_f64());
        // Records with errors are kept until the chore ends. Keeping all records would fill the disk.
        let _ = std::fs::remove_file(&path);
        Ok(outcome)
    }

    /// Resumes a run, verifies its record, and returns the errors.
    fn resume(&self, path: &Path, killed: &Record) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        if let Some(fault) = &killed.fault {
            faults.push(format!("line {} of the killed run's record: {}", fault.line, fault.reason));
        }
        let is_complete = |record: &Record| record.end.as_ref().is_some_and(|end| end.outcome == EndOutcome::Complete);
        if !is_complete(killed) {
            let words = ["run", "--resume", &path.to_string_lossy(), "--quiet", "--no-report"];
            let (status, _, err) = self.command(&words, "").output()?;
            if !status.success() {
                // A kill in the first lines leaves an incomplete plan, which landau has to report.
                let is_empty = killed.passes.is_empty() && err.contains("start a new run");
                return Ok(if is_empty { faults } else { vec![format!("--resume: {status}: {}", err.trim())] });
            }
            let resumed = Record::read(path)?;
            if !is_complete(&resumed) {
                faults.push(format!("the resumed run ended as {:?}", resumed.end));
            }
            faults.extend(lost_passes(killed, &resumed));
        }
        let (status, out, err) = Program::new(&self.landau).arg("verify").arg(path).output()?;
        if !status.success() {
            faults.push(format!("verify: {status}: {out}{err}"));
        }
        Ok(faults)
    }

    /// Waits for the processes of a killed run to end, and counts and kills those that do not.
    fn survivors(&self) -> Result<usize> {
        let began = Instant::now();
        loop {
            let found = processes_in(self.folder.path())?;
            if found.is_empty() {
                return Ok(0);
            }
            if began.elapsed() >= GRACE {
                for pid in &found {
                    // Only processes of this chore have this working directory.
                    let _ = Program::new("kill").args(["-KILL", &pid.to_string()]).output();
                }
                return Ok(found.len());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the processes whose working directory is `folder`. A zombie has none.
fn processes_in(folder: &Path) -> Result<Vec<u32>> {
    let folder = folder.canonicalize().context("resolve the path of the directory")?;
    let entries = std::fs::read_dir("/proc").context("read /proc; this chore needs Linux")?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Ok(pids.filter(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at == folder)).collect())
}

/// Returns the passes of the killed run's record whose samples are missing in the resumed record.
fn lost_passes(killed: &Record, resumed: &Record) -> Vec<String> {
    let whole = killed.passes.iter().filter(|pass| pass.is_complete());
    let lost = whole.filter(|pass| !resumed.passes.iter().any(|other| is_same(pass, other)));
    lost.map(|pass| format!("pass {} changed by the resumption", pass.start.pass)).collect()
}

fn is_same(a: &Pass, b: &Pass) -> bool {
    (&a.start, &a.series, &a.windows, &a.end) == (&b.start, &b.series, &b.windows, &b.end)
}

fn seconds(moment: Timestamp) -> f64 {
    moment.as_microsecond() as f64 / 1e6
}

/// Returns the time of the last event in a record, in seconds since 1970.
fn latest_s(record: &Record) -> Result<f64> {
    let started = record.header.started.parse::<Timestamp>().context("parse the start of the run")?;
    let moment_ms = |pass: &Pass| {
        let window_us = pass.windows.iter().map(|window| window.until_us).max().unwrap_or(0);
        let end_ms = pass.end.as_ref().map_or(0, |end| end.elapsed_ms);
        pass.start.at_ms as f64 + (window_us as f64 / 1e3).max(end_ms as f64)
    };
    Ok(seconds(started) + record.passes.iter().map(moment_ms).fold(0.0, f64::max) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_a_survivor_and_a_fault_each_fail() {
        let outcome = |loss_s: f64, survivors| Outcome { loss_s: Some(loss_s), survivors, faults: Vec::new() };
        assert!(judge(&[outcome(0.9, 0), Outcome::default()]));
        assert!(!judge(&[outcome(1.1, 0)]) && !judge(&[outcome(0.1, 1)]));
        assert!(!judge(&[Outcome { faults: vec!["x".to_owned()], ..Outcome::default() }]));
    }

    #[test]
    fn this_very_process_is_found_by_its_folder() {
        let here = std::env::current_dir().unwrap();
        assert!(processes_in(&here).unwrap().contains(&std::process::id()));
    }
}
