//! Requests that are due and wait for a connection.
//!
//! The backlog does not store the due time of each request. It stores the state of the schedule at the first one, from
//! which the due times are recomputed. So a server that falls far behind costs the generator no memory, and the backlog
//! is unbounded.

use crate::schedule::Schedule;

/// Waiting requests: a contiguous part of the schedule, in order.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// The schedule at the first waiting request.
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

    /// Adds the next request of the schedule, which must directly follow the ones already waiting.
    pub(crate) fn push(&mut self, schedule: &Schedule) {
        if self.len == 0 {
            self.schedule = Some(schedule.clone());
        }
        self.len += 1;
    }

    /// Removes the first request and returns its due time, in nanoseconds after the start.
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
    use crate::plan::Arrivals;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// At each step some connections become free, and then a request falls due.
        #[test]
        fn yields_the_times_that_a_queue_would(steps in prop::collection::vec(0_u32..3, 0..200), seed: u64) {
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
