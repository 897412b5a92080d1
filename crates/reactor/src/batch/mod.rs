//! Batches: queues of buffers and file ranges that are sent with as few system calls as the kernel allows.
//!
//! Consecutive buffers are sent by one call, and a header leaves in one segment with the start of the file behind it. A
//! partial send continues at the byte where it stopped. A file that has become shorter than its queued range is an
//! error: the peer has already received the length, and no other data could replace the missing bytes.
//!
//! | next in the queue | to a socket | to anything else |
//! |---|---|---|
//! | one buffer | `send` | `writev` |
//! | several | `sendmsg` | `writev` |
//! | a file | `sendfile`, after a `send` with `MSG_MORE` | `sendfile`; read and written if that is refused |
//!
//! A file that takes several turns is sent corked (`TCP_CORK`), since each turn would otherwise end in a small segment.
//!
//! One turn reads at most one file, so that a caller that must not wait for a device can check that file first
//! ([`Queue::next_file`]).
//!
//! On systems without Linux's `sendfile`, files are read and sent instead. After a short write to a socket, the call is
//! not repeated: the send buffer is full, and the next call would only report that. A `sendfile` may be short for other
//! reasons, so it is repeated if `poll` finds the socket writable.

mod read;
mod segment;
mod send;
#[cfg(test)]
mod tests;

pub use landau_sys::bytes::{Buffer, Bytes};
pub use segment::File;
pub use send::TURN_BYTES;

use landau_sys::Error as SystemError;
use segment::Segment;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The result of sending a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Everything was sent.
    Done,
    /// The peer accepts no more for now. This many bytes were sent.
    Blocked(usize),
    /// More could be sent, but other connections should have their turn, or the next file must be checked first. This
    /// many bytes were sent.
    Yielded(usize),
}

/// An error of sending or reading a batch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A file is shorter than the range that was queued.
    #[error("file truncated while it was being sent: {missing} bytes missing at offset {offset}")]
    Truncated {
        /// The offset at which the file ends.
        offset: u64,
        /// The number of bytes that were still to be sent.
        missing: u64,
    },
}

impl Error {
    /// Returns whether the operation would block and can be tried again.
    pub fn is_would_block(&self) -> bool {
        matches!(self, Self::System(error) if error.is_would_block())
    }
}

/// A queue of buffers and file ranges. Buffers may be borrowed for `'a`.
#[derive(Debug, Default)]
pub struct Queue<'a> {
    segments: VecDeque<Segment<'a>>,
}

/// A queue that borrows nothing, and can be kept as long as needed.
pub type Batch = Queue<'static>;

impl<'a> Queue<'a> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns the number of bytes in the queue.
    pub fn bytes_left(&self) -> u64 {
        self.segments.iter().map(Segment::bytes_left).sum()
    }

    /// Returns the memory of the buffers in bytes, including the parts that were sent already. A shared buffer counts
    /// in equal parts for its holders, not counting its origin, such as a cache.
    pub fn memory_bytes(&self) -> usize {
        let segments = self.segments.capacity() * size_of::<Segment<'_>>();
        segments + self.segments.iter().map(Segment::memory_bytes).sum::<usize>()
    }

    /// Appends a buffer.
    pub fn push(&mut self, buffer: Bytes<'a>) {
        self.push_from(buffer, 0);
    }

    /// Appends a buffer without its first `from` bytes.
    pub fn push_from(&mut self, buffer: Bytes<'a>, from: usize) {
        if from < buffer.bytes().len() {
            self.segments.push_back(Segment::Buffer { buffer, from });
        }
    }

    /// Appends `count` bytes of a file from `offset` on.
    pub fn push_file(&mut self, file: impl Into<File>, offset: u64, count: u64) {
        if count > 0 {
            self.segments.push_back(Segment::File { file: file.into(), offset, left: count, is_corked: false });
        }
    }

    /// Moves the contents of another queue to the end of this one.
    pub fn append(&mut self, other: &mut Self) {
        self.segments.append(&mut other.segments);
    }

    /// Converts the queue into one that borrows nothing, by copying borrowed buffers.
    pub fn into_owned(self) -> Batch {
        Batch { segments: self.segments.into_iter().map(Segment::into_owned).collect() }
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.segments.clear();
    }

    /// Returns the next file in the queue, if it is shared: the file, and the offset and the length of the remaining
    /// range. There may be buffers before it. One turn reads at most [`TURN_BYTES`] of this file, and no other: a
    /// caller that must not wait for the device makes sure first that this part is in memory.
    pub fn next_file(&self) -> Option<(&Arc<OwnedFd>, u64, u64)> {
        match self.segments.iter().find(|segment| segment.is_file()) {
            Some(Segment::File { file: File::Shared(file), offset, left, .. }) => Some((file, *offset, *left)),
            _ => None,
        }
    }

    /// Returns the number of file ranges in the queue.
    pub fn file_count(&self) -> usize {
        self.segments.iter().filter(|segment| segment.is_file()).count()
    }

    fn is_at_file(&self) -> bool {
        self.segments.front().is_some_and(Segment::is_file)
    }

    /// Removes `count` bytes of buffers from the front.
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
