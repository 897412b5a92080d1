//! The table of connections.
//!
//! An idle connection is one entry of the table and owns only its descriptor. While a request arrives in parts or a
//! response leaves in parts, the connection also has an [`Active`].

use crate::active::Active;
use crate::exchange::{After, Remainder};
use crate::http2::Session;
use crate::memory::Memory;
use landau_reactor::Batch;
use landau_sys::stream;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long the client may be silent after the end of a connection, if it has more to send.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// The total time for which the client may continue to send. A client that uploads a refused body reads the response
/// only after that.
const LINGER_IN_ALL_MS: u32 = 30_000;

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// An unused entry of the table.
    Free,
    /// The PROXY protocol header has not ended.
    Preface,
    /// Nothing has been received yet.
    Fresh,
    /// The connection waits for the next request.
    Idle,
    /// A part of a request's head has been received.
    Head,
    /// A part of a request's body has been received; the body is discarded.
    Body,
    /// A response is being sent, as fast as the client reads it.
    Sending,
    /// The next part of a file is being read from the device.
    Fetching,
    /// Another thread looks up the requested entry, or makes the listing.
    LookingUp,
    /// A request was forwarded to an upstream server; more of it or of its response is expected.
    Relaying,
    /// A connection to an upstream server, not from a client.
    Upstream,
    /// The connection uses HTTP/2: requests are received and responses sent at the same time.
    Http2,
    /// The connection was shut down after the response, and what the client still sends is discarded. Closing it would
    /// send a reset, which can destroy the response in transit (RFC 9112 section 9.6).
    Lingering,
}

/// The next step of a connection after a response has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Waits for the next request.
    Idle,
    /// Waits for the rest of a request; its timeout starts now.
    Begun,
    /// Waits for a body whose head arrived in parts; its timeout starts now.
    Body,
    /// Continues to wait for the rest of a head.
    Waiting,
    /// Answers the requests that have been received already.
    More,
    /// Waits for the result of another thread.
    LookUp,
    /// Forwards the request.
    Forward,
    /// Continues a forwarded request.
    Relay,
    /// Closes the connection; `true` if the client may still be sending.
    Close(bool),
}

/// An entry of the table.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) state: State,
    /// Whether the connection was accepted while the server was stopping.
    is_late: bool,
    /// Whether the head that arrives in parts is the first of the connection.
    is_first: bool,
    /// Whether a TLS session exists under the number of the connection.
    pub(crate) is_tls: bool,
    /// The client's address; IPv4 as an IPv4-mapped address.
    peer: [u8; 16],
    pub(crate) active: Option<Box<Active>>,
    /// The next unused entry.
    next: u32,
}

impl Connection {
    /// Returns the client's address; `None` over a Unix socket.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        let address = Ipv6Addr::from(self.peer);
        if address.is_unspecified() { None } else { Some(address.to_canonical()) }
    }

    /// Sets the client's address.
    pub(crate) fn set_peer(&mut self, peer: Option<IpAddr>) {
        self.peer = octets(peer);
    }

    /// Returns the state of the connection while something is under way.
    pub(crate) fn active(&mut self) -> &mut Active {
        self.active.get_or_insert_default()
    }

    /// Returns whether a request of this connection was forwarded to an upstream server and has not ended.
    pub(crate) fn is_relaying(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.exchange().is_some())
    }

    /// Returns whether the client has read enough since the last check to be given the same time again.
    #[cold]
    pub(crate) fn made_progress(&mut self) -> bool {
        let acknowledged = self.fd.as_ref().and_then(stream::acknowledged_bytes);
        self.active().made_progress(acknowledged)
    }

    /// Returns whether at most a part of the first head has been received.
    pub(crate) fn is_new(&self) -> bool {
        self.state == State::Fresh || (self.state == State::Head && self.is_first)
    }

    /// Returns the state of HTTP/2, if the connection uses it.
    pub(crate) fn http2(&mut self) -> Option<&mut Session> {
        self.active.as_mut()?.http2.as_deref_mut()
    }

    /// Returns the ticket of the fetch that the connection waits for, if any.
    pub(crate) fn pending_fetch(&mut self) -> Option<u32> {
        (self.state == State::Fetching).then(|| self.active().ticket)
    }

    /// Keeps what is still to be sent, and what to do after it is sent.
    #[inline]
    pub(crate) fn keep(&mut self, batch: &mut Batch, rest: Remainder, memory: &Memory) {
        self.active().keep(batch, rest, memory);
        self.state = State::Sending;
    }

    /// Decides the next step after a response has been sent.
    #[inline]
    pub(crate) fn settle(&mut self, rest: Remainder, memory: &Memory) -> Next {
        let (state, next) = match rest.after {
            After::Idle => {
                (self.state, self.active) = (State::Idle, None);
                return Next::Idle;
            }
            After::Close(is_sending) => return Next::Close(is_sending),
            // Unreachable: the worker has begun HTTP/2 instead.
            After::Http2 => return Next::Close(true),
            // The timeout of a head runs from its first byte; further bytes must not extend it.
            After::Head if self.state == State::Head => (State::Head, Next::Waiting),
            After::Head => {
                self.is_first = self.state == State::Fresh;
                (State::Head, Next::Begun)
            }
            // The request waited for another thread, after responses that have been sent now.
            After::Body(unwanted) if unwanted.has_ended => (self.state, Next::More),
            After::Body(_) if self.state == State::Head => (State::Body, Next::Body),
            After::Body(_) => (State::Body, Next::Begun),
            After::LookUp { .. } => (State::LookingUp, Next::LookUp),
            After::Forward { .. } => (State::Relaying, Next::Forward),
            After::Relay => (State::Relaying, Next::Relay),
            After::More => (self.state, Next::More),
        };
        self.state = state;
        self.active().wait(rest, memory);
        next
    }

    /// Shuts the connection down for writing and releases its state. Returns whether the client is still connected and
    /// may continue to send.
    pub(crate) fn linger(&mut self, now_ms: u32, memory: &Memory) -> bool {
        self.active = None;
        let is_there = self.fd.as_ref().is_some_and(say_end) && !memory.is_exceeded();
        if is_there {
            (self.state, self.active) = (State::Lingering, Some(Box::new(Active::lingering(now_ms, memory))));
        }
        is_there
    }

    /// Returns how long the client may be silent after the end of the connection; `None` if its total time is over.
    pub(crate) fn linger_time(&mut self, now_ms: u32) -> Option<Duration> {
        let left_ms =
            LINGER_IN_ALL_MS.checked_sub(now_ms.wrapping_sub(self.active().ticket)).filter(|&left| left > 0)?;
        Some(LINGER.min(Duration::from_millis(u64::from(left_ms))))
    }
}

