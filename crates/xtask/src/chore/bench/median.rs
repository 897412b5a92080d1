//! Medians for tables.

use landau_stats::quantile::quantile;

/// Returns the median, or NaN if there are no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5).unwrap_or(f64::NAN)
}
