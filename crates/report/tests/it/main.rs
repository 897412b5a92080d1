//! Pages, tables and charts from synthetic records.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

mod counted;
mod shifted;
mod support;

use landau_record::Record;
use landau_record::schema::{Branching, Direction, Interval, Part, Profile, ProfiledFunction, Role, Side};
use landau_report::compared::Compared;
use landau_report::findings::{self, Kind};
use landau_report::page::{Options, Page, Source, difference, extract};
use landau_report::quantity::{Unit, count, duration, factor};
use landau_report::table::{self, Layout, Only, Sort};
use landau_report::{Analysis, Comparisons, PhaseComparison, Shift, VariantComparison, check_results, svg};
use landau_stats::{Class, Nature};
use std::sync::OnceLock;
use support::{Bend, record};

/// The study that most tests use; it is judged once, because that takes a second.
fn study() -> &'static (Record, Vec<u8>) {
    static STUDY: OnceLock<(Record, Vec<u8>)> = OnceLock::new();
    STUDY.get_or_init(|| record(5, &Bend::default()))
}

fn analysis() -> &'static Analysis<'static> {
    static ANALYSIS: OnceLock<Analysis<'static>> = OnceLock::new();
    ANALYSIS.get_or_init(|| Analysis::of(&study().0))
}

fn source<'a>(name: &str, record: &'a Record, bytes: &'a [u8]) -> Source<'a> {
    Source { name: name.into(), file_name: format!("{name}.landau.ndjson"), bytes, analysis: Analysis::of(record) }
}

fn page() -> &'static Page {
    static PAGE: OnceLock<Page> = OnceLock::new();
    PAGE.get_or_init(|| Page::render(&[source("study", &study().0, &study().1)], &Options::default()))
}

#[test]
fn the_page_has_a_section_a_chart_and_a_table_for_every_case() {
    let html = &page().html;
    for case in &analysis().cases {
        let number = case.case.case;
        assert!(
            html.contains(&format!("<details class=\"case\" id=\"case-{number}\"")),
            "no details of {}",
            case.case.label
        );
        assert!(html.contains(&format!("id=\"data-case-{number}\"")), "no curve for {}", case.case.label);
        for phase in 0..case.phases.len() {
            assert!(
                html.contains(&format!("data-chart=\"case-{number}/{phase}\" data-kind=\"density\"")),
                "no density for {}",
                case.case.label
            );
        }
    }
    let charts = html.matches("<figure class=\"chart").count();
    assert_eq!(html.matches("<details class=\"points\">").count(), charts);
    assert_eq!(html.matches("role=\"img\" aria-roledescription=\"chart\" aria-label=\"").count(), charts);
}

#[test]
fn the_page_asks_the_network_for_nothing() {
    let html = &page().html;
    for sign in ["src=\"http", "href=\"http", "@import", "url(http", "fetch(", "XMLHttpRequest", "<link", "<img"] {
        assert!(!html.contains(sign), "the page holds {sign}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn the_cliff_leads_and_its_numbers_are_the_verdicts() {
    let found = findings::of(analysis());
    let bind = analysis().cases.iter().find(|case| case.case.label == "bind").unwrap();
    let cliff = &bind.phases[0].verdict.all.cliffs[0];
    assert_eq!(found[0].kind, Kind::Cliff);
    assert!((cliff.n.value - 1400.0).abs() < 14.0, "the cliff is at {}", cliff.n.value);
    for number in [count(cliff.n.value), duration(cliff.cost_after), factor(cliff.factor_over_start)] {
        assert!(found[0].text.contains(&number), "{number} is not in: {}", found[0].text);
    }
    assert!(found[0].text.contains("half the ephemeral port range"));
}

/// The purpose of an explanation comes first for a reader, in the findings and on the page.
#[test]
fn the_functions_that_carry_a_growth_lead() {
    let (mut record, bytes) = record(5, &Bend::default());
    let interval = |value: f64| Interval { value, low: 0.9 * value, high: 1.1 * value };
    let function = |name: &str, share: f64, place: u32| ProfiledFunction {
        name: name.to_owned(),
        ns: [10.0, 10_000.0 * share],
        growth_ns: interval(9_990.0 * share),
        share: interval(share),
        places: Some([place; 2]),
        inclusive: None,
    };
    let part = |name: &str, share: f64| Part {
        name: name.to_owned(),
        share,
        interval: Some([0.9 * share, 1.1 * share]),
        places: Some([1, 1]),
    };
    let case = record.cases.iter().find(|case| case.label == "fork").unwrap();
    record.profiles.push(Profile {
        case: case.case,
        phase: case.phases[0].name.clone(),
        ranges: [[10, 20], [80, 100]],
        measured_ns: [1_000.0, 11_000.0],
        measured_growth_ns: interval(10_000.0),
        sampled_growth_ns: interval(10_000.0),
        functions: vec![function("scan", 0.7, 1), function("visit", 0.3, 2)],
        branching: Some(Branching { function: "wait".to_owned(), parts: vec![part("look", 0.8), part("wait", 0.2)] }),
        ..Profile::default()
    });
    let first = findings::of(&Analysis::of(&record)).remove(0);
    assert_eq!(first.kind, Kind::Functions);
    assert_eq!(
        first.text,
        "fork: a call takes 10 µs longer at n = 80–100 than at n = 10–20. The growth passes through wait: 80% (72% to \
         88%) is in look with its callees, and 20% (18% to 22%) in wait itself."
    );
    assert_eq!(
        first.consequence,
        "Without callees, the largest shares are scan 70% (63% to 77%) and visit 30% (27% to 33%)."
    );
    let html = Page::render(&[source("study", &record, &bytes)], &Options::default()).html;
    let (answer, details) =
        (html.find("is in look with its callees, and 20%").unwrap(), html.find("id=\"details\"").unwrap());
    assert!(answer < details, "the finding is behind the details");
    assert!(html.contains("With callees"));
}

#[test]
fn growth_limits_outliers_and_skips_are_all_findings() {
    let found = findings::of(analysis());
    let text = |kind: Kind| {
        found.iter().filter(|one| one.kind == kind).map(findings::Finding::sentence).collect::<Vec<_>>().join("\n")
    };
    assert!(text(Kind::Limit).contains("mmap fails with ENOMEM at n = 2,501 open things"));
    assert!(text(Kind::Limit).contains("sysctl -w vm.max_map_count=5000"));
    let outliers = landau_report::text::recurring(&analysis().cases[0].phases[0].verdict);
    assert!(!outliers.is_empty() && text(Kind::Outlier).contains(&outliers), "{}", text(Kind::Outlier));
    let growth =
        analysis().cases.iter().find(|case| case.case.label == "fork").unwrap().phases[0].verdict.all.growth.unwrap();
    assert!(text(Kind::Growth).contains(&format!("×{}", landau_report::quantity::digits(growth.value))));
    // The growth of the static child is larger, so its sentence leads.
    assert!(
        text(Kind::Growth).contains("fork with a static program grows ") && text(Kind::Growth).contains("Also: fork (")
    );
    let flat = found.iter().find(|one| one.kind == Kind::Flat).unwrap();
    assert!(flat.items.iter().any(|item| item.starts_with("socket threads=1 · close")));
    assert!(flat.sentence().ends_with(" curves."), "{}", flat.sentence());
    assert!(text(Kind::Skip).contains("rocket was skipped: there is no launch pad."));
    assert!(text(Kind::Skip).contains("fork: 2 passes skipped"));
    let leading = findings::leading(&found);
    assert!(leading <= findings::LEADING_MAX);
    let usual = [Kind::Period, Kind::Flat, Kind::Small, Kind::Unresolved, Kind::Skip, Kind::FirstCalls];
    assert!(found[..leading].iter().all(|one| !usual.contains(&one.kind)), "what surprises nobody leads");
}

#[test]
fn curves_of_a_single_pass_are_one_unresolved_finding() {
    let (record, _) = record(1, &Bend::default());
    let found = findings::of(&Analysis::of(&record));
    let found: Vec<_> = found.iter().filter(|one| one.kind == Kind::Unresolved).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].text.contains("about 4 more passes), a single pass has no error estimate")
            && found[0].items.contains(&"mmap · munmap".to_owned()),
        "{found:?}"
    );
}

