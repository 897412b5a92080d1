//! Batches: a queue of buffers, file ranges and pipes that leaves with as few calls as the kernel allows.
//!
//! Buffers that follow one another leave in one call, and a header and the file behind it in one segment. What did not
//! fit goes on at the byte where it stopped. A file that has become shorter than was promised is an error: the peer was
//! told a length, and nothing else could be put in its place.
//!
//! | what is next | to a socket | to anything else |
//! |---|---|---|
//! | one buffer | `send` | `writev` |
//! | several | `sendmsg` | `writev` |
//! | a file | `sendfile`, after a `send` that said so | `sendfile`; read and written where that is refused |
//! | a pipe | `splice` | `splice` |
//!
//! A file that takes several turns leaves corked (`TCP_CORK`), or each would end in a small segment.
//!
//! A turn reads one file at most, so that whoever must not wait for a device can ask about it before
//! ([`Queue::next_file`]).
//!
//! Systems without `sendfile` and `splice` of this kind read and send. A call on a socket that took less than it was
//! given is not repeated: its buffer is full, and the next call would only say so.

use landau_sys::{Error as SystemError, path, stream};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How many pieces one call takes at most; more would have to be copied by the kernel (its fast path holds 8).
const PIECES: usize = 16;

/// How much leaves in one turn at most: more would keep the loop from the others, while a fast peer drains it. Where
/// several peers are as fast as that, they are the cheaper the more often they take turns: what one has been given
/// leaves while the next is given more.
pub const TURN_BYTES: usize = 256 << 10;

/// How much is read at once where it must be read to be sent.
const READ_BYTES: usize = 16 << 10;

/// Bytes of a batch.
#[derive(Debug, Clone)]
pub enum Bytes<'a> {
    /// That somebody else keeps for longer than the batch lives; for a [`Batch`], as long as the program.
    Borrowed(&'a [u8]),
    /// That belong to the batch.
    Owned(Box<[u8]>),
    /// That others read as well.
    Shared(Arc<[u8]>),
}

/// Bytes of a batch that borrows nothing.
pub type Buffer = Bytes<'static>;

impl Bytes<'_> {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A file or a pipe of a batch.
#[derive(Debug)]
pub enum File {
    /// That is closed when it was sent.
    Owned(OwnedFd),
    /// That others use as well.
    Shared(Arc<OwnedFd>),
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        Self::Owned(fd)
    }
}

impl From<Arc<OwnedFd>> for File {
    fn from(fd: Arc<OwnedFd>) -> Self {
        Self::Shared(fd)
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Owned(fd) => fd.as_fd(),
            Self::Shared(fd) => fd.as_fd(),
        }
    }
}

#[derive(Debug)]
enum Segment<'a> {
    Buffer { buffer: Bytes<'a>, from: usize },
    File { file: File, offset: u64, left: u64, is_corked: bool },
    Pipe { pipe: File, left: u64 },
}

impl Segment<'_> {
    fn is_file(&self) -> bool {
        matches!(self, Self::File { .. })
    }
}

/// How far a batch came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All of it left.
    Done,
    /// The peer takes no more for now, or a pipe has no more yet ([`Queue::starving_pipe`]); so many bytes left.
    Blocked(usize),
    /// It could go on, and others should have their turn; so many bytes left.
    Yielded(usize),
}

/// Why a batch cannot leave.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The file is shorter than was promised.
    #[error("the file became shorter while it was sent: {missing} bytes are missing from {offset} on")]
    Truncated {
        /// Where the file ends.
        offset: u64,
        /// How much was still to come.
        missing: u64,
    },
    /// The pipe ended before it had given what was promised.
    #[error("the pipe ended {missing} bytes early")]
    Ended {
        /// How much was still to come.
        missing: u64,
    },
}

impl Error {
    /// Whether it would have to wait, and can be tried again.
    pub fn is_blocked(&self) -> bool {
        matches!(self, Self::System(error) if error.is_would_block())
    }
}

/// What a batch is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Socket,
    /// A socket that is said the end right after.
    Ending,
    Other,
}

