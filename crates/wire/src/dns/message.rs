//! Messages (RFC 1035 section 4): the header, and iterators over questions and records.

use super::header::{self, Header, Rcode};
use super::kind::{Class, Type};
use super::name::Name;
use super::record::{Data, Edns, Reader, Record};
use super::{Malformed, UDP_BYTES};

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Question<'a> {
    /// The name.
    pub name: Name<'a>,
    /// The requested type of records.
    pub kind: Type,
    /// The requested class.
    pub class: Class,
}

/// A message. It borrows the bytes it was parsed from, and fills all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    bytes: &'a [u8],
    header: Header,
    counts: [u16; 4],
    /// The offsets of answers, authority records and additional records, which have been checked.
    starts: [usize; 3],
    edns: Option<Edns<'a>>,
}

impl<'a> Message<'a> {
    /// Parses a message and checks every question and record in it. Bytes after the last record are an error, and so is
    /// a second OPT (RFC 6891 section 6.1.1).
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let (header, counts) = Header::parse(bytes).ok_or(Malformed("message without a header"))?;
        let mut reader = Reader { message: bytes, at: header::BYTES };
        for _ in 0..counts[0] {
            reader.name()?;
            reader.bytes(4)?;
        }
        let (mut starts, mut edns) = ([0; 3], None);
        for (section, (start, count)) in starts.iter_mut().zip(&counts[1..]).enumerate() {
            *start = reader.at;
            for _ in 0..*count {
                match reader.record()?.data {
                    Data::Opt(_) if section < 2 || edns.is_some() => return Err(Malformed("second or misplaced OPT")),
                    Data::Opt(found) => edns = Some(found),
                    _ => {}
                }
            }
        }
        if reader.at != bytes.len() {
            return Err(Malformed("bytes after the last record"));
        }
        Ok(Message { bytes, header, counts, starts, edns })
    }

    /// Returns the header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the result code, with its upper bits from EDNS.
    pub fn rcode(&self) -> Rcode {
        self.edns.map_or(self.header.rcode, |edns| edns.rcode(self.header.rcode))
    }

    /// Returns the question if there is exactly one, as in every ordinary query and answer (RFC 9619).
    pub fn question(&self) -> Option<Question<'a>> {
        self.questions().next().filter(|_| self.counts[0] == 1)
    }

    /// Returns the questions.
    pub fn questions(&self) -> impl Iterator<Item = Question<'a>> + use<'a> {
        let mut reader = Reader { message: self.bytes, at: header::BYTES };
        (0..self.counts[0]).map_while(move |_| {
            Some(Question {
                name: reader.name().ok()?,
                kind: Type(reader.u16().ok()?),
                class: Class(reader.u16().ok()?),
            })
        })
    }

    /// Returns the answers.
    pub fn answers(&self) -> Records<'a> {
        self.records(0)
    }

    /// Returns the authority records.
    pub fn authorities(&self) -> Records<'a> {
        self.records(1)
    }

    /// Returns the additional records, including OPT.
    pub fn additionals(&self) -> Records<'a> {
        self.records(2)
    }

    /// Returns the EDNS of the sender, if there is any.
    pub const fn edns(&self) -> Option<&Edns<'a>> {
        self.edns.as_ref()
    }

    /// Returns the maximum length of an answer over UDP, in bytes.
    pub fn udp_bytes(&self) -> usize {
        self.edns.map_or(UDP_BYTES, |edns| usize::from(edns.udp_bytes))
    }

    fn records(&self, section: usize) -> Records<'a> {
        Records { message: self.bytes, at: self.starts[section], left: self.counts[section + 1] }
    }
}

