//! Listening sockets: single addresses, and whole networks of loopback addresses on one port.

use super::error::Error;
use super::prefix::Prefix;
use landau_sys::socket::{Address, Family, bind, local_port};
use landau_sys::stream;
use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::str::FromStr;

/// Where a sink listens: all addresses of a network, at one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// The addresses.
    pub network: Prefix,
    /// The port; 0 for one that the system chooses.
    pub port: u16,
}

impl Listen {
    /// Returns whether it is a single address.
    fn is_single(&self) -> bool {
        Prefix::single(self.network.address()) == self.network
    }

    /// Returns the address to bind. A network is served by a socket at the wildcard address; connections to other
    /// addresses are reset.
    pub(crate) fn bound(&self) -> SocketAddr {
        let address = match self.network.address() {
            address if self.is_single() => address,
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        SocketAddr::new(address, self.port)
    }

    /// Returns whether the sink serves an address.
    pub(crate) fn serves(&self, local: IpAddr) -> bool {
        self.network.address().is_unspecified() || self.network.contains(local)
    }
}

impl FromStr for Listen {
    type Err = Error;

    /// `127.0.0.1:2525`, `[::1]:2525`, `:2525` (all addresses of both families) or `127.0.0.0/8:2525` (all addresses of
    /// a network).
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Address { text: text.to_owned() };
        let text = text.strip_prefix("localhost:").map_or(text.to_owned(), |port| format!("127.0.0.1:{port}"));
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() {
            return Ok(Self { network: Prefix::single(Ipv6Addr::UNSPECIFIED.into()), port });
        }
        let host = match (host.strip_prefix('['), host.contains(':')) {
            (Some(rest), _) => rest.strip_suffix(']').ok_or_else(wrong)?,
            (None, true) => return Err(wrong()),
            (None, false) => host,
        };
        host.parse().map(|network| Self { network, port }).map_err(|_| wrong())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_single() {
            return self.bound().fmt(f);
        }
        match self.network.address() {
            IpAddr::V4(_) => write!(f, "{}:{}", self.network, self.port),
            IpAddr::V6(_) => write!(f, "[{}]:{}", self.network, self.port),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    /// The address, with the port that the system chose.
    pub(crate) listen: Listen,
}

/// Returns the error of a socket that cannot be bound, with a hint.
pub(crate) fn failed(listen: &Listen, cause: landau_sys::Error) -> Error {
    let hint = match cause.kind() {
        ErrorKind::PermissionDenied => "; only root can bind ports below 1024: try port 2525",
        ErrorKind::AddrInUse => "; another program listens there: run `ss -ltnup` to see which",
        ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    };
    Error::Listen { address: listen.to_string(), cause, hint }
}

impl Listener {
    /// Listens at an address or network.
    pub(crate) fn new(listen: Listen, backlog: u32) -> Result<Self, Error> {
        let fd = listening(listen.bound(), backlog).map_err(|cause| failed(&listen, cause))?;
        let port = local_port(&fd).map_err(|cause| failed(&listen, cause))?;
        Ok(Self { fd, listen: Listen { port, ..listen } })
    }
}

fn listening(address: SocketAddr, backlog: u32) -> landau_sys::Result<OwnedFd> {
    let socket = stream::stream(if address.is_ipv4() { Family::V4 } else { Family::V6 })?;
    stream::set_reuse_address(&socket)?;
    if let SocketAddr::V6(address) = address {
        // `[::]` accepts IPv4 as well; other addresses do not.
        stream::set_v6_only(&socket, !address.ip().is_unspecified())?;
    }
    bind(&socket, &Address::from(address))?;
    // Accepted connections inherit the option, which saves a call for each.
    stream::set_no_delay(&socket)?;
    stream::listen(&socket, backlog)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_are_parsed() {
        for (text, shown, bound) in [
            ("127.0.0.1:25", "127.0.0.1:25", "127.0.0.1:25"),
            ("localhost:25", "127.0.0.1:25", "127.0.0.1:25"),
            ("127.0.0.0/8:25", "127.0.0.0/8:25", "0.0.0.0:25"),
            ("[::1]:25", "[::1]:25", "[::1]:25"),
            (":25", "[::]:25", "[::]:25"),
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!((listen.to_string().as_str(), listen.bound().to_string().as_str()), (shown, bound));
        }
        for text in ["", "25", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "::1:25", "[::1:25", "a.example:25"] {
            assert!(text.parse::<Listen>().unwrap_err().to_string().contains("try 127.0.0.1:2525"), "{text}");
        }
    }

    #[test]
    fn a_network_serves_its_addresses_only() {
        let serves = |listen: &str, local: &str| listen.parse::<Listen>().unwrap().serves(local.parse().unwrap());
        assert!(serves("127.0.0.0/8:1", "127.9.9.9") && !serves("127.0.0.0/8:1", "10.0.0.1"));
        assert!(serves(":1", "10.0.0.1") && serves("0.0.0.0:1", "10.0.0.1") && serves("127.0.0.1:1", "127.0.0.1"));
    }
}
