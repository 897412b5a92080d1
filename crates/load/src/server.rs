//! A server as a worker sees it: its address, what is asked there next, and from where.

use crate::answer::{Answer, Memo};
use crate::plan::{Origin, Ports, Request, Sources};
use crate::tally::Tally;
use crate::target::Endpoint;
use landau_sys::socket::{Address, Family, bind, set_port_range};
use landau_sys::stream;
use landau_sys::{Error as SystemError, Result as SystemResult};
use landau_wire::http::Method;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A request ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) method: Method,
    pub(crate) bytes: Box<[u8]>,
    pub(crate) last_bytes: Box<[u8]>,
    /// The length of the first answer.
    expected: Option<u64>,
}

/// A server as a worker sees it.
#[derive(Debug)]
pub(crate) struct Server {
    number: usize,
    address: Address,
    /// None for a Unix socket.
    family: Option<Family>,
    sources: Vec<Address>,
    ports: Ports,
    /// How many connections were begun: source addresses and ports take turns by it.
    turn: u64,
    pub(crate) requests: Vec<Prepared>,
    /// Which of them follow one another.
    order: Box<[u32]>,
    next: usize,
    pub(crate) memo: Memo,
}

impl Server {
    pub(crate) fn new(number: usize, origin: &Origin, sources: &Sources) -> SystemResult<Self> {
        let (address, family) = match &origin.endpoint {
            Endpoint::Inet(address) => (Address::from(*address), Some(family_of(*address))),
            Endpoint::Unix(path) => (Address::unix(path)?, None),
        };
        let own =
            sources.addresses.iter().map(|&ip| SocketAddr::new(ip, 0)).filter(|&one| Some(family_of(one)) == family);
        Ok(Self {
            number,
            address,
            family,
            sources: own.map(Address::from).collect(),
            ports: sources.ports,
            turn: 0,
            requests: origin.requests.iter().map(prepared).collect(),
            order: order_of(origin),
            next: 0,
            memo: Memo::default(),
        })
    }

    /// Which request is next.
    #[inline]
    pub(crate) fn next_request(&mut self) -> usize {
        let request = self.order[self.next];
        self.next = if self.next + 1 == self.order.len() { 0 } else { self.next + 1 };
        request as usize
    }

    /// Begins elsewhere in the list than the other workers, of which this one is one of so many.
    pub(crate) fn start_at(&mut self, share: (u32, u32)) {
        let place = self.order.len() * share.0 as usize / share.1.max(1) as usize;
        self.next = place % self.order.len();
    }

    /// Begins a connection; it may be under way, or made already. With it comes what the clock said when `connect` was
    /// called: making the socket and finding a port are no part of the handshake.
    pub(crate) fn connect(&mut self, clock: impl FnOnce() -> u64) -> SystemResult<(OwnedFd, u64)> {
        let socket = self.socket()?;
        let since_ns = clock();
        begun(stream::connect(&socket, &self.address))?;
        Ok((socket, since_ns))
    }

    /// A socket ready to connect.
    fn socket(&mut self) -> SystemResult<OwnedFd> {
        let Some(family) = self.family else { return stream::unix_stream() };
        let socket = stream::stream(family)?;
        stream::set_no_delay(&socket)?;
        self.bind(&socket)?;
        Ok(socket)
    }

    /// Gives the socket the address, and if need be the port, from which it connects.
    fn bind(&mut self, socket: &OwnedFd) -> SystemResult<()> {
        let (turn, count) = (self.turn, self.sources.len() as u64);
        self.turn += 1;
        let source = if count == 0 { None } else { self.sources.get((turn % count) as usize).copied() };
        match (self.ports, source) {
            (Ports::System, None) => Ok(()),
            (Ports::System, Some(source)) => {
                stream::set_bind_address_no_port(socket)?;
                bind(socket, &source)
            }
            (Ports::Range { low, high }, source) => {
                set_port_range(socket, low, high)?;
                let Some(source) = source else { return Ok(()) };
                stream::set_bind_address_no_port(socket)?;
                bind(socket, &source)
            }
            (Ports::Explicit { low, high }, source) => {
                let any = self.family.map(Address::any);
                let Some(source) = source.or(any) else { return Ok(()) };
                self.bind_to_port(socket, source, (low, high), turn / count.max(1))
            }
        }
    }

