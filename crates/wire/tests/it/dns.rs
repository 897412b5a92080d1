//! DNS: written messages are read back, parsed messages can be written again, and arbitrary bytes cause no panic.

use landau_wire::dns::{
    Builder, Class, Data, Edns, Header, MESSAGE_BYTES, Message, Name, NameBuf, Question, Rcode, Record, Section, Soa,
    Txt, Type, UDP_BYTES, frame,
};
use proptest::prelude::*;

const LABELS: &[&[u8]] = &[b"mx", b"MX", b"d1", b"example", b"org", b"a.b", b"\0\xff"];

/// Names with common suffixes, some of them long.
fn names() -> impl Strategy<Value = NameBuf> {
    let label = prop_oneof![
        8 => prop::sample::select(LABELS).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 1..=63),
    ];
    prop::collection::vec(label, 0..6).prop_map(|labels| {
        let mut name = NameBuf::root();
        // A name that would be too long is truncated.
        let _ = labels.iter().try_for_each(|label| name.push(label));
        name
    })
}

/// A record before its names are borrowed: owner, data, class and time to live.
#[derive(Debug, Clone)]
struct Plan {
    owner: NameBuf,
    other: NameBuf,
    kind: usize,
    number: u32,
    bytes: Vec<u8>,
    is_internet: bool,
}

impl Plan {
    fn record(&self) -> Record<'_> {
        let Plan { other, number, bytes, .. } = self;
        let (other, number) = (other.as_name(), *number);
        let soa = Soa {
            server: other,
            mailbox: self.owner.as_name(),
            serial: number,
            refresh_s: 1,
            retry_s: 2,
            expire_s: number / 3,
            negative_ttl_s: 4,
        };
        let unknown = Data::Other { kind: Type(300), bytes };
        let data = match self.kind {
            _ if !self.is_internet => Data::Other { kind: Type::A, bytes },
            0 => Data::A(number.into()),
            1 => Data::Aaaa(u128::from(number).into()),
            2 => Data::Mx { preference: number as u16, exchange: other },
            3 => Data::Cname(other),
            4 => Data::Ns(other),
            5 => Data::Ptr(other),
            6 => Data::Soa(soa),
            7 => Txt::new(bytes).map_or(unknown, Data::Txt),
            _ => unknown,
        };
        let class = if self.is_internet { Class::IN } else { Class::CH };
        Record { class, ..Record::new(self.owner.as_name(), number >> 1, data) }
    }
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let text = prop::collection::vec(any::<u8>(), 0..5).prop_map(|text| [&[text.len() as u8], &text[..]].concat());
    let one = (names(), names(), 0..9usize, any::<u32>(), text, prop::bool::weighted(0.9));
    let one = one.prop_map(|(owner, other, kind, number, bytes, is_internet)| Plan {
        owner,
        other,
        kind,
        number,
        bytes,
        is_internet,
    });
    prop::collection::vec(one, 0..12)
}

/// Returns a whole message written again.
fn rewritten(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let edns = message.edns().copied();
    let mut builder =
        Builder::new(&mut out, Header { rcode: message.rcode(), ..*message.header() }, edns, MESSAGE_BYTES);
    for question in message.questions() {
        assert!(builder.question(&question));
    }
    for (section, records) in [
        (Section::Answer, message.answers()),
        (Section::Authority, message.authorities()),
        (Section::Additional, message.additionals()),
    ] {
        for record in records.filter(|record| record.kind() != Type::OPT) {
            assert!(builder.record(section, &record));
        }
    }
    builder.finish();
    out
}

