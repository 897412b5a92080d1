//! The periods of the instrument: outliers that recur when nothing is measured also recur in every other curve.

use crate::Analysis;
use crate::text;
use landau_stats::{Pattern, PatternRule};

/// The benchmark that measures nothing.
const EMPTY: &str = "nop";
/// Maximum ratio of the cost that a pattern adds to the cost that the instrument adds. A pattern above it is not the
/// instrument's.
const SAME_COST: f64 = 2.0;

/// The recurring outliers of the empty benchmark in the same record.
pub(crate) struct Instrument<'a> {
    patterns: Vec<&'a Pattern>,
    /// Counted periods start at a different call in each pass, so their phases carry no information.
    is_counted: bool,
}

impl<'a> Instrument<'a> {
    pub(crate) fn of(analysis: &'a Analysis<'_>) -> Self {
        let empty = analysis.cases.iter().filter(|study| study.case.benchmark == EMPTY);
        let patterns = empty.flat_map(|study| &study.phases).flat_map(|phase| &phase.verdict.outliers.patterns);
        let patterns: Vec<&Pattern> = patterns.filter(|one| !text::is_first_calls(one)).collect();
        let mut phases = analysis.cases.iter().flat_map(|study| &study.phases);
        Self { patterns, is_counted: phases.any(|phase| phase.verdict.exact.is_some()) }
    }

    /// Returns whether the instrument shows the same rule at a similar additional cost.
    pub(crate) fn explains(&self, pattern: &Pattern) -> bool {
        let is_same = |own: &Pattern| is_within(pattern.rule, own.rule, self.is_counted);
        self.patterns.iter().any(|own| is_same(own) && added(pattern) <= SAME_COST * added(own))
    }
}

/// Returns whether every position of a rule is also one of the instrument's rule: a multiple of its period, in its
/// phase.
fn is_within(rule: PatternRule, own: PatternRule, is_counted: bool) -> bool {
    match (rule, own) {
        (PatternRule::Periodic { period, phase }, PatternRule::Periodic { period: own_period, phase: own_phase }) => {
            period.is_multiple_of(own_period) && (is_counted || phase % own_period == own_phase)
        }
        (rule, own) => rule == own,
    }
}

/// Returns how much more a call of the pattern costs than the calls around it.
fn added(pattern: &Pattern) -> f64 {
    let cost = f64::midpoint(pattern.cost_min as f64, pattern.cost_max as f64);
    cost * (1.0 - 1.0 / pattern.factor.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(period: u32, phase: u32, cost: u64, factor: f64) -> Pattern {
        let rule = PatternRule::Periodic { period, phase };
        Pattern { rule, count: 20, kept: 1.0, factor, cost_min: cost, cost_max: cost }
    }

    /// Guards against reporting the instrument's period as a finding about every call.
    #[test]
    fn a_period_that_the_empty_benchmark_shows_is_the_instruments() {
        let own = every(256, 37, 400, 20.0);
        let instrument = Instrument { patterns: vec![&own], is_counted: false };
        assert!(instrument.explains(&every(256, 37, 900, 1.7)));
        assert!(instrument.explains(&every(512, 293, 900, 1.7)));
        // Another period, another phase, or a cost that the instrument cannot add.
        assert!(!instrument.explains(&every(128, 37, 900, 1.7)));
        assert!(!instrument.explains(&every(256, 38, 900, 1.7)));
        assert!(!instrument.explains(&every(256, 37, 9_000, 5.0)));
        assert!(!Instrument { patterns: Vec::new(), is_counted: false }.explains(&own));
        // Counted periods start at a different call in each pass.
        let counted = Instrument { patterns: vec![&own], is_counted: true };
        assert!(counted.explains(&every(256, 38, 900, 1.7)) && !counted.explains(&every(128, 37, 900, 1.7)));
    }
}
