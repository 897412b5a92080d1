//! Number formats: three significant digits, a unit, thousands separated.
//!
//! Every figure in a sentence, a table or a chart is formatted here, so that one number reads the same everywhere.

pub use landau_stats::Unit;

/// Formats costs in their unit.
pub trait FormatCost {
    /// Formats a cost: "1.02 µs", "1,742 instructions".
    fn cost(self, cost: f64) -> String;

    /// Formats a cost whose unit, unless it is a time, is stated elsewhere: "1.02 µs", "1,742".
    fn bare(self, cost: f64) -> String;

    /// Formats a range of costs with the unit stated once: "1.3–20 ms", "1,742–1,780 instructions".
    fn costs(self, low: f64, high: f64) -> String;

    /// Formats the slope of a law: nanoseconds below a microsecond ("0.31 ns"), a bare number of instructions ("337").
    fn slope(self, slope: f64) -> String;
}

impl FormatCost for Unit {
    fn cost(self, cost: f64) -> String {
        match self {
            Unit::Time | Unit::EmulatedTime => duration(cost),
            Unit::Instructions => format!("{} instructions", self.bare(cost)),
        }
    }

    fn bare(self, cost: f64) -> String {
        match self {
            Unit::Time | Unit::EmulatedTime => duration(cost),
            Unit::Instructions if cost.fract().abs() < 1e-9 => count(cost),
            Unit::Instructions => digits(cost),
        }
    }

    fn costs(self, low: f64, high: f64) -> String {
        match self {
            Unit::Time | Unit::EmulatedTime => durations(low, high),
            Unit::Instructions if self.bare(low) == self.bare(high) => self.cost(low),
            Unit::Instructions => format!("{}–{}", self.bare(low), self.cost(high)),
        }
    }

    fn slope(self, slope: f64) -> String {
        match self {
            Unit::Time | Unit::EmulatedTime if slope < 999.5 => format!("{} ns", digits(slope)),
            Unit::Time | Unit::EmulatedTime => duration(slope),
            Unit::Instructions => self.bare(slope),
        }
    }
}

