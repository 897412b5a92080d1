//! A machine or a process: started, listened to, and ended whatever happens.

use crate::console::Script;
use crate::error::{Error, io};
use crate::frame::{Decoder, Item};
use crate::job::Message;
use landau_sys::descriptor::{wait_any_readable, wait_readable};
use landau_sys::process::OwnedChild;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{ChildStderr, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// How much of the console is kept.
const CONSOLE_LINES: usize = 400;

/// How long a wait for the guest's next word lasts before interruptions and bounds are looked at.
const LOOK_MS: i32 = 100;

/// How much of standard error is kept, in bytes.
const ERRORS_BYTES: usize = 16 << 10;

/// How long the last words on standard error are waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How a guest is started.
#[derive(Debug)]
pub struct Start {
    /// What is started. Its standard output is the guest's line to the host.
    pub command: Command,
    /// What is said to it first; then its standard input stays open until it is done. None where nothing is said.
    pub input: Option<Vec<u8>>,
    /// What is typed on its console until the guest is up.
    pub script: Option<Script>,
    /// How long it may take to leave by itself once it is done or not wanted any more.
    pub grace: Duration,
}

impl Start {
    /// A machine that is told nothing and simply ended.
    pub fn machine(command: Command) -> Self {
        Self { command, input: None, script: None, grace: Duration::ZERO }
    }
}

/// What bounds a guest from outside. All of it is wall time of the host.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Until the guest says that it is up.
    pub start: Duration,
    /// Between two signs of life.
    pub silence: Duration,
    /// In all.
    pub whole: Duration,
}

/// How a guest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It said that it was done.
    Done,
    /// Its kernel panicked: the kernel's own words.
    Panic(String),
    /// It did not come up in time.
    NeverUp,
    /// It said nothing for too long.
    Silent,
    /// It took too long in all.
    Overtime,
    /// The machine ended without a word of the guest: the emulator's status and its last words.
    Gone(String),
    /// The user ended it.
    Interrupted,
}

/// What a guest left beside its messages.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub how: Ending,
    /// The last lines of the console.
    pub console: Vec<String>,
    /// Messages that the line lost or broke.
    pub broken: Vec<String>,
}

/// A started program. It does not outlive this value, nor this program.
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

    /// Types or says something. A program that does not listen any more says so by its end.
    fn say(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(bytes).and_then(|()| input.flush());
        }
    }

    /// Lets it leave by itself, for as long as that may take.
    fn leave(&mut self, grace: Duration) {
        self.input = None;
        let began = Instant::now();
        while began.elapsed() < grace && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Starts a guest and hands on what it says until it is done or a bound is met.
pub fn attend(
    start: Start,
    bounds: &Bounds,
    interrupted: &dyn Fn() -> bool,
    take: &mut dyn FnMut(Message) -> Result<(), Error>,
) -> Result<Ended, Error> {
    let Start { command, input, mut script, grace } = start;
    let program = command.get_program().to_owned();
    let mut started = Started::new(command, input.is_some() || script.is_some())?;
    let (Some(mut line), Some(errors)) = (started.child.stdout.take(), started.child.stderr.take()) else {
        return Err(Error::Guest("the machine has no pipes".to_owned()));
    };
    let mut errors = Errors { pipe: Some(errors), bytes: VecDeque::new() };
    started.say(&input.unwrap_or_default());
    let mut watch = Watch::new();
    let mut buffer = vec![0; 1 << 16];
    let how = loop {
        if let Some(how) = watch.bound(bounds, interrupted) {
            break how;
        }
        if let Some(typed) = script.as_mut().filter(|_| !watch.up).and_then(Script::idle) {
            started.say(&typed);
        }
        let [is_heard, complains] = wait_any_readable([Some(&line), errors.pipe()], LOOK_MS)?;
        if complains {
            errors.read();
        }
        if !is_heard {
            continue;
        }
        let got = line.read(&mut buffer).map_err(|source| io("read the console of", Path::new(&program), source))?;
        if got == 0 {
            let rest = std::mem::take(&mut watch.decoder).finish();
            watch.hear(rest, take)?;
            break watch.last.take().unwrap_or_else(|| Ending::Gone(last_words(&mut started, &mut errors)));
        }
        if let Some(typed) = script.as_mut().filter(|_| !watch.up).and_then(|script| script.hear(&buffer[..got])) {
            started.say(&typed);
        }
        let items = watch.decoder.push(&buffer[..got]);
        watch.hear(items, take)?;
        if let Some(Ending::Done) = watch.last {
            break Ending::Done;
        }
    };
    if matches!(how, Ending::NeverUp | Ending::Silent | Ending::Overtime) {
        errors.lines().into_iter().for_each(|words| watch.text(format!("(standard error: {words})")));
    }
    if let Some(script) = script.filter(|_| !watch.up) {
        watch.text(format!("(landau waited for {})", script.waits_for()));
    }
    started.leave(grace);
    drop(started);
    Ok(Ended { how, console: watch.console.into(), broken: watch.broken })
}

/// What was heard so far.
struct Watch {
    decoder: Decoder,
    console: VecDeque<String>,
    broken: Vec<String>,
    began: Instant,
    heard: Instant,
    up: bool,
    last: Option<Ending>,
}

impl Watch {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            decoder: Decoder::default(),
            console: VecDeque::new(),
            broken: Vec::new(),
            began: now,
            heard: now,
            up: false,
            last: None,
        }
    }

    /// The bound that is met, if one is.
    fn bound(&self, bounds: &Bounds, interrupted: &dyn Fn() -> bool) -> Option<Ending> {
        if interrupted() {
            return Some(Ending::Interrupted);
        }
        // A kernel that panicked restarts at once; one that cannot even do that is not waited for.
        if self.last.is_some() && self.heard.elapsed() > Duration::from_secs(2) {
            return self.last.clone();
        }
        if !self.up && self.began.elapsed() > bounds.start {
            return Some(Ending::NeverUp);
        }
        if self.up && self.heard.elapsed() > bounds.silence {
            return Some(Ending::Silent);
        }
        (self.began.elapsed() > bounds.whole).then_some(Ending::Overtime)
    }

    fn hear(&mut self, items: Vec<Item>, take: &mut dyn FnMut(Message) -> Result<(), Error>) -> Result<(), Error> {
        for item in items {
            self.heard = Instant::now();
            match item {
                Item::Text(text) => self.text(text),
                Item::Broken(what) => self.broken.push(what),
                Item::Message(content) => {
                    let message: Message = serde_json::from_slice(&content)
                        .map_err(|error| Error::Guest(format!("the guest's message cannot be read: {error}")))?;
                    match &message {
                        Message::Up => self.up = true,
                        Message::Done { .. } => self.last = Some(Ending::Done),
                        Message::Failed(_) | Message::Lines(_) | Message::Symbols(_) => {}
                    }
                    take(message)?;
                }
            }
        }
        Ok(())
    }

    fn text(&mut self, text: String) {
        if self.last.is_none()
            && let Some((_, reason)) = text.split_once("Kernel panic - not syncing: ")
        {
            self.last = Some(Ending::Panic(reason.to_owned()));
        }
        if self.console.len() == CONSOLE_LINES {
            self.console.pop_front();
        }
        self.console.push_back(text);
    }
}

