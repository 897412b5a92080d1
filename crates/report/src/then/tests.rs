//! Records in which the conclusion changes, and records in which it does not.

use super::*;
use landau_record::schema::{
    Annotation, AnnotationKind, Canary, Case, Direction, FactUnit, Facts, Outcome, PassEnd, PassStart, Phase, Replay,
    Window,
};
use landau_record::{Pass, Record, Series};
use std::collections::BTreeMap;

/// A cost in nanoseconds at an n.
type Cost = fn(f64) -> f64;

/// A case of a simulated record.
struct Sketch {
    benchmark: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// The study and its number of runs; `None` for the corrected method.
    author: Option<(&'static str, u32)>,
    n: u32,
    phases: &'static [(&'static str, Direction, Cost)],
    /// A fact of every pass, in nanoseconds.
    fact: Option<(&'static str, f64)>,
}

const UP: Direction = Direction::Up;
const DOWN: Direction = Direction::Down;
const PASSES: u32 = 5;

/// Noise of 2%, the same in every run of the test.
fn noise(seed: u64) -> f64 {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1.0 + 0.04 * ((mixed >> 40) as f64 / (1_u64 << 24) as f64 - 0.5)
}

fn record(sketches: &[Sketch]) -> Record {
    let mut record = Record::default();
    for (number, sketch) in (0..).zip(sketches) {
        record.cases.push(case(number, sketch));
        for round in 0..sketch.author.map_or(PASSES, |(_, runs)| runs) {
            record.passes.push(pass(number, round, record.passes.len() as u32, sketch));
        }
    }
    record
}

fn case(number: u32, sketch: &Sketch) -> Case {
    let phase = |(name, direction, _): &(&str, Direction, Cost)| Phase {
        name: (*name).to_owned(),
        direction: *direction,
        about: String::new(),
    };
    Case {
        case: number,
        benchmark: sketch.benchmark.to_owned(),
        label: format!("{} {number}", sketch.benchmark),
        about: String::new(),
        axis: "things".to_owned(),
        caveats: Vec::new(),
        source: String::new(),
        phases: sketch.phases.iter().map(phase).collect(),
        settings: sketch.settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        settings_about: BTreeMap::new(),
        n: u64::from(sketch.n),
        reduced: None,
        annotations: vec![Annotation {
            name: "half the ephemeral port range".to_owned(),
            n: 3_000.0,
            kind: AnnotationKind::Capacity,
            source: String::new(),
        }],
        timeline: None,
        replay: sketch.author.map(|(study, runs)| Replay { study: study.to_owned(), runs }),
    }
}

fn pass(case: u32, round: u32, pass: u32, sketch: &Sketch) -> Pass {
    let lane = |(name, direction, cost): &(&str, Direction, Cost)| {
        let n: Vec<u32> = match direction {
            Direction::Up => (1..=sketch.n).collect(),
            Direction::Down => (1..=sketch.n).rev().collect(),
        };
        let seed = |n: u32| u64::from(n) + (u64::from(pass) << 32);
        let costs = n.iter().map(|&n| (cost(f64::from(n)) * noise(seed(n)) * noise(u64::from(round))) as u64).collect();
        ((*name).to_owned(), Series { n, costs })
    };
    let window = |direction, first| Window {
        pass,
        direction,
        first,
        count: sketch.n,
        until_us: 0,
        preempted: 0,
        faults: [0, 0],
        processor: 0,
        steal_ms: 0,
        steal_windows: None,
        others_preempted: None,
        others_faults: None,
        canary: Canary::Ns(Vec::new()),
        calls: None,
    };
    let mut facts = Facts::new();
    if let Some((name, ns)) = sketch.fact {
        facts.number(name, ns * noise(u64::from(pass)), FactUnit::Ns);
    }
    Pass {
        start: PassStart { pass, case, round, at_ms: 0, adaptive_for: Vec::new() },
        series: sketch.phases.iter().map(lane).collect(),
        windows: vec![window(UP, 1), window(DOWN, sketch.n)],
        end: Some(PassEnd {
            pass,
            outcome: Outcome::Done,
            steps: u64::from(sketch.n),
            elapsed_ms: 0,
            limit: None,
            error: None,
            facts,
        }),
    }
}

