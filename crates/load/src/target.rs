//! URLs, their addresses, and whether load may be sent there.
//!
//! A name is resolved once, here, and every address is checked. The workers get addresses, so a later change of the
//! name cannot lead them to another host.

use crate::error::{Error, Result};
use landau_sys::socket::{UNIX_PATH_BYTES, is_loopback_or_private};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// An address and a port.
    Inet(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Endpoint {
    /// Returns whether the server runs on this host, according to its address.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Inet(address) => address.ip().to_canonical().is_loopback() || address.ip().is_unspecified(),
            Self::Unix(_) => true,
        }
    }
}

/// The parts of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether the scheme is `https`.
    pub is_secure: bool,
    /// The host, without the brackets of an IPv6 address; empty for a Unix socket.
    pub host: String,
    /// The port, by default that of the scheme; 0 for a Unix socket.
    pub port: u16,
    /// The socket's path in `unix:/run/x.sock:/path`.
    pub socket: Option<PathBuf>,
    /// The request target: path and query, at least `/`.
    pub target: String,
}

impl Url {
    /// Parses `http://host:port/path`, `https://…`, `unix:/path/of/socket:/path` and, without a scheme,
    /// `host:port/path`.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |reason: &str| Error::Url { url: text.to_owned(), reason: reason.to_owned() };
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(invalid("a URL must not contain spaces or control characters; encode them as %20 and so on"));
        }
        if let Some(rest) = text.split_at_checked(5).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("unix:")) {
            let rest = rest.1;
            // The target may contain colons. If it has no leading slash, the last colon separates it from the path.
            let split = rest.find(":/").or_else(|| rest.rfind(':'));
            let (path, target) = split.map_or((rest, "/"), |at| (&rest[..at], &rest[at + 1..]));
            if path.is_empty() {
                return Err(invalid("the path of the socket is missing; write unix:/run/server.sock:/path"));
            }
            if path.len() > UNIX_PATH_BYTES {
                return Err(invalid(&format!(
                    "the path of the socket is longer than {UNIX_PATH_BYTES} bytes, the limit of the system"
                )));
            }
            let target = target_of(target);
            return Ok(Self { is_secure: false, host: String::new(), port: 0, socket: Some(path.into()), target });
        }
        let (is_secure, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, _)) => {
                return Err(invalid(&format!("the scheme {scheme} is not supported; use http, https or unix")));
            }
            None => (false, text),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(invalid(
                "user names and passwords are not supported in URLs; send them with -H 'Authorization: …'",
            ));
        }
        let (host, port) = split_port(authority).ok_or_else(|| invalid("the port must be a number from 1 to 65535"))?;
        if host.is_empty() {
            return Err(invalid("the host is missing"));
        }
        let port = port.unwrap_or(if is_secure { 443 } else { 80 });
        Ok(Self { is_secure, host: host.to_owned(), port, socket: None, target: target_of(target) })
    }

    /// Returns the value of the `Host` field.
    pub fn authority(&self) -> String {
        if self.socket.is_some() {
            return "localhost".to_owned();
        }
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.is_secure { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Resolves the host to an address that may be loaded: of this host, of a private network, or of a host in
    /// `allowed`.
    ///
    /// # Errors
    ///
    /// If the name does not resolve, or if one of its addresses may not be loaded: another lookup could return that
    /// one.
    pub fn resolve(&self, allowed: &[String]) -> Result<Endpoint> {
        if let Some(path) = &self.socket {
            return Ok(Endpoint::Unix(path.clone()));
        }
        let unresolved = |reason: String| Error::Unresolved { host: self.host.clone(), reason };
        let literal: Option<IpAddr> = self.host.parse().ok();
        let found: Vec<SocketAddr> = match literal {
            Some(address) => vec![SocketAddr::new(address, self.port)],
            None => (self.host.as_str(), self.port)
                .to_socket_addrs()
                .map_err(|error| unresolved(error.to_string()))?
                .collect(),
        };
        let is_allowed = allowed.iter().any(|host| host.eq_ignore_ascii_case(&self.host));
        if let Some(foreign) = found.iter().find(|one| !is_allowed && !is_loopback_or_private(one.ip())) {
            return Err(Error::HostNotAllowed { host: self.host.clone(), address: foreign.ip().to_string() });
        }
        found.first().copied().map(Endpoint::Inet).ok_or_else(|| unresolved("the name has no address".to_owned()))
    }
}

/// Returns the request target of a path, without a fragment.
fn target_of(text: &str) -> String {
    let text = text.split('#').next().unwrap_or_default();
    if text.starts_with('/') { text.to_owned() } else { format!("/{text}") }
}

/// Splits host and port; returns `None` if the port is invalid.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|&port| port > 0);
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, tail) = rest.split_once(']')?;
        return match tail.strip_prefix(':') {
            Some(text) => Some((host, Some(port(text)?))),
            None => tail.is_empty().then_some((host, None)),
        };
    }
    match authority.split_once(':') {
        Some((host, text)) => Some((host, Some(port(text)?))),
        None => Some((authority, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let url = |text: &str| Url::parse(text).unwrap();
        let parts = |text: &str| {
            let one = url(text);
            (one.is_secure, one.host.clone(), one.port, one.target.clone(), one.authority())
        };
        let own = |s: &str| s.to_owned();
        assert_eq!(parts("http://a"), (false, own("a"), 80, own("/"), own("a")));
        assert_eq!(parts("HTTP://a/B"), (false, own("a"), 80, own("/B"), own("a")));
        assert_eq!(parts("Https://a"), (true, own("a"), 443, own("/"), own("a")));
        assert_eq!(parts("https://a:8443/x?y#z"), (true, own("a"), 8443, own("/x?y"), own("a:8443")));
        assert_eq!(parts("localhost:8080/b"), (false, own("localhost"), 8080, own("/b"), own("localhost:8080")));
        assert_eq!(parts("http://[::1]:81?q"), (false, own("::1"), 81, own("/?q"), own("[::1]:81")));
        for text in ["unix:/run/a.sock:/b", "UNIX:/run/a.sock:/b"] {
            let unix = url(text);
            assert_eq!((unix.socket, unix.target.as_str()), (Some("/run/a.sock".into()), "/b"), "{text}");
        }
    }

    /// The last colon was once taken for the end of the socket's path.
    #[test]
    fn target_of_a_unix_socket_may_contain_colons() {
        for (text, path, target) in [
            ("unix:/run/a.sock:/b:c?d=e:f", "/run/a.sock", "/b:c?d=e:f"),
            ("unix:/run/a.sock:/b:/c", "/run/a.sock", "/b:/c"),
            ("unix:/run/a:b.sock:/c", "/run/a:b.sock", "/c"),
            ("unix:/run/a.sock:b", "/run/a.sock", "/b"),
            ("unix:a.sock", "a.sock", "/"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.socket, url.target.as_str()), (Some(path.into()), target), "{text}");
        }
    }

    #[test]
    fn unsupported_urls_are_errors() {
        for text in
            ["ftp://a", "http://", "http://a:0", "http://a:x", "http://a b/", "http://u:p@a", "unix:", "", "[::1"]
        {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn public_addresses_need_permission_and_private_ones_do_not() {
        for private in [
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.1",
            "192.168.1.1",
            "[::1]",
            "[fd00::1]",
            "[::ffff:10.0.0.1]",
            "0.0.0.0",
            "localhost",
        ] {
            assert!(Url::parse(&format!("http://{private}/")).unwrap().resolve(&[]).is_ok(), "{private}");
        }
        for public in [
            "8.8.8.8",
            "172.32.0.1",
            "192.169.0.1",
            "11.0.0.1",
            "[2001:db8::1]",
            "[::ffff:8.8.8.8]",
            "255.255.255.255",
            "224.0.0.1",
            "[ff02::1]",
            "169.254.169.254",
            "[::ffff:169.254.169.254]",
            "[fe80::1]",
            "100.64.0.1",
        ] {
            let url = Url::parse(&format!("http://{public}/")).unwrap();
            assert!(matches!(url.resolve(&[]), Err(Error::HostNotAllowed { .. })), "{public}");
            assert!(url.resolve(std::slice::from_ref(&url.host)).is_ok(), "{public}");
            assert!(url.resolve(&["other".to_owned()]).is_err(), "{public}");
        }
    }
}
