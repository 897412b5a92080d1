//! `spawn`: thousands of processes sleep; another one creates a child that exits at once, and reaps it.
//!
//! Measures the time from the call that creates the child until it has returned, and until the parent has reaped the
//! child; during destruction, the time from the `kill` of a sleeper until its parent has reaped it. The sleepers hold
//! random pids, as in the study of 2004, which compared the kernel's pid allocators in this way.
//!
//! The naive test (the default) hides an allocator: the parent of thousands of sleepers waits for any of its children,
//! and the kernel walks all of them. The study found two such bottlenecks and changed its test twice; the source no
//! longer says how. So each of its choices is a parameter: whose children the sleepers are, how the parent waits, what
//! the sleepers execute, how the child is created, and the linkage. The page shows how much cost each removes.
//!
//! Not a measure of an allocator alone: `pids` has those of other kernels as models.
//!
//! Source: D. Schultz, "Process Creation/Destruction Benchmarks" (February 2004), with the numbers of sleepers that he
//! used (up to some 3,000) and more.

use landau_engine::{
    Benchmark, CallTags, Context, Cost, FactUnit, Facts, Host, Kind, Parameter, Phase, ReplayCase, Settings, Stop,
    Support, Timer, Variant,
};
use landau_sys::fork_helper::{Failure, LINKAGES, image};
use landau_sys::sleepers::{CREATIONS, Cycle, IMAGES, PARENTS, Setup, Sleepers, WAITS, sleeping_program, try_all};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// State of a pass.
#[derive(Debug)]
pub struct Spawn {
    sleepers: Sleepers,
    places: Places,
    pids: Vec<u32>,
    /// The time that was spent creating sleepers.
    set_up: Duration,
    without: Without,
}

/// The cost of a child before the first sleeper: medians of [`CYCLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Without {
    own_ns: u64,
    /// The cost in the naive test, whose children alternate with those of this test; none if the naive test could not
    /// be set up alongside.
    naive_ns: Option<u64>,
}

const RETURN: usize = 0;
const CYCLE: usize = 1;
const END: usize = 2;

const PLACES: &[&str] = &["random", "sequential", "blocked", "kernel"];

