//! Claims about records: finds the curves of a record for each claim, and words the decision of `landau-stats`.

pub mod junit;
#[cfg(test)]
mod project;
mod subject;

use crate::analysis::{options_of_curve, present};
use crate::comparisons::{self, Place, by_round, is_paired, shift_between};
use crate::findings::instrument::Instrument;
use crate::quantity::Unit;
use crate::text::claim as words;
use crate::{Analysis, Shift, unit_of};
use landau_claims::{Assertion, Claim, Law, Placed, Reference, Relation};
pub use landau_stats::claim::Answer;
use landau_stats::claim::{self, Decision, Evidence, LOGARITHM, Side, Subject};
use landau_stats::{Estimate, Options};
use serde::Serialize;
pub(crate) use subject::{Curve, resolve};

/// A claim with the answer from one record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// The claim as it was typed.
    pub claim: String,
    /// The line of the claim, from 1.
    pub line: usize,
    /// The record.
    pub record: String,
    /// The unit of the record's costs.
    pub unit: Unit,
    /// The answer; for several curves, the worst one.
    pub answer: Answer,
    /// The evidence in words: the observed values with their intervals, on each curve with that answer.
    pub text: String,
    /// How to settle an inconclusive claim; null if no way is known.
    pub settle: Option<String>,
    /// The curves that the claim is about; empty if the record lacks them.
    pub curves: Vec<Decided>,
}

/// The answer from one curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decided {
    /// The label of the case.
    pub case: String,
    /// The phase.
    pub phase: String,
    /// The answer.
    pub answer: Answer,
    /// The evidence in words.
    pub text: String,
    /// How to settle it; null if no way is known.
    pub settle: Option<String>,
    /// The quantity that the claim bounds, with its interval; null if there is none.
    pub value: Option<Estimate>,
    /// The evidence that decided; null for a limit, and if the other curve of a ratio is missing.
    pub evidence: Option<Evidence>,
}

/// A record with its analysis and the name used in answers.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The analysis.
    pub analysis: &'a Analysis<'a>,
    /// The name.
    pub name: &'a str,
}

/// The record whose costs are the base of claims about another one.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    source: Source<'a>,
    /// The shift of the costs from this record to the one that decides, if there is one.
    shift: Option<Shift>,
}

impl<'a> Base<'a> {
    /// Returns the base of claims that a record decides. All curves of both are compared to find the shift.
    pub fn of(base: Source<'a>, record: Source<'_>) -> Self {
        let shift = shift_between(base.analysis, record.analysis).filter(|shift| shift.deviation > 0.0);
        Self { source: base, shift }
    }

    /// Returns the effect of the shift on claims that the record of this name decides.
    pub fn shifted(&self, record: &str) -> Option<Shifted> {
        self.shift.map(|shift| Shifted {
            record: record.to_owned(),
            curves: shift.curves,
            ratio: shift.ratio,
            deviation: shift.deviation,
            text: shift.text_for_claims(self.source.name, record),
        })
    }
}

/// The shift between the costs of a record and those of the base, beyond the known variation of their benchmarks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shifted {
    /// The record.
    pub record: String,
    /// The number of curves whose costs were compared.
    pub curves: usize,
    /// The median of the ratios of their costs to those of the base.
    pub ratio: f64,
    /// Standard deviation (log scale) that is added to the error of each ratio to the base.
    pub deviation: f64,
    /// The shift in words.
    pub text: String,
}

