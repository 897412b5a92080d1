//! Which curves of a run need further passes, judged during the run.
//!
//! The rule is based on the width of the interval of the growth, not on its significance; METHODOLOGY.md, "Passes and
//! their order", gives the reason. All its inputs are in the record, so a resumed run makes the same decisions as an
//! uninterrupted one.

use crate::analysis::Verdicts;
use landau_record::schema::Adaptive;
use landau_record::{Pass, Record};
use landau_stats::{Class, Estimate, Options, Outcome, Reason, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// An interval whose half width is below this share of δ settles a curve regardless of its outcome. Even an interval
/// twice as wide would be resolved wherever it is ([`Options::room`]).
const NARROW: f64 = 0.125;

/// An interval also settles a curve if it would be resolved at this many times its width. With 1, the passes would end
/// as soon as one interval happens to be inside an outcome.
const DISTANCE: f64 = 3.0;

/// Maximum number of further passes that is estimated.
const MORE_MAX: f64 = 500.0;

/// The further passes that a curve needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// No further pass.
    Nothing,
    /// About this many further passes.
    Passes(u32),
    /// The curve is not resolved, but further passes would not help: its interval is narrow, or it has too few points.
    Other,
}

/// The state of a curve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurveState {
    /// The number of its case.
    pub case: u32,
    /// Its phase.
    pub phase: String,
    /// Whether its verdict is resolved.
    pub is_resolved: bool,
    /// The passes that it needs.
    pub need: Need,
}

/// The curves of a run, as last judged.
#[derive(Debug, Default)]
pub struct Curves {
    states: BTreeMap<(u32, String), CurveState>,
    /// The rounds from which each case was judged.
    rounds: BTreeMap<u32, Vec<u32>>,
    verdicts: Verdicts,
}

impl Curves {
    /// Judges the passes of all rounds before `round`. A case without new passes keeps its state.
    pub fn judge(&mut self, record: &Record, round: u32) {
        let counted = |pass: &Pass| pass.start.round < round;
        let mut changed = BTreeSet::new();
        for case in &record.cases {
            let passes = record.passes_of(case.case);
            let rounds: Vec<u32> = passes.iter().filter(|pass| counted(pass)).map(|pass| pass.start.round).collect();
            if self.rounds.get(&case.case) != Some(&rounds) {
                changed.insert(case.case);
                self.rounds.insert(case.case, rounds);
            }
        }
        let until_resolved = record.adaptive() == Adaptive::UntilResolved;
        let options = Options::default();
        for curve in self.verdicts.judge(record, &|pass| counted(pass) && changed.contains(&pass.start.case)) {
            let Some(verdict) = self.verdicts.get(&curve) else { continue };
            let need = need(verdict, until_resolved, &options);
            let is_resolved = verdict.class() != Class::Unresolved;
            let state = CurveState { case: curve.0, phase: curve.1.clone(), is_resolved, need };
            self.states.insert(curve, state);
        }
    }

    /// Returns the verdicts on the curves.
    pub fn into_verdicts(self) -> Verdicts {
        self.verdicts
    }

    /// Returns the curves, by case and phase.
    pub fn iter(&self) -> impl Iterator<Item = &CurveState> {
        self.states.values()
    }
}

/// Returns what a curve needs. The test for a narrow interval does not depend on whether the curve is resolved: passes
/// must end by the same rule by which they begin.
fn need(verdict: &Verdict, until_resolved: bool, options: &Options) -> Need {
    let judgement = &verdict.all;
    let is_resolved = judgement.class() != Class::Unresolved;
    if judgement.class() == Class::Limit {
        return Need::Nothing;
    }
    let is_revoked = matches!(judgement.outcome, Outcome::Unresolved { reason: Reason::CanaryMoved, .. });
    let more_passes = match judgement.outcome {
        Outcome::Unresolved { reason: Reason::TooFewPoints, .. } => return Need::Other,
        // Only further passes show how often and where the calls take the other branch. If their number cannot be
        // estimated, the number of passes is doubled.
        Outcome::Unresolved { reason: Reason::BranchShare | Reason::BranchCost, more_passes: None } => {
            return Need::Passes(u32::try_from(verdict.passes).unwrap_or(u32::MAX));
        }
        Outcome::Unresolved { more_passes, .. } => more_passes,
        _ => None,
    };
    let Some(growth) = judgement.growth else {
        return more_passes.map_or(if is_resolved { Need::Nothing } else { Need::Other }, Need::Passes);
    };
    let half = half_width(growth);
    let (narrow, room) = (NARROW * options.delta.ln_1p(), options.room(growth.value.ln()));
    let goal = (room / DISTANCE).max(narrow);
    match (is_resolved, half <= goal) {
        (true, true) => Need::Nothing,
        (true, false) => Need::Passes(passes_until(half, goal, verdict.passes)),
        // Something other than the growth is unresolved, such as whether the canary moved.
        (false, true) if !until_resolved && (half <= narrow || is_revoked) => Need::Other,
        (false, _) => Need::Passes(more_passes.unwrap_or_else(|| passes_until(half, room.max(narrow), verdict.passes))),
    }
}

