//! `fork`: creates thousands of processes, each of which reports once and sleeps; then kills and reaps them.
//!
//! Measures the time from the call until it has returned in the parent, until the child runs, and until the parent has
//! read the child's report. During destruction: `kill`, and the time from the kill until `waitpid` has returned. A
//! child reads the clock, writes that time stamp into a pipe and sleeps, so `byte` contains one call of the child.
//!
//! The parent keeps its processor busy for 10 ms before the first kill. Otherwise the first children that die do not
//! preempt it, and those kills are shorter by the child's exit (METHODOLOGY.md).
//!
//! Not a measure of the kernel alone: the cost depends on the parent's memory. A dynamically linked parent has more
//! mappings to copy, and a large one more page tables; hence the parameters `linkage`, `resident` and `mappings`. The
//! parent is the fork helper, a small program, because Landau itself would be a large one.
//!
//! Source: the fork and static fork benchmarks of Felix von Leitner's 2003 study (3,000 children, at first 5,000, each
//! of which wrote one byte); destruction as suggested by Niels Provos (23 October 2003), who ended the oldest child
//! first (`order=creation`).

use crate::affinity::pin_to_all;
use landau_engine::{
    Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, ReplayCase, Settings, Stop, Study, Support, Timer,
    Variant,
};
use landau_sys::fork_helper::{ForkHelper, LINKAGES, METHODS, image};

/// State of a pass.
#[derive(Debug)]
pub struct Fork {
    helper: ForkHelper,
    method: usize,
    in_creation_order: bool,
    pids: Vec<u64>,
}

/// The kernel's memory for a copied mapping: 213 bytes of `vm_area_struct` and `maple_node`, as measured with 300
/// children.
const MAPPING_BYTES: u64 = 220;

const RETURN: usize = 0;
const RUN: usize = 1;
const BYTE: usize = 2;
const KILL: usize = 3;
const REAP: usize = 4;

