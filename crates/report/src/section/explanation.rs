//! Where the instructions of a case's calls go: functions with their share of the growth, and the chains of calls.

use crate::explained::{Shown, head, line, source_of, sum, words};
use crate::page::{View, escape};
use crate::quantity::{count, percent};
use crate::{CaseStudy, flame};
use landau_record::schema::Explanation;
use std::fmt::Write;

/// Every explanation of a case; nothing where none was asked for.
pub(crate) fn of_case(view: &View<'_>, study: &CaseStudy<'_>) -> String {
    let Some(base) = view.base() else { return String::new() };
    let own = base.record.explanations.iter().filter(|one| one.case == study.case.case);
    own.map(|explanation| one(study, explanation)).collect()
}

fn one(study: &CaseStudy<'_>, explanation: &Explanation) -> String {
    let shown = Shown::of(explanation);
    let mut rows = String::new();
    for function in &shown.functions {
        let name = escape(&function.name);
        let name = match source_of(function, &explanation.source) {
            Some(link) => format!("<a href=\"{}\" rel=\"noreferrer\">{name}</a>", escape(&link)),
            None => name,
        };
        let (each, fixed) = line(function);
        let numbers: String = function.instructions.iter().map(|value| cell(&count(*value as f64))).collect();
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\"><code>{name}</code></th>{}{numbers}{}{}<td>{}</td></tr>",
            cell(&percent(function.share)),
            cell(&each),
            cell(&fixed),
            escape(&words(function, &study.case.axis))
        );
    }
    let (others, sums, share) = &shown.rest;
    let numbers: String = sums.iter().map(|value| cell(&count(*value as f64))).collect();
    let _ = writeln!(
        rows,
        "<tr><th scope=\"row\">{others} others</th>{}{numbers}<td></td><td></td><td></td></tr>",
        cell(&percent(*share))
    );
    let sizes: String = explanation
        .at
        .iter()
        .map(|n| format!("<th scope=\"col\" class=\"number\">n = {}</th>", count(*n as f64)))
        .collect();
    let phase = escape(&explanation.phase);
    let graph = flame::graph(explanation).map_or(String::new(), |svg| {
        format!(
            "<figure><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Flame graph of {phase}\">{svg}\
             </div><figcaption>Width: instructions at the largest size, a function on its caller. Red: not there at \
             the smallest size. Chains are followed by calls and returns; behind a switch to another task they are \
             those of the task that was left.</figcaption></figure>\n"
        )
    });
    format!(
        "<section class=\"explanation\"><h4>Where {phase} spends its instructions</h4>\n<p>{}.</p>\n<div \
         class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Functions of {phase}\"><table><thead><tr><th \
         scope=\"col\">Function</th><th scope=\"col\" class=\"number\">Share of the growth</th>{sizes}<th \
         scope=\"col\" class=\"number\">Each</th><th scope=\"col\" class=\"number\">Fixed</th><th scope=\"col\">In \
         words</th></tr></thead><tbody>\n{rows}</tbody></table></div>\n<p class=\"note\">{}.</p>\n{graph}</section>\n",
        escape(&head(explanation, study.case)),
        escape(&sum(explanation))
    )
}

fn cell(text: &str) -> String {
    format!("<td class=\"number\">{}</td>", escape(text))
}
