//! Range requests (RFC 9110 section 14): the requested bytes, and the header of those that are sent.
//!
//! A list of ranges is a small program that the client writes and the server runs. Lists of thousands of overlapping
//! ranges have brought servers down (CVE-2011-3192). So the length of a list is limited, overlapping ranges are sent
//! once, and an answer exceeds the size of the file at most by the heads of its parts. A malformed list is ignored, as
//! section 14.2 allows: the client gets the whole file.

use super::bytes::{is_blank, members, trimmed};
use crate::decimal::{decimal, write_decimal};

/// The maximum number of ranges in a request; with more, the client gets the whole file.
pub const MOST: usize = 16;

/// The maximum number of overlaps in a list: RFC 9110 section 14.2 calls more than two suspicious.
const OVERLAPS: usize = 2;

/// The approximate length of the head between two parts: sending a smaller gap is cheaper than omitting it.
const GAP_BYTES: u64 = 80;

/// A range of at least one byte in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The number of bytes.
    pub len: u64,
}

impl ByteRange {
    /// Returns the offset after the last byte.
    pub const fn end(self) -> u64 {
        self.start + self.len
    }
}

/// Several ranges, in the order of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranges {
    items: [ByteRange; MOST],
    count: usize,
}

impl Ranges {
    const NONE: Ranges = Ranges { items: [ByteRange { start: 0, len: 0 }; MOST], count: 0 };

    /// Returns the ranges, none of which touches another.
    pub fn as_slice(&self) -> &[ByteRange] {
        &self.items[..self.count]
    }

    /// Adds a range, and merges those that it touches or nearly touches. Returns whether it overlapped one.
    fn add(&mut self, mut new: ByteRange) -> bool {
        let mut overlaps = false;
        let mut at = 0;
        let mut place = self.count;
        while at < self.count {
            let own = self.items[at];
            if new.start <= own.end().saturating_add(GAP_BYTES) && own.start <= new.end().saturating_add(GAP_BYTES) {
                overlaps |= new.start < own.end() && own.start < new.end();
                let start = own.start.min(new.start);
                new = ByteRange { start, len: own.end().max(new.end()) - start };
                self.items.copy_within(at + 1..self.count, at);
                self.count -= 1;
                place = place.min(at);
                // The range has grown, so it may now touch ranges checked before.
                at = 0;
            } else {
                at += 1;
            }
        }
        let place = place.min(self.count);
        self.items.copy_within(place..self.count, place + 1);
        self.items[place] = new;
        self.count += 1;
        overlaps
    }
}

/// The result of a `Range` field for a file of a given length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it lives on the stack, and the list must not live on the heap")]
pub enum Selection {
    /// No valid range: send the whole file with 200.
    Whole,
    /// None of the requested bytes exist: 416, with [`write_unsatisfied`].
    Unsatisfiable,
    /// One part: 206 with [`write_content_range`].
    One(ByteRange),
    /// Several parts: 206 with [`super::multipart`].
    Several(Ranges),
}

/// The result of one member of the list.
enum Spec {
    Malformed,
    Unsatisfiable,
    Bytes(ByteRange),
}

/// Parses a `Range` field for a file of `length` bytes.
#[inline]
pub fn select(value: &[u8], length: u64) -> Selection {
    let Some((unit, set)) = value.iter().position(|&b| b == b'=').map(|at| (&value[..at], &value[at + 1..])) else {
        return Selection::Whole;
    };
    // Some clients request a range of everything, but Content-Range cannot describe an empty file.
    if !unit.eq_ignore_ascii_case(b"bytes") || length == 0 {
        return Selection::Whole;
    }
    let mut ranges = Ranges::NONE;
    let (mut listed, mut overlaps) = (0, 0);
    for member in members(set) {
        listed += 1;
        if listed > MOST {
            return Selection::Whole;
        }
        match spec(member, length) {
            Spec::Malformed => return Selection::Whole,
            Spec::Unsatisfiable => {}
            Spec::Bytes(range) => overlaps += usize::from(ranges.add(range)),
        }
    }
    match ranges.as_slice() {
        _ if listed == 0 || overlaps > OVERLAPS => Selection::Whole,
        [] => Selection::Unsatisfiable,
        [one] => Selection::One(*one),
        _ => Selection::Several(ranges),
    }
}

/// Parses `first-last`, `first-` or `-count` (RFC 9110 section 14.1.1).
fn spec(member: &[u8], length: u64) -> Spec {
    let Some(dash) = member.iter().position(|&b| b == b'-') else { return Spec::Malformed };
    let (first, last) = (&member[..dash], &member[dash + 1..]);
    if first.is_empty() {
        let Some(count) = position(last) else { return Spec::Malformed };
        let len = count.min(length);
        return if len == 0 { Spec::Unsatisfiable } else { Spec::Bytes(ByteRange { start: length - len, len }) };
    }
    let (Some(start), Some(last)) = (position(first), if last.is_empty() { Some(u64::MAX) } else { position(last) })
    else {
        return Spec::Malformed;
    };
    if last < start {
        return Spec::Malformed;
    }
    if start >= length {
        return Spec::Unsatisfiable;
    }
    Spec::Bytes(ByteRange { start, len: last.min(length - 1) - start + 1 })
}

/// Parses a number of decimal digits only. On overflow it returns the maximum: no file is that long.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().try_fold(0u64, |value, b| value.checked_mul(10)?.checked_add(u64::from(b - b'0')));
    Some(value.unwrap_or(u64::MAX))
}

