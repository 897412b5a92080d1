//! The network interface of the engine. Tests replace the sockets by a simulated network, in which the seed determines
//! every fault.

use crate::error::Result;
use landau_reactor::{Backend, Event, Interest, Reactor, Token, Waker};
use landau_sys::clock::monotonic_ns;
use landau_sys::socket::{self, Address, Family, Transport};
use landau_sys::{Error, Result as SystemResult, stream};
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An event of a connection, found by a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    /// The connection.
    pub(crate) id: u32,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// Whether the deadline has passed.
    pub(crate) is_deadline: bool,
}

/// Connections and a clock. The caller assigns the numbers of connections, and reuses a number after the connection is
/// closed.
pub(crate) trait Network {
    /// Returns the time in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Returns the milliseconds since 1970.
    fn unix_ms(&self) -> u64;

    /// Starts to connect. The end of the attempt is reported as writability.
    fn connect(&mut self, id: u32, server: SocketAddr) -> SystemResult<()>;

    /// Opens a UDP socket that exchanges datagrams with a server, and reports when one can be received.
    fn connect_datagrams(&mut self, id: u32, server: SocketAddr) -> SystemResult<()>;

    /// Returns the result of connecting; from then on, reports readability.
    fn established(&mut self, id: u32) -> SystemResult<()>;

    /// Receives the bytes that have arrived; 0 is the end of the stream.
    fn receive(&mut self, id: u32, buffer: &mut [u8]) -> SystemResult<usize>;

