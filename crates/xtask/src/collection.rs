//! Collections of records for measurements and tests.
//!
//! They are copies of a small record of the tree with different times, seeds and checksums, so each must be read and
//! verified.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use landau_record::{Record, chain};
use std::fmt::Write as _;
use std::path::Path;

/// The record that is copied.
const MODEL: &str = "docs/records/schema-3.landau.ndjson";

/// Writes records that differ in their times and seeds. Returns their total size in bytes.
pub(crate) fn write(folder: &Path, records: usize) -> Result<usize> {
    let bodies = bodies()?;
    let mut bytes = 0;
    for index in 0..records {
        let (month, day, minute) = (1 + index / 28 % 12, 1 + index % 28, index / 336);
        let started =
            format!("{}-{month:02}-{day:02}T{:02}:{:02}:00Z", 2020 + minute / 1440, minute / 60 % 24, minute % 60);
        let text = record(&bodies, &started, index)?;
        bytes += text.len();
        let path = folder.join(format!("{index:05}.landau.ndjson"));
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(bytes)
}

/// Writes a record whose names and host close an HTML element or attribute, and a file that is not a record, to a new
/// directory below `folder`. Their scripts set `hit`.
pub(crate) fn write_hostile(folder: &Path) -> Result<()> {
    const MARKUP: &str = "</script><script>hit=1</script><img src=hit onerror='hit=1'>\"'&";
    let quoted = serde_json::to_string(MARKUP).context("write a text")?;
    let text = workspace::read(MODEL)?;
    let host = Record::parse(MODEL, text.as_bytes())?.host;
    let words = ["dup", "duplicated descriptors", &host.processor, &host.release, &host.distribution];
    let named = |body: String| words.iter().fold(body, |body, word| body.replace(&format!("\"{word}\""), &quoted));
    let bodies: Vec<String> = bodies()?.into_iter().map(named).collect();
    let place = folder.join("<img src=hit onerror='hit=1'>");
    std::fs::create_dir(&place).with_context(|| format!("create {}", place.display()))?;
    std::fs::write(place.join("none.ndjson"), MARKUP).context("write a file that is not a record")?;
    std::fs::write(place.join("x.ndjson"), record(&bodies, "2026-11-25T00:00:00Z", 1)?)
        .context("write a hostile record")
}

/// Returns the lines of the model without their checksums.
fn bodies() -> Result<Vec<String>> {
    let model = workspace::read(MODEL)?;
    let bodies: Vec<String> = model.lines().filter_map(chain::detach).map(|(body, _)| body).collect();
    ensure!(bodies.len() == model.lines().count(), "a line of {MODEL} has no checksum");
    Ok(bodies)
}

/// Returns the lines with a different time and seed in the header, and with their checksums.
fn record(bodies: &[String], started: &str, seed: usize) -> Result<String> {
    let (head, rest) = bodies.split_first().context("the record is empty")?;
    let mut header: serde_json::Value = serde_json::from_str(head).context("parse the header")?;
    (header["started"], header["seed"]) = (started.into(), seed.into());
    // The kind must remain the first member, which a map with sorted members does not guarantee.
    let mut members = header.as_object().cloned().context("the header is not an object")?;
    let kind = members.remove("kind").context("the header has no kind")?;
    let mut body = format!("{{\"kind\":{kind}");
    for (name, value) in &members {
        write!(body, ",\"{name}\":{value}").context("write to a text")?;
    }
    body.push('}');
    let mut seal = chain::START.to_owned();
    let mut text = String::new();
    for body in std::iter::once(&body).chain(rest) {
        seal = chain::seal(&seal, body);
        text.extend([&chain::attach(body, &seal), "\n"]);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a collection whose records would all be left out.
    #[test]
    fn the_records_are_sound_and_differ() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 400).unwrap();
        let read = |index: usize| Record::read(&folder.path().join(format!("{index:05}.landau.ndjson"))).unwrap();
        let (first, last) = (read(0), read(399));
        assert!(first.fault.is_none() && first.end.is_some() && !first.results.is_empty());
        assert!(last.fault.is_none() && last.last_seal != first.last_seal);
        assert!(first.header.started < read(29).header.started);
    }
}
