//! `connect`: opens one more connection to a web server that holds a growing number of idle connections.
//!
//! Measures four overlapping intervals. `handshake` is `connect()` alone, which the server's kernel completes without
//! the server process. `accept` begins with `connect()` and ends with the first byte of the first response: only then
//! has the server certainly accepted. `first_byte` and `last_byte` begin with the request. The connection then stays
//! idle; with `connections=silent` it is closed, and one that never sends a byte takes its place. Every step checks
//! that the server has closed none.
//!
//! Not a measure of a network's latency: there is no network, only two processors of one machine.
//!
//! Source: the connect latency of the 2003 study, whose program timed `connect()` to measure the server's accept; its
//! idle connections never sent a byte.

use crate::backend;
use crate::pool::ConnectionPool;
use crate::server;
use landau_engine::{
    Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, ReplayCase, Settings, Stop, Study, Support, Timer,
    Variant,
};

/// State of a pass.
#[derive(Debug)]
pub struct Connect {
    pool: ConnectionPool,
    /// Whether the open connections have never sent anything.
    silent: bool,
}

const HANDSHAKE: usize = 0;
const ACCEPT: usize = 1;
const FIRST_BYTE: usize = 2;
const LAST_BYTE: usize = 3;

/// The parameters of `connect` and `request`.
pub(crate) const COMMON: [Parameter; 7] = [
    Parameter::auto_steps(
        "64",
        "auto",
        "auto",
        "open connections at the end; auto: quick: 2,000; full: 19,000, or 95% of RLIMIT_NOFILE if that is less; with \
         backend=poll or select: half of that",
    ),
    Parameter::fixed("server", Kind::Choice(server::NAMES), "landau", "web server to start"),
    Parameter::fixed(
        "backend",
        Kind::Choice(backend::WAITING),
        "epoll",
        "event backend of server=landau (--backend of `landau serve`); a case is skipped if this system lacks its \
         backend",
    ),
    Parameter::fixed("file", Kind::Size { min: 1, max: 1 << 30 }, "8KiB", "size of the requested file"),
    Parameter::fixed("url", Kind::Url, "none", "http://HOST:PORT/PATH of a server that is already running"),
    Parameter::fixed(
        "command",
        Kind::Command,
        "none",
        "command that starts another server; {port} and {dir} are replaced; it must stay in the foreground",
    ),
    Parameter::fixed(
        "idle",
        Kind::Choice(&["poll", "halt"]),
        "poll",
        "idle state of the CPUs of client and server. poll: busy SCHED_IDLE processes keep them from halting; halt: \
         they halt when idle",
    ),
];

const PARAMETERS: &[Parameter] = &{
    let [n, server, backend, file, url, command, idle] = COMMON;
    let connections = Parameter::fixed(
        "connections",
        Kind::Choice(&["keep-alive", "silent"]),
        "keep-alive",
        "the open connections. keep-alive: each has had a response; silent: none has sent a byte, as in 2003",
    );
    [n, connections, server, backend, file, url, command, idle]
};

const VARIANTS: &[Variant] = &[
    Variant::full(&[("connections", "silent")]),
    Variant::full(&[("backend", "io_uring")]),
    Variant::full(&[("backend", "poll")]),
    Variant::full(&[("backend", "epoll-edge")]),
    Variant::full(&[("backend", "select")]),
    Variant::full(&[("backend", "sigio")]),
    Variant::full(&[("server", "nginx")]),
    Variant::full(&[("server", "lighttpd")]),
    Variant::full(&[("server", "h2o")]),
];

/// A caveat of `connect` and `request`: there is no network.
pub(crate) const CAVEAT_LOOPBACK: &str = "Client and server run on two processors of one machine. There is no \
                                          network between them, and the kernel receives the server's segments on \
                                          the client's processor.";

/// A caveat of `connect` and `request`: there is no load.
pub(crate) const CAVEAT_CLOSED_LOOP: &str = "The client sends one request at a time. The latency is that of a server \
                                             with nothing else to do; most of it is the time to wake the server's \
                                             process on another processor.";

