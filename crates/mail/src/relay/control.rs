//! The socket `control` in the directory of a queue, through which the user lists and changes the queue of a running
//! relay. A request is a line of JSON, and so is each part of the answer. A list is sent in pages, which the engine
//! builds one at a time: neither side holds the whole list in memory.

use crate::queue::control::{Answer, Condition, Item, Request};
use crate::queue::{self, Notice, Shared};
use landau_reactor::Waker;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The name of the socket.
pub(super) const SOCKET: &str = "control";

/// How long a request may take to arrive, and the engine to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How long the user may take to read an answer: a queue can have millions of messages.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(300);

/// The time left for that when the relay is ending.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// The interval of polling for the engine's answer, for the end of the relay, and for the socket of a starting relay.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Maximum number of users served by separate threads; the accepting thread may serve one more.
const MOST_USERS: usize = 8;

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum length of a request in bytes.
const REQUEST_BYTES: u64 = 16 << 20;

/// A message of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Its identifier in hexadecimal, as in the reply to its sender and in `Received:`.
    pub id: String,
    /// Its condition.
    pub condition: Condition,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted_ms: u64,
    /// Its size in the queue, in bytes.
    pub bytes: u64,
    /// The sender; empty for the null path.
    pub from: String,
    /// The remaining recipients.
    pub to: Vec<String>,
    /// The milliseconds until its next attempt, if it waits for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_in_ms: Option<u64>,
    /// The reason of the last deferral of a recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A line of an answer; the last one is not a message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Message(Queued),
    Done {
        found: u64,
        changed: u64,
    },
    /// The relay is ending: nothing was changed, and a list is not complete.
    Ending,
    Error(String),
}

/// Why the engine of a relay has not answered.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// It has ended without executing the request.
    Ended,
    /// Another failure.
    Failed(String),
}

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended => f.write_str("the relay is stopping"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

/// Sends requests to the engine of a relay.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) notices: Sender<Notice>,
    pub(super) waker: Waker,
    /// Whether the relay is ending.
    pub(super) is_ending: Arc<AtomicBool>,
}

impl Desk {
    /// Returns the engine's answer.
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
        // The engine has answered every executed request before it ended.
        let busy = || Unanswered::Failed("the relay is busy and does not answer".to_owned());
        answer.try_recv().map_err(|_| if is_ending { Unanswered::Ended } else { busy() })
    }
}

/// The users being served, by number.
type Users = Arc<Mutex<BTreeMap<u64, UnixStream>>>;

fn lock(users: &Users) -> MutexGuard<'_, BTreeMap<u64, UnixStream>> {
    users.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers users in separate threads until it is dropped.
#[derive(Debug)]
pub(super) struct Control {
    directory: PathBuf,
    is_ending: Arc<AtomicBool>,
    users: Users,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens in the directory of a queue, which this process has locked.
    pub(super) fn start(directory: &Path, shared: Arc<Shared>, desk: Desk) -> io::Result<Self> {
        let path = directory.join(SOCKET);
        match std::fs::remove_file(&path) {
            // A killed relay has left the socket.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = reach(directory, |socket| UnixListener::bind(socket))?;
        // Other users must not be able to delete mail.
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let (is_ending, users) = (Arc::clone(&desk.is_ending), Users::default());
        let served = Arc::clone(&users);
        let thread =
            Builder::new().name("control".to_owned()).spawn(move || accept_all(&listener, &served, &shared, &desk))?;
        Ok(Self { directory: directory.to_owned(), is_ending, users, thread: Some(thread) })
    }
}

/// Serves users until the relay ends: each in a thread, because a user that does not read must not delay others.
fn accept_all(listener: &UnixListener, users: &Users, shared: &Shared, desk: &Desk) {
    std::thread::scope(|threads| {
        let mut number = 0;
        while !desk.is_ending.load(Ordering::Relaxed) {
            let Ok((stream, _)) = listener.accept() else {
                // No descriptor was free, or the user has already disconnected.
                std::thread::sleep(PAUSE);
                continue;
            };
            if desk.is_ending.load(Ordering::Relaxed) {
                break;
            }
            number += 1;
            let count = {
                let mut users = lock(users);
                users.extend(stream.try_clone().ok().map(|copy| (number, copy)));
                users.len()
            };
            let serve = move || {
                // The user has disconnected, or gets the error.
                drop(serve(&stream, shared, desk));
                lock(users).remove(&number);
            };
            if count > MOST_USERS {
                serve();
            } else if Builder::new().name("control".to_owned()).spawn_scoped(threads, serve).is_err() {
                // This closes the stream, and the user repeats the request.
                lock(users).remove(&number);
            }
        }
    });
}

impl Drop for Control {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        for stream in lock(&self.users).values() {
            // A request that has not arrived is dropped; an answer is still sent. The connection may already be closed.
            let _ = stream.shutdown(Shutdown::Read);
        }
        let was_woken = reach(&self.directory, |socket| UnixStream::connect(socket)).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| was_woken) {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
        // If this fails, the next relay removes the socket.
        let _ = std::fs::remove_file(self.directory.join(SOCKET));
    }
}

