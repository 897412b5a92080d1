//! URLs, where they lead, and whether load may be sent there.
//!
//! A name is resolved once, here, and checked; the workers get addresses and never ask again, so that a name that
//! changes its mind cannot lead them elsewhere.

use crate::error::{Error, Result};
use landau_sys::socket::{UNIX_PATH_BYTES, is_own};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// Where connections go.
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
    /// Whether the server runs on this machine, as far as the address says.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Inet(address) => address.ip().to_canonical().is_loopback() || address.ip().is_unspecified(),
            Self::Unix(_) => true,
        }
    }
}

/// A URL taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether it begins with `https`.
    pub is_secure: bool,
    /// The host, without the brackets of an IPv6 address; empty for a Unix socket.
    pub host: String,
    /// The port, its scheme's own where none is written; 0 for a Unix socket.
    pub port: u16,
    /// The socket's path, of `http+unix://%2Frun%2Fx.sock/path` and `unix:/run/x.sock:/path`.
    pub socket: Option<PathBuf>,
    /// What is asked for: path and query, `/` at least.
    pub target: String,
}

impl Url {
    /// Reads `http://host:port/path`, `https://…`, `unix:/path/of/socket:/path` and, without a scheme,
    /// `host:port/path`.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |reason: &str| Error::Url { url: text.to_owned(), reason: reason.to_owned() };
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(wrong("it holds a blank or a control character; write them as %20 and the like"));
        }
        if let Some(rest) = text.split_at_checked(5).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("unix:")) {
            let rest = rest.1;
            let (path, target) = rest.rsplit_once(':').unwrap_or((rest, "/"));
            if path.is_empty() {
                return Err(wrong("no path of a socket; write unix:/run/server.sock:/path"));
            }
            if path.len() > UNIX_PATH_BYTES {
                return Err(wrong(&format!(
                    "the socket's path is longer than {UNIX_PATH_BYTES} bytes, the most there is"
                )));
            }
            let target = target_of(target);
            return Ok(Self { is_secure: false, host: String::new(), port: 0, socket: Some(path.into()), target });
        }
        let (is_secure, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, _)) => {
                return Err(wrong(&format!("{scheme} is no scheme of ours; there are http, https and unix")));
            }
            None => (false, text),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(wrong("a name and password do not belong here; send them with -H 'Authorization: …'"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| wrong("the port is no number from 1 to 65535"))?;
        if host.is_empty() {
            return Err(wrong("no host"));
        }
        let port = port.unwrap_or(if is_secure { 443 } else { 80 });
        Ok(Self { is_secure, host: host.to_owned(), port, socket: None, target: target_of(target) })
    }

    /// What stands in the `Host` field.
    pub fn authority(&self) -> String {
        if self.socket.is_some() {
            return "localhost".to_owned();
        }
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.is_secure { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Where it leads, if load may be sent there: to this machine, to a private network, or to a host that the user
    /// confirmed. Every address that the name has must be allowed, for the next look-up may give another.
    pub fn resolve(&self, confirmed: &[String]) -> Result<Endpoint> {
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
        let is_confirmed = confirmed.iter().any(|host| host.eq_ignore_ascii_case(&self.host));
        if let Some(stranger) = found.iter().find(|one| !is_confirmed && !is_own(one.ip())) {
            return Err(Error::Refused { host: self.host.clone(), address: stranger.ip().to_string() });
        }
        found.first().copied().map(Endpoint::Inet).ok_or_else(|| unresolved("it has no address".to_owned()))
    }
}

/// A path as a request carries it: without a fragment, which never travels.
fn target_of(text: &str) -> String {
    let text = text.split('#').next().unwrap_or_default();
    if text.starts_with('/') { text.to_owned() } else { format!("/{text}") }
}

/// Host and port; none where what follows the colon is no port.
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
    fn urls_come_apart() {
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

    #[test]
    fn what_is_no_url_of_ours_is_told_apart() {
        for text in
            ["ftp://a", "http://", "http://a:0", "http://a:x", "http://a b/", "http://u:p@a", "unix:", "", "[::1"]
        {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn strangers_are_refused_and_neighbours_are_not() {
        for own in [
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
            assert!(Url::parse(&format!("http://{own}/")).unwrap().resolve(&[]).is_ok(), "{own}");
        }
        for stranger in [
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
            let url = Url::parse(&format!("http://{stranger}/")).unwrap();
            assert!(matches!(url.resolve(&[]), Err(Error::Refused { .. })), "{stranger}");
            assert!(url.resolve(std::slice::from_ref(&url.host)).is_ok(), "{stranger}");
            assert!(url.resolve(&["other".to_owned()]).is_err(), "{stranger}");
        }
    }
}
