//! The order of passes, planned and adaptive, with a driver that starts no workers and simulates time.

use super::{Execution, Means, Track};
use crate::adaptive::{Assessment, Assessor, OpenCurve};
use crate::driver::{Bounds, Driver};
use crate::fake::REGISTRY;
use crate::{Adaptive, Error, Facts, Host, Observer, Plan, Planned, Request, Silent, Study, run};
use landau_record::schema::{End, EndOutcome, Line, Outcome, PassEnd, PassStart};
use landau_record::{Journal, Record, Writer};
use landau_sys::clock::Clock;
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A pass of case k takes k + 1 seconds; the pass with number `stop` is interrupted.
struct Simulated<'a> {
    now: Duration,
    interrupted: &'a Cell<bool>,
    stop: Option<u32>,
    outcome: Outcome,
    /// The passes of all sides as they began.
    log: &'a RefCell<Vec<Begun>>,
    side: usize,
}

/// A pass that began: side, round and case.
type Begun = (usize, u32, u32);

impl Driver for Simulated<'_> {
    fn elapsed(&self) -> Duration {
        self.now
    }

    fn sleep(&mut self, duration: Duration) {
        self.now += duration;
    }

    fn unsettled(&self, _: &Planned) -> Option<String> {
        None
    }

    fn pass(
        &mut self,
        planned: &Planned,
        start: &PassStart,
        _: &Bounds,
        writer: &mut dyn Journal,
        _: &mut dyn Observer,
    ) -> Result<PassEnd, Error> {
        let is_stopped = self.stop == Some(start.pass);
        self.log.borrow_mut().push((self.side, start.round, start.case));
        self.interrupted.set(is_stopped);
        let elapsed = Duration::from_secs(u64::from(planned.case.case) + 1);
        self.now += elapsed;
        let end = PassEnd {
            pass: start.pass,
            outcome: if is_stopped { Outcome::Interrupted } else { self.outcome },
            steps: planned.case.n,
            elapsed_ms: elapsed.as_millis() as u64,
            limit: None,
            error: None,
            facts: Facts::new(),
        };
        writer.append(&Line::PassEnd(end.clone()))?;
        Ok(end)
    }
}

/// Reports a curve as open if the function returns, for its case and the round, the number of passes that it needs.
struct Judge<F>(F);

impl<F: Fn(u32, u32) -> Option<u32>> Assessor for Judge<F> {
    fn assess(&mut self, round: u32) -> Result<Assessment, Error> {
        let open = |case| {
            let more_passes = Some((self.0)(case, round)?);
            Some(OpenCurve { case, phase: "make".to_owned(), more_passes, is_resolved: false })
        };
        let open: Vec<OpenCurve> = (0..4).filter_map(open).collect();
        Ok(Assessment { curve_count: 4, unresolved_count: open.len(), open })
    }
}

/// Four cases, two planned passes each.
fn plan(adaptive: Adaptive, time_limit_s: Option<u64>) -> Plan {
    let request = Request {
        names: Vec::new(),
        cases: Vec::new(),
        study: Study::Quick,
        pass_count: Some(2),
        adaptive,
        settings: Vec::new(),
        varied: Vec::new(),
        seed: 3,
        time_limit_s,
    };
    let mut plan = Plan::resolve(REGISTRY, &request, Host::default(), Clock::Gettime, None).unwrap();
    let first = plan.cases[0].clone();
    plan.cases = (0..4)
        .map(|number| {
            let mut planned = first.clone();
            planned.case.case = number;
            planned.case.label = format!("case {number}");
            planned
        })
        .collect();
    plan
}

/// Makes a run whose curves need the passes that `need` returns, and records it in the file `path`. A record that
/// exists there is continued.
fn measure(
    path: &Path,
    plan: &Plan,
    stop: Option<u32>,
    outcome: Outcome,
    need: impl Fn(u32, u32) -> Option<u32>,
) -> End {
    let held = path.exists().then(|| Record::read(path).unwrap());
    let mut writer = match &held {
        Some(record) => resume(path, record),
        None => Writer::create(path).unwrap(),
    };
    if held.is_none() {
        run::write_plan(plan, &[], None, &mut writer).unwrap();
    }
    let cell = Cell::new(false);
    let log = RefCell::default();
    let mut driver = Simulated { now: Duration::ZERO, interrupted: &cell, stop, outcome, log: &log, side: 0 };
    let interrupted = || cell.get();
    let mut assessor = Judge(need);
    let means = Means { observer: &mut Silent, interrupted: &interrupted, switch: None };
    let track = Track { plan, writer: &mut writer, driver: &mut driver, assessor: Some(&mut assessor), next_pass: 0 };
    let mut execution = Execution::new(vec![track], means);
    execution.skip_finished(&held.iter().collect::<Vec<_>>());
    execution.run().unwrap()
}

