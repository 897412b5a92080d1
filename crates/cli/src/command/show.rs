//! `landau show`: prints the verdicts of a record as a table.

use crate::status;
use crate::terminal;
use landau_record::Record;
use landau_report::findings::Finding;
use landau_report::timeline::TimelineStudy;
use landau_report::{Analysis, Comparisons, Shift, findings, ladder, table, then, unit_of};
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau show run.landau.ndjson
  landau show --all run.landau.ndjson                      print every finding
  landau show --sort growth --only growing run.landau.ndjson
  landau show before.landau.ndjson after.landau.ndjson     two records side by side
  landau show run.landau.ndjson --json | jq '.rows[].class'")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// Record to show; further records are compared with the first
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print every finding and every comparison of variants or records [default: the seven most important findings and
    /// the proven differences of variants]
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Print for each curve of one record its growth per doubling, its cost at ten times n, the growth of its 99th
    /// percentile, and the source of the uncertainty
    #[arg(long, conflicts_with = "json")]
    details: bool,
    /// Print only the articles about the earlier studies that one record replays (`landau run --study then`)
    #[arg(long, conflicts_with_all = ["json", "all", "details", "sort", "only"])]
    articles: bool,
    /// Sort the curves [default: as measured, grouped by case]
    #[arg(long, value_name = "KEY")]
    sort: Option<Sort>,
    /// Show only these curves
    #[arg(long, value_name = "OUTCOME", value_delimiter = ',')]
    only: Vec<Only>,
}

/// The order of the curves.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Sort {
    /// Largest change first: the factor of a cliff, else the growth
    Growth,
    /// Most expensive first, at the largest n
    Cost,
    /// Cliffs, then growth, not resolved, small changes, flat
    Outcome,
    /// By benchmark, settings and phase
    Name,
}

/// The curves to show.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Only {
    /// Curves that grow, fall or vary by more than 10%
    Growing,
    /// Curves that are not resolved
    Unresolved,
    /// Curves with a cliff, a limit or a crash
    Limits,
}

impl Args {
    /// What `landau run` prints at its end.
    fn of(files: Vec<PathBuf>) -> Self {
        Self { files, json: false, all: false, details: false, articles: false, sort: None, only: Vec::new() }
    }

    fn order(&self) -> table::Sort {
        match self.sort {
            None => table::Sort::Case,
            Some(Sort::Growth) => table::Sort::Growth,
            Some(Sort::Cost) => table::Sort::Cost,
            Some(Sort::Outcome) => table::Sort::Outcome,
            Some(Sort::Name) => table::Sort::Name,
        }
    }