/// Returns the test of that name from a record.
fn test_of(sketches: &[Sketch], name: &str) -> Test {
    let record = record(sketches);
    let articles = of(&Analysis::of(&record));
    let mut tests = articles.into_iter().flat_map(|article| article.tests);
    tests.find(|test| test.name == name).unwrap_or_else(|| panic!("no test {name}"))
}

fn bind(author: Cost, corrected: &'static [(&'static str, Direction, Cost)], n: u32) -> Vec<Sketch> {
    // There is one function for each phase; the author's case has no destruction.
    let phases: &'static [(&'static str, Direction, Cost)] = Box::leak(Box::new([("bind", UP, author)]));
    let own = Sketch { benchmark: "bind", settings: &[], author: Some(("2003", 5)), n: 2_000, phases, fact: None };
    vec![own, Sketch { benchmark: "bind", settings: &[], author: None, n, phases: corrected, fact: None }]
}

const FLAT: Cost = |_| 1_000.0;

/// The cliff of `bind()` is beyond the author's axis. Up to its end both methods agree, and the cliff is an addition.
#[test]
fn a_cliff_beyond_the_authors_axis_is_an_addition() {
    let test = test_of(&bind(FLAT, &[("bind", UP, |n| if n < 3_000.0 { 1_000.0 } else { 50_000.0 })], 3_600), "bind");
    assert_eq!(test.change, Change::Stays, "{test:#?}");
    assert!(test.conclusion.contains("O(1) by both"), "{}", test.conclusion);
    assert!(test.conclusion.contains("Beyond the study's axis there is a cliff at n = 3,0"), "{}", test.conclusion);
    let why = test.why.join(" ");
    assert!(why.contains("ends at n = 2,000") && why.contains("beyond it, at n = 3,0"), "{why}");
    assert!(why.contains("half the ephemeral port range") && why.contains("×50"), "{why}");
    assert!(test.conclusion.contains("That is what was published"), "{}", test.conclusion);
}

/// A rise that both methods find stays one, regardless of what is beyond the axis.
#[test]
fn growth_below_a_cliff_beyond_the_axis_stays() {
    let rise: Cost = |n| 1_000.0 + n;
    let cliff: &[(&str, Direction, Cost)] = &[("bind", UP, |n| if n < 3_000.0 { 1_000.0 + n } else { 90_000.0 })];
    let test = test_of(&bind(rise, cliff, 3_600), "bind");
    assert_eq!(test.change, Change::Stays, "{test:#?}");
    assert!(test.conclusion.contains("growth by both"), "{}", test.conclusion);
    assert!(test.conclusion.contains("Beyond the study's axis there is a cliff at n = 3,0"), "{}", test.conclusion);
}

/// On a host without that cliff, no sentence mentions one.
#[test]
fn without_a_cliff_the_conclusion_stays() {
    let test = test_of(&bind(FLAT, &[("bind", UP, FLAT), ("close", DOWN, FLAT)], 3_600), "bind");
    assert_eq!(test.change, Change::Stays, "{test:#?}");
    assert!(test.conclusion.contains("O(1) by both") && test.conclusion.contains("what was published"), "{test:#?}");
    assert!(!format!("{test:?}").contains("cliff"), "{test:#?}");
    assert!(test.now.iter().any(|sentence| sentence.starts_with("close, not timed in 2003: 5 passes.")), "{test:#?}");
}

