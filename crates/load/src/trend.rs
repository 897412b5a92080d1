//! Tests whether the latency of an open loop is stationary: its mean by due time, and the growth of that mean over the
//! run.
//!
//! A server that is slower than the schedule has a growing queue, in which each request waits longer than the one
//! before. Even a queue of a few requests in a million is visible: their latencies grow from the start of the run to
//! its end. The number of pending requests shows less, because it also fluctuates if the server keeps up.
//!
//! The growth is the slope of a straight line through the means of at most 32 intervals. Its confidence interval comes
//! from the scatter of those means around the line (batch means: A. M. Law, Simulation Modeling and Analysis, chapter
//! 9), widened if neighbouring intervals resemble each other, as they do in a run that is short for its queue.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The largest number of intervals. When a run exceeds them, each becomes twice as long.
const INTERVALS: usize = 32;

/// The binary logarithm of the first length of an interval in nanoseconds: about a millisecond.
const FIRST_SHIFT: u32 = 20;

/// The minimum number of intervals with requests that define a trend.
const LEAST_INTERVALS: usize = 6;

/// The confidence level of the two-sided interval of the growth.
const CONFIDENCE: f64 = 0.99;

/// The largest correlation of neighbouring residuals that widens the interval. A queue that begins to grow in the
/// middle of a run also leaves correlated residuals, and must not be excused by them.
const MOST_CORRELATION: f64 = 0.5;

/// Sum and number of latencies by the due time of their requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySeries {
    /// The binary logarithm of the length of an interval in nanoseconds.
    shift: u32,
    /// The number of requests that were due in each interval, and the sum of their latencies in nanoseconds.
    intervals: Vec<(u64, u64)>,
}

impl Default for LatencySeries {
    fn default() -> Self {
        Self { shift: FIRST_SHIFT, intervals: Vec::new() }
    }
}

/// The growth of the mean latency from the first interval to the last, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trend {
    /// The estimate.
    pub growth_ns: f64,
    /// The lower end of its 99% interval.
    pub low_ns: f64,
    /// The upper end of its 99% interval.
    pub high_ns: f64,
}

impl LatencySeries {
    /// Records the latency of a request that was due `due_ns` after the start of the measured time.
    #[inline]
    pub(crate) fn record(&mut self, due_ns: u64, latency_ns: u64) {
        let index = due_ns >> self.shift;
        match self.intervals.get_mut(index as usize) {
            Some((count, sum_ns)) => {
                *count += 1;
                *sum_ns = sum_ns.saturating_add(latency_ns);
            }
            None => self.extend(due_ns, latency_ns),
        }
    }

    #[cold]
    fn extend(&mut self, due_ns: u64, latency_ns: u64) {
        while due_ns >> self.shift >= INTERVALS as u64 {
            self.double();
        }
        let index = (due_ns >> self.shift) as usize;
        if index >= self.intervals.len() {
            self.intervals.resize(index + 1, (0, 0));
        }
        self.record(due_ns, latency_ns);
    }

    /// Makes each interval twice as long.
    fn double(&mut self) {
        let sum = |pair: &[(u64, u64)]| {
            pair.iter().fold((0, 0), |sum: (u64, u64), one| (sum.0 + one.0, sum.1.saturating_add(one.1)))
        };
        self.intervals = self.intervals.chunks(2).map(sum).collect();
        self.shift += 1;
    }

