//! The table of several records: a line for each curve, a column for each record, as the page's matrix has it.

use super::{ComparisonRow, Layout, Row, frame, plain, tint};
use crate::quantity::{FormatCost, change};
use comfy_table::{Cell, Color};

/// Lays out the rows of several records, the first of which is the base. `comparisons` are those of the same records;
/// a difference that they do not prove is not stated.
pub fn render_records(rows: &[Vec<Row>], comparisons: &[ComparisonRow], names: &[String], layout: Layout) -> String {
    let header: Vec<String> = std::iter::once("Curve".to_owned()).chain(names.iter().map(|name| plain(name))).collect();
    let mut table = frame(layout, &header.iter().map(String::as_str).collect::<Vec<_>>());
    for row in rows.first().into_iter().flatten() {
        let mut cells = vec![Cell::new(plain(&format!("{} · {}", row.case, row.phase)))];
        for (one, name) in rows.iter().zip(names) {
            let found = one.iter().find(|other| other.case == row.case && other.phase == row.phase);
            let Some(found) = found else {
                cells.push(Cell::new("–"));
                continue;
            };
            let compared =
                comparisons.iter().find(|one| one.case == row.case && one.phase == row.phase && one.other == *name);
            let ratio = compared.filter(|one| one.winner.is_some()).and_then(|one| one.ratio).map(|ratio| ratio.value);
            let color = match ratio {
                Some(ratio) if ratio > 1.0 => Color::Yellow,
                Some(_) => Color::Green,
                None => Color::Reset,
            };
            cells.push(tint(&plain(&cell(found, ratio)), color, layout));
        }
        table.add_row(cells);
    }
    let base = names.first().map_or("the first record", String::as_str);
    let proven = if rows.iter().flatten().any(|row| row.unit == crate::quantity::Unit::Instructions) {
        "from 2% on"
    } else {
        "if proven at 95%"
    };
    let legend = format!(
        "Cost at the largest n; outcome; difference from {} over the common range of n, {proven}.",
        plain(base)
    );
    format!("{}\n\n{}", table.trim_fmt(), super::wrapped(&legend, layout))
}

/// Cost, sign of the outcome and difference: "9,714 — ×6.46".
fn cell(row: &Row, ratio: Option<f64>) -> String {
    let cost = row.large.map_or("–".to_owned(), |large| row.unit.bare(large.cost.value.round()));
    let parts = [cost, row.text.sign.clone(), ratio.map_or(String::new(), change), row.text.limit.clone()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
