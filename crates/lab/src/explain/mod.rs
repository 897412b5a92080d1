//! Which kernel functions a call's instructions are spent in, and which of them make it dearer the more there is.
//!
//! The kernel is booted twice. The first guest tells the kernel's symbols; in the second the benchmark runs while a
//! plugin of the emulator counts each timed call's instructions by function ([`plugin`]). The counts are joined to the
//! record's samples call by call, and each function's cost is followed over n. The plugin does not move the guest's
//! time, so the record is the one that the same run leaves without it.

mod attribute;
mod counts;
mod error;
pub mod plugin;
mod symbols;

use crate::error::io;
use crate::job::Job;
use crate::launch::Ending;
use crate::observer::Silent;
use crate::qemu;
use crate::session::{self, Measured, RunSpec};
use counts::Counts;
pub use error::Error;
use landau_record::schema::{Explanation, Line, Unit};
use landau_record::{Record, Writer};
use std::path::Path;
use symbols::Symbols;

/// What is to be explained.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// One phase; all of them if none is named.
    pub phase: Option<&'a str>,
    /// The sizes to look at; a tenth, a half and all of what there is if none is given.
    pub at: &'a [u64],
}

/// What came of it.
#[derive(Debug)]
pub struct Explained {
    /// One for each phase of each case; they are in the record as well.
    pub explanations: Vec<Explanation>,
    /// What is left to write: the figures and the end.
    pub measured: Measured,
}

/// Runs what `spec` says under the plugin, writes its record, and explains it.
pub fn explain(
    spec: &RunSpec,
    question: &Question,
    writer: &mut Writer,
    interrupted: &dyn Fn() -> bool,
) -> Result<Explained, Error> {
    let plugin = plugin::write_into(spec.folder, &qemu::version(spec.platform.name())?)?;
    let symbols = symbols_of(spec, interrupted)?;
    let (table, out) = (spec.folder.join("symbols"), spec.folder.join("counts"));
    std::fs::write(&table, symbols.table()).map_err(|source| io("write", &table, source))?;
    let extra = words(&plugin, &table, &out);
    let measured = session::measure(&RunSpec { emulator_arguments: &extra, ..*spec }, writer, interrupted, &Silent)?;
    check("measure", &measured)?;
    let bytes = std::fs::read(&out).map_err(|source| io("read", &out, source))?;
    let counts = Counts::parse(&bytes)?;
    writer.flush().map_err(crate::Error::from)?;
    let record = Record::read(writer.path()).map_err(crate::Error::from)?;
    let explanations = explanations(&record, &counts, &symbols, question)?;
    for explanation in &explanations {
        writer.append(&Line::Explanation(Box::new(explanation.clone()))).map_err(crate::Error::from)?;
    }
    Ok(Explained { explanations, measured })
}

/// The emulator's words that load the plugin. A comma would end a value; doubled it is one.
fn words(plugin: &Path, symbols: &Path, out: &Path) -> [String; 2] {
    let text = |path: &Path| path.display().to_string().replace(',', ",,");
    ["-plugin".to_owned(), format!("file={},symbols={},out={}", text(plugin), text(symbols), text(out))]
}

/// Boots the kernel once to ask where its functions are.
fn symbols_of(spec: &RunSpec, interrupted: &dyn Fn() -> bool) -> Result<Symbols, Error> {
    let job = Job {
        names: vec!["nop".to_owned()],
        settings: vec!["nop.n=1".to_owned()],
        study: "smoke".to_owned(),
        pass_count: Some(1),
        settle_s: 0,
        symbols: true,
        unit: Unit::Instructions,
        ..spec.job.clone()
    };
    let path = spec.folder.join("symbols.landau.ndjson");
    let mut writer = Writer::create(&path).map_err(crate::Error::from)?;
    let measured = session::measure(&RunSpec { job: &job, ..*spec }, &mut writer, interrupted, &Silent)?;
    check("tell the kernel's symbols", &measured)?;
    Symbols::of(&measured.symbols.unwrap_or_default())
}

/// Whether the guest came to its end.
fn check(task: &'static str, measured: &Measured) -> Result<(), Error> {
    if let Some(reason) = &measured.failed {
        return Err(Error::Guest { task, reason: reason.clone() });
    }
    if measured.how == Ending::Done {
        return Ok(());
    }
    let console = &measured.console;
    let last = console[console.len().saturating_sub(20)..].join("\n  ");
    Err(Error::Guest { task, reason: format!("it ended otherwise: {:?}\n  {last}", measured.how) })
}

fn explanations(
    record: &Record,
    counts: &Counts,
    symbols: &Symbols,
    question: &Question,
) -> Result<Vec<Explanation>, Error> {
    if counts.has_overflown {
        return Err(Error::Counts("more chains of calls than there is room for; ask for fewer steps".to_owned()));
    }
    if counts.pass_count != record.passes.len() {
        let (passes, marked) = (record.passes.len(), counts.pass_count);
        return Err(Error::Counts(format!("the record has {passes} passes, but {marked} were marked")));
    }
    let source = source_version(&record.host.release, &record.host.version);
    let mut found = Vec::new();
    for case in &record.cases {
        let of_case = attribute::case(case, &record.passes, counts, symbols, question.at)?;
        found.extend(of_case.into_iter().map(|one| Explanation { source: source.clone(), ..one }));
    }
    found.retain(|one| question.phase.is_none_or(|phase| phase == one.phase));
    if found.is_empty() {
        let names: Vec<&str> = record.cases.iter().map(|case| case.label.as_str()).collect();
        return Err(Error::NotExplainable(names.join(", ")));
    }
    Ok(found)
}

/// The tag of a kernel's source: of the release that it was built from, as far as its own words tell. Debian says it
/// beside its own numbering: `6.1.0-56-cloud-amd64`, `#1 SMP … Debian 6.1.192-2`.
fn source_version(release: &str, version: &str) -> String {
    let debian = version.split_once("Debian ").map(|(_, rest)| rest);
    let text = debian.unwrap_or(release);
    let number = text.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default().trim_matches('.');
    // The first of a series has no third number in its tag.
    format!("v{}", number.strip_suffix(".0").filter(|rest| rest.contains('.')).unwrap_or(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_the_one_that_was_built() {
        let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-10-30)";
        assert_eq!(source_version("6.1.0-56-cloud-amd64", debian), "v6.1.192");
        assert_eq!(source_version("7.2.13+deb14-cloud-amd64", "#1 SMP Debian 7.2.13-1"), "v7.2.13");
        assert_eq!(source_version("6.12.0", "#1 SMP"), "v6.12");
        assert_eq!(source_version("6.18-rc3", "#2"), "v6.18");
    }

    #[test]
    fn a_comma_in_a_path_does_not_end_it() {
        let words = words(Path::new("/tmp/a,b.so"), Path::new("/s"), Path::new("/o"));
        assert_eq!(words[1], "file=/tmp/a,,b.so,symbols=/s,out=/o");
    }
}
