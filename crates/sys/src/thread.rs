//! Threads as a C program creates them, for benchmarks with many threads.

use crate::clock::monotonic_ns;
use crate::descriptor::wait_readable;
use crate::error::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The state that a thread and its creator share.
struct Slot {
    started_ns: AtomicU64,
    may_leave: Mutex<bool>,
    changed: Condvar,
    report: Arc<OwnedFd>,
}

/// A thread that reports that it runs, then sleeps until it is released.
pub struct Sleeper {
    thread: libc::pthread_t,
    slot: Arc<Slot>,
}

impl std::fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sleeper")
    }
}

// SAFETY: `pthread_t` is a handle that any thread of the process may use.
unsafe impl Send for Sleeper {}

/// The times of a thread's creation: `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Creation {
    /// Before `pthread_create`.
    pub before_ns: u64,
    /// After it returned.
    pub returned_ns: u64,
    /// In the thread, as the first thing it does.
    pub started_ns: u64,
    /// In its creator, after it read the thread's byte.
    pub read_ns: u64,
}

extern "C" fn sleep(argument: *mut libc::c_void) -> *mut libc::c_void {
    let started_ns = monotonic_ns();
    // SAFETY: `argument` is the result of `Arc::into_raw` that `Sleeper::new` passed to this thread alone.
    let slot = unsafe { Arc::from_raw(argument.cast_const().cast::<Slot>()) };
    slot.started_ns.store(started_ns, Ordering::Release);
    // SAFETY: the slot keeps the descriptor open, and the string holds the one byte.
    unsafe { libc::write(slot.report.as_raw_fd(), c"t".as_ptr().cast(), 1) };
    let mut may_leave = slot.may_leave.lock().unwrap_or_else(PoisonError::into_inner);
    while !*may_leave {
        may_leave = slot.changed.wait(may_leave).unwrap_or_else(PoisonError::into_inner);
    }
    std::ptr::null_mut()
}

impl Sleeper {
    /// Creates a thread with a stack size in bytes, or with the system's default if it is 0. Waits until the thread has
    /// written its byte into `report`, by reading it from `listen`, the other end of that pipe.
    ///
    /// A sleeper that is dropped without being joined sleeps until the process ends.
    pub fn new(report: &Arc<OwnedFd>, listen: &OwnedFd, stack_bytes: usize) -> Result<(Self, Creation)> {
        let slot = Arc::new(Slot {
            started_ns: AtomicU64::new(0),
            may_leave: Mutex::new(false),
            changed: Condvar::new(),
            report: Arc::clone(report),
        });
        let attributes = Attributes::new(stack_bytes)?;
        // SAFETY: `pthread_t` is an integer or a pointer, for which all zeroes is a value.
        let mut thread: libc::pthread_t = unsafe { std::mem::zeroed() };
        let given = Arc::into_raw(Arc::clone(&slot));
        let argument = given.cast_mut().cast();
        let before_ns = monotonic_ns();
        // SAFETY: `thread` is writable, the attributes are initialised, and the new thread takes over the reference.
        let error = unsafe { libc::pthread_create(&raw mut thread, attributes.pointer(), sleep, argument) };
        let returned_ns = monotonic_ns();
        if error != 0 {
            // SAFETY: no thread was created, so the reference that it was to take over is still ours.
            drop(unsafe { Arc::from_raw(given) });
            return Err(Error { call: "pthread_create", errno: error });
        }
        let sleeper = Self { thread, slot };
        let read_ns = read_byte(listen)?;
        let started_ns = sleeper.slot.started_ns.load(Ordering::Acquire);
        Ok((sleeper, Creation { before_ns, returned_ns, started_ns, read_ns }))
    }

    /// Releases the thread, which then ends some time later.
    pub fn release(&self) {
        *self.slot.may_leave.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.slot.changed.notify_one();
    }

    /// Waits until the thread has ended. It must have been released.
    #[inline(always)]
    pub fn join(self) -> Result<()> {
        // SAFETY: the thread is ours, joinable and, `self` being consumed, joined once.
        match unsafe { libc::pthread_join(self.thread, std::ptr::null_mut()) } {
            0 => Ok(()),
            errno => Err(Error { call: "pthread_join", errno }),
        }
    }
}

/// Blocks in `read` for one byte, as the benchmark requires, and returns the time after it.
fn read_byte(listen: &OwnedFd) -> Result<u64> {
    let mut byte = 0_u8;
    // SAFETY: the buffer has room for the one byte.
    let got = unsafe { libc::read(listen.as_raw_fd(), (&raw mut byte).cast(), 1) };
    let read_ns = monotonic_ns();
    match got {
        1 => Ok(read_ns),
        0 => Err(Error { call: "read", errno: libc::EPIPE }),
        _ => Err(Error::last("read")),
    }
}

/// Returns whether there is a byte that no creation is waiting for.
pub fn has_stray_byte(listen: &OwnedFd) -> Result<bool> {
    wait_readable(listen, 0)
}

/// Attributes of a thread; `None` for the system's defaults.
struct Attributes(Option<libc::pthread_attr_t>);

impl Attributes {
    fn new(stack_bytes: usize) -> Result<Self> {
        if stack_bytes == 0 {
            return Ok(Self(None));
        }
        // SAFETY: `pthread_attr_t` is plain data that `pthread_attr_init` fills.
        let mut raw: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
        // SAFETY: `raw` is writable.
        unsafe { libc::pthread_attr_init(&raw mut raw) };
        // SAFETY: `raw` was initialised above.
        match unsafe { libc::pthread_attr_setstacksize(&raw mut raw, stack_bytes) } {
            0 => Ok(Self(Some(raw))),
            errno => Err(Error { call: "pthread_attr_setstacksize", errno }),
        }
    }

    fn pointer(&self) -> *const libc::pthread_attr_t {
        self.0.as_ref().map_or(std::ptr::null(), std::ptr::from_ref)
    }
}
