//! Writes a message with compressed names (RFC 1035 section 4.1.4), up to a limit.

use super::header::{self, Header};
use super::kind::Type;
use super::message::Question;
use super::name::Name;
use super::record::{Data, Edns, Record};
use super::{MESSAGE_BYTES, UDP_BYTES};

/// A section of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// Answers.
    Answer,
    /// Authority records.
    Authority,
    /// Additional records.
    Additional,
}

/// The maximum number of label offsets that pointers may refer to. Answers with more labels are correct, but longer
/// than necessary.
const PLACES: usize = 48;

/// A message that is written at the end of a buffer. Write the questions first, then the records in the order of their
/// sections.
///
/// A record that does not fit is omitted, and so is every record after it. In the answer and authority sections that
/// sets TC. In the additional section it does not, and the rest of the same record set is removed (RFC 2181 section 9).
#[derive(Debug)]
pub struct Builder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// The maximum length of the message before OPT.
    limit: usize,
    header: Header,
    edns: Option<Edns<'a>>,
    counts: [u16; 4],
    section: Section,
    /// Whether something was omitted. Nothing is written after that, so offsets that were cut off are never used.
    is_full: bool,
    places: Places,
    /// The offset of the current record set in the additional section, and the number of additional records before it.
    set: (usize, u16),
}

