//! Measures several kernels, a given number at a time, each with its own machine and record. One that fails does not
//! affect the others.

use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::launch::{Ending, Timeouts};
use crate::machine::Login;
use crate::observer::KernelObserver;
use crate::outcome::KernelOutcome;
use crate::platform::Platform;
use crate::session::{Measured, RunSpec, crash_of, measure};
use landau_engine::Scratch;
use landau_record::schema::{CrashKind, End, EndOutcome};
use landau_record::{Record, Writer, read_file};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A run under several kernels: what to measure, and where the records go.
#[derive(Debug)]
pub struct Matrix<'a> {
    /// The kernels.
    pub kernels: &'a [Kernel],
    /// The platform that runs them.
    pub platform: &'static dyn Platform,
    /// The job of each guest.
    pub job: &'a Job,
    /// The program that measures, usually the running one.
    pub program: &'a Path,
    /// The directory for the records.
    pub out: &'a Path,
    /// The directory for files that are needed only while a machine runs.
    pub temporary: &'a Path,
    /// How to log in on disk images.
    pub login: &'a Login,
    /// Memory of each machine in MiB.
    pub memory_mib: u32,
    /// Additional arguments for each kernel's command line.
    pub append: &'a str,
    /// The time limits of each guest.
    pub timeouts: Timeouts,
    /// The number of machines that run at a time.
    pub parallel: usize,
    /// Whether existing records are kept if they are complete or if their kernel panicked. The other kernels are
    /// measured again.
    pub resume: bool,
    /// The command line of the run.
    pub command: &'a [String],
}

/// Computes the results and writes a record's last lines.
pub type Close<'a> = &'a (dyn Fn(&mut Writer, End) -> Result<(), String> + Sync);

impl Matrix<'_> {
    /// Returns the path of a kernel's record.
    pub fn record_of(&self, kernel: &Kernel) -> PathBuf {
        let safe = |letter: char| if letter.is_alphanumeric() || "._+-".contains(letter) { letter } else { '-' };
        let same = self.kernels.iter().filter(|other| other.name == kernel.name).count() > 1;
        // Two builds may report the same release.
        let name = if same {
            format!("{}-{}", kernel.name, kernel.sha256.get(..8).unwrap_or_default())
        } else {
            kernel.name.clone()
        };
        let name: String = name.chars().map(safe).collect();
        self.out.join(format!("{name}.{}.landau.ndjson", self.platform.for_kernel(kernel).name()))
    }

    /// Checks that no two kernels have the same record.
    pub fn check_records(&self) -> Result<(), Error> {
        let mut paths = std::collections::BTreeSet::new();
        match self.kernels.iter().find(|kernel| !paths.insert(self.record_of(kernel))) {
            Some(twice) => Err(Error::Guest(format!("{} is given twice by --kernel; give it once", twice.name))),
            None => Ok(()),
        }
    }

    /// Returns the paths of the records, in the kernels' order.
    pub fn records(&self) -> impl Iterator<Item = PathBuf> {
        self.kernels.iter().map(|kernel| self.record_of(kernel))
    }

    /// Measures under every kernel; returns the outcomes in the kernels' order.
    pub fn run(
        &self,
        close: Close,
        interrupted: &(dyn Fn() -> bool + Sync),
        observer: &dyn KernelObserver,
    ) -> Vec<KernelOutcome> {
        let next = AtomicUsize::new(0);
        let outcomes: Mutex<Vec<Option<KernelOutcome>>> = Mutex::new(self.kernels.iter().map(|_| None).collect());
        std::thread::scope(|scope| {
            for _ in 0..self.parallel.clamp(1, self.kernels.len().max(1)) {
                scope.spawn(|| {
                    while let Some((index, kernel)) = self.take(&next) {
                        let outcome = self
                            .run_one(kernel, close, interrupted, observer)
                            .unwrap_or_else(|error| KernelOutcome::Failed(error.with_causes()));
                        observer.ended(kernel, &outcome);
                        if let Ok(mut outcomes) = outcomes.lock() {
                            outcomes[index] = Some(outcome);
                        }
                    }
                });
            }
        });
        let panicked = || KernelOutcome::Failed("the thread that measured it panicked".to_owned());
        let outcomes = outcomes.into_inner().unwrap_or_default();
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(panicked)).collect()
    }

    fn take(&self, next: &AtomicUsize) -> Option<(usize, &Kernel)> {
        let index = next.fetch_add(1, Ordering::Relaxed);
        self.kernels.get(index).map(|kernel| (index, kernel))
    }

    fn run_one(
        &self,
        kernel: &Kernel,
        close: Close,
        interrupted: &(dyn Fn() -> bool + Sync),
        observer: &dyn KernelObserver,
    ) -> Result<KernelOutcome, Error> {
        if interrupted() {
            return Ok(KernelOutcome::Interrupted(None));
        }
        let path = self.record_of(kernel);
        let is_replaced = self.resume && path.exists();
        let earlier = if is_replaced { read_earlier(&path)? } else { None };
        if let Some(record) = &earlier {
            check_kernel(&path, record, kernel)?;
            if let Some(outcome) = final_outcome(&path, record) {
                check_names(&path, record, &self.job.names)?;
                return Ok(outcome);
            }
        }
        observer.started(kernel);
        let scratch = Scratch::create(self.temporary)?;
        let mut writer = if is_replaced { Writer::replace(&path, earlier.as_ref())? } else { Writer::create(&path)? };
        drop(earlier);
        let spec = RunSpec {
            kernel,
            platform: self.platform.for_kernel(kernel),
            job: self.job,
            program: self.program,
            folder: scratch.path(),
            login: self.login,
            memory_mib: self.memory_mib,
            append: self.append,
            emulator_arguments: &[],
            timeouts: self.timeouts,
            started: &jiff::Timestamp::now().to_string(),
            command: self.command,
        };
        match measure(&spec, &mut writer, interrupted, observer) {
            Ok(measured) => conclude(&spec, measured, &path, writer, close),
            Err(error) => {
                let is_interrupted = writer.line_count() == 0 && interrupted();
                drop(writer);
                remove_empty(&path);
                if is_interrupted { Ok(KernelOutcome::Interrupted(None)) } else { Err(error) }
            }
        }
    }
}

