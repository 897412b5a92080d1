//! The trait of a benchmark.
//!
//! A benchmark is one file in `crates/bench/src/list/` that implements [`Benchmark`] and reads like the description of
//! an experiment.

use crate::{Annotation, Facts, Host, Parameter, Settings, Stop, Study, Timer};
use landau_record::schema::{Direction, Timeline};
use std::path::Path;

/// A timed call of a step: one curve of each case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// `bind`, `close` … unique within the benchmark.
    pub name: &'static str,
    /// Whether it is timed during the creation or the destruction.
    pub direction: Direction,
    /// What exactly is timed.
    pub about: &'static str,
    /// Whether the worker receives only durations ([`Timer::record_ns`]): another process times the calls, or the
    /// samples are shares or means. No sample can then be assigned to a call.
    pub is_timed_elsewhere: bool,
}

impl Phase {
    /// Returns a phase of [`Benchmark::step`], timed during the creation.
    pub const fn up(name: &'static str, about: &'static str) -> Self {
        Self { name, direction: Direction::Up, about, is_timed_elsewhere: false }
    }

    /// Returns a phase of [`Benchmark::undo`], timed during the destruction.
    pub const fn down(name: &'static str, about: &'static str) -> Self {
        Self { name, direction: Direction::Down, about, is_timed_elsewhere: false }
    }

    /// Returns this phase, marked as one for which the worker receives only durations.
    #[must_use]
    pub const fn elsewhere(self) -> Self {
        Self { is_timed_elsewhere: true, ..self }
    }
}

/// The settings of a case other than the default one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// The smallest study that includes it.
    pub from: Study,
    /// The settings that differ from the study's.
    pub settings: &'static [(&'static str, &'static str)],
}

impl Variant {
    /// Returns a case of every study.
    pub const fn always(settings: &'static [(&'static str, &'static str)]) -> Self {
        Self { from: Study::Smoke, settings }
    }

    /// Returns a case of the full study only.
    pub const fn full(settings: &'static [(&'static str, &'static str)]) -> Self {
        Self { from: Study::Full, settings }
    }
}

/// A case of the study `then`, which repeats the tests of earlier studies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayCase {
    /// The earlier study and the number of times it ran the test, if the case repeats the study's method.
    pub author: Option<(&'static str, u32)>,
    /// The settings that differ from those of the quick study.
    pub settings: &'static [(&'static str, &'static str)],
}

impl ReplayCase {
    /// Returns a case by the method of that study, which ran the test `runs` times.
    pub const fn author(study: &'static str, runs: u32, settings: &'static [(&'static str, &'static str)]) -> Self {
        Self { author: Some((study, runs)), settings }
    }

    /// Returns a case by the method of this program.
    pub const fn corrected(settings: &'static [(&'static str, &'static str)]) -> Self {
        Self { author: None, settings }
    }
}

/// Whether a benchmark can run on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// It can.
    Yes,
    /// It cannot, for this reason.
    No(String),
}

impl Support {
    /// Returns `Yes` if the condition holds, otherwise `No` with the reason.
    pub fn when(condition: bool, reason: &str) -> Self {
        if condition { Support::Yes } else { Support::No(reason.to_owned()) }
    }
}

/// The resources that a case takes from the host. The plan reduces n so that the host keeps enough of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Memory for each object including the kernel's part, in bytes. Landau also computes from it the n at which the
    /// objects fill each processor cache, and annotates the curve.
    pub memory_bytes_each: u64,
    /// The part of `memory_bytes_each` that is pages of programs and files; the rest is the kernel's own.
    pub page_bytes_each: u64,
    /// Memory that does not depend on n, in bytes.
    pub memory_bytes: u64,
    /// Processes or threads for each object.
    pub processes_each: u64,
    /// Descriptors for each object.
    pub descriptors_each: u64,
    /// Space in the scratch directory in total, in bytes.
    pub disk_bytes: u64,
    /// Memory of the worker itself for each step of the plan, in bytes, allocated before the first step. Only for
    /// benchmarks whose objects take address space of the worker, which bounds them together with the samples.
    pub worker_bytes_each: u64,
}

/// The inputs of a pass.
#[derive(Debug)]
pub struct Context<'a> {
    /// The values of the parameters; `n` is a number, never `auto`.
    pub settings: &'a Settings,
    /// The number of steps to take.
    pub n: u64,
    /// The seed of every random order; it differs from pass to pass.
    pub seed: u64,
    /// The run's directory for files. It outlives the pass, so that the next pass can reuse them.
    pub scratch: &'a Path,
    /// The machine.
    pub host: &'a Host,
    /// Reports the progress of [`Benchmark::setup`], to show that it does not hang.
    pub progress: Progress,
}

/// Reports to the controller that a set-up makes progress. A worker that is silent for 120 s before its first sample
/// counts as hanging.
#[derive(Debug, Clone, Copy)]
pub struct Progress(fn());

impl Progress {
    /// Discards all reports.
    pub const NONE: Self = Self(|| ());

    /// Returns a `Progress` that calls a function for each report.
    pub const fn to(report: fn()) -> Self {
        Self(report)
    }

    /// Reports that a part of the set-up is done. Call it after each part that takes less than a minute on a slow
    /// device.
    pub fn report(self) {
        (self.0)();
    }
}

