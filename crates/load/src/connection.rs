//! One connection: its state and its requests in flight.

use crate::http2::Http2;
use crate::response::ResponseReader;
use crate::tls::TlsSession;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The kernel's handshake is in progress.
    Connecting,
    /// The TLS handshake is in progress.
    Securing,
    /// The connection accepts requests.
    Open,
    /// The last response has arrived; the server is expected to close the connection.
    Closing,
}

/// A request that was sent but not yet answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlight {
    /// Index of the request in the server's list.
    pub(crate) request: u32,
    /// ID of its stream (HTTP/2 only).
    pub(crate) stream: u32,
    /// Whether it is the first request of its connection.
    pub(crate) is_first: bool,
    /// Its due time.
    pub(crate) due_ns: u64,
    /// The time at which it was sent.
    pub(crate) sent_ns: u64,
    /// The time at which the first byte of its response arrived; 0 until then.
    pub(crate) first_byte_ns: u64,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) fd: OwnedFd,
    /// Index of its server.
    pub(crate) server: u32,
    pub(crate) state: State,
    /// Whether it accepts no further requests: the last one was sent, or the server announced that it will close.
    pub(crate) is_last: bool,
    /// The time at which `connect` was called.
    pub(crate) start_ns: u64,
    /// The time at which its state began; for an open connection, the end of the kernel's handshake.
    pub(crate) since_ns: u64,
    /// Number of requests sent.
    pub(crate) sent: u64,
    pub(crate) in_flight: VecDeque<InFlight>,
    pub(crate) reader: ResponseReader,
    /// Bytes that the kernel has not accepted yet.
    pub(crate) unsent: Vec<u8>,
    pub(crate) tls: Option<Box<TlsSession>>,
    pub(crate) http2: Option<Box<Http2>>,
}

impl Connection {
    pub(crate) fn new(fd: OwnedFd, server: u32, since_ns: u64) -> Self {
        Self {
            fd,
            server,
            state: State::Connecting,
            is_last: false,
            start_ns: since_ns,
            since_ns,
            sent: 0,
            in_flight: VecDeque::new(),
            reader: ResponseReader::default(),
            unsent: Vec::new(),
            tls: None,
            http2: None,
        }
    }

    /// Returns the maximum number of requests that the server accepts at a time.
    #[inline]
    pub(crate) fn most_streams(&self) -> usize {
        self.http2.as_ref().map_or(usize::MAX, |http2| http2.most_streams())
    }

    /// Returns whether bytes have arrived since the oldest request in flight was sent; always false with HTTP/1.1.
    pub(crate) fn has_heard(&self) -> bool {
        let sent_ns = self.in_flight.front().map_or(u64::MAX, |request| request.sent_ns);
        self.http2.as_ref().is_some_and(|http2| http2.heard_ns > sent_ns)
    }

    /// Frees the buffers for requests in flight and for unsent bytes if they are empty. A queue that held one request
    /// keeps 176 bytes, for each of a million idle connections.
    pub(crate) fn rest(&mut self) {
        if self.in_flight.is_empty() {
            self.in_flight = VecDeque::new();
        }
        if self.unsent.is_empty() {
            self.unsent = Vec::new();
        }
    }

    /// Returns how long the kernel's handshake of an open connection took.
    pub(crate) fn handshake_ns(&self) -> u64 {
        self.since_ns - self.start_ns
    }

    /// Returns when the current wait for the server began, or `None` if the connection is not waiting.
    pub(crate) fn waiting_since_ns(&self) -> Option<u64> {
        match self.state {
            State::Open => self.in_flight.front().map(|request| request.sent_ns),
            _ => Some(self.since_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resting_connection_keeps_no_memory_of_its_requests() {
        let mut connection = Connection::new(landau_sys::stream::unix_stream().unwrap(), 0, 0);
        let request = InFlight { request: 0, stream: 0, is_first: true, due_ns: 0, sent_ns: 0, first_byte_ns: 0 };
        connection.in_flight.push_back(request);
        connection.unsent.push(0);
        connection.rest();
        assert_eq!((connection.in_flight.len(), connection.unsent.len()), (1, 1));
        connection.in_flight.clear();
        connection.unsent.clear();
        connection.rest();
        assert_eq!((connection.in_flight.capacity(), connection.unsent.capacity()), (0, 0));
    }
}
