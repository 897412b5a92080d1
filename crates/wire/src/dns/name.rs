//! Domain names (RFC 1035 sections 3.1 and 4.1.4): labels, their text, and pointers to earlier names.
//!
//! A pointer must point before the start of the labels that precede it. So each pointer of a name points lower than the
//! previous one, and no name is a loop. The number of pointers is limited too: otherwise, in a message of 64 KiB,
//! thousands of names could share a chain of thousands of pointers.

use super::Malformed;
use super::header;
use core::fmt;
use core::hash::{Hash, Hasher};

/// The maximum length of a name in bytes, with its length bytes and the root's (RFC 1035 section 2.3.4).
pub const NAME_BYTES: usize = 255;

/// The maximum length of a label in bytes (RFC 1035 section 2.3.4).
pub const LABEL_BYTES: usize = 63;

/// The maximum number of pointers in a name: one before each label.
const POINTERS: usize = 127;

/// A name in a message, whose labels may be in several places. The comparison of names ignores the case of ASCII
/// letters (RFC 4343).
#[derive(Clone, Copy)]
pub struct Name<'a> {
    /// The bytes to which pointers are relative.
    message: &'a [u8],
    /// The offset of the first label, which has been checked.
    at: usize,
}

impl<'a> Name<'a> {
    /// The root.
    pub const ROOT: Name<'static> = Name { message: &[0], at: 0 };

    /// Parses the name at an offset in a message. Returns the name and the offset of its end.
    #[inline]
    pub fn parse(message: &'a [u8], at: usize) -> Result<(Name<'a>, usize), Malformed> {
        let (mut place, mut lowest, mut end) = (at, at, None);
        let (mut bytes, mut pointers) = (0, 0);
        loop {
            let length = *message.get(place).ok_or(Malformed("name beyond the end of the message"))?;
            match length {
                0 => return Ok((Name { message, at }, end.unwrap_or(place + 1))),
                1..=63 => {
                    // Excludes the root's byte, which follows.
                    bytes += 1 + usize::from(length);
                    if bytes >= NAME_BYTES {
                        return Err(Malformed("name longer than 255 bytes"));
                    }
                    place += 1 + usize::from(length);
                }
                192.. => {
                    let low = *message.get(place + 1).ok_or(Malformed("name beyond the end of the message"))?;
                    end = end.or(Some(place + 2));
                    place = pointer(length, low);
                    if place >= lowest || place < header::BYTES {
                        return Err(Malformed("pointer that does not point back into the message"));
                    }
                    pointers += 1;
                    if pointers > POINTERS {
                        return Err(Malformed("name with more than 127 pointers"));
                    }
                    lowest = place;
                }
                64..=191 => return Err(Malformed("label of an unknown type")),
            }
        }
    }

    /// Returns the first label and the rest of the name; `None` for the root.
    #[inline]
    pub fn split_first(&self) -> Option<(&'a [u8], Name<'a>)> {
        let mut at = self.at;
        loop {
            match *self.message.get(at)? {
                0 => return None,
                length @ 192.. => at = pointer(length, *self.message.get(at + 1)?),
                length => {
                    let end = at + 1 + usize::from(length);
                    return Some((self.message.get(at + 1..end)?, Name { message: self.message, at: end }));
                }
            }
        }
    }

    /// Returns the labels, without that of the root.
    pub fn labels(&self) -> Labels<'a> {
        Labels { rest: *self }
    }

    /// Returns whether it is the root.
    pub fn is_root(&self) -> bool {
        self.split_first().is_none()
    }

    /// Returns whether the name equals `zone` or is a subdomain of it.
    pub fn is_within(&self, zone: &Name<'_>) -> bool {
        let (own, other) = (self.labels().count(), zone.labels().count());
        let mut rest = *self;
        for _ in other..own {
            let Some((_, after)) = rest.split_first() else { break };
            rest = after;
        }
        own >= other && rest == *zone
    }

    /// Returns the length of the uncompressed name in bytes.
    pub fn byte_count(&self) -> usize {
        self.labels().map(|label| 1 + label.len()).sum::<usize>() + 1
    }

    /// Appends the uncompressed name.
    pub fn write(&self, out: &mut Vec<u8>) {
        for label in self.labels() {
            out.push(label.len() as u8);
            out.extend_from_slice(label);
        }
        out.push(0);
    }
}

/// Returns the offset in a pointer.
const fn pointer(high: u8, low: u8) -> usize {
    ((high & 0x3f) as usize) << 8 | low as usize
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Name<'_>) -> bool {
        let (mut own, mut other) = (self.labels(), other.labels());
        loop {
            match (own.next(), other.next()) {
                (None, None) => return true,
                (Some(own), Some(other)) if own.eq_ignore_ascii_case(other) => {}
                _ => return false,
            }
        }
    }
}

impl Eq for Name<'_> {}

impl Hash for Name<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for label in self.labels() {
            state.write_u8(label.len() as u8);
            for byte in label {
                state.write_u8(byte.to_ascii_lowercase());
            }
        }
        state.write_u8(0);
    }
}

