//! The socket `control` in the directory of a queue, by which the user asks a running relay what is in it and changes
//! it. A request is a line of JSON, and so is each part of the answer.

use crate::envelope::{Envelope, Mode};
use crate::error::{Error, Result};
use crate::ledger::Sync;
use crate::queue::control::{Answer, Condition, Item, Request};
use crate::queue::{self, Feed, Handling, Notice, Patience, Shared};
use crate::schedule::Backoff;
use landau_reactor::Waker;
use serde::{Deserialize, Serialize};
use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The name of the socket.
const SOCKET: &str = "control";

/// How long the other side may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The limit of a queue that no relay uses, for what is set aside: the default of `--queue-limit`.
const LIMIT: u64 = 1 << 30;

/// How often the engine's answer is looked for, and whether the relay ends.
const LOOK: Duration = Duration::from_millis(100);

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest request in bytes.
const REQUEST_BYTES: u64 = 16 << 20;

/// A message of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Its identifier in hexadecimal, as in the reply to its sender and in `Received:`.
    pub id: String,
    /// What it does.
    pub condition: Condition,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted_ms: u64,
    /// The bytes that it takes in the queue.
    pub bytes: u64,
    /// The sender; empty for the null path.
    pub from: String,
    /// The recipients that are left.
    pub to: Vec<String>,
    /// The milliseconds until it is tried again, if it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_in_ms: Option<u64>,
    /// Why a recipient was deferred last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A line of an answer; the last one is not a message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Message(Queued),
    Done { found: u64, changed: u64 },
    Error(String),
}

/// Asks the engine of a relay.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) notices: Sender<Notice>,
    pub(super) waker: Waker,
    /// Whether the relay ends.
    pub(super) is_ending: Arc<AtomicBool>,
}

impl Desk {
    /// Returns what the engine answers.
    pub(super) fn ask(&self, request: Request) -> std::result::Result<Answer, String> {
        let (sender, answer) = channel();
        let is_gone = || "the relay is ending".to_owned();
        self.notices.send(Notice::Asked(request, sender)).map_err(|_| is_gone())?;
        self.waker.wake().map_err(|error| error.to_string())?;
        let began = Instant::now();
        while began.elapsed() < PATIENCE && !self.is_ending.load(Ordering::Relaxed) {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(is_gone()),
            }
        }
        let is_ending = self.is_ending.load(Ordering::Relaxed);
        Err(if is_ending { is_gone() } else { "the relay is busy and does not answer".to_owned() })
    }
}

/// Answers users in another thread until it is dropped.
#[derive(Debug)]
pub(super) struct Control {
    directory: PathBuf,
    is_ending: Arc<AtomicBool>,
    /// The user who is being served.
    current: Arc<Mutex<Option<UnixStream>>>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens in the directory of a queue, which this process has locked.
    pub(super) fn start(directory: &Path, shared: Arc<Shared>, desk: Desk) -> io::Result<Self> {
        let path = directory.join(SOCKET);
        match std::fs::remove_file(&path) {
            // A relay that was killed has left it.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = reach(directory, |socket| UnixListener::bind(socket))?;
        // Nobody else may delete mail.
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let (is_ending, is_end) = (Arc::clone(&desk.is_ending), Arc::clone(&desk.is_ending));
        let current: Arc<Mutex<Option<UnixStream>>> = Arc::default();
        let served = Arc::clone(&current);
        let serve = move || {
            while !is_end.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok(_) if is_end.load(Ordering::Relaxed) => {}
                    // The user has gone, or is told.
                    Ok((stream, _)) => {
                        *served.lock().unwrap_or_else(PoisonError::into_inner) = stream.try_clone().ok();
                        drop(serve(&stream, &shared, &desk));
                        *served.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    }
                    // No descriptor was free, or the user has gone already.
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        };
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(serve)?;
        Ok(Self { directory: directory.to_owned(), is_ending, current, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(stream) = self.current.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let was_woken = reach(&self.directory, |socket| UnixStream::connect(socket)).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| was_woken) {
            // It has told of its panic.
            let _ = thread.join();
        }
        // The next relay removes it otherwise.
        let _ = std::fs::remove_file(self.directory.join(SOCKET));
    }
}

/// Calls `use_it` with a path of the socket in a directory that fits in an address: unix(7) allows 108 bytes.
fn reach<T>(directory: &Path, use_it: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = directory.join(SOCKET);
    if path.as_os_str().len() < 100 {
        return use_it(&path);
    }
    let directory = File::open(directory)?;
    use_it(&PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd())))
}

fn serve(stream: &UnixStream, shared: &Shared, desk: &Desk) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream).take(REQUEST_BYTES).read_line(&mut line)?;
    let mut out = BufWriter::new(stream);
    let mut say = |line: &Line| {
        serde_json::to_writer(&mut out, line)?;
        out.write_all(b"\n")
    };
    let answer = match serde_json::from_str(&line) {
        Ok(request) => desk.ask(request),
        Err(error) => Err(format!("not a request: {error}")),
    };
    let last = describe(answer, shared, |message| say(&Line::Message(message)))?;
    say(&last)?;
    out.flush()
}