/// Formats a duration with three digits: "310 ns", "1.02 µs", "1.75 ms".
pub fn duration(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        x if x < 999.5 => (ns, "ns"),
        x if x < 999.5e3 => (ns / 1e3, "µs"),
        x if x < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// Formats three significant digits; all digits of larger integers; scientific notation below 0.001 and from 1e15.
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

/// Formats an integer with its thousands separated: "14,117".
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

/// Formats a range of durations, with the unit once if both ends share it: "1.3–20 ms".
pub fn durations(low: f64, high: f64) -> String {
    let (a, b) = (duration(low), duration(high));
    match (a.split_once(' '), b.split_once(' ')) {
        _ if a == b => a,
        (Some((x, unit)), Some((_, other))) if unit == other => format!("{x}–{b}"),
        _ => format!("{a}–{b}"),
    }
}

/// Formats a range of counts, or a single count: "886–2,003".
pub fn counts(low: f64, high: f64) -> String {
    let (low, high) = (count(low), count(high));
    if low == high { low } else { format!("{low}–{high}") }
}

/// Formats a number with its noun: "1 pass", "5 passes".
pub fn numbered(number: usize, one: &str, more: &str) -> String {
    format!("{} {}", count(number as f64), if number == 1 { one } else { more })
}

/// Formats a factor: "×1,600", "×3.2", "×1.04".
pub fn factor(x: f64) -> String {
    format!("×{}", digits(x))
}

/// Formats a ratio of costs as a change: "×6.5" from two on, "+23%", "−12%", "=".
pub fn change(ratio: f64) -> String {
    match ratio {
        ratio if (ratio - 1.0).abs() < 0.0005 => "=".to_owned(),
        ratio if ratio >= 2.0 => factor(ratio),
        ratio if ratio >= 1.0 => format!("+{}", percent(ratio - 1.0)),
        ratio => format!("−{}", saved(ratio)),
    }
}

/// Formats a fraction as a percentage: "2.5%".
pub fn percent(fraction: f64) -> String {
    format!("{}%", digits(fraction * 100.0))
}

/// The memory sizes that two kernels report for one machine may differ by one part in this many.
const MEMORY_KEPT: u64 = 32;

/// Returns whether two sizes are of one machine: each kernel reserves a little of the memory.
pub(crate) fn is_same_memory(size: u64, other: u64) -> bool {
    size.abs_diff(other) <= size.max(other) / MEMORY_KEPT
}

/// Formats the saving for a ratio of costs below one: "12%", with as many digits as needed to differ from "100%":
/// "99.97%".
pub fn saved(ratio: f64) -> String {
    let (saved, left) = ((1.0 - ratio) * 100.0, ratio * 100.0);
    // Rounded to three digits, a saving from here on is "100".
    if saved < 99.95 || left <= 0.0 {
        return percent(1.0 - ratio);
    }
    let places = (-left.log10()).ceil().clamp(2.0, 12.0) as usize;
    format!("{}%", format!("{saved:.places$}").trim_end_matches('0'))
}

/// Formats a size in bytes: "31.3 GiB".
pub fn bytes(size: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = size as f64;
    let mut unit = 0;
    // Bytes are whole. In a larger unit, values from 1,023.5 on would be rounded to 1,024.
    let limit = |unit: usize| if unit == 0 { 1024.0 } else { 1023.5 };
    while value >= limit(unit) && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", digits(value), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a unit that is too small or too large at the edges, and against missing thousands separators.
    #[test]
    fn numbers_have_three_digits_and_the_fitting_unit() {
        let shown = [180.0, 1020.0, 999.7, 1_753_000.0, 0.0].map(duration);
        assert_eq!(shown, ["180 ns", "1.02 µs", "1 µs", "1.75 ms", "0 ns"]);
        assert_eq!([digits(0.31), digits(999.4), digits(999.7)], ["0.31", "999", "1,000"]);
        assert_eq!([count(14_117.0), count(999.0)], ["14,117", "999"]);
        assert_eq!([counts(886.0, 2003.0), counts(7.0, 7.0)], ["886–2,003", "7"]);
        assert_eq!(factor(1602.0), "×1,602");
        assert_eq!(percent(0.025), "2.5%");
        assert_eq!(bytes(2 << 30), "2 GiB");
    }

    /// Guards against "1,024 KiB".
    #[test]
    fn a_size_just_below_a_unit_is_told_in_that_unit() {
        assert_eq!([1023, 1024].map(bytes), ["1,023 B", "1 KiB"]);
        assert_eq!([(1 << 20) - 1, (1 << 20) - 512, (1 << 20) - 700].map(bytes), ["1 MiB", "1 MiB", "1,023 KiB"]);
        assert_eq!([(1 << 40) - 1, 1 << 50].map(bytes), ["1 TiB", "1,024 TiB"]);
    }

    /// Guards against "100% less" for a cost that is not zero.
    #[test]
    fn a_small_ratio_saves_less_than_everything() {
        let ratios = [0.88, 0.02, 0.0006, 0.0005, 0.0003, 9.9e-6, 1e-6];
        assert_eq!(ratios.map(saved), ["12%", "98%", "99.9%", "99.95%", "99.97%", "99.999%", "99.9999%"]);
        assert_eq!([0.0003, 0.0].map(change), ["−99.97%", "−100%"]);
    }

    #[test]
    fn a_ratio_is_a_factor_from_two_on_and_a_percentage_below() {
        assert_eq!([6.5, 1.23, 0.88, 0.02, 1.0].map(change), ["×6.5", "+23%", "−12%", "−98%", "="]);
    }

    #[test]
    fn a_range_states_a_shared_unit_once() {
        assert_eq!(durations(1.3e6, 20e6), "1.3–20 ms");
        assert_eq!(durations(900.0, 2000.0), "900 ns–2 µs");
        assert_eq!(durations(900.2, 900.4), "900 ns");
        let counted = Unit::Instructions;
        assert_eq!([counted.cost(1742.0), counted.bare(44.02)], ["1,742 instructions", "44"]);
        assert_eq!(counted.costs(1742.0, 1780.0), "1,742–1,780 instructions");
        assert_eq!(counted.costs(337.0, 337.0), "337 instructions");
        assert_eq!(Unit::Time.costs(1.3e6, 20e6), "1.3–20 ms");
    }
}
