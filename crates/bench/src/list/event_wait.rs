//! `event_wait`: watches one more idle descriptor, then waits for events on all of them.
//!
//! Measures `select`, `poll` or `epoll_wait` without a timeout. Each call of the first two passes every descriptor. The
//! kernel checks each and adds the caller to the wait queue of each idle one, because the call might sleep.
//! `epoll_wait` returns the ready descriptors from a list that the kernel keeps. One more descriptor, the ready
//! descriptor, makes the call return. The kernel checks it last, because it adds the caller to no wait queue after the
//! first ready descriptor. With `timeout=zero` there is no ready descriptor: the kernel checks each descriptor but adds
//! the caller to no wait queue.
//!
//! Not a measure of the whole cost of a server's wait: a server with nothing to do also sleeps and wakes up.
//!
//! Source: Banga, Mogul and Druschel on where web servers spend their time (1999); idle and active descriptors as in
//! libevent's benchmark.

use landau_engine::{
    Annotation, Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, Settings, Stop, Study, Support, Timer,
    Unit, Variant,
};
use landau_sys::descriptor::{dup_from, pipe};
use landau_sys::event::{Events, epoll_add, epoll_count_ready, epoll_create, epoll_wait, eventfd, eventfd_write};
use landau_sys::limits::{Resource, get};
use landau_sys::wait::{PollSet, SELECT_CAPACITY, SelectSet, Timeout};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Descriptor numbers below `SELECT_CAPACITY` that a worker may use for other things, one of them the ready descriptor.
const SPARE: u64 = 16;

/// Maximum of the default n: with a call that checks each of n descriptors, the time of a pass grows with n².
const MAX_N_FULL: u64 = 10_000;

/// State of a pass.
#[derive(Debug)]
pub struct EventWait {
    watch: Watch,
    object: Object,
    active: u64,
    ready: Option<ReadyDescriptor>,
    watched: Vec<OwnedFd>,
    /// The other ends of pipes and sockets, which make them ready.
    peers: Vec<File>,
}

/// The type of the watched descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    Pipe,
    Eventfd,
    Socket,
}

/// The set of watched descriptors, as the system call takes it.
#[derive(Debug)]
enum Watch {
    Select(SelectSet),
    Poll(PollSet),
    Epoll { set: OwnedFd, events: Events },
}

/// A descriptor that is always ready and the last that the kernel checks. It has the same type as the others.
#[derive(Debug)]
struct ReadyDescriptor {
    watched: OwnedFd,
    /// Kept open: a closed end would be reported as a hang-up instead of data.
    _peer: Option<File>,
}

const WAIT: usize = 0;

impl Benchmark for EventWait {
    const NAME: &'static str = "event_wait";
    const ABOUT: &'static str = "What does a call of select, poll or epoll_wait cost when thousands are watched?";
    const AXIS: &'static str = "watched descriptors";
    const PHASES: &'static [Phase] =
        &[Phase::up("wait", "select(), poll() or epoll_wait() on all descriptors so far and the ready descriptor")];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::auto_steps(
            "64",
            "auto",
            "auto",
            "watched descriptors; auto: quick: 2,000; full: 10,000, or one more than RLIMIT_NOFILE permits if that is \
             less; with backend=select: as many as FD_SETSIZE permits",
        ),
        Parameter::fixed("backend", Kind::Choice(&["select", "poll", "epoll_wait"]), "poll", "system call that waits"),
        Parameter::fixed(
            "object",
            Kind::Choice(&["pipe", "eventfd", "socket"]),
            "pipe",
            "type of the watched descriptors",
        ),
        Parameter::fixed(
            "active",
            Kind::Count { min: 0, max: 1_000_000 },
            "0",
            "descriptors that are ready all the time; the others are idle",
        ),
        Parameter::fixed(
            "timeout",
            Kind::Choice(&["infinite", "zero"]),
            "infinite",
            "infinite: no timeout; one more descriptor, which is always ready, makes the call return at once; zero: \
             timeout 0, without that descriptor",
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
        "The call never sleeps, because a descriptor that the kernel checks last is always ready. A server with \
         nothing to do also pays for sleeping and waking up.",
        "A call of select() or poll() that may sleep joins the wait queue of every descriptor. With timeout=zero it \
         does not, which is what a loop that never sleeps pays.",
        "select() modifies its argument; the copy that a program makes for each call is not timed.",
        "The cost of checking one descriptor depends on its type: compare object=pipe, eventfd and socket.",
        "With active=k the first k descriptors stay ready, because nothing reads them, and every call reports them. \
         As the first descriptor is ready, select() and poll() then join no wait queue.",
    ];
    const SOURCE: &'static str = "G. Banga, J. Mogul and P. Druschel, A scalable and explicit event delivery mechanism \
                                  for UNIX (1999); active and idle descriptors as in libevent's bench";

