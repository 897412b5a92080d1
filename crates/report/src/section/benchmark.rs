//! A benchmark: what is asked, its cases side by side, and each case with its curves, its single calls and its
//! pitfalls.

use super::{comparison, explanation};
use crate::CaseStudy;
use crate::findings;
use crate::page::{Chart, View, escape};
use crate::quantity::count;
use crate::reduce::Columns;
use crate::table::{self, law_short};
use landau_record::schema::Direction;
use std::fmt::Write;

/// Colours of the palette.
pub(crate) const TONES: usize = 6;
/// Cases that one overview can hold apart.
const SIDE_BY_SIDE: usize = 6;

/// The anchor of a benchmark.
pub(crate) fn anchor(benchmark: &str) -> String {
    let plain: String = benchmark.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("benchmark-{plain}")
}

/// Every benchmark, in the record's order; its charts are added to `charts`.
pub(crate) fn all(view: &View<'_>, charts: &mut Vec<Chart>) -> String {
    let Some(base) = view.base() else { return String::new() };
    let mut html = String::new();
    let mut seen: Vec<&str> = Vec::new();
    for study in &base.cases {
        let benchmark = study.case.benchmark.as_str();
        if seen.contains(&benchmark) {
            continue;
        }
        seen.push(benchmark);
        let cases: Vec<&CaseStudy<'_>> = base.cases.iter().filter(|other| other.case.benchmark == benchmark).collect();
        html.push_str(&section(view, benchmark, &cases, charts));
    }
    html
}

fn section(view: &View<'_>, benchmark: &str, cases: &[&CaseStudy<'_>], charts: &mut Vec<Chart>) -> String {
    let anchor = anchor(benchmark);
    let about = cases.first().map_or("", |study| study.case.about.as_str());
    let source = cases.first().map_or("", |study| study.case.source.as_str());
    let mut html = format!(
        "<section class=\"benchmark\" id=\"{anchor}\" aria-labelledby=\"{anchor}-heading\">\n<h2 \
         id=\"{anchor}-heading\">{}</h2>\n\
         <p class=\"asked\">{}</p>\n{}",
        escape(benchmark),
        escape(about),
        comparison::of_benchmark(view, benchmark)
    );
    if cases.len() > 1 && view.versus.is_none() {
        html.push_str(&side_by_side(benchmark, cases));
    }
    for study in cases {
        html.push_str(&case(view, study, charts));
    }
    let mut misleads: Vec<&str> = Vec::new();
    for sentence in cases.iter().flat_map(|study| &study.case.caveats) {
        if !misleads.contains(&sentence.as_str()) {
            misleads.push(sentence);
        }
    }
    if !misleads.is_empty() {
        let items: String = misleads.iter().map(|sentence| format!("<li>{}</li>", escape(sentence))).collect();
        let _ = writeln!(
            html,
            "<aside class=\"misleads\" aria-label=\"What would mislead here\"><h3>What would mislead \
             here</h3><ul>{items}</ul></aside>"
        );
    }
    if !source.is_empty() {
        let _ = writeln!(html, "<p class=\"source\">Source: {}</p>", escape(source));
    }
    html.push_str("</section>\n");
    html
}

/// One small chart for each phase that the cases share, a line for each case, drawn from the cases' own blocks.
fn side_by_side(benchmark: &str, cases: &[&CaseStudy<'_>]) -> String {
    let mut figures = String::new();
    let Some(first) = cases.first() else { return figures };
    let shown = &cases[..cases.len().min(SIDE_BY_SIDE)];
    for phase in &first.phases {
        let name = &phase.phase.name;
        let held = |study: &&CaseStudy<'_>| {
            study.phases.iter().position(|other| other.phase.name == *name).map(|number| (study.case.case, number))
        };
        let sources: Vec<String> =
            shown.iter().filter_map(held).map(|(case, number)| format!("case-{case}/{number}")).collect();
        let names: Vec<String> =
            shown.iter().filter(|study| held(study).is_some()).map(|study| setting(study)).collect();
        if names.len() < 2 {
            continue;
        }
        figures.push_str(&figure(&Figure {
            source: &sources.join(" "),
            names: &names,
            kind: "curve",
            title: &format!("{benchmark}: {name}, every variant"),
            words: "",
            is_small: true,
        }));
    }
    let more = cases.len().saturating_sub(SIDE_BY_SIDE);
    let more = if more > 0 {
        format!("<p class=\"note\">{more} more variants follow below, each by itself.</p>")
    } else {
        String::new()
    };
    if figures.is_empty() {
        figures
    } else {
        format!("<h3>Variants side by side</h3><div class=\"multiples\">{figures}</div>{more}\n")
    }
}

