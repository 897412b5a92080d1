//! The rows of `landau show`: one for each phase of each case.
//!
//! [`rows`], [`comparison_rows`] and [`variant_rows`] return data, which `--json` prints; [`render`],
//! [`render_records`], [`render_comparisons`] and [`render_variants`] lay it out for a terminal.

pub(crate) mod grid;
mod lines;
mod records;
mod variants;

use crate::quantity::{FormatCost, Unit, count, digits, factor};
use crate::{Analysis, CaseStudy, Comparisons, PhaseComparison, PhaseStudy, Shown, ends, text};
use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table};
use landau_record::schema::Direction;
use landau_stats::{Class, Components, Estimate, Judgement, Nature, Outcome, Pattern, PatternRule, Reason, Tail};
use serde::Serialize;

pub use crate::ends::CostAt;
pub use lines::{Only, Sort, arranged, render};
pub use records::render_records;
pub use variants::{VariantRow, render_variants, variant_rows};

/// The verdict on one phase of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The benchmark.
    pub benchmark: String,
    /// The case's label.
    pub case: String,
    /// The phase.
    pub phase: String,
    /// Whether objects are created or destroyed.
    pub direction: Direction,
    /// What n counts.
    pub axis: String,
    /// The unit of costs.
    pub unit: Unit,
    /// Smallest judged n with the cost there.
    pub small: Option<CostAt>,
    /// Largest judged n with the cost there; beyond a cliff, the largest measured n.
    pub large: Option<CostAt>,
    /// The class of the outcome.
    pub class: Class,
    /// The size of the change, as a logarithm of the cliff's factor, or else of the growth.
    #[serde(skip)]
    pub change: f64,
    /// Cost at the last judged n over that at the first, by the fitted law, 90%; before the cliff, if there is one.
    pub growth: Option<Estimate>,
    /// The law, "O(log n)"; absent if none is named.
    pub law: Option<String>,
    /// The cost at ten times the largest judged n. For a flat or small change, the upper end is the bound of a linear
    /// growth.
    pub at_ten_times: Option<Estimate>,
    /// The growth of the 99th percentile; absent for counted costs and without a judged range.
    pub p99: Option<Tail>,
    /// The components of variance; absent for counted costs and for a single pass.
    pub components: Option<Components>,
    /// The usual standard deviation (log scale) of the level between runs on one machine; absent for counted costs.
    pub between_runs: Option<f64>,
    /// The row in words.
    pub text: RowText,
}

/// A row in words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowText {
    /// Cost at the smallest judged n: "1.02 µs at 16".
    pub small: String,
    /// Cost at large n.
    pub large: String,
    /// The outcome for a cell: "flat", "cliff ×3,187 at 14,114", "not resolved (about 5 more passes)".
    pub outcome: String,
    /// The sign of the outcome, as on the page.
    pub sign: String,
    /// Costs at both ends: "858 ns → 2.77 ms".
    pub costs: String,
    /// Outcome, law and intervals in one sentence.
    pub confidence: String,
    /// The growth with its 90% interval: "×1.29 (1.2–1.41)".
    pub growth: String,
    /// Where a call failed or the kernel stopped; empty if neither.
    pub limit: String,
    /// The details of the verdict, one sentence each: the factor of a doubling, the cost at ten times n, the growth of
    /// the 99th percentile, and the sources of the uncertainty.
    pub details: Vec<String>,
    /// Cliffs and recurring outliers; empty if there are none.
    pub events: String,
    /// The relevant recurring outliers: those at powers of two, those from 0.1 ms on, or all of them if they make up 2%
    /// of the time.
    pub outliers: String,
}

/// One phase of one case in two records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The case's label.
    pub case: String,
    /// The phase.
    pub phase: String,
    /// The base's name.
    pub base: String,
    /// The other record's name.
    pub other: String,
    /// The record that is provably cheaper, if there is one.
    pub winner: Option<String>,
    /// The cost of the other over that of the base, over their common range of n, 95%.
    pub ratio: Option<Estimate>,
    /// The ratio as tables and sentences state it, at the largest n if possible, if a difference is proven.
    pub shown: Option<Shown>,
    /// The smallest difference that would have been detected, as a fraction.
    pub detectable: Option<f64>,
    /// Whether the difference is a constant factor, or whether the law or the growth changed.
    pub nature: Nature,
    /// Whether passes were paired by round.
    pub paired: bool,
    /// The result in words.
    pub text: String,
}

/// The layout of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The width of the terminal, in columns.
    pub width: u16,
    /// Whether it shows colours.
    pub color: bool,
}

