//! Durations and sizes as users type them: `250ms`, `1h30m`, `64KiB`, `1GB`.
//!
//! Every flag, check and benchmark parameter parses durations and sizes with this crate, so that one spelling works
//! everywhere. A number without a unit is an error whose message suggests units, because tools disagree about its
//! meaning (seconds in curl, milliseconds in fio, minutes in `shutdown`). Zero needs no unit.

use jiff::fmt::friendly::SpanParser;
use parse_size::{ByteSuffix, Config};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The longest duration, a hundred years: a deadline this far away still fits the kernel's clocks.
pub const LONGEST: Duration = Duration::from_secs(876_000 * 3600);

/// The error for a text that is not a duration or size. The message does not repeat the text, because the caller has
/// it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is a number without a unit.
    #[error("the unit is missing; write {0}")]
    NoUnit(String),
    /// The text is not a duration.
    #[error("not a duration; write for example 250ms, 10s, 2m or 1h30m")]
    NotADuration,
    /// The text is not a size, or means more bytes than fit into a `u64`.
    #[error("not a size; write for example 512B, 64KiB, 10MiB or 1GB")]
    NotASize,
    /// The value is below the minimum.
    #[error("must be at least {0}")]
    TooLow(String),
    /// The value is above the maximum.
    #[error("must be at most {0}")]
    TooHigh(String),
}

/// Parses a duration such as `250ms`, `10s`, `2m` or `1h30m`.
///
/// Units are `ns`, `us`, `ms`, `s`, `m` and `h`, and their longer names (`10 minutes`); the last number may have a
/// fraction.
pub fn duration(text: &str) -> Result<Duration, Error> {
    if let Some(number) = bare(text) {
        return if is_zero(number) {
            Ok(Duration::ZERO)
        } else {
            Err(Error::NoUnit(format!("{number}s, {number}ms or {number}m")))
        };
    }
    let duration = SpanParser::new().parse_unsigned_duration(text.trim()).map_err(|_| Error::NotADuration)?;
    if duration > LONGEST { Err(Error::TooHigh(format_duration(LONGEST))) } else { Ok(duration) }
}

/// Parses a size such as `512B`, `64KiB`, `10MiB` or `1GB`, and returns the number of bytes.
///
/// `KiB` is 1,024 bytes and `KB` is 1,000. A size without the `B` is an error: `64K` means 64,000 to some tools and
/// 65,536 to others.
pub fn size(text: &str) -> Result<u64, Error> {
    if let Some(number) = bare(text) {
        return if is_zero(number) {
            Ok(0)
        } else {
            Err(Error::NoUnit(format!("{number}B, {number}KiB or {number}MiB")))
        };
    }
    if let Some(prefixed) = text.trim().strip_suffix(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T'])
        && let Some(number) = bare(prefixed)
    {
        let prefix = text.trim()[prefixed.len()..].to_uppercase();
        return Err(Error::NoUnit(format!("{number}{prefix}iB or {number}{prefix}B")));
    }
    // With exponents, `1e3B` would be too similar to the exabyte `1EB`.
    if text.contains(['e', '_']) {
        return Err(Error::NotASize);
    }
    Config::new().with_byte_suffix(ByteSuffix::Require).parse_size(text.trim()).map_err(|_| Error::NotASize)
}

/// Returns a parser for durations within a range, in the form that a command-line flag needs.
pub fn duration_in(range: RangeInclusive<Duration>) -> impl Fn(&str) -> Result<Duration, Error> + Clone {
    move |text| within(duration(text)?, &range, format_duration)
}

/// Returns a parser for sizes within a range, in the form that a command-line flag needs.
pub fn size_in(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, Error> + Clone {
    move |text| within(size(text)?, &range, format_size)
}

/// Returns a text that [`duration`] parses to this duration, in hours and smaller units: `1h30m`, `1m30s`, `250ms`,
/// `0s`.
pub fn format_duration(duration: Duration) -> String {
    let (seconds, ns) = (duration.as_secs(), u64::from(duration.subsec_nanos()));
    let parts = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (ns / 1_000_000, "ms"),
        (ns / 1000 % 1000, "us"),
        (ns % 1000, "ns"),
    ];
    let parts: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.concat() }
}