/// A case's settings that differ from the defaults.
fn setting(study: &CaseStudy<'_>) -> String {
    let rest = study.case.label.strip_prefix(&study.case.benchmark).map_or(study.case.label.as_str(), str::trim);
    if rest.is_empty() { "default".to_owned() } else { rest.to_owned() }
}

fn case(view: &View<'_>, study: &CaseStudy<'_>, charts: &mut Vec<Chart>) -> String {
    let case = study.case;
    let mut html = format!(
        "<article class=\"case\" id=\"case-{0}\" aria-labelledby=\"case-{0}-heading\">\n<h3 \
         id=\"case-{0}-heading\">{1}</h3>\n",
        case.case,
        escape(&case.label)
    );
    html.push_str(&verdicts(study));
    html.push_str(&remarks(study));
    let columns = Columns::up_to(study.largest_n());
    if view.versus.is_some() {
        html.push_str(&duels(view, study, charts));
    } else {
        html.push_str(&loop_chart(view, study, &columns, charts));
    }
    html.push_str(&densities(view, study, &columns, charts));
    html.push_str(&explanation::of_case(view, study));
    html.push_str("</article>\n");
    html
}

/// The way up and the way down of a case in one chart.
fn loop_chart(view: &View<'_>, study: &CaseStudy<'_>, columns: &Columns, charts: &mut Vec<Chart>) -> String {
    let id = format!("case-{}", study.case.case);
    let mut chart = Chart::new(id.clone(), study.case, columns);
    chart.add_floor(empty_lap(view, 0), &study.phases);
    for (tone, phase) in study.phases.iter().enumerate() {
        chart.add(phase.phase.name.clone(), tone % TONES, study, phase, columns);
        chart.add_singles(phase, columns);
    }
    charts.push(chart);
    let down = study.phases.iter().any(|phase| phase.phase.direction == Direction::Down);
    let title = format!(
        "{}: every pass{}",
        study.case.label,
        if down { ", the way down (dashed) against the way up" } else { "" }
    );
    figure(&Figure { source: &id, names: &[], kind: "curve", title: &title, words: "", is_small: false })
}

/// One chart for each phase, a colour for each record.
fn duels(view: &View<'_>, study: &CaseStudy<'_>, charts: &mut Vec<Chart>) -> String {
    let mut html = String::new();
    for (number, phase) in study.phases.iter().enumerate() {
        let name = &phase.phase.name;
        let mut rows = Vec::new();
        let unit = |index: usize| view.sources.get(index).map(|source| source.analysis.record.unit());
        for (index, source) in view.sources.iter().enumerate().filter(|(index, _)| unit(*index) == unit(0)) {
            let same_case = source.analysis.cases.iter().find(|other| other.case.label == study.case.label);
            let same =
                same_case.and_then(|case| Some((case, case.phases.iter().find(|other| other.phase.name == *name)?)));
            rows.extend(same.map(|(case, phase)| (index, case, phase)));
        }
        let largest = rows.iter().map(|(_, case, _)| case.largest_n()).max().unwrap_or(1);
        let columns = Columns::up_to(largest);
        let id = format!("duel-{}-{number}", study.case.case);
        let mut chart = Chart::new(id.clone(), study.case, &columns);
        chart.add_floor(empty_lap(view, 0), std::slice::from_ref(phase));
        for (index, case, phase) in &rows {
            chart.add(view.names[*index].clone(), index % TONES, case, phase, &columns);
        }
        charts.push(chart);
        let words: Vec<String> = view
            .versus
            .iter()
            .flat_map(|versus| versus.of_phase(&study.case.label, name))
            .map(|duel| duel.words(&view.names))
            .collect();
        html.push_str(&figure(&Figure {
            source: &id,
            names: &[],
            kind: "curve",
            title: &format!("{}: {name}", study.case.label),
            words: &words.join(" · "),
            is_small: false,
        }));
    }
    html
}

