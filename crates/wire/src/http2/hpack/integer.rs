//! Integers with a prefix of a few bits (RFC 7541 section 5.1).

/// Reads an integer with `bits` bits in its first byte. Returns its value and the rest of the bytes. `None` if it is
/// incomplete, or larger than any possible length or index.
#[inline]
pub(super) fn read(bytes: &[u8], bits: u32) -> Option<(usize, &[u8])> {
    let (&first, mut rest) = bytes.split_first()?;
    let most = (1 << bits) - 1;
    let mut value = usize::from(first) & most;
    if value < most {
        return Some((value, rest));
    }
    for shift in [0, 7, 14, 21] {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

/// Appends an integer with `bits` bits in its first byte, after these flags.
#[inline]
pub(super) fn write(value: usize, bits: u32, flags: u8, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if value < most {
        return out.push(flags | value as u8);
    }
    out.push(flags | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541 appendix C.1.
    #[test]
    fn examples_of_the_rfc() {
        for (value, bits, bytes) in [(10, 5, &[10][..]), (1337, 5, &[31, 154, 10]), (42, 8, &[42])] {
            let mut out = Vec::new();
            write(value, bits, 0, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(read(bytes, bits), Some((value, &[][..])));
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for bits in 1..=8 {
            for value in (0..1000).chain([16_383, 16_384, 1 << 20, 1 << 27]) {
                let mut out = Vec::new();
                write(value, bits, 0, &mut out);
                assert!((1..out.len()).all(|len| read(&out[..len], bits).is_none()));
                out.push(7);
                assert_eq!(read(&out, bits), Some((value, &[7][..])), "{value} {bits}");
            }
        }
        assert_eq!(read(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x01], 7), None, "too long");
    }
}
