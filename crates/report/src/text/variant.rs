//! The change that a variant makes, in words: "a second thread" for `threads=1` of `socket`.

use crate::quantity::count;

/// Benchmark, setting, value and words. An empty value matches every other one, which replaces `{value}`. A setting
/// that is not listed is shown as typed.
const WORDS: [(&str, &str, &str, &str); 36] = [
    ("bind", "family", "v6", "IPv6"),
    ("bind", "range", "", "the port range {value}"),
    ("bind", "v6only", "off", "IPv4 on the same socket"),
    ("bind", "v6only", "on", "IPV6_V6ONLY"),
    ("connect", "backend", "", "the backend {value}"),
    ("connect", "connections", "silent", "connections that have never sent a request"),
    ("connect", "server", "", "the server {value}"),
    ("event_loop", "active", "", "{value} active descriptors"),
    ("event_loop", "backend", "", "{value}"),
    ("event_loop", "selection", "random", "active descriptors chosen at random"),
    ("event_wait", "active", "", "{value} ready descriptors"),
    ("event_wait", "backend", "", "{value}"),
    ("event_wait", "object", "", "each descriptor a {value}"),
    ("event_wait", "timeout", "zero", "a timeout of zero"),
    ("fork", "linkage", "musl", "a program that is linked with musl"),
    ("fork", "linkage", "static", "a static program"),
    ("fork", "mappings", "", "{value} further mappings"),
    ("fork", "method", "", "{value}"),
    ("fork", "order", "creation", "the oldest child killed first"),
    ("fork", "processors", "all", "children on all processors"),
    ("fork", "resident", "", "{value} of touched memory"),
    ("mmap", "order", "random", "pages in random order"),
    ("mmap", "populate", "on", "MAP_POPULATE"),
    ("mmap", "until", "limit", "as many mappings as the kernel allows"),
    ("pids", "allocator", "", "the allocator {value}"),
    ("pids", "workload", "groups", "sessions that outlive their leaders"),
    ("pids", "workload", "turnover", "sleepers that are replaced"),
    ("request", "backend", "", "the backend {value}"),
    ("request", "server", "", "the server {value}"),
    ("socket", "family", "v6", "IPv6"),
    ("socket", "hole", "", "a hole among the descriptors"),
    ("socket", "reserve", "", "a descriptor table that was grown to {value} first"),
    ("socket", "threads", "1", "a second thread"),
    ("socket", "type", "udp", "UDP"),
    ("timerfd", "expiry", "ascending", "expiries in ascending order"),
    ("waitpid", "order", "creation", "the oldest child reaped first"),
];

/// Returns the benchmarks and settings that have words, for the test that they exist.
pub fn variants() -> impl Iterator<Item = (&'static str, &'static str)> {
    WORDS.iter().map(|(benchmark, setting, ..)| (*benchmark, *setting))
}

/// Describes the case: "socket with a second thread" for the label `socket threads=1`.
pub(crate) fn variant(benchmark: &str, label: &str) -> String {
    let settings = label.strip_prefix(benchmark).unwrap_or_default();
    let words: Option<Vec<String>> = settings.split_whitespace().map(|one| words(benchmark, one)).collect();
    match words.as_deref() {
        None | Some([]) => label.to_owned(),
        Some([one]) => format!("{benchmark} with {one}"),
        Some([some @ .., last]) => format!("{benchmark} with {} and {last}", some.join(", ")),
    }
}

/// Describes one setting; `None` if it is not listed.
fn words(benchmark: &str, setting: &str) -> Option<String> {
    let (name, value) = setting.split_once('=')?;
    let is_it =
        |one: &&(&str, &str, &str, &str)| one.0 == benchmark && one.1 == name && (one.2.is_empty() || one.2 == value);
    let found = WORDS.iter().find(is_it)?;
    let shown = value.parse::<u32>().map_or(value.to_owned(), |number| count(f64::from(number)));
    Some(found.3.replace("{value}", &shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_says_what_it_changes() {
        assert_eq!(variant("socket", "socket"), "socket");
        assert_eq!(variant("socket", "socket threads=1"), "socket with a second thread");
        let both = "socket with a second thread and a descriptor table that was grown to 10,100 first";
        assert_eq!(variant("socket", "socket threads=1 reserve=10100"), both);
        assert_eq!(variant("socket", "socket threads=7"), "socket threads=7");
        let bind = "bind with the port range 40000-42001, IPv6 and IPV6_V6ONLY";
        assert_eq!(variant("bind", "bind range=40000-42001 family=v6 v6only=on"), bind);
        assert!(WORDS.is_sorted());
    }
}
