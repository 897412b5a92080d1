//! A vocabulary for running the program in a folder of its own.

use landau_record::Record;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program under test.
pub(crate) const LANDAU: &str = env!("CARGO_BIN_EXE_landau");

/// A folder for one test: records and the benchmarks' files.
pub(crate) struct Room {
    folder: tempfile::TempDir,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The program with some words, in this folder.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(LANDAU);
        command.args(words).current_dir(self.path()).env("TMPDIR", self.path());
        command
    }

    pub(crate) fn landau(&self, words: &[&str]) -> Ran {
        Ran::of(self.command(words).output().unwrap())
    }

    /// A smoke run of some benchmarks into `run.ndjson`, without a page.
    pub(crate) fn smoke(&self, words: &[&str]) -> (Ran, Record) {
        let fixed = ["run", "--study", "smoke", "--output", "run.ndjson", "--no-report", "--seed", "1"];
        let ran = self.landau(&[&fixed, words].concat());
        assert!(self.file("run.ndjson").exists(), "{ran:?}");
        (ran, self.record("run.ndjson"))
    }

    pub(crate) fn record(&self, name: &str) -> Record {
        Record::read(&self.file(name)).unwrap()
    }

    /// What the benchmarks left behind; must be nothing.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("landau-scratch")).collect()
    }
}

/// What the program answered.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            status: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Processes whose command line holds `word`.
pub(crate) fn processes_with(word: &str) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&words).contains(word).then_some(pid)
    })
    .collect()
}

/// Looks again and again until `found` holds; false if it never does within ten seconds.
pub(crate) fn eventually(mut found: impl FnMut() -> bool) -> bool {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while std::time::Instant::now() < deadline {
        if found() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}
