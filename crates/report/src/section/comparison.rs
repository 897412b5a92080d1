//! Several records: who wins each benchmark, and where nothing is proven.

use crate::page::{View, escape};
use crate::quantity::{Unit, percent};
use std::fmt::Write;

/// The table of winners; nothing for one record.
pub(crate) fn render(view: &View<'_>) -> String {
    let Some(versus) = view.versus else { return String::new() };
    let is_exact = view.unit() == Unit::Instructions;
    let mut rows = String::new();
    for duel in &versus.duels {
        let class = duel.winner().map_or("even".to_owned(), |winner| format!("won-{}", winner.min(5)));
        let ratio = duel.comparison.ratio.map_or("–".to_owned(), |ratio| {
            let value = percent(ratio.value);
            if is_exact { value } else { format!("{value} ({}–{})", percent(ratio.low), percent(ratio.high)) }
        });
        let winner = duel.winner().map_or("–", |winner| view.names[winner].as_str());
        let _ = writeln!(
            rows,
            "<tr class=\"{class}\"><th scope=\"row\">{} · {}</th><td>{}</td><td>{}</td><td \
             class=\"number\">{ratio}</td><td>{}</td></tr>",
            escape(&duel.label),
            escape(&duel.phase),
            escape(&view.names[duel.other]),
            escape(winner),
            escape(&duel.words(&view.names))
        );
    }
    let alone = alone(view);
    let how = if is_exact {
        "Instructions are counted exactly, so every difference is real; one of less than 2% is not called one."
    } else {
        "The pass is the unit, intervals are at 95%, and all comparisons of this page are corrected together for their \
         number (Holm)."
    };
    format!(
        "<section id=\"comparison\" aria-labelledby=\"comparison-heading\"><h2 id=\"comparison-heading\">Who {}</h2>\n\
         <p>The base is <b>{}</b>. {how}</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Comparisons\"><table><thead><tr><th scope=\"col\">Case and phase</th><th \
         scope=\"col\">Against</th>\
         <th scope=\"col\">{}</th><th scope=\"col\">Cost of the base</th><th scope=\"col\">In \
         words</th></tr></thead><tbody>\n{rows}</tbody></table></div>{alone}</section>\n",
        if is_exact { "needs fewer instructions" } else { "is faster" },
        escape(&view.names[0]),
        if is_exact { "Fewer" } else { "Faster" },
    )
}

/// What cannot be compared, because one record has it and the other has not.
fn alone(view: &View<'_>) -> String {
    let labels = |index: usize| view.sources[index].analysis.cases.iter().map(|study| study.case.label.as_str());
    let mut html = String::new();
    for index in 0..view.sources.len() {
        let others = (0..view.sources.len()).filter(|other| *other != index);
        let held: Vec<&str> = others.flat_map(labels).collect();
        let only: Vec<&str> = labels(index).filter(|label| !held.contains(label)).collect();
        if !only.is_empty() {
            let _ = writeln!(
                html,
                "<p class=\"note\">Only in {}: {}.</p>",
                escape(&view.names[index]),
                escape(&only.join(", "))
            );
        }
    }
    html
}

/// The winner of a benchmark in a sentence.
pub(crate) fn of_benchmark(view: &View<'_>, benchmark: &str) -> String {
    let Some(versus) = view.versus else { return String::new() };
    let (verb, none) = match view.unit() {
        Unit::Time => ("is faster", "no difference proven"),
        Unit::Instructions => ("needs fewer instructions", "no difference that matters"),
    };
    let mut won = vec![0usize; view.names.len()];
    let mut even = 0usize;
    for duel in versus.of_benchmark(benchmark) {
        match duel.winner() {
            Some(winner) => won[winner] += 1,
            None => even += 1,
        }
    }
    let mut parts: Vec<String> = won
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(index, count)| format!("<b>{}</b> {verb} in {count}", escape(&view.names[index])))
        .collect();
    if even > 0 {
        parts.push(format!("{none} in {even}"));
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!("<p class=\"winner\">Of its curves: {}.</p>", parts.join(", "))
    }
}
