//! Source addresses and ports of the connections.
//!
//! A source address has about 28,000 ephemeral ports per destination. When half of them are in use, Linux searches
//! longer: it allocates ports of one parity first, and then tests all of them before it tries the other parity. That
//! search would be measured as the server's latency. So each worker gets its own addresses, uses at most half of their
//! ports, and a port range that Linux searches evenly (`IP_LOCAL_PORT_RANGE`, Linux 6.3; by parity until 6.7, hence the
//! half). Without that option the generator binds each port itself.

use crate::error::{Error, Result};
use crate::plan::{Ports, Sources, without_port};
use crate::spec::LoadSpec;
use crate::target::Endpoint;
use landau_sys::socket::{Family, Transport, bind, set_port_range, socket};
use landau_sys::stream::set_bind_address_no_port;
use landau_sys::system::ephemeral_ports;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The maximum number of connections to one server for which the kernel may choose address and port: less than a tenth
/// of its ports.
const FEW: u32 = 2_000;

/// The dynamic ports of IANA, for systems that do not report their range.
const DYNAMIC_PORTS: (u16, u16) = (49_152, 65_535);

/// Returns source addresses and ports for each worker; adds a note if one address has too few ports.
pub(crate) fn divide(
    endpoints: &[Endpoint],
    connections: u32,
    worker_count: u32,
    spec: &LoadSpec,
    notes: &mut Vec<String>,
) -> Result<Vec<Sources>> {
    let (low, high) = ephemeral_ports().unwrap_or(DYNAMIC_PORTS);
    let port_count = u32::from(high - low) + 1;
    let per_worker = connections.div_ceil(worker_count);
    let is_many = connections > FEW || spec.per_connection.is_some();
    if !spec.sources.is_empty() {
        spec.sources.iter().try_for_each(|&source| check(source, endpoints))?;
        return Ok(divide_addresses(&spec.sources, worker_count, (low, high)));
    }
    let is_loopback = |one: &Endpoint| matches!(one, Endpoint::Inet(address) if is_v4_loopback(address.ip()));
    if !is_many || !cfg!(target_os = "linux") || !endpoints.iter().all(is_loopback) {
        let is_inet = endpoints.iter().any(|one| matches!(one, Endpoint::Inet(_)));
        if is_inet && connections > port_count / 2 {
            notes.push(format!(
                "{connections} connections from one address: the kernel's search for a free port slows down at {} and \
                 fails at {port_count}; add addresses with --source A-B",
                port_count / 2
            ));
        }
        return Ok(vec![Sources { addresses: Vec::new(), ports: Ports::Kernel }; worker_count as usize]);
    }
    // A connection for each request leaves ports in TIME_WAIT.
    let wanted = if spec.per_connection.is_some() { per_worker.saturating_add(2 * port_count) } else { per_worker };
    let count = wanted.div_ceil(port_count / 2).max(1);
    let has_range = has_port_range();
    let sources = |worker: u32| {
        let addresses = (0..count).map(|number| loopback(worker, number)).collect::<Option<Vec<SocketAddr>>>();
        addresses.map(|addresses| Sources { addresses, ports: ports(low, high, has_range) })
    };
    let all = (0..worker_count).map(sources).collect::<Option<Vec<_>>>();
    all.ok_or_else(|| {
        Error::Plan(format!(
            "{worker_count} workers with {count} loopback addresses each exceed 127.64.0.0/10; use fewer --workers"
        ))
    })
}

/// Returns an error for an address from which no connection is possible: it has another family than the servers, or it
/// is not an address of this host.
fn check(address: SocketAddr, endpoints: &[Endpoint]) -> Result<()> {
    let source = without_port(address);
    let (family, name) = if address.is_ipv4() { (Family::V4, "IPv4") } else { (Family::V6, "IPv6") };
    let is_same = |one: &Endpoint| matches!(one, Endpoint::Inet(server) if server.is_ipv4() == address.is_ipv4());
    if !endpoints.iter().any(is_same) {
        return Err(Error::Plan(format!("--source {source}: no server of this load has an {name} address")));
    }
    let probe = socket(family, Transport::Tcp)?;
    let needs_scope = matches!(address, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0);
    bind(&probe, &address.into()).map_err(|error| match error.kind() {
        _ if needs_scope => Error::Plan(format!(
            "--source {source}: a link-local address needs its interface, as in {source}%eth0; `ip address` lists them"
        )),
        ErrorKind::AddrNotAvailable => {
            Error::Plan(format!("--source {source}: not an address of this host; `ip address` lists them"))
        }
        // ENODEV has no `ErrorKind`.
        _ if source.contains('%') => Error::Plan(format!(
            "--source {source}: {error}; the number behind % must be the index of an interface, as in `ip link`"
        )),
        _ => Error::Plan(format!("--source {source}: {error}")),
    })
}

