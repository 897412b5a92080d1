//! Mappings and the address space of one process.

use crate::context::Context;
use crate::demand::{Addresses, Needs};
use crate::row::{Effect, Remedy, Row};
use crate::text::{bytes, grouped};

pub(super) fn rows(context: &Context) -> Vec<Row> {
    [count(context), address_space(context), data(context), overcommit(context)].into_iter().flatten().collect()
}

/// The stack that glibc gives a thread where `RLIMIT_STACK` is unlimited.
const STACK_UNLIMITED: u64 = 2 << 20;

/// Returns the stack that glibc gives a thread in bytes, without its guard page: the soft `RLIMIT_STACK`.
fn stack_bytes(context: &Context) -> u64 {
    let soft = context.subject.limit("Max stack size").map_or(8 << 20, |(soft, _)| soft);
    let page = context.page_bytes;
    if soft == u64::MAX { STACK_UNLIMITED } else { soft / page * page }
}

fn calls(context: &Context, of: impl Fn(&Needs) -> bool) -> String {
    let creates = |needs: &Needs| if needs.creates.is_empty() { "mmap" } else { needs.creates };
    context.calls(|needs| if of(needs) { creates(needs) } else { "" })
}

/// Returns "`mmap()` fails with ENOMEM", of the calls of the demands; `pthread_create` reports EAGAIN instead.
fn refusal(context: &Context, of: impl Fn(&Needs) -> bool) -> String {
    match calls(context, of).as_str() {
        "" | "mmap()" => "mmap() fails with ENOMEM".to_owned(),
        "pthread_create()" => "pthread_create() fails with EAGAIN".to_owned(),
        _ => "mmap() fails with ENOMEM, and pthread_create() with EAGAIN".to_owned(),
    }
}

/// `vm.max_map_count`. The kernel compares before it adds, so a process may have one mapping more; a thread's second
/// mapping is split off the first, where it may not.
fn count(context: &Context) -> Option<Row> {
    let limit = context.root.sysctl_number("vm.max_map_count")?;
    let own = context.subject.maps.unwrap_or(0);
    let room = |each: u64| (limit + u64::from(each == 1)).saturating_sub(own);
    let target = context.raised(limit, |needs, size| {
        Some(size.saturating_mul(needs.maps).saturating_add(own)).filter(|_| needs.maps > 0)
    });
    let bounds = context.bounds(Effect::Stops, " a process", |needs| {
        Some(room(needs.maps) / needs.maps.max(1)).filter(|_| needs.maps > 0)
    });
    Some(Row {
        limit: "vm.max_map_count".to_owned(),
        value: grouped(limit),
        in_use: context.subject.maps,
        is_bytes: false,
        owner: "the host, for each process".to_owned(),
        bounds,
        evidence: format!("{}; a thread has two, stack and guard page", refusal(context, |needs| needs.maps > 0)),
        counters: Vec::new(),
        remedy: Remedy::sysctl(
            "vm.max_map_count",
            &target.to_string(),
            "each mapping takes some 220 bytes of the kernel",
        ),
    })
}

fn address_space(context: &Context) -> Option<Row> {
    let stack = stack_bytes(context);
    let each = |needs: &Needs| match needs.addresses {
        Addresses::None => None,
        Addresses::Stack => Some(stack + context.page_bytes),
        Addresses::Page => Some(context.page_bytes),
    };
    bytes_of_process(
        context,
        &Bytes {
            limit: "RLIMIT_AS",
            name: "Max address space",
            used: context.subject.address_bytes,
            flag: "-v",
            directive: "LimitAS",
            each: &each,
        },
    )
}

/// `RLIMIT_DATA`: private writable mappings, of which the stacks of threads are.
fn data(context: &Context) -> Option<Row> {
    let stack = stack_bytes(context);
    let each = |needs: &Needs| Some(stack).filter(|_| needs.addresses == Addresses::Stack);
    bytes_of_process(
        context,
        &Bytes {
            limit: "RLIMIT_DATA",
            name: "Max data size",
            used: context.subject.data_bytes,
            flag: "-d",
            directive: "LimitDATA",
            each: &each,
        },
    )
}

/// A limit of a process in bytes.
struct Bytes<'a> {
    limit: &'static str,
    name: &'static str,
    used: u64,
    flag: &'static str,
    directive: &'static str,
    each: &'a dyn Fn(&Needs) -> Option<u64>,
}

/// Returns the row of such a limit, if it is one.
fn bytes_of_process(context: &Context, of: &Bytes) -> Option<Row> {
    let (soft, hard) = context.subject.limit(of.name)?;
    if soft == u64::MAX {
        return None;
    }
    let target =
        context.raised(soft, |needs, size| Some(size.saturating_mul((of.each)(needs)?).saturating_add(of.used)));
    let hard = if hard == u64::MAX { "none".to_owned() } else { bytes(hard) };
    Some(Row {
        limit: of.limit.to_owned(),
        value: format!("{}, hard limit {hard}", bytes(soft)),
        in_use: Some(of.used),
        is_bytes: true,
        owner: context.subject.owner(),
        bounds: context
            .bounds(Effect::Stops, " a process", |needs| Some(soft.saturating_sub(of.used) / (of.each)(needs)?)),
        evidence: format!(
            "{}; the stack of a thread is {} (RLIMIT_STACK)",
            refusal(context, |needs| (of.each)(needs).is_some()),
            bytes(stack_bytes(context))
        ),
        counters: Vec::new(),
        remedy: Remedy {
            now: Some(format!("ulimit {} {}", of.flag, target.div_ceil(1024))),
            for_good: Some(format!("service: {}=infinity by `systemctl edit UNIT`", of.directive)),
            risk: Some("a program that leaks memory is stopped later".to_owned()),
        },
    })
}

/// `vm.overcommit_memory`: with 2, all private memory that is promised counts against `CommitLimit`, the stacks of
/// threads too.
fn overcommit(context: &Context) -> Option<Row> {
    let mode = context.root.sysctl_number("vm.overcommit_memory")?;
    let memory = context.root.text("proc/meminfo")?;
    let of = |name| crate::root::field(&memory, name);
    let (limit, promised) = (of("CommitLimit")?, of("Committed_AS")?);
    let stack = stack_bytes(context);
    let (value, evidence) = match mode {
        2 => (
            format!("2, CommitLimit {}", bytes(limit)),
            "mmap() and fork() fail with ENOMEM, and pthread_create() with EAGAIN",
        ),
        1 => ("1".to_owned(), "the kernel promises any amount of memory"),
        _ => ("0".to_owned(), "the kernel refuses only single requests beyond all of its memory"),
    };
    Some(Row {
        limit: "vm.overcommit_memory".to_owned(),
        value,
        in_use: Some(promised),
        is_bytes: true,
        owner: "the host".to_owned(),
        bounds: context.bounds(Effect::Stops, "", |needs| {
            let is_bound = mode == 2 && needs.addresses == Addresses::Stack;
            is_bound.then(|| limit.saturating_sub(promised) / stack)
        }),
        evidence: evidence.to_owned(),
        counters: Vec::new(),
        remedy: if mode == 2 {
            Remedy::sysctl(
                "vm.overcommit_memory",
                "0",
                "memory that was promised may be missing: the OOM killer ends a process",
            )
        } else {
            Remedy::default()
        },
    })
}
