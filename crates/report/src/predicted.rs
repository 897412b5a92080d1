//! The predicted cost of a sum of calls at some n, from the curves of each call, for `landau predict`.
//!
//! Within the measured range, a cost is interpolated between the points of its curve, on logarithmic scales. Beyond it,
//! the fitted law is extrapolated, and the prediction is marked as such. Calls of one case were measured in the same
//! passes, so their errors may be correlated: their half-widths add up. The errors of different cases add up as
//! variances.

mod check;
mod render;
mod sum;

use crate::claims::{Curve, resolve};
use crate::quantity::Unit;
use crate::{Analysis, unit_of};
pub use check::Checked;
use landau_claims::Subject;
use landau_stats::{Estimate, Judgement};
use serde::Serialize;
pub use sum::{Term, parse};

/// A prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Predicted {
    /// The sum as typed.
    pub sum: String,
    /// The number of objects, for every term.
    pub n: f64,
    /// The unit of costs.
    pub unit: Unit,
    /// The cost of all terms with its 95% interval.
    pub cost: Estimate,
    /// The largest n up to which every term was measured, times by two passes if there are several.
    pub measured_to: f64,
    /// Whether a term was extrapolated because n exceeds the measured range.
    pub extrapolated: bool,
    /// The terms, in the order of the sum.
    pub terms: Vec<Part>,
    /// The measured use of servers in the same records, compared with the sum of their calls.
    pub servers: Vec<Checked>,
    /// The differences between the hosts of the records, and the servers that are not compared, one sentence each.
    pub notes: Vec<String>,
}

/// One term of a prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// The term as typed, without its factor.
    pub term: String,
    /// The number of times that the call is made.
    pub times: f64,
    /// The record, from 0.
    pub record: usize,
    /// The label of the case.
    pub case: String,
    /// The phase.
    pub phase: String,
    /// What n counts.
    pub axis: String,
    /// The cost of all its calls with its 95% interval.
    pub cost: Estimate,
    /// The largest n of its curve; for times, that of two passes if there are several.
    pub measured_to: f64,
    /// Whether its cost was extrapolated.
    pub extrapolated: bool,
    /// The law by which it was extrapolated; null if it was not.
    pub law: Option<String>,
    /// Whether its curve has a single pass.
    #[serde(skip)]
    pub is_of_one_pass: bool,
}

/// A cost at an n.
#[derive(Debug, Clone, PartialEq)]
struct At {
    cost: Estimate,
    measured_to: f64,
    /// The law, if the cost was extrapolated.
    law: Option<String>,
    is_of_one_pass: bool,
}

