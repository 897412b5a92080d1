//! Waking a reactor from another thread.

use landau_sys::Result;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes a reactor that waits, from any thread that knows its ends by the same numbers: one that shares the reactor's
/// table of descriptors, or whose table was one with it when the waker was made ([`Waker::new`]). Many calls before it
/// wakes cost one byte.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Line>);

/// Both ends of a pipe: while a waker lives so does the end that is read, and a wake that comes after its reactor is
/// gone is no signal that ends the process.
#[derive(Debug)]
struct Line {
    pending: AtomicBool,
    reading: PipeReader,
    writing: PipeWriter,
}

/// The reactor's end.
#[derive(Debug)]
pub(crate) struct Bell(Waker);

impl Waker {
    /// A waker for a reactor that is still to be made, perhaps by a thread with a table of descriptors of its own:
    /// made before that table is, its ends have the same numbers in both. See [`Reactor::register_waker`](crate::Reactor::register_waker).
    pub fn new() -> Result<Self> {
        Ok(Bell::new()?.0)
    }

    /// The numbers of its ends.
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.0.reading.as_raw_fd(), self.0.writing.as_raw_fd()]
    }

    /// Ends the wait that is under way, or the next one. Whatever was told to the reactor's thread by other means
    /// before this call, it finds when it looks after [`next_event`](crate::Reactor::next_event) has said that there is
    /// no more.
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

impl Bell {
    pub(crate) fn new() -> Result<Self> {
        // The standard library's pipe is not inherited by the programs that this one starts.
        let (reading, writing) = std::io::pipe().map_err(|error| landau_sys::Error::from_io("pipe", &error))?;
        landau_sys::stream::set_blocking(&reading, false)?;
        Ok(Self(Waker(Arc::new(Line { pending: AtomicBool::new(false), reading, writing }))))
    }

    pub(crate) fn of(waker: &Waker) -> Self {
        Self(waker.clone())
    }

    pub(crate) fn waker(&self) -> Waker {
        self.0.clone()
    }

    /// Takes the byte, if there is one, and only then lets the flag fall: whoever found it raised before has told of
    /// something that the user's next look will see. The other order could swallow the byte of a later wake.
    pub(crate) fn silence(&self) {
        let mut bytes = [0; 16];
        // A bell that is silent already (the null backend rings it always) says that it would block.
        while matches!((&self.0.0.reading).read(&mut bytes), Ok(count) if count == bytes.len()) {}
        self.0.0.pending.store(false, Ordering::Release);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.reading.as_fd()
    }
}
