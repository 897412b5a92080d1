//! Converts lines of older schemas to the current schema while they are read.
//!
//! Schema 1 has records in nanoseconds only, schema 2 also those of the lab; their members and names are the same. The
//! chained checksum is verified over the bytes as written, before a line is changed here. Text for people (`about`,
//! `caveats`, `meaning`, facts) stays as it is.

mod verdict;

use crate::former;
use serde_json::{Map, Value};

/// The schema whose lines need no conversion.
const CURRENT: u32 = crate::SCHEMA_VERSION;

/// Returns whether [`line`] must change a line of `schema` with this text. Lines of the current schema do not change,
/// nor do the many lines that hold samples.
pub(crate) fn is_needed(schema: u32, body: &str) -> bool {
    const UNCHANGED: [&str; 2] = ["{\"kind\":\"chunk\"", "{\"kind\":\"window\""];
    schema < CURRENT && !UNCHANGED.iter().any(|start| body.starts_with(start))
}

/// Replaces the former name of a phase of `benchmark` with its current name.
pub(crate) fn phase(benchmark: &str, name: &mut String) {
    if let Some(new) = former::phase(benchmark, name) {
        new.clone_into(name);
    }
}

/// Returns a line of schema 1 or 2 with today's kinds, members and names. In a line that does not name its benchmark
/// the phase is left as it is; the reader knows the benchmark and calls [`phase`].
pub(crate) fn line(mut old: Value) -> Value {
    let Some(members) = old.as_object_mut() else { return old };
    match members.get("kind").and_then(Value::as_str) {
        Some("host") => host(members),
        Some("lab") => rename(members, "engine", "platform"),
        Some("case") => case(members),
        Some("skip" | "cut") => label(members),
        Some("explanation") => explanation(members),
        Some("figure") => result(members),
        _ => {}
    }
    old
}

fn host(members: &mut Map<String, Value>) {
    if let Some(clock) = members.get_mut("clock").and_then(Value::as_object_mut) {
        for unit in ["ns", "instructions", "emulated_ns"] {
            rename(clock, &format!("empty_lap_{unit}"), &format!("timer_overhead_{unit}"));
        }
    }
}

fn case(members: &mut Map<String, Value>) {
    rename(members, "misleads", "caveats");
    rename(members, "marks", "annotations");
    for annotation in members.get_mut("annotations").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(annotation) = annotation.as_object_mut() {
            rename(annotation, "mark", "kind");
        }
    }
    if let Some(reduced) = members.get_mut("reduced").and_then(Value::as_object_mut) {
        rename(reduced, "asked", "requested");
    }
    let old = members.get("benchmark").and_then(Value::as_str).unwrap_or_default();
    let benchmark = former::benchmark(old).unwrap_or(old).to_owned();
    if let Some(settings) = members.get_mut("settings").and_then(Value::as_object_mut) {
        let renamed = std::mem::take(settings).into_iter().map(|(name, value)| match value {
            Value::String(text) => {
                let (name, text) = former::setting(&benchmark, &name, &text);
                (name, Value::String(text))
            }
            other => (name, other),
        });
        *settings = renamed.collect();
    }
    for phase in members.get_mut("phases").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(Value::String(name)) = phase.get_mut("name") {
            self::phase(&benchmark, name);
        }
    }
    members.insert("benchmark".to_owned(), Value::String(benchmark));
    label(members);
}

fn label(members: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = members.get_mut("label") {
        *text = former::label(text);
    }
}

fn explanation(members: &mut Map<String, Value>) {
    rename(members, "beside_instructions", "overhead_instructions");
    for function in members.get_mut("functions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(function) = function.as_object_mut() {
            rename(function, "each_instructions", "per_object_instructions");
            rename(function, "off_line_instructions", "max_residual_instructions");
        }
    }
}

fn result(members: &mut Map<String, Value>) {
    members.insert("kind".to_owned(), Value::from("result"));
    if let Some(verdict) = members.remove("verdict") {
        members.insert("verdict".to_owned(), verdict::upgrade(verdict));
    }
}

fn rename(members: &mut Map<String, Value>, old: &str, new: &str) {
    if let Some(value) = members.remove(old) {
        members.insert(new.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_case_gets_the_names_of_today() {
        let old = json!({
            "kind": "case", "case": 0, "benchmark": "dispatch", "label": "dispatch mechanism=poll which=random",
            "settings": { "mechanism": "poll", "which": "random", "active": "1" }, "misleads": ["m"],
            "marks": [{ "name": "full", "n": 1.0, "mark": "capacity", "source": "s" }],
            "reduced": { "asked": 9, "reason": "r" }, "phases": [{ "name": "wait" }, { "name": "events" }],
        });
        let new = json!({
            "kind": "case", "case": 0, "benchmark": "event_loop", "label": "event_loop backend=poll selection=random",
            "settings": { "backend": "poll", "selection": "random", "active": "1" }, "caveats": ["m"],
            "annotations": [{ "name": "full", "n": 1.0, "kind": "capacity", "source": "s" }],
            "reduced": { "requested": 9, "reason": "r" }, "phases": [{ "name": "wait" }, { "name": "dispatch" }],
        });
        assert_eq!(line(old), new);
    }

    #[test]
    fn only_lines_of_samples_skip_the_upgrade() {
        assert!(is_needed(1, "{\"kind\":\"case\"") && is_needed(2, "{\"kind\":\"figure\""));
        assert!(!is_needed(1, "{\"kind\":\"chunk\",") && !is_needed(CURRENT, "{\"kind\":\"case\""));
    }
}
