//! The times in which another task had the worker's processor although the worker could have run.
//!
//! During these times no sample of the worker is taken, but its clock continues. So they are subtracted from the calls,
//! in passes with and without samples. If a worker waits for something, on the other hand, the wait is part of its
//! call.

use crate::sampler::{Switch, SwitchKind};

/// The absences of a worker, in order.
#[derive(Debug, Default)]
pub(crate) struct Absences {
    /// The start and the end of each, in nanoseconds of `CLOCK_MONOTONIC`.
    spans: Vec<(u64, u64)>,
}

impl Absences {
    /// Returns the absences between context switches, which are in order.
    pub(crate) fn of(switches: &[Switch]) -> Self {
        let mut spans = Vec::new();
        let mut began = None;
        for switch in switches {
            match switch.kind {
                SwitchKind::Preempted => began = Some(switch.time_ns),
                SwitchKind::Asleep => began = None,
                SwitchKind::In => spans.extend(began.take().map(|began| (began, switch.time_ns))),
            }
        }
        Self { spans }
    }

    /// Returns the number of nanoseconds for which the worker was absent between two times.
    pub(crate) fn within(&self, from: u64, to: u64) -> u64 {
        let first = self.spans.partition_point(|span| span.1 <= from);
        let inside = self.spans[first..].iter().take_while(|span| span.0 < to);
        inside.map(|span| span.1.min(to) - span.0.max(from)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_between_a_preemption_and_its_end_is_an_absence() {
        let switch = |time_ns, kind| Switch { time_ns, kind };
        let absences = Absences::of(&[
            switch(5, SwitchKind::In),
            switch(10, SwitchKind::Preempted),
            switch(14, SwitchKind::In),
            switch(20, SwitchKind::Asleep),
            switch(90, SwitchKind::In),
            switch(100, SwitchKind::Preempted),
            switch(130, SwitchKind::In),
            switch(140, SwitchKind::Preempted),
        ]);
        assert_eq!(absences.within(0, 1_000), 34);
        // An absence is clipped to the start and the end of a call.
        assert_eq!((absences.within(11, 13), absences.within(110, 1_000)), (2, 20));
        assert_eq!((absences.within(14, 100), absences.within(130, 135)), (0, 0));
    }
}
