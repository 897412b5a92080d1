//! Descriptors: of a process, of the system, and epoll watches.

use crate::context::{A_PROCESS, Context};
use crate::demand::{Demand, Needs, SPARE_OF_SERVE};
use crate::limit::for_good;
use crate::row::{Effect, Remedy, Row, below};
use crate::systemd::manager_setting;
use crate::text::grouped;
use landau_sys::limits::NR_OPEN_MAX;

/// The value of `fs.nr_open` at boot.
pub const NR_OPEN: u64 = 1 << 20;

/// The value that systemd sets at each boot (`bump_file_max_and_nr_open()`), unless it was built otherwise.
pub const NR_OPEN_OF_SYSTEMD: u64 = 0x3fff_fff8;

pub(super) fn rows(context: &Context) -> Vec<Row> {
    let all = [of_process(context), ceiling(context), of_system(context), of_services(context), watches(context)];
    all.into_iter().flatten().collect()
}

/// Returns the descriptors per object, and those that the program uses in addition. For a running program, the latter
/// are its open descriptors. For a program that is started, they are those that it opens itself or inherits, as this
/// process did.
fn taken(context: &Context, needs: &Needs) -> Option<(u64, u64)> {
    let (each, own) = needs.descriptors?;
    let subject = &context.subject;
    let open = subject.descriptors.filter(|_| subject.is_other || !needs.closes_inherited);
    Some((each, if subject.is_other { open.unwrap_or(own) } else { own.max(open.unwrap_or(0)) }))
}

/// Returns the number of objects that fit into a descriptor table of this size.
fn fitting(context: &Context, limit: u64, needs: &Needs) -> Option<u64> {
    let (each, own) = taken(context, needs)?;
    let free = limit.saturating_sub(own);
    let spare = if needs.keeps_spare { (free / 4).min(SPARE_OF_SERVE) } else { 0 };
    Some((free - spare) / each)
}

/// Returns the limit that a size needs.
fn needed(context: &Context, needs: &Needs, size: u64) -> Option<u64> {
    let (each, own) = taken(context, needs)?;
    // A quarter of the free descriptors is a third of the rest.
    let spare = if needs.keeps_spare { size.div_ceil(3).min(SPARE_OF_SERVE) } else { 0 };
    Some(size.saturating_mul(each).saturating_add(spare).saturating_add(own))
}

/// Returns the descriptor limit of the subject. A running program has already set its limit. A new one raises it first,
/// as Landau's and most servers do.
fn of_subject(context: &Context) -> Option<u64> {
    let (soft, hard) = context.subject.limit("Max open files")?;
    Some(if context.subject.is_other { soft } else { hard })
}

fn of_process(context: &Context) -> Option<Row> {
    let subject = &context.subject;
    let (soft, hard) = subject.limit("Max open files")?;
    let limit = of_subject(context)?;
    let bounds = context.bounds(Effect::Stops, A_PROCESS, |needs| fitting(context, limit, needs));
    let target = context.raised(limit, |needs, size| needed(context, needs, size));
    let calls = context.calls(|needs| if needs.descriptors.is_some() { needs.opens } else { "" });
    let calls = if calls.is_empty() { "open()".to_owned() } else { calls };
    let low = bounds.iter().any(|bound| soft < hard && asked(context, bound.kind) > soft);
    let raises = if low { "; only if the program raises its soft limit" } else { "" };
    Some(Row {
        limit: "RLIMIT_NOFILE".to_owned(),
        value: format!("{}, soft limit {}", grouped(hard), grouped(soft)),
        in_use: subject.descriptors,
        is_bytes: false,
        owner: subject.owner(),
        bounds,
        evidence: format!("{calls} {} with EMFILE{raises}", Context::fail(&calls)),
        counters: Vec::new(),
        remedy: raise_table(context, limit, target, hard),
    })
}

/// Returns the number of server processes, each with the descriptor limit of the subject, that hold the requested
/// connections. `None` if the load is not that of a server.
pub(crate) fn processes(context: &Context, demand: &Demand) -> Option<u64> {
    let needs = &demand.kind.needs;
    // A new process has none of the connections of the running one.
    let (each, own) = needs.descriptors.filter(|_| demand.kind.is_server())?;
    let fits = of_subject(context)?.saturating_sub(own) / each;
    Some(demand.size?.div_ceil((fits > 0).then_some(fits)?))
}

/// Returns the requested size of a kind, or 0.
fn asked(context: &Context, kind: &str) -> u64 {
    context.demands.iter().find(|demand| demand.kind.name == kind).and_then(|demand| demand.size).unwrap_or(0)
}

