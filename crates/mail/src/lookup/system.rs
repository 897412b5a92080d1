//! The resolver in the configuration of this system (`/etc/resolv.conf`), through the library hickory.
//!
//! A separate thread sends queries and waits, so the engine's event loop never blocks; the engine collects the answers
//! in its turns.

use super::{Answer, Kind, Problem, Records, TTL_S};
use crate::error::{Error, Result};
use hickory_resolver::TokioResolver;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use landau_wire::dns::{NameBuf, Rcode};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Maximum number of concurrent queries: a resolver on a home router has little memory.
const MOST_AWAITED: usize = 64;

/// The interval at which the engine polls for answers while it awaits some.
const POLL_NS: u64 = 5_000_000;

/// A query.
struct Question {
    number: u32,
    name: String,
    kind: Kind,
}

/// The system's resolver.
#[derive(Debug)]
pub(crate) struct System {
    questions: UnboundedSender<Question>,
    answers: Receiver<(u32, Answer)>,
    awaited: usize,
    /// When to poll for answers again.
    poll_ns: u64,
}

impl System {
    /// Reads the system's configuration, and starts the thread.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read, or the thread cannot be started.
    pub(crate) fn start() -> Result<Self> {
        let failed = |reason: String| {
            Error::Spec(format!(
                "the system's resolver cannot be used: {reason}; specify a server with --name-server or --via"
            ))
        };
        let mut builder = TokioResolver::builder_tokio().map_err(|error| failed(error.to_string()))?;
        // The engine has its own cache. No mail server looks up MX hosts in /etc/hosts.
        builder.options_mut().cache_size = 0;
        let resolver = builder.build().map_err(|error| failed(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(error.to_string()))?;
        let (questions, asked) = unbounded_channel();
        let (out, answers) = channel();
        let thread = std::thread::Builder::new().name("resolver".to_owned());
        thread
            .spawn(move || runtime.block_on(answer_all(resolver, asked, out)))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { questions, answers, awaited: 0, poll_ns: 0 })
    }
}

impl System {
    /// Starts a query. The answer carries `number`.
    pub(crate) fn ask(&mut self, number: u32, name: NameBuf, kind: Kind) {
        // With a trailing dot the name is fully qualified: no search domain is appended. The thread lives as long as
        // `self`.
        let _ = self.questions.send(Question { number, name: format!("{}.", name.as_name()), kind });
        self.awaited += 1;
    }

    /// Returns the next answer.
    pub(crate) fn next_answer(&mut self) -> Option<(u32, Answer)> {
        let answer = self.answers.try_recv().ok()?;
        self.awaited -= 1;
        Some(answer)
    }

    /// Returns when to poll for answers.
    pub(crate) fn next_ns(&self) -> u64 {
        if self.awaited > 0 { self.poll_ns } else { u64::MAX }
    }

    /// Records the time of a turn of the engine.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.poll_ns = now_ns.saturating_add(POLL_NS);
    }
}

/// Answers queries until the sender is dropped.
async fn answer_all(resolver: TokioResolver, mut asked: UnboundedReceiver<Question>, out: Sender<(u32, Answer)>) {
    let (resolver, room) = (Arc::new(resolver), Arc::new(Semaphore::new(MOST_AWAITED)));
    while let Some(question) = asked.recv().await {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let (resolver, out) = (Arc::clone(&resolver), out.clone());
        tokio::spawn(async move {
            let answer = match Name::from_ascii(&question.name) {
                Ok(name) => answer(resolver.lookup(name, record_type(question.kind)).await),
                Err(_) => Answer::problem(Problem::Malformed),
            };
            // The receiver is gone if the engine has ended.
            let _ = out.send((question.number, answer));
            drop(permit);
        });
    }
}

fn record_type(kind: Kind) -> RecordType {
    match kind {
        Kind::Mx => RecordType::MX,
        Kind::A => RecordType::A,
        Kind::Aaaa => RecordType::AAAA,
    }
}

/// Converts an answer of the library.
fn answer(looked_up: std::result::Result<Lookup, NetError>) -> Answer {
    match looked_up {
        Ok(lookup) => records(&lookup),
        Err(NetError::Dns(DnsError::NoRecordsFound(none))) => match none.response_code {
            ResponseCode::NoError => {
                Answer { records: Ok(Records::default()), ttl_s: negative_ttl_s(none.negative_ttl) }
            }
            ResponseCode::NXDomain => {
                Answer { records: Err(Problem::NoName), ttl_s: negative_ttl_s(none.negative_ttl) }
            }
            code => Answer::problem(problem_of(code)),
        },
        Err(NetError::Dns(DnsError::ResponseCode(code))) => Answer::problem(problem_of(code)),
        Err(NetError::Io(error)) => Answer::problem(Problem::Unreachable(landau_sys::Error::from_io("send", &error))),
        Err(NetError::Proto(_)) => Answer::problem(Problem::Malformed),
        Err(_) => Answer::problem(Problem::TimedOut),
    }
}

fn negative_ttl_s(ttl_s: Option<u32>) -> u32 {
    /// How long a negative answer without SOA is cached.
    const DEFAULT: u32 = 60;
    ttl_s.unwrap_or(DEFAULT).clamp(*TTL_S.start(), *TTL_S.end())
}

fn problem_of(code: ResponseCode) -> Problem {
    match code {
        ResponseCode::NXDomain => Problem::NoName,
        ResponseCode::ServFail => Problem::ServerFailure,
        ResponseCode::Refused => Problem::Refused,
        other => Problem::Code(Rcode(u16::from(other))),
    }
}

fn records(lookup: &Lookup) -> Answer {
    let (mut records, mut ttl_s) = (Records::default(), *TTL_S.end());
    for record in lookup.answers() {
        ttl_s = ttl_s.min(record.ttl);
        match &record.data {
            RData::MX(mx) => records.mx.push((mx.preference, text(&mx.exchange))),
            RData::A(address) => records.addresses.push(IpAddr::V4(address.0)),
            RData::AAAA(address) => records.addresses.push(IpAddr::V6(address.0)),
            _ => {}
        }
    }
    for record in lookup.additionals() {
        let address = match &record.data {
            RData::A(address) => IpAddr::V4(address.0),
            RData::AAAA(address) => IpAddr::V6(address.0),
            _ => continue,
        };
        ttl_s = ttl_s.min(record.ttl);
        records.additional.push((text(&record.name), address));
    }
    Answer { records: Ok(records), ttl_s: ttl_s.clamp(*TTL_S.start(), *TTL_S.end()) }
}

/// Returns a name in lower case without its trailing dot; the root is a dot.
fn text(name: &Name) -> Box<str> {
    let text = name.to_ascii().to_ascii_lowercase();
    match text.strip_suffix('.') {
        Some("") | None => text.into(),
        Some(short) => short.into(),
    }
}
