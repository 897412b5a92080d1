//! `event_loop`: one turn of an event loop that watches ever more descriptors, of which a few become ready.
//!
//! Measures the event library, backend by backend: before each turn as many descriptors as `active` says are given
//! a byte; timed are the wait, and apart the handing out of what it found until each of them was told. Then the bytes
//! are read, as a server would, so that backends that tell of changes tell anew. `event_wait` measures the bare calls, with
//! descriptors that stay ready; here events are used up.
//!
//! Misleads as the cost of a server's turn: it never sleeps, and nothing is done with an event.
//!
//! Source: libevent's benchmark, which writes to a few of many pairs and times the turns until all are told.

use crate::backend;
use landau_engine::{
    Annotation, AnnotationKind, Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, Settings, Stop, Study,
    Support, Timer, Unit, Variant,
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

/// As far as a study goes by itself: a backend that asks each of n descriptors makes the sweep n².
const FULL_MOST: u64 = 9_000;

/// How many may be ready at once: what one wait tells.
const MOST_ACTIVE: u64 = 256;

/// How long the check waits for what is surely ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// The benchmark.
#[derive(Debug)]
pub struct EventLoop {
    reactor: Reactor,
    active: u64,
    is_random: bool,
    random: ChaCha8Rng,
    /// The watched ends; a token is a place in this list.
    watched: Vec<OwnedFd>,
    /// The other ends, through which they are made ready.
    others: Vec<OwnedFd>,
    /// From here on numbers are given to the other ends, so that the watched have the low ones.
    others_from: RawFd,
    /// Who is to be told in this turn, and who of all is still to be told.
    chosen: Vec<usize>,
    is_awaited: Vec<bool>,
    /// Events of descriptors that were told already, or are not ready: lawful, for an event is a hint.
    extra: u64,
}

const WAIT: usize = 0;
const DISPATCH: usize = 1;

impl Benchmark for EventLoop {
    const NAME: &'static str = "event_loop";
    const ABOUT: &'static str = "What does a turn of an event loop cost when thousands of descriptors are idle?";
    const AXIS: &'static str = "idle descriptors";
    const PHASES: &'static [Phase] = &[
        Phase::up("wait", "the reactor's wait, which tells the kernel what changed and asks it what is ready"),
        Phase::up(
            "dispatch",
            "handling of the reported events, with further waits if needed, until every active descriptor was reported",
        ),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("64", "auto", "auto", "how many; auto: 2,000 (quick), 9,000 or half the descriptors (full)"),
        Parameter::fixed("backend", Kind::Choice(backend::NAMES), "epoll", "how the reactor asks the kernel"),
        Parameter::fixed(
            "active",
            Kind::Count { min: 1, max: MOST_ACTIVE },
            "1",
            "how many become ready before each turn, beside those that n counts",
        ),
        Parameter::fixed(
            "selection",
            Kind::Choice(&["same", "random"]),
            "same",
            "same: the first ones become ready each time; random: others in each turn, long idle and out of the caches",
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
        "It never sleeps: what is active is ready before the wait begins. A server that finds nothing to do also pays \
         for sleeping and being woken.",
        "What making a descriptor ready costs is not in it, and backends that do their work then (epoll, sigio, \
         io_uring queue the event as the byte arrives) look cheaper than they are by that part.",
        "The descriptors are Unix sockets; asking another kind costs poll and select more or less than this.",
        "With selection=same those that become ready are warm in the caches: the cost of the backend alone. With random \
         the one that was long idle is cold, which grows with n whatever the backend.",
        "backend=null asks nobody and tells of all n: it is the loop's own cost for n events, and no wait.",
        "With select the curve ends where a set has no room, far below the others' ends.",
    ];
    const SOURCE: &'static str = "libevent's bench: few active among many idle pairs, timed until all are told";

    fn support(host: &Host, settings: &Settings) -> Support {
        if host.clock.unit != Unit::Ns {
            return Support::No("it times a library on a real machine; `event_wait` counts the bare calls".to_owned());
        }
        backend::support(backend::named(settings, "backend"))
    }

    fn auto_n(host: &Host, _: &Settings, study: Study) -> u64 {
        match host.limits.get("RLIMIT_NOFILE") {
            Some(&limit) if study == Study::Full => (limit / 2).saturating_add(1).min(FULL_MOST),
            _ => 2_000,
        }
    }

    fn annotations(_: &Host, settings: &Settings) -> Vec<Annotation> {
        let mark = Annotation {
            name: "no room in a set of select()".to_owned(),
            n: SELECT_CAPACITY as f64,
            kind: AnnotationKind::Capacity,
            source: "FD_SETSIZE".to_owned(),
        };
        settings.is("backend", "select").then_some(mark).into_iter().collect()
    }

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 5_000, descriptors_each: 2, ..Cost::default() }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let (settings, room) = (context.settings, context.n as usize);
        let backend = backend::named(settings, "backend");
        let active = settings.count("active");
        let all = room + active as usize;
        let mut event_loop = Self {
            reactor: Reactor::new(backend).map_err(backend::stop)?,
            active,
            is_random: settings.is("selection", "random"),
            random: ChaCha8Rng::seed_from_u64(context.seed),
            watched: Vec::with_capacity(all),
            others: Vec::with_capacity(all),
            others_from: (get(Resource::Descriptors)?.0 / 2).min(1 << 30) as RawFd,
            chosen: Vec::with_capacity(active as usize),
            is_awaited: vec![false; all],
            extra: 0,
        };
        for _ in 0..active {
            event_loop.add()?;
        }
        Ok(event_loop)
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        self.add()?;
        // Some backends tell the kernel of a new descriptor at once and some with the next wait, which is this one;
        // those that must be told anew of what was used up pay for that in the timed one.
        self.reactor.wait(Some(Duration::ZERO)).map_err(backend::refused)?;
        self.use_up()?;
        self.choose();
        for &one in &self.chosen {
            send(&self.others[one], b"x", false)?;
            self.is_awaited[one] = true;
        }
        self.turn(timer)
    }

    /// Makes every descriptor ready and sees that each is told.
    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        let all = self.watched.len();
        Stop::unless(all as u64 >= steps + self.active, || format!("only {all} descriptors are registered"))?;
        for other in &self.others {
            send(other, b"x", false)?;
        }
        let mut is_told = vec![false; all];
        let mut count = 0;
        while count < all {
            self.reactor.wait(Some(PATIENCE)).map_err(backend::stop)?;
            let before = count;
            while let Some(event) = self.reactor.next_event() {
                let place = event.token.0 as usize;
                count += usize::from(!is_told[place]);
                is_told[place] = true;
                // The null backend tells of what it has told before.
                let _ = receive(&self.watched[place], &mut [0; 8]);
                self.reactor.clear_readiness(&self.watched[place], Interest::READABLE);
            }
            Stop::unless(count > before, || format!("of {all} descriptors only {count} are told to be ready"))?;
        }
        facts.text("events told in vain", self.extra.to_string());
        if let Some(note) = self.reactor.note() {
            facts.text("the backend says", note);
        }
        Ok(())
    }
}

