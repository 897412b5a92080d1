//! A client of one name server: UDP with retransmissions, and TCP for truncated answers.

use super::answer::{Reading, read};
use super::{Answer, Kind, MOST_ALIASES, Problem, TTL_S};
use crate::network::{Network, Ready};
use landau_wire::dns::{Builder, Class, Edns, Header, Message, NameBuf, Question, Rcode, frame};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

/// The network id of the UDP socket.
const DATAGRAMS: u32 = 0;
/// Maximum number of TCP connections, which have the following ids.
const STREAMS: usize = 4;

/// Maximum number of queries that await an answer over UDP. The receive buffer of a Linux socket holds 277 short
/// messages by default. Further answers would be dropped, and arrive only after a retransmission.
const MOST_AWAITED: usize = 200;

/// The timeouts of the first, second and last transmission.
const WAITS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// The timeout of an answer over TCP.
const STREAM_WAIT: Duration = Duration::from_secs(7);

/// Maximum size of an answer over UDP, in bytes (the value of the DNS flag day 2020).
const UDP_BYTES: u16 = 1232;

/// A query and its progress.
#[derive(Debug, Clone)]
struct Query {
    /// The number of the query, as given by the caller.
    number: u32,
    name: NameBuf,
    kind: Kind,
    /// The number of transmissions.
    sent: usize,
    /// The number of aliases followed.
    aliases: u32,
    /// How long all of these aliases may be cached, in seconds.
    ttl_s: u32,
}

/// A query over TCP.
#[derive(Debug)]
struct Stream {
    query: Query,
    id: u16,
    is_established: bool,
    received: Vec<u8>,
}

/// A client of one name server.
#[derive(Debug)]
pub(crate) struct Stub {
    server: SocketAddr,
    rng: ChaCha8Rng,
    is_open: bool,
    /// Queries that were not sent yet.
    waiting: VecDeque<Query>,
    /// Queries that await an answer, by the id in the header.
    awaited: HashMap<u16, Query>,
    /// The times of retransmissions, with the id of the query and its number of transmissions so far.
    timers: BinaryHeap<Reverse<(u64, u16, usize)>>,
    /// Queries with a truncated answer, which wait for a TCP connection.
    long: VecDeque<Query>,
    streams: [Option<Stream>; STREAMS],
    answers: VecDeque<(u32, Answer)>,
    /// Why the server could not be reached.
    error: Option<landau_sys::Error>,
    buffer: Vec<u8>,
}

impl Stub {
    /// The number of network ids used by a stub, from 0 on.
    pub(crate) const NETWORK_IDS: u32 = 1 + STREAMS as u32;