fn raise_table(context: &Context, limit: u64, target: u64, hard: u64) -> Remedy {
    let subject = &context.subject;
    let Some(target) = below(limit, target, NR_OPEN_MAX) else {
        return Remedy::none(&format!("fs.nr_open is at most {}", grouped(NR_OPEN_MAX)));
    };
    let ceiling = context.root.sysctl_number("fs.nr_open").unwrap_or(NR_OPEN);
    let first = if ceiling < target { format!("sysctl -w fs.nr_open={target}; ") } else { String::new() };
    let now = if subject.is_other {
        format!("{first}prlimit --pid {} --nofile={target}:{}", subject.name, target.max(hard))
    } else if target <= hard {
        format!("ulimit -n {target}")
    } else {
        let may = if subject.may_raise_hard_limits() { "" } else { " # as root with CAP_SYS_RESOURCE" };
        format!("{first}ulimit -n {target}{may}")
    };
    // If limits.d has a higher limit than the kernel accepts at the next boot, nobody can log in.
    let is_above = ceiling < target || (target > NR_OPEN && ceiling != NR_OPEN_OF_SYSTEMD);
    let first = if is_above {
        let kept = ceiling.max(target);
        format!("first \"fs.nr_open = {kept}\" in /etc/sysctl.d/90-landau.conf and `sysctl --system`; then ")
    } else {
        String::new()
    };
    // `*` stands for every user but root (limits.conf(5)).
    let who = if subject.user == Some(0) { "root" } else { "*" };
    Remedy {
        now: Some(now),
        for_good: Some(format!("{first}{}", for_good(context, "nofile", who, target, hard))),
        risk: Some("programs that use select() break with descriptors above 1,023".to_owned()),
    }
}

/// `fs.nr_open`: the ceiling of the limit of every process.
fn ceiling(context: &Context) -> Option<Row> {
    let limit = context.root.sysctl_number("fs.nr_open")?;
    let target = context.raised(limit, |needs, size| needed(context, needs, size));
    Some(Row {
        limit: "fs.nr_open".to_owned(),
        value: grouped(limit),
        in_use: None,
        is_bytes: false,
        owner: "the host".to_owned(),
        bounds: context.bounds(Effect::Stops, A_PROCESS, |needs| fitting(context, limit, needs)),
        evidence: "setrlimit() of a higher RLIMIT_NOFILE fails with EPERM".to_owned(),
        counters: Vec::new(),
        remedy: Remedy::sysctl_below("fs.nr_open", limit, target, NR_OPEN_MAX, "none known"),
    })
}

fn of_system(context: &Context) -> Option<Row> {
    let numbers = context.root.sysctl_numbers("fs.file-nr");
    let (used, limit) = (*numbers.first()?, *numbers.get(2)?);
    // CAP_SYS_ADMIN overrides it (alloc_empty_file() in the kernel's file_table.c).
    let effect = if context.subject.may_exceed_open_files() { Effect::Bends } else { Effect::Stops };
    let each = |needs: &Needs| Some(needs.open_files).filter(|&each| each > 0);
    let target = context.raised(limit, |needs, size| Some(size.saturating_mul(each(needs)?).saturating_add(used)));
    let lifted = if effect == Effect::Bends { "; not for CAP_SYS_ADMIN" } else { "" };
    Some(Row {
        limit: "fs.file-max".to_owned(),
        value: grouped(limit),
        in_use: Some(used),
        is_bytes: false,
        owner: "the host".to_owned(),
        bounds: context.bounds(effect, "", |needs| Some(limit.saturating_sub(used) / each(needs)?)),
        evidence: format!("open() and socket() fail with ENFILE{lifted}"),
        counters: Vec::new(),
        remedy: Remedy::sysctl_below(
            "fs.file-max",
            limit,
            target,
            i64::MAX as u64,
            "each open file takes some 256 bytes of the kernel",
        ),
    })
}

/// The default limit of systemd for services without `LimitNOFILE=`.
fn of_services(context: &Context) -> Option<Row> {
    context.root.text("proc/1/comm").filter(|name| name == "systemd")?;
    let set = manager_setting(context.root, "DefaultLimitNOFILE", None);
    Some(Row {
        limit: "DefaultLimitNOFILE".to_owned(),
        value: set.unwrap_or_else(|| "not set: 1024:524288 since systemd 240".to_owned()),
        in_use: None,
        is_bytes: false,
        owner: "services of systemd".to_owned(),
        bounds: Vec::new(),
        evidence: "a service without LimitNOFILE= has it; /proc/PID/limits shows it".to_owned(),
        counters: Vec::new(),
        remedy: Remedy {
            now: None,
            for_good: Some(format!("LimitNOFILE= of the one service, by `{}`", context.edit_service_command())),
            risk: Some("as a default it applies to every service, including those that use select()".to_owned()),
        },
    })
}

fn watches(context: &Context) -> Option<Row> {
    let limit = context.root.sysctl_number("fs.epoll.max_user_watches")?;
    let each = |needs: &Needs| Some(needs.connections).filter(|&each| each > 0);
    let target = context.raised(limit, |needs, size| Some(size.saturating_mul(each(needs)?)));
    Some(Row {
        limit: "fs.epoll.max_user_watches".to_owned(),
        value: grouped(limit),
        in_use: None,
        is_bytes: false,
        owner: "each user".to_owned(),
        bounds: context.bounds(Effect::Stops, "", |needs| Some(limit / each(needs)?)),
        evidence: "epoll_ctl() fails with ENOSPC".to_owned(),
        counters: Vec::new(),
        remedy: Remedy::sysctl(
            "fs.epoll.max_user_watches",
            &target.to_string(),
            "each watch takes some 160 bytes of the kernel",
        ),
    })
}
