//! Curves reduced to the resolution of a chart.
//!
//! A chart is several hundred pixels wide, and a pass has ten thousand calls. So the axis is divided into columns,
//! narrow enough for a logarithmic and a linear axis. Each column keeps the lowest, median and highest call of each
//! pass, so that extremes are never lost, and the density of the costs of all calls.

use landau_stats::{Curve, Pass};

/// The columns of the logarithmic scale and of the linear one; at most 140 together, five pixels each on a wide screen.
const SCALE_COLUMNS: u32 = 70;
/// Rows of the density for each decade of cost.
const ROWS_PER_DECADE: f64 = 12.0;

/// The columns of a case: column i is `edges[i] <= n < edges[i + 1]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Columns {
    edges: Vec<u32>,
}

/// The calls of a pass in a column: lowest, median and highest cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kept {
    pub(crate) min: u64,
    pub(crate) median: f64,
    pub(crate) max: u64,
}

/// The number of calls by cost and column, over all passes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Density {
    /// Lower edge of the first row; each row is one twelfth of a decade.
    pub(crate) floor_cost: f64,
    /// For each column, the rows that have calls, with their numbers.
    pub(crate) cells: Vec<Vec<(u32, u32)>>,
}

impl Columns {
    /// Returns the columns for n from 1 to `largest`.
    pub(crate) fn up_to(largest: u32) -> Self {
        let last = largest.max(1);
        let linear = (0..SCALE_COLUMNS).map(|i| 1 + (u64::from(last) * u64::from(i) / u64::from(SCALE_COLUMNS)) as u32);
        let logarithmic =
            (0..SCALE_COLUMNS).map(|i| f64::from(last).powf(f64::from(i) / f64::from(SCALE_COLUMNS)).floor() as u32);
        let mut edges: Vec<u32> = linear.chain(logarithmic).map(|edge| edge.clamp(1, last)).collect();
        edges.push(last + 1);
        edges.sort_unstable();
        edges.dedup();
        Self { edges }
    }

    /// Returns the number of columns.
    pub(crate) fn len(&self) -> usize {
        self.edges.len() - 1
    }

    /// Returns the start of each column and the end of the last one.
    pub(crate) fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// Returns columns of twice the width, for two-dimensional histograms.
    pub(crate) fn paired(&self) -> Self {
        let last = self.edges.last().copied();
        let mut edges: Vec<u32> = self.edges[..self.len()].iter().step_by(2).copied().collect();
        edges.extend(last);
        Self { edges }
    }

    /// Returns the first and last n of a column.
    pub(crate) fn span(&self, column: usize) -> (u32, u32) {
        (self.edges[column], self.edges[column + 1] - 1)
    }

    /// Returns the n at which a column is drawn: the geometric mean of its first and last n.
    pub(crate) fn middle(&self, column: usize) -> f64 {
        let (first, last) = self.span(column);
        (f64::from(first) * f64::from(last)).sqrt()
    }

    fn of(&self, n: u32) -> Option<usize> {
        let after = self.edges.partition_point(|&edge| edge <= n);
        (after >= 1 && after < self.edges.len()).then(|| after - 1)
    }

    /// Returns the calls of a pass by column. An n of 0 counts as 1, where a logarithmic axis starts.
    fn gather(&self, pass: &Pass) -> Vec<Vec<u64>> {
        let mut held = vec![Vec::new(); self.len()];
        for (&n, &ns) in pass.n.iter().zip(&pass.costs) {
            if let Some(column) = self.of(n.max(1)) {
                held[column].push(ns);
            }
        }
        held
    }

    /// Returns a pass by column; `None` for a column without calls.
    pub(crate) fn keep(&self, pass: &Pass) -> Vec<Option<Kept>> {
        let reduced = self.gather(pass).into_iter().map(|mut calls| {
            calls.sort_unstable();
            let (min, max) = (*calls.first()?, *calls.last()?);
            let middle = (calls[(calls.len() - 1) / 2], calls[calls.len() / 2]);
            Some(Kept { min, median: f64::midpoint(middle.0 as f64, middle.1 as f64), max })
        });
        reduced.collect()
    }

    /// Returns the density of all calls of a curve.
    pub(crate) fn density(&self, curve: &Curve) -> Density {
        let lowest = curve.passes.iter().flat_map(|pass| &pass.costs).min().copied().unwrap_or(1);
        let floor = (lowest.max(1) as f64).log10() * ROWS_PER_DECADE;
        let floor = floor.floor();
        let mut cells = vec![std::collections::BTreeMap::<u32, u32>::new(); self.len()];
        for pass in &curve.passes {
            for (column, calls) in self.gather(pass).into_iter().enumerate() {
                for ns in calls {
                    let row = ((ns.max(1) as f64).log10() * ROWS_PER_DECADE - floor).floor().max(0.0) as u32;
                    *cells[column].entry(row).or_default() += 1;
                }
            }
        }
        let cells = cells.into_iter().map(|column| column.into_iter().collect()).collect();
        Density { floor_cost: 10f64.powf(floor / ROWS_PER_DECADE), cells }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(ns: impl Fn(u32) -> u64, last: u32) -> Pass {
        let n: Vec<u32> = (1..=last).collect();
        Pass { costs: n.iter().map(|&n| ns(n)).collect(), clean: vec![true; n.len()], n }
    }

    #[test]
    fn columns_cover_every_n_once_and_are_at_most_140() {
        for last in [1, 2, 7, 100, 4096, 14_117, 1_000_000] {
            let columns = Columns::up_to(last);
            assert!(columns.len() <= 2 * SCALE_COLUMNS as usize, "{} columns for {last}", columns.len());
            assert_eq!((columns.span(0).0, columns.span(columns.len() - 1).1), (1, last));
            for n in [1, 2, last / 3, last / 2, last].into_iter().filter(|&n| n >= 1 && n <= last) {
                let (first, until) = columns.span(columns.of(n).unwrap());
                assert!(first <= n && n <= until);
            }
            assert_eq!(columns.of(last + 1), None);
        }
    }

    #[test]
    fn the_extreme_calls_are_kept() {
        let one = pass(
            |n| {
                if n == 8192 {
                    20_000_000
                } else if n == 77 {
                    3
                } else {
                    2600
                }
            },
            10_000,
        );
        let kept: Vec<Kept> = Columns::up_to(10_000).keep(&one).into_iter().flatten().collect();
        assert_eq!(kept.iter().map(|kept| kept.max).max(), Some(20_000_000));
        assert_eq!(kept.iter().map(|kept| kept.min).min(), Some(3));
        assert!(kept.iter().all(|kept| (kept.median - 2600.0).abs() < 1300.0));
    }

    #[test]
    fn a_density_contains_every_call() {
        let curve = Curve { passes: vec![pass(|n| u64::from(n % 50) * 100, 5000); 3], annotations: Vec::new() };
        let density = Columns::up_to(5000).density(&curve);
        let total: u32 = density.cells.iter().flatten().map(|(_, count)| count).sum();
        assert_eq!(total, 15_000);
    }
}