/// Returns the answer from a record to a claim, whose words are phases, `*` and `SETTING=VALUE`. A claim about all
/// phases passes if each phase passes.
pub fn check(placed: &Placed, record: Source<'_>, base: Option<&Base<'_>>) -> Checked {
    let claim = &placed.claim;
    let (curves, missing) = match subject::resolve(&claim.subject, record.analysis) {
        // Times from an emulator's clock are no evidence about real times.
        Ok(_) if !is_about_limits(claim) && unit_of(record.analysis.record) == Unit::EmulatedTime => (
            Vec::new(),
            Some("the record was measured with an emulator's clock, which does not measure real time".to_owned()),
        ),
        Ok(curves) => (curves.iter().map(|curve| decide(claim, *curve, record.analysis, base)).collect(), None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let answer = curves.iter().map(|one: &Decided| one.answer).max().unwrap_or(Answer::Inconclusive);
    let deciding = || curves.iter().filter(|one| one.answer == answer);
    Checked {
        claim: placed.text.clone(),
        line: placed.line,
        record: record.name.to_owned(),
        unit: unit_of(record.analysis.record),
        answer,
        text: joined(deciding().map(|one| &one.text).chain(&missing)),
        settle: Some(joined(deciding().filter_map(|one| one.settle.as_ref()))).filter(|text| !text.is_empty()),
        curves,
    }
}

fn is_about_limits(claim: &Claim) -> bool {
    matches!(claim.assertion, Assertion::NoLimit { .. })
}

/// Joins texts. Equal ones, as for a limit that all phases share, are stated once.
fn joined<'t>(texts: impl Iterator<Item = &'t String>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for text in texts {
        if !all.contains(&text.as_str()) {
            all.push(text);
        }
    }
    all.join("; ")
}

/// Decides a claim about one curve.
fn decide(claim: &Claim, curve: Curve<'_>, analysis: &Analysis<'_>, base: Option<&Base<'_>>) -> Decided {
    let (study, phase) = curve;
    let options = options_of_curve(analysis.record, study.case, phase.phase);
    let mut is_shifted = false;
    let subject =
        Subject { curve: &phase.curve, canary: present(&phase.canary), verdict: &phase.verdict, options: &options };
    let decision = match &claim.assertion {
        Assertion::Constant { within, to } => subject.constant(*within, *to),
        Assertion::Follows { law, to } => subject.follows(family(*law), *to),
        // "No growth at all" means that the cost is constant.
        Assertion::AtMost { law: Law::Constant, to } => subject.constant(landau_claims::WITHIN, *to),
        Assertion::AtMost { law, to } => subject.grows_at_most(order(*law), *to),
        Assertion::Growth { relation, factor, to } => subject.grows(side(*relation), *factor, *to),
        Assertion::Cost { relation, bound, n } => claim::cost_at(&subject, *n, side(*relation), *bound),
        Assertion::NoCliff { below } => subject.no_cliff(*below),
        Assertion::NoRecurringOutlier { below } => {
            let instrument = Instrument::of(analysis);
            subject.no_recurring_outlier(*below, &|pattern| instrument.explains(pattern))
        }
        Assertion::NoLimit { below } => return limit(claim, curve, *below),
        Assertion::Ratio { relation, factor, of, n } => {
            match ratio(curve, analysis, of, base, (*n, side(*relation), *factor)) {
                Ok((decision, with_shift)) => {
                    is_shifted = with_shift;
                    decision
                }
                Err(why) => return decided(curve, Answer::Inconclusive, why, None),
            }
        }
    };
    Decided {
        value: decision.value,
        evidence: Some(decision.evidence.clone()),
        ..decided(
            curve,
            decision.answer,
            words::evidence(claim, &decision, study, phase),
            words::settle(claim, &decision, study, is_shifted),
        )
    }
}

/// Returns the answer from a curve without a value.
fn decided((study, phase): Curve<'_>, answer: Answer, text: String, settle: Option<String>) -> Decided {
    let (case, phase) = (study.case.label.clone(), phase.phase.name.clone());
    Decided { case, phase, answer, text, settle, value: None, evidence: None }
}

/// Decides a claim about a limit. Limits are facts: the first pass that reached one below the n refutes the claim.
fn limit(claim: &Claim, curve: Curve<'_>, below: Option<u64>) -> Decided {
    let (study, phase) = curve;
    let is_below = |n: u64| below.is_none_or(|end| n < end);
    let shortest = phase.curve.passes.iter().filter_map(|pass| pass.n.iter().max()).min().copied().unwrap_or(0);
    let crash = study.crashes.iter().find(|crash| crash.last_n.is_none_or(is_below));
    if let Some(crash) = crash {
        return decided(curve, Answer::Fail, crash.meaning.clone(), None);
    }
    match &study.limit {
        Some(met) if is_below(met.range.0) => decided(curve, Answer::Fail, words::limit(met, study), None),
        // A curve that ends just before the n has reached no limit below it.
        _ if below.is_some_and(|end| u64::from(shortest) + 1 < end) => {
            let text = format!("{}: {}", study.case.label, words::ends_at(f64::from(shortest)));
            decided(curve, Answer::Inconclusive, text, Some(words::measure_further(claim)))
        }
        _ => {
            let text = words::no_limit(study, f64::from(shortest), phase.curve.passes.len());
            decided(curve, Answer::Pass, text, None)
        }
    }
}

/// Decides a ratio of a curve to another one in its record, or to the same curve in the base record. Also returns
/// whether a shift was added to its error.
fn ratio(
    curve: Curve<'_>,
    analysis: &Analysis<'_>,
    of: &Reference,
    base: Option<&Base<'_>>,
    bound: (u64, Side, f64),
) -> Result<(Decision, bool), String> {
    let unit = unit_of(analysis.record);
    let own: Place<'_> = (0, analysis.record, curve);
    match of {
        Reference::Base => {
            let Base { source: base, shift } = base.ok_or("there is no base record; pass it with --base")?;
            if unit_of(base.analysis.record) != unit {
                return Err(format!("the base {} counts {}", base.name, crate::unit_name(base.analysis.record)));
            }
            let (study, phase) = curve;
            let there = base.analysis.cases.iter().find(|one| one.case.label == study.case.label);
            let there =
                there.and_then(|one| Some((one, one.phases.iter().find(|p| p.phase.name == phase.phase.name)?)));
            let there = there.ok_or_else(|| format!("the base {} lacks {}", base.name, study.case.label))?;
            let other: Place<'_> = (1, base.analysis.record, there);
            let paired = is_paired(other, own);
            let with = |shift| compares(other, own, bound, &comparisons::options(other, paired, shift));
            let without = with(None);
            let Some(shift) = shift.as_ref().filter(|_| !paired) else { return Ok((without, false)) };
            let mut decision = with(Some(shift));
            decision.limit_by(&without);
            Ok((decision, true))
        }
        Reference::Subject(other) => {
            let others = subject::resolve_like(other, curve, analysis)?;
            let other: Place<'_> = (0, analysis.record, others);
            Ok((compares(other, own, bound, &comparisons::options(other, true, None)), false))
        }
    }
}

fn compares(a: Place<'_>, b: Place<'_>, (n, side, factor): (u64, Side, f64), options: &Options) -> Decision {
    if options.paired {
        let (of_a, of_b) = by_round(a.2.1, b.2.1);
        return claim::compares(&of_a, &of_b, n, side, factor, options);
    }
    claim::compares(&a.2.1.curve, &b.2.1.curve, n, side, factor, options)
}

fn side(relation: Relation) -> Side {
    match relation {
        Relation::Below => Side::Below,
        Relation::AtMost => Side::AtMost,
        Relation::Above => Side::Above,
        Relation::AtLeast => Side::AtLeast,
    }
}

/// Returns the laws of the dictionary that match the law of a claim.
fn family(law: Law) -> &'static [&'static str] {
    match law {
        Law::Constant => &["constant"],
        Law::Logarithmic => &["logarithmic"],
        Law::Root => &["root"],
        // "Knee" is linear beyond some n, and "tiers" is linear with two slopes.
        Law::Linear => &["linear", "knee", "tiers"],
        Law::Linearithmic => &["linearithmic"],
        Law::Power => &["power"],
        Law::Quadratic => &["quadratic"],
    }
}

