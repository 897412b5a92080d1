//! Checks that a crate does not depend upwards, read a clock, do I/O, or know a benchmark by name, where that is
//! forbidden.

use super::source::{code_lines, has_word};
use super::{File, Findings};
use serde_json::Value;

/// Each crate with the crates of the workspace that it may depend on.
const BELOW: &[(&str, &[&str])] = &[
    ("landau-sys", &[]),
    ("landau-stats", &[]),
    ("landau-record", &[]),
    ("landau-reactor", &["landau-sys"]),
    ("landau-architectures", &["landau-reactor", "landau-sys"]),
    ("landau-claims", &[]),
    ("landau-pids", &[]),
    ("landau-trust", &[]),
    ("landau-units", &[]),
    ("landau-wire", &[]),
    ("landau-serve", &["landau-reactor", "landau-sys", "landau-units", "landau-wire"]),
    ("landau-engine", &["landau-record", "landau-sys", "landau-units"]),
    (
        "landau-bench",
        &[
            "landau-architectures",
            "landau-engine",
            "landau-mail",
            "landau-pids",
            "landau-reactor",
            "landau-sys",
            "landau-units",
            "landau-wire",
        ],
    ),
    ("landau-host", &["landau-sys"]),
    ("landau-tune", &["landau-host", "landau-sys"]),
    ("landau-profile", &["landau-engine", "landau-record", "landau-stats", "landau-sys"]),
    ("landau-lab", &["landau-engine", "landau-profile", "landau-record", "landau-stats", "landau-sys", "landau-units"]),
    ("landau-load", &["landau-reactor", "landau-record", "landau-sys", "landau-trust", "landau-units", "landau-wire"]),
    ("landau-mail", &["landau-reactor", "landau-sys", "landau-trust", "landau-units", "landau-wire"]),
    ("landau-report", &["landau-claims", "landau-record", "landau-stats"]),
    ("landau-history", &["landau-record", "landau-report", "landau-stats"]),
    (
        "landau",
        &[
            "landau-architectures",
            "landau-bench",
            "landau-claims",
            "landau-engine",
            "landau-history",
            "landau-host",
            "landau-lab",
            "landau-load",
            "landau-mail",
            "landau-pids",
            "landau-profile",
            "landau-reactor",
            "landau-record",
            "landau-report",
            "landau-serve",
            "landau-stats",
            "landau-sys",
            "landau-tune",
            "landau-units",
            "landau-wire",
        ],
    ),
    // The chores measure the program as a process; they use its record reader, statistics, resource limits, protocols
    // and verification of certificates, and its list of other servers.
    (
        "xtask",
        &[
            "landau-architectures",
            "landau-bench",
            "landau-record",
            "landau-stats",
            "landau-sys",
            "landau-trust",
            "landau-units",
            "landau-wire",
        ],
    ),
];

/// Names that a crate's source must not contain outside its tests: directory, names, reason. Printing is left to
/// Clippy.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("crates/stats/src/", &["Instant", "SystemTime"], "statistics are functions of samples"),
    ("crates/record/src/", &["Instant", "SystemTime"], "a record stores the times it is given"),
    ("crates/report/src/", &["Instant", "SystemTime", "Timestamp::now"], "equal records give equal reports"),
    ("crates/history/src/", &["Instant", "SystemTime", "Timestamp::now"], "equal records give equal collections"),
    (
        "crates/stats/src/",
        &["std::fs", "std::io", "std::net", "std::env", "std::process"],
        "statistics are functions of samples",
    ),
    ("crates/wire/src/", &["std::fs", "std::io", "std::net", "std::env", "std::process"], "wire maps bytes to values"),
    (
        "crates/claims/src/",
        &["std::fs", "std::io", "std::net", "std::env", "std::process"],
        "a claim is a function of its text",
    ),
    (
        "crates/units/src/",
        &["std::fs", "std::io", "std::net", "std::env", "std::process"],
        "units maps text to numbers",
    ),
    (
        "crates/host/src/",
        &["fs::write", "File::create", "OpenOptions", "fs::create_dir", "Command", "limits::raise"],
        "code that examines the host must not change it",
    ),
    ("crates/wire/src/", &["Instant", "SystemTime::now"], "parsing a message does not depend on the time"),
];

