//! `bench files`: measures what Landau's frame adds to the calls for a file, compared with a bare loop in C; and
//! compares the time of these calls with that in `fs_mark`.
//!
//! All programs work in the same directory and on the same processor, in turn, in alternating order. Each has a
//! separate directory, which is created like that of `landau run files`: without a journal, ext4 skips the inodes of
//! files that were removed minutes ago in the same block group. The data of earlier programs is synced to the device
//! before the next one starts.
//!
//! The bare loop makes the calls of `landau run files` with order=file. The comparison uses the processor time of a
//! file, so that the disk does not matter. `fs_mark` creates, writes and closes, as order=phase does; the comparison
//! uses the elapsed time of these three calls. It opens with `O_RDWR|O_TRUNC` and a path of two components, uses random
//! names, and calls `mkdir` before each file, which it does not count. A program in C that makes the calls of either
//! shows the cost of these differences.

use super::median::median;
use crate::program::{self, Program};
use crate::workspace;
use anyhow::{Context, Result, anyhow, ensure};
use landau_bench::placement;
use landau_record::schema::Fact;
use landau_record::{Pass, Record};
use landau_sys::file::sync_file_system;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The maximum ratio of processor times of a file: the frame may add 3%.
const FRAME: f64 = 1.03;

/// The ratios to `fs_mark` that need no explanation.
const SAME: std::ops::RangeInclusive<f64> = 0.9..=1.1;

/// Arguments of `cargo xtask bench files`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Runs of each program
    #[arg(long, default_value_t = 11)]
    rounds: u32,
    /// Files of a run
    #[arg(long, default_value_t = 10_000)]
    files: u32,
    /// Bytes of a file
    #[arg(long, default_value_t = 4_096)]
    size: u32,
    /// Work in this directory [default: the build directory of the workspace]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Measure this program instead of a release build
    #[arg(long)]
    landau: Option<PathBuf>,
}

/// The programs and their directory.
struct Bench<'a> {
    words: &'a Words,
    landau: PathBuf,
    bare: PathBuf,
    create: PathBuf,
    folder: tempfile::TempDir,
    processor: u32,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let mut bench = prepare(words)?;
    let (_, record) = bench.by_landau("file")?;
    bench.processor = record.host.pinned_processor.context("landau could not be pinned to a processor")?;
    bench.by_c()?;
    println!("{} files of {} bytes in {}", words.files, words.size, bench.folder.path().display());
    let has_frame = bench.frame()?;
    if program::find("fs_mark").is_none() {
        println!("without fs_mark: it is not installed (apt-get install fsmark)");
        return Ok(has_frame);
    }
    Ok(bench.beside_fs_mark()? & has_frame)
}

fn prepare(words: &Words) -> Result<Bench<'_>> {
    let landau = words.landau.clone().map_or_else(workspace::landau, Ok)?;
    let parent = words.dir.clone().map_or_else(workspace::target, Ok)?;
    let folder = tempfile::tempdir_in(parent).context("create a folder")?;
    let compiled = |name: &str| -> Result<PathBuf> {
        let source = workspace::root().join("crates/xtask/instrument").join(name).with_extension("c");
        let program = folder.path().join(name);
        Program::new("cc").args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(&source).run()?;
        Ok(program)
    };
    let (bare, create) = (compiled("files")?, compiled("create")?);
    Ok(Bench { words, landau, bare, create, folder, processor: 0 })
}