impl Benchmark for Fork {
    const NAME: &'static str = "fork";
    const ABOUT: &'static str = "Do creating and killing a process cost more when thousands exist?";
    const AXIS: &'static str = "child processes";
    const PHASES: &'static [Phase] = &[
        Phase::up("return", "from the call until it has returned in the parent").elsewhere(),
        Phase::up("run", "from the call until the child runs").elsewhere(),
        Phase::up("byte", "from the call until the parent has read the child's time stamp (8 bytes) from a pipe")
            .elsewhere(),
        Phase::down("kill", "kill(SIGKILL) of one child").elsewhere(),
        Phase::down("reap", "from before the kill until waitpid() has reaped the child").elsewhere(),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::auto_steps(
            "20",
            "auto",
            "5000",
            "child processes; auto: 1,000; 500 with a method that executes a program (it takes three times as long)",
        ),
        Parameter::fixed(
            "linkage",
            Kind::Choice(LINKAGES),
            "dynamic",
            "how the parent is linked; musl: statically, with musl as the C library",
        ),
        Parameter::fixed("method", Kind::Choice(METHODS), "fork", "system or library call that creates a process"),
        Parameter::fixed(
            "order",
            Kind::Choice(&["reverse", "creation"]),
            "reverse",
            "child that is killed first: the newest (reverse) or the oldest (creation)",
        ),
        Parameter::fixed(
            "resident",
            Kind::Size { min: 0, max: 1 << 40 },
            "0",
            "private memory that the parent has touched, such as 256MiB",
        ),
        Parameter::fixed("mappings", Kind::Count { min: 0, max: 60_000 }, "0", "additional mappings of the parent"),
        Parameter::fixed(
            "processors",
            Kind::Choice(&["one", "all"]),
            "one",
            "processors on which parent and children may run",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("linkage", "static")]),
        Variant::always(&[("linkage", "musl")]),
        Variant::always(&[("method", "vfork-exec")]),
        Variant::always(&[("method", "posix_spawn")]),
        Variant::always(&[("method", "clone3")]),
        Variant::always(&[("order", "creation")]),
        Variant::full(&[("linkage", "static"), ("order", "creation")]),
        Variant::full(&[("linkage", "musl"), ("order", "creation")]),
        // Each child has a copy of the page tables or of the mappings: megabytes, and milliseconds for a fork.
        Variant::full(&[("resident", "256MiB"), ("n", "1000")]),
        Variant::full(&[("mappings", "2000"), ("n", "1000")]),
        Variant::full(&[("processors", "all")]),
    ];
    const REPLAYS: &'static [ReplayCase] = &[
        ReplayCase::author("2003", 5, &[("n", "3000"), ("order", "creation")]),
        ReplayCase::author("2003", 5, &[("n", "3000"), ("order", "creation"), ("linkage", "static")]),
        ReplayCase::corrected(&[("n", "5000"), ("order", "creation")]),
        ReplayCase::corrected(&[("n", "5000"), ("order", "creation"), ("linkage", "static")]),
    ];
    const EMULATED: &'static [(&'static str, &'static str)] = &[("n", "300")];
    const CAVEATS: &'static [&'static str] = &[
        "Most of the cost comes from the parent's mappings and page tables, not from the number of processes.",
        "Parent and children share one processor by default; with processors=all a child may wake up on another one.",
        "The child's exit may fall into kill() or into waitpid(): compare variants only by reap, which includes both.",
        "vfork-exec and posix_spawn also execute a new program; fork and clone3 do not.",
    ];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), fork and static fork; \
                                  timing kill and reap was suggested by N. Provos";

    fn support(host: &Host, settings: &Settings) -> Support {
        let is_linux_only = settings.is("method", "clone3") || settings.is("method", "vfork-exec");
        if is_linux_only && host.system != "Linux" {
            return Support::No("only Linux has clone".to_owned());
        }
        match image(settings.text("linkage")) {
            Ok(_) => Support::Yes,
            Err(reason) => Support::No(reason.to_owned()),
        }
    }

    fn cost(settings: &Settings) -> Cost {
        Cost {
            // Kernel stack, task, page tables and the pages that a child writes to: about 150 KiB as measured.
            memory_bytes_each: (200 << 10)
                + (settings.bytes("resident") >> 20) * 2_200
                + settings.count("mappings") * MAPPING_BYTES,
            // 45 KiB (`AnonPages` in /proc/meminfo, at n = 3,000).
            page_bytes_each: 46 << 10,
            memory_bytes: settings.bytes("resident"),
            processes_each: 1,
            ..Cost::default()
        }
    }

    fn uses_other_processors(settings: &Settings) -> bool {
        settings.is("processors", "all")
    }

    fn step_us(settings: &Settings) -> u64 {
        if executes(settings) { 1_200 } else { 350 }
    }

    fn auto_n(_host: &Host, settings: &Settings, _study: Study) -> u64 {
        if executes(settings) { 500 } else { 1_000 }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let settings = context.settings;
        if settings.is("processors", "all") {
            pin_to_all(context.host.pinned_processor)?;
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
            method: METHODS.iter().position(|method| settings.is("method", method)).unwrap_or(0),
            in_creation_order: settings.is("order", "creation"),
            pids: Vec::with_capacity(context.n as usize),
        })
    }

    fn measured_processes(&self) -> Vec<u32> {
        vec![self.helper.id()]
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let creation = self.helper.spawn(self.method)?;
        timer.record_ns(RETURN, creation.returned_ns - creation.before_ns);
        timer.record_ns(RUN, creation.started_ns.saturating_sub(creation.before_ns));
        timer.record_ns(BYTE, creation.read_ns - creation.before_ns);
        self.pids.push(creation.pid);
        Ok(())
    }

    fn undo(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let index = if self.in_creation_order { self.pids.len() - n as usize } else { n as usize - 1 };
        let termination = self.helper.reap(self.pids[index])?;
        timer.record_ns(KILL, termination.killed_ns - termination.before_ns);
        timer.record_ns(REAP, termination.waited_ns - termination.before_ns);
        Ok(())
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        let mut alive = 0;
        for &pid in &self.pids {
            alive += u64::from(self.helper.is_alive(pid)?);
        }
        Stop::unless(alive == steps, || format!("{steps} children were created, but {alive} are alive"))
    }
}

/// Returns whether the child executes a program.
fn executes(settings: &Settings) -> bool {
    matches!(settings.text("method"), "vfork-exec" | "posix_spawn")
}
