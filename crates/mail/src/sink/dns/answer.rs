//! Answers to queries: a message in, a message out.

use super::zone::{Addresses, Kind, Place, Zone};
use landau_wire::dns::{
    Builder, Class, Data, Edns, Header, Message, Name, NameBuf, Opcode, Question, Rcode, Record, Section, Soa, Type,
};

/// The time to live of records, in seconds.
const TTL_S: u32 = 300;

/// The maximum UDP message size that the server announces for itself (the value of the DNS flag day 2020).
const UDP_BYTES: u16 = 1232;

/// The transport of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// The result of a query, for the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) rcode: Rcode,
    pub(super) is_truncated: bool,
}

/// The records of an answer.
#[derive(Debug, Default)]
struct Found {
    rcode: Option<Rcode>,
    mx: Vec<(u16, NameBuf)>,
    /// The addresses of the name itself.
    addresses: Addresses,
    /// The addresses of the MX hosts, for the additional section.
    additional: Vec<(NameBuf, Addresses)>,
    is_truncated: bool,
}

/// Answers the queries of a zone.
#[derive(Debug, Clone)]
pub(super) struct Responder {
    zone: Zone,
    name: NameBuf,
}

impl Responder {
    pub(super) fn new(zone: Zone, name: NameBuf) -> Self {
        Self { zone, name }
    }

    /// Appends the answer to a message; `None` if it must not be answered: it is an answer itself, or has no header.
    pub(super) fn answer(&self, message: &[u8], transport: Transport, out: &mut Vec<u8>) -> Option<Answered> {
        let (header, _) = Header::parse(message)?;
        if header.is_response {
            return None;
        }
        let parsed = Message::parse(message);
        let edns = parsed.as_ref().ok().and_then(|message| message.edns().copied());
        let question = parsed.as_ref().ok().and_then(Message::question);
        let found = match (&parsed, question) {
            (Err(_), _) | (_, None) if header.opcode == Opcode::QUERY => refused(Rcode::FORMAT_ERROR),
            _ if header.opcode != Opcode::QUERY => refused(Rcode::NOT_IMPLEMENTED),
            _ if edns.is_some_and(|edns| edns.version != 0) => refused(Rcode::BAD_VERSION),
            (_, Some(question)) => self.look_up(&question, transport),
            (_, None) => refused(Rcode::FORMAT_ERROR),
        };
        let limit = match (transport, &parsed) {
            (Transport::Udp, Ok(message)) => message.udp_bytes(),
            (Transport::Udp, Err(_)) => landau_wire::dns::UDP_BYTES,
            (Transport::Tcp, _) => landau_wire::dns::MESSAGE_BYTES,
        };
        Some(self.write(&header, question.as_ref(), edns.map(|_| Edns::new(UDP_BYTES)), &found, limit, out))
    }

    /// Returns the records of the zone for a question.
    fn look_up(&self, question: &Question<'_>, transport: Transport) -> Found {
        let zone_name = self.name.as_name();
        if question.class != Class::IN || !question.name.is_within(&zone_name) {
            return refused(Rcode::REFUSED);
        }
        let count = question.name.labels().count() - zone_name.labels().count();
        let mut labels: Vec<&[u8]> = question.name.labels().take(count).collect();
        labels.reverse();
        match self.zone.find(&labels) {
            Place::Top | Place::Site => Found::default(),
            Place::Missing => refused(Rcode::NAME_ERROR),
            Place::Host { site, host } => Found { addresses: self.zone.addresses(site, host), ..Found::default() },
            Place::Domain(domain) => {
                let mut found = self.of_domain(domain);
                found.is_truncated = transport == Transport::Udp && self.zone.is_truncated(domain);
                found
            }
        }
    }

