//! `event_loop`: one iteration of an event loop that watches a growing number of idle descriptors, a few of them
//! active.
//!
//! Measures the event library with each of its backends. Before each iteration `active` descriptors get a byte each.
//! The wait is timed, and so is, separately, the handling of the reported events until each active descriptor was
//! reported. Then the bytes are read, as a server would, so that edge-triggered and one-shot backends report the
//! descriptors again. `event_wait` measures the bare system calls, with descriptors that stay ready; here the events
//! are consumed.
//!
//! Not a measure of a server's iteration: this loop never sleeps, and does nothing with an event.
//!
//! Source: libevent's benchmark, which writes to a few of many socket pairs and times the loop until all are reported.

use crate::backend;
use landau_engine::{
    Annotation, Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, Settings, Stop, Study, Support, Timer,
    Unit, Variant,
};
use landau_reactor::{Interest, Reactor, Token};
use landau_sys::descriptor::dup_from;
use landau_sys::limits::{Resource, get};
use landau_sys::stream::{receive, send};
use landau_sys::wait::SELECT_CAPACITY;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Maximum of the default n: with a backend that checks each of n descriptors, a sweep costs n².
const MAX_N_FULL: u64 = 9_000;

/// Maximum number of active descriptors: as many as one wait of the reactor reports.
const MAX_ACTIVE: u64 = 256;

/// Timeout of the check's waits.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// State of a pass.
#[derive(Debug)]
pub struct EventLoop {
    reactor: Reactor,
    active: u64,
    is_random: bool,
    random: ChaCha8Rng,
    /// The watched ends of the socket pairs; a token is an index of this list.
    watched: Vec<OwnedFd>,
    /// The other ends, which make them ready.
    peers: Vec<OwnedFd>,
    /// The lowest descriptor number of the other ends, so that the watched ends have the low ones.
    first_peer: RawFd,
    /// Indexes of the descriptors that are active in this iteration.
    chosen: Vec<usize>,
    /// Whether a descriptor is active and was not reported yet, by index.
    is_pending: Vec<bool>,
    /// Events of descriptors that were reported already or are not ready. They are permitted: an event is a hint.
    spurious: u64,
}

const WAIT: usize = 0;
const DISPATCH: usize = 1;

impl Benchmark for EventLoop {
    const NAME: &'static str = "event_loop";
    const ABOUT: &'static str = "What does an iteration of an event loop cost when thousands of descriptors are idle?";
    const AXIS: &'static str = "idle descriptors";
    const PHASES: &'static [Phase] = &[
        Phase::up(
            "wait",
            "one wait of the event library: epoll_wait(), poll(), …, and the calls that register new descriptors",
        ),
        Phase::up(
            "dispatch",
            "handling the events, including any further waits, until every active descriptor was reported (the phase \
             wait is the first wait only)",
        ),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::auto_steps(
            "64",
            "auto",
            "auto",
            "idle descriptors; auto: quick: 2,000; full: 9,000, or half of RLIMIT_NOFILE if that is less",
        ),
        Parameter::fixed(
            "backend",
            Kind::Choice(backend::NAMES),
            "epoll",
            "event backend of the reactor; epoll-edge: edge-triggered, io_uring-once: one-shot polls, null: no system \
             call",
        ),
        Parameter::fixed(
            "active",
            Kind::Count { min: 1, max: MAX_ACTIVE },
            "1",
            "descriptors that become ready in each iteration, in addition to n",
        ),
        Parameter::fixed(
            "selection",
            Kind::Choice(&["same", "random"]),
            "same",
            "which of the n + active descriptors become ready; same: the first ones in each iteration; random: others \
             in each iteration, which are cold in the caches",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("backend", "select")]),
        Variant::always(&[("backend", "poll")]),
        Variant::always(&[("backend", "epoll-edge")]),
        Variant::always(&[("backend", "sigio")]),
        Variant::always(&[("backend", "io_uring")]),
        Variant::full(&[("backend", "io_uring-once")]),
        Variant::full(&[("backend", "null")]),
        Variant::full(&[("active", "100")]),
        Variant::full(&[("backend", "poll"), ("active", "100")]),
        Variant::full(&[("backend", "epoll-edge"), ("active", "100")]),
        Variant::full(&[("backend", "sigio"), ("active", "100")]),
        Variant::full(&[("backend", "io_uring"), ("active", "100")]),
        Variant::full(&[("selection", "random")]),
        Variant::full(&[("backend", "io_uring"), ("selection", "random")]),
    ];
    const CAVEATS: &'static [&'static str] = &[
        "The loop never sleeps: active descriptors are ready before the wait. A server with nothing to do also pays \
         for sleeping and waking up.",
        "The cost of making a descriptor ready is not included. epoll, sigio and io_uring do part of \
         their work at that time, and that part is not timed.",
        "The descriptors are Unix sockets; the cost of poll and select depends on the type.",
        "With selection=same the active descriptors are warm in the caches, and growth comes from the backend. With \
         selection=random cache misses grow with n for every backend.",
        "backend=null makes no system call and reports all n descriptors: it measures the loop's own cost for n \
         events.",
        "The curve of backend=select ends at FD_SETSIZE, far below the others.",
    ];
    const SOURCE: &'static str =
        "libevent's bench: a few active among many idle socket pairs, timed until all are reported";

    fn support(host: &Host, settings: &Settings) -> Support {
        if host.clock.unit != Unit::Ns {
            return Support::No("it needs real time; event_wait counts the instructions of the bare calls".to_owned());
        }
        backend::support(backend::named(settings, "backend"))
    }

    fn auto_n(host: &Host, _: &Settings, study: Study) -> u64 {
        match host.limits.get("RLIMIT_NOFILE") {
            Some(&limit) if study == Study::Full => (limit / 2).saturating_add(1).min(MAX_N_FULL),
            _ => 2_000,
        }
    }

    fn annotations(_: &Host, settings: &Settings) -> Vec<Annotation> {
        let annotation = || Annotation::capacity("capacity of select()", SELECT_CAPACITY as f64, "FD_SETSIZE");
        settings.is("backend", "select").then(annotation).into_iter().collect()
    }

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 5_000, descriptors_each: 2, ..Cost::default() }
    }

    fn step_us(settings: &Settings) -> u64 {
        match settings.text("backend") {
            // These backends check each descriptor in each iteration.
            "select" | "poll" => 15 + settings.count("n") / 6,
            _ => 30,
        }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let (settings, n) = (context.settings, context.n as usize);
        let backend = backend::named(settings, "backend");
        let active = settings.count("active");
        let all = n + active as usize;
        let mut event_loop = Self {
            reactor: Reactor::new(backend).map_err(backend::stop)?,
            active,
            is_random: settings.is("selection", "random"),
            random: ChaCha8Rng::seed_from_u64(context.seed),
            watched: Vec::with_capacity(all),
            peers: Vec::with_capacity(all),
            // Above the watched ends. A table of descriptors up to a huge limit would take gigabytes.
            first_peer: (get(Resource::Descriptors)?.0 / 2).min(all as u64 + 64) as RawFd,
            chosen: Vec::with_capacity(active as usize),
            is_pending: vec![false; all],
            spurious: 0,
        };
        for _ in 0..active {
            event_loop.add()?;
        }
        Ok(event_loop)
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        self.add()?;
        // Some backends submit a new descriptor at once, others with the next wait, which is this untimed one. Backends
        // that must be armed again after an event pay for that in the timed wait.
        self.reactor.wait(Some(Duration::ZERO)).map_err(backend::refused)?;
        self.consume()?;
        self.choose();
        for &index in &self.chosen {
            send(&self.peers[index], b"x", false)?;
            self.is_pending[index] = true;
        }
        self.iterate(timer)
    }

    /// Makes every descriptor ready and checks that each is reported.
    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        let all = self.watched.len();
        Stop::unless(all as u64 >= steps + self.active, || format!("only {all} descriptors are registered"))?;
        for peer in &self.peers {
            send(peer, b"x", false)?;
        }
        let mut is_reported = vec![false; all];
        let mut count = 0;
        while count < all {
            self.reactor.wait(Some(CHECK_TIMEOUT)).map_err(backend::stop)?;
            let before = count;
            while let Some(event) = self.reactor.next_event() {
                let index = event.token.0 as usize;
                count += usize::from(!is_reported[index]);
                is_reported[index] = true;
                // The null backend reports descriptors again; then there is nothing to read.
                let _ = receive(&self.watched[index], &mut [0; 8]);
                self.reactor.clear_readiness(&self.watched[index], Interest::READABLE);
            }
            Stop::unless(count > before, || format!("only {count} of {all} ready descriptors were reported"))?;
        }
        facts.count("spurious_events", self.spurious);
        if let Some(note) = self.reactor.note() {
            facts.text("backend_details", note);
        }
        Ok(())
    }
}

