//! What was found, in sentences that need no statistics, the most surprising first.
//!
//! The order is that of surprise: what failed, cliffs by their factor, refusals, single dear calls by their size,
//! growth by its ratio, split costs, facts, then all that stays constant in one sentence, what could not be told, what
//! was skipped or cut, and last the first calls, which are dear everywhere.
//! Every number is one of a verdict's; nothing is computed here.

use crate::quantity::{Unit, count, factor, percent};
use crate::{Analysis, CaseStudy, PhaseStudy, table, unit_of};
use landau_record::schema::{Crash, Direction};
use landau_stats::{Cliff, ModeKind, Outcome, Reason, RhythmKind};
use serde::Serialize;

/// A sentence and where it leads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// What sort of finding it is; the order of the variants is the order of the page.
    pub kind: Kind,
    /// The sentence.
    pub text: String,
    /// The case it is about, if it is about one.
    pub case: Option<u32>,
    /// The larger, the more surprising among its kind.
    #[serde(skip)]
    weight: f64,
    /// Benchmark and phase: findings of one kind and theme are told in one sentence.
    #[serde(skip)]
    theme: String,
    /// How the finding is told where another case leads the sentence: "bind family=v6 (×3,356)".
    #[serde(skip)]
    brief: String,
    /// What follows when all who share the sentence are named.
    #[serde(skip)]
    tail: String,
}

/// Sorts of findings, in the order of surprise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A pass failed, or the record is not as it was written.
    Failure,
    /// The cost jumps.
    Cliff,
    /// The kernel came to a stop.
    Crash,
    /// The system refused.
    Limit,
    /// Single calls are dear, always at the same place.
    Outlier,
    /// The cost grows.
    Growth,
    /// Two costs instead of one.
    Split,
    /// Single calls recur that are somewhat dearer: a slab's page fills.
    Rhythm,
    /// Something the benchmark's check established.
    Fact,
    /// The cost stays.
    Constant,
    /// Nothing may be said.
    Unclear,
    /// Not measured.
    Skip,
    /// Every process pays for its first calls.
    FirstCalls,
}

/// What measures the instrument: it is told only where it moved.
const INSTRUMENT: [&str; 2] = ["nop", "syscall"];
/// Recurring calls below so many times the usual cost surprise nobody: a page for a slab is dear everywhere.
const DEAR: f64 = 10.0;
/// Phases whose first calls are named; of the others only the number.
const FIRST_CALLS_NAMED: usize = 4;

impl Kind {
    /// In a word or two, for a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failure => "failed",
            Self::Cliff => "cliff",
            Self::Crash => "crash",
            Self::Limit => "limit",
            Self::Outlier => "dear calls",
            Self::Growth => "grows",
            Self::Split => "two costs",
            Self::Rhythm => "now and then",
            Self::Fact => "fact",
            Self::Constant => "constant",
            Self::Unclear => "unclear",
            Self::Skip => "not measured",
            Self::FirstCalls => "first calls",
        }
    }
}

/// The findings of an analysis, most surprising first.
pub fn of(analysis: &Analysis<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    whole_record(analysis, &mut found);
    for study in &analysis.cases {
        of_case(study, &mut found);
        for phase in &study.phases {
            of_phase(study, phase, &mut found);
        }
    }
    let mut found = merged(found);
    gathered(analysis, &mut found);
    first_calls(analysis, &mut found);
    found.sort_by(|a, b| a.kind.cmp(&b.kind).then(b.weight.total_cmp(&a.weight)));
    found
}

