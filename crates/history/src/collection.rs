//! A snapshot of a collection: its records, and the files that are left out, with the reason.

use crate::entry::{Curve, Entry};
use crate::files::find;
use crate::filter::Filter;
use crate::index::{Index, Place, With};
use crate::{Error, Quantity};
use landau_report::history::LeftOut;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Options for reading a collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The path of the index; by default it is in the directory, or in the user's cache directory.
    pub index: Option<PathBuf>,
    /// Whether the index is rebuilt from all records.
    pub is_rebuilt: bool,
    /// Whether records without verdicts, or with those of another method, are judged by this version's method.
    pub is_judged_anew: bool,
    /// Whether the curves are read with their points, which [`crate::trends`] needs.
    pub has_curves: bool,
}

/// A collection of records.
#[derive(Debug)]
pub struct Collection {
    /// The sound records that match the filter, in order of time.
    pub entries: Vec<Entry>,
    /// Their curves that match the filter, if curves were requested.
    pub curves: Vec<Curve>,
    /// Files that are left out, regardless of the filter.
    pub left_out: Vec<LeftOut>,
    /// The number of sound records, regardless of the filter.
    pub record_count: usize,
    /// The location of the index.
    pub index: Place,
}

/// Number of attempts to read the collection while other programs change it.
const ATTEMPTS: usize = 5;

/// Updates the index, then returns the records of a directory and its subfolders that match a filter. New and changed
/// files are read; files that are gone are removed from the index.
pub fn read(folder: &Path, filter: &Filter, options: &Options) -> Result<Collection, Error> {
    let mut files = find(folder)?;
    let mut index = Index::open(folder, options.index.as_deref(), options.is_rebuilt)?;
    let with = match (options.has_curves, filter.is_about_curves()) {
        (true, _) => With::Points,
        (false, true) => With::Curves,
        (false, false) => With::Records,
    };
    for _ in 0..ATTEMPTS {
        index.update(&files.seen, options.is_judged_anew)?;
        if let Some(loaded) = index.load(&files.seen, filter, with)? {
            let (entries, mut left_out) = without_copies(loaded.entries);
            left_out.extend(files.left_out);
            left_out.sort_by(|a, b| a.path.cmp(&b.path));
            let mut collection = Collection {
                record_count: entries.len(),
                entries,
                curves: loaded.curves,
                left_out,
                index: index.place,
            };
            collection.select(filter);
            return Ok(collection);
        }
        files = find(folder)?;
    }
    Err(Error::Busy)
}

/// Separates the sound records from the others, and from copies of records: a copy is not a second measurement.
fn without_copies(entries: Vec<Entry>) -> (Vec<Entry>, Vec<LeftOut>) {
    let (sound, unsound): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| entry.reason.is_empty());
    let mut left_out: Vec<LeftOut> = unsound.iter().map(Entry::left_out).collect();
    let mut first: HashMap<(String, String, u64, u64), String> = HashMap::new();
    let mut kept: Vec<Entry> = Vec::new();
    for entry in sound {
        let (seal, started, seed, line_count) = entry.content();
        let content = (seal.to_owned(), started.to_owned(), seed, line_count);
        if let Some(path) = first.get(&content) {
            left_out.push(LeftOut { path: entry.path, reason: format!("a copy of {path}") });
            continue;
        }
        first.insert(content, entry.path.clone());
        kept.push(entry);
    }
    (kept, left_out)
}

impl Collection {
    /// Drops the records and curves that do not match the filter.
    fn select(&mut self, filter: &Filter) {
        self.entries.retain(|entry| filter.holds(entry));
        let records: HashSet<i64> = self.entries.iter().map(|entry| entry.record).collect();
        self.curves.retain(|curve| records.contains(&curve.record) && filter.holds_curve(curve));
        if filter.is_about_curves() {
            let with_curves: HashSet<i64> = self.curves.iter().map(|curve| curve.record).collect();
            self.entries.retain(|entry| with_curves.contains(&entry.record));
        }
    }

    /// Returns the names of the benchmarks of the curves that were read.
    pub fn benchmarks(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.curves.iter().map(|curve| curve.benchmark.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns whether any curve has a value of the quantity.
    pub fn has(&self, quantity: Quantity) -> bool {
        self.curves.iter().any(|curve| quantity.of(curve).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// Guards against renaming a column of the index that the documented queries use. `DuckDB` is not available here;
    /// the queries are limited to what both support.
    #[test]
    fn the_documented_queries_run_on_an_index() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("index.sqlite");
        let options = Options { index: Some(place.clone()), ..Options::default() };
        let collection = read(&docs.join("records/linux-kernels"), &Filter::default(), &options).unwrap();
        assert!(collection.record_count > 10);
        let index = Connection::open(place).unwrap();
        let query = |name: &str| std::fs::read_to_string(docs.join("queries").join(name)).unwrap();
        let mut costs = index.prepare(&query("history_costs.sql")).unwrap();
        let is_bind = |row: &rusqlite::Row<'_>| {
            let name: String = row.get("label")?;
            let (release, records): (String, i64) = (row.get("release")?, row.get("records")?);
            Ok(name == "bind" && release.starts_with("5.10") && records == 1 && row.get::<_, f64>("mean_cost")? > 1.0)
        };
        let found: Vec<bool> = costs.query_map([], is_bind).unwrap().collect::<Result<_, _>>().unwrap();
        assert!(found.len() > 50 && found.contains(&true), "{found:?}");
        let laws = query("history_laws.py");
        let laws = laws.split("\"\"\"").find(|text| text.trim_start().starts_with("SELECT")).unwrap();
        let mut laws = index.prepare(laws).unwrap();
        let names: Vec<&str> = laws.column_names().collect();
        assert_eq!(names, ["label", "phase", "outcome", "law", "cliff_n", "release"]);
        let outcomes = laws.query_map([], |row| row.get::<_, String>("outcome")).unwrap();
        assert!(outcomes.filter_map(Result::ok).any(|outcome| outcome == "grows"));
    }
}
