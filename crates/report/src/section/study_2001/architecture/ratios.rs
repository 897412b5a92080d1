//! The claims of 2001 next to new measurements: the cost of each architecture relative to the event loop of the same
//! record.

use super::{PROGRAM_SHARE, PROGRAM_TIMES, REPLY, THREAD_TIMES, architecture, is_of, label, series};
use crate::page::View;
use crate::quantity::{count, digits, duration};
use crate::section::scrolling;
use crate::section::study_2001::phase;
use crate::{CaseStudy, facts};
use landau_record::schema::Fact;
use landau_stats::{Estimate, Point};
use maud::{Markup, html};

/// The number of connections at which costs are compared, as in the article.
const N: f64 = 1_000.0;

/// Points of two curves belong together if their n differ by at most this ratio.
const SAME_N: f64 = 1.02;

/// A cost relative to the event loop's.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ratio {
    n: f64,
    value: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    /// Returns the ratio of the means of two cases' passes, and the range of the ratios of every pair of passes; `None`
    /// without passes.
    fn of_passes(n: u64, own: &[f64], base: &[f64]) -> Option<Self> {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let pairs = || own.iter().flat_map(|one| base.iter().map(move |other| one / other));
        let (low, high) = pairs().fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
        let is_known = low.is_finite() && high.is_finite();
        is_known.then(|| Self { n: n as f64, value: mean(own) / mean(base), low, high })
    }

    /// Returns the ratio of two estimates. Its interval contains every ratio of values in theirs.
    fn of(n: f64, one: Estimate, other: Estimate) -> Self {
        let (low, high) = (one.low / other.high.max(1e-9), one.high / other.low.max(1e-9));
        Self { n, value: one.value / other.value, low, high }
    }
}

/// A row of the table.
struct Row {
    label: String,
    /// The server's processor time per reply, relative to the event loop, from each n to the next.
    processor: Vec<Ratio>,
    /// The time of a reply at [`N`].
    time: Option<Ratio>,
    client: Option<f64>,
    claims: &'static [f64],
}

/// Renders the table, if the page has an event loop and another architecture.
pub(super) fn render(view: &View<'_>) -> Markup {
    let mut rows: Vec<Row> = view.sources.iter().flat_map(|source| rows(&source.analysis.cases)).collect();
    rows.sort_by(|a, b| at_n(&a.processor).total_cmp(&at_n(&b.processor)));
    if rows.is_empty() {
        return html! {};
    }
    let table = html! {
        table.claims-2001 {
            thead { tr {
                @for name in [
                    "Relative to the event loop",
                    "Server's processor time per reply",
                    "As published",
                    "By connections",
                    "Time per reply",
                    "Client's processor time per reply",
                ] { th scope="col" { (name) } }
            } }
            tbody {
                @for row in &rows {
                    tr {
                        td { (row.label) }
                        td.number { @if let Some(ratio) = nearest(&row.processor) { (times(ratio)) } }
                        td { (published(row.claims)) }
                        td { (turns(&row.processor, row.claims)) }
                        td.number { @if let Some(ratio) = &row.time { (times(ratio)) } }
                        td.number { @if let Some(ns) = row.client { (duration(ns)) } }
                    }
                }
            }
        }
    };
    html! {
        p {
            "Costs relative to the event loop, sorted by processor time. Processor time: since the n before, in \
             brackets the range over every pair of passes. Time per reply: at n, in brackets every quotient of the \
             two 95% intervals. Rows whose ranges overlap have no order."
        }
        (scrolling("Architectures relative to the event loop", &table))
    }
}

fn times(ratio: &Ratio) -> String {
    format!(
        "×{} ({}\u{2013}{}) at {}",
        digits(ratio.value),
        digits(ratio.low),
        digits(ratio.high),
        count(ratio.n.round())
    )
}

fn published(claims: &[f64]) -> String {
    let claims: Vec<String> = claims.iter().map(|claim| format!("×{}", digits(*claim))).collect();
    claims.join(" and ")
}

/// Returns the article's claims about an architecture.
fn claims(architecture: &str) -> &'static [f64] {
    match architecture {
        "exec" => &[PROGRAM_TIMES, 1.0 / PROGRAM_SHARE],
        "thread" => &[THREAD_TIMES],
        _ => &[],
    }
}

/// Describes where the architecture is cheaper than the event loop, and where it costs less than was claimed, in every
/// pair of passes.
fn turns(ratios: &[Ratio], claims: &[f64]) -> String {
    if ratios.is_empty() {
        return String::new();
    }
    let below = |bound: f64| ratios.iter().filter(move |ratio| ratio.high < bound).map(|ratio| ratio.n);
    let above = |bound: f64| ratios.iter().filter(move |ratio| ratio.low > bound).map(|ratio| ratio.n);
    let mut parts = Vec::new();
    match (range(below(1.0)), range(above(1.0))) {
        (Some(cheaper), Some(dearer)) => parts.push(format!("cheaper at {cheaper}, more expensive at {dearer}")),
        (Some(cheaper), None) => parts.push(format!("cheaper at {cheaper}")),
        (None, Some(dearer)) => parts.push(format!("more expensive at {dearer}")),
        (None, None) => parts.push("passes overlap at every n".to_owned()),
    }
    for &claim in claims {
        match range(below(claim)) {
            Some(at) => parts.push(format!("less than ×{} at {at}", digits(claim))),
            None => parts.push(format!("nowhere less than ×{}", digits(claim))),
        }
    }
    parts.join("; ")
}