/// Returns the complete passes of a record as (round, case, whether adaptive), in order.
fn passes(path: &Path) -> Vec<(u32, u32, bool)> {
    let record = Record::read(path).unwrap();
    assert_eq!((&record.fault, &record.torn), (&None, &None));
    let complete = record.passes.iter().filter(|pass| pass.is_complete());
    complete.map(|pass| (pass.start.round, pass.start.case, pass.start.is_adaptive())).collect()
}

fn cases_of(passes: &[(u32, u32, bool)], round: u32) -> Vec<u32> {
    passes.iter().filter(|pass| pass.0 == round).map(|pass| pass.1).collect()
}

fn notes(path: &Path) -> Vec<String> {
    Record::read(path).unwrap().notes
}

/// Case 0 needs passes until round 3, case 1 until round 4.
fn two_cases(case: u32, round: u32) -> Option<u32> {
    match case {
        0 if round < 4 => Some(4 - round),
        1 if round < 5 => Some(5 - round),
        _ => None,
    }
}

#[test]
fn adaptive_rounds_hold_only_the_cases_that_need_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let plan = plan(Adaptive::Bounded, None);
    assert_eq!(measure(&path, &plan, None, Outcome::Done, two_cases).outcome, EndOutcome::Complete);
    let made = passes(&path);
    assert!(made.iter().all(|(round, _, is_adaptive)| *is_adaptive == (*round >= 2)), "{made:?}");
    let mut rounds: Vec<Vec<u32>> = (0..5).map(|round| cases_of(&made, round)).collect();
    for cases in &mut rounds {
        cases.sort_unstable();
    }
    assert_eq!(rounds, [vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![0, 1], vec![0, 1], vec![1]]);
    assert_eq!(notes(&path), ["5 adaptive passes; 0 of 4 curves are not resolved"]);
    let record = Record::read(&path).unwrap();
    assert_eq!(record.passes.last().unwrap().start.adaptive_for, ["make"]);
}

#[test]
fn without_adaptive_passes_or_an_open_curve_only_planned_ones_are_made() {
    for (adaptive, needed) in [(Adaptive::Off, Some(1)), (Adaptive::UntilResolved, None)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        measure(&path, &plan(adaptive, None), None, Outcome::Done, |_, _| needed);
        assert_eq!((passes(&path).len(), notes(&path).len()), (8, 0), "{adaptive:?}");
    }
}

/// Wherever a run is interrupted, in a planned or in an adaptive round, the resumed run makes the same passes in the
/// same order.
#[test]
fn a_resumed_run_makes_the_passes_of_an_uninterrupted_one() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let plan = plan(Adaptive::Bounded, None);
    measure(&whole, &plan, None, Outcome::Done, two_cases);
    let expected = passes(&whole);
    for stop in 0..expected.len() as u32 {
        let path = folder.path().join(format!("stopped-{stop}"));
        let end = measure(&path, &plan, Some(stop), Outcome::Done, two_cases);
        assert_eq!(end.outcome, EndOutcome::Interrupted);
        assert_eq!(passes(&path), expected[..stop as usize]);
        let end = measure(&path, &plan, None, Outcome::Done, two_cases);
        assert_eq!((end.outcome, passes(&path)), (EndOutcome::Complete, expected.clone()), "interrupted in {stop}");
    }
}

/// A complete record is continued if the mode of adaptive passes allows more passes.
#[test]
fn a_complete_run_is_continued_until_it_is_resolved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    measure(&path, &plan(Adaptive::Off, None), None, Outcome::Done, two_cases);
    assert_eq!(passes(&path).len(), 8);
    measure(&path, &plan(Adaptive::UntilResolved, None), None, Outcome::Done, two_cases);
    let whole = folder.path().join("whole");
    measure(&whole, &plan(Adaptive::UntilResolved, None), None, Outcome::Done, two_cases);
    assert_eq!(passes(&path), passes(&whole));
}

#[test]
fn the_cap_ends_the_passes_of_a_curve_that_does_not_settle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    measure(&path, &plan(Adaptive::UntilResolved, None), None, Outcome::Done, |case, _| (case == 2).then_some(1));
    // Two planned passes and 98 adaptive ones.
    assert_eq!(passes(&path).iter().filter(|pass| pass.1 == 2).count(), 100);
    let note = "98 adaptive passes; 1 of 4 curves is not resolved: 1 would need more than 100 passes";
    assert_eq!(notes(&path), [note]);
}

