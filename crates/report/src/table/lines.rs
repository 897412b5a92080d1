//! The table of one record: a line for each curve, its outcome first, grouped by case or sorted.

use super::{Layout, Row, plain, wrapped};
use crate::quantity::Unit;
use crate::text;
use landau_record::schema::Direction;
use landau_stats::Class;

/// The order of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// The record's order, grouped by case.
    #[default]
    Case,
    /// The largest change first: the factor of a cliff, or else the growth.
    Growth,
    /// The most expensive first, at the largest n.
    Cost,
    /// Cliffs, growth, what is not resolved, small changes, flat curves.
    Outcome,
    /// Alphabetically.
    Name,
}

/// Which curves are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// Those that grow, fall or vary by more than δ.
    Growing,
    /// Those that are not resolved.
    Unresolved,
    /// Those with a cliff, a limit or a crash.
    Limits,
}

impl Only {
    fn holds(self, row: &Row) -> bool {
        match self {
            Self::Growing => row.class == Class::Material,
            Self::Unresolved => row.class == Class::Unresolved,
            Self::Limits => row.class == Class::Limit || !row.text.limit.is_empty(),
        }
    }
}

/// Returns the rows of which any of `only` holds, or all rows if it is empty, in the order of `sort`.
pub fn arranged(mut rows: Vec<Row>, only: &[Only], sort: Sort) -> Vec<Row> {
    rows.retain(|row| only.is_empty() || only.iter().any(|only| only.holds(row)));
    let cost = |row: &Row| row.large.map_or(0.0, |large| large.cost.value);
    match sort {
        Sort::Case => {}
        Sort::Growth => rows.sort_by(|a, b| b.change.total_cmp(&a.change)),
        Sort::Cost => rows.sort_by(|a, b| cost(b).total_cmp(&cost(a))),
        Sort::Outcome => rows.sort_by_key(|row| text::CLASSES.iter().position(|class| *class == row.class)),
        Sort::Name => rows.sort_by(|a, b| (&a.case, &a.phase).cmp(&(&b.case, &b.phase))),
    }
    rows
}

/// The widest column of outcomes and the narrowest of names.
const OUTCOME_MAX: usize = 36;
const NAME_MIN: usize = 14;

/// Explains the columns, after the legend.
const COLUMNS: &str = " Cost: at small n → at large n. Growth beside a cliff is that before it.";
/// Explains the arrow, after the legend.
const REMOVED: &str = " ↓: measured while the objects are removed.";

/// Lays rows out, a line each, and adds the legend. Grouped rows have their case in a line above them; sorted ones in
/// their own.
pub fn render(rows: &[Row], unit: Unit, sort: Sort, layout: Layout) -> String {
    let is_grouped = sort == Sort::Case;
    let lines: Vec<[String; 4]> = rows.iter().map(|row| cells(row, is_grouped)).collect();
    let costs = if unit == Unit::Instructions { "Instructions" } else { "Cost" };
    let head = ["Outcome", if is_grouped { "Phase" } else { "Curve" }, costs, "Growth"].map(str::to_owned);
    let widths = widths(lines.iter().chain([&head]), usize::from(layout.width));
    let mut text = vec![bold(&line(&head, widths), layout), "─".repeat(used(widths).min(usize::from(layout.width)))];
    let mut previous = "";
    for (row, cells) in rows.iter().zip(&lines) {
        if is_grouped && row.case != previous {
            previous = &row.case;
            let of_case = rows.iter().filter(|other| other.case == row.case);
            let limit = of_case.map(|row| row.text.limit.as_str()).find(|limit| !limit.is_empty());
            text.push(case_line(&row.case, limit, layout));
        }
        text.push(colored(&line(cells, widths), row.class, layout));
    }
    let removed = if rows.iter().any(|row| row.direction == Direction::Down) { REMOVED } else { "" };
    format!("{}\n\n{}", text.join("\n"), wrapped(&format!("{}{COLUMNS}{removed}", text::LEGEND), layout))
}

/// Outcome, name, costs and growth of a row.
fn cells(row: &Row, is_grouped: bool) -> [String; 4] {
    let arrow = if row.direction == Direction::Down { "↓ " } else { "" };
    let name =
        if is_grouped { format!("{arrow}{}", row.phase) } else { format!("{} · {arrow}{}", row.case, row.phase) };
    [row.text.outcome.clone(), name, row.text.costs.clone(), row.text.growth.clone()].map(|text| plain(&text))
}

/// Widths of the columns: outcome, name, costs, growth. The name has what the others leave.
fn widths<'a>(lines: impl Iterator<Item = &'a [String; 4]>, most: usize) -> [usize; 4] {
    let mut widths = [0; 4];
    for cells in lines {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths[0] = widths[0].min(OUTCOME_MAX);
    let others = widths[0] + widths[2] + widths[3] + GAPS;
    widths[1] = widths[1].min(most.saturating_sub(others)).max(NAME_MIN);
    // A terminal that is narrower still cuts the outcome.
    widths[0] = widths[0].min(most.saturating_sub(widths[1] + widths[2] + widths[3] + GAPS)).max(NAME_MIN);
    widths
}

/// The indent and three gaps of two columns.
const GAPS: usize = 8;

fn used(widths: [usize; 4]) -> usize {
    widths.iter().sum::<usize>() + GAPS
}

fn line(cells: &[String; 4], widths: [usize; 4]) -> String {
    let [outcome, name, costs, growth] = cells;
    let text = format!(
        "  {:<a$}  {:<b$}  {:<c$}  {growth}",
        cut(outcome, widths[0]),
        cut(name, widths[1]),
        costs,
        a = widths[0],
        b = widths[1],
        c = widths[2]
    );
    text.trim_end().to_owned()
}

/// A text of at most `width` characters; its middle is left out, as the end of a name is its phase.
fn cut(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let tail = width.saturating_sub(1) / 2;
    let head: String = text.chars().take(width.saturating_sub(1) - tail).collect();
    let rest: String = text.chars().skip(count - tail).collect();
    format!("{head}…{rest}")
}

/// A case's name with its limit.
fn case_line(case: &str, limit: Option<&str>, layout: Layout) -> String {
    let limit = limit.map_or(String::new(), |limit| format!("  limit: {}", plain(limit)));
    let room = usize::from(layout.width).saturating_sub(limit.chars().count() + 1);
    let name = cut(&plain(case), room);
    if layout.color { format!("\u{1b}[1m{name}\u{1b}[0m\u{1b}[31m{limit}\u{1b}[0m") } else { format!("{name}{limit}") }
}

fn bold(text: &str, layout: Layout) -> String {
    if layout.color { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// A line in the colour of its outcome; flat and small stay plain, so that the others are seen.
fn colored(text: &str, class: Class, layout: Layout) -> String {
    let code = match class {
        Class::Limit => "31",
        Class::Material => "36",
        Class::Unresolved => "33",
        Class::Flat | Class::Small => return text.to_owned(),
    };
    if layout.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_name_loses_its_middle_and_keeps_its_phase() {
        assert_eq!(cut("bind family=v6 v6only=off range=40000-42001 · ↓ close", 30), "bind family=v6 …2001 · ↓ close");
        assert_eq!(cut("bind", 30), "bind");
        assert!(cut("0123456789", 5).chars().count() == 5);
    }
}
