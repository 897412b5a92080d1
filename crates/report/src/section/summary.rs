//! The head of the page: what was measured where, and the findings in plain sentences.

use super::contents::spark;
use crate::findings::{self, Finding};
use crate::page::{View, escape};
use crate::quantity::{bytes, count};
use landau_record::schema::Unit;

/// Findings that are shown at once; the others unfold.
const SHOWN: usize = 10;

/// The heading where the user gave none.
pub(crate) fn title(view: &View<'_>) -> String {
    match (view.sources.len(), view.base()) {
        (1, Some(analysis)) => {
            let host = &analysis.record.host;
            let cost = if analysis.record.unit() == Unit::Instructions {
                "calls cost, in instructions,"
            } else {
                "calls cost"
            };
            format!("What {cost} on {} {} as things pile up", host.system, host.release)
        }
        (records, _) => format!("{records} records against each other: what calls cost as things pile up"),
    }
}

/// The head.
pub(crate) fn render(view: &View<'_>, title: &str) -> String {
    let lead: String = view.base().map(|_| lead(view)).unwrap_or_default();
    let blocks: String = (0..view.sources.len()).map(|index| list(view, index)).collect();
    let what = what_it_counts(view);
    format!(
        "<header class=\"head\">\n<div class=\"brand\"><span class=\"mark\" aria-hidden=\"true\">O</span> \
         Landau</div>\n\
         <div class=\"controls\" role=\"group\" aria-label=\"Page\">\
         <button type=\"button\" id=\"theme\" aria-label=\"Switch between light and dark\">Dark</button></div>\n\
         <h1>{title}</h1>\n{lead}\n{what}<noscript><p class=\"warning\">The charts and the tables of their points need \
         JavaScript; the sentences and verdicts do not.</p></noscript>\n\
         <p id=\"keys\" hidden>Arrow keys read the values, plus, minus and 0 zoom; the verdict stands above and a \
         table of the \
         points follows.</p></header>\n<section id=\"findings\" class=\"findings\" \
         aria-labelledby=\"findings-heading\">\n\
         <h2 id=\"findings-heading\">What was found</h2>\n{blocks}</section>"
    )
}

/// What the figures are not, where they are no time.
fn what_it_counts(view: &View<'_>) -> String {
    let Some(base) = view.base() else { return String::new() };
    let text = match base.record.unit() {
        Unit::Ns => return String::new(),
        Unit::Instructions => {
            "<b>Every cost here is a number of instructions, counted exactly by an emulator, and no time.</b> It shows \
             how long the path through the kernel is and how it grows, to the instruction and alike on every host. It \
             shows no cache miss, no page walk, no contention and no second processor; an instruction may take a \
             fraction of a nanosecond or hundreds of them. Who has fewer instructions need not be faster."
        }
        Unit::EmulatedNs => {
            "<b>No timing.</b> An emulator measured this by its own clock. The figures say that the calls work and \
             where limits are, not what anything costs; compare them with nothing."
        }
    };
    format!("<p class=\"note unit\">{text}</p>\n")
}

fn lead(view: &View<'_>) -> String {
    let lines = view.sources.iter().zip(&view.names).map(|(source, name)| {
        let (analysis, record) = (&source.analysis, source.analysis.record);
        let host = &record.host;
        let who = if view.sources.len() > 1 { format!("<b>{}</b>: ", escape(name)) } else { String::new() };
        let facts = format!(
            "{}, {} processor{}, {} of memory{}",
            host.processor,
            host.processor_count,
            if host.processor_count == 1 { "" } else { "s" },
            bytes(host.memory_bytes),
            if matches!(host.virtualization.as_str(), "" | "none") {
                String::new()
            } else {
                format!(", as a guest ({})", host.virtualization)
            }
        );
        let day = record.header.started.split('T').next().unwrap_or_default();
        let amount = format!(
            "{} calls in {} passes, each a fresh process, {day}",
            count(analysis.call_count() as f64),
            count(record.passes.len() as f64)
        );
        format!("<p class=\"lead\">{who}{}.<br>{}.</p>", escape(&facts), escape(&amount))
    });
    lines.collect()
}

fn list(view: &View<'_>, index: usize) -> String {
    let analysis = &view.sources[index].analysis;
    let found = findings::of(analysis);
    let heading =
        if view.sources.len() > 1 { format!("<h3>{}</h3>", escape(&view.names[index])) } else { String::new() };
    let item = |finding: &Finding| {
        let study = finding.case.and_then(|case| analysis.cases.iter().find(|study| study.case.case == case));
        let line = study.filter(|_| index == 0).map(spark).unwrap_or_default();
        let link = match study {
            Some(study) if index == 0 => {
                format!(
                    " <a href=\"#case-{}\" aria-label=\"to the curve of {}\">curve</a>",
                    study.case.case,
                    escape(&study.case.label)
                )
            }
            _ => String::new(),
        };
        let class = finding.kind.name().replace(' ', "-");
        format!(
            "<li class=\"finding {class}\"><span class=\"kind\">{}</span><span \
             class=\"text\">{}{link}</span>{line}</li>\n",
            finding.kind.name(),
            escape(&finding.text)
        )
    };
    let shown: String = found.iter().take(SHOWN).map(item).collect();
    let rest: String = found.iter().skip(SHOWN).map(item).collect();
    let rest = match found.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(
            "<details class=\"more\"><summary>{more} more</summary><ol start=\"{}\">{rest}</ol></details>",
            SHOWN + 1
        ),
    };
    format!("{heading}<ol>{shown}</ol>{rest}\n")
}
