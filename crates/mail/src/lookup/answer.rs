//! The interpretation of a name server's answer to a query.

use super::{Answer, Kind, MOST_ALIASES, Problem, Records, TTL_S};
use landau_wire::dns::{Data, Message, Name, NameBuf, Rcode};
use std::net::IpAddr;

/// The time for which a negative answer without SOA is cached, in seconds.
const NEGATIVE_TTL_S: u32 = 60;

/// The interpretation of a message.
#[derive(Debug, PartialEq)]
pub(super) enum Reading {
    /// Records are missing: ask again over TCP.
    Truncated,
    /// The name is an alias, and the message has no records of its target: query this name. The number is the time for
    /// which the alias may be cached, in seconds.
    Alias(NameBuf, u32),
    /// The answer.
    Answer(Answer),
}

/// Returns the text of a name in lower case.
pub(super) fn text(name: &Name<'_>) -> Box<str> {
    name.to_string().to_ascii_lowercase().into()
}

/// Reads the answer to a question about `asked`.
pub(super) fn read(message: &Message<'_>, asked: &NameBuf, kind: Kind) -> Reading {
    let (header, rcode) = (message.header(), message.rcode());
    if header.is_truncated {
        return Reading::Truncated;
    }
    let failure = match rcode {
        Rcode::NO_ERROR | Rcode::NAME_ERROR => None,
        Rcode::SERVER_FAILURE => Some(Problem::ServerFailure),
        Rcode::REFUSED => Some(Problem::Refused),
        other => Some(Problem::Code(other)),
    };
    if let Some(problem) = failure {
        return Reading::Answer(Answer::problem(problem));
    }
    let (mut name, mut links, mut ttl_s) = (*asked, 0, *TTL_S.end());
    while let Some((target, alias_ttl_s)) = alias(message, &name.as_name()) {
        links += 1;
        if links > MOST_ALIASES {
            return Reading::Answer(Answer::problem(Problem::Aliases));
        }
        (name, ttl_s) = (target, ttl_s.min(alias_ttl_s));
    }
    let mut records = Records::default();
    for record in message.answers().filter(|record| record.name == name.as_name() && record.kind() == kind.record()) {
        ttl_s = ttl_s.min(record.ttl_s);
        match record.data {
            Data::Mx { preference, exchange } => records.mx.push((preference, text(&exchange))),
            Data::A(address) => records.addresses.push(IpAddr::V4(address)),
            Data::Aaaa(address) => records.addresses.push(IpAddr::V6(address)),
            _ => {}
        }
    }
    if records.mx.is_empty() && records.addresses.is_empty() {
        return nothing(message, name, links, ttl_s, rcode);
    }
    for record in message.additionals().filter(|_| kind == Kind::Mx) {
        let address = match record.data {
            Data::A(address) => IpAddr::V4(address),
            Data::Aaaa(address) => IpAddr::V6(address),
            _ => continue,
        };
        ttl_s = ttl_s.min(record.ttl_s);
        records.additional.push((text(&record.name), address));
    }
    Reading::Answer(Answer { records: Ok(records), ttl_s: ttl_s.clamp(*TTL_S.start(), *TTL_S.end()) })
}

/// Returns the target of an alias and its TTL in seconds.
fn alias(message: &Message<'_>, name: &Name<'_>) -> Option<(NameBuf, u32)> {
    message.answers().filter(|record| record.name == *name).find_map(|record| match record.data {
        Data::Cname(target) => Some((NameBuf::from(target), record.ttl_s)),
        _ => None,
    })
}

