//! The layout of the memory that a worker shares with its controller: a lane of samples for each phase, then one for
//! the canary, one for the windows and one for the tags of calls. A profiled pass has one more lane for each phase,
//! with the times at which its calls began. The worker writes a window as a row of numbers and the controller reads it
//! back; both directions are implemented here.

use crate::strides::Strides;
use landau_record::schema::Direction;
use landau_sys::shared::Lanes;

/// A window is closed after this time, or after the number of steps that [`Strides`] drew.
pub(crate) const WINDOW_NS: u64 = 10_000_000;

/// Numbers in the row of a window.
const ROW: usize = 14;

/// Returns the capacity of each lane of a case. It depends on whether the benchmark tags its calls, and on whether the
/// pass is profiled.
pub(crate) fn capacities(phase_count: usize, n: u64, tags_calls: bool, is_profiled: bool) -> Vec<usize> {
    let n = n as usize;
    // Windows of creation and destruction, closed by count or by time. If creation and destruction together last
    // longer than 400 s, the pass loses tags of windows, not samples.
    let windows = (2 * n + 2).min(2 * n / Strides::WINDOW_MIN as usize + 40_002);
    let mut capacities = vec![n; phase_count];
    // Where every step closes a window, the canary is timed at each.
    capacities.extend([2 * n + 2, windows * ROW, if tags_calls { n } else { 0 }]);
    if is_profiled {
        capacities.resize(capacities.len() + phase_count, n);
    }
    capacities
}

/// Returns the lane of the canary.
pub(crate) fn canary_lane(phase_count: usize) -> usize {
    phase_count
}

/// Returns the lane of the times at which the calls of a phase began.
pub(crate) fn start_lane(phase_count: usize, phase: usize) -> usize {
    phase_count + 3 + phase
}

/// The tags of the call of a step of the creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallTags {
    /// RCU softirqs that began on the processor during the call; none if they cannot be counted.
    pub rcu_softirqs: Option<u32>,
    /// The cost of the canary next to the call.
    pub canary: u32,
}

impl CallTags {
    fn lane(phase_count: usize) -> usize {
        phase_count + 2
    }

    /// Appends the tags to their lane.
    #[inline]
    pub(crate) fn push(self, lanes: &Lanes, phase_count: usize) {
        let softirqs = self.rcu_softirqs.map_or(0, |count| u64::from(count.min(u32::MAX - 1)) + 1);
        lanes.push(Self::lane(phase_count), softirqs << 32 | u64::from(self.canary));
    }

    /// Returns the tags of up to `most` calls, starting with the call at index `from`.
    pub(crate) fn read(lanes: &Lanes, phase_count: usize, from: usize, most: usize) -> Vec<Self> {
        let words = lanes.read(Self::lane(phase_count), from, from.saturating_add(most));
        let of = |word: u64| Self { rcu_softirqs: ((word >> 32) as u32).checked_sub(1), canary: word as u32 };
        words.into_iter().map(of).collect()
    }
}

/// The interference in a window, as written to the windows' lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowRow {
    pub(crate) direction: Direction,
    /// n at the first step.
    pub(crate) first: u32,
    /// Steps in the window.
    pub(crate) count: u32,
    /// Microseconds from the pass's first step to the window's end.
    pub(crate) until_us: u64,
    /// Involuntary context switches.
    pub(crate) preempted: u64,
    /// Page faults served without and with a device.
    pub(crate) faults: [u64; 2],
    /// The processor at the window's end, if the system reports it.
    pub(crate) processor: Option<u32>,
    /// Time stolen by the hypervisor, in hundredths of a second.
    pub(crate) steal_centiseconds: u64,
    /// The number of windows over which it was stolen, up to and including this one.
    pub(crate) steal_windows: u32,
    /// Involuntary context switches of the other measured processes, and their page faults.
    pub(crate) others: Option<(u64, [u64; 2])>,
    /// Samples of the canary from the beginning of the pass to the window's end.
    pub(crate) canary_end: usize,
}