impl Bench<'_> {
    /// Compares the processor time of a file with that of the bare loop.
    fn frame(&self) -> Result<bool> {
        println!("processor time of a file in ns:  Landau        C   ratio");
        let mut ratios = Vec::new();
        for round in 0..self.words.rounds {
            let (ours, theirs) =
                in_turn(round, || number(&self.by_landau("file")?.0, "processor_time_per_file"), || self.by_c())?;
            println!("{:30} {ours:8.0} {theirs:8.0}  {:.3}", format!("round {}", round + 1), ours / theirs);
            ratios.push(ours / theirs);
        }
        let ratio = median(ratios);
        let is_good = ratio <= FRAME;
        println!("{} frame: median ratio {ratio:.3}, at most {FRAME}", if is_good { "ok  " } else { "FAIL" });
        Ok(is_good)
    }

    /// Compares the time to create, write and close a file with that of `fs_mark`. Then compares a program in C that
    /// makes Landau's calls with the same program making the calls of `fs_mark`.
    fn beside_fs_mark(&self) -> Result<bool> {
        println!("create, write and close in us:   Landau  fs_mark   ratio   in C: as Landau  as fs_mark   ratio");
        let (mut ratios, mut ratios_in_c) = (Vec::new(), Vec::new());
        for round in 0..self.words.rounds {
            let (ours, theirs) = in_turn(round, || Ok(calls_us(&self.by_landau("phase")?.0)), || self.by_fs_mark())?;
            let (as_ours, as_theirs) = in_turn(round, || self.by_c_as("landau"), || self.by_c_as("fs_mark"))?;
            let (ratio, in_c) = (ours / theirs, as_ours / as_theirs);
            let name = format!("round {}", round + 1);
            println!("{name:30} {ours:8.2} {theirs:8.2}  {ratio:6.3} {as_ours:17.2} {as_theirs:11.2}  {in_c:6.3}");
            ratios.push(ratio);
            ratios_in_c.push(in_c);
        }
        let (ratio, in_c) = (median(ratios), median(ratios_in_c));
        let is_good = SAME.contains(&ratio);
        let word = if is_good { "ok  " } else { "FAIL" };
        println!("{word} fs_mark: median ratio {ratio:.3}, within 10%; of the calls in C: {in_c:.3}");
        Ok(is_good)
    }

    /// Returns the pass of a run, and its record.
    fn by_landau(&self, order: &str) -> Result<(Pass, Record)> {
        let path = self.folder.path().join("files.landau.ndjson");
        let Words { files, size, .. } = self.words;
        self.settle()?;
        let set = |setting: String| ["--set".to_owned(), format!("files.{setting}")];
        Program::new(&self.landau)
            .args(["run", "files", "--study", "smoke", "--quiet", "--no-report", "--passes", "1", "--seed", "1"])
            .args(set(format!("order={order}")))
            .args(set(format!("n={files}")))
            .args(set(format!("size={size}B")))
            .args(set("cache=warm".to_owned()))
            .arg("--dir")
            .arg(self.folder.path())
            .arg("--output")
            .arg(&path)
            .run()?;
        let record = Record::read(&path)?;
        std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        let pass = record.passes.first().context("the record contains no pass")?.clone();
        ensure!(pass.is_complete(), "the pass did not end");
        Ok((pass, record))
    }

    /// Returns the processor time of a file in the bare loop, in nanoseconds.
    fn by_c(&self) -> Result<f64> {
        let folder = self.directory()?;
        let text = Program::new(&self.bare)
            .arg(self.processor.to_string())
            .arg(&folder)
            .args([self.words.files.to_string(), self.words.size.to_string()])
            .text()?;
        std::fs::remove_dir(&folder).with_context(|| format!("remove {}", folder.display()))?;
        text.trim().parse().with_context(|| format!("the bare loop printed {text:?}"))
    }

    /// Returns the time of creating, writing and closing a file in C, with the calls of `whose`, in microseconds.
    fn by_c_as(&self, whose: &str) -> Result<f64> {
        let folder = self.directory()?;
        let text = Program::new(&self.create)
            .arg(self.processor.to_string())
            .arg(relative(&folder))
            .args([self.words.files.to_string(), self.words.size.to_string(), whose.to_owned()])
            .within(parent(&folder))
            .text()?;
        std::fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
        let ns: f64 = text.trim().parse().with_context(|| format!("the program in C printed {text:?}"))?;
        Ok(ns / 1e3)
    }

    /// Returns the time of creating, writing and closing a file in `fs_mark`, in microseconds.
    fn by_fs_mark(&self) -> Result<f64> {
        let folder = self.directory()?;
        let (files, size) = (self.words.files.to_string(), self.words.size.to_string());
        // The names are as long as Landau's. The path is relative, which corresponds to a name below an open directory.
        let text = Program::new("taskset")
            .args(["-c", &self.processor.to_string(), "fs_mark", "-d"])
            .arg(relative(&folder))
            .args(["-n", &files, "-s", &size, "-w", &size])
            .args(["-S", "0", "-t", "1", "-L", "1", "-v", "-k", "-p", "13", "-r", "5", "-l", "log"])
            .within(parent(&folder))
            .text()?;
        std::fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
        marked_us(&text).with_context(|| format!("fs_mark printed {text:?}"))
    }

    /// Returns a new directory in the directory, after all pending writes have reached the device.
    fn directory(&self) -> Result<PathBuf> {
        let top = self.folder.path().join("top");
        let (path, _) = placement::create_directory(&top).map_err(|stop| anyhow!("{}: {stop}", top.display()))?;
        self.settle()?;
        Ok(path)
    }

    /// Waits until all writes to the directory's file system have reached the device.
    fn settle(&self) -> Result<()> {
        let folder = File::open(self.folder.path()).context("open the directory")?;
        sync_file_system(&folder.into()).context("sync the directory's file system")
    }
}

