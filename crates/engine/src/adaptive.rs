//! Adaptive passes: which cases get a pass in a round after the planned ones.
//!
//! The engine cannot judge curves. Between two rounds, an [`Assessor`] reports which curves need further passes and how
//! many, and [`Limits::choose`] selects the cases of the next round.

use crate::{Error, Study};
use landau_record::schema::{Adaptive, Outcome, PassEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The adaptive passes of a study may raise the passes of a case to this many times the planned number. The time is the
/// tighter bound for all but the cheapest cases.
const BOUNDED_FACTOR: u32 = 20;

/// The time that adaptive passes may always take, however short the planned ones were.
const LEAST: Duration = Duration::from_secs(10);

/// The time that the planned and the adaptive passes of a quick study of everything should take together. It then lasts
/// less than two minutes: starting, judging and writing take 2 to 5 s more on two processors. If the planned ones take
/// more than 92 s, as on a host that slows its guest, all may take longer (METHODOLOGY.md, "Adaptive passes").
const WHOLE: Duration = Duration::from_secs(113);

/// Returns the longest time that the adaptive passes of a study may take: a share of the time that the planned passes
/// of its sides took. In a quick study of everything, the slower those of a single side were, the less time is left
/// until [`WHOLE`].
fn longest(study: Study, took: Duration, sides: u32) -> Duration {
    let bounded = |time: Duration| time.clamp(LEAST, Duration::from_secs(45));
    match study {
        Study::Quick if sides == 1 => bounded(WHOLE.saturating_sub(took).clamp(took / 4, took * 3 / 4)),
        Study::Smoke | Study::Quick | Study::Then => bounded(took * 3 / 4),
        Study::Full => (took / 2).clamp(LEAST, Duration::from_secs(15 * 60)),
    }
}

/// With [`Adaptive::UntilResolved`] a case gets at most this many passes, or 20 times the planned ones.
const UNTIL_RESOLVED_CAP: u32 = 100;

/// A curve that needs further passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCurve {
    /// The number of its case.
    pub case: u32,
    /// Its phase.
    pub phase: String,
    /// About how many further passes it needs; none if further passes do not help.
    pub more_passes: Option<u32>,
    /// Whether it is resolved and needs passes only because its interval is wide.
    pub is_resolved: bool,
}

/// The state of a run's curves between two rounds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assessment {
    /// The number of curves.
    pub curve_count: usize,
    /// The number of curves that are not resolved.
    pub unresolved_count: usize,
    /// The curves that need further passes, and the unresolved curves that further passes do not help.
    pub open: Vec<OpenCurve>,
}

impl Assessment {
    /// Adds the state of the same curves on the other side of the run. A curve that needs passes on either side gets
    /// them on both.
    pub(crate) fn join(&mut self, other: Self) {
        self.curve_count += other.curve_count;
        self.unresolved_count += other.unresolved_count;
        for curve in other.open {
            let is_same = |own: &&mut OpenCurve| own.case == curve.case && own.phase == curve.phase;
            match self.open.iter_mut().find(is_same) {
                None => self.open.push(curve),
                Some(own) => {
                    own.is_resolved &= curve.is_resolved;
                    own.more_passes = own.more_passes.into_iter().chain(curve.more_passes).max();
                }
            }
        }
    }
}

/// Judges the curves of a run between its rounds.
pub trait Assessor {
    /// Judges the passes of all rounds before `round`. The journal must have been flushed.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be read.
    fn assess(&mut self, round: u32) -> Result<Assessment, Error>;
}

/// The bounds of adaptive passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The largest number of passes of a case, planned ones included.
    pub(crate) pass_cap: u32,
    /// The longest time that all adaptive passes may take; none if only the run's time limit applies.
    pub(crate) time: Option<Duration>,
}

impl Limits {
    /// Returns the limits of a run whose cases had this number of planned passes on each side, which took this time in
    /// all; none if it makes planned passes only.
    pub(crate) fn of(adaptive: Adaptive, study: Study, planned: u32, took: Duration, sides: u32) -> Option<Self> {
        let bounded = planned.saturating_mul(BOUNDED_FACTOR);
        match adaptive {
            Adaptive::Off => None,
            Adaptive::Bounded => Some(Self { pass_cap: bounded, time: Some(longest(study, took, sides)) }),
            Adaptive::UntilResolved => Some(Self { pass_cap: bounded.max(UNTIL_RESOLVED_CAP), time: None }),
        }
    }

