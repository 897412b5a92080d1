//! Many kernels: some at a time, each with its own machine and record, and one that fails leaves the others alone.

use crate::error::{Error, io};
use crate::image::Kind;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::machine::{Bounds, Ending};
use crate::platform::{Platform, Terminal};
use crate::session::{Measured, Order, measure};
use crate::watch::Watch;
use landau_engine::Scratch;
use landau_record::schema::{Crash, End};
use landau_record::{Record, Writer};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is measured, under which kernels, and where the records go.
#[derive(Debug)]
pub struct Matrix<'a> {
    /// The kernels.
    pub kernels: &'a [Kernel],
    /// How each is run.
    pub platform: Platform,
    /// What each guest does.
    pub job: &'a Job,
    /// The program that becomes each guest's init.
    pub program: &'a Path,
    /// The folder for the records.
    pub out: &'a Path,
    /// The folder for what is needed only while a machine runs.
    pub temporary: &'a Path,
    /// Who logs in where a whole system is booted.
    pub terminal: &'a Terminal,
    /// Memory of each machine in MiB.
    pub memory_mib: u32,
    /// Further words for each kernel.
    pub append: &'a str,
    /// What bounds each.
    pub bounds: Bounds,
    /// How many machines run at a time.
    pub parallel: usize,
    /// Whether whole records that are there already stay, and torn ones are made anew.
    pub resume: bool,
    /// The command line.
    pub words: &'a [String],
}

/// What became of a kernel.
#[derive(Debug)]
pub enum Fate {
    /// Everything was measured.
    Measured(PathBuf),
    /// The record was there already, whole.
    Kept(PathBuf),
    /// A part was measured and some passes failed.
    Flawed(PathBuf),
    /// The kernel stopped; the record holds what was measured until then.
    Crashed(PathBuf, Box<Crash>),
    /// Nothing was measured, and why: with the console's last lines where there were any.
    Failed(String),
    /// The user ended it; what was measured until then, if anything was.
    Interrupted(Option<PathBuf>),
}

impl Fate {
    /// The record, where there is one.
    pub fn record(&self) -> Option<&Path> {
        match self {
            Fate::Measured(path) | Fate::Kept(path) | Fate::Flawed(path) | Fate::Crashed(path, _) => Some(path),
            Fate::Interrupted(path) => path.as_deref(),
            Fate::Failed(_) => None,
        }
    }

    /// What became of it, in a sentence.
    pub fn in_words(&self) -> String {
        match self {
            Fate::Measured(path) => format!("record {}", path.display()),
            Fate::Kept(path) => format!("record {} was there already", path.display()),
            Fate::Flawed(path) => format!("some passes failed; record {}", path.display()),
            Fate::Crashed(path, crash) => format!("{}; record {}", crash_in_words(crash), path.display()),
            Fate::Interrupted(Some(path)) => format!("interrupted; record {}", path.display()),
            Fate::Interrupted(None) => "interrupted before anything was measured".to_owned(),
            Fate::Failed(reason) => reason.clone(),
        }
    }
}

/// A crash in a sentence.
fn crash_in_words(crash: &Crash) -> String {
    let place = crash.last_n.map_or(String::new(), |n| format!(" after n = {n}"));
    let again = match crash.same_place {
        Some(true) => ", at the same place in each boot",
        Some(false) => ", elsewhere in the next boot",
        None => "",
    };
    format!("{}{place}{again}", crash.meaning)
}

/// Judges what was measured and writes a record's last lines.
pub type Close<'a> = &'a (dyn Fn(&mut Writer, End) -> Result<(), String> + Sync);

