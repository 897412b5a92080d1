//! Findings across several records: what changed, between which two, by how much, and whether the law changed too; then
//! what all records share.
//!
//! Records are taken in the order given, which is usually that of versions. A change is the step from one record to the
//! next with the largest ratio. It is weighted like the findings of one record ([`super::weight`]). Its ratio, its
//! proof and the change of the law come from the [comparison](Comparisons) of the two.

use super::{Finding, Kind, Tier, merged, of, subject, told, weight};
use crate::quantity::{FormatCost, Unit, count, digits, factor, numbered, percent};
use crate::{Analysis, CaseStudy, Comparisons, PhaseComparison, PhaseStudy, ends, text};
use landau_stats::quantile::median;
use landau_stats::{Class, Judgement, Options, Outcome};

/// Number of changes that take precedence over the findings shared by all records, which get the remaining leading
/// places.
const CHANGES_LEADING: usize = 5;
/// Minimum factor by which a step must exceed an earlier one to count as larger.
const SAME_SIZE: f64 = 1.1;

/// One curve in one of the records.
struct Place<'a> {
    study: &'a CaseStudy<'a>,
    phase: &'a PhaseStudy<'a>,
}

/// A step from one record to the next whose difference is proven and exceeds δ.
struct Step<'a> {
    comparison: &'a PhaseComparison,
    to: Place<'a>,
    /// The ratio of the costs, as reports state it.
    ratio: f64,
    /// The certain part of its logarithm, in absolute value.
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
            let (label, name) = (&study.case.label, &phase.phase.name);
            let mut own = steps(analyses, comparisons.steps(label, name), (study, phase));
            if own.is_empty() {
                // A drift in which no single step is large.
                let since_base = steps(analyses, comparisons.of_phase(label, name), (study, phase));
                own.extend(since_base.into_iter().max_by(|a, b| a.certain.total_cmp(&b.certain)));
            }
            changes.extend(change((study, phase), &own, names));
            let places = analyses.iter().filter_map(|one| place(one, &study.case.label, &phase.phase.name));
            let places: Vec<Place<'_>> = places.collect();
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

/// Returns failures and crashes, with the name of their record. Their cases are those of the base, because case numbers
/// may differ; `None` if the base lacks the case.
pub(crate) fn alarms(analyses: &[&Analysis<'_>], names: &[String]) -> Vec<Finding> {
    let mut found = Vec::new();
    let Some(base) = analyses.first() else { return found };
    for (analysis, name) in analyses.iter().zip(names) {
        for mut one in of(analysis).into_iter().filter(|one| one.kind.tier() == Tier::Alarm) {
            one.text = format!("{name}: {}", one.text);
            one.case = one.case.and_then(|case| {
                let own = analysis.cases.iter().find(|study| study.case.case == case)?;
                let same = base.cases.iter().find(|study| study.case.label == own.case.label)?;
                Some(same.case.case)
            });
            found.push(one);
        }
    }
    found
}

/// Returns a curve of a record, if the record has it.
fn place<'a>(analysis: &'a Analysis<'_>, label: &str, phase: &str) -> Option<Place<'a>> {
    let study = analysis.cases.iter().find(|study| study.case.label == label)?;
    Some(Place { study, phase: study.phases.iter().find(|one| one.phase.name == phase)? })
}

/// Returns the comparisons of a curve that are proven and exceed δ, in order.
fn steps<'a>(
    analyses: &[&'a Analysis<'_>],
    comparisons: impl Iterator<Item = &'a PhaseComparison>,
    (study, phase): (&CaseStudy<'_>, &PhaseStudy<'_>),
) -> Vec<Step<'a>> {
    let step = |comparison: &'a PhaseComparison| {
        let shown = comparison.proven()?;
        let to = place(analyses.get(comparison.other)?, &study.case.label, &phase.phase.name)?;
        Some(Step { comparison, to, ratio: shown.ratio.value, certain: shown.certain() })
    };
    comparisons.filter_map(step).filter(|step| step.certain > Options::default().delta.ln_1p()).collect()
}

