//! `landau queue`: user requests to a queue, through its relay or, if none is running, through its files.

use super::control::{ANSWER_PATIENCE, LOOK, Line, PATIENCE, Queued, Timed, answer, reach};
use crate::envelope::{Envelope, Mode};
use crate::error::{Error, Result};
use crate::input::Input;
use crate::ledger::Sync;
use crate::queue::control::{Action, Request};
use crate::queue::{self, Feed, Handling, InUse, Patience};
use crate::schedule::Backoff;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// How long a relay may take to start or to end. Meanwhile it holds the files and has no socket.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// The limit of a queue that no relay uses, which limits the data set aside: the default of `--queue-limit`.
const LIMIT: u64 = 1 << 30;

/// Receives the messages of a list.
type Each<'a> = dyn FnMut(Queued) -> io::Result<()> + 'a;

/// The result of a request.
enum Asked {
    /// It was done, with the numbers of messages found and changed.
    Done((u64, u64)),
    /// The relay refused, for this reason.
    Failed(String),
    /// There was no answer, because a relay that uses the files is starting or ending. The relay may have executed the
    /// request and been killed before it could answer; a repeated request changes nothing more.
    Later,
}

/// Executes a request to the queue in a directory: through its relay if one is running, otherwise here. Returns the
/// numbers of messages found and changed. `each` receives the messages of a list one by one, in the order of their
/// identifiers, and `note` receives notes for the user about the files.
///
/// # Errors
///
/// There is no queue, this user is not permitted to use it, it cannot be read or written, the relay does not answer or
/// ends before the list does, or `each` fails.
pub fn ask(
    directory: &Path,
    request: &Request,
    each: &mut dyn FnMut(Queued) -> io::Result<()>,
    note: &mut dyn FnMut(&str),
) -> Result<(u64, u64)> {
    ask_within(START_PATIENCE, directory, request, each, note)
}

/// Executes a request like [`ask`], and waits at most `patience` for a relay that starts or ends.
fn ask_within(
    patience: Duration,
    directory: &Path,
    request: &Request,
    each: &mut Each<'_>,
    note: &mut dyn FnMut(&str),
) -> Result<(u64, u64)> {
    let wrong = |reason: String| Error::file(directory, reason);
    match directory.join(queue::LOCK).try_exists() {
        Ok(true) => {}
        Ok(false) => return Err(wrong("not the queue of a relay".to_owned())),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(not_permitted(directory)),
        Err(error) => return Err(wrong(error.to_string())),
    }
    let until = Instant::now() + patience;
    loop {
        let asked = match reach(directory, |socket| UnixStream::connect(socket)) {
            Ok(stream) => ask_relay(directory, &stream, request, each),
            // Without a socket there is no relay, or it is starting or ending.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                ask_files(directory, request, each, note)
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(not_permitted(directory)),
            Err(error) => Err(wrong(format!("cannot connect to the relay: {error}"))),
        };
        match asked? {
            Asked::Done(counts) => return Ok(counts),
            Asked::Failed(reason) => return Err(wrong(reason)),
            Asked::Later if Instant::now() < until => std::thread::sleep(LOOK),
            Asked::Later => {
                return Err(wrong(
                    "a relay is starting or stopping, or another command is using the queue; try again later"
                        .to_owned(),
                ));
            }
        }
    }
}

/// Returns the error for a user without permission to use a queue.
fn not_permitted(directory: &Path) -> Error {
    let reason = match std::fs::metadata(directory) {
        Ok(facts) => {
            let owner = facts.uid();
            format!("only user {owner}, who owns the queue, may use it; run sudo -u '#{owner}' landau queue")
        }
        Err(error) => error.to_string(),
    };
    Error::file(directory, reason)
}

/// Sends a request to a relay. Messages passed to `each` cannot be taken back, so the request is repeated only before
/// the first one.
fn ask_relay(directory: &Path, stream: &UnixStream, request: &Request, each: &mut Each<'_>) -> Result<Asked> {
    let failed = |error: io::Error| Error::file(directory, format!("the request to the relay failed: {error}"));
    match send(stream, request) {
        Err(error) if is_gone(&error) => return Ok(Asked::Later),
        sent => sent.map_err(failed)?,
    }
    // The relay times out first, and reports it.
    let patience = 2 * PATIENCE + ANSWER_PATIENCE;
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    let (mut lines, mut line, mut count) = (BufReader::new(stream), String::new(), 0_u64);
    loop {
        line.clear();
        match lines.read_line(&mut line) {
            Err(error) if is_gone(&error) => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let reason = format!("the relay did not answer within {} s; try again later", patience.as_secs());
                return Err(Error::file(directory, reason));
            }
            read => drop(read.map_err(failed)?),
        }
        if !line.ends_with('\n') {
            break;
        }
        match serde_json::from_str(&line).map_err(|error| failed(error.into()))? {
            Line::Message(message) => {
                each(message).map_err(Error::Output)?;
                count += 1;
            }
            Line::Done { found, changed } => return Ok(Asked::Done((found, changed))),
            Line::Ending => break,
            Line::Error(reason) => return Ok(Asked::Failed(reason)),
        }
    }
    if count == 0 {
        return Ok(Asked::Later);
    }
    let seconds = ANSWER_PATIENCE.as_secs();
    Err(Error::file(
        directory,
        format!(
            "the list is not complete: the relay closed the connection after message {count}, because it ended or \
             the list was not read within {seconds} s; run the command again"
        ),
    ))
}