    /// Sends as many bytes as fit.
    fn send(&mut self, id: u32, buffers: &[IoSlice<'_>]) -> SystemResult<usize>;

    /// Starts or stops reporting writability.
    fn watch_writing(&mut self, id: u32, is_watched: bool);

    /// Tells the network that nothing is left to receive.
    fn drained(&mut self, id: u32);

    /// Sets or moves the deadline of a connection.
    fn set_deadline(&mut self, id: u32, delay: Duration);

    /// Clears the deadline of a connection.
    fn clear_deadline(&mut self, id: u32);

    /// Closes a connection.
    fn close(&mut self, id: u32);

    /// Waits for events until a time.
    fn wait(&mut self, until_ns: u64) -> Result<()>;

    /// Returns the next event of the last wait.
    fn next(&mut self) -> Option<Ready>;
}

/// Maximum wait, after which an interrupt is noticed.
const LONGEST: Duration = Duration::from_millis(100);

/// Returns whether this system has a route to a server and an address of its family.
fn has_route(server: SocketAddr) -> bool {
    !socket::source_address(server.ip()).is_err_and(Error::is_unreachable)
}

/// TCP connections over the event library.
#[derive(Debug)]
pub(crate) struct Sockets {
    reactor: Reactor,
    sockets: Vec<Option<OwnedFd>>,
    /// Whether connections are reset when they are closed.
    resets: bool,
}

impl Sockets {
    /// Opens an event loop.
    pub(crate) fn new(backend: Backend) -> Result<Self> {
        Ok(Self { reactor: Reactor::new(backend)?, sockets: Vec::new(), resets: false })
    }

    /// Returns a handle with which another thread can end a wait.
    pub(crate) fn waker(&mut self) -> Result<Waker> {
        Ok(self.reactor.waker()?)
    }

    fn keep(&mut self, id: u32, socket: OwnedFd) {
        let index = id as usize;
        if index >= self.sockets.len() {
            self.sockets.resize_with(index + 1, || None);
        }
        self.sockets[index] = Some(socket);
    }

    /// Makes connections, including open ones, send a reset when they are closed.
    pub(crate) fn reset_on_close(&mut self) {
        self.resets = true;
        for socket in self.sockets.iter().flatten() {
            // Without the option the connection is closed normally.
            let _ = stream::set_reset_on_close(socket);
        }
    }

    fn socket(&self, id: u32) -> SystemResult<&OwnedFd> {
        self.sockets.get(id as usize).and_then(Option::as_ref).ok_or(Error::invalid("socket"))
    }
}

impl Network for Sockets {
    #[inline]
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn unix_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
    }

    fn connect(&mut self, id: u32, server: SocketAddr) -> SystemResult<()> {
        let socket = stream::stream(if server.is_ipv4() { Family::V4 } else { Family::V6 })?;
        stream::set_no_delay(&socket)?;
        if self.resets {
            stream::set_reset_on_close(&socket)?;
        }
        match stream::connect(&socket, &Address::from(server)) {
            // If IPv6 is disabled, this error does not mean a lack of ports.
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable && !has_route(server) => {
                return Err(Error::no_route("connect"));
            }
            Err(error) if !error.is_in_progress() => return Err(error),
            _ => {}
        }
        self.reactor
            .register_nonblocking(&socket, Token(id), Interest::WRITABLE)
            .map_err(|_| Error::invalid("epoll_ctl"))?;
        self.keep(id, socket);
        Ok(())
    }

    fn connect_datagrams(&mut self, id: u32, server: SocketAddr) -> SystemResult<()> {
        let family = if server.is_ipv4() { Family::V4 } else { Family::V6 };
        let socket = socket::socket(family, Transport::Udp)?;
        stream::set_blocking(&socket, false)?;
        stream::connect(&socket, &Address::from(server))?;
        self.reactor
            .register_nonblocking(&socket, Token(id), Interest::READABLE)
            .map_err(|_| Error::invalid("epoll_ctl"))?;
        self.keep(id, socket);
        Ok(())
    }

    fn established(&mut self, id: u32) -> SystemResult<()> {
        stream::take_error(self.socket(id)?)?;
        self.watch_writing(id, false);
        Ok(())
    }

    #[inline]
    fn receive(&mut self, id: u32, buffer: &mut [u8]) -> SystemResult<usize> {
        stream::receive(self.socket(id)?, buffer)
    }

    #[inline]
    fn send(&mut self, id: u32, buffers: &[IoSlice<'_>]) -> SystemResult<usize> {
        stream::send_vectored(self.socket(id)?, buffers, false)
    }

    fn watch_writing(&mut self, id: u32, is_watched: bool) {
        let Some(socket) = self.sockets.get(id as usize).and_then(Option::as_ref) else { return };
        if is_watched {
            self.reactor.clear_readiness(socket, Interest::WRITABLE);
        }
        // The socket is registered as long as it is in the table.
        let _ = self.reactor.set_interest(socket, if is_watched { Interest::BOTH } else { Interest::READABLE });
    }

    #[inline]
    fn drained(&mut self, id: u32) {
        if let Some(socket) = self.sockets.get(id as usize).and_then(Option::as_ref) {
            self.reactor.clear_readiness(socket, Interest::READABLE);
        }
    }

    #[inline]
    fn set_deadline(&mut self, id: u32, delay: Duration) {
        if let Some(socket) = self.sockets.get(id as usize).and_then(Option::as_ref) {
            self.reactor.set_deadline(socket, delay);
        }
    }

    fn clear_deadline(&mut self, id: u32) {
        if let Some(socket) = self.sockets.get(id as usize).and_then(Option::as_ref) {
            self.reactor.clear_deadline(socket);
        }
    }

    fn close(&mut self, id: u32) {
        if let Some(socket) = self.sockets.get_mut(id as usize).and_then(Option::take) {
            // The descriptor is free even if `close` reports an error.
            let _ = self.reactor.close(socket);
        }
    }

    fn wait(&mut self, until_ns: u64) -> Result<()> {
        let left = Duration::from_nanos(until_ns.saturating_sub(self.now_ns()));
        Ok(self.reactor.wait(Some(left.min(LONGEST)))?)
    }

    #[inline]
    fn next(&mut self) -> Option<Ready> {
        let Event { token, ready } = self.reactor.next_event()?;
        Some(Ready {
            id: token.0,
            is_readable: ready.is_readable(),
            is_writable: ready.is_writable(),
            is_deadline: ready.is_deadline(),
        })
    }
}
