//! The client of `architecture`: holds a number of connections open, and counts the complete replies.
//!
//! With the workload `busy` the server closes each connection after its reply, and the client opens another in its
//! place. With `work` the connections stay open, and each sends its next request as soon as it has its reply. The
//! client resets connections when it closes them, so that none stays in `TIME_WAIT` at either end.

use super::pace::Pace;
use crate::backend::stop;
use landau_architectures::{REPLY, Workload};
use landau_engine::{Facts, Stop};
use landau_reactor::{Backend, Interest, Reactor, Token};
use landau_sys::clock::monotonic_ns;
use landau_sys::socket::{Address, Family};
use landau_sys::{Error, stream};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The longest wait for any reply. The kernel repeats a dropped connection attempt after 1, 3 and 7 s.
const REPLY_TIMEOUT_NS: u64 = 10_000_000_000;

/// The time without a reply after which a connection counts as failed, and the interval at which such connections are
/// searched for.
const SILENT_NS: u64 = 30_000_000_000;
const SEARCH_NS: u64 = 1_000_000_000;

/// The number of failures in a row that ends a pass: the server does not serve.
const FAILURES_IN_A_ROW: u64 = 1_000;

/// The error that ends a curve when the server has sent no reply for [`REPLY_TIMEOUT_NS`].
const SILENT: Error = Error { call: "reply", errno: libc::ETIMEDOUT };

/// The content of a request: any segment counts as one.
const REQUEST: &[u8] = b"work\r\n";

/// A client that keeps a number of connections to a server, and counts the complete replies.
#[derive(Debug)]
pub struct Client {
    address: Address,
    workload: Workload,
    reactor: Reactor,
    /// By token.
    connections: Vec<Option<Connection>>,
    free: Vec<u32>,
    /// The number of connections to keep open. A connection that ends is replaced if fewer are open.
    target: u64,
    /// Whether connections that stay open have sent nothing since their last reply.
    is_drained: bool,
    open: u64,
    /// The number of attempted connections.
    opened: u64,
    /// Open connections that wait for a reply.
    waiting: u64,
    /// The number of complete replies.
    pub replies: u64,
    /// The number of connections that ended without a complete reply, by the reason.
    failures: BTreeMap<&'static str, u64>,
    failures_in_a_row: u64,
    last_reply_ns: u64,
    searched_ns: u64,
    pace: Pace,
    /// The mean time of a reply as of the last batch, and the latencies of the replies that no round has used yet. A
    /// latency lasts from the beginning of the connection, or of the request, to the end of the reply.
    each_ns: u64,
    latencies_ns: VecDeque<u64>,
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    began_ns: u64,
    received: usize,
    is_waiting: bool,
}

/// The cost of the replies of a step.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// Time for each reply, in nanoseconds.
    pub each_ns: u64,
    /// The latency of the last one, in nanoseconds.
    pub latency_ns: u64,
}

/// The state of a connection after an event.
enum State {
    Waiting,
    Replied,
    Failed(&'static str),
}

impl Client {
    /// Returns a client without connections.
    pub fn new(address: SocketAddr, workload: Workload) -> Result<Self, Stop> {
        let now_ns = monotonic_ns();
        Ok(Self {
            address: address.into(),
            workload,
            reactor: Reactor::new(Backend::default()).map_err(stop)?,
            connections: Vec::new(),
            free: Vec::new(),
            target: 0,
            is_drained: false,
            open: 0,
            opened: 0,
            waiting: 0,
            replies: 0,
            failures: BTreeMap::new(),
            failures_in_a_row: 0,
            last_reply_ns: now_ns,
            searched_ns: now_ns,
            pace: Pace::begin(0, now_ns),
            each_ns: 0,
            latencies_ns: VecDeque::new(),
        })
    }

