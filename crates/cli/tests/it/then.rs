//! `landau run --study then`: earlier studies replayed, in the record and on the page.

use crate::support::Room;

/// The author's case keeps his parameters and has its runs, and the corrected one has the user's; only that is judged.
#[test]
fn both_methods_are_in_one_record() {
    let room = Room::new();
    let words = ["run", "mmap", "--study", "then", "--passes", "2", "--output", "r", "--report", "p.html"];
    let ran = room.landau(&[&words[..], &["--set", "mmap.until=file", "--set", "mmap.n=400"]].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    let cases: Vec<(&str, u64)> = record.cases.iter().map(|case| (case.label.as_str(), case.n)).collect();
    assert_eq!(cases, [("mmap as in 2003", 10_000), ("mmap", 400)]);
    let replay = record.cases[0].replay.as_ref().unwrap();
    assert_eq!((replay.study.as_str(), replay.runs), ("2003", 5));
    assert!(record.cases[1].replay.is_none());
    assert_eq!(record.header.study, "then");
    assert_eq!([0, 1].map(|case| record.passes_of(case).len()), [2, 2]);
    assert!(!record.results.is_empty() && record.results.iter().all(|result| result.case == 1));
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
    let page = std::fs::read_to_string(room.file("p.html")).unwrap();
    assert!(page.contains("id=\"then-2003-mmap\"") && page.contains("2 runs, every sample plotted to n = 10,000"));
    assert_eq!(room.landau(&["verify", "p.html"]).status, Some(0));
    let shown = room.landau(&["show", "r", "--articles"]);
    assert!(shown.out.starts_with("The study of 2003, replayed") && shown.out.contains("  Conclusion: "), "{shown:?}");
}

#[test]
fn a_benchmark_without_an_earlier_study_is_skipped_with_the_reason() {
    let room = Room::new();
    let ran = room.landau(&["run", "nop", "--study", "then", "--no-report"]);
    assert!(ran.status == Some(2) && ran.err.contains("no study of 2001, 2003 or 2004 had such a test"), "{ran:?}");
}

#[test]
fn a_record_without_articles_is_refused() {
    let room = Room::new();
    let words = ["run", "nop", "--study", "smoke", "--no-report", "--output", "r"];
    assert_eq!(room.landau(&words).status, Some(0));
    let ran = room.landau(&["show", "r", "--articles"]);
    assert!(ran.status == Some(2) && ran.err.contains("landau run --study then"), "{ran:?}");
}
