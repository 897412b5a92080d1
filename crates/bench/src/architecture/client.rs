//! The client of `architecture`: holds so many connections at a time, and counts the replies that it received whole.
//!
//! With the workload `busy` the server closes each connection after its reply, and the client opens another in its
//! place. With `work` the connections stay, and each sends its next request as soon as it has its reply. The client
//! resets connections when it closes them, so that none stays in `TIME_WAIT` at either end.

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

/// How long a connection may be without a reply before it counts as failed, which is looked for this often.
const SILENT_NS: u64 = 30_000_000_000;
const SEARCH_NS: u64 = 1_000_000_000;

/// So many failures in a row end a pass: the server does not serve.
const FAILURES_IN_A_ROW: u64 = 1_000;

/// The error that ends a curve when the server has sent no reply for [`REPLY_TIMEOUT_NS`].
const SILENT: Error = Error { call: "reply", errno: libc::ETIMEDOUT };

/// What a request carries: any segment is one.
const REQUEST: &[u8] = b"work\r\n";

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    address: Address,
    workload: Workload,
    reactor: Reactor,
    /// By token.
    connections: Vec<Option<Connection>>,
    free: Vec<u32>,
    open: u64,
    /// The replies that were received whole.
    pub(crate) replies: u64,
    /// Connections that ended without a whole reply, by the reason.
    failures: BTreeMap<&'static str, u64>,
    failures_in_a_row: u64,
    last_reply_ns: u64,
    searched_ns: u64,
    /// From the beginning of a connection, or of its request, to the end of its reply: of the replies that no round has
    /// had yet.
    latencies_ns: VecDeque<u64>,
    /// The time of each reply of the last batch.
    each_ns: u64,
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    began_ns: u64,
    received: usize,
}

/// What the replies of a step cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    /// Time for each reply.
    pub(crate) each_ns: u64,
    /// The latency of the last one.
    pub(crate) latency_ns: u64,
}

/// How a connection stands after an event.
enum State {
    Waiting,
    Replied,
    Failed(&'static str),
}

impl Client {
    /// Returns a client without connections.
    pub(crate) fn new(address: SocketAddr, workload: Workload) -> Result<Self, Stop> {
        let now_ns = monotonic_ns();
        Ok(Self {
            address: address.into(),
            workload,
            reactor: Reactor::new(Backend::default()).map_err(stop)?,
            connections: Vec::new(),
            free: Vec::new(),
            open: 0,
            replies: 0,
            failures: BTreeMap::new(),
            failures_in_a_row: 0,
            last_reply_ns: now_ns,
            searched_ns: now_ns,
            latencies_ns: VecDeque::new(),
            each_ns: 0,
        })
    }