    pub(crate) fn new(server: SocketAddr, seed: u64) -> Self {
        Self {
            server,
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0x00d5),
            is_open: false,
            waiting: VecDeque::new(),
            awaited: HashMap::new(),
            timers: BinaryHeap::new(),
            long: VecDeque::new(),
            streams: [const { None }; STREAMS],
            answers: VecDeque::new(),
            error: None,
            buffer: Vec::new(),
        }
    }

    /// Starts a query. The answer carries `number`.
    pub(crate) fn ask(&mut self, number: u32, name: NameBuf, kind: Kind) {
        self.waiting.push_back(Query { number, name, kind, sent: 0, aliases: 0, ttl_s: *TTL_S.end() });
    }

    /// Returns the next answer.
    pub(crate) fn next_answer(&mut self) -> Option<(u32, Answer)> {
        self.answers.pop_front()
    }

    /// Returns when work is due without an event.
    pub(crate) fn next_ns(&self) -> u64 {
        let can_send = !self.waiting.is_empty() && self.awaited.len() < MOST_AWAITED;
        let timer = || self.timers.peek().map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns);
        if can_send || !self.answers.is_empty() { 0 } else { timer() }
    }

    /// Sends the queries that are due.
    pub(crate) fn advance(&mut self, network: &mut impl Network, now_ns: u64) {
        while let Some(&Reverse((at_ns, id, sent))) = self.timers.peek()
            && at_ns <= now_ns
        {
            self.timers.pop();
            if self.awaited.get(&id).is_none_or(|query| query.sent != sent) {
                continue;
            }
            if sent < WAITS.len() {
                self.send(network, id, now_ns);
            } else if let Some(query) = self.awaited.remove(&id) {
                let problem = self.error.map_or(Problem::TimedOut, Problem::Unreachable);
                self.answers.push_back((query.number, Answer::problem(problem)));
            }
        }
        while self.awaited.len() < MOST_AWAITED
            && let Some(query) = self.waiting.pop_front()
        {
            let id = self.free_id();
            self.awaited.insert(id, query);
            self.send(network, id, now_ns);
        }
        for place in 0..STREAMS {
            if self.streams[place].is_none()
                && let Some(query) = self.long.pop_front()
            {
                self.connect(network, place, query);
            }
        }
    }

    fn free_id(&mut self) -> u16 {
        loop {
            let id = self.rng.random::<u16>();
            if !self.awaited.contains_key(&id) {
                return id;
            }
        }
    }

    /// Sends a query over UDP. If the network does not take it, it is sent again later, like a lost query.
    fn send(&mut self, network: &mut impl Network, id: u16, now_ns: u64) {
        if !self.is_open {
            match network.connect_datagrams(DATAGRAMS, self.server) {
                Ok(()) => self.is_open = true,
                Err(error) => self.error = Some(error),
            }
        }
        let Some(query) = self.awaited.get_mut(&id) else { return };
        let wait_ns = WAITS[query.sent].as_nanos() as u64;
        query.sent += 1;
        self.timers.push(Reverse((now_ns.saturating_add(wait_ns), id, query.sent)));
        self.buffer.clear();
        write(&mut self.buffer, id, query);
        if self.is_open
            && let Err(error) = network.send(DATAGRAMS, &[IoSlice::new(&self.buffer)])
            && !error.is_would_block()
        {
            self.error = Some(error);
        }
    }

    /// Handles an event of one of the stub's sockets.
    pub(crate) fn ready(&mut self, network: &mut impl Network, ready: Ready, buffer: &mut [u8]) {
        if ready.id != DATAGRAMS {
            self.stream_ready(network, ready, buffer);
            return;
        }
        loop {
            match network.receive(DATAGRAMS, buffer) {
                Ok(count) => self.received(&buffer[..count]),
                Err(error) if error.is_would_block() => break,
                // The server's host reported that the port is closed. That may change before the last retransmission.
                Err(error) => self.error = Some(error),
            }
        }
        network.drained(DATAGRAMS);
    }

    /// Handles a datagram. One that answers no pending query is not from the server.
    fn received(&mut self, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else {
            let Some((header, _)) = Header::parse(bytes) else { return };
            if let Some(query) = self.awaited.remove(&header.id) {
                self.answers.push_back((query.number, Answer::problem(Problem::Malformed)));
            }
            return;
        };
        let id = message.header().id;
        if self.awaited.get(&id).is_none_or(|query| !answers(&message, query)) {
            return;
        }
        self.error = None;
        if let Some(query) = self.awaited.remove(&id) {
            self.act(read(&message, &query.name, query.kind), query);
        }
    }

    fn act(&mut self, reading: Reading, mut query: Query) {
        match reading {
            Reading::Truncated => self.long.push_back(query),
            Reading::Alias(..) if query.aliases >= MOST_ALIASES => {
                self.answers.push_back((query.number, Answer::problem(Problem::Aliases)));
            }
            Reading::Alias(name, ttl_s) => {
                (query.name, query.sent, query.ttl_s) = (name, 0, query.ttl_s.min(ttl_s));
                query.aliases += 1;
                self.waiting.push_back(query);
            }
            Reading::Answer(answer) => {
                let ttl_s = answer.ttl_s.min(query.ttl_s);
                self.answers.push_back((query.number, Answer { ttl_s, ..answer }));
            }
        }
    }

    fn connect(&mut self, network: &mut impl Network, place: usize, query: Query) {
        let id = place as u32 + 1;
        match network.connect(id, self.server) {
            Ok(()) => {
                network.set_deadline(id, STREAM_WAIT);
                let number = self.rng.random();
                self.streams[place] = Some(Stream { query, id: number, is_established: false, received: Vec::new() });
            }
            Err(error) => self.answers.push_back((query.number, Answer::problem(Problem::Unreachable(error)))),
        }
    }

    fn stream_ready(&mut self, network: &mut impl Network, ready: Ready, buffer: &mut [u8]) {
        let place = ready.id as usize - 1;
        let Some(mut stream) = self.streams[place].take() else { return };
        match stream.step(network, ready, buffer) {
            Ok(None) if !ready.is_deadline => {
                self.streams[place] = Some(stream);
                return;
            }
            Ok(None) => self.answers.push_back((stream.query.number, Answer::problem(Problem::TimedOut))),
            // Over TCP no answer is truncated for lack of space.
            Ok(Some(Reading::Truncated)) => {
                self.answers.push_back((stream.query.number, Answer::problem(Problem::Malformed)));
            }
            Ok(Some(reading)) => self.act(reading, stream.query),
            Err(problem) => self.answers.push_back((stream.query.number, Answer::problem(problem))),
        }
        network.close(ready.id);
    }
}