/// Returns the largest change of one curve, with the earlier and later ones in the same sentence.
fn change(base: (&CaseStudy<'_>, &PhaseStudy<'_>), steps: &[Step<'_>], names: &[String]) -> Option<Finding> {
    // Of steps of similar size, the first leads.
    let step = steps.iter().reduce(|best, one| if one.certain > SAME_SIZE * best.certain { one } else { best })?;
    let name = |record: usize| names.get(record).map_or("?", String::as_str);
    let one = step.comparison;
    let (from, to) = (name(one.base), name(one.other));
    let mut text = format!(
        "{} costs {} since {to}{}. {}",
        told(step.to.study, step.to.phase),
        text::by(step.ratio),
        from_to(one, &step.to.study.case.axis),
        text::law_or_constant(&one.comparison, from, to)
    );
    let others = steps.iter().filter(|other| other.comparison.other != one.other);
    text.extend(others.map(|other| {
        let (when, name) = (in_order(other, step), name(other.comparison.other));
        format!(" {when} {name}: {}.", text::by(other.ratio))
    }));
    let share = weight::of_phase(base.0, base.1).max(weight::of_phase(step.to.study, step.to.phase));
    let place = Place { study: base.0, phase: base.1 };
    let mut found = finding(Kind::Change, &place, step.certain * share, text, &factor(step.ratio));
    let rise = if step.ratio > 1.0 { "up" } else { "down" };
    found.between = Some([one.base, one.other]);
    found.theme = format!("{} {} {rise}", step.to.study.case.benchmark, one.other);
    Some(found)
}

fn in_order(other: &Step<'_>, than: &Step<'_>) -> &'static str {
    if other.comparison.other > than.comparison.other { "Later, in" } else { "Before, in" }
}

/// Returns the costs at the largest n: ": 1,509 → 9,714 instructions at 3,922 bound sockets"; without them if the ratio
/// is that over the common range.
fn from_to(one: &PhaseComparison, axis: &str) -> String {
    let judged = [&one.comparison.a.all, &one.comparison.b.all];
    match (one.proven().and_then(|shown| shown.n), judged.map(ends::large)) {
        (Some(n), [Some(from), Some(to)]) => {
            let unit = judged[0].unit;
            format!(": {} → {} at {} {axis}", unit.bare(from.cost.value), unit.cost(to.cost.value), count(n))
        }
        _ => " on average over the common range of n".to_owned(),
    }
}

/// Returns a finding about a curve that grows beyond δ, by the same law, in every record.
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
    let is_same = |(begin, end)| ends::is_same_n(begin, from) && ends::is_same_n(end, to);
    let over = if verdicts().all(|verdict| verdict.all.range.is_some_and(is_same)) {
        format!("from {} to {} {}", count(from), count(to), first.study.case.axis)
    } else {
        format!("each over its own range of {}", first.study.case.axis)
    };
    let text = format!("{} grows in every record, {law}: {range} {over}.", told(first.study, first.phase));
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

/// Returns the finding that no curve changed beyond δ.
fn unchanged(comparisons: &Comparisons) -> Finding {
    let compared = comparisons.all.iter().filter(|one| one.comparison.ratio.is_some());
    let is_smaller = |one: &&PhaseComparison| one.winner().is_some();
    let (all, smaller) = (compared.clone().count(), compared.clone().filter(is_smaller).count());
    let is_exact = comparisons.all.first().is_some_and(|one| one.comparison.a.all.unit == Unit::Instructions);
    // A shift of the costs already states it for all curves.
    let is_told = comparisons.shifts.iter().any(|shift| shift.deviation > 0.0);
    let seen = if is_exact || is_told { None } else { median(compared.filter_map(|one| one.comparison.detectable)) };
    let seen = seen.map_or(String::new(), |middle| {
        let place = if all == 1 { "" } else { " in half of them" };
        format!("; a difference of {} would have been detected{place}", text::detectable(middle))
    });
    let delta = percent(Options::default().delta);
    let but = match smaller {
        0 => String::new(),
        some => format!("; {} proven", numbered(some, "smaller difference is", "smaller differences are")),
    };
    let all = numbered(all, "compared curve", "compared curves");
    let text = format!("Of {all}, none is proven to differ by more than {delta}{but}{seen}.");
    Finding::new(Kind::Shared, None, 0.0, text)
}
