//! The evidence for and against a claim in words.

use super::verdict::{growth_text, more_passes_text, reason_text};
use super::{law, limit, outliers, ratio_with_interval};
use crate::quantity::{FormatCost, Unit, count, digits, factor, percent};
use crate::{CaseStudy, LimitMet, PhaseStudy};
use landau_claims::{Assertion, Claim};
use landau_stats::claim::{Answer, Decision, Evidence};
use landau_stats::{Estimate, Outcome, PatternRule, Reason};

/// Describes the evidence that decided a claim, with its value and interval: "growth ×1.02 (90% CI 0.98–1.05), within
/// 10%".
pub(crate) fn evidence(claim: &Claim, decision: &Decision, study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> String {
    let unit = phase.verdict.all.unit;
    let name = format!("{} · {}", study.case.label, phase.phase.name);
    let text = match &decision.evidence {
        Evidence::Interval => value(claim, decision, unit),
        Evidence::Laws { outcome, rivals } => laws(outcome, rivals, decision.value, unit),
        Evidence::Exponent { .. } => exponent(decision.value, unit),
        Evidence::Cliff { n, factor: jump } => cliff(claim, decision, (n.value, *jump), unit),
        Evidence::Farthest { at, factor: by } => {
            format!("at n = {} the cost is {} of that at small n", count(*at), factor(*by))
        }
        Evidence::Jump { factor: jump } => format!("the cost jumps by {} just before the judged range", factor(*jump)),
        Evidence::Outliers { first_n, count: many, rule, factor: by } => {
            let place = match (rule, many) {
                (Some(PatternRule::Periodic { period, .. }), _) if phase.verdict.exact.is_some() => {
                    // Counted periods start at a different call in each pass.
                    format!("every {} calls", count(f64::from(*period)))
                }
                (Some(rule), _) => outliers::rule(*rule, *first_n),
                (None, 1) => format!("at n = {}", count(f64::from(*first_n))),
                (None, _) => format!("at {} n, the first n = {}", count(*many as f64), count(f64::from(*first_n))),
            };
            format!("calls that cost {} times as much as those around them recur {place}", digits(*by))
        }
        Evidence::None { reached } => {
            let passes = phase.verdict.passes;
            format!("none up to n = {} in {}", count(*reached), passes_text(passes))
        }
        Evidence::TooShort { reached } if matches!(claim.assertion, Assertion::NoCliff { .. }) => {
            format!("measured far enough to show a cliff up to n = {} only", count(*reached))
        }
        Evidence::TooShort { reached } => ends_at(*reached),
        Evidence::OutOfRange { first, last } => {
            format!("both curves are judged from n = {} to {} only", count(*first), count(*last))
        }
        Evidence::TooFewPasses { passes } => format!("{}, too few to decide", passes_text(*passes)),
        Evidence::NotResolved { reason } => {
            let growth = decision.value.map(|growth| growth_text(growth, unit == Unit::Instructions));
            format!("{}{}", reason_text(*reason), growth.map_or(String::new(), |growth| format!("; growth {growth}")))
        }
    };
    format!("{name}: {text}")
}

/// Describes what would settle an inconclusive claim. `is_shifted` is set if a shift between two records was added to
/// its error, which further passes do not reduce.
pub(crate) fn settle(claim: &Claim, decision: &Decision, study: &CaseStudy<'_>, is_shifted: bool) -> Option<String> {
    if decision.answer != Answer::Inconclusive {
        return None;
    }
    if let Evidence::TooShort { .. } = decision.evidence {
        let met = study.limit.as_ref().map(|met| self::limit(met, study));
        return Some(met.unwrap_or_else(|| measure_further(claim)));
    }
    if matches!(decision.evidence, Evidence::NotResolved { reason: Reason::TooFewPoints })
        && matches!(claim.assertion, Assertion::NoCliff { below: Some(_) })
    {
        return Some(measure_further(claim));
    }
    if is_shifted && decision.evidence == Evidence::Interval {
        return Some("measure both sides in turn with landau run --against".to_owned());
    }
    let more = more_passes_text(decision.more_passes);
    (!more.is_empty()).then(|| more.trim_matches([' ', '(', ')']).to_owned())
}

/// Returns the flag for measuring up to the n of a claim.
pub(crate) fn measure_further(claim: &Claim) -> String {
    let benchmark = &claim.subject.benchmark;
    let n = match claim.assertion {
        // A jump is visible in the calls beyond it.
        Assertion::NoCliff { .. } => claim.steps(),
        _ => claim.n(),
    };
    format!("measure with --set {benchmark}.n={}", n.unwrap_or(1))
}

pub(crate) fn ends_at(n: f64) -> String {
    format!("measured up to n = {} only", count(n))
}

/// Describes a limit that a claim excludes, with the command that raises it.
pub(crate) fn limit(met: &LimitMet<'_>, study: &CaseStudy<'_>) -> String {
    let one = met.limit;
    let (command, remark) = limit::command_and_remark(&one.raise);
    let raise = if command.is_empty() { String::new() } else { format!("; to raise it: {command}{remark}") };
    format!("{}: {} failed with {} at n = {} ({}){raise}", study.case.label, one.call, one.error, met.at(), one.meaning)
}

pub(crate) fn no_limit(study: &CaseStudy<'_>, n: f64, passes: usize) -> String {
    format!("{}: no call was refused up to n = {} in {}", study.case.label, count(n), passes_text(passes))
}

fn passes_text(passes: usize) -> String {
    if passes == 1 { "1 pass".to_owned() } else { format!("{passes} passes") }
}

/// Formats the bounded quantity with its interval.
fn value(claim: &Claim, decision: &Decision, unit: Unit) -> String {
    let Some(value) = decision.value else { return "no value".to_owned() };
    let is_exact = unit == Unit::Instructions;
    match &claim.assertion {
        Assertion::Cost { n, .. } => {
            let interval = match is_exact {
                true if value.low.to_bits() == value.high.to_bits() => String::new(),
                true => format!(" (passes {})", unit.costs(value.low, value.high)),
                false => format!(" (95% CI {})", unit.costs(value.low, value.high)),
            };
            format!("{} at n = {}{interval}", unit.cost(value.value), count(*n as f64))
        }
        Assertion::Ratio { of, n, .. } => {
            let interval = if is_exact {
                String::new()
            } else {
                format!(" (95% CI {}–{})", digits(value.low), digits(value.high))
            };
            format!("{} times the cost of {of} at n = {}{interval}", digits(value.value), count(*n as f64))
        }
        Assertion::Constant { within, .. } => {
            let place = match decision.answer {
                Answer::Pass => format!("within {}", percent(*within)),
                Answer::Fail => format!("not within {}", percent(*within)),
                Answer::Inconclusive => format!("not shown to be within {}", percent(*within)),
            };
            format!("growth {}, {place}", growth_text(value, is_exact))
        }
        _ => format!("growth {}", growth_text(value, is_exact)),
    }
}

/// Describes a cliff, with the growth across it if the claim bounds that.
fn cliff(claim: &Claim, decision: &Decision, (n, jump): (f64, f64), unit: Unit) -> String {
    let growth = decision.value.filter(|_| matches!(claim.assertion, Assertion::Growth { .. }));
    let growth = growth.map_or(String::new(), |growth| format!("; growth {}", ratio_with_interval(growth, unit)));
    format!("cliff at n = {}: {} across the jump{growth}", count(n), factor(jump))
}

/// Describes the outcome with the laws that it names: "O(n) or O(n log n); growth ×7 (90% CI 6.8–7.1)".
fn laws(outcome: &Outcome, rivals: &[String], growth: Option<Estimate>, unit: Unit) -> String {
    let growth =
        growth.map_or(String::new(), |growth| format!("; growth {}", growth_text(growth, unit == Unit::Instructions)));
    let text = match outcome {
        Outcome::Flat { .. } => law::symbol("constant").to_owned(),
        Outcome::Grows { law: Some(law) } => {
            let names = std::iter::once(law).chain(rivals).map(|law| law::symbol(law));
            names.collect::<Vec<_>>().join(" or ")
        }
        Outcome::Grows { law: None } => "grows by no simple law".to_owned(),
        Outcome::Small => super::small(),
        Outcome::Falls => "falls".to_owned(),
        Outcome::Varies => "varies".to_owned(),
        Outcome::Unresolved { reason, .. } => reason_text(*reason),
    };
    format!("{text}{growth}")
}

fn exponent(value: Option<Estimate>, unit: Unit) -> String {
    let Some(value) = value else { return "no simple law".to_owned() };
    let interval = match unit {
        Unit::Instructions => String::new(),
        _ => format!(" (95% CI {}–{})", digits(value.low), digits(value.high)),
    };
    format!("no simple law; n^{}{interval} over the last decade of n", digits(value.value))
}
