//! Child processes, which run in the root of the workspace by default.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

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
        // cargo set these for the package xtask; they would be wrong for the packages that it builds next.
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
        self.0.stdin(Stdio::null()).status().with_context(|| format!("start `{words}`"))
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
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((output.status, text(output.stdout), text(output.stderr)))
    }

    /// Runs it, shows each line of its standard output as it comes, and returns its exit status and the lines.
    pub(crate) fn watch(mut self) -> Result<(ExitStatus, Vec<String>)> {
        let words = self.words();
        let mut child =
            self.0.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("start `{words}`"))?;
        let mut lines = Vec::new();
        if let Some(out) = child.stdout.take() {
            for line in BufReader::new(out).split(b'\n') {
                let line = String::from_utf8_lossy(&line.with_context(|| format!("read from `{words}`"))?).into_owned();
                println!("{line}");
                lines.push(line);
            }
        }
        Ok((child.wait().with_context(|| format!("wait for `{words}`"))?, lines))
    }
}

/// Returns the path of a program on the search path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
