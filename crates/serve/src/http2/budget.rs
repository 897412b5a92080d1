//! How much a client may ask for that is of no use: floods of frames that cost the server work and the client nothing
//! (CVE-2019-9512 to 9518, CVE-2023-44487).

/// What a client may do at once.
const MOST: u32 = 1000;

/// What it gets back each second.
const EACH_SECOND: u64 = 50;

/// An account that each event takes one from, and that time fills again.
#[derive(Debug)]
pub(super) struct Budget {
    left: u32,
    filled_ms: u32,
}

impl Budget {
    pub(super) fn new(now_ms: u32) -> Self {
        Self { left: MOST, filled_ms: now_ms }
    }

    /// Takes one; returns false if there is none.
    pub(super) fn take(&mut self, now_ms: u32) -> bool {
        if self.left == 0 {
            let passed_ms = now_ms.wrapping_sub(self.filled_ms);
            let earned = u64::from(passed_ms) * EACH_SECOND / 1000;
            if earned == 0 {
                return false;
            }
            self.left = earned.min(u64::from(MOST)) as u32;
            self.filled_ms = now_ms;
        }
        self.left -= 1;
        true
    }

    /// Gives some back, for work that the client has a right to.
    #[inline]
    pub(super) fn give(&mut self, count: u32) {
        self.left = (self.left + count).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_stopped_and_a_trickle_is_not() {
        let mut budget = Budget::new(7);
        assert!((0..MOST).all(|_| budget.take(7)));
        assert!(!budget.take(7) && !budget.take(26));
        assert!(budget.take(27), "one each 20 ms");
        assert!(!budget.take(27));
        assert!((1..5000).all(|count| budget.take(27 + 20 * count)));
        budget.give(3);
        assert!((0..3).all(|_| budget.take(27 + 20 * 5000)));
    }

    #[test]
    fn an_account_does_not_grow_without_end() {
        let mut budget = Budget::new(0);
        assert!((0..MOST).all(|_| budget.take(0)));
        let most = (0..=2 * MOST).take_while(|_| budget.take(u32::MAX)).count();
        assert_eq!(most, MOST as usize);
        budget.give(u32::MAX - MOST);
        let most = (0..=2 * MOST).take_while(|_| budget.take(u32::MAX)).count();
        assert_eq!(most, MOST as usize);
    }
}
