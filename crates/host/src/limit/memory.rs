//! The memory of the host, of control groups, and of TCP.

use super::queues::memory_pressures;
use crate::cgroups::{Group, groups};
use crate::context::Context;
use crate::demand::Needs;
use crate::root::{counter, field};
use crate::row::{Counter, Effect, Remedy, Row};
use crate::text::{bytes, grouped};

/// A value from this many bytes on means "no limit": version 1 shows the largest number of pages.
const NO_LIMIT: u64 = 1 << 60;

pub(super) fn rows(context: &Context) -> Vec<Row> {
    let mut rows: Vec<Row> = of_host(context).into_iter().collect();
    let groups = groups(context.root, &context.subject.name, "memory");
    rows.extend(groups.iter().filter_map(|group| of_group(context, group)));
    rows.extend(groups.iter().filter_map(|group| throttle_of_group(context, group)));
    rows.extend(of_tcp(context));
    rows
}

/// Returns the memory per object; for a connection, the value measured on this host.
fn each(context: &Context, needs: &Needs) -> Option<u64> {
    let measured = context.connection_bytes.map(|bytes| bytes * needs.connections).filter(|&bytes| bytes > 0);
    measured.or(Some(needs.memory_bytes)).filter(|&bytes| bytes > 0)
}

/// Returns the figure that predicts the memory of objects.
fn law(context: &Context) -> String {
    let has_connections = context.demands.iter().any(|demand| demand.kind.needs.connections > 0);
    match context.connection_bytes {
        Some(bytes) if has_connections => {
            format!("{} bytes of the kernel for one end of a connection, measured here", grouped(bytes))
        }
        _ => "kernel memory of an object as the benchmarks measured it".to_owned(),
    }
}

fn of_host(context: &Context) -> Option<Row> {
    let text = context.root.text("proc/meminfo")?;
    let (total, available) = (field(&text, "MemTotal")?, field(&text, "MemAvailable")?);
    Some(Row {
        limit: "memory".to_owned(),
        value: format!("{} available of {}", bytes(available), bytes(total)),
        in_use: Some(total.saturating_sub(available)),
        is_bytes: true,
        owner: "the host".to_owned(),
        bounds: context.bounds(Effect::Stops, "", |needs| Some(available / each(context, needs)?)),
        evidence: format!("{}; beyond it the OOM killer kills a process", law(context)),
        counters: out_of_memory(context),
        remedy: Remedy { for_good: Some("more memory".to_owned()), ..Remedy::default() },
    })
}

fn out_of_memory(context: &Context) -> Vec<Counter> {
    let text = context.root.text("proc/vmstat").unwrap_or_default();
    counter(&text, "oom_kill").map(|value| Counter { name: "oom_kill".to_owned(), value }).into_iter().collect()
}

/// The memory files of a cgroup version.
struct Files {
    limit: &'static str,
    used: &'static str,
    /// Lines of `memory.stat` for file pages, which are reclaimed when memory is needed.
    cached: [&'static str; 2],
}

const UNIFIED: Files = Files { limit: "memory.max", used: "memory.current", cached: ["inactive_file", "active_file"] };
const LEGACY: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: ["total_inactive_file", "total_active_file"],
};

fn files_of(group: &Group) -> &'static Files {
    if group.is_unified { &UNIFIED } else { &LEGACY }
}

/// Returns the memory that a group has in use, without the reclaimable part.
fn used_by(context: &Context, group: &Group) -> Option<u64> {
    let files = files_of(group);
    let used = context.root.number(&group.file(files.used))?;
    let stat = context.root.text(&group.file("memory.stat")).unwrap_or_default();
    Some(used.saturating_sub(files.cached.iter().filter_map(|name| counter(&stat, name)).sum()))
}

/// `memory.high` of version 2, as set by `MemoryHigh=` of systemd and by Kubernetes.
fn throttle_of_group(context: &Context, group: &Group) -> Option<Row> {
    const FILE: &str = "memory.high";
    let limit = context.root.number(&group.file(FILE)).filter(|_| group.is_unified)?;
    let beyond = "the kernel reclaims the group's memory and throttles its tasks that allocate more";
    let (mut row, target) = of_file(context, group, (FILE, limit), Effect::Bends, beyond)?;
    row.counters.extend(group.local_event(context.root, "memory", "high"));
    row.remedy.for_good = Some(format!("MemoryHigh={target} by `{}`", group.edit_command()));
    Some(row)
}

