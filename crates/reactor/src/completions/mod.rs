//! Completion-based I/O on `io_uring`: accepting, receiving and sending as operations.
//!
//! A [`Reactor`](crate::Reactor) reports that a descriptor is readable, and the caller reads it: two system calls. A
//! [`Ring`] reports that data *was* received. Connections are accepted and data is received as they arrive, without a
//! request for each and without a buffer for every waiting connection: the kernel takes a provided buffer when data
//! arrives. Data to send is submitted with the next wait. Several buffers form a chain, in which each is sent only
//! after the previous one was sent completely. One system call submits, waits and completes.
//!
//! ```
//! # #![cfg(target_os = "linux")]
//! use landau_reactor::Token;
//! use landau_reactor::completions::{Buffer, Completion, Ring};
//! use std::io::{Read, Write};
//! use std::os::unix::net::UnixStream;
//!
//! // A system may forbid io_uring.
//! let Ok(mut ring) = Ring::new() else { return Ok(()) };
//! let (here, mut there) = UnixStream::pair()?;
//! ring.receive(&here, Token(7))?;
//! there.write_all(b"ping")?;
//! loop {
//!     ring.wait(None)?;
//!     match ring.next_completion()? {
//!         Some(Completion::Received { buffer, .. }) => {
//!             assert_eq!(ring.bytes(&buffer), b"ping");
//!             ring.recycle(buffer);
//!             ring.send_all(&here, [Buffer::Borrowed(b"po"), Buffer::Borrowed(b"ng")])?;
//!             assert_eq!(ring.unsent(&here), 4);
//!         }
//!         Some(Completion::Sent { byte_count, .. }) => {
//!             assert_eq!((byte_count, ring.unsent(&here)), (4, 0));
//!             break;
//!         }
//!         _ => {}
//!     }
//! }
//! ring.abort(here.into())?;
//! let mut got = String::new();
//! there.read_to_string(&mut got)?;
//! assert_eq!(got, "pong");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `landau serve` receives through a ring and sends directly: a ring has no `sendfile`, and sending through it cost
//! more CPU time in every row of the table in docs/serve.md. A caller that does the sending itself polls a full
//! connection with [`Ring::watch_writable`].
//!
//! | | with multishot operations | without |
//! |---|---|---|
//! | accept | one request for all connections (Linux 5.19) | one for each |
//! | receive | one request for all data, provided buffers (6.0) | one for each receive, with its own buffer |
//!
//! # Parking
//!
//! A pending receive costs the kernel three times as much memory as a poll (about 800 bytes and 256 on Linux 6.18). A
//! connection that will be silent for long can be *parked* ([`Ring::park`]): its receive is cancelled and a poll takes
//! its place. When data arrives, the ring receives again automatically.
//!
//! # Backpressure
//!
//! A peer that sends faster than it is answered can be paused ([`Ring::pause`]): nothing more is received until the
//! ring resumes, so the data fills the kernel's buffers and then those of the peer. [`Ring::unsent`] returns how much
//! is still to be sent.
//!
//! # Errors
//!
//! - If no provided buffer is free, the connection is starved: it receives again after buffers were recycled.
//! - If accepting fails, for example for lack of a descriptor, the error is returned and the listener accepts again
//!   after 100 ms. It does the same, without reporting an error, if the next accept cannot be submitted.
//! - If the completion queue overflows, the kernel keeps the completions. Multishot operations may end because of it;
//!   the ring submits them again.
//! - The completion of an operation on a descriptor that was closed is dropped, including its data or connection.
//!
//! A ring holds an open file while an operation on it is in flight: a closed descriptor is released in the next wait.

mod dispatch;
mod receive;
mod send;
mod slot;

use crate::Backend;
use crate::backend::{Key, io_uring::unavailable, settle};
use crate::clock::{Clock, ManualClock};
use crate::error::{Error, Result};
use crate::interest::Token;
use crate::reactor::shorter_ms;
use crate::timers::Timers;
use crate::waker::{Receiver, Waker};
use landau_sys::Error as SystemError;
use landau_sys::epoll::READ;
use landau_sys::ring::Operations;
use slot::{Reading, Slot};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

pub use landau_sys::bytes::Buffer;
pub use landau_sys::ring::{Features, Options, ProvidedBuffer};

/// The time for which a listener pauses after a failed accept, in milliseconds.
const ACCEPT_PAUSE_MS: u32 = 100;

/// The `user_data` of the waker's poll: not a key, because no descriptor has that number.
const WAKER: u64 = 0x7fff_ffff;

/// The bit of `user_data` that marks a poll for writing: no descriptor has so high a number.
const WRITABLE: u64 = 1 << 30;

