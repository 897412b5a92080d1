//! Runs a guest, a machine or a process: starts it, receives its messages, and ends it in every case.

use crate::console::Script;
use crate::error::{Error, io};
use crate::frame::{Decoder, Item};
use crate::job::Message;
use crate::launch::{Ending, Launch, Timeouts};
use landau_sys::descriptor::{set_pipe_capacity, wait_any_readable, wait_readable};
use landau_sys::process::OwnedChild;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{ChildStderr, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// The number of lines of the console that are kept.
const CONSOLE_LINES: usize = 400;

/// The interval at which interruption and time limits are checked while the guest is silent.
const POLL_MS: i32 = 100;

/// The capacity of the pipe from the guest's console. If it is full, the guest's serial line waits for this process,
/// and a guest that counts instructions gets a different count.
const PIPE_BYTES: u32 = 1 << 20;

/// The number of bytes of standard error that are kept.
const ERROR_BYTES: usize = 16 << 10;

/// The maximum wait for the last output on standard error.
const LAST_OUTPUT: Duration = Duration::from_secs(5);

/// The end of a guest, and its output other than messages.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub how: Ending,
    /// The last lines of the console.
    pub console: Vec<String>,
    /// Messages that were corrupt or lost.
    pub corrupt: Vec<String>,
}

/// A started program. It is ended when this value is dropped, and when this process ends.
struct Started {
    child: OwnedChild,
    input: Option<ChildStdin>,
}

impl Started {
    fn new(mut command: Command, has_input: bool) -> Result<Self, Error> {
        let input = if has_input { Stdio::piped() } else { Stdio::null() };
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = command.get_program().to_owned();
        let mut child =
            OwnedChild::spawn_group(&mut command).map_err(|source| io("start", Path::new(&program), source))?;
        let input = child.stdin.take();
        Ok(Self { child, input })
    }

    /// Writes to its standard input. Errors are ignored: a program that no longer reads will end, which is noticed
    /// then.
    fn write(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(bytes).and_then(|()| input.flush());
        }
    }

    /// Closes its standard input and waits for it to exit on its own, at most `grace`.
    fn wait(&mut self, grace: Duration) {
        self.input = None;
        let start = Instant::now();
        while start.elapsed() < grace && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Starts a guest and passes its messages to `take` until it is done or a time limit expires.
pub fn supervise(
    launch: Launch,
    timeouts: &Timeouts,
    interrupted: &dyn Fn() -> bool,
    take: &mut dyn FnMut(Message) -> Result<(), Error>,
) -> Result<Ended, Error> {
    let Launch { command, input, mut script, grace } = launch;
    let program = command.get_program().to_owned();
    let mut started = Started::new(command, input.is_some() || script.is_some())?;
    let (Some(mut output), Some(errors)) = (started.child.stdout.take(), started.child.stderr.take()) else {
        return Err(Error::Guest("the guest's process has no pipes".to_owned()));
    };
    // On systems other than Linux, and beyond the system's limit, the pipe keeps its size.
    let _ = set_pipe_capacity(&output, PIPE_BYTES);
    let mut errors = StandardError { pipe: Some(errors), bytes: VecDeque::new() };
    started.write(&input.unwrap_or_default());
    let mut guest = Guest::new();
    let mut buffer = vec![0; 1 << 16];
    let how = loop {
        if let Some(how) = guest.expired(timeouts, interrupted) {
            break how;
        }
        if let Some(typed) = script.as_mut().filter(|_| !guest.is_up).and_then(Script::idle) {
            started.write(&typed);
        }
        let [has_output, has_errors] = wait_any_readable([Some(&output), errors.pipe()], POLL_MS)?;
        if has_errors {
            errors.read();
        }
        if !has_output {
            continue;
        }
        let got = output.read(&mut buffer).map_err(|source| io("read the console of", Path::new(&program), source))?;
        if got == 0 {
            let rest = std::mem::take(&mut guest.decoder).finish();
            guest.receive(rest, take)?;
            break guest.ending.take().unwrap_or_else(|| Ending::Exited(last_output(&mut started, &mut errors)));
        }
        if let Some(typed) = script.as_mut().filter(|_| !guest.is_up).and_then(|script| script.receive(&buffer[..got]))
        {
            started.write(&typed);
        }
        let items = guest.decoder.push(&buffer[..got]);
        guest.receive(items, take)?;
        if let Some(Ending::Done) = guest.ending {
            break Ending::Done;
        }
    };
    if matches!(how, Ending::NeverUp | Ending::Silent | Ending::Overtime) {
        errors.lines().into_iter().for_each(|line| guest.console_line(format!("(standard error: {line})")));
    }
    if let Some(script) = script.filter(|_| !guest.is_up) {
        guest.console_line(format!("(landau waited for {})", script.expects()));
    }
    started.wait(grace);
    drop(started);
    Ok(Ended { how, console: guest.console.into(), corrupt: guest.corrupt })
}

/// Starts a guest that measures nothing; the inner error says why it does not come up.
pub(crate) fn try_guest(launch: Launch) -> Result<Result<(), String>, Error> {
    const LIMIT: Duration = Duration::from_secs(10);
    let (mut failed, mut done) = (None, false);
    let mut take = |message: Message| {
        match message {
            Message::Failed(reason) => failed = Some(reason),
            Message::Done { .. } => done = true,
            _ => {}
        }
        Ok(())
    };
    let ended = supervise(launch, &Timeouts::all(LIMIT), &|| false, &mut take)?;
    let last = ended.console.last().cloned();
    Ok(if done { Ok(()) } else { Err(failed.or(last).unwrap_or_else(|| format!("{:?}", ended.how))) })
}

/// The known state of a running guest.
struct Guest {
    decoder: Decoder,
    console: VecDeque<String>,
    corrupt: Vec<String>,
    start: Instant,
    last_sign: Instant,
    is_up: bool,
    ending: Option<Ending>,
}

impl Guest {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            decoder: Decoder::default(),
            console: VecDeque::new(),
            corrupt: Vec::new(),
            start: now,
            last_sign: now,
            is_up: false,
            ending: None,
        }
    }

    /// Returns how it ends now, if a time limit expired or the user interrupted it.
    fn expired(&self, timeouts: &Timeouts, interrupted: &dyn Fn() -> bool) -> Option<Ending> {
        if interrupted() {
            return Some(Ending::Interrupted);
        }
        // A kernel that panicked reboots at once, if it still can.
        if self.ending.is_some() && self.last_sign.elapsed() > Duration::from_secs(2) {
            return self.ending.clone();
        }
        if !self.is_up && self.start.elapsed() > timeouts.start {
            return Some(Ending::NeverUp);
        }
        if self.is_up && self.last_sign.elapsed() > timeouts.silence {
            return Some(Ending::Silent);
        }
        (self.start.elapsed() > timeouts.total).then_some(Ending::Overtime)
    }

    fn receive(&mut self, items: Vec<Item>, take: &mut dyn FnMut(Message) -> Result<(), Error>) -> Result<(), Error> {
        for item in items {
            self.last_sign = Instant::now();
            match item {
                Item::Text(text) => self.console_line(text),
                Item::Corrupt(what) => self.corrupt.push(what),
                Item::Message(content) => {
                    let message: Message = serde_json::from_slice(&content)
                        .map_err(|error| Error::Guest(format!("cannot parse the guest's message: {error}")))?;
                    match &message {
                        Message::Up => self.is_up = true,
                        Message::Done { .. } => self.ending = Some(Ending::Done),
                        Message::Failed(_) | Message::Lines(_) | Message::Symbols(_) => {}
                    }
                    take(message)?;
                }
            }
        }
        Ok(())
    }

    fn console_line(&mut self, text: String) {
        if self.ending.is_none()
            && let Some((_, reason)) = text.split_once("Kernel panic - not syncing: ")
        {
            self.ending = Some(Ending::Panic(reason.to_owned()));
        }
        if self.console.len() == CONSOLE_LINES {
            self.console.pop_front();
        }
        self.console.push_back(text);
    }
}