impl Row {
    /// Returns the row of a phase.
    pub fn of(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> Self {
        let judged = &phase.verdict.all;
        let (small, large) = (ends::small(judged), ends::large(judged));
        Self {
            benchmark: study.case.benchmark.clone(),
            case: study.case.label.clone(),
            phase: phase.phase.name.clone(),
            direction: phase.phase.direction,
            axis: study.case.axis.clone(),
            unit: judged.unit,
            small,
            large,
            class: phase.verdict.class(),
            change: change_of(judged),
            growth: text::known_growth(judged),
            law: text::symbol_of(judged).map(str::to_owned),
            at_ten_times: judged.at_ten_times,
            p99: phase.verdict.p99.clone(),
            components: judged.components,
            between_runs: (judged.unit != Unit::Instructions).then(|| between_runs(study, phase)),
            text: RowText::of(study, phase, [small, large]),
        }
    }
}

impl RowText {
    fn of(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, ends: [Option<CostAt>; 2]) -> Self {
        let judged = &phase.verdict.all;
        let [small, large] = ends.map(|end| {
            end.map_or("–".to_owned(), |end| format!("{} at {}", judged.unit.cost(end.cost.value), count(end.n)))
        });
        let limit = study.limit.as_ref().filter(|_| phase.phase.direction == Direction::Up);
        let limit = limit.map(|met| format!("{} at {}", met.limit.error, met.at()));
        Self {
            small,
            large,
            outcome: outcome(phase),
            sign: text::glyph(&phase.verdict).to_owned(),
            costs: costs(judged.unit, ends),
            confidence: text::sentence(judged),
            growth: match (judged.growth, text::known_growth(judged)) {
                (None, _) => String::new(),
                (Some(_), None) => "not known".to_owned(),
                (_, Some(growth)) if growth.low.to_bits() != growth.high.to_bits() => {
                    format!("{} ({}–{})", factor(growth.value), digits(growth.low), digits(growth.high))
                }
                (_, Some(growth)) if judged.unit == Unit::Instructions => factor(growth.value),
                // A single pass has no interval.
                (_, Some(growth)) => format!("{} (–)", factor(growth.value)),
            },
            limit: crashed(study, phase).or(limit).unwrap_or_default(),
            details: text::details(&phase.verdict, between_runs(study, phase)),
            events: events(phase),
            outliers: outliers(phase),
        }
    }
}

fn between_runs(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> f64 {
    crate::between_runs::of(&study.case.benchmark, &phase.phase.name)
}

/// Describes where the kernel stopped during a case: "panic at 2,031".
fn crashed(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> Option<String> {
    use landau_record::schema::CrashKind;
    let crash = study.crashes.first().filter(|_| phase.phase.direction == Direction::Up)?;
    let kind = match crash.crash {
        CrashKind::Panic => "panic",
        CrashKind::Hang => "hang",
        CrashKind::Exit => "exit",
        CrashKind::OutOfMemory => "out of memory",
        _ => "crash",
    };
    Some(crash.last_n.map_or(kind.to_owned(), |n| format!("{kind} at {}", count(n as f64))))
}

/// Returns the rows of an analysis.
pub fn rows(analysis: &Analysis<'_>) -> Vec<Row> {
    let every = analysis.cases.iter().flat_map(|study| study.phases.iter().map(move |phase| Row::of(study, phase)));
    every.collect()
}

/// Returns the rows of a comparison; `names` are those of the records, the base first.
pub fn comparison_rows(comparisons: &Comparisons, names: &[String]) -> Vec<ComparisonRow> {
    let name = |index: usize| names.get(index).cloned().unwrap_or_default();
    let row = |one: &PhaseComparison| ComparisonRow {
        case: one.label.clone(),
        phase: one.phase.clone(),
        base: name(0),
        other: name(one.other),
        winner: one.winner().map(name),
        ratio: one.comparison.ratio,
        shown: one.proven(),
        detectable: one.comparison.detectable,
        nature: one.comparison.nature,
        paired: one.paired,
        text: one.text(names),
    };
    comparisons.all.iter().map(row).collect()
}

/// Returns the outcome in a few words: "O(log n)", "no simple law, ~n^1.62", "not resolved".
pub fn law_short(judged: &Judgement) -> String {
    match &judged.outcome {
        Outcome::Falls => "falls".to_owned(),
        Outcome::Varies => "varies".to_owned(),
        Outcome::Small => text::small(),
        Outcome::Grows { law: None } => judged
            .exponent
            .map_or("no simple law".to_owned(), |exponent| format!("no simple law, ~n^{}", digits(exponent.value))),
        Outcome::Unresolved { .. } => text::unresolved(None),
        Outcome::Flat { .. } | Outcome::Grows { law: Some(_) } => {
            text::symbol_of(judged).unwrap_or_default().to_owned()
        }
    }
}

/// Returns the size of the change, as a logarithm of the largest cliff's factor, or else of the growth.
fn change_of(judged: &Judgement) -> f64 {
    let cliff = judged.cliffs.iter().map(|cliff| cliff.factor_over_start).reduce(f64::max);
    cliff.or(judged.growth.map(|growth| growth.value)).unwrap_or(1.0).max(1e-9).ln().abs()
}

/// Formats the costs at both ends: "858 ns → 2.77 ms".
fn costs(unit: Unit, [small, large]: [Option<CostAt>; 2]) -> String {
    match (small, large) {
        (Some(small), Some(large)) => format!("{} → {}", unit.bare(small.cost.value), unit.bare(large.cost.value)),
        (_, Some(one)) | (Some(one), None) => unit.bare(one.cost.value),
        (None, None) => "–".to_owned(),
    }
}

/// Describes the outcome for a cell, with the recurring outliers if both are short enough.
fn outcome(phase: &PhaseStudy<'_>) -> String {
    let judged = &phase.verdict.all;
    let head = match judged.cliffs.iter().max_by(|a, b| a.factor_over_start.total_cmp(&b.factor_over_start)) {
        Some(cliff) => format!("cliff {} at {}", factor(cliff.factor_over_start), count(cliff.n.value)),
        None => without_cliff(judged),
    };
    match most_expensive(phase) {
        Some(cost) if head.chars().count() <= SHORT => format!("{head}; outliers to {}", judged.unit.bare(cost)),
        _ => head,
    }
}

/// Outcomes longer than this leave no room for the outliers.
const SHORT: usize = 14;

/// Returns the cost of the most expensive recurring outlier, if those of the phase are relevant.
fn most_expensive(phase: &PhaseStudy<'_>) -> Option<f64> {
    let highest = text::highest_outlier(&phase.verdict);
    highest.filter(|_| !outliers(phase).is_empty()).map(|cost| cost as f64)
}

/// Describes the outcome of a curve without a cliff.
pub(crate) fn without_cliff(judged: &Judgement) -> String {
    match &judged.outcome {
        Outcome::Flat { within } if *within == 0.0 => "flat, exactly".to_owned(),
        Outcome::Flat { .. } => "flat".to_owned(),
        Outcome::Small => text::small(),
        Outcome::Grows { law: Some(_) } => {
            let tight = |symbol: &str| symbol.replace(" − ", "−");
            let named = format!("grows, {}", text::symbol_of(judged).map_or(String::new(), tight));
            match judged.rivals.as_slice() {
                [] if judged.unit == Unit::Instructions => format!("{named}{}", each(judged)),
                [] => named,
                [one] => format!("{named} or {}", tight(text::symbol(&one.law))),
                several => format!("{named} or {} other laws", several.len()),
            }
        }
        Outcome::Grows { law: None } => "grows, no simple law".to_owned(),
        Outcome::Falls => "falls".to_owned(),
        Outcome::Varies => "varies".to_owned(),
        // In a short cell, what would help is more useful than the reason.
        Outcome::Unresolved { more_passes: more @ Some(_), .. } => text::unresolved(*more),
        Outcome::Unresolved { reason, .. } => format!("{}: {}", text::unresolved(None), reason_short(*reason)),
    }
}

/// Describes the reason for an unresolved outcome, short enough for the widest cell.
fn reason_short(reason: Reason) -> &'static str {
    match reason {
        Reason::TooFewPoints => "too few points",
        Reason::TooFewPasses => "a single pass",
        Reason::TooFewCalls => "too few calls",
        Reason::TooNoisy => "passes differ",
        Reason::PointDeviates => "a point deviates",
        Reason::CanaryMoved => "canary changed",
        Reason::BranchShare => "share of slow calls",
        Reason::BranchCost => "cost of rarer calls",
    }
}

/// Formats the slope of a linear law for a cell, ", 337 × n", or both slopes, ", 45 to 180 × n".
fn each(judged: &Judgement) -> String {
    let fit = judged.fit.as_ref().filter(|fit| ["linear", "knee", "tiers"].contains(&&*fit.law));
    let Some((fit, slope)) = fit.and_then(|fit| Some((fit, fit.slope?.value))) else { return String::new() };
    let first = judged.unit.bare(slope);
    match fit.ratio {
        Some(ratio) => format!(", {first} to {} × n", judged.unit.bare(slope * ratio)),
        None => format!(", {first} × n"),
    }
}

/// The cost in nanoseconds from which a recurring outlier is shown in the table.
const OUTLIER_NS: u64 = 100_000;
/// The share of the time from which recurring outliers are shown in the table.
const OUTLIER_SHARE: f64 = 0.02;
/// Maximum number of patterns of counted costs shown in the table.
const EXACT_PATTERNS: usize = 2;

/// Describes the relevant recurring outliers.
fn outliers(phase: &PhaseStudy<'_>) -> String {
    let (verdict, outliers) = (&phase.verdict, &phase.verdict.outliers);
    let is_exact = verdict.all.unit == Unit::Instructions;
    let matters = |pattern: &Pattern| {
        matches!(pattern.rule, PatternRule::PowersOfTwo { .. })
            || is_exact
            || pattern.cost_max >= OUTLIER_NS
            || outliers.recurring_time_share >= OUTLIER_SHARE
    };
    let text = if outliers.patterns.iter().all(text::is_first_calls) {
        // The share of the time is that of all recurring outliers, including the first calls.
        let is_large = outliers.patterns.is_empty() && outliers.recurring_time_share >= OUTLIER_SHARE;
        let is_shown = is_large || text::highest_outlier(verdict).is_some_and(|highest| highest >= OUTLIER_NS);
        if is_shown { text::without_first_calls(verdict) } else { String::new() }
    } else {
        let shown = outliers.patterns.iter().filter(|pattern| !text::is_first_calls(pattern) && matters(pattern));
        let most = if is_exact { EXACT_PATTERNS } else { usize::MAX };
        let shown = shown.take(most).map(|pattern| text::pattern(verdict, pattern));
        shown.chain(text::costly_positions(verdict, OUTLIER_NS)).collect::<Vec<_>>().join("; ")
    };
    text.replace("n + ", "n+").replace("n − ", "n−")
}

/// Lists cliffs and recurring outliers.
fn events(phase: &PhaseStudy<'_>) -> String {
    let cliff = |cliff: &landau_stats::Cliff| {
        let annotation = cliff.annotation.as_ref().map_or(String::new(), |name| format!(" ({name})"));
        format!("cliff {} at {}{annotation}", factor(cliff.factor_over_start), count(cliff.n.value))
    };
    let mut parts: Vec<String> = phase.verdict.all.cliffs.iter().map(cliff).collect();
    parts.push(text::recurring(&phase.verdict));
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// Wraps a text to the width of the terminal. Its control characters are replaced.
pub(crate) fn wrapped(text: &str, layout: Layout) -> String {
    let width = usize::from(layout.width).max(20);
    let mut lines = vec![String::new()];
    for word in plain(text).split(' ') {
        let used = lines.last().map_or(0, |line| line.chars().count());
        if used > 0 && used + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// Lays out the rows of a comparison.
pub fn render_comparisons(rows: &[ComparisonRow], layout: Layout) -> String {
    let base = rows.first().map_or("base".to_owned(), |row| plain(&row.base));
    let (compared, cost) = (format!("Record compared with {base}"), format!("Cost relative to {base}"));
    let mut table = frame(layout, &["Case", "Phase", &compared, "Faster record", &cost, "Result"]);
    for row in rows {
        let ratio = row.shown.map_or("–".to_owned(), text::ratio);
        let winner = row.winner.as_deref().unwrap_or("–");
        table.add_row(vec![
            bold(&plain(&row.case), layout),
            Cell::new(plain(&row.phase)),
            Cell::new(plain(&row.other)),
            tint(&plain(winner), if row.winner.is_some() { Color::Green } else { Color::Reset }, layout),
            Cell::new(ratio),
            Cell::new(plain(&row.text)),
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

/// Makes control characters visible: a record is not trusted to control the terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use text::fixture::judgement;

    #[test]
    fn a_label_cannot_control_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
    }

    #[test]
    fn an_unresolved_outcome_fits_its_cell() {
        let reasons = [
            Reason::TooFewPoints,
            Reason::TooFewPasses,
            Reason::TooFewCalls,
            Reason::TooNoisy,
            Reason::PointDeviates,
            Reason::CanaryMoved,
            Reason::BranchShare,
            Reason::BranchCost,
        ];
        for reason in reasons {
            for more_passes in [None, Some(1), Some(999)] {
                let text = without_cliff(&judgement(Unit::Time, Outcome::Unresolved { reason, more_passes }));
                assert!(text.starts_with("not resolved"), "{text}");
                assert!(text.chars().count() <= lines::OUTCOME_MAX, "{text} is cut");
            }
        }
    }
}