/// Reads the record of an earlier run. `None` if the file has no complete line: that run was killed before it measured
/// anything. A file that is not a record, or that this version cannot read, is an error, so that it is not overwritten.
fn read_earlier(path: &Path) -> Result<Option<Record>, Error> {
    let bytes = read_file(path)?;
    let is_header_torn = !bytes.contains(&b'\n') && (bytes.is_empty() || bytes.starts_with(b"{"));
    if is_header_torn { Ok(None) } else { Ok(Some(Record::parse(&path.display().to_string(), &bytes)?)) }
}

/// Checks that a record is not from another build of the kernel: two builds may report the same release.
fn check_kernel(path: &Path, record: &Record, kernel: &Kernel) -> Result<(), Error> {
    let recorded = record.lab.as_ref().and_then(|lab| lab.kernel.as_ref()).map_or("", |one| one.sha256.as_str());
    if recorded.is_empty() || kernel.sha256.is_empty() || recorded == kernel.sha256 {
        return Ok(());
    }
    let short = |sum: &str| sum.get(..8).unwrap_or(sum).to_owned();
    Err(Error::Guest(format!(
        "{} is the record of another build of {}: SHA-256 {}…, not {}… of {}; write to another directory with \
         --output, or remove that record",
        path.display(),
        kernel.name,
        short(recorded),
        short(&kernel.sha256),
        kernel.image.display()
    )))
}

/// Checks that a record to keep has the requested benchmarks.
fn check_names(path: &Path, record: &Record, names: &[String]) -> Result<(), Error> {
    let has = |name: &&String| {
        let of_skip = |label: &str| label.split_whitespace().next() == Some(name.as_str());
        record.cases.iter().any(|case| case.benchmark == **name) || record.skips.iter().any(|one| of_skip(&one.label))
    };
    match names.iter().find(|name| !has(name)) {
        None => Ok(()),
        Some(name) => Err(Error::Guest(format!(
            "{} exists already, without {name}; write to another directory with --output, or remove that record",
            path.display()
        ))),
    }
}

/// Returns the outcome of a kernel whose record is final; `None` if it must be measured again. A kernel that panicked
/// would panic again, but a guest that hung or exited may have been stopped by this host.
fn final_outcome(path: &Path, record: &Record) -> Option<KernelOutcome> {
    match (record.end.as_ref()?.outcome, record.crashes.last()) {
        (EndOutcome::Complete, _) => Some(KernelOutcome::Kept(path.to_owned())),
        (EndOutcome::Crashed, Some(crash)) if crash.crash == CrashKind::Panic => {
            Some(KernelOutcome::Crashed(path.to_owned(), Box::new(crash.clone())))
        }
        _ => None,
    }
}

/// Closes a record, or removes it if it is empty.
fn conclude(
    spec: &RunSpec,
    measured: Measured,
    path: &Path,
    mut writer: Writer,
    close: Close,
) -> Result<KernelOutcome, Error> {
    let Some(end) = measured.end else {
        drop(writer);
        remove_empty(path);
        if measured.how == Ending::Interrupted {
            return Ok(KernelOutcome::Interrupted(None));
        }
        return Ok(KernelOutcome::Failed(why_nothing(spec, &measured)));
    };
    let outcome = end.outcome;
    close(&mut writer, end).map_err(Error::Guest)?;
    let path = path.to_owned();
    Ok(match (measured.crash, outcome) {
        (Some(crash), _) => KernelOutcome::Crashed(path, Box::new(crash)),
        (None, EndOutcome::Interrupted) => KernelOutcome::Interrupted(Some(path)),
        (None, EndOutcome::Complete) => KernelOutcome::Measured(path),
        (None, _) => KernelOutcome::Incomplete(path, measured.failed),
    })
}

