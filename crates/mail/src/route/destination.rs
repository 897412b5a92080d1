//! The order in which the addresses of one host are tried, IPv6 and IPv4 (RFC 6724 section 6).
//!
//! RFC 5321 section 5.1 leaves the order of a host's addresses to the resolver. Some of the rules need only a socket.
//! Unreachable addresses come last (rule 1). Before them come those whose scope (rule 2) or label (rule 5) differs from
//! that of their source address. Then the precedence decides (rule 6): IPv6 before IPv4, and IPv4 before unique local
//! addresses and tunnels.

use landau_sys::Error;
use landau_sys::socket::source_address;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The default policy (RFC 6724 section 2.1): prefix, its length, precedence, label.
const POLICY: [(Ipv6Addr, u32, u8, u8); 9] = [
    (Ipv6Addr::LOCALHOST, 128, 50, 0),
    (Ipv6Addr::UNSPECIFIED, 0, 40, 1),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 35, 4),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 30, 2),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 5, 5),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 3, 13),
    (Ipv6Addr::UNSPECIFIED, 96, 1, 3),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 1, 11),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 1, 12),
];

/// The rank of an address among those of its host; the lowest is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Rank {
    /// Whether this system has no route to it.
    pub(super) is_unreachable: bool,
    has_other_scope: bool,
    has_other_label: bool,
    /// 255 minus the precedence.
    behind: u8,
}

/// Returns the precedence and the label of an address: those of its longest matching prefix.
fn policy(address: IpAddr) -> (u8, u8) {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let has = |prefix: &Ipv6Addr, length: u32| (bits ^ prefix.to_bits()).checked_shr(128 - length).unwrap_or(0) == 0;
    let rows = POLICY.iter().filter(|(prefix, length, ..)| has(prefix, *length));
    rows.max_by_key(|(_, length, ..)| *length).map_or((0, 0), |&(.., precedence, label)| (precedence, label))
}

/// Returns the scope of an address (RFC 6724 section 3): 2 within a link, 5 within a site, or 14.
fn scope(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(v4) if v4.is_loopback() || v4.is_link_local() => 2,
        IpAddr::V6(v6) if v6.is_loopback() || v6.is_unicast_link_local() => 2,
        IpAddr::V6(v6) if v6.segments()[0] & 0xffc0 == 0xfec0 => 5,
        _ => 14,
    }
}

/// Returns the rank of an address that is reached from `source`, or cannot be reached.
fn rank(address: IpAddr, source: Option<IpAddr>) -> Rank {
    let (precedence, label) = policy(address);
    let has_other_scope = source.is_some_and(|source| scope(source) != scope(address));
    let has_other_label = source.is_some_and(|source| policy(source).1 != label);
    Rank { is_unreachable: source.is_none(), has_other_scope, has_other_label, behind: u8::MAX - precedence }
}

/// Returns the source address for a destination; `None` if the destination cannot be reached. If no socket is free to
/// determine it, the destination itself counts as its source.
fn source(address: IpAddr) -> Option<IpAddr> {
    match source_address(address) {
        Err(error) if error.is_unreachable() => None,
        found => Some(found.unwrap_or(address)),
    }
}

/// Returns whether this system can reach an address. Addresses of the IPv4 loopback network always count as reachable.
pub(super) fn is_reachable(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.is_loopback()) || !source_address(address).is_err_and(Error::is_unreachable)
}

/// Returns the addresses of a host with their ranks. If all are IPv4 addresses, their source addresses are not
/// determined: they have the same rank.
pub(super) fn ranked(addresses: Vec<SocketAddr>) -> Vec<(SocketAddr, Rank)> {
    if addresses.iter().all(SocketAddr::is_ipv4) {
        return addresses.into_iter().map(|address| (address, Rank::default())).collect();
    }
    let of = |address: SocketAddr| (address, rank(address.ip(), source(address.ip())));
    addresses.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the addresses in the order in which they are tried. The input pairs each address with its source
    /// address.
    fn ordered(pairs: &[(&'static str, &str)]) -> Vec<&'static str> {
        let mut all: Vec<(Rank, &str)> = Vec::new();
        for (address, source) in pairs {
            all.push((rank(address.parse().unwrap(), source.parse().ok()), *address));
        }
        all.sort_by_key(|(rank, _)| *rank);
        all.into_iter().map(|(_, address)| address).collect()
    }

    #[test]
    fn the_longest_prefix_decides() {
        for (address, expected) in [
            ("::1", (50, 0)),
            ("2001:db8::1", (40, 1)),
            ("192.0.2.1", (35, 4)),
            ("::ffff:192.0.2.1", (35, 4)),
            ("2002:c000:201::1", (30, 2)),
            ("2001::1", (5, 5)),
            ("2001:1::1", (40, 1)),
            ("fd00::1", (3, 13)),
            ("::2", (1, 3)),
            ("fec0::1", (1, 11)),
            ("3ffe::1", (1, 12)),
            ("fe80::1", (40, 1)),
        ] {
            assert_eq!(policy(address.parse().unwrap()), expected, "{address}");
        }
    }

    /// Examples of RFC 6724 section 10.2, and the order on a host without IPv6.
    #[test]
    fn addresses_are_tried_as_the_rfc_says() {
        let none = "none";
        for (pairs, first) in [
            ([("192.0.2.1", "192.0.2.9"), ("2001:db8::1", "2001:db8::9")], "2001:db8::1"),
            ([("2001:db8::1", none), ("192.0.2.1", "192.0.2.9")], "192.0.2.1"),
            ([("2001:db8:1::1", "fe80::1"), ("198.51.100.121", "198.51.100.117")], "198.51.100.121"),
            ([("2002:c633:6401::1", "2002:c633:6401::9"), ("2001:db8::1", "2002:c633:6401::9")], "2002:c633:6401::1"),
            ([("fd00::1", "fd00::9"), ("10.1.2.3", "10.1.2.9")], "10.1.2.3"),
            // A unique local address is a poor source for global destinations.
            ([("2001:db8::1", "fd00::9"), ("192.0.2.1", "10.1.2.9")], "192.0.2.1"),
            ([("127.0.0.1", "127.0.0.1"), ("::1", "::1")], "::1"),
        ] {
            assert_eq!(ordered(&pairs)[0], first, "{pairs:?}");
        }
    }
}