impl EventLoop {
    /// Makes a socket pair and watches one end.
    fn add(&mut self) -> Result<(), Stop> {
        let (watched, peer) = UnixStream::pair().map_err(|error| Stop::io("socketpair", &error))?;
        let peer = dup_from(&OwnedFd::from(peer), self.first_peer)?;
        let (watched, token) = (OwnedFd::from(watched), Token(self.watched.len() as u32));
        self.reactor.register(&watched, token, Interest::READABLE).map_err(backend::stop)?;
        self.watched.push(watched);
        self.peers.push(peer);
        Ok(())
    }

    /// Reads the bytes of the previous iteration.
    fn consume(&mut self) -> Result<(), Stop> {
        for &index in &self.chosen {
            let received = receive(&self.watched[index], &mut [0; 8])?;
            Stop::unless(received == 1, || format!("descriptor {index} held {received} bytes instead of one"))?;
            self.reactor.clear_readiness(&self.watched[index], Interest::READABLE);
        }
        Ok(())
    }

    /// Chooses the active descriptors, in ascending order.
    fn choose(&mut self) {
        self.chosen.clear();
        if !self.is_random {
            self.chosen.extend(0..self.active as usize);
            return;
        }
        while self.chosen.len() < self.active as usize {
            let index = self.random.random_range(0..self.watched.len());
            if let Err(position) = self.chosen.binary_search(&index) {
                self.chosen.insert(position, index);
            }
        }
    }

    /// Performs the timed iteration.
    #[inline(always)]
    fn iterate(&mut self, timer: &mut Timer) -> Result<(), Stop> {
        let (reactor, is_pending, spurious) = (&mut self.reactor, &mut self.is_pending, &mut self.spurious);
        let mut left = self.chosen.len();
        timer.time(WAIT, || reactor.wait(None).map_err(backend::refused))?;
        timer.time(DISPATCH, || {
            loop {
                while let Some(event) = reactor.next_event() {
                    let is_pending = &mut is_pending[event.token.0 as usize];
                    left -= usize::from(*is_pending);
                    *spurious += u64::from(!*is_pending);
                    *is_pending = false;
                }
                if left == 0 {
                    return Ok(());
                }
                reactor.wait(None).map_err(backend::refused)?;
            }
        })
    }
}
