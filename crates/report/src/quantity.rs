//! Numbers as a reader wants them: three digits, a unit, thousands apart.
//!
//! Durations and counts are worded by `landau-stats`, so that a figure reads alike in a sentence, a table and a chart;
//! what only a reader of the whole needs is added here.

pub use landau_stats::Unit;
pub use landau_stats::words::{count, digits, duration, durations};

/// A factor: "×1,600", "×3.2", "×1.04".
pub fn factor(x: f64) -> String {
    format!("×{}", digits(x))
}

/// A fraction in per cent: "2.5%".
pub fn percent(fraction: f64) -> String {
    format!("{}%", digits(fraction * 100.0))
}

/// A size in memory: "31.3 GiB".
pub fn bytes(size: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = size as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", digits(value), units[unit])
}

/// An ordinal: "14,117th".
pub fn ordinal(n: f64) -> String {
    let whole = n.round() as u64;
    let ending = match (whole % 10, whole % 100) {
        (1, tens) if tens != 11 => "st",
        (2, tens) if tens != 12 => "nd",
        (3, tens) if tens != 13 => "rd",
        _ => "th",
    };
    format!("{}{ending}", count(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_a_person_writes_them() {
        let shown = [duration(180.0), duration(1020.0), duration(999.7), duration(1_753_000.0), duration(0.0)];
        assert_eq!(shown, ["180 ns", "1.02 µs", "1 µs", "1.75 ms", "0 ns"]);
        assert_eq!(durations(1.3e6, 20e6), "1.3–20 ms");
        assert_eq!(durations(900.0, 2000.0), "900 ns–2 µs");
        assert_eq!(durations(900.2, 900.4), "900 ns");
        assert_eq!(factor(1602.0), "×1,602");
        assert_eq!(percent(0.025), "2.5%");
        assert_eq!(bytes(2 << 30), "2 GiB");
        assert_eq!(
            [ordinal(1.0), ordinal(12.0), ordinal(112.0), ordinal(14_117.0)],
            ["1st", "12th", "112th", "14,117th"]
        );
        assert_eq!(ordinal(23.0), "23rd");
    }
}
