//! A worker as its controller sees it: this program, started again, with a pipe in each direction.

use crate::order::{ARGUMENT, CLEAN_UP, Order, Report, SET_UP, WINDOW};
use crate::{Error, Plan};
use landau_record::schema::ProgramFile;
use landau_sys::descriptor::wait_readable;
use landau_sys::process::{OwnedChild, this_program};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// A message of a worker.
pub(crate) enum Message {
    /// A window was closed; in lockstep, the worker waits for [`WorkerProcess::answer_window`].
    Window,
    /// The set-up makes progress.
    SetUp,
    /// All samples are taken; the worker removes its objects.
    CleanUp,
    /// The pass ended.
    Report(Report),
    /// The worker ended without a report; its exit status.
    Gone(String),
}

/// How the workers of a plan are started: the program, and its environment.
#[derive(Debug)]
pub(crate) struct Launch {
    program: PathBuf,
    environment: BTreeMap<String, String>,
    /// A program other than this one is kept open, so that the same program makes all passes even if its file is
    /// replaced, as a compiler does.
    held: Option<File>,
}

impl Launch {
    /// Returns how the workers of a plan are started.
    ///
    /// # Errors
    ///
    /// Fails if the program of the plan cannot be opened, or its file differs from the file in the plan.
    pub(crate) fn of(plan: &Plan) -> Result<Self, Error> {
        let environment = plan.environment.clone();
        let Some(path) = plan.program_path() else {
            return Ok(Self { program: this_program()?, environment, held: None });
        };
        let refused =
            |error: std::io::Error| Error::Program { path: path.display().to_string(), reason: error.to_string() };
        let file = File::open(path).map_err(refused)?;
        let held = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        let program = if held.exists() { held } else { path.to_owned() };
        let launch = Self { program, environment, held: Some(file) };
        let then = plan.side.as_ref().and_then(|side| side.program.as_ref()?.file.clone());
        match (then, launch.file()) {
            (Some(then), Some(now)) if then != now => Err(Error::Program {
                path: path.display().to_string(),
                reason: format!(
                    "the file was replaced: it had {} bytes, written at {}; now it has {} bytes, written at {}",
                    then.size_bytes, then.modified, now.size_bytes, now.modified
                ),
            }),
            _ => Ok(launch),
        }
    }

    /// Returns the properties that distinguish the file of another program from that of another build.
    pub(crate) fn file(&self) -> Option<ProgramFile> {
        let meta = self.held.as_ref()?.metadata().ok()?;
        let modified = jiff::Timestamp::try_from(meta.modified().ok()?).ok()?;
        Some(ProgramFile { size_bytes: meta.len(), modified: modified.to_string() })
    }

    /// Returns the program as a command with one argument.
    pub(crate) fn command(&self, argument: &str) -> Command {
        let mut command = Command::new(&self.program);
        // The user's environment would be part of every measured exec.
        command.arg0("landau").arg(argument).env_clear().envs(&self.environment);
        command
    }
}

/// A worker process. Dropping it kills it with everything that it started.
pub(crate) struct WorkerProcess {
    child: OwnedChild,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl WorkerProcess {
    /// Starts a worker, which waits for its order.
    pub(crate) fn start(launch: &Launch) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::Worker(error.to_string());
        let mut command = launch.command(ARGUMENT);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // The worker leads a process group: Ctrl-C at the terminal reaches the controller only, and one signal ends
        // the worker with everything that it started.
        let mut child = OwnedChild::spawn_group(&mut command).map_err(failed)?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Worker("it has no pipes".to_owned()));
        };
        Ok(Self { child, orders, answers: BufReader::new(answers) })
    }

    /// Returns the process of the worker.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the worker its order.
    pub(crate) fn send(&mut self, order: &Order) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::Worker(error.to_string());
        let mut line = serde_json::to_string(order).map_err(|error| failed(error.into()))?;
        line.push('\n');
        self.orders.write_all(line.as_bytes()).map_err(failed)
    }

    /// Waits until the worker has written something or has ended, and returns whether it did so within the timeout.
    pub(crate) fn wait(&self, timeout_ms: i32) -> Result<bool, Error> {
        // Two messages may have arrived together.
        Ok(!self.answers.buffer().is_empty() || wait_readable(self.answers.get_ref(), timeout_ms)?)
    }

    /// Reads the worker's next message. Blocks until there is one.
    pub(crate) fn read(&mut self) -> Message {
        let mut line = String::new();
        // A line that cannot be read is no message; the exit status then says why.
        let _ = self.answers.read_line(&mut line);
        match line.as_str() {
            WINDOW => return Message::Window,
            CLEAN_UP => return Message::CleanUp,
            SET_UP => return Message::SetUp,
            _ => {}
        }
        let report = serde_json::from_str(&line).ok();
        let status = self.child.wait_and_end_group().map_or("unknown".to_owned(), |status| status.to_string());
        report.map_or(Message::Gone(status), Message::Report)
    }

    /// Lets a worker in lockstep continue. If the worker has ended, the next message shows it.
    pub(crate) fn answer_window(&mut self) {
        let _ = self.orders.write_all(WINDOW.as_bytes());
    }
}
