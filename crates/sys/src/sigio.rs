//! Linux's signal-driven I/O: a queued real-time signal with the descriptor's number for each change (`F_SETSIG`), read
//! in batches through a `signalfd`.
//!
//! A signal goes to the thread that requested it and stays blocked there permanently: a signal that arrived after its
//! queue was dropped would otherwise end the process. When the system's queue is full, the kernel sends a plain SIGIO
//! instead, which reports that signals were lost, but not which ones.

use crate::descriptor::own;
use crate::error::{Error, Result, check};
use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// `F_SETSIG`: the signal to send. The `libc` crate lacks these constants.
const SET_SIGNAL: libc::c_int = 10;
/// `F_SETOWN_EX`: the thread to send it to.
const SET_OWNER: libc::c_int = 15;
/// `F_GETSIG` and `F_GETOWN_EX`: the commands that read these values.
const GET_SIGNAL: libc::c_int = 11;
const GET_OWNER: libc::c_int = 16;
const OWNER_IS_THREAD: libc::c_int = 0;

/// The maximum number of signals that one read returns.
const BATCH: usize = 128;

#[repr(C)]
struct Owner {
    kind: libc::c_int,
    id: libc::pid_t,
}

/// Readable, or the end of the stream.
pub const READ: u32 = libc::POLLIN as u32;
/// Writable.
pub const WRITE: u32 = libc::POLLOUT as u32;

thread_local! {
    /// The real-time signals in use by queues of this thread: a bit for each, counted from the first.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
    /// The number of times that a SIGIO reported lost signals of this thread: each of its queues may have lost some.
    static OVERFLOWS: Cell<u64> = const { Cell::new(0) };
}

/// A queued signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// The descriptor's number when it was added to the queue.
    pub fd: RawFd,
    /// The events, in the bits of `poll`.
    pub events: u32,
}

/// A queue of this thread for one real-time signal.
pub struct SignalQueue {
    signal: libc::c_int,
    reading: OwnedFd,
    buffer: Box<[libc::signalfd_siginfo]>,
    overflows_seen: u64,
    /// A queue belongs to the thread that made it.
    _thread: std::marker::PhantomData<*const ()>,
}

impl std::fmt::Debug for SignalQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SignalQueue({})", self.signal)
    }
}

impl SignalQueue {
    /// Creates a queue with a signal that no other queue of this thread uses. Fails with EAGAIN if all are in use.
    pub fn new() -> Result<Self> {
        let first = libc::SIGRTMIN() + 1;
        let taken = TAKEN.get();
        let offset = taken.trailing_ones() as libc::c_int;
        let signal = first + offset;
        if signal >= libc::SIGRTMAX() {
            return Err(Error { call: "sigaddset", errno: libc::EAGAIN });
        }
        let set = set_of(&[signal, libc::SIGIO]);
        // SAFETY: the set is initialised, and null says that the old mask is not wanted.
        let errno = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if errno != 0 {
            return Err(Error { call: "pthread_sigmask", errno });
        }
        // SAFETY: the set is initialised, and -1 creates a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
        let reading = check("signalfd", fd).map(own)?;
        TAKEN.set(taken | 1 << offset);
        // SAFETY: `signalfd_siginfo` consists of integers, so all zeroes is a value.
        let buffer = vec![unsafe { std::mem::zeroed() }; BATCH].into_boxed_slice();
        let mut queue =
            Self { signal, reading, buffer, overflows_seen: OVERFLOWS.get(), _thread: std::marker::PhantomData };
        // Discards signals that an earlier queue with this signal left behind.
        while queue.read(|_| ())? == BATCH {}
        queue.overflows_seen = OVERFLOWS.get();
        Ok(queue)
    }

    /// Requests a signal for each change of a descriptor. Returns false if descriptors of its kind send no signals, if
    /// its signals are requested already, possibly under another number, or if it is a listening socket. Threads and
    /// processes share listening sockets, but an open file has one owner and one number: two that request its signals
    /// at the same time would both believe that they receive them.
    pub fn add(&self, fd: RawFd) -> Result<bool> {
        let flags = control(fd, libc::F_GETFL, 0)?;
        if flags & libc::O_ASYNC != 0 || is_listening(fd)? {
            return Ok(false);
        }
        control(fd, SET_SIGNAL, self.signal)?;
        // SAFETY: the call takes nothing and cannot fail.
        let thread = unsafe { libc::gettid() };
        let owner = Owner { kind: OWNER_IS_THREAD, id: thread };
        // SAFETY: `owner` has the layout of `struct f_owner_ex` and is readable for the length of the call.
        check("fcntl", unsafe { libc::fcntl(fd, SET_OWNER, &raw const owner) })?;
        control(fd, libc::F_SETFL, flags | libc::O_ASYNC)?;
        // Descriptors that send no signals ignore the flag without an error.
        Ok(control(fd, libc::F_GETFL, 0)? & libc::O_ASYNC != 0)
    }

    /// Stops the signals of a descriptor.
    pub fn remove(&self, fd: RawFd) -> Result<()> {
        let flags = control(fd, libc::F_GETFL, 0)?;
        control(fd, libc::F_SETFL, flags & !libc::O_ASYNC)?;
        control(fd, SET_SIGNAL, 0).map(drop)
    }

