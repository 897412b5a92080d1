//! The variants of one record: each curve of a variant next to the same curve of its benchmark's default case.

use super::grid::{self, bold, colored, line, rule};
use super::lines::code;
use super::{ComparisonRow, CostAt, Layout, Row, plain, wrapped};
use crate::quantity::{FormatCost, Unit, count, digits, factor};
use crate::{Analysis, Shown, VariantComparison, ends, text};
use landau_record::schema::Direction;
use landau_stats::Class;
use serde::Serialize;

/// One phase of a variant and of the default case of its benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantRow {
    /// The benchmark.
    pub benchmark: String,
    /// The settings of the variant: "linkage=static".
    pub settings: String,
    /// The settings of the default case: "default settings" if it has no other ones.
    pub base_settings: String,
    /// Whether objects are created or destroyed.
    pub direction: Direction,
    /// The unit of costs.
    pub unit: Unit,
    /// The variant's cost at large n.
    pub cost: Option<CostAt>,
    /// The default case's cost at large n.
    pub base_cost: Option<CostAt>,
    /// The class of the variant's outcome.
    pub class: Class,
    /// The variant's outcome in words.
    pub outcome: String,
    /// The outcome in one or two words.
    #[serde(skip)]
    pub outcome_word: &'static str,
    /// The default case's outcome in words.
    pub base_outcome: String,
    /// The kind of difference: "constant factor", "O(1) → O(n)", "not shown".
    pub difference: String,
    /// The comparison; `case` and `other` are the variant's label, `base` the default case's.
    #[serde(flatten)]
    pub comparison: ComparisonRow,
}

/// Returns the comparisons of the variants of one record with the default cases of their benchmarks, by benchmark and
/// phase.
pub fn variant_rows(analysis: &Analysis<'_>) -> Vec<VariantRow> {
    let curves = super::rows(analysis);
    let mut rows: Vec<VariantRow> =
        VariantComparison::all(analysis).into_iter().filter_map(|one| row(one, &curves)).collect();
    let place = |row: &VariantRow| {
        let is_base = |curve: &&Row| (&curve.case, &curve.phase) == (&row.comparison.base, &row.comparison.phase);
        curves.iter().position(|curve| is_base(&curve))
    };
    // The sort is stable, so the variants stay in the record's order.
    rows.sort_by_key(place);
    rows
}

fn row(one: VariantComparison, curves: &[Row]) -> Option<VariantRow> {
    let curve = |case: &str| curves.iter().find(|row| row.case == case && row.phase == one.phase);
    let (variant, base) = (curve(&one.variant)?, curve(&one.base)?);
    let settings = |label: &str| match label.strip_prefix(&one.benchmark).unwrap_or(label).trim() {
        "" => "default settings".to_owned(),
        settings => settings.to_owned(),
    };
    Some(VariantRow {
        settings: settings(&one.variant),
        base_settings: settings(&one.base),
        direction: variant.direction,
        unit: variant.unit,
        cost: variant.large,
        base_cost: base.large,
        class: variant.class,
        outcome: variant.text.outcome.clone(),
        outcome_word: text::outcome_word(&one.comparison.b.all),
        base_outcome: base.text.outcome.clone(),
        difference: text::law_or_constant_short(&one.comparison),
        comparison: ComparisonRow {
            winner: one.winner().map(str::to_owned),
            text: one.text(),
            shown: one.proven(),
            case: one.variant.clone(),
            phase: one.phase,
            base: one.base,
            other: one.variant,
            ratio: one.comparison.ratio,
            detectable: one.comparison.detectable,
            nature: one.comparison.nature,
            paired: true,
        },
        benchmark: one.benchmark,
    })
}

impl VariantRow {
    /// Formats the cost at large n: "210 µs"; "210 µs at 2,001" if the default case ends at another n.
    pub fn cost(&self) -> String {
        let Some(cost) = self.cost else { return "–".to_owned() };
        let is_same = self.base_cost.is_some_and(|base| ends::is_same_n(base.n, cost.n));
        let place = if is_same { String::new() } else { format!(" at {}", count(cost.n)) };
        format!("{}{place}", self.unit.bare(cost.cost.value))
    }

