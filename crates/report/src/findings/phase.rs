//! Findings about one curve: cliff, outliers, growth, two modes.

use super::{Finding, Kind, subject};
use crate::quantity::{FormatCost, Unit, count, factor, percent};
use crate::text;
use crate::{CaseStudy, PhaseStudy};
use landau_stats::{BimodalityKind, Cliff, Outcome, PatternRule};

/// Benchmarks of the instrument: only what moved is a finding.
const INSTRUMENT: [&str; 2] = ["nop", "syscall"];
/// Recurring outliers below this factor over the usual cost rank low: a new page of a slab is common.
const OUTLIER_FACTOR: f64 = 10.0;

/// Adds the findings about one phase of one case.
pub(super) fn of_phase(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, found: &mut Vec<Finding>) {
    let name = subject(study, phase);
    let growth = growth(study, phase, &name);
    if INSTRUMENT.contains(&study.case.benchmark.as_str()) {
        found.extend(growth.map(|mut one| {
            one.text = format!("The instrument itself moved, so distrust changes of this size elsewhere: {}", one.text);
            one.theme.clear();
            one
        }));
        return;
    }
    found.extend(cliff(study, phase, &name));
    found.extend(outlier(study, phase, &name));
    found.extend(growth);
    found.extend(bimodal(study, phase, &name));
}

/// A finding about a phase, merged with that of other variants of the benchmark.
fn finding(
    kind: Kind,
    (study, phase): (&CaseStudy<'_>, &PhaseStudy<'_>),
    weight: f64,
    text: String,
    brief: &str,
) -> Finding {
    let theme = format!("{} {}", study.case.benchmark, phase.phase.name);
    Finding::of_case(kind, study, weight, text, theme, format!("{} ({brief})", study.case.label))
}

/// The highest cliff.
fn cliff(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<Finding> {
    let judged = &phase.verdict.all;
    let cliff = judged.cliffs.iter().max_by(|a, b| a.factor_over_start.total_cmp(&b.factor_over_start))?;
    let brief = format!("{} at {}", factor(cliff.factor_over_start), count(cliff.n.value));
    let text = cliff_text(study, name, cliff, judged.unit);
    Some(finding(Kind::Cliff, (study, phase), cliff.factor_over_start, text, &brief))
}

/// A cliff in one sentence: "bind jumps from 215 µs to 2.48 ms at 14,114 bound sockets (half the port range): ×3,059
/// the cost at small n, 811 ns".
pub fn cliff_text(study: &CaseStudy<'_>, name: &str, cliff: &Cliff, unit: Unit) -> String {
    let over = |factor: f64| unit.cost((cliff.cost_after / factor.max(f64::MIN_POSITIVE)).round());
    let why = cliff.annotation.as_ref().map_or(String::new(), |annotation| format!(" ({annotation})"));
    format!(
        "{name} jumps from {} to {} at {} {}{why}: {} the cost at small n, {}.",
        over(cliff.factor),
        unit.cost(cliff.cost_after),
        count(cliff.n.value),
        study.case.axis,
        factor(cliff.factor_over_start),
        over(cliff.factor_over_start),
    )
}

fn outlier(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<Finding> {
    let (outliers, unit) = (&phase.verdict.outliers, phase.verdict.all.unit);
    let words = text::without_first_calls(&phase.verdict);
    if words.is_empty() {
        return None;
    }
    let highest_median = outliers.recurring.iter().map(|call| call.cost_median).max();
    // A period that starts elsewhere in each pass has no positions that recur.
    let weight = highest_median.or_else(|| outliers.patterns.iter().map(|one| one.cost_max).max()).unwrap_or(0) as f64;
    let subject =
        if outliers.patterns.iter().any(text::is_first_calls) { "These outliers and the first calls" } else { "They" };
    let share = match outliers.recurring_time_share {
        share if share >= 0.01 => format!(" {subject} take {} of the measured time.", percent(share)),
        _ => String::new(),
    };
    let highest = outliers.recurring.iter().map(|call| call.cost_max);
    let highest = highest.chain(outliers.patterns.iter().map(|one| one.cost_max)).max().unwrap_or(0) as f64;
    let usual = phase.verdict.all.end.map_or(0.0, |end| end.value);
    let kind = if weight < OUTLIER_FACTOR * usual { Kind::Period } else { Kind::Outlier };
    let text = format!("{name}: recurring outliers of {words}.{share}");
    let mut outlier = finding(kind, (study, phase), weight, text, &format!("up to {}", unit.cost(highest)));
    // Calls at the doublings of a table and calls that need a new page have different causes.
    let rule = outliers.patterns.first().map(|pattern| match pattern.rule {
        PatternRule::PowersOfTwo { .. } => "powers of two",
        PatternRule::Periodic { .. } => "periodic",
        PatternRule::FirstCalls => "first calls",
    });
    outlier.theme = format!("{} {rule:?}", outlier.theme);
    Some(outlier)
}

fn growth(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<Finding> {
    let judged = &phase.verdict.all;
    let (from, to, growth) = (judged.start?, judged.end?, judged.growth?);
    let (first, last) = judged.range?;
    let (kind, verb) = match judged.outcome {
        Outcome::Grows { .. } => (Kind::Growth, "grows"),
        Outcome::Falls => (Kind::Fall, "falls"),
        Outcome::Varies => (Kind::Variation, "varies"),
        Outcome::Flat { .. } | Outcome::Small | Outcome::Unresolved { .. } => return None,
    };
    let (first, last, axis) = (count(first), count(last), &study.case.axis);
    // The growth compares three points at either end, pass by pass. Where the single ends disagree, they are left out.
    let agrees = kind != Kind::Variation && (to.value > from.value) == (growth.value > 1.0);
    let range = if agrees {
        let (from, to) = (judged.unit.bare(from.value), judged.unit.cost(to.value));
        format!("from {from} at {first} to {to} at {last} {axis}")
    } else {
        format!("between {first} and {last} {axis}")
    };
    let law = match judged.outcome {
        Outcome::Grows { law: Some(_) } => text::law_text(judged),
        _ => "no simple law".to_owned(),
    };
    let growth_text = text::growth_text(growth, judged.unit == Unit::Instructions);
    let ratio = growth.value.max(1e-9);
    let text = if kind == Kind::Variation {
        format!(
            "{name} has no trend {range}, but is not constant. Last three points over the first three: {growth_text}."
        )
    } else {
        format!("{name} {verb} {range}; {law}. Last three points over the first three: {growth_text}.")
    };
    Some(finding(kind, (study, phase), ratio.ln().abs(), text, &factor(ratio)))
}

fn bimodal(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<Finding> {
    let found = phase.verdict.bimodality.as_ref()?;
    let what = match found.kind {
        BimodalityKind::ByPass => "passes a call costs",
        BimodalityKind::ByCall => "calls the cost is",
    };
    let (low, high) = (&found.low, &found.high);
    let cost = |cost| phase.verdict.all.unit.cost(cost);
    let text = format!(
        "{name} is bimodal at the largest n: in {} of the {what} {}, in {} {}.",
        percent(low.share),
        cost(low.cost.value),
        percent(high.share),
        cost(high.cost.value),
    );
    let ratio = high.cost.value / low.cost.value.max(1e-9);
    let brief = format!("{} or {}", cost(low.cost.value), cost(high.cost.value));
    Some(finding(Kind::Bimodal, (study, phase), ratio, text, &brief))
}
