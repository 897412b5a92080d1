//! `fork`: processes pile up; each writes one byte and stays. Then they are killed and waited for.
//!
//! Measures how long it takes from the call until it has returned in the parent, until the child runs, and until
//! the parent has read the child's byte. On the way down: `kill`, and from there
//! until `waitpid` has returned.
//!
//! Misleads if read as a figure of the kernel alone: the parent's memory decides. A dynamically linked parent has
//! more mappings to copy, and a large one more page tables; hence the parameters `linkage`, `resident` and
//! `mappings`. The parent is a small program of its own, for Landau itself would be a large one.
//!
//! Source: the fork and static fork benchmarks of Felix von Leitner's 2003 study; the way down after a suggestion of
//! Niels Provos (23 October 2003).

use landau_engine::{
    Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, Settings, Stop, Support, Timer, Variant,
};
use landau_sys::fork_helper::{ForkHelper, LINKAGES, METHODS, image};
use landau_sys::system::pin;

/// The benchmark.
#[derive(Debug)]
pub struct Fork {
    helper: ForkHelper,
    way: usize,
    in_creation_order: bool,
    pids: Vec<u64>,
}

const RETURN: usize = 0;
const RUN: usize = 1;
const BYTE: usize = 2;
const KILL: usize = 3;
const REAP: usize = 4;

impl Benchmark for Fork {
    const NAME: &'static str = "fork";
    const ABOUT: &'static str = "Does making another process cost more when thousands exist, and does ending one?";
    const AXIS: &'static str = "living children";
    const PHASES: &'static [Phase] = &[
        Phase::up("return", "from the call until it has returned in the parent"),
        Phase::up("run", "from the call until the child's first instruction of its own"),
        Phase::up("byte", "from the call until the parent has read the child's byte out of a pipe"),
        Phase::down("kill", "kill(SIGKILL) of one child"),
        Phase::down("reap", "from before the kill until waitpid() has returned: that child is gone"),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("20", "1000", "3000", "how many children"),
        Parameter::fixed("linkage", Kind::Choice(LINKAGES), "dynamic", "how the parent is linked"),
        Parameter::fixed("method", Kind::Choice(METHODS), "fork", "how a process is made"),
        Parameter::fixed("order", Kind::Choice(&["reverse", "creation"]), "reverse", "who is ended first"),
        Parameter::fixed(
            "resident",
            Kind::Size { min: 0, max: 1 << 40 },
            "0",
            "private memory that the parent has touched",
        ),
        Parameter::fixed(
            "mappings",
            Kind::Count { min: 0, max: 60_000 },
            "0",
            "further mappings that the parent's memory is split into",
        ),
        Parameter::fixed("processors", Kind::Choice(&["one", "all"]), "one", "where parent and children may run"),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("linkage", "static")]),
        Variant::always(&[("linkage", "musl")]),
        Variant::always(&[("method", "vfork-exec")]),
        Variant::always(&[("method", "posix_spawn")]),
        Variant::always(&[("method", "clone3")]),
        Variant::always(&[("order", "creation")]),
        Variant::full(&[("resident", "256MiB")]),
        Variant::full(&[("mappings", "2000")]),
        Variant::full(&[("processors", "all")]),
    ];
    const EMULATED: &'static [(&'static str, &'static str)] = &[("n", "300")];
    const CAVEATS: &'static [&'static str] = &[
        "The parent's mappings and page tables are most of the cost, not the number of processes.",
        "Parent and children share one processor by default; with processors=all the wake-up crosses processors.",
        "Where kill() lets the child run at once, its end falls into the kill; otherwise into the wait: only reap, \
         which holds both, is comparable.",
        "vfork-exec and posix_spawn start a new program each time, which fork alone does not.",
    ];
    const SOURCE: &'static str =
        "F. von Leitner, Benchmarking BSD and Linux (2003), fork and static fork; N. Provos for the way down";

    fn support(host: &Host, settings: &Settings) -> Support {
        let is_linuxs_own = settings.is("method", "clone3") || settings.is("method", "vfork-exec");
        if is_linuxs_own && host.system != "Linux" {
            return Support::No("this way to make a process needs Linux's clone".to_owned());
        }
        match image(settings.text("linkage")) {
            Ok(_) => Support::Yes,
            Err(reason) => Support::No(reason.to_owned()),
        }
    }

    fn cost(settings: &Settings) -> Cost {
        Cost {
            // Kernel stack, task, page tables and the pages that a child writes to: measured at about 150 KiB.
            memory_bytes_each: (200 << 10) + (settings.bytes("resident") >> 20) * 2_200,
            memory_bytes: settings.bytes("resident"),
            processes_each: 1,
            ..Cost::default()
        }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let settings = context.settings;
        if settings.is("processors", "all") {
            pin(&(0..1024).collect::<Vec<u32>>())?;
        }
        let mut helper = ForkHelper::start(settings.text("linkage"))?;
        if settings.bytes("resident") > 0 {
            helper.grow_resident(settings.bytes("resident"))?;
        }
        if settings.count("mappings") > 0 {
            helper.grow_mappings(settings.count("mappings"))?;
        }
        Ok(Self {
            helper,
            way: METHODS.iter().position(|way| settings.is("method", way)).unwrap_or(0),
            in_creation_order: settings.is("order", "creation"),
            pids: Vec::with_capacity(context.n as usize),
        })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let birth = self.helper.spawn(self.way)?;
        timer.record_ns(RETURN, birth.returned_ns - birth.before_ns);
        timer.record_ns(RUN, birth.started_ns.saturating_sub(birth.before_ns));
        timer.record_ns(BYTE, birth.read_ns - birth.before_ns);
        self.pids.push(birth.pid);
        Ok(())
    }

    fn undo(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let index = if self.in_creation_order { self.pids.len() - n as usize } else { n as usize - 1 };
        let death = self.helper.reap(self.pids[index])?;
        timer.record_ns(KILL, death.killed_ns - death.before_ns);
        timer.record_ns(REAP, death.waited_ns - death.before_ns);
        Ok(())
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        let mut alive = 0;
        for &pid in &self.pids {
            alive += u64::from(self.helper.is_alive(pid)?);
        }
        Stop::unless(alive == steps, || format!("{steps} children were made, but {alive} live"))
    }
}
