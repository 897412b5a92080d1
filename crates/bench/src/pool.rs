//! A pool of idle connections to a server: the client of `connect` and `request`.
//!
//! Every socket blocks, and resets its connection when it is closed, so that none stays in `TIME_WAIT`. `connect`
//! chooses the port (`IP_BIND_ADDRESS_NO_PORT`), and each source address of 127.0.0.0/8 serves only a part of the
//! connections: otherwise the search for a port would add its own cost at half the range. A reactor watches all
//! connections, so that a connection that the server closes is noticed in the same step.

use crate::backend::stop;
use crate::idle_poll::IdlePoll;
use crate::server::{FULL, Server};
use landau_engine::{Context, Facts, Stop, Timer, Timestamp};
use landau_reactor::{Backend, Interest, Reactor, Token};
use landau_sys::clock::monotonic_ns;
use landau_sys::socket::{Address, Family, Transport, bind, socket};
use landau_sys::stream;
use landau_sys::system::ephemeral_ports;
use landau_wire::http::Status;
use landau_wire::http::response::Reader;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Maximum number of connections from one source address: far below half of any usual range of ports.
const PER_SOURCE: u16 = 2_048;

/// Timeout for a response. The kernel repeats a dropped connection attempt after 1, 3 and 7 s.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The time after a response, plus the duration of the response, after which a server sleeps again.
const SLEEP_NS: u64 = 30_000;

/// Maximum number of connections on which the check sends another request.
const QUERIED_AGAIN: u64 = 512;

/// Idle connections to one server.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    server: Server,
    target: Address,
    /// Whether connections come from several addresses of 127.0.0.0/8, or from the address that the system chooses.
    has_sources: bool,
    per_source: u16,
    connections: Vec<TcpStream>,
    watch: Reactor,
    buffer: Vec<u8>,
    /// Duration of the last exchange.
    last_ns: u64,
    /// The client's processor.
    processor: Option<u32>,
    idle: IdlePoll,
}

/// When a request was sent, and when the first and the last byte of its response arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) sent: Timestamp,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

impl ConnectionPool {
    /// Starts the server that the settings select and returns an empty pool.
    pub(crate) fn new(context: &Context) -> Result<Self, Stop> {
        let mut server = Server::selected(context)?;
        let range = ephemeral_ports().map_or(4_096, |(low, high)| high.saturating_sub(low));
        let watch = Reactor::new(Backend::default()).map_err(stop)?;
        let own = context.host.pinned_processor;
        let polls = context.settings.is("idle", "poll");
        let processors = if polls { server.processor().into_iter().chain(own).collect() } else { Vec::new() };
        server.begin();
        Ok(Self {
            target: server.address.into(),
            has_sources: has_sources(server.address),
            per_source: PER_SOURCE.min(range / 4).max(1),
            server,
            connections: Vec::with_capacity(context.n as usize),
            watch,
            buffer: vec![0; 256 << 10],
            last_ns: 0,
            processor: own,
            idle: IdlePoll::start(processors),
        })
    }

    /// Returns the number of connections.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns an unconnected socket for the next connection.
    pub(crate) fn socket(&self) -> Result<TcpStream, Stop> {
        let family = if self.server.address.is_ipv4() { Family::V4 } else { Family::V6 };
        let socket = socket(family, Transport::Tcp)?;
        if self.has_sources {
            // Without the option, `bind` chooses the port.
            let _ = stream::set_bind_address_no_port(&socket);
            bind(&socket, &SocketAddr::new(source(self.len(), self.per_source), 0).into())?;
        }
        stream::set_no_delay(&socket)?;
        stream::set_reset_on_close(&socket)?;
        let socket = TcpStream::from(socket);
        socket.set_read_timeout(Some(RESPONSE_TIMEOUT)).map_err(|error| Stop::io("setsockopt", &error))?;
        Ok(socket)
    }

    /// Connects a socket. Returns when the server's kernel has completed the handshake.
    #[inline(always)]
    pub(crate) fn connect(&self, socket: &TcpStream) -> landau_sys::Result<()> {
        stream::connect(socket, &self.target)
    }

