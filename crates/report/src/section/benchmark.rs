//! One benchmark: its question, its cases side by side, and each case with its verdicts, curves and single calls.

use super::{explanation, histogram, ladder, ladders, scrolling, study_2001, throughput, timeline, variants};
use crate::facts;
use crate::findings;
use crate::loops;
use crate::page::{Chart, View};
use crate::quantity::{count, numbered};
use crate::reduce::Columns;
use crate::table;
use crate::text;
use crate::timeline::TimelineStudy;
use crate::{CaseStudy, Comparisons, PhaseStudy};
use landau_record::schema::Direction;
use maud::{Markup, html};

/// The number of colours of the palette.
pub(crate) const TONES: usize = 6;
/// Maximum number of cases that one overview chart shows.
const OVERVIEW_CASES_MAX: usize = 6;

/// Returns the anchor of a benchmark.
pub(crate) fn anchor(benchmark: &str) -> String {
    let plain: String = benchmark.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("benchmark-{plain}")
}

/// Returns the settings of a case that differ from the defaults.
pub(crate) fn settings<'a>(study: &'a CaseStudy<'_>) -> &'a str {
    match own_settings(study) {
        "" => "default settings",
        settings => settings,
    }
}

/// Returns whether a case has the default settings.
pub(crate) fn is_default(study: &CaseStudy<'_>) -> bool {
    own_settings(study).is_empty()
}

fn own_settings<'a>(study: &'a CaseStudy<'_>) -> &'a str {
    study.case.label.strip_prefix(&study.case.benchmark).unwrap_or(&study.case.label).trim()
}

/// Renders the details: every benchmark in the record's order, closed at first. Appends the data of its charts to
/// `charts`.
pub(crate) fn details(view: &View<'_>, charts: &mut Vec<Chart>) -> Markup {
    let Some(base) = view.base() else { return html! {} };
    let mut names: Vec<&str> = Vec::new();
    for study in &base.cases {
        if !names.contains(&study.case.benchmark.as_str()) {
            names.push(&study.case.benchmark);
        }
    }
    html! {
        section #details aria-labelledby="details-heading" {
            h2 #details-heading { "Details" }
            div.bar {
                p.note { "Each benchmark with its verdicts, curves of every pass, single calls, checks and caveats." }
                button #unfold type="button" { "Open all" }
            }
            @for name in names {
                @let cases: Vec<&CaseStudy<'_>> =
                    base.cases.iter().filter(|study| study.case.benchmark == name).collect();
                (benchmark(view, name, &cases, charts))
            }
        } "\n"
    }
}

fn benchmark(view: &View<'_>, name: &str, cases: &[&CaseStudy<'_>], charts: &mut Vec<Chart>) -> Markup {
    let anchor = anchor(name);
    let question = cases.first().map_or("", |study| study.case.about.as_str());
    let source = cases.first().map_or("", |study| study.case.source.as_str());
    let mut caveats: Vec<&str> = Vec::new();
    for sentence in cases.iter().flat_map(|study| &study.case.caveats) {
        if !caveats.contains(&sentence.as_str()) {
            caveats.push(sentence);
        }
    }
    html! {
        details.benchmark id=(anchor) {
            summary {
                h3 { (name) } " "
                span.question { (question) } " "
                @if cases.len() > 1 { span.number { (cases.len()) " cases" } }
            }
            @if cases.len() > 1 && view.comparisons.is_none() {
                (charts_by_axis(name, cases))
                (variants::render(view, name))
            }
            (ladders::render(view, name))
            (ladder::render(view, name))
            (study_2001::render(view, name))
            (throughput::render(view, name))
            @for study in cases { (case(view, study, cases.len() == 1, charts)) }
            @if !caveats.is_empty() {
                aside.caveats aria-label={ "Caveats of " (name) } {
                    h4 { "Caveats" }
                    ul { @for sentence in caveats { li { (sentence) } } }
                }
            }
            @if !source.is_empty() { p.source { "Source: " (source) } }
        } "\n"
    }
}

