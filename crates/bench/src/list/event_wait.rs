//! `event_wait`: one more idle descriptor is watched, and the system is asked which are ready.
//!
//! Measures a wait without timeout by `select`, `poll` or `epoll_wait`: each call of the first two names every
//! descriptor anew, and the kernel asks each and leaves a note with each that is idle; the third keeps a list of those
//! that are ready. So that the call returns, one more descriptor, the bell, is always ready. It is the last that the
//! kernel looks at, for behind the first that is ready no notes are left. `timeout=zero` has no bell: a timeout of 0,
//! for which the kernel asks each but leaves no notes.
//!
//! Misleads as the whole cost of a server's wait: one that finds nothing also sleeps and is woken.
//!
//! Source: what Banga, Mogul and Druschel found web servers to spend their time on (1999); the idle and the active
//! descriptors are those of libevent's benchmark.

use landau_engine::{
    Annotation, AnnotationKind, Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, Settings, Stop, Study,
    Support, Timer, Unit, Variant,
};
use landau_sys::descriptor::{dup_from, pipe};
use landau_sys::event::{Events, epoll_add, epoll_create, epoll_ready, epoll_wait, eventfd, raise};
use landau_sys::limits::{Resource, get};
use landau_sys::wait::{PollSet, SELECT_CAPACITY, SelectSet, Timeout};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Numbers below `SELECT_CAPACITY` that a worker may have given to other things, the bell among them.
const SPARE: u64 = 16;

/// As far as a study goes by itself: a call that asks each of n descriptors makes the sweep n².
const FULL_MOST: u64 = 10_000;

/// The benchmark.
#[derive(Debug)]
pub struct EventWait {
    watch: Watch,
    object: Object,
    active: u64,
    bell: Option<Bell>,
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

/// How it is watched. A further backend is a further variant with its lines in each method.
#[derive(Debug)]
enum Watch {
    Select(SelectSet),
    Poll(PollSet),
    Epoll { set: OwnedFd, events: Events },
}

/// The one that is always ready, and the last that the kernel looks at. It is of the same kind as the others.
#[derive(Debug)]
struct Bell {
    watched: OwnedFd,
    /// Kept open: an end that is gone is told as something else than data.
    _other: Option<File>,
}

const WAIT: usize = 0;

impl Benchmark for EventWait {
    const NAME: &'static str = "event_wait";
    const ABOUT: &'static str = "What does one wait for events cost when thousands of descriptors are watched?";
    const AXIS: &'static str = "watched descriptors";
    const PHASES: &'static [Phase] =
        &[Phase::up("wait", "select(), poll() or epoll_wait() without timeout on all descriptors so far and the bell")];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps(
            "64",
            "auto",
            "auto",
            "how many; auto: 2,000 (quick), 10,000 or past the limit of descriptors (full), to FD_SETSIZE (select)",
        ),
        Parameter::fixed("backend", Kind::Choice(&["select", "poll", "epoll_wait"]), "poll", "which call waits"),
        Parameter::fixed("object", Kind::Choice(&["pipe", "eventfd", "socket"]), "pipe", "what is watched"),
        Parameter::fixed(
            "active",
            Kind::Count { min: 0, max: 1_000_000 },
            "0",
            "how many of them are ready all the time; the others are idle",
        ),
        Parameter::fixed(
            "timeout",
            Kind::Choice(&["infinite", "zero"]),
            "infinite",
            "infinite: no timeout; one more descriptor, always ready, makes the call return. zero: timeout 0, without that descriptor",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("backend", "select")]),
        Variant::always(&[("backend", "epoll_wait")]),
        Variant::full(&[("object", "eventfd")]),
        Variant::full(&[("object", "socket")]),
        Variant::full(&[("active", "100")]),
        Variant::full(&[("backend", "epoll_wait"), ("active", "100")]),
        Variant::full(&[("timeout", "zero")]),
    ];
    const CAVEATS: &'static [&'static str] = &[
        "It never sleeps: a bell that is always ready is the last that the kernel looks at. A server that finds \
         nothing to do also pays for sleeping and being woken.",
        "With timeout=zero (timeout 0) select() and poll() do not register with the descriptors, which a wait that \
         may sleep has to: it is what a busy loop pays.",
        "select() changes the set that it is given; the copy that a program makes for each call is not in the time.",
        "What asking one descriptor costs depends on its kind: compare object=pipe, eventfd and socket.",
        "With active=k the first k descriptors stay ready, for nobody reads them, and every wait tells them anew. \
         select() and poll() then register with no other, for a ready one has come before.",
    ];
    const SOURCE: &'static str = "G. Banga, J. Mogul and P. Druschel, A scalable and explicit event delivery mechanism \
                                  for UNIX (1999); active and idle descriptors as in libevent's bench";

    fn support(host: &Host, settings: &Settings) -> Support {
        if host.system != "Linux" && (settings.is("backend", "epoll_wait") || settings.is("object", "eventfd")) {
            return Support::No("epoll and eventfd() are Linux's own".to_owned());
        }
        let most = select_most(settings);
        Support::when(
            !settings.is("backend", "select") || settings.count("n") <= most,
            &format!(
                "select() watches no descriptor from {SELECT_CAPACITY} (FD_SETSIZE) on: with object={} event_wait.n is at \
                 most {most}",
                settings.text("object")
            ),
        )
    }

    fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
        if settings.is("backend", "select") {
            return select_most(settings);
        }
        match host.limits.get("RLIMIT_NOFILE") {
            Some(&limit) if study == Study::Full => {
                (limit / descriptors_each(settings)).saturating_add(1).min(FULL_MOST)
            }
            _ if host.clock.unit == Unit::Ns => 2_000,
            // Each of n waits asks n descriptors, and an emulator asks slowly.
            _ => 1_000,
        }
    }

    fn annotations(_: &Host, settings: &Settings) -> Vec<Annotation> {
        let mark = Annotation {
            name: "no room in a set of select()".to_owned(),
            n: SELECT_CAPACITY as f64 / descriptors_each(settings) as f64,
            kind: AnnotationKind::Capacity,
            source: "FD_SETSIZE".to_owned(),
        };
        settings.is("backend", "select").then_some(mark).into_iter().collect()
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
        let object = Object::of(settings);
        let mut watch = Watch::of(settings, room)?;
        let bell = if settings.is("timeout", "infinite") { Some(Bell::hang(object, &mut watch)?) } else { None };
        Ok(Self {
            watch,
            object,
            active: settings.count("active"),
            bell,
            watched: Vec::with_capacity(room),
            others: Vec::with_capacity(room),
        })
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let (watched, other) = self.object.make()?;
        let patience = self.patience();
        self.watch.add(&watched, patience)?;
        self.watched.push(watched);
        self.others.extend(other);
        if n <= self.active {
            self.make_ready(n as usize - 1)?;
        }
        let ready = self.watch.ask(patience, timer)?;
        let expected = n.min(self.active) + self.bells();
        Stop::unless(ready as u64 == expected, || format!("{ready} descriptors are ready instead of {expected}"))
    }

    /// Sees that the bell is the last; then makes every descriptor ready and sees that the next wait tells of each.
    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        if let Some(bell) = &self.bell {
            let (bell, last) = (bell.watched.as_raw_fd(), self.watch.last());
            Stop::unless(last.is_none_or(|last| last == bell), || {
                format!("the bell is descriptor {bell}, but the last that the kernel looks at is {last:?}")
            })?;
        }
        for index in self.active.min(steps)..steps {
            self.make_ready(index as usize)?;
        }
        let expected = steps + self.bells();
        let ready = self.watch.count(expected as usize + 1)?;
        Stop::unless(ready as u64 == expected, || {
            format!("{expected} descriptors are watched, but {ready} are told to be ready")
        })
    }
}

