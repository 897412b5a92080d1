//! What DESIGN's table forbids a crate: to depend upwards, to read a clock, to do I/O, to know a benchmark by name.

use super::source::{Keep, line_of, masked, tests, words};
use super::{File, Findings};
use serde_json::Value;

/// Which crates of the workspace a crate may name. Arrows point down only.
const BELOW: &[(&str, &[&str])] = &[
    ("landau-sys", &[]),
    ("landau-stats", &[]),
    ("landau-record", &[]),
    ("landau-reactor", &["landau-sys"]),
    ("landau-units", &[]),
    ("landau-wire", &[]),
    ("landau-serve", &["landau-reactor", "landau-sys", "landau-units", "landau-wire"]),
    ("landau-engine", &["landau-record", "landau-sys", "landau-units"]),
    ("landau-bench", &["landau-engine", "landau-reactor", "landau-sys", "landau-units", "landau-wire"]),
    ("landau-lab", &["landau-engine", "landau-record", "landau-stats", "landau-sys", "landau-units"]),
    ("landau-load", &["landau-reactor", "landau-record", "landau-sys", "landau-units", "landau-wire"]),
    ("landau-report", &["landau-record", "landau-stats"]),
    (
        "landau",
        &[
            "landau-bench",
            "landau-engine",
            "landau-lab",
            "landau-load",
            "landau-reactor",
            "landau-record",
            "landau-report",
            "landau-serve",
            "landau-stats",
            "landau-sys",
            "landau-units",
        ],
    ),
    // The chores measure the program from outside; of its parts they need the reader, the mathematics and the limits.
    ("xtask", &["landau-record", "landau-stats", "landau-sys", "landau-units"]),
];

/// Names that a crate's source may not hold outside its tests: folder, names, why.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("crates/stats/src/", &["Instant", "SystemTime"], "mathematics reads no clock"),
    ("crates/record/src/", &["Instant", "SystemTime"], "a record knows what it is told, and reads no clock"),
    ("crates/report/src/", &["Instant", "SystemTime", "Timestamp::now"], "equal records give equal pages: no clock"),
    ("crates/stats/src/", &["std::fs", "std::io", "std::net", "std::env", "std::process"], "mathematics does no I/O"),
    ("crates/wire/src/", &["std::fs", "std::io", "std::net", "std::env", "std::process"], "bytes in, values out"),
    ("crates/units/src/", &["std::fs", "std::io", "std::net", "std::env", "std::process"], "text in, numbers out"),
    ("crates/wire/src/", &["Instant", "SystemTime::now"], "a message means the same at any time: no clock"),
    ("crates/lab/src/", &["println!", "eprintln!", "print!", "eprint!"], "the lab tells an observer"),
    ("crates/engine/src/", &["println!", "eprintln!", "print!", "eprint!"], "the engine tells an observer"),
    ("crates/bench/src/", &["println!", "eprintln!", "print!", "eprint!"], "a benchmark measures"),
];

/// Files of the engine that hold a benchmark's name by right, and why.
const NAMESAKES: &[(&str, &str)] = &[(
    "crates/engine/src/limit.rs",
    "it explains what refused a system call, and some benchmarks are named after one",
)];

/// Arrows that point up or sideways, and crates that the table lacks.
pub(crate) fn check_dependencies(metadata: &Value) -> Findings {
    let empty = Vec::new();
    let packages = metadata["packages"].as_array().unwrap_or(&empty).iter();
    let mut findings = Findings::new();
    for package in packages.filter(|package| package["source"].is_null()) {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, below)) = BELOW.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("{name}: DESIGN's table does not say what it may depend on"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().unwrap_or(&empty).iter();
        let own = dependencies.filter(|one| !one["path"].is_null()).filter_map(|one| one["name"].as_str());
        findings.extend(own.filter(|one| !below.contains(one)).map(|one| format!("{name} may not depend on {one}")));
    }
    findings
}

/// Words in a crate's source that are not its business.
pub(crate) fn check_source(files: &[File]) -> Findings {
    let benchmarks: Vec<String> = files.iter().filter_map(|file| benchmark(&file.path)).collect();
    let mut findings = Findings::new();
    for file in files.iter().filter(|file| file.is_a("rs")) {
        let code = masked(&file.text, Keep::Code);
        let tests = tests(&code);
        let is_test = |at: usize| tests.iter().any(|range| range.contains(&at));
        for (_, names, why) in FORBIDDEN.iter().filter(|(folder, ..)| file.path.starts_with(folder)) {
            let places = names.iter().flat_map(|name| words(&code, name).map(move |at| (at, name)));
            let places = places.filter(|(at, _)| !is_test(*at));
            findings.extend(places.map(|(at, name)| format!("{}:{}: {name}: {why}", file.path, line_of(&code, at))));
        }
        if file.path.starts_with("crates/engine/src/") && !NAMESAKES.iter().any(|(path, _)| *path == file.path) {
            findings.extend(names_in(file, &code, &benchmarks));
        }
    }
    findings
}

/// Benchmarks that a file of the engine knows by name.
fn names_in(file: &File, code: &str, benchmarks: &[String]) -> Findings {
    let text = masked(&file.text, Keep::CodeAndStrings);
    let tests = tests_of(&text, code);
    let mut findings = Findings::new();
    for quoted in benchmarks.iter().map(|name| format!("\"{name}\"")) {
        let places = text.match_indices(&quoted).filter(|(at, _)| !tests.iter().any(|range| range.contains(at)));
        let lines = places.map(|(at, _)| line_of(&text, at));
        findings.extend(lines.map(|line| format!("{}:{line}: the engine knows {quoted} by name", file.path)));
    }
    findings
}

/// The tests' places in a text that keeps its strings: multi-byte characters make them differ from the code's.
fn tests_of(text: &str, code: &str) -> Vec<std::ops::Range<usize>> {
    let offset = |at: usize| text.char_indices().nth(code[..at].chars().count()).map_or(text.len(), |(at, _)| at);
    tests(code).into_iter().map(|range| offset(range.start)..offset(range.end)).collect()
}

/// The benchmark that a file is.
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
    fn an_arrow_that_points_up_is_found() {
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
    fn a_clock_in_the_mathematics_is_found_and_one_in_its_tests_is_not() {
        let text = "//! An Instant.\nuse std::time::Instant;\n#[cfg(test)]\nmod tests { use std::time::Instant; }";
        let findings = check_source(&[file("crates/stats/src/a.rs", text)]);
        assert!(findings.len() == 1 && findings[0].starts_with("crates/stats/src/a.rs:2: Instant"), "{findings:?}");
        assert!(check_source(&[file("crates/engine/src/a.rs", text)]).is_empty());
    }

    #[test]
    fn an_engine_that_knows_a_benchmark_is_found() {
        let bench = file("crates/bench/src/list/bind.rs", "");
        let text = "//! ß \"bind\"\nfn a() { if name == \"bind\" {} }\n#[cfg(test)]\nmod tests { \"bind\" }";
        let findings = check_source(&[bench, file("crates/engine/src/a.rs", text)]);
        assert!(findings.len() == 1 && findings[0].contains("a.rs:2"), "{findings:?}");
    }
}