/// What a sentence calls a phase: the case's label, and the phase where the label does not say it or where more than
/// one way up could be meant by it.
pub fn subject(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> String {
    let (case, name) = (study.case, &phase.phase.name);
    let ways_up = case.phases.iter().filter(|phase| phase.direction == Direction::Up).count();
    if *name == case.benchmark && ways_up < 2 { case.label.clone() } else { format!("{} · {name}", case.label) }
}

fn finding(kind: Kind, study: Option<&CaseStudy<'_>>, weight: f64, text: String) -> Finding {
    let case = study.map(|study| study.case.case);
    Finding { kind, text, case, weight, theme: String::new(), brief: String::new(), tail: String::new() }
}

impl Finding {
    fn on(mut self, study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, brief: &str) -> Self {
        self.theme = format!("{} {}", study.case.benchmark, phase.phase.name);
        self.brief = format!("{} ({brief})", study.case.label);
        self
    }
}

/// Variants of one benchmark that show the same thing share a sentence, led by the first of them.
fn merged(found: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    let mut briefs: Vec<Vec<String>> = Vec::new();
    for one in found {
        let leader =
            kept.iter().position(|held| !one.theme.is_empty() && held.kind == one.kind && held.theme == one.theme);
        if let Some(leader) = leader {
            kept[leader].weight = kept[leader].weight.max(one.weight);
            briefs[leader].push(one.brief);
        } else {
            kept.push(one);
            briefs.push(Vec::new());
        }
    }
    for (one, briefs) in kept.iter_mut().zip(briefs) {
        if !briefs.is_empty() {
            one.text.extend([" Likewise ", &briefs.join(", "), "."]);
        }
        one.text.push_str(&one.tail);
    }
    kept
}

fn whole_record(analysis: &Analysis<'_>, found: &mut Vec<Finding>) {
    let record = analysis.record;
    if let Some(fault) = &record.fault {
        let text = format!("The record is not as it was written: line {}: {}.", fault.line, fault.reason);
        found.push(finding(Kind::Failure, None, f64::INFINITY, text));
    }
    for crash in record.crashes.iter().filter(|crash| crash.pass.is_none()) {
        found.push(finding(Kind::Crash, None, 2.0, format!("{}.", crash_words(crash, "objects"))));
    }
    for skip in &record.skips {
        let reason = skip.reason.trim_start_matches("skipped, ").trim_end_matches('.');
        let reason = if reason.starts_with("because") { reason.to_owned() } else { format!("because {reason}") };
        found.push(finding(Kind::Skip, None, 1.0, format!("{} was skipped, {reason}.", skip.label)));
    }
    for cut in &record.cuts {
        let passes = if cut.pass_count == 1 { "One pass".to_owned() } else { format!("{} passes", cut.pass_count) };
        let text = format!("{passes} of {} left out: {}.", cut.label, cut.reason.trim_end_matches('.'));
        found.push(finding(Kind::Skip, None, 0.0, text));
    }
}

/// What the passes say of a fact. Of a figure that is another in each pass the first and the last are told, in the
/// order of their words.
fn alternatives(values: &[&str]) -> String {
    match values {
        [one] => (*one).to_owned(),
        [one, other] => format!("{one} or {other}"),
        _ => {
            let (least, most) = (values.iter().min().unwrap_or(&""), values.iter().max().unwrap_or(&""));
            format!("{least} … {most}, as the pass may be")
        }
    }
}

fn of_case(study: &CaseStudy<'_>, found: &mut Vec<Finding>) {
    let case = study.case;
    for failure in &study.failures {
        found.push(finding(Kind::Failure, Some(study), 1.0, format!("{}: {failure}.", case.label)));
    }
    if let Some(met) = &study.limit {
        let limit = met.limit;
        let at = met.at();
        let remedy = if limit.raise.is_empty() { String::new() } else { format!(" Raise it with: {}", limit.raise) };
        let text = format!(
            "{}: {} is refused with {} at {at} {}: {}.",
            case.label,
            limit.call,
            limit.error,
            case.axis,
            limit.meaning.trim_end_matches('.')
        );
        let mut refused = finding(Kind::Limit, Some(study), 1.0, text);
        // Variants that meet one and the same limit share the sentence.
        refused.theme = format!("{} {} {} {}", case.benchmark, limit.call, limit.error, limit.meaning);
        refused.brief = format!("{} (at {at})", case.label);
        refused.tail = remedy;
        found.push(refused);
    }
    for crash in &study.crashes {
        let text = format!("{}: {}.", case.label, crash_words(crash, &case.axis));
        found.push(finding(Kind::Crash, Some(study), 1.0, text));
    }
    if let Some(reduced) = &case.reduced {
        let (asked, n) = (count(reduced.requested as f64), count(case.n as f64));
        let text =
            format!("{}: {n} instead of {asked} {}: {}.", case.label, case.axis, reduced.reason.trim_end_matches('.'));
        found.push(finding(Kind::Skip, Some(study), 2.0, text));
    }
    for (name, values) in &study.facts {
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        let value = alternatives(&values.iter().map(String::as_str).collect::<Vec<_>>());
        let mut fact = finding(Kind::Fact, Some(study), 1.0, format!("{}: {name}: {value}.", case.label));
        fact.theme = format!("{} {name} {value}", case.benchmark);
        fact.brief.clone_from(&case.label);
        found.push(fact);
    }
}

fn of_phase(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, found: &mut Vec<Finding>) {
    let name = subject(study, phase);
    let growth = growth_words(study, phase, &name);
    let ratio = phase.verdict.all.growth.map_or(1.0, |growth| growth.value.max(1e-9));
    if INSTRUMENT.contains(&study.case.benchmark.as_str()) {
        if let Some(text) = growth {
            let text = format!("The instrument itself moved, so distrust changes of this size elsewhere: {text}");
            found.push(finding(Kind::Growth, Some(study), ratio.ln().abs(), text));
        }
        return;
    }
    let cliffs = &phase.verdict.all.cliffs;
    if let Some(cliff) = cliffs.iter().max_by(|a, b| a.factor_over_start.total_cmp(&b.factor_over_start)) {
        let brief = format!("{} at {}", factor(cliff.factor_over_start), count(cliff.n.value));
        let text = cliff_words(study, &name, cliff, phase.verdict.all.unit);
        found.push(finding(Kind::Cliff, Some(study), cliff.factor_over_start, text).on(study, phase, &brief));
    }
    found.extend(outlier(study, phase, &name));
    if let Some(text) = growth {
        let brief = factor(ratio);
        found.push(finding(Kind::Growth, Some(study), ratio.ln().abs(), text).on(study, phase, &brief));
    }
    found.extend(split(study, phase, &name));
}

/// The rules and places of recurring calls but for the first ones, in words; empty if there are no others.
fn recurring_words(phase: &PhaseStudy<'_>) -> String {
    let parts = phase.verdict.outliers.words.split("; ").filter(|part| !part.starts_with(FIRST_CALLS));
    parts.collect::<Vec<_>>().join("; ")
}

/// How `landau-stats` begins the words about first calls.
const FIRST_CALLS: &str = "the first calls";

fn outlier(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<Finding> {
    let outliers = &phase.verdict.outliers;
    let words = recurring_words(phase);
    if words.is_empty() {
        return None;
    }
    let dearest = outliers.structural.iter().map(|call| call.ns_median).max();
    // A rhythm that begins elsewhere in each pass has no positions that recur.
    let weight = dearest.or_else(|| outliers.rhythms.iter().map(|one| one.ns_max).max()).unwrap_or(0) as f64;
    let together = if words == outliers.words { "Together" } else { "Together with the first calls" };
    let share = match outliers.structural_time {
        share if share >= 0.01 => format!(" {together} they take {} of the time.", percent(share)),
        _ => String::new(),
    };
    let highest = outliers.structural.iter().map(|call| call.ns_max);
    let highest = highest.chain(outliers.rhythms.iter().map(|one| one.ns_max)).max().unwrap_or(0) as f64;
    let brief = format!("up to {}", phase.verdict.all.unit.cost(highest));
    let text = format!("{name}: {words}.{share}");
    let usual = phase.verdict.all.end.map_or(0.0, |end| end.value);
    let kind = if weight < DEAR * usual { Kind::Rhythm } else { Kind::Outlier };
    let mut outlier = finding(kind, Some(study), weight, text).on(study, phase, &brief);
    // Calls at the doublings of a table are another story than those of a page that fills.
    let kind = outliers.rhythms.first().map(|rhythm| std::mem::discriminant(&rhythm.kind));
    outlier.theme = format!("{} {kind:?}", outlier.theme);
    Some(outlier)
}

fn split(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<Finding> {
    let modes = phase.verdict.modes.as_ref()?;
    let chooser = match modes.kind {
        ModeKind::ByPass => "whole passes cost",
        ModeKind::ByCall => "calls cost",
    };
    let (low, high) = (&modes.low, &modes.high);
    let cost = |cost| phase.verdict.all.unit.cost(cost);
    let text = format!(
        "{name}: {chooser} either {} ({}) or {} ({}) at the largest n.",
        cost(low.ns.value),
        percent(low.share),
        cost(high.ns.value),
        percent(high.share)
    );
    let ratio = high.ns.value / low.ns.value.max(1e-9);
    let brief = format!("{} or {}", cost(low.ns.value), cost(high.ns.value));
    Some(finding(Kind::Split, Some(study), ratio, text).on(study, phase, &brief))
}

/// First calls are dear everywhere, which surprises nobody: one sentence for the whole record.
fn first_calls(analysis: &Analysis<'_>, found: &mut Vec<Finding>) {
    let every = analysis.cases.iter().flat_map(|study| study.phases.iter().map(move |phase| (study, phase)));
    let mut dear: Vec<(u64, String)> = every
        .filter_map(|(study, phase)| {
            let mut rhythms = phase.verdict.outliers.rhythms.iter();
            let first = rhythms.find(|rhythm| rhythm.kind == RhythmKind::FirstCalls)?;
            Some((first.ns_max, subject(study, phase)))
        })
        .collect();
    dear.sort_by(|a, b| b.cmp(a));
    if dear.is_empty() {
        return;
    }
    let named: Vec<String> = dear
        .iter()
        .take(FIRST_CALLS_NAMED)
        .map(|(ns, name)| format!("{name} (up to {})", unit_of(analysis.record).cost(*ns as f64)))
        .collect();
    let more = match dear.len().saturating_sub(FIRST_CALLS_NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let text = format!(
        "The first calls of a process cost more than those after them, as they do everywhere: {}{more}.",
        named.join(", ")
    );
    found.push(finding(Kind::FirstCalls, None, 0.0, text));
}

/// Where a machine stopped, whether it does so each time, and its last words.
pub fn crash_words(crash: &Crash, axis: &str) -> String {
    let place = crash.last_n.map_or(String::new(), |n| format!(" behind {} {axis}", count(n as f64)));
    let again = match (crash.same_place, crash.boots) {
        (Some(true), boots) => format!(", at the same place in each of {boots} boots"),
        (Some(false), boots) => {
            let places: Vec<String> = crash.every_last_n.iter().map(|n| count(*n as f64)).collect();
            let places = if places.is_empty() { String::new() } else { format!(": {}", places.join(", ")) };
            format!(", elsewhere in each of {boots} boots{places}")
        }
        (None, _) => ", seen in one boot only".to_owned(),
    };
    let last = crash.console.iter().rev().find(|line| !line.trim().is_empty());
    let last = last.map_or(String::new(), |line| format!("; its last words: “{}”", line.trim()));
    format!("{}{place}{again}{last}", crash.meaning.trim_end_matches('.'))
}

/// A cliff, in words.
pub fn cliff_words(study: &CaseStudy<'_>, name: &str, cliff: &Cliff, unit: Unit) -> String {
    let first = unit.cost((cliff.after_ns / cliff.factor_over_start.max(f64::MIN_POSITIVE)).round());
    let why = cliff.mark.as_ref().map_or(String::new(), |mark| format!(": {mark} is reached"));
    format!(
        "{name} costs {first} at first and {} from {} {} on ({}){why}.",
        unit.cost(cliff.after_ns),
        count(cliff.n.value),
        study.case.axis,
        factor(cliff.factor_over_start),
    )
}

fn growth_words(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<String> {
    let judged = &phase.verdict.all;
    let (from, to, growth) = (judged.start?, judged.end?, judged.growth?);
    let (first, last) = judged.range?;
    if matches!(judged.outcome, Outcome::Constant { .. } | Outcome::Inconclusive { .. }) {
        return None;
    }
    let verb = table::verb(judged);
    let law = match (&judged.outcome, &judged.fit) {
        (Outcome::Grows { .. }, Some(fit)) => format!("by {}: {}", fit.symbol, fit.formula(judged.unit)),
        _ => "by no simple law".to_owned(),
    };
    // The ratio is of three points at either end, pass by pass; where single ends say otherwise, they are not told.
    let agrees = verb != "changes" && (to.value > from.value) == (growth.value > 1.0);
    let ends = if agrees {
        format!(" from {} to {}", judged.unit.bare(from.value), judged.unit.cost(to.value))
    } else {
        String::new()
    };
    if judged.unit == Unit::Instructions {
        let axis = &study.case.axis;
        return Some(format!(
            "{name} {verb}{ends} between {} and {} {axis} ({}), {law}.",
            count(first),
            count(last),
            factor(growth.value)
        ));
    }
    Some(format!(
        "{name} {verb}{ends} between {} and {} {} ({}, 90% interval {}–{}), {law}.",
        count(first),
        count(last),
        study.case.axis,
        factor(growth.value),
        crate::quantity::digits(growth.low),
        crate::quantity::digits(growth.high),
    ))
}

/// What stays constant, in one sentence; what could not be told, in another.
fn gathered(analysis: &Analysis<'_>, found: &mut Vec<Finding>) {
    let (mut constant, mut unclear) = (Vec::new(), Vec::new());
    let mut within: f64 = 0.0;
    let every = analysis.cases.iter().flat_map(|study| study.phases.iter().map(move |phase| (study, phase)));
    for (study, phase) in every {
        let judged = &phase.verdict.all;
        match judged.outcome {
            Outcome::Constant { within: delta } => {
                within = within.max(delta);
                let ends = [judged.start, judged.end].map(|end| end.map_or(f64::NAN, |end| end.value));
                let cost = judged.unit.costs(ends[0].min(ends[1]), ends[0].max(ends[1]));
                constant.push(format!("{} ({cost})", subject(study, phase)));
            }
            Outcome::Inconclusive { reason, .. } => unclear.push((reason, subject(study, phase))),
            _ => {}
        }
    }
    if !constant.is_empty() {
        let how = if within == 0.0 { "at all".to_owned() } else { format!("to within {}", percent(within)) };
        let text = format!("The cost does not depend on n, {how}: {}.", constant.join(", "));
        found.push(finding(Kind::Constant, None, 1.0, text));
    }
    let reasons = [
        (Reason::Canary, "because the machine's own speed moved as much (the canary shows it)"),
        (Reason::TooNoisy, "because the passes differ too much; more passes would tell"),
        (Reason::Strays, "because the ends agree but a point between lies further off than is allowed"),
        (Reason::TooFewPasses, "from so few passes"),
        (Reason::TooFewPoints, "from so few calls"),
    ];
    for (reason, words) in reasons {
        let names: Vec<&str> =
            unclear.iter().filter(|(other, _)| *other == reason).map(|(_, name)| name.as_str()).collect();
        if !names.is_empty() {
            let text = format!("Neither constant nor growing is shown {words}: {}.", names.join(", "));
            found.push(finding(Kind::Unclear, None, 1.0, text));
        }
    }
}
