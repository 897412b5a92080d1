//! The effect of a tuning: whether the law changed, only the constant, or nothing provable; and which setting caused
//! it.
//!
//! A trial has one comparison of the host with and without the whole profile. With an ablation, each setting has two
//! more: the profile without it against the whole profile, and the setting alone against the host. An effect is claimed
//! at an error rate of [`LEVEL`] for the whole trial. That is a fifth of the rate of `landau compare`, because a
//! setting that is kept stays for years. Claims are based on the tests of costs and growths, and on an exact test of
//! failed passes. Cliffs and outliers, which have no error rate, are left to `landau compare`.

use crate::compared::{Compared, CurveComparison, LimitChange};
use crate::text;
use landau_record::Record;
use landau_record::schema::Outcome;
use landau_stats::fisher::{fisher_exact, stratified_exact};
use landau_stats::{Agreement, Change, Estimate, Nature};
use serde::Serialize;
use std::collections::BTreeMap;

/// Error rate of the claims of a trial.
pub const LEVEL: f64 = 0.01;

/// The two sides of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The host, and the host with the whole profile.
    All,
    /// The profile without a setting, and with it.
    Without,
    /// The host, and the host with one setting.
    Alone,
}

/// The effect of a tuning on a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing is proven.
    Nothing,
    /// The cost changed; whether by a constant is not proven.
    Cost,
    /// The cost changed by a constant factor or amount.
    Constant,
    /// The law or the growth changed.
    Law,
    /// Passes fail on one side, but never or seldom on the other.
    Failures,
}

/// The answer of `landau tune try`; docs/tune.md describes it.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// The schema version of these members.
    pub schema: u32,
    /// The profile.
    pub profile: String,
    /// The settings that were tried.
    pub settings: Vec<Tried>,
    /// Settings that the profile would also change, but that were not tried.
    pub not_tried: Vec<LeftOut>,
    /// The error rate of all claims together: [`LEVEL`].
    pub level: f64,
    /// The comparisons, that of the whole profile first.
    pub trials: Vec<Trial>,
    /// The effect of each setting, if that was requested.
    pub attribution: Vec<Attribution>,
    /// The settings that were not restored, with the reason.
    pub not_restored: Vec<String>,
    /// Whether every comparison was made, without a failed pass.
    pub complete: bool,
    /// The page with the curves of the first comparison, if one was written.
    pub page: Option<String>,
}

/// A setting that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// Its name.
    pub name: String,
    /// The value without the profile.
    pub old: String,
    /// The value with it.
    pub new: String,
    /// Whether it was set on the host rather than in a network namespace.
    pub on_host: bool,
}

/// A setting that was not tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// Why not.
    pub why: String,
}

/// A comparison of a trial.
#[derive(Debug, Clone, Serialize)]
pub struct Trial {
    /// The two sides.
    pub part: Part,
    /// The setting, unless the whole profile is compared.
    pub setting: Option<String>,
    /// The file names of the records, the base first.
    pub records: Vec<String>,
    /// The strongest effect on a curve.
    pub effect: Effect,
    /// Every curve.
    pub curves: Vec<CurveEffect>,
    /// Limits that appeared, disappeared or moved.
    pub limits: Vec<LimitChange>,
    /// The cases in which a pass failed.
    pub failures: Vec<Failures>,
    /// The p value of equal shares of failed passes in every case, corrected for the number of comparisons; absent if
    /// no pass failed.
    pub failures_p: Option<f64>,
    /// The result in one sentence.
    pub text: String,
}

/// The effect of a tuning on a curve, and its certainty.
#[derive(Debug, Clone, Serialize)]
pub struct CurveEffect {
    /// The label of the case.
    pub case: String,
    /// The phase.
    pub phase: String,
    /// The effect.
    pub effect: Effect,
    /// The cost with the tuning over the cost without it, 95%.
    pub ratio: Option<Estimate>,
    /// The p value of equal costs, corrected for the number of curves and of comparisons.
    pub p: f64,
    /// The smallest difference, as a fraction, that would have been claimed in four of five cases; absent from ×10 on.
    pub detectable: Option<f64>,
    /// The outcomes without and with the tuning in a few words: "O(n)", "falls", "not resolved".
    pub laws: [String; 2],
    /// The result in words.
    pub text: String,
}

/// The failed passes of a case, on each side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failures {
    /// The label of the case.
    pub case: String,
    /// The failed passes without and with the tuning; for a repeated pass, the last attempt counts.
    pub failed: [u64; 2],
    /// The numbers of all passes.
    pub passes: [u64; 2],
    /// The p value of equal shares, corrected for the number of cases and of comparisons.
    pub p: f64,
    /// The reason of the last failure.
    pub reason: String,
}