impl Stream {
    /// Handles an event. Returns the interpretation of the answer, if it has arrived.
    fn step(
        &mut self,
        network: &mut impl Network,
        ready: Ready,
        buffer: &mut [u8],
    ) -> Result<Option<Reading>, Problem> {
        if !self.is_established && (ready.is_writable || ready.is_readable) {
            network.established(ready.id).map_err(Problem::Unreachable)?;
            self.is_established = true;
            let mut out = Vec::new();
            frame::write(&mut out, |out| write(out, self.id, &self.query)).map_err(|_| Problem::Malformed)?;
            // A query is shorter than the send buffer of any connection.
            network.send(ready.id, &[IoSlice::new(&out)]).map_err(Problem::Unreachable)?;
        }
        if !ready.is_readable {
            return Ok(None);
        }
        let mut is_at_end = false;
        loop {
            match network.receive(ready.id, buffer) {
                Ok(0) => {
                    is_at_end = true;
                    break;
                }
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.is_would_block() => {
                    network.drained(ready.id);
                    break;
                }
                Err(error) => return Err(Problem::Unreachable(error)),
            }
        }
        let Some((bytes, _)) = frame::next(&self.received) else {
            return if is_at_end { Err(Problem::TimedOut) } else { Ok(None) };
        };
        let message = Message::parse(bytes).map_err(|_| Problem::Malformed)?;
        let is_ours = message.header().id == self.id && answers(&message, &self.query);
        let reading = is_ours.then(|| read(&message, &self.query.name, self.query.kind));
        reading.map(Some).ok_or(Problem::Malformed)
    }
}

/// Returns whether a message answers a query: it repeats the question (RFC 5452 section 9.1). A server that cannot
/// parse a query may omit the question.
fn answers(message: &Message<'_>, query: &Query) -> bool {
    let repeats = |question: Question<'_>| {
        question.name == query.name.as_name() && question.kind == query.kind.record() && question.class == Class::IN
    };
    let is_error = message.rcode() != Rcode::NO_ERROR && message.questions().next().is_none();
    message.header().is_response && (is_error || message.question().is_some_and(repeats))
}

/// Appends the message of a query.
fn write(out: &mut Vec<u8>, id: u16, query: &Query) {
    let mut builder = Builder::new(out, Header::query(id), Some(Edns::new(UDP_BYTES)), usize::from(UDP_BYTES));
    builder.question(&Question { name: query.name.as_name(), kind: query.kind.record(), class: Class::IN });
    builder.finish();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::Records;

    /// The result of a chain of aliases was once cached for the time to live of the last answer.
    #[test]
    fn an_answer_is_kept_no_longer_than_the_aliases_that_lead_to_it() {
        let name = |text| NameBuf::parse(text).unwrap();
        for (records, ttl_s, expected) in
            [(Ok(Records::default()), 900, 20), (Ok(Records::default()), 10, 10), (Err(Problem::NoName), 900, 20)]
        {
            let mut stub = Stub::new(SocketAddr::from(([127, 0, 0, 1], 53)), 1);
            stub.ask(7, name("a.test"), Kind::Mx);
            for (alias, ttl_s) in [("b.test", 20), ("c.test", 600)] {
                let query = stub.waiting.pop_front().unwrap();
                stub.act(Reading::Alias(name(alias), ttl_s), query);
            }
            let query = stub.waiting.pop_front().unwrap();
            assert_eq!((query.name, query.aliases), (name("c.test"), 2));
            stub.act(Reading::Answer(Answer { records: records.clone(), ttl_s }), query);
            assert_eq!(stub.next_answer(), Some((7, Answer { records, ttl_s: expected })));
        }
    }
}
