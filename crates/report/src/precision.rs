//! Which curves of a run need further passes, judged while the run goes on.
//!
//! The rule rests on the width of the interval of the growth, not on its significance; METHODOLOGY.md, "Passes and
//! their order", says why. Everything it uses is in the record, so a resumed run continues as it would have gone on.

use crate::analysis::verdicts;
use landau_record::schema::Adaptive;
use landau_record::{Pass, Record};
use landau_stats::{Class, Estimate, Options, Outcome, Reason, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// An interval whose half width is below this share of δ settles a curve whatever it says.
const NARROW: f64 = 0.25;

/// So does one whose centre is this many half widths away from both ends of the margin. At 1, more passes would end as
/// soon as one interval happens to exclude an end.
const DISTANCE: f64 = 1.5;

/// More passes than this are not counted.
const MORE_MAX: f64 = 500.0;

/// What a curve needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// No further pass.
    Nothing,
    /// About this many further passes.
    Passes(u32),
    /// It is not resolved, and further passes would not help: its interval is narrow, or it has too few points.
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
    /// What it needs.
    pub need: Need,
}

/// The curves of a run as judged last.
#[derive(Debug, Default)]
pub struct Curves {
    states: BTreeMap<(u32, String), CurveState>,
    /// The rounds that each case was judged by.
    rounds: BTreeMap<u32, Vec<u32>>,
}

impl Curves {
    /// Judges the passes of all rounds before `round`. A case that has no new ones keeps its state.
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
        let verdicts = verdicts(record, &|pass| counted(pass) && changed.contains(&pass.start.case));
        for (case, phase, verdict) in verdicts {
            let is_chosen =
                |pass: &Pass| counted(pass) && pass.start.case == case && pass.start.adaptive_for.contains(&phase.name);
            let was_chosen = record.passes.iter().any(is_chosen);
            let need = need(&verdict, was_chosen, until_resolved, options.delta);
            let is_resolved = verdict.class() != Class::Unresolved;
            let state = CurveState { case, phase: phase.name.clone(), is_resolved, need };
            self.states.insert((case, phase.name.clone()), state);
        }
    }

    /// Returns the curves, by case and phase.
    pub fn iter(&self) -> impl Iterator<Item = &CurveState> {
        self.states.values()
    }
}

/// Returns what a curve needs. `was_chosen` says whether it got adaptive passes before: only then the width of a
/// resolved curve counts, because its passes have to end by the same rule by which they began.
fn need(verdict: &Verdict, was_chosen: bool, until_resolved: bool, delta: f64) -> Need {
    let judgement = &verdict.all;
    let is_resolved = judgement.class() != Class::Unresolved;
    if is_resolved && !(was_chosen && judgement.class() != Class::Limit) {
        return Need::Nothing;
    }
    let more_passes = match judgement.outcome {
        Outcome::Unresolved { reason: Reason::TooFewPoints, .. } => return Need::Other,
        Outcome::Unresolved { more_passes, .. } => more_passes,
        _ => None,
    };
    let Some(growth) = judgement.growth else {
        return more_passes.map_or(if is_resolved { Need::Nothing } else { Need::Other }, Need::Passes);
    };
    let half = half_width(growth);
    let narrow = NARROW * delta.ln_1p();
    let goal = (distance(growth, delta) / DISTANCE).max(narrow);
    let wanted = more_passes.unwrap_or_else(|| passes_until(half, goal, verdict.passes));
    match (is_resolved, half <= goal) {
        (true, true) => Need::Nothing,
        // The growth is at the margin, or something else than the growth is open.
        (false, true) if half <= narrow && !until_resolved => Need::Other,
        _ => Need::Passes(wanted),
    }
}

/// Returns half the width of an interval, in logarithms.
fn half_width(growth: Estimate) -> f64 {
    (growth.high / growth.low).ln() / 2.0
}

/// Returns the distance of an estimate from the nearer end of the margin, in logarithms.
fn distance(growth: Estimate, delta: f64) -> f64 {
    let value = growth.value.ln();
    (value - delta.ln_1p()).abs().min((value - (-delta).ln_1p()).abs())
}

