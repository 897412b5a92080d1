//! `landau run --study then`: earlier studies replayed, in the record, on the page and in docs/studies/then.md.

use crate::support::Room;
use landau_record::Record;
use std::collections::BTreeSet;
use std::path::Path;

const DOCUMENT: &str = include_str!("../../../../docs/studies/then.md");

/// The comment before a block with the articles of a record.
const BLOCK: &str = "<!-- output of: landau show --articles ";

/// The author's case keeps his parameters and number of runs. The corrected case has those of the user; only it is
/// judged.
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

/// Returns each record of the document, with the articles in the document about it.
fn articles() -> Vec<(&'static str, &'static str)> {
    let block = |text: &'static str| {
        let (record, rest) = text.split_once(" -->\n\n```text\n").expect("a block follows its command");
        (record, rest.split_once("\n```").expect("an end of the block").0)
    };
    DOCUMENT.split(BLOCK).skip(1).map(block).collect()
}

fn path_of(record: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(record).display().to_string()
}

/// Returns the text between a heading and the next one of the same level.
fn section(heading: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    rest.split("\n## ").next().unwrap_or_default()
}

/// Returns the words of a text that contain a digit, without the surrounding punctuation.
fn figures(text: &str) -> BTreeSet<&str> {
    let is_mark = |letter: char| "|*`,.;:()\"“”".contains(letter);
    let words = text.split_whitespace().map(|word| word.trim_matches(is_mark));
    words.filter(|word| word.contains(|letter: char| letter.is_ascii_digit())).collect()
}

#[test]
fn the_articles_of_the_document_are_those_of_its_records() {
    let room = Room::new();
    let every = articles();
    assert_eq!(every.len(), 4);
    for (record, article) in every {
        let shown = room.landau(&["show", "--articles", &path_of(record)]);
        assert_eq!(shown.status, Some(0), "{shown:?}");
        let printed: Vec<&str> = shown.out.trim_matches('\n').lines().map(str::trim_end).collect();
        let printed = printed.join("\n");
        let mut lines = article.lines().zip(printed.lines());
        if let Some((old, new)) = lines.find(|(old, new)| old != new) {
            panic!("{record}:\n- {old}\n+ {new}\npython3 docs/queries/outputs.py docs/studies/then.md updates it");
        }
        assert_eq!(article.len(), printed.len(), "{record}: python3 docs/queries/outputs.py docs/studies/then.md");
        let seal = Record::read(Path::new(&path_of(record))).unwrap().last_seal;
        assert!(section("Measurement").contains(&format!("`{seal}`")), "{record} ends with {seal}");
    }
}

/// The prose before the articles contains no figure that the articles lack.
#[test]
fn the_figures_of_the_document_are_in_its_articles() {
    let articles: Vec<&str> = articles().into_iter().map(|(_, article)| article).collect();
    let (articles, headings) = (
        articles.join("\n"),
        [
            "Conclusions",
            "Where the conclusions change",
            "Where this kernel differs from 2003",
            "Published figures that contradict one another",
        ],
    );
    let known = figures(&articles);
    for heading in headings {
        let unknown: Vec<&str> = figures(section(heading)).difference(&known).copied().collect();
        assert!(unknown.is_empty(), "{heading}: no article has {unknown:?}");
    }
    assert!(!figures("| growth ×1.7 (1.5–1.9) |").is_subset(&known), "a figure that no article has would be found");
}
