//! A request in the form for the upstream server.

use super::{is_of_connection, line, options, put};
use crate::rules::{Networks, Policy, Proxy, is_alike};
use crate::site::Client;
use landau_wire::http::head::write_decimal;
use landau_wire::http::{BodyLength, Expectation, Field, Limits, Method, Parsed, Request, Version, request};
use landau_wire::http2;
use std::sync::Arc;

/// Fields of a request that identify the client. Clients other than trusted proxies could forge them.
const IDENTITY: [&str; 5] = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-IP", "Forwarded"];

/// Returns the entry of the server in `Via`: the version of the request, then the server's name.
const fn via(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"1.0 landau",
        Version::Http11 => b"1.1 landau",
        Version::Http2 => b"2.0 landau",
    }
}

/// A forwarded request.
#[derive(Debug)]
pub(crate) struct Forward {
    pub(crate) policy: Arc<Policy>,
    pub(crate) proxy: Arc<Proxy>,
    /// The client.
    pub(crate) client: Client,
    /// The user who is logged in, for the log.
    pub(crate) user: Option<String>,
    /// The length of the client's head.
    pub(crate) head_bytes: usize,
    pub(crate) method: Method,
    /// The protocol version of the client.
    version: Version,
    /// Whether the client's connection ends after the response, according to the request.
    pub(crate) close: bool,
    /// Whether the client waits for permission to send its content.
    pub(crate) is_expecting: bool,
    /// Whether the client requests another protocol.
    pub(crate) is_upgrade: bool,
    pub(crate) body: BodyLength,
    /// The head for the upstream server.
    pub(crate) head: Vec<u8>,
    /// The field lines of the response that permit scripts of other sites to read it.
    pub(crate) cors_lines: Vec<u8>,
}

/// The origin of a request, and the proxies that are trusted to name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    /// The connected client.
    pub(crate) peer: Client,
    /// The client on whose behalf `peer` sends the request.
    pub(crate) client: Client,
    pub(crate) trusted: Option<&'a Networks>,
}

impl Forward {
    /// Rewrites a request for the upstream server. `clean` is the path as the rules see it; the policy has a proxy.
    pub(crate) fn new(
        request: &Request<'_>,
        clean: &[u8],
        (policy, proxy): (&Arc<Policy>, &Arc<Proxy>),
        asking: Asking<'_>,
        close: bool,
    ) -> Self {
        let is_upgrade = is_upgrade(request);
        let mut head = Vec::with_capacity(512 + request.head_bytes());
        head.extend_from_slice(request.method_name());
        head.push(b' ');
        proxy.write_target(request.path(), clean, &mut head);
        head.extend_from_slice(b" HTTP/1.1\r\n");
        if !proxy.removes(b"Host") {
            put("Host", host(request, proxy), &mut head);
        }
        write_fields(request, proxy, asking, &mut head);
        write_framing(request, is_upgrade, &mut head);
        head.extend_from_slice(&proxy.lines);
        head.extend_from_slice(b"\r\n");
        let mut cors_lines = Vec::new();
        if let Some(cors) = &policy.cors {
            cors.write(crate::answer::value_of(request, "Origin"), &mut cors_lines);
        }
        Self {
            policy: policy.clone(),
            proxy: proxy.clone(),
            client: asking.client,
            user: None,
            head_bytes: request.head_bytes(),
            method: request.method(),
            version: request.version(),
            close,
            is_expecting: request.expectation() == Expectation::Continue,
            is_upgrade,
            body: request.body(),
            head,
            cors_lines,
        }
    }

    /// Returns whether the client uses HTTP/1.0, which has neither chunks nor interim responses.
    pub(crate) fn is_old(&self) -> bool {
        self.version == Version::Http10
    }

    /// Returns whether the client uses HTTP/2, whose frames determine where content ends.
    pub(crate) fn is_http2(&self) -> bool {
        self.version == Version::Http2
    }

    /// Reads the client's head again, which was complete and valid before.
    pub(crate) fn parse<'a>(&self, head: &'a [u8], limits: &Limits) -> Option<Request<'a>> {
        if self.is_http2() {
            return http2::request::parse(head, limits).ok();
        }
        match request::parse(head, limits) {
            Ok(Parsed::Complete { request, .. }) => Some(request),
            _ => None,
        }
    }

    /// Returns whether the request may be sent a second time (RFC 9110 section 9.2.2).
    pub(crate) fn is_idempotent(&self) -> bool {
        matches!(self.method, Method::Get | Method::Head | Method::Options | Method::Put | Method::Delete)
    }
}

/// Returns the requested host. A client of HTTP/1.0 may omit it; the default is the upstream server's name.
fn host<'a>(request: &Request<'a>, proxy: &'a Proxy) -> &'a [u8] {
    request.host().filter(|host| !host.is_empty()).unwrap_or(proxy.upstream.authority.as_bytes())
}