    /// Waits until the server sleeps again. A server that polls many connections before it sleeps would otherwise be
    /// awake for more requests the more connections there are, and save the cost of its wake-up.
    pub(crate) fn wait_until_server_sleeps(&self) {
        let deadline = monotonic_ns() + self.last_ns + SLEEP_NS;
        while monotonic_ns() < deadline {
            std::hint::spin_loop();
        }
    }

    /// Sends the request and reads the whole response.
    #[inline(always)]
    pub(crate) fn exchange(&mut self, socket: &TcpStream, timer: &Timer) -> Result<Exchange, Stop> {
        let began_ns = monotonic_ns();
        let sent = timer.now();
        stream::send(socket, &self.server.request, false)?;
        let received = self.receive(socket, 0)?;
        let first = timer.now();
        self.receive_rest(socket, received)?;
        let last = timer.now();
        self.last_ns = monotonic_ns() - began_ns;
        Ok(Exchange { sent, first, last })
    }

    fn receive(&mut self, socket: &TcpStream, from: usize) -> Result<usize, Stop> {
        match stream::receive(socket, &mut self.buffer[from..]) {
            Ok(0) => Err(self.no_response("it closed the connection without a response")),
            Ok(received) => Ok(received),
            Err(error) if error.errno == libc::EAGAIN => {
                Err(self.no_response(&format!("no response within {} s", RESPONSE_TIMEOUT.as_secs())))
            }
            Err(error) if error.errno == libc::ECONNRESET => Err(self.no_response("it reset the connection")),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the rest of a response whose first `received` bytes are in the buffer.
    fn receive_rest(&mut self, socket: &TcpStream, mut received: usize) -> Result<(), Stop> {
        let mut reader = Reader::default();
        let head = loop {
            match reader.parse(&self.buffer[..received]) {
                Ok(Some(head)) => break head,
                Ok(None) => received += self.receive(socket, received)?,
                Err(malformed) => return Err(Stop::Wrong(format!("the server's response is a {malformed}"))),
            }
        };
        if head.status == Status(503) && self.server.is_started() {
            // Landau sets no limit on connections, so the server has reached its limit on descriptors.
            return Err(FULL.into());
        }
        if head.status != Status::OK {
            return Err(self.no_response(&format!("its response has status {}", head.status.0)));
        }
        let length = head.content_length.filter(|_| head.keep_alive);
        let length = length.ok_or_else(|| {
            Stop::Wrong(
                "the server's response has no Content-Length or closes the connection; connections must stay open"
                    .to_owned(),
            )
        })?;
        let expected = head.head_bytes as u64 + length;
        let mut total = received as u64;
        while total < expected {
            total += self.receive(socket, 0)? as u64;
        }
        Stop::unless(total == expected, || format!("the response has {total} bytes instead of {expected}"))
    }

    /// Returns the server's limit if it has reached one, otherwise an error with `reason`.
    #[cold]
    fn no_response(&self, reason: &str) -> Stop {
        match self.server.limit() {
            Some(limit) => limit.into(),
            None => Stop::Wrong(format!("the server did not respond correctly: {reason}")),
        }
    }

    /// Returns the server's processes, if Landau started it.
    pub(crate) fn server_processes(&self) -> Vec<u32> {
        self.server.processes()
    }

    /// Closes a connection, and adds one that never sends anything.
    pub(crate) fn replace_with_silent(&mut self, socket: TcpStream) -> Result<(), Stop> {
        drop(socket);
        // The server closes its end; then it accepts the silent connection, before the next one is timed.
        self.wait_until_server_sleeps();
        let silent = self.socket()?;
        self.connect(&silent)?;
        self.add(silent)
    }

    /// Adds a connection. From now on the server must neither close it nor send anything unrequested.
    pub(crate) fn add(&mut self, socket: TcpStream) -> Result<(), Stop> {
        let token = Token(self.len() as u32);
        self.watch.register_nonblocking(&socket, token, Interest::READABLE).map_err(stop)?;
        self.connections.push(socket);
        Ok(())
    }

    /// Sends a request on a connection of the pool and reads the response.
    #[inline(always)]
    pub(crate) fn exchange_on(&mut self, index: usize, timer: &Timer) -> Result<Exchange, Stop> {
        // Taken out and put back, because the connection and the buffer are borrowed at the same time.
        let socket = self.connections.swap_remove(index);
        let exchange = self.exchange(&socket, timer);
        self.connections.push(socket);
        let last = self.connections.len() - 1;
        self.connections.swap(index, last);
        exchange
    }

    /// Checks that the server has closed no connection and sent nothing unrequested.
    pub(crate) fn check_all_open(&mut self) -> Result<(), Stop> {
        self.watch.wait(Some(Duration::ZERO)).map_err(stop)?;
        match self.watch.next_event() {
            None => Ok(()),
            Some(event) => Err(Stop::Wrong(format!(
                "of {} idle connections number {} was closed by the server",
                self.len(),
                event.token.0 + 1
            ))),
        }
    }

    /// Sends a request on an evenly spaced part of the connections, and compares their number with the descriptors of
    /// the server.
    pub(crate) fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        self.server.report(self.processor, steps, facts);
        facts.text("idle_processors", self.idle.describe());
        self.check_all_open()?;
        Stop::unless(self.len() as u64 >= steps, || format!("{} of {steps} connections are open", self.len()))?;
        let stride = (self.len() as u64).div_ceil(QUERIED_AGAIN).max(1) as usize;
        let mut queried = 0;
        for index in (0..self.len()).step_by(stride) {
            // Without a descriptor for the copy, the reactor's watch must suffice.
            let Ok(socket) = self.connections[index].try_clone() else { break };
            stream::send(&socket, &self.server.request, false)?;
            let received = self.receive(&socket, 0)?;
            self.receive_rest(&socket, received)?;
            queried += 1;
        }
        facts.count("connections_open", self.len() as u64);
        facts.count("connections_queried_again", queried);
        if let Some(count) = self.server.descriptors() {
            Stop::unless(count >= steps, || {
                format!("{steps} connections are open, but the server has only {count} descriptors")
            })?;
            facts.count("server_descriptors", count);
        }
        if self.has_sources {
            facts.count("source_addresses", self.len().div_ceil(usize::from(self.per_source)) as u64);
            facts.count("connections_per_source_address_max", u64::from(self.per_source));
        }
        Ok(())
    }
}

/// Returns whether connections to `server` can come from any address of 127.0.0.0/8. Linux accepts all of them, other
/// systems only one.
fn has_sources(server: SocketAddr) -> bool {
    cfg!(target_os = "linux") && matches!(server.ip(), IpAddr::V4(ip) if ip.is_loopback())
}

/// Returns the source address of the connection with that index, from 127.1.0.1 on.
fn source(index: usize, per_source: u16) -> IpAddr {
    let number = index / usize::from(per_source);
    IpAddr::V4(Ipv4Addr::from(0x7f01_0001 + number as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::connect::COMMON;
    use landau_engine::{Host, Progress, Settings, Study};
    use std::io::{ErrorKind, Read};
    use std::net::TcpListener;

    #[test]
    fn a_silent_connection_replaces_the_one_that_was_timed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut settings = Settings::of_study(&COMMON, Study::Smoke);
        settings.set("url", &format!("http://{}/", listener.local_addr().unwrap()));
        settings.set("idle", "halt");
        let (host, scratch) = (Host::default(), std::env::temp_dir());
        let context =
            Context { settings: &settings, n: 1, seed: 1, scratch: &scratch, host: &host, progress: Progress::NONE };
        let mut pool = ConnectionPool::new(&context).unwrap();
        let timed = pool.socket().unwrap();
        pool.connect(&timed).unwrap();
        let (mut timed_end, _) = listener.accept().unwrap();
        // A connection that is not closed makes the test fail, not hang.
        timed_end.set_read_timeout(Some(RESPONSE_TIMEOUT)).unwrap();
        pool.replace_with_silent(timed).unwrap();
        let (mut silent_end, _) = listener.accept().unwrap();
        assert_eq!(timed_end.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        silent_end.set_nonblocking(true).unwrap();
        assert_eq!(silent_end.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "open, and nothing was sent");
        assert_eq!(pool.len(), 1);
        pool.check_all_open().unwrap();
        drop(silent_end);
        while pool.check_all_open().is_ok() {}
    }

    #[test]
    fn each_source_address_has_its_share_of_connections() {
        let of = |index| source(index, 2_048).to_string();
        assert_eq!((of(0), of(2_047), of(2_048)), ("127.1.0.1".into(), "127.1.0.1".into(), "127.1.0.2".into()));
        assert_eq!(of(1_000_000), "127.1.1.233");
    }
}