/// The planned passes take 20 s, and an adaptive pass of case 3 takes 4 s, so a limit of 31 s has room for two. All
/// planned passes were made, so the run is complete.
#[test]
fn the_time_limit_ends_adaptive_passes_and_the_run_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let limited = plan(Adaptive::UntilResolved, Some(31));
    let end = measure(&path, &limited, None, Outcome::Done, |case, _| (case == 3).then_some(9));
    assert_eq!((end.outcome, end.elapsed_ms), (EndOutcome::Complete, 28_000));
    let record = Record::read(&path).unwrap();
    assert!(record.cuts.is_empty(), "{:?}", record.cuts);
    assert_eq!(record.notes, ["2 adaptive passes; 1 of 4 curves is not resolved: 1 had no time left"]);
}

/// The planned passes take 20 s. In the 7 s that are left, a pass of each of two cases is expected to fit, but the
/// second would end at the limit. Guards against a note that counts the second pass.
#[test]
fn an_adaptive_pass_without_time_is_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let limited = plan(Adaptive::UntilResolved, Some(27));
    measure(&path, &limited, None, Outcome::Done, |case, round| (case >= 2 && round == 2).then_some(1));
    assert_eq!(passes(&path).iter().filter(|pass| pass.2).count(), 1);
    assert_eq!(notes(&path), ["1 adaptive pass; 0 of 4 curves are not resolved"]);
}

/// Adaptive passes take at most three quarters of the time of the planned ones, and adaptive passes before an
/// interruption count.
#[test]
fn bounded_adaptive_passes_take_a_share_of_the_planned_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let mut long = plan(Adaptive::Bounded, None);
    long.pass_count = 4;
    let needs = |case: u32, _: u32| (case == 3).then_some(1);
    measure(&path, &long, Some(19), Outcome::Done, needs);
    measure(&path, &long, None, Outcome::Done, needs);
    let adaptive = passes(&path).iter().filter(|pass| pass.2).count();
    assert_eq!(adaptive, 7, "7 passes take 28 s, and three quarters of the planned time are 30 s");
}

/// Failed passes yield no result, so a case that fails must not be repeated forever.
#[test]
fn a_failing_case_gets_no_adaptive_pass() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let end = measure(&path, &plan(Adaptive::Bounded, None), None, Outcome::Failed, |_, _| Some(1));
    assert_eq!(end.outcome, EndOutcome::Failed);
    assert_eq!(Record::read(&path).unwrap().passes.len(), 8);
}

/// Continues a record. Retries while the record is locked: a child that another test starts holds a copy of the last
/// writer's lock until it executes its program.
fn resume(path: &Path, record: &Record) -> Writer {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match Writer::resume(path, record) {
            Err(landau_record::Error::Io { source, .. })
                if source.kind() == ErrorKind::WouldBlock && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other.unwrap(),
        }
    }
}

/// Returns the paths of the records of both sides of a run in a directory.
fn records(folder: &Path) -> [PathBuf; 2] {
    ["base", "new"].map(|name| folder.join(name))
}

/// Makes a run of two sides, whose new side is interrupted in its pass number `stop`. Records in the directory are
/// continued. Returns the passes in the order in which they began.
fn take_turns(folder: &Path, plan: &Plan, stop: Option<u32>, need: fn(u32, u32) -> Option<u32>) -> (End, Vec<Begun>) {
    let paths = records(folder);
    let held: Vec<Record> = paths.iter().filter(|path| path.exists()).map(|path| Record::read(path).unwrap()).collect();
    let mut writers: Vec<Writer> = match held.as_slice() {
        [] => paths.iter().map(|path| Writer::create(path).unwrap()).collect(),
        held => paths.iter().zip(held).map(|(path, record)| resume(path, record)).collect(),
    };
    for writer in writers.iter_mut().filter(|_| held.is_empty()) {
        run::write_plan(plan, &[], None, writer).unwrap();
    }
    let (cell, log) = (Cell::new(false), RefCell::default());
    let driver = |side: usize| Simulated {
        now: Duration::ZERO,
        interrupted: &cell,
        stop: stop.filter(|_| side == 1),
        outcome: Outcome::Done,
        log: &log,
        side,
    };
    let mut drivers = [driver(0), driver(1)];
    let nothing: fn(u32, u32) -> Option<u32> = |_, _| None;
    let mut assessors = [Judge(need), Judge(nothing)];
    let mut tracks = Vec::new();
    let [of_base, of_new] = &mut assessors;
    let assessors: [&mut dyn Assessor; 2] = [of_base, of_new];
    for ((writer, driver), assessor) in writers.iter_mut().zip(&mut drivers).zip(assessors) {
        tracks.push(Track { plan, writer, driver, assessor: Some(assessor), next_pass: 0 });
    }
    let interrupted = || cell.get();
    let means = Means { observer: &mut Silent, interrupted: &interrupted, switch: None };
    let mut execution = Execution::new(tracks, means);
    execution.skip_finished(&held.iter().collect::<Vec<_>>());
    let end = execution.run().unwrap();
    let begun = log.borrow().clone();
    (end, begun)
}

