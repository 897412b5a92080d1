//! Where connections come from.
//!
//! A source address has some 28,000 ports for each destination, and from half of them on Linux searches: it gives out
//! ports of one parity first and then looks at all of those in vain, which would be measured as the server's. So each
//! worker has addresses of its own, no more than half full, and ports from a range of ours, which Linux searches evenly
//! (`IP_LOCAL_PORT_RANGE`, Linux 6.3; by parity until 6.7, hence the half); where there is no such option, we choose
//! each port ourselves.

use crate::error::{Error, Result};
use crate::job::{Wish, ports};
use crate::plan::{Ports, Sources};
use crate::target::Endpoint;
use landau_sys::socket::{Family, Transport, bind, set_port_range, socket};
use landau_sys::stream::set_bind_address_no_port;
use landau_sys::system::ephemeral_ports;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Up to so many connections to one server the system may choose address and port: less than a tenth of its ports.
const FEW: u32 = 2_000;

/// The ports that IANA has set aside, where the system does not say which it uses.
const DYNAMIC_PORTS: (u16, u16) = (49_152, 65_535);

/// Source addresses and ports for each worker.
pub(crate) fn share_out(
    endpoints: &[Endpoint],
    connections: u32,
    worker_count: u32,
    wish: &Wish,
    notes: &mut Vec<String>,
) -> Result<Vec<Sources>> {
    let (low, high) = ephemeral_ports().unwrap_or(DYNAMIC_PORTS);
    let room = u32::from(high - low) + 1;
    let per_worker = connections.div_ceil(worker_count);
    let is_many = connections > FEW || wish.per_connection.is_some();
    if !wish.sources.is_empty() {
        wish.sources.iter().try_for_each(|&source| check(source, endpoints))?;
        return Ok(of_user(&wish.sources, worker_count, (low, high)));
    }
    let is_loopback = |one: &Endpoint| matches!(one, Endpoint::Inet(address) if is_v4_loopback(address.ip()));
    let by_system = Sources { addresses: Vec::new(), ports: Ports::System };
    if !is_many || !cfg!(target_os = "linux") || !endpoints.iter().all(is_loopback) {
        let of_inet = endpoints.iter().any(|one| matches!(one, Endpoint::Inet(_)));
        if of_inet && connections > room / 2 {
            notes.push(format!(
                "{connections} connections from one address: from {} on the system searches for ports, and at {room} \
                 they run out; name more addresses with --source A-B",
                room / 2
            ));
        }
        return Ok(vec![by_system; worker_count as usize]);
    }
    // A connection for each request leaves ports behind that cannot be used for a while.
    let wanted = if wish.per_connection.is_some() { per_worker.saturating_add(2 * room) } else { per_worker };
    let count = wanted.div_ceil(room / 2).max(1);
    let has_range = has_port_range();
    let own = |worker: u32| {
        let addresses = (0..count).map(|number| loopback(worker, number)).collect::<Option<Vec<IpAddr>>>();
        addresses.map(|addresses| Sources { addresses, ports: ports(low, high, has_range) })
    };
    let all = (0..worker_count).map(own).collect::<Option<Vec<_>>>();
    all.ok_or_else(|| Error::Plan(format!("{worker_count} workers with {count} loopback addresses each are too many")))
}

/// Refuses an address from which no connection could come: of another family than the servers, or of another machine.
fn check(source: IpAddr, endpoints: &[Endpoint]) -> Result<()> {
    let (family, name) = if source.is_ipv4() { (Family::V4, "IPv4") } else { (Family::V6, "IPv6") };
    let is_met = |one: &Endpoint| matches!(one, Endpoint::Inet(server) if server.is_ipv4() == source.is_ipv4());
    if !endpoints.iter().any(is_met) {
        let reason = format!("--source {source}: no server of this load has an address of {name}, so leave it out");
        return Err(Error::Plan(reason));
    }
    let probe = socket(family, Transport::Tcp)?;
    bind(&probe, &SocketAddr::new(source, 0).into()).map_err(|error| match error.kind() {
        ErrorKind::AddrNotAvailable => {
            Error::Plan(format!("--source {source}: this machine has no such address; `ip address` lists those it has"))
        }
        _ => Error::Plan(format!("--source {source}: {error}")),
    })
}

/// The user's addresses: each worker takes its share, or, where they are fewer than the workers, all of them and a
/// share of the ports.
fn of_user(addresses: &[IpAddr], worker_count: u32, (low, high): (u16, u16)) -> Vec<Sources> {
    let has_range = has_port_range();
    let count = worker_count as usize;
    if addresses.len() >= count {
        let own = |worker: usize| addresses.iter().skip(worker).step_by(count).copied().collect();
        return (0..count).map(|one| Sources { addresses: own(one), ports: ports(low, high, has_range) }).collect();
    }
    let slice = (u32::from(high - low) + 1) / worker_count;
    let part = |worker: u32| {
        let first = u32::from(low) + worker * slice;
        ports(first as u16, (first + slice.max(1) - 1) as u16, has_range)
    };
    (0..worker_count).map(|worker| Sources { addresses: addresses.to_vec(), ports: part(worker) }).collect()
}

fn is_v4_loopback(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.is_loopback())
}

/// An address of 127.0.0.0/8 that no other worker has; all of them are this host's on Linux.
fn loopback(worker: u32, number: u32) -> Option<IpAddr> {
    let (high, low) = (u8::try_from(64 + worker / 256).ok()?, (worker % 256) as u8);
    let last = u8::try_from(number + 1).ok().filter(|&last| last < 255)?;
    Some(IpAddr::V4(Ipv4Addr::new(127, high, low, last)))
}

/// Whether this system lets a socket have a range of ports of its own.
fn has_port_range() -> bool {
    let Ok(probe) = socket(Family::V4, Transport::Tcp) else { return false };
    set_port_range(&probe, 40_000, 40_001).is_ok() && set_bind_address_no_port(&probe).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_workers_share_an_address() {
        let all: Vec<IpAddr> = (0..1000).flat_map(|worker| (0..3).filter_map(move |n| loopback(worker, n))).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 3000);
        assert!(loopback(256 * 200, 0).is_none() && loopback(0, 254).is_none());
    }

    #[test]
    fn few_addresses_are_shared_with_ports_apart_and_many_are_dealt_out() {
        let addresses: Vec<IpAddr> = (1..=4).map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))).collect();
        let dealt = of_user(&addresses, 2, (1000, 1999));
        assert_eq!(dealt[0].addresses, [addresses[0], addresses[2]]);
        let shared = of_user(&addresses[..1], 2, (1000, 1999));
        let range = |sources: &Sources| match sources.ports {
            Ports::Range { low, high } | Ports::Explicit { low, high } => (low, high),
            Ports::System => (0, 0),
        };
        assert_eq!((range(&shared[0]), range(&shared[1])), ((1000, 1499), (1500, 1999)));
    }
}
