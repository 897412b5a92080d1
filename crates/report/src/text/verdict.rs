//! A judgement in one sentence.

use super::law;
use crate::quantity::{FormatCost, Unit, count, counts, digits, factor, percent};
use landau_record::schema::PhaseResult;
use landau_stats::{Cliff, Estimate, Judgement, Options, Outcome, Reason};

/// A significant increase below half a percent is usually the clock's step, and not worth a word.
const INCREASE_MIN: f64 = 1.005;
/// More rivals than this are counted and not listed: the law is then not identified.
const RIVALS_MAX: usize = 3;

/// The judgement in one sentence, for a table cell or a chart's description.
pub fn sentence(judged: &Judgement) -> String {
    let head = head(judged);
    match judged.cliffs.first() {
        Some(cliff) => format!("{}; below it: {head}", cliff_text(cliff)),
        None => head,
    }
}

/// The judgement that a record holds for a phase, in one sentence; `None` if it cannot be read.
pub fn of_result(result: &PhaseResult) -> Option<String> {
    let judged = serde_json::from_value::<Judgement>(result.verdict["all"].clone()).ok()?;
    Some(sentence(&judged))
}

fn head(judged: &Judgement) -> String {
    let range = judged.range.map_or(String::new(), |(low, high)| format!(" for n = {}", counts(low, high)));
    let is_exact = judged.unit == Unit::Instructions;
    let growth = judged.growth.map_or(String::new(), |growth| format!("growth {}", growth_text(growth, is_exact)));
    match &judged.outcome {
        Outcome::Constant { within } if is_exact => exact_constant(judged, *within, &range),
        Outcome::Constant { within } => {
            let increase = match judged.growth {
                Some(growth) if growth.low > INCREASE_MIN => "; slight but significant increase",
                _ => "",
            };
            format!("O(1) within {}{range}: {growth}{increase}", percent(*within))
        }
        Outcome::Grows { .. } => format!("{}; {growth}{range}", law_text(judged)),
        Outcome::NoSimpleLaw => {
            let local = judged.exponent.map_or(String::new(), |exponent| exponent_text(exponent, is_exact));
            format!("{}, no simple law: {growth}{range}{local}", verb(judged))
        }
        Outcome::Decreases => format!("decreases: {growth}{range}"),
        Outcome::Inconclusive { reason, more_passes } => {
            let more = more_passes.map_or(String::new(), |passes| {
                format!("; about {passes} more pass{} needed", if passes == 1 { "" } else { "es" })
            });
            format!("inconclusive: {}{more}", reason_text(*reason, &growth))
        }
    }
}

/// The law with its formula and its rivals: "O(n) or O(n log n): 656 ns + 140 ns × n".
pub(crate) fn law_text(judged: &Judgement) -> String {
    let Some(fit) = &judged.fit else { return String::new() };
    let (symbol, formula) = (law::symbol(&fit.law), law::formula(fit, judged.unit));
    let rivals: Vec<&str> = judged.rivals.iter().map(|rival| law::symbol(&rival.law)).collect();
    match rivals.len() {
        0 => format!("{symbol}: {formula}"),
        few if few <= RIVALS_MAX => format!("{symbol} (or {}): {formula}", rivals.join(" or ")),
        many => format!("{} laws fit equally well, best {symbol}: {formula}", many + 1),
    }
}

/// Whether the cost grows or decreases, where the interval of the growth shows it; "varies" where it does not.
pub(crate) fn verb(judged: &Judgement) -> &'static str {
    match (&judged.outcome, judged.growth) {
        (Outcome::Grows { .. }, _) => "grows",
        (Outcome::Decreases, _) => "decreases",
        // Counted costs have no interval: ends that differ by less than 2% are alike.
        (_, Some(growth)) if judged.unit == Unit::Instructions && growth.value.ln().abs() < 0.02 => "varies",
        (_, Some(growth)) if growth.low > 1.0 => "grows",
        (_, Some(growth)) if growth.high < 1.0 => "decreases",
        _ => "varies",
    }
}

/// A counted constant: to the instruction, or the range of its costs.
fn exact_constant(judged: &Judgement, within: f64, range: &str) -> String {
    let points = || judged.points.iter().filter(|point| point.judged).map(|point| point.cost.value);
    let (low, high) = (points().fold(f64::MAX, f64::min), points().fold(0.0, f64::max));
    let costs = judged.unit.costs(low, high);
    if within == 0.0 { format!("O(1), exactly {costs}{range}") } else { format!("O(1): {costs}{range}") }
}

/// The growth with its interval: "×28.9 (90% CI 23.2–36.1)". Counted costs have the range of the passes.
pub(crate) fn growth_text(growth: Estimate, is_exact: bool) -> String {
    let (low, high) = (digits(growth.low), digits(growth.high));
    let value = factor(growth.value);
    match (is_exact, low == high) {
        (true, true) => value,
        (true, false) => format!("{value} (passes ×{low}–×{high})"),
        (false, _) => format!("{value} (90% CI {low}–{high})"),
    }
}

fn exponent_text(exponent: Estimate, is_exact: bool) -> String {
    let value = digits(exponent.value);
    if is_exact {
        return format!("; n^{value} over the last decade of n");
    }
    format!("; n^{value} over the last decade of n (95% CI {}–{})", digits(exponent.low), digits(exponent.high))
}

fn reason_text(reason: Reason, growth: &str) -> String {
    match reason {
        Reason::TooFewPoints => "too few points".to_owned(),
        Reason::TooFewPasses => "a single pass has no error estimate".to_owned(),
        Reason::TooNoisy => format!("passes differ too much to tell O(1) from a change, {growth}"),
        Reason::PointDeviates => {
            let delta = percent(Options::default().delta);
            format!("{growth}, but an intermediate point deviates by more than {delta}")
        }
        Reason::CanaryMoved => "the canary changed as much as the measured call".to_owned(),
    }
}

fn cliff_text(cliff: &Cliff) -> String {
    let annotation = cliff.annotation.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    format!(
        "cliff at n = {}{annotation}: {} across the jump, {} relative to small n",
        count(cliff.n.value),
        factor(cliff.factor),
        factor(cliff.factor_over_start)
    )
}