/// Divides the user's addresses among the workers; if a family has fewer addresses than there are workers, divides the
/// ports instead. A worker that lacked the addresses of a family would let the kernel choose them.
fn divide_addresses(addresses: &[SocketAddr], worker_count: u32, (low, high): (u16, u16)) -> Vec<Sources> {
    let has_range = has_port_range();
    let count = worker_count as usize;
    let of_family = |is_v4: bool| addresses.iter().copied().filter(move |address| address.is_ipv4() == is_v4);
    if [true, false].iter().all(|&is_v4| matches!(of_family(is_v4).count(), found if found == 0 || found >= count)) {
        let own = |worker: usize| {
            [true, false].iter().flat_map(|&is_v4| of_family(is_v4).skip(worker).step_by(count)).collect()
        };
        return (0..count).map(|one| Sources { addresses: own(one), ports: ports(low, high, has_range) }).collect();
    }
    let slice = (u32::from(high - low) + 1) / worker_count;
    let part = |worker: u32| {
        let first = u32::from(low) + worker * slice;
        ports(first as u16, (first + slice.max(1) - 1) as u16, has_range)
    };
    (0..worker_count).map(|worker| Sources { addresses: addresses.to_vec(), ports: part(worker) }).collect()
}

/// Returns the choice of ports from a range, made by the kernel if it can.
fn ports(low: u16, high: u16, has_range: bool) -> Ports {
    if has_range { Ports::Range { low, high } } else { Ports::Explicit { low, high } }
}

fn is_v4_loopback(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.is_loopback())
}

/// Returns an address of 127.64.0.0/10 that no other worker has. On Linux all of 127.0.0.0/8 belongs to the host.
fn loopback(worker: u32, number: u32) -> Option<SocketAddr> {
    let (high, low) = (u8::try_from(64 + worker / 256).ok()?, (worker % 256) as u8);
    let last = u8::try_from(number + 1).ok().filter(|&last| last < 255)?;
    Some(SocketAddr::from((Ipv4Addr::new(127, high, low, last), 0)))
}

/// Returns whether this system supports a port range per socket.
fn has_port_range() -> bool {
    let Ok(probe) = socket(Family::V4, Transport::Tcp) else { return false };
    set_port_range(&probe, 40_000, 40_001).is_ok() && set_bind_address_no_port(&probe).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Guards against a worker without an address of a family, whose connections would come from any address.
    #[test]
    fn each_worker_has_addresses_of_each_family() {
        let addresses = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect()
        };
        let divided = |texts: &[&str]| -> Vec<Vec<SocketAddr>> {
            divide_addresses(&addresses(texts), 2, (1000, 1999)).into_iter().map(|one| one.addresses).collect()
        };
        let both = ["127.0.0.5", "::1"];
        assert_eq!(divided(&both), [addresses(&both), addresses(&both)]);
        let more = ["127.0.0.1", "::1", "127.0.0.2", "127.0.0.3"];
        assert_eq!(divided(&more), [addresses(&more), addresses(&more)]);
        assert_eq!(divided(&["127.0.0.1", "127.0.0.2"]), [addresses(&["127.0.0.1"]), addresses(&["127.0.0.2"])]);
        assert_eq!(
            divided(&["127.0.0.1", "::1", "127.0.0.2", "::2"]),
            [addresses(&["127.0.0.1", "::1"]), addresses(&["127.0.0.2", "::2"])]
        );
    }

    #[test]
    fn workers_do_not_share_loopback_addresses() {
        let all: Vec<SocketAddr> =
            (0..1000).flat_map(|worker| (0..3).filter_map(move |n| loopback(worker, n))).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 3000);
        assert!(loopback(256 * 200, 0).is_none() && loopback(0, 254).is_none());
    }

    /// Guards against a link-local address without its interface, from which nothing can be sent.
    #[test]
    fn a_source_address_keeps_its_scope() {
        let endpoints = [Endpoint::Inet("[::1]:80".parse().unwrap())];
        let refused = |address: &str| check(address.parse().unwrap(), &endpoints).unwrap_err().to_string();
        let text = refused("[fe80::1]:0");
        assert!(text.contains("--source fe80::1: a link-local address needs its interface"), "{text}");
        let text = refused("[fe80::1%2147483647]:0");
        assert!(text.contains("--source fe80::1%2147483647: ") && text.contains("index of an interface"), "{text}");
        let divided = divide_addresses(&["[fe80::1%7]:0".parse().unwrap()], 2, (1000, 1999));
        assert!(divided.iter().all(|one| one.to_string().starts_with("fe80::1%7, ports ")), "{}", divided[0]);
        let sent: Sources = serde_json::from_str(&serde_json::to_string(&divided[0]).unwrap()).unwrap();
        assert_eq!(sent, divided[0]);
    }

    #[test]
    fn many_addresses_are_divided_and_few_are_shared_with_distinct_ports() {
        let addresses: Vec<SocketAddr> = (1..=4).map(|last| SocketAddr::from(([10, 0, 0, last], 0))).collect();
        let divided = divide_addresses(&addresses, 2, (1000, 1999));
        assert_eq!(divided[0].addresses, [addresses[0], addresses[2]]);
        let shared = divide_addresses(&addresses[..1], 2, (1000, 1999));
        let range = |sources: &Sources| match sources.ports {
            Ports::Range { low, high } | Ports::Explicit { low, high } => (low, high),
            Ports::Kernel => (0, 0),
        };
        assert_eq!((range(&shared[0]), range(&shared[1])), ((1000, 1499), (1500, 1999)));
    }
}