    fn support(host: &Host, settings: &Settings) -> Support {
        if host.system != "Linux" && (settings.is("backend", "epoll_wait") || settings.is("object", "eventfd")) {
            return Support::No("only Linux has epoll and eventfd()".to_owned());
        }
        let max = select_max(settings);
        Support::when(
            !settings.is("backend", "select") || settings.count("n") <= max,
            &format!(
                "select() watches descriptors below {SELECT_CAPACITY} (FD_SETSIZE) only: with object={} event_wait.n \
                 is at most {max}",
                settings.text("object")
            ),
        )
    }

    fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
        if settings.is("backend", "select") {
            return select_max(settings);
        }
        match host.limits.get("RLIMIT_NOFILE") {
            Some(&limit) if study == Study::Full => {
                (limit / descriptors_each(settings)).saturating_add(1).min(MAX_N_FULL)
            }
            _ if host.clock.unit == Unit::Ns => 2_000,
            // Each of n calls checks up to n descriptors, and an emulator is slow.
            _ => 1_000,
        }
    }

    fn annotations(_: &Host, settings: &Settings) -> Vec<Annotation> {
        let capacity = SELECT_CAPACITY as f64 / descriptors_each(settings) as f64;
        let annotation = || Annotation::capacity("capacity of select()", capacity, "FD_SETSIZE");
        settings.is("backend", "select").then(annotation).into_iter().collect()
    }

    fn cost(settings: &Settings) -> Cost {
        let memory_bytes_each = match Object::new(settings) {
            Object::Pipe => 2_200,
            Object::Eventfd => 320,
            Object::Socket => 4_800,
        };
        Cost { memory_bytes_each, descriptors_each: descriptors_each(settings), ..Cost::default() }
    }

    fn step_us(settings: &Settings) -> u64 {
        if settings.is("backend", "epoll_wait") { 15 } else { 15 + settings.count("n") / 6 }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let (settings, n) = (context.settings, context.n as usize);
        let object = Object::new(settings);
        let mut watch = Watch::new(settings, n)?;
        let may_sleep = settings.is("timeout", "infinite");
        Ok(Self {
            ready: if may_sleep { Some(ReadyDescriptor::add_to(&mut watch, object)?) } else { None },
            watch,
            object,
            active: settings.count("active"),
            watched: Vec::with_capacity(n),
            peers: Vec::with_capacity(n),
        })
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let (watched, peer) = self.object.make()?;
        let timeout = self.timeout();
        self.watch.add(&watched, timeout)?;
        self.watched.push(watched);
        self.peers.extend(peer);
        if n <= self.active {
            self.make_ready(n as usize - 1)?;
        }
        let ready = self.watch.wait(timeout, timer)?;
        let expected = n.min(self.active) + self.always_ready();
        Stop::unless(ready as u64 == expected, || format!("{ready} descriptors are ready instead of {expected}"))
    }

    /// Checks that the ready descriptor is the last one; then makes every descriptor ready and checks that the next
    /// call reports each.
    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        if let Some(ready) = &self.ready {
            let (ready, last) = (ready.watched.as_raw_fd(), self.watch.last());
            Stop::unless(last.is_none_or(|last| last == ready), || {
                format!("the ready descriptor is {ready}, but the kernel checks {last:?} last")
            })?;
        }
        for index in self.active.min(steps)..steps {
            self.make_ready(index as usize)?;
        }
        let expected = steps + self.always_ready();
        let ready = self.watch.count_ready(expected as usize + 1)?;
        Stop::unless(ready as u64 == expected, || {
            format!("{expected} descriptors are watched and ready, but {ready} are reported")
        })
    }
}

impl EventWait {
    fn timeout(&self) -> Timeout {
        if self.ready.is_some() { Timeout::Infinite } else { Timeout::Zero }
    }

    /// Returns the number of ready descriptors in addition to the active ones.
    fn always_ready(&self) -> u64 {
        u64::from(self.ready.is_some())
    }

    /// Makes a watched descriptor readable.
    fn make_ready(&mut self, index: usize) -> Result<(), Stop> {
        make_readable(&self.watched[index], self.peers.get_mut(index))
    }
}