/// Growth that is too small to double the band of a plot, but that the corrected method proves.
#[test]
fn growth_too_small_for_the_eye_changes_the_conclusion() {
    let rise: Cost = |n| 1_000.0 + 0.1 * n;
    let test = test_of(&bind(rise, &[("bind", UP, |n| 1_000.0 + 0.1 * n)], 3_600), "bind");
    assert_eq!(test.change, Change::Changes, "{test:#?}");
    assert!(test.why.join(" ").contains("visible only above ×1.5"), "{test:#?}");
    assert!(test.why.join(" ").contains("To the end of the study's axis"), "{test:#?}");
}

#[test]
fn growth_that_both_see_stays() {
    let rise: Cost = |n| 1_000.0 + n;
    let test = test_of(&bind(rise, &[("bind", UP, |n| 1_000.0 + n)], 3_600), "bind");
    assert_eq!(test.change, Change::Stays, "{test:#?}");
    assert!(test.conclusion.contains("growth by both") && test.conclusion.contains("this kernel differs"), "{test:#?}");
    assert!(test.why.join(" ").contains("To the end of the study's axis, n = "), "{test:#?}");
}

/// Growth that no plot of the author could show does not contradict what he saw.
#[test]
fn growth_beyond_the_axis_stays() {
    let beyond: &[(&str, Direction, Cost)] = &[("bind", UP, |n| if n < 2_200.0 { 1_000.0 } else { n - 1_200.0 })];
    let test = test_of(&bind(FLAT, beyond, 3_600), "bind");
    assert_eq!(test.change, Change::Stays, "{test:#?}");
    assert!(test.conclusion.contains("O(1) to the end of the study's axis by both"), "{}", test.conclusion);
    let why = test.why.join(" ");
    assert!(
        why.contains("is beyond the study's axis") && why.contains("To the end of the study's axis, n = "),
        "{why}"
    );
}

/// One method alone decides nothing.
#[test]
fn half_a_record_leaves_the_conclusion_open() {
    let mut sketches = bind(FLAT, &[("bind", UP, FLAT)], 3_600);
    sketches.pop();
    sketches[0].phases = &[("bind", UP, FLAT), ("socket", UP, FLAT)];
    let socket = test_of(&sketches, "socket");
    assert_eq!(socket.now, ["Not measured in this run; `landau run socket --study then` measures it."]);
    let test = test_of(&sketches, "bind");
    assert_eq!((test.change, test.now.as_slice()), (Change::Open, &["Not measured in this run.".to_owned()][..]));
}

/// A corrected case that ends before the author's plot does not decide about it: here the eye sees a rise that begins
/// beyond the corrected case.
#[test]
fn a_shorter_corrected_case_leaves_the_conclusion_open() {
    let rise: Cost = |n| if n < 600.0 { 1_000.0 } else { 3_000.0 };
    let test = test_of(&bind(rise, &[("bind", UP, FLAT)], 500), "bind");
    assert_eq!((test.change, test.why.as_slice()), (Change::Open, &[][..]), "{test:#?}");
    let ends = "Open: the corrected case ends at n = 500, the author's plot at n = 2,000.";
    assert_eq!(test.conclusion, ends);
    let forked = forks([DYNAMIC, HALF], [DYNAMIC, HALF]);
    for (place, name) in [(2, "fork"), (2, "static fork"), (3, "static fork")] {
        let mut sketches = forks([DYNAMIC, HALF], [DYNAMIC, HALF]);
        sketches[place].n = 700;
        assert_eq!(test_of(&sketches, name).change, Change::Open, "{name}");
        assert_eq!(test_of(&forked, name).change, Change::Stays, "{name}");
    }
    for place in [2, 5] {
        let mut sketches = spawn(SLOWED);
        sketches[place].n = 700;
        assert_eq!(test_of(&sketches, "fork among sleepers").change, Change::Open);
    }
    let mut sketches = servers([FLAT, |_| 20_000.0], [FLAT, |_| 20_000.0]);
    sketches[3].n = 300;
    assert_eq!(test_of(&sketches, "architecture").change, Change::Open);
}

