//! `landau history --site`: a static site of a collection.

use crate::command::report;
use crate::status;
use anyhow::Context;
use landau_history::{Collection, Quantity, SITE_MARK, trends};
use landau_report::history::{Over, Row, Site, Trend, index_page, record_path, subject_page, subject_path};
use landau_report::table::plain;
use std::path::Path;

/// The directories of a site.
const FOLDERS: [&str; 3] = ["", "benchmark", "record"];

/// Returns an error if the output directory contains anything other than a site, or the records themselves. A site
/// copied from elsewhere may contain symbolic links, through which files outside it would be overwritten.
fn check_output(folder: &Path, output: &Path) -> anyhow::Result<()> {
    let within = FOLDERS.iter().flat_map(|name| [output.join(name), output.join(name).join(SITE_MARK)]);
    for place in within.skip(1) {
        let is_link = place.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        anyhow::ensure!(!is_link, "{} is a symbolic link; choose another directory for the site", place.display());
    }
    let Ok(mut entries) = std::fs::read_dir(output) else { return Ok(()) };
    let (records, place) = (folder.canonicalize()?, output.canonicalize()?);
    let name = output.display();
    anyhow::ensure!(!records.starts_with(&place), "{name} contains the records; choose another directory for the site");
    let is_site = output.join(SITE_MARK).is_file();
    anyhow::ensure!(
        is_site || entries.next().is_none(),
        "{name} is neither empty nor a site; choose another directory"
    );
    Ok(())
}

/// Writes the site. An existing page of a record is kept.
pub(super) fn write(collection: &Collection, folder: &Path, output: &Path) -> anyhow::Result<u8> {
    check_output(folder, output)?;
    for name in FOLDERS {
        let place = output.join(name);
        std::fs::create_dir_all(&place).with_context(|| format!("create {}", place.display()))?;
        // The mark excludes this directory from collections: large records are copied next to their pages.
        let mark = place.join(SITE_MARK);
        std::fs::write(&mark, "").with_context(|| format!("write {}", mark.display()))?;
    }
    let rows = record_pages(collection, folder, output)?;
    let name = folder.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let site = Site {
        name: name.unwrap_or_else(|| "Records".to_owned()),
        rows,
        left_out: collection.left_out.clone(),
        trends: every_trend(collection),
    };
    for benchmark in site.subjects() {
        report::put_page(&output.join(subject_path(benchmark)), &subject_page(&site, benchmark))?;
    }
    let index = output.join("index.html");
    report::put_page(&index, &index_page(&site))?;
    status::tell(&format!("site: {} ({} records)", index.display(), site.rows.len()));
    Ok(status::DONE)
}

/// Writes the page of each record; returns the rows of the table, newest first.
fn record_pages(collection: &Collection, folder: &Path, output: &Path) -> anyhow::Result<Vec<Row>> {
    let count = collection.entries.len();
    let mut rows = Vec::new();
    for (index, entry) in collection.entries.iter().enumerate() {
        let page = record_path(&entry.path, &entry.seal);
        let place = output.join(&page);
        if !place.exists() {
            status::tell(&format!("page {} of {count}: {}", index + 1, plain(&entry.path)));
            // Named after the page, because several records may have the same file name.
            let stem = place.file_stem().map_or("record".into(), std::ffi::OsStr::to_string_lossy);
            report::write_named(&folder.join(&entry.path), format!("{stem}.landau.ndjson"), &place)?;
        }
        rows.push(Row { page: Some(page), ..entry.row() });
    }
    rows.reverse();
    Ok(rows)
}

/// Returns all trends to show: costs, growth and limits over dates, and costs over hosts and over kernels where there
/// are several.
fn every_trend(collection: &Collection) -> Vec<Trend> {
    let cost = Quantity::Cost { n: None };
    let mut all = trends(collection, &[cost, Quantity::Growth, Quantity::Limit], Over::Dates);
    for over in [Over::Hosts, Over::Kernels] {
        let has_several = |one: &Trend| one.lines.iter().any(|line| line.points.len() > 1);
        all.extend(trends(collection, &[cost], over).into_iter().filter(has_several));
    }
    // The sort is stable: the trends of a curve keep this order.
    all.sort_by(|a, b| (&a.benchmark, &a.case, &a.phase).cmp(&(&b.benchmark, &b.case, &b.phase)));
    all
}
