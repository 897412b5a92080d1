//! Writes a worker's samples and windows to the record while it measures.

use crate::Error;
use crate::TimedCall;
use crate::lanes::{CallTags, WindowRow, canary_lane, start_lane};
use landau_record::Journal;
use landau_record::schema::{self, Canary, Chunk, Direction, Line, Phase, Samples, Unit, Window};
use landau_sys::shared::Lanes;

/// The shared lanes of a pass, and how much of them is in the record.
pub(crate) struct SampleWriter<'a> {
    lanes: Lanes,
    phases: &'a [Phase],
    pass: u32,
    unit: Unit,
    /// The number of samples of each phase that have been written.
    written: Vec<usize>,
    windows_written: usize,
    canary_written: usize,
    tags_written: usize,
}

impl<'a> SampleWriter<'a> {
    pub(crate) fn new(lanes: Lanes, phases: &'a [Phase], pass: u32, unit: Unit) -> Self {
        let written = vec![0; phases.len()];
        Self { lanes, phases, pass, unit, written, windows_written: 0, canary_written: 0, tags_written: 0 }
    }

    /// Returns the number of samples that the worker has taken.
    pub(crate) fn sample_count(&self) -> u64 {
        (0..self.phases.len()).map(|phase| self.lanes.len(phase) as u64).sum()
    }

    /// Returns the number of steps of the creation that succeeded.
    pub(crate) fn created(&self) -> u64 {
        let phases = self.phases.iter().enumerate();
        phases
            .filter(|(_, phase)| phase.direction == Direction::Up)
            .map(|(lane, _)| self.lanes.len(lane) as u64)
            .min()
            .unwrap_or(0)
    }

    /// Returns the calls of a profiled pass, by phase.
    pub(crate) fn timed_calls(&self) -> Vec<Vec<TimedCall>> {
        let (top, count) = (self.created(), self.phases.len());
        let of_phase = |(lane, phase): (usize, &Phase)| {
            let costs = self.lanes.read(lane, 0, usize::MAX);
            let starts = self.lanes.read(start_lane(count, lane), 0, usize::MAX);
            let call = |(index, (&ns, &began)): (usize, (&u64, &u64))| TimedCall {
                n: match phase.direction {
                    Direction::Up => index as u64 + 1,
                    Direction::Down => top.saturating_sub(index as u64),
                },
                began_ns: (began > 0).then_some(began),
                ns,
            };
            costs.iter().zip(&starts).enumerate().map(call).collect()
        };
        self.phases.iter().enumerate().map(of_phase).collect()
    }

    /// Writes the windows that were closed since the last call, with their samples.
    pub(crate) fn write_windows(&mut self, writer: &mut dyn Journal) -> Result<(), Error> {
        for row in WindowRow::read(&self.lanes, self.phases.len(), self.windows_written) {
            self.windows_written += 1;
            self.write_samples(writer, row.direction, row.count as usize)?;
            let canary = self.lanes.read(canary_lane(self.phases.len()), self.canary_written, row.canary_end);
            self.canary_written = row.canary_end;
            writer.append(&Line::Window(Window {
                pass: self.pass,
                direction: row.direction,
                first: row.first,
                count: row.count,
                until_us: row.until_us,
                preempted: row.preempted as u32,
                faults: row.faults.map(|count| count as u32),
                processor: row.processor.map_or(-1, u32::cast_signed),
                steal_ms: row.steal_centiseconds as u32 * 10,
                steal_windows: (row.steal_centiseconds > 0).then_some(row.steal_windows),
                others_preempted: row.others.map(|others| others.0 as u32),
                others_faults: row.others.map(|others| others.1.map(|count| count as u32)),
                calls: self.call_tags(row.direction, row.count as usize),
                canary: Canary::new(self.unit, canary),
            }))?;
        }
        Ok(())
    }

    /// Returns the tags of the calls of the next window, if calls are tagged.
    fn call_tags(&mut self, direction: Direction, count: usize) -> Option<schema::CallTags> {
        if direction == Direction::Down {
            return None;
        }
        let tags = CallTags::read(&self.lanes, self.phases.len(), self.tags_written, count);
        self.tags_written += tags.len();
        (!tags.is_empty()).then(|| schema::CallTags {
            rcu_softirqs: tags.iter().map(|tags| tags.rcu_softirqs).collect(),
            canary: Canary::new(self.unit, tags.iter().map(|tags| u64::from(tags.canary)).collect()),
        })
    }

    /// Writes the samples after the last closed window: those of a refused step or of a worker that died.
    pub(crate) fn write_rest(&mut self, writer: &mut dyn Journal) -> Result<(), Error> {
        self.write_samples(writer, Direction::Up, usize::MAX)?;
        self.write_samples(writer, Direction::Down, usize::MAX)
    }

    /// Writes up to `most` further samples of each phase of a direction.
    fn write_samples(&mut self, writer: &mut dyn Journal, direction: Direction, most: usize) -> Result<(), Error> {
        let top = self.created();
        for (lane, phase) in self.phases.iter().enumerate() {
            if phase.direction != direction {
                continue;
            }
            let from = self.written[lane];
            let costs = self.lanes.read(lane, from, from.saturating_add(most));
            if costs.is_empty() {
                continue;
            }
            self.written[lane] += costs.len();
            let (first, stride) = match direction {
                Direction::Up => (from as u64 + 1, 1),
                Direction::Down => (top.saturating_sub(from as u64), -1),
            };
            let phase = phase.name.clone();
            let samples = Samples::new(self.unit, costs);
            writer.append(&Line::Chunk(Chunk { pass: self.pass, phase, first: first as u32, stride, samples }))?;
        }
        Ok(())
    }
}
