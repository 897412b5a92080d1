//! The rows of `landau show`: one for each phase of each case, in words that need no statistics.
//!
//! [`rows`] and [`duels`] give plain data (serialised as it is for `--json`); [`render`] and [`render_duels`] lay it
//! out for a terminal of a given width.

use crate::quantity::{Unit, count, digits, factor, percent};
use crate::{Analysis, CaseStudy, PhaseStudy, Versus};
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table};
use landau_record::schema::Direction;
use landau_stats::{Estimate, Judgement, Outcome, Reason, Rhythm, RhythmKind};
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
    /// The same in so few words that it fits a cell: "O(1) ±10%", "unclear: passes differ (5 more)".
    pub law_brief: String,
    /// Cost of the top over the bottom of the judged range with its 90% interval: "×1.29 (1.2–1.41)".
    pub change: String,
    /// Where the system refused; empty if it did not.
    pub limit: String,
    /// Cliffs and single dear calls; empty if there are none.
    pub surprises: String,
    /// Of the single dear calls those that matter: at powers of two, of 0.1 ms and more, or a fiftieth of the time.
    pub dear: String,
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
            place.map_or("–".to_owned(), |(n, cost)| format!("{} at {}", judged.unit.cost(cost.value), count(n)))
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
            law_brief: law_brief(judged),
            change: judged.growth.map_or(String::new(), |growth| match judged.unit {
                Unit::Instructions if growth.low.to_bits() == growth.high.to_bits() => factor(growth.value),
                _ => format!("{} ({}–{})", factor(growth.value), digits(growth.low), digits(growth.high)),
            }),
            limit: crashed(study, phase)
                .or_else(|| limit.map(|met| format!("{} at {}", met.limit.error, met.at())))
                .unwrap_or_default(),
            surprises: surprises(phase),
            dear: dear(phase),
            first_ns: first,
            last_ns: last,
            symbol: symbol(judged),
            growth: judged.growth,
        }
    }
}

/// Where the kernel stopped under a case: "panic at 2,031".
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

/// Whether a cost grows or falls, where its ratio's interval says so.
pub(crate) fn verb(judged: &Judgement) -> &'static str {
    match (&judged.outcome, judged.growth) {
        (Outcome::Grows { .. }, _) => "grows",
        (Outcome::Shrinks, _) => "falls",
        // What is counted has no interval: ends that differ by less than a fiftieth are alike.
        (_, Some(growth)) if judged.unit == Unit::Instructions && growth.value.ln().abs() < 0.02 => "changes",
        (_, Some(growth)) if growth.low > 1.0 => "grows",
        (_, Some(growth)) if growth.high < 1.0 => "falls",
        _ => "changes",
    }
}

/// The law for a cell.
fn law_brief(judged: &Judgement) -> String {
    let head = match &judged.outcome {
        Outcome::Constant { within } if *within == 0.0 => "O(1) exactly".to_owned(),
        Outcome::Constant { within } => format!("O(1) ±{}", percent(*within)),
        Outcome::Grows { .. } => {
            let tight = |symbol: &str| symbol.replace(" − ", "−").replace(", one step", " with one step");
            let named = symbol(judged).map_or(String::new(), |symbol| tight(&symbol));
            match judged.rivals.as_slice() {
                [] if judged.unit == Unit::Instructions => format!("{named}{}", each(judged)),
                [] => named,
                [one] => format!("{named} or {}", tight(&one.symbol)),
                several => format!("{named} or {} others", several.len()),
            }
        }
        Outcome::NoSimpleLaw => format!("{}, no simple law", verb(judged)),
        Outcome::Shrinks => "falls".to_owned(),
        Outcome::Inconclusive { reason, more_passes } => {
            let why = match reason {
                Reason::Canary => "canary moved",
                Reason::TooNoisy => "passes differ",
                Reason::Strays => "a point strays",
                Reason::TooFewPasses => "one pass alone",
                Reason::TooFewPoints => "too few calls",
            };
            let more = more_passes.map_or(String::new(), |passes| format!(" ({passes} more)"));
            format!("unclear: {why}{more}")
        }
    };
    match judged.cliffs.first() {
        Some(cliff) => {
            format!("{head}, then cliff {} at {}", factor(cliff.factor_over_start), count(cliff.n.value))
        }
        None => head,
    }
}

/// What an object more costs, where that is one figure: ", 337 each"; or two: ", 45 to 180 each".
fn each(judged: &Judgement) -> String {
    let fit = judged.fit.as_ref().filter(|fit| ["linear", "knee", "tiers"].contains(&&*fit.law));
    let Some((fit, slope)) = fit.and_then(|fit| Some((fit, fit.slope?.value))) else { return String::new() };
    let first = judged.unit.bare(slope);
    match fit.ratio {
        Some(ratio) => format!(", {first} to {} each", judged.unit.bare(slope * ratio)),
        None => format!(", {first} each"),
    }
}

/// From here on a single call is worth a cell, in nanoseconds.
const DEAR_NS: u64 = 100_000;
/// So is what takes that share of the time.
const DEAR_SHARE: f64 = 0.02;