/// The records of a section.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    message: &'a [u8],
    at: usize,
    left: u16,
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        self.left = self.left.checked_sub(1)?;
        let mut reader = Reader { message: self.message, at: self.at };
        let record = reader.record().ok()?;
        self.at = reader.at;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a message with these counts of questions, answers, authority and additional records.
    fn message(counts: [u8; 4], body: &[u8]) -> Vec<u8> {
        let [questions, answers, authorities, additionals] = counts;
        [&[0, 1, 0x80, 0, 0, questions, 0, answers, 0, authorities, 0, additionals][..], body].concat()
    }

    const OPT: &[u8] = b"\0\0\x29\x02\0\0\0\0\0\0\0";

    #[test]
    fn malformed_messages_are_refused() {
        for (counts, body) in [
            ([1, 0, 0, 0], &b""[..]),
            ([1, 0, 0, 0], b"\0\0\x01\0"),
            ([0, 0, 0, 0], b"\0"),
            ([0, 1, 0, 0], b""),
            ([0, 1, 0, 0], b"\0\0\x01\0\x01\0\0\0\0\0\x04\x7f\0\0"),
            ([0, 1, 0, 0], b"\0\0\x01\0\x01\0\0\0\0\0\x03\x7f\0\0"),
            ([0, 1, 0, 0], b"\0\0\x01\0\x01\0\0\0\0\0\x05\x7f\0\0\x01\0"),
            ([0, 1, 0, 0], b"\0\0\x1c\0\x01\0\0\0\0\0\x04\x7f\0\0\x01"),
            ([0, 1, 0, 0], b"\0\0\x0f\0\x01\0\0\0\0\0\x02\0\x0a"),
            ([0, 1, 0, 0], b"\0\0\x0f\0\x01\0\0\0\0\0\x04\0\x0a\0\0"),
            // The name in the data continues beyond the data.
            ([0, 1, 0, 0], b"\0\0\x05\0\x01\0\0\0\0\0\x02\x01a\0"),
            ([0, 1, 0, 0], b"\0\0\x10\0\x01\0\0\0\0\0\0"),
            ([0, 1, 0, 0], b"\0\0\x10\0\x01\0\0\0\0\0\x02\x02a"),
            ([0, 1, 0, 0], OPT),
            ([0, 0, 1, 0], OPT),
            ([0, 0, 0, 2], &[OPT, OPT].concat()),
            ([0, 0, 0, 1], b"\x01a\0\0\x29\x02\0\0\0\0\0\0\0"),
            ([0, 0, 0, 1], b"\0\0\x29\x02\0\0\0\0\0\0\x03\0\x0a\0"),
            ([0, 0, 0, 1], b"\0\0\x29\x02\0\0\0\0\0\0\x05\0\x0a\0\x02a"),
        ] {
            let bytes = message(counts, body);
            assert!(Message::parse(&bytes).is_err(), "{counts:?} {}", body.escape_ascii());
        }
        assert_eq!(Message::parse(&[0; 11]), Err(Malformed("message without a header")));
    }

    #[test]
    fn edns_is_read_as_in_rfc_6891_section_6_1() {
        let bytes = message([0, 0, 0, 1], b"\0\0\x29\x01\0\x01\0\x80\0\0\x06\0\x0a\0\x02ab");
        let parsed = Message::parse(&bytes).unwrap();
        let edns = parsed.edns().unwrap();
        assert_eq!((edns.udp_bytes, edns.version, edns.wants_dnssec), (512, 0, true));
        assert_eq!((parsed.rcode(), parsed.udp_bytes()), (Rcode(16), 512));
        assert_eq!(edns.options().collect::<Vec<_>>(), [(10, &b"ab"[..])]);
        let bytes = message([0; 4], b"");
        let without = Message::parse(&bytes).unwrap();
        assert_eq!((without.edns(), without.udp_bytes(), without.question()), (None, 512, None));
    }

    #[test]
    fn other_classes_and_types_are_bytes() {
        let bytes = message([0, 2, 0, 0], b"\0\0\x01\0\x03\xff\xff\xff\xff\0\x01a\0\x01\0\0\x01\0\0\0\x05\0\0");
        let parsed = Message::parse(&bytes).unwrap();
        let records: Vec<_> = parsed.answers().collect();
        assert_eq!(records[0].data, Data::Other { kind: Type::A, bytes: b"a" });
        // A time to live with the highest bit set is 0 (RFC 2181 section 8).
        assert_eq!(records.iter().map(|record| record.ttl_s).collect::<Vec<_>>(), [0, 5]);
        assert_eq!(records[1].data, Data::Other { kind: Type(256), bytes: b"" });
    }
}
