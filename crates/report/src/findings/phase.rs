//! Findings about one curve: cliff or growth, outliers, bimodal costs.

use super::instrument::Instrument;
use super::{Finding, Kind, subject, told, weight};
use crate::quantity::{FormatCost, Unit, count, factor, percent};
use crate::text;
use crate::{CaseStudy, PhaseStudy, ends};
use landau_stats::{BimodalityKind, Class, Cliff, Judgement, Outcome, PatternRule};

/// Benchmarks of the instrument: only a change of their cost is a finding.
const INSTRUMENT: [&str; 2] = ["nop", "syscall"];
/// Recurring outliers below this factor over the usual cost are expected: a new page of a slab is common.
const OUTLIER_FACTOR: f64 = 10.0;
/// Minimum share of the time that is reported.
const SHARE_MIN: f64 = 0.01;

/// Adds the findings about one phase of one case.
pub(super) fn of_phase(
    study: &CaseStudy<'_>,
    phase: &PhaseStudy<'_>,
    instrument: &Instrument<'_>,
    found: &mut Vec<Finding>,
) {
    let name = told(study, phase);
    let growth = growth(study, phase, &name);
    if INSTRUMENT.contains(&study.case.benchmark.as_str()) {
        found.extend(growth.map(|mut one| {
            one.text =
                format!("The instrument itself changed, so do not trust changes of this size elsewhere: {}", one.text);
            one.theme.clear();
            one.consequence.clear();
            one
        }));
        found.extend(outlier(study, phase, &name).map(|one| Finding {
            kind: Kind::Period,
            weight: 0.0,
            text: format!("The instrument itself: {}", one.text),
            theme: String::new(),
            consequence: String::new(),
            ..one
        }));
        return;
    }
    // The growth before a cliff is reported with the cliff, because a curve has one shape.
    found.extend(cliff(study, phase, &name).or(growth));
    found.extend(outlier(study, phase, &name).map(|one| beside_instrument(one, phase, instrument)));
    found.extend(bimodal(study, phase, &name));
    found.extend(tail(study, phase, &name));
}

/// Returns a finding about a phase, to be merged with those of the same kind about the benchmark.
fn finding(
    kind: Kind,
    (study, phase): (&CaseStudy<'_>, &PhaseStudy<'_>),
    weight: f64,
    text: String,
    brief: &str,
) -> Finding {
    let brief = format!("{} ({brief})", subject(study, phase));
    let of_case = Finding::of_case(kind, study, weight, text, study.case.benchmark.clone(), brief);
    Finding { phase: Some(phase.phase.name.clone()), ..of_case }
}

