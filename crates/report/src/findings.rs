//! What was found, in sentences that need no statistics, the most surprising first.
//!
//! The order is that of surprise: what failed, cliffs by their factor, refusals, single dear calls by their size, growth by its
//! ratio, split costs, facts, then all that stays constant in one sentence, what could not be told, what was skipped or cut.
//! Every number is one of a verdict's; nothing is computed here.

use crate::quantity::{count, duration, durations, factor, percent};
use crate::{Analysis, CaseStudy, PhaseStudy};
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
}

/// Sorts of findings, in the order of surprise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A pass failed, or the record is not as it was written.
    Failure,
    /// The cost jumps.
    Cliff,
    /// The system refused.
    Limit,
    /// Single calls are dear, always at the same place.
    Outlier,
    /// The cost grows.
    Growth,
    /// Two costs instead of one.
    Split,
    /// Something the benchmark's check established.
    Fact,
    /// The cost stays.
    Constant,
    /// Nothing may be said.
    Unclear,
    /// Not measured.
    Skip,
}

impl Kind {
    /// In a word or two, for a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failure => "failed",
            Self::Cliff => "cliff",
            Self::Limit => "limit",
            Self::Outlier => "dear calls",
            Self::Growth => "grows",
            Self::Split => "two costs",
            Self::Fact => "fact",
            Self::Constant => "constant",
            Self::Unclear => "unclear",
            Self::Skip => "not measured",
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
    found.sort_by(|a, b| a.kind.cmp(&b.kind).then(b.weight.total_cmp(&a.weight)));
    found
}

/// What a sentence calls a phase: the case's label, and the phase where the label does not say it.
pub fn subject(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> String {
    let (case, name) = (study.case, &phase.phase.name);
    if *name == case.benchmark { case.label.clone() } else { format!("{} · {name}", case.label) }
}

fn finding(kind: Kind, study: Option<&CaseStudy<'_>>, weight: f64, text: String) -> Finding {
    Finding { kind, text, case: study.map(|study| study.case.case), weight, theme: String::new(), brief: String::new() }
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
    }
    kept
}

