//! Records as files: written, read, torn, altered.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

use landau_record::schema::{
    Adaptive, CallTags, Canary, Chunk, Clock, Crash, CrashKind, Direction, End, EndOutcome, Header, Host, Lab, Line,
    Note, Outcome, PassEnd, PassStart, Quantum, Resume, Samples, TimerOverhead, Unit, Window,
};
use landau_record::{Fault, Follower, Record, SCHEMA_VERSION, Writer};
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
        ..Header::default()
    })
}

fn pass(number: u32, ns: &[u64]) -> Vec<Line> {
    let start = PassStart { pass: number, case: 0, round: number, at_ms: 0, adaptive_for: Vec::new() };
    let end = PassEnd {
        pass: number,
        outcome: Outcome::Done,
        steps: ns.len() as u64,
        elapsed_ms: 1,
        limit: None,
        error: None,
        facts: landau_record::schema::Facts::new(),
    };
    let mut lines = vec![Line::Pass(start)];
    let mut first = 1;
    for part in ns.chunks(3) {
        let samples = Samples::Ns(part.to_vec());
        lines.push(Line::Chunk(Chunk { pass: number, phase: "make".to_owned(), first, stride: 1, samples }));
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

/// Returns the bytes of a record with two passes.
fn example() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = vec![header()];
    lines.extend(pass(0, &[100, 200, 300, 400]));
    lines.extend(pass(1, &[110, 210, 310, 410]));
    lines.push(Line::End(End { outcome: EndOutcome::Complete, line_count: 9, elapsed_ms: 2 }));
    written(folder.path(), &lines)
}

fn lines_of(bytes: &[u8]) -> u64 {
    bytes.split(|&byte| byte == b'\n').count() as u64 - 1
}

#[test]
fn a_written_record_is_read_back() {
    let record = Record::parse("example", &example()).unwrap();
    assert_eq!((record.fault.clone(), record.torn.clone()), (None, None));
    assert_eq!(record.passes_of(0).len(), 2);
    assert_eq!(record.passes[1].series["make"].costs, [110, 210, 310, 410]);
    assert_eq!(record.passes[1].series["make"].n, [1, 2, 3, 4]);
    assert_eq!(record.end.unwrap().outcome, EndOutcome::Complete);
}

#[test]
fn a_resumed_writer_continues_the_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let whole = example();
    // Torn in the middle of the second pass.
    std::fs::write(&path, &whole[..whole.len() - 400]).unwrap();
    let torn = Record::read(&path).unwrap();
    assert!(torn.torn.is_some() && torn.end.is_none());
    let mut writer = Writer::resume(&path, &torn).unwrap();
    writer.append(&Line::Note(Note { text: "resumed".to_owned() })).unwrap();
    writer.sync().unwrap();
    let record = Record::read(&path).unwrap();
    assert_eq!((record.fault, record.torn, record.notes), (None, None, vec!["resumed".to_owned()]));
}

/// Guards against a resumption that removes the torn line before it is refused.
#[test]
fn a_torn_line_stays_until_a_line_is_appended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let whole = example();
    std::fs::write(&path, &whole[..whole.len() - 400]).unwrap();
    let torn = Record::read(&path).unwrap();
    let mut writer = Writer::resume(&path, &torn).unwrap();
    writer.sync().unwrap();
    drop(writer);
    assert_eq!(std::fs::read(&path).unwrap(), whole[..whole.len() - 400]);
}