    /// Returns the rows of a record, filtered and sorted by the options.
    fn rows(&self, analysis: &Analysis) -> Vec<table::Row> {
        let only = self.only.iter().map(|only| match only {
            Only::Growing => table::Only::Growing,
            Only::Unresolved => table::Only::Unresolved,
            Only::Limits => table::Only::Limits,
        });
        table::arranged(table::rows(analysis), &only.collect::<Vec<_>>(), self.order())
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    if args.details && args.files.len() > 1 {
        anyhow::bail!("--details takes one record, not {}; show them one at a time", args.files.len());
    }
    let records = args.files.iter().map(|path| Record::read(path)).collect::<Result<Vec<_>, _>>()?;
    if let Some(why) = landau_report::unlike(&records) {
        anyhow::bail!(why);
    }
    let analyses: Vec<Analysis> = records.iter().map(Analysis::of).collect();
    let text = match () {
        () if args.json => as_json(&analyses, args)?,
        () if args.articles => articles(&analyses)?,
        () => as_table(&analyses, args),
    };
    status::print(&text)?;
    for record in &records {
        warn_of(record);
    }
    Ok(status::DONE)
}

/// Returns the articles about one record.
fn articles(analyses: &[Analysis]) -> anyhow::Result<String> {
    let [one] = analyses else {
        anyhow::bail!("--articles takes one record, not {}; show them one at a time", analyses.len());
    };
    let articles = then::of(one);
    if articles.is_empty() {
        let path = &one.record.path;
        anyhow::bail!("{path} does not replay earlier studies; to measure them, use landau run --study then");
    }
    Ok(then::render(&articles, terminal::layout()) + "\n")
}

/// Renders one record as its rows and its findings, or several as their rows side by side and the findings across them.
fn as_table(analyses: &[Analysis], args: &Args) -> String {
    let (Some(base), layout) = (analyses.first(), terminal::layout()) else { return String::new() };
    let mut text = what_it_counts(base.record);
    if analyses.len() == 1 {
        if let Some(nothing) = landau_report::text::nothing_measured(base.record) {
            let found = findings::of(base);
            return text + nothing + &listed(&found, findings::leading(&found), args);
        }
        let rows = args.rows(base);
        text.push_str(&table::render(&rows, unit_of(base.record), args.order(), layout));
        if args.details {
            text.push_str(&details(&rows));
        }
        if args.only.is_empty() && args.sort.is_none() {
            let variants = table::render_variants(&table::variant_rows(base), args.all, layout);
            text.extend([if variants.is_empty() { "" } else { "\n\n" }, &variants]);
        }
        if let Some(ladder) = ladder::of(base) {
            text.extend(["\n\n", &ladder::render(&ladder, layout)]);
        }
        let articles = then::of(base);
        if !articles.is_empty() {
            text.extend(["\n\n", &then::render(&articles, layout)]);
        }
        for (number, timeline) in base.cases.iter().filter_map(|study| study.timeline.as_ref()).enumerate() {
            text.extend([
                if number == 0 { "\n\n" } else { "\n" },
                &table::plain(timeline.case),
                ": ",
                &table::plain(&landau_report::text::timeline(timeline)),
            ]);
        }
        let found = findings::of(base);
        text.push_str(&listed(&found, findings::leading(&found), args));
        return text;
    }
    let (names, every) = (names(&args.files), analyses.iter().collect::<Vec<_>>());
    let comparisons = Comparisons::of(&every);
    let compared = table::comparison_rows(&comparisons, &names);
    let rows: Vec<_> = analyses.iter().map(table::rows).collect();
    text.push_str(&table::render_records(&rows, &args.rows(base), &compared, &names, layout));
    for (analysis, name) in analyses.iter().zip(&names) {
        for timeline in analysis.cases.iter().filter_map(|study| study.timeline.as_ref()) {
            let line = format!("{name}, {}: {}", timeline.case, landau_report::text::timeline(timeline));
            text.extend(["\n", &table::plain(&line)]);
        }
    }
    if let Some(ladders) = ladder::records::of(&every, &names) {
        text.extend(["\n\n", &ladder::records::render(&ladders, layout)]);
    }
    if args.all {
        text.extend(["\n\n", &table::render_comparisons(&compared, layout)]);
    }
    for shift in &comparisons.shifts {
        text.extend(["\n\n", &terminal::wrapped(&shift.text(&names), 0)]);
    }
    let (found, leading) = findings::across(&every, &comparisons, &names);
    text.push_str(&listed(&found, leading, args));
    text
}

/// Returns the details of each curve that has any.
fn details(rows: &[table::Row]) -> String {
    let told = rows.iter().filter(|row| !row.text.details.is_empty());
    let lines =
        told.map(|row| terminal::bullet(&format!("{} · {}: {}", row.case, row.phase, row.text.details.join(" "))));
    format!("\n\nDetails:\n{}", lines.collect::<String>())
}

/// Renders one record, or several side by side, as `landau lab run` does at its end.
pub(crate) fn side_by_side(analyses: &[Analysis<'_>], files: &[PathBuf]) -> String {
    as_table(analyses, &Args::of(files.to_vec()))
}

/// Renders the table and the most important findings of one record.
pub(crate) fn summary(analysis: &Analysis) -> String {
    as_table(std::slice::from_ref(analysis), &Args::of(vec![PathBuf::from(&analysis.record.path)]))
}

/// Returns a line to print above the table if the costs are not times.
pub(crate) fn what_it_counts(record: &Record) -> String {
    match record.unit() {
        landau_record::schema::Unit::Ns => String::new(),
        landau_record::schema::Unit::Instructions => {
            "Costs are instructions, counted exactly on one emulated processor: path lengths, not time.\n\n".to_owned()
        }
        landau_record::schema::Unit::EmulatedNs => {
            "Not times: measured with an emulator's clock. They show limits, and whether calls work.\n\n".to_owned()
        }
    }
}

/// Returns the leading findings, or all with `--all`.
fn listed(found: &[Finding], leading: usize, args: &Args) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut text = "\n\nFindings, most important first:\n".to_owned();
    let shown = if args.all { found.len() } else { leading };
    text.extend(found.iter().take(shown).map(|finding| terminal::bullet(&finding.sentence())));
    if let more @ 1.. = found.len().saturating_sub(shown) {
        let files = args.files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
        let line = |rest: &str| format!("  … and {more} more: see the page, or {rest}");
        let whole = line(&format!("run landau show --all {files}"));
        let fits = whole.chars().count() <= usize::from(terminal::layout().width);
        text.extend([if fits { whole } else { line("add --all to this command") }, "\n".to_owned()]);
    }
    text
}

/// Returns the shifts between the records, with the names of the records.
fn shifts(comparisons: &Comparisons, names: &[String]) -> Vec<Value> {
    let one = |shift: &Shift| {
        let mut value = json!(shift);
        value["base"] = json!(names.get(shift.base));
        value["other"] = json!(names.get(shift.other));
        value["text"] = json!(shift.text(names));
        value
    };
    comparisons.shifts.iter().map(one).collect()
}

fn as_json(analyses: &[Analysis], args: &Args) -> anyhow::Result<String> {
    let told = |found: &[Finding]| {
        let one = |one: &Finding| {
            json!({
                "kind": one.kind.name(), "text": one.text, "consequence": one.consequence, "items": one.items
            })
        };
        found.iter().map(one).collect::<Vec<_>>()
    };
    let value = match analyses {
        [one] => json!({
            "unit": one.record.unit(), "rows": args.rows(one), "findings": told(&findings::of(one)),
            "variants": table::variant_rows(one), "results": one.results(), "ladder": ladder::of(one),
            "then": then::of(one),
            "timelines": timelines(one)
        }),
        several => {
            let (names, every) = (names(&args.files), several.iter().collect::<Vec<_>>());
            let comparisons = Comparisons::of(&every);
            let (found, _) = findings::across(&every, &comparisons, &names);
            json!({
                "unit": every[0].record.unit(), "records": records_as_json(several, &names, args),
                "comparisons": table::comparison_rows(&comparisons, &names), "shifts": shifts(&comparisons, &names),
                "findings": told(&found),
                "ladders": ladder::records::of(&every, &names)
            })
        }
    };
    Ok(serde_json::to_string_pretty(&value)?)
}

/// Returns several records as JSON, with the same curves as the text. The options select and sort the curves of the
/// first record; the others have the same curves in the same order. Without `--only`, curves that the first record
/// lacks follow.
fn records_as_json(analyses: &[Analysis<'_>], names: &[String], args: &Args) -> Vec<serde_json::Value> {
    let shown = analyses.first().map(|base| args.rows(base)).unwrap_or_default();
    let place = |row: &table::Row| shown.iter().position(|other| other.case == row.case && other.phase == row.phase);
    let one = |(analysis, name): (&Analysis<'_>, &String)| {
        let mut rows = table::rows(analysis);
        rows.retain(|row| args.only.is_empty() || place(row).is_some());
        rows.sort_by_key(|row| place(row).unwrap_or(usize::MAX));
        json!({"name": name, "rows": rows, "timelines": timelines(analysis)})
    };
    analyses.iter().zip(names).map(one).collect()
}

/// The rates of the timelines of a record.
fn timelines<'a>(analysis: &'a Analysis<'a>) -> Vec<&'a TimelineStudy<'a>> {
    analysis.cases.iter().filter_map(|study| study.timeline.as_ref()).collect()
}

/// Returns the names of the records: their file names without extensions, or their paths if file names are equal.
pub(crate) fn names(files: &[PathBuf]) -> Vec<String> {
    let name = |path: &PathBuf| String::from_utf8_lossy(stem(path)).into_owned();
    let short: Vec<String> = files.iter().map(name).collect();
    let is_shared = |one: &String| short.iter().filter(|other| *other == one).count() > 1;
    let named = |(path, short): (&PathBuf, &String)| {
        if is_shared(short) { path.display().to_string() } else { short.clone() }
    };
    files.iter().zip(&short).map(named).collect()
}

/// Returns the name of a record's file without its extensions, as bytes: two names that are not UTF-8 may be equal when
/// converted to text.
pub(crate) fn stem(path: &Path) -> &[u8] {
    let mut name = path.file_name().unwrap_or_default().as_bytes();
    name = name.strip_suffix(b".gz").unwrap_or(name);
    for end in [".ndjson", ".landau"] {
        while let Some(rest) = name.strip_suffix(end.as_bytes()) {
            name = rest;
        }
    }
    name
}

/// Returns the name of a record's file after decompression.
pub(crate) fn file_name(path: &Path) -> String {
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    name.strip_suffix(".gz").map_or(name.clone(), str::to_owned)
}

/// Warns on standard error if the record was altered or is incomplete.
pub(crate) fn warn_of(record: &Record) {
    if let Some(fault) = &record.fault {
        status::tell(&format!("{}: line {} was altered: {}", record.path, fault.line, fault.reason));
    }
    if record.end.is_none() {
        status::tell(&format!("{}: the run did not end{}", record.path, record.how_to_continue(&record.path)));
    }
}

#[cfg(test)]
mod tests {
    use landau_bench::REGISTRY;

