//! Shares of the slow calls that are explained by what was observed at the same time.
//!
//! A tag means that something was observed at the time of a call. A call that is slow for another reason has the tag by
//! coincidence, as often as a call that is not slow. So a tag explains slow calls only to the extent that they have it
//! more often than the others. If p of the slow calls and q of the others have it, it explains (p − q) / (1 − q) of the
//! slow calls. Of the remaining slow calls, those without the tag are a fair sample; the next tag is evaluated on them.
//!
//! Slow calls cluster, so the intervals come from a jackknife over blocks of consecutive calls.

use crate::Estimate;
use crate::growth::student;

/// Numbers of calls in a block, by the first tag of each call in the order of the tags. The last number counts the
/// calls without a tag. All blocks have equally many numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    /// The slow calls.
    pub slow: Vec<u64>,
    /// The other calls.
    pub others: Vec<u64>,
}

/// Returns the share of the slow calls that each tag explains, in the order of the tags, then the unexplained share,
/// with 95% intervals. Returns nothing without slow calls or without others. If fewer than two blocks have slow calls,
/// the intervals are unbounded.
pub fn attribute(blocks: &[Block]) -> Vec<Estimate> {
    let all = sum(blocks);
    let Some(shares) = shares(&all) else { return Vec::new() };
    // Leave out each block in turn.
    let without: Vec<Vec<f64>> = blocks.iter().filter_map(|block| self::shares(&difference(&all, block))).collect();
    let with_slow = blocks.iter().filter(|block| block.slow.iter().any(|count| *count > 0)).count();
    let error = |index: usize| {
        let count = without.len() as f64;
        let values = || without.iter().map(|shares| shares[index]);
        let mean = values().sum::<f64>() / count;
        ((count - 1.0) / count * values().map(|value| (value - mean).powi(2)).sum::<f64>()).sqrt()
    };
    let estimate = |(index, share): (usize, &f64)| {
        let value = share.clamp(0.0, 1.0);
        if with_slow < 2 || without.len() < 2 {
            return Estimate { value, low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        let half = student(0.975, with_slow as f64 - 1.0) * error(index);
        Estimate { value, low: (share - half).clamp(0.0, 1.0), high: (share + half).clamp(0.0, 1.0) }
    };
    shares.iter().enumerate().map(estimate).collect()
}

fn sum(blocks: &[Block]) -> Block {
    let mut all = Block::default();
    for block in blocks {
        for (sum, counts) in [(&mut all.slow, &block.slow), (&mut all.others, &block.others)] {
            sum.resize(counts.len(), 0);
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    all
}

fn difference(all: &Block, block: &Block) -> Block {
    let less = |all: &[u64], one: &[u64]| all.iter().zip(one).map(|(all, one)| all - one).collect();
    Block { slow: less(&all.slow, &block.slow), others: less(&all.others, &block.others) }
}

/// Returns the share that each tag explains, then the unexplained share; `None` without slow calls or without others. A
/// share is negative if the slow calls have the tag less often than the others.
fn shares(calls: &Block) -> Option<Vec<f64>> {
    let mut left = [&calls.slow, &calls.others].map(|counts| counts.iter().sum::<u64>() as f64);
    let tags = calls.slow.len().checked_sub(1).filter(|_| left.iter().all(|count| *count > 0.0))?;
    let (mut shares, mut rest) = (Vec::new(), 1.0);
    for tag in 0..tags {
        let [slow, others] = [(&calls.slow, left[0]), (&calls.others, left[1])]
            .map(|(counts, of)| if of > 0.0 { counts[tag] as f64 / of } else { 0.0 });
        let explained = if others < 1.0 { (slow - others) / (1.0 - others) } else { 0.0 };
        shares.push(rest * explained);
        rest *= 1.0 - explained;
        left = [left[0] - calls.slow[tag] as f64, left[1] - calls.others[tag] as f64];
    }
    shares.push(rest);
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Shares of the slow calls by cause: an RCU softirq, a slow processor, an unobserved cause.
    const TRUTH: [f64; 3] = [0.36, 0.4, 0.24];

    /// Simulates blocks of calls. Each cause slows down a tenth of its share in `truth` of all calls, such as 1 of 28
    /// for a share of 0.36; the processor is slow in spells. Every call may also have each tag by coincidence, at the
    /// rates in `coincidence`.
    fn blocks(seed: u64, truth: [f64; 3], coincidence: [f64; 2]) -> Vec<Block> {
        let mut random = Random::new(seed);
        let mut spell = 0;
        let mut block = || {
            let mut block = Block { slow: vec![0; 3], others: vec![0; 3] };
            for _ in 0..64 {
                // A spell lasts eight calls.
                if spell == 0 && random.uniform() < 0.1 * truth[1] / 8.0 {
                    spell = 8;
                }
                let is_spell = spell > 0;
                spell -= i32::from(is_spell);
                let is_softirq = random.uniform() < 0.1 * truth[0];
                let is_unseen = random.uniform() < 0.1 * truth[2];
                let tags = [is_softirq, is_spell];
                let tags = [0, 1].map(|tag| tags[tag] || random.uniform() < coincidence[tag]);
                let first = tags.iter().position(|has| *has).unwrap_or(2);
                let is_slow = is_softirq || is_spell || is_unseen;
                if is_slow { block.slow[first] += 1 } else { block.others[first] += 1 }
            }
            block
        };
        (0..60).map(|_| block()).collect()
    }

    /// Returns how many of 100 simulated records have an interval that contains the truth, and the mean of the
    /// estimates.
    fn held(truth: [f64; 3], coincidence: [f64; 2], share: usize) -> (usize, f64) {
        let estimates: Vec<Estimate> =
            (0..100).map(|seed| attribute(&blocks(seed, truth, coincidence))[share]).collect();
        let held = estimates.iter().filter(|one| one.holds(truth[share])).count();
        (held, estimates.iter().map(|one| one.value).sum::<f64>() / 100.0)
    }

    #[test]
    fn the_causes_of_simulated_slow_calls_are_found() {
        for coincidence in [[0.005, 0.1], [0.1, 0.3]] {
            for (share, truth) in TRUTH.iter().enumerate() {
                let (held, mean) = held(TRUTH, coincidence, share);
                assert!((mean - truth).abs() < 0.03, "{coincidence:?} {share}: {mean} instead of {truth}");
                assert!(held >= 88, "{coincidence:?} {share}: {held} of 100 intervals hold {truth}");
            }
        }
    }

    /// Guards against a tag that half of all calls have and that explains nothing.
    #[test]
    fn a_tag_by_coincidence_explains_nothing() {
        let truth = [0.0, 0.0, 1.0];
        for share in [0, 1] {
            let (held, mean) = held(truth, [0.5, 0.5], share);
            // Negative values are reported as zero.
            assert!(held >= 93 && mean < 0.04, "{share}: {held} of 100 intervals hold zero, mean {mean}");
        }
    }

    /// By hand: of 10 slow calls 6 have the first tag and 2 the second; of 100 others 20 and 40. (0.6 − 0.2) / 0.8 is
    /// 0.5; of the remaining 4, (0.5 − 0.5) / 0.5 is 0.
    #[test]
    fn shares_are_those_by_hand() {
        let calls = Block { slow: vec![6, 2, 2], others: vec![20, 40, 40] };
        let by_hand = shares(&calls).unwrap();
        assert!(by_hand.iter().zip([0.5, 0.0, 0.5]).all(|(a, b)| (a - b).abs() < 1e-12), "{by_hand:?}");
        assert_eq!(attribute(&[]), []);
        assert_eq!(attribute(&[Block { slow: vec![0, 0], others: vec![3, 4] }]), []);
        let one = attribute(std::slice::from_ref(&calls));
        assert!(one[0].low == f64::NEG_INFINITY && one[0].high == f64::INFINITY);
        // Equal blocks: no spread between them.
        let two = attribute(&[calls.clone(), calls]);
        assert!((two[0].value - 0.5).abs() < 1e-12 && two[0].high - two[0].low < 1e-9);
    }
}