impl EventLoop {
    /// Watches one more.
    fn add(&mut self) -> Result<(), Stop> {
        let (watched, other) = UnixStream::pair().map_err(|error| Stop::io("socketpair", &error))?;
        let other = dup_from(&OwnedFd::from(other), self.others_from)?;
        let (watched, token) = (OwnedFd::from(watched), Token(self.watched.len() as u32));
        self.reactor.register(&watched, token, Interest::READABLE).map_err(backend::stop)?;
        self.watched.push(watched);
        self.others.push(other);
        Ok(())
    }

    /// Reads the bytes of the turn before.
    fn use_up(&mut self) -> Result<(), Stop> {
        for &one in &self.chosen {
            let got = receive(&self.watched[one], &mut [0; 8])?;
            Stop::unless(got == 1, || format!("descriptor {one} held {got} bytes instead of one"))?;
            self.reactor.clear_readiness(&self.watched[one], Interest::READABLE);
        }
        Ok(())
    }

    /// Chooses who becomes ready, in rising order.
    fn choose(&mut self) {
        self.chosen.clear();
        if !self.is_random {
            self.chosen.extend(0..self.active as usize);
            return;
        }
        while self.chosen.len() < self.active as usize {
            let one = self.random.random_range(0..self.watched.len());
            if let Err(place) = self.chosen.binary_search(&one) {
                self.chosen.insert(place, one);
            }
        }
    }

    /// The timed turn.
    #[inline(always)]
    fn turn(&mut self, timer: &mut Timer) -> Result<(), Stop> {
        let (reactor, is_awaited, extra) = (&mut self.reactor, &mut self.is_awaited, &mut self.extra);
        let mut left = self.chosen.len();
        timer.time(WAIT, || reactor.wait(None).map_err(backend::refused))?;
        timer.time(DISPATCH, || {
            loop {
                while let Some(event) = reactor.next_event() {
                    let is_awaited = &mut is_awaited[event.token.0 as usize];
                    left -= usize::from(*is_awaited);
                    *extra += u64::from(!*is_awaited);
                    *is_awaited = false;
                }
                if left == 0 {
                    return Ok(());
                }
                reactor.wait(None).map_err(backend::refused)?;
            }
        })
    }
}
