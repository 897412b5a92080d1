//! Findings across several records: what changed, between which two, by how much, and whether the law changed with it;
//! then what all records share.
//!
//! Records are taken in the order given, which is usually that of versions. A change is the step from one record to the
//! next with the largest ratio; it is weighed like the findings of one record ([`super::weight`]).

use super::{Finding, Kind, Tier, merged, of, subject, weight};
use crate::quantity::{FormatCost, Unit, count, digits, factor, percent};
use crate::text;
use crate::{Analysis, CaseStudy, Comparisons, PhaseComparison, PhaseStudy};
use landau_stats::{Class, Judgement, Options, Outcome};

/// Changes that lead before what all records share has its turn, and how much of that leads.
const CHANGES_LEADING: usize = 5;
/// Ends of the same law that grow within this factor of each other grow alike.
const SAME_GROWTH: f64 = 1.1;

/// One curve in one of the records.
struct Place<'a> {
    /// The record's index.
    record: usize,
    study: &'a CaseStudy<'a>,
    phase: &'a PhaseStudy<'a>,
    /// ln of the cost relative to the base, and half its interval: at the largest n if all records end there, else over
    /// the common range.
    level: (f64, f64),
    /// Whether a difference from the base is proven.
    differs: bool,
}

/// A step from one record to the next.
struct Step<'a> {
    from: &'a Place<'a>,
    to: &'a Place<'a>,
    /// ln of the ratio of the costs.
    ratio: f64,
    /// The part of it that is certain, in absolute value.
    certain: f64,
}

/// Returns the findings across records, the most important first, and how many of them lead. The first analysis is the
/// base of the comparisons.
pub fn across(analyses: &[&Analysis<'_>], comparisons: &Comparisons, names: &[String]) -> (Vec<Finding>, usize) {
    let mut changes = Vec::new();
    let mut shared = Vec::new();
    let Some(base) = analyses.first() else { return (Vec::new(), 0) };
    for study in &base.cases {
        for phase in &study.phases {
            let places = places(analyses, comparisons, study, phase);
            changes.extend(change(&places, names));
            shared.extend(in_all(&places, analyses.len()));
        }
    }
    let by_weight = |found| {
        let mut found = merged(found);
        found.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        found
    };
    let (mut changes, mut shared) = (by_weight(changes), by_weight(shared));
    if changes.is_empty() {
        changes.push(unchanged(comparisons));
    }
    let mut found = alarms(analyses, names);
    let room = super::LEADING_MAX.saturating_sub(found.len());
    let common = shared.len().min(room.saturating_sub(changes.len().min(CHANGES_LEADING)));
    let led = changes.len().min(room - common);
    let later = changes.split_off(led);
    let last = shared.split_off(common);
    found.extend(changes.into_iter().chain(shared));
    let leading = found.len();
    found.extend(later.into_iter().chain(last));
    (found, leading)
}

/// Failures and crashes, with the name of their record.
fn alarms(analyses: &[&Analysis<'_>], names: &[String]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (analysis, name) in analyses.iter().zip(names) {
        for mut one in of(analysis).into_iter().filter(|one| one.kind.tier() == Tier::Alarm) {
            one.text = format!("{name}: {}", one.text);
            found.push(one);
        }
    }
    found
}

fn places<'a>(
    analyses: &'a [&Analysis<'_>],
    comparisons: &Comparisons,
    study: &'a CaseStudy<'_>,
    phase: &'a PhaseStudy<'_>,
) -> Vec<Place<'a>> {
    let mut places = vec![Place { record: 0, study, phase, level: (0.0, 0.0), differs: false }];
    let compared = || comparisons.of_phase(&study.case.label, &phase.phase.name);
    let ends = || compared().flat_map(|one| [end(&one.comparison.a.all), end(&one.comparison.b.all)]);
    let has_common_end = ends().all(|one| is_same_n(one.map(|end| end.0), end(&phase.verdict.all).map(|end| end.0)));
    for one in compared() {
        let at_end = one.comparison.ratio_end.filter(|_| has_common_end);
        let Some(ratio) = at_end.or(one.comparison.ratio) else { continue };
        let cases = analyses.get(one.other).into_iter().flat_map(|analysis| &analysis.cases);
        let Some(study) = cases.into_iter().find(|other| other.case.label == one.label) else { continue };
        let Some(phase) = study.phases.iter().find(|other| other.phase.name == one.phase) else { continue };
        let width = (ratio.high.max(1e-9) / ratio.low.max(1e-9)).ln() / 2.0;
        let level = (ratio.value.max(1e-9).ln(), width.max(0.0));
        places.push(Place { record: one.other, study, phase, level, differs: one.winner().is_some() });
    }
    places
}

