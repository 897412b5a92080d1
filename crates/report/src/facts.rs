//! Facts of a case in readable form: names in words, numbers in suitable units, one value for all passes.

use crate::CaseStudy;
use crate::quantity::{bytes, count, digits, duration, percent};
use landau_record::schema::{Fact, FactUnit};
use std::collections::{BTreeMap, BTreeSet};

/// Facts whose names alone do not say what was counted.
const NAMES: [(&str, &str); 18] = [
    ("client_processor", "CPU of the client"),
    ("client_processor_share", "CPU use of the client (100% is one CPU all the time)"),
    ("client_processor_time_per_step", "CPU time of the client for each step (a connection, a request or a mebibyte)"),
    ("connections_open", "connections open at the end"),
    ("connections_per_source_address_max", "limit of connections from one source address"),
    ("connections_queried_again", "idle connections tried with a request at the end, all answered"),
    ("controller_context_switches", "times that the controlling process was scheduled during the pass"),
    ("cycle_without_sleepers", "cost of a child without sleepers"),
    ("first_1000_ports", "parity of the first 1,000 ports"),
    ("idle_processors", "what idle CPUs do"),
    ("listen_drops", "connections dropped because of a full accept queue (ListenDrops)"),
    ("listen_overflows", "overflows of an accept queue (ListenOverflows)"),
    ("naive_without_sleepers", "cost of a child of the naive test, without sleepers and in turns with the others"),
    ("server_descriptors", "descriptors open in the server at the end"),
    ("server_processor", "CPU of the server"),
    ("server_processor_share", "CPU use of the server (100% is one CPU all the time)"),
    ("server_processor_time_per_step", "CPU time of the server for each step (a connection, a request or a mebibyte)"),
    ("spurious_events", "events without a ready descriptor"),
];

/// Returns the name in words: "CPU of the server", "device reads".
pub fn name(name: &str) -> String {
    let own = NAMES.iter().find(|(other, _)| *other == name).map(|(_, words)| (*words).to_owned());
    own.unwrap_or_else(|| name.replace('_', " "))
}

/// Splits the name of a fact that applies to one n: `failures_refused_at_512`.
fn at_n(name: &str) -> Option<(&str, u64)> {
    let (name, n) = name.rsplit_once("_at_")?;
    Some((name, n.parse().ok()?))
}

/// Returns whether a fact applies to one n and is therefore a point of a curve.
pub(crate) fn is_at_n(name: &str) -> bool {
    at_n(name).is_some()
}

/// Returns the values of facts that apply to one n, by n: one for each pass that has it.
pub(crate) fn by_n(study: &CaseStudy<'_>, name: &str) -> BTreeMap<u64, Vec<f64>> {
    let of = |(full, values): (&&str, &Vec<&Fact>)| {
        let (_, n) = at_n(full).filter(|(other, _)| *other == name)?;
        Some((n, values.iter().filter_map(|fact| Some(number(fact)?.0)).collect()))
    };
    study.facts.iter().filter_map(of).collect()
}

/// Returns the names of the facts that apply to one n, without the n.
pub(crate) fn names_by_n<'a>(study: &'a CaseStudy<'_>) -> BTreeSet<&'a str> {
    study.facts.keys().filter_map(|name| Some(at_n(name)?.0)).collect()
}

/// Returns the values of all passes as one text: a number, a range of numbers, or the different texts.
pub fn value(values: &[&Fact]) -> String {
    let numbers: Option<Vec<(f64, FactUnit)>> = values.iter().map(|fact| number(fact)).collect();
    match numbers.as_deref() {
        Some([(first, unit), rest @ ..]) if rest.iter().all(|(_, other)| other == unit) => {
            let (low, high) = rest.iter().fold((*first, *first), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
            let (low, high) = (in_unit(low, *unit), in_unit(high, *unit));
            if low == high { low } else { format!("{low} to {high}") }
        }
        _ => {
            let mut texts: Vec<String> = Vec::new();
            for text in values.iter().map(|fact| one(fact)) {
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
            texts.join(" or ")
        }
    }
}

fn number(fact: &Fact) -> Option<(f64, FactUnit)> {
    match fact {
        Fact::Number { value, unit } => Some((*value, *unit)),
        Fact::Text(_) => None,
    }
}

fn one(fact: &Fact) -> String {
    match fact {
        Fact::Number { value, unit } => in_unit(*value, *unit),
        Fact::Text(text) => text.clone(),
    }
}

fn in_unit(value: f64, unit: FactUnit) -> String {
    match unit {
        FactUnit::Count if value.fract() == 0.0 => count(value),
        FactUnit::Count => digits(value),
        FactUnit::Share => percent(value),
        FactUnit::Ns => duration(value),
        FactUnit::Bytes => bytes(value.max(0.0).round() as u64),
        FactUnit::BytesPerS => format!("{}/s", bytes(value.max(0.0).round() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number_of(value: f64, unit: FactUnit) -> Fact {
        Fact::Number { value, unit }
    }

    #[test]
    fn passes_share_one_value_or_a_range() {
        let (low, high) = (number_of(4_500.0, FactUnit::Ns), number_of(5_100.0, FactUnit::Ns));
        assert_eq!(value(&[&high, &low]), "4.5 µs to 5.1 µs");
        assert_eq!(value(&[&low]), "4.5 µs");
        assert_eq!(value(&[&number_of(0.12, FactUnit::Share), &number_of(0.12, FactUnit::Share)]), "12%");
        assert_eq!(value(&[&number_of(1_009.0, FactUnit::Count)]), "1,009");
    }

    #[test]
    fn different_texts_are_alternatives() {
        let (odd, even) = (Fact::Text("all odd".to_owned()), Fact::Text("all even".to_owned()));
        assert_eq!(value(&[&odd, &even]), "all odd or all even");
        assert_eq!(name("device_reads"), "device reads");
        assert_eq!(name("server_processor"), "CPU of the server");
    }

    #[test]
    fn a_fact_at_some_n_is_a_point_of_a_curve() {
        assert_eq!(at_n("failures_refused_at_512"), Some(("failures_refused", 512)));
        assert!(!is_at_n("connections_at_the_end") && !is_at_n("server_processor"));
    }
}