/// Returns the smallest and the largest n: "n = 3 to 1,000".
fn range(numbers: impl Iterator<Item = f64>) -> Option<String> {
    let (low, high) = numbers.fold((f64::INFINITY, 0.0_f64), |(low, high), n| (low.min(n), high.max(n)));
    let (low_text, high_text) = (count(low.round()), count(high.round()));
    match () {
        () if high < low => None,
        () if low_text == high_text => Some(format!("n = {low_text}")),
        () => Some(format!("n = {low_text} to {high_text}")),
    }
}

fn rows(cases: &[CaseStudy<'_>]) -> Vec<Row> {
    let busy: Vec<&CaseStudy<'_>> = cases.iter().filter(|study| is_of(study, "busy")).collect();
    // If there are several event loops, the base is the one with the fewest other settings.
    let loops = busy.iter().filter(|study| architecture(study) == "event-loop");
    let Some(base) = loops.min_by_key(|study| study.case.label.len()) else { return Vec::new() };
    let row = |study: &CaseStudy<'_>| Row {
        label: label(study),
        processor: by_n(study, base),
        time: nearest(&ratios(points(study, REPLY), points(base, REPLY))).copied(),
        client: number(study, "client_processor_time_per_reply"),
        claims: claims(architecture(study)),
    };
    busy.iter().filter(|study| study.case.case != base.case.case).map(|study| row(study)).collect()
}

/// Returns the ratios of the server's processor time at the n that both cases have. Below 16 connections, a reading
/// covers only a few replies.
fn by_n(study: &CaseStudy<'_>, base: &CaseStudy<'_>) -> Vec<Ratio> {
    let (own, based) = (facts::by_n(study, series::TIME), facts::by_n(base, series::TIME));
    let ratio = |(n, values): (&u64, &Vec<f64>)| Ratio::of_passes(*n, values, based.get(n)?);
    own.iter().filter(|(n, _)| **n >= 16).filter_map(ratio).collect()
}

fn points<'a>(study: &'a CaseStudy<'a>, name: &str) -> &'a [Point] {
    phase(study, name).map_or(&[], |phase| &phase.verdict.all.points)
}

/// Returns the ratios at the n that both curves have.
fn ratios(one: &[Point], other: &[Point]) -> Vec<Ratio> {
    let is_positive = |point: &&Point| point.cost.value > 0.0 && point.cost.low > 0.0 && point.n > 0.0;
    let ratio = |point: &Point| {
        let same = other.iter().filter(is_positive).find(|base| (point.n / base.n).ln().abs() <= SAME_N.ln())?;
        Some(Ratio::of(point.n, point.cost, same.cost))
    };
    one.iter().filter(is_positive).filter_map(ratio).collect()
}

/// Returns the ratio nearest to [`N`].
fn nearest(ratios: &[Ratio]) -> Option<&Ratio> {
    let distance = |ratio: &Ratio| (ratio.n / N).ln().abs();
    ratios.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

fn at_n(ratios: &[Ratio]) -> f64 {
    nearest(ratios).map_or(f64::INFINITY, |ratio| ratio.value)
}

/// Returns the first value of a fact that is a number.
fn number(study: &CaseStudy<'_>, name: &str) -> Option<f64> {
    study.facts.get(name)?.iter().find_map(|fact| match fact {
        Fact::Number { value, .. } => Some(*value),
        Fact::Text(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(n: f64, low: f64, high: f64) -> Ratio {
        Ratio { n, value: (low * high).sqrt(), low, high }
    }

    #[test]
    fn the_interval_of_a_ratio_holds_every_quotient() {
        let estimate = |value, low, high| Estimate { value, low, high };
        let ratio = Ratio::of(1_000.0, estimate(600.0, 540.0, 660.0), estimate(20.0, 18.0, 22.0));
        assert_eq!(times(&ratio), "×30 (24.5–36.7) at 1,000");
    }

    #[test]
    fn the_turning_points_are_proven_ones() {
        let curve = [ratio(10.0, 0.8, 0.9), ratio(100.0, 0.95, 1.1), ratio(1_000.0, 1.2, 1.3)];
        assert_eq!(turns(&curve, &[]), "cheaper at n = 10, more expensive at n = 1,000");
        assert_eq!(turns(&curve[1..2], &[]), "passes overlap at every n");
        let thread = [ratio(10.0, 1.1, 1.2), ratio(50.0, 1.2, 1.3), ratio(1_000.0, 3.0, 4.0)];
        assert_eq!(turns(&thread, &[1.35]), "more expensive at n = 10 to 1,000; less than ×1.35 at n = 10 to 50");
        assert_eq!(turns(&thread[2..], &[1.35]), "more expensive at n = 1,000; nowhere less than ×1.35");
    }

    #[test]
    fn the_range_covers_every_pair_of_passes() {
        let ratio = Ratio::of_passes(1_000, &[600.0, 630.0], &[15.0, 20.0]).unwrap();
        assert_eq!(times(&ratio), "×35.1 (30–42) at 1,000");
        assert_eq!(Ratio::of_passes(1_000, &[], &[15.0]), None);
    }
}