impl EventWait {
    fn patience(&self) -> Timeout {
        if self.bell.is_some() { Timeout::Infinite } else { Timeout::Zero }
    }

    fn bells(&self) -> u64 {
        u64::from(self.bell.is_some())
    }

    /// Gives a watched descriptor something to be read.
    fn make_ready(&mut self, index: usize) -> Result<(), Stop> {
        fill(&self.watched[index], self.others.get_mut(index))
    }
}

impl Bell {
    /// Makes it, ready, and the first to be watched: for `select` with the highest number that a set has room for.
    fn hang(object: Object, watch: &mut Watch) -> Result<Self, Stop> {
        let (mut watched, mut other) = object.make()?;
        fill(&watched, other.as_mut())?;
        if let Watch::Select(_) = watch {
            let numbers = get(Resource::Descriptors)?.0.min(SELECT_CAPACITY as u64);
            watched = dup_from(&watched, numbers as RawFd - 1)?;
        }
        watch.add(&watched, Timeout::Infinite)?;
        Ok(Self { watched, _other: other })
    }
}

/// Gives a descriptor something to be read, through its other end where it has one.
fn fill(watched: &OwnedFd, other: Option<&mut File>) -> Result<(), Stop> {
    match other {
        Some(other) => other.write_all(b"x").map_err(|error| Stop::io("write", &error)),
        None => Ok(raise(watched)?),
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
        Ok(match settings.text("backend") {
            "select" => Watch::Select(SelectSet::new()),
            "epoll_wait" => {
                // The bell's place is there even without one: the call takes no fewer.
                let events = Events::with_room(room.min(settings.count("active") as usize) + 1);
                Watch::Epoll { set: epoll_create()?, events }
            }
            _ => Watch::Poll(PollSet::with_capacity(room + 1)),
        })
    }

    /// Watches one more. With patience the first of all is the bell: it is kept last, as by its number in `select`.
    fn add(&mut self, fd: &OwnedFd, patience: Timeout) -> Result<(), Stop> {
        match self {
            Watch::Select(set) => set.add(fd)?,
            Watch::Poll(set) if patience == Timeout::Infinite => set.add_before_last(fd),
            Watch::Poll(set) => set.add(fd),
            Watch::Epoll { set, .. } => epoll_add(set, fd)?,
        }
        Ok(())
    }

    /// The timed wait: how many are ready. The choice of the call lies outside what is timed.
    #[inline(always)]
    fn ask(&mut self, patience: Timeout, timer: &mut Timer) -> Result<usize, Stop> {
        match self {
            Watch::Select(set) => {
                let mut copy = *set;
                timer.time(WAIT, || copy.ready(patience))
            }
            Watch::Poll(set) => timer.time(WAIT, || set.ready(patience)),
            Watch::Epoll { set, events } => timer.time(WAIT, || epoll_wait(set, events, patience)),
        }
    }

    /// The descriptor that the kernel looks at last, where each call looks at all.
    fn last(&self) -> Option<RawFd> {
        match self {
            Watch::Select(set) => set.last(),
            Watch::Poll(set) => set.last(),
            Watch::Epoll { .. } => None,
        }
    }

    /// How many are ready, counted up to `most`. Untimed.
    fn count(&mut self, most: usize) -> Result<usize, Stop> {
        Ok(match self {
            Watch::Select(set) => { *set }.ready(Timeout::Zero)?,
            Watch::Poll(set) => set.ready(Timeout::Zero)?,
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
