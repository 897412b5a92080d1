//! The page: one HTML file that needs no network and embeds the record it was drawn from.
//!
//! Sections are HTML made here, by templates that escape every value. Charts are drawn in the browser by uPlot from
//! compressed data blocks, one per chart, which are unpacked when the chart scrolls into view. The results and the
//! record are embedded compressed too; [`extract`] returns both to `landau verify`.

mod check;
mod data;
mod extract;

use crate::quantity::Unit;
use crate::section;
use crate::table::{VariantRow, variant_rows};
use crate::{Analysis, Comparisons, unit_of};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::Write;

pub use check::{Made, difference};
pub(crate) use data::Chart;
pub use extract::{Extract, ExtractError, Packed, extract};

/// The default size limit of a page. Records that would exceed it are written next to the page.
pub const SIZE_LIMIT_BYTES: usize = 6_000_000;

const UPLOT_JS: &str = include_str!("../../vendor/uplot/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("../../vendor/uplot/uPlot.min.css");
/// The style of every page.
pub(crate) const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 9] = [
    include_str!("format.js"),
    include_str!("data.js"),
    include_str!("frame.js"),
    include_str!("curve.js"),
    include_str!("density.js"),
    include_str!("tables.js"),
    include_str!("csv.js"),
    include_str!("order.js"),
    include_str!("page.js"),
];

/// A record to show.
#[derive(Debug)]
pub struct Source<'a> {
    /// Its name on the page, such as `before` or `linux-6.18`. Not shown for a single record.
    pub name: String,
    /// The name of the file, for the download.
    pub file_name: String,
    /// The content of the file.
    pub bytes: &'a [u8],
    /// Its analysis.
    pub analysis: Analysis<'a>,
}

/// Options of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The title; if absent, it is derived from the records.
    pub title: Option<String>,
    /// Size of the page, in bytes, up to which records are embedded.
    pub size_limit_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { title: None, size_limit_bytes: SIZE_LIMIT_BYTES }
    }
}

/// A page, ready to write.
#[derive(Debug)]
pub struct Page {
    /// The page.
    pub html: String,
    /// The files that must be in the same directory, if the records are too large to embed.
    pub beside: Vec<Beside>,
}

/// A file that belongs next to a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Beside {
    /// Its name, without a directory.
    pub file_name: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Its SHA-256, as the page states it.
    pub sha256: String,
}

/// The input of the sections.
pub(crate) struct View<'a> {
    pub(crate) sources: &'a [Source<'a>],
    pub(crate) comparisons: Option<&'a Comparisons>,
    /// The variants of a single record, compared with their default cases.
    pub(crate) variants: Vec<VariantRow>,
    pub(crate) names: Vec<String>,
}

impl View<'_> {
    /// The first record, which determines the order of cases.
    pub(crate) fn base(&self) -> Option<&Analysis<'_>> {
        self.sources.first().map(|source| &source.analysis)
    }

    /// The unit of every cost on the page.
    pub(crate) fn unit(&self) -> Unit {
        self.base().map_or(Unit::Time, |base| unit_of(base.record))
    }
}

/// A record as the page embeds it.
pub(crate) struct EmbeddedRecord {
    pub(crate) file_name: String,
    pub(crate) sha256: String,
    /// In bytes, uncompressed.
    pub(crate) size: usize,
    /// The compressed record in base64; `None` if it is written next to the page.
    pub(crate) content: Option<String>,
}

impl Page {
    /// Renders one record, or several on common axes. The first is the base of every comparison.
    pub fn render(sources: &[Source<'_>], options: &Options) -> Self {
        let analyses: Vec<&Analysis<'_>> = sources.iter().map(|source| &source.analysis).collect();
        let comparisons = (sources.len() > 1).then(|| Comparisons::of(&analyses));
        let names = sources.iter().map(|source| source.name.clone()).collect();
        let variants = if let [one] = sources { variant_rows(&one.analysis) } else { Vec::new() };
        let view = View { sources, comparisons: comparisons.as_ref(), variants, names };
        let mut charts = Vec::new();
        let sections = section::benchmark::details(&view, &mut charts);
        let blocks = html! {
            (Made::of(sources, options).block())
            @for chart in &charts { (chart_block(chart)) }
            (results_block(sources))
        };
        let used = sections.0.len() + blocks.0.len() + UPLOT_JS.len() + STYLE.len() + 200_000;
        let (records, beside) = embed(sources, options.size_limit_bytes.saturating_sub(used));
        let html = document(&view, options, &sections, &blocks, &records).into_string();
        Self { html, beside }
    }
}

/// Compresses bytes and encodes them in base64, which needs no escaping in HTML. Writing to memory cannot fail; if it
/// did, the block would be empty.
fn compress(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    STANDARD.encode(written.unwrap_or_default())
}

/// Returns the SHA-256 of a file in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn chart_block(chart: &Chart) -> Markup {
    let json = serde_json::to_vec(chart).unwrap_or_default();
    html! {
        script type="application/octet-stream" id={ "data-" (chart.id) } { (PreEscaped(compress(&json))) } "\n"
    }
}

