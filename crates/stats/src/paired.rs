//! Means of values with one number for each pass, such as ratios or differences of paired passes.

use crate::Estimate;
use crate::growth::student;

/// Returns the mean with its 95% confidence interval by Student's t. A single value says nothing about the spread, so
/// its interval is unbounded (null in JSON) and contains every number.
pub fn mean(values: &[f64]) -> Option<Estimate> {
    let count = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if values.len() == 1 {
        return Some(Estimate { value: mean, low: f64::NEG_INFINITY, high: f64::INFINITY });
    }
    let half = student(0.975, count - 1.0) * (squares / (count - 1.0) / count).sqrt();
    Some(Estimate { value: mean, low: mean - half, high: mean + half })
}

/// Returns the geometric mean with its 95% confidence interval. Values that are not positive have no logarithm and are
/// left out.
pub fn geometric_mean(values: &[f64]) -> Option<Estimate> {
    let logarithms: Vec<f64> = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
    mean(&logarithms).map(|estimate| estimate.map(f64::exp))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 1, 2, 3, 4, 5 have the mean 3 and the standard error √(2.5/5); t(0.975, 4) is 2.7764.
    #[test]
    fn the_interval_is_that_of_students_t() {
        let estimate = mean(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let half = 2.776_445 * 0.5f64.sqrt();
        assert!((estimate.value - 3.0).abs() < 1e-12);
        assert!((estimate.low - (3.0 - half)).abs() < 1e-4 && (estimate.high - (3.0 + half)).abs() < 1e-4);
        assert_eq!(mean(&[]), None);
    }

    /// Guards against treating the value of one pass as certain.
    #[test]
    fn the_interval_of_one_value_holds_every_number() {
        let one = mean(&[7.0]).unwrap();
        assert!((one.value - 7.0).abs() < 1e-12 && one.holds(0.0) && one.holds(1e300));
        let ratio = geometric_mean(&[7.0]).unwrap();
        assert!((ratio.value - 7.0).abs() < 1e-12 && ratio.holds(1e-300) && ratio.holds(1e300));
    }

    /// A ratio and its inverse must be equivalent.
    #[test]
    fn a_geometric_mean_of_inverses_is_the_inverse() {
        let ratios = [2.0, 3.0, 2.5];
        let (one, other) = (geometric_mean(&ratios).unwrap(), geometric_mean(&ratios.map(|r| 1.0 / r)).unwrap());
        assert!((one.value * other.value - 1.0).abs() < 1e-12 && (one.low * other.high - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[0.0]), None);
    }
}
