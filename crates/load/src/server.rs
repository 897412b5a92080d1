//! The servers of a worker: address, TLS, the next request, and the next source address and port.

use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::plan::{Load, Origin, Plan, Ports, Request, Sources};
use crate::response::{HeadCache, Response};
use crate::target::Endpoint;
use crate::tls::TlsConfig;
use landau_sys::socket::{Address, Family, bind, set_port_range};
use landau_sys::stream;
use landau_sys::{Error as SystemError, Result as SystemResult};
use landau_wire::http::Method;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// The payload that a TCP segment can carry on any path (RFC 9293 section 3.7.1).
const LEAST_SEGMENT: usize = 536;

/// The servers, used round-robin.
#[derive(Debug)]
pub(crate) struct Servers {
    list: Vec<Server>,
    tls_configs: Vec<Option<TlsConfig>>,
    next: usize,
}

impl Servers {
    /// Prepares the servers of a plan: reads certificates, and starts the requests of each server at the worker's
    /// share. The workers begin with different servers, so that a few connections of many workers do not all go to the
    /// first one.
    pub(crate) fn new(plan: &Plan) -> Result<Self> {
        let (mut list, mut tls_configs) = (Vec::new(), Vec::new());
        for (number, origin) in plan.origins.iter().enumerate() {
            let mut server = Server::new(number, origin, &plan.sources, &plan.load)?;
            server.skip_to(plan.share);
            list.push(server);
            tls_configs
                .push(origin.tls.as_ref().map(|tls| TlsConfig::new(tls, plan.http2)).transpose().map_err(Error::Plan)?);
        }
        let next = plan.share.0 as usize % list.len().max(1);
        Ok(Self { list, tls_configs, next })
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Server {
        &mut self.list[index as usize]
    }

    pub(crate) fn tls_config(&self, index: u32) -> Option<&TlsConfig> {
        self.tls_configs[index as usize].as_ref()
    }

    /// Starts a connection to the next server. Returns the socket, the server's index and the start time; `None` if the
    /// backlog of the server's Unix socket is full.
    pub(crate) fn connect(&mut self, clock: impl FnOnce() -> u64) -> SystemResult<Option<(OwnedFd, u32, u64)>> {
        let index = self.next;
        self.next = (index + 1) % self.list.len();
        let server = &mut self.list[index];
        match server.connect(clock) {
            Ok((socket, since_ns)) => Ok(Some((socket, index as u32, since_ns))),
            // With TCP, such a connection would wait in its handshake.
            Err(error) if server.family.is_none() && error.call == "connect" && error.is_would_block() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A request that is ready to be sent.
#[derive(Debug)]
struct PreparedRequest {
    method: Method,
    bytes: Box<[u8]>,
    last_bytes: Box<[u8]>,
    fields: Box<[(String, String)]>,
    /// Body length of the first response.
    expected_length: Option<u64>,
}

/// A server of a worker.
#[derive(Debug)]
pub(crate) struct Server {
    number: usize,
    address: Address,
    /// `None` for a Unix socket.
    family: Option<Family>,
    /// Whether the sockets need `TCP_NODELAY`.
    needs_no_delay: bool,
    sources: Vec<Address>,
    ports: Ports,
    /// Number of connections started, which selects the source address and port.
    turn: u64,
    requests: Vec<PreparedRequest>,
    /// Order of the requests.
    order: Box<[u32]>,
    /// Index of the next request in the order.
    next: usize,
    pub(crate) head_cache: HeadCache,
}

impl Server {
    fn new(number: usize, origin: &Origin, sources: &Sources, load: &Load) -> SystemResult<Self> {
        let (address, family) = match &origin.endpoint {
            Endpoint::Inet(address) => (Address::from(*address), Some(family_of(*address))),
            Endpoint::Unix(path) => (Address::unix(path)?, None),
        };
        let addresses = sources.addresses.iter().copied();
        Ok(Self {
            number,
            address,
            family,
            needs_no_delay: needs_no_delay(origin, load),
            sources: addresses.filter(|&one| Some(family_of(one)) == family).map(Address::from).collect(),
            ports: sources.ports,
            turn: 0,
            requests: origin.requests.iter().map(prepare).collect(),
            order: order_of(origin),
            next: 0,
            head_cache: HeadCache::default(),
        })
    }

    /// Returns the index of the next request.
    #[inline]
    pub(crate) fn next_request(&mut self) -> usize {
        let request = self.order[self.next];
        self.next = if self.next + 1 == self.order.len() { 0 } else { self.next + 1 };
        request as usize
    }

    /// Returns the bytes of a request, in the form for the last request of a connection or for any other.
    #[inline]
    pub(crate) fn request_bytes(&self, request: usize, is_last: bool) -> &[u8] {
        let request = &self.requests[request];
        if is_last { &request.last_bytes } else { &request.bytes }
    }

    /// Returns the HTTP/2 fields of a request.
    pub(crate) fn request_fields(&self, request: usize) -> &[(String, String)] {
        &self.requests[request].fields
    }

    #[inline]
    pub(crate) fn method(&self, request: usize) -> Method {
        self.requests[request].method
    }

    /// Skips to the worker's share of the requests, so that the workers do not all send the same request at the same
    /// time.
    fn skip_to(&mut self, share: (u32, u32)) {
        let index = self.order.len() * share.0 as usize / share.1.max(1) as usize;
        self.next = index % self.order.len();
    }

    /// Starts a connection, which may be established at once. Returns the socket and the time immediately before
    /// `connect`: creating the socket and finding a port are not part of the handshake.
    fn connect(&mut self, clock: impl FnOnce() -> u64) -> SystemResult<(OwnedFd, u64)> {
        let socket = self.socket()?;
        let since_ns = clock();
        ignore_in_progress(stream::connect(&socket, &self.address))?;
        Ok((socket, since_ns))
    }

    fn socket(&mut self) -> SystemResult<OwnedFd> {
        let Some(family) = self.family else { return stream::unix_stream() };
        let socket = stream::stream(family)?;
        if self.needs_no_delay {
            stream::set_no_delay(&socket)?;
        }
        self.bind(&socket)?;
        Ok(socket)
    }

    /// Binds the socket to the next source address, and to a port if the generator chooses the ports.
    fn bind(&mut self, socket: &OwnedFd) -> SystemResult<()> {
        let (turn, count) = (self.turn, self.sources.len() as u64);
        self.turn += 1;
        let source = if count == 0 { None } else { self.sources.get((turn % count) as usize).copied() };
        match (self.ports, source) {
            (Ports::Kernel, None) => Ok(()),
            (Ports::Kernel, Some(source)) => {
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

    /// Binds the socket to the next free port of a range.
    fn bind_to_port(&mut self, socket: &OwnedFd, source: Address, range: (u16, u16), turn: u64) -> SystemResult<()> {
        stream::set_reuse_address(socket)?;
        let count = u64::from(range.1.saturating_sub(range.0)) + 1;
        let mut last = Ok(());
        for attempt in 0..count {
            let port = range.0 + ((turn + attempt) % count) as u16;
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

    /// Compares the length of a successful response with that of the first response to the same request.
    #[inline]
    pub(crate) fn check_length(&mut self, request: usize, response: Response, metrics: &mut Metrics) {
        if response.status != 200 {
            return;
        }
        let expected = &mut self.requests[request].expected_length;
        match *expected {
            Some(length) if length == response.length => {}
            Some(length) => {
                metrics.length_mismatches += 1;
                let (number, found) = (self.number, response.length);
                let describe = || format!("request {number}.{request}: first {length} bytes, later {found} bytes");
                metrics.length_mismatch.get_or_insert_with(describe);
            }
            None => {
                *expected = Some(response.length);
                metrics.lengths.insert(format!("{}.{request}", self.number), response.length);
            }
        }
    }
}

/// Returns whether a request could be delayed until earlier bytes are acknowledged (RFC 896). Requests on idle
/// connections cannot be delayed: they follow a response, which acknowledges everything, and fit into a segment. So
/// each of a million connections saves a system call.
fn needs_no_delay(origin: &Origin, load: &Load) -> bool {
    let is_short = |request: &Request| request.bytes.len().max(request.last_bytes.len()) <= LEAST_SEGMENT;
    *load != Load::Idle || origin.tls.is_some() || !origin.requests.iter().all(is_short)
}

fn ignore_in_progress(result: SystemResult<()>) -> SystemResult<()> {
    result.or_else(|error: SystemError| if error.is_in_progress() { Ok(()) } else { Err(error) })
}

/// Returns the order of an origin's requests, whose indices the worker has validated.
fn order_of(origin: &Origin) -> Box<[u32]> {
    if origin.order.is_empty() { (0..origin.requests.len() as u32).collect() } else { origin.order.clone().into() }
}

fn family_of(address: SocketAddr) -> Family {
    if address.is_ipv4() { Family::V4 } else { Family::V6 }
}

fn prepare(request: &Request) -> PreparedRequest {
    PreparedRequest {
        // HEAD is the only method that changes where a response ends.
        method: if request.method == "HEAD" { Method::Head } else { Method::Get },
        bytes: request.bytes.as_bytes().into(),
        last_bytes: request.last_bytes.as_bytes().into(),
        fields: request.fields.clone().into(),
        expected_length: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Tls;
    use landau_sys::socket::{Transport, socket};
    use std::net::{Ipv4Addr, TcpListener};

    /// An address that nothing else uses: those of idle connections begin with 127.64.
    const SOURCE: [u8; 4] = [127, 99, 0, 1];

    fn is_taken(port: u16) -> bool {
        bind(&socket(Family::V4, Transport::Tcp).unwrap(), &SocketAddr::from((SOURCE, port)).into()).is_err()
    }

    fn server(listener: &TcpListener, (low, high): (u16, u16)) -> Server {
        let endpoint = Endpoint::Inet(listener.local_addr().unwrap());
        let origin = Origin { endpoint, tls: None, requests: Vec::new(), order: vec![0] };
        let sources = Sources { addresses: vec![SocketAddr::from((SOURCE, 0))], ports: Ports::Explicit { low, high } };
        Server::new(0, &origin, &sources, &Load::Closed).unwrap()
    }

    #[test]
    fn only_short_requests_of_plain_idle_connections_may_be_delayed() {
        let endpoint = || Endpoint::Inet(SocketAddr::from((SOURCE, 80)));
        let request = |length: usize| Request {
            method: "GET".to_owned(),
            bytes: "x".repeat(length),
            last_bytes: String::new(),
            fields: Vec::new(),
        };
        let origin = |length, tls: Option<Tls>| {
            let requests = vec![request(1), request(length)];
            Origin { endpoint: endpoint(), tls, requests, order: Vec::new() }
        };
        let tls = || Some(Tls { name: "x".to_owned(), insecure: true, ca_file: None });
        assert!(!needs_no_delay(&origin(LEAST_SEGMENT, None), &Load::Idle));
        assert!(needs_no_delay(&origin(LEAST_SEGMENT + 1, None), &Load::Idle));
        assert!(needs_no_delay(&origin(LEAST_SEGMENT, tls()), &Load::Idle));
        assert!(needs_no_delay(&origin(LEAST_SEGMENT, None), &Load::Closed));
    }

    /// The search for a free port once counted as part of the handshake.
    #[test]
    fn handshake_starts_after_the_search_for_a_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (low, high) = (40_000, 40_020);
        let take = |port: u16| TcpListener::bind((Ipv4Addr::from(SOURCE), port)).unwrap();
        let taken: Vec<TcpListener> = (low..high).map(take).collect();
        let mut server = server(&listener, (low, high));
        let (_first, is_bound) = server.connect(|| u64::from(is_taken(high))).unwrap();
        assert_eq!(is_bound, 1, "the clock was read before the socket had a port");
        // Without a free port `connect` is never called.
        let _last = take(high);
        let error = server.connect(|| panic!("the clock was read without a port")).unwrap_err();
        assert_eq!(error.call, "bind");
        drop(taken);
    }
}