/// Panics unless a message has the same contents after it is written again. Returns its length then.
fn agrees_when_rewritten(message: &Message<'_>) -> usize {
    let out = rewritten(message);
    let again = Message::parse(&out).expect("a message");
    assert_eq!((again.header(), again.rcode(), again.edns()), (message.header(), message.rcode(), message.edns()));
    assert!(again.questions().eq(message.questions()));
    assert!(again.answers().eq(message.answers()) && again.authorities().eq(message.authorities()));
    let plain = |one: &Message<'_>| one.additionals().filter(|record| record.kind() != Type::OPT).count();
    assert_eq!(plain(&again), plain(message));
    out.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn built_messages_are_read_back(
        plans in plans(),
        sections in prop::collection::vec(0..3usize, 12),
        limit in prop_oneof![Just(MESSAGE_BYTES), UDP_BYTES..700],
        edns in prop::option::of(512..5000u16),
    ) {
        let mut sections = sections;
        sections.sort_unstable();
        let records: Vec<Record<'_>> = plans.iter().map(Plan::record).collect();
        let question = Question { name: Name::ROOT, kind: Type::ANY, class: Class::IN };
        let question = Question { name: plans.first().map_or(question.name, |plan| plan.owner.as_name()), ..question };
        let mut out = b"before".to_vec();
        let header = Header::query(7).response(Rcode::NO_ERROR);
        let mut builder = Builder::new(&mut out, header, edns.map(Edns::new), limit);
        prop_assert!(builder.question(&question));
        let mut fitted = Vec::new();
        for (record, section) in records.iter().zip(&sections) {
            let section = [Section::Answer, Section::Authority, Section::Additional][*section];
            if builder.record(section, record) {
                fitted.push((section, *record));
            }
        }
        let len = builder.finish();
        let bytes = &out[6..];
        prop_assert!(len == bytes.len() && len <= limit);
        let message = Message::parse(bytes).expect("a message");
        prop_assert_eq!(message.question(), Some(question));
        let of = |section| fitted.iter().filter(move |(own, _)| *own == section).map(|(_, record)| *record);
        prop_assert!(message.answers().eq(of(Section::Answer)));
        prop_assert!(message.authorities().eq(of(Section::Authority)));
        // An additional record set that did not fit completely was removed from its start.
        let additional: Vec<_> = message.additionals().filter(|record| record.kind() != Type::OPT).collect();
        let written: Vec<_> = of(Section::Additional).collect();
        prop_assert!(written.starts_with(&additional));
        prop_assert!(additional.len() == written.len() || fitted.len() < records.len());
        let planned = sections.iter().take(records.len()).filter(|section| **section < 2).count();
        let is_cut = of(Section::Answer).chain(of(Section::Authority)).count() < planned;
        prop_assert_eq!(message.header().is_truncated, is_cut);
        prop_assert_eq!(message.edns().map(|edns| edns.udp_bytes), edns);
        prop_assert_eq!(agrees_when_rewritten(&message), len);
        // No prefix of a message is a message. Over TCP, its length delimits it.
        for shorter in 0..len {
            prop_assert!(Message::parse(&bytes[..shorter]).is_err());
        }
        let mut framed = Vec::new();
        frame::write(&mut framed, |out| out.extend_from_slice(bytes)).expect("a length");
        prop_assert_eq!(frame::next(&framed[..=len]), None);
        prop_assert_eq!(frame::next(&framed), Some((bytes, len + 2)));
    }

    #[test]
    fn altered_messages_are_judged_without_a_panic(
        plans in plans(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, Header::query(7), Some(Edns::new(1232)), MESSAGE_BYTES);
        for plan in &plans {
            builder.record(Section::Answer, &plan.record());
        }
        builder.finish();
        for (at, value) in changes {
            let at = at.index(out.len());
            out[at] = value;
        }
        if let Ok(message) = Message::parse(&out) {
            let counts = [message.answers().count(), message.authorities().count(), message.additionals().count()];
            let (_, expected) = Header::parse(&out).expect("a header");
            prop_assert_eq!(counts, [1, 2, 3].map(|section| usize::from(expected[section])));
            agrees_when_rewritten(&message);
        }
    }

    #[test]
    fn names_are_written_and_read_back(name in names(), other in names()) {
        prop_assert_eq!(NameBuf::parse(&name.to_string()), Ok(name));
        let mut wire = Vec::new();
        name.as_name().write(&mut wire);
        prop_assert_eq!(wire.len(), name.as_name().byte_count());
        prop_assert_eq!(Name::parse(&wire, 0), Ok((name.as_name(), wire.len())));
        let mut joined = other;
        if joined.extend(&name.as_name()).is_ok() {
            prop_assert!(joined.as_name().is_within(&name.as_name()));
            let labels: Vec<&[u8]> = other.as_name().labels().chain(name.as_name().labels()).collect();
            prop_assert_eq!(joined.as_name().labels().collect::<Vec<_>>(), labels);
        }
    }
}
