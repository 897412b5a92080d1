//! What a tuning did: whether the law changed, only the constant, or nothing that is shown; and which setting did it.
//!
//! A trial has one comparison of the host with and without the whole profile. With an ablation each setting has two
//! more: the profile without it against the whole, and it alone against the host. An effect is claimed at an error rate
//! of [`LEVEL`] for the whole trial, a fifth of that of `landau compare`, because a setting that is kept stays for years. It
//! rests on the tests of costs and growths; cliffs and outliers, which have no error rate, are left to `landau compare`.

use crate::compared::{Compared, CurveComparison, LimitChange};
use crate::text;
use landau_stats::{Agreement, Change, Estimate, Nature};
use serde::Serialize;

/// Error rate of the claims of a trial.
pub const LEVEL: f64 = 0.01;

/// What is compared.
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

/// What a tuning did to a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing is shown.
    Nothing,
    /// The cost changed; whether by a constant is not shown.
    Cost,
    /// The cost changed by a constant factor or amount.
    Constant,
    /// The law or the growth changed.
    Law,
}

/// The answer of `landau tune try`; docs/tune.md describes it.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// The version of these members.
    pub schema: u32,
    /// The profile.
    pub profile: String,
    /// What was tried.
    pub settings: Vec<Tried>,
    /// What the profile would change too, but was not tried.
    pub not_tried: Vec<LeftOut>,
    /// The error rate of all claims together: [`LEVEL`].
    pub level: f64,
    /// The comparisons, that of the whole profile first.
    pub trials: Vec<Trial>,
    /// What each setting did, if that was asked for.
    pub attribution: Vec<Attribution>,
    /// What was not restored, and why.
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
    /// Whether it was set on the host, and not in a network namespace.
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
    /// What is compared.
    pub part: Part,
    /// The setting, unless the whole profile is compared.
    pub setting: Option<String>,
    /// The file names of the records, the base first.
    pub records: Vec<String>,
    /// The strongest effect on a curve.
    pub effect: Effect,
    /// Every curve.
    pub curves: Vec<CurveEffect>,
    /// Limits that came, went or moved.
    pub limits: Vec<LimitChange>,
    /// The result in one sentence.
    pub text: String,
}

/// What a tuning did to a curve, and how sure that is.
#[derive(Debug, Clone, Serialize)]
pub struct CurveEffect {
    /// The label of the case.
    pub case: String,
    /// The phase.
    pub phase: String,
    /// The effect.
    pub effect: Effect,
    /// Cost with over cost without, 95%.
    pub ratio: Option<Estimate>,
    /// The p value of equal costs, corrected for the number of curves and of comparisons.
    pub p: f64,
    /// The smallest difference, a fraction, that would have been claimed in four cases out of five.
    pub detectable: Option<f64>,
    /// The outcomes without and with in a few words: "O(n)", "falls", "not resolved".
    pub laws: [String; 2],
    /// The result in words.
    pub text: String,
}

/// What one setting did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attribution {
    /// The setting.
    pub setting: String,
    /// Its effect alone.
    pub alone: Effect,
    /// What it adds to the rest of the profile.
    pub adds: Effect,
    /// Whether one of the two is shown.
    pub shown: bool,
    /// The result in one sentence.
    pub text: String,
}

impl Trial {
    /// Judges one of `count` comparisons of a trial.
    pub fn of(part: Part, setting: Option<String>, records: Vec<String>, compared: &Compared, count: usize) -> Self {
        let curves: Vec<CurveEffect> = compared.curves.iter().map(|curve| judge(curve, count)).collect();
        let effect = curves.iter().map(|curve| curve.effect).max().unwrap_or(Effect::Nothing);
        let text = sentence(effect, &curves);
        Self { part, setting, records, effect, curves, limits: compared.limits.clone(), text }
    }
}

/// The smallest effect that is told, a fraction: a host can be changed by less, but nobody keeps a setting for that.
const SMALLEST: f64 = 0.02;

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

/// A curve's result in words.
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
        Effect::Cost => format!("it costs {}; whether the law changed is not shown by these passes", by()),
        Effect::Nothing => match detectable {
            Some(fraction) => {
                format!("no effect shown; one of {} or more would have been", text::detectable(fraction))
            }
            None => "no effect shown; too few passes to say what would have been".to_owned(),
        },
    }
}

/// A comparison's result in one sentence, about the curve with the strongest effect.
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
        return "no effect shown; too few passes to say what would have been".to_owned();
    }
    let [least, most] = [least, most].map(text::detectable);
    let between = if least == most { least } else { format!("{least} to {most}, by curve,") };
    format!("no effect shown on {} curves; one of {between} or more would have been", curves.len())
}

/// Returns what each setting did, those whose effect is shown first.
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