fn empty_lap(view: &View<'_>, index: usize) -> f64 {
    view.sources.get(index).map_or(0.0, |source| source.analysis.record.host.clock.timer_overhead.values().to_owned())
}

/// The density of single calls, a small chart for each phase. They are the base's; with one record its curves share the
/// block.
fn densities(view: &View<'_>, study: &CaseStudy<'_>, columns: &Columns, charts: &mut Vec<Chart>) -> String {
    let mut html = String::new();
    let id = match view.versus {
        Some(_) => format!("singles-{}", study.case.case),
        None => format!("case-{}", study.case.case),
    };
    if view.versus.is_some() {
        let mut chart = Chart::new(id.clone(), study.case, columns);
        for (number, phase) in study.phases.iter().enumerate() {
            chart.add_bare(phase.phase.name.clone(), number % TONES, phase);
            chart.add_singles(phase, columns);
        }
        charts.push(chart);
    }
    for (number, phase) in study.phases.iter().enumerate() {
        let outliers = &phase.verdict.outliers;
        let words = match (outliers.words.is_empty(), outliers.neighbours) {
            _ if phase.verdict.exact.is_some() => counted(&phase.verdict),
            (false, _) => format!("Recurring: {}.", outliers.words),
            (true, 0) => "No single call is dear in pass after pass, and no neighbour disturbed.".to_owned(),
            (true, 1) => "No single call is dear in pass after pass; one stray is a neighbour's.".to_owned(),
            (true, count) => {
                format!("No single call is dear in pass after pass; {count} stray ones are a neighbour's.")
            }
        };
        html.push_str(&figure(&Figure {
            source: &format!("{id}/{number}"),
            names: &[],
            kind: "density",
            title: &format!("{}: every single call", phase.phase.name),
            words: &words,
            is_small: true,
        }));
    }
    format!("<h4>Single calls</h4><div class=\"multiples\">{html}</div>\n")
}

/// What is said of the single calls where each was counted.
fn counted(verdict: &landau_stats::Verdict) -> String {
    let exact = verdict.exact.as_ref();
    let mut parts = vec![exact.map_or(String::new(), |exact| exact.words.clone())];
    if !verdict.outliers.words.is_empty() {
        parts.push(format!("recurring: {}", verdict.outliers.words));
    }
    if verdict.outliers.neighbours > 0 {
        parts.push(format!("{} calls were met by an interrupt", count(verdict.outliers.neighbours as f64)));
    }
    parts.retain(|part| !part.is_empty());
    format!("{}.", parts.join("; "))
}

/// One place, or the first and the last of several: "1,999–2,003".
fn places((first, last): (u64, u64)) -> String {
    let (first, last) = (count(first as f64), count(last as f64));
    if first == last { first } else { format!("{first}–{last}") }
}