impl<'a> Builder<'a> {
    /// Starts a message of at most `limit` bytes: over UDP 512, or the size in the receiver's EDNS; over TCP 65,535. A
    /// value below 512 means 512. With `edns`, the message ends with an OPT, which contains the upper bits of the
    /// header's result code.
    pub fn new(out: &'a mut Vec<u8>, header: Header, edns: Option<Edns<'a>>, limit: usize) -> Builder<'a> {
        let start = out.len();
        out.extend_from_slice(&[0; header::BYTES]);
        let reserved = edns.map_or(0, |edns| OPT_BYTES + edns.options.len());
        let limit = limit.clamp(UDP_BYTES, MESSAGE_BYTES).saturating_sub(reserved);
        let (counts, section) = ([0; 4], Section::Answer);
        let places = Places { at: [0; PLACES], count: 0 };
        Builder { out, start, limit, header, edns, counts, section, is_full: false, places, set: (0, 0) }
    }

    /// Appends a question. Returns whether it fits.
    pub fn question(&mut self, question: &Question<'_>) -> bool {
        if self.is_full {
            return false;
        }
        let before = self.out.len();
        self.name(&question.name);
        self.u16(question.kind.0);
        self.u16(question.class.0);
        if !self.fits() {
            self.out.truncate(before);
            self.header.is_truncated = true;
            self.is_full = true;
            return false;
        }
        self.counts[0] += 1;
        true
    }

    /// Appends a record. Returns whether it fits. A record of an earlier section than the last one is omitted, and so
    /// is OPT, which [`Builder::new`] takes.
    pub fn record(&mut self, section: Section, record: &Record<'_>) -> bool {
        if self.is_full || section < self.section || record.kind() == Type::OPT {
            return false;
        }
        self.section = section;
        let before = self.out.len();
        self.name(&record.name);
        self.u16(record.kind().0);
        self.u16(record.class.0);
        self.out.extend_from_slice(&record.ttl_s.to_be_bytes());
        let length_at = self.out.len();
        self.u16(0);
        self.data(&record.data);
        let Ok(length) = u16::try_from(self.out.len() - length_at - 2) else {
            self.overflow(before, record);
            return false;
        };
        self.out[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
        let count = self.counts[section as usize + 1];
        if !self.fits() || count == u16::MAX {
            self.overflow(before, record);
            return false;
        }
        if section == Section::Additional && !self.continues_set(before, record) {
            self.set = (before, count);
        }
        self.counts[section as usize + 1] = count + 1;
        true
    }

    /// Ends the message. Returns its length in bytes.
    pub fn finish(mut self) -> usize {
        if let Some(edns) = self.edns {
            self.out.push(0);
            self.u16(Type::OPT.0);
            self.u16(edns.udp_bytes);
            let edns = Edns { rcode_high: (self.header.rcode.0 >> 4) as u8, ..edns };
            self.out.extend_from_slice(&edns.flags().to_be_bytes());
            self.u16(edns.options.len() as u16);
            self.out.extend_from_slice(edns.options);
            self.counts[3] += 1;
        }
        let header = self.header.to_bytes(self.counts);
        self.out[self.start..self.start + header::BYTES].copy_from_slice(&header);
        self.out.len() - self.start
    }

    fn fits(&self) -> bool {
        self.out.len() - self.start <= self.limit
    }

    /// Removes a record that did not fit.
    fn overflow(&mut self, before: usize, record: &Record<'_>) {
        self.is_full = true;
        if self.section < Section::Additional {
            self.header.is_truncated = true;
            self.out.truncate(before);
        } else if self.continues_set(before, record) {
            self.counts[3] = self.set.1;
            self.out.truncate(self.set.0);
        } else {
            self.out.truncate(before);
        }
    }

    /// Returns whether a record that starts at `before` belongs to the same set as the previous record: equal name,
    /// type and class (RFC 2181 section 5).
    fn continues_set(&self, before: usize, record: &Record<'_>) -> bool {
        if self.counts[3] == 0 || self.set.0 >= before {
            return false;
        }
        let message = &self.out[self.start..];
        let Ok((name, end)) = Name::parse(message, self.set.0 - self.start) else { return false };
        let [high, low] = record.kind().0.to_be_bytes();
        let [class_high, class_low] = record.class.0.to_be_bytes();
        name == record.name && message.get(end..end + 4) == Some(&[high, low, class_high, class_low])
    }

    fn u16(&mut self, value: u16) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends a name: its labels up to a suffix that was written before, and a pointer to that suffix.
    fn name(&mut self, name: &Name<'_>) {
        let mut rest = *name;
        while let Some((label, after)) = rest.split_first() {
            if let Some(place) = self.places.find(&self.out[self.start..], &rest) {
                self.u16(0xc000 | place);
                return;
            }
            self.places.note(self.out.len() - self.start);
            self.out.push(label.len() as u8);
            self.out.extend_from_slice(label);
            rest = after;
        }
        self.out.push(0);
    }

    /// Appends the data of a record. Names are compressed only in the types of RFC 1035 (RFC 3597 section 4).
    fn data(&mut self, data: &Data<'_>) {
        match data {
            Data::A(address) => self.out.extend_from_slice(&address.octets()),
            Data::Aaaa(address) => self.out.extend_from_slice(&address.octets()),
            Data::Mx { preference, exchange } => {
                self.u16(*preference);
                self.name(exchange);
            }
            Data::Cname(name) | Data::Ns(name) | Data::Ptr(name) => self.name(name),
            Data::Soa(soa) => {
                self.name(&soa.server);
                self.name(&soa.mailbox);
                for value in [soa.serial, soa.refresh_s, soa.retry_s, soa.expire_s, soa.negative_ttl_s] {
                    self.out.extend_from_slice(&value.to_be_bytes());
                }
            }
            Data::Txt(text) => self.out.extend_from_slice(text.as_bytes()),
            Data::Opt(_) => {}
            Data::Other { bytes, .. } => self.out.extend_from_slice(bytes),
        }
    }
}

/// The length of OPT without options, in bytes: the root, type, size, flags and length.
const OPT_BYTES: usize = 1 + 2 + 2 + 4 + 2;

/// The offsets of labels that a pointer can refer to, in ascending order.
#[derive(Debug)]
struct Places {
    at: [u16; PLACES],
    count: usize,
}

impl Places {
    /// Returns an offset at which this name was written.
    fn find(&self, message: &[u8], name: &Name<'_>) -> Option<u16> {
        let is_same = |place: &&u16| Name::parse(message, usize::from(**place)).is_ok_and(|(other, _)| other == *name);
        self.at[..self.count].iter().find(is_same).copied()
    }