impl ReadyDescriptor {
    /// Makes the descriptor and adds it to an empty set; for `select`, with the highest number that a set can hold.
    fn add_to(watch: &mut Watch, object: Object) -> Result<Self, Stop> {
        let (mut watched, mut peer) = object.make()?;
        make_readable(&watched, peer.as_mut())?;
        if let Watch::Select(_) = watch {
            let numbers = get(Resource::Descriptors)?.0.min(SELECT_CAPACITY as u64);
            watched = dup_from(&watched, numbers as RawFd - 1)?;
        }
        watch.add(&watched, Timeout::Infinite)?;
        Ok(Self { watched, _peer: peer })
    }
}

/// Makes a descriptor readable, through its other end if it has one.
fn make_readable(watched: &OwnedFd, peer: Option<&mut File>) -> Result<(), Stop> {
    match peer {
        Some(peer) => peer.write_all(b"x").map_err(|error| Stop::io("write", &error)),
        None => Ok(eventfd_write(watched)?),
    }
}

impl Object {
    fn new(settings: &Settings) -> Self {
        match settings.text("object") {
            "eventfd" => Object::Eventfd,
            "socket" => Object::Socket,
            _ => Object::Pipe,
        }
    }

    /// Makes a descriptor to watch, and returns its other end if it has one.
    fn make(self) -> Result<(OwnedFd, Option<File>), Stop> {
        Ok(match self {
            Object::Eventfd => (eventfd()?, None),
            Object::Pipe => pipe().map(|(reading, writing)| (reading, Some(writing.into())))?,
            Object::Socket => {
                let (watched, peer) = UnixStream::pair().map_err(|error| Stop::io("socketpair", &error))?;
                (watched.into(), Some(OwnedFd::from(peer).into()))
            }
        })
    }
}

impl Watch {
    /// Returns an empty set for up to `n` descriptors and the ready descriptor.
    fn new(settings: &Settings, n: usize) -> Result<Self, Stop> {
        Ok(match settings.text("backend") {
            "select" => Watch::Select(SelectSet::new()),
            "epoll_wait" => {
                // One more than can be ready, because the call does not accept room for zero events.
                let events = Events::with_capacity(n.min(settings.count("active") as usize) + 1);
                Watch::Epoll { set: epoll_create()?, events }
            }
            _ => Watch::Poll(PollSet::with_capacity(n + 1)),
        })
    }

    /// Adds a descriptor. With an infinite timeout the first one added, the ready descriptor, stays the last in the set
    /// of `poll`; in that of `select` it is the last by its number.
    fn add(&mut self, fd: &OwnedFd, timeout: Timeout) -> Result<(), Stop> {
        match self {
            Watch::Select(set) => set.add(fd)?,
            Watch::Poll(set) if timeout == Timeout::Infinite => set.add_before_last(fd),
            Watch::Poll(set) => set.add(fd),
            Watch::Epoll { set, .. } => epoll_add(set, fd)?,
        }
        Ok(())
    }

    /// Makes the timed call and returns the number of ready descriptors. The match is outside the timed part.
    #[inline(always)]
    fn wait(&mut self, timeout: Timeout, timer: &mut Timer) -> Result<usize, Stop> {
        match self {
            Watch::Select(set) => {
                let mut copy = *set;
                timer.time(WAIT, || copy.select(timeout))
            }
            Watch::Poll(set) => timer.time(WAIT, || set.poll(timeout)),
            Watch::Epoll { set, events } => timer.time(WAIT, || epoll_wait(set, events, timeout)),
        }
    }

    /// Returns the descriptor that the kernel checks last, for calls that check all.
    fn last(&self) -> Option<RawFd> {
        match self {
            Watch::Select(set) => set.last(),
            Watch::Poll(set) => set.last(),
            Watch::Epoll { .. } => None,
        }
    }

    /// Returns the number of ready descriptors, up to `max`, with an untimed call.
    fn count_ready(&mut self, max: usize) -> Result<usize, Stop> {
        Ok(match self {
            Watch::Select(set) => { *set }.select(Timeout::Zero)?,
            Watch::Poll(set) => set.poll(Timeout::Zero)?,
            Watch::Epoll { set, .. } => epoll_count_ready(set, max)?,
        })
    }
}

fn descriptors_each(settings: &Settings) -> u64 {
    if Object::new(settings) == Object::Eventfd { 1 } else { 2 }
}

/// Returns how many objects `select` can watch.
fn select_max(settings: &Settings) -> u64 {
    (SELECT_CAPACITY as u64 - SPARE) / descriptors_each(settings)
}
