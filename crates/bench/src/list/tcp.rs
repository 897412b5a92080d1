//! `tcp`: makes the calls with which a server accepts and answers one more connection, while thousands are open.
//!
//! Measures each call of an event-driven server separately: `accept4()` of a connection whose handshake is complete,
//! `epoll_ctl()` to watch it, `epoll_wait()` when one of all connections has sent a request, `recv()` of it, and the
//! response by `send()`, and once more by `send()` of a header and `sendfile()`; during destruction `close()`. The
//! connection that sends the request is chosen at random. The same thread makes the client's calls in between, untimed,
//! so that the server never waits.
//!
//! Not a measure of a server: it parses nothing, and never sleeps. `landau predict` adds the calls up.
//!
//! Source: the connect and HTTP latencies of Felix von Leitner's 2003 study, divided into the server's calls.

use landau_engine::{
    Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, Settings, Stop, Support, Timer, Variant,
};
use landau_sys::descriptor::close;
use landau_sys::event::{Events, epoll_add, epoll_create, epoll_wait};
use landau_sys::socket::{Address, Family, Transport, bind, local_port, socket};
use landau_sys::stream::{
    accept, connect, discard, listen, receive, send, send_file, set_bind_address_no_port, set_no_delay,
    set_reset_on_close,
};
use landau_sys::wait::Timeout;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;

/// State of a pass.
#[derive(Debug)]
pub struct Tcp {
    listener: OwnedFd,
    target: Address,
    set: OwnedFd,
    events: Events,
    connections: Vec<Connection>,
    random: ChaCha8Rng,
    request: Vec<u8>,
    response: Vec<u8>,
    file: File,
    buffer: Vec<u8>,
}

/// Both ends of a connection.
#[derive(Debug)]
struct Connection {
    server: OwnedFd,
    client: OwnedFd,
}

const ACCEPT: usize = 0;
const EPOLL_CTL: usize = 1;
const EPOLL_WAIT: usize = 2;
const RECV: usize = 3;
const SEND: usize = 4;
const SEND_HEADER: usize = 5;
const SENDFILE: usize = 6;
const CLOSE: usize = 7;

/// Size of the header before a file in bytes, about that of nginx.
const HEADER: usize = 250;

/// The name of the file that is sent.
const FILE: &str = "response";

static HEADER_BYTES: [u8; HEADER] = [b'h'; HEADER];

impl Benchmark for Tcp {
    const NAME: &'static str = "tcp";
    const ABOUT: &'static str = "Do the calls of a TCP server cost more when thousands of connections are open?";
    const AXIS: &'static str = "open connections";
    const IN_QUICK: bool = false;
    const PHASES: &'static [Phase] = &[
        Phase::up("accept", "accept4() of a connection whose handshake is complete"),
        Phase::up("epoll_ctl", "epoll_ctl(EPOLL_CTL_ADD) of the accepted connection"),
        Phase::up("epoll_wait", "epoll_wait() when one randomly chosen connection has sent a request"),
        Phase::up("recv", "recv() of the request on that connection"),
        Phase::up("send", "send() of a response on that connection, delivered to its client"),
        Phase::up("send_header", "send() of a header of 250 bytes on that connection, delivered to its client"),
        Phase::up("sendfile", "sendfile() of a cached file as large as a response, delivered to its client"),
        Phase::down("close", "close() of the newest connection, which is still open at its client"),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("64", "2000", "9500", "open connections"),
        Parameter::fixed("request", Kind::Size { min: 1, max: 64 << 10 }, "100B", "size of a request"),
        Parameter::fixed("response", Kind::Size { min: 1, max: 64 << 10 }, "8KiB", "size of a response"),
    ];
    const VARIANTS: &'static [Variant] = &[Variant::full(&[("response", "300B")])];
    const CAVEATS: &'static [&'static str] = &[
        "Client and server are one thread of one process: no call ever waits, and none wakes another process. A server \
         that sleeps between requests pays for that as well.",
        "On loopback, send() and sendfile() contain the delivery to the client's socket; over a network they contain \
         the driver instead.",
        "recv() does not contain the arrival of the request, which here is part of the client's call.",
        "sendfile() follows send() on the same connection, whose state is then in the processor's caches.",
    ];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), connect and HTTP latency, by call";

    fn support(host: &Host, _: &Settings) -> Support {
        Support::when(host.system == "Linux", "only Linux has epoll")
    }

    fn cost(settings: &Settings) -> Cost {
        let disk_bytes = settings.bytes("response").max(1 << 20);
        Cost { memory_bytes_each: 8_000, descriptors_each: 2, disk_bytes, ..Cost::default() }
    }

    fn kept_files(_: &Settings) -> Option<String> {
        Some(FILE.to_owned())
    }

    fn step_us(_: &Settings) -> u64 {
        200
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let listener = socket(Family::V4, Transport::Tcp)?;
        let loopback = |port| Address::from(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        bind(&listener, &loopback(0))?;
        listen(&listener, 16)?;
        let set = epoll_create()?;
        let size = context.settings.bytes("response") as usize;
        Ok(Self {
            target: loopback(local_port(&listener)?),
            listener,
            set,
            events: Events::with_capacity(64),
            connections: Vec::with_capacity(context.n as usize),
            random: ChaCha8Rng::seed_from_u64(context.seed),
            request: vec![b'r'; context.settings.bytes("request") as usize],
            response: vec![b's'; size],
            file: cached_file(context.scratch, size)?,
            buffer: vec![0; 64 << 10],
        })
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let client = self.connect()?;
        let server = timer.time(ACCEPT, || accept(&self.listener))?;
        set_no_delay(&server)?;
        timer.time(EPOLL_CTL, || epoll_add(&self.set, &server))?;
        self.connections.push(Connection { server, client });
        let index = self.random.random_range(0..n as usize);
        self.answer(index, timer)
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let Connection { server, client } = self.connections.pop().ok_or(Stop::Enough)?;
        timer.time(CLOSE, || close(server))?;
        // The client resets the connection, so that nothing stays in FIN_WAIT or TIME_WAIT.
        close(client)?;
        Ok(())
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        let ends = self.connections.iter().flat_map(|connection| [&connection.server, &connection.client]);
        crate::list::check_open(ends, 2 * steps)
    }
}

