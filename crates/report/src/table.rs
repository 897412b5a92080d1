//! The rows of `landau show`: one for each phase of each case, in words that need no statistics.
//!
//! [`rows`] and [`duels`] give plain data (serialised as it is for `--json`); [`render`] and [`render_duels`] lay it out for a
//! terminal of a given width.

use crate::quantity::{count, digits, duration, factor, percent};
use crate::{Analysis, CaseStudy, PhaseStudy, Versus};
use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table};
use landau_record::schema::Direction;
use landau_stats::{Estimate, Judgement, Outcome};
use serde::Serialize;

/// What may be said about one phase of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The benchmark.
    pub benchmark: String,
    /// The case's label.
    pub case: String,
    /// The phase.
    pub phase: String,
    /// On the way up or on the way down.
    pub direction: Direction,
    /// What n counts.
    pub axis: String,
    /// Cost at the smallest judged n, in words: "1.02 µs at 16".
    pub first: String,
    /// Cost at the largest n reached, in words.
    pub last: String,
    /// The law and how sure it is, in words.
    pub law: String,
    /// Where the system refused; empty if it did not.
    pub limit: String,
    /// Cliffs and single dear calls; empty if there are none.
    pub surprises: String,
    /// Smallest judged n and cost there in nanoseconds, 95%.
    pub first_ns: Option<(f64, Estimate)>,
    /// Largest measured n and cost there in nanoseconds, 95%.
    pub last_ns: Option<(f64, Estimate)>,
    /// The law as it is written, `O(log N)`; none where none is named.
    pub symbol: Option<String>,
    /// Cost of the top over the bottom of the judged range, 90%.
    pub growth: Option<Estimate>,
}

/// One phase of one case in two records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DuelRow {
    /// The case's label.
    pub case: String,
    /// The phase.
    pub phase: String,
    /// The base's name.
    pub base: String,
    /// The other record's name.
    pub other: String,
    /// The faster one, where that is proven.
    pub winner: Option<String>,
    /// Cost of the other over cost of the base, 95%.
    pub ratio: Option<Estimate>,
    /// The smallest difference that would have been seen, as a fraction.
    pub would_have_seen: Option<f64>,
    /// The result in words.
    pub words: String,
}

/// How a table is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the terminal.
    pub width: u16,
    /// Whether it shows colours.
    pub color: bool,
}

