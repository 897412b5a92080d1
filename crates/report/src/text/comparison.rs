//! A comparison of two curves in words: how much more or less, at which n, and whether the law or only a constant
//! differs.

use super::law::symbol_of;
use crate::Shown;
use crate::quantity::{change, count, digits, factor, percent, saved};
use landau_stats::{Agreement, Comparison, Estimate, Nature, Unit};

/// Describes the result with the names of both sides: "new costs 12% less than old at n = 980 (95% CI 10%–14%), by a
/// constant factor". `proven` is the ratio of `other` to `base` if a difference is proven.
pub(crate) fn comparison(comparison: &Comparison, proven: Option<Shown>, base: &str, other: &str) -> String {
    let Some(shown) = proven else { return no_difference(comparison) };
    let place =
        shown.n.map_or(" on average over the common range of n".to_owned(), |n| format!(" at n = {}", count(n)));
    let clause = clause(comparison, base, other);
    if comparison.a.all.unit == Unit::Instructions {
        let by = relative(shown.ratio.value).replace("as much as", "as many instructions as");
        let by = by.replace("more than", "more instructions than").replace("less than", "fewer instructions than");
        return format!("{other} executes {by} {base}{place}{clause}");
    }
    format!("{other} costs {} {base}{place} (95% CI {}){clause}", relative(shown.ratio.value), interval(shown.ratio))
}

/// Formats a ratio of costs in words: "6.5 times as much as", "23% more than", "98% less than".
fn relative(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 2.0 => format!("{} times as much as", digits(ratio)),
        ratio if ratio >= 1.0 => format!("{} more than", percent(ratio - 1.0)),
        ratio => format!("{} less than", saved(ratio)),
    }
}

/// Formats a ratio of costs in words if the other side is named elsewhere: "6.5 times as much", "23% more".
pub(crate) fn by(ratio: f64) -> String {
    let text = relative(ratio);
    text.trim_end_matches(" than").trim_end_matches(" as").to_owned()
}

/// Formats the ratio for a cell: "×6.5", "+23%"; "ø +23%" if it is the mean over the common range of n.
pub(crate) fn ratio(shown: Shown) -> String {
    format!("{}{}", if shown.n.is_some() { "" } else { "ø " }, change(shown.ratio.value))
}

/// Formats the smallest difference that would have been detected: "5%", "×3.1" from 100% on.
pub(crate) fn detectable(fraction: f64) -> String {
    if fraction < 1.0 { percent(fraction) } else { factor(1.0 + fraction) }
}

/// Formats a ratio with its interval: "×1.23 (1.1–1.3)"; counted costs have none.
pub(crate) fn ratio_with_interval(ratio: Estimate, unit: Unit) -> String {
    match unit {
        Unit::Instructions => factor(ratio.value),
        _ => format!("{} ({}–{})", factor(ratio.value), digits(ratio.low), digits(ratio.high)),
    }
}

/// Formats the interval of a ratio in the form of its value: "10%–14%", "6.1–6.8".
fn interval(ratio: Estimate) -> String {
    let (low, high) = match ratio.value {
        value if value >= 2.0 => (digits(ratio.low), digits(ratio.high)),
        value if value >= 1.0 => (percent((ratio.low - 1.0).max(0.0)), percent(ratio.high - 1.0)),
        _ => (saved(ratio.high.min(1.0)), saved(ratio.low)),
    };
    format!("{low}–{high}")
}

/// How a difference depends on n, from [`Comparison::nature`]; it is put into words only here.
enum Difference {
    /// One costs the same multiple of the other at every n.
    Factor,
    /// One costs the same amount more at every n.
    Amount,
    /// The laws differ.
    Laws(&'static str, &'static str),
    /// The growth differs by this factor.
    Growth(f64),
    /// The law or the growth differs, without a name or a number.
    Unnamed,
    /// Not proven.
    NotShown,
}

fn difference(comparison: &Comparison) -> Difference {
    match (comparison.nature, comparison.growth_ratio) {
        (Nature::Factor, _) => Difference::Factor,
        (Nature::Amount, _) => Difference::Amount,
        (Nature::Law, growth) => match (named(comparison, false), named(comparison, true), growth) {
            (Some(a), Some(b), _) if a != b && comparison.same_law == Agreement::Different => Difference::Laws(a, b),
            (_, _, Some(growth)) => Difference::Growth(growth.value),
            _ => Difference::Unnamed,
        },
        (Nature::Inconclusive, _) => Difference::NotShown,
    }
}

