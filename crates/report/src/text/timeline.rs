//! Texts for a timeline: its rate, and the effect of an event.

use crate::quantity::{count, digits};
use crate::timeline::{Rate, TimelineStudy};
use std::fmt::Write as _;

/// Returns a sentence: "412 MB/s (380–430) over 64 MiB; 400 MB/s (350–420) from MiB 33 on (second reader starts)".
pub fn timeline(study: &TimelineStudy<'_>) -> String {
    let Some(whole) = study.rate() else { return "no samples".to_owned() };
    let passes = study.passes.len();
    let plural = if passes == 1 { "" } else { "es" };
    let steps = study.sections.last().map_or(0, |section| section.last);
    let mut text = format!("{} over {} {}, {passes} pass{plural}", rate(whole), count(f64::from(steps)), study.axis);
    for section in study.sections.iter().filter(|_| study.sections.len() > 1) {
        let place = match section.event {
            Some(event) => format!("from {} on ({event})", count(f64::from(section.first))),
            None => format!("up to {}", count(f64::from(section.last))),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "; {} {place}", rate(section.rate));
    }
    text
}

/// Returns a rate with the slowest and the fastest pass: "412 MB/s (380–430)".
pub fn rate(rate: Rate) -> String {
    let megabytes = |bytes: f64| digits(bytes / 1e6);
    format!("{} MB/s ({}–{})", megabytes(rate.median), megabytes(rate.min), megabytes(rate.max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_names_the_slowest_and_the_fastest_pass() {
        assert_eq!(rate(Rate { median: 4.123e8, min: 3.8e8, max: 4.3e8 }), "412 MB/s (380–430)");
        assert_eq!(rate(Rate { median: 4e6, min: 3.95e6, max: 4.05e6 }), "4 MB/s (3.95–4.05)");
    }
}