fn remarks(study: &CaseStudy<'_>) -> String {
    let mut html = String::new();
    for failure in &study.failures {
        let _ = writeln!(html, "<p class=\"warning\">{}</p>", escape(failure));
    }
    if let Some(met) = &study.limit {
        let limit = met.limit;
        let raise = if limit.raise.is_empty() {
            String::new()
        } else {
            format!(" Raise it with <code>{}</code>.", escape(&limit.raise))
        };
        let _ = writeln!(
            html,
            "<p class=\"limit\"><b>Limit:</b> {} passes end at {} {}: <code>{}</code> is refused with \
             <code>{}</code>: {}.{raise}</p>",
            met.passes,
            places(met.range),
            escape(&study.case.axis),
            escape(&limit.call),
            escape(&limit.error),
            escape(limit.meaning.trim_end_matches('.'))
        );
    }
    for crash in &study.crashes {
        let _ = writeln!(
            html,
            "<div class=\"limit\"><b>The kernel stopped:</b> {}.<details><summary>The console's last {} \
             lines</summary><pre>{}</pre></details></div>",
            escape(&findings::crash_words(crash, &study.case.axis)),
            crash.console.len(),
            escape(&crash.console.join("\n"))
        );
    }
    if let Some(reduced) = &study.case.reduced {
        let _ = writeln!(
            html,
            "<p class=\"limit\"><b>Cut down:</b> {} instead of {}: {}</p>",
            count(study.case.n as f64),
            count(reduced.requested as f64),
            escape(&reduced.reason)
        );
    }
    if !study.facts.is_empty() {
        let facts: String = study
            .facts
            .iter()
            .map(|(name, values)| {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                format!("<li>{}: <b>{}</b></li>", escape(name), escape(&values.join(" or ")))
            })
            .collect();
        let _ = writeln!(html, "<ul class=\"checked\" aria-label=\"Checked\">{facts}</ul>");
    }
    html
}

/// The verdicts of a case: one row a phase, with the colour it has in the chart.
fn verdicts(study: &CaseStudy<'_>) -> String {
    let mut rows = String::new();
    for (tone, phase) in study.phases.iter().enumerate() {
        let row = table::Row::of(study, phase);
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\"><span class=\"swatch tone-{}{}\" \
             aria-hidden=\"true\"></span>{}</th><td>{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td><b>{}</b></td><td>{}</td></tr>",
            tone % TONES,
            if phase.phase.direction == Direction::Down { " down" } else { "" },
            escape(&phase.phase.name),
            escape(&phase.phase.about),
            escape(&row.first),
            escape(&row.last),
            escape(&law_short(&phase.verdict.all)),
            escape(&row.law)
        );
    }
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Verdicts on {}\"><table \
         class=\"verdicts\"><thead><tr><th scope=\"col\">Phase</th><th scope=\"col\">What is timed</th>\
         <th scope=\"col\">Few</th><th scope=\"col\">Many</th><th scope=\"col\">Law</th><th scope=\"col\">How \
         sure</th></tr></thead><tbody>{rows}</tbody></table></div>\n",
        escape(&study.case.label)
    )
}

/// A chart's place on the page.
struct Figure<'a> {
    /// The blocks of data that it is drawn from; `block/number` where it is one group of a block.
    source: &'a str,
    /// What the curves are called, where the blocks call them otherwise.
    names: &'a [String],
    kind: &'a str,
    title: &'a str,
    words: &'a str,
    is_small: bool,
}

/// A chart's frame: caption, place, controls, and the table of its points, which a script fills when it is unfolded.
fn figure(one: &Figure<'_>) -> String {
    let (source, kind, title) = (escape(one.source), one.kind, escape(one.title));
    let names = match one.names {
        [] => String::new(),
        names => format!(" data-names=\"{}\"", escape(&serde_json::to_string(names).unwrap_or_default())),
    };
    let words = if one.words.is_empty() {
        String::new()
    } else {
        format!(" <span class=\"words\">{}</span>", escape(one.words))
    };
    let small = if one.is_small { " small" } else { "" };
    let points = if kind == "density" { "Calls" } else { "Points" };
    format!(
        "<figure class=\"chart{small} {kind}\" data-chart=\"{source}\" data-kind=\"{kind}\"{names}>\n\
         <figcaption><strong>{title}</strong>{words}</figcaption>\n<div class=\"tools\" role=\"group\" \
         aria-label=\"Axes and zoom of {title}\"></div>\n<div class=\"plot\" tabindex=\"0\" role=\"img\" \
         aria-roledescription=\"chart\" aria-label=\"{title}\" aria-describedby=\"keys\"></div>\n<p \
         class=\"readout\" aria-live=\"polite\"></p>\n\
         <details class=\"points\"><summary>{points} as a table</summary></details></figure>\n"
    )
}
