//! Messages over TCP, each prefixed with its length in two bytes (RFC 1035 section 4.2.2).

use super::{MESSAGE_BYTES, Malformed};

/// Returns the message at the start of these bytes, and the number of bytes that it takes, including its length.
/// Returns `None` if it has not arrived completely.
pub fn next(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let message = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
    Some((message, 2 + message.len()))
}

/// Appends the length of a message and the message, which `write` appends. A message that is too long is an error, and
/// nothing is appended.
pub fn write(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Malformed> {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    write(out);
    let Ok(length) = u16::try_from(out.len() - start - 2) else {
        out.truncate(start);
        return Err(Malformed("message longer than 65,535 bytes"));
    };
    debug_assert!(usize::from(length) <= MESSAGE_BYTES, "the length fits two bytes");
    out[start..start + 2].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_delimited() {
        let mut out = Vec::new();
        write(&mut out, |out| out.extend_from_slice(b"abc")).unwrap();
        write(&mut out, |_| {}).unwrap();
        write(&mut out, |out| out.resize(out.len() + MESSAGE_BYTES, 7)).unwrap();
        let whole = out.len();
        assert!(write(&mut out, |out| out.resize(out.len() + MESSAGE_BYTES + 1, 7)).is_err());
        assert_eq!((out.len(), &out[..7]), (whole, &b"\0\x03abc\0\0"[..]));
        for len in 0..5 {
            assert_eq!(next(&out[..len]), None);
        }
        assert_eq!(next(&out), Some((&b"abc"[..], 5)));
        assert_eq!(next(&out[5..]), Some((&b""[..], 2)));
        assert_eq!(next(&out[7..]).map(|(message, consumed)| (message.len(), consumed)), Some((65_535, 65_537)));
    }
}
