//! The part of a record that the index stores: its facts, and the values of its verdicts.
//!
//! Verdicts are read from the `result` lines as JSON, because records may hold those of any earlier method. Judging the
//! samples again takes seconds for a large record, so it is done on request only.

use crate::entry::{Curve, Entry};
use landau_record::schema::{Case, Host, Limit, PhaseResult};
use landau_record::{Error, Record};
use landau_report::{Analysis, METHOD, unit_of};
use landau_stats::Estimate;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads a record file. If it is not a sound record, the entry has the reason.
pub(crate) fn read(full: &Path, path: &str, is_judged_anew: bool) -> (Entry, Vec<Curve>) {
    let unsound = |reason: String| (Entry { path: path.to_owned(), reason, ..Entry::default() }, Vec::new());
    let bytes = match landau_record::read_file(full) {
        Ok(bytes) => bytes,
        Err(error) => return unsound(said(&error)),
    };
    match Record::parse(path, &bytes) {
        Ok(record) => of(&record, path, is_judged_anew),
        Err(error) => unsound(said(&error)),
    }
}

/// Returns the reason of an error, without the path, which is shown separately.
fn said(error: &Error) -> String {
    match error {
        Error::Malformed { line, reason, .. } => format!("line {line}: {reason}"),
        Error::Io { action, source, .. } => format!("cannot {action} it: {source}"),
        other => other.to_string(),
    }
}

/// Returns what the index stores about a record.
fn of(record: &Record, path: &str, is_judged_anew: bool) -> (Entry, Vec<Curve>) {
    let mut entry = facts(record, path);
    entry.reason = unsound(record);
    if !entry.reason.is_empty() {
        return (entry, Vec::new());
    }
    let is_own = |results: &[PhaseResult]| !results.is_empty() && results.iter().all(|one| one.method == METHOD);
    let anew = (is_judged_anew && !is_own(&record.results)).then(|| Analysis::of(record).results());
    entry.is_judged_anew = anew.is_some();
    let results = anew.as_ref().unwrap_or(&record.results);
    entry.method = results.iter().map(|result| result.method).max();
    let curves: Vec<Curve> = results.iter().filter_map(|result| curve(record, result)).collect();
    entry.curve_count = curves.len();
    (entry, curves)
}

/// Returns why a record is left out; empty if it is sound.
fn unsound(record: &Record) -> String {
    if let Some(fault) = &record.fault {
        return format!("line {} was altered: {}", fault.line, fault.reason);
    }
    // Without the record's own name, so that files with the same reason share a line.
    let how = || record.how_to_continue("FILE");
    if let Some(torn) = &record.torn {
        return format!("line {} is torn, so the run was killed{}", torn.line, how());
    }
    if record.end.is_none() {
        return format!("the run did not end{}", how());
    }
    String::new()
}

fn facts(record: &Record, path: &str) -> Entry {
    let (header, host) = (&record.header, &record.host);
    let platform = record.lab.as_ref().map_or(String::new(), |lab| lab.platform.clone());
    let entry = Entry {
        path: path.to_owned(),
        schema: header.schema,
        landau: header.landau.clone(),
        command: header.command.join(" "),
        started: header.started.clone(),
        study: header.study.clone(),
        seed: header.seed,
        unit: unit_of(record),
        host: host_of(host, &platform),
        system: host.system.clone(),
        release: host.release.clone(),
        distribution: host.distribution.clone(),
        machine: host.machine.clone(),
        processor: host.processor.clone(),
        processor_count: host.processor_count,
        memory_bytes: host.memory_bytes,
        platform,
        facts: serde_json::to_string(&changing(record)).unwrap_or_default(),
        outcome: record.end.as_ref().map_or(String::new(), |end| end.outcome.name().to_owned()),
        line_count: record.line_count,
        seal: record.last_seal.clone(),
        ..Entry::default()
    };
    let labels = record.cases.iter().map(|case| case.label.as_str());
    let notes = record.notes.iter().map(String::as_str);
    let own: [&str; 7] =
        [path, &entry.command, &entry.study, &entry.host, &entry.system, &entry.release, &entry.distribution];
    let words = own.into_iter().chain(labels).chain(notes).collect::<Vec<&str>>().join(" ").to_lowercase();
    Entry { words, ..entry }
}

