//! Renders records without the command line: `cargo run --release -p landau-report --example page -- PAGE.html RECORD…`
//!
//! It exists for the browser test and for work on the page; users have `landau report`. Charts are written to
//! `PAGE.svg/`.

use landau_record::Record;
use landau_report::page::{Options, Page, Source};
use landau_report::{Analysis, svg};
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let Some((target, records)) = paths.split_first().filter(|(_, records)| !records.is_empty()) else {
        return Err("usage: page PAGE.html RECORD…".into());
    };
    let bytes: Vec<Vec<u8>> = records.iter().map(std::fs::read).collect::<Result<_, _>>()?;
    let mut read = Vec::new();
    for (path, bytes) in records.iter().zip(&bytes) {
        read.push(Record::parse(&path.display().to_string(), bytes)?);
    }
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let sources: Vec<Source<'_>> = records
        .iter()
        .zip(&bytes)
        .zip(&read)
        .map(|((path, bytes), record)| Source {
            name: name(path).trim_end_matches(".landau.ndjson").to_owned(),
            file_name: name(path),
            bytes,
            analysis: Analysis::of(record),
        })
        .collect();
    let page = Page::render(&sources, &Options::default());
    std::fs::write(target, page.html)?;
    let folder = target.parent().unwrap_or(Path::new("."));
    for file in page.beside {
        std::fs::write(folder.join(file.file_name), file.bytes)?;
    }
    let charts = target.with_extension("svg");
    std::fs::create_dir_all(&charts)?;
    for (name, svg) in svg::charts(&sources[0].analysis) {
        std::fs::write(charts.join(name), svg)?;
    }
    Ok(())
}