/// Returns the cost of the terms at `n`, or why a term has no cost there.
///
/// # Errors
///
/// Returns a sentence if a term names no curve of any record, or if one cannot be extrapolated to `n`.
pub fn predict(text: &str, n: f64, analyses: &[Analysis<'_>]) -> Result<Predicted, String> {
    let terms = parse(text)?;
    let parts = terms.iter().map(|term| part(term, n, analyses)).collect::<Result<Vec<_>, _>>()?;
    let (servers, not_compared) = check::servers(analyses);
    Ok(Predicted {
        sum: text.to_owned(),
        n,
        unit: analyses.first().map_or(Unit::Time, |one| unit_of(one.record)),
        cost: total(&parts),
        measured_to: parts.iter().map(|part| part.measured_to).fold(f64::INFINITY, f64::min),
        extrapolated: parts.iter().any(|part| part.extrapolated),
        terms: parts,
        servers,
        notes: notes(analyses).into_iter().chain(not_compared).collect(),
    })
}

/// Compares the servers of a record with the sums of their calls, using the curves of the same record. Also returns
/// sentences about servers that are not compared. Returns nothing for a record without calls.
pub(crate) fn beside_calls(analysis: &Analysis<'_>) -> (Vec<Checked>, Vec<String>) {
    let has_calls = analysis.cases.iter().any(|study| study.case.benchmark == CALLS);
    if has_calls { check::servers(std::slice::from_ref(analysis)) } else { (Vec::new(), Vec::new()) }
}

/// Returns the cost of a term from the first record that has its curve.
fn part(term: &Term, n: f64, analyses: &[Analysis<'_>]) -> Result<Part, String> {
    let (record, (study, phase)) = curve(&term.name, analyses)?;
    let at = at(&phase.verdict.all, reached(&phase.curve, phase.verdict.all.unit), n)
        .map_err(|why| format!("{} at {}: {why}", term.name, crate::quantity::count(n)))?;
    Ok(Part {
        term: term.name.clone(),
        times: term.times,
        record,
        case: study.case.label.clone(),
        phase: phase.phase.name.clone(),
        axis: study.case.axis.clone(),
        cost: at.cost.map(|cost| cost * term.times),
        measured_to: at.measured_to,
        extrapolated: at.law.is_some(),
        law: at.law,
        is_of_one_pass: at.is_of_one_pass,
    })
}

/// The benchmark that measures the calls of a server.
const CALLS: &str = "tcp";

/// Other names of the calls of [`CALLS`]. On a socket, `read()` and `write()` do the same as `recv()` and `send()`
/// without flags.
const ALIASES: &[(&str, &str)] = &[
    ("accept4", "accept"),
    ("read", "recv"),
    ("recvfrom", "recv"),
    ("recvmsg", "recv"),
    ("write", "send"),
    ("writev", "send"),
    ("sendto", "send"),
    ("sendmsg", "send"),
];

/// Returns the curve of a call and the number of its record.
fn curve<'a>(name: &str, analyses: &'a [Analysis<'a>]) -> Result<(usize, Curve<'a>), String> {
    let mut why = None;
    for subject in subjects(name) {
        for (record, analysis) in analyses.iter().enumerate() {
            match resolve(&subject, analysis) {
                Ok(found) if found.len() == 1 => return Ok((record, found[0])),
                Ok(several) => {
                    let phases: Vec<&str> = several.iter().map(|(_, phase)| phase.phase.name.as_str()).collect();
                    why = Some(format!("`{name}` names several calls: {}", phases.join(", ")));
                }
                Err(reason) => why = why.or(Some(reason)),
            }
        }
    }
    let why = why.unwrap_or_else(|| "there is no record".to_owned());
    let measure = advice(name, analyses);
    Err(format!("no record has a curve of `{name}`: {why}; {measure}"))
}

/// Returns how to measure the curve of a name. If a record has the calls, another name is not one of them.
fn advice(name: &str, analyses: &[Analysis<'_>]) -> String {
    let (benchmark, is_phase) = name.split_once('.').map_or((name, false), |(benchmark, _)| (benchmark, true));
    let has_calls = analyses.iter().flat_map(|one| &one.cases).any(|study| study.case.benchmark == CALLS);
    match (is_phase, has_calls) {
        (true, _) => format!("measure it: landau run {benchmark}"),
        (false, false) => format!("measure it: landau run {CALLS}"),
        (false, true) => format!("if it is a benchmark (landau list), measure it: landau run {name}"),
    }
}

/// Returns the meanings of a name, of which the first that was measured is used: `BENCHMARK.PHASE`, a call of
/// [`CALLS`], a benchmark.
fn subjects(name: &str) -> Vec<Subject> {
    let subject = |benchmark: &str, words: Vec<String>| Subject { benchmark: benchmark.to_owned(), words, unit: None };
    let mut words = name.split('.').map(str::to_owned);
    let first = words.next().unwrap_or_default();
    let rest: Vec<String> = words.collect();
    if !rest.is_empty() {
        return vec![subject(&first, rest)];
    }
    let call = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, call)| call);
    vec![subject(CALLS, vec![call.to_owned()]), subject(name, Vec::new())]
}

/// Returns the largest n of a curve. One pass has no interval, so times need two, unless there is only one.
fn reached(curve: &landau_stats::Curve, unit: Unit) -> f64 {
    let mut ends: Vec<u32> = curve.passes.iter().filter_map(|pass| pass.n.iter().max().copied()).collect();
    ends.sort_unstable_by(|a, b| b.cmp(a));
    let second = ends.get(1).filter(|_| unit != Unit::Instructions);
    f64::from(second.or(ends.first()).copied().unwrap_or(1))
}

/// Returns the cost at `n` of a curve that was measured to `measured_to`. Each point represents the calls around it, so
/// the costs of the first and last points also apply below and above them.
fn at(judged: &Judgement, measured_to: f64, n: f64) -> Result<At, String> {
    let is_of_one_pass = judged.points.iter().all(|point| point.passes < 2);
    // As in `reached`.
    let is_any = is_of_one_pass || judged.unit == Unit::Instructions;
    let used = judged.points.iter().filter(|point| is_any || point.passes > 1);
    let points: Vec<(f64, Estimate)> = used.map(|point| (point.n, point.cost)).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Err("its curve has no points".to_owned());
    };
    if n <= measured_to {
        let cost = match n {
            n if n <= first.0 => first.1,
            n if n >= last.0 => last.1,
            n => between(&points, n),
        };
        return Ok(At { cost, measured_to, law: None, is_of_one_pass });
    }
    beyond(judged, n).map(|(cost, law)| At { cost, measured_to, law: Some(law), is_of_one_pass })
}