impl Failures {
    /// Returns the cases in which a pass failed, the most certain difference first.
    fn of(records: [&Record; 2], count: usize) -> Vec<Self> {
        let mut all: Vec<Self> = records[0].cases.iter().filter_map(|case| Self::of_case(records, case.case)).collect();
        for one in &mut all {
            let tests = records[0].cases.len() * count;
            one.p = (fisher_exact(one.failed, one.passes) * tests as f64).min(1.0);
        }
        all.sort_by(|a, b| a.p.total_cmp(&b.p));
        all
    }

    fn of_case(records: [&Record; 2], case: u32) -> Option<Self> {
        let label = &records[0].cases.iter().find(|one| one.case == case)?.label;
        let sides = records.map(|record| {
            let of_label = record.cases.iter().find(|one| one.label == *label).map(|one| one.case);
            let passes = record.passes.iter().filter(|pass| Some(pass.start.case) == of_label);
            passes.filter_map(|pass| Some((pass.start.round, pass.end.as_ref()?))).collect::<BTreeMap<_, _>>()
        });
        let is_failed = |outcome: Outcome| matches!(outcome, Outcome::Failed | Outcome::Crashed);
        let failed = sides.each_ref().map(|ends| ends.values().filter(|end| is_failed(end.outcome)).count() as u64);
        let last = sides.iter().rev().flat_map(|ends| ends.values().rev()).find(|end| is_failed(end.outcome))?;
        let passes = sides.each_ref().map(|ends| ends.len() as u64);
        let reason = last.error.clone().unwrap_or_default();
        Some(Self { case: label.clone(), failed, passes, p: 1.0, reason })
    }

    /// Returns the p value of equal shares in every case, from the better of two tests: one of all cases together,
    /// which detects effects that several of them share, and one of the case with the most certain difference.
    fn p_of_all(all: &[Self], cases: usize, count: usize) -> Option<f64> {
        let most_certain = all.first()?.p;
        if cases == 1 {
            return Some(most_certain);
        }
        let strata: Vec<_> = all.iter().map(|one| (one.failed, one.passes)).collect();
        let together = stratified_exact(&strata) * count as f64;
        Some((2.0 * together.min(most_certain)).min(1.0))
    }

    /// Describes the failed passes of all cases.
    fn sentence(all: &[Self]) -> String {
        let [most_certain, _, ..] = all else { return all.first().map_or(String::new(), Self::text) };
        let sum = |of: fn(&Self) -> u64| all.iter().map(of).sum::<u64>();
        format!(
            "{} of {} passes of {} cases failed with it, {} of {} without it; {}",
            sum(|one| one.failed[1]),
            sum(|one| one.passes[1]),
            all.len(),
            sum(|one| one.failed[0]),
            sum(|one| one.passes[0]),
            most_certain.text()
        )
    }

    /// Describes the failed passes.
    fn text(&self) -> String {
        let [without, with] = self.failed;
        let [all_without, all_with] = self.passes;
        let reason = if self.reason.is_empty() { String::new() } else { format!(" ({})", self.reason) };
        format!(
            "{}: {with} of {all_with} passes failed with it, {without} of {all_without} without it{reason}",
            self.case
        )
    }
}

/// The effect of one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attribution {
    /// The setting.
    pub setting: String,
    /// Its effect alone.
    pub alone: Effect,
    /// The effect that it adds to the rest of the profile.
    pub adds: Effect,
    /// Whether one of the two is proven.
    pub shown: bool,
    /// The result in one sentence.
    pub text: String,
}

impl Trial {
    /// Judges one of `count` comparisons of a trial. The file names correspond to the records.
    pub fn of(
        part: Part,
        setting: Option<String>,
        records: Vec<String>,
        measured: [&Record; 2],
        compared: &Compared,
        count: usize,
    ) -> Self {
        let curves: Vec<CurveEffect> = compared.curves.iter().map(|curve| judge(curve, count)).collect();
        let failures = Failures::of(measured, count);
        let of_curves = curves.iter().map(|curve| curve.effect).max().unwrap_or(Effect::Nothing);
        let failures_p = Failures::p_of_all(&failures, measured[0].cases.len(), count);
        let effect = if failures_p.is_some_and(|p| p < LEVEL) { Effect::Failures } else { of_curves };
        // A curve of the remaining passes says little about those that failed.
        let text = match (effect, failures.is_empty()) {
            (_, true) => sentence(of_curves, &curves),
            (Effect::Failures, false) => Failures::sentence(&failures),
            (_, false) => {
                format!("{}; the other passes: {}", Failures::sentence(&failures), sentence(of_curves, &curves))
            }
        };
        Self { part, setting, records, effect, curves, limits: compared.limits.clone(), failures, failures_p, text }
    }
}

