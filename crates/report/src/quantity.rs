//! Numbers as a reader wants them: three digits, a unit, thousands apart.
//!
//! The same look as in the sentences of `landau-stats`, so that a figure reads alike in a sentence, a table and a chart.

/// A duration in the unit that suits it, with three digits: "310 ns", "1.02 µs", "1.75 ms".
pub fn duration(ns: f64) -> String {
    let (value, unit) = split(ns);
    format!("{value} {unit}")
}

/// A range of durations that says the unit once where both ends share it: "1.3–20 ms".
pub fn durations(low: f64, high: f64) -> String {
    let ((a, unit), (b, other)) = (split(low), split(high));
    match (a == b, unit == other) {
        (true, true) => format!("{a} {unit}"),
        (false, true) => format!("{a}–{b} {unit}"),
        (_, false) => format!("{a} {unit}–{b} {other}"),
    }
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

/// Three significant digits, and more before the point where there are more.
pub fn digits(x: f64) -> String {
    let size = x.abs();
    if size >= 999.5 {
        return count(x);
    }
    let places = match size {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.995 || s == 0.0 => 2,
        s if s >= 0.0995 => 3,
        _ => 4,
    };
    let text = format!("{x:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn split(ns: f64) -> (String, &'static str) {
    let (value, unit) = match ns.abs() {
        x if x < 999.5 => (ns, "ns"),
        x if x < 999.5e3 => (ns / 1e3, "µs"),
        x if x < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    (digits(value), unit)
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