/// A queue of buffers, file ranges and pipes, of which buffers may be borrowed.
#[derive(Debug, Default)]
pub struct Queue<'a> {
    segments: VecDeque<Segment<'a>>,
}

/// A queue that borrows nothing, and can be kept as long as one likes.
pub type Batch = Queue<'static>;

impl<'a> Queue<'a> {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// How many bytes are left.
    pub fn bytes_left(&self) -> u64 {
        let left = |segment: &Segment<'_>| match segment {
            Segment::Buffer { buffer, from } => (buffer.bytes().len() - from) as u64,
            Segment::File { left, .. } | Segment::Pipe { left, .. } => *left,
        };
        self.segments.iter().map(left).sum()
    }

    /// Adds bytes.
    pub fn push(&mut self, buffer: Bytes<'a>) {
        self.push_from(buffer, 0);
    }

    /// Adds bytes, without the first `from` of them.
    pub fn push_from(&mut self, buffer: Bytes<'a>, from: usize) {
        if from < buffer.bytes().len() {
            self.segments.push_back(Segment::Buffer { buffer, from });
        }
    }

    /// Adds `count` bytes of a file from `offset`.
    pub fn push_file(&mut self, file: impl Into<File>, offset: u64, count: u64) {
        if count > 0 {
            self.segments.push_back(Segment::File { file: file.into(), offset, left: count, is_corked: false });
        }
    }

    /// Adds the next `count` bytes that come out of a pipe, whose reading end this is and which must not block.
    pub fn push_pipe(&mut self, pipe: impl Into<File>, count: u64) {
        if count > 0 {
            self.segments.push_back(Segment::Pipe { pipe: pipe.into(), left: count });
        }
    }

    /// Takes over all that is left of another.
    pub fn append(&mut self, other: &mut Self) {
        self.segments.append(&mut other.segments);
    }

    /// The same without anything borrowed: what was is copied.
    pub fn into_owned(self) -> Batch {
        let owned = |segment| match segment {
            Segment::Buffer { buffer: Bytes::Borrowed(bytes), from } => {
                Segment::Buffer { buffer: Bytes::Owned(bytes[from..].into()), from: 0 }
            }
            Segment::Buffer { buffer: Bytes::Owned(bytes), from } => {
                Segment::Buffer { buffer: Bytes::Owned(bytes), from }
            }
            Segment::Buffer { buffer: Bytes::Shared(bytes), from } => {
                Segment::Buffer { buffer: Bytes::Shared(bytes), from }
            }
            Segment::File { file, offset, left, is_corked } => Segment::File { file, offset, left, is_corked },
            Segment::Pipe { pipe, left } => Segment::Pipe { pipe, left },
        };
        Batch { segments: self.segments.into_iter().map(owned).collect() }
    }

    /// Forgets all that is left.
    pub fn clear(&mut self) {
        self.segments.clear();
    }

    /// What is left of the file that comes next, if it is one that the batch shares: file, offset and length, whatever
    /// buffers stand before it. A turn reads [`TURN_BYTES`] of it at most, and of no other: whoever must not wait for
    /// the device sees to it that this part is in memory before.
    pub fn next_file(&self) -> Option<(&Arc<OwnedFd>, u64, u64)> {
        match self.segments.iter().find(|segment| segment.is_file()) {
            Some(Segment::File { file: File::Shared(file), offset, left, .. }) => Some((file, *offset, *left)),
            _ => None,
        }
    }

    /// How many parts of files it holds.
    pub fn file_count(&self) -> usize {
        self.segments.iter().filter(|segment| segment.is_file()).count()
    }

    fn is_at_file(&self) -> bool {
        self.segments.front().is_some_and(Segment::is_file)
    }

    /// The pipe that comes next and has nothing to give yet, if that is what the batch waits for: it is to be watched
    /// for reading then, not the peer for writing.
    pub fn starving_pipe(&self) -> Option<BorrowedFd<'_>> {
        let Some(Segment::Pipe { pipe, .. }) = self.segments.front() else { return None };
        matches!(landau_sys::descriptor::wait_readable(&pipe.as_fd(), 0), Ok(false)).then(|| pipe.as_fd())
    }

    /// Takes the next piece off the front, for those who send by themselves: a buffer, or at most `most` bytes of a
    /// file as a buffer. None at the end, and for a pipe.
    pub fn pop(&mut self, most: usize) -> Result<Option<(Bytes<'a>, usize)>, Error> {
        self.pop_with(most, stream::read_at)
    }

    /// The same without waiting for the device: where nothing of the file's next piece is in memory, the error says
    /// that it would block.
    pub fn pop_cached(&mut self, most: usize) -> Result<Option<(Bytes<'a>, usize)>, Error> {
        self.pop_with(most, path::read_cached)
    }

    fn pop_with(
        &mut self,
        most: usize,
        read: impl FnOnce(&File, &mut [u8], u64) -> landau_sys::Result<usize>,
    ) -> Result<Option<(Bytes<'a>, usize)>, Error> {
        let (piece, is_done) = match self.segments.front_mut() {
            None | Some(Segment::Pipe { .. }) => return Ok(None),
            Some(Segment::Buffer { .. }) => match self.segments.pop_front() {
                Some(Segment::Buffer { buffer, from }) => return Ok(Some((buffer, from))),
                _ => return Ok(None),
            },
            Some(Segment::File { file, offset, left, .. }) => {
                let mut bytes = vec![0; (*left).min(most as u64) as usize];
                let got = read(file, &mut bytes, *offset)?;
                if got == 0 {
                    return Err(Error::Truncated { offset: *offset, missing: *left });
                }
                bytes.truncate(got);
                *offset += got as u64;
                *left -= got as u64;
                (Bytes::Owned(bytes.into()), *left == 0)
            }
        };
        if is_done {
            self.segments.pop_front();
        }
        Ok(Some((piece, 0)))
    }

    /// Reads up to `most` bytes off the front, copied behind what `into` holds: for what must be changed before it is
    /// sent. Of files it reads one, and none of the next; a pipe gives what is in it, and if that is nothing, the error
    /// says that it would block.
    pub fn read(&mut self, into: &mut Vec<u8>, most: usize) -> Result<usize, Error> {
        let start = into.len();
        let mut has_read_file = false;
        while into.len() - start < most && !(has_read_file && self.is_at_file()) {
            let room = most - (into.len() - start);
            let within = |left: u64| room.min(usize::try_from(left).unwrap_or(room));
            let left = match self.segments.front_mut() {
                None => break,
                Some(Segment::Buffer { buffer, from }) => {
                    let rest = &buffer.bytes()[*from..];
                    let count = room.min(rest.len());
                    into.extend_from_slice(&rest[..count]);
                    self.advance(count);
                    continue;
                }
                Some(Segment::File { file, offset, left, .. }) => {
                    let got = append(into, within(*left), |room| stream::read_at(file, room, *offset))?;
                    if got == 0 {
                        return Err(Error::Truncated { offset: *offset, missing: *left });
                    }
                    *offset += got as u64;
                    *left -= got as u64;
                    has_read_file |= *left == 0;
                    *left
                }
                Some(Segment::Pipe { pipe, left }) => {
                    let got = append(into, within(*left), |room| stream::read(pipe, room))?;
                    if got == 0 {
                        return Err(Error::Ended { missing: *left });
                    }
                    *left -= got as u64;
                    *left
                }
            };
            if left == 0 {
                self.segments.pop_front();
            }
        }
        Ok(into.len() - start)
    }

    /// Sends to a socket what fits.
    pub fn send(&mut self, socket: &impl AsFd) -> Result<Progress, Error> {
        self.go(socket, Target::Socket)
    }

    /// The same, if the caller says the end right after: what was sent last leaves with it, in one segment instead of
    /// two. Whoever does not say the end after all delays that by a fifth of a second.
    pub fn send_before_shutdown(&mut self, socket: &impl AsFd) -> Result<Progress, Error> {
        self.go(socket, Target::Ending)
    }

    /// Writes what fits to something that is no socket: a pipe, a terminal, a file.
    pub fn write(&mut self, to: &impl AsFd) -> Result<Progress, Error> {
        self.go(to, Target::Other)
    }

    fn go(&mut self, to: &impl AsFd, target: Target) -> Result<Progress, Error> {
        let (mut sent, mut has_sent_file) = (0, false);
        loop {
            let step = match self.segments.front() {
                None => return Ok(Progress::Done),
                Some(Segment::Buffer { .. }) => self.send_buffers(to, target),
                Some(Segment::File { .. }) if has_sent_file => return Ok(Progress::Yielded(sent)),
                Some(Segment::File { .. }) => {
                    let count = self.segments.len();
                    let step = self.send_file(to, target);
                    has_sent_file = self.segments.len() < count;
                    step
                }
                Some(Segment::Pipe { .. }) => self.send_pipe(to),
            };
            match step {
                Ok((count, is_full)) => {
                    sent += count;
                    if is_full && !self.is_empty() {
                        return Ok(Progress::Blocked(sent));
                    }
                }
                Err(Error::System(error)) if error.is_would_block() => {
                    return Ok(Progress::Blocked(sent));
                }
                Err(Error::System(error)) if error.is_interrupted() => {}
                Err(error) => return Err(error),
            }
            if sent >= TURN_BYTES && !self.is_empty() {
                return Ok(Progress::Yielded(sent));
            }
        }
    }

    /// Sends the buffers at the front; how many bytes, and whether that was less than could have been.
    fn send_buffers(&mut self, to: &impl AsFd, target: Target) -> Result<(usize, bool), Error> {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let (mut count, mut given) = (0, 0);
        for segment in &self.segments {
            let Segment::Buffer { buffer, from } = segment else { break };
            if count == PIECES {
                break;
            }
            pieces[count] = IoSlice::new(&buffer.bytes()[*from..]);
            given += pieces[count].len();
            count += 1;
        }
        // What follows leaves in the same segment of the stream: the kernel waits for it. Not for what a pipe may take
        // its time to give.
        let more = match self.segments.get(count) {
            None => target == Target::Ending,
            Some(Segment::Pipe { .. }) => false,
            Some(_) => true,
        };
        called();
        let sent = match (&pieces[..count], target) {
            (several, Target::Other) => stream::write_vectored(to, several)?,
            ([one], _) => stream::send(to, one, more)?,
            (several, _) => stream::send_vectored(to, several, more)?,
        };
        self.advance(sent);
        Ok((sent, sent < given && target != Target::Other))
    }

    fn send_file(&mut self, to: &impl AsFd, target: Target) -> Result<(usize, bool), Error> {
        let Some(Segment::File { file, offset, left, is_corked }) = self.segments.front_mut() else {
            return Ok((0, false));
        };
        let turn = (*left).min(TURN_BYTES as u64) as usize;
        if target != Target::Other && !*is_corked && (turn as u64) < *left {
            // What is no TCP socket has no segments.
            *is_corked = stream::set_cork(to, true).is_ok();
        }
        called();
        let sent = match stream::send_file(to, file, *offset, turn) {
            // Not to everything, and not everywhere: a file that is appended to, for one, takes no `sendfile`.
            Err(error) if target == Target::Other && !error.is_would_block() => copy(to, file, *offset, turn)?,
            other => other?,
        };
        if sent == 0 {
            return Err(Error::Truncated { offset: *offset, missing: *left });
        }
        *offset += sent as u64;
        *left -= sent as u64;
        if *left == 0 {
            if *is_corked {
                stream::set_cork(to, false)?;
            }
            self.segments.pop_front();
        }
        Ok((sent, false))
    }

    #[cfg(target_os = "linux")]
    fn send_pipe(&mut self, to: &impl AsFd) -> Result<(usize, bool), Error> {
        let Some(Segment::Pipe { pipe, left }) = self.segments.front_mut() else { return Ok((0, false)) };
        let turn = (*left).min(TURN_BYTES as u64) as usize;
        called();
        let sent = stream::splice(pipe, to, turn, false)?;
        if sent == 0 {
            return Err(Error::Ended { missing: *left });
        }
        *left -= sent as u64;
        if *left == 0 {
            self.segments.pop_front();
        }
        Ok((sent, false))
    }

    /// Read first: what was taken out of the pipe and does not fit waits as a buffer.
    #[cfg(not(target_os = "linux"))]
    fn send_pipe(&mut self, _: &impl AsFd) -> Result<(usize, bool), Error> {
        let Some(Segment::Pipe { pipe, left }) = self.segments.front_mut() else { return Ok((0, false)) };
        let mut bytes = vec![0; (*left).min(READ_BYTES as u64) as usize];
        let got = stream::read(pipe, &mut bytes)?;
        if got == 0 {
            return Err(Error::Ended { missing: *left });
        }
        bytes.truncate(got);
        *left -= got as u64;
        if *left == 0 {
            self.segments.pop_front();
        }
        self.segments.push_front(Segment::Buffer { buffer: Bytes::Owned(bytes.into()), from: 0 });
        Ok((0, false))
    }

    /// Takes so many bytes of buffers off the front.
    fn advance(&mut self, mut count: usize) {
        while let Some(Segment::Buffer { buffer, from }) = self.segments.front_mut() {
            let left = buffer.bytes().len() - *from;
            if count < left {
                *from += count;
                return;
            }
            count -= left;
            self.segments.pop_front();
        }
    }
}