/// Returns whether a request asks for a WebSocket. Other protocols are not passed on: with `h2c`, requests would follow
/// that no rule has checked.
fn is_upgrade(request: &Request<'_>) -> bool {
    let is_named = request
        .lines(Field::Connection)
        .any(|value| options(value).any(|option| option.eq_ignore_ascii_case(b"upgrade")));
    is_named
        && request.version() == Version::Http11
        && request.method() == Method::Get
        && request.body() == BodyLength::Bytes(0)
        && crate::answer::value_of(request, "Upgrade").is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"))
}

/// Writes the client's fields for the upstream server, and those that identify the client.
fn write_fields(request: &Request<'_>, proxy: &Proxy, asking: Asking<'_>, head: &mut Vec<u8>) {
    let is_trusted = asking.trusted.is_some_and(|trusted| trusted.has(asking.peer.peer));
    let mut chain_of_proxies = Vec::new();
    for (name, value) in request.fields() {
        if name.eq_ignore_ascii_case(b"Via") {
            chain_of_proxies.extend_from_slice(value);
            chain_of_proxies.extend_from_slice(b", ");
        } else if !is_left_out(name, request, is_trusted) && !proxy.removes(name) {
            match forwards_left(name, value, request) {
                Some(left) => put("Max-Forwards", left.saturating_sub(1).to_string().as_bytes(), head),
                None => line(name, value, head),
            }
        }
    }
    chain_of_proxies.extend_from_slice(via(request.version()));
    let own = |name: &str, value: &[u8], head: &mut Vec<u8>| {
        if !proxy.removes(name.as_bytes()) {
            put(name, value, head);
        }
    };
    own("Via", &chain_of_proxies, head);
    let said = |name: &str| is_trusted && request.fields().any(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
    let chain = chain(request, is_trusted, asking.peer);
    if !chain.is_empty() {
        own("X-Forwarded-For", &chain, head);
    }
    if !said("X-Forwarded-Proto") {
        own("X-Forwarded-Proto", if asking.peer.is_tls { b"https" } else { b"http" }, head);
    }
    if !said("X-Forwarded-Host")
        && let Some(host) = request.host()
    {
        own("X-Forwarded-Host", host, head);
    }
}

/// Returns how many more times a request may be forwarded, if this is the field that limits it (RFC 9110 section
/// 7.6.2).
pub(crate) fn forwards_left(name: &[u8], value: &[u8], request: &Request<'_>) -> Option<u64> {
    if request.method() != Method::Options || !name.eq_ignore_ascii_case(b"Max-Forwards") {
        return None;
    }
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits?.parse().ok()
}

/// Returns whether a field of the client's request is not passed on, because it is for one connection only or
/// rewritten.
fn is_left_out(name: &[u8], request: &Request<'_>, is_trusted: bool) -> bool {
    let is_identity = IDENTITY.iter().any(|own| is_alike(own.as_bytes(), name));
    // From a trusted proxy, the other fields stay unchanged. But it may have passed on names with `_` from its own
    // clients.
    let is_rewritten = is_identity && (!is_trusted || is_alike(b"X-Forwarded-For", name) || name.contains(&b'_'));
    // A client of HTTP/1.0 does not wait for an interim response.
    let is_meaningless = request.version() == Version::Http10 && name.eq_ignore_ascii_case(b"Expect");
    is_rewritten
        || is_meaningless
        || name.eq_ignore_ascii_case(b"Host")
        || is_of_connection(name, request.lines(Field::Connection))
}

/// Returns the clients and proxies that the request has passed through: those named by a trusted proxy, then the
/// connected client. A client of a Unix socket has no address.
fn chain(request: &Request<'_>, is_trusted: bool, peer: Client) -> Vec<u8> {
    let mut chain = Vec::new();
    let named = request.fields().filter(|(name, _)| is_trusted && name.eq_ignore_ascii_case(b"X-Forwarded-For"));
    let own = peer.peer.map(|peer| peer.to_string());
    let values = named.map(|(_, value)| value).chain(own.iter().map(String::as_bytes));
    for value in values.filter(|value| !value.is_empty()) {
        if !chain.is_empty() {
            chain.extend_from_slice(b", ");
        }
        chain.extend_from_slice(value);
    }
    chain
}

/// Writes the length of the body, and the protocol that the connection is to switch to.
fn write_framing(request: &Request<'_>, is_upgrade: bool, head: &mut Vec<u8>) {
    match request.body() {
        BodyLength::Chunked => put("Transfer-Encoding", b"chunked", head),
        BodyLength::Bytes(0) if !request.has(Field::ContentLength) => {}
        BodyLength::Bytes(length) => {
            head.extend_from_slice(b"Content-Length: ");
            write_decimal(length, head);
            head.extend_from_slice(b"\r\n");
        }
    }
    if is_upgrade {
        put("Connection", b"Upgrade", head);
        put("Upgrade", b"websocket", head);
    }
}
