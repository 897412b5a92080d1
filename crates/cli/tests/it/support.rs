//! Helpers to run the program in a temporary directory.

use landau_record::Record;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A child that is killed when its test fails.
pub(crate) use landau_sys::process::OwnedChild as Process;

/// The program under test.
pub(crate) const LANDAU: &str = env!("CARGO_BIN_EXE_landau");

/// A temporary directory for one test: records and the benchmarks' files.
pub(crate) struct Room {
    directory: tempfile::TempDir,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Returns the program with arguments, to be started in this directory.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = landau();
        self.enter(command.args(words));
        command
    }

    /// Returns another program, such as a shell that starts ours, to be started in this directory.
    pub(crate) fn other(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        self.enter(command.args(words));
        command
    }

    /// Returns a copy of the program with arguments, to be started in this directory by an unprivileged user. Returns
    /// `None`, and prints the reason, if this process cannot become another user. Other users must be able to enter the
    /// directory.
    pub(crate) fn as_nobody(&self, words: &[&str]) -> Option<Command> {
        if !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
            eprintln!("skipped: setpriv and root are needed to become somebody else");
            return None;
        }
        if !self.file("landau").exists() {
            install(LANDAU, &self.file("landau"));
        }
        let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "./landau"];
        Some(self.other("setpriv", &[&user, words].concat()))
    }

    /// Sets the permissions of this directory, so that other users can enter it.
    pub(crate) fn open(&self, mode: u32) {
        std::fs::set_permissions(self.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }

    /// Makes a program write to this directory: its files and, of the user's state, the register of directories.
    fn enter(&self, command: &mut Command) {
        command.current_dir(self.path()).env("TMPDIR", self.path()).env("XDG_STATE_HOME", self.file("state"));
    }

    /// Runs the program to its end.
    pub(crate) fn landau(&self, words: &[&str]) -> Ran {
        Ran::of(self.command(words).output().unwrap())
    }

    /// Runs benchmarks in the smoke study; the record is `run.ndjson`, without a report.
    pub(crate) fn smoke(&self, words: &[&str]) -> (Ran, Record) {
        let fixed = ["run", "--study", "smoke", "--output", "run.ndjson", "--no-report", "--seed", "1"];
        let ran = self.landau(&[&fixed, words].concat());
        assert!(self.file("run.ndjson").exists(), "{ran:?}");
        (ran, self.record("run.ndjson"))
    }

    pub(crate) fn record(&self, name: &str) -> Record {
        Record::read(&self.file(name)).unwrap()
    }

    /// Returns the scratch directories that benchmarks failed to remove.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("landau-scratch")).collect()
    }
}

/// Returns the program with SIGINT, SIGHUP, SIGTERM and SIGQUIT at their defaults.
///
/// A process started by `nohup` or in the background of a script ignores SIGINT or SIGHUP. Its children inherit that,
/// and the program correctly keeps ignoring them. Tests that send these signals must also pass in that environment.
/// `env` resets the signals and then executes the program, so the process ID is that of the program.
fn landau() -> Command {
    const RESET: &str = "--default-signal=INT,HUP,TERM,QUIT";
    static CAN_RESET: OnceLock<bool> = OnceLock::new();
    let can_reset = || Command::new("/usr/bin/env").args([RESET, "true"]).status().is_ok_and(|status| status.success());
    if *CAN_RESET.get_or_init(can_reset) {
        let mut command = Command::new("/usr/bin/env");
        command.args([RESET, LANDAU]);
        command
    } else {
        Command::new(LANDAU)
    }
}

/// Copies a file to `to` and makes it executable.
///
/// A child process makes the copy. Another test may be starting a program at the same time; its child would inherit a
/// descriptor that this process has open for writing, and the kernel refuses to execute such a file ("Text file busy").
pub(crate) fn install(from: impl AsRef<Path>, to: &Path) {
    let status = Command::new("install").args(["-m", "755"]).arg(from.as_ref()).arg(to).status();
    assert!(status.unwrap().success(), "install {} {}", from.as_ref().display(), to.display());
}

/// Returns whether root runs the tests.
pub(crate) fn is_root() -> bool {
    landau_sys::process::effective_user() == 0
}

/// The result of a run of the program.
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

/// Returns the processes whose command line contains `word`.
pub(crate) fn processes_with(word: &str) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&words).contains(word).then_some(pid)
    })
    .collect()
}

/// Polls until `found` returns true; returns false after two minutes, which only a hang takes.
pub(crate) fn eventually(mut found: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        if found() {
            return true;
        }
        // Yields the processor to the process that this loop waits for.
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}