impl Row {
    /// The row of a phase.
    pub fn of(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> Self {
        let judged = &phase.verdict.all;
        let first = judged.range.zip(judged.start).map(|(range, cost)| (range.0, cost));
        let reached = judged.points.last().map(|point| (point.n, point.ns));
        let last = reached.or_else(|| judged.range.zip(judged.end).map(|(range, cost)| (range.1, cost)));
        let at = |place: &Option<(f64, Estimate)>| {
            place.map_or("–".to_owned(), |(n, cost)| format!("{} at {}", duration(cost.value), count(n)))
        };
        let limit = study.limit.as_ref().filter(|_| phase.phase.direction == Direction::Up);
        Self {
            benchmark: study.case.benchmark.clone(),
            case: study.case.label.clone(),
            phase: phase.phase.name.clone(),
            direction: phase.phase.direction,
            axis: study.case.axis.clone(),
            first: at(&first),
            last: at(&last),
            law: judged.words.clone(),
            limit: limit.map_or(String::new(), |met| format!("{} at {}", met.limit.error, count(met.range.0 as f64))),
            surprises: surprises(phase),
            first_ns: first,
            last_ns: last,
            symbol: symbol(judged),
            growth: judged.growth,
        }
    }
}

/// The rows of an analysis.
pub fn rows(analysis: &Analysis<'_>) -> Vec<Row> {
    let every = analysis.cases.iter().flat_map(|study| study.phases.iter().map(move |phase| Row::of(study, phase)));
    every.collect()
}

/// The rows of a comparison; `names` are the records', the base first.
pub fn duels(versus: &Versus, names: &[String]) -> Vec<DuelRow> {
    let name = |index: usize| names.get(index).cloned().unwrap_or_default();
    let row = |duel: &crate::Duel| DuelRow {
        case: duel.label.clone(),
        phase: duel.phase.clone(),
        base: name(0),
        other: name(duel.other),
        winner: duel.winner().map(name),
        ratio: duel.comparison.ratio,
        would_have_seen: duel.comparison.would_have_seen,
        words: duel.words(names),
    };
    versus.duels.iter().map(row).collect()
}

/// The law in a word or two: `O(log N)`, `O(1)`, `no simple law`, `unclear`.
pub fn law_short(judged: &Judgement) -> String {
    match &judged.outcome {
        Outcome::Shrinks => "falls".to_owned(),
        Outcome::NoSimpleLaw => judged
            .exponent
            .map_or("no simple law".to_owned(), |exponent| format!("no simple law, ~N^{}", digits(exponent.value))),
        Outcome::Inconclusive { .. } => "unclear".to_owned(),
        Outcome::Constant { .. } | Outcome::Grows { .. } => symbol(judged).unwrap_or_default(),
    }
}

fn symbol(judged: &Judgement) -> Option<String> {
    match judged.outcome {
        Outcome::Constant { .. } => Some("O(1)".to_owned()),
        Outcome::Grows { .. } => judged.fit.as_ref().map(|fit| fit.symbol.clone()),
        _ => None,
    }
}

fn surprises(phase: &PhaseStudy<'_>) -> String {
    let verdict = &phase.verdict;
    let cliff = |cliff: &landau_stats::Cliff| {
        let mark = cliff.mark.as_ref().map_or(String::new(), |mark| format!(" ({mark})"));
        format!("cliff {} at {}{mark}", factor(cliff.factor_over_start), count(cliff.n.value))
    };
    let mut parts: Vec<String> = verdict.all.cliffs.iter().map(cliff).collect();
    if !verdict.outliers.words.is_empty() {
        parts.push(verdict.outliers.words.clone());
    }
    parts.join("; ")
}

/// Lays rows out.
pub fn render(rows: &[Row], layout: Layout) -> String {
    let mut table = frame(layout, &["Case", "Phase", "Cost with few", "Cost with many", "Law", "Limit, dear calls"]);
    let mut previous = "";
    for row in rows {
        let case = if row.case == previous { "" } else { row.case.as_str() };
        previous = &row.case;
        let arrow = if row.direction == Direction::Down { "↓ " } else { "" };
        let surprises: Vec<&str> =
            [row.limit.as_str(), &row.surprises].into_iter().filter(|text| !text.is_empty()).collect();
        let color = match row.symbol.as_deref() {
            Some("O(1)") => Color::Green,
            Some(_) => Color::Yellow,
            None => Color::Reset,
        };
        table.add_row(vec![
            bold(&plain(case), layout),
            Cell::new(format!("{arrow}{}", plain(&row.phase))),
            Cell::new(&row.first),
            Cell::new(&row.last),
            tint(&plain(&row.law), color, layout),
            tint(&plain(&surprises.join("; ")), Color::Red, layout),
        ]);
    }
    table.trim_fmt()
}

/// Lays the rows of a comparison out.
pub fn render_duels(rows: &[DuelRow], layout: Layout) -> String {
    let mut table = frame(layout, &["Case", "Phase", "Against", "Faster", "Cost of the base", "In words"]);
    for row in rows {
        let ratio = row.ratio.map_or("–".to_owned(), |ratio| percent(ratio.value));
        let winner = row.winner.as_deref().unwrap_or("–");
        table.add_row(vec![
            bold(&plain(&row.case), layout),
            Cell::new(plain(&row.phase)),
            Cell::new(plain(&row.other)),
            tint(&plain(winner), if row.winner.is_some() { Color::Green } else { Color::Reset }, layout),
            Cell::new(ratio),
            Cell::new(plain(&row.words)),
        ]);
    }
    table.trim_fmt()
}

fn frame(layout: Layout, header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset("     ──            ")
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(layout.width);
    if layout.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(header.iter().map(|name| bold(name, layout)).collect::<Vec<_>>());
    table
}

fn bold(text: &str, layout: Layout) -> Cell {
    if layout.color { Cell::new(text).add_attribute(Attribute::Bold) } else { Cell::new(text) }
}

fn tint(text: &str, color: Color, layout: Layout) -> Cell {
    if layout.color { Cell::new(text).fg(color) } else { Cell::new(text) }
}

/// A record is not trusted: whatever could steer a terminal becomes visible instead.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_label_cannot_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
    }
}