/// Hands over the messages of an answer, and returns its last line.
fn describe(
    answer: std::result::Result<Answer, String>,
    shared: &Shared,
    mut each: impl FnMut(Queued) -> io::Result<()>,
) -> io::Result<Line> {
    Ok(match answer {
        Ok(Answer::Items(items)) => {
            let mut count = 0;
            for item in items {
                // A message that has moved or gone since is not listed.
                let Some(message) = queued(shared, item) else { continue };
                count += 1;
                each(message)?;
            }
            Line::Done { found: count, changed: count }
        }
        Ok(Answer::Done { found, changed }) => Line::Done { found, changed },
        Ok(Answer::Failed(reason)) | Err(reason) => Line::Error(reason),
    })
}

fn queued(shared: &Shared, item: Item) -> Option<Queued> {
    let Item { entry, condition, left, due_in_ms, reason } = item;
    let (from, mut to, reason) = match queue::addresses(shared, &entry) {
        Ok(found) => found.map(|(from, to)| (from, to, reason.map(String::from)))?,
        // The others are listed all the same.
        Err(error) => (String::new(), Vec::new(), Some(format!("the message cannot be read: {error}"))),
    };
    let to = left.iter().filter_map(|&index| to.get_mut(index as usize).map(std::mem::take)).collect();
    Some(Queued {
        id: format!("{:X}", entry.id),
        condition,
        accepted_ms: entry.at_ms,
        bytes: entry.bytes,
        from,
        to,
        due_in_ms,
        reason,
    })
}

/// Does what the user asks of the queue in a directory: through its relay if one is running, otherwise here. Returns
/// how many messages were found, and how many of them were changed. `each` gets those of a list, and `note` what the
/// user should know about the files.
///
/// # Errors
///
/// There is no queue, it cannot be read or written, or the relay does not answer.
pub fn ask(
    directory: &Path,
    request: &Request,
    each: &mut dyn FnMut(Queued),
    note: &mut dyn FnMut(&str),
) -> Result<(u64, u64)> {
    let wrong = |reason: String| Error::file(directory, reason);
    if !directory.join(queue::LOCK).exists() {
        return Err(wrong("no queue of a relay is here".to_owned()));
    }
    match reach(directory, |socket| UnixStream::connect(socket)) {
        Ok(stream) => ask_relay(&stream, request, each)
            .map_err(|error| wrong(format!("cannot ask the relay: {error}")))?
            .map_err(wrong),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            ask_files(directory, request, each, note)
        }
        Err(error) => Err(wrong(format!("cannot ask the relay: {error}"))),
    }
}

fn ask_relay(
    mut stream: &UnixStream,
    request: &Request,
    each: &mut dyn FnMut(Queued),
) -> io::Result<std::result::Result<(u64, u64), String>> {
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{}\n", serde_json::to_string(request)?).as_bytes())?;
    for line in BufReader::new(stream).lines() {
        match serde_json::from_str(&line?)? {
            Line::Message(message) => each(message),
            Line::Done { found, changed } => return Ok(Ok((found, changed))),
            Line::Error(reason) => return Ok(Err(reason)),
        }
    }
    Err(ErrorKind::UnexpectedEof.into())
}

/// Does what the user asks of the files of a queue that no relay uses.
fn ask_files(
    directory: &Path,
    request: &Request,
    each: &mut dyn FnMut(Queued),
    note: &mut dyn FnMut(&str),
) -> Result<(u64, u64)> {
    let owner = std::fs::metadata(directory).map_err(|error| Error::file(directory, error.to_string()))?.uid();
    if owner != landau_sys::process::effective_user() {
        // A relay of the owner could not use files that another user has made.
        let reason =
            format!("user {owner} owns the queue, and no relay is running; run sudo -u '#{owner}' landau queue");
        return Err(Error::file(directory, reason));
    }
    let found = queue::open(directory, LIMIT)?;
    found.notes.iter().for_each(|one| note(one));
    let shared = Arc::clone(&found.shared);
    let patience =
        Patience { backoff: Backoff { first: Duration::ZERO, longest: Duration::ZERO }, lifetime: Duration::MAX };
    let handling = Handling { sync: Sync::Always, envelope: Envelope::new("", Mode::Data), signer: None, patience };
    let mut feed = Feed::new(found, channel().1, handling, None, 0);
    let answer = feed.control(request, 0);
    crate::input::Input::finish(&mut feed, 0)?;
    let last = describe(Ok(answer), &shared, |message| {
        each(message);
        Ok(())
    });
    match last.map_err(Error::Queue)? {
        Line::Error(reason) => Err(Error::file(directory, reason)),
        Line::Done { found, changed } => Ok((found, changed)),
        Line::Message(_) => Ok((0, 0)),
    }
}
