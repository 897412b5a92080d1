//! The variants of a benchmark in one record: each curve next to the same curve of the default case.

use super::scrolling;
use crate::page::View;
use crate::quantity::{FormatCost, Unit};
use crate::table::{CostAt, VariantRow};
use crate::text;
use landau_record::schema::Direction;
use landau_stats::Class;
use maud::{Markup, html};

const HEAD: [&str; 6] = ["Phase", "Settings", "Cost at large n", "Ratio to the default", "Outcome", "Law or constant"];

/// Renders the table of a benchmark's variants; nothing if it has none.
pub(crate) fn render(view: &View<'_>, benchmark: &str) -> Markup {
    let rows: Vec<&VariantRow> = view.variants.iter().filter(|row| row.benchmark == benchmark).collect();
    let Some(first) = rows.first() else { return html! {} };
    // The default case of a phase is listed above its variants.
    let is_first = |index: usize| index == 0 || rows[index - 1].comparison.phase != rows[index].comparison.phase;
    let table = html! {
        table.variants {
            thead { tr {
                @for name in HEAD {
                    th scope="col" { (name) }
                }
            } }
            tbody {
                @for (index, row) in rows.iter().enumerate() {
                    @if is_first(index) { (base(row, row.unit)) }
                    (variant(row))
                }
            }
        }
    };
    let interval = if first.unit == Unit::Instructions { "" } else { ", with its 95% interval" };
    html! {
        h4 { "Variants compared" }
        (scrolling(&format!("Variants of {benchmark} compared"), &table))
        p.note {
            "Ratio of the costs at the largest n" (interval) "; ø: the mean over the common range of n. The passes of \
             a round are paired, and all comparisons are corrected together (Holm)."
        }
    }
}

fn cost(unit: Unit, cost: Option<CostAt>) -> String {
    cost.map_or("–".to_owned(), |one| unit.bare(one.cost.value))
}

fn outcome(class: Class, words: &str) -> Markup {
    html! { td.(text::class_word(class)) { (words) } }
}

fn base(row: &VariantRow, unit: Unit) -> Markup {
    html! {
        tr.base {
            th scope="row" { @if row.direction == Direction::Down { "↓ " } (row.comparison.phase) }
            td { (row.base_settings) }
            td.number { (cost(unit, row.base_cost)) }
            td {} td { (row.base_outcome) } td {}
        }
    }
}

fn variant(row: &VariantRow) -> Markup {
    let is_proven = row.comparison.shown.is_some();
    html! {
        tr.quiet[!is_proven] title=(row.comparison.text) {
            th scope="row" { span.hidden { (row.comparison.phase) } }
            td { (row.settings) }
            td.number { (row.cost()) }
            td.number { (row.ratio()) }
            (outcome(row.class, &row.outcome))
            td { (row.difference()) }
        } "\n"
    }
}
