//! The file test of 2001 redrawn: its published times as bars, next to the time per file measured now, pass by pass.

use super::drawing::{Bar, Curve, bars, dots};
use super::{Figure, Measured, published_table};
use crate::page::View;
use crate::quantity::{count, digits};
use landau_record::schema::Fact;
use maud::{Markup, html};

/// The published times for all files, in seconds.
const SYSTEMS: [Bar; 5] = [
    Bar { name: "Linux ext2", value: 542.0, basis: "\"Linux: 542 seconds\"; metadata is written later" },
    Bar { name: "Windows NTFS", value: 613.0, basis: "\"Windows 2000: 613 seconds\"" },
    Bar {
        name: "FreeBSD UFS, async",
        value: 630.0,
        basis: "\"FreeBSD tuned: 630 seconds\"; metadata later, as in Linux",
    },
    Bar { name: "FreeBSD UFS", value: 2_398.0, basis: "\"FreeBSD untuned: 2398 seconds\"; metadata at once" },
    Bar { name: "Solaris UFS", value: 3_990.0, basis: "\"Solaris: 3990 seconds\"; metadata at once" },
];

/// The number of files of the study, if the sizes were 4, 8, 16, 32, 64 and 128 KB. The article names the smallest and
/// the largest size, the follow-up names 8, 16 and 128 KB.
const FILES: f64 = 60_000.0;

const DOUBTS: [&str; 4] = [
    "The file systems were compared with their defaults, which promise different things about a power failure: the \
     test measured that promise. FreeBSD became 3.8 times faster with metadata written later and 16 other changes of \
     settings.",
    "2,398 s and 3,990 s are 4.4 and 7.4 times 542 s; the article says \"6x\" and \"10x\", perhaps of another size.",
    "The article does not say whether each file was read back at once or all of them at the end, nor the number of \
     sizes. The times per file in the table assume six sizes, 60,000 files.",
    "Each bar is one figure; neither a spread nor the number of runs is stated. Today each dot is a pass: on a disk \
     that others use, passes differ by up to thirty times.",
];

/// Returns the figure, if the page has the benchmark.
pub(super) fn render(view: &View<'_>) -> Option<Figure> {
    let rows = passes(view);
    let drawings = html! {
        div.pair {
            (bars("2001, as published: seconds for all files", &SYSTEMS))
            (dots("today, measured: time per file, a dot for each pass", &rows))
        }
        p.note { "Right: with order=file a file is created, written and read; with order=phase, created and written." }
    };
    let curve = |(name, values): &(String, Vec<f64>)| Curve {
        name: name.clone(),
        points: values.iter().zip(1..).map(|(value, pass)| (f64::from(pass), *value)).collect(),
    };
    let curves: Vec<Curve> = rows.iter().map(curve).collect();
    let measured = vec![Measured { what: "time per file, ns", curves }];
    (!rows.is_empty()).then(|| Figure {
        words: "Left: time to create, write and read 10,000 files of each size, as published in 2001. Right: time per \
                file in every pass of this run. Rows with another durability guarantee something else.",
        drawings,
        doubts: &DOUBTS,
        published: published(),
        measured,
        axis: "Pass",
    })
}

/// Returns each case's name with its times per file in nanoseconds, one for each pass.
fn passes(view: &View<'_>) -> Vec<(String, Vec<f64>)> {
    let mut rows = Vec::new();
    for (index, source) in view.sources.iter().enumerate() {
        for study in source.analysis.cases.iter().filter(|study| study.case.benchmark == "files") {
            let values = study.facts.get("time_per_file").map(Vec::as_slice).unwrap_or_default();
            let number = |fact: &&Fact| match fact {
                Fact::Number { value, .. } => Some(*value),
                Fact::Text(_) => None,
            };
            let values: Vec<f64> = values.iter().filter_map(number).filter(|value| *value > 0.0).collect();
            let label = study.case.label.trim_start_matches("files").trim();
            let label = if label.is_empty() { "default" } else { label };
            let label = format!("{label}, {} files", count(study.case.n as f64));
            let record = if view.sources.len() > 1 { format!("{}, ", view.names[index]) } else { String::new() };
            if !values.is_empty() {
                rows.push((format!("{record}{label}"), values));
            }
        }
    }
    rows
}

fn published() -> Markup {
    let rows = html! {
        @for system in &SYSTEMS {
            tr {
                td { (system.name) }
                td.number { (count(system.value)) }
                td.number { (digits(system.value * 1e3 / FILES)) }
                td { (system.basis) }
            }
        }
    };
    published_table("files", &["2001, published by others", "Seconds", "Milliseconds per file", "Quotation"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the ratios that the follow-up itself states.
    #[test]
    fn the_times_agree_with_the_published_ratio() {
        let seconds = |name: &str| SYSTEMS.iter().find(|one| one.name == name).unwrap().value;
        assert!((seconds("FreeBSD UFS") / seconds("FreeBSD UFS, async") - 3.8).abs() < 0.05);
    }
}