/// Guards against the loss of a record that another run is writing or has written.
#[test]
fn a_record_is_replaced_only_if_it_is_the_one_that_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let mut other = Writer::create(&path).unwrap();
    other.append(&header()).unwrap();
    other.sync().unwrap();
    let (bytes, record) = (std::fs::read(&path).unwrap(), Record::read(&path).unwrap());
    let why = |refused: landau_record::Error| std::error::Error::source(&refused).unwrap().to_string();
    assert!(why(Writer::replace(&path, Some(&record)).unwrap_err()).contains("another run is writing it"));
    drop(other);
    assert!(why(Writer::replace(&path, None).unwrap_err()).contains("has written it since it was read"));
    drop(Writer::replace(&path, Some(&record)).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was appended");

    let mut writer = Writer::replace(&path, Some(&record)).unwrap();
    writer.append(&header()).unwrap();
    writer.append(&Line::Note(Note { text: "again".to_owned() })).unwrap();
    writer.sync().unwrap();
    let record = Record::read(&path).unwrap();
    assert_eq!((record.fault, record.torn, record.line_count), (None, None, 2));
    std::fs::write(folder.path().join("torn"), "{\"kind\":\"head").unwrap();
    let mut writer = Writer::replace(&folder.path().join("torn"), None).unwrap();
    writer.append(&header()).unwrap();
    writer.sync().unwrap();
    assert_eq!(std::fs::read(folder.path().join("torn")).unwrap(), bytes);
}

/// Guards against advising `landau run --resume` for a record that only another command can continue, or no command.
#[test]
fn a_run_is_continued_by_the_command_that_began_it() {
    let (run, lab) = (Some("landau run --resume r"), Some("repeat its `landau lab run` command with --resume"));
    for (command, is_of_lab, expected) in [
        (&[][..], false, run),
        (&["landau"], false, run),
        (&["/usr/bin/landau", "run", "bind"], false, run),
        (&["landau", "run", "bind"], true, None),
        (&["landau", "lab", "run", "-k", "host"], true, lab),
        (&["landau", "lab", "run"], false, lab),
        (&["landau", "lab", "test", "-k", "x"], true, None),
        (&["landau", "explain", "bind", "--kernel", "x"], true, None),
        (&["landau", "explain", "bind"], false, None),
        (&["landau", "load", "http://127.0.0.1/"], false, None),
        (&["landau", "tune", "try", "x"], false, None),
        (&[], true, None),
    ] {
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let header = Header { schema: SCHEMA_VERSION, command: command.clone(), ..Header::default() };
        let lab = is_of_lab.then(Lab::default);
        let cases = kept("schema-3.landau.ndjson").cases;
        let record = Record { header, lab, cases, ..Record::default() };
        assert_eq!(record.continuation("r").as_deref(), expected, "{command:?}, lab: {is_of_lab}");
    }
}

/// Returns a record of the tree up to the first line that begins with `until`.
fn kept_until(name: &str, until: &str) -> Record {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let end = text.find(&format!("\n{until}")).map_or(text.len(), |at| at + 1);
    Record::parse("r", &text.as_bytes()[..end]).unwrap()
}

fn kept(name: &str) -> Record {
    kept_until(name, "nothing")
}

/// Guards against advice that the next command refuses.
#[test]
fn a_record_to_which_nothing_can_be_appended_is_not_said_to_be_resumable() {
    const END: &str = "{\"kind\":\"end\"";
    let how = |record: &Record| record.how_to_continue("r");
    let resumable = "; to continue it: landau run --resume r";
    let whole = kept_until("schema-3.landau.ndjson", END);
    assert_eq!((how(&whole).as_str(), &whole.end), (resumable, &None));
    // Of an older schema.
    assert_eq!(how(&kept_until("sample.landau.ndjson", END)), "");
    // Killed before its plan was written.
    assert_eq!(how(&kept_until("schema-3.landau.ndjson", "{\"kind\":\"case\"")), "");
    let header = Header { case_count: whole.header.case_count + 1, ..whole.header.clone() };
    assert_eq!(how(&Record { header, ..whole.clone() }), "");
    assert_eq!(how(&Record { path: "r.gz".to_owned(), ..whole.clone() }), "");
    // Altered.
    let fault = Some(Fault { line: 7, reason: String::new() });
    assert_eq!(how(&Record { fault: fault.clone(), ..whole.clone() }), "");
    // The lab replaces the record.
    let header =
        Header { schema: 1, command: ["landau", "lab", "run"].map(str::to_owned).to_vec(), ..Header::default() };
    assert!(how(&Record { header, fault, ..Record::default() }).ends_with("with --resume"));
}

