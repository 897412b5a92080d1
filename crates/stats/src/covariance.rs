//! The covariance of the points, and least squares under it.
//!
//! The error of a point is not independent of that of the next one: each pass drifts along its length, as a line and as
//! a random walk. A smooth deviation of half a percent is then not unusual. With independent errors of the same size,
//! which average out over the points, it would be significant evidence for another law.

/// A covariance matrix of the points.
#[derive(Clone)]
pub(crate) struct Covariance {
    size: usize,
    /// Row by row.
    values: Vec<f64>,
}

impl Covariance {
    /// Returns the matrix with these elements.
    pub(crate) fn of(size: usize, element: impl Fn(usize, usize) -> f64) -> Self {
        let values = (0..size * size).map(|at| element(at / size, at % size)).collect();
        Self { size, values }
    }

    pub(crate) fn at(&self, i: usize, j: usize) -> f64 {
        self.values[i * self.size + j]
    }

    /// Adds to the variance of one point.
    pub(crate) fn add(&mut self, j: usize, variance: f64) {
        self.values[j * self.size + j] += variance;
    }

    /// Returns the matrix of the points for which `keep` is true.
    pub(crate) fn filtered(&self, keep: &[bool]) -> Self {
        let kept: Vec<usize> = (0..self.size).filter(|j| keep[*j]).collect();
        Self::of(kept.len(), |i, j| self.at(kept[i], kept[j]))
    }

    /// Returns the variance of a weighted sum of the points.
    pub(crate) fn of_sum(&self, weights: &[f64]) -> f64 {
        let row = |i: usize| weights.iter().enumerate().map(|(j, w)| w * self.at(i, j)).sum::<f64>();
        weights.iter().enumerate().map(|(i, w)| w * row(i)).sum()
    }

    /// Returns the mean variance of a point around the mean of all points.
    pub(crate) fn about_mean(&self) -> f64 {
        let size = self.size as f64;
        let trace: f64 = (0..self.size).map(|j| self.at(j, j)).sum();
        (trace - self.values.iter().sum::<f64>() / size) / size
    }
}

/// The Cholesky factor of a covariance.
pub(crate) struct Factor {
    size: usize,
    /// Row by row.
    values: Vec<f64>,
}

impl Factor {
    pub(crate) fn of(covariance: &Covariance) -> Self {
        Self { size: covariance.size, values: cholesky(covariance) }
    }

    /// Returns the logarithm of the determinant of the covariance.
    pub(crate) fn log_determinant(&self) -> f64 {
        (0..self.size).map(|j| 2.0 * self.values[j * self.size + j].ln()).sum()
    }

    /// The values with independent errors of one.
    pub(crate) fn whiten(&self, values: &[f64]) -> Vec<f64> {
        let mut white = Vec::with_capacity(self.size);
        for (i, value) in values.iter().enumerate() {
            let row = &self.values[i * self.size..];
            white.push((value - dot(&row[..i], &white)) / row[i]);
        }
        white
    }
}

/// Largest number of points that need no allocation.
const FEW: usize = 64;

/// The inverse of a covariance, for use with many vectors: transforms points into values with independent errors of
/// one.
#[derive(Clone)]
pub(crate) struct Whitener {
    size: usize,
    /// The columns of the inverse of the Cholesky factor, each from the diagonal down.
    columns: Vec<f64>,
    /// The whitened constant level of one.
    ones: Vec<f64>,
    /// The square of its length.
    ones_square: f64,
}

impl Whitener {
    pub(crate) fn new(covariance: &Covariance) -> Self {
        let size = covariance.size;
        let factor = cholesky(covariance);
        let mut columns = Vec::with_capacity(size * (size + 1) / 2);
        for j in 0..size {
            // The column j of the inverse solves factor · x = unit vector j.
            let mut column = vec![0.0; size];
            for i in j..size {
                let known: f64 = (j..i).map(|k| factor[i * size + k] * column[k]).sum();
                column[i] = (f64::from(u8::from(i == j)) - known) / factor[i * size + i];
            }
            columns.extend_from_slice(&column[j..]);
        }
        let mut all = Self { size, columns, ones: Vec::new(), ones_square: 0.0 };
        all.ones = all.whiten(&vec![1.0; size]);
        all.ones_square = dot(&all.ones, &all.ones);
        all
    }

    /// The values with independent errors of one.
    pub(crate) fn whiten(&self, values: &[f64]) -> Vec<f64> {
        let mut white = vec![0.0; self.size];
        self.whiten_into(values, &mut white);
        white
    }

    /// Adds the whitened values to `white`, which must be zero.
    fn whiten_into(&self, values: &[f64], white: &mut [f64]) {
        let mut rest = self.columns.as_slice();
        for (j, value) in values.iter().enumerate() {
            let (column, others) = rest.split_at(self.size - j);
            rest = others;
            white[j..].iter_mut().zip(column).for_each(|(x, element)| *x += element * value);
        }
    }

