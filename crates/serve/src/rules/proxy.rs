//! Upstream servers to which requests are forwarded.

use super::pattern::{Pattern, below};
use super::placeholder::{self, REST};
use landau_sys::socket::{Address, Family};
use landau_sys::stream;
use landau_wire::http::target;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The port of a URL without a port.
const HTTP_PORT: u16 = 80;

/// The place where an upstream server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A host, which may have several addresses, and a port.
    Tcp { host: String, port: u16 },
    /// A Unix socket; on Linux a name that begins with `@` is an abstract one.
    Unix(PathBuf),
}

/// An upstream server.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// The text as it was written.
    pub(crate) text: String,
    pub(crate) place: Place,
    /// The value of `Host` for a request without one.
    pub(crate) authority: String,
    /// The addresses, after they have been found. Those of a name are looked up whenever the configuration is read.
    addresses: OnceLock<Vec<Destination>>,
}

/// An address to connect to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Destination {
    /// `None` for a Unix socket.
    socket: Option<SocketAddr>,
    address: Address,
}

impl Destination {
    /// Begins a connection; returns its socket, and whether it is already established.
    pub(crate) fn connect(&self) -> landau_sys::Result<(OwnedFd, bool)> {
        let fd = match self.socket {
            None => stream::unix_stream()?,
            Some(socket) => {
                let fd = stream::stream(if socket.is_ipv4() { Family::V4 } else { Family::V6 })?;
                // Parts of a request must not wait for acknowledgements.
                stream::set_no_delay(&fd)?;
                fd
            }
        };
        match stream::connect(&fd, &self.address) {
            Ok(()) => Ok((fd, true)),
            Err(error) if error.is_in_progress() => Ok((fd, false)),
            Err(error) => Err(error),
        }
    }
}

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Self {
        Self { socket: Some(address), address: address.into() }
    }
}

impl PartialEq for Upstream {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Upstream {
    /// Parses `http://HOST`, `http://HOST:PORT` or `unix:PATH`.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with(['/', '@']) || path.len() < 2 {
                return Err("expected unix: with a path that begins with a slash".to_owned());
            }
            let (place, authority) = (Place::Unix(path.into()), "localhost".to_owned());
            return Ok(Self { text: text.to_owned(), place, authority, addresses: OnceLock::new() });
        }
        if text.starts_with("https://") {
            return Err("TLS to upstream servers is not supported; use http://HOST:PORT or unix:PATH".to_owned());
        }
        let authority = text.strip_prefix("http://").ok_or("expected http://HOST:PORT or unix:PATH")?;
        if authority.contains(['/', '?', '#']) {
            return Err("put the path into the key `path`: path = \"/{rest}\" omits the rule's directory".to_owned());
        }
        let (host, port) = host_and_port(authority).ok_or("expected http://HOST:PORT")?;
        let place = Place::Tcp { host: host.to_owned(), port };
        Ok(Self { text: text.to_owned(), place, authority: authority.to_owned(), addresses: OnceLock::new() })
    }

    /// Returns whether the host is a name that must be looked up.
    pub(crate) fn has_name(&self) -> bool {
        matches!(&self.place, Place::Tcp { host, .. } if host.parse::<IpAddr>().is_err())
    }

    /// Finds the addresses, once. Fails with the reason.
    pub(super) fn find_addresses(
        &self,
        look_up: impl Fn(&str, u16) -> Result<Vec<SocketAddr>, String>,
    ) -> Result<(), String> {
        let addresses = self.place.addresses(look_up)?;
        let _ = self.addresses.set(addresses);
        Ok(())
    }

    /// Copies the addresses of an equal upstream server, unless this one has its own.
    pub(super) fn take_addresses_of(&self, other: &Self) {
        let _ = self.addresses.set(other.addresses().to_vec());
    }

    /// Returns whether `other` is the same server with the same addresses, in any order.
    pub(crate) fn is_at_same_place(&self, other: &Self) -> bool {
        let sockets = |of: &Self| {
            let mut sockets: Vec<_> = of.addresses().iter().map(|destination| destination.socket).collect();
            sockets.sort_unstable();
            sockets
        };
        std::ptr::eq(self, other) || (self == other && sockets(self) == sockets(other))
    }

    /// Returns the addresses, in the order in which they are tried.
    pub(crate) fn addresses(&self) -> &[Destination] {
        self.addresses.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the port that the sandbox must permit.
    pub(crate) fn port(&self) -> Option<u16> {
        match self.place {
            Place::Tcp { port, .. } => Some(port),
            Place::Unix(_) => None,
        }
    }
}

impl Place {
    fn addresses(
        &self,
        look_up: impl Fn(&str, u16) -> Result<Vec<SocketAddr>, String>,
    ) -> Result<Vec<Destination>, String> {
        match self {
            Self::Unix(path) => unix_address(path).map(|address| vec![address]),
            Self::Tcp { host, port } => {
                let found = match host.parse::<IpAddr>() {
                    Ok(address) => vec![SocketAddr::new(address, *port)],
                    Err(_) => look_up(host, *port)?,
                };
                if found.is_empty() { Err("the name has no address".to_owned()) } else { Ok(found) }
            }
            .map(|found| found.into_iter().map(Destination::from).collect()),
        }
    }
}

