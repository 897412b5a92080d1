//! Ephemeral ports: the range, the reserved ports in it, and those in use.

use super::queues::tcp_counters;
use crate::context::Context;
use crate::demand::{Demand, Ports};
use crate::root::Root;
use crate::row::{Effect, OF_A_NETWORK, Remedy, Row};
use crate::subject::Subject;
use crate::text::grouped;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The state of a socket in `TIME_WAIT` in `/proc/net/tcp`.
const TIME_WAIT: &str = "06";

pub(super) fn rows(context: &Context) -> Vec<Row> {
    [range(context), reuse(context), time_wait(context)].into_iter().flatten().collect()
}

/// The ports of TCP sockets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PortsInUse {
    /// Local ports, without duplicates.
    pub(crate) ports: BTreeSet<u16>,
    /// Sockets in `TIME_WAIT`.
    pub(crate) time_wait: u64,
}

impl PortsInUse {
    /// Reads the ports of all TCP sockets of the subject's network namespace. Sockets that are only bound appear in no
    /// table.
    pub(crate) fn read(root: &Root, subject: &Subject) -> Self {
        let mut found = Self::default();
        for file in ["net/tcp", "net/tcp6"] {
            let text = root.text(&subject.file(file)).unwrap_or_default();
            for line in text.lines().skip(1) {
                let mut words = line.split_ascii_whitespace();
                let port = words.nth(1).and_then(|address| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok());
                found.ports.extend(port);
                found.time_wait += u64::from(words.nth(1) == Some(TIME_WAIT));
            }
        }
        found
    }
}

/// Returns the ports of a list such as `8080,9000-9010` that are in the range.
fn reserved(list: &str, range: &RangeInclusive<u16>) -> BTreeSet<u16> {
    let ends = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?)
    };
    list.split(',').filter_map(ends).flatten().filter(|port| range.contains(port)).collect()
}

/// Returns the range of ephemeral ports.
fn ephemeral(context: &Context) -> Option<RangeInclusive<u16>> {
    let ends = context.root.sysctl_numbers("net.ipv4.ip_local_port_range");
    Some(u16::try_from(*ends.first()?).ok()?..=u16::try_from(*ends.get(1)?).ok()?)
}

/// The number of ports in a range, by their state.
struct Usable {
    /// Reserved ports, which the kernel does not assign.
    reserved: u64,
    /// All others.
    capacity: u64,
    /// The non-reserved ports in use.
    taken: u64,
}

impl Usable {
    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.taken)
    }
}

fn usable(context: &Context, range: &RangeInclusive<u16>) -> Usable {
    let list = context.root.sysctl("net.ipv4.ip_local_reserved_ports").unwrap_or_default();
    let reserved = reserved(&list, range);
    let is_taken = |port: &&u16| range.contains(port) && !reserved.contains(port);
    let taken = context.ports.ports.iter().filter(is_taken).count() as u64;
    Usable { reserved: reserved.len() as u64, capacity: range.len() as u64 - reserved.len() as u64, taken }
}

fn range(context: &Context) -> Option<Row> {
    let range = ephemeral(context)?;
    let usable = usable(context, &range);
    let (free, capacity) = (usable.free(), usable.capacity);
    let mut bounds = context.bounds(Effect::Stops, "", |needs| Some(free).filter(|_| needs.ports == Ports::Wildcard));
    bounds.extend(context.bounds(Effect::Bends, " to one destination", |needs| {
        Some(capacity).filter(|_| needs.ports == Ports::PerDestination)
    }));
    let listed = match usable.reserved {
        0 => String::new(),
        reserved => format!(", {} reserved", grouped(reserved)),
    };
    Some(Row {
        limit: "net.ipv4.ip_local_port_range".to_owned(),
        value: format!("{}-{}{listed}", range.start(), range.end()),
        in_use: Some(usable.taken),
        is_bytes: false,
        owner: OF_A_NETWORK.to_owned(),
        bounds,
        evidence: format!(
            "bind() fails with EADDRINUSE, connect() to one destination with EADDRNOTAVAIL; beyond half of the range \
             each bind() searches all of it (O(n)); {} sockets in TIME_WAIT hold ports too",
            grouped(context.ports.time_wait)
        ),
        counters: Vec::new(),
        remedy: widen(context, &range),
    })
}

