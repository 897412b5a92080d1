//! The times of events, as far as a wait can tell.
//!
//! The events of a batch are ready when the wait returns, and are handled one after another. So the last one is handled
//! late, and this delay is the generator's, not the server's. If a wait returns without sleeping, its events may be
//! even older: they may have become ready at any time since the previous wait returned.

use super::Arrival;

/// A wait that takes longer than this has slept, so nothing was ready when it began.
const SLEEP_NS: u64 = 20_000;

/// The times of the last wait.
#[derive(Debug)]
pub(super) struct Readiness {
    /// The time at which the last wait returned: all events of its batch were ready.
    returned_ns: u64,
    /// The time before that in which they may have become ready unnoticed.
    unnoticed_ns: u64,
}

impl Readiness {
    pub(super) fn new(now_ns: u64) -> Self {
        Self { returned_ns: now_ns, unnoticed_ns: 0 }
    }

    /// Notes a wait that began at `called_ns` and ended at `returned_ns`.
    pub(super) fn waited(&mut self, called_ns: u64, returned_ns: u64) {
        let has_slept = returned_ns.saturating_sub(called_ns) > SLEEP_NS;
        self.unnoticed_ns = if has_slept { 0 } else { called_ns.saturating_sub(self.returned_ns) };
        self.returned_ns = returned_ns;
    }

    /// Returns the arrival of bytes that were read at `now_ns`: the time at which their readiness was reported. If
    /// their request was sent after that, at `asked_ns`, they arrived when they were read.
    #[inline]
    pub(super) fn arrival(&self, asked_ns: u64, now_ns: u64) -> Arrival {
        if asked_ns > self.returned_ns {
            return Arrival { arrived_ns: now_ns, lag_ns: 0 };
        }
        let lag_ns = now_ns - self.returned_ns + self.unnoticed_ns.min(self.returned_ns - asked_ns);
        Arrival { arrived_ns: self.returned_ns, lag_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_counts_from_the_earliest_time_at_which_a_response_may_have_been_ready() {
        let arrival = |readiness: &Readiness, asked_ns, now_ns| {
            let Arrival { arrived_ns, lag_ns } = readiness.arrival(asked_ns, now_ns);
            (arrived_ns, lag_ns)
        };
        let mut readiness = Readiness::new(0);
        // A wait that slept, and a batch that took 300 µs.
        readiness.waited(1_000, 1_000_000);
        assert_eq!(arrival(&readiness, 500, 1_000_000), (1_000_000, 0));
        assert_eq!(arrival(&readiness, 500, 1_300_000), (1_000_000, 300_000));
        // A request that was sent during the batch, and answered at once.
        assert_eq!(arrival(&readiness, 1_100_000, 1_300_000), (1_300_000, 0));
        // The next wait did not sleep: its events may have happened during the batch.
        readiness.waited(1_300_000, 1_301_000);
        assert_eq!(arrival(&readiness, 500, 1_305_000), (1_301_000, 304_000));
        // The lag cannot begin before the request was sent.
        assert_eq!(arrival(&readiness, 1_300_900, 1_305_000), (1_301_000, 4_100));
    }
}
