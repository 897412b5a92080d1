//! Dates (RFC 9110 section 5.6.7), as seconds since 1970. They are written in one format and parsed in three, by
//! `httpdate`. This uses the standard library's time types; this crate passes seconds and never reads a clock.

use core::fmt::Write as _;
use httpdate::HttpDate;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The length of a date in bytes.
pub const DATE_BYTES: usize = 29;

/// 9999-12-31 23:59:59: later years have more than four digits.
const LAST_S: u64 = 253_402_300_799;

/// Returns the date at this number of seconds since 1970, as sent.
pub fn format(seconds: u64) -> [u8; DATE_BYTES] {
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_S));
    let mut text = Text { bytes: [b' '; DATE_BYTES], len: 0 };
    // It cannot fail: a date always fits.
    let _ = write!(text, "{}", HttpDate::from(time));
    text.bytes
}

/// Parses a date in any of the three formats, as seconds since 1970.
pub fn parse(text: &[u8]) -> Option<u64> {
    let date: HttpDate = str::from_utf8(text).ok()?.parse().ok()?;
    SystemTime::from(date).duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

struct Text {
    bytes: [u8; DATE_BYTES],
    len: usize,
}

impl core::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let place = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(core::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_formats_are_parsed() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        for text in ["", "0", "yesterday", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 32 Nov 1994 08:49:37 GMT", "\u{e9}"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn formatted_dates_parse_to_the_same_time() {
        assert_eq!(&format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        for seconds in [0, 951_782_400, 4_107_542_400, LAST_S] {
            assert_eq!(parse(&format(seconds)), Some(seconds));
        }
        assert_eq!(format(u64::MAX), format(LAST_S));
    }
}