/// Interpolates between the points on both sides of `n`, on logarithmic scales.
fn between(points: &[(f64, Estimate)], n: f64) -> Estimate {
    let after = points.iter().position(|(at, _)| *at >= n).unwrap_or(points.len() - 1).max(1);
    let ((low, before), (high, behind)) = (points[after - 1], points[after]);
    let share = (n / low).ln() / (high / low).ln();
    let value = |a: f64, b: f64| (a.max(f64::MIN_POSITIVE).ln() * (1.0 - share) + b.ln() * share).exp();
    Estimate {
        value: value(before.value, behind.value),
        low: value(before.low, behind.low),
        high: value(before.high, behind.high),
    }
}

/// Extrapolates the law of a curve. Its intervals at the end and at ten times the end are known; on logarithmic scales
/// it widens by the same amount for each decade. Laws that fit almost as well widen it further.
fn beyond(judged: &Judgement, n: f64) -> Result<(Estimate, String), String> {
    if let Some(cliff) = judged.cliffs.first() {
        let at = crate::quantity::count(cliff.n.value);
        return Err(format!("its curve has a cliff at {at}, beyond which no law can be extrapolated"));
    }
    let known = judged.fit.as_ref().zip(judged.end).zip(judged.at_ten_times).zip(judged.range);
    let Some((((fit, end), ten_times), (_, last))) = known else {
        return lawless(judged, n);
    };
    let value = fit.at(n);
    if !value.is_finite() || value <= 0.0 {
        return Err(format!("its law ({}) gives no cost at this n", fit.law));
    }
    let decades = (n / last).log10().max(0.0);
    // The interval of a law, which is based on all points, may be narrower than that of the end, which is one of them.
    // Then the interval of the end keeps its width.
    let spread = |of: fn(&Estimate) -> f64, wider: fn(f64, f64) -> f64| {
        let relative = |estimate: &Estimate| (of(estimate) / estimate.value).max(1e-9).ln();
        (relative(&end) + wider(relative(&ten_times) - relative(&end), 0.0) * decades).exp() * value
    };
    let rivals = judged.rivals.iter().map(|rival| rival.at(n)).filter(|cost| cost.is_finite());
    let ends = (spread(|e| e.low, f64::min), spread(|e| e.high, f64::max));
    let (low, high) = rivals.fold(ends, |(low, high), cost| (low.min(cost), high.max(cost)));
    Ok((Estimate { value, low: low.min(value), high: high.max(value) }, fit.law.clone()))
}

/// The name used in place of a law for a curve that has none.
const NO_LAW: &str = "no law: from constant to linear";

/// Extrapolates a curve that has no law. The bounds are the cost at its end, as if it were constant, and the straight
/// line through its ends. The value is their geometric mean.
fn lawless(judged: &Judgement, n: f64) -> Result<(Estimate, String), String> {
    let known = judged.start.zip(judged.end).zip(judged.range).filter(|(_, (first, last))| last > first);
    let Some(((start, end), (first, last))) = known else {
        return Err("its curve has too few points to extrapolate beyond the measured range".to_owned());
    };
    let rise = ((end.high - start.low) / (last - first)).max(0.0);
    let (low, high) = (end.low, end.high + rise * (n - last));
    Ok((Estimate { value: (low.max(f64::MIN_POSITIVE) * high).sqrt(), low, high }, NO_LAW.to_owned()))
}

/// Adds terms up.
fn total(parts: &[Part]) -> Estimate {
    let value: f64 = parts.iter().map(|part| part.cost.value).sum();
    // For each case, the half-widths below and above.
    let mut widths: Vec<((usize, &str), [f64; 2])> = Vec::new();
    for part in parts {
        let own = [part.cost.value - part.cost.low, part.cost.high - part.cost.value];
        let case = (part.record, part.case.as_str());
        match widths.iter_mut().find(|(other, _)| *other == case) {
            Some((_, sum)) => *sum = [sum[0] + own[0], sum[1] + own[1]],
            None => widths.push((case, own)),
        }
    }
    let root = |side: usize| widths.iter().map(|(_, width)| width[side].powi(2)).sum::<f64>().sqrt();
    Estimate { value, low: (value - root(0)).max(0.0), high: value + root(1) }
}

/// Returns a sentence for each record of another host.
fn notes(analyses: &[Analysis<'_>]) -> Vec<String> {
    let host = |analysis: &Analysis<'_>| {
        let host = &analysis.record.host;
        (host.release.clone(), host.processor.clone())
    };
    let Some(first) = analyses.first().map(host) else { return Vec::new() };
    let others = analyses.iter().enumerate().skip(1).filter(|(_, one)| host(one) != first);
    let sentence = |(number, other): (usize, &Analysis<'_>)| {
        let (release, processor) = host(other);
        format!("Record {} is from a different host than the first: Linux {release}, {processor:?}.", number + 1)
    };
    others.map(sentence).collect()
}

#[cfg(test)]
mod tests;