/// Interprets a message without the wanted records. It has `links` aliases, which may be cached for `alias_ttl_s`.
fn nothing(message: &Message<'_>, name: NameBuf, links: u32, alias_ttl_s: u32, rcode: Rcode) -> Reading {
    let header = message.header();
    let soa = message.authorities().find_map(|record| match record.data {
        Data::Soa(soa) => Some(record.ttl_s.min(soa.negative_ttl_s)),
        _ => None,
    });
    let ttl_s = soa.unwrap_or(NEGATIVE_TTL_S).min(alias_ttl_s).clamp(*TTL_S.start(), *TTL_S.end());
    if rcode == Rcode::NAME_ERROR {
        return Reading::Answer(Answer { records: Err(Problem::NoName), ttl_s });
    }
    if links > 0 && soa.is_none() {
        return Reading::Alias(name, alias_ttl_s.clamp(*TTL_S.start(), *TTL_S.end()));
    }
    if soa.is_none() && !header.is_authoritative && !header.offers_recursion {
        return Reading::Answer(Answer::problem(Problem::Lame));
    }
    Reading::Answer(Answer { records: Ok(Records::default()), ttl_s })
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_wire::dns::{Builder, Class, Header, Question, Record, Section, Soa};

    fn name(text: &str) -> NameBuf {
        NameBuf::parse(text).unwrap()
    }

    /// Returns the interpretation of an answer to a query for the MX of `a.test`.
    fn reading(rcode: Rcode, change: impl Fn(&mut Header), write: impl Fn(&mut Builder<'_>)) -> Reading {
        let asked = name("a.test");
        let (mut out, mut header) = (Vec::new(), Header::query(1).response(rcode));
        header.is_authoritative = true;
        change(&mut header);
        let mut builder = Builder::new(&mut out, header, None, 4096);
        builder.question(&Question { name: asked.as_name(), kind: Kind::Mx.record(), class: Class::IN });
        write(&mut builder);
        builder.finish();
        read(&Message::parse(&out).unwrap(), &asked, Kind::Mx)
    }

    fn problem(reading: Reading) -> Problem {
        let Reading::Answer(answer) = reading else { panic!("{reading:?}") };
        answer.records.unwrap_err()
    }

    fn add(builder: &mut Builder<'_>, owner: &str, ttl_s: u32, data: Data<'_>) {
        assert!(builder.record(Section::Answer, &Record::new(name(owner).as_name(), ttl_s, data)));
    }

    #[test]
    fn aliases_are_followed_within_an_answer_and_beyond_it() {
        let found = reading(
            Rcode::NO_ERROR,
            |_| {},
            |builder| {
                add(builder, "A.test", 50, Data::Cname(name("b.test").as_name()));
                add(builder, "b.test", 40, Data::Cname(name("c.test").as_name()));
                add(builder, "c.test", 60, Data::Mx { preference: 5, exchange: name("MX.c.test").as_name() });
                add(builder, "other.test", 60, Data::Mx { preference: 1, exchange: name("evil.test").as_name() });
            },
        );
        let records = Records { mx: vec![(5, "mx.c.test".into())], ..Records::default() };
        assert_eq!(found, Reading::Answer(Answer { records: Ok(records), ttl_s: 40 }));
        let found = reading(
            Rcode::NO_ERROR,
            |_| {},
            |builder| {
                add(builder, "a.test", 50, Data::Cname(name("b.test").as_name()));
            },
        );
        assert_eq!(found, Reading::Alias(name("b.test"), 50));
        let found = reading(
            Rcode::NO_ERROR,
            |_| {},
            |builder| {
                add(builder, "a.test", 50, Data::Cname(name("b.test").as_name()));
                add(builder, "b.test", 50, Data::Cname(name("a.test").as_name()));
            },
        );
        assert_eq!(problem(found), Problem::Aliases);
        let found = reading(
            Rcode::NAME_ERROR,
            |_| {},
            |builder| {
                add(builder, "a.test", 50, Data::Cname(name("b.test").as_name()));
            },
        );
        assert_eq!(problem(found), Problem::NoName);
    }

    /// Returns the SOA of a zone whose negative answers may be cached for `negative_ttl_s`.
    fn soa(origin: &NameBuf, negative_ttl_s: u32) -> Soa<'_> {
        let (server, mailbox) = (origin.as_name(), origin.as_name());
        Soa { server, mailbox, serial: 1, refresh_s: 1, retry_s: 1, expire_s: 1, negative_ttl_s }
    }

    #[test]
    fn nothing_is_kept_for_longer_than_an_alias() {
        let origin = name("test");
        for (rcode, alias_ttl_s, expected) in
            [(Rcode::NO_ERROR, 7, 7), (Rcode::NAME_ERROR, 7, 7), (Rcode::NAME_ERROR, 900, 300), (Rcode::NO_ERROR, 0, 1)]
        {
            let found = reading(
                rcode,
                |_| {},
                |builder| {
                    add(builder, "a.test", alias_ttl_s, Data::Cname(name("b.test").as_name()));
                    let soa = Record::new(origin.as_name(), 600, Data::Soa(soa(&origin, 300)));
                    assert!(builder.record(Section::Authority, &soa));
                },
            );
            let Reading::Answer(answer) = found else { panic!("{found:?}") };
            assert_eq!(answer.ttl_s, expected, "{rcode:?} {alias_ttl_s}");
        }
    }

    #[test]
    fn failures_are_distinguished() {
        for (rcode, expected) in [
            (Rcode::NAME_ERROR, Problem::NoName),
            (Rcode::SERVER_FAILURE, Problem::ServerFailure),
            (Rcode::REFUSED, Problem::Refused),
            (Rcode::NOT_IMPLEMENTED, Problem::Code(Rcode::NOT_IMPLEMENTED)),
        ] {
            assert_eq!(problem(reading(rcode, |_| {}, |_| {})), expected);
            assert_eq!(expected.is_final(), rcode == Rcode::NAME_ERROR);
        }
        assert_eq!(problem(reading(Rcode::NO_ERROR, |header| header.is_authoritative = false, |_| {})), Problem::Lame);
        assert_eq!(reading(Rcode::NO_ERROR, |header| header.is_truncated = true, |_| {}), Reading::Truncated);
    }

    #[test]
    fn a_negative_answer_is_kept_as_long_as_its_soa_says() {
        let origin = name("test");
        for (record, negative, expected) in [(300, 70, 70), (20, 70, 20), (0, 70, 1)] {
            let found = reading(
                Rcode::NO_ERROR,
                |_| {},
                |builder| {
                    let record = Record::new(origin.as_name(), record, Data::Soa(soa(&origin, negative)));
                    assert!(builder.record(Section::Authority, &record));
                },
            );
            assert_eq!(found, Reading::Answer(Answer { records: Ok(Records::default()), ttl_s: expected }));
        }
    }
}
