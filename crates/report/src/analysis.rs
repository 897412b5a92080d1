//! A record with a verdict on every curve: the source of everything that Landau shows.
//!
//! Samples become curves here, for the results of a run, `landau show`, the page and `landau verify` alike.

use crate::between_runs;
use crate::quantity::counts;
use crate::timeline::TimelineStudy;
use landau_record::schema::{AnnotationKind, Case, Crash, Direction, Fact, Limit, Outcome, Phase, PhaseResult, Window};
use landau_record::{Pass, Record};
use landau_stats::{Annotation, Curve, METHOD, Options, Unit, Verdict, judge};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A record with its verdicts.
#[derive(Debug)]
pub struct Analysis<'r> {
    /// The record.
    pub record: &'r Record,
    /// Every case with a pass, in the record's order, except those that repeat an earlier study by its method: see
    /// [`crate::then`].
    pub cases: Vec<CaseStudy<'r>>,
}

/// A case with its verdicts.
#[derive(Debug)]
pub struct CaseStudy<'r> {
    /// The case.
    pub case: &'r Case,
    /// Its phases, in the case's order; empty if it is a timeline.
    pub phases: Vec<PhaseStudy<'r>>,
    /// Its rates, if it is a timeline.
    pub timeline: Option<TimelineStudy<'r>>,
    /// The limit that ended passes, if any.
    pub limit: Option<LimitMet<'r>>,
    /// Crashes of the kernel during the case.
    pub crashes: Vec<&'r Crash>,
    /// The facts by name: the value of each pass that has one, in the order of the passes.
    pub facts: BTreeMap<&'r str, Vec<&'r Fact>>,
    /// A sentence for each failed pass.
    pub failures: Vec<String>,
}

/// A phase of a case with its curve and verdict.
#[derive(Debug)]
pub struct PhaseStudy<'r> {
    /// The phase.
    pub phase: &'r Phase,
    /// The calls of all passes that did not fail.
    pub curve: Curve,
    /// The canary calls of the same passes; its passes are empty if there was none.
    pub canary: Curve,
    /// The round of each pass of the curve.
    pub rounds: Vec<u32>,
    /// The verdict.
    pub verdict: Verdict,
}

/// A limit at which passes ended.
#[derive(Debug)]
pub struct LimitMet<'r> {
    /// The limit as recorded by the first pass that reached it.
    pub limit: &'r Limit,
    /// The number of passes that ended at it.
    pub passes: usize,
    /// Smallest and largest n at which it was reached.
    pub range: (u64, u64),
}

impl LimitMet<'_> {
    /// Returns the n at which it was reached: "2,003", or "886–2,003" if passes differ.
    pub fn at(&self) -> String {
        counts(self.range.0 as f64, self.range.1 as f64)
    }
}

/// A stored value that differs from the one computed from the samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// The case.
    pub case: u32,
    /// The phase.
    pub phase: String,
    /// The member of the verdict: `all.growth.value`.
    pub member: String,
    /// The stored value.
    pub stored: Value,
    /// The computed value.
    pub computed: Value,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { case, phase, member, stored, computed } = self;
        write!(f, "case {case}, {phase}: {member} is {stored}, but the samples give {computed}")
    }
}

/// Verdicts that are already known, by case and phase, each with the rounds of its passes.
#[derive(Debug, Clone, Default)]
pub struct Verdicts(BTreeMap<(u32, String), (Vec<u32>, Verdict)>);

impl Verdicts {
    /// Judges the curves, using the passes that `counts` accepts, and replaces earlier verdicts on them. Returns the
    /// curves that were judged.
    pub(crate) fn judge(&mut self, record: &Record, counts: &dyn Fn(&Pass) -> bool) -> Vec<(u32, String)> {
        let mut drafts = drafts(record, counts);
        judge_all(record, &mut drafts);
        let keys = drafts.iter().map(|draft| (draft.case.case, draft.phase.name.clone())).collect();
        for draft in drafts {
            let Some(verdict) = draft.verdict else { continue };
            self.0.insert((draft.case.case, draft.phase.name.clone()), (draft.rounds, verdict));
        }
        keys
    }

    /// Returns the verdict on a curve, if it is known.
    pub(crate) fn get(&self, curve: &(u32, String)) -> Option<&Verdict> {
        self.0.get(curve).map(|(_, verdict)| verdict)
    }