fn dear(phase: &PhaseStudy<'_>) -> String {
    let outliers = &phase.verdict.outliers;
    let is_first = |rhythm: &&Rhythm| rhythm.kind == RhythmKind::FirstCalls;
    let matters = |rhythm: &&Rhythm| {
        matches!(rhythm.kind, RhythmKind::PowersOfTwo { .. })
            || phase.verdict.all.unit == Unit::Instructions
            || rhythm.ns_max >= DEAR_NS
            || outliers.structural_time >= DEAR_SHARE
    };
    let words: Vec<&str> = if outliers.rhythms.iter().all(|rhythm| is_first(&rhythm)) {
        let highest = outliers.structural.iter().map(|call| call.ns_max).max().unwrap_or(0);
        let held = highest >= DEAR_NS || outliers.structural_time >= DEAR_SHARE;
        outliers.words.split("; ").filter(|words| held && !words.starts_with("the first calls")).collect()
    } else {
        let told = outliers.rhythms.iter().filter(|rhythm| !is_first(rhythm)).filter(matters);
        let most = if phase.verdict.all.unit == Unit::Instructions { 2 } else { usize::MAX };
        told.take(most).map(|rhythm| rhythm.words.as_str()).collect()
    };
    let bare = words.iter().map(|words| words.trim_start_matches("single calls of "));
    bare.collect::<Vec<_>>().join("; ").replace("(n + ", "(n+").replace("(n − ", "(n−")
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

/// The mark of a line whose place a case's name takes; nothing that comes out of a record holds a control letter.
const NAME: char = '\u{1}';
/// From this width on the figures stand in one line each.
const ROOMY: u16 = 96;

/// Lays rows out: the name of each case with its limit, and below it a line for each phase.
pub fn render(rows: &[Row], unit: Unit, layout: Layout) -> String {
    let header = match unit {
        Unit::Time => ["Phase", "Cost with few", "Cost with many", "Law", "Growth (90%)", "Single dear calls"],
        Unit::Instructions => {
            ["Phase", "Instructions, few", "Instructions, many", "Law", "Growth", "Single dear calls (instructions)"]
        }
    };
    // The head of the column has said it.
    let bare = |text: &str| text.replace(" instructions", "");
    let mut table = frame(layout, &header);
    let mut names: Vec<String> = Vec::new();
    let mut previous = "";
    for row in rows {
        if row.case != previous {
            previous = &row.case;
            let limit = rows.iter().find(|other| other.case == row.case && !other.limit.is_empty());
            names.push(case_line(&row.case, limit.map(|row| row.limit.as_str()), layout));
            table.add_row(vec![Cell::new(NAME)]);
        }
        let arrow = if row.direction == Direction::Down { "↓ " } else { "" };
        let color = match row.symbol.as_deref() {
            Some("O(1)") => Color::Green,
            Some(_) => Color::Yellow,
            None => Color::Reset,
        };
        table.add_row(vec![
            Cell::new(format!("  {arrow}{}", plain(&row.phase))),
            Cell::new(bare(&row.first)),
            Cell::new(bare(&row.last)),
            tint(&plain(&row.law_brief), color, layout),
            Cell::new(&row.change),
            tint(&plain(&bare(&row.dear)), Color::Red, layout),
        ]);
    }
    if layout.width >= ROOMY {
        for column in [0, 1, 2, 4] {
            if let Some(column) = table.column_mut(column) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
    }
    let mut names = names.into_iter();
    let text = table.trim_fmt();
    let lines =
        text.lines().map(|line| if line.contains(NAME) { names.next().unwrap_or_default() } else { line.into() });
    lines.collect::<Vec<String>>().join("\n")
}

/// A case's name and where the system refused it.
fn case_line(case: &str, limit: Option<&str>, layout: Layout) -> String {
    let limit = limit.map_or(String::new(), |limit| format!("  limit: {}", plain(limit)));
    let room = usize::from(layout.width).saturating_sub(limit.chars().count() + 1);
    let name: String = plain(case).chars().take(room).collect();
    if layout.color {
        format!(" \u{1b}[1m{name}\u{1b}[0m\u{1b}[31m{limit}\u{1b}[0m")
    } else {
        format!(" {name}{limit}")
    }
}

/// Several records side by side, a line for each phase: the cost at the largest n that all have reached, the law, and
/// which record has the least of it. `rows` are those of each record.
pub fn render_side_by_side(rows: &[Vec<Row>], names: &[String], layout: Layout) -> String {
    let mut header = vec!["Case and phase"];
    header.extend(names.iter().map(String::as_str));
    header.push("Fewest");
    let mut table = frame(layout, &header);
    for row in rows.first().into_iter().flatten() {
        let same = |other: &&Row| other.case == row.case && other.phase == row.phase;
        let found: Vec<Option<&Row>> = rows.iter().map(|one| one.iter().find(same)).collect();
        let cost = |row: Option<&Row>| row.and_then(|row| row.last_ns.map(|last| last.1.value));
        let lowest = found.iter().copied().filter_map(cost).fold(f64::MAX, f64::min);
        let highest = found.iter().copied().filter_map(cost).fold(0.0, f64::max);
        // Less than a fiftieth is another compiler's, not another algorithm's.
        let differs = highest > lowest * 1.02;
        let winner = found.iter().position(|row| differs && cost(*row).is_some_and(|cost| cost <= lowest));
        let mut cells = vec![bold(&plain(&format!("{} {}", row.case, row.phase)), layout)];
        for (index, row) in found.iter().enumerate() {
            let text = row.map_or("–".to_owned(), |row| {
                let end = if row.limit.is_empty() { String::new() } else { format!(" ({})", row.limit) };
                format!("{}{end} {}", row.last.replace(" instructions", ""), row.law_brief)
            });
            let color = if winner == Some(index) { Color::Green } else { Color::Reset };
            cells.push(tint(&plain(&text), color, layout));
        }
        let least = winner.and_then(|winner| names.get(winner)).map_or("alike", String::as_str);
        cells.push(Cell::new(plain(least)));
        table.add_row(cells);
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