/// A caveat of `connect` and `request`: processors do not halt.
pub(crate) const CAVEAT_IDLE: &str = "With idle=poll the processors never halt. The latency includes waking the \
                                      server's process, but not waking a halted processor, which on a virtual \
                                      machine takes as long again. idle=halt includes that, and its variation.";

/// Returns the default number of connections.
pub(crate) fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
    let polls_each = settings.is("backend", "poll") || settings.is("backend", "select");
    let divisor = if polls_each { 2 } else { 1 };
    if study != Study::Full {
        return 2_000 / divisor;
    }
    let max = 19_000 / divisor;
    host.limits.get("RLIMIT_NOFILE").map_or(max, |limit| (limit / 20 * 19).clamp(16, max))
}

/// Returns the measured cost of both ends of a connection. The server's descriptor belongs to another process.
pub(crate) fn cost(settings: &Settings) -> Cost {
    Cost {
        memory_bytes_each: 8_000,
        memory_bytes: 64 << 20,
        descriptors_each: 1,
        disk_bytes: (1 << 20) + settings.bytes("file"),
        ..Cost::default()
    }
}

impl Benchmark for Connect {
    const NAME: &'static str = "connect";
    const ABOUT: &'static str = "Does a web server take longer to accept a connection when thousands are open?";
    const AXIS: &'static str = "open connections";
    const PHASES: &'static [Phase] = &[
        Phase::up("handshake", "connect(): returns when the server's kernel has completed the handshake"),
        Phase::up("accept", "from connect() to the first byte of the first response: the server has accepted by then"),
        Phase::up("first_byte", "from the request, sent as soon as connect() returned, to the response's first byte"),
        Phase::up("last_byte", "from the request to the response's last byte"),
    ];
    const PARAMETERS: &'static [Parameter] = PARAMETERS;
    const VARIANTS: &'static [Variant] = VARIANTS;
    // The program of 2003 measured both latencies in one run, on connections that it had just opened; its idle
    // connections never sent a byte.
    const REPLAYS: &'static [ReplayCase] = &[
        ReplayCase::author("2003", 5, &[("n", "5000"), ("connections", "silent")]),
        ReplayCase::corrected(&[("n", "5000"), ("connections", "silent")]),
    ];
    const CAVEATS: &'static [&'static str] = &[
        CAVEAT_LOOPBACK,
        CAVEAT_CLOSED_LOOP,
        CAVEAT_IDLE,
        "handshake depends on the server process only if its accept queue overflows: see listen overflows under Checks \
         and facts.",
        "accept includes handshake and first_byte: a client cannot observe accept() itself.",
        "The client measures all times, so they include its own system calls.",
        "A server may keep different state for a connection that has sent no request yet: compare connections=silent.",
    ];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), HTTP connect latency";

    fn support(host: &Host, settings: &Settings) -> Support {
        server::support(host, settings)
    }

    fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
        auto_n(host, settings, study)
    }

    fn cost(settings: &Settings) -> Cost {
        cost(settings)
    }

    fn kept_files(settings: &Settings) -> Option<String> {
        Some(server::document_root_name(settings))
    }

    fn uses_other_processors(_: &Settings) -> bool {
        true
    }

    fn step_us(_: &Settings) -> u64 {
        2_000
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        Ok(Self { pool: ConnectionPool::new(context)?, silent: context.settings.is("connections", "silent") })
    }

    fn measured_processes(&self) -> Vec<u32> {
        self.pool.server_processes()
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let socket = self.pool.socket()?;
        self.pool.wait_until_server_sleeps();
        let began = timer.now();
        self.pool.connect(&socket)?;
        let connected = timer.now();
        let exchange = self.pool.exchange(&socket, timer)?;
        timer.record_between(HANDSHAKE, began, connected);
        timer.record_between(ACCEPT, began, exchange.first);
        timer.record_between(FIRST_BYTE, exchange.sent, exchange.first);
        timer.record_between(LAST_BYTE, exchange.sent, exchange.last);
        if self.silent {
            self.pool.replace_with_silent(socket)?;
        } else {
            self.pool.add(socket)?;
        }
        self.pool.check_all_open()
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        self.pool.check(steps, facts)
    }
}
