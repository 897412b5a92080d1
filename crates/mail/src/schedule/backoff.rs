//! Exponential backoff: the wait after a failure doubles each time, with jitter.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// The waits after failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The maximum wait.
    pub longest: Duration,
}

impl Backoff {
    /// Returns the wait after a number of failures without jitter, in nanoseconds.
    pub(crate) fn nominal_ns(&self, failures: u32) -> u64 {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let doublings = failures.saturating_sub(1).min(62);
        nanoseconds(self.first).saturating_mul(1 << doublings).min(nanoseconds(self.longest))
    }

    /// Returns the wait after a number of failures, in nanoseconds: a random time between half of the nominal wait and
    /// all of it, so that recipients that failed together are not retried together.
    pub(crate) fn delay_ns(&self, failures: u32, rng: &mut ChaCha8Rng) -> u64 {
        let nominal = self.nominal_ns(failures);
        nominal - (rng.random::<f64>() * (nominal / 2) as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn waits_double_up_to_the_longest_and_have_jitter() {
        let backoff = Backoff { first: Duration::from_micros(1), longest: Duration::from_micros(6) };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for (failures, nominal) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 6_000), (400, 6_000)] {
            let waits: Vec<u64> = (0..200).map(|_| backoff.delay_ns(failures, &mut rng)).collect();
            assert!(waits.iter().all(|wait| (nominal / 2..=nominal).contains(wait)), "{waits:?}");
            let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
            assert!(most - least > nominal / 4, "{waits:?}");
        }
    }
}
