//! Byte classes, and the scans over every byte of a message: eight bytes at a time for values that may be long, by
//! table for short ones.
//!
//! The eight-byte tests find the first byte of a class exactly: a borrow out of a byte can cause false hits only above
//! a true one, and only the lowest hit counts.

/// A byte of a token (RFC 9110 section 5.6.2): methods, field names, codings.
pub(crate) const TOKEN: u8 = 1;
/// A byte of a host (RFC 3986 section 3.2.2: unreserved, sub-delims, and `%` of an escape).
pub(crate) const HOST: u8 = 1 << 1;

/// The classes of each byte value.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() {
            classes[byte] |= TOKEN | HOST;
        }
        if is_in(b, b"!#$%&'*+-.^_`|~") {
            classes[byte] |= TOKEN;
        }
        if is_in(b, b"-._~!$&'()*+,;=%") {
            classes[byte] |= HOST;
        }
        byte += 1;
    }
    classes
};

const fn is_in(byte: u8, set: &[u8]) -> bool {
    let mut at = 0;
    while at < set.len() {
        if set[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}

/// Returns whether a byte belongs to a class.
#[inline]
pub(crate) fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// Returns the end of the run of bytes of a class that starts at `at`.
#[inline]
pub(crate) fn run_end(bytes: &[u8], at: usize, class: u8) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|&b| !is(b, class)).unwrap_or(rest.len())
}

/// Returns whether this is a non-empty token.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&b| is(b, TOKEN))
}

const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES << 7;

/// Returns the high bit of each byte that is less than `limit` (at most 128).
const fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * limit as u64) & !word & HIGH
}

/// Returns the high bit of each byte that equals `byte`.
const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * byte as u64), 1)
}

/// Returns the first byte at or after `at` that `hits` marks in a word, or that `is_hit` accepts; the length if there
/// is none.
#[inline]
fn find(bytes: &[u8], mut at: usize, hits: impl Fn(u64) -> u64, is_hit: impl Fn(u8) -> bool) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let found = hits(u64::from_le_bytes(*chunk));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|&b| is_hit(b)).unwrap_or(rest.len())
}

/// Returns the high bit of each byte that is a letter or a hyphen; exact for every byte, not only for the lowest.
const fn plain(word: u64) -> u64 {
    let low = (word | (ONES * 0x20)) & !HIGH;
    let letters = (low + ONES * (0x80 - b'a' as u64)) & !(low + ONES * (0x7f - b'z' as u64)) & !word;
    let other = word ^ (ONES * b'-' as u64);
    let hyphens = !(((other & !HIGH) + (ONES * 0x7f)) | other);
    (letters | hyphens) & HIGH
}

/// Returns the end of the field name that starts at `at`: the first byte that does not belong to a token. Most names
/// consist of letters and hyphens, which are scanned eight at a time.
#[inline]
pub(crate) fn name_end(bytes: &[u8], at: usize) -> usize {
    let end = find(bytes, at, |word| !plain(word) & HIGH, |b| !(b.is_ascii_alphabetic() || b == b'-'));
    if bytes.get(end) == Some(&b':') { end } else { run_end(bytes, end, TOKEN) }
}

/// Returns whether none of them is a control byte or beyond ASCII. It returns no position, so that compilers can
/// vectorise it.
#[inline]
fn are_visible(chunk: &[u8; 32]) -> bool {
    chunk.iter().fold(0, |found, &b| found | u8::from(!(0x20..0x7f).contains(&b))) == 0
}

/// Returns the end of the field value that starts at `at`: the first control byte that is not a tab (RFC 9110 section
/// 5.5).
#[inline]
pub(crate) fn value_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<32>())
        && are_visible(chunk)
    {
        at += 32;
    }
    loop {
        at = find(bytes, at, |word| below(word, 0x20) | equal(word, 0x7f), |b| b < 0x20 || b == 0x7f);
        if bytes.get(at) != Some(&b'\t') {
            return at;
        }
        at += 1;
    }
}

/// Returns the end of the request target that starts at `at`: the first byte that is invalid in a target. A fragment is
/// never sent (RFC 9112 section 3.2), and bytes beyond ASCII are sent escaped.
#[inline]
pub(crate) fn target_end(bytes: &[u8], at: usize) -> usize {
    find(
        bytes,
        at,
        |word| below(word, 0x21) | equal(word, 0x7f) | equal(word, b'#') | word & HIGH,
        |b| !matches!(b, 0x21..0x7f) || b == b'#',
    )
}

/// Returns whether a byte is optional white space (RFC 9110 section 5.6.3).
#[inline]
pub(crate) const fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Returns the bytes without optional white space at both ends.
#[inline]
pub(crate) fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Returns the members of a comma-separated list, trimmed and without empty ones (RFC 9110 section 5.6.1). For lists
/// whose members contain no quoted commas.
pub(crate) fn members(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&b| b == b',').map(trimmed).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_and_scalar_searches_agree() {
        for (byte, at) in (0..=255u8).flat_map(|byte| (0..80).map(move |at| (byte, at))) {
            let mut text = [b'a'; 80];
            text[at] = byte;
            let first = |is_hit: fn(u8) -> bool| text.iter().position(|&b| is_hit(b)).unwrap_or(text.len());
            let value = first(|b| (b < 0x20 && b != b'\t') || b == 0x7f);
            assert_eq!(value_end(&text, 0), value, "{byte:#x} at {at}");
            let target = first(|b| !(0x21..=0x7e).contains(&b) || b == b'#');
            assert_eq!(target_end(&text, 0), target, "{byte:#x} at {at}");
            assert_eq!(name_end(&text, 0), first(|b| !is(b, TOKEN)), "{byte:#x} at {at}");
        }
    }

    #[test]
    fn the_first_of_several_hits_counts() {
        for text in
            [&b"\x80\x01\x00\x7f\x7e\x20\x1f\xff"[..], b"\x7e\x7f\x80\x1f\x00\x00\x00\x00", b"\t\t\t\t\t\t\t\t\n"]
        {
            let value = text.iter().position(|&b| (b < 0x20 && b != b'\t') || b == 0x7f).unwrap();
            assert_eq!(value_end(text, 0), value, "{text:?}");
        }
    }

    #[test]
    fn lists_lose_blanks_and_empty_members() {
        let found: Vec<&[u8]> = members(b" a ,, \t,b\t, c d ").collect();
        assert_eq!(found, [&b"a"[..], b"b", b"c d"]);
    }
}