/// Returns the results of every record, for `verify`; null if the record itself has the same ones.
fn results_block(sources: &[Source<'_>]) -> Markup {
    let of = |source: &Source<'_>| {
        let analysis = &source.analysis;
        let held = &analysis.record.results;
        let is_held = crate::other_method(held).is_none() && analysis.mismatches(held).is_empty();
        (!is_held).then(|| analysis.results())
    };
    let every: Vec<_> = sources.iter().map(of).collect();
    let json = serde_json::to_vec(&every).unwrap_or_default();
    html! { script type="application/octet-stream" id="results" { (PreEscaped(compress(&json))) } "\n" }
}

/// Embeds the records if all of them fit in `room` bytes; otherwise all of them are written next to the page.
fn embed(sources: &[Source<'_>], room: usize) -> (Vec<EmbeddedRecord>, Vec<Beside>) {
    let mut records: Vec<EmbeddedRecord> = Vec::new();
    let mut left = room;
    for source in sources {
        // Samples compress to a fortieth at best, so compressing a larger record would waste seconds.
        let content =
            (source.bytes.len() / 40 < left).then(|| compress(source.bytes)).filter(|text| text.len() <= left);
        left = content.as_ref().map_or(0, |text| left - text.len());
        records.push(EmbeddedRecord {
            file_name: source.file_name.clone(),
            sha256: sha256(source.bytes),
            size: source.bytes.len(),
            content,
        });
    }
    if records.iter().all(|record| record.content.is_some()) {
        return (records, Vec::new());
    }
    let mut beside = Vec::new();
    for (record, source) in records.iter_mut().zip(sources) {
        record.content = None;
        beside.push(Beside {
            file_name: record.file_name.clone(),
            bytes: source.bytes.to_vec(),
            sha256: record.sha256.clone(),
        });
    }
    (records, beside)
}

/// Content security policy: the page loads nothing; it has its own inline scripts and styles.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; \
                      base-uri 'none'; form-action 'none'";

/// Returns the head of a page, with its content security policy and its styles.
pub(crate) fn head(title: &str, policy: &str, styles: &[&str]) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="generator" content={ "landau " (env!("CARGO_PKG_VERSION")) };
            meta name="color-scheme" content="light dark";
            title { (title) } "\n"
            style { (PreEscaped(styles.join("\n"))) }
        } "\n"
    }
}

fn document(
    view: &View<'_>,
    options: &Options,
    sections: &Markup,
    blocks: &Markup,
    records: &[EmbeddedRecord],
) -> Markup {
    let title = options.title.clone().unwrap_or_else(|| section::summary::title(view));
    let unit = (view.unit() == Unit::Instructions).then_some("instructions");
    html! {
        (DOCTYPE) "\n"
        html lang="en" data-unit=[unit] {
            (head(&title, POLICY, &[UPLOT_CSS, STYLE]))
            body {
                a.skip href="#findings" { "Skip to the findings" }
                (section::summary::render(view, &title))
                main {
                    (section::then::render(view))
                    (section::findings::render(view))
                    (section::overview::render(view))
                    (section::matrix::render(view))
                    (sections)
                    (section::servers::render(view))
                    (section::host::render(view, records))
                } "\n"
                (blocks)
                @for (index, record) in records.iter().enumerate() { (record_block(index, record)) }
                script { (PreEscaped(UPLOT_JS)) } "\n"
                script { (PreEscaped(format!("\"use strict\";\n(() => {{\n{}\n}})();\n", SCRIPTS.join("\n")))) }
            }
        } "\n"
    }
}

fn record_block(index: usize, record: &EmbeddedRecord) -> Markup {
    html! {
        script type="application/octet-stream" id={ "record-" (index) } data-file-name=(record.file_name)
            data-sha256=(record.sha256) data-size=(record.size)
        {
            (PreEscaped(record.content.as_deref().unwrap_or_default()))
        } "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vendored_library_matches_its_readme() {
        let readme = include_str!("../../vendor/uplot/README.md");
        let licence = include_str!("../../vendor/uplot/LICENSE");
        for (name, content) in [("uPlot.iife.min.js", UPLOT_JS), ("uPlot.min.css", UPLOT_CSS), ("LICENSE", licence)] {
            let row = format!("| {name} | {} |", sha256(content.as_bytes()));
            assert!(readme.contains(&row), "{name} is not the file its README names: expected the row {row}");
        }
    }

    #[test]
    fn our_scripts_cannot_end_their_element() {
        assert!(SCRIPTS.iter().all(|script| !script.contains("</script")));
    }
}
