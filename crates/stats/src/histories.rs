//! Measures how often change points are right, on simulated histories: how often one is reported where there is none,
//! and how soon a lasting shift is found.
//!
//! A record of a simulated history is the level times a log-normal error. The error has the same size for all records,
//! and is independent of, or correlated with, that of the previous record. `between_runs` in `landau-report` lists the
//! errors of real runs: 2% for most system calls, up to 50% if the call includes a wake-up on another processor.

use crate::change_points::change_points;
use crate::random::Random;

/// Largest share of the collections without a change that may show one.
pub const PROMISE: f64 = 0.05;
/// The level of the tests that keeps the promise. The correlation of a history is estimated with an error: at a level
/// of 4%, 5.3% of the histories of 30 records that are correlated by 0.3 show a change.
pub const LEVEL: f64 = 0.035;
/// Share of the disturbed records in a disturbed history, and the size of a disturbance (in logarithms).
const DISTURBED: (f64, f64) = (0.05, 0.5);
/// Largest distance, in records, of a reported change from its true place.
const NEAR: usize = 2;

/// Histories of one kind, and the changes that were reported for them.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Standard deviation of the records, on the log scale.
    pub deviation: f64,
    /// Whether one record in twenty was disturbed, which multiplies its cost by 1.6.
    pub is_disturbed: bool,
    /// Correlation of the errors of successive records (an autoregression of the first order).
    pub correlation: f64,
    /// Number of records before the shift, or of all records if there is none.
    pub before: usize,
    /// Number of records at the new level.
    pub after: usize,
    /// The shift, as a fraction; 0 for none.
    pub shift: f64,
    /// Number of simulated histories.
    pub histories: usize,
    /// Number of histories in which a change is reported that does not exist, or farther than two records from its
    /// place.
    pub wrong: usize,
    /// Number of histories in which the shift is reported at most two records from its place.
    pub found: usize,
}

impl Row {
    /// Returns the share of the histories in which a change is reported that does not exist, or at another place.
    pub fn share_wrong(&self) -> f64 {
        self.wrong as f64 / self.histories.max(1) as f64
    }

    /// Returns the share of the histories in which the shift is found.
    pub fn share_found(&self) -> f64 {
        self.found as f64 / self.histories.max(1) as f64
    }
}

/// Simulates `histories` of each kind. Every history has its own seed, counted from `seed`.
pub fn tally(histories: usize, seed: u64) -> Vec<Row> {
    let none = [6, 12, 30, 100, 300].into_iter().flat_map(|before| {
        [(0.02, false), (0.02, true), (0.3, false)].map(|(deviation, is_disturbed)| (deviation, is_disturbed, before))
    });
    let none = none.map(|(deviation, is_disturbed, before)| (deviation, is_disturbed, before, 0, 0.0));
    let shifts = [
        (0.02, false, 10, 5, 0.05),
        (0.02, false, 20, 3, 0.05),
        (0.02, false, 20, 5, 0.05),
        (0.02, false, 30, 5, 0.05),
        (0.02, true, 30, 5, 0.05),
        (0.02, false, 40, 5, 0.05),
        (0.02, false, 50, 5, 0.05),
        (0.02, false, 100, 5, 0.05),
        (0.02, false, 20, 10, 0.05),
        (0.03, false, 20, 5, 0.05),
        (0.05, false, 20, 5, 0.05),
        (0.05, false, 20, 5, 0.15),
        (0.3, false, 20, 5, 1.0),
    ];
    let independent = none.chain(shifts).map(|kind| (kind, 0.0));
    let correlated = [0.15, 0.3].into_iter().flat_map(|correlation| {
        let none = [6, 12, 30, 100, 300].map(|before| (before, 0, 0.0));
        let kinds = none.into_iter().chain([(40, 5, 0.05), (40, 10, 0.05)]);
        kinds.map(move |(before, after, shift)| ((0.02, false, before, after, shift), correlation))
    });
    let every = independent.chain(correlated).enumerate();
    every
        .map(|(index, (kind, correlation))| {
            row(kind, correlation, histories, seed.wrapping_add(1_000_003 * index as u64))
        })
        .collect()
}

fn row(kind: (f64, bool, usize, usize, f64), correlation: f64, histories: usize, seed: u64) -> Row {
    let (deviation, is_disturbed, before, after, shift) = kind;
    let mut row = Row { deviation, is_disturbed, correlation, before, after, shift, histories, wrong: 0, found: 0 };
    for trial in 0..histories {
        let values = simulate(&row, seed.wrapping_add(trial as u64));
        let told = change_points(&values, 0.0, 1, LEVEL);
        let is_near = |index: usize| after > 0 && index.abs_diff(before) <= NEAR;
        row.found += usize::from(told.iter().any(|change| is_near(change.index)));
        row.wrong += usize::from(told.iter().any(|change| !is_near(change.index)));
    }
    row
}

fn simulate(row: &Row, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    let mut error = 0.0;
    let value = |index: usize| {
        let level = if index < row.before { 0.0 } else { row.shift.ln_1p() };
        let own = row.deviation * random.normal();
        // The first error has the same variance as the others.
        let share = if index == 0 { 0.0 } else { row.correlation };
        error = share * error + (1.0 - share * share).sqrt() * own;
        let is_hit = random.uniform() < DISTURBED.0 && row.is_disturbed;
        level + error + if is_hit { DISTURBED.1 } else { 0.0 }
    };
    (0..row.before + row.after).map(value).collect()
}

/// Returns the rows as Markdown, in percent.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = "| records | differ by | shift | changes reported elsewhere | shift found |\n\
                    |---|--:|--:|--:|--:|\n"
        .to_owned();
    for row in rows {
        let records = match row.after {
            0 => row.before.to_string(),
            after => format!("{} and {after}", row.before),
        };
        let disturbed = if row.is_disturbed { ", one in 20 disturbed" } else { "" };
        let correlated =
            if row.correlation > 0.0 { format!(", correlated by {}", row.correlation) } else { String::new() };
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        let (shift, found) = match row.after {
            0 => ("–".to_owned(), "–".to_owned()),
            _ => (format!("{:.0}%", row.shift * 100.0), percent(row.share_found())),
        };
        let deviation = row.deviation * 100.0;
        let wrong = percent(row.share_wrong());
        text.extend([format!(
            "| {records} | {deviation:.0}%{disturbed}{correlated} | {shift} | {wrong} | {found} |\n"
        )]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a method that takes chance for a change, or finds fewer shifts than promised. `cargo xtask bench
    /// history` measures the same with 1,000 histories of each kind. With 200, the limits are three standard deviations
    /// away.
    #[test]
    fn changes_are_rarely_invented_and_seldom_missed() {
        let rows = tally(200, 2026);
        for row in rows.iter().filter(|row| row.after == 0) {
            assert!(row.share_wrong() <= PROMISE + 3.0 * (PROMISE * (1.0 - PROMISE) / 200.0).sqrt(), "{row:?}");
        }
        let promised = rows.iter().find(|row| (row.before, row.after, row.is_disturbed) == (50, 5, false)).unwrap();
        assert!((promised.deviation, promised.shift) == (0.02, 0.05) && promised.share_found() >= 0.84, "{promised:?}");
    }
}