/// The smallest effect that is reported, as a fraction: smaller changes are possible, but no reason to keep a setting.
const SMALLEST: f64 = 0.02;

/// The detectable difference, as a fraction, from which on a curve proves nothing, because it has too few passes.
const TOO_LARGE: f64 = 9.0;

fn judge(curve: &CurveComparison, count: usize) -> CurveEffect {
    let corrected = |p: f64| (p * count as f64).min(1.0);
    let p = corrected(curve.p_adjusted);
    let is_large = curve.ratio.is_some_and(|ratio| ratio.value.ln().abs() >= SMALLEST.ln_1p());
    let has_cost = curve.result != Change::NoDifferenceProven && is_large && p < LEVEL;
    let has_growth = curve.growth_changed && curve.growth.p_adjusted.is_some_and(|p| corrected(p) < LEVEL);
    let effect = match (has_cost, has_growth, curve.nature) {
        (_, true, _) => Effect::Law,
        (true, false, Nature::Factor | Nature::Amount) => Effect::Constant,
        (true, false, _) => Effect::Cost,
        (false, false, _) => Effect::Nothing,
    };
    let level = LEVEL / count as f64;
    let detectable = curve.error.map(|(error, freedom)| {
        curve.detectable.unwrap_or_default().max(landau_stats::detectable(error, freedom, level))
    });
    let detectable = detectable.filter(|fraction| *fraction < TOO_LARGE);
    CurveEffect {
        case: curve.case.clone(),
        phase: curve.phase.clone(),
        effect,
        ratio: curve.ratio,
        p,
        detectable,
        laws: curve.law.outcomes.clone(),
        text: told(curve, effect, detectable),
    }
}

/// Describes a curve's result.
fn told(curve: &CurveComparison, effect: Effect, detectable: Option<f64>) -> String {
    let by = || curve.ratio.map_or("an unknown factor".to_owned(), |ratio| text::by(ratio.value));
    match effect {
        Effect::Law => {
            let [before, after] = &curve.law.outcomes;
            if curve.law.same == Agreement::Different && before != after {
                return format!("the law changed from {before} to {after}; on average it costs {}", by());
            }
            let growth = curve.growth.ratio.map_or(1.0, |ratio| ratio.value);
            format!("the growth changed: it grows {}; on average it costs {}", text::by(growth), by())
        }
        Effect::Constant => format!("only the constant changed: it costs {}", by()),
        Effect::Cost => format!("it costs {}; these passes do not show whether the law changed", by()),
        Effect::Nothing | Effect::Failures => match detectable {
            Some(fraction) => {
                format!("no effect shown; an effect of {} or more would have been detected", text::detectable(fraction))
            }
            None => "no effect shown; too few passes to tell which effect would have been detected".to_owned(),
        },
    }
}

/// Describes a comparison's result in one sentence, about the curve with the strongest effect.
fn sentence(effect: Effect, curves: &[CurveEffect]) -> String {
    if curves.is_empty() {
        return "no curve could be compared".to_owned();
    }
    let largest = |curve: &&CurveEffect| curve.ratio.map_or(0.0, |ratio| (ratio.value.ln().abs() * 1e6).round());
    let strongest = curves.iter().filter(|curve| curve.effect == effect);
    if effect != Effect::Nothing {
        let most = strongest.max_by(|a, b| largest(a).total_cmp(&largest(b)));
        return most.map_or(String::new(), |curve| format!("{} · {}: {}", curve.case, curve.phase, curve.text));
    }
    let seen = curves.iter().filter_map(|curve| curve.detectable);
    let [least, most] = [seen.clone().fold(f64::INFINITY, f64::min), seen.fold(0.0, f64::max)];
    if most == 0.0 {
        return "no effect shown; too few passes to tell which effect would have been detected".to_owned();
    }
    let [least, most] = [least, most].map(text::detectable);
    let between = if least == most { least } else { format!("{least} to {most}, by curve,") };
    format!("no effect shown on {} curves; an effect of {between} or more would have been detected", curves.len())
}

