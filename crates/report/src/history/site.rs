//! The pages of a static site: one for the collection, and one for each benchmark.
//!
//! They load nothing and need no server: a browser opens them as files. Equal collections give equal pages.

use super::drawing::{over_dates, over_names, spark};
use super::{LeftOut, Line, Over, Row, Trend, date, day, shared_changes};
use crate::page::{STYLE, head, sha256};
use crate::quantity::numbered;
use crate::section::scrolling;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::BTreeSet;

/// Content security policy: the page loads nothing; it has its own inline scripts and styles.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'";
const OWN_STYLE: &str = include_str!("history.css");
const SCRIPT: &str = include_str!("filter.js");

/// Maximum number of values in a table below a drawing.
const VALUES_MAX: usize = 400;

/// The data of a site's pages.
#[derive(Debug)]
pub struct Site {
    /// The name of the directory.
    pub name: String,
    /// The records, newest first.
    pub rows: Vec<Row>,
    /// Files that are left out.
    pub left_out: Vec<LeftOut>,
    /// The trends, in the order in which they are shown. The index lists those over dates.
    pub trends: Vec<Trend>,
}

/// Returns the path of a benchmark's page, relative to the site. Records can come from anywhere, so characters that a
/// path or a link could misinterpret are replaced; a checksum keeps such names distinct.
pub fn subject_path(benchmark: &str) -> String {
    let name = safe(benchmark);
    if name == benchmark {
        return format!("benchmark/{name}.html");
    }
    format!("benchmark/{name}-{}.html", &sha256(benchmark.as_bytes())[..8])
}

/// Returns the path of a record's page, relative to the site. It contains the last checksum, so an existing page is
/// always that of the record in its present state.
pub fn record_path(record: &str, seal: &str) -> String {
    let name = record.trim_end_matches(".ndjson").trim_end_matches(".landau");
    format!("record/{}-{}.html", safe(name), safe(seal))
}

/// Returns a name with letters, digits, dashes and underscores only.
fn safe(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    name.chars().take(80).map(letter).collect()
}

impl Site {
    /// Returns the benchmarks in order.
    pub fn subjects(&self) -> BTreeSet<&str> {
        self.trends.iter().map(|trend| trend.benchmark.as_str()).collect()
    }
}

/// Returns the page of the collection: changes, curves, records, and what was left out.
pub fn index_page(site: &Site) -> String {
    let title = format!("{}: {}", site.name, numbered(site.rows.len(), "record", "records"));
    document(
        &title,
        &html! {
            header.head {
                (brand())
                h1 { (title) }
                p.lead { (lead(site)) }
            }
            main {
                (section("changes", "Change points", &changes(site)))
                (section("curves", "Curves", &curves(site)))
                (section("records", "Records", &records(site)))
                @if !site.left_out.is_empty() { (section("left-out", "Left out", &left_out(&site.left_out))) }
            }
        },
    )
}

/// Returns the page of a benchmark.
pub fn subject_page(site: &Site, benchmark: &str) -> String {
    let trends: Vec<&Trend> = site.trends.iter().filter(|trend| trend.benchmark == benchmark).collect();
    let title = format!("{benchmark}: {}", site.name);
    let mut curves: Vec<String> = trends.iter().map(|trend| trend.subject()).collect();
    curves.dedup();
    document(
        &title,
        &html! {
            header.head {
                (brand())
                nav.places { a href="../index.html" { "All curves" } }
                h1 { (benchmark) }
                p.lead { (numbered(curves.len(), "curve", "curves")) " in " (site.name) "." }
            }
            main {
                @for (index, curve) in curves.iter().enumerate() {
                    section id={ "curve-" (index) } {
                        h2 { (curve) }
                        @for trend in trends.iter().filter(|trend| trend.subject() == *curve) { (figure(site, trend)) }
                    }
                }
            }
        },
    )
}

fn brand() -> Markup {
    html! { div.brand { span.mark aria-hidden="true" { "O" } " Landau" } }
}

fn section(id: &str, title: &str, content: &Markup) -> Markup {
    html! { section id=(id) { h2 { (title) } (content) } "\n" }
}

/// Returns a complete page.
fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" {
            (head(title, POLICY, &[STYLE, OWN_STYLE]))
            body { (body) script { (PreEscaped(SCRIPT)) } }
        } "\n"
    };
    page.into_string()
}

