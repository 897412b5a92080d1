//! `bench instrument`: compares Landau's results with those of a C program that times the same calls.
//!
//! Both make the same calls at the same sizes on the same processor, with files in the same directory, and take turns
//! by benchmark. The order alternates from round to round (A B, B A, B A, A B), so that drift affects both alike. The
//! result of a round is the median over one pass; the verdict is on the median over the rounds of the ratio (Landau /
//! C).

use super::median::median;
use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use landau_record::Record;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Calls in a pass, as in the quick study.
const CALLS: u32 = 10_000;

/// The tolerated deviation of a median: a ratio, or a number of nanoseconds if that is more (one quantum of a typical
/// clock).
const TOLERANCE: f64 = 0.03;
const QUANTUM_NS: f64 = 10.0;

/// Arguments of `bench instrument`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Number of rounds
    #[arg(long, default_value_t = 10)]
    rounds: u32,
}

/// A benchmark of Landau: its name, the settings that reduce it to one case, its name in the C program, and the phases
/// that both programs time.
struct Subject {
    benchmark: &'static str,
    settings: &'static [&'static str],
    plain: &'static str,
    phases: &'static [&'static str],
}

const SUBJECTS: [Subject; 4] = [
    Subject { benchmark: "syscall", settings: &[], plain: "getppid", phases: &["getppid"] },
    Subject { benchmark: "socket", settings: &["threads=0", "reserve=0"], plain: "socket", phases: &["socket"] },
    Subject {
        benchmark: "bind",
        settings: &["family=v4", "v6only=on", "range=host"],
        plain: "bind",
        phases: &["bind"],
    },
    Subject {
        benchmark: "mmap",
        settings: &["order=sequential", "populate=off", "until=file"],
        plain: "mmap",
        phases: &["mmap", "touch"],
    },
];

/// Medians in nanoseconds by phase.
type Medians = BTreeMap<String, f64>;

/// The two programs and their directory.
struct Bench {
    landau: PathBuf,
    plain: PathBuf,
    scratch: tempfile::TempDir,
    processor: u32,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let bench = prepare()?;
    let phases: Vec<&str> = SUBJECTS.iter().flat_map(|subject| subject.phases).copied().collect();
    println!("medians in ns, Landau / C, and their ratio; {CALLS} calls, processor {}", bench.processor);
    let heads: Vec<String> = phases.iter().map(|phase| format!("{phase:^26}")).collect();
    println!("round  first   {}", heads.concat());
    let mut rounds = Vec::new();
    for round in 0..words.rounds {
        let is_landau_first = round % 4 == 0 || round % 4 == 3;
        let (mut ours, mut theirs) = (Medians::new(), Medians::new());
        for subject in &SUBJECTS {
            if is_landau_first {
                ours.extend(bench.by_landau(subject)?);
            }
            theirs.extend(bench.by_c(subject)?);
            if !is_landau_first {
                ours.extend(bench.by_landau(subject)?);
            }
        }
        let cells: Vec<String> = phases
            .iter()
            .map(|&phase| format!("{:9.0} /{:7.0} {:.3}  ", ours[phase], theirs[phase], ours[phase] / theirs[phase]))
            .collect();
        println!("{:5}  {:6}  {}", round + 1, if is_landau_first { "Landau" } else { "C" }, cells.concat());
        rounds.push((ours, theirs));
    }
    Ok(phases.iter().map(|phase| is_true(phase, &rounds)).fold(true, |all, one| all & one))
}

/// Builds both programs and determines the processor that Landau uses.
fn prepare() -> Result<Bench> {
    let landau = workspace::landau()?;
    let scratch = tempfile::tempdir().context("create a temporary directory")?;
    let plain = scratch.path().join("instrument");
    let source = workspace::root().join("crates/xtask/instrument/instrument.c");
    Program::new("cc").args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&plain).arg(&source).run()?;
    let mut bench = Bench { landau, plain, scratch, processor: 0 };
    // The first run is a warm-up; its record names the processor.
    let record = bench.record_of(&SUBJECTS[0])?;
    bench.processor = record.host.pinned_processor.context("landau could not be pinned to a processor")?;
    bench.by_c(&SUBJECTS[0])?;
    Ok(bench)
}