impl Benchmark for Spawn {
    const NAME: &'static str = "spawn";
    const ABOUT: &'static str = "Does creating and reaping a child cost more while thousands of processes sleep?";
    const AXIS: &'static str = "sleeping processes";
    const PHASES: &'static [Phase] = &[
        Phase::up("return", "from the call that creates the child until it has returned in the parent").elsewhere(),
        Phase::up("cycle", "from that call until the parent has reaped the child, which exits at once").elsewhere(),
        Phase::down("end", "from kill(SIGKILL) of a sleeper until its parent has reaped it").elsewhere(),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("20", "5000", "30000", "sleeping processes"),
        Parameter::fixed(
            "parent",
            Kind::Choice(PARENTS),
            "timer",
            "parent of the sleepers: the process that creates the timed child (timer), another one (helper), or the \
             namespace's first process, which adopts orphans (reaper)",
        ),
        Parameter::fixed("wait", Kind::Choice(WAITS), "any", "waitpid(-1), waitpid(pid) or waitid(P_PIDFD)"),
        Parameter::fixed(
            "image",
            Kind::Choice(IMAGES),
            "shared",
            "memory of the sleepers: a copy-on-write copy of their parent's, or that of a static program that each has \
             executed",
        ),
        Parameter::fixed("creation", Kind::Choice(CREATIONS), "fork", "how the timed child is created"),
        Parameter::fixed("linkage", Kind::Choice(LINKAGES), "dynamic", "how the parent of the timed child is linked"),
        Parameter::fixed(
            "pids",
            Kind::Choice(PLACES),
            "random",
            "pids of the sleepers: random, consecutive from a random one on (sequential), in blocks of 64 at random \
             places (blocked), or as the kernel chooses",
        ),
        Parameter::fixed(
            "pid_max",
            Kind::Count { min: 1_000, max: 4_194_304 },
            "99999",
            "largest pid of a sleeper; less if the namespace has fewer",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[
        // The ladder, then an alternative to its first step.
        Variant::always(&[("wait", "pid")]),
        Variant::always(&[("wait", "pid"), ("parent", "helper")]),
        Variant::always(&[("wait", "pid"), ("parent", "helper"), ("image", "executed")]),
        Variant::always(&[("parent", "helper")]),
        // One change each, relative to the last step.
        Variant::full(&[("wait", "pidfd"), ("parent", "helper"), ("image", "executed")]),
        Variant::full(&[("wait", "pid"), ("parent", "reaper"), ("image", "executed")]),
        Variant::full(&[("wait", "pid"), ("parent", "helper"), ("image", "executed"), ("creation", "vfork")]),
        Variant::full(&[("wait", "pid"), ("parent", "helper"), ("image", "executed"), ("creation", "clone3")]),
        Variant::full(&[("wait", "pid"), ("parent", "helper"), ("image", "executed"), ("creation", "posix_spawn")]),
        Variant::full(&[("wait", "pid"), ("parent", "helper"), ("image", "executed"), ("creation", "fork-exec")]),
        Variant::full(&[("wait", "pid"), ("parent", "helper"), ("image", "executed"), ("linkage", "static")]),
        Variant::full(&[("wait", "pid"), ("parent", "helper"), ("image", "executed"), ("pids", "sequential")]),
        Variant::full(&[("wait", "pid"), ("parent", "helper"), ("image", "executed"), ("pids", "blocked")]),
    ];
    // The study's first test, and its second one by a reconstruction of the two changes; then the ladder between them.
    const REPLAYS: &'static [ReplayCase] = &[
        ReplayCase::author("2004", 3, &[("n", "3000")]),
        ReplayCase::author("2004", 3, &[("n", "3000"), ("wait", "pid"), ("parent", "helper"), ("image", "executed")]),
        ReplayCase::corrected(&[("n", "3000")]),
        ReplayCase::corrected(&[("n", "3000"), ("wait", "pid")]),
        ReplayCase::corrected(&[("n", "3000"), ("wait", "pid"), ("parent", "helper")]),
        ReplayCase::corrected(&[("n", "3000"), ("wait", "pid"), ("parent", "helper"), ("image", "executed")]),
    ];
    const EMULATED: &'static [(&'static str, &'static str)] = &[("n", "300")];
    const IN_QUICK: bool = false;
    const TAGS_CALLS: bool = true;
    const CAVEATS: &'static [&'static str] = &[
        "The parent of thousands of children pays for them when it waits: compare the cases before blaming the kernel.",
        "Parent, child and sleepers share one processor; on several, a child may wake up on another one.",
        "All processes are in a pid namespace, so each has two pids: one there, one outside.",
        "vfork copies no memory; posix_spawn and fork-exec also execute a program. Only cases with the same creation \
         and linkage have the same base cost.",
    ];
    const SOURCE: &'static str = "D. Schultz, Process Creation/Destruction Benchmarks (2004), one switch at a time";

    fn support(_: &Host, settings: &Settings) -> Support {
        if let Some(reason) = too_few_pids(settings) {
            return Support::No(reason);
        }
        let missing = [image(settings.text("linkage")).err(), needed_program(settings).err()];
        match (missing.into_iter().flatten().next(), refusal()) {
            (Some(reason), _) => Support::No(reason.to_owned()),
            (None, Some(reason)) => Support::No(reason),
            (None, None) => Support::Yes,
        }
    }

    fn cost(settings: &Settings) -> Cost {
        // Kernel stack, task, page tables and the pages that a sleeper writes to: 48 KiB of pages (`AnonPages` in
        // /proc/meminfo, at n = 3,000).
        let each = if settings.is("image", "executed") { 160 << 10 } else { 130 << 10 };
        Cost { memory_bytes_each: each, page_bytes_each: 49 << 10, processes_each: 1, ..Cost::default() }
    }

    fn step_us(settings: &Settings) -> u64 {
        if settings.is("image", "executed") { 1_100 } else { 900 }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let settings = context.settings;
        let place = |name: &str, list: &[&str]| list.iter().position(|one| settings.is(name, one)).unwrap_or(0);
        let setup = Setup {
            parent: place("parent", PARENTS),
            image: place("image", IMAGES),
            creation: place("creation", CREATIONS),
            wait: place("wait", WAITS),
        };
        let processor = context.host.pinned_processor;
        let mut sleepers = start(settings, setup, processor)?;
        let without = Without::measure(&mut sleepers, naive(settings, setup, processor)?)?;
        let high = sleepers.pid_max()?.min(settings.count("pid_max") as u32);
        Ok(Self {
            sleepers,
            places: Places::new(settings.text("pids"), high, context.seed),
            pids: Vec::with_capacity(context.n as usize),
            set_up: Duration::ZERO,
            without,
        })
    }

    fn measured_processes(&self) -> Vec<u32> {
        vec![self.sleepers.timer()]
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let cycle = self.add_and_time()?;
        timer.record_ns(RETURN, cycle.returned_ns - cycle.before_ns);
        timer.record_ns(CYCLE, cycle.reaped_ns - cycle.before_ns);
        timer.tag_call(CallTags { rcu_softirqs: cycle.rcu_softirqs, canary: cycle.canary_ns });
        Ok(())
    }

    fn undo(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let end = self.sleepers.end(self.pids[n as usize - 1])?;
        timer.record_ns(END, end.reaped_ns - end.before_ns);
        Ok(())
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        let mut asleep = 0;
        for &pid in &self.pids {
            asleep += u64::from(self.sleepers.sleeps(pid)?);
        }
        Stop::unless(asleep == steps, || format!("{steps} sleepers were created, but {asleep} sleep"))?;
        facts.number("cycle_without_sleepers", self.without.own_ns as f64, FactUnit::Ns);
        if let Some(naive_ns) = self.without.naive_ns {
            facts.number("naive_without_sleepers", naive_ns as f64, FactUnit::Ns);
        }
        facts.number("set_up", self.set_up.as_nanos() as f64, FactUnit::Ns);
        facts.number("pids_drawn_in_use", self.places.refused as f64, FactUnit::Count);
        facts.number("largest_pid", f64::from(self.places.high), FactUnit::Count);
        Ok(())
    }
}

