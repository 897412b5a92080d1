//! Samples: what an allocation reads and how long it takes among a number of sleepers.

use crate::workload::Population;
use crate::{Id, Model, Processes, Refused, Workload};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::time::Instant;

/// Meetings with a used number that a sample of random occupancy should contain: its mean then varies by about 2%.
const MEETINGS: u64 = 2_000;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// The allocator.
    pub model: &'static Model,
    /// Where the sleepers are, and what the others do.
    pub workload: Workload,
    /// The largest number, as the original counts it.
    pub pid_max: Id,
}

/// The mean of many allocations among a number of sleepers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// The number of sleepers.
    pub n: u32,
    /// The number of allocations.
    pub allocations: u32,
    /// What an allocation read, in the unit of [`Model::counts`].
    pub visits: f64,
    /// The time of an allocation and of the end of a process, in nanoseconds.
    pub time_ns: f64,
}

impl Experiment {
    /// Takes a sample among `n` sleepers, whose places and all else that is random follow from the seed.
    ///
    /// It is as long as one pass of a cursor over all free numbers, so that each used number is met once. Where used
    /// numbers are at random places, a part of a pass shows the same mean, and the sample ends after it.
    pub fn sample(&self, n: u32, seed: u64) -> Result<Sample, Refused> {
        let mut population = self.population(seed);
        for _ in 0..n {
            population.add()?;
        }
        let allocations = self.allocations(population.processes());
        let before = population.processes().visits();
        let began = Instant::now();
        population.fork(allocations)?;
        let elapsed_ns = began.elapsed().as_nanos() as f64;
        let visits = population.processes().visits() - before;
        let each = f64::from(allocations);
        Ok(Sample { n, allocations, visits: visits as f64 / each, time_ns: elapsed_ns / each })
    }

    /// Returns a population without sleepers.
    pub fn population(&self, seed: u64) -> Population {
        let processes = Processes::new(self.model, self.pid_max, seed);
        Population::new(processes, self.pid_max, self.workload, ChaCha8Rng::seed_from_u64(seed))
    }

    /// Returns the largest number of sleepers that leaves a number free.
    pub fn sleepers_max(&self) -> u32 {
        // A leader needs a number while its session begins.
        (self.model.capacity(self.pid_max).saturating_sub(2)) / self.workload.numbers_each()
    }

    fn allocations(&self, processes: &Processes) -> u32 {
        let used = u64::from(processes.in_use());
        let free = u64::from(self.model.capacity(self.pid_max)).saturating_sub(used).max(1);
        let is_even = matches!(self.workload, Workload::Random | Workload::Groups | Workload::Turnover);
        let enough = if is_even { (MEETINGS * free / used.max(1)).max(MEETINGS) } else { u64::MAX };
        free.min(enough) as u32
    }
}