/// A completed operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Completion {
    /// A connection was accepted. It is nonblocking and close-on-exec.
    Accepted {
        /// The listener's token.
        token: Token,
        /// The connection.
        connection: OwnedFd,
    },
    /// Data was received. Return its buffer with [`Ring::recycle`].
    Received {
        /// The connection's token.
        token: Token,
        /// The data; see [`Ring::bytes`].
        buffer: ProvidedBuffer,
    },
    /// The peer has shut down its writing half.
    Ended {
        /// The connection's token.
        token: Token,
    },
    /// Everything that was queued to be sent was sent.
    Sent {
        /// The connection's token.
        token: Token,
        /// The number of bytes since the last such completion.
        byte_count: u64,
    },
    /// The connection is writable, or has failed, which the next attempt to send reports.
    Writable {
        /// The connection's token.
        token: Token,
    },
    /// An operation failed. A connection cannot be used for that operation again; a listener continues automatically.
    Failed {
        /// The token of the listener or connection.
        token: Token,
        /// The error.
        error: SystemError,
    },
    /// A deadline has passed.
    Deadline {
        /// The token of the listener or connection.
        token: Token,
    },
}

/// A ring of operations. It belongs to one thread; only its [`Waker`] may be used from another.
///
/// While the ring is in use, a descriptor that is registered must be closed by it ([`Self::close`] or [`Self::abort`]),
/// because operations that are queued contain its number. A ring that is dropped submits only what closes descriptors.
#[derive(Debug)]
pub struct Ring {
    operations: Operations,
    slots: Vec<Slot>,
    registered_count: usize,
    /// Connections for which there was no buffer.
    starved: Vec<Key>,
    /// Paused listeners, and the times at which they accept again.
    paused_listeners: Vec<(u32, Key)>,
    timers: Timers,
    due: VecDeque<Key>,
    clock: Clock,
    now_ms: u32,
    waker: Option<Receiver>,
    /// The number of accepts whose submission is to fail.
    #[cfg(test)]
    refused_accepts: u32,
}

impl Ring {
    /// Creates a ring with queues that suit a server ([`Options::default`]). Fails with [`Error::Unavailable`] if the
    /// system has no `io_uring`.
    pub fn new() -> Result<Self> {
        Self::with_options(Options::default())
    }

    /// Creates a ring with the given options.
    pub fn with_options(options: Options) -> Result<Self> {
        let operations = Operations::new(options).map_err(|error| unavailable(Backend::IoUring, error))?;
        Ok(Self {
            operations,
            slots: Vec::new(),
            registered_count: 0,
            starved: Vec::new(),
            paused_listeners: Vec::new(),
            timers: Timers::default(),
            due: VecDeque::new(),
            clock: Clock::system(),
            now_ms: 0,
            waker: None,
            #[cfg(test)]
            refused_accepts: 0,
        })
    }

    /// Returns a description of the kernel features in use.
    pub fn note(&self) -> String {
        self.operations.setup()
    }

    /// Returns the number of registered listeners and connections.
    pub fn len(&self) -> usize {
        self.registered_count
    }

    /// Returns whether none is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of operations in flight. A parked connection has none.
    pub fn operation_count(&self) -> usize {
        self.operations.operation_count()
    }

