//! `connect`: one more connection is made to a web server at which ever more stand open, idle.
//!
//! Measures four spans apart. `handshake` is `connect` alone, which the server's kernel answers without the server.
//! `accept` runs from there to the first byte of the first answer: only then has the server surely accepted.
//! `first_byte` and `last_byte` run from the request. Then the connection stays, idle; that all stay is seen at every
//! step.
//!
//! Misleads as a network's latency: there is no network, only two processors of one machine.
//!
//! Source: the connect latency of the 2003 study, whose program timed `connect` and meant the server's accept.

use crate::backend;
use crate::crowd::Crowd;
use crate::server;
use landau_engine::{
    Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, Settings, Stop, Study, Support, Timer, Variant,
};

/// The benchmark.
#[derive(Debug)]
pub struct Connect {
    crowd: Crowd,
}

const HANDSHAKE: usize = 0;
const ACCEPT: usize = 1;
const FIRST_BYTE: usize = 2;
const LAST_BYTE: usize = 3;

/// The parameters that `connect` and `request` share.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::steps(
        "64",
        "auto",
        "auto",
        "how many stand open in the end; auto: 2,000 (quick), 19,000 or what the limit of descriptors leaves (full); \
         half of that where the server asks each",
    ),
    Parameter::fixed("server", Kind::Choice(server::NAMES), "landau", "which server is started"),
    Parameter::fixed("backend", Kind::Choice(backend::NAMES), "epoll", "the backend of server=landau"),
    Parameter::fixed("file", Kind::Size { min: 1, max: 1 << 30 }, "8KiB", "size of the file that is requested"),
    Parameter::fixed("url", Kind::Url, "none", "what is asked, http://HOST:PORT/PATH, of a server that runs already"),
    Parameter::fixed(
        "command",
        Kind::Command,
        "none",
        "starts any other server, with {port} and {dir} filled in; it must stay in the foreground",
    ),
    Parameter::fixed(
        "idle",
        Kind::Choice(&["poll", "halt"]),
        "poll",
        "what the processors of client and server do while they wait: poll, for a process of the lowest class that \
         gives way at once; or halt, as they do by themselves",
    ),
];

/// The further cases.
const VARIANTS: &[Variant] = &[
    Variant::full(&[("backend", "io_uring")]),
    Variant::full(&[("backend", "poll")]),
    Variant::full(&[("backend", "epoll-edge")]),
    Variant::full(&[("backend", "select")]),
    Variant::full(&[("backend", "sigio")]),
    Variant::full(&[("server", "nginx")]),
    Variant::full(&[("server", "lighttpd")]),
    Variant::full(&[("server", "h2o")]),
];

/// What they share of how they mislead.
pub(crate) const LOOPBACK: &str = "Client and server are two processors of one machine: there is no network between \
                                   them, and the server's kernel work for arriving segments is done on the client's \
                                   processor.";
pub(crate) const CLOSED: &str = "One request at a time: it is the latency of a server that has nothing else to do, and \
                                 most of it is waking a process on another processor.";

pub(crate) const AWAKE: &str = "With idle=poll no processor ever halts: what it costs to wake one, on a virtual \
                                machine as much as all the rest, is left out. idle=halt has it in, with its whims.";

/// How far a study goes by itself.
pub(crate) fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
    let asks_each = settings.is("backend", "poll") || settings.is("backend", "select");
    let share = if asks_each { 2 } else { 1 };
    if study != Study::Full {
        return 2_000 / share;
    }
    let most = 19_000 / share;
    host.limits.get("RLIMIT_NOFILE").map_or(most, |limit| (limit / 20 * 19).clamp(16, most))
}

/// Both ends of a connection, as measured; the server's descriptor is another process's.
pub(crate) fn cost() -> Cost {
    Cost {
        memory_bytes_each: 8_000,
        memory_bytes: 64 << 20,
        descriptors_each: 1,
        disk_bytes: 1 << 20,
        ..Cost::default()
    }
}

impl Benchmark for Connect {
    const NAME: &'static str = "connect";
    const ABOUT: &'static str = "Does a web server notice a new connection later when thousands stand open?";
    const AXIS: &'static str = "open connections";
    const PHASES: &'static [Phase] = &[
        Phase::up("handshake", "connect(): returns when the server's kernel has answered, before the server knows"),
        Phase::up("accept", "from connect() to the first byte of the first answer: by then the server has accepted"),
        Phase::up("first_byte", "from the request, sent as soon as connect() returned, to the answer's first byte"),
        Phase::up("last_byte", "from the request to the answer's last byte"),
    ];
    const PARAMETERS: &'static [Parameter] = PARAMETERS;
    const VARIANTS: &'static [Variant] = VARIANTS;
    const CAVEATS: &'static [&'static str] = &[
        LOOPBACK,
        CLOSED,
        AWAKE,
        "handshake says nothing about the server unless its queue overflows, which the facts of each pass count.",
        "accept holds the handshake and the answer too: a client cannot see the moment of accept() itself.",
        "Each phase is timed from the outside, so the client's own calls are in it.",
    ];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), HTTP connect latency";

    fn support(host: &Host, settings: &Settings) -> Support {
        server::support(host, settings)
    }

    fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
        auto_n(host, settings, study)
    }

    fn cost(_: &Settings) -> Cost {
        cost()
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        Ok(Self { crowd: Crowd::of(context)? })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let socket = self.crowd.socket()?;
        self.crowd.let_sleep();
        let began = timer.now();
        self.crowd.connect(&socket)?;
        let connected = timer.now();
        let answered = self.crowd.ask(&socket, timer)?;
        timer.record_between(HANDSHAKE, began, connected);
        timer.record_between(ACCEPT, began, answered.first);
        timer.record_between(FIRST_BYTE, answered.sent, answered.first);
        timer.record_between(LAST_BYTE, answered.sent, answered.last);
        self.crowd.join(socket)?;
        self.crowd.all_alive()
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        self.crowd.check(steps, facts)
    }
}
