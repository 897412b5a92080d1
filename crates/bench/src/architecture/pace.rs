//! The time of a reply, from the times at which batches of replies have ended.
//!
//! A server that keeps its connections may do the work of several requests before it sends their replies, as a
//! completion ring does. The client receives the first of them alone and the others in one batch. The first would have
//! the time of all, and the others none. So a batch is averaged with those before it, over one reply of each
//! connection.

use std::collections::VecDeque;

/// The ends of the last batches.
#[derive(Debug)]
pub(super) struct Pace {
    /// The replies so far and the time, at the beginning and at the end of each batch. Never empty.
    ends: VecDeque<(u64, u64)>,
}

impl Pace {
    /// Begins at a time, with the number of replies so far.
    pub(super) fn begin(replies: u64, now_ns: u64) -> Self {
        Self { ends: VecDeque::from([(replies, now_ns)]) }
    }

    /// Returns the end of the last batch, or the beginning.
    #[cfg(test)]
    pub(super) fn ended_ns(&self) -> u64 {
        self.ends.back().map_or(0, |&(_, ns)| ns)
    }

    /// Excludes a pause, and the replies that arrived in it, from the times. The batches before it still count.
    pub(super) fn pause(&mut self, replies: u64, now_ns: u64) {
        let Some(&(last, last_ns)) = self.ends.back() else { return };
        for (count, ns) in &mut self.ends {
            *count += replies - last;
            *ns += now_ns - last_ns;
        }
    }

    /// Ends a batch, with more replies than before. Returns the mean time of a reply in nanoseconds: over the last
    /// batches that have at least `span` replies, fewer at the beginning; with a span of 0, over this batch.
    pub(super) fn end_batch(&mut self, replies: u64, now_ns: u64, span: u64) -> u64 {
        let is_behind = |end: Option<&(u64, u64)>| end.is_some_and(|&(count, _)| count + span <= replies);
        while is_behind(self.ends.get(1)) {
            self.ends.pop_front();
        }
        let &(from, from_ns) = self.ends.front().unwrap_or(&(replies, now_ns));
        self.ends.push_back((replies, now_ns));
        (now_ns - from_ns) / (replies - from).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the times of replies of a server that answers 64 requests at once, after a millisecond of work for each.
    /// The client receives the first two alone. One such burst is over at the start.
    fn times_of_bursts(span: u64) -> Vec<u64> {
        let mut pace = Pace::begin(0, 0);
        pace.end_batch(2, 64 * MS, span);
        pace.end_batch(64, 64 * MS + 300_000, span);
        let mut times = Vec::new();
        for burst in 2..=6 {
            let now_ns = burst * 64 * MS;
            times.push(pace.end_batch(burst * 64 - 62, now_ns, span));
            times.push(pace.end_batch(burst * 64, now_ns + 300_000, span));
        }
        times
    }

    #[test]
    fn a_burst_costs_what_the_work_before_it_costs() {
        let is_work = |ns: &u64| (990_000..1_010_000).contains(ns);
        let times = times_of_bursts(64);
        assert!(times.iter().all(is_work), "{times:?}");
        // If each batch counts alone, no reply has the time of the work.
        assert!(!times_of_bursts(0).iter().any(is_work));
    }

    /// A server answers one request in a millisecond. After 40 of them, the client receives the outstanding replies,
    /// inspects the server for a while, and continues.
    #[test]
    fn a_pause_changes_no_time() {
        let mut pace = Pace::begin(0, 0);
        for reply in 1..=40 {
            assert_eq!(pace.end_batch(reply, reply * MS, 32), MS);
        }
        pace.pause(72, 90 * MS);
        for reply in 1..=70 {
            assert_eq!(pace.end_batch(72 + reply, (90 + reply) * MS, 33), MS);
        }
        pace.pause(200, 1_000 * MS);
        assert_eq!(pace.end_batch(201, 1_003 * MS, 0), 3 * MS);
    }

    #[test]
    fn without_a_span_a_batch_has_its_own_time() {
        let mut pace = Pace::begin(10, 1_000);
        assert_eq!(pace.end_batch(12, 1_600, 0), 300);
        assert_eq!(pace.end_batch(13, 1_700, 0), 100);
        assert_eq!(pace.ends, [(12, 1_600), (13, 1_700)]);
    }
}