    fn of_domain(&self, domain: u32) -> Found {
        match self.zone.kind(domain) {
            Kind::Nonexistent => refused(Rcode::NAME_ERROR),
            Kind::Failing => refused(Rcode::SERVER_FAILURE),
            Kind::NullMx => Found { mx: vec![(0, NameBuf::root())], ..Found::default() },
            Kind::NoMx { site } => Found { addresses: self.zone.addresses(site, 1), ..Found::default() },
            Kind::Mail { site } => {
                let mut found = Found::default();
                for host in 1..=self.zone.host_count(site) {
                    let name = self.host_name(site, host);
                    found.mx.push((self.zone.preference(site, host), name));
                    found.additional.push((name, self.zone.addresses(site, host)));
                }
                found
            }
        }
    }

    fn host_name(&self, site: u32, host: u32) -> NameBuf {
        let mut name = NameBuf::root();
        // This cannot fail: `new` leaves space for these labels.
        let _ = name.push(format!("mx{host}").as_bytes());
        let _ = name.push(self.zone.site_label(site).as_bytes());
        let _ = name.extend(&self.name.as_name());
        name
    }

    fn write(
        &self,
        header: &Header,
        question: Option<&Question<'_>>,
        edns: Option<Edns<'_>>,
        found: &Found,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Answered {
        let rcode = found.rcode.unwrap_or(Rcode::NO_ERROR);
        let mut response = header.response(rcode);
        response.is_authoritative = matches!(rcode, Rcode::NO_ERROR | Rcode::NAME_ERROR);
        response.is_truncated = found.is_truncated;
        let start = out.len();
        let mut builder = Builder::new(out, response, edns, limit);
        if let Some(question) = question {
            builder.question(question);
            if !found.is_truncated && response.is_authoritative {
                self.write_records(&mut builder, question, found);
            }
        }
        builder.finish();
        let is_truncated = Header::parse(&out[start..]).is_some_and(|(header, _)| header.is_truncated);
        Answered { rcode, is_truncated }
    }

    fn write_records(&self, builder: &mut Builder<'_>, question: &Question<'_>, found: &Found) {
        let wants = |kind: Type| question.kind == kind || question.kind == Type::ANY;
        let name = question.name;
        let is_top = name == self.name.as_name();
        let mut count = 0;
        let mut answer = |builder: &mut Builder<'_>, data: Data<'_>| {
            count += 1;
            builder.record(Section::Answer, &Record::new(name, TTL_S, data));
        };
        if wants(Type::MX) {
            for (preference, exchange) in &found.mx {
                answer(builder, Data::Mx { preference: *preference, exchange: exchange.as_name() });
            }
        }
        let Addresses { v4, v6 } = found.addresses;
        if let Some(address) = v4.filter(|_| wants(Type::A)) {
            answer(builder, Data::A(address));
        }
        if let Some(address) = v6.filter(|_| wants(Type::AAAA)) {
            answer(builder, Data::Aaaa(address));
        }
        if is_top && wants(Type::SOA) {
            answer(builder, Data::Soa(self.soa()));
        }
        if is_top && wants(Type::NS) {
            answer(builder, Data::Ns(self.name.as_name()));
        }
        if count == 0 {
            // A negative answer contains the time for which it may be cached (RFC 2308 section 3).
            builder.record(Section::Authority, &Record::new(self.name.as_name(), TTL_S, Data::Soa(self.soa())));
        } else if wants(Type::MX) {
            for (name, Addresses { v4, v6 }) in &found.additional {
                for data in v4.map(Data::A).into_iter().chain(v6.map(Data::Aaaa)) {
                    builder.record(Section::Additional, &Record::new(name.as_name(), TTL_S, data));
                }
            }
        }
    }

    fn soa(&self) -> Soa<'_> {
        let name: Name<'_> = self.name.as_name();
        Soa {
            server: name,
            mailbox: name,
            serial: 1,
            refresh_s: 3600,
            retry_s: 600,
            expire_s: 86_400,
            negative_ttl_s: TTL_S,
        }
    }
}

