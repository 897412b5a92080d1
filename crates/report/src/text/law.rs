//! Laws as formulas: "O(n)", "1.02 µs + 0.31 ns × n".

use crate::quantity::{FormatCost, Unit, count};
use landau_stats::{Fit, Judgement, Outcome};

/// Returns the symbol of a law: "O(log n)". `law` is its name in `landau-stats`.
pub fn symbol(law: &str) -> &'static str {
    match law {
        "constant" => "O(1)",
        "logarithmic" => "O(log n)",
        "root" => "O(√n)",
        "linear" => "O(n)",
        "linearithmic" => "O(n log n)",
        "power" => "O(n√n)",
        "quadratic" => "O(n²)",
        "occupancy" => "O(1/(1 − n/C))",
        "probing" => "O(1/(1 − n/C)²)",
        "step" => "O(1) with one step",
        "knee" => "O(1) then O(n)",
        "tiers" => "O(n) with two slopes",
        _ => "unknown law",
    }
}

/// Returns the term by which the slope of a smooth law is multiplied.
fn term(law: &str) -> &'static str {
    match law {
        "logarithmic" => "log₂ n",
        "root" => "√n",
        "linearithmic" => "n log₂ n",
        "power" => "n√n",
        "quadratic" => "n²",
        _ => "n",
    }
}

/// Returns the symbol of a judgement's law; `None` if no law is named.
pub(crate) fn symbol_of(judged: &Judgement) -> Option<&'static str> {
    match judged.outcome {
        Outcome::Flat { .. } => Some(symbol("constant")),
        Outcome::Grows { law: Some(_) } => judged.fit.as_ref().map(|fit| symbol(&fit.law)),
        _ => None,
    }
}

/// Formats a fitted law with its coefficients: "1.02 µs + 0.31 ns × n", "1,410 instructions + 337 × n".
pub fn formula(fit: &Fit, unit: Unit) -> String {
    let fixed = unit.cost(fit.fixed.value);
    let Some(slope) = fit.slope.map(|slope| slope.value) else { return fixed };
    let rise = unit.slope(slope);
    let at = count(fit.location.unwrap_or(0.0));
    // A fixed part below a thousandth of a nanosecond is the edge of the search, not a cost.
    let has_fixed = fit.fixed.value >= 1e-3;
    let head = if has_fixed { format!("{fixed} + ") } else { String::new() };
    let first = if !has_fixed && unit == Unit::Instructions { format!("{rise} instructions") } else { rise.clone() };
    match fit.law.as_str() {
        "step" => format!("{fixed} below n = {at}, {} from there", unit.cost(fit.fixed.value + slope)),
        "knee" => format!("{fixed} up to n = {at}, then + {rise} × (n − {at})"),
        "occupancy" => format!("{head}{first}/(1 − n/C), C = {at}"),
        "probing" => format!("{head}{first}/(1 − n/C)², C = {at}"),
        "tiers" => {
            let upper = unit.slope(slope * fit.ratio.unwrap_or(1.0));
            format!("{head}{first} × n, rising to {upper} × n around n ≈ {at}")
        }
        law => format!("{head}{first} × {}", term(law)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_stats::Estimate;

    fn fit(law: &str) -> Fit {
        Fit {
            law: law.to_owned(),
            fixed: Estimate::bare(1020.0),
            slope: (law != "constant").then(|| Estimate::bare(0.31)),
            location: Some(5000.0),
            ratio: (law == "tiers").then_some(4.0),
            delta_bic: 0.0,
            rms_residual: 0.0,
            lack_of_fit_p: None,
        }
    }

    /// Guards against a new law without a symbol.
    #[test]
    fn every_law_has_a_symbol() {
        for law in landau_stats::law_names() {
            assert!(symbol(law).starts_with('O'), "{law}");
        }
    }

    #[test]
    fn formulas_state_coefficients_and_locations() {
        let text = |law: &str| formula(&fit(law), Unit::Time);
        assert_eq!(text("constant"), "1.02 µs");
        assert_eq!(text("linear"), "1.02 µs + 0.31 ns × n");
        assert_eq!(text("logarithmic"), "1.02 µs + 0.31 ns × log₂ n");
        assert_eq!(text("step"), "1.02 µs below n = 5,000, 1.02 µs from there");
        assert_eq!(text("knee"), "1.02 µs up to n = 5,000, then + 0.31 ns × (n − 5,000)");
        assert_eq!(text("tiers"), "1.02 µs + 0.31 ns × n, rising to 1.24 ns × n around n ≈ 5,000");
        assert_eq!(text("occupancy"), "1.02 µs + 0.31 ns/(1 − n/C), C = 5,000");
        let exact = Fit { fixed: Estimate::bare(0.0), slope: Some(Estimate::bare(337.0)), ..fit("linear") };
        assert_eq!(formula(&exact, Unit::Instructions), "337 instructions × n");
    }
}
