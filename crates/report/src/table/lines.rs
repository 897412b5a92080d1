//! The table of one record: a line for each curve, its outcome first, grouped by case or sorted.

use super::grid::{self, bold, colored, cut, line, rule};
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
    /// Cliffs, growth, unresolved curves, small changes, flat curves.
    Outcome,
    /// Alphabetically.
    Name,
}

/// Selects the curves to show.
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

/// Returns the rows that match any of `only`, or all rows if it is empty, in the order of `sort`.
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

/// The maximum width of the column of outcomes and the minimum width of the names.
pub(super) const OUTCOME_MAX: usize = 36;
const NAME_MIN: usize = 14;

/// Explains the columns, after the legend.
const COLUMNS: &str = " Cost: at small n → at large n. With a cliff, growth is that before the cliff.";
/// Explains the arrow, after the legend.
const REMOVED: &str = " ↓: measured while the objects are removed.";

/// Lays out rows, a line each, and adds the legend. Grouped rows have their case in a line above them; sorted rows have
/// it in their own line.
pub fn render(rows: &[Row], unit: Unit, sort: Sort, layout: Layout) -> String {
    let is_grouped = sort == Sort::Case;
    let lines: Vec<[String; 4]> = rows.iter().map(|row| cells(row, is_grouped)).collect();
    let costs = if unit == Unit::Instructions { "Instructions" } else { "Cost" };
    let head = ["Outcome", if is_grouped { "Phase" } else { "Curve" }, costs, "Growth"].map(str::to_owned);
    let widths = widths(lines.iter().chain([&head]).map(|cells| &cells[..]), usize::from(layout.width));
    let mut text = vec![bold(&line(&head, &widths), layout), rule(&widths, layout)];
    let mut previous = "";
    for (row, cells) in rows.iter().zip(&lines) {
        if is_grouped && row.case != previous {
            previous = &row.case;
            let of_case = rows.iter().filter(|other| other.case == row.case);
            let limit = of_case.map(|row| row.text.limit.as_str()).find(|limit| !limit.is_empty());
            text.push(case_line(&row.case, limit, layout));
        }
        text.push(colored(&line(cells, &widths), code(row.class), layout));
    }
    let removed = if rows.iter().any(|row| row.direction == Direction::Down) { REMOVED } else { "" };
    format!("{}\n\n{}", text.join("\n"), wrapped(&format!("{}{COLUMNS}{removed}", text::LEGEND), layout))
}

/// Returns the outcome, name, costs and growth of a row.
fn cells(row: &Row, is_grouped: bool) -> [String; 4] {
    let arrow = if row.direction == Direction::Down { "↓ " } else { "" };
    let name =
        if is_grouped { format!("{arrow}{}", row.phase) } else { format!("{} · {arrow}{}", row.case, row.phase) };
    [row.text.outcome.clone(), name, row.text.costs.clone(), row.text.growth.clone()].map(|text| plain(&text))
}

/// Returns the widths of the columns outcome, name, costs and growth. The name gets what the others leave.
fn widths<'a>(lines: impl Iterator<Item = &'a [String]>, most: usize) -> Vec<usize> {
    let mut widths = grid::needed(lines);
    widths[0] = widths[0].min(OUTCOME_MAX);
    let room = |widths: &[usize], own: usize| most.saturating_sub(grid::used(widths) - widths[own]);
    widths[1] = widths[1].min(room(&widths, 1)).max(NAME_MIN);
    // In an even narrower terminal, the outcome is shortened, too.
    widths[0] = widths[0].min(room(&widths, 0)).max(NAME_MIN);
    widths
}

/// Returns a case's name with its limit.
fn case_line(case: &str, limit: Option<&str>, layout: Layout) -> String {
    let limit = limit.map_or(String::new(), |limit| format!("  limit: {}", plain(limit)));
    let room = usize::from(layout.width).saturating_sub(limit.chars().count() + 1);
    let name = cut(&plain(case), room);
    format!("{}{}", bold(&name, layout), if limit.is_empty() { limit } else { colored(&limit, "31", layout) })
}

/// Returns the colour of an outcome. Flat and small stay plain, so that the others stand out.
pub(super) fn code(class: Class) -> &'static str {
    match class {
        Class::Limit => "31",
        Class::Material => "36",
        Class::Unresolved => "33",
        Class::Flat | Class::Small => "",
    }
}