/// Returns why a guest measured nothing, what to do, and the console's last lines.
fn why_nothing(spec: &RunSpec, measured: &Measured) -> String {
    const LINES: usize = 12;
    // A guest that gives a reason needs neither advice about the emulator nor the console.
    if let Some(reason) = measured.failed.as_ref().filter(|_| spec.platform.boots()) {
        return format!("its guest could not measure: {reason}");
    }
    let reason = match &measured.failed {
        Some(reason) => reason.clone(),
        None => crash_of(&measured.how, &spec.timeouts).1,
    };
    let advice = spec.platform.advice(&measured.how);
    let from = measured.console.len().saturating_sub(LINES);
    let mut lines = vec![format!("{reason}; {advice}")];
    lines.extend(measured.console[from..].iter().map(|line| format!("  | {line}")));
    if measured.console.is_empty() {
        lines.push("  | (the console is empty)".to_owned());
    }
    lines.join("\n")
}

/// Removes an empty record: it would prevent the next run from creating it.
fn remove_empty(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|about| about.len() == 0) {
        // If this fails, the next run reports it.
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

    use super::*;
    use crate::kernel::Kind;
    use landau_record::schema::{Crash, Lab, Skip};

    fn record(outcome: EndOutcome, crash: Option<CrashKind>) -> Record {
        let crash = crash.map(|crash| Crash {
            pass: None,
            crash,
            last_n: None,
            console: Vec::new(),
            boots: 1,
            same_place: None,
            every_last_n: Vec::new(),
            meaning: String::new(),
        });
        let end = Some(End { outcome, line_count: 0, elapsed_ms: 0 });
        Record { end, crashes: crash.into_iter().collect(), ..Record::default() }
    }

    /// A time limit may stop a guest on a busy host. `--resume` once took its record as final and as a success.
    #[test]
    fn only_complete_records_and_panics_are_final() {
        let outcome = |outcome, crash| final_outcome(Path::new("r"), &record(outcome, crash));
        assert!(matches!(outcome(EndOutcome::Complete, None), Some(KernelOutcome::Kept(_))));
        assert!(matches!(outcome(EndOutcome::Crashed, Some(CrashKind::Panic)), Some(KernelOutcome::Crashed(..))));
        for crash in [CrashKind::Hang, CrashKind::Exit, CrashKind::Other] {
            assert!(outcome(EndOutcome::Crashed, Some(crash)).is_none(), "{crash:?}");
        }
        for other in [EndOutcome::Crashed, EndOutcome::Cut, EndOutcome::Interrupted, EndOutcome::Failed] {
            assert!(outcome(other, None).is_none(), "{other:?}");
        }
        assert!(final_outcome(Path::new("r"), &Record::default()).is_none());
    }

    /// The kernel was rebuilt, and `--resume` once kept the record of the old build as that of the new one.
    #[test]
    fn the_record_of_another_build_or_without_a_benchmark_is_not_kept() {
        let build = |sum: char| Kernel {
            sha256: sum.to_string().repeat(64),
            ..Kernel::without_file("6.12.9".to_owned(), Kind::BzImage, "bzImage".to_owned())
        };
        let remote = Kernel::remote("me@box");
        let of = |kernel: &Kernel| {
            let lab = Lab { kernel: Some(kernel.to_record()), ..Lab::default() };
            Record { lab: Some(lab), ..record(EndOutcome::Complete, None) }
        };
        let check = |record: &Record, kernel: &Kernel| check_kernel(Path::new("r"), record, kernel);
        assert!(check(&of(&build('a')), &build('a')).is_ok());
        assert!(check(&of(&remote), &build('a')).is_ok() && check(&of(&build('a')), &remote).is_ok());
        assert!(check(&record(EndOutcome::Complete, None), &build('a')).is_ok());
        let said = check(&of(&build('a')), &build('b')).unwrap_err().to_string();
        assert!(said.contains("another build of 6.12.9: SHA-256 aaaaaaaa…, not bbbbbbbb…"), "{said}");

        let skip = Skip { label: "futex threads=2".to_owned(), reason: String::new() };
        let skipped = Record { skips: vec![skip], ..record(EndOutcome::Complete, None) };
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            check_names(Path::new("r"), &skipped, &names)
        };
        assert!(names(&[]).is_ok() && names(&["futex"]).is_ok());
        let said = names(&["futex", "bind"]).unwrap_err().to_string();
        assert!(said.contains("r exists already, without bind"), "{said}");
    }
}