/// `--set` changes the corrected case only.
#[test]
fn a_setting_of_one_case_leaves_the_conclusion_open() {
    let mut sketches = bind(FLAT, &[("bind", UP, |n| 1_000.0 + n)], 3_600);
    (sketches[0].settings, sketches[1].settings) = (&[("family", "v4")], &[("family", "v6")]);
    let test = test_of(&sketches, "bind");
    assert_eq!((test.change, test.why.as_slice()), (Change::Open, &[][..]), "{test:#?}");
    assert_eq!(test.conclusion, "Open: the author's case has family=v4, the corrected case family=v6.");
    // Sizes differ by design, and a setting that only one of them has is not a difference.
    sketches[0].settings = &[("family", "v6"), ("n", "10000"), ("until", "n")];
    sketches[1].settings = &[("family", "v6"), ("n", "28000"), ("until", "limit"), ("threads", "0")];
    assert_eq!(test_of(&sketches, "bind").change, Change::Changes);
}

fn forks(
    author: [&'static [(&'static str, Direction, Cost)]; 2],
    own: [&'static [(&'static str, Direction, Cost)]; 2],
) -> Vec<Sketch> {
    const LINKED: [&[(&str, &str)]; 2] =
        [&[("linkage", "dynamic"), ("order", "creation")], &[("linkage", "static"), ("order", "creation")]];
    let sketch = |benchmark_author, phases, settings| Sketch {
        benchmark: "fork",
        settings,
        author: benchmark_author,
        n: 1_500,
        phases,
        fact: None,
    };
    let author = (0..2).map(|i| sketch(Some(("2003", 5)), author[i], LINKED[i]));
    author.chain((0..2).map(|i| sketch(None, own[i], LINKED[i]))).collect()
}

const DYNAMIC: &[(&str, Direction, Cost)] = &[("byte", UP, |_| 100_000.0), ("reap", DOWN, |n| 20_000.0 + 30.0 * n)];
const HALF: &[(&str, Direction, Cost)] = &[("byte", UP, |_| 55_000.0)];
const MOST: &[(&str, Direction, Cost)] = &[("byte", UP, |_| 80_000.0)];

#[test]
fn the_static_fork_is_almost_half_only_where_it_is() {
    let name = "static fork";
    let half = test_of(&forks([DYNAMIC, HALF], [DYNAMIC, HALF]), name);
    assert_eq!(half.change, Change::Stays, "{half:#?}");
    assert!(half.conclusion.contains("almost half by both; as published"), "{}", half.conclusion);
    let most = test_of(&forks([DYNAMIC, MOST], [DYNAMIC, MOST]), name);
    assert!(most.conclusion.contains("more than half by both; \"almost half\" was published"), "{}", most.conclusion);
    let changes = test_of(&forks([DYNAMIC, HALF], [DYNAMIC, MOST]), name);
    assert_eq!(changes.change, Change::Changes, "{changes:#?}");
}

/// The cleanup was published as growing. A kernel on which it does not grow is reported to differ.
#[test]
fn the_cleanup_is_compared_with_what_was_published() {
    const FLAT_REAP: &[(&str, Direction, Cost)] = &[("byte", UP, |_| 100_000.0), ("reap", DOWN, |_| 50_000.0)];
    let grows = test_of(&forks([DYNAMIC, HALF], [DYNAMIC, HALF]), "fork cleanup");
    assert!(grows.conclusion.contains("growth by both") && grows.conclusion.contains("That is what"), "{grows:#?}");
    let flat = test_of(&forks([FLAT_REAP, HALF], [FLAT_REAP, HALF]), "fork cleanup");
    assert!(flat.conclusion.contains("O(1) by both") && flat.conclusion.contains("this kernel differs"), "{flat:#?}");
}