/// Returns the name of a directory in its parent.
fn relative(folder: &Path) -> &OsStr {
    folder.file_name().unwrap_or_default()
}

fn parent(folder: &Path) -> &Path {
    folder.parent().unwrap_or(folder)
}

/// Runs both functions, in an order that alternates from round to round (A B, B A, B A, A B).
pub(super) fn in_turn<A, B>(
    round: u32,
    ours: impl Fn() -> Result<A>,
    theirs: impl Fn() -> Result<B>,
) -> Result<(A, B)> {
    if round.is_multiple_of(4) || round % 4 == 3 {
        let first = ours()?;
        Ok((first, theirs()?))
    } else {
        let first = theirs()?;
        Ok((ours()?, first))
    }
}

/// Returns the value of a numeric fact.
fn number(pass: &Pass, name: &str) -> Result<f64> {
    match pass.end.as_ref().and_then(|end| end.facts.get(name)) {
        Some(Fact::Number { value, .. }) => Ok(*value),
        _ => anyhow::bail!("the record has no fact `{name}`"),
    }
}

/// Returns the mean time of creating, writing and closing a file.
fn calls_us(pass: &Pass) -> f64 {
    let mean = |name: &str| {
        let costs = pass.series.get(name).map(|lane| lane.costs.as_slice()).unwrap_or_default();
        costs.iter().sum::<u64>() as f64 / costs.len().max(1) as f64
    };
    ["create", "write", "close"].map(mean).iter().sum::<f64>() / 1e3
}

/// Reads the last line of `fs_mark -v`: percentage, count, size, files per second, overhead in us, and averages in
/// whole microseconds, which are too coarse. The time of a file's calls is its share of the total time minus its share
/// of the overhead.
fn marked_us(text: &str) -> Option<f64> {
    let numbers: Vec<f64> =
        text.lines().last()?.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [_, count, _, per_second, overhead_us, ..] = numbers[..] else { return None };
    Some(1e6 / per_second - overhead_us / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_fs_mark_is_read() {
        let text =
            "FSUse%  Count\n    84   2000   4096   8000.0   10000   47   117   8164   3   7   4119   0   0   0   0";
        assert!((marked_us(text).unwrap() - 120.0).abs() < 1e-9);
        assert_eq!(marked_us("84 2000"), None);
    }

    #[test]
    fn the_order_alternates() {
        let order = |round| {
            let seen = std::cell::RefCell::new(String::new());
            let note = |letter| {
                seen.borrow_mut().push(letter);
                Ok(())
            };
            in_turn(round, || note('a'), || note('b')).unwrap();
            seen.into_inner()
        };
        assert_eq!((0..4).map(order).collect::<Vec<_>>().concat(), "abbabaab");
    }
}