/// Reads some of a file and writes what fits of it; 0 is the file's end.
fn copy(to: &impl AsFd, file: &File, offset: u64, count: usize) -> Result<usize, SystemError> {
    let mut buffer = [0; READ_BYTES];
    let got = stream::read_at(file, &mut buffer[..count.min(READ_BYTES)], offset)?;
    if got == 0 { Ok(0) } else { stream::write_vectored(to, &[IoSlice::new(&buffer[..got])]) }
}

#[cfg(not(test))]
fn called() {}

/// Appends what a call reads, at most so much.
fn append(
    into: &mut Vec<u8>,
    most: usize,
    read: impl FnOnce(&mut [u8]) -> landau_sys::Result<usize>,
) -> landau_sys::Result<usize> {
    let len = into.len();
    into.resize(len + most, 0);
    let got = read(&mut into[len..]);
    into.truncate(len + got.unwrap_or(0));
    got
}

#[cfg(test)]
use tests::called;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }

    pub(super) fn called() {
        CALLS.set(CALLS.get() + 1);
    }

    /// How many calls that move bytes something makes.
    fn calls<T>(what: impl FnOnce() -> T) -> (T, u32) {
        let before = CALLS.get();
        let result = what();
        (result, CALLS.get() - before)
    }

    fn file_of(bytes: &[u8]) -> OwnedFd {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.into()
    }

    /// Bytes of which no two stretches are alike.
    fn pattern(begin: usize, count: usize) -> Vec<u8> {
        (begin..begin + count).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    fn tcp_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        server.set_nonblocking(true).unwrap();
        (client, server)
    }

    fn read_some(from: &mut impl Read, got: &mut Vec<u8>, room: usize) {
        let mut buffer = vec![0; room];
        if let Ok(count) = from.read(&mut buffer) {
            got.extend_from_slice(&buffer[..count]);
        }
    }

    #[test]
    fn buffers_that_follow_one_another_are_one_call() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let borrowed = pattern(0, 10);
        let (mut batch, mut rest) = (Queue::new(), Queue::new());
        batch.push(Bytes::Borrowed(&borrowed));
        rest.push(Bytes::Owned(pattern(10, 10).into()));
        rest.push(Bytes::Owned(Box::default()));
        rest.push_from(Bytes::Shared(pattern(0, 30).into()), 20);
        batch.append(&mut rest);
        assert!(rest.is_empty());
        assert_eq!(batch.bytes_left(), 30);
        let (progress, count) = calls(|| batch.send(&here).unwrap());
        assert_eq!((progress, count, batch.is_empty()), (Progress::Done, 1, true));
        let mut got = [0; 30];
        there.read_exact(&mut got).unwrap();
        assert_eq!(got[..], pattern(0, 30));
    }

    #[test]
    fn a_header_and_its_file_are_two_calls() {
        let (here, mut there) = tcp_pair();
        let file = Arc::new(file_of(&pattern(0, 5000)));
        for round in 0..3 {
            let mut batch = Batch::new();
            batch.push(Bytes::Borrowed(b"head"));
            batch.push_file(file.clone(), round, 4000);
            let (progress, count) = calls(|| batch.send(&here).unwrap());
            assert_eq!((progress, count), (Progress::Done, 2));
            let mut got = Vec::new();
            while got.len() < 4004 {
                read_some(&mut there, &mut got, 8000);
            }
            assert!(got[..4] == *b"head" && got[4..] == pattern(0, 5000)[round as usize..][..4000]);
        }
    }

    #[test]
    fn many_buffers_are_as_many_calls_as_a_call_has_room_for() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut batch = Batch::new();
        for index in 0..=PIECES * 2 {
            batch.push(Bytes::Owned(pattern(index * 3, 3).into()));
        }
        let (progress, count) = calls(|| batch.send(&here).unwrap());
        assert_eq!((progress, count), (Progress::Done, 3));
        let mut got = vec![0; (PIECES * 2 + 1) * 3];
        there.read_exact(&mut got).unwrap();
        assert_eq!(got, pattern(0, got.len()));
    }

    #[test]
    fn a_full_socket_is_asked_once() {
        let (here, _there) = tcp_pair();
        let mut batch = Batch::new();
        batch.push(Bytes::Owned(vec![0; 64 << 20].into()));
        let (progress, count) = calls(|| batch.send(&here).unwrap());
        assert!(matches!(progress, Progress::Blocked(sent) if sent > 0) && count == 1, "{progress:?} {count}");
        assert!(batch.starving_pipe().is_none());
    }

    #[test]
    fn what_is_sent_before_the_end_leaves_with_it() {
        let (mut there, here) = tcp_pair();
        there.set_nonblocking(false).unwrap();
        let mut batch = Batch::new();
        batch.push(Bytes::Borrowed(b"head"));
        batch.push(Bytes::Borrowed(b"body"));
        assert_eq!(batch.send_before_shutdown(&here).unwrap(), Progress::Done);
        here.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = Vec::new();
        there.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"headbody");
    }

    #[test]
    fn a_large_file_yields_to_others() {
        let all = 3 * TURN_BYTES;
        let mut batch = Batch::new();
        batch.push_file(file_of(&vec![1; all]), 0, all as u64);
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let mut yields = 0;
        loop {
            match batch.write(&null).unwrap() {
                Progress::Done => break,
                Progress::Yielded(count) => yields += usize::from(count >= TURN_BYTES),
                Progress::Blocked(_) => panic!("nothing blocks here"),
            }
        }
        assert_eq!(yields, 2);
    }

    /// What a cork holds back for want of a full segment leaves with the file's end, and not a fifth of a second later.
    /// Where this machine is slow there are some attempts.
    #[test]
    fn the_end_of_a_large_file_leaves_at_once() {
        let all = 2 * TURN_BYTES + 1000;
        let file = Arc::new(file_of(&vec![1; all]));
        let is_quick = || {
            let (mut there, here) = tcp_pair();
            there.set_nonblocking(false).unwrap();
            let mut batch = Batch::new();
            batch.push_file(file.clone(), 0, all as u64);
            let reader = std::thread::spawn(move || {
                there.read_exact(&mut vec![0; all]).unwrap();
                std::time::Instant::now()
            });
            while batch.send(&here).unwrap() != Progress::Done {}
            let done = std::time::Instant::now();
            let got = reader.join().unwrap();
            got.saturating_duration_since(done) < std::time::Duration::from_millis(100)
        };
        assert!((0..5).any(|_| is_quick()));
    }

    /// What was asked about before a turn is all of files that the turn reads, whatever stands around it.
    #[test]
    fn a_turn_reads_one_file() {
        let (here, mut there) = tcp_pair();
        let file = Arc::new(file_of(&pattern(0, 5000)));
        let mut batch = Batch::new();
        for (head, offset) in [(&b"one"[..], 100), (b"two", 3000)] {
            batch.push(Bytes::Borrowed(head));
            batch.push_file(file.clone(), offset, 1000);
        }
        batch.push(Bytes::Borrowed(b"end"));
        let asked = |batch: &Batch| batch.next_file().map(|(_, offset, len)| (offset, len));
        assert_eq!(asked(&batch), Some((100, 1000)));
        assert_eq!(batch.send(&here).unwrap(), Progress::Yielded(1006), "a head and a file, and the next one's head");
        assert_eq!(asked(&batch), Some((3000, 1000)));
        let mut plain = Vec::new();
        batch.push_file(file.clone(), 0, 10);
        assert_eq!(batch.read(&mut plain, 9000).unwrap(), 1003);
        assert_eq!((asked(&batch), batch.read(&mut plain, 9000).unwrap()), (Some((0, 10)), 10));
        assert_eq!((asked(&batch), batch.is_empty()), (None, true));
        batch.push_file(file.clone(), 7, 20);
        let taken = batch.pop_cached(10).unwrap().unwrap();
        assert_eq!((taken.0.bytes(), taken.1, asked(&batch)), (&pattern(0, 5000)[7..17], 0, Some((17, 10))));
        let mut got = Vec::new();
        while got.len() < 1006 {
            read_some(&mut there, &mut got, 2000);
        }
        got.extend(plain);
        let all = pattern(0, 5000);
        assert!(got == [b"one", &all[100..1100], b"two", &all[3000..4000], b"end", &all[..10]].concat());
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let (here, _there) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(1000).unwrap();
        let shared = Arc::new(OwnedFd::from(file.try_clone().unwrap()));
        let mut batch = Batch::new();
        batch.push_file(shared, 100, 900);
        file.set_len(400).unwrap();
        let error = batch.send(&here).unwrap_err();
        assert!(matches!(error, Error::Truncated { offset: 400, missing: 600 }), "{error}");
        assert!(error.to_string().contains("600 bytes are missing from 400 on"));
        assert_eq!(batch.bytes_left(), 600);
        batch.clear();
        assert!(batch.is_empty());
    }

    #[test]
    fn a_file_of_its_own_is_closed_when_it_was_sent() {
        let (here, _there) = UnixStream::pair().unwrap();
        let (reading, writing) = std::io::pipe().unwrap();
        landau_sys::stream::set_blocking(&reading, false).unwrap();
        (&writing).write_all(b"abc").unwrap();
        let mut batch = Batch::new();
        batch.push_pipe(OwnedFd::from(reading), 3);
        assert_eq!(batch.send(&here).unwrap(), Progress::Done);
        assert_eq!((&writing).write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_pipe_that_has_nothing_yet_is_named() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let (reading, mut writing) = std::io::pipe().unwrap();
        landau_sys::stream::set_blocking(&reading, false).unwrap();
        let mut batch = Batch::new();
        batch.push(Bytes::Borrowed(b"head "));
        batch.push_pipe(OwnedFd::from(reading), 6);
        assert_eq!(batch.send(&here).unwrap(), Progress::Blocked(5));
        assert!(batch.starving_pipe().is_some());
        writing.write_all(b"abc").unwrap();
        assert!(batch.starving_pipe().is_none());
        assert_eq!(batch.send(&here).unwrap(), Progress::Blocked(3));
        drop(writing);
        let error = batch.send(&here).unwrap_err();
        assert!(matches!(error, Error::Ended { missing: 3 }), "{error}");
        let mut got = [0; 8];
        there.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"head abc");
    }

    #[test]
    fn to_a_file_that_is_appended_to_it_is_copied() {
        let mut to = tempfile::NamedTempFile::new().unwrap();
        let appending = std::fs::File::options().append(true).open(to.path()).unwrap();
        let mut batch = Batch::new();
        batch.push(Bytes::Borrowed(b"head"));
        batch.push_file(file_of(&pattern(0, 40_000)), 7, 30_000);
        assert_eq!(batch.write(&appending).unwrap(), Progress::Done);
        let mut got = Vec::new();
        to.read_to_end(&mut got).unwrap();
        assert!(got[..4] == *b"head" && got[4..] == pattern(0, 40_000)[7..30_007]);
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error() {
        let (here, there) = UnixStream::pair().unwrap();
        drop(there);
        let mut batch = Batch::new();
        batch.push(Bytes::Borrowed(b"x"));
        assert!(matches!(batch.send(&here).unwrap_err(), Error::System(_)));
    }

    #[derive(Debug, Clone)]
    enum Piece {
        Borrowed(usize),
        Owned(usize),
        Shared(usize, usize),
        File(usize, usize),
        Pipe(usize),
    }

    fn pieces() -> impl Strategy<Value = Vec<Piece>> {
        let count = prop_oneof![0..40_usize, 0..6_000_usize];
        let piece = prop_oneof![
            count.clone().prop_map(Piece::Borrowed),
            count.clone().prop_map(Piece::Owned),
            (count.clone(), 0..50_usize).prop_map(|(count, skip)| Piece::Shared(count, skip)),
            (prop_oneof![1..40_usize, 1..50_000_usize], 0..9_000_usize).prop_map(|(count, at)| Piece::File(count, at)),
            (1..9_000_usize).prop_map(Piece::Pipe),
        ];
        prop::collection::vec(piece, 0..25)
    }

    /// Adds the pieces, and gives the bytes that they are.
    fn fill<'a>(batch: &mut Queue<'a>, pieces: &[Piece], lent: &'a [u8], file: &Arc<OwnedFd>) -> Vec<u8> {
        let mut all = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let begin = index * 77;
            match *piece {
                Piece::Borrowed(count) => {
                    batch.push(Bytes::Borrowed(&lent[begin..begin + count]));
                    all.extend_from_slice(&lent[begin..begin + count]);
                }
                Piece::Owned(count) => {
                    batch.push(Bytes::Owned(pattern(begin, count).into()));
                    all.extend(pattern(begin, count));
                }
                Piece::Shared(count, skip) => {
                    batch.push_from(Bytes::Shared(pattern(begin, count).into()), skip);
                    all.extend(pattern(begin, count).into_iter().skip(skip));
                }
                Piece::File(count, at) => {
                    batch.push_file(file.clone(), at as u64, count as u64);
                    all.extend_from_slice(&lent[at..at + count]);
                }
                Piece::Pipe(count) => {
                    let (reading, mut writing) = std::io::pipe().unwrap();
                    stream::set_blocking(&reading, false).unwrap();
                    writing.write_all(&pattern(begin, count)).unwrap();
                    batch.push_pipe(OwnedFd::from(reading), count as u64);
                    all.extend(pattern(begin, count));
                }
            }
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        /// However little fits at a time, and wherever it stops: what arrives is what was given.
        #[test]
        fn what_arrives_is_what_was_given(
            pieces in pieces(),
            room in prop_oneof![1..50_usize, 500..20_000_usize],
            kind in 0..3_u8,
        ) {
            let lent = pattern(0, 60_000);
            let file = Arc::new(file_of(&lent));
            let mut batch = Queue::new();
            let given = fill(&mut batch, &pieces, &lent, &file);
            prop_assert_eq!(batch.bytes_left(), given.len() as u64);
            let (mut from, to, is_socket): (Box<dyn Read>, OwnedFd, bool) = match kind {
                0 => {
                    let (here, there) = UnixStream::pair().unwrap();
                    stream::set_send_buffer(&here, 1).unwrap();
                    there.set_nonblocking(true).unwrap();
                    (Box::new(there), here.into(), true)
                }
                1 => {
                    let (here, there) = tcp_pair();
                    stream::set_send_buffer(&here, 1).unwrap();
                    (Box::new(there), here.into(), true)
                }
                _ => {
                    let (reading, writing) = std::io::pipe().unwrap();
                    stream::set_blocking(&reading, false).unwrap();
                    (Box::new(reading), writing.into(), false)
                }
            };
            stream::set_blocking(&to, false).unwrap();
            let mut got = Vec::new();
            loop {
                let before = batch.bytes_left();
                let progress = if is_socket { batch.send(&to) } else { batch.write(&to) }.unwrap();
                if let Progress::Blocked(count) | Progress::Yielded(count) = progress {
                    prop_assert_eq!(before - batch.bytes_left(), count as u64);
                } else {
                    prop_assert!(batch.is_empty());
                }
                read_some(&mut from, &mut got, room.max(given.len() / 200));
                if progress == Progress::Done && got.len() >= given.len() {
                    break;
                }
            }
            prop_assert!(got == given, "{} bytes of {}", got.len(), given.len());
        }
    }
}