/// However much of the file exists at each read, a follower ends with the same record as a single read of the whole
/// file.
#[test]
fn a_follower_reads_what_was_added() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let whole = example();
    let first = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    std::fs::write(&path, &whole[..first]).unwrap();
    let mut follower = Follower::open(&path).unwrap();
    for len in (first..whole.len()).step_by(37).chain([whole.len()]) {
        std::fs::write(&path, &whole[..len]).unwrap();
        let complete = whole[..len].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
        let expected = Record::parse("r", &whole[..complete]).unwrap();
        let record = follower.read().unwrap();
        assert_eq!((record.line_count, &record.last_seal), (expected.line_count, &expected.last_seal));
        assert_eq!((record.passes.len(), &record.fault), (expected.passes.len(), &None), "{len} bytes");
    }
    assert_eq!(follower.read().unwrap().end.as_ref().unwrap().outcome, EndOutcome::Complete);
}

/// Adaptive passes are distinguished from planned ones, and the changes of a resumption apply from then on.
#[test]
fn the_reason_of_a_pass_and_the_last_plan_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let Line::Header(header) = header() else { unreachable!() };
    let mut lines = vec![Line::Header(Header { adaptive: Adaptive::Bounded, ..header })];
    lines.extend(pass(0, &[1, 2]));
    let resume = |pass_count, adaptive| {
        Line::Resume(Resume { at: String::new(), command: Vec::new(), torn_bytes: 0, pass_count, adaptive })
    };
    lines.extend([resume(None, None), resume(Some(7), Some(Adaptive::UntilResolved)), resume(None, None)]);
    lines.extend(pass(1, &[1, 2]));
    if let Some(Line::Pass(start)) = lines.iter_mut().rev().find(|line| matches!(line, Line::Pass(_))) {
        start.adaptive_for = vec!["make".to_owned()];
    }
    let bytes = written(folder.path(), &lines);
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert_eq!(text.matches("\"adaptive_for\":[\"make\"]").count(), 1, "a planned pass has no such member: {text}");
    let record = Record::parse("r", &bytes).unwrap();
    assert_eq!((record.pass_count(), record.adaptive()), (7, Adaptive::UntilResolved));
    assert_eq!(record.passes.iter().map(|pass| pass.start.is_adaptive()).collect::<Vec<_>>(), [false, true]);
}

/// Guards against losing lines that another run wrote between the read and the lock.
#[test]
fn a_record_that_has_grown_since_it_was_read_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let mut writer = Writer::create(&path).unwrap();
    writer.append(&header()).unwrap();
    writer.sync().unwrap();
    let stale = Record::read(&path).unwrap();
    writer.append(&Line::Note(Note { text: "later".to_owned() })).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let bytes = std::fs::read(&path).unwrap();
    assert!(Writer::resume(&path, &stale).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the file is not touched");
}

#[test]
fn a_second_writer_of_a_record_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let mut writer = Writer::create(&path).unwrap();
    writer.append(&header()).unwrap();
    writer.sync().unwrap();
    let record = Record::read(&path).unwrap();
    let refused = Writer::resume(&path, &record).unwrap_err();
    assert!(std::error::Error::source(&refused).unwrap().to_string().contains("another run is writing it"));
}

