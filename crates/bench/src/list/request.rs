//! `request`: an idle connection, one of a growing number, requests a small file from a web server.
//!
//! Measures the latency of a request on a keep-alive connection that is chosen at random among all open ones: to the
//! first and to the last byte of the response. Before each request, one more connection is opened and receives a
//! response, untimed. Every step checks that none was closed.
//!
//! Not a measure of the latency of a server under load: there is one request at a time, and most of its latency is the
//! wake-up of the server.
//!
//! Source: the HTTP request latency of the 2003 study, whose program used connections that it had just opened.

use crate::list::connect;
use crate::pool::ConnectionPool;
use crate::server;
use landau_engine::{
    Benchmark, Context, Cost, Facts, Host, Parameter, Phase, ReplayCase, Settings, Stop, Study, Support, Timer, Variant,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// State of a pass.
#[derive(Debug)]
pub struct Request {
    pool: ConnectionPool,
    random: ChaCha8Rng,
}

const FIRST_BYTE: usize = 0;
const LAST_BYTE: usize = 1;

impl Benchmark for Request {
    const NAME: &'static str = "request";
    const ABOUT: &'static str =
        "Does a web server take longer to respond on an idle connection when thousands are open?";
    const AXIS: &'static str = "open connections";
    const PHASES: &'static [Phase] = &[
        Phase::up("first_byte", "from the request on a random idle connection to the response's first byte"),
        Phase::up("last_byte", "from the request to the response's last byte"),
    ];
    const PARAMETERS: &'static [Parameter] = &connect::COMMON;
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("backend", "poll")]),
        Variant::always(&[("backend", "io_uring")]),
        Variant::full(&[("backend", "epoll-edge")]),
        Variant::full(&[("backend", "select")]),
        Variant::full(&[("backend", "sigio")]),
        Variant::full(&[("server", "nginx")]),
        Variant::full(&[("server", "lighttpd")]),
        Variant::full(&[("server", "h2o")]),
    ];
    const REPLAYS: &'static [ReplayCase] =
        &[ReplayCase::corrected(&[("n", "5000")]), ReplayCase::corrected(&[("n", "1000"), ("backend", "poll")])];
    const CAVEATS: &'static [&'static str] = &[
        connect::CAVEAT_LOOPBACK,
        connect::CAVEAT_CLOSED_LOOP,
        connect::CAVEAT_IDLE,
        "A connection that was idle for long is cold in the processor's caches; that growth occurs with every server.",
        "The file is small and in the server's cache; download measures files and disks.",
    ];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), HTTP request latency";

    fn support(host: &Host, settings: &Settings) -> Support {
        server::support(host, settings)
    }

    fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
        connect::auto_n(host, settings, study)
    }

    fn cost(settings: &Settings) -> Cost {
        connect::cost(settings)
    }

    fn kept_files(settings: &Settings) -> Option<String> {
        Some(server::document_root_name(settings))
    }

    fn uses_other_processors(_: &Settings) -> bool {
        true
    }

    fn step_us(_: &Settings) -> u64 {
        300
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        Ok(Self { pool: ConnectionPool::new(context)?, random: ChaCha8Rng::seed_from_u64(context.seed) })
    }

    fn measured_processes(&self) -> Vec<u32> {
        self.pool.server_processes()
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let socket = self.pool.socket()?;
        self.pool.connect(&socket)?;
        self.pool.exchange(&socket, timer)?;
        self.pool.add(socket)?;
        self.pool.check_all_open()?;
        let index = self.random.random_range(0..n as usize);
        self.pool.wait_until_server_sleeps();
        let exchange = self.pool.exchange_on(index, timer)?;
        timer.record_between(FIRST_BYTE, exchange.sent, exchange.first);
        timer.record_between(LAST_BYTE, exchange.sent, exchange.last);
        Ok(())
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        self.pool.check(steps, facts)
    }
}