    fn register(&mut self, fd: &impl AsFd, token: Token) -> Result<Key> {
        let number = fd.as_fd().as_raw_fd();
        let index = number as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, Slot::default);
        }
        let slot = &mut self.slots[index];
        if slot.is_registered {
            return Err(Error::Registered(number));
        }
        let generation = slot.generation.wrapping_add(1);
        *slot = Slot { token: token.0, generation, is_registered: true, ..Slot::default() };
        self.registered_count += 1;
        Ok(Key::new(number, generation))
    }

    /// Undoes a registration whose first operation failed: the caller closes the descriptor, and its number will have
    /// another owner.
    fn registered(&mut self, key: Key, started: Result<()>) -> Result<()> {
        if started.is_err() {
            self.forget(key);
        }
        started
    }

    /// Returns the slot of a key, if its descriptor is still registered.
    fn slot(&mut self, key: Key) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(key.fd() as usize)?;
        (slot.is_registered && slot.generation == key.generation()).then_some(slot)
    }

    fn key(&self, fd: &impl AsFd) -> Result<Key> {
        let number = fd.as_fd().as_raw_fd();
        let slot = self.slots.get(number as usize).filter(|slot| slot.is_registered);
        slot.map(|slot| Key::new(number, slot.generation)).ok_or(Error::Unregistered(number))
    }

    /// Closes a connection after everything that was queued was sent, or a listener at once. It has no further
    /// completions. A deadline remains in force: when it passes, the connection is closed even if not everything was
    /// sent.
    pub fn close(&mut self, fd: OwnedFd) -> Result<()> {
        let key = self.key(&fd)?;
        self.cancel(key)?;
        self.stop_watching_writable(key)?;
        let slot = &mut self.slots[key.fd() as usize];
        if let Some(outgoing) = slot.outgoing.as_mut().filter(|one| one.in_flight > 0 || !one.queue.is_empty()) {
            outgoing.closing = Some(fd);
            return Ok(());
        }
        self.forget(key);
        self.operations.close(fd, key.0)?;
        Ok(())
    }

    /// Closes a connection at once. A part of the queued data may have been sent.
    pub fn abort(&mut self, fd: OwnedFd) -> Result<()> {
        let key = self.key(&fd)?;
        self.cancel(key)?;
        self.stop_watching_writable(key)?;
        // This ends the operations in flight, which hold the open file.
        let _ = landau_sys::stream::shutdown(&fd);
        self.forget(key);
        self.operations.close(fd, key.0)?;
        Ok(())
    }

    /// Cancels the operation that a descriptor waits for.
    fn cancel(&mut self, key: Key) -> Result<()> {
        match std::mem::take(&mut self.slots[key.fd() as usize].reading) {
            Reading::Accepting(Some(id)) | Reading::Receiving(Some(id)) | Reading::ReceivingOnce(Some(id)) => {
                Ok(self.operations.cancel(id)?)
            }
            Reading::Parked => Ok(self.operations.poll_remove(key.0)?),
            // Cancelled already, or nothing in flight.
            Reading::Parking(_)
            | Reading::Pausing(_)
            | Reading::Paused
            | Reading::Idle
            | Reading::Stopping
            | Reading::Accepting(None)
            | Reading::Receiving(None)
            | Reading::ReceivingOnce(None) => Ok(()),
        }
    }

    fn forget(&mut self, key: Key) {
        let slot = &mut self.slots[key.fd() as usize];
        slot.is_registered = false;
        slot.outgoing = None;
        self.registered_count -= 1;
        self.timers.clear(key.fd() as u32);
    }

    /// Sets or moves the deadline of a descriptor. It completes once. An earlier deadline that a wait found and
    /// [`next_completion`](Self::next_completion) has not returned yet does not complete.
    pub fn set_deadline(&mut self, fd: &impl AsFd, delay: Duration) {
        let delay_ms = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
        self.timers.set(fd.as_fd().as_raw_fd() as u32, self.now_ms, delay_ms);
    }

    /// Clears the deadline of a descriptor, even if it was found and not returned yet.
    pub fn clear_deadline(&mut self, fd: &impl AsFd) {
        self.timers.clear(fd.as_fd().as_raw_fd() as u32);
    }

    /// Returns the milliseconds from the creation of the ring to the end of the last wait, modulo 2³².
    pub fn now_ms(&self) -> u32 {
        self.now_ms
    }

    /// Measures deadlines with a clock that the caller advances, for tests. Set it before the first deadline.
    pub fn set_clock(&mut self, clock: &ManualClock) {
        self.clock = Clock::Manual(clock.clone());
        self.now_ms = self.clock.now_ms();
    }

    /// Returns a handle that ends a wait from another thread.
    pub fn waker(&mut self) -> Result<Waker> {
        if let Some(receiver) = &self.waker {
            return Ok(receiver.waker());
        }
        let waker = Waker::new()?;
        self.register_waker(&waker)?;
        Ok(waker)
    }

    /// Registers an existing waker. A ring has one waker; registering a second is an error.
    pub fn register_waker(&mut self, waker: &Waker) -> Result<()> {
        if let Some(receiver) = &self.waker {
            return Err(Error::Registered(receiver.as_fd().as_raw_fd()));
        }
        let receiver = Receiver::of(waker);
        self.operations.poll_add(receiver.as_fd().as_raw_fd(), READ, WAKER)?;
        self.waker = Some(receiver);
        Ok(())
    }

    /// Submits the queued operations and waits until an operation completes or a deadline passes, but no longer than
    /// `timeout`; `None` waits for ever. [`next_completion`](Self::next_completion) returns the completions; those of
    /// earlier waits that were not taken come first.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.resume_listeners();
        self.resume_starved()?;
        let timeout_ms = self.timeout_ms(timeout);
        match self.operations.wait(timeout_ms) {
            Err(error) if !error.is_interrupted() => return Err(error.into()),
            _ => {}
        }
        self.now_ms = self.clock.now_ms();
        let (slots, due) = (&self.slots, &mut self.due);
        self.timers.advance(self.now_ms, |number| {
            let generation = slots.get(number as usize).map_or(0, |slot| slot.generation);
            due.push_back(Key::new(number.cast_signed(), generation));
        });
        Ok(())
    }

    fn timeout_ms(&self, timeout: Option<Duration>) -> i32 {
        if !self.due.is_empty() {
            return 0;
        }
        let now_ms = self.clock.now_ms();
        let paused = self.paused_listeners.iter().map(|(until, _)| until.wrapping_sub(now_ms).min(ACCEPT_PAUSE_MS));
        let own = self.clock.longest_wait_ms();
        let due = self.timers.next(now_ms).into_iter().chain(paused.min()).chain(own).min();
        shorter_ms(timeout, due)
    }
}

impl Drop for Ring {
    /// Releases the open files of parked connections now; operations in flight are released with `operations`.
    fn drop(&mut self) {
        let mut count = 0;
        for (fd, slot) in self.slots.iter().enumerate() {
            let is_polled = slot.is_registered && slot.reading == Reading::Parked;
            let key = Key::new((fd as u32).cast_signed(), slot.generation);
            if is_polled && self.operations.poll_remove(key.0).is_ok() {
                count += 1;
            }
        }
        settle(count, || {
            let is_ok = self.operations.wait(0).is_ok();
            is_ok && std::iter::from_fn(|| self.operations.next_completion()).count() > 0
        });
    }
}
