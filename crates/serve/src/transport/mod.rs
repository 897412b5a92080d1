//! How a worker's connections are accepted and received: by readiness or by completion.
//!
//! The worker ([`crate::worker`]) is one state machine over a [`Transport`]. [`Readiness`] waits until a descriptor is
//! ready and then calls `accept4` and `recv`. [`Completions`] has the kernel accept and receive through a ring
//! (`io_uring`) and hands out what it received. Both look alike to the worker: an event says that a connection can be
//! read, and [`Transport::receive`] copies what has arrived into the worker's buffer.
//!
//! Sending is no part of the transport. With either kind the worker calls `send`, `sendmsg` and `sendfile` itself and
//! uses the transport only to wait for room in the socket's buffer. Handing answers to the ring was measured against
//! that: a send costs one submission and one completion instead of one system call, a response must be copied to
//! outlive the call, and there is no `sendfile` in a ring. docs/serve.md has the figures.

#[cfg(target_os = "linux")]
mod completions;
mod readiness;

#[cfg(target_os = "linux")]
pub(crate) use completions::Completions;
pub(crate) use readiness::Readiness;

use crate::config::Config;
use crate::connection::Table;
use crate::error::Error;
use crate::listener::ListenSocket;
use crate::memory::Memory;
use landau_reactor::{Interest, Ready, Waker};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Tokens from here on are listening sockets; all others are numbers of connections.
const LISTENERS: u32 = u32::MAX - 4096;

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) fd: OwnedFd,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) is_tls: bool,
}

/// What a wait found.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection was accepted.
    Accepted(Arrival),
    /// Accepting failed because no descriptor is left; the transport tries again after a pause.
    OutOfDescriptors,
    /// Something happened to the connection with this number.
    Connection(u32, Ready),
    /// The transport has kept bytes for this connection although all memory is in use.
    Kept(u32),
}

/// Accepts connections and tells when they can be read and written.
///
/// A connection is identified by its number, the index of its entry in the worker's [`Table`]. The table owns the
/// descriptor.
pub(crate) trait Transport: Sized {
    /// Begins to accept connections. `waker` ends waits; what is kept for connections is counted in `memory`.
    fn new(config: &Config, listeners: Vec<ListenSocket>, waker: &Waker, memory: &Memory) -> Result<Self, Error>;

    /// Waits for events, for at most `limit`.
    fn wait(&mut self, limit: Option<Duration>, table: &Table) -> Result<(), landau_reactor::Error>;

    /// Returns the next event of the last wait.
    fn next_event(&mut self, table: &Table) -> Option<Event>;

    /// Returns the milliseconds since the transport was made, as of the last wait, modulo 2³².
    fn now_ms(&self) -> u32;

    /// Begins to stop accepting; [`close_listeners`](Self::close_listeners) completes it. In between, two waits return
    /// the connections that were accepted already: a ring submits the cancellation in the first and reports what it had
    /// accepted by the second.
    fn begin_stop(&mut self);

    /// Closes the listening sockets and returns the connections that were waiting in their queues.
    fn close_listeners(&mut self, backlog: u32) -> Vec<Arrival>;

    /// Begins to receive; the interest is [`Interest::READABLE`].
    fn register(&mut self, number: u32, fd: &OwnedFd) -> Result<(), landau_reactor::Error>;

    /// Copies what has arrived into `into`: 0 bytes at the end of the stream, `None` if nothing has arrived.
    fn receive(&mut self, number: u32, fd: &OwnedFd, into: &mut [u8]) -> landau_sys::Result<Option<usize>>;

    /// Returns whether nothing has come on a connection that the worker has not received, the end included.
    fn is_silent(&mut self, number: u32, fd: &OwnedFd) -> bool;

    /// Returns how many bytes the transport keeps for a connection until the worker receives them.
    fn kept_bytes(&self, number: u32) -> usize;

    /// Sets which events of a connection are reported. Whatever the interest, a connection that can neither be read
    /// nor written any more is reported.
    fn set_interest(&mut self, number: u32, fd: &OwnedFd, interest: Interest) -> Result<(), landau_reactor::Error>;

    /// Waits for room in the socket's buffer, after a send that took less than all.
    fn wait_writable(&mut self, number: u32, fd: &OwnedFd) -> Result<(), landau_reactor::Error>;

    /// Sets or moves a connection's deadline, which is reported once.
    fn set_deadline(&mut self, number: u32, fd: &OwnedFd, delay: Duration);

    /// The same for a connection that waits for its next request.
    fn set_idle_deadline(&mut self, number: u32, fd: &OwnedFd, delay: Duration);

    /// Closes a connection and discards unread data.
    fn close(&mut self, number: u32, fd: OwnedFd);
}
