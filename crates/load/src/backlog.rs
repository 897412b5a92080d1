//! Requests that have fallen due and wait for a connection.
//!
//! What is kept is not when each of them was due, but the schedule as it stood at the first one, which tells it again.
//! So a server that is far behind costs the generator no memory, and what waits is as long as it may be.

use crate::schedule::Schedule;

/// Requests that wait, in the order in which they were due and without a gap.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Stands at the first one that waits.
    schedule: Option<Schedule>,
    len: u64,
}

impl Backlog {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the request at which the schedule stands: the one that follows those that wait.
    pub(crate) fn push(&mut self, schedule: &Schedule) {
        if self.len == 0 {
            self.schedule = Some(schedule.clone());
        }
        self.len += 1;
    }

    /// Takes the first one out: when it was due, from the start.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u64> {
        let schedule = self.schedule.as_mut().filter(|_| self.len > 0)?;
        let due_ns = schedule.due_ns();
        schedule.advance();
        self.len -= 1;
        Some(due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Arrivals;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Each step is a request that falls due and finds that many connections free before it.
        #[test]
        fn it_tells_what_a_queue_would(steps in prop::collection::vec(0_u32..3, 0..200), seed: u64) {
            let mut schedule = Schedule::new(Arrivals::Poisson, 1000.0, seed, (0, 1));
            let (mut backlog, mut queue) = (Backlog::default(), VecDeque::new());
            for free in steps {
                for _ in 0..free {
                    prop_assert_eq!(backlog.pop(), queue.pop_front());
                }
                if free < 2 || !backlog.is_empty() {
                    backlog.push(&schedule);
                    queue.push_back(schedule.due_ns());
                }
                schedule.advance();
                prop_assert_eq!((backlog.len(), backlog.is_empty()), (queue.len() as u64, queue.is_empty()));
            }
        }
    }
}
