//! Child processes, which run in the root of the workspace by default.

use crate::workspace;
use anyhow::{Context, Result, bail};
use landau_sys::child::is_alive;
use landau_sys::process::OwnedChild;
use landau_sys::signal::{catch_interrupts, interrupted};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time limits of a watched program.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// The total time; longer than all tests take.
    total: Duration,
    /// The time for the last lines, after the program has ended while another process keeps its standard output open.
    last_lines: Duration,
}

const PATIENCE: Patience = Patience { total: Duration::from_secs(90 * 60), last_lines: Duration::from_secs(10) };

/// The polling interval for a watched program that prints nothing.
const PERIOD: Duration = Duration::from_millis(100);

/// A program with its arguments.
pub(crate) struct Program(Command);

impl Program {
    /// Returns a program, given its name or path.
    pub(crate) fn new(name: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(name);
        command.current_dir(workspace::root());
        Self(command)
    }

    /// Returns the cargo that started this program.
    pub(crate) fn cargo() -> Self {
        Self::cargo_at(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    /// Returns a cargo, given its path.
    pub(crate) fn cargo_at(path: impl AsRef<OsStr>) -> Self {
        let mut cargo = Self::new(path);
        // cargo has set these for the package xtask; they would be wrong for the packages that are built next.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
                cargo.0.env_remove(name);
            }
        }
        cargo
    }