/// Describes the machine in a few words. Memory is rounded up to whole GiB, because the part that a kernel reserves
/// varies.
fn host_of(host: &Host, platform: &str) -> String {
    let gib = host.memory_bytes.div_ceil(1 << 30);
    let place = if platform.is_empty() { &host.virtualization } else { platform };
    format!("{}, {} × {}, {gib} GiB, {place}", host.processor.trim(), host.processor_count, host.machine)
}

/// Returns the facts that may explain a change between two records of a host.
fn changing(record: &Record) -> BTreeMap<String, String> {
    let (header, host) = (&record.header, &record.host);
    let own = [
        ("kernel", host.release.clone()),
        ("kernel build", host.version.clone()),
        ("distribution", host.distribution.clone()),
        ("landau", header.landau.clone()),
        ("study", header.study.clone()),
        ("clock", host.clock.name.clone()),
        ("privilege", host.privilege.clone()),
        ("pinned processor", host.pinned_processor.map_or("none".to_owned(), |number| number.to_string())),
    ];
    let mut facts: BTreeMap<String, String> = own.map(|(name, value)| (name.to_owned(), value)).into();
    facts.extend(host.mitigations.iter().map(|(name, value)| (format!("mitigation {name}"), value.clone())));
    facts.extend(host.sysctls.iter().map(|(name, value)| (name.clone(), value.clone())));
    facts.extend(host.limits.iter().map(|(name, value)| (name.clone(), value.to_string())));
    if let Some(lab) = &record.lab {
        let program: String = lab.program_sha256.chars().take(12).collect();
        facts.extend([("program".to_owned(), program), ("command line".to_owned(), lab.command_line.clone())]);
    }
    facts
}

/// Returns the curve of a result; `None` if its case is missing.
fn curve(record: &Record, result: &PhaseResult) -> Option<Curve> {
    let case = record.case(result.case)?;
    let phase = case.phases.iter().find(|phase| phase.name == result.phase)?;
    let judged = &result.verdict["all"];
    let is_up = phase.direction == landau_record::schema::Direction::Up;
    let limits = if is_up { limits(record, case) } else { Vec::new() };
    let cliff = &judged["cliffs"][0];
    Some(Curve {
        record: 0,
        benchmark: case.benchmark.clone(),
        label: case.label.clone(),
        phase: phase.name.clone(),
        direction: if is_up { "up" } else { "down" }.to_owned(),
        axis: case.axis.clone(),
        settings: case.settings.clone(),
        n: case.n,
        outcome: judged["outcome"]["kind"].as_str().unwrap_or_default().to_owned(),
        law: judged["outcome"]["law"].as_str().map(str::to_owned),
        passes: result.verdict["passes"].as_u64().unwrap_or(0),
        calls: result.verdict["calls"].as_u64().unwrap_or(0),
        range: number(&judged["range"][0]).zip(number(&judged["range"][1])),
        ends: number(&judged["start"]["value"]).zip(number(&judged["end"]["value"])),
        growth: estimate(&judged["growth"]),
        exponent: estimate(&judged["exponent"]),
        p99: estimate(&result.verdict["p99"]["growth"]),
        fixed: estimate(&judged["fit"]["fixed"]),
        slope: estimate(&judged["fit"]["slope"]),
        cliff: estimate(&cliff["n"]),
        cliff_factor: number(&cliff["factor"]),
        limit: limit_of(&limits),
        limit_error: limits.first().map(|limit| limit.error.clone()),
        points: points(&judged["points"]),
    })
}

/// Returns the limits that ended passes of a case.
fn limits<'r>(record: &'r Record, case: &Case) -> Vec<&'r Limit> {
    let ends = record.passes_of(case.case).into_iter().filter_map(|pass| pass.end.as_ref());
    ends.filter_map(|end| end.limit.as_ref()).collect()
}

