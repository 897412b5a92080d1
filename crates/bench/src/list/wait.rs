//! `wait`: one more idle descriptor is watched, and the system is asked which are ready.
//!
//! Measures a wait without patience (timeout 0) by `select`, `poll` or `epoll_wait`: each call of the first two names
//! every descriptor anew and the kernel asks each; the third keeps a list of those that are ready.
//!
//! Misleads as the whole cost of a server's wait: one that finds nothing and sleeps has to leave a note with every
//! descriptor (`select`, `poll`) and to be woken, which a wait without patience has not.
//!
//! Source: what Banga, Mogul and Druschel found web servers to spend their time on (1999); the idle and the active
//! descriptors are those of libevent's benchmark.

use landau_engine::{
    Benchmark, Context, Cost, Facts, Host, Kind, Laps, Mark, MarkKind, Parameter, Phase, Settings, Stop, Study,
    Support, Variant,
};
use landau_sys::descriptor::pipe;
use landau_sys::event::{Events, epoll_add, epoll_create, epoll_ready, epoll_wait, eventfd, raise};
use landau_sys::wait::{PollSet, SELECT_CAPACITY, SelectSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// Numbers below `SELECT_CAPACITY` that a worker may have given to other things.
const SPARE: u64 = 16;

/// As far as a study goes by itself: a call that asks each of n descriptors makes the sweep n².
const FULL_MOST: u64 = 10_000;

/// The benchmark.
#[derive(Debug)]
pub struct Wait {
    watch: Watch,
    object: Object,
    active: u64,
    watched: Vec<OwnedFd>,
    /// The other ends of pipes and sockets, through which they are made ready.
    others: Vec<File>,
}

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    Pipe,
    Eventfd,
    Socket,
}

/// How it is watched. A further mechanism is a further variant with its lines in `of`, `add`, `ask` and `count`.
#[derive(Debug)]
enum Watch {
    Select(SelectSet),
    Poll(PollSet),
    Epoll { set: OwnedFd, events: Events },
}

const WAIT: usize = 0;

impl Benchmark for Wait {
    const NAME: &'static str = "wait";
    const ABOUT: &'static str = "What does one wait for events cost when thousands of descriptors are watched?";
    const AXIS: &'static str = "watched descriptors";
    const PHASES: &'static [Phase] =
        &[Phase::up("wait", "select(), poll() or epoll_wait() with timeout 0 on all descriptors so far")];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps(
            "64",
            "auto",
            "auto",
            "how many; auto: 2,000 (quick), 10,000 or past the limit of descriptors (full), to FD_SETSIZE (select)",
        ),
        Parameter::fixed("mechanism", Kind::Choice(&["select", "poll", "epoll_wait"]), "poll", "which call waits"),
        Parameter::fixed("object", Kind::Choice(&["pipe", "eventfd", "socket"]), "pipe", "what is watched"),
        Parameter::fixed(
            "active",
            Kind::Count { min: 0, max: 1_000_000 },
            "0",
            "how many of them are ready all the time; the others are idle",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("mechanism", "select")]),
        Variant::always(&[("mechanism", "epoll_wait")]),
        Variant::full(&[("object", "eventfd")]),
        Variant::full(&[("object", "socket")]),
        Variant::full(&[("active", "100")]),
        Variant::full(&[("mechanism", "epoll_wait"), ("active", "100")]),
    ];
    const MISLEADS: &'static [&'static str] = &[
        "Timeout 0 never sleeps: a wait that does must also register with each descriptor (select, poll), sleep and \
         be woken.",
        "select() changes the set that it is given; the copy that a program makes for each call is not in the time.",
        "What asking one descriptor costs depends on its kind: compare object=pipe, eventfd and socket.",
        "With active=k the first k descriptors stay ready, for nobody reads them, and every wait tells them anew.",
    ];
    const SOURCE: &'static str = "G. Banga, J. Mogul and P. Druschel, A scalable and explicit event delivery mechanism \
                                  for UNIX (1999); active and idle descriptors as in libevent's bench";

    fn support(host: &Host, settings: &Settings) -> Support {
        if host.system != "Linux" && (settings.is("mechanism", "epoll_wait") || settings.is("object", "eventfd")) {
            return Support::No("epoll and eventfd() are Linux's own".to_owned());
        }
        let most = select_most(settings);
        Support::when(
            !settings.is("mechanism", "select") || settings.count("n") <= most,
            &format!(
                "select() watches no descriptor from {SELECT_CAPACITY} (FD_SETSIZE) on: with object={} wait.n is at \
                 most {most}",
                settings.text("object")
            ),
        )
    }

    fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
        if settings.is("mechanism", "select") {
            return select_most(settings);
        }
        match host.limits.get("RLIMIT_NOFILE") {
            Some(&limit) if study == Study::Full => {
                (limit / descriptors_each(settings)).saturating_add(1).min(FULL_MOST)
            }
            _ => 2_000,
        }
    }

    fn marks(_: &Host, settings: &Settings) -> Vec<Mark> {
        let mark = Mark {
            name: "no room in a set of select()".to_owned(),
            n: SELECT_CAPACITY as f64 / descriptors_each(settings) as f64,
            mark: MarkKind::Capacity,
            source: "FD_SETSIZE".to_owned(),
        };
        settings.is("mechanism", "select").then_some(mark).into_iter().collect()
    }

    fn cost(settings: &Settings) -> Cost {
        let memory_bytes_each = match Object::of(settings) {
            Object::Pipe => 2_200,
            Object::Eventfd => 320,
            Object::Socket => 4_800,
        };
        Cost { memory_bytes_each, descriptors_each: descriptors_each(settings), ..Cost::default() }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let (settings, room) = (context.settings, context.n as usize);
        Ok(Self {
            watch: Watch::of(settings, room)?,
            object: Object::of(settings),
            active: settings.count("active"),
            watched: Vec::with_capacity(room),
            others: Vec::with_capacity(room),
        })
    }

    fn step(&mut self, n: u64, laps: &mut Laps) -> Result<(), Stop> {
        let (watched, other) = self.object.make()?;
        self.watch.add(&watched)?;
        self.watched.push(watched);
        self.others.extend(other);
        if n <= self.active {
            self.make_ready(n as usize - 1)?;
        }
        let ready = self.watch.ask(laps)?;
        let expected = n.min(self.active);
        Stop::unless(ready as u64 == expected, || format!("{ready} descriptors are ready instead of {expected}"))
    }

    /// Makes every descriptor ready and sees that the next wait tells of each.
    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        for index in self.active.min(steps)..steps {
            self.make_ready(index as usize)?;
        }
        let ready = self.watch.count(steps as usize + 1)?;
        Stop::unless(ready as u64 == steps, || {
            format!("{steps} descriptors are watched, but {ready} are told to be ready")
        })
    }
}