    /// Formats the ratio of the costs with its interval: "×0.736 (0.72–0.75)"; "no difference shown" if none is proven.
    pub fn ratio(&self) -> String {
        let Some(Shown { ratio, n, .. }) = self.comparison.shown else { return "no difference shown".to_owned() };
        let mean = if n.is_some() { "" } else { "ø " };
        if self.unit == Unit::Instructions {
            return format!("{mean}{}", factor(ratio.value));
        }
        format!("{mean}{} ({}–{})", factor(ratio.value), digits(ratio.low), digits(ratio.high))
    }

    /// Returns the kind of difference, if a difference is proven.
    pub fn difference(&self) -> &str {
        if self.comparison.shown.is_some() { &self.difference } else { "" }
    }
}

/// The maximum widths of the columns of ratios and differences, and the minimum widths of names and of differences.
const RATIO_MAX: usize = 28;
const DIFFERENCE_MAX: usize = 28;
const NAME_MIN: usize = 22;
const DIFFERENCE_MIN: usize = 12;

/// Lays out the variants, a line each below a line for the default case; nothing if there are none. Without `all`, only
/// proven differences have lines, and the others are counted.
pub fn render_variants(rows: &[VariantRow], all: bool, layout: Layout) -> String {
    let is_shown = |row: &&VariantRow| all || row.comparison.shown.is_some();
    let shown: Vec<&VariantRow> = rows.iter().filter(is_shown).collect();
    if rows.is_empty() {
        return String::new();
    }
    let unshown = match rows.len() - shown.len() {
        0 => String::new(),
        many => format!(" {many} of {} comparisons show no difference.", rows.len()),
    };
    let legend = format!(
        "Each variant is compared with the default case of its benchmark. Ratio: at the largest n, with its 95% \
         interval; ø: the mean over the common range of n.{unshown}"
    );
    let head = ["Variant", "Cost", "Ratio to default", "Outcome", "Law or constant"].map(str::to_owned);
    let lines: Vec<[String; 5]> = shown.iter().map(|row| cells(row)).collect();
    let mut widths = grid::needed(lines.iter().chain([&head]).map(|cells| &cells[..]));
    (widths[2], widths[4]) = (widths[2].min(RATIO_MAX), widths[4].min(DIFFERENCE_MAX));
    // The names get what the others leave; if that is too little, differences are shortened.
    let room =
        |widths: &[usize], own: usize| usize::from(layout.width).saturating_sub(grid::used(widths) - widths[own]);
    widths[0] = widths[0].min(room(&widths, 0).max(NAME_MIN));
    widths[4] = widths[4].min(room(&widths, 4).max(DIFFERENCE_MIN));
    let mut text = vec![bold("Variants compared", layout)];
    if !shown.is_empty() {
        text.extend([bold(&line(&head, &widths), layout), rule(&widths, layout)]);
    }
    let mut previous = None;
    for (row, cells) in shown.iter().zip(&lines) {
        let curve = (&row.benchmark, &row.comparison.phase);
        if previous != Some(curve) {
            previous = Some(curve);
            text.push(base_line(row, layout));
        }
        text.push(colored(&line(cells, &widths), code(row.class), layout));
    }
    format!("{}\n\n{}", text.join("\n"), wrapped(&legend, layout))
}

fn cells(row: &VariantRow) -> [String; 5] {
    let cells =
        [row.settings.clone(), row.cost(), row.ratio(), row.outcome_word.to_owned(), row.difference().to_owned()];
    cells.map(|text| plain(&text))
}

/// Describes the default case of the variants below: "fork · ↓ kill, default settings: 3.1 µs, flat".
fn base_line(row: &VariantRow, layout: Layout) -> String {
    let arrow = if row.direction == Direction::Down { "↓ " } else { "" };
    let cost = row.base_cost.map_or("–".to_owned(), |cost| row.unit.bare(cost.cost.value));
    let name = format!("{} · {arrow}{}", row.benchmark, row.comparison.phase);
    let rest = format!(", {}: {cost}, {}", row.base_settings, row.base_outcome);
    let room = usize::from(layout.width).saturating_sub(name.chars().count());
    format!("{}{}", bold(&plain(&name), layout), grid::cut(&plain(&rest), room))
}