    /// Keeps so many connections open, and returns what so many further replies cost. A wait may bring many replies at
    /// once: each has the mean of its batch, and those that are left over are the next rounds'.
    pub(crate) fn round(&mut self, connections: u64, replies: u64) -> Result<Round, Stop> {
        let (began_ns, before) = (monotonic_ns(), self.replies);
        self.last_reply_ns = began_ns;
        while self.open < connections {
            self.connect()?;
        }
        if (self.latencies_ns.len() as u64) < replies {
            while (self.latencies_ns.len() as u64) < replies {
                while self.open < connections {
                    self.connect()?;
                }
                self.wait()?;
            }
            self.each_ns = (monotonic_ns() - began_ns) / (self.replies - before);
        }
        let mut of_round = self.latencies_ns.drain(..replies as usize);
        Ok(Round { each_ns: self.each_ns, latency_ns: of_round.next_back().unwrap_or(0) })
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// Opens a connection.
    fn connect(&mut self) -> Result<(), Stop> {
        let socket = stream::stream(Family::V4)?;
        stream::set_reset_on_close(&socket)?;
        let began_ns = monotonic_ns();
        match stream::connect(&socket, &self.address) {
            Ok(()) => {}
            Err(error) if error.is_in_progress() => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return self.fail("refused"),
            Err(error) => return Err(error.into()),
        }
        let place = self.free.pop().unwrap_or(self.connections.len() as u32);
        // A request has to wait until the connection is established; a reply without one only has to be read.
        let interest = if self.workload == Workload::Work { Interest::WRITABLE } else { Interest::READABLE };
        self.reactor.register_nonblocking(&socket, Token(place), interest).map_err(stop)?;
        let connection = Some(Connection { socket, began_ns, received: 0 });
        match self.connections.get_mut(place as usize) {
            Some(slot) => *slot = connection,
            None => self.connections.push(connection),
        }
        self.open += 1;
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
        Ok(())
    }

    fn handle(&mut self, place: u32) -> Result<(), Stop> {
        let Some(Some(connection)) = self.connections.get_mut(place as usize) else { return Ok(()) };
        let is_new = self.reactor.interest(&connection.socket) == Some(Interest::WRITABLE);
        if is_new {
            self.reactor.set_interest(&connection.socket, Interest::READABLE).map_err(stop)?;
            return match send(connection) {
                None => Ok(()),
                Some(reason) => self.close(place, reason),
            };
        }
        match receive(connection, self.workload) {
            State::Waiting => Ok(()),
            State::Failed(reason) => self.close(place, reason),
            State::Replied => {
                let now_ns = monotonic_ns();
                self.replies += 1;
                self.failures_in_a_row = 0;
                self.last_reply_ns = now_ns;
                self.latencies_ns.push_back(now_ns - connection.began_ns);
                if self.workload == Workload::Busy {
                    return self.forget(place);
                }
                connection.began_ns = now_ns;
                connection.received = 0;
                match send(connection) {
                    None => Ok(()),
                    Some(reason) => self.close(place, reason),
                }
            }
        }
    }

    /// Closes a connection that has failed.
    fn close(&mut self, place: u32, reason: &'static str) -> Result<(), Stop> {
        self.forget(place)?;
        self.fail(reason)
    }

    fn forget(&mut self, place: u32) -> Result<(), Stop> {
        if let Some(connection) = self.connections[place as usize].take() {
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
            format!("{FAILURES_IN_A_ROW} connections in a row failed, the last one was {reason}")
        })
    }

    /// Closes connections that have waited too long.
    fn close_silent(&mut self, now_ns: u64) -> Result<(), Stop> {
        let is_silent = |slot: &Option<Connection>| slot.as_ref().is_some_and(|one| now_ns > one.began_ns + SILENT_NS);
        let silent: Vec<u32> =
            self.connections.iter().zip(0..).filter(|(slot, _)| is_silent(slot)).map(|(_, place)| place).collect();
        silent.into_iter().try_for_each(|place| self.close(place, "silent for 30 s"))
    }

    /// Adds the numbers of replies and failures to the facts.
    pub(crate) fn report(&self, facts: &mut Facts) {
        facts.count("replies", self.replies);
        facts.count("failures", self.failures.values().sum());
        if !self.failures.is_empty() {
            let kinds: Vec<String> = self.failures.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            facts.text("failures_by_kind", kinds.join(", "));
        }
    }
}

/// Sends a request. Returns why it failed, if so.
fn send(connection: &Connection) -> Option<&'static str> {
    match stream::send(&connection.socket, REQUEST, false) {
        Ok(_) => None,
        Err(error) => Some(reason(error)),
    }
}

/// Receives what has arrived.
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

    /// A server that closes every second connection after half of the reply, and answers the others.
    #[test]
    fn only_whole_replies_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for count in 0..20 {
                let (mut connection, _) = listener.accept().unwrap();
                let end = if count % 2 == 0 { REPLY.len() / 2 } else { REPLY.len() };
                connection.write_all(&REPLY[..end]).unwrap();
            }
        });
        let mut client = Client::new(address, Workload::Busy).unwrap();
        client.round(1, 10).unwrap();
        server.join().unwrap();
        let mut facts = Facts::new();
        client.report(&mut facts);
        let fact = |name| facts.get(name).map(ToString::to_string).unwrap_or_default();
        assert_eq!((fact("replies"), fact("failures")), ("10".to_owned(), "10".to_owned()));
        assert_eq!(fact("failures_by_kind"), "10 closed within the reply");
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