impl Spawn {
    /// Adds a sleeper and times a child. If the child is refused, its sleeper is ended, because the step does not
    /// count.
    fn add_and_time(&mut self) -> Result<Cycle, Stop> {
        let began = Instant::now();
        let pid = self.places.add(&mut self.sleepers)?;
        self.set_up += began.elapsed();
        match self.sleepers.cycle() {
            Ok(cycle) => {
                self.pids.push(pid);
                Ok(cycle)
            }
            Err(Failure::Refused(error)) => {
                self.sleepers.end(pid)?;
                Err(error.into())
            }
            Err(other) => Err(other.into()),
        }
    }
}

/// Starts a test that has no sleepers yet, and counts softirqs during its children if it stays on one processor.
fn start(settings: &Settings, setup: Setup, processor: Option<u32>) -> Result<Sleepers, Failure> {
    let mut sleepers = Sleepers::start(settings.text("linkage"), setup)?;
    if let Some(processor) = processor {
        sleepers.watch(processor)?;
    }
    Ok(sleepers)
}

/// Starts the naive test with the same child; none if the host has no room for it.
fn naive(settings: &Settings, setup: Setup, processor: Option<u32>) -> Result<Option<Sleepers>, Failure> {
    match start(settings, Setup { creation: setup.creation, ..Setup::default() }, processor) {
        Ok(naive) => Ok(Some(naive)),
        Err(Failure::Refused(_)) => Ok(None),
        Err(other) => Err(other),
    }
}

/// The number of children that are timed before the first sleeper, and the number of these that are not counted.
const WITHOUT: usize = 251;
const WARM_UP: usize = 50;

impl Without {
    /// Times children of both tests alternately, and ends the naive one.
    fn measure(own: &mut Sleepers, mut naive: Option<Sleepers>) -> Result<Self, Failure> {
        let cost = |sleepers: &mut Sleepers| sleepers.cycle().map(|cycle| cycle.reaped_ns - cycle.before_ns);
        let (mut own_ns, mut naive_ns) = (Vec::new(), Vec::new());
        for turn in 0..WITHOUT {
            // Each test comes first in every second turn.
            for is_own in [turn % 2 == 0, turn % 2 == 1] {
                match &mut naive {
                    _ if is_own => own_ns.push(cost(own)?),
                    Some(naive) => naive_ns.push(cost(naive)?),
                    None => {}
                }
            }
        }
        let median = |mut times: Vec<u64>| {
            times.drain(..WARM_UP.min(times.len()));
            times.sort_unstable();
            times.get(times.len() / 2).copied()
        };
        Ok(Self { own_ns: median(own_ns).unwrap_or(0), naive_ns: median(naive_ns) })
    }
}