/// Renders the charts of the variants. Cases with the same axis share them.
fn charts_by_axis(benchmark: &str, cases: &[&CaseStudy<'_>]) -> Markup {
    let mut axes: Vec<&str> = Vec::new();
    for study in cases {
        if !axes.contains(&study.case.axis.as_str()) {
            axes.push(&study.case.axis);
        }
    }
    let group = |axis: &str| cases.iter().copied().filter(|study| study.case.axis == axis).collect::<Vec<_>>();
    html! {
        @for axis in &axes {
            @let by = if axes.len() > 1 { format!(", by {axis}") } else { String::new() };
            (charts_of_variants(benchmark, &by, &group(axis)))
        }
    }
}

/// Renders one small chart for each phase that the cases share, a line per case, drawn from the data of the cases.
fn charts_of_variants(benchmark: &str, by: &str, cases: &[&CaseStudy<'_>]) -> Markup {
    let Some(first) = cases.first() else { return html! {} };
    let shown = &cases[..cases.len().min(OVERVIEW_CASES_MAX)];
    let mut figures: Vec<Markup> = Vec::new();
    for phase in &first.phases {
        let name = &phase.phase.name;
        let with_phase = shown.iter().filter_map(|study| {
            let number = study.phases.iter().position(|other| other.phase.name == *name)?;
            Some((format!("case-{}/{number}", study.case.case), settings(study).to_owned()))
        });
        let (sources, names): (Vec<String>, Vec<String>) = with_phase.unzip();
        if names.len() > 1 {
            figures.push(figure(&Figure {
                source: &sources.join(" "),
                names: &names,
                kind: "curve",
                title: &format!("{benchmark}: {name}, all variants{by}"),
                text: "",
                is_small: true,
            }));
        }
    }
    let unshown: Vec<&str> = cases.iter().skip(OVERVIEW_CASES_MAX).map(|study| settings(study)).collect();
    html! {
        @if !figures.is_empty() {
            h4 { "Variants" (by) }
            div.multiples { @for figure in &figures { (figure) } }
            @if !unshown.is_empty() { p.note { "Not in these charts: " (unshown.join("; ")) "." } }
        }
    }
}

/// Renders one case. It is closed at first, unless it is the only one of its benchmark.
fn case(view: &View<'_>, study: &CaseStudy<'_>, is_open: bool, charts: &mut Vec<Chart>) -> Markup {
    let columns = Columns::up_to(study.largest_n());
    html! {
        details.case id={ "case-" (study.case.case) } open[is_open] {
            summary { h4 { (study.case.label) } " " span.outcomes { (outcomes(study)) } }
            @if study.timeline.is_some() {
                (timeline::render(&format!("case-{}", study.case.case), &timelines(view, study)))
            } @else { (verdicts(view, study)) }
            (notes(study))
            @if study.timeline.is_some() {}
            @else if view.comparisons.is_some() { (compared(view, study, charts)) }
            @else { (curves(view, study, &columns, charts)) }
            @if study.timeline.is_none() { (single_calls(view, study, &columns, charts)) }
            (explanation::of_case(view, study))
            (settings_table(study))
        } "\n"
    }
}

/// Returns the timelines of a case in every record that has it.
pub(crate) fn timelines<'a>(view: &'a View<'_>, study: &CaseStudy<'_>) -> Vec<timeline::Timeline<'a>> {
    let is_one = view.sources.len() == 1;
    let of_source = |(tone, source): (usize, &'a crate::page::Source<'_>)| {
        let case = source.analysis.cases.iter().find(|other| other.case.label == study.case.label)?;
        let name = (!is_one).then(|| view.names[tone].as_str());
        Some(timeline::Timeline { name, study: case.timeline.as_ref()?, tone })
    };
    view.sources.iter().enumerate().filter_map(of_source).collect()
}

