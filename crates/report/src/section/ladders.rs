//! The confounder ladders of several records side by side; which step removes most can depend on the kernel.

use super::ladder::{axis, phase, points};
use super::scrolling;
use super::study_2001::drawing::{Across, Curve, Scale, legend, lines};
use crate::Analysis;
use crate::ladder::records::{self, Ladders, OfRecord};
use crate::ladder::{BENCHMARK, PHASE};
use crate::page::View;
use crate::quantity::count;
use maud::{Markup, html};

/// Renders the ladders, if at least two records have one; otherwise nothing.
pub(crate) fn render(view: &View<'_>, benchmark: &str) -> Markup {
    let analyses: Vec<&Analysis<'_>> = view.sources.iter().map(|source| &source.analysis).collect();
    let found = (benchmark == BENCHMARK).then(|| records::of(&analyses, &view.names)).flatten();
    let Some(ladders) = found else { return html! {} };
    html! {
        h4 { "Confounder ladders side by side" }
        p.words {
            "Each step changes one setting of the test and nothing about the child that is timed, so what it removes \
             was never the cost of that child. All columns are among " (count(f64::from(ladders.sleepers)))
            " sleepers, the most that every record reached."
        }
        (scrolling("Confounder ladders of the records", &table(&ladders)))
        p.note {
            "Mean of the passes, with its 95% interval where there is more than one and they differ. Removed: less \
             than the step before, paired by round."
        }
        ul { @for sentence in ladders.sentences() { li { (sentence) } } }
        (charts(view, &ladders))
    }
}

fn table(ladders: &Ladders) -> Markup {
    html! {
        table.ladder.several {
            thead { tr {
                th scope="col" { "Step" }
                @for one in &ladders.records { th scope="col" { (one.name) } }
            } }
            @for group in ladders.groups() {
                tbody {
                    tr { th scope="rowgroup" colspan=(ladders.records.len() + 1) { (group.name) } }
                    @for (name, cells) in &group.rows {
                        tr {
                            th scope="row" { (name) }
                            @for cell in cells { td.number { (cell) } }
                        } "\n"
                    }
                }
            }
        }
    }
}

/// Renders a chart for each step, with a curve for each record.
fn charts(view: &View<'_>, ladders: &Ladders) -> Markup {
    let curve = |one: &OfRecord, step: usize| {
        let source = view.sources.get(one.index)?;
        let phase = phase(&source.analysis, &one.ladder.steps.get(step)?.case, PHASE)?;
        Some(Curve { name: one.name.clone(), points: points(phase) })
    };
    let of_step = |step: usize| ladders.records.iter().filter_map(|one| curve(one, step)).collect::<Vec<_>>();
    let steps = ladders.records.first().map_or(&[][..], |one| &one.ladder.steps);
    let scale = || Scale::Linear(axis(ladders.unit));
    let drawn: Vec<(Markup, Vec<Curve>)> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| (of_step(index), &step.name))
        .map(|(curves, name)| (lines(name, Across::linear("sleeping processes"), &curves, &scale(), &[]), curves))
        .collect();
    html! {
        figure.chart.ladders {
            figcaption {
                strong { "Each step in every record" }
                " "
                span.words { "A chart for each step, from the naive test to the sound one; a curve for each record." }
            }
            @for pair in drawn.chunks(2) {
                div.pair.even { @for (drawing, _) in pair { (drawing) } }
            }
            @if let Some((_, curves)) = drawn.first() { p.note { (legend(curves)) } }
        } "\n"
    }
}
