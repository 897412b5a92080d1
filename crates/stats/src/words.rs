//! Numbers as a reader wants them: three digits, a unit, thousands apart.
//!
//! Public, so that a figure reads alike in a sentence of a verdict, in a table and on a page.

use serde::{Deserialize, Serialize};

/// What a cost counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds, measured: every figure has its error.
    #[default]
    Time,
    /// Instructions, counted exactly: what is seen is what is.
    Instructions,
}

impl Unit {
    /// Whether it is the unit that is not mentioned.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    pub(crate) fn is_time(&self) -> bool {
        *self == Unit::Time
    }

    /// A cost in words: "1.02 µs", "1,742 instructions".
    pub fn cost(self, cost: f64) -> String {
        match self {
            Unit::Time => duration(cost),
            Unit::Instructions => format!("{} instructions", self.bare(cost)),
        }
    }

    /// The same where the unit stands elsewhere: "1.02 µs", "1,742".
    pub fn bare(self, cost: f64) -> String {
        match self {
            Unit::Time => duration(cost),
            Unit::Instructions if cost.fract().abs() < 1e-9 => count(cost),
            Unit::Instructions => digits(cost),
        }
    }

    /// A range of costs that says the unit once: "1.3–20 ms", "1,742–1,780 instructions".
    pub fn costs(self, low: f64, high: f64) -> String {
        match self {
            Unit::Time => durations(low, high),
            Unit::Instructions if self.bare(low) == self.bare(high) => self.cost(low),
            Unit::Instructions => format!("{}–{}", self.bare(low), self.cost(high)),
        }
    }

    /// What one object more costs, behind a cost: "0.31 ns", "337".
    pub(crate) fn rise(self, slope: f64) -> String {
        match self {
            Unit::Time if slope < 999.5 => format!("{} ns", digits(slope)),
            Unit::Time => duration(slope),
            Unit::Instructions => self.bare(slope),
        }
    }
}

/// A duration in the unit that suits it, with three digits: "310 ns", "1.02 µs", "1.75 ms".
pub fn duration(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        x if x < 999.5 => (ns, "ns"),
        x if x < 999.5e3 => (ns / 1e3, "µs"),
        x if x < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// Three significant digits, and more before the point where there are more; tiny values in powers of ten.
pub fn digits(x: f64) -> String {
    let size = x.abs();
    if size >= 1e15 || (size > 0.0 && size < 1e-3) {
        return format!("{x:.2e}");
    }
    if size >= 999.5 {
        return count(x);
    }
    let places = match size {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.995 || s == 0.0 => 2,
        s if s >= 0.0995 => 3,
        s if s >= 0.00995 => 4,
        _ => 5,
    };
    let text = format!("{x:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A whole number with its thousands apart: "14,117".
pub fn count(x: f64) -> String {
    let plain = format!("{:.0}", x.abs());
    let mut text = String::from(if x <= -0.5 { "−" } else { "" });
    for (i, digit) in plain.chars().enumerate() {
        if i > 0 && (plain.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A range of durations that says the unit once where both ends share it: "1.3–20 ms".
pub fn durations(low: f64, high: f64) -> String {
    let (a, b) = (duration(low), duration(high));
    match (a.split_once(' '), b.split_once(' ')) {
        _ if a == b => a,
        (Some((x, unit)), Some((_, other))) if unit == other => format!("{x}–{b}"),
        _ => format!("{a}–{b}"),
    }
}

/// A fraction as a percentage with two digits: 0.025 gives "2.5".
pub(crate) fn percent(fraction: f64) -> String {
    let x = fraction * 100.0;
    if x < 10.0 { format!("{x:.1}") } else { format!("{x:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a unit too small or too large at the edges, and against lost thousands marks.
    #[test]
    fn numbers_read_well() {
        assert_eq!(duration(180.0), "180 ns");
        assert_eq!(duration(1020.0), "1.02 µs");
        assert_eq!(duration(999.7), "1 µs");
        assert_eq!(duration(1_753_000.0), "1.75 ms");
        assert_eq!(digits(0.31), "0.31");
        assert_eq!([digits(999.4), digits(999.7)], ["999", "1,000"]);
        assert_eq!(count(14_117.0), "14,117");
        assert_eq!(count(999.0), "999");
        assert_eq!(durations(1.3e6, 20e6), "1.3–20 ms");
        assert_eq!(durations(900.0, 2000.0), "900 ns–2 µs");
        let counted = Unit::Instructions;
        assert_eq!([counted.cost(1742.0), counted.bare(44.02)], ["1,742 instructions", "44"]);
        assert_eq!(counted.costs(1742.0, 1780.0), "1,742–1,780 instructions");
        assert_eq!(counted.costs(337.0, 337.0), "337 instructions");
        assert_eq!(Unit::Time.costs(1.3e6, 20e6), "1.3–20 ms");
    }
}