/// Returns the outcome of each phase in a word, "socket flat, bind cliff"; for a timeline, the rate.
fn outcomes(study: &CaseStudy<'_>) -> String {
    if let Some(rate) = study.timeline.as_ref().and_then(TimelineStudy::rate) {
        return text::rate(rate);
    }
    let words = study.phases.iter().map(|phase| {
        let arrow = if phase.phase.direction == Direction::Down { "↓ " } else { "" };
        format!("{arrow}{}: {}", phase.phase.name, text::outcome_word(&phase.verdict.all))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Renders every parameter with its value and its meaning, n first. Older records have no meanings.
fn settings_table(study: &CaseStudy<'_>) -> Markup {
    let case = study.case;
    let n = ("n", count(case.n as f64));
    let others =
        case.settings.iter().filter(|(name, _)| *name != "n").map(|(name, value)| (name.as_str(), value.clone()));
    let about = |name: &str| case.settings_about.get(name).map(String::as_str);
    html! {
        details.settings {
            summary {
                "Settings"
                @if case.settings_about.is_empty() { ", explained by " code { "landau list --long" } }
            }
            table.facts { tbody {
                @for (name, value) in std::iter::once(n).chain(others) {
                    tr {
                        th scope="row" { code { (name) } }
                        td { code { (value) } }
                        @if let Some(about) = about(name) { td { (about) } }
                        @else if !case.settings_about.is_empty() || name == "n" { td { (case.axis) } }
                    }
                }
            } }
        } "\n"
    }
}

/// Renders creation and destruction of a case in one chart.
fn curves(view: &View<'_>, study: &CaseStudy<'_>, columns: &Columns, charts: &mut Vec<Chart>) -> Markup {
    let id = format!("case-{}", study.case.case);
    let mut chart = Chart::new(id.clone(), study.case, columns);
    chart.add_floor(timer_overhead(view), &study.phases);
    for (tone, phase) in loops::tones(study).into_iter().zip(&study.phases) {
        chart.add(phase.phase.name.clone(), tone % TONES, study, phase, columns);
        chart.add_singles(phase, columns);
    }
    let closed = loops::of(study);
    chart.close(&closed);
    charts.push(chart);
    let title = if closed.is_empty() {
        format!("{}: every pass", study.case.label)
    } else {
        format!("{}: every pass, up (▸ creation) and down again (◂ destruction, dashed) in a loop", study.case.label)
    };
    let text = loops::text(study);
    figure(&Figure { source: &id, names: &[], kind: "curve", title: &title, text: &text, is_small: false })
}

/// Renders one chart for each phase, with a colour for each record.
fn compared(view: &View<'_>, study: &CaseStudy<'_>, charts: &mut Vec<Chart>) -> Markup {
    html! {
        @for (number, phase) in study.phases.iter().enumerate() {
            @let id = format!("comparison-{}-{number}", study.case.case);
            (overlay(view, study, phase, &id, charts))
        }
    }
}

/// Renders one phase from every record of the same unit.
fn overlay(
    view: &View<'_>,
    study: &CaseStudy<'_>,
    phase: &PhaseStudy<'_>,
    id: &str,
    charts: &mut Vec<Chart>,
) -> Markup {
    let name = &phase.phase.name;
    let rows = everywhere(view, study, phase);
    let columns = Columns::up_to(rows.iter().map(|(_, case, _)| case.largest_n()).max().unwrap_or(1));
    let mut chart = Chart::new(id.to_owned(), study.case, &columns);
    chart.add_floor(timer_overhead(view), std::slice::from_ref(phase));
    for (index, case, phase) in &rows {
        chart.add(view.names[*index].clone(), index % TONES, case, phase, &columns);
    }
    charts.push(chart);
    let sentences: Vec<String> =
        view.comparisons.iter().flat_map(|all| told(all, view, &study.case.label, name)).collect();
    figure(&Figure {
        source: id,
        names: &[],
        kind: "curve",
        title: &format!("{}: {name}", study.case.label),
        text: &sentences.join(" · "),
        is_small: false,
    })
}

/// Describes the comparisons of a phase: with the base, then from each later record to the next if a difference is
/// proven.
fn told(all: &Comparisons, view: &View<'_>, label: &str, phase: &str) -> Vec<String> {
    let later = all.steps(label, phase).filter(|one| one.base > 0 && one.winner().is_some());
    all.of_phase(label, phase).chain(later).map(|one| one.text(&view.names)).collect()
}

fn timer_overhead(view: &View<'_>) -> f64 {
    view.sources.first().map_or(0.0, |source| *source.analysis.record.host.clock.timer_overhead.values())
}

/// Renders the density of single calls of the base, a small chart for each phase. With one record, the charts share the
/// data of its curves.
fn single_calls(view: &View<'_>, study: &CaseStudy<'_>, columns: &Columns, charts: &mut Vec<Chart>) -> Markup {
    let id = match view.comparisons {
        Some(_) => format!("singles-{}", study.case.case),
        None => format!("case-{}", study.case.case),
    };
    if view.comparisons.is_some() {
        let mut chart = Chart::new(id.clone(), study.case, columns);
        for (number, phase) in study.phases.iter().enumerate() {
            chart.add_bare(phase.phase.name.clone(), number % TONES, phase);
            chart.add_singles(phase, columns);
        }
        charts.push(chart);
    }
    html! {
        h5 { "Single calls" @if view.comparisons.is_some() { " in " (view.names[0]) } }
        div.multiples {
            @for (number, phase) in study.phases.iter().enumerate() {
                (figure(&Figure {
                    source: &format!("{id}/{number}"),
                    names: &[],
                    kind: "density",
                    title: &format!("{}: every call", phase.phase.name),
                    text: format!("{} {}", text::caption(&phase.verdict), findings::outlier_share(phase)).trim_end(),
                    is_small: true,
                }))
                (histogram::render(&format!("{id}-{number}"), phase))
            }
        } "\n"
    }
}

/// Formats one n, or a range: "1,999–2,003".
fn range((first, last): (u64, u64)) -> String {
    let (first, last) = (count(first as f64), count(last as f64));
    if first == last { first } else { format!("{first}–{last}") }
}

/// Renders notes to be read with the verdicts: failures, the limit, crashes, a reduced size, facts.
fn notes(study: &CaseStudy<'_>) -> Markup {
    html! {
        @for failure in &study.failures { p.warning { (failure) } }
        @if let Some(met) = &study.limit { (limit(study, met)) }
        @for crash in &study.crashes {
            div.limit {
                b { "Kernel stopped: " } (findings::crash_text(crash, &study.case.axis)) "."
                details {
                    summary { "Last " (numbered(crash.console.len(), "line", "lines")) " of the console" }
                    pre { (crash.console.join("\n")) }
                }
            }
        }
        @if let Some(reduced) = &study.case.reduced {
            p.limit {
                b { "Reduced: " }
                (count(study.case.n as f64)) " instead of " (count(reduced.requested as f64)) ": " (reduced.reason)
            }
        }
        @if !study.facts.is_empty() {
            details.facts-of-case {
                summary { "Checks and facts of each pass; a range covers all passes" }
                table.facts { tbody {
                    @for (name, values) in study.facts.iter().filter(|(name, _)| !facts::is_at_n(name)) {
                        tr { th scope="row" { (facts::name(name)) } td { (facts::value(values)) } }
                    }
                } }
            } "\n"
        }
    }
}

fn limit(study: &CaseStudy<'_>, met: &crate::LimitMet<'_>) -> Markup {
    let limit = met.limit;
    let (command, remark) = text::command_and_remark(&limit.raise);
    html! {
        p.limit {
            b { "Limit: " } (numbered(met.passes, "pass ends", "passes end")) " at " (range(met.range)) " "
            (study.case.axis) ": "
            code { (limit.call) } " fails with " code { (limit.error) } ": " (limit.meaning.trim_end_matches('.')) "."
            @if !command.is_empty() { " To raise the limit: " code { (command) } (remark) "." }
        }
    }
}

/// Renders the verdicts of a case: a row for each phase in each record that has it, with its colour in the chart.
fn verdicts(view: &View<'_>, study: &CaseStudy<'_>) -> Markup {
    let is_one = view.comparisons.is_none();
    let table = html! {
        table.verdicts {
            thead { tr {
                th scope="col" { "Phase" }
                @if !is_one { th scope="col" { "Record" } }
                @for name in ["Outcome", "Cost at small n", "Cost at large n", "Law and interval"] {
                    th scope="col" { (name) }
                }
            } }
            tbody {
                @for (tone, phase) in loops::tones(study).into_iter().zip(&study.phases) {
                    @for (index, case, phase) in everywhere(view, study, phase) {
                        @let tone = if is_one { tone } else { index };
                        (verdict(case, phase, tone, (!is_one).then(|| &*view.names[index])))
                    }
                }
            }
        }
    };
    html! {
        (scrolling(&format!("Verdicts of {}", study.case.label), &table))
        ul.timed {
            @for phase in &study.phases { li { b { (phase.phase.name) } ": " (phase.phase.about) } }
        }
        (beside(study))
    }
}

/// Renders the details of the verdicts of the base, closed at first.
fn beside(study: &CaseStudy<'_>) -> Markup {
    let rows = study.phases.iter().map(|phase| table::Row::of(study, phase));
    let told: Vec<table::Row> = rows.filter(|row| !row.text.details.is_empty()).collect();
    html! {
        @if !told.is_empty() {
            details.beside {
                summary { "Per doubling, at ten times n, the 99th percentile, and sources of uncertainty" }
                ul { @for row in &told { li { b { (row.phase) } ": " (row.text.details.join(" ")) } } }
            } "\n"
        }
    }
}

fn verdict(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, tone: usize, record: Option<&str>) -> Markup {
    let row = table::Row::of(study, phase);
    let is_down = phase.phase.direction == Direction::Down;
    html! {
        tr {
            th scope="row" {
                span.swatch.{ "tone-" (tone % TONES) }.down[is_down] aria-hidden="true" {}
                @if is_down { "↓ " } (phase.phase.name)
            }
            @if let Some(name) = record { td { (name) } }
            td.(text::class_word(phase.verdict.class())) {
                span.sign aria-hidden="true" { (text::glyph(&phase.verdict)) }
                b { (text::outcome_word(&phase.verdict.all)) }
            }
            td.number { (row.text.small) }
            td.number { (row.text.large) }
            td { (row.text.confidence) }
        }
    }
}

/// Returns a phase in every record of the base's unit that has it, with the record's index.
fn everywhere<'a>(
    view: &'a View<'_>,
    study: &'a CaseStudy<'_>,
    phase: &'a PhaseStudy<'_>,
) -> Vec<(usize, &'a CaseStudy<'a>, &'a PhaseStudy<'a>)> {
    let unit = |index: usize| view.sources.get(index).map(|source| source.analysis.record.unit());
    let mut found = Vec::new();
    for (index, source) in view.sources.iter().enumerate().filter(|(index, _)| unit(*index) == unit(0)) {
        let Some(case) = source.analysis.cases.iter().find(|other| other.case.label == study.case.label) else {
            continue;
        };
        let phase = case.phases.iter().find(|other| other.phase.name == phase.phase.name);
        found.extend(phase.map(|phase| (index, case, phase)));
    }
    found
}

/// The frame of a chart.
struct Figure<'a> {
    /// The data blocks that it is drawn from; `block/number` for one group of a block.
    source: &'a str,
    /// The names of the curves, if they differ from those in the data.
    names: &'a [String],
    kind: &'a str,
    title: &'a str,
    text: &'a str,
    is_small: bool,
}

/// Renders the frame of a chart: caption, controls, plot, and the table of its points, which a script fills when it is
/// opened.
fn figure(one: &Figure<'_>) -> Markup {
    let names = (!one.names.is_empty()).then(|| serde_json::to_string(one.names).unwrap_or_default());
    html! {
        figure.chart.small[one.is_small].(one.kind) data-chart=(one.source) data-kind=(one.kind) data-names=[names] {
            figcaption {
                strong { (one.title) }
                @if !one.text.is_empty() { " " span.words { (one.text) } }
            }
            div.tools role="group" aria-label={ "Axes and zoom of " (one.title) } {}
            div.plot tabindex="0" role="img" aria-roledescription="chart" aria-label=(one.title)
                aria-describedby="keys" {}
            p.readout aria-live="polite" {}
            details.points {
                summary { @if one.kind == "density" { "Calls as a table" } @else { "Points as a table" } }
            }
        } "\n"
    }
}
