//! Samples: the reads and the time of an allocation among a number of sleepers.

use crate::workload::Population;
use crate::{Id, Model, Processes, Refused, Workload};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Samples for each number of sleepers in a pass, each with different places.
const SAMPLES: u32 = 2;

/// The default numbers of sleepers, in thousandths of all numbers.
const SIZES: [u32; 18] = [5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 400, 500, 600, 700, 800, 900];

/// The largest of [`SIZES`] for a model whose cost grows with the square of the number of sleepers.
const SQUARE_MAX: u32 = 100;

/// The maximum of the numbers to which [`SIZES`] apply for such a model. Of 4,194,304 numbers, even the smallest share
/// is twice as many sleepers as can be measured in a reasonable time.
const SQUARE_NUMBERS_MAX: u32 = 100_000;

/// The subject of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// The allocator.
    pub model: &'static Model,
    /// Where the sleepers are, and what the other processes do.
    pub workload: Workload,
    /// The largest number, as the original defines it.
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
    /// The time to allocate a number and to end a process, in nanoseconds. It includes the bookkeeping of processes and
    /// the choice of the one that ends. [`Experiment::around_ns`] is the time without the allocator.
    pub time_ns: f64,
}

impl Experiment {
    /// Takes a sample among `n` sleepers. The seed determines their places and all other random choices. The number of
    /// allocations is that of [`Population::representative`]. `clock_ns` should stop while the thread does not run.
    pub fn sample(&self, n: u32, seed: u64, clock_ns: fn() -> u64) -> Result<Sample, Refused> {
        let mut population = self.population(seed);
        for _ in 0..n {
            population.add()?;
        }
        let allocations = population.representative();
        population.settle()?;
        let before = population.processes().visits();
        let began_ns = clock_ns();
        population.fork(allocations)?;
        let elapsed_ns = clock_ns().saturating_sub(began_ns) as f64;
        let visits = population.processes().visits() - before;
        let each = f64::from(allocations);
        Ok(Sample { n, allocations, visits: visits as f64 / each, time_ns: elapsed_ns / each })
    }

    /// Returns [`Sample::time_ns`] with an allocator that does not search: the median of nine samples.
    pub fn around_ns(&self, n: u32, clock_ns: fn() -> u64) -> Result<f64, Refused> {
        let nothing = Self { model: crate::NOTHING, ..*self };
        let mut times =
            (0..9).map(|seed| Ok(nothing.sample(n, seed, clock_ns)?.time_ns)).collect::<Result<Vec<_>, _>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[4])
    }

    /// Returns a population without sleepers.
    pub fn population(&self, seed: u64) -> Population {
        let processes = Processes::new(self.model, self.pid_max, seed);
        Population::new(processes, self.pid_max, self.workload, ChaCha8Rng::seed_from_u64(seed))
    }

    /// Returns the largest number of sleepers that leaves one number free.
    pub fn sleepers_max(&self) -> u32 {
        // A leader needs a number when its session begins.
        (self.model.capacity(self.pid_max).saturating_sub(2)) / self.workload.numbers_each()
    }

    /// Returns the default numbers of sleepers: from 0.5% to 90% of the numbers. If the model reads the square of their
    /// number: from 0.5% to 10% of at most 100,000.
    pub fn sizes(&self) -> Vec<u32> {
        let is_square = self.model.closed_form == Some(crate::ClosedForm::Scan);
        let numbers = self.pid_max + 1;
        let (numbers, most) =
            if is_square { (numbers.min(SQUARE_NUMBERS_MAX), SQUARE_MAX) } else { (numbers, u32::MAX) };
        let sizes = SIZES.iter().filter(|share| **share <= most);
        let sizes = sizes.map(|share| (u64::from(numbers) * u64::from(*share) / 1_000) as u32);
        sizes.filter(|n| *n <= self.sleepers_max()).collect()
    }
}

/// Experiments, each among several numbers of sleepers, in repeated passes.
#[derive(Debug, Clone)]
pub struct Study {
    /// Each experiment with its numbers of sleepers.
    pub experiments: Vec<(Experiment, Vec<u32>)>,
    /// The number of passes. Each pass has different places and a different order.
    pub passes: u32,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Study {
    /// Measures in random order. Returns the samples of each experiment, pass by pass. `clock_ns` should stop while the
    /// thread does not run. `progress` is called before each sample with the number of samples taken and their total.
    pub fn run(
        &self,
        clock_ns: fn() -> u64,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Vec<Vec<Vec<Sample>>>, Refused> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let sizes = self.experiments.iter().enumerate();
        let mut order: Vec<(usize, u32)> = sizes
            .flat_map(|(index, (_, sizes))| sizes.iter().map(move |n| (index, *n)))
            .flat_map(|one| std::iter::repeat_n(one, SAMPLES as usize))
            .collect();
        let all = order.len() as u64 * u64::from(self.passes);
        let mut taken = 0;
        let mut samples = vec![Vec::new(); self.experiments.len()];
        for _ in 0..self.passes {
            order.shuffle(&mut random);
            let mut pass = vec![Vec::new(); self.experiments.len()];
            for &(index, n) in &order {
                progress(taken, all);
                pass[index].push(self.experiments[index].0.sample(n, random.random(), clock_ns)?);
                taken += 1;
            }
            for (samples, pass) in samples.iter_mut().zip(pass) {
                samples.push(pass);
            }
        }
        Ok(samples)
    }
}
