//! When requests of an open loop are due: a function of the seed, and of no clock.
//!
//! The schedule knows nothing of the server. A request that is late is late; it is sent as soon as that can be, and its
//! latency counts from when it was due, so that a server that stalls is charged for all that came to wait.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// How requests follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At random, independently of one another, as those of many people do.
    #[default]
    Poisson,
    /// At equal distances.
    Uniform,
}

/// When requests are due, in nanoseconds from the start.
#[derive(Debug, Clone)]
pub struct Schedule {
    arrivals: Arrivals,
    gap_ns: f64,
    due_ns: f64,
    random: ChaCha8Rng,
}

impl Schedule {
    /// So many requests a second. Of several workers each has `share` as its number and the count of all: uniform
    /// schedules interleave then, and random ones differ.
    pub fn new(arrivals: Arrivals, per_second: f64, seed: u64, share: (u32, u32)) -> Self {
        let gap_ns = 1e9 / per_second;
        let (number, count) = share;
        let offset = gap_ns * f64::from(number) / f64::from(count.max(1));
        let mut schedule = Self {
            arrivals,
            gap_ns,
            due_ns: offset,
            random: ChaCha8Rng::seed_from_u64(seed.wrapping_add(u64::from(number) << 32)),
        };
        if arrivals == Arrivals::Poisson {
            schedule.due_ns = schedule.gap();
        }
        schedule
    }

    /// When the next one is due.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        self.due_ns as u64
    }

    /// Goes on to the one after it.
    #[inline]
    pub fn advance(&mut self) {
        self.due_ns += self.gap();
    }

    fn gap(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Uniform => self.gap_ns,
            // The inverse of the exponential distribution; 53 random bits never make the logarithm's argument 0.
            Arrivals::Poisson => {
                let uniform = ((self.random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
                -uniform.ln() * self.gap_ns
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use std::collections::VecDeque;

    #[test]
    fn uniform_shares_interleave_and_random_ones_keep_the_rate() {
        let due = |number: u32| {
            let mut schedule = Schedule::new(Arrivals::Uniform, 500.0, 1, (number, 2));
            (0..3).map(|_| (schedule.due_ns(), schedule.advance()).0).collect::<Vec<_>>()
        };
        assert_eq!(due(0), [0, 2_000_000, 4_000_000]);
        assert_eq!(due(1), [1_000_000, 3_000_000, 5_000_000]);
        let mut poisson = Schedule::new(Arrivals::Poisson, 1000.0, 7, (0, 1));
        (0..100_000).for_each(|_| poisson.advance());
        let seconds = poisson.due_ns() as f64 / 1e9;
        assert!((99.0..101.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_seed_says_everything() {
        let due = |seed: u64, number: u32| {
            let mut schedule = Schedule::new(Arrivals::Poisson, 10.0, seed, (number, 4));
            (0..9).for_each(|_| schedule.advance());
            schedule.due_ns()
        };
        assert_eq!(due(1, 0), due(1, 0));
        assert_ne!(due(1, 0), due(2, 0));
        assert_ne!(due(1, 0), due(1, 1));
    }

    /// A server on a virtual clock that answers each of its `places` connections in 1 ms but stalls for a second.
    fn latencies(from_due: bool) -> Histogram {
        const STALL: std::ops::Range<u64> = 5_000_000_000..6_000_000_000;
        let mut schedule = Schedule::new(Arrivals::Uniform, 1000.0, 1, (0, 1));
        let mut free_at: VecDeque<u64> = (0..10).map(|_| 0).collect();
        let mut found = Histogram::new();
        while schedule.due_ns() < 10_000_000_000 {
            let due = schedule.due_ns();
            schedule.advance();
            let sent = free_at.pop_front().unwrap().max(due);
            let begun = if STALL.contains(&sent) { STALL.end } else { sent };
            let done = begun + 1_000_000;
            free_at.push_back(done);
            found.record(done - if from_due { due } else { sent });
        }
        found
    }

    /// 1,000 of 10,000 requests are due within the second in which nothing is answered: they wait half a second on
    /// average, and a tenth of all latencies is above some milliseconds. Counted from when they were sent, only the ten
    /// that were under way are.
    #[test]
    fn a_stall_of_a_second_has_its_weight() {
        let (due, sent) = (latencies(true), latencies(false));
        assert_eq!((due.count(), sent.count()), (10_000, 10_000));
        let late = due.count_above(10_000_000);
        assert!((990..=1_200).contains(&late), "{late}");
        assert_eq!(sent.count_above(10_000_000), 10);
        let p95 = due.quantile_ns(0.95);
        assert!((450_000_000..560_000_000).contains(&p95), "{p95}");
        assert!(sent.quantile_ns(0.99) < 2_000_000);
    }
}