/// Appends the value of `Content-Range` for a part of a file of `length` bytes (RFC 9110 section 14.4).
pub fn write_content_range(range: ByteRange, length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes ");
    write_decimal(range.start, out);
    out.push(b'-');
    write_decimal(range.end().saturating_sub(1), out);
    out.push(b'/');
    write_decimal(length, out);
}

/// Appends the value of `Content-Range` for a 416.
pub fn write_unsatisfied(length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes */");
    write_decimal(length, out);
}

/// Parses a `Content-Range` in bytes: the range, and the total length if it is known. For clients.
pub fn read_content_range(value: &[u8]) -> Option<(ByteRange, Option<u64>)> {
    let (unit, rest) = value.split_at_checked(value.iter().position(|&b| is_blank(b))?)?;
    let rest = trimmed(rest);
    let slash = rest.iter().position(|&b| b == b'/')?;
    let dash = rest.iter().position(|&b| b == b'-').filter(|dash| *dash < slash)?;
    let (start, last) = (decimal(&rest[..dash])?, decimal(&rest[dash + 1..slash])?);
    let length = match &rest[slash + 1..] {
        b"*" => None,
        digits => Some(decimal(digits)?),
    };
    let len = last.checked_sub(start)?.checked_add(1)?;
    let is_sound = unit.eq_ignore_ascii_case(b"bytes") && length.is_none_or(|length| last < length);
    is_sound.then_some((ByteRange { start, len }, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(value: &str, length: u64) -> Result<Vec<(u64, u64)>, &'static str> {
        match select(value.as_bytes(), length) {
            Selection::One(one) => Ok(vec![(one.start, one.end())]),
            Selection::Several(ranges) => Ok(ranges.as_slice().iter().map(|one| (one.start, one.end())).collect()),
            Selection::Whole => Err("whole"),
            Selection::Unsatisfiable => Err("unsatisfiable"),
        }
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        for (value, ranges) in [
            ("bytes=0-0", vec![(0, 1)]),
            ("bytes=0-499", vec![(0, 500)]),
            ("Bytes=500-999", vec![(500, 1000)]),
            ("bytes=500-", vec![(500, 1000)]),
            ("bytes=-1", vec![(999, 1000)]),
            ("bytes=-5000", vec![(0, 1000)]),
            ("bytes=0-99999999999999999999999", vec![(0, 1000)]),
            ("bytes=-99999999999999999999999", vec![(0, 1000)]),
            ("bytes=0-18446744073709551615", vec![(0, 1000)]),
            ("bytes= 0-1 , 500-501", vec![(0, 2), (500, 502)]),
            ("bytes=,,0-1,,", vec![(0, 2)]),
            ("bytes=500-501,0-1", vec![(500, 502), (0, 2)]),
            ("bytes=0-1,1000-", vec![(0, 2)]),
            ("bytes=0-1,-0", vec![(0, 2)]),
            // Ranges that overlap, touch or nearly touch are merged.
            ("bytes=0-99,50-149", vec![(0, 150)]),
            ("bytes=0-99,100-149", vec![(0, 150)]),
            ("bytes=0-99,150-199", vec![(0, 200)]),
            ("bytes=0-9,500-509,5-504", vec![(0, 510)]),
            ("bytes=0-9,300-309,600-609,290-350", vec![(0, 10), (290, 351), (600, 610)]),
        ] {
            assert_eq!(selected(value, 1000), Ok(ranges), "{value}");
        }
    }

    #[test]
    fn ranges_beyond_the_file_are_unsatisfiable() {
        for value in ["bytes=1000-", "bytes=1000-2000", "bytes=-0", "bytes=99999999999999999999-", "bytes=1000-,-0"] {
            assert_eq!(selected(value, 1000), Err("unsatisfiable"), "{value}");
        }
    }

    #[test]
    fn malformed_or_abusive_ranges_are_ignored() {
        let many = "bytes=".to_owned() + &["0-0"; MOST + 1].join(",");
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1-0",
            "bytes=0",
            "bytes=0-1-2",
            "bytes=+0-1",
            "bytes=0x0-1",
            "bytes=0 -1",
            "bytes=0-1;2-3",
            "bytes=--1",
            "lines=0-1",
            "bytes =0-1",
            "bytes=0-1,x",
            "0-1",
            "bytes=0-,0-,0-,0-",
            &many,
        ] {
            assert_eq!(selected(value, 1000), Err("whole"), "{value}");
        }
        assert_eq!(selected("bytes=0-", 0), Err("whole"));
        assert_eq!(selected("bytes=-5", 0), Err("whole"));
        assert_eq!(selected("bytes=0-0,-1", u64::MAX), Ok(vec![(0, 1), (u64::MAX - 1, u64::MAX)]));
    }

    #[test]
    fn content_ranges_round_trip() {
        let mut out = Vec::new();
        write_content_range(ByteRange { start: 21_010, len: 26_012 }, 47_022, &mut out);
        assert_eq!(out, b"bytes 21010-47021/47022");
        assert_eq!(read_content_range(&out), Some((ByteRange { start: 21_010, len: 26_012 }, Some(47_022))));
        assert_eq!(read_content_range(b"bytes 0-0/*"), Some((ByteRange { start: 0, len: 1 }, None)));
        for bad in [
            &b"bytes 0-0"[..],
            b"bytes 1-0/2",
            b"bytes 0-2/2",
            b"bytes */2",
            b"lines 0-0/1",
            b"bytes 0-18446744073709551615/*",
        ] {
            assert_eq!(read_content_range(bad), None, "{bad:?}");
        }
        out.clear();
        write_unsatisfied(47_022, &mut out);
        assert_eq!(out, b"bytes */47022");
    }
}