/// Lines appended to a compressed record would be lost, and the record with them.
#[test]
fn a_compressed_record_is_read_but_not_resumed() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&written(folder.path(), &[header()])).unwrap();
    let bytes = gzip.finish().unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let record = Record::read(&path).unwrap();
    assert_eq!((record.line_count, &record.fault), (1, &None));
    let refused = Writer::resume(&path, &record).unwrap_err().to_string();
    assert!(refused.contains("it is compressed"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the file is not touched");
}

/// Lines of two schemas in one file would be misread.
#[test]
fn a_record_of_an_older_schema_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let Line::Header(mut header) = header() else { unreachable!() };
    header.schema = SCHEMA_VERSION - 1;
    let mut bytes = written(folder.path(), &[Line::Header(header)]);
    bytes.extend(b"{\"kind\":\"note\"");
    std::fs::write(&path, &bytes).unwrap();
    let record = Record::read(&path).unwrap();
    let refused = Writer::resume(&path, &record).unwrap_err().to_string();
    assert!(refused.contains("its schema is 2") && refused.contains("start a new run"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the file is not touched");
}

#[test]
fn a_newer_schema_is_an_error_that_names_the_version_to_use() {
    let folder = tempfile::tempdir().unwrap();
    let Line::Header(mut header) = header() else { unreachable!() };
    header.schema = SCHEMA_VERSION + 1;
    header.landau = "9.9.9".to_owned();
    let bytes = written(folder.path(), &[Line::Header(header)]);
    // A newer header may have other members.
    let bytes = String::from_utf8(bytes).unwrap().replace("\"pass_count\":1", "\"passes\":[1]").into_bytes();
    assert!(
        Record::parse("r", &bytes)
            .unwrap_err()
            .to_string()
            .contains("use landau 9.9.9, which wrote it, or a newer one")
    );
}

/// An interrupted attempt does not hide a complete one of the same round.
#[test]
fn of_two_attempts_at_a_round_the_complete_one_counts() {
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
    assert_eq!(counted[0].series["make"].costs, [4, 5, 6]);
}

/// Returns a record in that unit: the host with its clock, a pass, a window, and a crash.
fn counted(unit: Unit) -> Vec<Line> {
    let clock = Clock {
        name: "icount".to_owned(),
        unit,
        timer_overhead: TimerOverhead::new(unit, 12.0),
        quantum: Quantum::new(unit, 1.0),
        ..Clock::default()
    };
    let start = PassStart { pass: 0, case: 0, round: 0, at_ms: 0, adaptive_for: Vec::new() };
    let samples = Samples::new(unit, vec![337, 338]);
    vec![
        header(),
        Line::Host(Box::new(Host { clock, ..Host::default() })),
        Line::Lab(Box::new(Lab { platform: "exact".to_owned(), ..Lab::default() })),
        Line::Pass(start),
        Line::Chunk(Chunk { pass: 0, phase: "make".to_owned(), first: 1, stride: 1, samples }),
        Line::Window(Window {
            pass: 0,
            direction: Direction::Up,
            first: 1,
            count: 2,
            until_us: 0,
            preempted: 0,
            faults: [0, 0],
            processor: 0,
            steal_ms: 0,
            steal_windows: None,
            others_preempted: None,
            others_faults: None,
            calls: None,
            canary: Canary::new(unit, vec![73]),
        }),
        Line::Crash(Crash {
            pass: Some(0),
            crash: CrashKind::Panic,
            last_n: Some(2),
            console: vec!["Kernel panic - not syncing".to_owned()],
            boots: 3,
            same_place: Some(true),
            every_last_n: vec![2, 2, 2],
            meaning: "the kernel panicked".to_owned(),
        }),
    ]
}

/// A query for nanoseconds must find no instructions.
#[test]
fn members_with_samples_are_named_by_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = written(folder.path(), &counted(Unit::Instructions));
    let text = String::from_utf8(bytes.clone()).unwrap();
    for member in ["\"instructions\":[337,338]", "\"canary_instructions\":[73]", "\"timer_overhead_instructions\":12.0"]
    {
        assert!(text.contains(member), "{member} in {text}");
    }
    assert!(!text.contains("_ns\":") && !text.contains("\"ns\":"), "{text}");
    let record = Record::parse("r", &bytes).unwrap();
    assert_eq!((record.fault.clone(), record.unit()), (None, Unit::Instructions));
    assert_eq!(record.passes[0].series["make"].costs, [337, 338]);
    assert_eq!(record.passes[0].windows[0].canary, Canary::Instructions(vec![73]));
    assert_eq!(record.crashes[0].every_last_n, [2, 2, 2]);
    assert_eq!(record.lab.unwrap().platform, "exact");
}

/// Samples in another unit are left out.
#[test]
fn a_chunk_in_another_unit_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = counted(Unit::Instructions);
    lines.push(Line::Chunk(Chunk {
        pass: 0,
        phase: "make".to_owned(),
        first: 3,
        stride: 1,
        samples: Samples::Ns(vec![1]),
    }));
    let record = Record::parse("r", &written(folder.path(), &lines)).unwrap();
    assert!(record.fault.unwrap().reason.contains("the record's clock counts instructions"));
    assert_eq!(record.passes[0].series["make"].costs, [337, 338]);
}

