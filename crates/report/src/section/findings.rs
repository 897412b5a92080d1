//! The findings: the leading ones, each with its picture and its meaning; the others folded.

use super::histogram::Histogram;
use super::thumbnail;
use crate::findings::{self, Finding, Kind, across, leading};
use crate::page::View;
use crate::quantity::numbered;
use crate::{Analysis, CaseStudy, PhaseStudy};
use maud::{Markup, html};

/// Maximum number of curves named under a leading finding; the others are counted.
const ITEMS_MAX: usize = 3;

/// Renders the findings of one record, or those across several.
pub(crate) fn render(view: &View<'_>) -> Markup {
    let analyses: Vec<&Analysis<'_>> = view.sources.iter().map(|source| &source.analysis).collect();
    let (found, led) = match (view.comparisons, analyses.as_slice()) {
        (Some(comparisons), analyses) => across(analyses, comparisons, &view.names),
        (None, [one, ..]) => {
            let found = findings::of(one);
            let led = leading(&found);
            (found, led)
        }
        (None, []) => (Vec::new(), 0),
    };
    let (lead, rest) = found.split_at(led);
    html! {
        section #findings.findings aria-labelledby="findings-heading" {
            h2 #findings-heading { "Findings" }
            ol.lead-findings { @for finding in lead { (leader(view, finding)) } }
            (more(view, view.base(), &format!("{} more", rest.len()), rest))
            @if view.comparisons.is_some() {
                @for (analysis, name) in analyses.iter().zip(&view.names) {
                    @let own = findings::of(analysis);
                    @let number = numbered(own.len(), "finding", "findings");
                    (more(view, Some(*analysis), &format!("{number} of {name} alone"), &own))
                }
            }
        } "\n"
    }
}

/// Renders findings that are folded at first, below their summary; nothing if there are none.
fn more(view: &View<'_>, analysis: Option<&Analysis<'_>>, summary: &str, found: &[Finding]) -> Markup {
    html! {
        @if !found.is_empty() {
            details.more {
                summary { (summary) }
                ul { @for finding in found { (follower(view, analysis, finding)) } }
            }
        }
    }
}

/// Returns the curve that a finding is about.
fn place<'a>(
    analysis: Option<&'a Analysis<'_>>,
    finding: &Finding,
) -> Option<(&'a CaseStudy<'a>, Option<&'a PhaseStudy<'a>>)> {
    let study = analysis?.cases.iter().find(|study| Some(study.case.case) == finding.case)?;
    Some((study, study.phases.iter().find(|phase| Some(&phase.phase.name) == finding.phase.as_ref())))
}

fn leader(view: &View<'_>, finding: &Finding) -> Markup {
    let place = place(view.base(), finding);
    let (named, rest) = finding.items.split_at(finding.items.len().min(ITEMS_MAX));
    html! {
        li.finding.(class(finding)) {
            span.kind { (finding.kind.name()) }
            div.text {
                p { (finding.text) }
                @if !finding.consequence.is_empty() { p.consequence { (with_code(&finding.consequence)) } }
                @if finding.kind.is_gathered() {
                    p.also { (findings::curves(finding.items.len())) "." }
                } @else if !named.is_empty() {
                    p.also {
                        @if finding.text.ends_with('.') { "Also: " }
                        (named.join(", "))
                        @if !rest.is_empty() { ", and " (rest.len()) " more" }
                        "."
                    }
                }
                @if let Some((study, _)) = place { (link(&study.case.label, study)) }
            }
            @if let Some((study, Some(phase))) = place {
                (picture(view, finding, study, phase))
            }
        } "\n"
    }
}

/// Renders a text in which commands are between backticks.
fn with_code(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn follower(view: &View<'_>, analysis: Option<&Analysis<'_>>, finding: &Finding) -> Markup {
    // The details are those of the base, whose case numbers may differ.
    let label = place(analysis, finding).map(|(study, _)| study.case.label.as_str());
    let study = view.base().and_then(|base| base.cases.iter().find(|study| Some(study.case.label.as_str()) == label));
    html! {
        li.finding.(class(finding)) {
            span.kind { (finding.kind.name()) }
            div.text {
                (finding.sentence())
                @if let Some(study) = study { " " (link(&study.case.label, study)) }
            }
        } "\n"
    }
}

fn link(name: &str, study: &CaseStudy<'_>) -> Markup {
    html! { a.more-link href={ "#case-" (study.case.case) } { "Details of " (name) } }
}

/// Renders the curve of a finding. For a change, it shows both curves, with those of the other records as thin lines.
fn picture(view: &View<'_>, finding: &Finding, study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> Markup {
    let axis = &study.case.axis;
    if let Some(histogram) = Histogram::of(phase).filter(|_| finding.kind == Kind::Bimodal) {
        return histogram.drawing();
    }
    if view.sources.len() == 1 {
        return thumbnail::picture(phase, axis);
    }
    let same = |index: usize| {
        let case = view.sources[index].analysis.cases.iter().find(|other| other.case.label == study.case.label)?;
        case.phases.iter().find(|other| other.phase.name == phase.phase.name)
    };
    let lines = (0..view.sources.len()).filter_map(|index| {
        let is_strong = finding.between.is_none_or(|between| between.contains(&index));
        Some(thumbnail::Line { name: &view.names[index], phase: same(index)?, is_strong })
    });
    thumbnail::compared(&lines.collect::<Vec<_>>(), axis)
}

fn class(finding: &Finding) -> String {
    finding.kind.name().replace(' ', "-")
}