#[test]
fn equal_records_give_equal_pages_and_figures() {
    let again = Page::render(&[source("study", &study().0, &study().1)], &Options::default());
    assert!(again.html == page().html, "two renderings differ");
    assert_eq!(analysis().mismatches(&analysis().results()), []);
}

#[test]
fn a_figure_that_was_altered_is_found() {
    let mut figures = analysis().results();
    assert!(check_results(&study().0).is_empty(), "no figures are stored, so none can be wrong");
    figures[1].verdict["all"]["growth"]["value"] = 42.0.into();
    let found = analysis().mismatches(&figures);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].member, "all.growth.value");
    figures.pop();
    assert_eq!(analysis().mismatches(&figures).len(), 2, "a missing figure counts too");
}

/// A known verdict is not computed again, unless the record has gained passes since.
#[test]
fn known_verdicts_are_used_for_the_same_passes() {
    let (bent, _) = record(5, &Bend { factor: 1.5, ..Bend::default() });
    let of_bent = Analysis::of(&bent);
    let results = of_bent.results();
    assert_ne!(results, analysis().results());
    assert_eq!(Analysis::with(&study().0, of_bent.into_verdicts()).results(), results, "five passes each");
    let (shorter, _) = record(4, &Bend::default());
    let stale = Analysis::of(&shorter).into_verdicts();
    assert_eq!(Analysis::with(&study().0, stale).results(), analysis().results());
}

#[test]
fn record_and_figures_come_out_of_the_page_again() {
    let whole = extract(&page().html).unwrap();
    assert_eq!(whole.records.len(), 1);
    assert_eq!(whole.records[0].bytes.as_deref(), Some(study().1.as_slice()));
    assert!(page().html.contains(&format!("id=\"sum-0\">{}<", whole.records[0].sha256)));
    assert_eq!(analysis().mismatches(whole.results[0].as_ref().unwrap()), []);
    let altered = page().html.replacen("id=\"record-0\"", "id=\"record-9\"", 1);
    assert!(extract(&altered).is_err());
}

#[test]
fn a_record_too_large_for_the_page_lies_beside_it() {
    let options = Options { size_limit_bytes: 200_000, ..Options::default() };
    let page = Page::render(&[source("study", &study().0, &study().1)], &options);
    assert_eq!(page.beside.len(), 1);
    assert_eq!(page.beside[0].bytes, study().1);
    assert!(page.html.contains(&page.beside[0].sha256));
    let whole = extract(&page.html).unwrap();
    assert_eq!((whole.records[0].bytes.as_ref(), &whole.records[0].sha256), (None, &page.beside[0].sha256));
    assert!(self::page().beside.is_empty() && self::page().html.len() < 6_000_000);
}

/// Replaces the first digit after `mark` by another one.
fn bent(html: &str, mark: &str) -> String {
    let from = html.find(mark).unwrap_or_else(|| panic!("{mark} is not on the page")) + mark.len();
    let digit = html[from..].find(|letter: char| letter.is_ascii_digit());
    let at = from + digit.unwrap_or_else(|| panic!("no digit follows {mark}"));
    let other = if html.as_bytes()[at] == b'7' { "8" } else { "7" };
    format!("{}{other}{}", &html[..at], &html[at + 1..])
}

/// Guards against a verification that skips parts that a reader sees: sentences, cells, charts, head and script.
#[test]
fn one_digit_altered_anywhere_is_found_and_its_place_named() {
    let html = &page().html;
    let made = extract(html).unwrap().made;
    let sources = [source("study", &study().0, &study().1)];
    assert!(made.is_ours());
    assert_eq!(difference(html, &made, &sources), None);
    let places = [
        ("<ol class=\"lead-findings\">", "under “Findings” (#"),
        ("<td class=\"number\">", "under “socket threads=1” (#case-0"),
        ("id=\"data-case-1\">", "in the block data-case-1"),
        ("id=\"results\">", "in the block results"),
        ("<table class=\"facts\"><tbody><tr><th scope=\"row\">System", "under “Environment” (#host"),
        ("<style>", "in the head"),
    ];
    for (mark, place) in places {
        let told = difference(&bent(html, mark), &made, &sources).unwrap();
        assert!(told.starts_with(place), "after {mark}: {told}");
    }
    let shorter = &html[..html.len() - 8];
    assert!(difference(shorter, &made, &sources).is_some());
    let record = html.find("id=\"record-0\"").unwrap();
    let altered = format!("{}{}", &html[..record], bent(&html[record..], "H4s"));
    let error = extract(&altered).unwrap_err().to_string();
    assert!(error.contains("record 1"), "{error}");
}

