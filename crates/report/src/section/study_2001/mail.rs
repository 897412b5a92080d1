//! The mail engine of 2001 redrawn: its published figures as bars, next to the throughput measured now.
//!
//! Rothman and Buckman published their chart as an image, without values in the text; only the ratios in the article
//! are known. So the bars are relative to the fastest system of 2001, and the new curve has a separate axis. Nothing
//! relates the two axes in recipients per second.

use super::drawing::{Bar, LETTERS, Mark, Scale, bars, legend, lines};
use super::{Figure, Measured, curves, others, published_table, rates};
use crate::CaseStudy;
use crate::page::View;
use crate::quantity::{count, digits};
use maud::{Markup, html};

/// The phase and the axis of the curves.
const PHASE: &str = "recipient";
const AXIS: &str = "busy connections";

/// The systems whose throughput follows from a published ratio.
const SYSTEMS: [Bar; 4] = [
    Bar { name: "Linux 2.2.16", value: 1.0, basis: "the fastest; the base of the bars" },
    Bar { name: "Solaris 8", value: 1.0 / 1.35, basis: "\"Linux … roughly 35% faster than Solaris, the runner-up\"" },
    Bar {
        name: "FreeBSD 4.2",
        value: 1.0 / 1.75,
        basis: "\"a 75% performance gap between the best and worst\", read as 1.75 : 1; FreeBSD was the slowest",
    },
    Bar {
        name: "FreeBSD 4.2, tuned",
        value: 1.27 / 1.75,
        basis: "\"the tuned version of FreeBSD was 27% faster\" than the untuned one (17 changes of settings)",
    },
];

/// Other published statements: the number of connections, and the words.
const MARKS: [Mark; 3] = [
    (1_500.0, "little gain beyond", "\"marginal additional speed with more than 1500\"; FreeBSD became slower beyond"),
    (2_500.0, "FreeBSD failed", "FreeBSD \"failed to run when loaded with more than 2500 connections\""),
    (
        3_000.0,
        "tuned FreeBSD, not always",
        "tuned FreeBSD: \"frequently able to run at 3000 connections, … not consistently\": bind() failed",
    ),
];

/// Errors and gaps in the published figures.
const DOUBTS: [&str; 4] = [
    "The article and its follow-up print no values of this chart. The throughput of Windows 2000 is only said to be \
     between that of Solaris and of FreeBSD, so it has no bar.",
    "\"75%\" can also mean that the worst had 25% of the best's throughput. The summary says \"a 75% \
     performance gap\".",
    "Tuned FreeBSD is 0.73 of Linux by its 27% and the 75%, but \"as fast as an untuned version of Linux, for \
     connection levels of 1500 sends or fewer\" by the words of the follow-up.",
    "The servers of 2001 were those of the recipients' domains on the Internet; today's is a sink on the same machine. \
     There more connections hid the servers' delays; here there are none to hide.",
];

/// Returns the figure, if the page has the benchmark by connections.
pub(super) fn render(view: &View<'_>) -> Option<Figure> {
    let name = |study: &CaseStudy<'_>| {
        let mode = study.case.settings.get("mode").map_or("", String::as_str);
        Some(format!("{mode}{}", others(study, "mode=")))
    };
    let curves = curves(view, "mail", AXIS, name, |study| rates(study, PHASE));
    let drawings = html! {
        div.pair {
            (bars("2001, as published: relative throughput", &SYSTEMS))
            (lines("today, measured: recipients a second", AXIS, &curves, &Scale::Linear(count), &MARKS))
        }
        p.note {
            (legend(&curves))
            "In 2001: "
            @for (index, (n, short, _)) in MARKS.iter().enumerate() {
                (LETTERS[index]) ": " (count(*n)) " connections, " (short) (if index < 2 { "; " } else { "." })
            }
        }
    };
    (!curves.is_empty()).then(|| Figure {
        words: "Left: throughput by system as published in 2001, relative to the fastest. Right: recipients a second \
                by simultaneous connections, measured in this run. The two axes have nothing in common.",
        drawings,
        doubts: &DOUBTS,
        published: published(),
        measured: vec![Measured { what: "recipients a second", curves }],
        axis: "Connections",
    })
}

fn published() -> Markup {
    let rows = html! {
        @for system in &SYSTEMS {
            tr {
                td { (system.name) }
                td.number { (digits(system.value)) }
                td { (system.basis) }
            }
        }
        tr {
            td { "Windows 2000" }
            td.number { "not published" }
            td { "between Solaris and FreeBSD" }
        }
        @for (n, short, words) in &MARKS {
            tr {
                td { (short) }
                td.number { (count(*n)) " connections" }
                td { (words) }
            }
        }
        tr {
            td { "recipients, domains" }
            td.number { "200,000, 9,113" }
            td { "one message in memory; RSET instead of DATA, then QUIT" }
        }
    };
    published_table("mail", &["2001, published by others", "Value", "Quotation, or how the value follows"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_follow_from_the_published_ratios() {
        let relative = |name: &str| SYSTEMS.iter().find(|one| one.name == name).unwrap().value;
        assert!((relative("Linux 2.2.16") / relative("Solaris 8") - 1.35).abs() < 1e-9);
        assert!((relative("Linux 2.2.16") / relative("FreeBSD 4.2") - 1.75).abs() < 1e-9);
        assert!((relative("FreeBSD 4.2, tuned") / relative("FreeBSD 4.2") - 1.27).abs() < 1e-9);
    }
}
