//! The page: one HTML file that works without network and holds the record it was drawn from.
//!
//! Sections are text made here; charts are drawn in the browser by uPlot out of `data` blocks, one for each chart,
//! compressed, unpacked when a reader comes near. The figures and the record stand in the page compressed too, so that
//! [`extract`] hands `landau verify` both. Everything that comes out of a record passes through `escape`.

mod check;
mod data;
mod extract;

use crate::quantity::Unit;
use crate::section;
use crate::{Analysis, Versus, unit_of};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::io::Write;

pub use check::{Made, difference};
pub(crate) use data::Chart;
pub use extract::{Extract, ExtractError, Packed, extract};

/// The largest page that is made, where the record need not lie beside it for that.
pub const SIZE_LIMIT_BYTES: usize = 6_000_000;

const UPLOT_JS: &str = include_str!("../../vendor/uplot/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("../../vendor/uplot/uPlot.min.css");
const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 7] = [
    include_str!("format.js"),
    include_str!("data.js"),
    include_str!("frame.js"),
    include_str!("curve.js"),
    include_str!("density.js"),
    include_str!("tables.js"),
    include_str!("page.js"),
];

/// A record to be shown.
#[derive(Debug)]
pub struct Source<'a> {
    /// What the page calls it: `before`, `linux-6.18` … With one record it is not shown.
    pub name: String,
    /// The file's name, for the download.
    pub file_name: String,
    /// The file as it is on disk.
    pub bytes: &'a [u8],
    /// What may be said about it.
    pub analysis: Analysis<'a>,
}

/// What a page may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The heading; a default that fits the records if none.
    pub title: Option<String>,
    /// Up to which size of the page the records go inside.
    pub size_limit_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { title: None, size_limit_bytes: SIZE_LIMIT_BYTES }
    }
}

/// A page, ready to be written.
#[derive(Debug)]
pub struct Page {
    /// The page.
    pub html: String,
    /// What must lie in the same folder, where the records are too large for the page.
    pub beside: Vec<Beside>,
}

/// A file that belongs beside a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Beside {
    /// Its name, without a folder.
    pub file_name: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// The checksum that the page states.
    pub sha256: String,
}

/// What the sections may look at.
pub(crate) struct View<'a> {
    pub(crate) sources: &'a [Source<'a>],
    pub(crate) versus: Option<&'a Versus>,
    pub(crate) names: Vec<String>,
}

impl View<'_> {
    /// The record that gives the order of cases: the first.
    pub(crate) fn base(&self) -> Option<&Analysis<'_>> {
        self.sources.first().map(|source| &source.analysis)
    }

    /// What every figure of the page counts.
    pub(crate) fn unit(&self) -> Unit {
        self.base().map_or(Unit::Time, |base| unit_of(base.record))
    }
}

/// A record as it goes into the page.
pub(crate) struct Parcel {
    pub(crate) file_name: String,
    pub(crate) sha256: String,
    pub(crate) size: usize,
    /// Base64 of the compressed record; none where it lies beside the page.
    pub(crate) packed: Option<String>,
}

impl Page {
    /// Draws one record, or several over one another; the first is the base of every comparison.
    pub fn render(sources: &[Source<'_>], options: &Options) -> Self {
        let analyses: Vec<&Analysis<'_>> = sources.iter().map(|source| &source.analysis).collect();
        let versus = (sources.len() > 1).then(|| Versus::of(&analyses));
        let names = sources.iter().map(|source| source.name.clone()).collect();
        let view = View { sources, versus: versus.as_ref(), names };
        let mut charts = Vec::new();
        let sections = section::benchmark::all(&view, &mut charts);
        let blocks: String = charts.iter().map(block).collect();
        let figures = figures(sources);
        let used = sections.len() + blocks.len() + figures.len() + UPLOT_JS.len() + STYLE.len() + 200_000;
        let (parcels, beside) = pack(sources, options.size_limit_bytes.saturating_sub(used));
        let made = Made::of(sources, options).block();
        let html = document(&view, options, &sections, &[made, blocks, figures], &parcels);
        Self { html, beside }
    }
}

/// Escapes text for element content and quoted attributes alike.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Compressed and in letters that HTML leaves alone. Writing to memory cannot fail; if it did, the block would be
/// empty.
fn compress(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    STANDARD.encode(written.unwrap_or_default())
}

/// The checksum of a file, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn block(chart: &Chart) -> String {
    let json = serde_json::to_vec(chart).unwrap_or_default();
    format!(
        "<script type=\"application/octet-stream\" id=\"data-{}\">{}</script>\n",
        escape(&chart.id),
        compress(&json)
    )
}