/// Returns why this process may not create sleepers with chosen pids; none if it may. This is tried only once.
fn refusal() -> Option<String> {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    REFUSAL.get_or_init(|| try_all().err().map(|failure| reason(&failure))).clone()
}

fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Refused(error) if error.call == "clone3" => {
            format!("chosen pids need clone3 with set_tid, Linux 5.5 or later: {error}")
        }
        Failure::Refused(error) if [libc::ENOSPC, libc::EUSERS].contains(&error.errno) => format!(
            "no further pid namespace can be created (sysctl user.max_pid_namespaces, user.max_user_namespaces): \
             {error}"
        ),
        Failure::Refused(error) => {
            format!("it needs a pid namespace, as root or in a user namespace, which this host refuses: {error}")
        }
        other => other.to_string(),
    }
}

/// Returns whether this build has the program that the sleepers execute, if they execute one. The error says why not.
fn needed_program(settings: &Settings) -> Result<(), &'static str> {
    if settings.is("image", "executed") { sleeping_program().map(drop) } else { Ok(()) }
}

/// Returns why the sleepers cannot have pids up to `pid_max`; none if they can. A tenth must stay free; otherwise most
/// random pids would be in use. The pids of the host bound n, like all its resources.
fn too_few_pids(settings: &Settings) -> Option<String> {
    let (n, pid_max) = (settings.count("n"), settings.count("pid_max"));
    let most = pid_max.saturating_sub(u64::from(LOW)) / 10 * 9;
    let is_free = settings.is("pids", "kernel") || n <= most;
    (!is_free).then(|| {
        format!("{n} sleepers need more pids than {LOW} to {pid_max}, of which a tenth is kept free: {most} fit")
    })
}

/// The choice of the sleepers' pids.
#[derive(Debug)]
struct Places {
    kind: &'static str,
    random: ChaCha8Rng,
    high: u32,
    /// The last pid that was chosen.
    last: Option<u32>,
    /// Sleepers so far.
    count: u32,
    /// The number of chosen pids that were in use.
    refused: u64,
}

/// Lower pids are those of daemons: the kernel does not allocate them again after its first pass.
const LOW: u32 = 300;
/// The number of sleepers in a block, as in the models of `pids`.
const BLOCK: u32 = 64;
/// The number of successive chosen pids in use after which the pids count as exhausted. With nine tenths of them in
/// use, a thousand random choices are all in use once in 10⁴⁵ times.
const TRIES: u32 = 1_000;

impl Places {
    fn new(kind: &str, high: u32, seed: u64) -> Self {
        let kind = PLACES.iter().find(|one| **one == kind).copied().unwrap_or(PLACES[0]);
        Self { kind, random: ChaCha8Rng::seed_from_u64(seed), high, last: None, count: 0, refused: 0 }
    }

    /// Adds a sleeper, and returns its pid.
    fn add(&mut self, sleepers: &mut Sleepers) -> Result<u32, Stop> {
        for _ in 0..TRIES {
            let chosen = self.choose();
            match sleepers.add(chosen) {
                Ok(pid) => {
                    Stop::unless(chosen.is_none_or(|chosen| chosen == pid), || {
                        format!("a sleeper has pid {pid} instead of {chosen:?}")
                    })?;
                    self.last = Some(pid);
                    self.count += 1;
                    return Ok(pid);
                }
                Err(Failure::Refused(error)) if error.errno == libc::EEXIST => {
                    self.refused += 1;
                    // A sequence continues after the pid in use; a block continues elsewhere.
                    self.last = chosen.filter(|_| self.kind == "sequential");
                }
                Err(other) => return Err(other.into()),
            }
        }
        Err(Stop::Wrong(format!("{TRIES} pids in a row were in use")))
    }