const NONE: u32 = u32::MAX;

/// All connections of a worker.
#[derive(Debug)]
pub(crate) struct Table {
    entries: Vec<Connection>,
    free: u32,
    len: usize,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of the next connection.
    pub(crate) fn next(&self) -> u32 {
        if self.free == NONE { self.entries.len() as u32 } else { self.free }
    }

    pub(crate) fn insert(&mut self, fd: OwnedFd, peer: Option<IpAddr>, is_tls: bool, is_late: bool) -> u32 {
        let peer = octets(peer);
        let (fd, active) = (Some(fd), None);
        let entry = Connection { fd, state: State::Fresh, is_late, is_first: false, is_tls, peer, active, next: NONE };
        let number = self.next();
        if let Some(free) = self.entries.get_mut(number as usize) {
            self.free = free.next;
            *free = entry;
        } else {
            self.entries.push(entry);
        }
        self.len += 1;
        number
    }

    /// Removes a connection; returns its descriptor and the client's address if the entry was in use.
    pub(crate) fn remove(&mut self, number: u32) -> Option<(OwnedFd, Option<IpAddr>)> {
        let free = self.free;
        let entry = self.entries.get_mut(number as usize)?;
        let fd = entry.fd.take()?;
        let peer = entry.peer();
        (entry.state, entry.active, entry.next) = (State::Free, None, free);
        self.free = number;
        self.len -= 1;
        Some((fd, peer))
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut Connection> {
        self.entries.get_mut(number as usize).filter(|entry| entry.fd.is_some())
    }

    /// Returns the descriptor of a connection.
    #[inline]
    pub(crate) fn fd(&self, number: u32) -> Option<&OwnedFd> {
        self.entries.get(number as usize)?.fd.as_ref()
    }

    /// Returns the numbers of all HTTP/2 connections.
    pub(crate) fn http2(&self) -> Vec<u32> {
        let is_it = |number: &u32| self.entries[*number as usize].state == State::Http2;
        (0..self.entries.len() as u32).filter(is_it).collect()
    }

    /// Returns the numbers of all idle connections. A TLS connection that was accepted while the server was stopping is
    /// not one of them, because its client has had no time to send a request.
    pub(crate) fn idle(&self) -> Vec<u32> {
        let is_idle = |entry: &Connection| {
            matches!(entry.state, State::Idle | State::Fresh | State::Preface) && !(entry.is_tls && entry.is_late)
        };
        (0..self.entries.len() as u32).filter(|&number| is_idle(&self.entries[number as usize])).collect()
    }
}

/// Returns an address in the form of the table; zeroes if there is none.
fn octets(peer: Option<IpAddr>) -> [u8; 16] {
    match peer {
        None => [0; 16],
        Some(IpAddr::V4(address)) => address.to_ipv6_mapped().octets(),
        Some(IpAddr::V6(address)) => address.octets(),
    }
}

/// Shuts a connection down for writing; returns whether the client is still connected.
pub(crate) fn say_end(fd: &OwnedFd) -> bool {
    stream::shutdown_write(fd).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 16 bytes of the event loop and 16 of the timer, an idle connection takes less than 128 bytes.
    #[test]
    fn an_idle_connection_is_a_small_entry() {
        assert!(size_of::<Connection>() <= 40, "{}", size_of::<Connection>());
    }

    #[test]
    fn entries_are_reused() {
        let fd = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let mut table = Table::new();
        let v4: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(
            (table.insert(fd(), Some(v4), false, false), table.insert(fd(), None, true, false), table.next()),
            (0, 1, 2)
        );
        assert_eq!(table.get(0).unwrap().peer(), Some(v4));
        assert_eq!(table.get(1).unwrap().peer(), None);
        assert!(table.remove(0).is_some() && table.remove(0).is_none() && table.get(0).is_none());
        assert_eq!((table.len(), table.next(), table.insert(fd(), None, false, false), table.next()), (1, 0, 0, 2));
        assert_eq!(table.idle(), vec![0, 1]);
        table.get(0).unwrap().state = State::Head;
        assert_eq!((table.idle(), table.remove(1).is_some(), table.idle()), (vec![1], true, vec![]));
        table.insert(fd(), None, true, true);
        assert_eq!(table.idle(), vec![], "its client has had no time to ask");
    }
}