/// The figures of every record, as `verify` will read them; null where the record itself holds the same ones.
fn figures(sources: &[Source<'_>]) -> String {
    let of = |source: &Source<'_>| {
        let analysis = &source.analysis;
        let is_held = analysis.mismatches(&analysis.record.results).is_empty();
        (!is_held).then(|| analysis.figures())
    };
    let every: Vec<_> = sources.iter().map(of).collect();
    let json = serde_json::to_vec(&every).unwrap_or_default();
    format!("<script type=\"application/octet-stream\" id=\"figures\">{}</script>\n", compress(&json))
}

/// Puts the records inside where they fit, all of them or none.
fn pack(sources: &[Source<'_>], room: usize) -> (Vec<Parcel>, Vec<Beside>) {
    let mut parcels: Vec<Parcel> = Vec::new();
    let mut left = room;
    for source in sources {
        // Samples compress to no less than a fortieth: what cannot fit is not worth the seconds.
        let packed = (source.bytes.len() / 40 < left).then(|| compress(source.bytes)).filter(|text| text.len() <= left);
        left = packed.as_ref().map_or(0, |text| left - text.len());
        parcels.push(Parcel {
            file_name: source.file_name.clone(),
            sha256: sha256(source.bytes),
            size: source.bytes.len(),
            packed,
        });
    }
    if parcels.iter().all(|parcel| parcel.packed.is_some()) {
        return (parcels, Vec::new());
    }
    let mut beside = Vec::new();
    for (parcel, source) in parcels.iter_mut().zip(sources) {
        parcel.packed = None;
        beside.push(Beside {
            file_name: parcel.file_name.clone(),
            bytes: source.bytes.to_vec(),
            sha256: parcel.sha256.clone(),
        });
    }
    (parcels, beside)
}

fn document(view: &View<'_>, options: &Options, sections: &str, blocks: &[String], parcels: &[Parcel]) -> String {
    let title = options.title.clone().unwrap_or_else(|| section::summary::title(view));
    let title = escape(&title);
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; \
                  base-uri 'none'; form-action 'none'";
    let records: String = parcels.iter().enumerate().map(|(i, parcel)| record_block(i, parcel)).collect();
    let summary = section::summary::render(view, &title);
    let contents = section::contents::render(view);
    let comparison = section::comparison::render(view);
    let host = section::host::render(view, parcels);
    let scripts = SCRIPTS.join("\n");
    let blocks = blocks.concat();
    let unit = if view.unit() == Unit::Instructions { " data-unit=\"instructions\"" } else { "" };
    format!(
        "<!doctype html>\n<html lang=\"en\"{unit}>\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"generator\" content=\"landau {}\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{UPLOT_CSS}\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#findings\">Skip to the findings</a>\n{summary}\n<div class=\"layout\">\n{contents}\n\
         <main>\n{comparison}{sections}{host}</main>\n</div>\n{blocks}{records}\
         <script>{UPLOT_JS}</script>\n<script>\"use strict\";\n(() => \
         {{\n{scripts}\n}})();\n</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn record_block(index: usize, parcel: &Parcel) -> String {
    let (name, sum) = (escape(&parcel.file_name), &parcel.sha256);
    let attributes =
        format!("id=\"record-{index}\" data-file-name=\"{name}\" data-sha256=\"{sum}\" data-size=\"{}\"", parcel.size);
    let content = parcel.packed.as_deref().unwrap_or("");
    format!("<script type=\"application/octet-stream\" {attributes}>{content}</script>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_record_cannot_become_markup() {
        assert_eq!(escape("<b a='\"'>&"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;");
    }

    #[test]
    fn the_vendored_library_is_what_its_readme_says() {
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