/// The text for new users, character for character. `LANDAU_SNAPSHOTS=write` writes the present text; review the
/// difference.
#[test]
fn the_table_and_the_findings_read_as_they_did() {
    let mut text = table::render(&table::rows(analysis()), Unit::Time, Sort::Case, Layout { width: 100, color: false });
    text.push_str("\n\n");
    for finding in findings::of(analysis()) {
        text.extend([finding.kind.name(), ": ", &finding.sentence(), "\n"]);
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/snapshots/show.txt");
    if std::env::var_os("LANDAU_SNAPSHOTS").is_some_and(|word| word == "write") {
        std::fs::write(path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    let mut lines = kept.lines().zip(text.lines()).enumerate();
    if let Some((number, (old, new))) = lines.find(|(_, (old, new))| old != new) {
        panic!("{path}, line {}:\n- {old}\n+ {new}\nLANDAU_SNAPSHOTS=write accepts it", number + 1);
    }
    assert_eq!(
        kept.lines().count(),
        text.lines().count(),
        "lines were added or lost; LANDAU_SNAPSHOTS=write accepts it"
    );
}

#[test]
fn the_instrument_is_told_only_where_it_moved() {
    let up = landau_record::schema::Direction::Up;
    let steady: (&str, _, fn(u32, u32) -> f64) = ("nop", up, |_, _| 20.0);
    let moving: (&str, _, fn(u32, u32) -> f64) = ("getppid", up, |n, _| 100.0 + 0.3 * f64::from(n));
    let sketch = |benchmark, shape| support::Sketch {
        benchmark,
        label: benchmark,
        n: 2000,
        phases: vec![shape],
        marks: vec![],
        limit: false,
    };
    let (record, _) = support::record_of(&[sketch("nop", steady), sketch("syscall", moving)], 5, &Bend::default());
    let found = findings::of(&Analysis::of(&record));
    let loud: Vec<_> = found.iter().filter(|one| one.kind < Kind::Flat).map(|one| one.text.as_str()).collect();
    assert_eq!(loud.len(), 1, "{loud:?}");
    assert!(
        loud[0].starts_with("The instrument itself changed") && loud[0].contains("syscall · getppid grows"),
        "{loud:?}"
    );
}

#[test]
fn nothing_in_a_record_becomes_markup() {
    let poison = "<script>alert(1)</script>\"'onload=x <img src=x onerror=y>&";
    let (record, bytes) = record(2, &Bend { poison, ..Bend::default() });
    let mut source = source("x", &record, &bytes);
    source.name = poison.into();
    source.file_name = format!("{poison}.ndjson");
    let second = self::source("y", &record, &bytes);
    for sources in [vec![source], vec![second]] {
        let page = Page::render(&sources, &Options { title: Some(poison.into()), ..Options::default() });
        assert!(page.html.contains("&lt;script&gt;alert(1)"), "the poison is not shown at all");
        assert!(!page.html.contains("<script>alert") && !page.html.contains("<img"));
        let ours = page.html.matches("<script").count();
        assert_eq!(ours, page.html.matches("</script>").count());
        assert!(extract(&page.html).unwrap().records[0].bytes.is_some());
    }
    for (name, svg) in svg::charts(&Analysis::of(&record)) {
        assert!(!svg.contains("<script") && !svg.contains("<img") && !name.contains(['/', '<', '"']), "{name}");
    }
}

#[test]
fn a_torn_record_makes_a_page_that_says_so() {
    let (record, bytes) = record(2, &Bend { torn: true, ..Bend::default() });
    assert!(record.torn.is_some());
    let page = Page::render(&[source("torn", &record, &bytes)], &Options::default());
    assert!(page.html.contains("It was killed while writing"));
}

#[test]
fn a_slower_record_loses_and_an_equal_one_is_not_told_apart() {
    let (slow, slow_bytes) = record(5, &Bend { factor: 1.5, seed: 2, ..Bend::default() });
    let (like, _) = record(5, &Bend { seed: 3, ..Bend::default() });
    let (slow_study, like_study) = (Analysis::of(&slow), Analysis::of(&like));
    let comparisons = Comparisons::of(&[analysis(), &slow_study, &like_study]);
    let names = ["base".to_owned(), "slow".to_owned(), "like".to_owned()];
    let rows = table::comparison_rows(&comparisons, &names);
    assert!(
        rows.iter().filter(|row| row.other == "slow").all(|row| row.winner.as_deref() == Some("base")),
        "{rows:#?}"
    );
    let told = rows.iter().filter(|row| row.other == "like" && row.winner.is_some()).count();
    assert_eq!(told, 0, "{rows:#?}");
    let detectable =
        |text: &str| text.starts_with("no difference proven at 95% (") && text.contains(" would have been detected)");
    assert!(rows.iter().any(|row| detectable(&row.text)));
    let sources = [source("base", &study().0, &study().1), source("slow", &slow, &slow_bytes)];
    let html = Page::render(&sources, &Options::default()).html;
    assert!(html.contains("id=\"matrix\"") && html.contains("<td class=\"number more-"));
    assert_eq!(extract(&html).unwrap().records.len(), 2);
    let text = table::render_comparisons(&rows, Layout { width: 120, color: false });
    assert!(rows.iter().any(|row| row.text.contains("% more than base at n = ")), "{rows:#?}");
    assert!(text.lines().all(|line| line.chars().count() <= 120));
}

/// Twenty-four curves of one benchmark, and the records of these.
const CURVES: [&str; 24] = [
    "dup", "dup a", "dup b", "dup c", "dup d", "dup e", "dup f", "dup g", "dup h", "dup i", "dup j", "dup k", "dup l",
    "dup m", "dup n", "dup o", "dup p", "dup q", "dup r", "dup s", "dup t", "dup u", "dup v", "dup w",
];
const USUAL: support::Shape = ("dup", Direction::Up, |_, _| 3000.0);
const SLOW: support::Shape = ("dup", Direction::Up, |_, _| 4500.0);

fn curves(passes: u32, seed: u64, count: usize, shape: fn(usize) -> support::Shape) -> Record {
    let one = |(i, label): (usize, &&'static str)| sketch("dup", label, 500, shape(i));
    let cases: Vec<support::Sketch> = CURVES.iter().take(count).enumerate().map(one).collect();
    support::record_of(&cases, passes, &Bend { seed, ..Bend::default() }).0
}

/// Returns the labels of the curves whose costs provably differ, and the shifts.
fn differing(base: &Record, other: &Record) -> (Vec<String>, Vec<Shift>) {
    let (base, other) = (Analysis::of(base), Analysis::of(other));
    let comparisons = Comparisons::of(&[&base, &other]);
    let found = comparisons.all.iter().filter(|one| one.winner().is_some()).map(|one| one.label.clone());
    (found.collect(), comparisons.shifts)
}

/// Guards against winners that are due to the machine: a difference in most curves of two records of one system belongs
/// to the runs, and one in a few curves belongs to these curves.
#[test]
fn a_difference_of_most_curves_is_one_of_the_runs() {
    let base = curves(5, 1, 24, |_| USUAL);
    let (found, shifts) = differing(&base, &curves(5, 2, 24, |i| if i < 4 { SLOW } else { USUAL }));
    assert!(found == CURVES[..4] && shifts.is_empty(), "{found:?} {shifts:?}");
    let moved = |i: usize| -> support::Shape {
        match i {
            0 => ("dup", Direction::Up, |_, _| 15_000.0),
            1..=14 => ("dup", Direction::Up, |_, _| 3600.0),
            15..=18 => ("dup", Direction::Up, |_, _| 2550.0),
            _ => USUAL,
        }
    };
    let (found, shifts) = differing(&base, &curves(5, 2, 24, moved));
    assert_eq!(found, ["dup"]);
    let [shift] = shifts.as_slice() else { panic!("{shifts:?}") };
    assert!(shift.curves == 24 && (shift.ratio - 1.2).abs() < 0.02, "{shift:?}");
    // The median of the differences, ln 1.2, divided by the median that chance gives.
    assert!((0.25..0.29).contains(&shift.deviation) && shift.growth_deviation.abs() < 1e-12, "{shift:?}");
    let detectable = shift.detectable.expect("what could be seen");
    let text = shift.text(&["old", "new"].map(str::to_owned));
    let expected = "From old to new the costs of 24 curves differ by more than their benchmarks usually do";
    assert!(text.starts_with(expected) && text.contains("the median ratio of the costs is 1.2"), "{text}");
    assert!((0.2..9.0).contains(&detectable) && text.contains("would have been detected in half of them"), "{text}");
    // Every report that compares the records states the shift, and states it once.
    let other = curves(5, 2, 24, moved);
    let (one, two) = (Analysis::of(&base), Analysis::of(&other));
    let compared = Compared::of(&one, &two, ["old", "new"]).render(false, Layout { width: 1000, color: false });
    assert!(compared.contains(&text) && compared.matches("would have been detected").count() == 1, "{compared}");
    let sources = [source("old", &base, b""), source("new", &other, b"")];
    assert!(Page::render(&sources, &Options::default()).html.contains(expected));
}

/// Guards against curves that vary so much that they would never show a shift, and so hide it.
#[test]
fn curves_that_vary_by_half_have_no_say_in_the_shift() {
    type Cost = fn(u32, u32) -> f64;
    let record = |seed: u64, cost: Cost, vague: Cost| {
        let precise = CURVES.map(|label| sketch("dup", label, 500, ("dup", Direction::Up, cost)));
        let vague: support::Shape = ("accept", Direction::Up, vague);
        let vague = CURVES.map(|label| sketch("connect", label.replace("dup", "connect").leak(), 500, vague));
        let cases: Vec<support::Sketch> = precise.into_iter().chain(vague).collect();
        support::record_of(&cases, 5, &Bend { seed, ..Bend::default() }).0
    };
    let base = record(1, |_, _| 3000.0, |_, _| 9000.0);
    let (_, shifts) = differing(&base, &record(2, |_, _| 3900.0, |_, _| 9000.0));
    let [shift] = shifts.as_slice() else { panic!("{shifts:?}") };
    assert!(shift.curves == 24 && (shift.ratio - 1.3).abs() < 0.02 && shift.deviation > 0.3, "{shift:?}");
    // Their growths are as precise as the others.
    let steeper = record(2, |n, _| 2800.0 + 1.2 * f64::from(n), |n, _| 8400.0 + 3.6 * f64::from(n));
    let (_, shifts) = differing(&base, &steeper);
    let [shift] = shifts.as_slice() else { panic!("{shifts:?}") };
    assert!(shift.curves == 48 && shift.deviation.abs() < 1e-12 && shift.growth_deviation > 0.1, "{shift:?}");
}

/// Guards against reporting a growth of one curve that most curves show.
#[test]
fn a_growth_of_most_curves_is_one_of_the_runs() {
    let steeper = |_| -> support::Shape { ("dup", Direction::Up, |n, _| 2800.0 + 1.2 * f64::from(n)) };
    let (base, other) = (curves(5, 1, 24, |_| USUAL), curves(5, 2, 24, steeper));
    let (_, shifts) = differing(&base, &other);
    let [shift] = shifts.as_slice() else { panic!("{shifts:?}") };
    let compared = |base: &Record| Comparisons::of(&[&Analysis::of(base), &Analysis::of(&other)]).all;
    let grown = |all: &[PhaseComparison]| all.iter().filter(|one| one.comparison.is_growth_changed(0.02)).count();
    assert_eq!(grown(&compared(&base)), 0);
    let mut another = base.clone();
    another.host.release = "6.19.0".into();
    assert_eq!(grown(&compared(&another)), 24, "without the shift all of them are reported");
    assert!(shift.growth_deviation > 0.1 && shift.text(&[]).contains(" growths of 24 curves"), "{shift:?}");
}

/// Guards against mistaking a known difference for the state of the machine.
#[test]
fn a_difference_that_the_records_name_is_no_shift() {
    let (base, slow) = (curves(5, 1, 24, |_| USUAL), curves(5, 2, 24, |_| SLOW));
    let (found, shifts) = differing(&base, &slow);
    assert!(found.is_empty() && shifts.len() == 1, "{found:?} {shifts:?}");
    let changed = |change: fn(&mut Record)| {
        let mut other = slow.clone();
        change(&mut other);
        let (found, shifts) = differing(&base, &other);
        assert!(found.len() == 24 && shifts.is_empty(), "{found:?} {shifts:?}");
    };
    changed(|other| other.host.release = "6.19.0".into());
    changed(|other| drop(other.host.sysctls.insert("net.core.somaxconn".into(), "16".into())));
    changed(|other| other.host.memory_bytes *= 2);
    changed(|other| drop(other.header.environment.insert("LD_PRELOAD".into(), "x".into())));
    // There are too few curves to show what most do.
    let (found, shifts) = differing(&curves(5, 1, 19, |_| USUAL), &curves(5, 2, 19, |_| SLOW));
    assert!(found.len() == 19 && shifts.is_empty(), "{found:?} {shifts:?}");
    // Two sides of one run, with too few rounds to be paired.
    let (mut one, mut two) = (curves(2, 1, 24, |_| USUAL), curves(2, 2, 24, |_| SLOW));
    let side = |role| Side {
        role,
        run: "run".into(),
        other: "other".into(),
        differences: vec!["LD_PRELOAD=x".into()],
        program: None,
        switch: None,
        profile: None,
    };
    assert_eq!(differing(&one, &two).1.len(), 1);
    (one.header.side, two.header.side) = (Some(side(Role::Base)), Some(side(Role::New)));
    assert!(differing(&one, &two).1.is_empty());
}

/// Guards against reporting records one after another: changes come first, then what the records share.
#[test]
fn findings_across_records_say_what_changed_by_how_much_and_whether_the_law_did() {
    let (slow, _) = record(5, &Bend { factor: 1.5, seed: 2, ..Bend::default() });
    let (like, _) = record(5, &Bend { seed: 3, ..Bend::default() });
    let (slow, like) = (Analysis::of(&slow), Analysis::of(&like));
    let across = |others: &[&Analysis<'_>], names: &[&str]| {
        let analyses: Vec<&Analysis<'_>> = [analysis()].into_iter().chain(others.iter().copied()).collect();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        findings::across(&analyses, &Comparisons::of(&analyses), &names)
    };
    let (found, leading) = across(&[&slow], &["old", "new"]);
    assert!(leading <= findings::LEADING_MAX && found[0].kind == Kind::Change, "{found:#?}");
    let changed: Vec<&str> = found.iter().filter(|one| one.kind == Kind::Change).map(|one| one.text.as_str()).collect();
    assert!(changed.iter().all(|text| text.contains("% more since new")), "{changed:#?}");
    let mmap = changed.iter().find(|text| text.starts_with("mmap")).unwrap();
    assert!(mmap.contains("The law is the same (O(log n)); a constant factor differs."), "{mmap}");
    assert!(found.iter().any(|one| one.text.contains("grows in every record")), "{found:#?}");
    // The change is between the first and the second of three records, and the third one undoes it.
    let (found, _) = across(&[&slow, &like], &["old", "new", "newer"]);
    let text = &found.iter().find(|one| one.text.starts_with("mmap")).unwrap().text;
    assert!(text.contains("since new:") && text.contains("Later, in newer:"), "{text}");
    let (found, leading) = across(&[&like], &["old", "new"]);
    assert!(leading >= 1 && found[0].text.contains("none is proven to differ by more than 10%"), "{found:#?}");
}

/// Guards against a page that opens with its details: the overview has every curve, and every case is closed.
#[test]
fn the_overview_has_every_curve_and_the_details_are_closed() {
    let html = &page().html;
    let overview = html.split_once("id=\"overview\"").unwrap().1.split_once("</section>").unwrap().0;
    let curves: usize = analysis().cases.iter().map(|case| case.phases.len()).sum();
    assert_eq!(overview.matches("<a class=\"cell ").count(), curves);
    for case in &analysis().cases {
        for phase in &case.phases {
            let name = format!("data-name=\"{}\"", findings::subject(case, phase));
            assert!(overview.contains(&name), "{name} is not in the overview");
        }
    }
    assert!(!html.contains("<details class=\"benchmark\" open"));
    assert!(
        html.find("id=\"findings\"") < html.find("id=\"overview\"")
            && html.find("id=\"overview\"") < html.find("id=\"details\"")
    );
}

/// Guards against variants that are shown side by side but never compared. Every variant has a default case before it.
#[test]
fn variants_are_compared_with_their_default_case() {
    let variants = VariantComparison::all(analysis());
    let [one] = variants.as_slice() else { panic!("{} comparisons", variants.len()) };
    assert_eq!((one.base.as_str(), one.variant.as_str()), ("fork", "fork linkage=static"));
    assert_eq!((one.winner(), one.comparison.nature), (Some("fork linkage=static"), Nature::Amount));
    assert!(one.text().starts_with("fork linkage=static costs 26"), "{}", one.text());
    assert!(one.text().contains("% less than fork at n = 588 (95% CI "), "{}", one.text());
    assert!(one.text().ends_with(", by a constant amount"), "{}", one.text());
    let rows = table::variant_rows(analysis());
    let json = serde_json::to_value(&rows).unwrap();
    assert_eq!((&json[0]["paired"], &json[0]["nature"]), (&true.into(), &"amount".into()));
    assert_eq!((&json[0]["settings"], &json[0]["difference"]), (&"linkage=static".into(), &"constant amount".into()));
    let text = table::render_variants(&rows, false, Layout { width: 100, color: false });
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("fork · fork, default settings: 113 µs, grows"), "{text}");
    let ratio = rows[0].ratio();
    let line = text.lines().find(|line| line.contains("linkage=static")).unwrap();
    assert!(ratio.starts_with("×0.7") && line.contains(&ratio) && line.ends_with("constant amount"), "{text}");
    let html = &page().html;
    let table = html.split_once("<table class=\"variants\">").unwrap().1.split_once("</table>").unwrap().0;
    for words in ["linkage=static", "constant amount", "83.2 µs", "113 µs", &ratio] {
        assert!(table.contains(words), "{words} is not in {table}");
    }
}

/// Returns the text of a part of the page, from `from` up to `to`, without its tags.
fn text_of<'h>(html: &'h str, from: &str, to: &str) -> String {
    let part = html.split_once(from).unwrap_or_else(|| panic!("{from} is not on the page")).1;
    let part = part.split_once(to).map_or(part, |(part, _)| part);
    let words = |piece: &'h str| piece.split_once('>').map_or(piece, |(_, text)| text);
    part.split('<').map(words).collect::<Vec<_>>().join(" ")
}

/// Returns the numbers of a text, as written: "1,400", "0.31".
fn numbers(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_ascii_digit() && letter != ',' && letter != '.');
    let words = words.map(|word| word.trim_matches([',', '.']).to_owned());
    words.filter(|word| word.starts_with(|letter: char| letter.is_ascii_digit())).collect()
}

/// Guards against a finding whose numbers are nowhere else on the page: a `bind` of 841 ns next to a table with 858 ns.
/// Only a rate, which follows from a cost next to it, needs no other place.
#[test]
fn every_number_of_a_finding_is_in_the_details() {
    let (slow, slow_bytes) = record(5, &Bend { factor: 1.5, seed: 2, ..Bend::default() });
    let (slower, slower_bytes) = record(5, &Bend { factor: 4.0, seed: 3, ..Bend::default() });
    let three = [
        source("old", &study().0, &study().1),
        source("new", &slow, &slow_bytes),
        source("newer", &slower, &slower_bytes),
    ];
    let across: Vec<&Analysis<'_>> = three.iter().map(|one| &one.analysis).collect();
    let names = ["old", "new", "newer"].map(str::to_owned);
    let (changed, _) = findings::across(&across, &Comparisons::of(&across), &names);
    let pages =
        [(page().html.clone(), findings::of(analysis())), (Page::render(&three, &Options::default()).html, changed)];
    let mut told = 0;
    for (html, found) in &pages {
        for one in found.iter().filter(|one| one.case.is_some() && one.kind != Kind::Skip) {
            let study = analysis().cases.iter().find(|study| Some(study.case.case) == one.case).unwrap();
            let from = format!("<details class=\"benchmark\" id=\"benchmark-{}\"", study.case.benchmark);
            let details = text_of(html, &from, "<details class=\"benchmark\"");
            let details = numbers(&format!("{details} {}", study.case.label));
            let consequence = one.consequence.split(": at most").next().unwrap();
            for number in numbers(&format!("{} {consequence} {}", one.text, one.items.join(" "))) {
                assert!(details.contains(&number), "{number} of “{}” is not in the details", one.sentence());
                told += 1;
            }
        }
    }
    assert!(told > 60, "only {told} numbers were looked for");
}

/// Guards against the picture of another curve next to a limit: `socket` of the benchmark `bind`.
#[test]
fn the_picture_of_a_limit_is_that_of_the_call_that_fails() {
    let mut cases = support::sketches();
    let limited = cases.last_mut().unwrap();
    limited.phases.insert(0, ("open", Direction::Up, |_, _| 3000.0));
    let (record, _) = support::record_of(&cases, 5, &Bend::default());
    let found = findings::of(&Analysis::of(&record));
    let limit = found.iter().find(|one| one.kind == Kind::Limit).unwrap();
    assert_eq!(limit.phase.as_deref(), Some("mmap"));
}

/// Guards against a ratio that contradicts the costs next to it.
#[test]
fn a_ratio_is_that_of_the_costs_beside_it() {
    let mut cases = support::sketches();
    // The difference is a constant amount, so the ratio varies with n.
    cases[2].phases[0].2 = |n, _| 30_000.0 + 90.0 * f64::from(n);
    let (slow, slow_bytes) = support::record_of(&cases, 5, &Bend { factor: 1.5, seed: 2, ..Bend::default() });
    let sources = [source("old", &study().0, &study().1), source("new", &slow, &slow_bytes)];
    let comparisons = Comparisons::of(&[&sources[0].analysis, &sources[1].analysis]);
    let rows = [0, 1].map(|index| table::rows(&sources[index].analysis));
    let compared = table::comparison_rows(&comparisons, &["old".to_owned(), "new".to_owned()]);
    let mut seen = 0;
    for one in &compared {
        let cost = |rows: &[table::Row]| {
            let row = rows.iter().find(|row| row.case == one.case && row.phase == one.phase).unwrap();
            row.large.unwrap()
        };
        let Some(shown) = one.shown else { continue };
        let (old, new) = (cost(&rows[0]), cost(&rows[1]));
        match shown.n {
            Some(n) => {
                assert!((n / new.n - 1.0).abs() < 0.02);
                assert!((shown.ratio.value / (new.cost.value / old.cost.value) - 1.0).abs() < 0.01, "{one:?}");
                seen += 1;
            }
            // The cost beyond a cliff is not compared.
            None => assert_eq!((one.case.as_str(), one.phase.as_str()), ("bind", "bind")),
        }
    }
    assert!(seen >= 6, "{compared:#?}");
}

/// Guards against wrapped lines: four records with long names, in 100 and in 80 columns, each curve once.
#[test]
fn four_records_fit_the_terminal() {
    let rows = vec![table::rows(analysis()); 4];
    let names = ["landau-2026-11-22T15-10-00-before", "landau-2026-11-22T15-20-00-after", "c", "d"].map(str::to_owned);
    for width in [80, 100] {
        let text = table::render_records(&rows, &rows[0], &[], &names, Layout { width, color: false });
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        let curves = text.lines().filter(|line| line.contains("linkage=static · fork")).count();
        assert_eq!(curves, 1, "{text}");
        assert!(text.contains("Limits: mmap: ENOMEM at 2,501 (landau-"), "{text}");
    }
    let narrow = table::render_records(&rows, &rows[0], &[], &names, Layout { width: 60, color: false });
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    assert!(narrow.lines().filter(|line| line.contains("fork")).count() >= 4, "{narrow}");
}

/// Guards against reporting cases as missing from the base because `--only` does not show them.
#[test]
fn rows_that_are_not_shown_are_not_missing() {
    let rows = vec![table::rows(analysis()); 2];
    let names = ["old", "new"].map(str::to_owned);
    let text = |only| {
        let shown = table::arranged(rows[0].clone(), &[only], Sort::Case);
        table::render_records(&rows, &shown, &[], &names, Layout { width: 100, color: false })
    };
    let growing = text(Only::Growing);
    assert_eq!(growing.lines().filter(|line| line.contains(" · ")).count(), 3, "{growing}");
    assert!(!growing.contains("Not in old"), "{growing}");
    // The limits are those of the whole records.
    let none = text(Only::Unresolved);
    assert!(!none.contains("Not in old") && none.contains("Limits: mmap: ENOMEM at 2,501 (old, new)."), "{none}");
}

#[test]
fn every_setting_has_its_meaning() {
    let html = &page().html;
    let table = text_of(html, "<details class=\"settings\">", "</details>");
    for words in ["family", "v4", "IPv4 or IPv6"] {
        assert!(table.contains(words), "{words} is not in {table}");
    }
}

fn sketch(benchmark: &'static str, label: &'static str, n: u32, phase: support::Shape) -> support::Sketch {
    support::Sketch { benchmark, label, n, phases: vec![phase], marks: vec![], limit: false }
}

/// Guards against reporting a curve with a cliff as O(1), a small change or unresolved, which is its outcome before the
/// cliff.
#[test]
fn a_curve_with_a_cliff_is_not_gathered_by_its_outcome_before_it() {
    let up = landau_record::schema::Direction::Up;
    let flat: support::Shape = ("flat", up, |n, _| if n >= 1400 { 1.75e6 } else { 1000.0 });
    let small: support::Shape = ("small", up, |n, _| if n >= 1400 { 1.75e6 } else { 1000.0 + 0.075 * f64::from(n) });
    let unclear: support::Shape = ("unclear", up, |n, pass| {
        let slope = [0.4, -0.3, 0.3, -0.4, 0.1][pass as usize % 5];
        if n >= 1400 { 1.75e6 } else { 1000.0 + slope * f64::from(n) }
    });
    let cases = [
        sketch("open", "open", 1800, flat),
        sketch("socket", "socket", 1800, small),
        sketch("dup", "dup", 1800, unclear),
    ];
    let (record, _) = support::record_of(&cases, 5, &Bend::default());
    let analysis = Analysis::of(&record);
    let judged = analysis.cases.iter().map(|case| &case.phases[0].verdict.all);
    let before: Vec<Class> = judged.clone().map(|judged| judged.outcome.class()).collect();
    assert_eq!(before, [Class::Flat, Class::Small, Class::Unresolved]);
    assert!(judged.clone().all(|judged| judged.class() == Class::Limit));
    let found = findings::of(&analysis);
    assert_eq!(found.iter().filter(|one| one.kind == Kind::Cliff).count(), 3, "{found:#?}");
    assert!(!found.iter().any(|one| one.kind.is_gathered()), "{found:#?}");
}

/// Guards against a crash in a later record that links to another benchmark of the base.
#[test]
fn an_alarm_of_a_later_record_leads_to_its_case_in_the_base() {
    let flat: support::Shape = ("call", Direction::Up, |_, _| 3000.0);
    let record_of = |names: &[&'static str]| {
        let cases: Vec<support::Sketch> = names.iter().map(|name| sketch(name, name, 500, flat)).collect();
        support::record_of(&cases, 2, &Bend::default())
    };
    let (base, base_bytes) = record_of(&["open", "bind"]);
    let (mut other, bytes) = record_of(&["bind", "open", "mmap"]);
    // The crashes are in the first passes of bind and mmap, cases 0 and 2.
    other.crashes = vec![counted::stopped(0), counted::stopped(2)];
    let sources = [source("old", &base, &base_bytes), source("new", &other, &bytes)];
    let analyses: Vec<&Analysis<'_>> = sources.iter().map(|one| &one.analysis).collect();
    let names = ["old", "new"].map(str::to_owned);
    let (found, _) = findings::across(&analyses, &Comparisons::of(&analyses), &names);
    let crashes = found.iter().filter(|one| one.kind == Kind::Crash);
    let crashes: Vec<(bool, Option<u32>)> =
        crashes.map(|one| (one.text.starts_with("new: bind: "), one.case)).collect();
    assert_eq!(crashes, [(true, Some(1)), (false, None)], "{found:#?}");
    let html = Page::render(&sources, &Options::default()).html;
    let lead = html.split_once("<ol class=\"lead-findings\">").unwrap().1.split_once("</ol>").unwrap().0;
    assert!(lead.contains("href=\"#case-1\">Details of bind<") && !lead.contains("Details of open"), "{lead}");
}

/// Guards against stating the memory of the first record for all.
#[test]
fn the_head_states_the_memory_of_each_record_where_it_differs() {
    let (old, old_bytes) = record(2, &Bend::default());
    let lead = |memory_bytes: u64| {
        let (mut new, bytes) = record(2, &Bend { seed: 2, ..Bend::default() });
        new.host.memory_bytes = memory_bytes;
        let sources = [source("old", &old, &old_bytes), source("new", &new, &bytes)];
        let html = Page::render(&sources, &Options::default()).html;
        text_of(&html, "<p class=\"lead\">", "</p>")
    };
    let unlike = lead(16 << 30);
    assert!(unlike.contains("8 GiB of memory") && unlike.contains("16 GiB of memory"), "{unlike}");
    // The other kernel reserves 50 MiB more.
    let alike = lead((8 << 30) - (50 << 20));
    assert_eq!(alike.matches(" of memory").count(), 1, "{alike}");
    assert!(alike.contains("8 GiB of memory"), "{alike}");
}

/// Guards against "1 findings" and "Of 1 comparisons".
#[test]
fn a_single_finding_and_a_single_comparison_are_singular() {
    let flat: support::Shape = ("open", Direction::Up, |_, _| 3000.0);
    let record_of = |seed| {
        let cases = [sketch("open", "open", 2000, flat)];
        let (mut record, bytes) = support::record_of(&cases, 5, &Bend { seed, ..Bend::default() });
        record.skips.clear();
        record.cuts.clear();
        (record, bytes)
    };
    let (old, new) = (record_of(1), record_of(2));
    let sources = [source("old", &old.0, &old.1), source("new", &new.0, &new.1)];
    let analyses: Vec<&Analysis<'_>> = sources.iter().map(|one| &one.analysis).collect();
    let (found, _) = findings::across(&analyses, &Comparisons::of(&analyses), &["old", "new"].map(str::to_owned));
    let text = &found[0].text;
    assert!(text.starts_with("Of 1 compared curve, none is proven to differ by more than 10%"), "{text}");
    assert!(text.ends_with(" would have been detected."), "{text}");
    let html = Page::render(&sources, &Options::default()).html;
    assert!(html.contains("<summary>1 finding of new alone</summary>"), "{:#?}", findings::of(analyses[1]));
}

/// Guards against leaving out the timelines of all records but the first.
#[test]
fn the_timelines_of_all_records_are_in_one_drawing() {
    let up = landau_record::schema::Direction::Up;
    let download = |seed| {
        let shape: support::Shape = ("mebibyte", up, |n, _| if n > 30 { 4e6 } else { 2e6 });
        support::record_of(&[sketch("download", "download", 64, shape)], 3, &Bend { seed, ..Bend::default() })
    };
    let (a, b) = (download(1), download(2));
    let html = Page::render(&[source("old", &a.0, &a.1), source("new", &b.0, &b.1)], &Options::default()).html;
    let drawing = html.split_once("<svg class=\"drawing\"").unwrap().1.split_once("</svg>").unwrap().0;
    assert_eq!(drawing.matches("<polyline class=\"tone-0\"").count(), 3, "{drawing}");
    assert_eq!(drawing.matches("<polyline class=\"tone-1\"").count(), 3, "{drawing}");
    assert!(html.contains("new, pass 3, MB/s"), "the table lacks a pass of the second record");
    let single = Page::render(&[source("old", &a.0, &a.1)], &Options::default()).html;
    assert!(single.contains("<th scope=\"col\">pass 3, MB/s"));
}

/// Guards against hiding that there are two costs: a curve of medians shows one of them.
#[test]
fn two_costs_have_a_histogram() {
    let up = landau_record::schema::Direction::Up;
    let two: support::Shape =
        ("open", up, |n, _| if n.wrapping_mul(2_654_435_761) >> 31 == 0 { 3000.0 } else { 9000.0 });
    let (record, bytes) = support::record_of(&[sketch("open", "open", 4000, two)], 5, &Bend::default());
    let html = Page::render(&[source("two", &record, &bytes)], &Options::default()).html;
    let drawing = html.split_once("picture histogram").unwrap().1.split_once("</svg>").unwrap().0;
    assert!(drawing.matches("<rect").count() >= 4 && drawing.contains("µs"), "{drawing}");
    assert!(!page().html.contains("picture histogram"), "one cost needs no histogram");
}

/// Guards against a finding about a variant that does not state what the setting changes.
#[test]
fn a_finding_about_a_variant_is_told_beside_the_default_case() {
    let up = landau_record::schema::Direction::Up;
    let grows: support::Shape = ("socket", up, |n, _| 2600.0 + 2.0 * f64::from(n));
    let cases = [
        sketch("socket", "socket", 3000, ("socket", up, |_, _| 2600.0)),
        sketch("socket", "socket threads=1", 3000, grows),
    ];
    let (record, _) = support::record_of(&cases, 5, &Bend::default());
    let found = findings::of(&Analysis::of(&record));
    let growth = found.iter().find(|one| one.kind == Kind::Growth).unwrap();
    assert!(growth.text.starts_with("socket with a second thread grows ×"), "{}", growth.text);
    assert!(growth.text.ends_with(" With default settings it is flat."), "{}", growth.text);
}

#[test]
fn charts_are_well_formed_and_described() {
    let charts = svg::charts(analysis());
    let phases: usize = analysis().cases.iter().map(|case| case.phases.len()).sum();
    assert_eq!(charts.len(), phases);
    for (name, svg) in &charts {
        assert!(svg.contains("<title>") && svg.contains("<desc>"), "{name} is not described");
        well_formed(name, svg);
    }
}

/// Checks that every element that opens is closed, in order, and that attributes are quoted.
fn well_formed(name: &str, xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, next) = after.split_once('>').unwrap_or_else(|| panic!("{name}: an open tag without its end"));
        assert!(tag.matches('"').count().is_multiple_of(2), "{name}: {tag}");
        let word = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or("");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(word), "{name}: {tag} closes what is not open");
        } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
            open.push(word);
        }
        rest = next;
    }
    assert!(open.is_empty(), "{name}: {open:?} never close");
}

