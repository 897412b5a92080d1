//! Waking a reactor from another thread.

use landau_sys::Result;
use landau_sys::descriptor;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes a reactor that waits, from any thread. Many calls before it wakes cost one byte.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Line>);

#[derive(Debug)]
struct Line {
    pending: AtomicBool,
    writing: File,
}

/// The reactor's end.
#[derive(Debug)]
pub(crate) struct Bell {
    reading: File,
    waker: Waker,
}

impl Waker {
    /// Ends the wait that is under way, or the next one.
    pub fn wake(&self) -> Result<()> {
        if self.0.pending.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        (&self.0.writing).write_all(b"!").map_err(|error| landau_sys::Error::from_io("write", &error))
    }
}

impl Bell {
    pub(crate) fn new() -> Result<Self> {
        let (reading, writing) = descriptor::pipe()?;
        landau_sys::stream::set_blocking(&reading, false)?;
        let line = Line { pending: AtomicBool::new(false), writing: File::from(writing) };
        Ok(Self { reading: File::from(reading), waker: Waker(Arc::new(line)) })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Takes the byte, if there is one, and only then lets the flag fall: whoever found it raised before has told of
    /// something that the user's next look will see. The other order could swallow the byte of a later wake.
    pub(crate) fn silence(&self) {
        let mut bytes = [0; 16];
        // A bell that is silent already (the null mechanism rings it always) says that it would block.
        while matches!((&self.reading).read(&mut bytes), Ok(count) if count == bytes.len()) {}
        self.waker.0.pending.store(false, Ordering::Release);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reading.as_fd()
    }
}