fn lead(site: &Site) -> String {
    let distinct = |of: fn(&Row) -> &str| site.rows.iter().map(of).collect::<BTreeSet<_>>().len();
    let days = || site.rows.iter().map(|row| date(&row.started));
    let span = days().min().zip(days().max());
    let span = span.map_or(String::new(), |(first, last)| format!(" From {first} to {last} (UTC)."));
    format!(
        "{}, {}, {}.{span}",
        numbered(distinct(|row| &row.host), "host", "hosts"),
        numbered(distinct(|row| &row.kernel), "kernel", "kernels"),
        numbered(site.subjects().len(), "benchmark", "benchmarks")
    )
}

/// Lists every change of the collection, newest first.
fn changes(site: &Site) -> Markup {
    let mut all: Vec<(&Trend, &super::Change)> = Vec::new();
    for trend in site.trends.iter().filter(|trend| trend.over == Over::Dates) {
        all.extend(trend.lines.iter().flat_map(|line| &line.changes).map(|change| (trend, change)));
    }
    all.sort_by(|a, b| b.1.started.cmp(&a.1.started));
    let searched: usize = site.trends.iter().map(Trend::searched_count).sum();
    html! {
        @if all.is_empty() && searched == 0 {
            p { "No history has enough records for a change point." }
        } @else if all.is_empty() {
            p { "None in " (searched) @if searched == 1 { " history." } @else { " histories." } }
        } @else {
            @for shared in shared_changes(&site.trends) { p { (shared.text()) } }
            ul.changes {
                @for (trend, change) in &all {
                    li {
                        a href=(subject_path(&trend.benchmark)) { (trend.subject()) } ", " (trend.quantity) ": "
                        (change.text(trend.kind))
                    }
                }
            }
        }
        p.note {
            "A change point is a lasting change of the level in the records of one host. In 95 of 100 collections "
            "without a change, none is shown in any history."
        }
    }
}

/// Lists the curves over dates, a row for each line.
fn curves(site: &Site) -> Markup {
    let rows = site.trends.iter().filter(|trend| trend.over == Over::Dates);
    let rows: Vec<(&Trend, &Line)> = rows.flat_map(|one| one.lines.iter().map(move |line| (one, line))).collect();
    scrolling(
        "Table of the curves",
        &html! {
            table data-filter="Show only curves with these words" {
                thead { tr {
                    @for name in ["Curve", "Quantity", "Host", "Records", "Over dates", "Last", "Change points"] {
                        th scope="col" { (name) }
                    }
                } }
                tbody {
                    @for (trend, line) in rows {
                        tr {
                            th scope="row" { a href=(subject_path(&trend.benchmark)) { (trend.subject()) } }
                            td { (trend.quantity) }
                            td { (line.name) }
                            td.number { (line.points.len()) }
                            td { (spark(line, trend.kind)) }
                            td.number { @if let Some(last) = line.points.last() { (trend.kind.text(last.value)) } }
                            td { (latest(trend, line)) }
                        }
                    }
                }
            }
        },
    )
}

/// Shows the last change of a line.
fn latest(trend: &Trend, line: &Line) -> Markup {
    html! {
        @match line.changes.last() {
            Some(last) => {
                span.changed { (trend.kind.change_text(&last.change)) " from " (day(&last.started)) " on" }
            }
            None => { "–" }
        }
    }
}

fn records(site: &Site) -> Markup {
    scrolling(
        "Table of the records",
        &html! {
            table data-filter="Show only records with these words" {
                thead { tr {
                    @for name in ["Started (UTC)", "Record", "Study", "Host", "Kernel", "Curves", "Method", "Seal"] {
                        th scope="col" { (name) }
                    }
                } }
                tbody {
                    @for row in &site.rows {
                        tr {
                            td.number { (day(&row.started)) }
                            th scope="row" {
                                @match &row.page {
                                    Some(page) => { a href=(page) { (row.path) } }
                                    None => { (row.path) }
                                }
                            }
                            td { (row.study) }
                            td { (row.host) }
                            td { (row.kernel) }
                            td.number { (row.curve_count) }
                            td.number { @if let Some(method) = row.method { (method) } @else { "–" } }
                            td { code { (row.seal) } }
                        }
                    }
                }
            }
        },
    )
}

