//! One connection: what it owes and where it stands.

use crate::answer::Reading;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The kernel's handshake is under way.
    Connecting,
    /// The secure handshake is under way.
    Securing,
    /// It takes requests.
    Open,
    /// It has given its last answer; the server is to close it.
    Closing,
}

/// A request that was sent and not yet answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    /// Which of its server's requests it is.
    pub(crate) request: u32,
    /// Whether it is the first one on its connection.
    pub(crate) is_first: bool,
    /// When it was due.
    pub(crate) due_ns: u64,
    /// When it was sent.
    pub(crate) sent_ns: u64,
    /// When the first byte of its answer came; 0 before.
    pub(crate) first_byte_ns: u64,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) fd: OwnedFd,
    pub(crate) server: u32,
    pub(crate) state: State,
    /// Whether it takes no further request: the last one was sent, or the server said so.
    pub(crate) is_last: bool,
    /// When `connect` was called; when it began to close.
    pub(crate) since_ns: u64,
    /// How many requests were sent.
    pub(crate) sent: u64,
    pub(crate) flights: VecDeque<Flight>,
    pub(crate) reading: Reading,
    /// Bytes that the kernel did not take.
    pub(crate) unsent: Vec<u8>,
    pub(crate) secure: Option<Box<crate::tls::Session>>,
}

impl Connection {
    pub(crate) fn new(fd: OwnedFd, server: u32, since_ns: u64) -> Self {
        Self {
            fd,
            server,
            state: State::Connecting,
            is_last: false,
            since_ns,
            sent: 0,
            flights: VecDeque::new(),
            reading: Reading::default(),
            unsent: Vec::new(),
            secure: None,
        }
    }

    /// When what it waits for began; none where it waits for nothing.
    pub(crate) fn waiting_since_ns(&self) -> Option<u64> {
        match self.state {
            State::Open => self.flights.front().map(|flight| flight.sent_ns),
            _ => Some(self.since_ns),
        }
    }
}