/// The largest judged n with the cost there.
fn end(judged: &Judgement) -> Option<(f64, f64)> {
    judged.range.zip(judged.end).map(|(range, cost)| (range.1, cost.value))
}

/// Whether two curves end at the same n, but for a call or two.
fn is_same_n(a: Option<f64>, b: Option<f64>) -> bool {
    a.zip(b).is_some_and(|(a, b)| (a / b).ln().abs() < 0.02)
}

/// The steps between neighbouring records that are proven and exceed δ, in order.
fn steps<'a>(places: &'a [Place<'a>]) -> Vec<Step<'a>> {
    let pairs = places.windows(2).map(|pair| {
        let (from, to) = (&pair[0], &pair[1]);
        let ratio = to.level.0 - from.level.0;
        let width = from.level.1.hypot(to.level.1);
        let is_proven = from.differs || to.differs;
        Step { from, to, ratio, certain: if is_proven { (ratio.abs() - width).max(0.0) } else { 0.0 } }
    });
    pairs.filter(|step| step.certain > Options::default().delta.ln_1p()).collect()
}

/// The largest change of one curve, with the later and earlier ones in the same sentence.
fn change(places: &[Place<'_>], names: &[String]) -> Option<Finding> {
    let steps = steps(places);
    let step = steps.iter().max_by(|a, b| a.certain.total_cmp(&b.certain))?;
    let name = |place: &Place<'_>| names.get(place.record).map_or("?", String::as_str);
    let (a, b) = (&step.from.phase.verdict.all, &step.to.phase.verdict.all);
    let subject = subject(step.to.study, step.to.phase);
    let since = name(step.to);
    let mut text = format!(
        "{subject} costs {} since {since}{}. {}",
        by(step.ratio),
        from_to(a, b, &step.to.study.case.axis),
        law_change(a, b)
    );
    let others = steps.iter().filter(|other| other.to.record != step.to.record);
    text.extend(others.map(|other| format!(" {} {}: {}.", in_order(other, step), name(other.to), by(other.ratio))));
    let share = weight::of_phase(step.from.study, step.from.phase).max(weight::of_phase(step.to.study, step.to.phase));
    let mut one = finding(Kind::Change, places.first()?, step.certain * share, text, &factor(step.ratio.exp()));
    let rise = if step.ratio > 0.0 { "up" } else { "down" };
    one.between = Some([step.from.record, step.to.record]);
    one.theme = format!("{} {} {rise}", step.to.study.case.benchmark, step.to.record);
    Some(one)
}

fn in_order(other: &Step<'_>, than: &Step<'_>) -> &'static str {
    if other.to.record > than.to.record { "Later, in" } else { "Before, in" }
}

/// A ratio in words: "6.5 times as much", "23% more", "98% less".
fn by(ratio: f64) -> String {
    match ratio.exp() {
        factor if factor >= 2.0 => format!("{} times as much", digits(factor)),
        factor if factor >= 1.0 => format!("{} more", percent(factor - 1.0)),
        factor => format!("{} less", percent(1.0 - factor)),
    }
}

/// The costs at the largest judged n: ": 1,509 → 9,714 instructions at 3,922 bound sockets"; without them where the
/// curves end at different n.
fn from_to(a: &Judgement, b: &Judgement, axis: &str) -> String {
    match (end(a), end(b)) {
        (Some((n, from)), Some((other, to))) if is_same_n(Some(n), Some(other)) => {
            let (from, to) = (a.unit.bare(from.round()), b.unit.cost(to.round()));
            format!(": {from} → {to} at {} {axis}", count(other))
        }
        _ => " over the common range of n".to_owned(),
    }
}

/// Whether the law changed, or only a constant.
fn law_change(a: &Judgement, b: &Judgement) -> String {
    let law = |judged: &Judgement| match (&judged.outcome, text::symbol_of(judged)) {
        (Outcome::Small, _) => "O(1)".to_owned(),
        (_, Some(symbol)) => symbol.to_owned(),
        (Outcome::Grows { .. }, None) => "growth by no simple law".to_owned(),
        (Outcome::Falls, _) => "a fall".to_owned(),
        (Outcome::Varies, _) => "no trend".to_owned(),
        (_, None) => "not resolved".to_owned(),
    };
    let unresolved = |judged: &Judgement| matches!(judged.outcome, Outcome::Unresolved { .. });
    if unresolved(a) || unresolved(b) {
        return "Whether its law changed is not resolved.".to_owned();
    }
    let (before, after) = (law(a), law(b));
    let growth = |judged: &Judgement| judged.growth.map_or(1.0, |growth| growth.value.max(1e-9));
    let grown = (growth(b) / growth(a)).ln().abs();
    match before == after {
        true if grown < SAME_GROWTH.ln() => format!("The law did not change ({after}), only the constant."),
        true => format!(
            "The law did not change ({after}), its slope did: growth {} before, {} since.",
            factor(growth(a)),
            factor(growth(b))
        ),
        false => format!("The law changed: {before} before, {after} since."),
    }
}

/// A curve that grows beyond δ, by the same law, in every record.
fn in_all(places: &[Place<'_>], records: usize) -> Option<Finding> {
    let first = places.first().filter(|_| places.len() == records)?;
    let verdicts = || places.iter().map(|place| &place.phase.verdict);
    let is_growing = |class| matches!(class, Class::Material | Class::Limit);
    let symbol = text::symbol_of(&first.phase.verdict.all);
    let alike =
        |judged: &Judgement| matches!(judged.outcome, Outcome::Grows { .. }) && text::symbol_of(judged) == symbol;
    if !verdicts().all(|verdict| is_growing(verdict.class()) && alike(&verdict.all)) {
        return None;
    }
    let growths = || verdicts().filter_map(|verdict| verdict.all.growth).map(|growth| growth.value);
    let (low, high) = (growths().fold(f64::INFINITY, f64::min), growths().fold(0.0, f64::max));
    let (from, to) = first.phase.verdict.all.range?;
    let law = symbol.map_or("by no simple law".to_owned(), |symbol| format!("by {symbol}"));
    let range = if digits(low) == digits(high) { factor(low) } else { format!("{}–{}", factor(low), digits(high)) };
    let text = format!(
        "{} grows in every record, {law}: {range} from {} to {} {}.",
        subject(first.study, first.phase),
        count(from),
        count(to),
        first.study.case.axis
    );
    let ranks = places
        .iter()
        .map(|place| weight::weight(weight::change(&place.phase.verdict), weight::of_phase(place.study, place.phase)));
    Some(finding(Kind::Shared, first, ranks.fold(f64::INFINITY, f64::min), text, &range))
}

fn finding(kind: Kind, place: &Place<'_>, weight: f64, text: String, brief: &str) -> Finding {
    let brief = format!("{} ({brief})", subject(place.study, place.phase));
    let one = Finding::of_case(kind, place.study, weight, text, place.study.case.benchmark.clone(), brief);
    Finding { phase: Some(place.phase.phase.name.clone()), ..one }
}

/// The finding that no curve changed beyond δ.
fn unchanged(comparisons: &Comparisons) -> Finding {
    let compared = comparisons.all.iter().filter(|one| one.comparison.ratio.is_some());
    let is_smaller = |one: &&PhaseComparison| one.winner().is_some();
    let (all, smaller) = (compared.clone().count(), compared.clone().filter(is_smaller).count());
    let mut detectable: Vec<f64> = compared.filter_map(|one| one.comparison.detectable).collect();
    detectable.sort_by(f64::total_cmp);
    let is_exact = comparisons.all.first().is_some_and(|one| one.comparison.a.all.unit == Unit::Instructions);
    let seen = match detectable.get(detectable.len() / 2) {
        Some(middle) if !is_exact => {
            format!("; a difference of {} would have been seen in half of them", percent(*middle))
        }
        _ => String::new(),
    };
    let delta = percent(Options::default().delta);
    let but = match smaller {
        0 => String::new(),
        one => format!(", {one} by less"),
    };
    let text = format!("Of {all} comparisons none is shown to differ by more than {delta}{but}{seen}.");
    Finding::new(Kind::Shared, None, 0.0, text)
}
