//! A judgement in one sentence.

use super::law;
use crate::quantity::{FormatCost, Unit, count, counts, digits, factor, percent};
use landau_stats::{Cliff, Estimate, Judgement, Options, Outcome, Reason};

/// Maximum number of rivals that are listed. If there are more, they are counted: the law is then not identified.
const RIVALS_MAX: usize = 3;

/// Returns the judgement in one sentence, for a table cell or a chart's description.
pub fn sentence(judged: &Judgement) -> String {
    let jump =
        judged.jump_before.map(|ratio| format!("; the cost jumps by {} just before the judged range", factor(ratio)));
    let head = head(judged) + &jump.unwrap_or_default();
    match judged.cliffs.as_slice() {
        [] => head,
        cliffs => {
            let cliffs: Vec<String> = cliffs.iter().map(|cliff| cliff_text(cliff, judged.unit)).collect();
            format!("{}; below it: {head}", cliffs.join("; "))
        }
    }
}

fn head(judged: &Judgement) -> String {
    let range = judged.range.map_or(String::new(), |(low, high)| format!(" for n = {}", counts(low, high)));
    let is_exact = judged.unit == Unit::Instructions;
    let growth = |separator: char| {
        judged.growth.map_or(String::new(), |growth| format!("{separator} growth {}", growth_text(growth, is_exact)))
    };
    match &judged.outcome {
        Outcome::Flat { within } if is_exact => exact_constant(judged, *within, &range),
        Outcome::Flat { within } => format!("O(1) within {}{range}{}", percent(*within), growth(':')),
        Outcome::Small => format!("{}{range}{}", small(), growth(':')),
        Outcome::Grows { law: Some(_) } => format!("grows, {}{}{range}", law_text(judged), growth(';')),
        Outcome::Grows { law: None } => {
            format!("grows, no simple law{}{range}{}", growth(':'), local(judged, is_exact))
        }
        Outcome::Falls => format!("falls{}{range}", growth(':')),
        Outcome::Varies => format!("varies{}{range}{}", growth(':'), local(judged, is_exact)),
        Outcome::Unresolved { reason, more_passes } => {
            let growth = match reason {
                Reason::TooNoisy | Reason::PointDeviates | Reason::BranchShare | Reason::BranchCost => growth(';'),
                Reason::TooFewPoints | Reason::TooFewPasses | Reason::TooFewCalls | Reason::CanaryMoved => {
                    String::new()
                }
            };
            format!("{}: {}{growth}", unresolved(*more_passes), reason_text(*reason))
        }
    }
}

/// Formats the law with its formula and its rivals: "O(n) (or O(n log n)): 656 ns + 140 ns × n".
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

/// Describes the outcome of a cost that certainly changes by about δ: "changes by 5% to 15%".
pub(crate) fn small() -> String {
    let (least, most) = Options::default().small_change();
    format!("changes by {} to {}", percent(least), percent(most))
}

fn local(judged: &Judgement, is_exact: bool) -> String {
    judged.exponent.map_or(String::new(), |exponent| exponent_text(exponent, is_exact))
}

/// Describes a counted constant: exact to the instruction, or the range of its costs.
fn exact_constant(judged: &Judgement, within: f64, range: &str) -> String {
    let points = || judged.points.iter().filter(|point| point.judged).map(|point| point.cost.value);
    let (low, high) = (points().fold(f64::MAX, f64::min), points().fold(0.0, f64::max));
    let costs = judged.unit.costs(low, high);
    if within == 0.0 { format!("O(1), exactly {costs}{range}") } else { format!("O(1): {costs}{range}") }
}

/// If the interval of a growth contains 1 and its ends differ by more than this factor, it is uninformative: the cost
/// may have fallen to a tenth as well as grown tenfold.
const SPAN_MAX: f64 = 100.0;

/// Returns whether the interval of a growth is informative. Two passes of a curve with a cliff can give ×13
/// (0.06–2,800).
pub(crate) fn is_known(growth: Estimate) -> bool {
    !growth.holds(1.0) || growth.high <= SPAN_MAX * growth.low
}

/// Returns the growth of a judgement, if its interval is informative.
pub(crate) fn known_growth(judged: &Judgement) -> Option<Estimate> {
    judged.growth.filter(|growth| is_known(*growth))
}

/// Formats the growth as the complement of a verb: "grows ×28.9 (90% CI 23.2–36.1)", "grows by a factor that is not
/// known".
pub(crate) fn growth_words(growth: Estimate, is_exact: bool) -> String {
    if is_known(growth) { growth_text(growth, is_exact) } else { "by a factor that is not known".to_owned() }
}

