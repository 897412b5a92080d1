//! `bench crash`: what does a kill -9 cost?
//!
//! A short study is started again and again and killed at a random moment (of a seed). Then: is the record valid as
//! far as it goes, how much of what was measured is missing, does any process of the run live on, does `--resume`
//! complete it, and does `verify` hold afterwards?
//!
//! The loss is the time between the kill and the latest moment that the record tells of. A moment in a pass counts
//! from its start, but a window counts from the pass's first step: the set-up before it makes the loss look larger
//! than it is, never smaller.

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

/// A kill may cost so much.
const LOSS_S: f64 = 1.0;

/// The system may take so long to end what the killed process left behind.
const GRACE: Duration = Duration::from_secs(3);

/// A study of some seconds with most sorts of leftovers: descriptors, mappings, files, threads, processes. Without
/// `bind`, which waits for up to a minute where somebody else on the machine has left sockets in `TIME_WAIT`.
const STUDY: &str = "run nop socket mmap fork thread --study smoke --passes 2 --quiet --no-report \
    --set nop.n=1000000 --set socket.n=10000 --set mmap.n=10000 --set mmap.file=50MiB --set fork.n=300 --set thread.n=300";

/// Arguments of `bench crash`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// How many runs are killed
    #[arg(long, default_value_t = 50)]
    kills: u32,
    /// Seed of the moments
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Where the runs take place.
struct Bench {
    landau: PathBuf,
    /// Everything that a run starts inherits it as its working directory, by which it is found again.
    folder: tempfile::TempDir,
}

/// What became of a killed run.
#[derive(Debug, Default)]
struct Fate {
    /// What its record lacked, in seconds; none where the kill came before the first line.
    loss_s: Option<f64>,
    /// Processes that lived on.
    survivors: usize,
    /// What went wrong.
    faults: Vec<String>,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let bench = Bench { landau: workspace::landau()?, folder: tempfile::tempdir().context("make a folder")? };
    let began = Instant::now();
    bench.command(&study(), "whole").run().context("the study itself fails")?;
    let whole = began.elapsed();
    println!("the study takes {:.1} s when nobody kills it", whole.as_secs_f64());
    println!("kill   at s  lines  passes  torn  lost s  resumed");
    let mut random = ChaCha8Rng::seed_from_u64(words.seed);
    let mut fates = Vec::new();
    for kill in 1..=words.kills {
        let share = random.next_u64() as f64 / u64::MAX as f64;
        let fate = bench.kill(kill, whole.mul_f64(share))?;
        for fault in &fate.faults {
            println!("       {fault}");
        }
        fates.push(fate);
    }
    Ok(judge(&fates))
}

/// The words of the study.
fn study() -> Vec<&'static str> {
    STUDY.split_whitespace().collect()
}