fn send(stream: &UnixStream, request: &Request) -> io::Result<()> {
    let line = format!("{}\n", serde_json::to_string(request)?);
    Timed::new(stream, PATIENCE, &AtomicBool::new(false))?.write_all(line.as_bytes())
}

/// Executes a request on the files of a queue that no relay uses.
fn ask_files(directory: &Path, request: &Request, each: &mut Each<'_>, note: &mut dyn FnMut(&str)) -> Result<Asked> {
    let owner = std::fs::metadata(directory).map_err(|error| Error::file(directory, error.to_string()))?.uid();
    if owner != landau_sys::process::effective_user() {
        // A relay of the owner could not use files created by another user.
        return match queue::in_use(directory) {
            InUse::Yes => Ok(Asked::Later),
            InUse::No => {
                let reason = format!(
                    "user {owner} owns the queue, and no relay is running; run sudo -u '#{owner}' landau queue"
                );
                Err(Error::file(directory, reason))
            }
            InUse::Unknown => Err(not_permitted(directory)),
        };
    }
    let is_list = request.action == Action::List;
    let sync = if is_list { Sync::Never } else { Sync::Always };
    let Some(mut found) = queue::try_open(directory, LIMIT, sync)? else { return Ok(Asked::Later) };
    if is_list {
        found.only_read();
    }
    found.notes.iter().for_each(|one| note(one));
    let shared = Arc::clone(&found.shared);
    let patience =
        Patience { backoff: Backoff { first: Duration::ZERO, longest: Duration::ZERO }, lifetime: Duration::MAX };
    let envelope = Envelope::new("", Mode::Data);
    let handling = Handling { sync, envelope, signer: None, patience, postmaster: None };
    let mut feed = Feed::new(found, channel().1, handling, None, 0);
    let last = answer(request.clone(), &shared, |request| Ok(feed.control(&request, 0)), each);
    feed.finish(0)?;
    match last.map_err(Error::Output)? {
        Line::Error(reason) => Ok(Asked::Failed(reason)),
        Line::Done { found, changed } => Ok(Asked::Done((found, changed))),
        // An answer never ends with a message, and these files have no relay that could be ending.
        Line::Message(_) | Line::Ending => Ok(Asked::Later),
    }
}