/// Formats the growth with its interval: "×28.9 (90% CI 23.2–36.1)". Counted costs have the range of the passes.
pub(crate) fn growth_text(growth: Estimate, is_exact: bool) -> String {
    if !is_known(growth) {
        return "not known".to_owned();
    }
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

/// Describes an unresolved outcome, with what would help: "not resolved (about 7 more passes)".
pub(crate) fn unresolved(more_passes: Option<u32>) -> String {
    format!("not resolved{}", more_passes_text(more_passes))
}

/// Describes what would settle the outcome: " (about 7 more passes)"; empty if passes do not help.
pub(crate) fn more_passes_text(more_passes: Option<u32>) -> String {
    match more_passes {
        None => String::new(),
        Some(1) => " (about 1 more pass)".to_owned(),
        Some(passes) => format!(" (about {} more passes)", count(f64::from(passes))),
    }
}

/// Describes the reason for an unresolved outcome.
pub(crate) fn reason_text(reason: Reason) -> String {
    match reason {
        Reason::TooFewPoints => "too few points".to_owned(),
        Reason::TooFewPasses => "a single pass has no error estimate".to_owned(),
        Reason::TooFewCalls => "too few calls".to_owned(),
        Reason::TooNoisy => "passes differ too much to tell O(1) from a change".to_owned(),
        Reason::PointDeviates => {
            let delta = percent(Options::default().delta);
            format!("an intermediate point deviates by more than {delta}")
        }
        Reason::CanaryMoved => "the canary changed as much as the measured call".to_owned(),
        Reason::BranchShare => "the share of the expensive branch is not known well enough".to_owned(),
        Reason::BranchCost => "the cost of the rarer branch is not known well enough".to_owned(),
    }
}

fn cliff_text(cliff: &Cliff, unit: Unit) -> String {
    let annotation = cliff.annotation.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    format!(
        "cliff at n = {}{annotation}: {} across the jump, from {} to {}, {} relative to small n",
        count(cliff.n.value),
        factor(cliff.factor),
        unit.cost(cliff_before(cliff, unit)),
        unit.cost(cliff.cost_after),
        factor(cliff.factor_over_start)
    )
}

/// Returns the cost just before a cliff.
pub(crate) fn cliff_before(cliff: &Cliff, unit: Unit) -> f64 {
    let before = cliff.cost_after / cliff.factor.max(f64::MIN_POSITIVE);
    if unit == Unit::Instructions { before.round() } else { before }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fit, interval, judgement};
    use super::*;

    const REASONS: [Reason; 7] = [
        Reason::TooFewPoints,
        Reason::TooFewPasses,
        Reason::TooNoisy,
        Reason::PointDeviates,
        Reason::CanaryMoved,
        Reason::BranchShare,
        Reason::BranchCost,
    ];

    fn linear(unit: Unit, rivals: &[&str]) -> Judgement {
        let rivals = rivals.iter().map(|law| fit(law, 0.0, Some(1.0))).collect();
        let fit = Some(fit("linear", 1410.0, Some(337.0)));
        Judgement { fit, rivals, ..judgement(unit, Outcome::Grows { law: Some("linear".to_owned()) }) }
    }

    /// Guards against "×13.2 (0.0634–2,769)", a number that reads like a result.
    #[test]
    fn an_interval_that_says_nothing_is_not_printed() {
        let nothing = interval(0.0634, 13.2, 2_769.0);
        assert_eq!(growth_text(nothing, false), "not known");
        assert_eq!(growth_words(nothing, false), "by a factor that is not known");
        let judged = Judgement { growth: Some(nothing), ..judgement(Unit::Time, Outcome::Grows { law: None }) };
        assert_eq!(sentence(&judged), "grows, no simple law: growth not known for n = 16–4,096");
        // An interval that certainly grows, or that is about constant, is informative.
        for told in [interval(2.0, 70.0, 2_000.0), interval(0.4, 1.0, 2.5), interval(0.2, 3.0, 19.0)] {
            assert!(growth_words(told, false).starts_with('×'), "{told:?}");
        }
    }

    /// Guards against a flat verdict that says nothing of a jump that Landau has found at its start.
    #[test]
    fn a_jump_before_the_judged_range_is_reported() {
        let judged = Judgement { jump_before: Some(1.7), ..judgement(Unit::Time, Outcome::Flat { within: 0.1 }) };
        let expected = "O(1) within 10% for n = 16–4,096: growth ×1.3 (90% CI 1.2–1.4); the cost jumps by ×1.7 just \
                        before the judged range";
        assert_eq!(sentence(&judged), expected);
    }

    #[test]
    fn each_outcome_has_its_sentence() {
        let (time, exact) = (Unit::Time, Unit::Instructions);
        let constant = |unit, within| judgement(unit, Outcome::Flat { within });
        let flat = Judgement { growth: Some(interval(0.98, 1.0, 1.02)), ..constant(time, 0.1) };
        let mut ranged = constant(exact, 0.01);
        ranged.points[1].cost = Estimate::bare(4124.0);
        let local =
            Judgement { exponent: Some(interval(1.5, 1.62, 1.7)), ..judgement(time, Outcome::Grows { law: None }) };
        let local_exact = Judgement { unit: exact, growth: Some(Estimate::bare(1.3)), ..local.clone() };
        let many = ["root", "logarithmic", "linearithmic", "quadratic"];
        let tail = "; growth ×1.3 (90% CI 1.2–1.4) for n = 16–4,096";
        let cases = [
            (flat, "O(1) within 10% for n = 16–4,096: growth ×1 (90% CI 0.98–1.02)".to_owned()),
            (
                constant(time, 0.5),
                "O(1) within 50% for n = 16–4,096: growth ×1.3 (90% CI 1.2–1.4)".to_owned(),
            ),
            (constant(exact, 0.0), "O(1), exactly 4,122 instructions for n = 16–4,096".to_owned()),
            (ranged, "O(1): 4,122–4,124 instructions for n = 16–4,096".to_owned()),
            (linear(time, &[]), format!("grows, O(n): 1.41 µs + 337 ns × n{tail}")),
            (
                linear(time, &["root", "quadratic"]),
                format!("grows, O(n) (or O(√n) or O(n²)): 1.41 µs + 337 ns × n{tail}"),
            ),
            (linear(time, &many), format!("grows, 5 laws fit equally well, best O(n): 1.41 µs + 337 ns × n{tail}")),
            (linear(exact, &[]), "grows, O(n): 1,410 instructions + 337 × n; growth ×1.3 for n = 16–4,096".to_owned()),
            (
                local,
                "grows, no simple law: growth ×1.3 (90% CI 1.2–1.4) for n = 16–4,096; n^1.62 over the last decade of n \
                 (95% CI 1.5–1.7)"
                    .to_owned(),
            ),
            (
                local_exact,
                "grows, no simple law: growth ×1.3 for n = 16–4,096; n^1.62 over the last decade of n".to_owned(),
            ),
            (
                judgement(time, Outcome::Small),
                "changes by 5% to 15% for n = 16–4,096: growth ×1.3 (90% CI 1.2–1.4)".to_owned(),
            ),
            (
                judgement(time, Outcome::Falls),
                "falls: growth ×1.3 (90% CI 1.2–1.4) for n = 16–4,096".to_owned(),
            ),
        ];
        for (judged, words) in cases {
            assert_eq!(sentence(&judged), words);
        }
    }

    #[test]
    fn unresolved_outcomes_state_the_reason_and_what_would_help() {
        let of = |reason, more_passes| sentence(&judgement(Unit::Time, Outcome::Unresolved { reason, more_passes }));
        let growth = "growth ×1.3 (90% CI 1.2–1.4)";
        let texts = REASONS.map(|reason| of(reason, None));
        assert_eq!(texts[0], "not resolved: too few points");
        assert_eq!(texts[1], "not resolved: a single pass has no error estimate");
        assert_eq!(texts[2], format!("not resolved: passes differ too much to tell O(1) from a change; {growth}"));
        assert_eq!(texts[3], format!("not resolved: an intermediate point deviates by more than 10%; {growth}"));
        assert_eq!(texts[4], "not resolved: the canary changed as much as the measured call");
        let share = "not resolved: the share of the expensive branch is not known well enough";
        assert_eq!(texts[5], format!("{share}; {growth}"));
        assert_eq!(texts[6], format!("not resolved: the cost of the rarer branch is not known well enough; {growth}"));
        for reason in REASONS {
            let head = |more| of(reason, more).split(": ").next().map(str::to_owned);
            assert_eq!(head(Some(1)).as_deref(), Some("not resolved (about 1 more pass)"));
            assert_eq!(head(Some(7)).as_deref(), Some("not resolved (about 7 more passes)"));
        }
    }

    /// Guards against empty cells and dangling separators if a judgement has nothing but its outcome.
    #[test]
    fn no_sentence_is_empty() {
        let unresolved = REASONS.map(|reason| Outcome::Unresolved { reason, more_passes: None });
        let others = [
            Outcome::Flat { within: 0.1 },
            Outcome::Small,
            Outcome::Grows { law: None },
            Outcome::Falls,
            Outcome::Varies,
        ];
        for outcome in unresolved.into_iter().chain(others) {
            for unit in [Unit::Time, Unit::EmulatedTime, Unit::Instructions] {
                let bare = Judgement { growth: None, range: None, ..judgement(unit, outcome.clone()) };
                let text = sentence(&bare);
                assert!(text.starts_with(char::is_alphabetic) && !text.ends_with([' ', ':', ';', ',']), "{text:?}");
            }
        }
    }

    #[test]
    fn a_cliff_comes_first() {
        let cliff = Cliff {
            n: Estimate::bare(14_114.0),
            factor: 12.0,
            factor_over_start: 3059.0,
            cost_after: 2.48e6,
            passes: 5,
            of: 5,
            annotation: Some("half the port range".to_owned()),
        };
        let judged = Judgement { cliffs: vec![cliff], ..judgement(Unit::Instructions, Outcome::Flat { within: 0.0 }) };
        assert_eq!(
            sentence(&judged),
            "cliff at n = 14,114 (half the port range): ×12 across the jump, from 206,667 instructions to 2,480,000 \
             instructions, ×3,059 relative to small n; below it: O(1), exactly 4,122 instructions for n = 16–4,096"
        );
    }
}