    /// Removes and returns the verdict on a curve, if it was computed from the passes of the same rounds.
    fn take(&mut self, draft: &Draft<'_>) -> Option<Verdict> {
        let (rounds, verdict) = self.0.remove(&(draft.case.case, draft.phase.name.clone()))?;
        (rounds == draft.rounds).then_some(verdict)
    }
}

impl<'r> Analysis<'r> {
    /// Judges every curve of a record. Equal records give equal analyses, regardless of the number of processors.
    pub fn of(record: &'r Record) -> Self {
        Self::with(record, Verdicts::default())
    }

    /// Judges the curves of a record whose verdicts are not known. The result equals that of [`Analysis::of`] if the
    /// known verdicts are of this record.
    pub fn with(record: &'r Record, mut known: Verdicts) -> Self {
        let mut drafts = drafts(record, &|_| true);
        for draft in &mut drafts {
            draft.verdict = known.take(draft);
        }
        judge_all(record, &mut drafts);
        let is_judged = |case: &&Case| case.replay.is_none() && !record.passes_of(case.case).is_empty();
        let measured = record.cases.iter().filter(is_judged);
        // A case whose passes all failed has no curve, but its failures are findings.
        let mut cases: Vec<CaseStudy<'r>> = measured.map(|case| CaseStudy::new(record, case)).collect();
        for draft in drafts {
            let Some(verdict) = draft.verdict else { continue };
            let Draft { case, phase, curve, canary, rounds, .. } = draft;
            let study = PhaseStudy { phase, curve, canary, rounds, verdict };
            if let Some(case) = cases.iter_mut().find(|one| one.case.case == case.case) {
                case.phases.push(study);
            }
        }
        Self { record, cases }
    }

    /// Returns the verdicts.
    pub fn into_verdicts(self) -> Verdicts {
        let mut all = BTreeMap::new();
        for CaseStudy { case, phases, .. } in self.cases {
            all.extend(phases.into_iter().map(|one| ((case.case, one.phase.name.clone()), (one.rounds, one.verdict))));
        }
        Verdicts(all)
    }

    /// Returns the results to store in the record: one verdict for each phase of each case.
    pub fn results(&self) -> Vec<PhaseResult> {
        let every = self.cases.iter().flat_map(|case| case.phases.iter().map(move |phase| (case, phase)));
        every
            .map(|(case, phase)| PhaseResult {
                case: case.case.case,
                phase: phase.phase.name.clone(),
                method: METHOD,
                verdict: serde_json::to_value(&phase.verdict).unwrap_or(Value::Null),
            })
            .collect()
    }

    /// Returns the members of `stored` that differ from the values computed from the samples, compared to nine digits.
    /// Results of another method are not compared: see [`other_method`].
    pub fn mismatches(&self, stored: &[PhaseResult]) -> Vec<Mismatch> {
        if other_method(stored).is_some() {
            return Vec::new();
        }
        let computed = self.results();
        let mut found = Vec::new();
        for result in stored {
            let same = computed.iter().find(|other| other.case == result.case && other.phase == result.phase);
            let computed = same.map_or(&Value::Null, |other| &other.verdict);
            differences(result, "", &result.verdict, computed, &mut found);
        }
        for result in &computed {
            if !stored.iter().any(|other| other.case == result.case && other.phase == result.phase) {
                differences(result, "", &Value::Null, &result.verdict, &mut found);
            }
        }
        found
    }

    /// Returns the number of timed calls.
    pub fn call_count(&self) -> usize {
        self.cases.iter().flat_map(|case| &case.phases).map(|phase| phase.verdict.calls).sum()
    }
}

impl<'r> CaseStudy<'r> {
    /// Returns whether two cases have the same benchmark and the same kind of n, so that their curves can be compared.
    pub(crate) fn is_alike(&self, other: &CaseStudy<'_>) -> bool {
        self.case.benchmark == other.case.benchmark && self.case.axis == other.case.axis
    }