    /// Guards against the ratio of a wrong record: the table looks comparisons up by the names of the records.
    #[test]
    fn records_with_equal_file_names_are_told_by_their_paths() {
        let of = |files: &[&str]| super::names(&files.iter().map(std::path::PathBuf::from).collect::<Vec<_>>());
        let names = of(&["a/run.landau.ndjson", "b/run.landau.ndjson.gz", "c/new.ndjson"]);
        assert_eq!(names, ["a/run.landau.ndjson", "b/run.landau.ndjson.gz", "new"]);
        assert_eq!(of(&["a/run.landau.ndjson"]), ["run"]);
    }

    /// Guards against a sentence about a renamed benchmark or phase: it would never be printed again.
    #[test]
    fn consequences_are_told_of_curves_that_exist() {
        for (benchmark, phase) in landau_report::text::subjects() {
            let entry = REGISTRY.iter().find(|entry| entry.name == benchmark);
            let is_there = entry.is_some_and(|entry| entry.phases.iter().any(|one| one.name == phase));
            assert!(is_there, "no benchmark {benchmark} with a phase {phase}");
        }
    }

    /// Guards against an article about a curve that the study `then` does not measure: it would say "not measured".
    #[test]
    fn articles_read_curves_that_the_study_then_measures() {
        for subject in landau_report::then::subjects() {
            let entry = REGISTRY.iter().find(|entry| entry.name == subject.benchmark);
            let entry = entry.unwrap_or_else(|| panic!("no benchmark of {subject:?}"));
            let is_measured = entry.replays.iter().any(|replay| {
                let mut settings = landau_engine::Settings::of_study(entry.parameters, landau_engine::Study::Then);
                for (name, value) in replay.settings {
                    settings.set(name, value);
                }
                let has = |(name, value): &(&str, &str)| settings.is(name, value);
                replay.author.map(|(study, _)| study) == subject.study && subject.settings.iter().all(has)
            });
            assert!(is_measured, "no case of {subject:?}");
            assert!(entry.phases.iter().any(|phase| phase.name == subject.phase), "no phase of {subject:?}");
        }
    }

    /// Guards against a description of a renamed setting.
    #[test]
    fn variants_are_told_of_settings_that_exist() {
        for (benchmark, setting) in landau_report::text::variants() {
            let entry = REGISTRY.iter().find(|entry| entry.name == benchmark);
            let is_there = entry.is_some_and(|entry| entry.parameters.iter().any(|one| one.name == setting));
            assert!(is_there, "no benchmark {benchmark} with a setting {setting}");
        }
    }
}