fn judge(fates: &[Fate]) -> bool {
    let losses: Vec<f64> = fates.iter().filter_map(|fate| fate.loss_s).collect();
    let worst = losses.iter().copied().fold(0.0, f64::max);
    let survivors: usize = fates.iter().map(|fate| fate.survivors).sum();
    let faults: usize = fates.iter().map(|fate| fate.faults.len()).sum();
    let early = fates.len() - losses.len();
    println!(
        "{} kills, {early} of them before the first line: at most {worst:.2} s lost (median {:.2} s), \
         {survivors} processes left over, {faults} faults",
        fates.len(),
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

    /// Starts a run, kills it after `delay`, and looks at what is left.
    fn kill(&self, number: u32, delay: Duration) -> Result<Fate> {
        let name = format!("kill-{number}");
        let mut command = self.command(&study(), &name).command();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("start landau")?;
        std::thread::sleep(delay);
        let has_ended = child.try_wait().context("look after landau")?.is_some();
        child.kill().context("kill landau")?;
        let killed_s = seconds(Timestamp::now());
        child.wait().context("wait for landau")?;
        let mut fate = Fate { survivors: self.survivors()?, ..Fate::default() };
        let path = self.record(&name);
        let record = Record::read(&path);
        let row = match &record {
            Ok(record) => {
                let loss_s = if has_ended { 0.0 } else { (killed_s - latest_s(record)?).max(0.0) };
                let torn = if record.torn.is_some() { "yes" } else { "no" };
                fate.loss_s = Some(loss_s);
                let faults = self.resume(&path, record)?;
                let word = if faults.is_empty() { "and verified" } else { "NO" };
                fate.faults.extend(faults);
                format!("{:7}{:8}{torn:>6}{loss_s:8.2}  {word}", record.line_count, record.passes.len())
            }
            Err(error) if !path.exists() || std::fs::metadata(&path).is_ok_and(|meta| meta.len() == 0) => {
                format!("  no line yet ({error})")
            }
            Err(error) => {
                fate.faults.push(format!("the record does not read: {error}"));
                String::new()
            }
        };
        if fate.survivors > 0 {
            fate.faults.push(format!("{} processes lived on", fate.survivors));
        }
        println!("{number:4} {:7.2}{row}", delay.as_secs_f64());
        // A record that went wrong is kept until the chore ends; the others would fill the disk.
        let _ = std::fs::remove_file(&path);
        Ok(fate)
    }

    /// Resumes a run and verifies its record; what went wrong.
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
                // A kill in the first lines leaves a plan that is not written down; landau has to say so itself.
                let is_empty = killed.passes.is_empty() && err.contains("start anew");
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

    /// Waits until nothing of a killed run lives, counts what does after all, and ends it.
    fn survivors(&self) -> Result<usize> {
        let began = Instant::now();
        loop {
            let found = processes_in(self.folder.path())?;
            if found.is_empty() {
                return Ok(0);
            }
            if began.elapsed() >= GRACE {
                for pid in &found {
                    // They are ours: nobody else works in a folder that this chore has made.
                    let _ = Program::new("kill").args(["-KILL", &pid.to_string()]).output();
                }
                return Ok(found.len());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The processes whose working directory is `folder`. One that has ended, but was not waited for, has none.
fn processes_in(folder: &Path) -> Result<Vec<u32>> {
    let folder = folder.canonicalize().context("resolve the folder's path")?;
    let entries = std::fs::read_dir("/proc").context("read /proc; this chore needs Linux")?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Ok(pids.filter(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at == folder)).collect())
}

/// Passes whose samples were in the killed run's record and are not in the resumed one's.
fn lost_passes(killed: &Record, resumed: &Record) -> Vec<String> {
    let whole = killed.passes.iter().filter(|pass| pass.is_complete());
    let lost = whole.filter(|pass| !resumed.passes.iter().any(|other| is_same(pass, other)));
    lost.map(|pass| format!("pass {} is not what it was before the resumption", pass.start.pass)).collect()
}

fn is_same(a: &Pass, b: &Pass) -> bool {
    (&a.start, &a.series, &a.windows, &a.end) == (&b.start, &b.series, &b.windows, &b.end)
}

fn seconds(moment: Timestamp) -> f64 {
    moment.as_microsecond() as f64 / 1e6
}

/// The latest moment that a record tells of, in seconds since 1970.
fn latest_s(record: &Record) -> Result<f64> {
    let started = record.header.started.parse::<Timestamp>().context("read when the run began")?;
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
        let fate = |loss_s: f64, survivors| Fate { loss_s: Some(loss_s), survivors, faults: Vec::new() };
        assert!(judge(&[fate(0.9, 0), Fate::default()]));
        assert!(!judge(&[fate(1.1, 0)]) && !judge(&[fate(0.1, 1)]));
        assert!(!judge(&[Fate { faults: vec!["x".to_owned()], ..Fate::default() }]));
    }

    #[test]
    fn this_very_process_is_found_by_its_folder() {
        let here = std::env::current_dir().unwrap();
        assert!(processes_in(&here).unwrap().contains(&std::process::id()));
    }
}