    /// Adds arguments.
    pub(crate) fn args(mut self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.0.args(words);
        self
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.0.arg(word);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Sets the working directory.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    /// Returns the underlying command.
    pub(crate) fn command(self) -> Command {
        self.0
    }

    /// Returns the command line.
    fn words(&self) -> String {
        let words = std::iter::once(self.0.get_program()).chain(self.0.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    /// Runs it with inherited output and returns its exit status.
    pub(crate) fn status(mut self) -> Result<ExitStatus> {
        let words = self.words();
        let status = self.0.stdin(Stdio::null()).status().with_context(|| format!("start `{words}`"))?;
        not_interrupted(&words)?;
        Ok(status)
    }

    /// Runs it with inherited output; an exit status other than 0 is an error.
    pub(crate) fn run(self) -> Result<()> {
        let words = self.words();
        let status = self.status()?;
        if status.success() { Ok(()) } else { bail!("`{words}` failed: {status}") }
    }

    /// Runs it and returns its standard output; an exit status other than 0 is an error that quotes standard error.
    pub(crate) fn text(self) -> Result<String> {
        let words = self.words();
        let (status, out, err) = self.output()?;
        if status.success() { Ok(out) } else { bail!("`{words}` failed: {status}\n{err}") }
    }

    /// Runs it and returns its exit status, standard output and standard error.
    pub(crate) fn output(mut self) -> Result<(ExitStatus, String, String)> {
        let words = self.words();
        let output = self.0.stdin(Stdio::null()).output().with_context(|| format!("start `{words}`"))?;
        not_interrupted(&words)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((output.status, text(output.stdout), text(output.stderr)))
    }

    /// Runs it and returns its exit status and all lines of its standard output. Lines for which `shows` returns true
    /// are printed as they arrive. After 90 minutes the program is killed with its process group, and a message is
    /// printed.
    pub(crate) fn watch(self, shows: impl FnMut(&str) -> bool) -> Result<(ExitStatus, Vec<String>)> {
        // The child's separate process group does not receive Ctrl-C from the terminal.
        catch_interrupts();
        self.watch_for(PATIENCE, shows)
    }

    fn watch_for(
        mut self,
        patience: Patience,
        mut shows: impl FnMut(&str) -> bool,
    ) -> Result<(ExitStatus, Vec<String>)> {
        let words = self.words();
        let mut child = OwnedChild::spawn_group(self.0.stdin(Stdio::null()).stdout(Stdio::piped()))
            .with_context(|| format!("start `{words}`"))?;
        let arriving = lines_of(&mut child).with_context(|| format!("read from `{words}`"))?;
        let (began, mut last, mut lines) = (Instant::now(), Instant::now(), Vec::new());
        loop {
            // Any early return from this function kills the group.
            not_interrupted(&words)?;
            if began.elapsed() >= patience.total {
                let minutes = patience.total.as_secs() / 60;
                println!("`{words}` has not ended after {minutes} minutes: killing its process group {}", child.id());
                child.kill().with_context(|| format!("kill `{words}`"))?;
                break;
            }
            match arriving.recv_timeout(PERIOD) {
                Ok(line) => {
                    if shows(&line) {
                        println!("{line}");
                    }
                    lines.push(line);
                    last = Instant::now();
                }
                Err(RecvTimeoutError::Timeout) if is_alive(child.id().cast_signed())? => last = Instant::now(),
                Err(RecvTimeoutError::Timeout) if last.elapsed() < patience.last_lines => {}
                Err(RecvTimeoutError::Timeout) => {
                    println!("`{words}` has left processes: killing its process group {}", child.id());
                    break;
                }
                Err(RecvTimeoutError::Disconnected) if is_alive(child.id().cast_signed())? => {
                    std::thread::sleep(PERIOD);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok((child.wait_and_end_group().with_context(|| format!("wait for `{words}`"))?, lines))
    }
}

/// Returns the lines of a child's standard output, which a thread reads until it ends.
fn lines_of(child: &mut Child) -> Result<Receiver<String>> {
    let output = child.stdout.take().context("it has no standard output")?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let text = |line: Vec<u8>| String::from_utf8_lossy(&line).into_owned();
        BufReader::new(output).split(b'\n').map_while(Result::ok).try_for_each(|line| sender.send(text(line)))
    });
    Ok(lines)
}

/// Returns an error if this process was interrupted by a signal.
fn not_interrupted(words: &str) -> Result<()> {
    interrupted().map_or(Ok(()), |signal| bail!("`{words}` was interrupted by {signal}"))
}

/// Returns the path of a program on the search path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    find_in(name, std::env::split_paths(&std::env::var_os("PATH")?))
}

/// Returns the path of a program that root uses, which may be missing from the search path of other users.
pub(crate) fn find_for_root(name: &str) -> Option<PathBuf> {
    find(name).or_else(|| find_in(name, ["/usr/sbin", "/sbin"].map(PathBuf::from)))
}

fn find_in(name: &str, folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.into_iter().map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Program {
        Program::new("sh").args(["-c", script])
    }

    /// Returns whether a process runs. A killed process may still be a zombie, which does not count.
    fn runs(pid: &str) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !(state.is_empty() || state.contains(") Z "))
    }

    fn assert_ends(pid: &str) {
        let began = Instant::now();
        while runs(pid) {
            assert!(began.elapsed() < LONG, "process {pid} still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn all_lines_are_returned_and_some_are_shown() {
        let mut asked = Vec::new();
        let patience = Patience { total: LONG, last_lines: LONG };
        let watched = shell("echo a; printf b; exit 3").watch_for(patience, |line| {
            asked.push(line.to_owned());
            false
        });
        let (status, lines) = watched.unwrap();
        assert_eq!((status.code(), &lines, &asked), (Some(3), &vec!["a".to_owned(), "b".to_owned()], &lines));
    }

    /// Guards against a hanging test that makes the CI job hang.
    #[test]
    fn a_program_that_does_not_end_is_killed_with_its_group() {
        let patience = Patience { total: Duration::from_secs(1), last_lines: LONG };
        let (status, lines) = shell("sleep 1000 & echo $!; sleep 1000").watch_for(patience, |_| false).unwrap();
        assert_eq!((status.code(), lines.len()), (None, 1));
        assert_ends(&lines[0]);
    }

    /// Guards against a server left behind by a test, which keeps the output open as long as it runs.
    #[test]
    fn a_process_that_is_left_does_not_hold_up_the_end() {
        let patience = Patience { total: LONG, last_lines: Duration::from_millis(300) };
        let (status, lines) = shell("sleep 1000 & echo $!").watch_for(patience, |_| false).unwrap();
        assert_eq!((status.code(), lines.len()), (Some(0), 1));
        assert_ends(&lines[0]);
    }

    #[test]
    fn a_program_is_found_in_folders_of_root() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mkfs.test"), "").unwrap();
        let folders = || [PathBuf::from("/nowhere"), folder.path().to_owned()];
        assert_eq!(find_in("mkfs.test", folders()), Some(folder.path().join("mkfs.test")));
        assert_eq!(find_in("mkfs.other", folders()), None);
    }
}
