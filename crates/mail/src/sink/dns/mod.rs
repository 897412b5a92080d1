//! A name server (RFC 1035) for synthetic domains (`zone`): the answers are computed from the query, and nothing is
//! stored.
//!
//! Over TCP it is a protocol like the others. Over UDP a separate thread receives queries, and sends answers when they
//! are due.

mod answer;
mod udp;
mod zone;

use crate::sink::conduct::{Conduct, Latency};
use crate::sink::counters::{Counted, Reading, counters};
use crate::sink::draw::{Draws, Purpose, key};
use crate::sink::error::Error;
use crate::sink::protocol::{Opened, Origin, Protocol, Step, Then};
use crate::sink::recent::Recent;
use answer::{Answered, Responder, Transport};
use landau_wire::dns::{NameBuf, Rcode, frame};
use std::sync::Arc;
use std::time::Duration;
use zone::Zone;

pub use udp::{Datagrams, bind};
pub use zone::{HOSTS, Layout};

counters! {
    /// The UDP counters of a name server, for all its threads: one for each address.
    UdpCounters {
        udp_queries "queries over UDP",
        udp_lost "queries over UDP dropped to simulate loss",
        udp_truncated "answers over UDP that were truncated",
        udp_failed "answers over UDP with an error: NXDOMAIN, SERVFAIL and others",
        udp_ignored "datagrams that are not queries",
        udp_overflow "answers over UDP dropped because too many were delayed",
    }
}

counters! {
    /// The TCP counters of a name server.
    TcpCounters {
        tcp_queries "queries over TCP",
        tcp_failed "answers over TCP with an error: NXDOMAIN, SERVFAIL and others",
    }
}

/// The behaviour of a name server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Service {
    /// The domains.
    pub layout: Layout,
    /// How long an answer takes.
    pub latency: Latency,
    /// The share of queries over UDP that are lost, from 0 to 1.
    pub loss: f64,
    /// The seed of all draws.
    pub seed: u64,
}

/// A name server.
#[derive(Debug, Clone)]
pub struct Dns {
    responder: Responder,
    latency: Latency,
    loss: f64,
    draws: Draws,
    tcp: Arc<TcpCounters>,
    udp: Arc<UdpCounters>,
    /// The number of times that each query came over UDP, by its key: a repeated query is a new draw.
    attempts: Recent<u64>,
}

/// Maximum length of a zone's name in bytes, which leaves space for the labels of a host.
const ZONE_BYTES: usize = 200;

/// How long a client may keep a connection without a query (RFC 7766 section 6.2.3 recommends a few seconds).
const IDLE: Duration = Duration::from_secs(10);

impl Dns {
    /// Returns a name server for the domains below `zone`.
    pub fn new(zone: &str, service: Service) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::Zone { text: zone.to_owned(), reason: reason.to_owned() };
        let name = NameBuf::parse(zone).map_err(|error| wrong(error.0))?;
        if name.as_name().byte_count() > ZONE_BYTES {
            return Err(wrong("it is too long"));
        }
        let Layout { domains, sites, first_address, .. } = service.layout;
        let hosts = u64::from(sites) * u64::from(HOSTS);
        if domains == 0 || sites == 0 || sites > domains {
            return Err(wrong("there must be at least one domain and one site, and no more sites than domains"));
        }
        if u64::from(first_address.to_bits()) + hosts > 1 << 32 {
            return Err(wrong("the addresses after the first are too few for its hosts"));
        }
        Ok(Self {
            responder: Responder::new(Zone::new(service.layout, service.seed), name),
            latency: service.latency,
            loss: service.loss,
            draws: Draws::new(service.seed),
            tcp: Arc::default(),
            udp: Arc::default(),
            attempts: Recent::default(),
        })
    }

    /// Answers a datagram: appends the answer and returns its delay; `None` if there is none.
    fn answer_datagram(&mut self, message: &[u8], out: &mut Vec<u8>) -> Option<Duration> {
        let counters = Arc::clone(&self.udp);
        counters.udp_queries.add_shared(1);
        // The draw depends on the bytes after the header's id, because the id differs in every query.
        let query = key(&[message.get(2..).unwrap_or_default()]);
        let attempt = self.attempts.entry(query, 0);
        *attempt += 1;
        let attempt = *attempt;
        if self.loss > 0.0 && self.draws.uniform(Purpose::Loss, query, attempt) < self.loss {
            counters.udp_lost.add_shared(1);
            return None;
        }
        let Some(answered) = self.responder.answer(message, Transport::Udp, out) else {
            counters.udp_ignored.add_shared(1);
            return None;
        };
        counters.udp_truncated.add_shared(u64::from(answered.is_truncated));
        counters.udp_failed.add_shared(u64::from(answered.rcode != Rcode::NO_ERROR));
        Some(self.latency.draw(self.draws, query, attempt))
    }
}

/// A connection: its number, and the number of queries.
#[derive(Debug)]
pub(crate) struct Session {
    number: u64,
    queries: u64,
}

impl Protocol for Dns {
    type Session = Session;

    fn open(&mut self, origin: &Origin, _now_ms: u32, _out: &mut Vec<u8>) -> Opened<Session> {
        let plan = Conduct::default().plan(self.draws, origin.number);
        Opened { session: Session { number: origin.number, queries: 0 }, plan, step: Step::receive(0) }
    }

    fn step(&mut self, session: &mut Session, input: &[u8], _now_ms: u32, out: &mut Vec<u8>) -> Step {
        let Some((message, consumed)) = frame::next(input) else { return Step::receive(0) };
        session.queries += 1;
        self.tcp.tcp_queries.add(1);
        let mut answered: Option<Answered> = None;
        let before = out.len();
        let written = frame::write(out, |out| answered = self.responder.answer(message, Transport::Tcp, out));
        let Some(answered) = answered.filter(|_| written.is_ok()) else {
            out.truncate(before);
            return Step { consumed, delay: Duration::ZERO, then: Then::HangUp };
        };
        self.tcp.tcp_failed.add(u64::from(answered.rcode != Rcode::NO_ERROR));
        let delay = self.latency.draw(self.draws, session.number, session.queries);
        Step { consumed, delay, then: Then::Continue }
    }

    fn expire(&mut self, _session: &mut Session, _out: &mut Vec<u8>) {}

    fn close(&mut self, _session: &mut Session) {}

    fn idle_timeout(&self, _session: &Session) -> Duration {
        IDLE
    }

    fn counters(&self) -> Arc<dyn Counted> {
        Arc::new(Both { udp: self.udp.clone(), tcp: self.tcp.clone() })
    }
}

/// The counters of both transports.
struct Both {
    udp: Arc<UdpCounters>,
    tcp: Arc<TcpCounters>,
}

impl Counted for Both {
    fn readings(&self) -> Vec<Reading> {
        let mut all = self.udp.readings();
        all.extend(self.tcp.readings());
        all
    }
}

#[cfg(test)]
mod tests;