    /// Keeps `connections` connections open, and returns the cost of `replies` further replies. A wait may return many
    /// replies at once. They are a batch, which lasts from the end of the previous batch and includes the connections
    /// that were opened in between. Each reply has the mean time of its batch; replies that are left over count for the
    /// next rounds. If connections stay open, the mean is that of the last replies of all connections (`Pace`).
    pub fn round(&mut self, connections: u64, replies: u64) -> Result<Round, Stop> {
        self.target = connections;
        self.last_reply_ns = monotonic_ns();
        self.resume()?;
        self.fill()?;
        if (self.latencies_ns.len() as u64) < replies {
            while (self.latencies_ns.len() as u64) < replies {
                self.wait()?;
            }
            let span = if self.workload == Workload::Work { connections } else { 0 };
            self.each_ns = self.pace.end_batch(self.replies, monotonic_ns(), span);
        }
        let mut of_round = self.latencies_ns.drain(..replies as usize);
        let latency_ns = of_round.next_back().unwrap_or(0);
        drop(of_round);
        Ok(Round { each_ns: self.each_ns, latency_ns })
    }

    /// Receives the outstanding replies of open connections, and sends nothing more, so that all work of the server is
    /// counted. Connections that the server keeps stay open.
    pub fn drain(&mut self) -> Result<(), Stop> {
        self.target = 0;
        self.last_reply_ns = monotonic_ns();
        while self.waiting > 0 {
            self.wait()?;
        }
        self.is_drained = true;
        Ok(())
    }

    /// Sends a request on each connection that was drained.
    fn resume(&mut self) -> Result<(), Stop> {
        if !std::mem::take(&mut self.is_drained) {
            return Ok(());
        }
        for place in 0..self.connections.len() as u32 {
            if let Some(Some(connection)) = self.connections.get_mut(place as usize)
                && !connection.is_waiting
            {
                connection.began_ns = monotonic_ns();
                self.await_reply(place);
                self.request(place)?;
            }
        }
        Ok(())
    }

    /// Opens connections again after [`Client::drain`] and begins a new batch, so that the time since the last one is
    /// not part of any reply's time. Replies that no round has used yet are counted, but not their times.
    pub(crate) fn begin_batch(&mut self, connections: u64) -> Result<(), Stop> {
        self.target = connections;
        self.resume()?;
        self.fill()?;
        self.latencies_ns.clear();
        self.pace.pause(self.replies, monotonic_ns());
        Ok(())
    }

    /// Returns the number of connections that have failed so far, by the reason.
    pub(crate) fn failures(&self) -> &BTreeMap<&'static str, u64> {
        &self.failures
    }

    /// Opens connections until there are as many as the target.
    fn fill(&mut self) -> Result<(), Stop> {
        while self.open < self.target {
            self.connect()?;
        }
        Ok(())
    }

