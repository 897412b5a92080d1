//! The records in the tree, with every schema version so far: each can be read, verified, shown and drawn.

use crate::support::Room;
use landau_engine::{Entry, Settings};
use landau_record::{Record, former};
use std::path::{Path, PathBuf};

/// Returns the path of every record under `docs/records`.
fn kept() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records");
    let mut found = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if [".landau.ndjson", ".landau.ndjson.gz"].iter().any(|end| path.to_string_lossy().ends_with(end)) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() >= 13, "{found:?}");
    found
}

#[test]
fn every_kept_record_is_read_under_the_names_of_today() {
    let mut schemas = std::collections::BTreeSet::new();
    for path in kept() {
        let record = Record::read(&path).unwrap();
        assert_eq!((&record.fault, &record.torn), (&None, &None), "{}", path.display());
        assert!(record.end.is_some() && !record.results.is_empty(), "{}", path.display());
        assert!(*record.host.clock.timer_overhead.values() >= 0.0);
        for case in &record.cases {
            assert_eq!(former::benchmark(&case.benchmark), None);
            assert_eq!(former::label(&case.label), case.label);
            for (name, value) in &case.settings {
                assert_eq!(former::parameter(&case.benchmark, name), None);
                assert_eq!(former::value(&case.benchmark, name, value), None);
            }
        }
        for pass in &record.passes {
            let case = record.case(pass.start.case).unwrap();
            assert!(pass.series.keys().all(|name| case.phases.iter().any(|phase| phase.name == *name)), "{path:?}");
        }
        for result in &record.results {
            let case = record.case(result.case).unwrap();
            assert!(case.phases.iter().any(|phase| phase.name == result.phase), "{path:?}");
            assert_eq!(former::phase(&case.benchmark, &result.phase), None);
        }
        schemas.insert(record.header.schema);
    }
    assert!(schemas.contains(&1) && schemas.contains(&2), "{schemas:?}");
}

#[test]
fn every_kept_record_is_verified_shown_and_drawn() {
    let room = Room::new();
    for path in kept() {
        let path = path.to_str().unwrap();
        for words in [&["verify", path][..], &["show", path], &["report", path, "--output", "page.html"]] {
            let ran = room.landau(words);
            assert!(ran.status == Some(0), "{words:?}: {ran:?}");
        }
        std::fs::remove_file(room.file("page.html")).unwrap();
    }
}

/// Each curve has a chart, as a file that a browser can draw. The page is written only on request.
#[test]
fn the_charts_of_a_kept_record_are_written_as_files() {
    let room = Room::new();
    let path = kept().into_iter().find(|path| path.ends_with("sample.landau.ndjson")).unwrap();
    let path = path.to_str().unwrap();
    let rows: serde_json::Value = serde_json::from_str(&room.landau(&["show", path, "--json"]).out).unwrap();
    let count = rows["rows"].as_array().unwrap().len();
    let charts = |folder: &str| {
        let mut charts: Vec<PathBuf> =
            std::fs::read_dir(room.file(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        charts.sort();
        charts
    };
    let ran = room.landau(&["report", path, "--svg", "new/charts"]);
    assert!(ran.status == Some(0) && ran.err.contains("9 charts written to new/charts"), "{ran:?}");
    assert!(!ran.err.contains("report: "), "{ran:?}");
    let found = charts("new/charts");
    assert_eq!((found.len(), count), (9, 9), "{found:?}");
    let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names[0], "00-bind-range=40000-42001-bind.svg");
    let text = std::fs::read_to_string(&found[0]).unwrap();
    assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"), "{text:.200}");
    assert!(text.contains("<title>bind range=40000-42001 · bind</title>") && text.contains("<desc>cliff at n = 1,002"));
    let ran = room.landau(&["report", path, "--svg", "charts", "-o", "page.html"]);
    assert!(ran.status == Some(0) && room.file("page.html").exists(), "{ran:?}");
    assert_eq!(charts("charts").len(), 9);
    std::fs::write(room.file("file"), "").unwrap();
    let ran = room.landau(&["report", path, "--svg", "file"]);
    let expected = "landau: --svg file: cannot create this directory; choose another: ";
    assert!(ran.status == Some(2) && ran.err.starts_with(expected), "{ran:?}");
}

/// Guards against a run that fills the disk although its record was expected to fit (the record of `mail` was three
/// times as large as expected), and against a run that is refused although its record fits.
#[test]
fn the_size_of_a_record_is_known_before() {
    let (mut count, mut wrong) = (0, Vec::new());
    for path in kept() {
        let record = Record::read(&path).unwrap();
        // A step takes far longer in an emulator; the estimate is for a real processor.
        if record.host.processor.starts_with("QEMU") {
            continue;
        }
        let text = String::from_utf8(landau_record::read_file(&path).unwrap()).unwrap();
        for case in record.cases.iter().filter(|case| case.n >= 300) {
            let Ok(entry) = Entry::find(landau_bench::REGISTRY, &case.benchmark) else { continue };
            if entry.parameters.iter().any(|one| !case.settings.contains_key(one.name)) {
                continue; // Recorded by an earlier version, which lacks a current parameter.
            }
            let passes: Vec<u32> =
                record.passes.iter().filter(|pass| pass.start.case == case.case).map(|pass| pass.start.pass).collect();
            let heads = passes.iter().flat_map(|pass| {
                ["pass", "chunk", "window", "pass_end"].map(|kind| format!("{{\"kind\":\"{kind}\",\"pass\":{pass},"))
            });
            let heads: Vec<String> = heads.collect();
            let lines = text.split_inclusive('\n').filter(|line| heads.iter().any(|head| line.starts_with(head)));
            let real = lines.map(str::len).sum::<usize>() as f64 / passes.len().max(1) as f64;
            let estimate =
                entry.pass_bytes(&Settings::from_map(case.settings.clone()), case.n, case.phases.len()) as f64;
            eprintln!("{:38} n = {:6}: {real:8.0} {estimate:8.0} ×{:.2}", case.label, case.n, estimate / real);
            if !(0.9..2.3).contains(&(estimate / real)) {
                wrong.push(format!("{}: {}: {real} {estimate}", path.display(), case.label));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count >= 40, "{count}");
}
