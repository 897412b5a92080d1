//! Records in instructions: none of their figures is worded as time, and none is combined with one that is.

use crate::support::{Bend, record};
use landau_record::schema::{
    Canary, Chunk, Clock, Crash, CrashKind, Emulator, Kernel, Lab, Quantum, Samples, TimerOverhead, Unit, Window,
};
use landau_record::{Line, Record, Writer};
use landau_report::page::{Options, Page, Source, difference, extract};
use landau_report::table::{self, Layout};
use landau_report::{Analysis, Comparisons, findings, svg, unit_of, unlike};

/// A synthetic record whose nanoseconds are interpreted as another unit.
fn counted(unit: Unit, crash: bool) -> (Record, Vec<u8>) {
    let (_, timed) = record(3, &Bend::default());
    let timed = String::from_utf8(timed).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counted.landau.ndjson");
    let mut writer = Writer::create(&path).unwrap();
    let mut last_pass = 0;
    for text in timed.lines() {
        let line: Line = serde_json::from_str(text).unwrap();
        let lab = matches!(line, Line::Host(_)).then(lab);
        if let Line::Pass(start) = &line {
            last_pass = start.pass;
        }
        if let Some(line) = converted(line, unit) {
            writer.append(&line).unwrap();
        }
        if let Some(lab) = lab {
            writer.append(&Line::Lab(Box::new(lab))).unwrap();
        }
    }
    if crash {
        writer.append(&Line::Crash(stopped(last_pass))).unwrap();
    }
    writer.flush().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (Record::parse("counted.landau.ndjson", &bytes).unwrap(), bytes)
}

fn lab() -> Lab {
    Lab {
        platform: "exact".into(),
        kernel: Some(Kernel { name: "6.12".into(), ..Kernel::default() }),
        emulator: Some(Emulator { name: "qemu-system-x86_64".into(), ..Emulator::default() }),
        ..Lab::default()
    }
}

pub(super) fn stopped(pass: u32) -> Crash {
    Crash {
        pass: Some(pass),
        crash: CrashKind::Panic,
        last_n: Some(2031),
        console: vec!["BUG: unable to handle page fault".into(), "Kernel panic - not syncing: <b>".into()],
        boots: 3,
        same_place: Some(true),
        every_last_n: vec![2031, 2031, 2031],
        meaning: "the kernel panicked".into(),
    }
}

/// Converts a line to another unit; results are left out, to be computed.
fn converted(line: Line, unit: Unit) -> Option<Line> {
    Some(match line {
        Line::Host(mut host) => {
            host.clock = Clock {
                name: "icount".into(),
                unit,
                timer_overhead: TimerOverhead::new(unit, 12.0),
                quantum: Quantum::new(unit, 1.0),
                ..Clock::default()
            };
            Line::Host(host)
        }
        Line::Chunk(chunk) => {
            let samples = Samples::new(unit, chunk.samples.values().clone());
            Line::Chunk(Chunk { samples, ..chunk })
        }
        Line::Window(window) => Line::Window(Window { canary: Canary::new(unit, vec![73; 4]), ..window }),
        Line::Result(_) | Line::End(_) => return None,
        other => other,
    })
}

fn source<'a>(name: &str, record: &'a Record, bytes: &'a [u8]) -> Source<'a> {
    Source { name: name.into(), file_name: format!("{name}.landau.ndjson"), bytes, analysis: Analysis::of(record) }
}

/// Finds a duration in a text: a number, a space, and a unit of time that ends a word.
fn words_time(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split([' ', '\u{a0}', '\n', '<', '>', '(', ')', ',', ';', '–']).collect();
    let is_number = |word: &str| word.chars().next_back().is_some_and(|letter| letter.is_ascii_digit());
    let is_time = |word: &str| matches!(word.trim_end_matches('.'), "ns" | "µs" | "ms");
    words.windows(2).find(|pair| is_number(pair[0]) && is_time(pair[1])).map(|pair| pair.join(" "))
}

#[test]
fn not_one_figure_of_a_counted_record_is_worded_as_time() {
    let (record, bytes) = counted(Unit::Instructions, true);
    let analysis = Analysis::of(&record);
    let table = table::render(
        &table::rows(&analysis),
        unit_of(&record),
        table::Sort::Case,
        Layout { width: 100, color: false },
    );
    assert_eq!(words_time(&table), None, "{table}");
    for finding in findings::of(&analysis) {
        assert_eq!(words_time(&finding.sentence()), None, "{}", finding.sentence());
    }
    let html = Page::render(&[source("counted", &record, &bytes)], &Options::default()).html;
    let text = html.split("<script type=\"application/octet-stream\"").next().unwrap();
    // The description of the host, including its notes, stays as in the record.
    let own = text.split("<section id=\"host\"").next().unwrap();
    assert_eq!(words_time(own), None);
    assert!(own.contains("not time") && html.contains("data-unit=\"instructions\""));
    assert!(svg::charts(&analysis).iter().all(|(_, chart)| words_time(chart).is_none()));
}

