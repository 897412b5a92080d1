//! The details of a verdict apart from its outcome: the factor of a doubling, the cost at ten times n, the growth of
//! the 99th percentile, and the sources of the uncertainty.

use super::class::word_of;
use super::verdict::{growth_text, growth_words, is_known, reason_text, small};
use crate::quantity::{FormatCost, Unit, count, percent};
use landau_stats::{Class, Components, Estimate, Judgement, Outcome, Reason, Tail, Verdict};

/// Returns the details of a verdict, one sentence each; empty for a curve without points. `between_runs` is the usual
/// standard deviation (log scale) of the curve's level between runs on one machine.
pub fn details(verdict: &Verdict, between_runs: f64) -> Vec<String> {
    let (judged, mut told) = (&verdict.all, Vec::new());
    let elasticity = judged.elasticity.filter(|_| judged.growth.is_none_or(is_known));
    told.extend(elasticity.map(|one| doubling(one, judged.unit == Unit::Instructions)));
    told.extend(at_ten_times(judged));
    told.extend(verdict.p99.as_ref().map(|tail| tail_text(tail, judged)));
    told.extend(judged.components.map(|one| variation(&one, between_runs)));
    told
}

/// Describes the growth, divided equally among the doublings of n.
fn doubling(elasticity: Estimate, is_exact: bool) -> String {
    format!("On average, a doubling of n changes the cost {}.", growth_text(elasticity, is_exact))
}

/// Describes the extrapolation: by the law, or a bound for a cost that hardly changes.
fn at_ten_times(judged: &Judgement) -> Option<String> {
    let (at, (_, last)) = (judged.at_ten_times?, judged.range?);
    let n = count(10.0 * last);
    Some(match judged.outcome {
        Outcome::Flat { .. } | Outcome::Small => format!(
            "At ten times n, {n}: at most {}, if the cost grows no faster than in proportion to n (extrapolated).",
            judged.unit.cost(at.high)
        ),
        _ if at.low.to_bits() == at.high.to_bits() => {
            format!("At ten times n, {n}: {} by the law (extrapolated).", judged.unit.cost(at.value))
        }
        _ => format!(
            "At ten times n, {n}: {} by the law (extrapolated, 95% CI {}).",
            judged.unit.cost(at.value),
            judged.unit.costs(at.low, at.high)
        ),
    })
}

/// Describes the growth of the 99th percentile, compared with that of the median.
fn tail_text(tail: &Tail, judged: &Judgement) -> String {
    let Outcome::Unresolved { reason, .. } = tail.outcome else {
        let change = tail_change(tail, judged).unwrap_or_default();
        return format!("The 99th percentile {change}; the median: {}.", word_of(&judged.outcome));
    };
    let why = match (reason, tail.growth) {
        (Reason::TooFewPasses, _) => "too few passes".to_owned(),
        (Reason::TooFewCalls, _) => "too few calls".to_owned(),
        (Reason::TooNoisy, Some(growth)) if is_known(growth) => {
            format!("{} from the first third of n to the last", growth_text(growth, false))
        }
        (Reason::TooNoisy, Some(_)) => "by how much is not known".to_owned(),
        (Reason::TooNoisy, None) => "bursts left too few calls".to_owned(),
        (reason, _) => reason_text(reason),
    };
    format!("The growth of the 99th percentile is not resolved: {why}.")
}

/// Describes how the 99th percentile changes: "grows ×1.8 (90% CI 1.3–2.4) from the first third of n to the last, from
/// 1.2 to 2.2 µs". `None` without a growth.
pub(crate) fn tail_change(tail: &Tail, judged: &Judgement) -> Option<String> {
    let (growth, (first, last)) = (tail.growth?, tail.costs?);
    let verb = match tail.outcome.class() {
        Class::Flat => "is flat,".to_owned(),
        Class::Small => format!("{},", small()),
        _ if growth.value < 1.0 => "falls".to_owned(),
        _ => "grows".to_owned(),
    };
    let (growth, first, last) = (growth_words(growth, false), judged.unit.cost(first), judged.unit.cost(last));
    Some(format!("{verb} {growth} from the first third of n to the last, from {first} to {last}"))
}

/// Describes the components of variance, and which repetitions would reduce them.
fn variation(components: &Components, between_runs: f64) -> String {
    let Components { call, window, pass, drift, walk, share_of_calls } = *components;
    let advice = if share_of_calls > 0.5 {
        "Most of the uncertainty of the growth comes from single calls: more passes help, and so do more calls in each."
    } else {
        "Most of the uncertainty of the growth is between passes: more passes help, more calls in each do not."
    };
    format!(
        "Standard deviations: single calls {}, windows of calls {}, passes {}, drift along a pass {}, runs of one \
         machine about {}. {advice}",
        rounded(call),
        rounded(window),
        rounded(pass),
        rounded(drift.hypot(walk)),
        rounded(between_runs)
    )
}