/// Returns the finding about the highest cliff.
fn cliff(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<Finding> {
    let judged = &phase.verdict.all;
    let cliff = judged.cliffs.iter().max_by(|a, b| a.factor_over_start.total_cmp(&b.factor_over_start))?;
    let brief = format!("{} at {}", factor(cliff.factor_over_start), count(cliff.n.value));
    let mut text = cliff_text(study, name, cliff, judged);
    if let (Outcome::Grows { .. }, Some(growth)) = (&judged.outcome, text::known_growth(judged)) {
        let law = text::symbol_of(judged).map_or(String::new(), |symbol| format!(" by {symbol}"));
        let end = judged.range.map_or(String::new(), |(_, last)| format!(", up to n = {}", count(last)));
        text.extend([" Before the cliff the cost grows ", &factor(growth.value), &law, &end, "."]);
    }
    let rank = weight::weight(cliff.factor_over_start, weight::from(study, phase, cliff.n.value));
    let consequence = text::consequence(study, phase);
    Some(Finding { consequence, ..finding(Kind::Cliff, (study, phase), rank, text, &brief) })
}

/// Describes a cliff in one sentence: "bind jumps from 215 µs to 2.48 ms at 14,114 bound sockets (half the port range):
/// ×3,059 the cost at small n, 811 ns".
fn cliff_text(study: &CaseStudy<'_>, name: &str, cliff: &Cliff, judged: &Judgement) -> String {
    let unit = judged.unit;
    let small = ends::small(judged).map_or(String::new(), |small| format!(", {}", unit.cost(small.cost.value)));
    let why = cliff.annotation.as_ref().map_or(String::new(), |annotation| format!(" ({annotation})"));
    format!(
        "{name} jumps from {} to {} at {} {}{why}: {} the cost at small n{small}.",
        unit.cost(text::cliff_before(cliff, unit)),
        unit.cost(cliff.cost_after),
        count(cliff.n.value),
        study.case.axis,
        factor(cliff.factor_over_start),
    )
}

/// Adds to a finding about outliers that the instrument explains some of them. If it explains all of them, the finding
/// has no weight.
fn beside_instrument(outlier: Finding, phase: &PhaseStudy<'_>, instrument: &Instrument<'_>) -> Finding {
    let patterns = || phase.verdict.outliers.patterns.iter().filter(|one| !text::is_first_calls(one));
    let explained = patterns().filter(|one| instrument.explains(one)).count();
    if explained == 0 {
        return outlier;
    }
    let words: Vec<String> =
        patterns().filter(|one| instrument.explains(one)).map(|one| text::pattern(&phase.verdict, one)).collect();
    let text = format!("{} The empty benchmark nop shows this too ({}).", outlier.text, words.join("; "));
    if explained < patterns().count() || !phase.verdict.outliers.without_pattern().is_empty() {
        return Finding { text, ..outlier };
    }
    Finding { kind: Kind::Period, weight: 0.0, text, consequence: String::new(), ..outlier }
}

fn outlier(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<Finding> {
    let (outliers, unit) = (&phase.verdict.outliers, phase.verdict.all.unit);
    let words = text::without_first_calls(&phase.verdict);
    if words.is_empty() {
        return None;
    }
    let others = || outliers.patterns.iter().filter(|one| !text::is_first_calls(one));
    let highest_median = weight::after_first_calls(outliers).iter().map(|call| call.cost_median).max();
    // A period that starts at a different call in each pass has no recurring positions.
    let dearest = highest_median.or_else(|| others().map(|one| one.cost_max).max()).unwrap_or(0) as f64;
    let highest = text::highest_outlier(&phase.verdict).unwrap_or(0) as f64;
    let usual = phase.verdict.all.end.map_or(0.0, |end| end.value);
    let kind = if dearest < OUTLIER_FACTOR * usual { Kind::Period } else { Kind::Outlier };
    let (share, _) = weight::of_outliers(phase);
    let consequence = if kind == Kind::Outlier { outlier_share(phase) } else { String::new() };
    let rank = weight::weight(dearest / usual.max(1.0), share * weight::of_phase(study, phase));
    let text = format!("{name}: recurring outliers of {words}.");
    let outlier = finding(kind, (study, phase), rank, text, &format!("up to {}", unit.cost(highest)));
    // Calls at the doublings of a table and calls that need a new page have different causes.
    let rule = others().next().map(|pattern| match pattern.rule {
        PatternRule::PowersOfTwo { .. } => "powers of two",
        PatternRule::Periodic { .. } => "periodic",
        PatternRule::FirstCalls => "first calls",
    });
    Some(Finding { theme: format!("{} {rule:?}", outlier.theme), consequence, ..outlier })
}

/// Describes the share of the cost that recurring outliers make up, in a sentence; empty if it is negligible.
pub(crate) fn outlier_share(phase: &PhaseStudy<'_>) -> String {
    let (share, number) = weight::of_outliers(phase);
    if share < SHARE_MIN {
        return String::new();
    }
    let calls = phase.verdict.calls / phase.verdict.passes.max(1);
    let what = if phase.verdict.all.unit == Unit::Instructions { "instructions" } else { "time" };
    let (number, calls) = (count(number as f64), count(calls as f64));
    let take = if number == "1" { "takes" } else { "take" };
    format!("{number} of the {calls} calls of a pass {take} {} of the {what} of all.", percent(share))
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
    let growth_text = text::growth_words(growth, judged.unit == Unit::Instructions);
    let law = match judged.outcome {
        Outcome::Grows { law: Some(_) } => text::law_text(judged),
        _ => "no simple law".to_owned(),
    };
    // The growth is that of the law. If the costs at the two ends contradict it, they are left out.
    let agrees = kind != Kind::Variation && (to.value > from.value) == (growth.value > 1.0);
    let text = if kind == Kind::Variation {
        let points = || judged.points.iter().filter(|point| point.judged).map(|point| point.cost.value);
        let (low, high) = (points().fold(f64::INFINITY, f64::min), points().fold(0.0, f64::max));
        let costs = judged.unit.costs(low, high);
        format!("{name} varies between {costs} from {first} to {last} {axis}, without growing or falling.")
    } else if agrees {
        let (from, to) = (judged.unit.bare(from.value), judged.unit.cost(to.value));
        format!("{name} {verb} {growth_text}, from {from} at {first} to {to} at {last} {axis}; {law}.")
    } else {
        format!("{name} {verb} {growth_text} between {first} and {last} {axis}; {law}.")
    };
    let rank = weight::weight(weight::change(&phase.verdict), weight::of_phase(study, phase));
    let consequence = if kind == Kind::Growth { text::consequence(study, phase) } else { String::new() };
    let known = text::known_growth(judged);
    let brief = known.map_or("by an unknown factor".to_owned(), |growth| factor(growth.value));
    Some(Finding { consequence, ..finding(kind, (study, phase), rank, text, &brief) })
}

/// Returns the finding about a 99th percentile that grows while the median does not.
fn tail(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<Finding> {
    let (judged, tail) = (&phase.verdict.all, phase.verdict.p99.as_ref()?);
    let (is_growing, growth) = (matches!(tail.outcome, Outcome::Grows { .. }), tail.growth?);
    let median = match phase.verdict.class() {
        Class::Flat => "is flat".to_owned(),
        Class::Small => text::small(),
        Class::Material | Class::Limit | Class::Unresolved => return None,
    };
    let change = text::tail_change(tail, judged).filter(|_| is_growing)?;
    let text = format!("{name}: the 99th percentile {change}, while the median {median}.");
    let share = weight::of_most_expensive(phase) * weight::of_phase(study, phase);
    Some(finding(Kind::Tail, (study, phase), weight::weight(growth.low, share), text, &factor(growth.value)))
}

fn bimodal(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<Finding> {
    let found = phase.verdict.bimodality.as_ref()?;
    let (low, high) = (&found.low, &found.high);
    let cost = |cost| phase.verdict.all.unit.cost(cost);
    let (low_share, high_share) = (percent(low.share), percent(high.share));
    let (low_cost, high_cost) = (cost(low.cost.value), cost(high.cost.value));
    let text = match found.kind {
        BimodalityKind::ByPass => format!(
            "{name} has two costs at the largest n: {low_cost} in {low_share} of the passes, {high_cost} in \
             {high_share}; a pass keeps to one of them."
        ),
        BimodalityKind::ByCall => format!(
            "{name} has two costs at the largest n: {low_share} of the calls take {low_cost}, {high_share} take \
             {high_cost}."
        ),
    };
    let ratio = high.cost.value / low.cost.value.max(1e-9);
    let brief = format!("{low_cost} or {high_cost}");
    // The rarer mode is the notable one.
    let share = low.share.min(high.share) * weight::of_phase(study, phase);
    Some(finding(Kind::Bimodal, (study, phase), weight::weight(ratio, share), text, &brief))
}