    fn new(record: &'r Record, case: &'r Case) -> Self {
        let passes = record.passes_of(case.case);
        let sound: Vec<&Pass> = passes.iter().copied().filter(|pass| !has_failed(pass)).collect();
        let ends = || sound.iter().filter_map(|pass| pass.end.as_ref());
        let limits: Vec<&Limit> = ends().filter_map(|end| end.limit.as_ref()).collect();
        let limit = limits.first().map(|limit| LimitMet {
            limit,
            passes: limits.len(),
            range: limits.iter().fold((u64::MAX, 0), |(low, high), limit| (low.min(limit.n), high.max(limit.n))),
        });
        let mut facts: BTreeMap<&str, Vec<&Fact>> = BTreeMap::new();
        for (name, value) in ends().flat_map(|end| end.facts.iter()) {
            facts.entry(name).or_default().push(value);
        }
        let failures = passes.iter().filter(|pass| has_failed(pass)).map(|pass| {
            let error = pass.end.as_ref().and_then(|end| end.error.as_deref()).unwrap_or("no reason was recorded");
            format!("pass {} failed: {error}", pass.start.round + 1)
        });
        let own = |crash: &&Crash| {
            let mut of_case = record.passes.iter().filter(|pass| pass.start.case == case.case);
            crash.pass.is_some_and(|number| of_case.any(|pass| pass.start.pass == number))
        };
        let crashes = record.crashes.iter().filter(own).collect();
        let timeline = TimelineStudy::of(case, &sound);
        Self { case, phases: Vec::new(), timeline, limit, crashes, facts, failures: failures.collect() }
    }

    /// Returns the largest n that any pass reached.
    pub fn largest_n(&self) -> u32 {
        let passes = self.phases.iter().flat_map(|phase| &phase.curve.passes);
        passes.flat_map(|pass| pass.n.iter().copied()).max().unwrap_or(1)
    }
}

/// Returns the number of the method that gave the results, if it is not the one of this version.
pub fn other_method(stored: &[PhaseResult]) -> Option<u32> {
    stored.iter().map(|result| result.method).find(|method| *method != METHOD)
}

/// Recomputes every result of a record from its samples. Returns nothing for a record without results, whose run was
/// killed.
pub fn check_results(record: &Record) -> Vec<Mismatch> {
    if record.results.is_empty() { Vec::new() } else { Analysis::of(record).mismatches(&record.results) }
}

/// Returns the unit of a record's costs.
pub fn unit_of(record: &Record) -> Unit {
    match record.unit() {
        landau_record::schema::Unit::Instructions => Unit::Instructions,
        landau_record::schema::Unit::EmulatedNs => Unit::EmulatedTime,
        landau_record::schema::Unit::Ns => Unit::Time,
    }
}

/// Returns why records cannot be shown together: their units differ. `None` if they can.
pub fn unlike<'r>(records: impl IntoIterator<Item = &'r Record>) -> Option<String> {
    let mut records = records.into_iter();
    let base = records.next()?;
    let other = records.find(|other| other.unit() != base.unit())?;
    Some(format!(
        "cannot compare {} (in {}) with {} (in {}): different units; pass only records in one unit",
        base.path,
        unit_name(base),
        other.path,
        unit_name(other)
    ))
}

/// Returns the unit of a record in words.
pub fn unit_name(record: &Record) -> &'static str {
    match record.unit() {
        landau_record::schema::Unit::Ns => "time",
        landau_record::schema::Unit::Instructions => "instructions",
        landau_record::schema::Unit::EmulatedNs => "emulated time",
    }
}

/// Returns whether a pass failed its check and is therefore excluded from verdicts.
fn has_failed(pass: &Pass) -> bool {
    pass.end.as_ref().is_some_and(|end| end.outcome == Outcome::Failed)
}

/// A curve before its verdict.
struct Draft<'r> {
    case: &'r Case,
    phase: &'r Phase,
    curve: Curve,
    canary: Curve,
    rounds: Vec<u32>,
    verdict: Option<Verdict>,
}

/// Returns the curves, made of the passes that `counts` accepts.
fn drafts<'r>(record: &'r Record, counts: &dyn Fn(&Pass) -> bool) -> Vec<Draft<'r>> {
    let mut drafts = Vec::new();
    for case in record.cases.iter().filter(|case| case.timeline.is_none() && case.replay.is_none()) {
        let passes = record.passes_of(case.case);
        let annotations: Vec<Annotation> = case.annotations.iter().filter_map(annotation).collect();
        for phase in &case.phases {
            let held = held(&passes, phase, counts);
            if held.is_empty() {
                continue;
            }
            let curve = Curve {
                passes: held.iter().map(|pass| calls(pass, phase)).collect(),
                annotations: annotations.clone(),
            };
            let canary =
                Curve { passes: held.iter().map(|pass| canary(pass, phase)).collect(), annotations: Vec::new() };
            let rounds = held.iter().map(|pass| pass.start.round).collect();
            drafts.push(Draft { case, phase, curve, canary, rounds, verdict: None });
        }
    }
    drafts
}