impl Matrix<'_> {
    /// Where the record of a kernel goes.
    pub fn record_of(&self, kernel: &Kernel) -> PathBuf {
        let safe = |letter: char| if letter.is_alphanumeric() || "._+-".contains(letter) { letter } else { '-' };
        let same = self.kernels.iter().filter(|other| other.name == kernel.name).count() > 1;
        // Two builds may call themselves the same.
        let name = if same {
            format!("{}-{}", kernel.name, kernel.sha256.get(..8).unwrap_or_default())
        } else {
            kernel.name.clone()
        };
        let name: String = name.chars().map(safe).collect();
        self.out.join(format!("{name}.{}.landau.ndjson", self.platform_of(kernel).name()))
    }

    /// Whether each kernel has a record of its own: one that was named twice has not.
    pub fn check_records(&self) -> Result<(), Error> {
        let mut paths = std::collections::BTreeSet::new();
        match self.kernels.iter().find(|kernel| !paths.insert(self.record_of(kernel))) {
            Some(twice) => Err(Error::Guest(format!("{} is named twice by --kernel; once will do", twice.name))),
            None => Ok(()),
        }
    }

    /// What runs a kernel: one that is elsewhere has only one way.
    fn platform_of(&self, kernel: &Kernel) -> Platform {
        if kernel.kind == Kind::Remote { Platform::Ssh } else { self.platform }
    }

    /// Measures under every kernel; what became of each, in their order.
    pub fn run(&self, close: Close, interrupted: &(dyn Fn() -> bool + Sync), watch: &dyn Watch) -> Vec<Fate> {
        let next = AtomicUsize::new(0);
        let fates: Mutex<Vec<Option<Fate>>> = Mutex::new(self.kernels.iter().map(|_| None).collect());
        std::thread::scope(|scope| {
            for _ in 0..self.parallel.clamp(1, self.kernels.len().max(1)) {
                scope.spawn(|| {
                    while let Some((place, kernel)) = self.take(&next) {
                        let fate = self
                            .one(kernel, close, interrupted, watch)
                            .unwrap_or_else(|error| Fate::Failed(with_causes(&error)));
                        watch.ended(kernel, &fate);
                        if let Ok(mut fates) = fates.lock() {
                            fates[place] = Some(fate);
                        }
                    }
                });
            }
        });
        let fates = fates.into_inner().unwrap_or_default();
        fates.into_iter().map(|fate| fate.unwrap_or(Fate::Failed("its thread ended early".to_owned()))).collect()
    }

    fn take(&self, next: &AtomicUsize) -> Option<(usize, &Kernel)> {
        let place = next.fetch_add(1, Ordering::Relaxed);
        self.kernels.get(place).map(|kernel| (place, kernel))
    }

    fn one(
        &self,
        kernel: &Kernel,
        close: Close,
        interrupted: &(dyn Fn() -> bool + Sync),
        watch: &dyn Watch,
    ) -> Result<Fate, Error> {
        if interrupted() {
            return Ok(Fate::Interrupted(None));
        }
        let path = self.record_of(kernel);
        if self.resume && path.exists() {
            let whole = Record::read(&path).is_ok_and(|record| record.end.is_some_and(|end| is_final(&end)));
            if whole {
                return Ok(Fate::Kept(path));
            }
            std::fs::remove_file(&path).map_err(|source| io("replace", &path, source))?;
        }
        watch.started(kernel);
        let scratch = Scratch::create(self.temporary)?;
        let mut writer = Writer::create(&path)?;
        let order = Order {
            kernel,
            platform: self.platform_of(kernel),
            job: self.job,
            program: self.program,
            folder: scratch.path(),
            terminal: self.terminal,
            memory_mib: self.memory_mib,
            append: self.append,
            extra: &[],
            bounds: self.bounds,
            started: &jiff::Timestamp::now().to_string(),
            words: self.words,
        };
        let measured = measure(&order, &mut writer, interrupted, watch);
        match measured {
            Ok(measured) => conclude(&order, measured, &path, writer, close),
            Err(error) => {
                drop(writer);
                remove_empty(&path);
                Err(error)
            }
        }
    }
}

/// Whether nothing would be gained by measuring again: a kernel that crashed crashes again.
fn is_final(end: &End) -> bool {
    end.outcome == "complete" || end.outcome == "crashed"
}

/// Closes a record, or removes it where it holds nothing.
fn conclude(order: &Order, measured: Measured, path: &Path, mut writer: Writer, close: Close) -> Result<Fate, Error> {
    let Some(end) = measured.end else {
        drop(writer);
        remove_empty(path);
        if measured.how == Ending::Interrupted {
            return Ok(Fate::Interrupted(None));
        }
        return Ok(Fate::Failed(why_nothing(order, &measured)));
    };
    let outcome = end.outcome.clone();
    close(&mut writer, end).map_err(Error::Guest)?;
    let path = path.to_owned();
    Ok(match (measured.crash, outcome.as_str()) {
        (Some(crash), _) => Fate::Crashed(path, Box::new(crash)),
        (None, "interrupted") => Fate::Interrupted(Some(path)),
        (None, "complete") => Fate::Measured(path),
        (None, _) => Fate::Flawed(path),
    })
}

/// Why a guest measured nothing, with the console's last words and what to do.
fn why_nothing(order: &Order, measured: &Measured) -> String {
    const LINES: usize = 12;
    // A guest that says why needs neither the emulator's advice nor its kernel's words.
    if let Some(reason) = measured.failed.as_ref().filter(|_| order.platform.boots()) {
        return format!("its guest could not measure: {reason}");
    }
    let told = match &measured.failed {
        Some(reason) => reason.clone(),
        None => crate::session::told(&measured.how, order).1,
    };
    let advice = order.platform.advice(&measured.how);
    let from = measured.console.len().saturating_sub(LINES);
    let mut lines = vec![format!("{told}; {advice}")];
    lines.extend(measured.console[from..].iter().map(|line| format!("  | {line}")));
    if measured.console.is_empty() {
        lines.push("  | (the console stayed empty)".to_owned());
    }
    lines.join("\n")
}

/// Removes a record in which nothing stands: it would be in the way of the next try.
fn remove_empty(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|facts| facts.len() == 0) {
        // What stays behind is told by the next try.
        let _ = std::fs::remove_file(path);
    }
}

/// An error with its causes, as `cli` prints one.
fn with_causes(error: &Error) -> String {
    let mut words = vec![error.to_string()];
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        words.push(inner.to_string());
        cause = inner.source();
    }
    words.join(": ")
}