fn order(law: Law) -> f64 {
    match law {
        Law::Constant => 0.0,
        Law::Logarithmic => LOGARITHM,
        Law::Root => 0.5,
        Law::Linear => 1.0,
        Law::Linearithmic => 1.0 + LOGARITHM,
        Law::Power => 1.5,
        Law::Quadratic => 2.0,
    }
}

/// Every claim decided from every record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The answer to all claims together: a failure outweighs an inconclusive claim.
    pub answer: Answer,
    /// The claims in their order, each with the records in theirs.
    pub claims: Vec<Checked>,
    /// The records whose costs differ from those of the base by more than the known variation of their benchmarks.
    pub shifts: Vec<Shifted>,
}

impl Report {
    /// Returns a report of these answers, with the answer to all of them.
    pub fn of(claims: Vec<Checked>, shifts: Vec<Shifted>) -> Self {
        Self { answer: claims.iter().map(|one| one.answer).max().unwrap_or(Answer::Pass), claims, shifts }
    }
}

/// Returns an answer as one word.
pub fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Pass => "pass",
        Answer::Inconclusive => "inconclusive",
        Answer::Fail => "fail",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a law of the claim grammar that the dictionary lacks.
    #[test]
    fn the_laws_of_claims_are_those_of_the_dictionary() {
        let known: Vec<&str> = landau_stats::law_names().collect();
        for law in Law::ALL {
            assert!(family(law).contains(&law.name()), "{law}");
            assert!(family(law).iter().all(|name| known.contains(name)), "{law}");
        }
        assert!(Law::ALL.windows(2).all(|pair| order(pair[0]) < order(pair[1])));
    }
}