fn left_out(all: &[LeftOut]) -> Markup {
    html! { ul { @for one in all { li { code { (one.path) } ": " (one.reason) } } } }
}

/// Shows a drawing of a trend, its changes, its values, and what is not comparable.
fn figure(site: &Site, trend: &Trend) -> Markup {
    html! {
        h3 { (trend.title()) }
        @for line in &trend.lines {
            @if !line.name.is_empty() { h4 { (line.name) } }
            @if trend.over == Over::Dates { (over_dates(trend, line)) } @else { (over_names(trend, line)) }
            @if !line.changes.is_empty() {
                ul.changes { @for change in &line.changes { li { (change.text(trend.kind)) } } }
            }
            (values(site, trend, line))
        }
        @if trend.lines.is_empty() { p.note { "No record has this value." } }
        @if !trend.refused.is_empty() {
            details.points {
                summary { (numbered(trend.refused.len(), "record", "records")) " not comparable with these" }
                (left_out(&trend.refused))
            }
        }
    }
}

/// Shows the values of a line as a table.
fn values(site: &Site, trend: &Trend, line: &Line) -> Markup {
    let hidden = line.points.len().saturating_sub(VALUES_MAX);
    let page = |name: &str| site.rows.iter().find(|row| row.path == name).and_then(|row| row.page.clone());
    let first = if trend.over == Over::Dates { "Record" } else { "Name" };
    html! {
        details.points {
            summary { "Values as a table" }
            @if hidden > 0 { p.note { "The last " (VALUES_MAX) " of " (line.points.len()) "." } }
            (scrolling(&format!("{}, {}, {}", trend.subject(), trend.title(), line.name), &html! {
                table {
                    thead { tr { @for name in [first, "Started (UTC)", "Value", "From", "To", "Records"] {
                        th scope="col" { (name) }
                    } } }
                    tbody {
                        @for point in &line.points[hidden..] {
                            tr {
                                td {
                                    @match page(&point.name) {
                                        Some(page) => { a href={ "../" (page) } { (point.name) } }
                                        None => { (point.name) }
                                    }
                                }
                                td { (day(&point.started)) }
                                td { (trend.kind.text(point.value)) }
                                td { (trend.kind.text(point.range.0)) }
                                td { (trend.kind.text(point.range.1)) }
                                td { (point.record_count) }
                            }
                        }
                    }
                }
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    fn site() -> Site {
        let mut trend = example();
        trend.lines[0].name = "<host>".to_owned();
        Site { name: "records".to_owned(), rows: Vec::new(), left_out: trend.refused.clone(), trends: vec![trend] }
    }

    #[test]
    fn pages_show_changes_and_escape_what_records_say() {
        let index = index_page(&site());
        assert!(index.contains("+10.5%") && index.contains("benchmark/dup.html"), "{index}");
        assert!(!index.contains("<host>") && index.contains("&lt;host&gt;"));
        let page = subject_page(&site(), "dup");
        assert_eq!(page.matches("<circle").count(), 12);
        assert!(page.contains("x.ndjson") && page.contains("not comparable"));
    }

    /// Guards against "None in 1 history" if no history has enough records.
    #[test]
    fn histories_that_are_too_short_are_not_counted_as_searched() {
        let mut site = site();
        let line = &mut site.trends[0].lines[0];
        line.changes.clear();
        assert!(index_page(&site).contains("None in 1 history."));
        site.trends[0].lines[0].is_searched = false;
        let page = index_page(&site);
        let told = "No history has enough records for a change point.";
        assert!(page.contains(told) && !page.contains("None in"), "{page}");
    }

    /// Guards against a record from elsewhere that makes a page outside the site.
    #[test]
    fn a_benchmark_cannot_leave_its_folder() {
        let paths = ["../../etc/x", "../../etc_x", "______etc_x"].map(subject_path);
        assert!(paths.iter().all(|path| path.starts_with("benchmark/______etc_x") && path.matches('/').count() == 1));
        assert!(paths[0] != paths[1] && paths[2] == "benchmark/______etc_x.html", "{paths:?}");
    }

    #[test]
    fn the_script_cannot_end_its_element() {
        assert!(!SCRIPT.contains("</script"));
    }
}