    /// Records an offset, if there is room and a pointer can reach it.
    fn note(&mut self, place: usize) {
        if place < 0x4000
            && let Some(slot) = self.at.get_mut(self.count)
        {
            *slot = place as u16;
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::kind::Class;
    use crate::dns::{Message, NameBuf, Rcode, Soa, Txt};
    use core::net::{Ipv4Addr, Ipv6Addr};

    fn name(text: &str) -> NameBuf {
        NameBuf::parse(text).unwrap()
    }

    fn a(last: u8) -> Data<'static> {
        Data::A(Ipv4Addr::new(127, 0, 0, last))
    }

    #[test]
    fn a_query_is_these_bytes() {
        let mut out = b"before".to_vec();
        let mut builder = Builder::new(&mut out, Header::query(0x1234), Some(Edns::new(1232)), UDP_BYTES);
        let domain = name("d1.example");
        assert!(builder.question(&Question { name: domain.as_name(), kind: Type::MX, class: Class::IN }));
        assert_eq!(builder.finish(), 39);
        let expected = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x02d1\x07example\0\0\x0f\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";
        assert_eq!(out[6..].escape_ascii().to_string(), expected.escape_ascii().to_string());
        let message = Message::parse(&out[6..]).unwrap();
        assert_eq!(message.question().unwrap().name, domain.as_name());
        assert_eq!((message.udp_bytes(), message.additionals().count()), (1232, 1));
    }

    #[test]
    fn every_kind_of_record_is_read_back() {
        let [domain, host, other] = [name("d.example"), name("mx.d.example"), name("x.org")];
        let text = Txt::new(b"\x03abc\0").unwrap();
        let soa = Soa {
            server: host.as_name(),
            mailbox: other.as_name(),
            serial: 1,
            refresh_s: 2,
            retry_s: 3,
            expire_s: 4,
            negative_ttl_s: u32::MAX,
        };
        let records: Vec<Record<'_>> = [
            a(1),
            Data::Aaaa(Ipv6Addr::LOCALHOST),
            Data::Mx { preference: 10, exchange: host.as_name() },
            Data::Mx { preference: 0, exchange: Name::ROOT },
            Data::Cname(other.as_name()),
            Data::Ns(host.as_name()),
            Data::Ptr(host.as_name()),
            Data::Soa(soa),
            Data::Txt(text),
            Data::Other { kind: Type(65_280), bytes: b"\xff\0" },
        ]
        .map(|data| Record::new(domain.as_name(), 300, data))
        .to_vec();
        let mut out = Vec::new();
        let query = Header::query(1);
        let mut builder = Builder::new(&mut out, query.response(Rcode(17)), Some(Edns::new(4096)), 4096);
        for section in [Section::Answer, Section::Authority, Section::Additional] {
            assert!(records.iter().all(|record| builder.record(section, record)));
        }
        assert!(!builder.record(Section::Answer, &records[0]), "its section is over");
        builder.finish();
        let message = Message::parse(&out).unwrap();
        assert_eq!(message.answers().collect::<Vec<_>>(), records);
        assert_eq!(message.authorities().collect::<Vec<_>>(), records);
        assert_eq!(message.additionals().take(records.len()).collect::<Vec<_>>(), records);
        assert_eq!((message.rcode(), message.header().rcode), (Rcode(17), Rcode(1)));
        assert!(records[3].data.is_null_mx() && !records[2].data.is_null_mx());
        assert_eq!(text.strings().collect::<Vec<_>>(), [&b"abc"[..], b""]);
        // Each name is written once, although 31 records contain it at least 31 times.
        assert_eq!(out.windows(8).filter(|window| window == b"\x07example").count(), 1);
    }

