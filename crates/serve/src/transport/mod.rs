//! How a worker's connections are accepted and received: by readiness or by completion.
//!
//! The worker ([`crate::worker`]) is one state machine over a [`Transport`]. [`Readiness`] waits until a descriptor is
//! ready and then calls `accept4` and `recv`. [`Completions`] lets the kernel accept and receive through a ring
//! (`io_uring`) and returns the received bytes. Both look the same to the worker: an event reports that a connection is
//! readable, and [`Transport::receive`] copies the received bytes into the worker's buffer.
//!
//! Sending is not part of the transport. With either kind, the worker calls `send`, `sendmsg` and `sendfile` itself,
//! and uses the transport only to wait for room in the socket's buffer, or for the connection's next turn. Sending
//! through the ring was measured for comparison. A send then costs one submission and one completion instead of one
//! system call, a response must be copied to outlive the call, and a ring has no `sendfile`. docs/serve.md has the
//! figures.

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

/// An event of a wait.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection was accepted.
    Accepted(Arrival),
    /// Accepting failed because no descriptor is left; the transport tries again after a pause.
    OutOfDescriptors,
    /// The connection with this number is ready, failed or reached its deadline.
    Connection(u32, Ready),
    /// The transport keeps bytes for this connection although all memory is in use.
    Kept(u32),
}

/// Accepts connections and reports when they are readable and writable.
///
/// A connection is identified by its number, the index of its entry in the worker's [`Table`]. The table owns the
/// descriptor.
pub(crate) trait Transport: Sized {
    /// Begins to accept connections. `waker` ends waits; bytes that are kept for connections count towards `memory`.
    fn new(config: &Config, listeners: Vec<ListenSocket>, waker: &Waker, memory: &Memory) -> Result<Self, Error>;

    /// Waits for events, for at most `limit`.
    fn wait(&mut self, limit: Option<Duration>, table: &Table) -> Result<(), landau_reactor::Error>;

    /// Returns the next event of the last wait.
    fn next_event(&mut self, table: &Table) -> Option<Event>;

    /// Returns the time of the last wait, in milliseconds since the transport was created, modulo 2³².
    fn now_ms(&self) -> u32;

    /// Begins to stop accepting; [`close_listeners`](Self::close_listeners) completes it. In between, two waits return
    /// the connections that were accepted already: a ring submits the cancellation in the first wait, and reports the
    /// connections accepted before it by the second.
    fn begin_stop(&mut self);

    /// Closes the listening sockets and returns the pending connections of their accept queues.
    fn close_listeners(&mut self, backlog: u32) -> Vec<Arrival>;

    /// Begins to receive; the interest is [`Interest::READABLE`].
    fn register(&mut self, number: u32, fd: &OwnedFd) -> Result<(), landau_reactor::Error>;

    /// Copies received bytes into `into`; returns 0 at the end of the stream, and `None` if nothing has arrived.
    fn receive(&mut self, number: u32, fd: &OwnedFd, into: &mut [u8]) -> landau_sys::Result<Option<usize>>;

    /// Returns whether nothing has arrived on a connection, not even its end, that the worker has not received.
    fn is_silent(&mut self, number: u32, fd: &OwnedFd) -> bool;

    /// Returns the number of bytes that the transport keeps for a connection until the worker receives them.
    fn kept_bytes(&self, number: u32) -> usize;

    /// Sets which events of a connection are reported. A connection that can be neither read nor written any more is
    /// reported regardless of the interest.
    fn set_interest(&mut self, number: u32, fd: &OwnedFd, interest: Interest) -> Result<(), landau_reactor::Error>;

    /// Waits for room in the socket's buffer, after a short write.
    fn wait_writable(&mut self, number: u32, fd: &OwnedFd) -> Result<(), landau_reactor::Error>;

    /// Reports a connection as writable after the next wait: its turn is over, and its socket may still have room. If
    /// it has none, the connection may be reported only when it has.
    fn yield_turn(&mut self, number: u32, fd: &OwnedFd) -> Result<(), landau_reactor::Error>;

    /// Sets or moves the deadline of a connection, which is reported once.
    fn set_deadline(&mut self, number: u32, fd: &OwnedFd, delay: Duration);

    /// Like `set_deadline`, for a connection that waits for its next request.
    fn set_idle_deadline(&mut self, number: u32, fd: &OwnedFd, delay: Duration);

    /// Closes a connection and discards unread data.
    fn close(&mut self, number: u32, fd: OwnedFd);
}
