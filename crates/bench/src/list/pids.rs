//! `pids`: a model of a kernel's allocator of process identifiers allocates numbers among those of sleeping processes.
//!
//! Measures 1,000 allocations, each followed by the end of its process, while n processes sleep: the original of this
//! benchmark timed as many forks. The models are data structures in user space ([`landau_pids`]), so the allocators of
//! eight kernels run on one machine, and nothing but the search grows. `visits_per_allocation_at_N` are facts.
//!
//! Not a measure of a fork: a kernel also copies the parent, takes locks and finds its data cold. `fork` measures that.
//! The mean of many allocations is timed because single ones differ by the whole scan: `freebsd-scan` reads nothing in
//! 99 of 100 allocations, and everything in the next.
//!
//! Source: D. Schultz, "Process Creation/Destruction Benchmarks" (February 2004), which compared three allocators in
//! FreeBSD with 1,000 and later 10,000 forks; each model names its own source.

use landau_engine::{
    Benchmark, Context, Cost, FactUnit, Facts, Host, Kind, Parameter, Phase, ReplayCase, Settings, Stop, Support,
};
use landau_engine::{Timer, Variant};
use landau_pids::measure::Experiment;
use landau_pids::{Population, Refused, Workload, list, named};

/// State of a pass.
#[derive(Debug)]
pub struct Pids {
    population: Population,
    allocations: u32,
    last_n: u64,
    /// The mean number of visits of an allocation, at some n.
    visits: Vec<(u64, f64)>,
}

const ALLOCATE: usize = 0;

impl Benchmark for Pids {
    const NAME: &'static str = "pids";
    const ABOUT: &'static str = "What does finding a free process identifier cost, by the kernel's algorithm (models)?";
    const AXIS: &'static str = "sleeping processes";
    const PHASES: &'static [Phase] =
        &[Phase::up("allocate", "1,000 allocations of an identifier (allocations=), each released at once")];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("64", "3000", "10000", "sleeping processes"),
        Parameter::fixed(
            "allocator",
            Kind::Choice(list::NAMES),
            "freebsd-scan",
            "model of the allocator; `landau pids --help` describes and compares all of them",
        ),
        Parameter::fixed(
            "workload",
            Kind::Choice(Workload::NAMES),
            "random",
            "places of the sleepers; groups: each keeps the number of an ended session leader in use; turnover: each \
             new process replaces a sleeper",
        ),
        Parameter::fixed(
            "pid_max",
            Kind::Count { min: 1_000, max: 4_194_304 },
            "99999",
            "largest identifier; 99999 is that of FreeBSD",
        ),
        Parameter::fixed("allocations", Kind::Count { min: 1, max: 1_000_000 }, "1000", "allocations per step"),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("allocator", "freebsd-bitmap")]),
        Variant::always(&[("allocator", "hash-probe")]),
        Variant::always(&[("allocator", "illumos-hash")]),
        Variant::always(&[("allocator", "linux-bitmap")]),
        Variant::always(&[("allocator", "linux-idr")]),
        Variant::always(&[("allocator", "netbsd-table")]),
        Variant::always(&[("allocator", "openbsd-random")]),
        Variant::full(&[("workload", "groups")]),
        Variant::full(&[("workload", "turnover")]),
        Variant::full(&[("allocator", "hash-probe"), ("workload", "turnover")]),
    ];
    const REPLAYS: &'static [ReplayCase] = &[
        ReplayCase::corrected(&[]),
        ReplayCase::corrected(&[("allocator", "netbsd-table")]),
        ReplayCase::corrected(&[("allocator", "hash-probe")]),
    ];
    const EMULATED: &'static [(&'static str, &'static str)] = &[("n", "300")];
    const IN_QUICK: bool = false;
    const CAVEATS: &'static [&'static str] = &[
        "Models in user space: they show how a search grows, not what a fork costs.",
        "The models find their data in the caches of one processor; a kernel's data may have been evicted in the \
         meantime.",
        "hash-probe and freebsd-bitmap are reconstructions of an allocator of 2004 whose description is lost.",
        "netbsd-table places its processes itself; workload has no effect on their numbers there.",
    ];
    const SOURCE: &'static str = "D. Schultz, Process Creation/Destruction Benchmarks (2004), with models in place of \
                                  kernels";

    fn support(_: &Host, settings: &Settings) -> Support {
        match experiment(settings) {
            Some(one) if settings.count("n") <= u64::from(one.sleepers_max()) => Support::Yes,
            Some(one) => {
                Support::No(format!("there are identifiers for {} sleepers; raise pid_max", one.sleepers_max()))
            }
            None => Support::No("there is no such allocator or workload".to_owned()),
        }
    }

    fn cost(settings: &Settings) -> Cost {
        // Tables of all numbers, and entries of processes.
        Cost { memory_bytes_each: 100, memory_bytes: 64 * settings.count("pid_max"), ..Cost::default() }
    }

    fn step_us(_: &Settings) -> u64 {
        150
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let settings = context.settings;
        let experiment = experiment(settings).ok_or_else(|| Stop::Wrong("there is no such allocator".to_owned()))?;
        Ok(Self {
            population: experiment.population(context.seed),
            allocations: settings.count("allocations") as u32,
            last_n: context.n,
            visits: Vec::with_capacity(64),
        })
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        self.population.add().map_err(stop)?;
        let (population, allocations) = (&mut self.population, self.allocations);
        timer.time(ALLOCATE, || Ok(population.fork(allocations)))?.map_err(stop)?;
        if n.is_power_of_two() || n == self.last_n {
            let (before, count) = (self.population.processes().visits(), self.population.representative());
            self.population.fork(count).map_err(stop)?;
            let visits = self.population.processes().visits() - before;
            self.visits.push((n, visits as f64 / f64::from(count)));
        }
        Ok(())
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        let mut sleepers = self.population.sleepers().to_vec();
        let processes = self.population.processes();
        sleepers.retain(|id| processes.is_process(*id));
        sleepers.sort_unstable();
        sleepers.dedup();
        Stop::unless(sleepers.len() as u64 == steps, || {
            format!("only {} of {steps} sleepers have a unique identifier", sleepers.len())
        })?;
        for (n, visits) in &self.visits {
            facts.number(&format!("visits_per_allocation_at_{n}"), *visits, FactUnit::Count);
        }
        facts.text("a_visit_is_one_of_the", processes.model().counts);
        Ok(())
    }
}

/// Returns the experiment that the settings describe.
fn experiment(settings: &Settings) -> Option<Experiment> {
    let (model, workload) = (named(settings.text("allocator"))?, Workload::named(settings.text("workload"))?);
    Some(Experiment { model, workload, pid_max: settings.count("pid_max") as u32 })
}

fn stop(refused: Refused) -> Stop {
    Stop::Wrong(refused.to_string())
}
