//! The kernel functions in which a case's calls spend their instructions or their time: a table, and a flame graph of
//! the call chains.

use super::scrolling;
use crate::explained::{self, Shown, head, inclusive_share, line, link, source_of, sum, words};
use crate::page::View;
use crate::quantity::{count, duration, percent};
use crate::{CaseStudy, flame, profiled};
use landau_record::schema::{Explanation, Profile};
use maud::{Markup, html};

/// Renders every explanation of a case; nothing if the record has none.
pub(crate) fn of_case(view: &View<'_>, study: &CaseStudy<'_>) -> Markup {
    let explanations = view.base().into_iter().flat_map(|base| &base.record.explanations);
    let profiles = view.base().into_iter().flat_map(|base| &base.record.profiles);
    html! {
        @for explanation in explanations.filter(|one| one.case == study.case.case) { (one(study, explanation)) }
        @for profile in profiles.filter(|one| one.case == study.case.case) { (sampled(study, profile)) }
    }
}

fn sampled(study: &CaseStudy<'_>, profile: &Profile) -> Markup {
    let (phase, lead) = (&profile.phase, profiled::lead(profile).join(" "));
    html! {
        section.explanation {
            h5 { "Functions of " (phase) ", by samples" }
            p { (profiled::head(profile, study.case)) "." }
            @if !lead.is_empty() { p { (lead) } }
            (scrolling(&format!("Functions of {phase}, by samples"), &samples(profile)))
            p.note { (profiled::sum(profile)) "." }
            @if let Some(graph) = flame::of_samples(profile) {
                figure {
                    (scrolling(&format!("Flame graph of {phase}, by samples"), &graph))
                    figcaption {
                        "Width: time per call at large n; callees are above their callers. Red: absent at small n. \
                         Functions that the compiler inlined, or that ended in a jump to another, have no box."
                    }
                }
            }
        } "\n"
    }
}

fn samples(profile: &Profile) -> Markup {
    let shown = profiled::Shown::of(profile);
    let (others, rest, growth) = &shown.rest;
    html! {
        table {
            thead { tr {
                th scope="col" { "Function" }
                th.number scope="col" { "Share of growth" }
                th.number scope="col" { "With callees" }
                @for side in 0..2 { th.number scope="col" { (profiled::range(profile, side)) } }
                th.number scope="col" { "Growth" }
            } }
            tbody {
                @for function in &shown.functions {
                    tr {
                        th scope="row" { code {
                            @match link(&function.name, &profile.source) {
                                Some(link) => { a href=(link) rel="noreferrer" { (function.name) } }
                                None => { (function.name) }
                            }
                        } }
                        td.number { @if profile.grows() { (profiled::shares(function)) } @else { "–" } }
                        td.number { @if profile.grows() { (profiled::inclusive_share(function)) } @else { "–" } }
                        @for ns in &function.ns { td.number { (duration(*ns)) } }
                        td.number { (profiled::signed(function.growth_ns.value)) }
                    }
                }
                tr {
                    th scope="row" { (others) " others" }
                    td {} td {}
                    @for ns in rest { td.number { (duration(*ns)) } }
                    td.number { (profiled::signed(*growth)) }
                }
            }
        }
    }
}

fn one(study: &CaseStudy<'_>, explanation: &Explanation) -> Markup {
    let (phase, lead) = (&explanation.phase, explained::lead(explanation).join(" "));
    html! {
        section.explanation {
            h5 { "Functions of " (phase) }
            p { (head(explanation, study.case)) "." }
            @if !lead.is_empty() { p { (lead) } }
            (scrolling(&format!("Functions of {phase}"), &table(study, explanation)))
            p.note { (sum(explanation)) "." }
            @if let Some(graph) = flame::of_instructions(explanation) {
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
                th.number scope="col" { "With callees" }
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
                        td.number { (inclusive_share(function)) }
                        @for value in &function.instructions { td.number { (count(*value as f64)) } }
                        td.number { (each) }
                        td.number { (fixed) }
                        td { (words(function, &study.case.axis)) }
                    }
                }
                tr {
                    th scope="row" { (others) " others" }
                    td.number { (percent(*share)) }
                    td {}
                    @for value in sums { td.number { (count(*value as f64)) } }
                    td {} td {} td {}
                }
            }
        }
    }
}