fn of_group(context: &Context, group: &Group) -> Option<Row> {
    let file = files_of(group).limit;
    let limit = context.root.number(&group.file(file)).filter(|&limit| limit < NO_LIMIT)?;
    let beyond = "the OOM killer kills a process of the group";
    let (mut row, target) = of_file(context, group, (file, limit), Effect::Stops, beyond)?;
    row.counters = events(context, group);
    let by = group.edit_command();
    row.remedy.for_good = Some(format!("MemoryMax={target} by `{by}`; container: --memory {target}"));
    Some(row)
}

/// Returns the row of a limit in a file of a group, without counters and the persistent remedy, and the limit to set.
fn of_file(
    context: &Context,
    group: &Group,
    (file, limit): (&str, u64),
    effect: Effect,
    beyond: &str,
) -> Option<(Row, u64)> {
    let used = used_by(context, group)?;
    let target =
        context.raised(limit, |needs, size| Some(size.saturating_mul(each(context, needs)?).saturating_add(used)));
    let row = Row {
        limit: format!("{file} of {}", group.name),
        value: bytes(limit),
        in_use: Some(used),
        is_bytes: true,
        owner: format!("control group {}", group.name),
        bounds: context.bounds(effect, "", |needs| Some(limit.saturating_sub(used) / each(context, needs)?)),
        evidence: format!("{}; beyond it {beyond}", law(context)),
        counters: Vec::new(),
        remedy: Remedy {
            now: Some(group.command(file, target)),
            risk: Some("other groups get less".to_owned()),
            ..Remedy::default()
        },
    };
    Some((row, target))
}

/// Returns how often a group hit its limit: `memory.events` of version 2, `memory.failcnt` of version 1.
fn events(context: &Context, group: &Group) -> Vec<Counter> {
    let named = |name: &str, value| Counter { name: name.to_owned(), value };
    if !group.is_unified {
        let failed = context.root.number(&group.file("memory.failcnt"));
        return failed.map(|value| named("memory.failcnt", value)).into_iter().collect();
    }
    // A killed process may belong to a descendant group.
    let text = context.root.text(&group.file("memory.events")).unwrap_or_default();
    let kills = counter(&text, "oom_kill").map(|value| named("memory.events oom_kill", value));
    group.local_event(context.root, "memory", "max").into_iter().chain(kills).collect()
}

/// `net.ipv4.tcp_mem`: pages of the buffers of all connections. An idle connection has none.
fn of_tcp(context: &Context) -> Option<Row> {
    let pages = context.root.sysctl_numbers("net.ipv4.tcp_mem");
    let (pressure, most) = (*pages.get(1)?, *pages.get(2)?);
    let text = context.root.text(&context.net("sockstat")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or_default();
    let mut words = line.split_ascii_whitespace().skip_while(|&word| word != "mem").skip(1);
    let used: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let buffers = |name: &str| context.root.sysctl_numbers(name).get(1).copied().unwrap_or(0);
    let (receive, send) = (buffers("net.ipv4.tcp_rmem"), buffers("net.ipv4.tcp_wmem"));
    let page = context.page_bytes;
    Some(Row {
        limit: "net.ipv4.tcp_mem".to_owned(),
        value: format!("pressure at {}, limit {}", bytes(pressure * page), bytes(most * page)),
        in_use: Some(used * page),
        is_bytes: true,
        owner: "the host".to_owned(),
        bounds: context.bounds(Effect::Bends, " with a page queued each", |needs| {
            pressure.saturating_sub(used).checked_div(needs.connections)
        }),
        evidence: format!(
            "an idle connection queues nothing; with its default buffers full, one takes {} (tcp_rmem) and {} \
             (tcp_wmem), so {} fill tcp_mem",
            bytes(receive),
            bytes(send),
            grouped((pressure * page).checked_div(receive + send).unwrap_or(0))
        ),
        counters: memory_pressures(context),
        remedy: Remedy::sysctl(
            "net.ipv4.tcp_mem",
            &format!("{} {} {}", pages[0] * 2, pressure * 2, most * 2),
            "sockets may then take that much memory from everything else",
        ),
    })
}
