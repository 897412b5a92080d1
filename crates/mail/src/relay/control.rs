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

/// How long a request may take to arrive, and the engine to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the user may take to read an answer: a queue can have millions of messages.
const ANSWER_PATIENCE: Duration = Duration::from_secs(300);

/// What is left of that when the relay ends.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// How long a relay may take to start or to end: it has the files, and no socket.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// The limit of a queue that no relay uses, for what is set aside: the default of `--queue-limit`.
const LIMIT: u64 = 1 << 30;

/// How often the engine's answer is looked for, whether the relay ends, and whether one that starts has a socket.
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
    Done {
        found: u64,
        changed: u64,
    },
    /// Nothing was done: the relay is ending.
    Ending,
    Error(String),
}

/// Why the engine of a relay has not answered.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// It has ended, and has not done what it was asked for.
    Ended,
    /// Something else.
    Failed(String),
}

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended => f.write_str("the relay is ending"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
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
    pub(super) fn ask(&self, request: Request) -> std::result::Result<Answer, Unanswered> {
        let (sender, answer) = channel();
        self.notices.send(Notice::Asked(request, sender)).map_err(|_| Unanswered::Ended)?;
        self.waker.wake().map_err(|error| Unanswered::Failed(error.to_string()))?;
        let began = Instant::now();
        while began.elapsed() < PATIENCE && !self.is_ending.load(Ordering::Relaxed) {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Unanswered::Ended),
            }
        }
        let is_ending = self.is_ending.load(Ordering::Relaxed);
        // What the engine has done, it has answered before it ended.
        let busy = || Unanswered::Failed("the relay is busy and does not answer".to_owned());
        answer.try_recv().map_err(|_| if is_ending { Unanswered::Ended } else { busy() })
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
            // A request that has not arrived is not waited for; an answer is still sent. It may have ended already.
            let _ = stream.shutdown(Shutdown::Read);
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

/// A stream with a time by which everything must have been read or written, in however many pieces.
struct Timed<'a> {
    stream: &'a UnixStream,
    until: Instant,
    /// Whether the relay ends, which leaves little time.
    is_ending: &'a AtomicBool,
    /// Whether that was noticed.
    is_short: bool,
}

