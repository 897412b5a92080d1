//! The number of steps between two readings of the canary, and in a window.
//!
//! Both disturb the call that follows. At fixed distances they would do so at the same n in every pass, and the
//! instrument would look like a period of the kernel. So the distances are drawn for each pass, from its seed.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::ops::RangeInclusive;

/// Steps from one reading of the canary to the next: 32 on average.
const CANARY: RangeInclusive<u32> = 16..=48;
/// The maximum number of steps of a window: as many may be missing from the record of a machine that stopped.
pub const WINDOW_MAX: u32 = 640;
/// Steps of a window: 512 on average.
const WINDOW: RangeInclusive<u32> = 384..=WINDOW_MAX;
/// The first reading of the canary comes after at most this number of steps, so that a short pass has one.
const FIRST: u32 = 4;

/// The distances of one pass.
#[derive(Debug)]
pub(crate) struct Strides {
    random: ChaCha8Rng,
    canary_left: u32,
}

impl Strides {
    /// The minimum number of steps of a window that is closed because of their number.
    pub(crate) const WINDOW_MIN: u32 = *WINDOW.start();

    pub(crate) fn new(seed: u64) -> Self {
        // A different stream from the one that the benchmark draws from.
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(1);
        let canary_left = random.random_range(1..=FIRST);
        Self { random, canary_left }
    }

    /// Draws the number of steps of the next window. If the last window had no reading of the canary, the first step of
    /// the next one has.
    pub(crate) fn window(&mut self, had_canary: bool) -> u32 {
        if !had_canary {
            self.canary_left = 1;
        }
        self.random.random_range(WINDOW)
    }

    /// Counts a step, and returns whether the canary is due.
    #[inline]
    pub(crate) fn is_canary_due(&mut self) -> bool {
        self.canary_left -= 1;
        let is_due = self.canary_left == 0;
        if is_due {
            self.canary_left = self.random.random_range(CANARY);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canaries(seed: u64) -> Vec<u32> {
        let mut strides = Strides::new(seed);
        (1..=20_000).filter(|_| strides.is_canary_due()).collect()
    }

    /// Guards against readings at the same n in every pass: a distance or an n that passes share is a false period.
    #[test]
    fn passes_share_no_positions_and_equal_seeds_share_all() {
        let (a, b, c) = (canaries(1), canaries(2), canaries(3));
        assert_eq!(a, canaries(1));
        assert!((550..700).contains(&a.len()), "{}", a.len());
        let shared = a.iter().filter(|n| b.contains(n) && c.contains(n)).count();
        assert!(shared * 100 < a.len(), "{shared} of {}", a.len());
        let windows = |seed| {
            let mut strides = Strides::new(seed);
            (0..100).map(|_| strides.window(true)).collect::<Vec<u32>>()
        };
        assert!(windows(1) != windows(2) && windows(1).iter().all(|count| *count >= Strides::WINDOW_MIN));
    }

    /// Guards against slow steps without a canary: a window holds only a few of them.
    #[test]
    fn a_window_without_a_canary_is_followed_by_one() {
        let mut strides = Strides::new(1);
        while !strides.is_canary_due() {}
        strides.window(false);
        assert!(strides.is_canary_due());
    }
}
