//! Waking a reactor from another thread.

use landau_sys::Result;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes a waiting reactor from another thread.
///
/// The thread must have the waker's descriptors under the same numbers: it shares the reactor's descriptor table, or
/// still shared it when the waker was made ([`Waker::new`]). Any number of calls before the reactor wakes write one
/// byte.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Pipe>);

/// Both ends of a pipe. The reading end lives as long as any waker, so that waking a dropped reactor is harmless and
/// raises no SIGPIPE.
#[derive(Debug)]
struct Pipe {
    pending: AtomicBool,
    reading: PipeReader,
    writing: PipeWriter,
}

/// The reactor's side of a [`Waker`].
#[derive(Debug)]
pub(crate) struct Receiver(Waker);

impl Waker {
    /// Creates a waker for a reactor that will be made later, perhaps by a thread with a separate descriptor table: if
    /// the waker is made first, its descriptors have the same numbers in both tables. See
    /// [`Reactor::register_waker`](crate::Reactor::register_waker).
    pub fn new() -> Result<Self> {
        // The standard library's pipe is close-on-exec.
        let (reading, writing) = std::io::pipe().map_err(|error| landau_sys::Error::from_io("pipe", &error))?;
        landau_sys::stream::set_blocking(&reading, false)?;
        Ok(Self(Arc::new(Pipe { pending: AtomicBool::new(false), reading, writing })))
    }

    /// Returns the numbers of both descriptors.
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.0.reading.as_raw_fd(), self.0.writing.as_raw_fd()]
    }

    /// Ends the wait that is in progress, or the next one.
    ///
    /// Work that was passed to the reactor's thread by other means before this call is visible to it, if it checks for
    /// work after [`next_event`](crate::Reactor::next_event) has returned `None`.
    pub fn wake(&self) -> Result<()> {
        if self.0.pending.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        (&self.0.writing).write_all(b"!").map_err(|error| {
            self.0.pending.store(false, Ordering::Release);
            landau_sys::Error::from_io("write", &error)
        })
    }
}

impl Receiver {
    pub(crate) fn of(waker: &Waker) -> Self {
        Self(waker.clone())
    }

    pub(crate) fn waker(&self) -> Waker {
        self.0.clone()
    }

    /// Reads the byte, if there is one, and then clears the flag: a thread that found the flag still set has passed on
    /// its work before, and the reactor's next check will find it. In the other order, the byte of a later wake could
    /// be lost.
    pub(crate) fn clear(&self) {
        let mut bytes = [0; 16];
        // Nothing to read is not an error: the null backend reports the waker in every wait.
        while matches!((&self.0.0.reading).read(&mut bytes), Ok(count) if count == bytes.len()) {}
        // Not a store: the reactor's next check could be reordered before it. A wake between the two would then be
        // mistaken for this one, and its work would not be seen.
        self.0.0.pending.swap(false, Ordering::AcqRel);
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.reading.as_fd()
    }
}
