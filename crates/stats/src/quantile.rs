//! Quantiles, the exact interval of a median, and mergeable histograms.

use crate::Estimate;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

/// Returns the median by partial sorting, in linear time; the mean of the two middle values if there are two. `None` if
/// empty.
pub(crate) fn median_of(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if is_even {
        let lower = below.iter().copied().fold(f64::MIN, f64::max);
        return Some(f64::midpoint(lower, upper));
    }
    Some(upper)
}

/// Returns the median of values in any order; `None` if there are none.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    median_of(&mut values.collect::<Vec<_>>())
}

/// Returns the standard deviation of normal values, from their absolute distances from the median of `count` values,
/// which are too short by a factor of about k/(k − 0.8). 0 if there are no distances.
pub(crate) fn deviation_within(count: usize, distances: &mut [f64]) -> f64 {
    /// The standard deviation over the median distance.
    const NORMAL: f64 = 1.4826;
    let count = count as f64;
    NORMAL * count / (count - 0.8) * median_of(distances).unwrap_or(0.0)
}

/// Returns the median of integer costs, like `median_of`.
pub(crate) fn median_of_costs(values: &mut [u64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable(middle);
    let upper = *upper;
    if is_even {
        let lower = below.iter().copied().max().unwrap_or(upper);
        return Some(f64::midpoint(lower as f64, upper as f64));
    }
    Some(upper as f64)
}

/// Returns the median of a small block of costs, by Batcher's sorting network. The sequence of comparisons does not
/// depend on the costs, so this takes a third of the time of a sort, most of whose branches are mispredicted. `N` is a
/// power of two.
pub(crate) fn median_of_block<const N: usize>(mut costs: [u64; N]) -> f64 {
    let mut merged = 1;
    while merged < N {
        let mut apart = merged;
        while apart > 0 {
            let mut from = apart % merged;
            while from + apart < N {
                for i in from..(from + apart).min(N - apart) {
                    if i / (2 * merged) == (i + apart) / (2 * merged) {
                        (costs[i], costs[i + apart]) = (costs[i].min(costs[i + apart]), costs[i].max(costs[i + apart]));
                    }
                }
                from += 2 * apart;
            }
            apart /= 2;
        }
        merged *= 2;
    }
    f64::midpoint(costs[(N - 1) / 2] as f64, costs[N / 2] as f64)
}

/// Returns the 90th percentile of costs, a value that occurred, and the cheaper costs in any order. `None` if empty.
pub(crate) fn upper_tenth(costs: &mut [u64]) -> Option<(u64, &mut [u64])> {
    let place = (0.9 * costs.len().checked_sub(1)? as f64) as usize;
    let (below, upper, _) = costs.select_nth_unstable(place);
    Some((*upper, below))
}

/// Returns the median, or the lower of the two middle values: a value that occurred.
pub(crate) fn lower_median<T: Copy + PartialOrd>(values: &mut [T]) -> Option<T> {
    let middle = values.len().checked_sub(1)? / 2;
    let order = |a: &T, b: &T| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
    Some(*values.select_nth_unstable_by(middle, order).1)
}

/// Returns the median of durations read by a clock with steps of `quantum` nanoseconds. It is the median for grouped
/// data, which interpolates within the middle step.
///
/// A clock with steps of 10 ns reads 20 or 30 for a call of 25, and a plain median jumps from one to the other. If
/// readings do not repeat, the result is the plain median.
pub(crate) fn grouped_median(values: &mut [u64], quantum: f64) -> Option<f64> {
    let plain = median_of_costs(values)?;
    if quantum <= 1.0 {
        return Some(plain);
    }
    // A clock of ten nanoseconds whose scale was rounded reads 19, 20 and 21: one step.
    let holds = |value: &&u64| (**value as f64 - plain).abs() <= quantum / 2.0;
    let equal = values.iter().filter(holds).count();
    if equal * 4 < values.len() {
        return Some(plain);
    }
    let below = values.iter().filter(|value| (**value as f64) < plain - quantum / 2.0).count();
    let place = (values.len() as f64 / 2.0 - below as f64) / equal as f64;
    Some(plain + quantum * (place.clamp(0.0, 1.0) - 0.5))
}

/// Returns the median of [`grouped_median`], and the variance of its logarithm if the costs are independent. For any
/// distribution, the order statistics at √k / 2 ranks below and above the middle of k costs are one standard error from
/// the median.
pub(crate) fn median_with_variance(values: &mut [u64], quantum: f64) -> Option<(f64, f64)> {
    let median = grouped_median(values, quantum)?;
    let count = values.len();
    if count < 3 {
        return Some((median, 0.0));
    }
    let reach = (count as f64).sqrt() / 2.0;
    let middle = (count - 1) as f64 / 2.0;
    let (low, high) = ((middle - reach).round().max(0.0) as usize, (middle + reach).round() as usize);
    let high = high.min(count - 1);
    // Computing the median has partitioned the costs, and these two ranks are on either side of it.
    let (below, above) = values.split_at_mut(count / 2);
    let low_cost = (*below.select_nth_unstable(low).1).max(1) as f64;
    let high_cost = *above.select_nth_unstable(high - count / 2).1 as f64;
    // The distance of these ranks in standard errors.
    let errors = 2.0 * (high - low) as f64 / (count as f64).sqrt();
    Some((median, ((high_cost.max(1.0) / low_cost).ln() / errors).powi(2)))
}

/// Returns quantile `q` (0 to 1) of values in rising order, by linear interpolation between the two nearest values
/// (Hyndman and Fan's type 7). `None` if empty.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    let part = place - below as f64;
    // Written so that two equal values give exactly that value.
    Some(sorted[below] + part * (sorted[above] - sorted[below]))
}

