//! Attributes a call's instructions to kernel functions, and their growth with n.
//!
//! The kernel boots twice. The first guest sends the kernel's symbols. In the second, a plugin of the emulator counts
//! each timed call's instructions by function ([`plugin`]). The counts are joined to the record's samples call by call,
//! and each function's cost is fitted against n. The plugin does not change the guest's clock, so the record equals
//! that of a run without it.

mod attribute;
mod counts;
mod error;
pub mod plugin;

use crate::error::io;
use crate::job::Job;
use crate::launch::Ending;
use crate::observer::Silent;
use crate::qemu;
use crate::session::{self, Measured, RunSpec};
use counts::Counts;
pub use error::Error;
use landau_profile::{Symbols, source_version};
use landau_record::schema::{Explanation, Line, Unit};
use landau_record::{Record, Writer};
use std::path::Path;

/// What to explain.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The phase to explain; `None` for all phases.
    pub phase: Option<&'a str>,
    /// The sizes to compare; empty for a tenth, a half and all of the steps.
    pub at: &'a [u64],
}

/// The result of [`explain`].
#[derive(Debug)]
pub struct Explained {
    /// One for each phase of each case; the record contains them too.
    pub explanations: Vec<Explanation>,
    /// The run; the caller writes the results and the end.
    pub measured: Measured,
}

/// Runs `spec` under the plugin, writes its record, and explains it.
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
    let extra = plugin_arguments(&plugin, &table, &out);
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

/// Returns the emulator's arguments that load the plugin. A comma ends a value, unless it is doubled.
fn plugin_arguments(plugin: &Path, symbols: &Path, out: &Path) -> [String; 2] {
    let text = |path: &Path| path.display().to_string().replace(',', ",,");
    ["-plugin".to_owned(), format!("file={},symbols={},out={}", text(plugin), text(symbols), text(out))]
}

/// Boots the kernel once for the addresses of its functions.
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
    check("send the kernel's symbols", &measured)?;
    Symbols::of(&measured.symbols.unwrap_or_default()).ok_or(Error::NoSymbols)
}

/// Checks that the guest is done.
fn check(task: &'static str, measured: &Measured) -> Result<(), Error> {
    if let Some(reason) = &measured.failed {
        return Err(Error::Guest { task, reason: reason.clone() });
    }
    if measured.how == Ending::Done {
        return Ok(());
    }
    let console = &measured.console;
    let last = console[console.len().saturating_sub(20)..].join("\n  ");
    Err(Error::Guest { task, reason: format!("it ended early: {:?}\n  {last}", measured.how) })
}

fn explanations(
    record: &Record,
    counts: &Counts,
    symbols: &Symbols,
    question: &Question,
) -> Result<Vec<Explanation>, Error> {
    if counts.has_overflown {
        return Err(Error::Counts("there are too many call chains; use fewer steps".to_owned()));
    }
    if counts.pass_count != record.passes.len() {
        let (passes, marked) = (record.passes.len(), counts.pass_count);
        return Err(Error::Counts(format!("the record has {passes} passes, but the plugin saw {marked}")));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_is_doubled() {
        let arguments = plugin_arguments(Path::new("/tmp/a,b.so"), Path::new("/s"), Path::new("/o"));
        assert_eq!(arguments[1], "file=/tmp/a,,b.so,symbols=/s,out=/o");
    }
}