fn whole_record(analysis: &Analysis<'_>, found: &mut Vec<Finding>) {
    let record = analysis.record;
    if let Some(fault) = &record.fault {
        let text = format!("The record is not as it was written: line {}: {}.", fault.line, fault.reason);
        found.push(finding(Kind::Failure, None, f64::INFINITY, text));
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

fn of_case(study: &CaseStudy<'_>, found: &mut Vec<Finding>) {
    let case = study.case;
    for failure in &study.failures {
        found.push(finding(Kind::Failure, Some(study), 1.0, format!("{}: {failure}.", case.label)));
    }
    if let Some(met) = &study.limit {
        let limit = met.limit;
        let at = if met.range.0 == met.range.1 {
            count(met.range.0 as f64)
        } else {
            format!("{}–{}", count(met.range.0 as f64), count(met.range.1 as f64))
        };
        let remedy = if limit.raise.is_empty() { String::new() } else { format!(" Raise it with: {}", limit.raise) };
        let text = format!(
            "{}: {} is refused with {} at {at} {}: {}.{remedy}",
            case.label,
            limit.call,
            limit.error,
            case.axis,
            limit.meaning.trim_end_matches('.')
        );
        found.push(finding(Kind::Limit, Some(study), 1.0, text));
    }
    if let Some(reduced) = &case.reduced {
        let (asked, n) = (count(reduced.asked as f64), count(case.n as f64));
        let text =
            format!("{}: {n} instead of {asked} {}: {}.", case.label, case.axis, reduced.reason.trim_end_matches('.'));
        found.push(finding(Kind::Skip, Some(study), 2.0, text));
    }
    for (name, values) in &study.facts {
        let value = values.join(" or ");
        let mut fact = finding(Kind::Fact, Some(study), 1.0, format!("{}: {name}: {value}.", case.label));
        fact.theme = format!("{} {name} {value}", case.benchmark);
        fact.brief.clone_from(&case.label);
        found.push(fact);
    }
}

fn of_phase(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, found: &mut Vec<Finding>) {
    let verdict = &phase.verdict;
    let name = subject(study, phase);
    if let Some(cliff) = verdict.all.cliffs.iter().max_by(|a, b| a.factor_over_start.total_cmp(&b.factor_over_start)) {
        let brief = format!("{} at {}", factor(cliff.factor_over_start), count(cliff.n.value));
        let text = cliff_words(study, &name, cliff);
        found.push(finding(Kind::Cliff, Some(study), cliff.factor_over_start, text).on(study, phase, &brief));
    }
    if !verdict.outliers.words.is_empty() {
        let structural = &verdict.outliers.structural;
        let weight = structural.iter().map(|call| call.ns_median).max().unwrap_or(0) as f64;
        let share = match verdict.outliers.structural_time {
            share if share >= 0.01 => format!(" Together they take {} of the time.", percent(share)),
            _ => String::new(),
        };
        let text = format!("{name}: {}.{share}", verdict.outliers.words);
        let brief = format!("up to {}", duration(weight));
        let mut outlier = finding(Kind::Outlier, Some(study), weight, text).on(study, phase, &brief);
        // Calls at the doublings of a table are another story than the first calls of a process.
        let rhythms = &verdict.outliers.rhythms;
        let kinds: Vec<_> = rhythms.iter().map(|rhythm| std::mem::discriminant(&rhythm.kind)).collect();
        outlier.theme = format!("{} {:?}", outlier.theme, kinds.first());
        if !rhythms.is_empty() && rhythms.iter().all(|rhythm| rhythm.kind == RhythmKind::FirstCalls) {
            // Every process pays for its first calls; that surprises nobody, however dear they are.
            outlier.weight = -1.0 / weight.max(1.0);
        }
        found.push(outlier);
    }
    if let Some(text) = growth_words(study, phase, &name) {
        let weight = verdict.all.growth.map_or(0.0, |growth| (growth.value.max(1e-9)).ln().abs());
        let growth =
            verdict.all.growth.map_or(String::new(), |growth| format!("×{}", crate::quantity::digits(growth.value)));
        found.push(finding(Kind::Growth, Some(study), weight, text).on(study, phase, &growth));
    }
    if let Some(modes) = &verdict.modes {
        let chooser = match modes.kind {
            ModeKind::ByPass => "whole passes cost",
            ModeKind::ByCall => "calls cost",
        };
        let (low, high) = (&modes.low, &modes.high);
        let text = format!(
            "{name}: {chooser} either {} ({}) or {} ({}) at the largest n.",
            duration(low.ns.value),
            percent(low.share),
            duration(high.ns.value),
            percent(high.share)
        );
        let ratio = high.ns.value / low.ns.value.max(1e-9);
        let brief = format!("{} or {}", duration(low.ns.value), duration(high.ns.value));
        found.push(finding(Kind::Split, Some(study), ratio, text).on(study, phase, &brief));
    }
}

/// A cliff, in words.
pub fn cliff_words(study: &CaseStudy<'_>, name: &str, cliff: &Cliff) -> String {
    let first = duration(cliff.after_ns / cliff.factor_over_start.max(f64::MIN_POSITIVE));
    let why = cliff.mark.as_ref().map_or(String::new(), |mark| format!(": {mark} is reached"));
    format!(
        "{name} costs {first} at first and {} from {} {} on ({}){why}.",
        duration(cliff.after_ns),
        count(cliff.n.value),
        study.case.axis,
        factor(cliff.factor_over_start),
    )
}

fn growth_words(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, name: &str) -> Option<String> {
    let judged = &phase.verdict.all;
    let (from, to, growth) = (judged.start?, judged.end?, judged.growth?);
    let (first, last) = judged.range?;
    let verb = match judged.outcome {
        Outcome::Grows { .. } | Outcome::NoSimpleLaw if growth.value >= 1.0 => "grows",
        Outcome::Grows { .. } | Outcome::NoSimpleLaw | Outcome::Shrinks => "falls",
        Outcome::Constant { .. } | Outcome::Inconclusive { .. } => return None,
    };
    let law = match (&judged.outcome, &judged.fit) {
        (Outcome::Grows { .. }, Some(fit)) => format!("by {}: {}", fit.symbol, fit.formula()),
        _ => "by no simple law".to_owned(),
    };
    Some(format!(
        "{name} {verb} from {} to {} between {} and {} {} (×{}, 90% interval {}–{}), {law}.",
        duration(from.value),
        duration(to.value),
        count(first),
        count(last),
        study.case.axis,
        crate::quantity::digits(growth.value),
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
                let cost = durations(ends[0].min(ends[1]), ends[0].max(ends[1]));
                constant.push(format!("{} ({cost})", subject(study, phase)));
            }
            Outcome::Inconclusive { reason, .. } => unclear.push((reason, subject(study, phase))),
            _ => {}
        }
    }
    if !constant.is_empty() {
        let text = format!("The cost does not depend on n, to within {}: {}.", percent(within), constant.join(", "));
        found.push(finding(Kind::Constant, None, 1.0, text));
    }
    let reasons = [
        (Reason::Canary, "because the machine's own speed moved as much (the canary shows it)"),
        (Reason::TooNoisy, "because the passes differ too much; more passes would tell"),
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
