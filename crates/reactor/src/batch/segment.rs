//! The elements of a queue: buffers and file ranges.

use landau_sys::bytes::Bytes;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A file in a batch.
#[derive(Debug)]
pub enum File {
    /// Owned, and closed after it was sent.
    Owned(OwnedFd),
    /// Shared with other users.
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
pub(super) enum Segment<'a> {
    Buffer {
        buffer: Bytes<'a>,
        from: usize,
    },
    /// `is_corked` states that the file takes several calls, and that only full segments leave until its end.
    File {
        file: File,
        offset: u64,
        left: u64,
        is_corked: bool,
    },
}

impl Segment<'_> {
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    pub(super) fn bytes_left(&self) -> u64 {
        match self {
            Self::Buffer { buffer, from } => (buffer.bytes().len() - from) as u64,
            Self::File { left, .. } => *left,
        }
    }

    /// Returns the memory of its buffer in bytes; for a shared buffer, an equal part for each current holder, not
    /// counting its origin.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Buffer { buffer: Bytes::Owned(bytes), .. } => bytes.len(),
            Self::Buffer { buffer: Bytes::Shared(bytes), .. } => bytes.len() / (Arc::strong_count(bytes) - 1).max(1),
            Self::Buffer { buffer: Bytes::Borrowed(_), .. } | Self::File { .. } => 0,
        }
    }

    pub(super) fn into_owned(self) -> Segment<'static> {
        match self {
            Self::Buffer { buffer, from } => {
                let (buffer, from) = buffer.into_owned(from);
                Segment::Buffer { buffer, from }
            }
            Self::File { file, offset, left, is_corked } => Segment::File { file, offset, left, is_corked },
        }
    }
}
