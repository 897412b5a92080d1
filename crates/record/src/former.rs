//! Former names of benchmarks, parameters, parameter values and phases.
//!
//! The table has two uses. [`crate::Record`] reads records of older schemas under the new names, and error messages
//! give the new name to a user who types an old one. To rename something, add one row to `RENAMED`; the benchmark and
//! the parameter in a row have today's names. Records of the current schema are read as they are, so raise
//! [`crate::SCHEMA_VERSION`] too if such records hold the old name.

use crate::schema::Timeline;
use std::borrow::Cow;

/// One name that has changed.
enum Renamed {
    /// A benchmark: old, new.
    Benchmark(&'static str, &'static str),
    /// A parameter of a benchmark: benchmark, old, new.
    Parameter(&'static str, &'static str, &'static str),
    /// A value of a parameter: benchmark, parameter, old, new.
    Value(&'static str, &'static str, &'static str, &'static str),
    /// A phase of a benchmark: benchmark, old, new.
    Phase(&'static str, &'static str, &'static str),
    /// A number that was written without its unit: benchmark, parameter, the unit. 0 stays 0.
    Unit(&'static str, &'static str, &'static str),
}

use Renamed::{Benchmark, Parameter, Phase, Unit, Value};

/// Every name that has changed.
const RENAMED: &[Renamed] = &[
    Benchmark("crowd", "idle_connections"),
    Benchmark("dispatch", "event_loop"),
    Benchmark("manymap", "map_files"),
    Benchmark("refill", "fd_reuse"),
    Benchmark("wait", "event_wait"),
    Benchmark("wait_any", "waitpid"),
    Parameter("connect", "bytes", "file"),
    Unit("connect", "file", "B"),
    Parameter("connect", "mechanism", "backend"),
    Value("connect", "idle", "spin", "poll"),
    Parameter("download", "pieces", "extent"),
    Value("download", "extent", "one", "whole"),
    Value("download", "extent", "64k", "64KiB"),
    Value("download", "extent", "4k", "4KiB"),
    Parameter("download", "visitors", "readers"),
    Parameter("download", "place", "location"),
    Value("download", "location", "folder", "directory"),
    Parameter("event_loop", "mechanism", "backend"),
    Parameter("event_loop", "which", "selection"),
    Phase("event_loop", "events", "dispatch"),
    Parameter("event_wait", "mechanism", "backend"),
    Parameter("event_wait", "patience", "timeout"),
    Value("event_wait", "timeout", "forever", "infinite"),
    Value("event_wait", "timeout", "none", "zero"),
    Parameter("fork", "way", "method"),
    Unit("fork", "resident", "MiB"),
    Phase("idle_connections", "old_first_byte", "idle_first_byte"),
    Phase("idle_connections", "old_last_byte", "idle_last_byte"),
    Phase("idle_connections", "fresh_first_byte", "new_first_byte"),
    Phase("idle_connections", "fresh_last_byte", "new_last_byte"),
    Unit("mmap", "file", "MiB"),
    Parameter("request", "bytes", "file"),
    Unit("request", "file", "B"),
    Parameter("request", "mechanism", "backend"),
    Value("request", "idle", "spin", "poll"),
    Unit("thread", "stack", "KiB"),
    Phase("waitpid", "none", "wnohang"),
    Phase("waitpid", "one", "reap"),
];

/// Returns the `timeline` member of a benchmark's case, for records without that member. Before it existed, the
/// timeline benchmark was judged like any other.
pub(crate) fn timeline(benchmark: &str) -> Option<Timeline> {
    (benchmark == "download").then_some(Timeline { step_bytes: 1 << 20 })
}

/// Returns today's name of the benchmark that was called `old`.
pub fn benchmark(old: &str) -> Option<&'static str> {
    RENAMED.iter().find_map(|row| match row {
        Benchmark(was, is) if *was == old => Some(*is),
        _ => None,
    })
}

/// Returns today's name of the parameter of `benchmark` that was called `old`.
pub fn parameter(benchmark: &str, old: &str) -> Option<&'static str> {
    RENAMED.iter().find_map(|row| match row {
        Parameter(of, was, is) if *of == benchmark && *was == old => Some(*is),
        _ => None,
    })
}

/// Returns today's name of the phase of `benchmark` that was called `old`.
pub fn phase(benchmark: &str, old: &str) -> Option<&'static str> {
    RENAMED.iter().find_map(|row| match row {
        Phase(of, was, is) if *of == benchmark && *was == old => Some(*is),
        _ => None,
    })
}

/// Returns today's spelling of the value `old` of a parameter.
pub fn value(benchmark: &str, parameter: &str, old: &str) -> Option<Cow<'static, str>> {
    RENAMED.iter().find_map(|row| match row {
        Value(of, name, was, is) if (*of, *name, *was) == (benchmark, parameter, old) => Some(Cow::Borrowed(*is)),
        Unit(of, name, unit) if (*of, *name) == (benchmark, parameter) && is_bare(old) => {
            Some(Cow::Owned(format!("{old}{unit}")))
        }
        _ => None,
    })
}

/// Returns whether the text is a number other than 0 without a unit.
fn is_bare(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|number| number != 0)
}

/// Returns today's name and value of a setting of `benchmark` (today's name); unchanged where neither was renamed.
pub fn setting(benchmark: &str, name: &str, text: &str) -> (String, String) {
    let name = parameter(benchmark, name).unwrap_or(name);
    let text = value(benchmark, name, text).unwrap_or(Cow::Borrowed(text));
    (name.to_owned(), text.into_owned())
}

/// Returns today's form of a label: a benchmark with the settings that differ from its defaults.
pub fn label(old: &str) -> String {
    let mut words = old.split(' ');
    let first = words.next().unwrap_or_default();
    let benchmark = benchmark(first).unwrap_or(first);
    let settings = words.map(|word| match word.split_once('=') {
        Some((name, text)) => {
            let (name, text) = setting(benchmark, name, text);
            format!(" {name}={text}")
        }
        None => format!(" {word}"),
    });
    std::iter::once(benchmark.to_owned()).chain(settings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_labels_are_rewritten_and_others_kept() {
        assert_eq!(label("dispatch mechanism=poll active=100"), "event_loop backend=poll active=100");
        assert_eq!(label("fork way=vfork-exec resident=256"), "fork method=vfork-exec resident=256MiB");
        assert_eq!(label("wait patience=none"), "event_wait timeout=zero");
        assert_eq!(label("crowd http://host/f"), "idle_connections http://host/f");
        for unchanged in ["socket threads=1 reserve=10100", "bind range=40000-42001", ""] {
            assert_eq!(label(unchanged), unchanged);
        }
    }

    #[test]
    fn zero_needs_no_unit() {
        assert_eq!(value("thread", "stack", "0"), None);
        assert_eq!(value("thread", "stack", "64").as_deref(), Some("64KiB"));
        assert_eq!(value("thread", "stack", "64KiB"), None);
    }

    /// A chain of renames would need as many look-ups as it has links; each row leads to today's name instead.
    #[test]
    fn no_new_name_is_itself_a_former_name() {
        for row in RENAMED {
            match row {
                Benchmark(_, is) => assert_eq!(benchmark(is), None),
                Parameter(of, _, is) => assert_eq!(parameter(of, is), None),
                Phase(of, _, is) => assert_eq!(phase(of, is), None),
                Value(of, name, _, is) => assert_eq!(value(of, name, is), None),
                Unit(of, name, unit) => assert_eq!(value(of, name, &format!("1{unit}")), None),
            }
        }
    }
}
