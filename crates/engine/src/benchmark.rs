//! What a benchmark is, and how one of many is held without its type.
//!
//! A benchmark is one file in `crates/bench/src/list/` that implements [`Benchmark`] and reads like the description
//! of an experiment. [`Entry::of`] turns the type into a row of plain data and two functions, each compiled for that
//! benchmark alone: no virtual call stands in the loop that is timed.

use crate::{Annotation, Facts, Host, Parameter, Settings, Timer, worker};
use landau_record::schema::Direction;
use landau_sys::fork_helper;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Study {
    /// So little that a test may run it: does it work at all?
    Smoke,
    /// Minutes: the laws.
    Quick,
    /// As long as it takes: past every capacity, with more passes.
    Full,
}

impl Study {
    /// The study of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Study::Smoke, Study::Quick, Study::Full].into_iter().find(|one| one.name() == name)
    }

    /// The study's name.
    pub fn name(self) -> &'static str {
        match self {
            Study::Smoke => "smoke",
            Study::Quick => "quick",
            Study::Full => "full",
        }
    }

    /// How many passes each case gets unless the user says otherwise.
    pub fn pass_count(self) -> u32 {
        match self {
            Study::Smoke => 1,
            Study::Quick => 5,
            // With nine, the second and the eighth order statistic are an exact 96.1% interval of the median.
            Study::Full => 9,
        }
    }
}

/// One timed part of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// `bind`, `close` … unique within the benchmark.
    pub name: &'static str,
    /// On the way up or on the way down.
    pub direction: Direction,
    /// What exactly lies between the two readings of the clock.
    pub about: &'static str,
}

impl Phase {
    /// A phase of [`Benchmark::step`].
    pub const fn up(name: &'static str, about: &'static str) -> Self {
        Self { name, direction: Direction::Up, about }
    }

    /// A phase of [`Benchmark::undo`].
    pub const fn down(name: &'static str, about: &'static str) -> Self {
        Self { name, direction: Direction::Down, about }
    }
}

/// Settings that make a case of their own beside the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// The smallest study that includes it.
    pub from: Study,
    /// What differs from the study's values.
    pub settings: &'static [(&'static str, &'static str)],
}

impl Variant {
    /// A case of every study.
    pub const fn always(settings: &'static [(&'static str, &'static str)]) -> Self {
        Self { from: Study::Smoke, settings }
    }

    /// A case of the full study only.
    pub const fn full(settings: &'static [(&'static str, &'static str)]) -> Self {
        Self { from: Study::Full, settings }
    }
}

/// Whether a benchmark can run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// It can.
    Yes,
    /// It cannot, because …
    No(String),
}

impl Support {
    /// `Yes` where the condition holds, else `No` with the reason.
    pub fn when(condition: bool, reason: &str) -> Self {
        if condition { Support::Yes } else { Support::No(reason.to_owned()) }
    }
}

/// What a case takes from the host, so that it is never endangered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Memory for each object, the kernel's part included, in bytes. Also places the annotations of the caches.
    pub memory_bytes_each: u64,
    /// Memory that does not depend on n, in bytes.
    pub memory_bytes: u64,
    /// Processes or threads for each object.
    pub processes_each: u64,
    /// Descriptors for each object.
    pub descriptors_each: u64,
    /// Space in the scratch folder in all, in bytes.
    pub disk_bytes: u64,
}

/// Why a step was not completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
    /// The system refused a call. Where that is a limit, it is a result.
    #[error(transparent)]
    Refused(#[from] landau_sys::Error),
    /// What was measured is not what was meant: the check failed, a child died …
    #[error("{0}")]
    Wrong(String),
    /// The way down ends here although objects are left.
    #[error("enough")]
    Enough,
}

impl From<fork_helper::Failure> for Stop {
    fn from(failure: fork_helper::Failure) -> Self {
        match failure {
            fork_helper::Failure::Refused(error) => Stop::Refused(error),
            other => Stop::Wrong(other.to_string()),
        }
    }
}

impl Stop {
    /// A failed operation of the standard library as a refusal.
    pub fn io(call: &'static str, error: &std::io::Error) -> Self {
        Stop::Refused(landau_sys::Error::from_io(call, error))
    }

    /// A check that did not hold.
    pub fn unless(holds: bool, what: impl FnOnce() -> String) -> Result<(), Stop> {
        if holds { Ok(()) } else { Err(Stop::Wrong(what())) }
    }
}

/// What a pass is given.
#[derive(Debug)]
pub struct Context<'a> {
    /// The values of the parameters; `n` is a number here, never `auto`.
    pub settings: &'a Settings,
    /// How many steps will be taken.
    pub n: u64,
    /// Differs from pass to pass; drives every random order.
    pub seed: u64,
    /// A folder of this run for files. It outlives the pass, so that the next one can use them again.
    pub scratch: &'a Path,
    /// The machine.
    pub host: &'a Host,
}