impl Wait {
    /// Gives a watched descriptor something to be read.
    fn make_ready(&mut self, index: usize) -> Result<(), Stop> {
        match self.others.get_mut(index) {
            Some(other) => other.write_all(b"x").map_err(|error| Stop::io("write", &error)),
            None => Ok(raise(&self.watched[index])?),
        }
    }
}

impl Object {
    fn of(settings: &Settings) -> Self {
        match settings.text("object") {
            "eventfd" => Object::Eventfd,
            "socket" => Object::Socket,
            _ => Object::Pipe,
        }
    }

    /// Makes one: the descriptor to watch, and the other end where there is one.
    fn make(self) -> Result<(OwnedFd, Option<File>), Stop> {
        Ok(match self {
            Object::Eventfd => (eventfd()?, None),
            Object::Pipe => pipe().map(|(reading, writing)| (reading, Some(writing.into())))?,
            Object::Socket => {
                let (watched, other) = UnixStream::pair().map_err(|error| Stop::io("socketpair", &error))?;
                (watched.into(), Some(OwnedFd::from(other).into()))
            }
        })
    }
}

impl Watch {
    fn of(settings: &Settings, room: usize) -> Result<Self, Stop> {
        Ok(match settings.text("mechanism") {
            "select" => Watch::Select(SelectSet::new()),
            "epoll_wait" => {
                // One place even where nothing will be ready: the call takes no fewer.
                let events = Events::with_room(room.min(settings.count("active") as usize));
                Watch::Epoll { set: epoll_create()?, events }
            }
            _ => Watch::Poll(PollSet::with_capacity(room)),
        })
    }

    fn add(&mut self, fd: &OwnedFd) -> Result<(), Stop> {
        match self {
            Watch::Select(set) => set.add(fd)?,
            Watch::Poll(set) => set.add(fd),
            Watch::Epoll { set, .. } => epoll_add(set, fd)?,
        }
        Ok(())
    }

    /// The timed wait: how many are ready. The choice of the call lies outside what is timed.
    #[inline(always)]
    fn ask(&mut self, laps: &mut Laps) -> Result<usize, Stop> {
        match self {
            Watch::Select(set) => {
                let mut copy = *set;
                laps.time(WAIT, || copy.ready())
            }
            Watch::Poll(set) => laps.time(WAIT, || set.ready()),
            Watch::Epoll { set, events } => laps.time(WAIT, || epoll_wait(set, events)),
        }
    }

    /// How many are ready, counted up to `most`. Untimed.
    fn count(&mut self, most: usize) -> Result<usize, Stop> {
        Ok(match self {
            Watch::Select(set) => { *set }.ready()?,
            Watch::Poll(set) => set.ready()?,
            Watch::Epoll { set, .. } => epoll_ready(set, most)?,
        })
    }
}

fn descriptors_each(settings: &Settings) -> u64 {
    if Object::of(settings) == Object::Eventfd { 1 } else { 2 }
}

/// How many objects `select` can watch.
fn select_most(settings: &Settings) -> u64 {
    (SELECT_CAPACITY as u64 - SPARE) / descriptors_each(settings)
}