    /// Chooses the cases of the next round.
    ///
    /// A curve that needs more passes than the cap allows gets none: they would be wasted. Of the other cases, those
    /// with a curve that is not resolved come first, then those whose next curve will be resolved soonest, as long as
    /// the passes that they need fit into the time that is `left`. If no case fits, the first case of which a single
    /// pass fits is tried: the estimate may be too high.
    pub(crate) fn choose(&self, assessment: &Assessment, cases: &Progress, left: Option<Duration>) -> Choice {
        let mut choice = Choice::default();
        let mut wanted: BTreeMap<u32, Wanted> = BTreeMap::new();
        for curve in &assessment.open {
            let passes = cases.passes.get(&curve.case).copied().unwrap_or(0);
            match curve.more_passes {
                None => choice.hopeless += usize::from(!curve.is_resolved),
                Some(_) if cases.failed.contains(&curve.case) => choice.hopeless += usize::from(!curve.is_resolved),
                Some(more) if passes.saturating_add(more) > self.pass_cap => {
                    choice.above_cap += usize::from(!curve.is_resolved);
                }
                Some(more) => {
                    let entry = wanted.entry(curve.case).or_insert_with(|| Wanted::by(curve, more));
                    // The next curve of the case is the one that is not resolved and needs the fewest passes.
                    (entry.is_resolved, entry.more) = (entry.is_resolved, entry.more).min((curve.is_resolved, more));
                    entry.open += usize::from(!curve.is_resolved);
                    entry.phases.push(curve.phase.clone());
                }
            }
        }
        let duration = |case: u32| cases.durations.get(&case).copied().unwrap_or_default();
        let mut order: Vec<_> = wanted.into_iter().collect();
        order.sort_by_key(|(case, one)| (one.is_resolved, duration(*case).saturating_mul(one.more), *case));
        let mut needed = Duration::ZERO;
        for (case, Wanted { more, open, phases, .. }) in order {
            let with_it = needed.saturating_add(duration(case).saturating_mul(more));
            let is_first = choice.cases.is_empty() && left.is_none_or(|left| duration(case) <= left);
            if is_first || left.is_none_or(|left| with_it <= left) {
                needed = with_it;
                choice.cases.insert(case, phases);
            } else {
                choice.out_of_time += open;
            }
        }
        choice
    }
}

/// The passes that the curves of a case need.
struct Wanted {
    /// Whether all of them are resolved.
    is_resolved: bool,
    /// The passes that its next curve needs.
    more: u32,
    /// The number of its curves that are not resolved.
    open: usize,
    phases: Vec<String>,
}

impl Wanted {
    fn by(curve: &OpenCurve, more: u32) -> Self {
        Self { is_resolved: curve.is_resolved, more, open: 0, phases: Vec::new() }
    }
}

/// The progress of the cases of a run.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Complete passes of each case, on every side.
    pub(crate) passes: BTreeMap<u32, u32>,
    /// The duration of the last pass of each case, summed over all sides.
    pub(crate) durations: BTreeMap<u32, Duration>,
    /// Cases whose last pass failed.
    pub(crate) failed: BTreeSet<u32>,
}

impl Progress {
    /// Counts a pass of a case; each of the `sides` sides made it unless it was cut.
    pub(crate) fn ended(&mut self, case: u32, ends: &[PassEnd], sides: usize) {
        self.durations.insert(case, ends.iter().map(|end| Duration::from_millis(end.elapsed_ms)).sum());
        let is_complete = |end: &PassEnd| matches!(end.outcome, Outcome::Done | Outcome::Limit | Outcome::Crashed);
        if ends.iter().any(|end| end.outcome == Outcome::Failed) {
            self.failed.insert(case);
        } else if ends.len() == sides && ends.iter().all(is_complete) {
            *self.passes.entry(case).or_default() += 1;
            self.failed.remove(&case);
        }
    }
}

/// The cases of an adaptive round, and why curves that are not resolved were left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The chosen cases, each with the phases that need passes, because they are not resolved or have a wide interval.
    pub(crate) cases: BTreeMap<u32, Vec<String>>,
    /// Curves that further passes do not help.
    pub(crate) hopeless: usize,
    /// Curves that need more passes than the cap allows.
    pub(crate) above_cap: usize,
    /// Curves for which there is no time.
    pub(crate) out_of_time: usize,
}

impl Choice {
    /// Returns why curves were left out, for a note: `: 2 would need more than 15 passes`.
    pub(crate) fn reasons(&self, limits: &Limits) -> String {
        let parts = [
            (self.above_cap, format!("would need more than {} passes", limits.pass_cap)),
            (self.out_of_time, "had no time left".to_owned()),
            (self.hopeless, "would not be resolved by more passes".to_owned()),
        ];
        let words: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}")).collect();
        if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn open(case: u32, phase: &str, more_passes: Option<u32>) -> OpenCurve {
        OpenCurve { case, phase: phase.to_owned(), more_passes, is_resolved: false }
    }

    /// Three cases with five passes each; a pass of case k took k + 1 seconds.
    fn progress() -> Progress {
        Progress {
            passes: (0..3).map(|case| (case, 5)).collect(),
            durations: (0..3).map(|case| (case, SECOND * (case + 1))).collect(),
            failed: [].into(),
        }
    }

    fn chosen(open: Vec<OpenCurve>, left: Option<Duration>) -> Choice {
        let limits = Limits { pass_cap: 15, time: None };
        limits.choose(&Assessment { curve_count: 9, unresolved_count: open.len(), open }, &progress(), left)
    }

