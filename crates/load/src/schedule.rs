//! The due times of the requests of an open loop: a function of the rate and the seed, independent of clock and server.
//!
//! A request that cannot be sent in time is sent as soon as possible, and its latency counts from its due time. So a
//! server that stalls is charged for every request that had to wait, which avoids coordinated omission (G. Tene, How
//! NOT to Measure Latency, 2013).

use crate::plan::Arrivals;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The schedule of an open loop, in nanoseconds after the start.
#[derive(Debug, Clone)]
pub struct Schedule {
    arrivals: Arrivals,
    gap_ns: f64,
    due_ns: f64,
    random: ChaCha8Rng,
}

impl Schedule {
    /// Returns a schedule of `per_second` requests per second. `share` is the worker's number and the number of
    /// workers: constant schedules of several workers interleave, and random ones differ.
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

    /// Returns when the next request is due.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        self.due_ns as u64
    }

    /// Advances to the request after the next one.
    #[inline]
    pub fn advance(&mut self) {
        self.due_ns += self.gap();
    }

    fn gap(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Constant => self.gap_ns,
            // The inverse of the exponential distribution function. The argument of the logarithm is never 0.
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
    fn constant_shares_interleave_and_random_ones_keep_the_rate() {
        let due = |number: u32| {
            let mut schedule = Schedule::new(Arrivals::Constant, 500.0, 1, (number, 2));
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
    fn schedule_is_a_function_of_seed_and_worker() {
        let due = |seed: u64, number: u32| {
            let mut schedule = Schedule::new(Arrivals::Poisson, 10.0, seed, (number, 4));
            (0..9).for_each(|_| schedule.advance());
            schedule.due_ns()
        };
        assert_eq!(due(1, 0), due(1, 0));
        assert_ne!(due(1, 0), due(2, 0));
        assert_ne!(due(1, 0), due(1, 1));
    }

    /// Latencies at a server that answers each of ten connections within 1 ms but stalls for a second, in virtual time.
    fn latencies(from_due: bool) -> Histogram {
        const STALL: std::ops::Range<u64> = 5_000_000_000..6_000_000_000;
        let mut schedule = Schedule::new(Arrivals::Constant, 1000.0, 1, (0, 1));
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

    /// 1,000 of 10,000 requests are due during the stall and wait half a second on average. Counted from the time of
    /// sending, only the ten requests in flight are late.
    #[test]
    fn stall_is_charged_to_every_request_that_waits() {
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