    /// Adds the latencies of another worker with the same start.
    pub(crate) fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.shift < other.shift {
            self.double();
        }
        while other.shift < self.shift {
            other.double();
        }
        self.intervals.resize(self.intervals.len().max(other.intervals.len()), (0, 0));
        for (own, other) in self.intervals.iter_mut().zip(&other.intervals) {
            *own = (own.0 + other.0, own.1.saturating_add(other.1));
        }
    }

    /// Returns the growth of the mean latency over the run, or `None` if too few intervals contain a request.
    pub fn trend(&self) -> Option<Trend> {
        // Position, number of requests as the weight, mean latency.
        let filled = self.intervals.iter().enumerate().filter(|(_, (count, _))| *count > 0);
        let points: Vec<[f64; 3]> = filled
            .map(|(index, &(count, sum_ns))| [index as f64, count as f64, sum_ns as f64 / count as f64])
            .collect();
        let (first, last) = (points.first()?[0], points.last()?[0]);
        if points.len() < LEAST_INTERVALS {
            return None;
        }
        let sum = |of: &dyn Fn(&[f64; 3]) -> f64| points.iter().map(of).sum::<f64>();
        let weight = sum(&|[_, weight, _]| *weight);
        let mean_x = sum(&|[x, weight, _]| weight * x) / weight;
        let mean_y = sum(&|[_, weight, y]| weight * y) / weight;
        let spread = sum(&|[x, weight, _]| weight * (x - mean_x).powi(2));
        let slope = sum(&|[x, weight, y]| weight * (x - mean_x) * (y - mean_y)) / spread;
        let residuals: Vec<f64> =
            points.iter().map(|[x, weight, y]| weight.sqrt() * (y - mean_y - slope * (x - mean_x))).collect();
        let square: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let product: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let correlation = if square > 0.0 { (product / square).clamp(0.0, MOST_CORRELATION) } else { 0.0 };
        let freedom = points.len() as f64 - 2.0;
        let variance = square / freedom / spread * (1.0 + correlation) / (1.0 - correlation);
        // The parameters are valid: the degrees of freedom are positive.
        let quantile = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(f64::midpoint(1.0, CONFIDENCE));
        let (growth_ns, error_ns) = (slope * (last - first), quantile * variance.sqrt() * (last - first));
        Some(Trend { growth_ns, low_ns: growth_ns - error_ns, high_ns: growth_ns + error_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arrivals;
    use crate::schedule::Schedule;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    /// The latencies of a queue: random arrivals, one request at a time, service times in `service_ns` chosen at
    /// random.
    fn queue(per_second: f64, seconds: u64, seed: u64, service_ns: [u64; 2]) -> LatencySeries {
        let mut schedule = Schedule::new(Arrivals::Poisson, per_second, seed, (0, 1));
        let (mut series, mut free_ns) = (LatencySeries::default(), 0);
        while schedule.due_ns() < seconds * S {
            let due_ns = schedule.due_ns();
            schedule.advance();
            let is_long = due_ns.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 1;
            free_ns = due_ns.max(free_ns) + service_ns[usize::from(is_long)];
            series.record(due_ns, free_ns - due_ns);
        }
        series
    }

    /// A server with a load of 0.9 is stationary: of a hundred runs, few seem to grow. With a load of 1.05 the latency
    /// grows in each.
    #[test]
    fn stationary_queue_does_not_grow_and_an_overloaded_one_does() {
        let grows = |service_ns: [u64; 2]| {
            let runs = (0..100).map(|seed| queue(1000.0, 20, seed, service_ns).trend().unwrap());
            runs.filter(|trend| trend.low_ns > 1e6).count()
        };
        assert!(grows([300_000, 1_500_000]) <= 3, "{}", grows([300_000, 1_500_000]));
        assert_eq!(grows([1_000_000, 1_100_000]), 100);
    }

    #[test]
    fn the_interval_contains_the_growth_and_a_constant_has_none() {
        let line = |growth_ns: u64| {
            let mut series = LatencySeries::default();
            (0..1000).for_each(|number| series.record(number * 10_000_000, 5_000_000 + number * growth_ns / 1000));
            series.trend().unwrap()
        };
        let Trend { growth_ns, low_ns, high_ns } = line(400_000_000);
        assert!((380e6..400e6).contains(&growth_ns), "{growth_ns}");
        assert!(low_ns <= growth_ns && growth_ns <= high_ns && high_ns - low_ns < 10e6, "{low_ns} {high_ns}");
        let constant = line(0);
        assert!(constant.growth_ns.abs() < 1.0 && constant.low_ns > -1.0, "{constant:?}");
    }

    /// The queue starts to grow in the middle of the run.
    #[test]
    fn growth_of_the_second_half_is_noticed() {
        let mut series = LatencySeries::default();
        for due_ns in (0..10 * S).step_by(1_000_000) {
            series.record(due_ns, 1_000_000 + due_ns.saturating_sub(5 * S) / 100);
        }
        assert!(series.trend().unwrap().low_ns > 10e6, "{:?}", series.trend());
    }

    #[test]
    fn few_requests_have_no_trend() {
        let mut series = LatencySeries::default();
        assert_eq!(series.trend(), None);
        (0..5).for_each(|number| series.record(number * S, 1));
        assert_eq!(series.trend(), None);
    }

    proptest! {
        /// Holds however the requests are divided among workers, and in whatever order they are recorded.
        #[test]
        fn merged_series_equal_a_single_one(
            requests in prop::collection::vec((0_u64..2_000_000_000, 0_u64..1_000_000), 0..200),
            split in 0_usize..200,
        ) {
            let record = |requests: &[(u64, u64)]| {
                let mut series = LatencySeries::default();
                for &(due_ns, latency_ns) in requests {
                    series.record(due_ns, latency_ns);
                }
                series
            };
            let (one, other) = requests.split_at(split.min(requests.len()));
            let (mut ab, mut ba) = (record(one), record(other));
            ab.merge(&record(other));
            ba.merge(&record(one));
            prop_assert_eq!(&ab, &record(&requests));
            prop_assert_eq!(ab, ba);
        }
    }
}
