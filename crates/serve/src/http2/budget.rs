//! Limits the useless work that a client can request: floods of frames that cost the server work and the client nothing
//! (CVE-2019-9512 to 9518, CVE-2023-44487).

/// The number of events that a client may cause at once.
const MOST: u32 = 1000;

/// The number of events that are credited each second.
const EACH_SECOND: u64 = 50;

/// The number of content bytes that earn the client one event.
const WORTH_BYTES: usize = 512;

/// The maximum balance that content can earn. The client may open the windows for all content in transit at once.
const MOST_EARNED: u32 = 64 << 10;

/// An account from which each event takes one, and which time refills.
#[derive(Debug)]
pub(super) struct Budget {
    left: u32,
    filled_ms: u32,
}

impl Budget {
    pub(super) fn new(now_ms: u32) -> Self {
        Self { left: MOST, filled_ms: now_ms }
    }

    /// Takes one event from the account; returns false if the account is empty.
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

    /// Credits a response without content, or a DATA frame, which the client may answer with updates of two windows,
    /// and its content: some clients open both windows again for each 4 KiB that they read. A frame that a window made
    /// shorter than its stream's content earns only the credit of its content. Otherwise windows of one byte would cost
    /// nothing.
    #[inline]
    pub(super) fn give_for(&mut self, content_bytes: usize, is_cut: bool) {
        let of_content = u32::try_from(content_bytes / WORTH_BYTES).unwrap_or(MOST_EARNED);
        let of_frame = if is_cut { 0 } else { 2 };
        self.left = self.left.saturating_add(of_content + of_frame).min(MOST_EARNED);
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
        for (bytes, is_cut, expected) in
            [(1, false, 2), (0, true, 0), (511, true, 0), (1024, true, 2), (1024, false, 4)]
        {
            budget.give_for(bytes, is_cut);
            let got = (0..9).take_while(|_| budget.take(27 + 20 * 4999)).count();
            assert_eq!(got, expected, "{bytes} {is_cut}");
        }
    }

    #[test]
    fn an_account_does_not_grow_without_end() {
        let mut budget = Budget::new(0);
        assert!((0..MOST).all(|_| budget.take(0)));
        let most = (0..=2 * MOST).take_while(|_| budget.take(u32::MAX)).count();
        assert_eq!(most, MOST as usize);
        budget.give_for(usize::MAX, false);
        let most = (0..=2 * MOST_EARNED).take_while(|_| budget.take(u32::MAX)).count();
        assert_eq!(most, MOST_EARNED as usize);
    }
}
