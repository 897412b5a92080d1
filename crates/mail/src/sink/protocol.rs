//! What a sink's event loop asks of a protocol. Protocols do no I/O: bytes and times go in, bytes and steps come out.

use super::conduct::Plan;
use super::counters::Counted;
use crate::tls::ServerTls;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// So many commands without a message between them may be refused because of a limit, or for want of room, before such
/// refusals count as errors: a client offers all recipients of a message at once (Postfix's
/// `smtpd_recipient_overshoot_limit`).
pub(crate) const MOST_EXCESS: u32 = 1000;

/// A connection as it was accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// The number of connections before it.
    pub(crate) number: u64,
    /// The client's address.
    pub(crate) peer: IpAddr,
    /// The address that the client connected to.
    pub(crate) local: IpAddr,
}

/// What follows a step, once its reply has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The next step, with the bytes that follow.
    Continue,
    /// Nothing until more bytes have come.
    Receive,
    /// The next step, after the protocol's next commit.
    Commit,
    /// The TLS handshake. What was received before it and not taken is discarded, because it was not encrypted
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
    /// How many bytes of the input it took.
    pub(crate) consumed: usize,
    /// How late what it wrote leaves. Nothing is read meanwhile.
    pub(crate) delay: Duration,
    pub(crate) then: Then,
}

impl Step {
    /// Returns a step that waits for more input.
    pub(crate) const fn receive(consumed: usize) -> Self {
        Self { consumed, delay: Duration::ZERO, then: Then::Receive }
    }
}

/// A session that begins.
#[derive(Debug)]
pub(crate) struct Opened<S> {
    pub(crate) session: S,
    pub(crate) plan: Plan,
    /// The step that writes the greeting; it consumes nothing.
    pub(crate) step: Step,
}

/// A protocol: what its sessions share.
pub(crate) trait Protocol {
    /// The state of a connection.
    type Session: Debug;

    /// Begins a session, and appends the greeting.
    fn open(&mut self, origin: &Origin, now_ms: u32, out: &mut Vec<u8>) -> Opened<Self::Session>;

    /// Takes a step with the bytes that have come and were not consumed, and appends what to send. A step that consumed
    /// nothing waits for more.
    fn step(&mut self, session: &mut Self::Session, input: &[u8], now_ms: u32, out: &mut Vec<u8>) -> Step;

    /// Makes durable what the steps since the last commit have to promise. Called after each batch of events.
    #[inline]
    fn commit(&mut self) {}

    /// Returns after how long `commit` is to be called even if nothing happens.
    #[inline]
    fn commit_within(&self) -> Option<Duration> {
        None
    }

    /// Returns how connections are encrypted, if the protocol asks for that.
    fn tls(&self) -> Option<ServerTls> {
        None
    }

    /// The TLS handshake of a session has ended.
    fn secured(&mut self, _session: &mut Self::Session) {}

    /// Appends what an idle client is told before the connection is closed.
    fn expire(&mut self, session: &mut Self::Session, out: &mut Vec<u8>);

    /// The connection has ended.
    fn close(&mut self, session: &mut Self::Session);

    /// Returns how long the client may be idle.
    fn idle_timeout(&self, session: &Self::Session) -> Duration;

    /// Returns the counters.
    fn counters(&self) -> Arc<dyn Counted>;
}