    #[test]
    fn a_curve_that_needs_more_than_the_cap_gets_no_pass() {
        let choice = chosen(vec![open(0, "a", Some(11)), open(1, "a", Some(10)), open(2, "a", None)], None);
        assert_eq!(choice.cases.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!((choice.above_cap, choice.hopeless, choice.out_of_time), (1, 1, 0));
        let limits = Limits { pass_cap: 15, time: None };
        assert_eq!(
            choice.reasons(&limits),
            ": 1 would need more than 15 passes, 1 would not be resolved by more passes"
        );
    }

    #[test]
    fn cases_that_settle_soonest_come_first_as_long_as_time_is_left() {
        let all = || vec![open(0, "a", Some(9)), open(1, "a", Some(2)), open(2, "a", Some(1)), open(2, "b", Some(7))];
        // In the order of their needs: case 2 takes 3 s, case 1 takes 4 s, case 0 takes 9 s.
        let at = |seconds: u32| chosen(all(), Some(SECOND * seconds)).cases.into_keys().collect::<Vec<_>>();
        assert_eq!(
            (at(20), at(16), at(15), at(7), at(6)),
            (vec![0, 1, 2], vec![0, 1, 2], vec![1, 2], vec![1, 2], vec![2])
        );
        assert_eq!(chosen(all(), Some(SECOND * 7)).cases[&2], ["a", "b"]);
        assert_eq!(chosen(all(), Some(Duration::ZERO)).out_of_time, 4, "no pass would end in time");
    }

    /// Guards against spending time on narrower intervals while some curves are not resolved.
    #[test]
    fn curves_that_are_not_resolved_come_first() {
        let wide = |case, more| OpenCurve { is_resolved: true, ..open(case, "a", Some(more)) };
        // Case 0 is resolved and takes 1 s, case 2 takes 6 s.
        let all = || vec![wide(0, 1), open(2, "b", Some(2)), wide(2, 1)];
        let at = |seconds: u32| chosen(all(), Some(SECOND * seconds)).cases.into_keys().collect::<Vec<_>>();
        assert_eq!((at(7), at(6)), (vec![0, 2], vec![2]));
        let choice = chosen(all(), Some(SECOND * 6));
        assert_eq!(choice.cases[&2], ["b", "a"]);
        // A curve that is resolved is not missed.
        assert_eq!((choice.out_of_time, chosen(vec![wide(0, 99)], None).above_cap), (0, 0));
    }

    /// The estimate of the passes needed may be too high, so time that is left is used.
    #[test]
    fn one_case_is_tried_where_no_estimate_fits() {
        let choice = chosen(vec![open(0, "a", Some(9)), open(1, "a", Some(9))], Some(SECOND * 3));
        assert_eq!((choice.cases.into_keys().collect::<Vec<_>>(), choice.out_of_time), (vec![0], 1));
    }

    #[test]
    fn a_failed_case_gets_no_further_pass() {
        let limits = Limits { pass_cap: 15, time: None };
        let cases = Progress { failed: [0].into(), ..progress() };
        let wide = OpenCurve { is_resolved: true, ..open(0, "b", Some(1)) };
        let open = vec![open(0, "a", Some(1)), wide, open(1, "a", Some(1))];
        let assessment = Assessment { curve_count: 3, unresolved_count: 2, open };
        let choice = limits.choose(&assessment, &cases, None);
        // The curve that is resolved is not missed.
        assert_eq!((choice.hopeless, choice.cases.into_keys().collect::<Vec<_>>()), (1, vec![1]));
    }

    #[test]
    fn limits_follow_from_the_mode_and_the_planned_passes() {
        let of =
            |adaptive, planned| Limits::of(adaptive, Study::Quick, planned, SECOND, 1).map(|limits| limits.pass_cap);
        assert_eq!(of(Adaptive::Off, 5), None);
        assert_eq!(of(Adaptive::Bounded, 5), Some(100));
        assert_eq!((of(Adaptive::UntilResolved, 5), of(Adaptive::UntilResolved, 50)), (Some(100), Some(1000)));
        let of = |study, took, sides| Limits::of(Adaptive::Bounded, study, 5, SECOND * took, sides);
        let time = |study, took| of(study, took, 1).and_then(|limits| limits.time);
        let seconds = |times: [u32; 4]| times.map(|seconds| Some(SECOND * seconds));
        assert_eq!([1, 20, 56, 3_600].map(|took| time(Study::Quick, took)), seconds([10, 15, 42, 45]));
        // On a slow host the study of everything still ends within two minutes, unless it lasts that long anyway.
        assert_eq!([68, 80, 92, 120].map(|took| time(Study::Quick, took)), seconds([45, 33, 23, 30]));
        // Two sides, and studies that are not of two minutes, keep their time.
        let both = [136, 160].map(|took| of(Study::Quick, took, 2).and_then(|limits| limits.time));
        assert_eq!((both, time(Study::Then, 80)), ([Some(SECOND * 45); 2], Some(SECOND * 45)));
        assert_eq!([1, 20, 62, 3_600].map(|took| time(Study::Full, took)), seconds([10, 10, 31, 900]));
        assert_eq!(Limits::of(Adaptive::UntilResolved, Study::Full, 5, SECOND, 1).and_then(|limits| limits.time), None);
    }
}
