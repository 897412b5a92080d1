//! A machine under an emulator: started, listened to, and ended whatever happens.

use crate::error::{Error, io};
use crate::frame::{Decoder, Item};
use crate::job::Message;
use landau_sys::descriptor::wait_readable;
use landau_sys::process::{bind_to_parent, kill_group};
use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How much of the console is kept.
const CONSOLE_LINES: usize = 400;

/// How long a wait for the guest's next word lasts before interruptions and bounds are looked at.
const LOOK_MS: i32 = 100;

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

/// A started emulator. It does not outlive this value, nor this program.
struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        // Once it was waited for, its identifier may be somebody else's.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_group(self.0.id());
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Starts `command`, whose standard output is the guest's serial line, and hands on what the guest says until it is
/// done or a bound is met.
pub fn attend(
    mut command: Command,
    bounds: &Bounds,
    interrupted: &dyn Fn() -> bool,
    take: &mut dyn FnMut(Message) -> Result<(), Error>,
) -> Result<Ended, Error> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    bind_to_parent(&mut command);
    let program = command.get_program().to_owned();
    let child = command.spawn().map_err(|source| io("start", Path::new(&program), source))?;
    let mut emulator = Emulator(child);
    let (Some(mut line), Some(mut errors)) = (emulator.0.stdout.take(), emulator.0.stderr.take()) else {
        return Err(Error::Guest("the emulator has no pipes".to_owned()));
    };
    let mut watch = Watch::new();
    let mut buffer = vec![0; 1 << 16];
    let how = loop {
        if let Some(how) = watch.bound(bounds, interrupted) {
            break how;
        }
        if !wait_readable(&line, LOOK_MS)? {
            continue;
        }
        let got = line.read(&mut buffer).map_err(|source| io("read the console of", Path::new(&program), source))?;
        if got == 0 {
            let rest = std::mem::take(&mut watch.decoder).finish();
            watch.hear(rest, take)?;
            break watch.last.take().unwrap_or_else(|| Ending::Gone(last_words(&mut emulator, &mut errors)));
        }
        let items = watch.decoder.push(&buffer[..got]);
        watch.hear(items, take)?;
        if let Some(Ending::Done) = watch.last {
            break Ending::Done;
        }
    };
    drop(emulator);
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

/// How the emulator itself ended, and what it said of it.
fn last_words(emulator: &mut Emulator, errors: &mut impl Read) -> String {
    let mut text = String::new();
    // What cannot be read cannot be told.
    let _ = errors.read_to_string(&mut text);
    let status = emulator.0.wait().map_or("unknown".to_owned(), |status| status.to_string());
    let words: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if words.is_empty() { status } else { format!("{status}: {}", words.join("; ")) }
}