/// Returns the effect of each setting, those with a proven effect first.
pub fn attributions(trials: &[Trial]) -> Vec<Attribution> {
    let of = |part: Part| trials.iter().filter(move |one| one.part == part);
    let one = |alone: &Trial| {
        let setting = alone.setting.clone()?;
        let without = of(Part::Without).find(|other| other.setting.as_ref() == Some(&setting))?;
        let shown = alone.effect.max(without.effect) != Effect::Nothing;
        let text = if shown {
            format!("{setting}: alone, {}; added to the rest, {}", alone.text, without.text)
        } else {
            format!("{setting}: no effect shown, neither alone nor added to the rest")
        };
        Some(Attribution { setting, alone: alone.effect, adds: without.effect, shown, text })
    };
    let mut all: Vec<Attribution> = of(Part::Alone).filter_map(one).collect();
    all.sort_by_key(|one| std::cmp::Reverse((one.shown, one.alone.max(one.adds))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{SimulatedCase, record};
    use landau_stats::{Curve, Pass};

    /// Two records of a case with `passes` passes, of which `failed` failed on each side.
    fn sides(passes: usize, failed: [usize; 2]) -> [Record; 2] {
        failed.map(|failed| {
            let one = || Pass { n: vec![1, 2], costs: vec![100, 100], ..Pass::default() };
            let curve = Curve { passes: (0..passes).map(|_| one()).collect(), ..Curve::default() };
            let phases = vec![("reply".to_owned(), curve)];
            let mut record = record(&[SimulatedCase { benchmark: "serve".to_owned(), phases, ..Default::default() }]);
            for end in record.passes.iter_mut().filter_map(|pass| pass.end.as_mut()).take(failed) {
                (end.outcome, end.error) = (Outcome::Failed, Some("no reply for 10 s".to_owned()));
            }
            record
        })
    }

    fn failures(passes: usize, failed: [usize; 2], count: usize) -> Vec<Failures> {
        let [base, new] = sides(passes, failed);
        Failures::of([&base, &new], count)
    }

    /// An overflowing queue makes passes fail and leaves no cost to compare; the failures are the effect.
    #[test]
    fn passes_that_fail_on_one_side_are_an_effect() {
        let all = failures(5, [0, 5], 1);
        let [one] = &all[..] else { panic!("not one case") };
        assert!((one.p - 2.0 / 252.0).abs() < 1e-12 && Failures::p_of_all(&all, 1, 1) == Some(one.p), "{one:?}");
        let text = "serve: 5 of 5 passes failed with it, 0 of 5 without it (no reply for 10 s)";
        assert_eq!((one.text(), Failures::sentence(&all)), (text.to_owned(), text.to_owned()));
        // Among five comparisons, one has that p in 4% of all trials.
        assert!(failures(5, [0, 5], 5)[0].p > LEVEL);
        assert!(failures(5, [5, 0], 1)[0].p < LEVEL);
    }

    /// All passes of three of eight cases fail; none of these cases is certain by itself among eight.
    #[test]
    fn failures_of_several_cases_count_together() {
        let mut all = [failures(5, [0, 5], 8), failures(5, [0, 5], 8), failures(5, [0, 5], 8)].concat();
        assert!(all[0].p > LEVEL);
        let p = Failures::p_of_all(&all, 8, 1).unwrap();
        assert!((p - 4.0 / 252_f64.powi(3)).abs() < 1e-15, "{p}");
        let text = Failures::sentence(&all);
        assert!(
            text.starts_with("15 of 15 passes of 3 cases failed with it, 0 of 15 without it; serve: 5 of"),
            "{text}"
        );
        all.truncate(1);
        assert!(Failures::p_of_all(&all, 8, 1).unwrap() > LEVEL);
    }

    #[test]
    fn passes_that_fail_on_both_sides_are_told_and_no_effect() {
        let both = failures(40, [3, 5], 1);
        assert!(both.len() == 1 && Failures::p_of_all(&both, 3, 1).unwrap() > 0.5, "{both:?}");
        assert!(failures(40, [0, 0], 1).is_empty() && Failures::p_of_all(&[], 3, 1).is_none());
    }

    /// A failed attempt that was repeated successfully is not a failed pass.
    #[test]
    fn the_last_attempt_counts() {
        let [base, mut new] = sides(5, [0, 1]);
        let mut again = new.passes[0].clone();
        again.start.pass += 100;
        again.end.as_mut().unwrap().outcome = Outcome::Done;
        new.passes.push(again);
        assert!(Failures::of([&base, &new], 1).is_empty());
    }
}