/// What the program says on standard error. It is read as it comes: a program that says more than a pipe holds would
/// stop there and never be done. It is no sign of the guest's life.
struct Errors {
    /// None once it has ended.
    pipe: Option<ChildStderr>,
    /// The last of it.
    bytes: VecDeque<u8>,
}

impl Errors {
    fn pipe(&self) -> Option<&dyn AsRawFd> {
        self.pipe.as_ref().map(|pipe| pipe as &dyn AsRawFd)
    }

    /// Takes what is there.
    fn read(&mut self) {
        let mut buffer = [0; 4096];
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.read(&mut buffer) {
            Ok(got) if got > 0 => self.bytes.extend(&buffer[..got]),
            // What cannot be read cannot be told.
            _ => self.pipe = None,
        }
        self.bytes.drain(..self.bytes.len().saturating_sub(ERRORS_BYTES));
    }

    /// Takes what is still to come. Something that the program started may hold the other end for long.
    fn read_to_end(&mut self) {
        let began = Instant::now();
        while let Some(pipe) = self.pipe.as_ref().filter(|_| began.elapsed() < LAST_WORDS) {
            match wait_readable(pipe, LOOK_MS) {
                Ok(true) => self.read(),
                Ok(false) => {}
                Err(_) => break,
            }
        }
    }

    /// The last lines.
    fn lines(&self) -> Vec<String> {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

/// How the program itself ended, and what it said of it.
fn last_words(started: &mut Started, errors: &mut Errors) -> String {
    /// More would bury what the status says.
    const LINES: usize = 20;
    errors.read_to_end();
    started.leave(LAST_WORDS);
    let status = match started.child.try_wait() {
        Ok(Some(status)) => status.to_string(),
        _ => "it closed its output and did not end".to_owned(),
    };
    let words = errors.lines();
    let words = &words[words.len().saturating_sub(LINES)..];
    if words.is_empty() { status } else { format!("{status}: {}", words.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attend_shell(text: &str) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        let limit = Duration::from_secs(20);
        let bounds = Bounds { start: limit, silence: limit, whole: limit };
        attend(Start::machine(command), &bounds, &|| false, &mut |_| Ok(())).unwrap()
    }

    /// Guards against a program that waits for ever, for nobody reads what it complains about.
    #[test]
    fn more_complaints_than_a_pipe_holds_do_not_stop_a_program() {
        let ended = attend_shell(
            "i=0; while [ $i -lt 4000 ]; do echo \"complaint $i: $(printf %060d 0)\" >&2; i=$((i+1)); done; echo out",
        );
        assert!(matches!(&ended.how, Ending::Gone(words) if words.contains("complaint 3999:")), "{:?}", ended.how);
        assert!(matches!(&ended.how, Ending::Gone(words) if !words.contains("complaint 3000:")), "{:?}", ended.how);
        assert_eq!(ended.console, ["out"]);
    }

    #[test]
    fn a_program_that_closes_one_of_its_outputs_is_heard_on_the_other() {
        let ended = attend_shell("exec 2>&-; echo out");
        assert_eq!((ended.how, ended.console), (Ending::Gone("exit status: 0".to_owned()), vec!["out".to_owned()]));
        let ended = attend_shell("exec >&-; echo wrong >&2; exit 3");
        assert_eq!(ended.how, Ending::Gone("exit status: 3: wrong".to_owned()));
    }
}