/// Returns the law of the base or of the other.
fn named(comparison: &Comparison, is_other: bool) -> Option<&'static str> {
    symbol_of(if is_other { &comparison.b.all } else { &comparison.a.all })
}

/// Describes whether the law or a constant differs, to follow the result: ", by a constant factor", "; the law differs:
/// O(1) in old, O(n) in new". Empty if that is not proven.
fn clause(comparison: &Comparison, base: &str, other: &str) -> String {
    match difference(comparison) {
        Difference::Factor => ", by a constant factor".to_owned(),
        Difference::Amount => ", by a constant amount".to_owned(),
        Difference::Laws(a, b) => format!("; the law differs: {a} in {base}, {b} in {other}"),
        Difference::Growth(growth) => format!("; {other} grows {} as much as {base}", factor(growth)),
        Difference::Unnamed => "; the law differs".to_owned(),
        Difference::NotShown => String::new(),
    }
}

/// Describes whether the law or a constant differs, as a sentence of a finding.
pub(crate) fn law_or_constant(comparison: &Comparison, base: &str, other: &str) -> String {
    let same = named(comparison, true).filter(|symbol| named(comparison, false) == Some(*symbol));
    let same = same.map_or(String::new(), |symbol| format!(" ({symbol})"));
    match difference(comparison) {
        Difference::Factor => format!("The law is the same{same}; a constant factor differs."),
        Difference::Amount => format!("The law is the same{same}; a constant amount differs."),
        Difference::Laws(a, b) => format!("The law differs: {a} in {base}, {b} in {other}."),
        Difference::Growth(growth) => format!("In {other} it grows {} as much as in {base}.", factor(growth)),
        Difference::Unnamed => "The law differs.".to_owned(),
        Difference::NotShown => "Whether the law differs is not shown by these passes.".to_owned(),
    }
}

/// Describes whether the law or a constant differs, for a cell: "constant factor", "O(1) → O(n)", "growth ×1.3".
pub(crate) fn law_or_constant_short(comparison: &Comparison) -> String {
    match difference(comparison) {
        Difference::Factor => "constant factor".to_owned(),
        Difference::Amount => "constant amount".to_owned(),
        Difference::Laws(a, b) => format!("{a} → {b}"),
        Difference::Growth(growth) => format!("growth {}", factor(growth)),
        Difference::Unnamed => "law".to_owned(),
        Difference::NotShown => "not shown".to_owned(),
    }
}

