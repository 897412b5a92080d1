//! Batches: a queue of buffers and file ranges that leaves with as few calls as the kernel allows.
//!
//! Buffers that follow one another leave in one call, and a header and the file behind it in one segment. What did not
//! fit goes on at the byte where it stopped. A file that has become shorter than was promised is an error: the peer was
//! told a length, and nothing else could be put in its place.

use landau_sys::{Error as SystemError, stream};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// How many pieces one call takes at most; more would have to be copied by the kernel (its fast path holds 8).
const PIECES: usize = 16;

/// How much of a file one call sends at most: more would keep the loop from the others, while a fast peer drains it.
const FILE_TURN_BYTES: usize = 2 << 20;

/// Bytes of a batch.
#[derive(Debug, Clone)]
pub enum Buffer {
    /// That live as long as the program.
    Static(&'static [u8]),
    /// That belong to the batch.
    Owned(Box<[u8]>),
    /// That others read as well.
    Shared(Arc<[u8]>),
}

impl Buffer {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Static(bytes) => bytes,
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A file of a batch.
#[derive(Debug, Clone)]
pub enum File {
    /// That is closed when it was sent.
    Owned(Arc<OwnedFd>),
}

impl File {
    fn fd(&self) -> &OwnedFd {
        let Self::Owned(fd) = self;
        fd
    }
}

#[derive(Debug)]
enum Segment {
    Buffer { buffer: Buffer, from: usize },
    File { file: File, offset: u64, left: u64 },
}

/// How far a batch came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All of it left.
    Done,
    /// The peer takes no more for now; so many bytes left.
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
}

/// A queue of buffers and file ranges.
#[derive(Debug, Default)]
pub struct Batch {
    segments: VecDeque<Segment>,
}

impl Batch {
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
        let left = |segment: &Segment| match segment {
            Segment::Buffer { buffer, from } => (buffer.bytes().len() - from) as u64,
            Segment::File { left, .. } => *left,
        };
        self.segments.iter().map(left).sum()
    }

    /// Adds bytes.
    pub fn add(&mut self, buffer: Buffer) {
        self.add_from(buffer, 0);
    }

    /// Adds bytes, without the first `from` of them.
    pub fn add_from(&mut self, buffer: Buffer, from: usize) {
        if from < buffer.bytes().len() {
            self.segments.push_back(Segment::Buffer { buffer, from });
        }
    }

    /// Adds `count` bytes of a file from `offset`.
    pub fn add_file(&mut self, file: Arc<OwnedFd>, offset: u64, count: u64) {
        if count > 0 {
            self.segments.push_back(Segment::File { file: File::Owned(file), offset, left: count });
        }
    }

    /// Takes over all that is left of another.
    pub fn append(&mut self, other: &mut Self) {
        self.segments.append(&mut other.segments);
    }

    /// Forgets all that is left.
    pub fn clear(&mut self) {
        self.segments.clear();
    }

    /// Sends to a socket what fits.
    pub fn send(&mut self, socket: &impl AsFd) -> Result<Progress, Error> {
        let mut sent = 0;
        loop {
            let step = match self.segments.front() {
                None => return Ok(Progress::Done),
                Some(Segment::Buffer { .. }) => self.send_buffers(socket),
                Some(Segment::File { .. }) => self.send_file(socket),
            };
            match step {
                Ok(count) => sent += count,
                Err(Error::System(error)) if is_again(error) => return Ok(Progress::Blocked(sent)),
                Err(error) => return Err(error),
            }
            if sent >= FILE_TURN_BYTES && !self.is_empty() {
                return Ok(Progress::Yielded(sent));
            }
        }
    }

    fn send_buffers(&mut self, socket: &impl AsFd) -> Result<usize, Error> {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let mut count = 0;
        for segment in &self.segments {
            let Segment::Buffer { buffer, from } = segment else { break };
            if count == PIECES {
                break;
            }
            pieces[count] = IoSlice::new(&buffer.bytes()[*from..]);
            count += 1;
        }
        // What follows leaves in the same segment of the stream: the kernel waits for it.
        let more = count < self.segments.len();
        let sent = match &pieces[..count] {
            [one] => stream::send(socket, one, more)?,
            several => stream::send_vectored(socket, several, more)?,
        };
        self.advance(sent);
        Ok(sent)
    }

    fn send_file(&mut self, socket: &impl AsFd) -> Result<usize, Error> {
        let Some(Segment::File { file, offset, left }) = self.segments.front_mut() else { return Ok(0) };
        let turn = (*left).min(FILE_TURN_BYTES as u64) as usize;
        let sent = stream::send_file(socket, file.fd(), *offset, turn)?;
        if sent == 0 {
            return Err(Error::Truncated { offset: *offset, missing: *left });
        }
        *offset += sent as u64;
        *left -= sent as u64;
        if *left == 0 {
            self.segments.pop_front();
        }
        Ok(sent)
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

/// Whether a call would have blocked.
fn is_again(error: SystemError) -> bool {
    std::io::Error::from_raw_os_error(error.errno).kind() == std::io::ErrorKind::WouldBlock
}
