//! Ephemeral ports: the range, what is reserved of it, and what is in use.

use super::queues::tcp_counters;
use crate::context::Context;
use crate::demand::{Demand, Ports};
use crate::row::{Effect, OF_A_NETWORK, Remedy, Row};
use crate::text::grouped;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The state of a socket in `TIME_WAIT` in `/proc/net/tcp`.
const TIME_WAIT: &str = "06";

pub(super) fn rows(context: &Context) -> Vec<Row> {
    range(context).into_iter().chain(time_wait(context)).collect()
}

/// The ports that TCP sockets have.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PortsInUse {
    /// Local ports, each once.
    pub(crate) ports: BTreeSet<u16>,
    /// Sockets in `TIME_WAIT`.
    pub(crate) time_wait: u64,
}

/// Reads the ports of all TCP sockets of a network namespace. Sockets that are only bound are in no table.
pub(crate) fn ports_in_use(context: &Context) -> PortsInUse {
    let mut found = PortsInUse::default();
    for file in ["tcp", "tcp6"] {
        let text = context.root.text(&context.net(file)).unwrap_or_default();
        for line in text.lines().skip(1) {
            let mut words = line.split_ascii_whitespace();
            let port = words.nth(1).and_then(|address| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok());
            found.ports.extend(port);
            found.time_wait += u64::from(words.nth(1) == Some(TIME_WAIT));
        }
    }
    found
}

/// Returns the ports of a list such as `8080,9000-9010` that are in the range.
fn reserved(list: &str, range: &RangeInclusive<u16>) -> BTreeSet<u16> {
    let ends = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?)
    };
    list.split(',').filter_map(ends).flatten().filter(|port| range.contains(port)).collect()
}

fn range(context: &Context) -> Option<Row> {
    let root = context.root;
    let ends = root.sysctl_numbers("net.ipv4.ip_local_port_range");
    let range = u16::try_from(*ends.first()?).ok()?..=u16::try_from(*ends.get(1)?).ok()?;
    let reserved = reserved(&root.sysctl("net.ipv4.ip_local_reserved_ports").unwrap_or_default(), &range);
    let used = ports_in_use(context);
    let capacity = range.len() as u64 - reserved.len() as u64;
    let taken = used.ports.iter().filter(|port| range.contains(port) && !reserved.contains(port)).count() as u64;
    let free = capacity.saturating_sub(taken);
    let mut bounds = context.bounds(Effect::Stops, "", |needs| Some(free).filter(|_| needs.ports == Ports::Wildcard));
    bounds.extend(context.bounds(Effect::Bends, " to one destination", |needs| {
        Some(capacity).filter(|_| needs.ports == Ports::PerDestination)
    }));
    let listed =
        if reserved.is_empty() { String::new() } else { format!(", {} reserved", grouped(reserved.len() as u64)) };
    Some(Row {
        limit: "net.ipv4.ip_local_port_range".to_owned(),
        value: format!("{}-{}{listed}", range.start(), range.end()),
        in_use: Some(taken),
        is_bytes: false,
        owner: OF_A_NETWORK.to_owned(),
        bounds,
        evidence: format!(
            "bind() fails with EADDRINUSE, connect() to one destination with EADDRNOTAVAIL; beyond half of the range \
             each bind() searches all of it (O(n)); {} sockets in TIME_WAIT hold ports too",
            grouped(used.time_wait)
        ),
        counters: Vec::new(),
        remedy: widen(context),
    })
}

/// Sockets in `TIME_WAIT`: how many the kernel keeps, and how they bound a rate (`tcp(7)`, `inet_twsk_alloc()`).
fn time_wait(context: &Context) -> Option<Row> {
    let limit = context.root.sysctl_number("net.ipv4.tcp_max_tw_buckets")?;
    let reuse = context.root.sysctl_number("net.ipv4.tcp_tw_reuse").unwrap_or(0);
    let again = match reuse {
        0 => "no port is used again before",
        1 => "a port may be used again after a second (tcp_tw_reuse 1)",
        _ => "only over the loopback interface a port may be used again after a second (tcp_tw_reuse 2)",
    };
    let ends = context.root.sysctl_numbers("net.ipv4.ip_local_port_range");
    let ports = ends.get(1)?.saturating_sub(*ends.first()?) + 1;
    Some(Row {
        limit: "net.ipv4.tcp_max_tw_buckets".to_owned(),
        value: format!("{}, tcp_tw_reuse {reuse}", grouped(limit)),
        in_use: Some(ports_in_use(context).time_wait),
        is_bytes: false,
        owner: OF_A_NETWORK.to_owned(),
        bounds: Vec::new(),
        evidence: format!(
            "the side that closes first keeps its port in TIME_WAIT for {TIME_WAIT_S} s, so it opens at most {} \
             connections a second to one destination ({} ports / {TIME_WAIT_S} s); {again}. Beyond tcp_max_tw_buckets \
             the kernel ends connections without TIME_WAIT (TCPTimeWaitOverflow)",
            grouped(ports / TIME_WAIT_S),
            grouped(ports)
        ),
        counters: tcp_counters(context, &["TCPTimeWaitOverflow"]),
        remedy: Remedy::sysctl(
            "net.ipv4.tcp_tw_reuse",
            "1",
            "only where both ends have TCP timestamps; a client reuses its port, and servers are not affected",
        ),
    })
}

/// `TCP_TIMEWAIT_LEN`: a constant of the kernel, in seconds.
const TIME_WAIT_S: u64 = 60;

/// The ports from 1024 on.
const MOST_PORTS: u64 = 64_512;

fn widen(context: &Context) -> Remedy {
    let asks = |demand: &Demand| demand.size.filter(|_| demand.kind.needs.ports == Ports::Wildcard);
    if context.demands.iter().filter_map(asks).any(|size| size > MOST_PORTS) {
        return Remedy::none(&format!("from 1024 to 65535 there are {} ports", grouped(MOST_PORTS)));
    }
    Remedy::sysctl(
        "net.ipv4.ip_local_port_range",
        "1024 65535",
        "a service that starts later may find its port taken; list it in net.ipv4.ip_local_reserved_ports",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_count_once_and_only_within_the_range() {
        let range = 40_000..=40_099;
        assert_eq!(reserved("40000-40009,40005,80,40099-50000,x", &range).len(), 11);
        assert!(reserved("", &range).is_empty());
    }
}