fn unix_address(path: &Path) -> Result<Destination, String> {
    let address = Address::unix(path).map_err(|_| "the path of a Unix socket is too long".to_owned())?;
    Ok(Destination { socket: None, address })
}

/// Returns the host of an authority, without the brackets of an IPv6 address, and the port.
fn host_and_port(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => HTTP_PORT,
        digits => digits?.parse().ok().filter(|&port| port != 0)?,
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_name)).then_some((host, port))
}

/// The path that is requested from an upstream server instead of the request's own path.
#[derive(Debug, Clone)]
pub(crate) struct PathTemplate {
    before: String,
    /// The text after the rest of the path; `None` if the template has no `{rest}`.
    after: Option<String>,
    /// The directories of the rule; their number of segments determines the rest of a path.
    folders: Vec<String>,
}

impl PathTemplate {
    /// Checks a path; `{rest}` in it stands for the path below the rule's directory.
    pub(crate) fn new(text: &str, patterns: &[Pattern]) -> Result<Self, String> {
        if !text.starts_with('/') || !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte)) {
            return Err("expected an encoded path that begins with a slash, without a query".to_owned());
        }
        placeholder::check(text)?;
        let Some((before, after)) = text.split_once(REST) else {
            return Ok(Self { before: text.to_owned(), after: None, folders: Vec::new() });
        };
        if !before.ends_with('/') {
            return Err("{rest} must follow a slash".to_owned());
        }
        if after.contains(REST) {
            return Err("{rest} may occur only once in a path".to_owned());
        }
        let folder = |pattern: &Pattern| {
            pattern.folder.clone().ok_or("{rest} needs a rule for directories, such as /old/, without wildcards")
        };
        let folders = patterns.iter().map(folder).collect::<Result<_, _>>()?;
        Ok(Self { before: before.to_owned(), after: Some(after.to_owned()), folders })
    }

    /// Appends the path for a request. `clean` is its path as the rules see it, and `sent` is the same path, encoded.
    fn write(&self, clean: &[u8], sent: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.before.as_bytes());
        let Some(after) = &self.after else { return };
        let around = self.folders.iter().filter(|folder| below(folder, clean).is_some());
        let depth = around.map(|folder| folder.matches('/').count()).max().unwrap_or_default();
        // Both have the same segments.
        let mut slashes = sent.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let rest = slashes.nth(depth).map_or(&[][..], |at| &sent[at + 1..]);
        out.extend_from_slice(rest);
        out.extend_from_slice(after.as_bytes());
    }
}

/// The proxy settings of a rule.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) upstream: Arc<Upstream>,
    /// The line of the rule, for messages.
    pub(crate) line: usize,
    pub(crate) path: Option<PathTemplate>,
    pub(crate) connect_timeout: Duration,
    /// How long the upstream server may send nothing, or accept nothing.
    pub(crate) response_timeout: Duration,
    /// How long an idle connection is kept.
    pub(crate) idle_timeout: Duration,
    /// The number of idle connections that each worker keeps.
    pub(crate) idle_connections: usize,
    /// Whether paths with an encoded slash are passed on.
    pub(crate) encoded_slash: bool,
    /// The field lines that are set in requests.
    pub(crate) lines: Vec<u8>,
    /// The fields that are removed from the client's request, including those in `lines`.
    pub(crate) removed: Vec<String>,
}

impl Proxy {
    /// Returns whether the operator has replaced or removed a field of requests.
    pub(crate) fn removes(&self, name: &[u8]) -> bool {
        self.removed.iter().any(|removed| is_alike(removed.as_bytes(), name))
    }

    /// Appends the path, with the query, that is requested from the upstream server. `raw` is the target of the
    /// client's request, and `clean` its path as the rules see it.
    pub(crate) fn write_target(&self, raw: &[u8], clean: &[u8], out: &mut Vec<u8>) {
        let end = raw.iter().position(|&byte| byte == b'?').unwrap_or(raw.len());
        let (path, query) = raw.split_at(end);
        let mut encoded = Vec::new();
        // The path that the rules checked is the path that is requested: dots and empty segments are not sent. Some
        // servers treat a backslash as a slash.
        let sent = if !path.contains(&b'\\') && decodes_to(path, clean) {
            path
        } else if target::has_encoded_slash(path) {
            let escaped = path.split(|&byte| byte == b'\\').collect::<Vec<_>>().join(&b"%5C"[..]);
            target::write_without_dots(&escaped, &mut encoded);
            &encoded
        } else {
            target::encode(clean, &mut encoded);
            &encoded
        };
        match &self.path {
            None => out.extend_from_slice(sent),
            Some(template) => template.write(clean, sent, out),
        }
        out.extend_from_slice(query);
    }
}

