//! A case that is a timeline: it has a rate over time, and no law.
//!
//! The steps of a download follow one another in time, and no object accumulates. A law of n would only describe the
//! changing state of the machine. The relevant results are the rate, how much passes differ, and what an event along
//! the way changed.

use landau_record::Pass;
use landau_record::schema::{Annotation, AnnotationKind, Case, Phase};
use serde::Serialize;

/// The rates of a timeline.
#[derive(Debug, Clone, Serialize)]
pub struct TimelineStudy<'r> {
    /// The case's label.
    pub case: &'r str,
    /// The timed call.
    #[serde(skip)]
    pub phase: &'r Phase,
    /// The meaning of a step: "mebibytes downloaded".
    pub axis: &'r str,
    /// The number of bytes that a step moves.
    pub step_bytes: u64,
    /// The passes that did not fail, in the record's order.
    #[serde(skip)]
    pub passes: Vec<TimelinePass>,
    /// The parts of the timeline: up to the first event, from there to the next, and so on. There is one if there is no
    /// event.
    pub sections: Vec<Section<'r>>,
}

/// One pass of a timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelinePass {
    /// Its round.
    pub round: u32,
    /// The duration of each step, in nanoseconds.
    pub costs_ns: Vec<u64>,
}

/// A part of a timeline between two events.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Section<'r> {
    /// The event at which it begins: "second reader starts"; `None` for the first part.
    pub event: Option<&'r str>,
    /// Its first step, from 1.
    pub first: u32,
    /// Its last step.
    pub last: u32,
    /// Its rate.
    pub rate: Rate,
}

/// A rate in bytes per second: the bytes of a section over its time, in each pass.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// The median of the passes.
    pub median: f64,
    /// The slowest pass.
    pub min: f64,
    /// The fastest pass.
    pub max: f64,
}

impl<'r> TimelineStudy<'r> {
    /// Returns the study of a case, if it is a timeline with a pass that has samples. `passes` are those that did not
    /// fail.
    pub(crate) fn of(case: &'r Case, passes: &[&Pass]) -> Option<Self> {
        let step_bytes = case.timeline?.step_bytes;
        let phase = case.phases.first()?;
        let passes: Vec<TimelinePass> = passes
            .iter()
            .filter_map(|pass| {
                let costs_ns = pass.series.get(&phase.name)?.costs.clone();
                (!costs_ns.is_empty()).then_some(TimelinePass { round: pass.start.round, costs_ns })
            })
            .collect();
        let last = passes.iter().map(|pass| pass.costs_ns.len()).max()? as u32;
        let sections = sections(&case.annotations, last, &passes, step_bytes);
        Some(Self { case: &case.label, phase, axis: &case.axis, step_bytes, passes, sections })
    }

    /// Returns the rate of the whole timeline.
    pub fn rate(&self) -> Option<Rate> {
        Rate::of(&self.passes, 1, u32::MAX, self.step_bytes)
    }
}

impl TimelinePass {
    /// Returns the rate from step `first` to step `last` in bytes per second, or `None` if the pass has no such step.
    pub fn rate(&self, first: u32, last: u32, step_bytes: u64) -> Option<f64> {
        let end = (last as usize).min(self.costs_ns.len());
        let steps = self.costs_ns.get((first as usize).saturating_sub(1)..end).filter(|steps| !steps.is_empty())?;
        let elapsed_ns: u64 = steps.iter().sum();
        Some(steps.len() as f64 * step_bytes as f64 * 1e9 / elapsed_ns.max(1) as f64)
    }
}

impl Rate {
    fn of(passes: &[TimelinePass], first: u32, last: u32, step_bytes: u64) -> Option<Self> {
        let mut rates: Vec<f64> = passes.iter().filter_map(|pass| pass.rate(first, last, step_bytes)).collect();
        rates.sort_unstable_by(f64::total_cmp);
        let middle = (*rates.get(rates.len().saturating_sub(1) / 2)?, rates[rates.len() / 2]);
        Some(Self { median: f64::midpoint(middle.0, middle.1), min: rates[0], max: *rates.last()? })
    }
}

/// Divides the steps from 1 to `last` at the events.
fn sections<'r>(
    annotations: &'r [Annotation],
    last: u32,
    passes: &[TimelinePass],
    step_bytes: u64,
) -> Vec<Section<'r>> {
    let is_event = |one: &&Annotation| one.kind == AnnotationKind::Event && one.n > 1.0 && one.n <= f64::from(last);
    let mut starts: Vec<(u32, Option<&'r str>)> = vec![(1, None)];
    starts.extend(annotations.iter().filter(is_event).map(|one| (one.n as u32, Some(one.name.as_str()))));
    starts.sort_by_key(|&(first, _)| first);
    let ends = starts.iter().skip(1).map(|&(first, _)| first - 1).chain([last]);
    let section =
        |((first, event), last)| Some(Section { event, first, last, rate: Rate::of(passes, first, last, step_bytes)? });
    starts.iter().copied().zip(ends).filter_map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes() -> Vec<TimelinePass> {
        // A byte per nanosecond is a gigabyte per second.
        let pass = |round, costs_ns| TimelinePass { round, costs_ns };
        vec![pass(0, vec![1, 1, 4, 4]), pass(1, vec![2, 2, 4, 4]), pass(2, vec![4, 4, 4])]
    }

    #[test]
    fn a_rate_is_bytes_over_time_in_the_median_pass() {
        assert_eq!(Rate::of(&passes(), 1, 2, 1), Some(Rate { median: 5e8, min: 2.5e8, max: 1e9 }));
        assert_eq!(Rate::of(&passes()[..2], 3, 4, 8).map(|rate| rate.median), Some(2e9));
        assert_eq!(Rate::of(&passes(), 5, 9, 1), None);
        assert_eq!(Rate::of(&[], 1, 9, 1), None);
    }

    #[test]
    fn an_event_divides_the_timeline() {
        let annotation = |n, kind| Annotation { name: "second reader starts".into(), n, kind, source: String::new() };
        let events = [annotation(3.0, AnnotationKind::Event), annotation(2.0, AnnotationKind::Cache)];
        let passes = passes();
        let found = sections(&events, 4, &passes, 1);
        let ranges: Vec<_> = found.iter().map(|one| (one.event, one.first, one.last)).collect();
        assert_eq!(ranges, [(None, 1, 2), (Some("second reader starts"), 3, 4)]);
        assert_eq!(found[1].rate, Rate { median: 2.5e8, min: 2.5e8, max: 2.5e8 });
    }
}