#[test]
fn results_state_their_unit_and_verify() {
    let (record, _) = counted(Unit::Instructions, false);
    let figures = Analysis::of(&record).results();
    let text = serde_json::to_string(&figures).unwrap();
    assert!(text.contains("\"unit\":\"instructions\"") && !text.contains("\"unit\":\"ns\""));
    assert_eq!(Analysis::of(&record).mismatches(&figures), []);
}

#[test]
fn time_and_instructions_are_never_compared() {
    let ((time, _), (exact, _)) = (record(2, &Bend::default()), counted(Unit::Instructions, false));
    let (emulated, _) = counted(Unit::EmulatedNs, false);
    let why = unlike([&time, &exact]).unwrap();
    assert!(why.contains("(in time)") && why.contains("(in instructions)"), "{why}");
    assert!(unlike([&time, &emulated]).is_some() && unlike([&exact, &exact]).is_none());
    let (a, b) = (Analysis::of(&time), Analysis::of(&exact));
    assert!(Comparisons::of(&[&a, &b]).all.is_empty());
}

#[test]
fn equal_records_are_exactly_the_same_and_a_page_of_both_verifies() {
    let (record, bytes) = counted(Unit::Instructions, false);
    let sources = [source("a", &record, &bytes), source("b", &record, &bytes)];
    let analysis = Analysis::of(&record);
    let comparisons = Comparisons::of(&[&analysis, &analysis]);
    let names = ["a".to_owned(), "b".to_owned()];
    assert!(!comparisons.all.is_empty());
    for one in &comparisons.all {
        assert_eq!((one.winner(), one.text(&names).as_str()), (None, "identical"));
    }
    let html = Page::render(&sources, &Options::default()).html;
    assert_eq!(difference(&html, &extract(&html).unwrap().made, &sources), None);
    assert!(!html.contains("at 95%"), "what is counted has no interval");
}

#[test]
fn a_crash_is_a_finding_with_the_console_s_last_words() {
    let (record, bytes) = counted(Unit::Instructions, true);
    let analysis = Analysis::of(&record);
    let found = findings::of(&analysis);
    let crash = found.iter().find(|one| one.kind == findings::Kind::Crash).unwrap();
    for words in ["2,031", "at the same point in each of 3 boots", "Kernel panic - not syncing"] {
        assert!(crash.text.contains(words), "{words} in {}", crash.text);
    }
    assert!(table::rows(&analysis).iter().any(|row| row.text.limit == "panic at 2,031"));
    let html = Page::render(&[source("counted", &record, &bytes)], &Options::default()).html;
    assert!(html.contains("Kernel panic - not syncing: &lt;b&gt;</pre>"), "the whole console stands on the page");
}

#[test]
fn an_emulator_s_time_is_marked_as_no_timing() {
    let (record, bytes) = counted(Unit::EmulatedNs, false);
    let html = Page::render(&[source("emulated", &record, &bytes)], &Options::default()).html;
    assert!(html.contains("No timing."));
}

#[test]
fn several_kernels_stand_side_by_side() {
    let (record, _) = counted(Unit::Instructions, false);
    let analysis = Analysis::of(&record);
    let names = ["5.10".to_owned(), "6.1".to_owned()];
    let rows = table::rows(&analysis);
    let mut compared = table::comparison_rows(&Comparisons::of(&[&analysis, &analysis]), &names);
    let layout = Layout { width: 100, color: false };
    let equal = table::render_records(&[rows.clone(), rows.clone()], &rows, &compared, &names, layout);
    assert!(!equal.contains('×') && equal.contains("5.10"), "{equal}");
    let ratio = compared[0].ratio.map(|ratio| ratio.map(|_| 6.46)).unwrap();
    compared[0].shown = Some(landau_report::Shown { ratio, n: Some(3000.0), is_opposite: false });
    let text = table::render_records(&[rows.clone(), rows.clone()], &rows, &compared, &names, layout);
    assert!(text.contains(" ×6.46") && text.lines().all(|line| line.chars().count() <= 100), "{text}");
}
