//! A crowd of connections that stand open at a server, each of which has had an answer: the client's side of `connect`
//! and `request`.
//!
//! Every socket blocks, and resets its connection when it is closed, so that nothing waits in `TIME_WAIT` afterwards.
//! Ports are chosen by `connect` (`IP_BIND_ADDRESS_NO_PORT`) and each source address of 127.0.0.0/8 serves a part of
//! the crowd only: the search for a port would else turn into a curve of its own at half the range. All connections are
//! watched for their end, so that n is no fiction.

use crate::awake::Awake;
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

/// Connections from one source address: far below half of any usual range of ports.
const EACH_SOURCE: u16 = 2_048;

/// How long an answer may take. A connection attempt that was dropped is repeated after 1, 3 and 7 s.
const PATIENCE: Duration = Duration::from_secs(30);

/// After an answer a server needs less than that answer took, and this, until it sleeps.
const SLEEP_NS: u64 = 30_000;

/// How many are asked again at the end.
const ASKED_AGAIN: u64 = 512;

/// The crowd.
#[derive(Debug)]
pub(crate) struct Crowd {
    pub(crate) server: Server,
    target: Address,
    /// Whether connections come from several addresses of 127.0.0.0/8, or from where the system likes.
    has_sources: bool,
    each_source: u16,
    connections: Vec<TcpStream>,
    watch: Reactor,
    buffer: Vec<u8>,
    /// How long the last answer took.
    last_ns: u64,
    /// The client's processor.
    processor: Option<u32>,
    awake: Awake,
}

/// What came of one request: the moments, of which the first is when it was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) sent: Timestamp,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