impl WindowRow {
    /// Appends the row to the windows' lane. A row that does not fit is left out, so that the lane stays
    /// readable.
    pub(crate) fn push(&self, lanes: &Lanes, phase_count: usize) {
        let lane = phase_count + 1;
        if lanes.len(lane) + ROW > lanes.capacity(lane) {
            return;
        }
        let row: [u64; ROW] = [
            u64::from(self.direction == Direction::Down),
            u64::from(self.first),
            u64::from(self.count),
            self.until_us,
            self.preempted,
            self.faults[0],
            self.faults[1],
            self.processor.map_or(0, |processor| u64::from(processor) + 1),
            self.steal_centiseconds,
            self.canary_end as u64,
            u64::from(self.steal_windows),
            self.others.map_or(0, |others| others.0 + 1),
            self.others.map_or(0, |others| others.1[0]),
            self.others.map_or(0, |others| others.1[1]),
        ];
        for number in row {
            lanes.push(lane, number);
        }
    }

    /// Returns the rows from the one with index `from` on.
    pub(crate) fn read(lanes: &Lanes, phase_count: usize, from: usize) -> Vec<Self> {
        let lane = phase_count + 1;
        let end = lanes.len(lane) / ROW * ROW;
        lanes.read(lane, from * ROW, end).chunks_exact(ROW).map(Self::of).collect()
    }

    fn of(row: &[u64]) -> Self {
        Self {
            direction: if row[0] == 1 { Direction::Down } else { Direction::Up },
            first: row[1] as u32,
            count: row[2] as u32,
            until_us: row[3],
            preempted: row[4],
            faults: [row[5], row[6]],
            processor: row[7].checked_sub(1).map(|processor| processor as u32),
            steal_centiseconds: row[8],
            canary_end: row[9] as usize,
            steal_windows: row[10] as u32,
            others: row[11].checked_sub(1).map(|preempted| (preempted, [row[12], row[13]])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_read_as_it_was_written() {
        let (lanes, _fd) = Lanes::create(&capacities(2, 4, false, false)).unwrap();
        let row = WindowRow {
            direction: Direction::Down,
            first: 4,
            count: 3,
            until_us: 9,
            preempted: 1,
            faults: [2, 5],
            processor: Some(0),
            steal_centiseconds: 6,
            steal_windows: 7,
            others: Some((0, [8, 9])),
            canary_end: 1,
        };
        let unknown = WindowRow { direction: Direction::Up, processor: None, others: None, ..row };
        row.push(&lanes, 2);
        unknown.push(&lanes, 2);
        assert_eq!(WindowRow::read(&lanes, 2, 0), [row, unknown]);
        assert_eq!(WindowRow::read(&lanes, 2, 1), [unknown]);
    }

    #[test]
    fn tags_of_calls_are_read_as_they_were_written() {
        let tags = [(None, 170), (Some(0), 0), (Some(u32::MAX), u32::MAX)]
            .map(|(rcu_softirqs, canary)| CallTags { rcu_softirqs, canary });
        let (lanes, _fd) = Lanes::create(&capacities(2, 4, true, false)).unwrap();
        for tags in tags {
            tags.push(&lanes, 2);
        }
        assert_eq!(CallTags::read(&lanes, 2, 0, 2), tags[..2]);
        let last = CallTags { rcu_softirqs: Some(u32::MAX - 1), ..tags[2] };
        assert_eq!(CallTags::read(&lanes, 2, 2, usize::MAX), [last]);
        // Benchmarks that do not tag their calls have no room for tags.
        let (lanes, _fd) = Lanes::create(&capacities(2, 4, false, false)).unwrap();
        tags[0].push(&lanes, 2);
        assert!(CallTags::read(&lanes, 2, 0, 2).is_empty());
    }

    #[test]
    fn a_full_lane_keeps_whole_rows_only() {
        let (lanes, _fd) = Lanes::create(&[1, 1, ROW + 1]).unwrap();
        let row = WindowRow {
            direction: Direction::Up,
            first: 1,
            count: 1,
            until_us: 0,
            preempted: 0,
            faults: [0, 0],
            processor: None,
            steal_centiseconds: 0,
            steal_windows: 0,
            others: None,
            canary_end: 0,
        };
        row.push(&lanes, 1);
        row.push(&lanes, 1);
        assert_eq!(WindowRow::read(&lanes, 1, 0).len(), 1);
    }
}
