//! Which kernel functions a case's calls spend their instructions in: a table, and a flame graph of the call chains.

use super::scrolling;
use crate::explained::{Shown, head, line, source_of, sum, words};
use crate::page::View;
use crate::quantity::{count, percent};
use crate::{CaseStudy, flame};
use landau_record::schema::Explanation;
use maud::{Markup, html};

/// Every explanation of a case; nothing if the record has none.
pub(crate) fn of_case(view: &View<'_>, study: &CaseStudy<'_>) -> Markup {
    let explanations = view.base().into_iter().flat_map(|base| &base.record.explanations);
    html! { @for explanation in explanations.filter(|one| one.case == study.case.case) { (one(study, explanation)) } }
}

fn one(study: &CaseStudy<'_>, explanation: &Explanation) -> Markup {
    let phase = &explanation.phase;
    html! {
        section.explanation {
            h5 { "Functions of " (phase) }
            p { (head(explanation, study.case)) "." }
            (scrolling(&format!("Functions of {phase}"), &table(study, explanation)))
            p.note { (sum(explanation)) "." }
            @if let Some(graph) = flame::graph(explanation) {
                figure {
                    (scrolling(&format!("Flame graph of {phase}"), &graph))
                    figcaption {
                        "Width: instructions at the largest n; callees are above their callers. Red: absent at the \
                         smallest n. Chains follow calls and returns; after a context switch they belong to the task \
                         that was switched out."
                    }
                }
            }
        } "\n"
    }
}

fn table(study: &CaseStudy<'_>, explanation: &Explanation) -> Markup {
    let shown = Shown::of(explanation);
    let (others, sums, share) = &shown.rest;
    html! {
        table {
            thead { tr {
                th scope="col" { "Function" }
                th.number scope="col" { "Share of growth" }
                @for n in &explanation.at { th.number scope="col" { "n = " (count(*n as f64)) } }
                th.number scope="col" { "Per object" }
                th.number scope="col" { "Fixed" }
                th scope="col" { "Growth" }
            } }
            tbody {
                @for function in &shown.functions {
                    @let (each, fixed) = line(function);
                    tr {
                        th scope="row" { code {
                            @match source_of(function, &explanation.source) {
                                Some(link) => { a href=(link) rel="noreferrer" { (function.name) } }
                                None => { (function.name) }
                            }
                        } }
                        td.number { (percent(function.share)) }
                        @for value in &function.instructions { td.number { (count(*value as f64)) } }
                        td.number { (each) }
                        td.number { (fixed) }
                        td { (words(function, &study.case.axis)) }
                    }
                }
                tr {
                    th scope="row" { (others) " others" }
                    td.number { (percent(*share)) }
                    @for value in sums { td.number { (count(*value as f64)) } }
                    td {} td {} td {}
                }
            }
        }
    }
}