/// Returns whether an error means that the relay has ended.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::super::control::SOCKET;
    use super::*;
    use crate::queue::control::Condition;
    use crate::queue::{Meta, Writer};
    use std::collections::HashSet;
    use std::os::unix::fs::chown;
    use std::os::unix::net::UnixListener;

    fn list_to(directory: &Path, patience: Duration, each: &mut Each<'_>) -> Result<(u64, u64)> {
        ask_within(patience, directory, &Request::new(Action::List, HashSet::new()), each, &mut |_| {})
    }

    fn list(directory: &Path, patience: Duration) -> Result<(u64, u64)> {
        list_to(directory, patience, &mut |_| Ok(()))
    }

    /// Reads a request and sends the lines of an answer, each after `wait` returns.
    fn serve(listener: &UnixListener, lines: &[String], wait: impl Fn(usize)) {
        let (mut stream, _) = listener.accept().unwrap();
        BufReader::new(&stream).read_line(&mut String::new()).unwrap();
        for (number, line) in lines.iter().enumerate() {
            wait(number);
            stream.write_all(line.as_bytes()).unwrap();
        }
    }

    fn message(number: u64) -> String {
        let message = Queued {
            id: format!("{number:X}"),
            condition: Condition::New,
            accepted_ms: 1,
            bytes: 1,
            from: String::new(),
            to: Vec::new(),
            due_in_ms: None,
            reason: None,
        };
        format!("{}\n", serde_json::to_string(&Line::Message(message)).unwrap())
    }

    #[test]
    fn a_relay_that_starts_is_waited_for_and_one_that_ends_leaves_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        // Like a relay before it has a socket.
        let found = queue::open(directory, LIMIT, Sync::Never).unwrap();
        let error = list(directory, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("a relay is starting or stopping"), "{error}");
        let listener = UnixListener::bind(directory.join(SOCKET)).unwrap();
        // The thread is not joined: if the fix is missing, nobody connects, and the list below fails.
        std::thread::spawn(move || {
            // The first connection ends without an answer, the second with a notice that the relay is ending.
            for answer in ["", "\"ending\"\n"] {
                serve(&listener, &[answer.to_owned()], |_| {});
            }
            drop(listener);
            drop(found);
        });
        assert_eq!(list(directory, Duration::from_secs(60)).unwrap(), (0, 0));
    }

    /// A list may be larger than memory.
    #[test]
    fn a_list_is_passed_on_as_it_comes() {
        let folder = tempfile::tempdir().unwrap();
        let found = queue::open(folder.path(), LIMIT, Sync::Never).unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let (passed_on, came) = channel();
        let relay = std::thread::spawn(move || {
            let lines: Vec<String> =
                (1..4).map(message).chain(["{\"done\":{\"found\":3,\"changed\":3}}\n".to_owned()]).collect();
            serve(&listener, &lines, |number| {
                let before = number.checked_sub(1).map(|_| came.recv_timeout(Duration::from_secs(60)));
                assert!(before.is_none_or(|one| one.is_ok()), "message {number} is not passed on before the next");
            });
        });
        let listed =
            list_to(folder.path(), Duration::ZERO, &mut |message| passed_on.send(message.id).map_err(io::Error::other));
        relay.join().unwrap();
        assert_eq!(listed.unwrap(), (3, 3));
        drop(found);
    }

    #[test]
    fn a_list_that_is_cut_off_is_an_error_and_is_not_begun_again() {
        let folder = tempfile::tempdir().unwrap();
        let found = queue::open(folder.path(), LIMIT, Sync::Never).unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        // The list ends between messages, inside one, and with the notice that the relay is ending.
        for end in ["", "{\"message\":{\"id\":\"2", "\"ending\"\n"] {
            std::thread::scope(|threads| {
                let relay = threads.spawn(|| serve(&listener, &[message(1), end.to_owned()], |_| {}));
                let mut ids = Vec::new();
                let listed = list_to(folder.path(), Duration::from_secs(60), &mut |message| {
                    ids.push(message.id);
                    Ok(())
                });
                relay.join().unwrap();
                let error = listed.unwrap_err().to_string();
                assert!(error.contains("not complete") && error.contains("after message 1"), "{error}");
                assert_eq!(ids, ["1"], "{end:?}");
            });
        }
        drop(found);
    }

    #[test]
    fn a_closed_pipe_ends_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let found = queue::open(folder.path(), LIMIT, Sync::Never).unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        std::thread::scope(|threads| {
            let relay = threads.spawn(|| serve(&listener, &[message(1)], |_| {}));
            let listed = list_to(folder.path(), Duration::from_secs(60), &mut |_| Err(ErrorKind::BrokenPipe.into()));
            relay.join().unwrap();
            assert!(
                matches!(&listed, Err(Error::Output(error)) if error.kind() == ErrorKind::BrokenPipe),
                "{listed:?}"
            );
        });
        drop(found);
    }

    /// A starting relay holds the files but has no socket; only root can see that it uses the files of another user.
    #[test]
    fn another_user_is_told_whether_a_relay_uses_the_queue() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        drop(queue::open(directory, LIMIT, Sync::Never).unwrap());
        if landau_sys::process::effective_user() != 0 || chown(directory, Some(65534), None).is_err() {
            eprintln!("skipped: only root can give a directory to another user");
            return;
        }
        let told = || list(directory, Duration::ZERO).unwrap_err().to_string();
        assert!(told().contains("user 65534 owns the queue, and no relay is running"), "{}", told());
        let found = queue::open(directory, LIMIT, Sync::Never).unwrap();
        assert!(told().contains("a relay is starting or stopping"), "{}", told());
        drop(found);
    }

    /// A list does not sync the files that it finds, so it must not change any: a system crash could lose a copy whose
    /// original was deleted.
    #[test]
    fn a_list_changes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let found = queue::open(folder.path(), LIMIT, Sync::Never).unwrap();
        let mut writer = Writer::new(Arc::clone(&found.shared), Sync::Never);
        writer.add(&Meta::new(1, 1, "s@x", vec!["r@d".into()]), &[b"\r\n"]).unwrap();
        writer.commit(0).unwrap();
        drop(found);
        // The relay was killed between a move and the deletion of the first segment.
        let [old, new] = ["00000001.mail", "00000002.mail"].map(|name| folder.path().join(name));
        std::fs::copy(&old, &new).unwrap();
        assert_eq!(list(folder.path(), Duration::ZERO).unwrap(), (1, 1));
        assert!(old.exists() && new.exists());
        let flush = Request::new(Action::Flush, HashSet::new());
        ask_within(Duration::ZERO, folder.path(), &flush, &mut |_| Ok(()), &mut |_| {}).unwrap();
        assert!(!old.exists() && new.exists(), "another command does delete the original");
    }
}
