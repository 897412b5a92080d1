//! Accept queues, packet queues, and the connection tracking table.

use crate::context::Context;
use crate::process::Listener;
use crate::row::{Counter, Effect, OF_A_NETWORK, Remedy, Row};
use crate::text::grouped;
use std::collections::BTreeMap;

/// The backlog that nginx passes to `listen()` on Linux; `landau serve` passes 4,096. The kernel limits both to
/// `somaxconn`.
const USUAL_BACKLOG: u64 = 511;

pub(super) fn rows(context: &Context) -> Vec<Row> {
    [accept_queue(context), syn_queue(context), packets(context), tracked(context)].into_iter().flatten().collect()
}

/// Returns counters of `TcpExt` in `/proc/net/netstat`, including those that are 0.
pub(super) fn tcp_counters(context: &Context, names: &[&str]) -> Vec<Counter> {
    let text = context.root.text(&context.net("netstat")).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:")).map(str::split_ascii_whitespace);
    let (Some(known), Some(values)) = (lines.next(), lines.next()) else { return Vec::new() };
    let values: Vec<(&str, &str)> = known.zip(values).collect();
    let of = |name: &&str| {
        let value = values.iter().find(|(known, _)| known == name)?.1.parse().ok()?;
        Some(Counter { name: (*name).to_owned(), value })
    };
    names.iter().filter_map(of).collect()
}

pub(super) fn memory_pressures(context: &Context) -> Vec<Counter> {
    tcp_counters(context, &["TCPMemoryPressures"])
}

fn accept_queue(context: &Context) -> Option<Row> {
    let limit = context.root.sysctl_number("net.core.somaxconn")?;
    Some(Row {
        limit: "net.core.somaxconn".to_owned(),
        value: grouped(limit),
        in_use: None,
        is_bytes: false,
        owner: OF_A_NETWORK.to_owned(),
        bounds: context.bounds(Effect::Bends, " waiting for accept()", |needs| {
            // The kernel refuses a connection when more than the backlog wait (sk_acceptq_is_full), so one more fits.
            (needs.opens == "accept").then_some(limit + 1)
        }),
        evidence: format!(
            "a handshake beyond it is dropped, and the client repeats it after a second and later; the program's own \
             backlog counts too if it is smaller (listen(): {USUAL_BACKLOG} of nginx, 4,096 of landau serve)"
        ),
        counters: tcp_counters(context, &["ListenOverflows", "ListenDrops", "TCPReqQFullDrop", "TCPReqQFullDoCookies"]),
        remedy: Remedy::sysctl(
            "net.core.somaxconn",
            &limit.saturating_mul(2).to_string(),
            "restart the program, and raise its own backlog; a longer queue waits longer",
        ),
    })
}

/// The accept queues of a running program: one row for each port and backlog.
pub(crate) fn of_listeners(context: &Context, listeners: &[Listener]) -> Vec<Row> {
    let mut alike: BTreeMap<(u16, u64), Vec<&Listener>> = BTreeMap::new();
    for listener in listeners {
        if let Some(backlog) = listener.backlog {
            alike.entry((listener.port, backlog)).or_default().push(listener);
        }
    }
    alike.into_iter().map(|((port, backlog), sockets)| of_port(context, port, backlog, &sockets)).collect()
}

fn of_port(context: &Context, port: u16, backlog: u64, sockets: &[&Listener]) -> Row {
    let drops: Option<u64> = sockets.iter().map(|socket| socket.drops).sum();
    let (each, scope) = match sockets.len() {
        1 => (String::new(), " waiting for accept()"),
        count => (format!(" for each of {count} sockets"), " waiting for accept() on a socket"),
    };
    Row {
        limit: format!("backlog of port {port}"),
        value: format!("{}{each}", grouped(backlog)),
        in_use: sockets.iter().map(|socket| socket.waiting).max(),
        is_bytes: false,
        owner: context.subject.owner(),
        bounds: context.bounds(Effect::Bends, scope, |needs| (needs.opens == "accept").then_some(backlog + 1)),
        evidence:
            "a handshake beyond it is dropped, and the client repeats it after a second and later; the value is the \
             program's argument to listen(), at most net.core.somaxconn"
                .to_owned(),
        counters: drops.map(|value| Counter { name: "packets it dropped".to_owned(), value }).into_iter().collect(),
        remedy: Remedy {
            now: None,
            for_good: Some(
                "a larger backlog in the program's configuration (backlog= of nginx's listen, ListenBacklog of \
                 Apache), and net.core.somaxconn if that is smaller; then restart it"
                    .to_owned(),
            ),
            risk: Some("a longer queue waits longer".to_owned()),
        },
    }
}

