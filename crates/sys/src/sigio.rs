//! Linux's queued signals for descriptors: a real-time signal with the descriptor's number for each change, read in
//! batches through a `signalfd`.
//!
//! A signal goes to the thread that asked for it and stays blocked there for good: one that came after its queue was
//! given up would otherwise end the process. When the system's queue is full, the kernel sends a plain `SIGIO`
//! instead, which says that something was lost and not what.

use crate::descriptor::own;
use crate::error::{Error, Result, check};
use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// `fcntl`: which signal to send; the C library's header has it, its Rust twin does not.
const SET_SIGNAL: libc::c_int = 10;
/// `fcntl`: whom to send it to.
const SET_OWNER: libc::c_int = 15;
/// `fcntl`: which signal is sent, and whom to.
const GET_SIGNAL: libc::c_int = 11;
const GET_OWNER: libc::c_int = 16;
const OWNER_IS_THREAD: libc::c_int = 0;

/// How many signals one read takes.
const BATCH: usize = 128;

#[repr(C)]
struct Owner {
    kind: libc::c_int,
    id: libc::pid_t,
}

/// Reading may go on, or an end was reached.
pub const READ: u32 = libc::POLLIN as u32;
/// Writing may go on.
pub const WRITE: u32 = libc::POLLOUT as u32;

thread_local! {
    /// Which real-time signals this thread's queues have taken, by their distance from the first.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
    /// How often this thread was told that signals were lost: each of its queues may have lost some.
    static LOST: Cell<u64> = const { Cell::new(0) };
}

/// What a signal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// The descriptor's number, as it was when it was given to the queue.
    pub fd: RawFd,
    /// What may be done, as `poll` has it.
    pub bits: u32,
}

/// The queue of this thread for one signal.
pub struct Queue {
    signal: libc::c_int,
    reading: OwnedFd,
    buffer: Box<[libc::signalfd_siginfo]>,
    lost_seen: u64,
    /// A queue belongs to the thread that made it.
    _thread: std::marker::PhantomData<*const ()>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue(signal {})", self.signal)
    }
}

impl Queue {
    /// A queue of this thread with a signal that no other queue of it has. EAGAIN if all are taken.
    pub fn new() -> Result<Self> {
        let first = libc::SIGRTMIN() + 1;
        let taken = TAKEN.get();
        let offset = taken.trailing_ones() as libc::c_int;
        let signal = first + offset;
        if signal >= libc::SIGRTMAX() {
            return Err(Error { call: "sigaddset", errno: libc::EAGAIN });
        }
        let set = set_of(&[signal, libc::SIGIO]);
        // SAFETY: the set is valid; the old mask is not asked for.
        let errno = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if errno != 0 {
            return Err(Error { call: "pthread_sigmask", errno });
        }
        // SAFETY: the set is valid; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
        let reading = check("signalfd", fd).map(own)?;
        TAKEN.set(taken | 1 << offset);
        // SAFETY: the structure is plain data for which all zeroes is a value.
        let buffer = vec![unsafe { std::mem::zeroed() }; BATCH].into_boxed_slice();
        let mut queue = Self { signal, reading, buffer, lost_seen: LOST.get(), _thread: std::marker::PhantomData };
        // What an earlier queue with this signal left behind.
        while queue.read(|_| ())? == BATCH {}
        queue.lost_seen = LOST.get();
        Ok(queue)
    }

    /// Has a signal queued whenever something happens to a descriptor. False if its kind does not do that, or if
    /// somebody has asked for its signals already, so that its number would not be the one that is told.
    pub fn add(&self, fd: RawFd) -> Result<bool> {
        let flags = control(fd, libc::F_GETFL, 0)?;
        if flags & libc::O_ASYNC != 0 {
            return Ok(false);
        }
        control(fd, SET_SIGNAL, self.signal)?;
        // SAFETY: the call takes nothing and gives this thread's number.
        let thread = unsafe { libc::gettid() };
        let owner = Owner { kind: OWNER_IS_THREAD, id: thread };
        // SAFETY: `owner` is what this call takes and lives as long as it.
        check("fcntl", unsafe { libc::fcntl(fd, SET_OWNER, &raw const owner) })?;
        control(fd, libc::F_SETFL, flags | libc::O_ASYNC)?;
        // A kind of descriptor that sends no signals ignores the wish without a word.
        Ok(control(fd, libc::F_GETFL, 0)? & libc::O_ASYNC != 0)
    }

