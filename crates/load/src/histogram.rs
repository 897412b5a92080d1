//! How often each latency occurred, to three digits, from a nanosecond to 100 seconds.
//!
//! What workers found is merged as counts. Percentiles of percentiles mean nothing, so none leaves a worker.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest latency that is told from longer ones: 100 s. Timeouts are counted, not entered.
pub const LONGEST_NS: u64 = 100_000_000_000;

/// Digits of a value that are kept: 0.1%.
const DIGITS: u8 = 3;

/// How often each latency occurred. One that holds nothing takes no memory.
#[derive(Clone, PartialEq, Default)]
pub struct Histogram(Option<Box<hdrhistogram::Histogram<u64>>>);

impl Histogram {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Enters a latency. 0 counts as 1, and what is beyond the longest as the longest.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        match &mut self.0 {
            Some(held) => held.saturating_record(ns.max(1)),
            None => self.record_count(ns, 1),
        }
    }

    /// Enters a latency so many times.
    #[cold]
    pub fn record_count(&mut self, ns: u64, count: u64) {
        if self.0.is_none() {
            // The bounds are right by construction: there is no error to be had.
            self.0 = hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).ok().map(Box::new);
        }
        if let Some(held) = &mut self.0 {
            held.saturating_record_n(ns.max(1), count);
        }
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (_, None) => {}
            (None, Some(_)) => *self = other.clone(),
            // Both have the same bounds, so that nothing can be out of range.
            (Some(own), Some(other)) => own.add(other.as_ref()).unwrap_or_default(),
        }
    }

    /// How many latencies it holds.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |held| held.len())
    }

    /// The latency that so large a share does not exceed, in nanoseconds; 0 where there is none.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.filled().map_or(0, |held| held.value_at_quantile(share).min(held.max()))
    }

    /// The mean in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.filled().map_or(0.0, hdrhistogram::Histogram::mean)
    }

    /// The smallest in nanoseconds.
    pub fn min_ns(&self) -> u64 {
        self.filled().map_or(0, hdrhistogram::Histogram::min)
    }

    /// The largest in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.filled().map_or(0, hdrhistogram::Histogram::max)
    }

    /// How many exceed a latency.
    pub fn count_above(&self, ns: u64) -> u64 {
        self.counts().iter().filter(|one| one.0 > ns).map(|one| one.1).sum()
    }

    /// Every latency that occurred, with how often it did, rising.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let of = |held: &hdrhistogram::Histogram<u64>| {
            held.iter_recorded().map(|one| (one.value_iterated_to(), one.count_at_value())).collect()
        };
        self.filled().map_or_else(Vec::new, of)
    }

    fn filled(&self) -> Option<&hdrhistogram::Histogram<u64>> {
        self.0.as_deref().filter(|held| !held.is_empty())
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram({} latencies)", self.count())
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.counts().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut histogram = Self::new();
        for (ns, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            histogram.record_count(ns, count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        for &ns in values {
            histogram.record(ns);
        }
        histogram
    }

    #[test]
    fn small_values_are_exact_and_huge_ones_are_the_longest() {
        let small = of(&[0, 1, 7, 999, 2_000]);
        assert_eq!(small.counts(), [(1, 2), (7, 1), (999, 1), (2_000, 1)]);
        let huge = of(&[u64::MAX]);
        assert!(huge.max_ns() >= LONGEST_NS && huge.max_ns() < LONGEST_NS + LONGEST_NS / 500);
    }

    proptest! {
        #[test]
        fn it_travels_unchanged_and_merging_is_adding(
            one in prop::collection::vec(1_u64..200_000_000_000, 0..50),
            other in prop::collection::vec(1_u64..200_000_000_000, 0..50),
        ) {
            let (a, b) = (of(&one), of(&other));
            let text = serde_json::to_string(&a).unwrap();
            let back: Histogram = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back.counts(), a.counts());
            let mut ab = a.clone();
            ab.merge(&b);
            let mut ba = b.clone();
            ba.merge(&back);
            prop_assert_eq!(ab.counts(), ba.counts());
            let both: Vec<u64> = one.iter().chain(&other).copied().collect();
            prop_assert_eq!(ab.counts(), of(&both).counts());
        }

        #[test]
        fn quantiles_are_monotone(values in prop::collection::vec(1_u64..1_000_000_000, 1..50)) {
            let histogram = of(&values);
            let quantiles: Vec<u64> = [0.0, 0.5, 0.9, 0.99, 1.0].iter().map(|&q| histogram.quantile_ns(q)).collect();
            prop_assert!(quantiles.is_sorted(), "{:?}", quantiles);
        }
    }
}