/// Returns the passes that did not fail, that have calls of a phase, and that `counts` accepts.
fn held<'p, 'r>(passes: &'p [&'r Pass], phase: &Phase, counts: &dyn Fn(&Pass) -> bool) -> Vec<&'p &'r Pass> {
    let has_calls = |pass: &&&Pass| pass.series.get(&phase.name).is_some_and(|lane| !lane.costs.is_empty());
    passes.iter().filter(|pass| !has_failed(pass) && counts(pass)).filter(has_calls).collect()
}

/// Returns the calls of a phase of any case, even of one without verdicts, and the round of each pass.
pub(crate) fn curve_of(record: &Record, case: &Case, phase: &Phase) -> (Curve, Vec<u32>) {
    let passes = record.passes_of(case.case);
    let held = held(&passes, phase, &|_| true);
    let curve = Curve { passes: held.iter().map(|pass| calls(pass, phase)).collect(), annotations: Vec::new() };
    (curve, held.iter().map(|pass| pass.start.round).collect())
}

/// Returns the options for judging one curve of a record.
pub(crate) fn options_of_curve(record: &Record, case: &Case, phase: &Phase) -> Options {
    let change_between_runs = between_runs::of_growth(&case.benchmark, &phase.name);
    Options { change_between_runs, ..options_of(record) }
}

/// Returns the options for judging any curve of a record.
pub(crate) fn options_of(record: &Record) -> Options {
    let overhead = *record.host.clock.timer_overhead.values();
    let quantum_ns = Some(*record.host.clock.quantum.values()).filter(|&step| step > 0.0);
    let (unit, timer_overhead_ns) = (unit_of(record), (overhead > 0.0).then_some(overhead));
    Options { unit, timer_overhead_ns, quantum_ns, ..Options::default() }
}

/// Returns a canary if any of its passes has a call.
pub(crate) fn present(canary: &Curve) -> Option<&Curve> {
    canary.passes.iter().any(|pass| !pass.costs.is_empty()).then_some(canary)
}

/// Judges the curves without a verdict on all processors. Each worker takes the next curve from a shared counter.
fn judge_all(record: &Record, drafts: &mut [Draft<'_>]) {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(drafts.len().max(1));
    let next = AtomicUsize::new(0);
    let shared: &[Draft<'_>] = drafts;
    let work = || {
        let mut done = Vec::new();
        while let Some((index, draft)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, shared.get(i)?)))
        {
            if draft.verdict.is_some() {
                continue;
            }
            let options = options_of_curve(record, draft.case, draft.phase);
            done.push((index, judge(&draft.curve, present(&draft.canary), &options)));
        }
        done
    };
    let verdicts: Vec<(usize, Verdict)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap_or_default()).collect()
    });
    for (index, verdict) in verdicts {
        drafts[index].verdict = Some(verdict);
    }
}

/// Returns the calls of one phase of one pass. A call is clean if its window had no preemption, no stolen time and no
/// major page fault.
fn calls(pass: &Pass, phase: &Phase) -> landau_stats::Pass {
    let Some(lane) = pass.series.get(&phase.name) else { return landau_stats::Pass::default() };
    let mut tainted = vec![false; lane.n.iter().max().map_or(0, |&n| n as usize + 1)];
    let processor = pass.windows.first().map(|window| window.processor);
    let clean = clean_windows(&pass.windows);
    for (window, is_clean) in pass.windows.iter().zip(clean) {
        // After a migration to another processor, the rest of the pass is not clean.
        if window.direction != phase.direction || (is_clean && Some(window.processor) == processor) {
            continue;
        }
        let first = window.first as usize;
        let count = window.count as usize;
        let (from, to) = match window.direction {
            Direction::Up => (first, first + count),
            Direction::Down => ((first + 1).saturating_sub(count), first + 1),
        };
        let to = to.min(tainted.len());
        tainted[from.min(to)..to].fill(true);
    }
    let clean = lane.n.iter().map(|&n| !tainted[n as usize]).collect();
    landau_stats::Pass { n: lane.n.clone(), costs: lane.costs.clone(), clean }
}

