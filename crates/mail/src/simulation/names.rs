//! The simulated name server. The seed determines whether its answers are lost, late, duplicated or failures.
//!
//! Five domains have three sets of MX hosts: `d0` and `d1` share one, `d2` has another with a host of the first, `d3`
//! has no MX, and `d4` is an alias of `d2`.

use super::{SECOND, World};
use landau_wire::dns::{Builder, Data, Message, NameBuf, Question, Rcode, Record, Section, Type};
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// The hosts of each domain, by the last byte of their addresses.
const HOSTS: [&[u8]; 5] = [&[1, 2], &[1, 2], &[3, 1], &[4], &[3, 1]];

/// Returns whether a host takes mail for a domain.
pub(super) fn takes(host: Ipv4Addr, domain: &str) -> bool {
    number(domain).is_some_and(|number| HOSTS[number].contains(&host.octets()[3]))
}

/// Returns the number of a domain of the list.
fn number(domain: &str) -> Option<usize> {
    domain.strip_prefix('d')?.strip_suffix(".test")?.parse().ok().filter(|&number| number < HOSTS.len())
}

/// The datagrams in transit to the engine.
#[derive(Debug, Default)]
pub(super) struct NameServer {
    pub(super) arriving: VecDeque<(u64, Vec<u8>)>,
}

impl NameServer {
    /// Receives a query.
    pub(super) fn receive(&mut self, bytes: &[u8], world: &mut World) {
        if world.chance(0.3) {
            return;
        }
        let query = Message::parse(bytes).expect("a query");
        let answer = answer(&query, world);
        for _ in 0..=u8::from(world.chance(0.1)) {
            let wait_ns = if world.chance(0.1) { world.below(5 * SECOND) } else { world.below(SECOND / 50) };
            self.arriving.push_back((world.now_ns + wait_ns, answer.clone()));
        }
        self.arriving.make_contiguous().sort();
    }
}

fn answer(query: &Message<'_>, world: &mut World) -> Vec<u8> {
    let question = query.question().expect("a question");
    let is_failing = world.chance(0.1);
    let rcode = if is_failing { Rcode::SERVER_FAILURE } else { Rcode::NO_ERROR };
    let mut header = query.header().response(rcode);
    header.is_authoritative = true;
    if world.chance(0.1) {
        // An answer to another query.
        header.id = header.id.wrapping_add(1);
    }
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, header, None, 1232);
    builder.question(&question);
    if !is_failing {
        records(&mut builder, &question, world.below(2) == 0);
    }
    builder.finish();
    out
}

fn name(text: &str) -> NameBuf {
    NameBuf::parse(text).expect("a name")
}

fn records(builder: &mut Builder<'_>, question: &Question<'_>, has_additional: bool) {
    let text = question.name.to_string();
    let add = |builder: &mut Builder<'_>, section, owner: &str, data: Data<'_>| {
        builder.record(section, &Record::new(name(owner).as_name(), 300, data));
    };
    let address = |last: u8| Data::A(Ipv4Addr::new(127, 0, 0, last));
    match (number(&text), text.strip_prefix('h').and_then(|rest| rest.strip_suffix(".test"))) {
        (Some(3), _) if question.kind == Type::A => add(builder, Section::Answer, &text, address(4)),
        (Some(4), _) => {
            add(builder, Section::Answer, &text, Data::Cname(name("d2.test").as_name()));
            // In half of the cases, the alias comes with the records of its target.
            if has_additional && question.kind == Type::MX {
                exchanges(builder, "d2.test", HOSTS[2]);
            }
        }
        (Some(number), _) if question.kind == Type::MX && number != 3 => {
            exchanges(builder, &text, HOSTS[number]);
            for &host in HOSTS[number].iter().filter(|_| has_additional) {
                add(builder, Section::Additional, &format!("h{host}.test"), address(host));
            }
        }
        (None, Some(host)) if question.kind == Type::A => {
            add(builder, Section::Answer, &text, address(host.parse().expect("a host")));
        }
        _ => {}
    }
}

fn exchanges(builder: &mut Builder<'_>, owner: &str, hosts: &[u8]) {
    for &host in hosts {
        // The hosts of the first set have equal preference.
        let preference = if hosts == HOSTS[0] { 10 } else { u16::from(host != hosts[0]) };
        let exchange = name(&format!("h{host}.test"));
        let data = Data::Mx { preference, exchange: exchange.as_name() };
        builder.record(Section::Answer, &Record::new(name(owner).as_name(), 300, data));
    }
}
