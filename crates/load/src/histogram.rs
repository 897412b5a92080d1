//! A histogram of latencies from 1 ns to 100 s with three significant digits.
//!
//! The histograms of several workers are merged by adding their counts, because percentiles cannot be averaged.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest latency, 100 s. Longer ones count as this one.
pub const LONGEST_NS: u64 = 100_000_000_000;

/// Significant digits of a value: a resolution of 0.1%.
const DIGITS: u8 = 3;

/// A histogram of latencies. An empty one owns no memory.
///
/// A latency whose end was not observed is recorded as the time waited so far, a lower bound. Without it the
/// percentiles would improve with each request that is never answered.
#[derive(Clone, PartialEq, Default)]
pub struct Histogram {
    held: Option<Box<hdrhistogram::Histogram<u64>>>,
    censored: u64,
}

/// A histogram as a message: each latency that occurred with its count.
#[derive(Serialize, Deserialize)]
struct Counts {
    counts: Vec<(u64, u64)>,
    censored: u64,
}

impl Histogram {
    /// Returns an empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a latency. 0 counts as 1, and anything above [`LONGEST_NS`] as the longest latency.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        match &mut self.held {
            Some(held) => held.saturating_record(ns.max(1)),
            None => self.record_count(ns, 1),
        }
    }

    /// Records a lower bound of a latency whose end was not observed.
    #[cold]
    pub fn record_censored(&mut self, ns: u64) {
        self.record(ns);
        self.censored += 1;
    }

    /// Records a latency `count` times.
    #[cold]
    pub fn record_count(&mut self, ns: u64, count: u64) {
        if self.held.is_none() {
            // The bounds are constants that hdrhistogram accepts.
            self.held = hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).ok().map(Box::new);
        }
        if let Some(held) = &mut self.held {
            held.saturating_record_n(ns.max(1), count);
        }
    }

    /// Adds the latencies of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.censored += other.censored;
        match (&mut self.held, &other.held) {
            (_, None) => {}
            (None, Some(held)) => self.held = Some(held.clone()),
            // Both have the same bounds, so no value is out of range.
            (Some(own), Some(other)) => own.add(other.as_ref()).unwrap_or_default(),
        }
    }

    /// Returns the number of latencies whose end was not observed; they are recorded as lower bounds.
    pub fn censored(&self) -> u64 {
        self.censored
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.len())
    }

    /// Returns the quantile `share` (0 to 1) in nanoseconds; 0 if the histogram is empty.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.filled().map_or(0, |held| held.value_at_quantile(share).min(held.max()))
    }

    /// Returns the mean in nanoseconds; 0 if the histogram is empty.
    pub fn mean_ns(&self) -> f64 {
        self.filled().map_or(0.0, hdrhistogram::Histogram::mean)
    }

    /// Returns the smallest latency in nanoseconds; 0 if the histogram is empty.
    pub fn min_ns(&self) -> u64 {
        self.filled().map_or(0, hdrhistogram::Histogram::min)
    }

    /// Returns the largest latency in nanoseconds; 0 if the histogram is empty.
    pub fn max_ns(&self) -> u64 {
        self.filled().map_or(0, hdrhistogram::Histogram::max)
    }

    /// Returns the number of latencies above `ns`.
    pub fn count_above(&self, ns: u64) -> u64 {
        self.counts().iter().filter(|one| one.0 > ns).map(|one| one.1).sum()
    }

    /// Returns each latency that occurred with its count, in increasing order.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let counts = |held: &hdrhistogram::Histogram<u64>| {
            held.iter_recorded().map(|one| (one.value_iterated_to(), one.count_at_value())).collect()
        };
        self.filled().map_or_else(Vec::new, counts)
    }

    fn filled(&self) -> Option<&hdrhistogram::Histogram<u64>> {
        self.held.as_deref().filter(|held| !held.is_empty())
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram({} latencies)", self.count())
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Counts { counts: self.counts(), censored: self.censored }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Counts { counts, censored } = Counts::deserialize(deserializer)?;
        let mut histogram = Self { held: None, censored };
        for (ns, count) in counts {
            histogram.record_count(ns, count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(values: &[u64]) -> Histogram {
        let mut recorded = Histogram::new();
        for &ns in values {
            recorded.record(ns);
        }
        recorded
    }

    #[test]
    fn small_values_are_exact_and_large_ones_saturate() {
        let small = histogram(&[0, 1, 7, 999, 2_000]);
        assert_eq!(small.counts(), [(1, 2), (7, 1), (999, 1), (2_000, 1)]);
        let huge = histogram(&[u64::MAX]);
        assert!(huge.max_ns() >= LONGEST_NS && huge.max_ns() < LONGEST_NS + LONGEST_NS / 500);
    }

    proptest! {
        #[test]
        fn json_keeps_the_counts_and_merge_adds_them(
            one in prop::collection::vec(1_u64..200_000_000_000, 0..50),
            other in prop::collection::vec(1_u64..200_000_000_000, 0..50),
        ) {
            let (mut a, b) = (histogram(&one), histogram(&other));
            for &ns in &other {
                a.record_censored(ns);
            }
            let one: Vec<u64> = one.iter().chain(&other).copied().collect();
            let text = serde_json::to_string(&a).unwrap();
            let back: Histogram = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back.counts(), a.counts());
            prop_assert_eq!(back.censored(), other.len() as u64);
            let mut ab = a.clone();
            ab.merge(&b);
            let mut ba = b.clone();
            ba.merge(&back);
            prop_assert_eq!(ab.counts(), ba.counts());
            prop_assert_eq!((ab.censored(), ba.censored()), (other.len() as u64, other.len() as u64));
            let both: Vec<u64> = one.iter().chain(&other).copied().collect();
            prop_assert_eq!(ab.counts(), histogram(&both).counts());
        }

        #[test]
        fn quantiles_are_monotone(values in prop::collection::vec(1_u64..1_000_000_000, 1..50)) {
            let histogram = histogram(&values);
            let quantiles: Vec<u64> = [0.0, 0.5, 0.9, 0.99, 1.0].iter().map(|&q| histogram.quantile_ns(q)).collect();
            prop_assert!(quantiles.is_sorted(), "{:?}", quantiles);
        }
    }
}