/// Describes the result if neither record is provably cheaper.
fn no_difference(comparison: &Comparison) -> String {
    let is_exact = comparison.a.all.unit == Unit::Instructions;
    match (comparison.ratio, comparison.detectable) {
        (Some(ratio), _) if is_exact => {
            let all = [comparison.ratio_start, Some(ratio), comparison.ratio_end];
            if all.iter().flatten().all(|one| (one.value - 1.0).abs() < 1e-12) {
                "identical".to_owned()
            } else {
                format!("no relevant difference: {} of the base", percent(ratio.value))
            }
        }
        (Some(_), Some(detectable)) => {
            format!("no difference proven at 95% ({} would have been detected)", self::detectable(detectable))
        }
        (Some(_), None) => "no difference proven at 95%".to_owned(),
        (None, _) => "not comparable: both records need at least two passes and a common range of n".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fit, interval, verdict};
    use super::*;
    use landau_stats::Outcome;

    fn compared(unit: Unit, ratio: Option<Estimate>, detectable: Option<f64>) -> Comparison {
        let blank = Comparison::undecided(verdict(unit, &[]), verdict(unit, &[]));
        Comparison { ratio, ratio_start: ratio, ratio_end: ratio, detectable, ..blank }
    }

    fn shown(ratio: Estimate, n: Option<f64>) -> Shown {
        Shown { ratio, n, is_opposite: false }
    }

    #[test]
    fn a_difference_is_told_from_the_base_with_its_interval_and_its_place() {
        let told = |unit, ratio, n| comparison(&compared(unit, None, None), Some(shown(ratio, n)), "old", "new");
        let (less, more, times) = (interval(0.86, 0.88, 0.9), interval(1.1, 1.23, 1.3), interval(6.1, 6.5, 6.8));
        assert_eq!(told(Unit::Time, less, Some(980.0)), "new costs 12% less than old at n = 980 (95% CI 10%–14%)");
        assert_eq!(told(Unit::Time, more, Some(980.0)), "new costs 23% more than old at n = 980 (95% CI 10%–30%)");
        let mean = "new costs 6.5 times as much as old on average over the common range of n (95% CI 6.1–6.8)";
        assert_eq!(told(Unit::Time, times, None), mean);
        let exact = [less, more, times].map(|ratio| told(Unit::Instructions, ratio, Some(980.0)));
        assert_eq!(exact[0], "new executes 12% fewer instructions than old at n = 980");
        assert_eq!(exact[1], "new executes 23% more instructions than old at n = 980");
        assert_eq!(exact[2], "new executes 6.5 times as many instructions as old at n = 980");
        assert_eq!([0.02, 1.23, 6.5].map(by), ["98% less", "23% more", "6.5 times as much"]);
        let tiny = interval(0.000_2, 0.000_3, 0.000_4);
        assert_eq!(
            told(Unit::Time, tiny, Some(980.0)),
            "new costs 99.97% less than old at n = 980 (95% CI 99.96%–99.98%)"
        );
    }

    /// Guards against a sentence, a cell and a finding that describe one difference differently.
    #[test]
    fn law_or_constant_is_the_same_in_sentences_cells_and_findings() {
        let base = "new costs 12% less than old at n = 980 (95% CI 10%–14%)";
        let told = |one: &Comparison| {
            let words = comparison(one, Some(shown(interval(0.86, 0.88, 0.9), Some(980.0))), "old", "new");
            let clause = words.strip_prefix(base).unwrap().to_owned();
            [clause, law_or_constant(one, "old", "new"), law_or_constant_short(one)]
        };
        let of = |nature| Comparison { nature, ..compared(Unit::Time, None, None) };
        let factor =
            [", by a constant factor", "The law is the same (O(1)); a constant factor differs.", "constant factor"];
        assert_eq!(told(&of(Nature::Factor)), factor);
        let amount =
            [", by a constant amount", "The law is the same (O(1)); a constant amount differs.", "constant amount"];
        assert_eq!(told(&of(Nature::Amount)), amount);
        let unknown = ["", "Whether the law differs is not shown by these passes.", "not shown"];
        assert_eq!(told(&of(Nature::Inconclusive)), unknown);
        let growth_ratio = Some(interval(1.2, 1.3, 1.4));
        let steeper = Comparison { growth_ratio, ..of(Nature::Law) };
        let growth = ["; new grows ×1.3 as much as old", "In new it grows ×1.3 as much as in old.", "growth ×1.3"];
        assert_eq!(told(&steeper), growth);
        let mut other = Comparison { same_law: Agreement::Different, ..steeper };
        other.a.all.outcome = Outcome::Flat { within: 0.1 };
        other.b.all.outcome = Outcome::Grows { law: Some("linear".to_owned()) };
        other.b.all.fit = Some(fit("linear", 900.0, Some(1.0)));
        let laws = [
            "; the law differs: O(1) in old, O(n) in new",
            "The law differs: O(1) in old, O(n) in new.",
            "O(1) → O(n)",
        ];
        assert_eq!(told(&other), laws);
    }

    #[test]
    fn each_lack_of_a_difference_has_its_words() {
        let (time, exact) = (Unit::Time, Unit::Instructions);
        let ratio = |value| Some(interval(value - 0.01, value, value + 0.01));
        let none = "not comparable: both records need at least two passes and a common range of n";
        let cases = vec![
            (compared(time, None, None), none),
            (compared(exact, None, None), none),
            (compared(time, ratio(0.99), None), "no difference proven at 95%"),
            (compared(time, ratio(0.99), Some(0.05)), "no difference proven at 95% (5% would have been detected)"),
            (compared(exact, ratio(1.0), Some(0.0)), "identical"),
            (compared(exact, ratio(1.01), None), "no relevant difference: 101% of the base"),
            (
                Comparison { ratio_end: ratio(1.01), ..compared(exact, ratio(1.0), None) },
                "no relevant difference: 100% of the base",
            ),
        ];
        for (compared, words) in cases {
            assert_eq!(no_difference(&compared), words);
        }
    }
}