/// An experiment: objects are created one by one while each call is timed, and destroyed again.
pub trait Benchmark: Sized + 'static {
    /// The name after `landau run`.
    const NAME: &'static str;
    /// The question that it answers, in one line.
    const ABOUT: &'static str;
    /// What n counts: `bound sockets`; with the default settings if it depends on them.
    const AXIS: &'static str;
    /// The phases, those of the creation first. If they depend on the settings ([`Benchmark::phases`]), all of them.
    const PHASES: &'static [Phase];
    /// The parameters; `n` first.
    const PARAMETERS: &'static [Parameter];
    /// The cases in addition to the default one.
    const VARIANTS: &'static [Variant] = &[];
    /// The cases of the study `then`; none if no earlier study had such a test.
    const REPLAYS: &'static [ReplayCase] = &[];
    /// Settings of the quick study when an emulator counts instructions. The emulator takes about fifty times as long,
    /// and a curve without noise shows its law in fewer steps.
    const EMULATED: &'static [(&'static str, &'static str)] = &[];
    /// The amount that a step moves, if the steps are a timeline: they follow one another in time, and no objects
    /// accumulate.
    const TIMELINE: Option<Timeline> = None;
    /// Whether the quick study includes it when no benchmark is named. A benchmark that takes long is measured only
    /// when it is named, and in the other studies.
    const IN_QUICK: bool = true;
    /// Whether it measures the file system of its scratch directory. Then the user should choose the directory, and the
    /// default is the current directory.
    const MEASURES_FOLDER: bool = false;
    /// Whether each step of the creation tags its call ([`Timer::tag_call`]).
    const TAGS_CALLS: bool = false;
    /// The ways in which the result can mislead, one sentence each.
    const CAVEATS: &'static [&'static str];
    /// Where the experiment comes from.
    const SOURCE: &'static str;

    /// Returns what n counts, if that depends on the settings.
    fn axis(_settings: &Settings) -> &'static str {
        Self::AXIS
    }

    /// Returns the phases of a case, those of the creation first, if they depend on the settings. [`Timer`] counts them
    /// from 0 in this order.
    fn phases(_settings: &Settings) -> Vec<Phase> {
        Self::PHASES.to_vec()
    }

    /// Returns whether the benchmark can run on this host with these settings.
    fn support(_host: &Host, _settings: &Settings) -> Support {
        Support::Yes
    }

    /// Returns the number of steps if the setting `n` is `auto`.
    fn auto_n(_host: &Host, _settings: &Settings, _study: Study) -> u64 {
        10_000
    }

    /// Returns positions on the axis that are known before the run: capacities and sizes of tables.
    fn annotations(_host: &Host, _settings: &Settings) -> Vec<Annotation> {
        Vec::new()
    }

    /// Returns the resources that the benchmark takes from the host.
    fn cost(_settings: &Settings) -> Cost {
        Cost::default()
    }

    /// Returns the name in the scratch directory of the files that stay from pass to pass, until the run ends; cases of
    /// the same name share them. `None` if each pass removes its files.
    fn kept_files(_settings: &Settings) -> Option<String> {
        None
    }

    /// Returns the approximate mean duration of a step with all its phases, in µs. It is used to estimate the size of
    /// the record, which has a window for each 10 ms. Override it for steps of more than 30 µs or less than 5 µs.
    fn step_us(_settings: &Settings) -> u64 {
        15
    }

    /// Returns the maximum number of planned passes of a case, if its passes take so long that the usual number would
    /// take most of the run. The passes are spread over the rounds. This maximum does not apply to a number of passes
    /// that the user chose.
    fn most_passes(_settings: &Settings) -> Option<u32> {
        None
    }

    /// Returns whether measured code also runs on a processor other than the worker's: a server, or children that may
    /// run on any processor. The controller then sleeps until the pass ends, because its wake-ups would be part of the
    /// samples.
    fn uses_other_processors(_settings: &Settings) -> bool {
        false
    }

    /// Overrides the explanation that `limit.rs` gives for a refused call. Returns a description of the limit and the
    /// command that raises it, or `None` to keep that explanation.
    fn limit(_settings: &Settings, _refused: landau_sys::Error) -> Option<(String, String)> {
        None
    }

    /// Describes leftovers of earlier work on the host that would distort the curve. The run waits until they are gone,
    /// visibly and for a limited time.
    fn unsettled(_settings: &Settings) -> Option<String> {
        None
    }

    /// Prepares a pass. Untimed.
    fn setup(context: &Context) -> Result<Self, Stop>;

    /// Returns the processes other than the worker whose work is timed: the parent that forks, the server that
    /// responds. Interference with them is interference with the measurement.
    fn measured_processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Takes the n-th step: times each phase of the creation once and keeps the object.
    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop>;

    /// Destroys one of n objects: times each phase of the destruction once. [`Stop::Enough`] ends the destruction,
    /// because no further object can be destroyed.
    fn undo(&mut self, _n: u64, _timer: &mut Timer) -> Result<(), Stop> {
        Err(Stop::Enough)
    }

    /// Verifies, untimed and between creation and destruction, that every step had its effect.
    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop>;
}
