//! `request`: an old connection, idle among ever more, asks a web server for a small file.
//!
//! Measures the request latency of a keep-alive connection that is chosen at random among all that stand open: to the
//! answer's first byte and to its last. Before each request one more connection is made, untimed, and has had an
//! answer; that all stay open is seen at every step.
//!
//! Misleads as a loaded server's latency: one client asks at a time, and most of what it waits for is the server's
//! being woken.
//!
//! Source: the HTTP request latency of the 2003 study, whose program asked on connections that it had just made.

use crate::crowd::Crowd;
use crate::list::connect;
use crate::server;
use landau_engine::{
    Benchmark, Context, Cost, Facts, Host, Parameter, Phase, Settings, Stop, Study, Support, Timer, Variant,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// The benchmark.
#[derive(Debug)]
pub struct Request {
    crowd: Crowd,
    random: ChaCha8Rng,
}

const FIRST_BYTE: usize = 0;
const LAST_BYTE: usize = 1;

impl Benchmark for Request {
    const NAME: &'static str = "request";
    const ABOUT: &'static str = "Does a web server answer an old connection later when thousands stand open?";
    const AXIS: &'static str = "open connections";
    const PHASES: &'static [Phase] = &[
        Phase::up("first_byte", "from the request on an idle connection chosen at random to the answer's first byte"),
        Phase::up("last_byte", "from the request to the answer's last byte"),
    ];
    const PARAMETERS: &'static [Parameter] = connect::PARAMETERS;
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
    const CAVEATS: &'static [&'static str] = &[
        connect::LOOPBACK,
        connect::CLOSED,
        connect::AWAKE,
        "A connection that was idle for long is cold in the caches: what grows by that grows with any server.",
        "The file is small and in the server's cache; download measures files and disks.",
    ];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), HTTP request latency";

    fn support(host: &Host, settings: &Settings) -> Support {
        server::support(host, settings)
    }

    fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
        connect::auto_n(host, settings, study)
    }

    fn cost(_: &Settings) -> Cost {
        connect::cost()
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        Ok(Self { crowd: Crowd::of(context)?, random: ChaCha8Rng::seed_from_u64(context.seed) })
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let socket = self.crowd.socket()?;
        self.crowd.connect(&socket)?;
        self.crowd.ask(&socket, timer)?;
        self.crowd.join(socket)?;
        self.crowd.all_alive()?;
        let which = self.random.random_range(0..n as usize);
        self.crowd.let_sleep();
        let answered = self.crowd.ask_old(which, timer)?;
        timer.record_between(FIRST_BYTE, answered.sent, answered.first);
        timer.record_between(LAST_BYTE, answered.sent, answered.last);
        Ok(())
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        self.crowd.check(steps, facts)
    }
}