impl Bench {
    fn record_of(&self, subject: &Subject) -> Result<Record> {
        let path = self.scratch.path().join("instrument.landau.ndjson");
        let name = subject.benchmark;
        let mut program = Program::new(&self.landau)
            .args(["run", name, "--quiet", "--no-report", "--passes", "1", "--seed", "1"])
            .args(["--set".to_owned(), format!("{name}.n={CALLS}")])
            .arg("--dir")
            .arg(self.scratch.path())
            .arg("--output")
            .arg(&path);
        for setting in subject.settings {
            program = program.args(["--set".to_owned(), format!("{name}.{setting}")]);
        }
        program.run()?;
        let record = Record::read(&path)?;
        std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        ensure!(record.cases.len() == 1, "`{name}` has {} cases; expected one", record.cases.len());
        Ok(record)
    }

    fn by_landau(&self, subject: &Subject) -> Result<Medians> {
        let record = self.record_of(subject)?;
        let pass = record.passes.first().context("the record contains no pass")?;
        let of = |&phase: &&str| {
            let lane = pass.series.get(phase).with_context(|| format!("the record contains no phase `{phase}`"))?;
            ensure!(lane.costs.len() == CALLS as usize, "`{phase}` was timed {} times", lane.costs.len());
            Ok((phase.to_owned(), median(lane.costs.iter().map(|&ns| ns as f64).collect())))
        };
        subject.phases.iter().map(of).collect()
    }

    fn by_c(&self, subject: &Subject) -> Result<Medians> {
        let scratch: &Path = self.scratch.path();
        let text = Program::new(&self.plain)
            .arg(self.processor.to_string())
            .arg(scratch)
            .args([subject.plain, &CALLS.to_string()])
            .text()?;
        let medians = medians(&text);
        for phase in subject.phases {
            ensure!(medians.contains_key(*phase), "the C program did not print `{phase}`");
        }
        Ok(medians)
    }
}

/// Returns the medians of lines such as `bind 1040`.
fn medians(text: &str) -> Medians {
    let mut samples: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (phase, ns) in text.lines().filter_map(|line| line.split_once(' ')) {
        if let Ok(ns) = ns.parse() {
            samples.entry(phase.to_owned()).or_default().push(ns);
        }
    }
    samples.into_iter().map(|(phase, values)| (phase, median(values))).collect()
}

/// Prints and returns whether a phase is within tolerance over all rounds.
fn is_true(phase: &str, rounds: &[(Medians, Medians)]) -> bool {
    let ratio = median(rounds.iter().map(|(ours, theirs)| ours[phase] / theirs[phase]).collect());
    let difference_ns = median(rounds.iter().map(|(ours, theirs)| ours[phase] - theirs[phase]).collect());
    let is_true = is_within(ratio, difference_ns);
    let word = if is_true { "ok  " } else { "FAIL" };
    println!("{word} {phase}: median ratio {ratio:.4}, median difference {difference_ns:+.1} ns");
    is_true
}

fn is_within(ratio: f64, difference_ns: f64) -> bool {
    (ratio - 1.0).abs() <= TOLERANCE || difference_ns.abs() <= QUANTUM_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_c_program_are_read() {
        let medians = medians("mmap 10\ntouch 5\nmmap 30\nmmap 20\n\nnonsense\n");
        assert_eq!(medians.get("mmap"), Some(&20.0));
        assert_eq!(medians.get("touch"), Some(&5.0));
        assert_eq!(medians.len(), 2);
    }

    #[test]
    fn three_per_cent_or_ten_nanoseconds_are_allowed() {
        assert!(is_within(1.029, 300.0) && is_within(1.10, 9.0) && is_within(0.971, -300.0));
        assert!(!is_within(1.031, 11.0) && !is_within(0.96, -11.0) && !is_within(f64::NAN, f64::NAN));
    }
}