/// Calls `use_it` with a path of the socket in a directory that fits in a socket address: unix(7) allows 108 bytes.
pub(super) fn reach<T>(directory: &Path, use_it: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = directory.join(SOCKET);
    if path.as_os_str().len() < 100 {
        return use_it(&path);
    }
    let directory = File::open(directory)?;
    use_it(&PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd())))
}

/// A stream with a deadline by which everything must be read or written, in any number of pieces.
pub(super) struct Timed<'a> {
    stream: &'a UnixStream,
    until: Instant,
    /// Whether the relay is ending, which shortens the deadline.
    is_ending: &'a AtomicBool,
    /// Whether that was noticed.
    is_short: bool,
}

impl<'a> Timed<'a> {
    pub(super) fn new(stream: &'a UnixStream, patience: Duration, is_ending: &'a AtomicBool) -> io::Result<Self> {
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(LOOK))?;
        Ok(Self { stream, until: Instant::now() + patience, is_ending, is_short: false })
    }

    /// Makes a call before the deadline, and repeats it if it was interrupted or reached the stream's timeout. A slow
    /// trickle of bytes does not extend the deadline.
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
    let last = match serde_json::from_str(&line) {
        Ok(request) => answer(request, shared, |request| desk.ask(request), |message| say(&Line::Message(message)))?,
        Err(error) => Line::Error(format!("invalid request: {error}")),
    };
    say(&last)?;
    out.flush()
}

/// Executes a request through the engine, passes on the messages of a list, and returns the last line of the answer.
pub(super) fn answer<E>(
    mut request: Request,
    shared: &Shared,
    mut ask: impl FnMut(Request) -> std::result::Result<Answer, Unanswered>,
    mut each: impl FnMut(Queued) -> std::result::Result<(), E>,
) -> std::result::Result<Line, E> {
    // The segments whose files were missing: messages that the engine still has there afterwards are lost.
    let (mut count, mut missing) = (0, HashSet::new());
    loop {
        let (items, up_to, known, is_last) = match ask(request.clone()) {
            Ok(Answer::Items { items, up_to, known, is_last }) => (items, up_to, known, is_last),
            Ok(Answer::Done { found, changed }) => return Ok(Line::Done { found, changed }),
            Ok(Answer::Failed(reason)) | Err(Unanswered::Failed(reason)) => return Ok(Line::Error(reason)),
            Err(Unanswered::Ended) => return Ok(Line::Ending),
        };
        let mut is_stale = false;
        for item in items {
            let (id, segment) = (item.entry.id, item.entry.segment);
            let Some(message) = queued(shared, item, missing.contains(&segment)) else {
                // The segment was deleted since: the message was moved, or the relay has finished it. Ask the engine
                // again.
                is_stale = missing.insert(segment);
                break;
            };
            request.after = id;
            count += 1;
            each(message)?;
        }
        if is_stale {
            continue;
        }
        if is_last {
            return Ok(Line::Done { found: count, changed: count });
        }
        (request.after, request.known) = (up_to, known);
    }
}

