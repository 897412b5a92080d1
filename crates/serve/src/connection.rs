//! The table of connections.
//!
//! A connection at rest is one line of it and owns nothing else but its descriptor. What a request that comes in pieces
//! or an answer that leaves in pieces needs beyond that is a [`Active`], which the connection has only for so long.

use crate::active::Active;
use crate::exchange::{After, Rest};
use landau_reactor::Batch;
use landau_sys::stream;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long a connection that was ended is listened to.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// A line of the table that nobody has.
    Free,
    /// Nothing was heard yet.
    Fresh,
    /// It waits for the next request.
    Idle,
    /// A request's head is under way.
    Head,
    /// A body that nobody wants is under way.
    Body,
    /// An answer leaves as fast as the client takes it.
    Sending,
    /// A part of a file comes from the device first; then the answer goes on.
    Fetching,
    /// A folder's list is being made; then its request is answered.
    Listing,
    /// All was sent and the end was said; what the client still sends is thrown away, for closing on it would be a
    /// reset, which destroys the answer on its way (RFC 9112 section 9.6).
    Lingering,
}

/// What a connection does when all that was answered has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Waits for the next request.
    Idle,
    /// Waits for the rest of a request, whose time begins now.
    Begun,
    /// Goes on waiting for the rest of a head.
    Waiting,
    /// Has what has come already answered.
    More,
    /// Waits for a folder's list.
    List,
    /// Ends; `true` if the client may still be sending.
    Close(bool),
}

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) state: State,
    /// Whether it was accepted while the server was ending.
    is_late: bool,
    /// Whether there is a session of TLS under its number.
    pub(crate) is_tls: bool,
    /// The client's address; those of IPv4 as mapped ones.
    peer: [u8; 16],
    pub(crate) active: Option<Box<Active>>,
    /// The next free line.
    next: u32,
}

impl Connection {
    /// The client's address; none over a Unix socket.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        let address = Ipv6Addr::from(self.peer);
        if address.is_unspecified() { None } else { Some(address.to_canonical()) }
    }

    /// What it needs while something is under way.
    pub(crate) fn active(&mut self) -> &mut Active {
        self.active.get_or_insert_default()
    }

    /// When the deadline for sending has passed: whether the client has taken enough to be given as much time again.
    #[cold]
    pub(crate) fn is_taken(&mut self) -> bool {
        let acknowledged = self.fd.as_ref().and_then(stream::acknowledged_bytes);
        self.active().is_taken(acknowledged)
    }

    /// The ticket of the part of a file that it waits for, if it does.
    pub(crate) fn fetched(&mut self) -> Option<u32> {
        (self.state == State::Fetching).then(|| self.active().ticket)
    }

    /// Notes what is still to be sent, and what then.
    #[inline]
    pub(crate) fn keep(&mut self, batch: &mut Batch, rest: Rest) {
        self.active().keep(batch, rest);
        self.state = State::Sending;
    }

    /// Notes that all that was answered has left.
    #[inline]
    pub(crate) fn settle(&mut self, rest: Rest) -> Next {
        let (state, next) = match rest.after {
            After::Idle => {
                (self.state, self.active) = (State::Idle, None);
                return Next::Idle;
            }
            After::Close(is_sending) => return Next::Close(is_sending),
            // The time for a head counts from its first byte: each further byte must not begin it anew.
            After::Head if self.state == State::Head => (State::Head, Next::Waiting),
            After::Head => (State::Head, Next::Begun),
            // It waited for a list, behind answers that have left now.
            After::Body(unwanted) if unwanted.has_ended => (self.state, Next::More),
            After::Body(_) => (State::Body, Next::Begun),
            After::List(_) => (State::Listing, Next::List),
            After::More => (self.state, Next::More),
        };
        self.state = state;
        self.active().wait(rest);
        next
    }

    /// Says the end, and that the rest is thrown away; false if the client is gone already.
    pub(crate) fn linger(&mut self) -> bool {
        let is_there = self.fd.as_ref().is_some_and(say_end);
        if is_there {
            (self.state, self.active) = (State::Lingering, None);
        }
        is_there
    }
}

const NONE: u32 = u32::MAX;

/// All connections of a worker.
#[derive(Debug)]
pub(crate) struct Table {
    lines: Vec<Connection>,
    free: u32,
    len: usize,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { lines: Vec::new(), free: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Which line the next connection will get.
    pub(crate) fn next(&self) -> u32 {
        if self.free == NONE { self.lines.len() as u32 } else { self.free }
    }

    pub(crate) fn insert(&mut self, fd: OwnedFd, peer: Option<IpAddr>, is_tls: bool, is_late: bool) -> u32 {
        let peer = match peer {
            None => [0; 16],
            Some(IpAddr::V4(address)) => address.to_ipv6_mapped().octets(),
            Some(IpAddr::V6(address)) => address.octets(),
        };
        let (fd, active) = (Some(fd), None);
        let line = Connection { fd, state: State::Fresh, is_late, is_tls, peer, active, next: NONE };
        let number = self.next();
        if let Some(free) = self.lines.get_mut(number as usize) {
            self.free = free.next;
            *free = line;
        } else {
            self.lines.push(line);
        }
        self.len += 1;
        number
    }

    /// Frees a line; its descriptor, if the line was in use.
    pub(crate) fn remove(&mut self, number: u32) -> Option<(OwnedFd, Option<IpAddr>)> {
        let free = self.free;
        let line = self.lines.get_mut(number as usize)?;
        let fd = line.fd.take()?;
        let peer = line.peer();
        (line.state, line.active, line.next) = (State::Free, None, free);
        self.free = number;
        self.len -= 1;
        Some((fd, peer))
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut Connection> {
        self.lines.get_mut(number as usize).filter(|line| line.fd.is_some())
    }

    /// Returns the descriptor of a connection.
    #[inline]
    pub(crate) fn fd(&self, number: u32) -> Option<&OwnedFd> {
        self.lines.get(number as usize)?.fd.as_ref()
    }

    /// Returns the numbers of all connections with nothing under way. A TLS connection that was accepted while the
    /// server was ending is not one of them: its client has had no time to ask.
    pub(crate) fn at_rest(&self) -> Vec<u32> {
        let is_at_rest =
            |line: &Connection| matches!(line.state, State::Idle | State::Fresh) && !(line.is_tls && line.is_late);
        (0..self.lines.len() as u32).filter(|&number| is_at_rest(&self.lines[number as usize])).collect()
    }
}

/// Tells the client that nothing more comes, without an error if it is gone.
pub(crate) fn say_end(fd: &OwnedFd) -> bool {
    stream::shutdown_write(fd).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the reactor's 16 bytes and the timer's 16, a connection at rest stays below 128.
    #[test]
    fn a_connection_at_rest_is_a_short_line() {
        assert!(size_of::<Connection>() <= 40, "{}", size_of::<Connection>());
    }

    #[test]
    fn lines_are_used_again() {
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
        assert_eq!(table.at_rest(), vec![0, 1]);
        table.get(0).unwrap().state = State::Head;
        assert_eq!((table.at_rest(), table.remove(1).is_some(), table.at_rest()), (vec![1], true, vec![]));
        table.insert(fd(), None, true, true);
        assert_eq!(table.at_rest(), vec![], "its client has had no time to ask");
    }
}