/// The maximum number of sockets in `TIME_WAIT` (tcp(7)).
fn time_wait(context: &Context) -> Option<Row> {
    let limit = context.root.sysctl_number("net.ipv4.tcp_max_tw_buckets")?;
    Some(Row {
        limit: "net.ipv4.tcp_max_tw_buckets".to_owned(),
        value: grouped(limit),
        in_use: Some(context.ports.time_wait),
        is_bytes: false,
        owner: OF_A_NETWORK.to_owned(),
        bounds: Vec::new(),
        evidence: "the kernel ends connections beyond it without TIME_WAIT (TCPTimeWaitOverflow)".to_owned(),
        counters: tcp_counters(context, &["TCPTimeWaitOverflow"]),
        remedy: Remedy::sysctl(
            "net.ipv4.tcp_max_tw_buckets",
            &limit.saturating_mul(2).to_string(),
            "each takes some 250 bytes of the kernel's memory",
        ),
    })
}

/// `TCP_TIMEWAIT_LEN`, a constant of the kernel, in milliseconds.
const TIME_WAIT_MS: u64 = 60_000;

/// The time after which a port in `TIME_WAIT` can be reused, and the resulting rate (`tcp_twsk_unique()`). The delay is
/// a sysctl since Linux 6.14; before, it was one second.
fn reuse(context: &Context) -> Option<Row> {
    let root = context.root;
    let reuse = root.sysctl_number("net.ipv4.tcp_tw_reuse")?;
    let has_timestamps = root.sysctl_number("net.ipv4.tcp_timestamps") != Some(0);
    let ports = usable(context, &ephemeral(context)?).capacity;
    let rate = |ms: u64| {
        let (rate, seconds) = (ports * 1_000 / ms.max(1), ms as f64 / 1e3);
        format!("{} connections a second to one destination ({} ports / {seconds} s)", grouped(rate), grouped(ports))
    };
    let keeps = format!("the side that closes first keeps its port in TIME_WAIT for {} s", TIME_WAIT_MS / 1_000);
    let limited = format!("{keeps}, so a client that closes first opens at most {}", rate(TIME_WAIT_MS));
    let (evidence, remedy) = match reuse {
        _ if !has_timestamps => {
            let why = "without TCP timestamps no port is reused earlier, regardless of this value";
            let risk = "12 bytes of each segment";
            (format!("{limited}; {why}"), Remedy::sysctl("net.ipv4.tcp_timestamps", "1", risk))
        }
        1 => {
            let delay = root.sysctl_number("net.ipv4.tcp_tw_reuse_delay").unwrap_or(1_000);
            let again = "if the peer also uses TCP timestamps, connect() may reuse it earlier";
            (format!("{keeps}; {again}, so a client opens at most {}", rate(delay)), Remedy::default())
        }
        _ => {
            let on_loopback =
                if reuse == 2 { "; over the loopback interface connect() may reuse it earlier" } else { "" };
            let risk = "it has an effect only for connect(), and only if both ends use TCP timestamps, which then \
                        identify old segments";
            (format!("{limited}{on_loopback}"), Remedy::sysctl("net.ipv4.tcp_tw_reuse", "1", risk))
        }
    };
    Some(Row {
        limit: "net.ipv4.tcp_tw_reuse".to_owned(),
        value: reuse.to_string(),
        in_use: None,
        is_bytes: false,
        owner: OF_A_NETWORK.to_owned(),
        bounds: Vec::new(),
        evidence,
        counters: Vec::new(),
        remedy,
    })
}

/// The remedy for a range that is too small: all ports from 1024 on, in addition to those that the range has below.
fn widen(context: &Context, range: &RangeInclusive<u16>) -> Remedy {
    let widest = *range.start().min(&1024)..=u16::MAX;
    let used = usable(context, &widest);
    let asks = |demand: &Demand| demand.size.filter(|_| demand.kind.needs.ports == Ports::Wildcard);
    let is_short = context.demands.iter().filter_map(asks).any(|size| size > used.free());
    if is_short || *range == widest {
        let [all, free] = [widest.len() as u64, used.free()].map(grouped);
        return Remedy::none(&format!("of the {all} ports from {} to 65535, {free} are free", widest.start()));
    }
    Remedy::sysctl(
        "net.ipv4.ip_local_port_range",
        &format!("{} {}", widest.start(), widest.end()),
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