/// Guards against wrapped lines: one for each curve, in 100 columns, the outcome first.
#[test]
fn the_table_has_a_line_for_each_curve_in_100_columns() {
    let rows = table::rows(analysis());
    assert_eq!(rows.len(), 8);
    let plain = |sort, width| table::render(&rows, Unit::Time, sort, Layout { width, color: false });
    for (sort, width) in [(Sort::Case, 100), (Sort::Name, 100), (Sort::Case, 80)] {
        let text = plain(sort, width);
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        let body = text.split_once("\n\n").unwrap().0;
        let heads = if sort == Sort::Case { 5 } else { 0 };
        assert_eq!(body.lines().count(), 2 + rows.len() + heads, "{text}");
        assert!(!text.contains('\u{1b}'));
    }
    let text = plain(Sort::Case, 100);
    for words in ["  cliff ×1,717 at 1,400 ", "  flat; outliers to 3.2 ms ", "  grows, O(n) ", "limit: ENOMEM at 2,501"]
    {
        assert!(text.contains(words), "{words} is missing from\n{text}");
    }
    let color = table::render(&rows, Unit::Time, Sort::Case, Layout { width: 100, color: true });
    assert!(color.contains('\u{1b}'));
    let json = serde_json::to_value(&rows).unwrap();
    assert_eq!((&json[0]["phase"], &json[0]["class"]), (&"socket".into(), &"flat".into()));
    assert!(json[0]["small"]["cost"]["value"].is_number());
}

#[test]
fn rows_are_sorted_and_selected() {
    let names = |only: &[Only], sort| {
        let rows = table::arranged(table::rows(analysis()), only, sort);
        rows.iter().map(|row| format!("{} {}", row.case, row.phase)).collect::<Vec<_>>()
    };
    assert_eq!(names(&[], Sort::Growth)[..2], ["bind bind", "fork linkage=static fork"]);
    assert_eq!(names(&[], Sort::Cost)[..2], ["bind bind", "fork fork"]);
    assert_eq!(names(&[], Sort::Outcome)[0], "bind bind");
    assert_eq!(names(&[], Sort::Name)[0], "bind bind");
    assert_eq!(names(&[Only::Growing], Sort::Case), ["fork fork", "fork linkage=static fork", "mmap mmap"]);
    assert_eq!(names(&[Only::Limits], Sort::Case), ["bind bind", "mmap mmap"]);
    assert_eq!(names(&[Only::Limits, Only::Growing], Sort::Case).len(), 4);
    assert!(names(&[Only::Unresolved], Sort::Case).is_empty());
}