impl<'a> Timed<'a> {
    fn new(stream: &'a UnixStream, patience: Duration, is_ending: &'a AtomicBool) -> io::Result<Self> {
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(LOOK))?;
        Ok(Self { stream, until: Instant::now() + patience, is_ending, is_short: false })
    }

    /// Makes a call in time, and repeats it if it was interrupted or took as long as the stream's time-out. Bytes that
    /// trickle in or out do not extend the time.
    fn repeat<T>(&mut self, mut call: impl FnMut(&mut &'a UnixStream) -> io::Result<T>) -> io::Result<T> {
        loop {
            if !self.is_short && self.is_ending.load(Ordering::Relaxed) {
                self.is_short = true;
                self.until = self.until.min(Instant::now() + END_PATIENCE);
            }
            if Instant::now() >= self.until {
                return Err(ErrorKind::TimedOut.into());
            }
            match call(&mut self.stream) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                other => return other,
            }
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.repeat(|stream| stream.read(bytes))
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.repeat(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn serve(stream: &UnixStream, shared: &Shared, desk: &Desk) -> io::Result<()> {
    let mut line = String::new();
    let request = Timed::new(stream, PATIENCE, &desk.is_ending)?;
    BufReader::new(request).take(REQUEST_BYTES).read_line(&mut line)?;
    let mut out = BufWriter::new(Timed::new(stream, ANSWER_PATIENCE, &desk.is_ending)?);
    let mut say = |line: &Line| {
        serde_json::to_writer(&mut out, line)?;
        out.write_all(b"\n")
    };
    let answer = match serde_json::from_str(&line) {
        Ok(request) => desk.ask(request),
        Err(error) => Err(Unanswered::Failed(format!("not a request: {error}"))),
    };
    let last = describe(answer, shared, |message| say(&Line::Message(message)))?;
    say(&last)?;
    out.flush()
}

/// Hands over the messages of an answer, and returns its last line.
fn describe(
    answer: std::result::Result<Answer, Unanswered>,
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
        Ok(Answer::Failed(reason)) | Err(Unanswered::Failed(reason)) => Line::Error(reason),
        Err(Unanswered::Ended) => Line::Ending,
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
    ask_within(START_PATIENCE, directory, request, each, note)
}

/// Does what [`ask`] does, and waits so long at most for a relay that starts or ends.
fn ask_within(
    patience: Duration,
    directory: &Path,
    request: &Request,
    each: &mut dyn FnMut(Queued),
    note: &mut dyn FnMut(&str),
) -> Result<(u64, u64)> {
    let wrong = |reason: String| Error::file(directory, reason);
    if !directory.join(queue::LOCK).exists() {
        return Err(wrong("no queue of a relay is here".to_owned()));
    }
    let until = Instant::now() + patience;
    loop {
        let asked = match reach(directory, |socket| UnixStream::connect(socket)) {
            Ok(stream) => {
                ask_relay(&stream, request, each).map_err(|error| wrong(format!("cannot ask the relay: {error}")))
            }
            // Without a socket there is no relay, or it is starting or ending.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                ask_files(directory, request, each, note)
            }
            Err(error) => Err(wrong(format!("cannot ask the relay: {error}"))),
        };
        match asked? {
            Asked::Done(counts) => return Ok(counts),
            Asked::Failed(reason) => return Err(wrong(reason)),
            Asked::Later if Instant::now() < until => std::thread::sleep(LOOK),
            Asked::Later => {
                return Err(wrong(
                    "a relay is starting or ending here, or another command uses the queue; try again later".to_owned(),
                ));
            }
        }
    }
}

/// What became of a request.
enum Asked {
    /// It was done: how many messages were found, and how many of them were changed.
    Done((u64, u64)),
    /// The relay refused, for this reason.
    Failed(String),
    /// There was no answer, because a relay that uses the files is starting or ending. It may have done what was asked
    /// and been killed before it could say so; a request that is repeated changes nothing more.
    Later,
}

fn ask_relay(stream: &UnixStream, request: &Request, each: &mut dyn FnMut(Queued)) -> io::Result<Asked> {
    let is_ending = AtomicBool::new(false);
    let line = format!("{}\n", serde_json::to_string(request)?);
    let sent = Timed::new(stream, PATIENCE, &is_ending)?.write_all(line.as_bytes());
    if sent.as_ref().is_err_and(is_gone) {
        return Ok(Asked::Later);
    }
    sent?;
    // The relay gives up first, and says so.
    let lines = BufReader::new(Timed::new(stream, 2 * PATIENCE + ANSWER_PATIENCE, &is_ending)?).lines();
    let mut messages = Vec::new();
    for line in lines {
        let line = match line {
            Err(error) if is_gone(&error) && messages.is_empty() => return Ok(Asked::Later),
            other => other?,
        };
        match serde_json::from_str(&line)? {
            Line::Message(message) => messages.push(message),
            Line::Done { found, changed } => {
                messages.into_iter().for_each(each);
                return Ok(Asked::Done((found, changed)));
            }
            Line::Ending => return Ok(Asked::Later),
            Line::Error(reason) => return Ok(Asked::Failed(reason)),
        }
    }
    Ok(Asked::Later)
}

/// Does what the user asks of the files of a queue that no relay uses.
fn ask_files(
    directory: &Path,
    request: &Request,
    each: &mut dyn FnMut(Queued),
    note: &mut dyn FnMut(&str),
) -> Result<Asked> {
    let owner = std::fs::metadata(directory).map_err(|error| Error::file(directory, error.to_string()))?.uid();
    if owner != landau_sys::process::effective_user() {
        // A relay of the owner could not use files that another user has made.
        let reason =
            format!("user {owner} owns the queue, and no relay is running; run sudo -u '#{owner}' landau queue");
        return Err(Error::file(directory, reason));
    }
    let Some(found) = queue::try_open(directory, LIMIT)? else { return Ok(Asked::Later) };
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
        Line::Done { found, changed } => Ok(Asked::Done((found, changed))),
        // An answer ends otherwise, and these files have no relay that ends.
        Line::Message(_) | Line::Ending => Ok(Asked::Done((0, 0))),
    }
}

/// Returns whether an error says that the relay has ended.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::Action;
    use std::collections::HashSet;

    /// A client that sends a byte at a time must not keep others from the relay.
    #[test]
    fn a_request_has_a_time_for_all_of_its_bytes() {
        let (mut client, relay) = UnixStream::pair().unwrap();
        client.write_all(b"{").unwrap();
        let is_ending = AtomicBool::new(false);
        let mut late = Timed::new(&relay, Duration::ZERO, &is_ending).unwrap();
        assert_eq!(late.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(late.write(b"}").unwrap_err().kind(), ErrorKind::TimedOut);
        let mut early = Timed::new(&relay, Duration::from_secs(1000), &is_ending).unwrap();
        assert_eq!(early.read(&mut [0; 9]).unwrap(), 1);
        // The relay does not wait for what has not arrived, and sends its answer.
        is_ending.store(true, Ordering::Relaxed);
        assert_eq!(early.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::TimedOut);
    }

    fn list(directory: &Path, patience: Duration) -> Result<(u64, u64)> {
        let request = Request { action: Action::List, ids: HashSet::new() };
        ask_within(patience, directory, &request, &mut |_| {}, &mut |_| {})
    }

    #[test]
    fn a_relay_that_starts_is_waited_for_and_one_that_ends_leaves_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        // As a relay does before it has a socket.
        let found = queue::open(directory, LIMIT).unwrap();
        let error = list(directory, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("a relay is starting or ending here"), "{error}");
        let listener = UnixListener::bind(directory.join(SOCKET)).unwrap();
        // Not waited for: without a cure nobody connects, and the list below fails.
        std::thread::spawn(move || {
            // The first connection ends without an answer, the next is told that the relay ends.
            for answer in ["", "\"ending\"\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
            drop(listener);
            drop(found);
        });
        assert_eq!(list(directory, Duration::from_secs(60)).unwrap(), (0, 0));
    }

    /// A list that is read fast enough to block no write ends with the relay, too.
    #[test]
    fn a_relay_that_ends_waits_for_no_reader() {
        let (mut client, relay) = UnixStream::pair().unwrap();
        let reading = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while client.read(&mut bytes).is_ok_and(|count| count > 0) {}
        });
        let is_ending = AtomicBool::new(true);
        let mut out = Timed::new(&relay, Duration::from_secs(1000), &is_ending).unwrap();
        let began = Instant::now();
        while out.write(b"x").is_ok() {
            assert!(began.elapsed() < Duration::from_secs(60), "the end is not noticed");
        }
        drop(relay);
        reading.join().unwrap();
    }
}
