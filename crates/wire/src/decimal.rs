//! Numbers written in decimal digits.

/// Parses a number that consists only of decimal digits; `None` for anything else, or on overflow.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Appends a number in decimal digits.
pub fn write_decimal(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_that_fit() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"007"), Some(7));
        for bad in [&b""[..], b"18446744073709551616", b"+1", b"-1", b"1 ", b"0x1", b"1e3", b"\xd9\xa1"] {
            assert_eq!(decimal(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn written_numbers_are_read_back() {
        for number in [0, 7, 10, 1_000_000_007, u64::MAX] {
            let mut out = Vec::new();
            write_decimal(number, &mut out);
            assert_eq!((out.as_slice(), decimal(&out)), (number.to_string().as_bytes(), Some(number)));
        }
    }
}
