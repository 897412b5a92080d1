//! The client of a request, which may be one that a trusted proxy represents.

use crate::rules::Networks;
use landau_wire::http::Request;
use std::net::IpAddr;

/// A client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Client {
    /// The address; `None` over a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) is_tls: bool,
}

impl Client {
    /// Returns the client behind this one if this is a trusted proxy: the last address in `X-Forwarded-For` that is not
    /// a trusted proxy. Earlier entries may be forged.
    pub(crate) fn behind(self, proxies: &Networks, request: &Request<'_>) -> Self {
        if !proxies.has(self.peer) {
            return self;
        }
        let values = |name: &'static [u8]| {
            request.fields().filter(move |(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let is_tls = values(b"X-Forwarded-Proto").last().map_or(self.is_tls, |value| {
            value.rsplit(|&byte| byte == b',').next().unwrap_or_default().trim_ascii().eq_ignore_ascii_case(b"https")
        });
        let mut peer = self.peer;
        let chain: Vec<&[u8]> = values(b"X-Forwarded-For").flat_map(|line| line.split(|&byte| byte == b',')).collect();
        for address in chain.into_iter().rev().map(address_of) {
            // Entries before an invalid one are not trusted.
            let Some(address) = address else { break };
            peer = Some(address);
            if !proxies.has(peer) {
                break;
            }
        }
        Self { peer, is_tls }
    }
}

/// Reads an address, which some proxies write with a port or in brackets.
fn address_of(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let plain = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || text.parse::<std::net::SocketAddr>().map(|address| address.ip()).ok();
    let address: Option<IpAddr> = text.parse().ok().or_else(plain).or_else(with_port);
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_wire::http::{Limits, Parsed, request};

    fn behind(peer: &str, fields: &str) -> (String, bool) {
        let mut proxies = Networks::default();
        proxies.add("10.0.0.0/8").unwrap();
        proxies.add("unix").unwrap();
        let head = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        let Ok(Parsed::Complete { request, .. }) = request::parse(head.as_bytes(), &Limits::default()) else {
            panic!()
        };
        let client = Client { peer: peer.parse().ok(), is_tls: false }.behind(&proxies, &request);
        (client.peer.map_or("unix".to_owned(), |peer| peer.to_string()), client.is_tls)
    }

    #[test]
    fn only_trusted_proxies_say_who_asks() {
        for (peer, fields, expected) in [
            ("10.0.0.1", "X-Forwarded-For: 1.2.3.4\r\n", "1.2.3.4"),
            ("unix", "X-Forwarded-For: 1.2.3.4\r\n", "1.2.3.4"),
            ("9.9.9.9", "X-Forwarded-For: 1.2.3.4\r\n", "9.9.9.9"),
            ("10.0.0.1", "", "10.0.0.1"),
            ("10.0.0.1", "X-Forwarded-For: 6.6.6.6, 1.2.3.4, 10.0.0.2\r\n", "1.2.3.4"),
            ("10.0.0.1", "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 1.2.3.4\r\n", "1.2.3.4"),
            ("10.0.0.1", "X-Forwarded-For: 1.2.3.4, unknown\r\n", "10.0.0.1"),
            ("10.0.0.1", "X-Forwarded-For: 1.2.3.4, evil, 10.0.0.2\r\n", "10.0.0.2"),
            ("10.0.0.1", "X-Forwarded-For: 1.2.3.4:567\r\n", "1.2.3.4"),
            ("10.0.0.1", "X-Forwarded-For: [2001:db8::1]:567\r\n", "2001:db8::1"),
            ("10.0.0.1", "X-Forwarded-For: ::ffff:1.2.3.4\r\n", "1.2.3.4"),
        ] {
            assert_eq!(behind(peer, fields).0, expected, "{peer} {fields}");
        }
        assert!(behind("10.0.0.1", "X-Forwarded-Proto: https\r\n").1);
        assert!(!behind("10.0.0.1", "X-Forwarded-Proto: https, http\r\n").1);
        assert!(!behind("9.9.9.9", "X-Forwarded-Proto: https\r\n").1);
    }
}