/// Files of the engine that may contain a benchmark's name, with reasons.
const NAMESAKES: &[(&str, &str)] =
    &[("crates/engine/src/limit.rs", "it explains failed system calls, after which some benchmarks are named")];

/// Finds dependencies that [`BELOW`] does not allow, and crates that it lacks.
pub(crate) fn check_dependencies(metadata: &Value) -> Findings {
    let empty = Vec::new();
    let packages = metadata["packages"].as_array().unwrap_or(&empty).iter();
    let mut findings = Findings::new();
    for package in packages.filter(|package| package["source"].is_null()) {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, below)) = BELOW.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("{name}: add it to BELOW in crates/xtask/src/chore/tidy/crates.rs"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().unwrap_or(&empty).iter();
        let own = dependencies.filter(|one| !one["path"].is_null()).filter_map(|one| one["name"].as_str());
        findings.extend(own.filter(|one| !below.contains(one)).map(|one| format!("{name} may not depend on {one}")));
    }
    findings
}

/// Finds forbidden names in the source of crates.
pub(crate) fn check_source(files: &[File]) -> Findings {
    let benchmarks: Vec<String> =
        files.iter().filter_map(|file| benchmark(&file.path)).map(|name| format!("\"{name}\"")).collect();
    let mut findings = Findings::new();
    for file in files.iter().filter(|file| file.is_a("rs")) {
        let path = &file.path;
        let is_engine = path.starts_with("crates/engine/src/") && !NAMESAKES.iter().any(|(known, _)| known == path);
        let rules: Vec<_> = FORBIDDEN.iter().filter(|(directory, ..)| path.starts_with(directory)).collect();
        for (number, line) in code_lines(&file.text) {
            for (_, names, why) in &rules {
                let found = names.iter().filter(|name| has_word(line, name));
                findings.extend(found.map(|name| format!("{path}:{number}: {name}: {why}")));
            }
            let known = benchmarks.iter().filter(|name| is_engine && line.contains(*name));
            findings.extend(known.map(|name| format!("{path}:{number}: the engine must not know {name}")));
        }
    }
    findings
}

/// Returns the name of the benchmark that a file implements.
fn benchmark(path: &str) -> Option<String> {
    let name = path.strip_prefix("crates/bench/src/list/")?.strip_suffix(".rs")?;
    (name != "mod").then(|| name.to_owned())
}

#[cfg(test)]
mod unit {
    use super::*;
    use serde_json::json;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn an_upward_dependency_is_found() {
        let package = |name: &str, of: &str| {
            let needs = [json!({"name": of, "path": "/x"}), json!({"name": "serde"})];
            json!({"name": name, "source": null, "dependencies": needs})
        };
        let metadata = json!({"packages": [
            package("landau-bench", "landau-engine"), package("landau-stats", "landau-record"),
            package("landau-new", "landau-sys")]});
        let findings = check_dependencies(&metadata);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert_eq!(findings[0], "landau-stats may not depend on landau-record");
    }

    #[test]
    fn a_clock_is_found_in_statistics_but_not_in_their_tests() {
        let text = "//! An Instant.\nuse std::time::Instant;\n#[cfg(test)]\nmod tests { use std::time::Instant; }";
        let findings = check_source(&[file("crates/stats/src/a.rs", text)]);
        assert!(findings.len() == 1 && findings[0].starts_with("crates/stats/src/a.rs:2: Instant"), "{findings:?}");
        assert!(check_source(&[file("crates/engine/src/a.rs", text)]).is_empty());
    }

    #[test]
    fn a_benchmark_known_to_the_engine_is_found() {
        let bench = file("crates/bench/src/list/bind.rs", "");
        let text = "//! ß \"bind\"\nfn a() { if name == \"bind\" {} }\n#[cfg(test)]\nmod tests { \"bind\" }";
        let findings = check_source(&[bench, file("crates/engine/src/a.rs", text)]);
        assert!(findings.len() == 1 && findings[0].contains("a.rs:2"), "{findings:?}");
    }
}