/// A window has one tag of a call for each step, in the unit of the record. Other tags are left out.
#[test]
fn tags_of_calls_are_one_for_each_step() {
    let read = |calls: CallTags| {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = counted(Unit::Instructions);
        for line in &mut lines {
            if let Line::Window(window) = line {
                window.calls = Some(calls.clone());
            }
        }
        let bytes = written(folder.path(), &lines);
        (Record::parse("r", &bytes).unwrap(), String::from_utf8(bytes).unwrap())
    };
    let tags = |softirqs: &[u32], canary: Canary| CallTags { rcu_softirqs: Some(softirqs.to_vec()), canary };
    let good = tags(&[0, 1], Canary::Instructions(vec![73, 74]));
    for calls in [good.clone(), CallTags { rcu_softirqs: None, ..good.clone() }] {
        let (record, text) = read(calls.clone());
        assert_eq!(record.fault, None, "{text}");
        assert_eq!(record.passes[0].windows[0].calls, Some(calls));
        assert!(text.contains("\"canary_instructions\":[73,74]}"), "{text}");
    }
    for (calls, reason) in [
        (tags(&[0], Canary::Instructions(vec![73, 74])), "it has 2 steps, but tags of 1 calls"),
        (tags(&[0, 1], Canary::Instructions(vec![73; 3])), "it has 2 steps, but tags of 3 calls"),
        (tags(&[0, 1], Canary::Ns(vec![73, 74])), "the record's clock counts instructions"),
    ] {
        let (record, _) = read(calls);
        assert!(record.fault.as_ref().unwrap().reason.contains(reason), "{:?}", record.fault);
        assert!(record.passes[0].windows.is_empty());
    }
}

#[test]
fn a_record_without_a_unit_is_in_nanoseconds() {
    let host = r#"{"name":"tsc","timer_overhead_ns":20.0,"quantum_ns":1.0,"candidates":{}}"#;
    let clock: Clock = serde_json::from_str(host).unwrap();
    assert_eq!((clock.unit, clock.timer_overhead.clone()), (Unit::Ns, TimerOverhead::Ns(20.0)));
    assert_eq!(serde_json::to_string(&clock).unwrap(), host);
}

proptest! {
    /// The line that is reported is the line that was changed.
    #[test]
    fn any_changed_byte_is_detected(place in 0_usize..1_000, to in b' '..=b'~') {
        let whole = example();
        let place = place * whole.len() / 1_000;
        prop_assume!(whole[place] != to && whole[place] != b'\n');
        let mut altered = whole.clone();
        altered[place] = to;
        let line = 1 + lines_of(&whole[..place]);
        // Without a valid first line the file is not a record.
        let read = Record::parse("altered", &altered);
        let reported = read.map_or(Some(1), |record| record.fault.map(|fault| fault.line));
        prop_assert_eq!(reported, Some(line));
    }

    /// Every sample before the tear is read.
    #[test]
    fn a_record_torn_anywhere_after_its_first_line_is_read(len in 0_usize..1_000) {
        let whole = example();
        let first = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        let len = first + len * (whole.len() - first) / 1_000;
        let record = Record::parse("torn", &whole[..len]).unwrap();
        prop_assert_eq!(record.fault, None);
        prop_assert_eq!(record.line_count, lines_of(&whole[..len]));
        prop_assert_eq!(record.torn.is_some(), whole[len - 1] != b'\n');
    }
}