/// Returns half the width of an interval, in logarithms.
fn half_width(growth: Estimate) -> f64 {
    (growth.high / growth.low).ln() / 2.0
}

/// Returns the number of further passes until the half width of an interval is `goal`, if it narrows with the square
/// root of the number of passes.
fn passes_until(half: f64, goal: f64, passes: usize) -> u32 {
    let passes = passes as f64;
    let more = (passes * (half / goal).powi(2) - passes).ceil();
    more.clamp(1.0, MORE_MAX) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_stats::{Curve, judge};

    const DELTA: f64 = 0.1;

    fn interval(value: f64, half: f64) -> Estimate {
        Estimate { value: value.exp(), low: (value - half).exp(), high: (value + half).exp() }
    }

    /// A verdict with this growth; it is resolved if it is flat.
    fn verdict(growth: Estimate, outcome: Outcome) -> Verdict {
        let mut verdict = judge(&Curve { passes: Vec::new(), annotations: Vec::new() }, None, &Options::default());
        (verdict.all.growth, verdict.all.outcome, verdict.passes) = (Some(growth), outcome, 5);
        verdict
    }

    fn unresolved(more_passes: Option<u32>) -> Outcome {
        Outcome::Unresolved { reason: Reason::TooNoisy, more_passes }
    }

    #[test]
    fn a_resolved_curve_gets_passes_while_its_interval_is_wide() {
        let flat = || Outcome::Flat { within: DELTA };
        let wide = verdict(interval(0.0, 0.09), flat());
        // The half width must reach 0.0953 / 3 = 0.0318: after 5 · (0.09 / 0.0318)² = 40.1 passes.
        assert_eq!(need(&wide, false, &Options::default()), Need::Passes(36));
        assert_eq!(need(&verdict(interval(0.0, 0.031), flat()), false, &Options::default()), Need::Nothing);
        // A growth far from the margin needs little precision; one near it needs no more than is achievable.
        let grows = || Outcome::Grows { law: Some("linear".to_owned()) };
        assert_eq!(need(&verdict(interval(4.0, 0.5), grows()), false, &Options::default()), Need::Nothing);
        assert_eq!(need(&verdict(interval(0.115, 0.0119), grows()), false, &Options::default()), Need::Nothing);
    }

    #[test]
    fn an_unresolved_curve_gets_passes_until_its_interval_is_narrow() {
        let need = |verdict: &Verdict, until_resolved| need(verdict, until_resolved, &Options::default());
        let at_margin = |half| verdict(interval(0.09, half), unresolved(Some(40)));
        assert_eq!(need(&at_margin(0.05), false), Need::Passes(40));
        assert_eq!(need(&at_margin(0.0119), false), Need::Other);
        assert_eq!(need(&at_margin(0.0119), true), Need::Passes(40), "with --until-resolved");
        let unknown = verdict(interval(0.0, 0.2), unresolved(None));
        assert_eq!(need(&unknown, false), Need::Passes(18), "5 · (0.2 / 0.0953)² − 5");
        let few = Outcome::Unresolved { reason: Reason::TooFewPoints, more_passes: None };
        assert_eq!(need(&verdict(interval(0.0, 0.2), few), true), Need::Other);
    }

    /// Guards against a pass in every round for a curve with a narrow interval because the canary moved.
    #[test]
    fn a_curve_revoked_by_the_canary_gets_passes_until_its_interval_is_narrow() {
        let of = |reason, half| {
            let outcome = Outcome::Unresolved { reason, more_passes: None };
            need(&verdict(interval(0.0, half), outcome), false, &Options::default())
        };
        let revoked = |half| of(Reason::CanaryMoved, half);
        // A third of the room is 0.0318; an eighth of δ is 0.0119.
        assert_eq!([revoked(0.031), revoked(0.0119)], [Need::Other; 2]);
        assert!(matches!(revoked(0.04), Need::Passes(_)), "{:?}", revoked(0.04));
        // The error of a point decreases with every pass.
        assert!(matches!(of(Reason::PointDeviates, 0.031), Need::Passes(_)));
    }

    /// Guards against giving no passes to a curve with unknown branches because it has no interval.
    #[test]
    fn a_curve_with_unknown_branches_gets_as_many_passes_again() {
        let of = |reason, more_passes| {
            let mut one = verdict(interval(0.0, 0.2), Outcome::Unresolved { reason, more_passes });
            one.all.growth = None;
            need(&one, false, &Options::default())
        };
        assert_eq!([Reason::BranchShare, Reason::BranchCost].map(|reason| of(reason, None)), [Need::Passes(5); 2]);
        assert_eq!((of(Reason::BranchShare, Some(9)), of(Reason::TooNoisy, None)), (Need::Passes(9), Need::Other));
    }

    /// Normal errors with a deterministic generator (a sum of twelve uniform numbers).
    struct Errors(u64);

    impl Errors {
        fn next(&mut self) -> f64 {
            let mut uniform = || {
                self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (self.0 >> 11) as f64 / (1_u64 << 53) as f64
            };
            (0..12).map(|_| uniform()).sum::<f64>() - 6.0
        }
    }

    /// The 95% quantile of Student's t for 4 to 14 degrees of freedom.
    const STUDENT: [f64; 11] = [2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761];

    fn estimate(growths: &[f64]) -> Estimate {
        let count = growths.len() as f64;
        let mean = growths.iter().sum::<f64>() / count;
        let variance = growths.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
        interval(mean, STUDENT[growths.len() - 5] * (variance / count).sqrt())
    }

    /// Returns the range of growths of the outcome that an interval proves; `None` if it is not resolved.
    fn shown(growth: Estimate) -> Option<(f64, f64)> {
        let (least, most) = Options::default().small_change();
        let outcomes = [
            (1.0 + DELTA, f64::INFINITY),
            (0.0, 1.0 - DELTA),
            (1.0 + least, 1.0 + most),
            (1.0 - most, 1.0 - least),
            (1.0 - DELTA, 1.0 + DELTA),
        ];
        outcomes.into_iter().find(|(low, high)| growth.low > *low && growth.high < *high)
    }

    #[derive(Clone, Copy, Debug)]
    enum Rule {
        PlannedOnly,
        Significance,
        Width,
    }

    /// Returns the shares of wrong and of unresolved verdicts, and the mean number of passes. `half` is the half width
    /// after five passes.
    fn run(rule: Rule, truth: f64, half: f64, errors: &mut Errors) -> (f64, f64, f64) {
        const TRIALS: usize = 2_000;
        let (mut wrong, mut open, mut passes) = (0, 0, 0);
        let sigma = half * 5.0_f64.sqrt() / STUDENT[0];
        for _ in 0..TRIALS {
            let mut growths: Vec<f64> = (0..5).map(|_| truth + sigma * errors.next()).collect();
            while growths.len() < 15 {
                let growth = estimate(&growths);
                let ends = match rule {
                    Rule::PlannedOnly => true,
                    Rule::Significance => shown(growth).is_some(),
                    Rule::Width => {
                        let outcome = match shown(growth) {
                            Some(_) => Outcome::Small,
                            None => unresolved(None),
                        };
                        !matches!(need(&verdict(growth, outcome), false, &Options::default()), Need::Passes(_))
                    }
                };
                if ends {
                    break;
                }
                growths.push(truth + sigma * errors.next());
            }
            match shown(estimate(&growths)) {
                Some((low, high)) => wrong += usize::from(truth.exp() < low || truth.exp() > high),
                None => open += 1,
            }
            passes += growths.len();
        }
        let share = |count: usize| count as f64 / TRIALS as f64;
        (share(wrong), share(open), share(passes))
    }

    /// At an end of an outcome, the worst case, one of two verdicts is wrong under any rule. Stopping at significance,
    /// as the second rule does, lets repeated looks find a wrong verdict up to three times as often as a single look.
    /// The rule on width does not look for significance. If the first look is narrow enough, the rules are equally
    /// good.
    #[test]
    fn stopping_on_width_is_wrong_less_often_than_stopping_on_significance() {
        let mut errors = Errors(1);
        println!("half width after 5 passes, growth: wrong %, unresolved %, passes by rule");
        for half in [0.03, 0.06, 0.10, 0.15] {
            for percent in [0.0, 3.0, 4.99, 7.0, 9.99, 10.01, 15.01, 30.0] {
                let truth = f64::ln_1p(percent / 100.0);
                let results = [Rule::PlannedOnly, Rule::Significance, Rule::Width]
                    .map(|rule| (rule, run(rule, truth, half, &mut errors)));
                print!("±{:2.0}% {percent:5.2}%", 100.0 * half);
                for (rule, (wrong, open, passes)) in &results {
                    print!("  {rule:?} {:.1} {:.0} {passes:.1}", 100.0 * wrong, 100.0 * open);
                }
                println!();
                let [_, (_, significance), (_, width)] = &results;
                assert!(width.0 < 0.085, "±{half} {percent}%: {results:?}");
                if (9.0..11.0).contains(&percent) && half > 0.05 {
                    assert!(width.0 < significance.0 - 0.02, "±{half} {percent}%: {results:?}");
                }
            }
        }
    }
}