    /// Opens a connection.
    fn connect(&mut self) -> Result<(), Stop> {
        let socket = stream::stream(Family::V4)?;
        stream::set_reset_on_close(&socket)?;
        let began_ns = monotonic_ns();
        match stream::connect(&socket, &self.address) {
            Ok(()) => {}
            Err(error) if error.is_in_progress() => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                self.opened += 1;
                return self.fail("refused");
            }
            Err(error) => return Err(error.into()),
        }
        let place = self.free.pop().unwrap_or(self.connections.len() as u32);
        // A request must wait until the connection is established; a reply without a request only has to be read.
        let interest = if self.workload == Workload::Work { Interest::WRITABLE } else { Interest::READABLE };
        self.reactor.register_nonblocking(&socket, Token(place), interest).map_err(stop)?;
        self.opened += 1;
        let connection = Some(Connection { socket, began_ns, received: 0, is_waiting: true });
        match self.connections.get_mut(place as usize) {
            Some(slot) => *slot = connection,
            None => self.connections.push(connection),
        }
        self.open += 1;
        self.waiting += 1;
        Ok(())
    }

    /// Waits for events and handles them.
    fn wait(&mut self) -> Result<(), Stop> {
        self.reactor.wait(Some(Duration::from_millis(100))).map_err(stop)?;
        while let Some(event) = self.reactor.next_event() {
            self.handle(event.token.0)?;
        }
        let now_ns = monotonic_ns();
        if now_ns > self.last_reply_ns + REPLY_TIMEOUT_NS {
            return Err(SILENT.into());
        }
        if now_ns > self.searched_ns + SEARCH_NS {
            self.searched_ns = now_ns;
            self.close_silent(now_ns)?;
        }
        self.fill()
    }

    fn handle(&mut self, place: u32) -> Result<(), Stop> {
        let Some(Some(connection)) = self.connections.get_mut(place as usize) else { return Ok(()) };
        if self.reactor.interest(&connection.socket) == Some(Interest::WRITABLE) {
            self.reactor.set_interest(&connection.socket, Interest::READABLE).map_err(stop)?;
            return self.request(place);
        }
        match receive(connection, self.workload) {
            State::Waiting => Ok(()),
            State::Failed(reason) => self.close(place, reason),
            State::Replied => {
                let now_ns = monotonic_ns();
                let latency_ns = now_ns - connection.began_ns;
                connection.began_ns = now_ns;
                connection.received = 0;
                connection.is_waiting = false;
                self.waiting -= 1;
                self.replies += 1;
                self.failures_in_a_row = 0;
                self.last_reply_ns = now_ns;
                self.latencies_ns.push_back(latency_ns);
                match self.workload {
                    // The replacement is opened at once, so that the number of open connections does not fall while the
                    // rest of the batch is handled.
                    Workload::Busy => self.forget(place).and_then(|()| self.fill()),
                    Workload::Work if self.target == 0 => Ok(()),
                    Workload::Work => {
                        self.await_reply(place);
                        self.request(place)
                    }
                }
            }
        }
    }

    fn await_reply(&mut self, place: u32) {
        if let Some(Some(connection)) = self.connections.get_mut(place as usize) {
            connection.is_waiting = true;
            self.waiting += 1;
        }
    }

    /// Sends a request.
    fn request(&mut self, place: u32) -> Result<(), Stop> {
        let Some(Some(connection)) = self.connections.get(place as usize) else { return Ok(()) };
        match stream::send(&connection.socket, REQUEST, false) {
            Ok(_) => Ok(()),
            Err(error) => self.close(place, reason(error)),
        }
    }

    /// Closes a connection that has failed.
    fn close(&mut self, place: u32, reason: &'static str) -> Result<(), Stop> {
        self.forget(place)?;
        self.fail(reason)
    }

    fn forget(&mut self, place: u32) -> Result<(), Stop> {
        if let Some(connection) = self.connections[place as usize].take() {
            self.waiting -= u64::from(connection.is_waiting);
            self.reactor.close(connection.socket).map_err(stop)?;
            self.free.push(place);
            self.open -= 1;
        }
        Ok(())
    }

    fn fail(&mut self, reason: &'static str) -> Result<(), Stop> {
        *self.failures.entry(reason).or_default() += 1;
        self.failures_in_a_row += 1;
        Stop::unless(self.failures_in_a_row < FAILURES_IN_A_ROW, || {
            format!("{FAILURES_IN_A_ROW} connections in a row failed; the last one: {reason}")
        })
    }

    /// Closes connections that have waited too long.
    fn close_silent(&mut self, now_ns: u64) -> Result<(), Stop> {
        let is_silent = |slot: &Option<Connection>| {
            slot.as_ref().is_some_and(|one| one.is_waiting && now_ns > one.began_ns + SILENT_NS)
        };
        let silent: Vec<u32> =
            self.connections.iter().zip(0..).filter(|(slot, _)| is_silent(slot)).map(|(_, place)| place).collect();
        silent.into_iter().try_for_each(|place| self.close(place, "silent for 30 s"))
    }

    /// Adds the numbers of replies and failures to the facts. Fails if a connection is unaccounted for.
    pub(crate) fn report(&mut self, facts: &mut Facts) -> Result<(), Stop> {
        let failures = self.failures.values().sum::<u64>();
        facts.count("replies", self.replies);
        facts.count("failures", failures);
        if failures > 0 {
            let kinds: Vec<String> = self.failures.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            facts.text("failures_by_kind", kinds.join(", "));
        }
        let ended = failures + if self.workload == Workload::Busy { self.replies } else { 0 };
        Stop::unless(self.opened == ended + self.open, || {
            format!("{} connections were opened, {ended} have ended and {} are open", self.opened, self.open)
        })
    }
}