/// Returns the median with its exact order-statistic interval and the coverage of that interval: the narrowest
/// symmetric pair that covers at least `level`, or the extremes if none does. This makes no assumption about the
/// distribution. `None` if empty.
///
/// With nine values and level 0.95 the interval is from the 2nd to the 8th value, which covers 96.1%.
pub fn median_interval(values: &[f64], level: f64) -> Option<(Estimate, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let value = quantile(&sorted, 0.5)?;
    let below = Binomial::new(0.5, count as u64).ok()?;
    // Leaving out the k lowest and the k highest values costs twice P(at most k of them are below the median).
    let mut coverages = (0..count / 2).map(|k| (k, 1.0 - 2.0 * below.cdf(k as u64)));
    let extremes = (0, (1.0 - 2.0 * below.cdf(0)).max(0.0));
    let best = coverages.rfind(|(_, coverage)| *coverage >= level).unwrap_or(extremes);
    let (k, coverage) = best;
    let interval = Estimate { value, low: sorted[k], high: sorted[count - 1 - k] };
    Some((interval, coverage))
}

/// Counts of costs in bins of equal width on a logarithmic axis, for drawing distributions. Histograms are merged by
/// adding counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Number of bins for each doubling of the cost.
    pub bins_per_doubling: u32,
    /// Count of each bin; bin `i` holds costs from `2^(i/b)` up to `2^((i+1)/b)` ns. Costs of 0 count as 1 ns.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Returns an empty histogram; with 8 bins per doubling, a bin is 9% wide.
    pub fn new(bins_per_doubling: u32) -> Self {
        Self { bins_per_doubling: bins_per_doubling.max(1), counts: Vec::new() }
    }

    /// Counts one cost, in nanoseconds.
    pub fn add(&mut self, ns: u64) {
        let place = (ns.max(1) as f64).log2() * f64::from(self.bins_per_doubling);
        let bin = place as usize;
        if self.counts.len() <= bin {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
    }

    /// Adds the counts of another histogram. Returns false, without a change, if its bins have another width.
    #[must_use]
    pub fn merge(&mut self, other: &Self) -> bool {
        if self.bins_per_doubling != other.bins_per_doubling {
            return false;
        }
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        true
    }

    /// Returns the lower edge of a bin in nanoseconds.
    pub fn edge(&self, bin: usize) -> f64 {
        (bin as f64 / f64::from(self.bins_per_doubling)).exp2()
    }

    /// Returns the number of costs that were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns quantile `q` in nanoseconds, to within a bin (its geometric middle). `None` if empty.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = (q.clamp(0.0, 1.0) * self.total() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bin, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some((self.edge(bin) * self.edge(bin + 1)).sqrt());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a network that does not sort some input.
    #[test]
    fn the_median_of_a_block_is_that_of_a_sort() {
        let mut random = crate::random::Random::new(7);
        for _ in 0..2000 {
            let block: [u64; 16] = std::array::from_fn(|_| random.below(9) as u64);
            assert_eq!(Some(median_of_block(block)), median_of_costs(&mut block.to_vec()), "{block:?}");
            let block: [u64; 8] = std::array::from_fn(|i| block[i]);
            assert_eq!(Some(median_of_block(block)), median_of_costs(&mut block.to_vec()), "{block:?}");
        }
    }

    /// Guards against an off-by-one in the order statistics: METHODOLOGY.md states the 2nd and 8th of nine at 96.1%.
    #[test]
    fn nine_values_have_the_second_and_eighth_as_interval() {
        let values: Vec<f64> = (1..=9).rev().map(f64::from).collect();
        let (interval, coverage) = median_interval(&values, 0.95).unwrap();
        assert_eq!((interval.value, interval.low, interval.high), (5.0, 2.0, 8.0));
        assert!((coverage - 0.961).abs() < 0.0005, "{coverage}");
    }

    /// Guards against claiming a coverage that few values cannot have: three cover at most 75%.
    #[test]
    fn few_values_have_a_low_coverage() {
        let (interval, coverage) = median_interval(&[3.0, 1.0, 2.0], 0.95).unwrap();
        assert_eq!((interval.low, interval.high), (1.0, 3.0));
        assert!((coverage - 0.75).abs() < 1e-12, "{coverage}");
    }

    /// Guards against a wrong pair of middle values.
    #[test]
    fn medians_of_even_counts_are_midpoints() {
        assert_eq!(median_of(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median_of_costs(&mut [4, 1, 3, 2]), Some(2.5));
        assert_eq!(median_of_costs(&mut [9, 1, 3]), Some(3.0));
    }

    /// Guards against using order statistics of one half only: the variance must be that of a full sort.
    #[test]
    fn the_variance_of_a_median_is_that_of_the_sorted_costs() {
        let mut random = crate::random::Random::new(3);
        for count in 3..200_usize {
            let costs: Vec<u64> = (0..count).map(|_| 100 + random.below(50) as u64).collect();
            let mut sorted = costs.clone();
            sorted.sort_unstable();
            let (middle, reach) = ((count - 1) as f64 / 2.0, (count as f64).sqrt() / 2.0);
            let (low, high) = ((middle - reach).round() as usize, (middle + reach).round() as usize);
            let errors = 2.0 * (high - low) as f64 / (count as f64).sqrt();
            let expected = ((sorted[high] as f64 / sorted[low] as f64).ln() / errors).powi(2);
            let (_, variance) = median_with_variance(&mut costs.clone(), 1.0).unwrap();
            assert!((variance - expected).abs() < 1e-15, "{count} costs: {variance} is not {expected}");
        }
    }

    /// Guards against reporting a flat curve as growing because its readings are 20 at one point and 30 at the next.
    #[test]
    fn a_grouped_median_interpolates_within_a_clock_step() {
        let mixed = |many: usize, few: usize| [vec![20_u64; many], vec![30; few]].concat();
        let at = |many, few| grouped_median(&mut mixed(many, few), 10.0).unwrap();
        assert!((at(100, 0) - 20.0).abs() < 1e-9);
        assert!(at(70, 30) > at(90, 10) && at(55, 45) > at(70, 30));
        assert!((at(51, 49) - at(49, 51)).abs() < 1.0, "no jump where the majority changes");
        let spread: Vec<u64> = (0..101).map(|i| 1_000 + 37 * i).collect();
        assert_eq!(grouped_median(&mut spread.clone(), 10.0), median_of_costs(&mut spread.clone()));
        assert_eq!(median_of(&mut []), None);
    }
}