/// Returns whether two field names are the same to a server that turns them into variables, where `X_A` is `X-A`.
pub(crate) fn is_alike(one: &[u8], other: &[u8]) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.iter().map(plain).eq(other.iter().map(plain))
}

/// Returns whether `raw` is `clean` after its escapes are decoded, segment by segment.
fn decodes_to(raw: &[u8], clean: &[u8]) -> bool {
    let mut clean = clean.iter();
    let mut rest = raw;
    while let [first, after @ ..] = rest {
        let byte = if let (b'%', [high, low, after @ ..]) = (first, after) {
            rest = after;
            let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or_default() as u8;
            digit(high) << 4 | digit(low)
        } else {
            rest = after;
            *first
        };
        if clean.next() != Some(&byte) {
            return false;
        }
    }
    clean.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_are_read() {
        for (text, host, port) in [
            ("http://127.0.0.1:3000", "127.0.0.1", 3000),
            ("http://app", "app", 80),
            ("http://[::1]:81", "::1", 81),
            ("http://a-b.example:8080", "a-b.example", 8080),
        ] {
            let place = Place::Tcp { host: host.to_owned(), port };
            assert_eq!(Upstream::new(text).unwrap().place, place, "{text}");
        }
        assert_eq!(Upstream::new("unix:/run/a b.sock").unwrap().place, Place::Unix("/run/a b.sock".into()));
        for wrong in [
            "",
            "127.0.0.1:3000",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:",
            "http://a:99999",
            "http://a:3000/",
            "http://a/b",
            "http://u@a",
            "http://a b",
            "http://[x]:1",
            "http://::1",
            "https://a",
            "unix:",
            "unix:a",
            "unix:/",
        ] {
            assert!(Upstream::new(wrong).is_err(), "{wrong}");
        }
    }

    /// `patterns` are separated by spaces.
    fn target(path: Option<&str>, patterns: &str, raw: &str) -> String {
        let patterns: Vec<Pattern> = patterns.split(' ').map(|pattern| Pattern::new(pattern).unwrap()).collect();
        let proxy = Proxy {
            upstream: Arc::new(Upstream::new("http://a").unwrap()),
            line: 1,
            path: path.map(|path| PathTemplate::new(path, &patterns).unwrap()),
            connect_timeout: Duration::ZERO,
            response_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            idle_connections: 0,
            encoded_slash: true,
            lines: Vec::new(),
            removed: Vec::new(),
        };
        let (mut buffer, mut out) = ([0; 99], Vec::new());
        let clean = target::clean(raw.as_bytes(), &mut buffer).unwrap().path.to_vec();
        proxy.write_target(raw.as_bytes(), &clean, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn paths_are_passed_on_as_they_were_judged() {
        for (raw, expected) in [
            ("/a/b?c=%20&d=/../e", "/a/b?c=%20&d=/../e"),
            ("/a/b:c@d;e='f'", "/a/b:c@d;e='f'"),
            ("/a/%e9%20%3B", "/a/%e9%20%3B"),
            ("/a/../b", "/b"),
            ("/a/%2e%2E/b?c", "/b?c"),
            ("/a//b", "/a/b"),
            (r"/a\..\b", "/a%5C..%5Cb"),
            ("/%61/./b c".split(' ').next().unwrap(), "/a/b"),
        ] {
            assert_eq!(target(None, "/", raw), expected, "{raw}");
        }
        for (path, pattern, raw, expected) in [
            ("/{rest}", "/api/", "/api/a%20b/c?d", "/a%20b/c?d"),
            ("/{rest}", "/api/", "/api", "/"),
            ("/{rest}", "/api/", "/api/", "/"),
            ("/v1/{rest}", "/api/x/", "/api/x/y", "/v1/y"),
            ("/{rest}", "/api/", "/%61pi/./y", "/y"),
            ("/{rest}", "/", "/a/b", "/a/b"),
            ("/fixed", "/api/", "/api/y?z", "/fixed?z"),
            ("/{rest}", "/app/ /app/v1/", "/app/v1/x", "/x"),
            ("/{rest}", "/app/ /app/v1/", "/app/v10/x", "/v10/x"),
            ("/{rest}", "/app/ /app/v1/", "/app/v10", "/v10"),
        ] {
            assert_eq!(target(Some(path), pattern, raw), expected, "{path} {raw}");
        }
    }

    #[test]
    fn templates_are_checked() {
        let check = |path: &str, pattern: &str| PathTemplate::new(path, &[Pattern::new(pattern).unwrap()]);
        for (path, pattern) in [
            ("", "/a/"),
            ("a", "/a/"),
            ("/a?b", "/a/"),
            ("/a b", "/a/"),
            ("/a{rest}", "/a/"),
            ("/{rest}", "*.php"),
            // Such text was once sent literally.
            ("/{path}", "/a/"),
            ("/{rest}/$uri", "/a/"),
            ("/{rest}/{rest}", "/a/"),
        ] {
            assert!(check(path, pattern).is_err(), "{path}");
        }
    }
}
