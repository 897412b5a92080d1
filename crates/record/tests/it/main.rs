//! The record as a file: written, read back, torn, altered.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

use landau_record::schema::{Chunk, End, Header, Line, Note, Outcome, PassEnd, PassStart};
use landau_record::{Record, SCHEMA_VERSION, Writer};
use proptest::prelude::*;
use std::path::Path;

fn header() -> Line {
    Line::Header(Header {
        schema: SCHEMA_VERSION,
        landau: "0".to_owned(),
        command: vec!["landau".to_owned()],
        started: "2026-01-01T00:00:00Z".to_owned(),
        seed: 7,
        study: "smoke".to_owned(),
        pass_count: 1,
        case_count: 0,
        time_limit_s: None,
    })
}

fn pass(number: u32, ns: &[u64]) -> Vec<Line> {
    let start = PassStart { pass: number, case: 0, round: number, at_ms: 0 };
    let end = PassEnd {
        pass: number,
        outcome: Outcome::Done,
        steps: ns.len() as u64,
        elapsed_ms: 1,
        limit: None,
        error: None,
        facts: std::collections::BTreeMap::new(),
    };
    let mut lines = vec![Line::Pass(start)];
    let mut first = 1;
    for part in ns.chunks(3) {
        lines.push(Line::Chunk(Chunk { pass: number, phase: "make".to_owned(), first, stride: 1, ns: part.to_vec() }));
        first += part.len() as u32;
    }
    lines.push(Line::PassEnd(end));
    lines
}

fn written(folder: &Path, lines: &[Line]) -> Vec<u8> {
    let path = folder.join("r");
    let mut writer = Writer::create(&path).unwrap();
    for line in lines {
        writer.append(line).unwrap();
    }
    writer.sync().unwrap();
    std::fs::read(path).unwrap()
}

/// A record of two passes; its bytes.
fn example() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = vec![header()];
    lines.extend(pass(0, &[100, 200, 300, 400]));
    lines.extend(pass(1, &[110, 210, 310, 410]));
    lines.push(Line::End(End { outcome: "complete".to_owned(), line_count: 9, elapsed_ms: 2 }));
    written(folder.path(), &lines)
}

fn lines_of(bytes: &[u8]) -> u64 {
    bytes.split(|&byte| byte == b'\n').count() as u64 - 1
}

#[test]
fn what_was_written_is_read() {
    let record = Record::parse("example", &example()).unwrap();
    assert_eq!((record.fault.clone(), record.torn.clone()), (None, None));
    assert_eq!(record.passes_of(0).len(), 2);
    assert_eq!(record.passes[1].lanes["make"].ns, [110, 210, 310, 410]);
    assert_eq!(record.passes[1].lanes["make"].n, [1, 2, 3, 4]);
    assert_eq!(record.end.unwrap().outcome, "complete");
}

#[test]
fn a_resumed_writer_goes_on_with_the_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let whole = example();
    // Torn in the middle of the second pass.
    std::fs::write(&path, &whole[..whole.len() - 400]).unwrap();
    let torn = Record::read(&path).unwrap();
    assert!(torn.torn.is_some() && torn.end.is_none());
    let mut writer = Writer::resume(&path, &torn).unwrap();
    writer.append(&Line::Note(Note { text: "on we go".to_owned() })).unwrap();
    writer.sync().unwrap();
    let record = Record::read(&path).unwrap();
    assert_eq!((record.fault, record.torn, record.notes), (None, None, vec!["on we go".to_owned()]));
}

#[test]
fn two_writers_of_one_record_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let mut writer = Writer::create(&path).unwrap();
    writer.append(&header()).unwrap();
    writer.sync().unwrap();
    let record = Record::read(&path).unwrap();
    let refused = Writer::resume(&path, &record).unwrap_err();
    assert!(std::error::Error::source(&refused).unwrap().to_string().contains("another run is writing it"));
}

#[test]
fn a_newer_schema_is_refused_with_the_version_that_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let Line::Header(mut header) = header() else { unreachable!() };
    header.schema = SCHEMA_VERSION + 1;
    header.landau = "9.9.9".to_owned();
    let bytes = written(folder.path(), &[Line::Header(header)]);
    assert!(Record::parse("r", &bytes).unwrap_err().to_string().contains("use landau 9.9.9 or later"));
}

/// An attempt that was cut off does not hide a whole one of the same round, nor the other way round.
#[test]
fn of_two_attempts_at_a_round_the_whole_one_counts() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = vec![header()];
    let mut unfinished = pass(0, &[1, 2, 3]);
    unfinished.pop();
    lines.extend(unfinished);
    let mut again = pass(1, &[4, 5, 6]);
    if let Line::Pass(start) = &mut again[0] {
        start.round = 0;
    }
    lines.extend(again);
    let record = Record::parse("r", &written(folder.path(), &lines)).unwrap();
    let counted = record.passes_of(0);
    assert_eq!(counted.len(), 1);
    assert_eq!(counted[0].lanes["make"].ns, [4, 5, 6]);
}

proptest! {
    /// Whichever byte is changed, the record is not taken for what was written, and the line of the change is blamed.
    #[test]
    fn any_changed_byte_is_found(place in 0_usize..1_000, to in b' '..=b'~') {
        let whole = example();
        let place = place * whole.len() / 1_000;
        prop_assume!(whole[place] != to && whole[place] != b'\n');
        let mut altered = whole.clone();
        altered[place] = to;
        let line = 1 + lines_of(&whole[..place]);
        // The first line decides what the file is: without it there is no record at all.
        let blamed = Record::parse("altered", &altered).map_or(Some(1), |record| record.fault.map(|fault| fault.line));
        prop_assert_eq!(blamed, Some(line));
    }

    /// Wherever a record is torn behind its first line, it reads, and every sample before the tear is there.
    #[test]
    fn any_tear_is_survived(len in 0_usize..1_000) {
        let whole = example();
        let first = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        let len = first + len * (whole.len() - first) / 1_000;
        let record = Record::parse("torn", &whole[..len]).unwrap();
        prop_assert_eq!(record.fault, None);
        prop_assert_eq!(record.line_count, lines_of(&whole[..len]));
        prop_assert_eq!(record.torn.is_some(), whole[len - 1] != b'\n');
    }
}
