//! The pace at which connections are started (`--connect-rate`).

/// The longest delay that is made up for. A wait may end slightly more than a millisecond late; connections that fell
/// due in the meantime are started together, to keep the rate. After a longer pause the others are dropped.
const CATCH_UP_NS: u64 = 2_000_000;

/// The schedule of new connections.
#[derive(Debug)]
pub(crate) struct Pace {
    gap_ns: u64,
    next_ns: u64,
}

impl Pace {
    /// Returns a pace with this time between the starts of two connections; 0 for no limit.
    pub(crate) fn new(gap_ns: u64) -> Self {
        Self { gap_ns, next_ns: 0 }
    }

    /// Returns when the next connection may be started.
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Returns whether a connection may be started now.
    #[inline]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Notes that a connection is started now.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        let due_ns = self.next_ns.max(now_ns.saturating_sub(CATCH_UP_NS));
        self.next_ns = due_ns.saturating_add(self.gap_ns);
    }

    /// Permits no connection before `until_ns`.
    pub(crate) fn delay(&mut self, until_ns: u64) {
        self.next_ns = self.next_ns.max(until_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts as many connections as are permitted at a time, and returns their number.
    fn start(pace: &mut Pace, now_ns: u64) -> u32 {
        let mut count = 0;
        while count < 100 && pace.is_due(now_ns) {
            pace.advance(now_ns);
            count += 1;
        }
        count
    }

    #[test]
    fn late_waits_are_made_up_for_and_pauses_are_not() {
        let mut pace = Pace::new(500_000);
        pace.delay(1_000_000_000);
        assert_eq!((start(&mut pace, 999_999_999), start(&mut pace, 1_000_000_000)), (0, 1));
        assert_eq!(start(&mut pace, 1_001_500_000), 3);
        // A pause of a second is not made up for.
        assert_eq!(start(&mut pace, 2_000_000_000), 5);
        assert_eq!(start(&mut Pace::new(0), 5), 100);
    }
}