impl Crowd {
    /// Nobody yet, at the server that is asked for.
    pub(crate) fn of(context: &Context) -> Result<Self, Stop> {
        let mut server = Server::selected(context)?;
        let range = ephemeral_ports().map_or(4_096, |(low, high)| high.saturating_sub(low));
        let watch = Reactor::new(Backend::default()).map_err(crate::backend::stop)?;
        let own = context.host.pinned_processor;
        let is_kept = context.settings.is("idle", "poll");
        let processors = if is_kept { server.processor().into_iter().chain(own).collect() } else { Vec::new() };
        server.begin();
        Ok(Self {
            target: server.address.into(),
            has_sources: has_sources(server.address),
            each_source: EACH_SOURCE.min(range / 4).max(1),
            server,
            connections: Vec::with_capacity(context.n as usize),
            watch,
            buffer: vec![0; 256 << 10],
            last_ns: 0,
            processor: own,
            awake: Awake::keep(processors),
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// A socket for the next connection.
    pub(crate) fn socket(&self) -> Result<TcpStream, Stop> {
        let family = if self.server.address.is_ipv4() { Family::V4 } else { Family::V6 };
        let socket = socket(family, Transport::Tcp)?;
        if self.has_sources {
            // Where there is no such option, `bind` chooses the port.
            let _ = stream::set_bind_address_no_port(&socket);
            bind(&socket, &SocketAddr::new(source(self.len(), self.each_source), 0).into())?;
        }
        stream::set_no_delay(&socket)?;
        stream::set_reset_on_close(&socket)?;
        let socket = TcpStream::from(socket);
        socket.set_read_timeout(Some(PATIENCE)).map_err(|error| Stop::io("setsockopt", &error))?;
        Ok(socket)
    }

    /// Connects, which returns when the server's kernel has answered.
    #[inline(always)]
    pub(crate) fn connect(&self, socket: &TcpStream) -> landau_sys::Result<()> {
        stream::connect(socket, &self.target)
    }

    /// Waits until the server surely sleeps again. One that asks each of many connections before it does would else be
    /// met awake the more often the more there are, and save what it costs to wake it.
    pub(crate) fn let_sleep(&self) {
        let until = monotonic_ns() + self.last_ns + SLEEP_NS;
        while monotonic_ns() < until {
            std::hint::spin_loop();
        }
    }

    /// Sends the request and reads the answer to its end.
    #[inline(always)]
    pub(crate) fn ask(&mut self, socket: &TcpStream, timer: &Timer) -> Result<Answered, Stop> {
        let began_ns = monotonic_ns();
        let sent = timer.now();
        stream::send(socket, &self.server.request, false)?;
        let got = self.receive(socket, 0)?;
        let first = timer.now();
        self.rest(socket, got)?;
        let last = timer.now();
        self.last_ns = monotonic_ns() - began_ns;
        Ok(Answered { sent, first, last })
    }

    fn receive(&mut self, socket: &TcpStream, from: usize) -> Result<usize, Stop> {
        match stream::receive(socket, &mut self.buffer[from..]) {
            Ok(0) => Err(self.refused("it closed the connection without an answer")),
            Ok(got) => Ok(got),
            Err(error) if error.errno == libc::EAGAIN => {
                Err(self.refused(&format!("no answer within {} s", PATIENCE.as_secs())))
            }
            Err(error) if error.errno == libc::ECONNRESET => Err(self.refused("it reset the connection")),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads to the end of an answer of which the first bytes lie in the buffer.
    fn rest(&mut self, socket: &TcpStream, mut got: usize) -> Result<(), Stop> {
        let mut reader = Reader::default();
        let head = loop {
            match reader.parse(&self.buffer[..got]) {
                Ok(Some(head)) => break head,
                Ok(None) => got += self.receive(socket, got)?,
                Err(malformed) => return Err(Stop::Wrong(format!("the server's answer is a {malformed}"))),
            }
        };
        if head.status == Status(503) && self.server.is_started() {
            // It was told of no bound, so it is that of its descriptors, with what it keeps back for itself.
            return Err(FULL.into());
        }
        if head.status != Status::OK {
            return Err(self.refused(&format!("its answer has the status {}", head.status.0)));
        }
        let length = head.content_length.filter(|_| head.keep_alive);
        let length = length.ok_or_else(|| {
            Stop::Wrong("the server's answer has no length or ends the connection; nobody would be idle".to_owned())
        })?;
        let whole = head.head_bytes as u64 + length;
        let mut count = got as u64;
        while count < whole {
            count += self.receive(socket, 0)? as u64;
        }
        Stop::unless(count == whole, || format!("the answer has {count} bytes instead of {whole}"))
    }

    /// What an answer that is none means: where the server's table of descriptors is full, the limit.
    #[cold]
    fn refused(&self, what: &str) -> Stop {
        if let Some(limit) = self.server.limit() {
            return limit.into();
        }
        Stop::Wrong(format!("the server does not answer as it should: {what}"))
    }

    /// Takes one more into the crowd, which has had its answer.
    pub(crate) fn join(&mut self, socket: TcpStream) -> Result<(), Stop> {
        let token = Token(self.len() as u32);
        self.watch.register_nonblocking(&socket, token, Interest::READABLE).map_err(crate::backend::stop)?;
        self.connections.push(socket);
        Ok(())
    }

    /// Asks one of the crowd.
    #[inline(always)]
    pub(crate) fn ask_old(&mut self, which: usize, timer: &Timer) -> Result<Answered, Stop> {
        // The buffer and the connection are borrowed at once; a copy of the reference costs nothing.
        let socket = self.connections.swap_remove(which);
        let answered = self.ask(&socket, timer);
        self.connections.push(socket);
        let last = self.connections.len() - 1;
        self.connections.swap(which, last);
        answered
    }

    /// Sees that none was closed and none speaks unasked.
    pub(crate) fn all_alive(&mut self) -> Result<(), Stop> {
        self.watch.wait(Some(Duration::ZERO)).map_err(crate::backend::stop)?;
        match self.watch.next_event() {
            None => Ok(()),
            Some(event) => Err(Stop::Wrong(format!(
                "of {} idle connections number {} was closed by the server",
                self.len(),
                event.token.0 + 1
            ))),
        }
    }

    /// Asks some of all again, and says in the facts what was seen.
    pub(crate) fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        self.server.report(self.processor, steps, facts);
        facts.text("idle processors", self.awake.fact());
        self.all_alive()?;
        Stop::unless(self.len() as u64 >= steps, || format!("{} of {steps} connections stand open", self.len()))?;
        let stride = (self.len() as u64).div_ceil(ASKED_AGAIN).max(1) as usize;
        let mut asked = 0;
        for which in (0..self.len()).step_by(stride) {
            let socket = self.connections[which].try_clone();
            // Where no descriptor is left for the copy, the watch alone has to do.
            let Ok(socket) = socket else { break };
            stream::send(&socket, &self.server.request, false)?;
            let got = self.receive(&socket, 0)?;
            self.rest(&socket, got)?;
            asked += 1;
        }
        let count = self.server.descriptors();
        Stop::unless(count.is_none_or(|count| count >= steps), || {
            format!("{steps} connections stand open, but the server has {count:?} descriptors")
        })?;
        let count =
            count.map_or("its descriptors are not told".to_owned(), |count| format!("it has {count} descriptors"));
        facts.text(
            "seen to be alive",
            format!(
                "all {steps}, each watched for its end at every step; {asked} answered once more; of the server, \
                 {count}"
            ),
        );
        facts.text("source addresses and ports", self.sources());
        Ok(())
    }

    fn sources(&self) -> String {
        if !self.has_sources {
            return "the system's choice".to_owned();
        }
        let count = self.len().div_ceil(usize::from(self.each_source));
        format!(
            "{count} of 127.0.0.0/8, at most {} connections each; connect() chooses the port (IP_BIND_ADDRESS_NO_PORT)",
            self.each_source
        )
    }
}

/// Whether a server is reached from any address of 127.0.0.0/8: Linux has them all, others have one.
fn has_sources(server: SocketAddr) -> bool {
    cfg!(target_os = "linux") && matches!(server.ip(), IpAddr::V4(ip) if ip.is_loopback())
}

/// The source address of a connection by its place: from 127.1.0.1 on.
fn source(place: usize, each: u16) -> IpAddr {
    let number = place / usize::from(each);
    IpAddr::V4(Ipv4Addr::from(0x7f01_0001 + number as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_address_serves_its_part_only() {
        let of = |place| source(place, 2_048).to_string();
        assert_eq!((of(0), of(2_047), of(2_048)), ("127.1.0.1".into(), "127.1.0.1".into(), "127.1.0.2".into()));
        assert_eq!(of(1_000_000), "127.1.1.233");
    }
}