/// Formats a deviation in percent with two digits; it is not known more precisely.
fn rounded(deviation: f64) -> String {
    if deviation < 0.0005 {
        return "below 0.1%".to_owned();
    }
    let unit = 10f64.powf(deviation.log10().floor() - 1.0).max(0.001);
    percent((deviation / unit).round() * unit)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{interval, judgement, verdict};
    use super::*;

    fn told(judged: Judgement) -> Vec<String> {
        details(&Verdict { all: judged, ..verdict(Unit::Time, &[]) }, 0.05)
    }

    fn with(outcome: Outcome, at_ten_times: Estimate) -> Judgement {
        Judgement { at_ten_times: Some(at_ten_times), ..judgement(Unit::Time, outcome) }
    }

    /// Guards against extrapolating a flat cost as flat: only its upper bound may be stated.
    #[test]
    fn a_flat_cost_is_extrapolated_by_its_bound_only() {
        let flat = with(Outcome::Flat { within: 0.1 }, interval(1000.0, 4122.0, 7200.0));
        assert_eq!(
            told(flat),
            ["At ten times n, 40,960: at most 7.2 µs, if the cost grows no faster than in proportion to n \
              (extrapolated)."]
        );
        let law = Outcome::Grows { law: Some("linear".to_owned()) };
        let grows = with(law.clone(), interval(38_000.0, 40_000.0, 42_000.0));
        assert_eq!(told(grows), ["At ten times n, 40,960: 40 µs by the law (extrapolated, 95% CI 38–42 µs)."]);
        let counted = Judgement { unit: Unit::Instructions, ..with(law, Estimate::bare(40_000.0)) };
        assert_eq!(told(counted), ["At ten times n, 40,960: 40,000 instructions by the law (extrapolated)."]);
    }

    /// Guards against a number for a tail with too few calls, and against an uncertain one that is stated as certain.
    #[test]
    fn the_99th_percentile_is_told_beside_the_median() {
        let of = |outcome: Outcome, growth: Option<Estimate>| {
            let tail = Tail { outcome, growth, costs: growth.map(|_| (1200.0, 2160.0)), calls: 250 };
            let flat = verdict(Unit::Time, &[]);
            details(&Verdict { p99: Some(tail), ..flat }, 0.05).join(" ")
        };
        let unresolved = |reason| Outcome::Unresolved { reason, more_passes: None };
        let growth = Some(interval(1.3, 1.8, 2.4));
        assert_eq!(
            of(Outcome::Grows { law: None }, growth),
            "The 99th percentile grows ×1.8 (90% CI 1.3–2.4) from the first third of n to the last, from 1.2 µs to \
             2.16 µs; the median: flat."
        );
        assert_eq!(
            of(unresolved(Reason::TooNoisy), growth),
            "The growth of the 99th percentile is not resolved: ×1.8 (90% CI 1.3–2.4) from the first third of n to \
             the last."
        );
        let open = |why| format!("The growth of the 99th percentile is not resolved: {why}.");
        assert_eq!(of(unresolved(Reason::TooFewCalls), None), open("too few calls"));
        assert_eq!(of(unresolved(Reason::TooFewPasses), None), open("too few passes"));
        assert_eq!(of(unresolved(Reason::TooNoisy), None), open("bursts left too few calls"));
        let moved = open("the canary changed as much as the measured call");
        assert_eq!(of(unresolved(Reason::CanaryMoved), growth), moved);
    }

    #[test]
    fn the_components_say_where_repetitions_pay() {
        let of = |share_of_calls| {
            let one =
                Components { call: 0.0512, window: 0.0093, pass: 0.031, drift: 0.0002, walk: 0.0, share_of_calls };
            let judged = judgement(Unit::Time, Outcome::Falls);
            told(Judgement { components: Some(one), ..judged }).join(" ")
        };
        assert_eq!(
            of(0.2),
            "Standard deviations: single calls 5.1%, windows of calls 0.9%, passes 3.1%, drift along a pass below \
             0.1%, runs of one machine about 5%. Most of the uncertainty of the growth is between passes: more \
             passes help, more calls in each do not."
        );
        assert!(of(0.8).ends_with("comes from single calls: more passes help, and so do more calls in each."));
    }
}