/// The SYN queue. The backlog of the listening socket bounds it (`inet_csk_reqsk_queue_is_full()`): beyond it, SYNs are
/// answered with cookies, or dropped. Without cookies, `tcp_max_syn_backlog` bounds it too; `tcp_conn_request()` leaves
/// a quarter of that free.
fn syn_queue(context: &Context) -> Option<Row> {
    let limit = context.root.sysctl_number("net.ipv4.tcp_max_syn_backlog")?;
    let cookies = context.root.sysctl_number("net.ipv4.tcp_syncookies").unwrap_or(0);
    let most = (cookies == 0).then_some(limit - limit / 4 + 1);
    Some(Row {
        limit: "net.ipv4.tcp_max_syn_backlog".to_owned(),
        value: format!("{}, tcp_syncookies {cookies}", grouped(limit)),
        in_use: None,
        is_bytes: false,
        owner: OF_A_NETWORK.to_owned(),
        bounds: context.bounds(Effect::Bends, " in handshake", |needs| most.filter(|_| needs.opens == "accept")),
        evidence: if cookies == 0 {
            "a quarter of it stays free for known peers; further SYNs are dropped (ListenDrops)"
        } else {
            "it limits nothing while tcp_syncookies is set: beyond the backlog of the listening socket the kernel \
             answers SYNs with cookies, which lose TCP options but refuse no connection"
        }
        .to_owned(),
        counters: Vec::new(),
        remedy: Remedy::sysctl("net.ipv4.tcp_max_syn_backlog", &limit.saturating_mul(2).to_string(), "none known"),
    })
}

/// The packets that a processor dropped because its queue was full: the second column of `softnet_stat`, in
/// hexadecimal.
fn packets(context: &Context) -> Option<Row> {
    let limit = context.root.sysctl_number("net.core.netdev_max_backlog")?;
    let text = context.root.text(&context.net("softnet_stat"))?;
    let column = |index: usize| {
        let of = |line: &str| u64::from_str_radix(line.split_ascii_whitespace().nth(index)?, 16).ok();
        text.lines().filter_map(of).sum::<u64>()
    };
    Some(Row {
        limit: "net.core.netdev_max_backlog".to_owned(),
        value: format!("{} packets a processor", grouped(limit)),
        in_use: None,
        is_bytes: false,
        owner: "the host".to_owned(),
        bounds: Vec::new(),
        evidence: "packets beyond it are dropped before TCP sees them".to_owned(),
        counters: vec![
            Counter { name: "softnet_stat dropped".to_owned(), value: column(1) },
            Counter { name: "softnet_stat time_squeeze".to_owned(), value: column(2) },
        ],
        remedy: Remedy::sysctl(
            "net.core.netdev_max_backlog",
            &limit.saturating_mul(2).to_string(),
            "raise it only if softnet_stat counts drops; a longer queue waits longer",
        ),
    })
}

/// Connection tracking: the table stays empty until a packet filter rule needs it.
fn tracked(context: &Context) -> Option<Row> {
    let root = context.root;
    let limit = root.sysctl_number("net.netfilter.nf_conntrack_max")?;
    let count = root.sysctl_number("net.netfilter.nf_conntrack_count").unwrap_or(0);
    let is_used = count > 0 && limit > 0;
    let needed = |needs: &crate::demand::Needs| Some(needs.connections.min(1)).filter(|&each| each > 0);
    let target = context.raised(limit, |needs, size| Some(size.saturating_mul(needed(needs)?).saturating_add(count)));
    Some(Row {
        limit: "net.netfilter.nf_conntrack_max".to_owned(),
        value: if limit == 0 { "0: no limit".to_owned() } else { grouped(limit) },
        in_use: Some(count),
        is_bytes: false,
        owner: "the host".to_owned(),
        bounds: context
            .bounds(Effect::Stops, "", |needs| Some(limit.saturating_sub(count) / needed(needs)?).filter(|_| is_used)),
        evidence: if is_used {
            "the kernel logs \"nf_conntrack: table full, dropping packet\"".to_owned()
        } else if limit == 0 {
            "0 means no limit".to_owned()
        } else {
            "no connection is tracked now: no rule of the packet filter requires it".to_owned()
        },
        counters: Vec::new(),
        remedy: match limit {
            0 => Remedy::default(),
            _ => Remedy::sysctl(
                "net.netfilter.nf_conntrack_max",
                &target.to_string(),
                "each entry takes some 300 bytes; raise nf_conntrack_buckets too, or exempt the port (NOTRACK)",
            ),
        },
    })
}