    /// Takes the next port that is free.
    fn bind_to_port(&mut self, socket: &OwnedFd, source: Address, range: (u16, u16), turn: u64) -> SystemResult<()> {
        stream::set_reuse_address(socket)?;
        let room = u64::from(range.1.saturating_sub(range.0)) + 1;
        let mut last = Ok(());
        for attempt in 0..room {
            let port = range.0 + ((turn + attempt) % room) as u16;
            last = bind(socket, &source.with_port(port));
            match last {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    self.turn += self.sources.len().max(1) as u64;
                }
                other => return other,
            }
        }
        last
    }

    /// Holds an answer's length against that of the first answer to the same request, if it succeeded.
    #[inline]
    pub(crate) fn check_length(&mut self, request: usize, answer: Answer, tally: &mut Tally) {
        if answer.status != 200 {
            return;
        }
        let expected = &mut self.requests[request].expected;
        match *expected {
            Some(length) if length == answer.length => {}
            Some(length) => {
                tally.wrong_lengths += 1;
                let (number, found) = (self.number, answer.length);
                let say = || format!("request {number}.{request}: {length} bytes at first, and {found} bytes later");
                tally.wrong_length.get_or_insert_with(say);
            }
            None => {
                *expected = Some(answer.length);
                tally.lengths.insert(format!("{}.{request}", self.number), answer.length);
            }
        }
    }
}

/// A connection that is under way is no failure.
fn begun(outcome: SystemResult<()>) -> SystemResult<()> {
    outcome.or_else(|error: SystemError| if error.is_in_progress() { Ok(()) } else { Err(error) })
}

/// The order of an origin's requests; a worker's plan was checked to name only such that are there.
fn order_of(origin: &Origin) -> Box<[u32]> {
    if origin.order.is_empty() { (0..origin.requests.len() as u32).collect() } else { origin.order.clone().into() }
}

fn family_of(address: SocketAddr) -> Family {
    if address.is_ipv4() { Family::V4 } else { Family::V6 }
}

fn prepared(request: &Request) -> Prepared {
    Prepared {
        // Of all methods this one alone changes how an answer is framed.
        method: if request.method == "HEAD" { Method::Head } else { Method::Get },
        bytes: request.bytes.as_bytes().into(),
        last_bytes: request.last_bytes.as_bytes().into(),
        expected: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_sys::socket::{Transport, socket};
    use std::net::{Ipv4Addr, TcpListener};

    /// Of nobody else: a crowd's addresses begin with 127.64.
    const SOURCE: [u8; 4] = [127, 99, 0, 1];

    fn is_taken(port: u16) -> bool {
        bind(&socket(Family::V4, Transport::Tcp).unwrap(), &SocketAddr::from((SOURCE, port)).into()).is_err()
    }

    fn server(listener: &TcpListener, (low, high): (u16, u16)) -> Server {
        let endpoint = Endpoint::Inet(listener.local_addr().unwrap());
        let origin = Origin { endpoint, tls: None, requests: Vec::new(), order: vec![0] };
        let sources = Sources { addresses: vec![Ipv4Addr::from(SOURCE).into()], ports: Ports::Explicit { low, high } };
        Server::new(0, &origin, &sources).unwrap()
    }

    /// The search for a free port was measured as part of the handshake.
    #[test]
    fn the_handshake_begins_when_the_port_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (low, high) = (40_000, 40_020);
        let take = |port: u16| TcpListener::bind((Ipv4Addr::from(SOURCE), port)).unwrap();
        let taken: Vec<TcpListener> = (low..high).map(take).collect();
        let mut server = server(&listener, (low, high));
        let (_first, is_found) = server.connect(|| u64::from(is_taken(high))).unwrap();
        assert_eq!(is_found, 1, "the clock was read before there was a port");
        // With no port left it never comes to a handshake.
        let _last = take(high);
        let error = server.connect(|| panic!("there is nothing to measure")).unwrap_err();
        assert_eq!(error.call, "bind");
        drop(taken);
    }
}