/// Returns a message of a list; `None` if its segment is missing, unless the engine has reported the message there
/// twice.
fn queued(shared: &Shared, item: Item, must_be_there: bool) -> Option<Queued> {
    let Item { entry, condition, left, due_in_ms, reason } = item;
    let (from, mut to, reason) = match queue::addresses(shared, &entry) {
        Ok((from, to)) => (from, to, reason.map(String::from)),
        Err(error) if error.kind() == ErrorKind::NotFound && !must_be_there => return None,
        // The other messages are still listed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Sync;
    use crate::network::Sockets;
    use crate::queue::control::Action;
    use crate::queue::{Meta, Writer};
    use landau_reactor::Backend;

    /// A client that sends one byte at a time must not block others from the relay.
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
        // The relay does not wait for the missing bytes, and sends its answer.
        is_ending.store(true, Ordering::Relaxed);
        assert_eq!(early.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::TimedOut);
    }

    /// Compaction moves messages while they are listed.
    #[test]
    fn a_list_has_messages_whose_segment_was_deleted_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let shared = Arc::new(Shared::new(folder.path(), 1 << 30, 1, 1));
        let mut writer = Writer::new(Arc::clone(&shared), Sync::Never);
        for id in 1..=6 {
            writer.add(&Meta::new(id, 1, "s@x", vec![format!("r{id}@d").into()]), &[b"\r\n"]).unwrap();
        }
        let entries = writer.commit(0).unwrap().entries;
        let [old, new] = ["00000001.mail", "00000002.mail"].map(|name| folder.path().join(name));
        let (mut asked, mut listed) = (0, Vec::new());
        let ask = |request: Request| {
            asked += 1;
            // The third message is delivered meanwhile, and the file of the following messages is lost.
            let place = |id: u64| if id >= 4 { 9 } else { asked.min(2) };
            let entries = entries.iter().filter(|entry| entry.id > request.after && (asked == 1 || entry.id != 3));
            let item = |entry: &queue::Entry| Item {
                entry: queue::Entry { segment: place(entry.id), ..entry.clone() },
                condition: Condition::New,
                left: vec![0],
                due_in_ms: None,
                reason: None,
            };
            let items = entries.map(item).collect();
            Ok(Answer::Items { items, up_to: 6, known: Arc::default(), is_last: true })
        };
        let last = answer(Request::new(Action::List, HashSet::new()), &shared, ask, |message| {
            if listed.is_empty() {
                std::fs::rename(&old, &new).unwrap();
            }
            listed.push((message.id, message.to.concat(), message.reason.is_some()));
            Ok::<(), ()>(())
        });
        assert!(matches!(last, Ok(Line::Done { found: 5, .. })), "{last:?}");
        let lost = ["4", "5", "6"].map(|id| (id, "", true));
        let expected = [("1", "r1@d", false), ("2", "r2@d", false)].into_iter().chain(lost);
        assert_eq!(listed, expected.map(|(id, to, is_bad)| (id.to_owned(), to.to_owned(), is_bad)).collect::<Vec<_>>());
        assert_eq!(asked, 3, "a page is asked for again once for each lost segment");
    }

    /// A list ends with the relay even if its reader is fast enough that no write blocks.
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

    /// A list in a pager may stay unread for minutes.
    #[test]
    fn users_who_do_not_read_or_write_keep_no_other_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let mut network = Sockets::new(Backend::default()).unwrap();
        let (notices, asked) = channel();
        let desk = Desk { notices, waker: network.waker().unwrap(), is_ending: Arc::default() };
        let shared = Arc::new(Shared::new(folder.path(), 1 << 30, 1, 1));
        let control = Control::start(folder.path(), shared, desk).unwrap();
        let engine = std::thread::spawn(move || {
            for notice in asked {
                let Notice::Asked(_, answer) = notice else { panic!("{notice:?}") };
                answer.send(Answer::Done { found: 3, changed: 2 }).unwrap();
            }
        });
        let connect = || UnixStream::connect(folder.path().join(SOCKET)).unwrap();
        let silent: Vec<UnixStream> = (0..MOST_USERS - 1).map(|_| connect()).collect();
        let mut user = connect();
        user.write_all(b"{\"action\":\"flush\",\"ids\":[]}\n").unwrap();
        let mut line = String::new();
        BufReader::new(&user).read_line(&mut line).unwrap();
        assert_eq!(line, "{\"done\":{\"found\":3,\"changed\":2}}\n");
        for mut one in &silent {
            one.set_nonblocking(true).unwrap();
            let read = one.read(&mut [0; 9]).map_err(|error| error.kind());
            assert_eq!(read, Err(ErrorKind::WouldBlock), "the relay did not wait for this one either");
        }
        // The relay does not wait for silent users.
        drop(control);
        engine.join().unwrap();
    }
}