/// Minimum number of switches per step at which the measured processes of a pass count as taking turns on one
/// processor; these switches are expected.
const TURNS_MIN: f64 = 0.1;
/// Minimum number of windows from which this rate is computed.
const TURNS_WINDOWS_MIN: usize = 5;

/// The interference with the measured processes in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Interference {
    /// More context switches than the processes cause by taking turns.
    pub preempted: bool,
    /// A major page fault.
    pub faulted: bool,
    /// Time stolen by the hypervisor.
    pub stolen: bool,
}

impl Interference {
    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Returns whether each window of a pass is clean.
fn clean_windows(windows: &[Window]) -> Vec<bool> {
    interference(windows).into_iter().map(Interference::is_none).collect()
}

/// Returns the interference in each window of a pass.
pub(crate) fn interference(windows: &[Window]) -> Vec<Interference> {
    // Switches per step in the median window of a direction, if they are frequent enough to be turns.
    let turns = |direction: Direction, count: fn(&Window) -> u32| {
        let own = windows.iter().filter(|window| window.direction == direction);
        let mut rates: Vec<f64> = own.map(|one| f64::from(count(one)) / f64::from(one.count.max(1))).collect();
        rates.sort_by(f64::total_cmp);
        let median = rates.get(rates.len().saturating_sub(1) / 2).copied().unwrap_or(0.0);
        if median >= TURNS_MIN && rates.len() >= TURNS_WINDOWS_MIN { median } else { 0.0 }
    };
    let both = |count| [turns(Direction::Up, count), turns(Direction::Down, count)];
    let own = |window: &Window| window.preempted;
    let others = |window: &Window| window.others_preempted.unwrap_or(0);
    let (own_turns, others_turns) = (both(own), both(others));
    // The threshold is three standard deviations of a Poisson count above the expected one.
    let exceeds = |switches: u32, turns: [f64; 2], window: &Window| {
        let expected = turns[usize::from(window.direction == Direction::Down)] * f64::from(window.count);
        f64::from(switches) > expected + 3.0 * expected.sqrt()
    };
    let faults = |window: &Window| window.faults[1] + window.others_faults.map_or(0, |faults| faults[1]);
    let of = |window: &Window| Interference {
        preempted: exceeds(own(window), own_turns, window) || exceeds(others(window), others_turns, window),
        faulted: faults(window) > 0,
        stolen: false,
    };
    let mut found: Vec<Interference> = windows.iter().map(of).collect();
    // The time may have been stolen in any window since the counter was last read.
    for (index, window) in windows.iter().enumerate().filter(|(_, window)| window.steal_ms > 0) {
        let count = window.steal_windows.unwrap_or(1).clamp(1, index as u32 + 1) as usize;
        found[index + 1 - count..=index].iter_mut().for_each(|one| one.stolen = true);
    }
    found
}

/// Returns the canary calls of the same direction of the same pass.
fn canary(pass: &Pass, phase: &Phase) -> landau_stats::Pass {
    let mut canary = landau_stats::Pass::default();
    let clean = clean_windows(&pass.windows);
    for (window, is_clean) in pass.windows.iter().zip(clean).filter(|(window, _)| window.direction == phase.direction) {
        for &cost in window.canary.values() {
            canary.n.push(window.first);
            canary.costs.push(cost);
            canary.clean.push(is_clean);
        }
    }
    canary
}

/// Converts an annotation for the verdict; `None` for an event, which only a timeline has.
fn annotation(one: &landau_record::schema::Annotation) -> Option<Annotation> {
    let kind = match one.kind {
        AnnotationKind::Capacity => landau_stats::AnnotationKind::Capacity,
        AnnotationKind::Table => landau_stats::AnnotationKind::Table,
        AnnotationKind::Cache => landau_stats::AnnotationKind::Cache,
        AnnotationKind::Event => return None,
    };
    Some(Annotation { name: one.name.clone(), n: one.n, kind })
}

/// Adds every member in which two verdicts differ.
fn differences(result: &PhaseResult, path: &str, stored: &Value, computed: &Value, found: &mut Vec<Mismatch>) {
    let under = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (stored, computed) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let (x, y) = (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
                differences(result, &under(name), x, y, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (x, y)) in a.iter().zip(b).enumerate() {
                differences(result, &under(&i.to_string()), x, y, found);
            }
        }
        (a, b) if is_same(a, b) => {}
        (a, b) => found.push(Mismatch {
            case: result.case,
            phase: result.phase.clone(),
            member: path.to_owned(),
            stored: a.clone(),
            computed: b.clone(),
        }),
    }
}