/// The program's standard error. It is read as it arrives: otherwise a program that writes more than a pipe holds would
/// block forever. It does not count as a sign of life.
struct StandardError {
    /// `None` after it has ended.
    pipe: Option<ChildStderr>,
    /// The last [`ERROR_BYTES`].
    bytes: VecDeque<u8>,
}

impl StandardError {
    fn pipe(&self) -> Option<&dyn AsRawFd> {
        self.pipe.as_ref().map(|pipe| pipe as &dyn AsRawFd)
    }

    /// Reads the available bytes.
    fn read(&mut self) {
        let mut buffer = [0; 4096];
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.read(&mut buffer) {
            Ok(got) if got > 0 => self.bytes.extend(&buffer[..got]),
            // An error ends it like end-of-file: there is nowhere to report it.
            _ => self.pipe = None,
        }
        self.bytes.drain(..self.bytes.len().saturating_sub(ERROR_BYTES));
    }

    /// Reads to its end, for a limited time: a process that the program started may keep the pipe open.
    fn read_to_end(&mut self) {
        let start = Instant::now();
        while let Some(pipe) = self.pipe.as_ref().filter(|_| start.elapsed() < LAST_OUTPUT) {
            match wait_readable(pipe, POLL_MS) {
                Ok(true) => self.read(),
                Ok(false) => {}
                Err(_) => break,
            }
        }
    }

    /// Returns its last lines.
    fn lines(&self) -> Vec<String> {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

/// Returns how the program itself ended, and what it wrote last on standard error.
fn last_output(started: &mut Started, errors: &mut StandardError) -> String {
    /// More lines would hide the status.
    const LINES: usize = 20;
    errors.read_to_end();
    started.wait(LAST_OUTPUT);
    let status = match started.child.try_wait() {
        Ok(Some(status)) => status.to_string(),
        _ => "it closed its output but is still running".to_owned(),
    };
    let lines = errors.lines();
    let lines = &lines[lines.len().saturating_sub(LINES)..];
    if lines.is_empty() { status } else { format!("{status}: {}", lines.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supervise_shell(text: &str) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        let timeouts = Timeouts::all(Duration::from_secs(600));
        supervise(Launch::machine(command), &timeouts, &|| false, &mut |_| Ok(())).unwrap()
    }

    /// Guards against a program that blocks forever because standard error is not read.
    #[test]
    fn more_errors_than_a_pipe_holds_do_not_block_the_program() {
        let ended = supervise_shell(
            "i=0; while [ $i -lt 4000 ]; do echo \"error $i: $(printf %060d 0)\" >&2; i=$((i+1)); done; echo out",
        );
        assert!(matches!(&ended.how, Ending::Exited(output) if output.contains("error 3999:")), "{:?}", ended.how);
        assert!(matches!(&ended.how, Ending::Exited(output) if !output.contains("error 3000:")), "{:?}", ended.how);
        assert_eq!(ended.console, ["out"]);
    }

    #[test]
    fn closing_one_output_leaves_the_other_readable() {
        let ended = supervise_shell("exec 2>&-; echo out");
        assert_eq!((ended.how, ended.console), (Ending::Exited("exit status: 0".to_owned()), vec!["out".to_owned()]));
        let ended = supervise_shell("exec >&-; echo wrong >&2; exit 3");
        assert_eq!(ended.how, Ending::Exited("exit status: 3: wrong".to_owned()));
    }
}