    fn choose(&mut self) -> Option<u32> {
        let continues = match self.kind {
            "kernel" => return None,
            "sequential" => true,
            "blocked" => !self.count.is_multiple_of(BLOCK),
            _ => false,
        };
        match self.last {
            Some(last) if continues && last < self.high => Some(last + 1),
            Some(_) if continues => Some(LOW),
            _ => Some(self.random.random_range(LOW..=self.high)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_engine::Study;

    /// Returns the pids of the first sleepers if none is in use.
    fn chosen(kind: &str) -> Vec<u32> {
        let mut places = Places::new(kind, 99_999, 7);
        let choices = (0..3 * BLOCK).map(|_| {
            let pid = places.choose().unwrap();
            (places.last, places.count) = (Some(pid), places.count + 1);
            pid
        });
        choices.collect()
    }

    #[test]
    fn more_sleepers_than_pids_are_refused_before_the_first() {
        let support = |n: &str, pid_max: &str, pids: &str| {
            let mut settings = Settings::of_study(Spawn::PARAMETERS, Study::Quick);
            for (name, value) in [("n", n), ("pid_max", pid_max), ("pids", pids)] {
                settings.set(name, value);
            }
            match Spawn::support(&Host::default(), &settings) {
                Support::No(reason) => reason,
                Support::Yes => String::new(),
            }
        };
        let refused = support("5000", "1000", "random");
        assert!(refused.contains("300 to 1000") && refused.contains("630 fit"), "{refused}");
        assert!(support("631", "1000", "sequential").contains("630 fit"));
        // Whether this host allows that many is a separate question.
        assert!(!support("630", "1000", "random").contains("fit"));
        assert!(!support("5000", "1000", "kernel").contains("fit"));
    }

    /// Guards against losing a limit as a result: the check would find one sleeper more than there were steps.
    #[test]
    fn a_sleeper_whose_child_is_refused_is_ended() {
        if !landau_sys::sleepers::is_allowed().unwrap() {
            return;
        }
        // This way of creating a child does not exist: the first child is refused, after its sleeper was added.
        let setup = Setup { creation: CREATIONS.len(), ..Setup::default() };
        let places = || Places::new("random", 99_999, 7);
        let mut spawn = Spawn {
            sleepers: Sleepers::start("dynamic", setup).unwrap(),
            places: places(),
            pids: Vec::new(),
            set_up: Duration::ZERO,
            without: Without { own_ns: 1, naive_ns: None },
        };
        assert!(matches!(spawn.add_and_time(), Err(Stop::Refused(_))));
        spawn.check(0, &mut Facts::new()).unwrap();
        assert!(!spawn.sleepers.sleeps(places().choose().unwrap()).unwrap());
    }

    /// Without the naive test, the main test is still measured: there may be no room for both.
    #[test]
    fn children_without_sleepers_are_timed_with_and_without_the_naive_test() {
        if !landau_sys::sleepers::is_allowed().unwrap() {
            return;
        }
        let settings = Settings::of_study(Spawn::PARAMETERS, Study::Smoke);
        let setup = Setup { parent: 1, wait: 1, ..Setup::default() };
        for with_naive in [true, false] {
            let mut own = start(&settings, setup, None).unwrap();
            let naive = naive(&settings, setup, None).unwrap().filter(|_| with_naive);
            let without = Without::measure(&mut own, naive).unwrap();
            assert!(without.own_ns > 0 && without.naive_ns.is_some_and(|ns| ns > 0) == with_naive, "{without:?}");
        }
    }

    #[test]
    fn an_exhausted_limit_of_namespaces_is_named() {
        let refused = |call, errno| reason(&Failure::Refused(landau_sys::Error { call, errno }));
        assert!(refused("unshare", libc::ENOSPC).contains("user.max_pid_namespaces"));
        assert!(refused("unshare", libc::EPERM).contains("this host refuses: unshare"));
    }

    #[test]
    fn pids_are_where_the_parameter_says() {
        let steps = |pids: &[u32]| pids.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
        assert_eq!(steps(&chosen("sequential")), 3 * BLOCK as usize - 1);
        assert_eq!(steps(&chosen("blocked")), 3 * (BLOCK as usize - 1));
        assert!(steps(&chosen("random")) < 3);
        assert!(chosen("random").iter().all(|pid| (LOW..=99_999).contains(pid)));
        assert_eq!(Places::new("kernel", 99_999, 7).choose(), None);
    }
}
