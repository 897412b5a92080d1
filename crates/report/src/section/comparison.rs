//! Several records: which is faster in each curve, and where no difference is proven.

use super::scrolling;
use crate::PhaseComparison;
use crate::page::View;
use crate::quantity::{Unit, percent};
use maud::{Markup, html};

/// Colours for the faster record; further records share the last.
const COLOURS: usize = 6;

/// The table of comparisons; nothing for one record.
pub(crate) fn render(view: &View<'_>) -> Markup {
    let Some(comparisons) = view.comparisons else { return html! {} };
    let is_exact = view.unit() == Unit::Instructions;
    let (heading, column) =
        if is_exact { ("Fewer instructions", "Fewer") } else { ("Faster record, by curve", "Faster") };
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "Case and phase" }
                th scope="col" { "Compared with" }
                th scope="col" { (column) }
                th scope="col" { "Cost relative to the base" }
                th scope="col" { "Result" }
            } }
            tbody { @for one in &comparisons.all { (row(view, one, is_exact)) } }
        }
    };
    html! {
        section #comparison aria-labelledby="comparison-heading" {
            h2 #comparison-heading { (heading) }
            p {
                "The base is " b { (view.names[0]) } ". "
                @if is_exact {
                    "Instructions are counted exactly, so every difference is real; differences below 2% are not \
                     reported as differences."
                } @else {
                    "Passes are the replicates, intervals are at 95%, and all comparisons on this page are corrected \
                     together (Holm)."
                }
            }
            (scrolling("Comparisons", &table))
            (unmatched(view))
        } "\n"
    }
}

fn row(view: &View<'_>, one: &PhaseComparison, is_exact: bool) -> Markup {
    let class = one.winner().map_or("even".to_owned(), |winner| format!("won-{}", winner.min(COLOURS - 1)));
    let ratio = one.comparison.ratio.map_or("–".to_owned(), |ratio| {
        let value = percent(ratio.value);
        if is_exact { value } else { format!("{value} ({}–{})", percent(ratio.low), percent(ratio.high)) }
    });
    let winner = one.winner().map_or("–", |winner| view.names[winner].as_str());
    html! {
        tr class=(class) {
            th scope="row" { (one.label) " · " (one.phase) }
            td { (view.names[one.other]) }
            td { (winner) }
            td.number { (ratio) }
            td { (one.text(&view.names)) }
        }
    }
}

/// The cases that only one record has.
fn unmatched(view: &View<'_>) -> Markup {
    let labels = |index: usize| view.sources[index].analysis.cases.iter().map(|study| study.case.label.as_str());
    html! {
        @for index in 0..view.sources.len() {
            @let others: Vec<&str> = (0..view.sources.len()).filter(|other| *other != index).flat_map(labels).collect();
            @let only: Vec<&str> = labels(index).filter(|label| !others.contains(label)).collect();
            @if !only.is_empty() {
                p.note { "Only in " (view.names[index]) ": " (only.join(", ")) "." }
            }
        }
    }
}

/// A sentence: which record is faster in how many curves of a benchmark.
pub(crate) fn of_benchmark(view: &View<'_>, benchmark: &str) -> Markup {
    let Some(comparisons) = view.comparisons else { return html! {} };
    let (verb, none) = match view.unit() {
        Unit::Time | Unit::EmulatedTime => ("is faster", "no significant difference"),
        Unit::Instructions => ("needs fewer instructions", "no relevant difference"),
    };
    let winners: Vec<Option<usize>> = comparisons.of_benchmark(benchmark).map(PhaseComparison::winner).collect();
    let count = |winner: Option<usize>| winners.iter().filter(|one| **one == winner).count();
    let mut parts: Vec<Markup> = (0..view.names.len())
        .filter(|index| count(Some(*index)) > 0)
        .map(|index| html! { b { (view.names[index]) } " " (verb) " in " (count(Some(index))) })
        .collect();
    if count(None) > 0 {
        parts.push(html! { (none) " in " (count(None)) });
    }
    html! {
        @if !parts.is_empty() {
            p.winner {
                "By curve: "
                @for (place, part) in parts.iter().enumerate() { @if place > 0 { ", " } (part) }
                "."
            }
        }
    }
}
