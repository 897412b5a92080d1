//! The verdict in one sentence that a newcomer understands.

use crate::judgement::{Judgement, Outcome, Reason};
use crate::words::{Unit, count, digits};
use crate::{Cliff, Estimate};

/// A certain rise below half a percent is the tick of the clock as often as not, and nobody's concern.
const RISE_MIN: f64 = 1.005;
/// More rivals than this are not listed: then the law is not known, and a list would hide that.
const RIVALS_MAX: usize = 3;

/// The sentence.
pub(crate) fn of(judgement: &Judgement) -> String {
    let head = head(judgement);
    match judgement.cliffs.first() {
        Some(cliff) => format!("{}; before it: {head}", cliff_words(cliff)),
        None => head,
    }
}

fn head(judgement: &Judgement) -> String {
    let span = judgement.range.map_or(String::new(), |(low, high)| format!(" from {} to {}", count(low), count(high)));
    let is_exact = judgement.unit == Unit::Instructions;
    let growth = judgement.growth.map_or(String::new(), |growth| growth_words(growth, is_exact));
    let formula = judgement.fit.as_ref().map_or(String::new(), |fit| fit.formula(judgement.unit));
    match &judgement.outcome {
        Outcome::Constant { within } if is_exact => exact_constant(judgement, *within, &span),
        Outcome::Constant { within } => {
            let rise = match judgement.growth {
                Some(g) if g.low > RISE_MIN => ", though a small rise is certain",
                _ => "",
            };
            format!("O(1) within {}%{span}: {growth}{rise}", digits(within * 100.0))
        }
        Outcome::Grows { .. } => {
            let symbol = judgement.fit.as_ref().map_or("", |fit| fit.symbol.as_str());
            let rivals: Vec<&str> = judgement.rivals.iter().map(|r| r.symbol.as_str()).collect();
            let or = match rivals.len() {
                0 => String::new(),
                few if few <= RIVALS_MAX => format!(" (or {})", rivals.join(", ")),
                many => format!(" (but {many} other laws fit these passes as well)"),
            };
            format!("{symbol}{or}: {formula}; {growth}{span}")
        }
        Outcome::NoSimpleLaw => {
            let local = judgement.exponent.map_or(String::new(), |e| {
                if is_exact {
                    return format!("; at the top like N^{}", digits(e.value));
                }
                let (low, high) = (digits(e.low), digits(e.high));
                format!("; at the top like N^{} ({low} to {high})", digits(e.value))
            });
            let verb = match judgement.growth {
                Some(g) if is_exact && g.value < 1.02 => "changes",
                Some(g) if g.low > 1.0 => "grows",
                _ => "changes",
            };
            format!("{verb}, no simple law: {growth}{span}{local}")
        }
        Outcome::Shrinks => format!("falls as n rises: {growth}{span}"),
        Outcome::Inconclusive { reason, more_passes } => {
            format!("inconclusive: {}{}", reason_words(*reason, &growth), more(*more_passes))
        }
    }
}

/// A constant that was counted: to the instruction, or between which costs.
fn exact_constant(judgement: &Judgement, within: f64, span: &str) -> String {
    let points = || judgement.points.iter().filter(|point| point.judged).map(|point| point.ns.value);
    let (low, high) = (points().fold(f64::MAX, f64::min), points().fold(0.0, f64::max));
    let costs = judgement.unit.costs(low, high);
    if within == 0.0 { format!("O(1), exactly {costs}{span}") } else { format!("O(1): {costs}{span}") }
}

/// What is counted has no error; passes may differ all the same.
fn growth_words(growth: Estimate, is_exact: bool) -> String {
    let (value, low, high) = (digits(growth.value), digits(growth.low), digits(growth.high));
    if is_exact {
        return if low == high { format!("×{value}") } else { format!("×{value} (passes: ×{low} to ×{high})") };
    }
    format!("×{value} (90% interval {low} to {high})")
}

fn reason_words(reason: Reason, growth: &str) -> String {
    match reason {
        Reason::TooFewPoints => "too few points".to_owned(),
        Reason::TooFewPasses => "one pass alone has no error to judge by".to_owned(),
        Reason::TooNoisy => format!("{growth} is neither shown flat nor shown to grow by a law"),
        Reason::Strays => format!("{growth} from end to end, but a point between lies further off than is allowed"),
        Reason::Canary => "the canary moved as much as the thing measured".to_owned(),
    }
}

fn more(passes: Option<u32>) -> String {
    passes.map_or(String::new(), |k| format!("; about {k} more pass{} would settle it", if k == 1 { "" } else { "es" }))
}

fn cliff_words(cliff: &Cliff) -> String {
    let mark = cliff.mark.as_ref().map_or(String::new(), |mark| format!(" ({mark})"));
    format!(
        "cliff at {}{mark}: ×{} at once, ×{} over the start",
        count(cliff.n.value),
        digits(cliff.factor),
        digits(cliff.factor_over_start)
    )
}