    /// Like [`remove`](Self::remove), for a number that may have another owner by now: does nothing unless the signals
    /// are this queue's.
    pub fn remove_if_ours(&self, fd: RawFd) {
        let mut owner = Owner { kind: OWNER_IS_THREAD, id: 0 };
        // SAFETY: `owner` has the layout of `struct f_owner_ex` and is writable; a closed descriptor is an error.
        let asked = unsafe { libc::fcntl(fd, GET_OWNER, &raw mut owner) };
        // SAFETY: the call takes nothing and cannot fail.
        let thread = unsafe { libc::gettid() };
        let is_ours = owner.kind == OWNER_IS_THREAD && owner.id == thread;
        if asked >= 0 && is_ours && control(fd, GET_SIGNAL, 0) == Ok(self.signal) {
            // It fails only if the descriptor is closed by now.
            let _ = self.remove(fd);
        }
    }

    /// Calls a closure with the queued signals, at most [`batch`](Self::batch) of them. Returns their number. Never
    /// waits.
    pub fn read(&mut self, mut call: impl FnMut(Signal)) -> Result<usize> {
        let (first, room) = (self.buffer.as_mut_ptr().cast(), size_of_val(&*self.buffer));
        // SAFETY: the buffer is writable for `room` bytes, and any bytes are a valid `signalfd_siginfo`.
        let got = unsafe { libc::read(self.reading.as_raw_fd(), first, room) };
        if got < 0 {
            let error = Error::last("read");
            return if error.is_would_block() { Ok(0) } else { Err(error) };
        }
        let count = got as usize / size_of::<libc::signalfd_siginfo>();
        for info in &self.buffer[..count] {
            if info.ssi_signo == libc::SIGIO as u32 {
                OVERFLOWS.set(OVERFLOWS.get() + 1);
            } else {
                call(Signal { fd: info.ssi_fd, events: info.ssi_band });
            }
        }
        Ok(count)
    }

    /// Returns the maximum number of signals that one read returns.
    pub const fn batch() -> usize {
        BATCH
    }

    /// Returns whether signals of this thread were lost since the last call.
    pub fn has_overflowed(&mut self) -> bool {
        let seen = std::mem::replace(&mut self.overflows_seen, OVERFLOWS.get());
        seen != self.overflows_seen
    }
}

impl AsRawFd for SignalQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.reading.as_raw_fd()
    }
}

impl Drop for SignalQueue {
    fn drop(&mut self) {
        TAKEN.set(TAKEN.get() & !(1 << (self.signal - libc::SIGRTMIN() - 1)));
    }
}

/// Returns whether a descriptor is a listening socket.
fn is_listening(fd: RawFd) -> Result<bool> {
    match crate::socket::option(fd, libc::SO_ACCEPTCONN) {
        Err(Error { errno: libc::ENOTSOCK, .. }) => Ok(false),
        value => value.map(|value| value != 0),
    }
}

fn control(fd: RawFd, command: libc::c_int, value: libc::c_int) -> Result<libc::c_int> {
    // SAFETY: these commands take an integer; a closed descriptor is an error.
    check("fcntl", unsafe { libc::fcntl(fd, command, value) })
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: `sigset_t` consists of integers, so all zeroes is a value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is writable.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
        // SAFETY: the set is initialised and writable; an invalid signal number is an error.
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
    fn a_change_queues_a_signal_with_the_descriptor() {
        let mut queue = SignalQueue::new().unwrap();
        let (reading, mut writing) = UnixStream::pair().unwrap();
        assert!(queue.add(reading.as_raw_fd()).unwrap());
        // A second request for the same open file is refused: signals carry only one number.
        assert!(!queue.add(reading.as_raw_fd()).unwrap());
        writing.write_all(b"x").unwrap();
        let mut signals = Vec::new();
        queue.read(|one| signals.push(one)).unwrap();
        let is_readable = |signal: &Signal| signal.fd == reading.as_raw_fd() && signal.events & READ != 0;
        assert!(signals.len() == 1 && signals.iter().all(is_readable), "{signals:?}");
        queue.remove(reading.as_raw_fd()).unwrap();
        writing.write_all(b"x").unwrap();
        assert_eq!((queue.read(|_| ()), queue.has_overflowed()), (Ok(0), false));
        // Signals that another queue requested remain its own.
        let other = SignalQueue::new().unwrap();
        assert!(other.add(reading.as_raw_fd()).unwrap());
        queue.remove_if_ours(reading.as_raw_fd());
        assert!(!queue.add(reading.as_raw_fd()).unwrap());
        other.remove_if_ours(reading.as_raw_fd());
        assert!(queue.add(reading.as_raw_fd()).unwrap());
    }

    #[test]
    fn two_queues_of_a_thread_use_two_signals() {
        let (one, two) = (SignalQueue::new().unwrap(), SignalQueue::new().unwrap());
        assert_ne!(one.signal, two.signal);
    }

    #[test]
    fn a_file_sends_no_signals() {
        let queue = SignalQueue::new().unwrap();
        assert!(!queue.add(tempfile::tempfile().unwrap().as_raw_fd()).unwrap());
    }

    /// Another thread may share the socket.
    #[test]
    fn no_signals_are_requested_of_a_listening_socket() {
        let queue = SignalQueue::new().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!queue.add(listener.as_raw_fd()).unwrap());
        let connection = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(queue.add(connection.as_raw_fd()).unwrap());
    }
}