impl Tcp {
    /// Opens a connection from a new client; the handshake is complete.
    fn connect(&self) -> Result<OwnedFd, Stop> {
        let client = socket(Family::V4, Transport::Tcp)?;
        set_bind_address_no_port(&client)?;
        set_reset_on_close(&client)?;
        set_no_delay(&client)?;
        connect(&client, &self.target)?;
        Ok(client)
    }

    /// Sends a request from the client of one connection, and answers it twice.
    fn answer(&mut self, index: usize, timer: &mut Timer) -> Result<(), Stop> {
        let Self { connections, set, events, request, response, file, buffer, .. } = self;
        let Connection { server, client } = &connections[index];
        whole("request", send(client, request, false)?, request.len())?;
        let ready = timer.time(EPOLL_WAIT, || epoll_wait(set, events, Timeout::Zero))?;
        Stop::unless(ready == 1, || format!("one connection has sent a request, but {ready} are reported"))?;
        let got = timer.time(RECV, || receive(server, buffer))?;
        whole("request", got, request.len())?;
        let sent = timer.time(SEND, || send(server, response, false))?;
        whole("response", sent, response.len())?;
        drain(client, response.len())?;
        let sent = timer.time(SEND_HEADER, || send(server, &HEADER_BYTES, false))?;
        whole("header", sent, HEADER)?;
        let sent = timer.time(SENDFILE, || send_file(server, file, 0, response.len()))?;
        whole("file", sent, response.len())?;
        drain(client, HEADER + response.len())
    }
}

/// Returns a file of this size, in the page cache.
fn cached_file(folder: &Path, size: usize) -> Result<File, Stop> {
    let path = folder.join(FILE);
    std::fs::write(&path, vec![b'f'; size]).map_err(|error| Stop::io("write", &error))?;
    File::open(&path).map_err(|error| Stop::io("open", &error))
}

/// Stops the pass unless a call has moved all bytes.
fn whole(what: &str, moved: usize, size: usize) -> Result<(), Stop> {
    Stop::unless(moved == size, || format!("{moved} of the {what}'s {size} bytes were moved by one call"))
}

/// Reads a response that has arrived.
fn drain(client: &OwnedFd, size: usize) -> Result<(), Stop> {
    let mut left = size;
    while left > 0 {
        match discard(client, left)? {
            0 => return Err(Stop::Wrong("the server has closed a connection".to_owned())),
            got => left -= got,
        }
    }
    Ok(())
}
