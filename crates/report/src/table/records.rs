//! The table of several records: a line for each curve, a column for each record, as in the matrix of the page.

use super::grid::{self, bold, colored, line, rule};
use super::{ComparisonRow, Layout, Row, plain, wrapped};
use crate::quantity::{FormatCost, Unit};
use crate::text;
use landau_record::schema::Direction;

/// The minimum widths of the column of names and of a record's column. A record's name is shortened to the width of its
/// cells, or to this.
const NAME_MIN: usize = 24;
const RECORD_MIN: usize = 12;

/// A record with its rows and its index in the table.
struct Column<'a> {
    name: &'a str,
    rows: &'a [Row],
}

/// Lays out the rows of several records, the first of which is the base. `rows` are all rows of each record; `shown`
/// are those of the base that have a line, in this order. `comparisons` are those of the same records; a difference
/// that they do not prove is not stated. Records that do not fit side by side follow below, each time next to the base.
pub fn render_records(
    rows: &[Vec<Row>],
    shown: &[Row],
    comparisons: &[ComparisonRow],
    names: &[String],
    layout: Layout,
) -> String {
    let columns = rows.iter().zip(names).map(|(rows, name)| Column { name, rows });
    let columns: Vec<Column<'_>> = columns.collect();
    let Some((base, others)) = columns.split_first() else { return String::new() };
    let lines = |columns: &[&Column<'_>]| lines(base, shown, columns, comparisons);
    let mut texts = Vec::new();
    let mut from = 0;
    while from < others.len() || texts.is_empty() {
        // As many records as fit, but at least one.
        let with = |count: usize| std::iter::once(base).chain(&others[from..from + count]).collect::<Vec<_>>();
        let fits = |count: &usize| grid::used(&widths(&lines(&with(*count)), layout)) <= usize::from(layout.width);
        let left = others.len() - from;
        let count = (1..=left).rev().find(fits).unwrap_or(left.min(1));
        let body = lines(&with(count));
        texts.push(table(&body, &widths(&body, layout), layout));
        from += count.max(1);
    }
    let is_exact = base.rows.iter().any(|row| row.unit == Unit::Instructions);
    let proven = if is_exact { "from 2% on" } else { "if proven at 95%" };
    let (limits, lacking) = (limits(&columns), lacking(base, others));
    let legend = format!(
        "{limits}{lacking}Outcome; cost at the largest n; difference from {}, {proven}; ø: the mean over the common \
         range of n. {}.",
        plain(base.name),
        text::SIGNS.map(|(sign, words)| format!("{sign} {words}")).join(", ")
    );
    format!("{}\n\n{}", texts.join("\n\n"), wrapped(&legend, layout))
}

/// Returns the head, and a line for each row to show, with its colour code.
fn lines(
    base: &Column<'_>,
    shown: &[Row],
    columns: &[&Column<'_>],
    comparisons: &[ComparisonRow],
) -> Vec<(Vec<String>, &'static str)> {
    let head = std::iter::once("Curve".to_owned()).chain(columns.iter().map(|column| plain(column.name)));
    let mut lines = vec![(head.collect(), "")];
    for row in shown {
        let arrow = if row.direction == Direction::Down { "↓ " } else { "" };
        let mut cells = vec![plain(&format!("{} · {arrow}{}", row.case, row.phase))];
        let mut color = "";
        for column in columns {
            let is_it = |other: &&Row| other.case == row.case && other.phase == row.phase;
            let Some(found) = column.rows.iter().find(is_it) else {
                cells.push("–".to_owned());
                continue;
            };
            let of_pair = |one: &&ComparisonRow| {
                one.case == row.case && one.phase == row.phase && one.other == *column.name && one.base == *base.name
            };
            let shown = comparisons.iter().find(of_pair).and_then(|one| one.shown);
            if let Some(shown) = shown.filter(|shown| !shown.is_opposite) {
                color = if shown.ratio.value > 1.0 { "33" } else { "32" };
            }
            let cost = found.large.map_or("–".to_owned(), |large| found.unit.bare(large.cost.value));
            let ratio = shown.map_or(String::new(), |shown| format!(" {}", text::ratio(shown)));
            cells.push(plain(&format!("{} {cost}{ratio}", found.text.sign)));
        }
        lines.push((cells, color));
    }
    lines
}

/// Returns the widths of the columns: the records get what their cells need, and the names get the rest.
fn widths(lines: &[(Vec<String>, &str)], layout: Layout) -> Vec<usize> {
    let heads = lines.first().map_or(&[][..], |(head, _)| head);
    let mut widths = grid::needed(lines.iter().skip(1).map(|(cells, _)| cells.as_slice()));
    widths.resize(heads.len(), 0);
    for (width, head) in widths.iter_mut().zip(heads).skip(1) {
        *width = (*width).max(head.chars().count().min(RECORD_MIN));
    }
    let others = grid::used(&widths) - widths[0];
    widths[0] = widths[0].min(usize::from(layout.width).saturating_sub(others)).max(NAME_MIN);
    widths
}

fn table(lines: &[(Vec<String>, &str)], widths: &[usize], layout: Layout) -> String {
    let Some(((head, _), body)) = lines.split_first() else { return String::new() };
    let body = body.iter().map(|(cells, color)| colored(&line(cells, widths), color, layout));
    [bold(&line(head, widths), layout), rule(widths, layout)].into_iter().chain(body).collect::<Vec<_>>().join("\n")
}

/// Lists the cases that other records have and the base lacks, which have no line. Empty if there are none.
fn lacking(base: &Column<'_>, others: &[Column<'_>]) -> String {
    let of_column = |column: &Column<'_>| {
        let is_new = |row: &&Row| !base.rows.iter().any(|own| own.case == row.case);
        let mut cases: Vec<&str> = column.rows.iter().filter(is_new).map(|row| row.case.as_str()).collect();
        cases.dedup();
        let [base, name, cases] = [base.name, column.name, &cases.join(", ")].map(plain);
        (!cases.is_empty()).then(|| format!("Not in {base}, so in no line: {name} has {cases}. "))
    };
    others.iter().filter_map(of_column).collect()
}

/// Lists where calls failed, with the records: "Limits: bind: EADDRINUSE at 28,232 (old, new). ". Empty if no calls
/// failed.
fn limits(columns: &[Column<'_>]) -> String {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for column in columns {
        for row in column.rows.iter().filter(|row| !row.text.limit.is_empty()) {
            let text = format!("{}: {}", plain(&row.case), plain(&row.text.limit));
            match found.iter_mut().find(|(other, _)| *other == text) {
                Some((_, records)) if records.contains(&column.name) => {}
                Some((_, records)) => records.push(column.name),
                None => found.push((text, vec![column.name])),
            }
        }
    }
    let texts: Vec<String> =
        found.iter().map(|(text, names)| format!("{text} ({})", plain(&names.join(", ")))).collect();
    if texts.is_empty() { String::new() } else { format!("Limits: {}. ", texts.join("; ")) }
}