const SLEEPERS: [&[(&str, &str)]; 4] = [
    &[("wait", "any"), ("parent", "timer"), ("image", "shared")],
    &[("wait", "pid"), ("parent", "timer"), ("image", "shared")],
    &[("wait", "pid"), ("parent", "helper"), ("image", "shared")],
    &[("wait", "pid"), ("parent", "helper"), ("image", "executed")],
];
const SLOWED: &[(&str, Direction, Cost)] = &[("cycle", UP, |n| 100_000.0 + 60.0 * n)];
const SOUND: &[(&str, Direction, Cost)] = &[("cycle", UP, |_| 100_000.0)];

fn spawn(first: &'static [(&'static str, Direction, Cost)]) -> Vec<Sketch> {
    let sketch = |place: usize, author: Option<(&'static str, u32)>| Sketch {
        benchmark: "spawn",
        settings: SLEEPERS[place],
        author,
        n: 2_000,
        phases: if place == 0 { first } else { SOUND },
        fact: Some(("cycle_without_sleepers", 100_000.0)),
    };
    let authors = [0, 3].map(|place| sketch(place, Some(("2004", 3))));
    authors.into_iter().chain((0..4).map(|place| sketch(place, None))).collect()
}

#[test]
fn the_first_test_of_2004_measured_itself_only_where_a_step_removes_it() {
    let changes = test_of(&spawn(SLOWED), "fork among sleepers");
    assert_eq!(changes.change, Change::Changes, "{changes:#?}");
    assert!(changes.why.join(" ").contains("wait for this child"), "{:#?}", changes.why);
    assert!(changes.conclusion.contains("The study's second test: no significant impact"), "{}", changes.conclusion);
    let stays = test_of(&spawn(SOUND), "fork among sleepers");
    assert_eq!(stays.change, Change::Stays, "{stays:#?}");
    assert!(stays.why.is_empty(), "{:#?}", stays.why);
}

fn servers(replies: [Cost; 2], processor: [Cost; 2]) -> Vec<Sketch> {
    const KINDS: [&[(&str, &str)]; 2] =
        [&[("architecture", "event-loop"), ("workload", "busy")], &[("architecture", "exec"), ("workload", "busy")]];
    let sketch = |kind: usize, author: Option<(&'static str, u32)>| Sketch {
        benchmark: "architecture",
        settings: KINDS[kind],
        author,
        n: 1_000,
        phases: Box::leak(Box::new([("reply", UP, replies[kind]), ("processor", UP, processor[kind])])),
        fact: None,
    };
    (0..2).map(|kind| sketch(kind, Some(("2001", 1)))).chain((0..2).map(|kind| sketch(kind, None))).collect()
}

#[test]
fn the_architectures_factor_depends_on_what_is_counted() {
    // The client takes 30 µs for a reply, and the event loop 15 µs.
    let changes = test_of(&servers([|_| 30_000.0, |_| 600_000.0], [|_| 15_000.0, |_| 600_000.0]), "architecture");
    assert_eq!(changes.change, Change::Changes, "{changes:#?}");
    assert!(changes.then.join(" ").contains("the event loop is ×20") || changes.then.join(" ").contains("×19"));
    assert!(changes.now.join(" ").contains("Published: ×12 and ×20"), "{:#?}", changes.now);
    // The order of 2001 is not stated without a thread.
    assert!(!changes.conclusion.contains("order"), "{}", changes.conclusion);
    let stays = test_of(&servers([FLAT, |_| 20_000.0], [FLAT, |_| 20_000.0]), "architecture");
    assert_eq!(stays.change, Change::Stays, "{stays:#?}");
}

fn durability(synced_ns: f64) -> Vec<Sketch> {
    let sketch = |settings, author, ns| Sketch {
        benchmark: "files",
        settings,
        author,
        n: 300,
        phases: &[("create", UP, |_| 10_000.0)],
        fact: Some(("time_per_file", ns)),
    };
    vec![
        sketch(&[("size", "4KiB"), ("durability", "none")], Some(("2001", 1)), 30_000.0),
        sketch(&[("size", "4KiB"), ("durability", "none")], None, 30_000.0),
        sketch(&[("size", "4KiB"), ("durability", "fsync")], None, synced_ns),
    ]
}

