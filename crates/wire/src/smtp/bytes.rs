//! Byte classes in commands and addresses.

/// A byte of an atom (RFC 5322 section 3.2.3).
pub(crate) const ATOM: u8 = 1;
/// A letter or digit.
pub(crate) const ALNUM: u8 = 1 << 1;
/// A letter, a digit or a hyphen.
pub(crate) const LDH: u8 = 1 << 2;
/// A byte of a parameter's value (RFC 5321 section 4.1.2, esmtp-value): visible, but not `=`.
pub(crate) const VALUE: u8 = 1 << 3;
/// A byte that is not escaped in xtext (RFC 3461 section 4): visible, but neither `+` nor `=`.
pub(crate) const XTEXT: u8 = 1 << 4;

/// The classes of each byte value.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() {
            classes[byte] |= ATOM | ALNUM | LDH;
        }
        if b == b'-' {
            classes[byte] |= LDH;
        }
        if matches!(
            b,
            b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'/' | b'=' | b'?' | b'^' | b'_' | b'`' | b'{'..=b'~'
        ) {
            classes[byte] |= ATOM;
        }
        if matches!(b, 33..=126) && b != b'=' {
            classes[byte] |= VALUE;
            if b != b'+' {
                classes[byte] |= XTEXT;
            }
        }
        byte += 1;
    }
    classes
};

/// Returns whether a byte belongs to a class.
#[inline]
pub(crate) fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// Returns whether a byte belongs to a class or to a character beyond ASCII.
#[inline]
pub(crate) fn is_or_high(byte: u8, class: u8) -> bool {
    is(byte, class) || byte >= 0x80
}

/// Returns the text after a prefix; the comparison ignores case.
#[inline]
pub(crate) fn strip_prefix_ignoring_case<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (own, rest) = text.split_at_checked(prefix.len())?;
    own.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_their_sources_list() {
        for byte in 0..=255u8 {
            let is_atom = byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
            assert_eq!(is(byte, ATOM), is_atom, "{byte}");
            assert_eq!(is(byte, VALUE), matches!(byte, 33..=60 | 62..=126), "{byte}");
            assert_eq!(is(byte, XTEXT), matches!(byte, b'!'..=b'*' | b','..=b'<' | b'>'..=b'~'), "{byte}");
            assert_eq!(is(byte, LDH), byte.is_ascii_alphanumeric() || byte == b'-', "{byte}");
            assert_eq!(is_or_high(byte, ALNUM), byte.is_ascii_alphanumeric() || byte > 127, "{byte}");
        }
    }
}