/// Returns the number of further passes until an interval that narrows with the root of their number has a half width
/// of `goal`.
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

    /// A verdict with this growth; resolved if it is flat.
    fn verdict(growth: Estimate, outcome: Outcome) -> Verdict {
        let mut verdict = judge(&Curve { passes: Vec::new(), annotations: Vec::new() }, None, &Options::default());
        (verdict.all.growth, verdict.all.outcome, verdict.passes) = (Some(growth), outcome, 5);
        verdict
    }

    fn unresolved(more_passes: Option<u32>) -> Outcome {
        Outcome::Unresolved { reason: Reason::TooNoisy, more_passes }
    }

    #[test]
    fn a_resolved_curve_gets_no_pass_unless_it_got_some_and_is_still_wide() {
        let flat = || Outcome::Flat { within: DELTA };
        let wide = verdict(interval(0.0, 0.09), flat());
        assert_eq!(need(&wide, false, false, DELTA), Need::Nothing);
        // The half width must reach 0.0953 / 1.5 = 0.0635: after 5 · (0.09 / 0.0635)² = 10.04 passes.
        assert_eq!(need(&wide, true, false, DELTA), Need::Passes(6));
        assert_eq!(need(&verdict(interval(0.0, 0.06), flat()), true, false, DELTA), Need::Nothing);
        // A growth far from the margin needs little precision.
        let grows = Outcome::Grows { law: Some("linear".to_owned()) };
        assert_eq!(need(&verdict(interval(4.0, 0.5), grows), true, false, DELTA), Need::Nothing);
    }

    #[test]
    fn an_unresolved_curve_gets_passes_until_its_interval_is_narrow() {
        let at_margin = |half| verdict(interval(0.09, half), unresolved(Some(40)));
        assert_eq!(need(&at_margin(0.05), false, false, DELTA), Need::Passes(40));
        assert_eq!(need(&at_margin(0.02), false, false, DELTA), Need::Other);
        assert_eq!(need(&at_margin(0.02), false, true, DELTA), Need::Passes(40), "with --until-resolved");
        let unknown = verdict(interval(0.0, 0.2), unresolved(None));
        assert_eq!(need(&unknown, false, false, DELTA), Need::Passes(45), "5 · (0.2 / 0.0635)² − 5");
        let few = Outcome::Unresolved { reason: Reason::TooFewPoints, more_passes: None };
        assert_eq!(need(&verdict(interval(0.0, 0.2), few), false, true, DELTA), Need::Other);
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

    /// Whether an interval is inside the margin, beyond it, or neither.
    fn place(growth: Estimate) -> Option<bool> {
        if growth.low > 1.0 - DELTA && growth.high < 1.0 + DELTA {
            return Some(true);
        }
        (growth.low > 1.0 + DELTA || growth.high < 1.0 - DELTA).then_some(false)
    }

    #[derive(Clone, Copy, Debug)]
    enum Rule {
        PlannedOnly,
        Significance,
        Width,
    }

    /// Shares of wrong and of unresolved verdicts, and the mean number of passes. `half` is the half width after five
    /// passes.
    fn run(rule: Rule, truth: f64, half: f64, errors: &mut Errors) -> (f64, f64, f64) {
        const TRIALS: usize = 2_000;
        let (mut wrong, mut open, mut passes) = (0, 0, 0);
        let sigma = half * 5.0_f64.sqrt() / STUDENT[0];
        for _ in 0..TRIALS {
            let mut growths: Vec<f64> = (0..5).map(|_| truth + sigma * errors.next()).collect();
            let was_chosen = place(estimate(&growths)).is_none();
            while was_chosen && growths.len() < 15 {
                let growth = estimate(&growths);
                let ends = match rule {
                    Rule::PlannedOnly => true,
                    Rule::Significance => place(growth).is_some(),
                    Rule::Width => {
                        let outcome = match place(growth) {
                            Some(_) => Outcome::Small,
                            None => unresolved(None),
                        };
                        !matches!(need(&verdict(growth, outcome), true, false, DELTA), Need::Passes(_))
                    }
                };
                if ends {
                    break;
                }
                growths.push(truth + sigma * errors.next());
            }
            let is_within = truth.exp() > 1.0 - DELTA && truth.exp() < 1.0 + DELTA;
            match place(estimate(&growths)) {
                Some(within) => wrong += usize::from(within != is_within),
                None => open += 1,
            }
            passes += growths.len();
        }
        let share = |count: usize| count as f64 / TRIALS as f64;
        (share(wrong), share(open), share(passes))
    }

    /// At the margin, the worst case, one of two verdicts is wrong whatever the rule. Stopping at significance, as the
    /// second rule does, lets repeated looks find it three times as often as a single look; the width does not ask for
    /// it. Away from the margin the rules are as good as each other.
    #[test]
    fn stopping_on_width_is_wrong_less_often_than_stopping_on_significance() {
        let mut errors = Errors(1);
        println!("half width after 5 passes, growth: wrong %, unresolved %, passes by rule");
        for half in [0.03, 0.06, 0.10, 0.15] {
            for percent in [0.0, 3.0, 6.0, 9.99, 10.01, 14.0, 30.0] {
                let truth = f64::ln_1p(percent / 100.0);
                let results = [Rule::PlannedOnly, Rule::Significance, Rule::Width]
                    .map(|rule| (rule, run(rule, truth, half, &mut errors)));
                print!("±{:2.0}% {percent:5.2}%", 100.0 * half);
                for (rule, (wrong, open, passes)) in &results {
                    print!("  {rule:?} {:.1} {:.0} {passes:.1}", 100.0 * wrong, 100.0 * open);
                }
                println!();
                let [_, (_, significance), (_, width)] = &results;
                assert!(width.0 < 0.125, "±{half} {percent}%: {results:?}");
                if (9.0..11.0).contains(&percent) && half < 0.12 {
                    assert!(width.0 < significance.0 - 0.02, "±{half} {percent}%: {results:?}");
                }
            }
        }
    }
}