/// An experiment: objects pile up one by one while each call is timed, and go again.
pub trait Benchmark: Sized + 'static {
    /// The name after `landau run`.
    const NAME: &'static str;
    /// What is asked, in one line.
    const ABOUT: &'static str;
    /// What n counts: `bound sockets`.
    const AXIS: &'static str;
    /// The timed parts of a step, those of the way up first.
    const PHASES: &'static [Phase];
    /// The parameters; `n` first.
    const PARAMETERS: &'static [Parameter];
    /// The cases besides the one at default values.
    const VARIANTS: &'static [Variant] = &[];
    /// What the quick study sets otherwise where instructions are counted: an emulator takes some fifty times as long,
    /// and a curve without noise shows its law in fewer steps.
    const EMULATED: &'static [(&'static str, &'static str)] = &[];
    /// How the result can mislead, a sentence each.
    const CAVEATS: &'static [&'static str];
    /// Where the experiment comes from.
    const SOURCE: &'static str;

    /// Whether it can run here with these settings.
    fn support(_host: &Host, _settings: &Settings) -> Support {
        Support::Yes
    }

    /// The number of steps where the setting is `auto`.
    fn auto_n(_host: &Host, _settings: &Settings, _study: Study) -> u64 {
        10_000
    }

    /// Positions on the axis that are known beforehand: capacities and sizes of tables.
    fn annotations(_host: &Host, _settings: &Settings) -> Vec<Annotation> {
        Vec::new()
    }

    /// What it takes from the host.
    fn cost(_settings: &Settings) -> Cost {
        Cost::default()
    }

    /// What a refusal means where the general answer (see `limit.rs`) would be wrong: the limit in words, and the
    /// command that raises it.
    fn limit(_settings: &Settings, _refused: landau_sys::Error) -> Option<(String, String)> {
        None
    }

    /// What lies about on the host and would bend the curve: it is waited for, visibly and not for ever.
    fn unsettled(_settings: &Settings) -> Option<String> {
        None
    }

    /// Prepares a pass. Untimed.
    fn setup(context: &Context) -> Result<Self, Stop>;

    /// Takes the n-th step. Each phase of the way up is timed once; its effect stays.
    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop>;

    /// Takes back one step while n objects exist. Each phase of the way down is timed once.
    fn undo(&mut self, _n: u64, _timer: &mut Timer) -> Result<(), Stop> {
        Err(Stop::Enough)
    }

    /// Verifies, untimed and after the way up, that the effect of every step is there.
    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop>;
}

/// A benchmark without its type: plain data and functions.
#[derive(Clone, Copy)]
pub struct Entry {
    /// [`Benchmark::NAME`].
    pub name: &'static str,
    /// [`Benchmark::ABOUT`].
    pub about: &'static str,
    /// [`Benchmark::AXIS`].
    pub axis: &'static str,
    /// [`Benchmark::PHASES`].
    pub phases: &'static [Phase],
    /// [`Benchmark::PARAMETERS`].
    pub parameters: &'static [Parameter],
    /// [`Benchmark::VARIANTS`].
    pub variants: &'static [Variant],
    /// [`Benchmark::EMULATED`].
    pub emulated: &'static [(&'static str, &'static str)],
    /// [`Benchmark::CAVEATS`].
    pub caveats: &'static [&'static str],
    /// [`Benchmark::SOURCE`].
    pub source: &'static str,
    pub(crate) support: fn(&Host, &Settings) -> Support,
    pub(crate) auto_n: fn(&Host, &Settings, Study) -> u64,
    pub(crate) annotations: fn(&Host, &Settings) -> Vec<Annotation>,
    pub(crate) cost: fn(&Settings) -> Cost,
    pub(crate) unsettled: fn(&Settings) -> Option<String>,
    pub(crate) drive: fn(&Context, &mut Timer) -> worker::Report,
}

impl Entry {
    /// The row of a benchmark.
    pub const fn of<B: Benchmark>() -> Self {
        Self {
            name: B::NAME,
            about: B::ABOUT,
            axis: B::AXIS,
            phases: B::PHASES,
            parameters: B::PARAMETERS,
            variants: B::VARIANTS,
            emulated: B::EMULATED,
            caveats: B::CAVEATS,
            source: B::SOURCE,
            support: B::support,
            auto_n: B::auto_n,
            annotations: B::annotations,
            cost: B::cost,
            unsettled: B::unsettled,
            drive: worker::drive::<B>,
        }
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({})", self.name)
    }
}
