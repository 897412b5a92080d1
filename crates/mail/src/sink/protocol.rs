//! The interface between a sink's event loop and a protocol. Protocols do no I/O: bytes and times go in, bytes and
//! steps come out.

use super::conduct::Plan;
use super::counters::Counted;
use crate::tls::ServerTls;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The number of commands between two messages that may be refused because of a limit, or for lack of space, before
/// such refusals count as errors: a client sends all recipients of a message at once (Postfix's
/// `smtpd_recipient_overshoot_limit`).
pub(crate) const MOST_EXCESS: u32 = 1000;

/// An accepted connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// The number of connections before it.
    pub(crate) number: u64,
    /// The client's address.
    pub(crate) peer: IpAddr,
    /// The address that the client connected to.
    pub(crate) local: IpAddr,
}

/// What follows a step, after its reply was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The next step, with the following bytes.
    Continue,
    /// Nothing, until more bytes arrive.
    Receive,
    /// The next step, after the protocol's next commit.
    Commit,
    /// The TLS handshake. Bytes received but not consumed before it are discarded, because they were not encrypted
    /// (CVE-2011-0411); [`Protocol::secured`] follows.
    Secure,
    /// The end of the connection, which the client expects.
    Close,
    /// The end of the connection, while the client may still be sending.
    HangUp,
}

/// A step of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// The number of input bytes that it consumed.
    pub(crate) consumed: usize,
    /// The delay of its output. Nothing is read meanwhile.
    pub(crate) delay: Duration,
    pub(crate) then: Then,
}

impl Step {
    /// Returns a step that waits for more input.
    pub(crate) const fn receive(consumed: usize) -> Self {
        Self { consumed, delay: Duration::ZERO, then: Then::Receive }
    }
}

/// A new session.
#[derive(Debug)]
pub(crate) struct Opened<S> {
    pub(crate) session: S,
    pub(crate) plan: Plan,
    /// The step that writes the greeting; it consumes nothing.
    pub(crate) step: Step,
}

/// A protocol: the state shared by its sessions.
pub(crate) trait Protocol {
    /// The state of a connection.
    type Session: Debug;

    /// Begins a session, and appends the greeting.
    fn open(&mut self, origin: &Origin, now_ms: u32, out: &mut Vec<u8>) -> Opened<Self::Session>;

    /// Takes a step with the received bytes that were not consumed yet, and appends the output. A step that consumes
    /// nothing waits for more bytes.
    fn step(&mut self, session: &mut Self::Session, input: &[u8], now_ms: u32, out: &mut Vec<u8>) -> Step;

    /// Makes durable the data that the steps since the last commit will acknowledge. Called after each batch of events.
    #[inline]
    fn commit(&mut self) {}

    /// Returns the time after which `commit` must be called even without events.
    #[inline]
    fn commit_within(&self) -> Option<Duration> {
        None
    }

    /// Returns the TLS settings, if the protocol offers encryption.
    fn tls(&self) -> Option<ServerTls> {
        None
    }

    /// Called at the end of a session's TLS handshake.
    fn secured(&mut self, _session: &mut Self::Session) {}

    /// Appends the reply to an idle client before the connection is closed.
    fn expire(&mut self, session: &mut Self::Session, out: &mut Vec<u8>);

    /// Called at the end of the connection.
    fn close(&mut self, session: &mut Self::Session);

    /// Returns how long the client may be idle.
    fn idle_timeout(&self, session: &Self::Session) -> Duration;

    /// Returns the counters.
    fn counters(&self) -> Arc<dyn Counted>;
}