/// Guards against drift that affects one side more than the other, and against a side that always comes second.
#[test]
fn the_sides_take_turns_and_begin_alternately() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(Adaptive::Bounded, None);
    plan.pass_count = 6;
    let (end, begun) = take_turns(folder.path(), &plan, None, two_cases);
    assert_eq!(end.outcome, EndOutcome::Complete);
    let pairs: Vec<&[Begun]> = begun.chunks(2).collect();
    for pair in &pairs {
        assert_eq!((pair[0].1, pair[0].2), (pair[1].1, pair[1].2), "{begun:?}");
        assert_ne!(pair[0].0, pair[1].0, "{begun:?}");
    }
    let first = |round: u32, case: u32| pairs.iter().find(|pair| (pair[0].1, pair[0].2) == (round, case)).unwrap()[0].0;
    for (round, case) in [0, 2, 4].iter().flat_map(|round| (0..4).map(move |case| (*round, case))) {
        assert_ne!(first(round, case), first(round + 1, case), "case {case} in rounds {round} and {}", round + 1);
    }
    // The seed, not the number of the round, determines which side begins.
    let begins: Vec<usize> = (0..4).map(|case| first(0, case)).chain((0..4).map(|case| first(2, case))).collect();
    assert!(begins.contains(&0) && begins.contains(&1), "{begins:?}");
    let [base, new] = records(folder.path()).map(|path| passes(&path));
    assert_eq!(base, new);
}

/// A case that is not resolved on one side gets passes on both; otherwise they could not be paired.
#[test]
fn an_adaptive_pass_is_made_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    take_turns(folder.path(), &plan(Adaptive::Bounded, None), None, two_cases);
    for path in records(folder.path()) {
        let mut adaptive: Vec<(u32, u32)> =
            passes(&path).into_iter().filter(|pass| pass.2).map(|pass| (pass.0, pass.1)).collect();
        adaptive.sort_unstable();
        assert_eq!(adaptive, [(2, 0), (2, 1), (3, 0), (3, 1), (4, 1)], "{}", path.display());
        assert_eq!(notes(&path), ["10 adaptive passes; 0 of 8 curves are not resolved"]);
    }
}

/// Wherever a run is interrupted, both records are complete after it was resumed. A pass whose counterpart was
/// interrupted is made again together with it.
#[test]
fn resumed_sides_have_the_passes_of_an_uninterrupted_run_in_pairs() {
    let plan = plan(Adaptive::Bounded, None);
    let whole = tempfile::tempdir().unwrap();
    take_turns(whole.path(), &plan, None, two_cases);
    let counted = |path: &Path| {
        let record = Record::read(path).unwrap();
        let rounds = |case| record.passes_of(case).iter().map(|pass| (case, pass.start.round)).collect::<Vec<_>>();
        assert!(record.passes.iter().filter(|pass| !pass.is_complete()).count() <= 1);
        (0..4).flat_map(rounds).collect::<Vec<(u32, u32)>>()
    };
    let expected = counted(&records(whole.path())[0]);
    for stop in 0..expected.len() as u32 {
        let folder = tempfile::tempdir().unwrap();
        let (end, _) = take_turns(folder.path(), &plan, Some(stop), two_cases);
        assert_eq!(end.outcome, EndOutcome::Interrupted);
        let (end, begun) = take_turns(folder.path(), &plan, None, two_cases);
        assert_eq!(end.outcome, EndOutcome::Complete);
        assert!(begun.chunks(2).all(|pair| (pair[0].1, pair[0].2) == (pair[1].1, pair[1].2)), "{begun:?}");
        for path in records(folder.path()) {
            assert_eq!(counted(&path), expected, "interrupted in {stop}: {}", path.display());
        }
    }
}

/// The time limit leaves no pass without its counterpart.
#[test]
fn the_time_limit_counts_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    // The driver simulates the time of the first side only: the four cases take 10 s in each round, and both sides
    // twice that.
    let limited = plan(Adaptive::Off, Some(14));
    let (end, _) = take_turns(folder.path(), &limited, None, |_, _| None);
    assert_eq!(end.outcome, EndOutcome::Cut);
    let [base, new] = records(folder.path()).map(|path| passes(&path));
    assert_eq!(base, new);
    assert!(base.len() > 4 && base.len() < 8, "{base:?}");
}
