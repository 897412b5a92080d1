//! The server for all mail. Its name is resolved only once, here, and every address is checked. So a later change of
//! the name cannot redirect mail to another host.

use crate::error::{Error, Result};
use landau_sys::socket::is_loopback_or_private;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// The default SMTP port.
const PORT: u16 = 25;

/// The server that takes all mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The host as the user wrote it.
    name: String,
    /// The host without its port.
    host: String,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Resolves `HOST`, `HOST:PORT` or `[IPV6]:PORT` to addresses to which mail may be sent: those of this host, of
    /// private networks, and of a host in `allowed`.
    ///
    /// # Errors
    ///
    /// The text has no host, the name does not resolve, or sending to one of its addresses is not permitted: another
    /// lookup could return that one.
    pub fn resolve(text: &str, allowed: &[String]) -> Result<Self> {
        let malformed = || Error::Spec(format!("--via {text}: write HOST:PORT, with a port from 1 to 65535"));
        let (host, port) = split(text).ok_or_else(malformed)?;
        let unresolved = |reason: String| Error::Unresolved { host: host.to_owned(), reason };
        let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => (host, port).to_socket_addrs().map_err(|error| unresolved(error.to_string()))?.collect(),
        };
        let is_allowed = allowed.iter().any(|one| one.eq_ignore_ascii_case(host));
        if let Some(foreign) = addresses.iter().find(|one| !is_allowed && !is_loopback_or_private(one.ip())) {
            return Err(Error::HostNotAllowed { host: host.to_owned(), address: foreign.ip().to_string() });
        }
        if addresses.is_empty() {
            return Err(unresolved("the name has no address".to_owned()));
        }
        Ok(Self { name: text.to_owned(), host: host.to_owned(), addresses })
    }

    /// Returns the addresses.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the host without its port.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the server as the user wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Splits host and port.
fn split(text: &str) -> Option<(&str, u16)> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|&port| port > 0);
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = if rest.is_empty() { PORT } else { port(rest.strip_prefix(':')?)? };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_split() {
        assert_eq!(split("a.org:2525"), Some(("a.org", 2525)));
        assert_eq!(split("a.org"), Some(("a.org", 25)));
        assert_eq!(split("[::1]:26"), Some(("::1", 26)));
        assert_eq!(split("[::1]"), Some(("::1", 25)));
        for text in ["", ":25", "a:0", "a:x", "a:65536", "::1", "[::1", "[::1]x"] {
            assert_eq!(split(text), None, "{text}");
        }
    }

    #[test]
    fn public_addresses_need_permission() {
        for private in ["127.0.0.1:25", "10.1.2.3", "[::1]:2525", "[fd00::1]", "localhost:25"] {
            assert!(Server::resolve(private, &[]).is_ok(), "{private}");
        }
        for public in ["8.8.8.8", "[2001:db8::1]:25", "169.254.169.254:25", "[::ffff:8.8.8.8]:25"] {
            let error = Server::resolve(public, &["other".to_owned()]).unwrap_err();
            assert!(matches!(&error, Error::HostNotAllowed { .. }), "{error}");
        }
        assert!(Server::resolve("8.8.8.8:25", &["8.8.8.8".to_owned()]).is_ok());
    }
}