/// Returns whether two values are equal. Numbers are compared to nine digits, because another libm may round
/// differently.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(x), Some(y)) => (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(f64::MIN_POSITIVE),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(verdict: Value) -> PhaseResult {
        PhaseResult { case: 3, phase: "bind".into(), method: METHOD, verdict }
    }

    #[test]
    fn differences_name_the_member_and_ignore_the_tenth_digit() {
        let stored = result(json!({"a": [1.0, 2.0], "b": "x", "c": 5}));
        let mut found = Vec::new();
        let computed = json!({"a": [1.000_000_000_01, 2.1], "b": "y", "d": true});
        differences(&stored, "", &stored.verdict, &computed, &mut found);
        let members: Vec<&str> = found.iter().map(|mismatch| mismatch.member.as_str()).collect();
        assert_eq!(members, ["a.1", "b", "c", "d"]);
        assert_eq!(found[0].to_string(), "case 3, bind: a.1 is 2.0, but the samples give 2.1");
    }

    fn window(first: u32, count: u32) -> Window {
        Window {
            pass: 0,
            direction: Direction::Up,
            first,
            count,
            until_us: 0,
            preempted: 0,
            faults: [0, 0],
            processor: 0,
            steal_ms: 0,
            steal_windows: None,
            others_preempted: None,
            others_faults: None,
            calls: None,
            canary: landau_record::schema::Canary::Ns(Vec::new()),
        }
    }

    /// Guards against attributing stolen time only to the window in which it was read.
    #[test]
    fn stolen_time_taints_every_window_since_the_last_reading() {
        let mut windows: Vec<Window> = (0..6).map(|i| window(1 + 100 * i, 100)).collect();
        (windows[4].steal_ms, windows[4].steal_windows) = (10, Some(3));
        assert_eq!(clean_windows(&windows), [true, true, false, false, false, true]);
        windows[4].steal_windows = None;
        assert_eq!(clean_windows(&windows), [true, true, true, true, false, true]);
    }

    /// Guards against overlooking a disturbed server, and against fork never having a clean window: parent and children
    /// take turns on one processor.
    #[test]
    fn other_measured_processes_count_and_turns_do_not() {
        let mut windows: Vec<Window> = (0..5).map(|i| window(1 + 100 * i, 100)).collect();
        windows[1].others_preempted = Some(1);
        windows[3].others_faults = Some([7, 1]);
        assert_eq!(clean_windows(&windows), [true, false, true, false, true]);
        for (window, preempted) in windows.iter_mut().zip([37, 41, 35, 90, 33]) {
            (window.preempted, window.others_preempted, window.others_faults) = (preempted, None, None);
        }
        assert_eq!(clean_windows(&windows), [true, true, true, false, true]);
    }

    #[test]
    fn interference_during_destruction_marks_the_calls_of_its_window() {
        let lane = landau_record::Series { n: vec![10, 9, 8, 7, 6], costs: vec![1; 5] };
        let canary_calls = landau_record::schema::Canary::Ns(vec![180]);
        let window = Window { direction: Direction::Down, preempted: 1, canary: canary_calls, ..window(9, 2) };
        let start = landau_record::schema::PassStart { pass: 0, case: 0, round: 0, at_ms: 0, adaptive_for: Vec::new() };
        let series = BTreeMap::from([("close".to_owned(), lane)]);
        let pass = Pass { start, series, windows: vec![window], end: None };
        let phase = Phase { name: "close".into(), direction: Direction::Down, about: String::new() };
        assert_eq!(calls(&pass, &phase).clean, [true, false, false, true, true]);
        assert_eq!(canary(&pass, &phase).n, [9]);
    }
}