fn limit_of(limits: &[&Limit]) -> Option<Estimate> {
    let every = || limits.iter().map(|limit| limit.n as f64);
    let low = every().reduce(f64::min)?;
    Some(Estimate { value: low, low, high: every().fold(low, f64::max) })
}

fn points(value: &Value) -> Vec<(f64, Estimate)> {
    let all = value.as_array().map_or(&[][..], Vec::as_slice);
    let mut points: Vec<(f64, Estimate)> =
        all.iter().filter_map(|point| Some((number(&point["n"])?, estimate(&point["cost"])?))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    points
}

/// Parses an estimate as `landau-stats` serialises it. There, an infinite end of the interval is null; here, it is the
/// value.
fn estimate(value: &Value) -> Option<Estimate> {
    let middle = number(&value["value"])?;
    let end = |name: &str| number(&value[name]).unwrap_or(middle);
    Some(Estimate { value: middle, low: end("low"), high: end("high") })
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kept(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records").join(name)
    }

    #[test]
    fn a_record_gives_its_facts_and_every_result() {
        let (entry, curves) = read(&kept("sample.landau.ndjson"), "sample.landau.ndjson", false);
        assert_eq!((entry.reason.as_str(), entry.curve_count, entry.seal.as_str()), ("", curves.len(), "f7be3afc"));
        let bind = curves.iter().find(|curve| curve.benchmark == "bind" && curve.phase == "bind").unwrap();
        assert_eq!((bind.limit.unwrap().value, bind.limit_error.as_deref()), (2003.0, Some("EADDRINUSE")));
        assert!(bind.cliff.is_some() && bind.points.len() > 10 && bind.points.is_sorted_by(|a, b| a.0 < b.0));
        let close = curves.iter().find(|curve| curve.benchmark == "bind" && curve.phase == "close").unwrap();
        assert!(close.limit.is_none() && close.direction == "down");
        assert!(entry.words.contains("range=40000-42001") && entry.host.contains("GiB"), "{entry:?}");
    }

    #[test]
    fn records_of_older_methods_are_judged_anew_on_request() {
        let path = kept("schema-3.landau.ndjson");
        let (stored, _) = read(&path, "a", false);
        let (anew, curves) = read(&path, "a", true);
        assert!(stored.method.unwrap() < METHOD && !stored.is_judged_anew);
        assert_eq!((anew.method, anew.is_judged_anew), (Some(METHOD), true));
        assert!(!curves.is_empty());
    }

    /// Guards against a verdict from elsewhere that crashes the program: none of its members may be what it should be.
    #[test]
    fn nothing_is_expected_of_a_verdict() {
        assert_eq!(points(&json!([{"n": 1}, {"n": 2, "cost": {"value": null}}, 7, null])), []);
        assert_eq!(points(&json!("x")), []);
        assert_eq!(estimate(&json!({"value": 3, "low": null})), Some(Estimate::bare(3.0)));
        assert_eq!(number(&json!("7")), None);
    }

    #[test]
    fn what_is_no_sound_record_has_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = std::fs::read(kept("schema-3.landau.ndjson")).unwrap();
        let reason = |bytes: &[u8]| {
            let path = folder.path().join("a.ndjson");
            std::fs::write(&path, bytes).unwrap();
            read(&path, "a.ndjson", false).0.reason
        };
        assert_eq!(reason(&bytes), "");
        assert!(reason(&bytes[..bytes.len() - 3]).contains("torn"));
        assert!(reason(b"").contains("empty"));
        assert!(reason(b"{\"a\":1}\n").contains("not a Landau record"));
        let text = String::from_utf8(bytes).unwrap();
        assert!(reason(text.replacen("\"schema\":3", "\"schema\":99", 1).as_bytes()).contains("schema is 99"));
        assert!(reason(text.replacen("\"first\":1,", "\"first\":2,", 1).as_bytes()).contains("altered"));
        let without_end = text.rsplit_once("{\"kind\":\"end\"").unwrap().0;
        assert_eq!(reason(without_end.as_bytes()), "the run did not end; to continue it: landau run --resume FILE");
    }
}