#[test]
fn the_promise_explains_the_file_test_only_where_it_costs() {
    let changes = test_of(&durability(3_000_000.0), "files");
    assert_eq!(changes.change, Change::Changes, "{changes:#?}");
    assert!(changes.why.join(" ").contains("×4.42 and ×7.36"), "{:#?}", changes.why);
    assert_eq!(test_of(&durability(31_000.0), "files").change, Change::Stays);
}

/// The samples of an author's case are in no verdict, so they are also in no result.
#[test]
fn an_authors_case_has_no_result() {
    let record = record(&bind(FLAT, &[("bind", UP, FLAT)], 3_600));
    let analysis = Analysis::of(&record);
    assert_eq!(analysis.cases.iter().map(|study| study.case.case).collect::<Vec<_>>(), [1]);
    assert!(analysis.results().iter().all(|result| result.case == 1));
}

#[test]
fn a_record_of_another_study_has_no_article() {
    let mut record = record(&bind(FLAT, &[("bind", UP, FLAT)], 3_600));
    record.cases[0].replay = None;
    assert_eq!(of(&Analysis::of(&record)), Vec::new());
}

/// Guards against an article that forgets a question about a phase or a setting if a record lacks it.
#[test]
fn the_contradictions_of_2001_come_with_its_tests_only() {
    let articles = of(&Analysis::of(&record(&durability(31_000.0))));
    assert_eq!(articles.iter().map(|one| one.year).collect::<Vec<_>>(), ["2001"]);
    let text = render(&articles, crate::table::Layout { width: 100, color: false });
    assert!(text.contains("\"12x\" (findings, summary): ×12") && text.contains("400 s and 399 s"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// The section of a page about a record that replays all three studies, character for character, except the dots of the
/// plots. `LANDAU_SNAPSHOTS=write` writes the present text; review the difference.
#[test]
fn the_section_of_the_page_reads_as_it_did() {
    let cliff: &[(&str, Direction, Cost)] = &[("bind", UP, |n| if n < 3_000.0 { 1_000.0 } else { 50_000.0 })];
    let mut sketches = bind(FLAT, cliff, 3_600);
    sketches.extend(forks([DYNAMIC, HALF], [DYNAMIC, HALF]));
    sketches.extend(spawn(SLOWED));
    sketches.extend(servers([|_| 30_000.0, |_| 600_000.0], [|_| 15_000.0, |_| 600_000.0]));
    sketches.extend(durability(3_000_000.0));
    let record = record(&sketches);
    let source = crate::page::Source {
        name: "then".to_owned(),
        file_name: "then.landau.ndjson".to_owned(),
        bytes: b"{}",
        analysis: Analysis::of(&record),
    };
    let html = crate::page::Page::render(&[source], &crate::page::Options::default()).html;
    let (_, section) = html.split_once("<section class=\"then\"").expect("a section");
    let (section, _) = section.split_once("<section class=\"findings\"").expect("the findings follow");
    let mut parts = section.split("<path class=\"samples\" d=\"");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (dots, rest) = part.split_once('"').expect("an end of the dots");
        let count = dots.matches('M').count().to_string();
        text.extend(["<path class=\"samples\" d=\"", &count, " dots\"", rest]);
    }
    let text = text.replace("><", ">\n<");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/snapshots/then.html");
    if std::env::var_os("LANDAU_SNAPSHOTS").is_some_and(|word| word == "write") {
        std::fs::write(path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    let mut lines = kept.lines().zip(text.lines()).enumerate();
    if let Some((number, (old, new))) = lines.find(|(_, (old, new))| old != new) {
        panic!("{path}, line {}:\n- {old}\n+ {new}\nLANDAU_SNAPSHOTS=write accepts it", number + 1);
    }
    assert_eq!(kept.lines().count(), text.lines().count(), "LANDAU_SNAPSHOTS=write accepts it");
}
