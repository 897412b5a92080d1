//! Processes and threads: identifiers, the limits of the system and of the user, and control groups.

use crate::census::{RESERVED_PIDS, existing};
use crate::cgroups::{Group, groups};
use crate::context::Context;
use crate::demand::Needs;
use crate::limit::for_good;
use crate::row::{Counter, Effect, Remedy, Row};
use crate::text::{grouped, limited};
use landau_sys::limits::{PID_MAX_LIMIT, THREADS_MAX};

pub(super) fn rows(context: &Context) -> Vec<Row> {
    let mut rows: Vec<Row> =
        [identifiers(context), of_system(context), of_user(context)].into_iter().flatten().collect();
    let groups = groups(context.root, &context.subject.name, "pids");
    rows.extend(groups.iter().filter_map(|group| of_group(context, group)));
    rows
}

/// Returns the number of objects that fit if there is room for this many further tasks.
fn fitting(room: u64, needs: &Needs) -> Option<u64> {
    let (each, own) = needs.tasks?;
    Some(room.saturating_sub(own) / each)
}

/// Returns the limit that a size needs in addition to this many other tasks.
fn needed(needs: &Needs, size: u64, others: u64) -> Option<u64> {
    let (each, own) = needs.tasks?;
    Some(size.saturating_mul(each).saturating_add(own).saturating_add(others))
}

/// Returns the counter of zombies: each counts as a process until its parent waits for it.
fn zombies(value: u64) -> Vec<Counter> {
    vec![Counter { name: "zombies".to_owned(), value }]
}

fn refusal(context: &Context) -> String {
    let calls = context.calls(|needs| if needs.tasks.is_some() { needs.creates } else { "" });
    let calls = if calls.is_empty() { "fork()".to_owned() } else { calls };
    format!("{calls} {} with EAGAIN", Context::fail(&calls))
}

/// `kernel.pid_max`: identifiers from 300 on are reused, those below are used only in the first round.
fn identifiers(context: &Context) -> Option<Row> {
    if context.subject.shares_namespace(context.root, "pid") == Some(false) {
        // The setting belongs to the namespace of the reading process.
        return None;
    }
    let limit = context.root.sysctl_number("kernel.pid_max")?;
    let census = &context.census;
    let loads = context.root.text("proc/loadavg").unwrap_or_default();
    let last: u64 = loads.split(' ').nth(4).and_then(|word| word.parse().ok()).unwrap_or(u64::MAX);
    let first_round = RESERVED_PIDS.saturating_sub(last.saturating_add(1));
    let room = (limit.saturating_sub(RESERVED_PIDS) + first_round).saturating_sub(census.identifiers_above_reserved);
    let others = RESERVED_PIDS + census.identifiers_above_reserved;
    let target = context.raised(limit, |needs, size| needed(needs, size, others));
    let owner = match context.is_in_first("pid") {
        Some(false) => {
            "this pid namespace (before Linux 6.14 the host); outer namespaces have their own limit, which is not \
             visible here"
        }
        _ => "the host",
    };
    Some(Row {
        limit: "kernel.pid_max".to_owned(),
        value: grouped(limit),
        in_use: Some(census.identifiers),
        is_bytes: false,
        owner: owner.to_owned(),
        bounds: context.bounds(Effect::Stops, "", |needs| fitting(room, needs)),
        evidence: refusal(context),
        counters: zombies(context.census.zombies),
        remedy: Remedy::sysctl_below(
            "kernel.pid_max",
            limit,
            target,
            PID_MAX_LIMIT,
            "old programs that store identifiers in 16 bits break above 32,768",
        ),
    })
}

fn of_system(context: &Context) -> Option<Row> {
    let limit = context.root.sysctl_number("kernel.threads-max")?;
    let exist = existing(context.root)?;
    let target = context.raised(limit, |needs, size| needed(needs, size, exist));
    Some(Row {
        limit: "kernel.threads-max".to_owned(),
        value: grouped(limit),
        in_use: Some(exist),
        is_bytes: false,
        owner: "the host".to_owned(),
        bounds: context.bounds(Effect::Stops, "", |needs| fitting(limit.saturating_sub(exist), needs)),
        evidence: refusal(context),
        counters: zombies(context.census.zombies),
        remedy: Remedy::sysctl_below(
            "kernel.threads-max",
            limit,
            target,
            THREADS_MAX,
            "each thread takes at least 16 KiB of memory",
        ),
    })
}

fn of_user(context: &Context) -> Option<Row> {
    let subject = &context.subject;
    let (soft, hard) = subject.limit("Max processes")?;
    let exist = subject.user.and_then(|user| context.census.by_user.get(&user)).copied().unwrap_or(0);
    let its_zombies = subject.user.and_then(|user| context.census.zombies_by_user.get(&user)).copied().unwrap_or(0);
    let is_bound = subject.is_bound_by_user_tasks();
    if soft == u64::MAX {
        return None;
    }
    // Few programs raise this soft limit; a worker of Landau does.
    let limit = |needs: &Needs| if needs.raises_tasks && !subject.is_other { hard } else { soft };
    let is_bounded = |needs: &Needs| is_bound && limit(needs) != u64::MAX;
    let fits = |needs: &Needs| fitting(limit(needs).saturating_sub(exist), needs).filter(|_| is_bounded(needs));
    let target = context.raised(soft, |needs, size| needed(needs, size, exist));
    let user = subject.user.map_or("unknown".to_owned(), |user| user.to_string());
    Some(Row {
        limit: "RLIMIT_NPROC".to_owned(),
        value: format!("{}, soft limit {}", limited(hard, "none", grouped), grouped(soft)),
        in_use: Some(exist),
        is_bytes: false,
        owner: format!("user {user}, all processes"),
        bounds: context.bounds(Effect::Stops, "", fits),
        evidence: if is_bound {
            refusal(context)
        } else {
            "not enforced for root and CAP_SYS_RESOURCE of the host".to_owned()
        },
        counters: zombies(its_zombies),
        remedy: Remedy {
            // The ulimit builtin of dash has no -u.
            now: Some(format!(
                "prlimit --nproc={target}:{} --pid {}",
                limited(target.max(hard), "unlimited", |most| most.to_string()),
                subject.shell_pid()
            )),
            for_good: Some(for_good(context, "nproc", "*", target, hard)),
            risk: Some("a fork bomb can then use up the host's process identifiers".to_owned()),
        },
    })
}

fn of_group(context: &Context, group: &Group) -> Option<Row> {
    let root = context.root;
    let (limit, exist) = (root.number(&group.file("pids.max"))?, root.number(&group.file("pids.current"))?);
    let target = context.raised(limit, |needs, size| needed(needs, size, exist));
    Some(Row {
        limit: format!("pids.max of {}", group.name),
        value: grouped(limit),
        in_use: Some(exist),
        is_bytes: false,
        owner: format!("control group {}", group.name),
        bounds: context.bounds(Effect::Stops, "", |needs| fitting(limit.saturating_sub(exist), needs)),
        evidence: refusal(context),
        counters: group.local_event(root, "pids", "max").into_iter().collect(),
        remedy: Remedy {
            now: Some(group.command("pids.max", target)),
            for_good: Some(format!(
                "TasksMax={target} by `{}`; container: --pids-limit {target}",
                group.edit_command()
            )),
            risk: Some("a fork bomb is stopped later".to_owned()),
        },
    })
}