    /// Returns the inverse of the covariance times a vector, given in whitened form.
    pub(crate) fn inverse_of(&self, white: &[f64]) -> Vec<f64> {
        let mut rest = self.columns.as_slice();
        let of = |j: usize| {
            let (column, others) = rest.split_at(self.size - j);
            rest = others;
            dot(column, &white[j..])
        };
        (0..self.size).map(of).collect()
    }

    /// Returns the level of the values, and the sum of the squared whitened residuals.
    pub(crate) fn level(&self, values: &[f64]) -> (f64, f64) {
        // This is the innermost step of every fit; for most curves it needs no allocation.
        let (mut few, mut many) = ([0.0; FEW], Vec::new());
        let white = if self.size <= FEW {
            &mut few[..self.size]
        } else {
            many.resize(self.size, 0.0);
            &mut many
        };
        self.whiten_into(values, white);
        let product = dot(white, &self.ones);
        let mean = product / self.ones_square;
        (mean, (dot(white, white) - mean * product).max(0.0))
    }

    /// Returns the whitened values without their level.
    pub(crate) fn without_level(&self, values: &[f64]) -> Vec<f64> {
        let mut white = self.whiten(values);
        let mean = dot(&white, &self.ones) / self.ones_square;
        white.iter_mut().zip(&self.ones).for_each(|(x, one)| *x -= mean * one);
        white
    }
}

/// Returns the sum of the products.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Four independent sums, which the compiler can vectorise.
    let mut sums = [0.0; 4];
    let (a_parts, a_rest) = a.as_chunks::<4>();
    let (b_parts, b_rest) = b.as_chunks::<4>();
    for (a, b) in a_parts.iter().zip(b_parts) {
        for i in 0..4 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest
}

/// Returns the lower triangular factor, row by row.
fn cholesky(covariance: &Covariance) -> Vec<f64> {
    let size = covariance.size;
    let mut factor = vec![0.0; size * size];
    for i in 0..size {
        for j in 0..=i {
            let (above, row) = factor.split_at(i * size);
            let known = if i == j { dot(&row[..j], &row[..j]) } else { dot(&row[..j], &above[j * size..j * size + j]) };
            let rest = covariance.at(i, j) - known;
            factor[i * size + j] =
                if i == j { rest.max(f64::MIN_POSITIVE).sqrt() } else { rest / factor[j * size + j] };
        }
    }
    factor
}

/// Solves a small system by Gaussian elimination with partial pivoting.
pub(crate) fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for k in 0..size {
        let pivot = (k..size).max_by(|a, b| matrix[*a][k].abs().total_cmp(&matrix[*b][k].abs())).unwrap_or(k);
        matrix.swap(k, pivot);
        right.swap(k, pivot);
        if matrix[k][k].abs() < f64::MIN_POSITIVE {
            continue;
        }
        for i in k + 1..size {
            let factor = matrix[i][k] / matrix[k][k];
            let (above, below) = matrix.split_at_mut(i);
            for (x, pivot) in below[0].iter_mut().zip(&above[k]).skip(k) {
                *x -= factor * pivot;
            }
            right[i] -= factor * right[k];
        }
    }
    for k in (0..size).rev() {
        let rest: f64 = (k + 1..size).map(|j| matrix[k][j] * right[j]).sum();
        right[k] = if matrix[k][k].abs() < f64::MIN_POSITIVE { 0.0 } else { (right[k] - rest) / matrix[k][k] };
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a whitener that is not the inverse: the covariance of whitened values is the identity.
    #[test]
    fn whitened_values_are_independent() {
        let covariance =
            Covariance::of(6, |i, j| 0.3 * i.min(j) as f64 + f64::from(u8::from(i == j)) * (1.0 + i as f64));
        let whitener = Whitener::new(&covariance);
        let column = |j: usize| (0..6).map(|i| covariance.at(i, j)).collect::<Vec<f64>>();
        for j in 0..6 {
            let unit: Vec<f64> = (0..6).map(|i| f64::from(u8::from(i == j))).collect();
            // The inverse times the column j is the unit vector j.
            let found = whitener.inverse_of(&whitener.whiten(&column(j)));
            assert!(found.iter().zip(&unit).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        }
        let (mean, square) = whitener.level(&[2.5; 6]);
        assert!((mean - 2.5).abs() < 1e-12 && square < 1e-12);
    }

    /// Guards against a determinant of the wrong matrix.
    #[test]
    fn the_determinant_is_that_of_the_covariance() {
        let factor = Factor::of(&Covariance::of(2, |i, j| if i == j { 2.0 } else { 1.0 }));
        assert!((factor.log_determinant() - 3.0_f64.ln()).abs() < 1e-12);
    }
}
