//! Cells of the calibration, few trials each, at a seed that is neither the tuning seed nor that of the published
//! table.

use landau_stats::calibrate::{calibrate, row};
use landau_stats::simulate::Truth;

const TRIALS: usize = 20;
const SEED: u64 = 9_000_000;

/// Guards against a change that costs the dictionary its laws: each must be chosen or named in 18 of 20 curves.
#[test]
fn true_laws_are_named() {
    for truth in Truth::ALL.into_iter().filter(|truth| truth.law().is_some()) {
        for noise in [0.01, 0.04] {
            let row = row(truth, noise, TRIALS, SEED);
            // The logarithmic 6% sits at the edge of what nine passes at 4% can show.
            let least = if truth == Truth::Rise6Log { 0.8 } else { 0.9 };
            assert!(row.named >= least, "{row:?}");
            assert!(row.laws <= 2.5, "too many rivals: {row:?}");
        }
    }
}

/// Guards against the dictionary swallowing shapes that are not in it (without the lack-of-fit test all of them are).
#[test]
fn foreign_shapes_are_flagged() {
    for truth in Truth::ALL.into_iter().filter(|truth| truth.law().is_none()) {
        let row = row(truth, 0.04, TRIALS, SEED);
        assert!(row.no_law >= 0.95, "{row:?}");
    }
}

/// Guards against flat curves being called growing, the error that costs trust first.
#[test]
fn constants_do_not_grow() {
    let row = row(Truth::Constant, 0.04, 60, SEED);
    assert!(row.grows <= 0.02 && row.constant >= 0.95, "{row:?}");
}

/// Guards against a table that loses rows or columns on its way to the reader.
#[test]
fn the_table_has_a_line_for_each_row() {
    let table = calibrate(1, SEED);
    let lines: Vec<String> = table.markdown().lines().map(str::to_owned).collect();
    let body: Vec<&String> = lines.iter().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(body.len(), 2 * Truth::ALL.len());
    assert!(body.iter().all(|line| line.matches('|').count() == lines[2].matches('|').count()));
}