fn refused(rcode: Rcode) -> Found {
    Found { rcode: Some(rcode), ..Found::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::dns::zone::Layout;

    fn responder(layout: Layout) -> Responder {
        Responder::new(Zone::new(layout, 1), NameBuf::parse("example").unwrap())
    }

    fn query(name: &str, kind: Type, edns: Option<Edns<'_>>) -> Vec<u8> {
        let (mut out, name) = (Vec::new(), NameBuf::parse(name).unwrap());
        let mut builder = Builder::new(&mut out, Header::query(7), edns, usize::MAX);
        builder.question(&Question { name: name.as_name(), kind, class: Class::IN });
        builder.finish();
        out
    }

    fn ask(responder: &Responder, query: &[u8], transport: Transport) -> Vec<u8> {
        let mut out = Vec::new();
        responder.answer(query, transport, &mut out).unwrap();
        out
    }

    /// Returns the result, and the numbers of answers, authority and additional records.
    fn shape(responder: &Responder, name: &str, kind: Type) -> (Rcode, [usize; 3]) {
        let answer = ask(responder, &query(name, kind, None), Transport::Udp);
        let message = Message::parse(&answer).unwrap();
        assert_eq!((message.header().id, message.header().is_response), (7, true));
        let counts = [message.answers().count(), message.authorities().count(), message.additionals().count()];
        (message.rcode(), counts)
    }

    #[test]
    fn domains_have_mx_and_their_hosts_have_addresses() {
        let responder = responder(Layout::default());
        for domain in ["d0001.example", "d9113.example", "D0777.EXAMPLE"] {
            let answer = ask(&responder, &query(domain, Type::MX, None), Transport::Udp);
            let message = Message::parse(&answer).unwrap();
            assert!(message.header().is_authoritative && !message.header().is_truncated);
            let additional: Vec<Record<'_>> = message.additionals().collect();
            assert_eq!(message.answers().count(), additional.len());
            for (mx, address) in message.answers().zip(&additional) {
                let Data::Mx { exchange, .. } = mx.data else { panic!("{mx:?}") };
                assert_eq!(exchange, address.name);
                let direct = ask(&responder, &query(&exchange.to_string(), Type::A, None), Transport::Udp);
                let direct = Message::parse(&direct).unwrap().answers().next().map(|one| one.data == address.data);
                assert_eq!(direct, Some(true));
            }
        }
    }

    #[test]
    fn what_does_not_exist_has_a_negative_answer() {
        let responder = responder(Layout::default());
        for (name, kind, rcode, counts) in [
            ("d0000.example", Type::MX, Rcode::NAME_ERROR, [0, 1, 0]),
            ("www.d0001.example", Type::A, Rcode::NAME_ERROR, [0, 1, 0]),
            ("d0001.example", Type::A, Rcode::NO_ERROR, [0, 1, 0]),
            ("d0001.example", Type::AAAA, Rcode::NO_ERROR, [0, 1, 0]),
            ("mx1.s0001.example", Type::AAAA, Rcode::NO_ERROR, [0, 1, 0]),
            ("s0001.example", Type::A, Rcode::NO_ERROR, [0, 1, 0]),
            ("example", Type::SOA, Rcode::NO_ERROR, [1, 0, 0]),
            ("example", Type::NS, Rcode::NO_ERROR, [1, 0, 0]),
            ("example", Type::A, Rcode::NO_ERROR, [0, 1, 0]),
            ("example.org", Type::MX, Rcode::REFUSED, [0, 0, 0]),
            (".", Type::NS, Rcode::REFUSED, [0, 0, 0]),
        ] {
            assert_eq!(shape(&responder, name, kind), (rcode, counts), "{name} {kind}");
        }
    }

    #[test]
    fn domains_out_of_order_answer_so() {
        let of = |layout: Layout, kind| shape(&responder(layout), "d0001.example", kind);
        let nonexistent = Layout { nonexistent: 1.0, ..Layout::default() };
        assert_eq!(of(nonexistent, Type::MX), (Rcode::NAME_ERROR, [0, 1, 0]));
        let failing = Layout { failing: 1.0, ..Layout::default() };
        assert_eq!(of(failing, Type::MX), (Rcode::SERVER_FAILURE, [0, 0, 0]));
        let no_mx = Layout { no_mx: 1.0, ..Layout::default() };
        assert_eq!(of(no_mx.clone(), Type::MX), (Rcode::NO_ERROR, [0, 1, 0]));
        assert_eq!(of(no_mx, Type::A), (Rcode::NO_ERROR, [1, 0, 0]));
        let null = responder(Layout { null_mx: 1.0, ..Layout::default() });
        let answer = ask(&null, &query("d0001.example", Type::MX, None), Transport::Udp);
        assert!(Message::parse(&answer).unwrap().answers().all(|record| record.data.is_null_mx()));
    }

    #[test]
    fn hosts_may_have_addresses_of_ipv6_too_or_only() {
        let dual = responder(Layout { dual_stack: 1.0, ..Layout::default() });
        let only = responder(Layout { ipv6_only: 1.0, ..Layout::default() });
        for (kind, counts) in [(Type::A, [1, 0, 0]), (Type::AAAA, [1, 0, 0]), (Type::ANY, [2, 0, 0])] {
            assert_eq!(shape(&dual, "mx1.s0001.example", kind), (Rcode::NO_ERROR, counts), "{kind}");
        }
        assert_eq!(shape(&only, "mx1.s0001.example", Type::A), (Rcode::NO_ERROR, [0, 1, 0]));
        assert_eq!(shape(&only, "mx1.s0001.example", Type::AAAA), (Rcode::NO_ERROR, [1, 0, 0]));
        let [(_, [mx, _, additional]), (_, [others, _, single])] =
            [&dual, &only].map(|responder| shape(responder, "d0001.example", Type::MX));
        assert_eq!((additional, single), (2 * mx, others));
        let no_mx = responder(Layout { no_mx: 1.0, ipv6_only: 1.0, ..Layout::default() });
        assert_eq!(shape(&no_mx, "d0001.example", Type::AAAA), (Rcode::NO_ERROR, [1, 0, 0]));
    }

    #[test]
    fn a_truncated_answer_is_whole_over_tcp() {
        let responder = responder(Layout { truncated: 1.0, ..Layout::default() });
        let of = |transport| ask(&responder, &query("d0001.example", Type::MX, None), transport);
        let (udp, tcp) = (of(Transport::Udp), of(Transport::Tcp));
        let (udp, tcp) = (Message::parse(&udp).unwrap(), Message::parse(&tcp).unwrap());
        assert_eq!((udp.header().is_truncated, udp.answers().count()), (true, 0));
        assert!(!tcp.header().is_truncated && tcp.answers().count() > 0);
    }

    #[test]
    fn edns_is_answered_with_edns() {
        let responder = responder(Layout::default());
        let answer = ask(&responder, &query("d0001.example", Type::MX, Some(Edns::new(4096))), Transport::Udp);
        let message = Message::parse(&answer).unwrap();
        assert_eq!(message.edns().map(|edns| (edns.udp_bytes, edns.version)), Some((UDP_BYTES, 0)));
        let newer = Edns { version: 1, ..Edns::new(4096) };
        let answer = ask(&responder, &query("d0001.example", Type::MX, Some(newer)), Transport::Udp);
        assert_eq!(Message::parse(&answer).unwrap().rcode(), Rcode::BAD_VERSION);
    }

    #[test]
    fn malformed_messages_are_refused_and_answers_are_ignored() {
        let responder = responder(Layout::default());
        let good = query("d0001.example", Type::MX, None);
        for len in 0..good.len() {
            let mut out = Vec::new();
            let answered = responder.answer(&good[..len], Transport::Udp, &mut out);
            let expected = (len >= 12).then_some(Rcode::FORMAT_ERROR);
            assert_eq!(answered.map(|one| one.rcode), expected, "{len}");
            assert_eq!(out.is_empty(), expected.is_none());
        }
        let answer = ask(&responder, &good, Transport::Udp);
        assert_eq!(responder.answer(&answer, Transport::Udp, &mut Vec::new()), None);
        let mut notify = good;
        notify[2] |= 4 << 3;
        let refused = ask(&responder, &notify, Transport::Udp);
        assert_eq!(Message::parse(&refused).unwrap().rcode(), Rcode::NOT_IMPLEMENTED);
    }
}
