//! Values of `landau-stats` for the tests of the texts.

use crate::quantity::Unit;
use landau_stats::{Estimate, Fit, Judgement, Outcome, Outliers, Point, RecurringOutlier, Verdict};

pub(super) fn interval(low: f64, value: f64, high: f64) -> Estimate {
    Estimate { value, low, high }
}

pub(super) fn fit(law: &str, fixed: f64, slope: Option<f64>) -> Fit {
    Fit {
        law: law.to_owned(),
        fixed: Estimate::bare(fixed),
        slope: slope.map(Estimate::bare),
        location: None,
        ratio: None,
        delta_bic: 0.0,
        rms_residual: 0.0,
        lack_of_fit_p: None,
    }
}

/// A judgement for n from 16 to 4,096 whose points all cost 4,122.
pub(crate) fn judgement(unit: Unit, outcome: Outcome) -> Judgement {
    let growth = if unit == Unit::Instructions { Estimate::bare(1.3) } else { interval(1.2, 1.3, 1.4) };
    let cost = Estimate::bare(4122.0);
    Judgement {
        outcome,
        points: [16.0, 4096.0].map(|n| Point { n, cost, passes: 5, judged: true }).to_vec(),
        growth: Some(growth),
        start: Some(cost),
        end: Some(cost),
        range: Some((16.0, 4096.0)),
        ..Judgement::empty(unit)
    }
}

/// The verdict with these recurring outliers, each a position and a cost.
pub(super) fn verdict(unit: Unit, recurring: &[(u32, u64)]) -> Verdict {
    let one = |&(n, cost): &(u32, u64)| RecurringOutlier {
        n,
        passes: 5,
        of: 5,
        factor: 10.0,
        cost_min: cost,
        cost_median: cost,
        cost_max: cost,
        chance: 0.0,
    };
    Verdict {
        all: judgement(unit, Outcome::Flat { within: 0.1 }),
        clean: None,
        flags: Vec::new(),
        canary: None,
        outliers: Outliers {
            recurring: recurring.iter().map(one).collect(),
            recurring_count: recurring.len(),
            ..Outliers::default()
        },
        bimodality: None,
        p99: None,
        passes: 5,
        calls: 20_000,
        exact: None,
    }
}