    #[test]
    fn names_in_newer_types_are_not_compressed() {
        let domain = name("d.example");
        let mut bytes = Vec::new();
        domain.as_name().write(&mut bytes);
        let record = Record::new(domain.as_name(), 0, Data::Other { kind: Type(33), bytes: &bytes });
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, Header::query(1), None, 512);
        assert!(builder.record(Section::Answer, &record));
        builder.finish();
        assert!(out.ends_with(&bytes));
    }

    /// Returns a response with `count` addresses in a section, over UDP.
    fn filled(section: Section, count: u8) -> Vec<u8> {
        let domain = name("d.example");
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, Header::query(1).response(Rcode::NO_ERROR), Some(Edns::new(1232)), 0);
        builder.question(&Question { name: domain.as_name(), kind: Type::A, class: Class::IN });
        builder.record(section, &Record::new(Name::ROOT, 1, a(0)));
        for last in 0..count {
            builder.record(section, &Record::new(domain.as_name(), 1, a(last)));
        }
        let len = builder.finish();
        assert!(len == out.len() && len <= UDP_BYTES, "{len}");
        out
    }

    #[test]
    fn answers_are_truncated_at_the_limit() {
        // 12 header, 15 question, 15 for the record of the root, 16 for each address, 11 OPT.
        for (count, fit) in [(0, 0), (28, 28), (29, 28), (200, 28)] {
            for section in [Section::Answer, Section::Authority] {
                let out = filled(section, count);
                let message = Message::parse(&out).unwrap();
                assert_eq!(message.answers().chain(message.authorities()).count(), usize::from(fit) + 1);
                assert_eq!(message.header().is_truncated, count > fit, "{count}");
                assert_eq!(message.udp_bytes(), 1232);
            }
        }
    }

    #[test]
    fn an_additional_set_that_does_not_fit_is_left_out_as_in_rfc_2181_section_9() {
        for (count, left) in [(28, 29), (29, 1), (200, 1)] {
            let out = filled(Section::Additional, count);
            let message = Message::parse(&out).unwrap();
            assert!(!message.header().is_truncated);
            // OPT is one of them.
            assert_eq!(message.additionals().count(), left + 1, "{count}");
        }
    }

    #[test]
    fn a_question_and_a_record_that_are_too_long_leave_a_valid_message() {
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, Header::query(1), None, 512);
        let domain = name(&[&"l".repeat(60)[..]; 4].join("."));
        let question = Question { name: domain.as_name(), kind: Type::A, class: Class::IN };
        assert!(builder.question(&question));
        assert!(
            builder
                .record(Section::Answer, &Record::new(Name::ROOT, 1, Data::Other { kind: Type(9), bytes: &[0; 200] }))
        );
        let bytes = vec![0; 70_000];
        assert!(
            !builder.record(Section::Answer, &Record::new(Name::ROOT, 1, Data::Other { kind: Type(9), bytes: &bytes }))
        );
        builder.finish();
        let message = Message::parse(&out).unwrap();
        assert_eq!((message.questions().count(), message.answers().count()), (1, 1));
        assert!(message.header().is_truncated);
    }

    #[test]
    fn nothing_is_written_after_a_question_that_does_not_fit() {
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, Header::query(1), None, 512);
        let long = [b'a', b'b', b'c'].map(|letter| {
            let label = [letter; 50];
            (0..4).fold(NameBuf::root(), |mut name, _| {
                name.push(&label).unwrap();
                name
            })
        });
        let mut ask =
            |name: NameBuf| builder.question(&Question { name: name.as_name(), kind: Type::A, class: Class::IN });
        assert_eq!(long.map(&mut ask), [true, true, false]);
        // It would fit as a pointer, but to a label that was cut off.
        assert!(!ask(name(&"c".repeat(50))));
        assert!(!builder.record(Section::Answer, &Record::new(Name::ROOT, 1, a(1))));
        builder.finish();
        let message = Message::parse(&out).unwrap();
        assert_eq!((message.questions().count(), message.header().is_truncated), (2, true));
    }
}