/// Writes the text of the name (RFC 1035 section 5.1): labels separated by dots, without a trailing dot except for the
/// root. A backslash precedes dots within a label and characters with a meaning in a zone file. A byte that is not
/// visible ASCII is written as `\DDD`.
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for (number, label) in self.labels().enumerate() {
            if number > 0 {
                f.write_str(".")?;
            }
            for &byte in label {
                match byte {
                    b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => write!(f, "\\{}", char::from(byte))?,
                    b'!'..=b'~' => write!(f, "{}", char::from(byte))?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

/// The labels of a name.
#[derive(Debug, Clone)]
pub struct Labels<'a> {
    rest: Name<'a>,
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (label, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(label)
    }
}

/// A name that owns its uncompressed bytes, without allocation.
#[derive(Clone, Copy)]
pub struct NameBuf {
    bytes: [u8; NAME_BYTES],
    /// The length without the root's byte, which is already zero.
    len: u8,
}

impl NameBuf {
    /// Returns the root.
    pub const fn root() -> NameBuf {
        NameBuf { bytes: [0; NAME_BYTES], len: 0 }
    }

    /// Parses the text of a name (RFC 1035 section 5.1). A trailing dot makes no difference: every name is fully
    /// qualified.
    pub fn parse(text: &str) -> Result<NameBuf, Malformed> {
        let mut name = NameBuf::root();
        let mut rest = match text.as_bytes() {
            [] => return Err(Malformed("empty name")),
            b"." => return Ok(name),
            text => text,
        };
        while !rest.is_empty() {
            let (mut label, mut len) = ([0; LABEL_BYTES], 0);
            loop {
                let (byte, after) = match rest {
                    [] => break,
                    [b'.', after @ ..] => {
                        rest = after;
                        break;
                    }
                    [b'\\', digits @ ..] => escaped(digits)?,
                    [byte, after @ ..] => (*byte, after),
                };
                *label.get_mut(len).ok_or(Malformed("label longer than 63 bytes"))? = byte;
                len += 1;
                rest = after;
            }
            name.push(&label[..len])?;
        }
        Ok(name)
    }

    /// Appends a label, before the root.
    pub fn push(&mut self, label: &[u8]) -> Result<(), Malformed> {
        if label.is_empty() || label.len() > LABEL_BYTES {
            return Err(Malformed("label of no bytes or more than 63"));
        }
        let start = usize::from(self.len);
        let end = start + 1 + label.len();
        if end >= NAME_BYTES {
            return Err(Malformed("name longer than 255 bytes"));
        }
        self.bytes[start] = label.len() as u8;
        self.bytes[start + 1..end].copy_from_slice(label);
        self.len = end as u8;
        Ok(())
    }

    /// Appends the labels of a name.
    pub fn extend(&mut self, name: &Name<'_>) -> Result<(), Malformed> {
        name.labels().try_for_each(|label| self.push(label))
    }

    /// Returns the name.
    pub fn as_name(&self) -> Name<'_> {
        Name { message: &self.bytes[..=usize::from(self.len)], at: 0 }
    }
}

/// Parses the byte after a backslash: three decimal digits, or the byte itself.
fn escaped(text: &[u8]) -> Result<(u8, &[u8]), Malformed> {
    match text {
        [hundreds @ b'0'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] => {
            let [hundreds, tens, ones] = [hundreds, tens, ones].map(|digit| u16::from(digit - b'0'));
            let byte = u8::try_from(hundreds * 100 + tens * 10 + ones);
            Ok((byte.map_err(|_| Malformed("escape above 255"))?, rest))
        }
        [b'0'..=b'9', ..] | [] => Err(Malformed("incomplete escape")),
        [byte, rest @ ..] => Ok((*byte, rest)),
    }
}

/// Copies a name out of its message.
impl From<Name<'_>> for NameBuf {
    fn from(name: Name<'_>) -> NameBuf {
        let mut copy = NameBuf::root();
        // A parsed name is not too long.
        let _ = copy.extend(&name);
        copy
    }
}

impl PartialEq for NameBuf {
    fn eq(&self, other: &NameBuf) -> bool {
        self.as_name() == other.as_name()
    }
}

impl Eq for NameBuf {}

impl Hash for NameBuf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_name().hash(state);
    }
}

impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_name().fmt(f)
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_name(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::BuildHasher;
    use std::collections::hash_map::RandomState;

    fn name(text: &str) -> NameBuf {
        NameBuf::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn text_is_read_and_written_as_in_rfc_1035_section_5_1() {
        for (text, written, labels) in [
            (".", ".", &[][..]),
            ("x.example", "x.example", &[&b"x"[..], b"example"][..]),
            ("x.example.", "x.example", &[b"x", b"example"]),
            (r"a\.b.c", r"a\.b.c", &[b"a.b", b"c"]),
            (r"\097\000\255", r"a\000\255", &[b"a\0\xff"]),
            (r"a\\b.\x", r"a\\b.x", &[b"a\\b", b"x"]),
            ("a b.@;$()\"", r#"a\032b.\@\;\$\(\)\""#, &[b"a b", b"@;$()\""]),
            ("_25._tcp.x", "_25._tcp.x", &[b"_25", b"_tcp", b"x"]),
        ] {
            let found = name(text);
            assert_eq!(found.as_name().labels().collect::<Vec<_>>(), labels, "{text}");
            assert_eq!(found.to_string(), written, "{text}");
            assert_eq!(name(written), found);
        }
        for text in ["", "..", ".a", "a..b", "a..", r"a\", r"a\1", r"a\12", r"a\256", r"a\999"] {
            assert!(NameBuf::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_follow_rfc_1035_section_2_3_4() {
        let label = "l".repeat(63);
        assert!(NameBuf::parse(&label).is_ok());
        assert!(NameBuf::parse(&format!("{label}l")).is_err());
        // Three labels of 64 bytes with their lengths, one of 62, and the root's byte.
        let longest = format!("{label}.{label}.{label}.{}", &label[..61]);
        assert_eq!(name(&longest).as_name().byte_count(), 255);
        assert!(NameBuf::parse(&format!("{longest}l")).is_err());
        assert!(NameBuf::parse(&format!("a.{longest}")).is_err());
        let mut wire = Vec::new();
        name(&longest).as_name().write(&mut wire);
        assert_eq!(Name::parse(&wire, 0).map(|(name, end)| (name.byte_count(), end)), Ok((255, 255)));
        wire[192] = 62;
        wire.insert(193, b'l');
        assert_eq!(Name::parse(&wire, 0), Err(Malformed("name longer than 255 bytes")));
    }

    #[test]
    fn case_does_not_count() {
        let [one, other] = [name("MAIL.Example"), name("mail.eXAMPLE")];
        assert_eq!(one, other);
        let state = RandomState::new();
        assert_eq!(state.hash_one(one), state.hash_one(other));
        assert_ne!(one, name("mail.example.x"));
        assert_ne!(name("a.b"), name(r"a\.b"));
        assert!(one.as_name().is_within(&name("EXAMPLE").as_name()) && one.as_name().is_within(&Name::ROOT));
        assert!(one.as_name().is_within(&one.as_name()));
        assert!(!name("badexample").as_name().is_within(&name("example").as_name()));
        assert!(!name("example").as_name().is_within(&one.as_name()));
    }

    /// The message of RFC 1035 section 4.1.4: F.ISI.ARPA, FOO.F.ISI.ARPA, ARPA and the root, from byte 20 on.
    fn rfc_1035() -> Vec<u8> {
        [&[0; 20][..], b"\x01F\x03ISI\x04ARPA\0", &[0; 8], b"\x03FOO\xc0\x14", &[0; 18], b"\xc0\x1a", &[0; 26], b"\0"]
            .concat()
    }

    #[test]
    fn pointers_are_followed_as_in_rfc_1035_section_4_1_4() {
        let message = rfc_1035();
        for (at, text, end) in [(20, "F.ISI.ARPA", 32), (40, "FOO.F.ISI.ARPA", 46), (64, "ARPA", 66), (92, ".", 93)] {
            let (found, found_end) = Name::parse(&message, at).unwrap();
            assert_eq!((found.to_string().as_str(), found_end), (text, end));
            assert_eq!(NameBuf::from(found), name(text));
        }
    }

    #[test]
    fn names_that_do_not_end_are_malformed() {
        let header = [0; 12];
        for (bytes, at) in [
            (&b"\xc0\x0c"[..], 12),
            (b"\x01a\xc0\x0c", 12),
            (b"\x01a\xc0\x0e", 12),
            (b"\xc0\x0e\xc0\x0c", 12),
            (b"\xc0\x0e\xc0\x0c", 14),
            (b"\xc0\x10\0\0\0", 12),
            (b"\xc0\x00", 12),
            (b"\xc0\x0b", 12),
            (b"\xff\xff", 12),
            (b"\xc0", 12),
            (b"\x01", 12),
            (b"\x01a", 12),
            (b"\x05abc\0", 12),
            (b"\x40a\0", 12),
            (b"\x80a\0", 12),
            (b"\xbf\0", 12),
            (b"", 12),
            (b"\0", 99),
        ] {
            let message = [&header[..], bytes].concat();
            assert!(Name::parse(&message, at).is_err(), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn chains_of_pointers_are_short() {
        // The root at 12, and pointers from 14 on, each to the previous one.
        let chain: Vec<u8> = (0..200u16).flat_map(|n| (0xc000 | (12 + 2 * n)).to_be_bytes()).collect();
        let message = [&[0; 14][..], &chain].concat();
        assert!(Name::parse(&message, 14 + 2 * 126).is_ok_and(|(name, _)| name.is_root()));
        assert_eq!(Name::parse(&message, 14 + 2 * 127), Err(Malformed("name with more than 127 pointers")));
    }
}
