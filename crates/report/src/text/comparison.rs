//! A comparison of two records in words.

use super::law::symbol_of;
use crate::quantity::{factor, percent};
use landau_stats::{Agreement, Comparison, Estimate, Nature, Unit};

/// The result, with the names of both sides: "new costs 12% less than old (95% CI 10%–14%), at every n". `gain` is the
/// fraction by which the winner is cheaper.
pub(crate) fn comparison(
    (winner, loser): (&str, &str),
    gain: Estimate,
    (base, other): (&str, &str),
    comparison: &Comparison,
) -> String {
    let by = percent(gain.value);
    let nature = nature(base, other, comparison);
    if comparison.a.all.unit == Unit::Instructions {
        return format!("{winner} executes {by} fewer instructions than {loser}{nature}");
    }
    let (low, high) = (percent(gain.low.max(0.0)), percent(gain.high));
    format!("{winner} costs {by} less than {loser} (95% CI {low}–{high}){nature}")
}

/// Law or constant: ", by a constant factor", "; the law differs: O(1) in old, O(n) in new". Empty if that is not
/// shown.
fn nature(base: &str, other: &str, comparison: &Comparison) -> String {
    match (comparison.nature, comparison.growth_ratio) {
        (Nature::Factor, _) => ", by a constant factor".to_owned(),
        (Nature::Amount, _) => ", by a constant amount".to_owned(),
        (Nature::Law, growth) => match (symbol_of(&comparison.a.all), symbol_of(&comparison.b.all), growth) {
            (Some(a), Some(b), _) if a != b && comparison.same_law == Agreement::Different => {
                format!("; the law differs: {a} in {base}, {b} in {other}")
            }
            (_, _, Some(growth)) => format!("; {other} grows {} as much as {base}", factor(growth.value)),
            _ => "; the law differs".to_owned(),
        },
        (Nature::Inconclusive, _) => String::new(),
    }
}

/// The result where neither record is shown to be cheaper.
pub(crate) fn no_difference(comparison: &Comparison) -> String {
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
            format!("no significant difference at 95% (minimum detectable: {})", percent(detectable))
        }
        (Some(_), None) => "no significant difference at 95%".to_owned(),
        (None, _) => "not comparable: both records need at least two passes and a common range of n".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fit, interval, verdict};
    use super::*;
    use landau_stats::{Change, Outcome};

    fn compared(unit: Unit, ratio: Option<Estimate>, detectable: Option<f64>) -> Comparison {
        let blank = Comparison::undecided(verdict(unit, &[]), verdict(unit, &[]));
        Comparison { ratio, ratio_start: ratio, ratio_end: ratio, detectable, ..blank }
    }

    #[test]
    fn a_winner_is_named_with_its_gain() {
        let gain = interval(0.1, 0.12, 0.14);
        let told = |unit| comparison(("new", "old"), gain, ("old", "new"), &compared(unit, None, None));
        assert_eq!(told(Unit::Time), "new costs 12% less than old (95% CI 10%–14%)");
        assert_eq!(told(Unit::Instructions), "new executes 12% fewer instructions than old");
    }

    #[test]
    fn law_or_constant_is_told_with_the_winner() {
        let gain = interval(0.1, 0.12, 0.14);
        let base = "new costs 12% less than old (95% CI 10%–14%)";
        let told = |one: Comparison| comparison(("new", "old"), gain, ("old", "new"), &one);
        let of = |nature| Comparison { nature, ..compared(Unit::Time, None, None) };
        assert_eq!(told(of(Nature::Factor)), format!("{base}, by a constant factor"));
        let growth_ratio = Some(interval(1.2, 1.3, 1.4));
        let steeper = Comparison { growth_ratio, ..of(Nature::Law) };
        assert_eq!(told(steeper.clone()), format!("{base}; new grows ×1.3 as much as old"));
        let mut other = Comparison { same_law: Agreement::Different, ..steeper };
        other.a.all.outcome = Outcome::Flat { within: 0.1 };
        other.b.all.outcome = Outcome::Grows { law: Some("linear".to_owned()) };
        other.b.all.fit = Some(fit("linear", 900.0, Some(1.0)));
        assert_eq!(told(other), format!("{base}; the law differs: O(1) in old, O(n) in new"));
    }

    #[test]
    fn each_lack_of_a_difference_has_its_words() {
        let (time, exact) = (Unit::Time, Unit::Instructions);
        let ratio = |value| Some(interval(value - 0.01, value, value + 0.01));
        let none = "not comparable: both records need at least two passes and a common range of n";
        let cases = vec![
            (compared(time, None, None), none),
            (compared(exact, None, None), none),
            (compared(time, ratio(0.99), None), "no significant difference at 95%"),
            (compared(time, ratio(0.99), Some(0.05)), "no significant difference at 95% (minimum detectable: 5%)"),
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