/// Returns a text that [`size`] parses to exactly this number of bytes, in the largest unit of which it is a multiple:
/// `64KiB`, `1GB`, `1000B` (KB is not used).
pub fn format_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 9] = [
        (1 << 50, "PiB"),
        (1_000_000_000_000_000, "PB"),
        (1 << 40, "TiB"),
        (1_000_000_000_000, "TB"),
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
    ];
    let exact = UNITS.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    exact.map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// Returns the number, if the text contains nothing else.
fn bare(text: &str) -> Option<&str> {
    let number = text.trim();
    let is_number = number.starts_with(|c: char| c.is_ascii_digit())
        && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_number.then_some(number)
}

fn is_zero(number: &str) -> bool {
    number.bytes().all(|byte| matches!(byte, b'0' | b'.'))
}

fn within<T: PartialOrd + Copy>(value: T, range: &RangeInclusive<T>, format: fn(T) -> String) -> Result<T, Error> {
    if value < *range.start() {
        Err(Error::TooLow(format(*range.start())))
    } else if value > *range.end() {
        Err(Error::TooHigh(format(*range.end())))
    } else {
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read() {
        for (text, ms) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1500),
            ("10 minutes", 600_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(duration("100us"), Ok(Duration::from_micros(100)));
    }

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("512B", 512),
            ("64KiB", 64 << 10),
            ("10MiB", 10 << 20),
            ("1GB", 1_000_000_000),
            ("1.5GiB", 3 << 29),
            ("0", 0),
            ("18446744073709551615B", u64::MAX),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn an_error_for_a_bare_number_lists_the_units() {
        assert_eq!(duration("10").unwrap_err().to_string(), "the unit is missing; write 10s, 10ms or 10m");
        assert_eq!(duration("1.5").unwrap_err().to_string(), "the unit is missing; write 1.5s, 1.5ms or 1.5m");
        assert_eq!(size("64").unwrap_err().to_string(), "the unit is missing; write 64B, 64KiB or 64MiB");
        assert_eq!(size("64k").unwrap_err().to_string(), "the unit is missing; write 64KiB or 64KB");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "s", "ten", "-1s", "5s ago", "1e3s", "10x", "2mo", "3d", "99999999999999999999s"] {
            assert_eq!(duration(text), Err(Error::NotADuration), "{text}");
        }
        assert_eq!(duration("876001h"), Err(Error::TooHigh("876000h".to_owned())));
        for text in ["", "B", "KiB", "-1KB", "1e3B", "1_000B", "10x", "17EiB", "1.2.3B"] {
            assert_eq!(size(text), Err(Error::NotASize), "{text}");
        }
    }

    #[test]
    fn bounds_are_checked_and_named() {
        let parse = duration_in(Duration::from_millis(1)..=Duration::from_secs(86_400));
        assert_eq!(parse("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(parse("0").unwrap_err().to_string(), "must be at least 1ms");
        assert_eq!(parse("25h").unwrap_err().to_string(), "must be at most 24h");
        let parse = size_in(64 << 20..=1 << 40);
        assert_eq!(parse("1MiB").unwrap_err().to_string(), "must be at least 64MiB");
        assert_eq!(parse("2TiB").unwrap_err().to_string(), "must be at most 1TiB");
    }

    proptest! {
        #[test]
        fn formatted_values_parse_to_the_same_values(ns in 0..u64::MAX / 8, bytes: u64) {
            let time = Duration::from_nanos(ns);
            prop_assert_eq!(duration(&format_duration(time)), Ok(time));
            prop_assert_eq!(size(&format_size(bytes)), Ok(bytes));
            prop_assert_eq!(size(&format_size(bytes >> 40 << 20)), Ok(bytes >> 40 << 20));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text: String) {
            let _ = (duration(&text), size(&text));
        }
    }
}