/// Receives the bytes that have arrived.
fn receive(connection: &mut Connection, workload: Workload) -> State {
    let mut buffer = [0; 64];
    loop {
        match stream::receive(&connection.socket, &mut buffer) {
            Ok(0) if workload == Workload::Busy && connection.received == REPLY.len() => return State::Replied,
            Ok(0) if connection.received == 0 => return State::Failed("closed without a reply"),
            Ok(0) => return State::Failed("closed within the reply"),
            Ok(count) => {
                let end = connection.received + count;
                if REPLY.get(connection.received..end) != Some(&buffer[..count]) {
                    return State::Failed("given another reply");
                }
                connection.received = end;
                if workload == Workload::Work && end == REPLY.len() {
                    return State::Replied;
                }
            }
            Err(error) if error.is_would_block() => return State::Waiting,
            Err(error) => return State::Failed(reason(error)),
        }
    }
}

fn reason(error: Error) -> &'static str {
    match error.errno {
        libc::ECONNRESET | libc::EPIPE => "reset",
        libc::ECONNREFUSED => "refused",
        libc::ETIMEDOUT => "timed out",
        _ => "failed otherwise",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    fn server(connections: usize, answer: impl Fn(usize) -> usize + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for count in 0..connections {
                let (mut connection, _) = listener.accept().unwrap();
                connection.write_all(&REPLY[..answer(count)]).unwrap();
            }
        });
        address
    }

    /// A server that closes every second connection after half of the reply, and answers the others.
    #[test]
    fn only_whole_replies_are_counted() {
        let address = server(20, |count| if count % 2 == 0 { REPLY.len() / 2 } else { REPLY.len() });
        let mut client = Client::new(address, Workload::Busy).unwrap();
        for _ in 0..9 {
            client.round(1, 1).unwrap();
        }
        client.drain().unwrap();
        let mut facts = Facts::new();
        client.report(&mut facts).unwrap();
        let fact = |name| facts.get(name).map(ToString::to_string).unwrap_or_default();
        assert_eq!(fact("failures_by_kind"), format!("{} closed within the reply", fact("failures")));
        let (replies, failures) = (client.replies, client.failures.values().sum::<u64>());
        assert!(replies >= 9 && (replies..=replies + 1).contains(&failures), "{replies} and {failures}");
    }

    /// The time to connect is part of a reply's time, so the times of all replies add up to the elapsed time.
    #[test]
    fn the_times_of_all_replies_add_up_to_the_elapsed_time() {
        let address = server(4_000, |_| REPLY.len());
        let mut client = Client::new(address, Workload::Busy).unwrap();
        let (began_ns, mut sum_ns, mut replies, mut counted) = (client.pace.ended_ns(), 0, 0, 0);
        for n in 1..200 {
            let round = client.round(n, 2).unwrap();
            if client.replies > counted {
                sum_ns += round.each_ns * (client.replies - counted);
                replies += client.replies - counted;
                counted = client.replies;
            }
        }
        let elapsed_ns = client.pace.ended_ns() - began_ns;
        // A mean is rounded down to a nanosecond.
        assert!(sum_ns <= elapsed_ns && sum_ns + replies >= elapsed_ns, "{sum_ns} of {elapsed_ns}");
    }

    #[test]
    fn a_server_that_refuses_every_connection_ends_the_pass() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let error = Client::new(address, Workload::Busy).unwrap().round(4, 1).unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
    }
}