    /// Has none queued any more.
    pub fn remove(&self, fd: RawFd) -> Result<()> {
        let flags = control(fd, libc::F_GETFL, 0)?;
        control(fd, libc::F_SETFL, flags & !libc::O_ASYNC)?;
        control(fd, SET_SIGNAL, 0).map(drop)
    }

    /// The same for a number that may have another owner by now: nothing happens unless the signals are this queue's.
    pub fn remove_if_ours(&self, fd: RawFd) {
        let mut owner = Owner { kind: OWNER_IS_THREAD, id: 0 };
        // SAFETY: `owner` is what this call writes to; a number that names no descriptor is an error.
        let asked = unsafe { libc::fcntl(fd, GET_OWNER, &raw mut owner) };
        // SAFETY: the call takes nothing and gives this thread's number.
        let thread = unsafe { libc::gettid() };
        let is_ours = owner.kind == OWNER_IS_THREAD && owner.id == thread;
        if asked >= 0 && is_ours && control(fd, GET_SIGNAL, 0) == Ok(self.signal) {
            // What fails here is gone already.
            let _ = self.remove(fd);
        }
    }

    /// Reads what is queued, a batch at most, and tells it; how many signals there were. Never waits.
    pub fn read(&mut self, mut tell: impl FnMut(Told)) -> Result<usize> {
        let (first, room) = (self.buffer.as_mut_ptr().cast(), size_of_val(&*self.buffer));
        // SAFETY: the buffer has room for `room` bytes.
        let got = unsafe { libc::read(self.reading.as_raw_fd(), first, room) };
        if got < 0 {
            let error = Error::last("read");
            return if error.is_would_block() { Ok(0) } else { Err(error) };
        }
        let count = got as usize / size_of::<libc::signalfd_siginfo>();
        for info in &self.buffer[..count] {
            if info.ssi_signo == libc::SIGIO as u32 {
                LOST.set(LOST.get() + 1);
            } else {
                tell(Told { fd: info.ssi_fd, bits: info.ssi_band });
            }
        }
        Ok(count)
    }

    /// How many signals one read takes at most.
    pub const fn batch() -> usize {
        BATCH
    }

    /// Whether this thread was told, since the last call, that signals were lost.
    pub fn has_lost(&mut self) -> bool {
        let seen = std::mem::replace(&mut self.lost_seen, LOST.get());
        seen != self.lost_seen
    }
}

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.reading.as_raw_fd()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        TAKEN.set(TAKEN.get() & !(1 << (self.signal - libc::SIGRTMIN() - 1)));
    }
}

fn control(fd: RawFd, command: libc::c_int, value: libc::c_int) -> Result<libc::c_int> {
    // SAFETY: these commands take an integer; a number that names no descriptor is an error the call reports.
    check("fcntl", unsafe { libc::fcntl(fd, command, value) })
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: the set is plain data for which all zeroes is a value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set may be written.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
        // SAFETY: the set may be written; each signal is a valid number.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_change_is_told_with_its_descriptor() {
        let mut queue = Queue::new().unwrap();
        let (reading, mut writing) = UnixStream::pair().unwrap();
        assert!(queue.add(reading.as_raw_fd()).unwrap());
        // A second wish for the same open file is refused: only one number can be told.
        assert!(!queue.add(reading.as_raw_fd()).unwrap());
        writing.write_all(b"x").unwrap();
        let mut told = Vec::new();
        queue.read(|one| told.push(one)).unwrap();
        assert!(told.len() == 1 && told[0].fd == reading.as_raw_fd() && told[0].bits & READ != 0, "{told:?}");
        queue.remove(reading.as_raw_fd()).unwrap();
        writing.write_all(b"x").unwrap();
        assert_eq!((queue.read(|_| ()), queue.has_lost()), (Ok(0), false));
        // What another queue has asked for is left to it.
        let other = Queue::new().unwrap();
        assert!(other.add(reading.as_raw_fd()).unwrap());
        queue.remove_if_ours(reading.as_raw_fd());
        assert!(!queue.add(reading.as_raw_fd()).unwrap());
        other.remove_if_ours(reading.as_raw_fd());
        assert!(queue.add(reading.as_raw_fd()).unwrap());
    }

    #[test]
    fn two_queues_of_a_thread_have_two_signals() {
        let (one, two) = (Queue::new().unwrap(), Queue::new().unwrap());
        assert_ne!(one.signal, two.signal);
    }

    #[test]
    fn a_file_sends_no_signals() {
        let queue = Queue::new().unwrap();
        assert!(!queue.add(tempfile::tempfile().unwrap().as_raw_fd()).unwrap());
    }
}
