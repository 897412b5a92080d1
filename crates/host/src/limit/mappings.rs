//! The mappings and the address space of one process.

use crate::context::{A_PROCESS, Context};
use crate::demand::{Addresses, Demand, Needs, Promised};
use crate::row::{Bound, Effect, Remedy, Row};
use crate::text::{bytes, grouped, limited};
use landau_sys::limits::stack_of_thread;
use std::cell::LazyCell;

pub(super) fn rows(context: &Context) -> Vec<Row> {
    [count(context), address_space(context), data(context), overcommit(context)].into_iter().flatten().collect()
}

/// Returns the size of the stack that glibc gives a thread in bytes, without its guard page.
fn stack_bytes(context: &Context) -> u64 {
    let soft = context.subject.limit("Max stack size").map_or(8 << 20, |(soft, _)| soft);
    stack_of_thread(soft, context.page_bytes)
}

fn calls(context: &Context, of: impl Fn(&Needs) -> bool) -> String {
    let creates = |needs: &Needs| if needs.creates.is_empty() { "mmap" } else { needs.creates };
    context.calls(|needs| if of(needs) { creates(needs) } else { "" })
}

/// Returns "`mmap()` fails with ENOMEM", with the calls of the demands; `pthread_create` reports EAGAIN instead.
fn refusal(context: &Context, of: impl Fn(&Needs) -> bool) -> String {
    match calls(context, of).as_str() {
        "" | "mmap()" => "mmap() fails with ENOMEM".to_owned(),
        "pthread_create()" => "pthread_create() fails with EAGAIN".to_owned(),
        _ => "mmap() fails with ENOMEM, and pthread_create() with EAGAIN".to_owned(),
    }
}

/// `vm.max_map_count`. The kernel compares before it adds, so a process may have one mapping more. A thread's second
/// mapping is split off from the first, where this does not apply.
fn count(context: &Context) -> Option<Row> {
    let limit = context.root.sysctl_number("vm.max_map_count")?;
    let own = context.subject.maps.unwrap_or(0);
    let room = |each: u64| (limit + u64::from(each == 1)).saturating_sub(own);
    let target = context.raised(limit, |needs, size| {
        Some(size.saturating_mul(needs.maps).saturating_add(own)).filter(|_| needs.maps > 0)
    });
    let bounds = context.bounds(Effect::Stops, A_PROCESS, |needs| {
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
        remedy: Remedy::sysctl_below(
            "vm.max_map_count",
            limit,
            target,
            i32::MAX as u64,
            "each mapping takes some 220 bytes of the kernel",
        ),
    })
}

fn address_space(context: &Context) -> Option<Row> {
    let each = |needs: &Needs| match needs.addresses {
        Addresses::None => None,
        Addresses::Stack => Some(stack_bytes(context) + context.page_bytes),
        Addresses::Page => Some(context.page_bytes),
    };
    bytes_of_process(
        context,
        &Bytes {
            limit: "RLIMIT_AS",
            name: "Max address space",
            used: context.subject.address_bytes,
            flag: "-v",
            option: "as",
            directive: "LimitAS",
            each: &each,
            beside: &|demand, n| context.worker_bytes(demand, n),
        },
    )
}

/// `RLIMIT_DATA`: private writable mappings, which include the stacks of threads.
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
            option: "data",
            directive: "LimitDATA",
            each: &each,
            beside: &|_, _| 0,
        },
    )
}

/// A per-process limit in bytes.
struct Bytes<'a> {
    limit: &'static str,
    name: &'static str,
    used: u64,
    flag: &'static str,
    /// The option of `prlimit`.
    option: &'static str,
    directive: &'static str,
    /// The bytes per object.
    each: &'a dyn Fn(&Needs) -> Option<u64>,
    /// The bytes that the program needs in addition to the objects and to those in use, for this number of objects.
    beside: &'a dyn Fn(&Demand, u64) -> u64,
}

/// Returns the largest n for which n objects and the additional bytes fit into `room`. `beside` must not decrease with
/// n.
fn fitting(room: u64, each: u64, beside: impl Fn(u64) -> u64) -> u64 {
    let fits = |n: u64| beside(n).saturating_add(n.saturating_mul(each)) <= room;
    let (mut most, mut too_many) = (0, (room / each.max(1)).saturating_add(1));
    while too_many - most > 1 {
        let middle = most + (too_many - most) / 2;
        if fits(middle) {
            most = middle;
        } else {
            too_many = middle;
        }
    }
    most
}

/// Returns the row of such a limit; `None` if it is unlimited.
fn bytes_of_process(context: &Context, of: &Bytes) -> Option<Row> {
    let (soft, hard) = context.subject.limit(of.name)?;
    if soft == u64::MAX {
        return None;
    }
    let target = context.raised_for_demands(soft, |demand, size| {
        let objects = size.saturating_mul((of.each)(&demand.kind.needs)?);
        Some(objects.saturating_add((of.beside)(demand, size)).saturating_add(of.used))
    });
    let at_most = |demand: &Demand| {
        let each = (of.each)(&demand.kind.needs)?;
        Some(fitting(soft.saturating_sub(of.used), each, |n| (of.beside)(demand, n)))
    };
    let now = if context.subject.is_other {
        let most = limited(target.max(hard), "unlimited", |most| most.to_string());
        format!("prlimit --pid {} --{}={target}:{most}", context.subject.name, of.option)
    } else {
        format!("ulimit {} {}", of.flag, target.div_ceil(1024))
    };
    let hard = limited(hard, "none", bytes);
    Some(Row {
        limit: of.limit.to_owned(),
        value: format!("{}, hard limit {hard}", bytes(soft)),
        in_use: Some(of.used),
        is_bytes: true,
        owner: context.subject.owner(),
        bounds: context.bounds_of_demands(Effect::Stops, A_PROCESS, at_most),
        evidence: format!(
            "{}; the stack of a thread is {} (RLIMIT_STACK)",
            refusal(context, |needs| (of.each)(needs).is_some()),
            bytes(stack_bytes(context))
        ),
        counters: Vec::new(),
        remedy: Remedy {
            now: Some(now),
            for_good: Some(format!("service: {}", context.limit_service(&format!("{}=infinity", of.directive)))),
            risk: Some("a program that leaks memory is stopped later".to_owned()),
        },
    })
}

/// `vm.overcommit_memory`: with 2, all committed private writable memory counts against `CommitLimit`: stacks of
/// threads, private mappings, and a child's copy of its parent's memory.
fn overcommit(context: &Context) -> Option<Row> {
    let mode = context.root.sysctl_number("vm.overcommit_memory")?;
    let memory = context.root.text("proc/meminfo")?;
    let of = |name| crate::root::field(&memory, name);
    let (limit, promised) = (of("CommitLimit")?, of("Committed_AS")?);
    let (value, evidence) = match mode {
        2 => (
            format!("2, CommitLimit {}", bytes(limit)),
            "mmap() of private writable memory and fork() fail with ENOMEM, and pthread_create() with EAGAIN",
        ),
        1 => ("1".to_owned(), "the kernel promises any amount of memory"),
        _ => ("0".to_owned(), "the kernel refuses only single requests beyond all of its memory"),
    };
    let bounds = if mode == 2 { bounds_of_promises(context, limit, promised) } else { Vec::new() };
    Some(Row {
        limit: "vm.overcommit_memory".to_owned(),
        value,
        in_use: Some(promised),
        is_bytes: true,
        owner: "the host".to_owned(),
        bounds,
        evidence: evidence.to_owned(),
        counters: Vec::new(),
        remedy: if mode == 2 {
            Remedy::sysctl(
                "vm.overcommit_memory",
                "0",
                "promised memory may be missing: the OOM killer kills a process",
            )
        } else {
            Remedy::default()
        },
    })
}

/// Returns the bounds from committed memory, if `promised` bytes of the limit are committed.
fn bounds_of_promises(context: &Context, limit: u64, promised: u64) -> Vec<Bound> {
    let subject = &context.subject;
    // The share of this process becomes free when the program starts, or when this process ends.
    let others = promised.saturating_sub(accounted(context, "self").unwrap_or(0));
    let room = limit.saturating_sub(others).saturating_sub(admin_reserve(context));
    let reserve = context.root.sysctl_number("vm.user_reserve_kbytes").unwrap_or(0).saturating_mul(1024);
    // The text is long, and only programs that fork need it.
    let copied = LazyCell::new(|| {
        accounted(context, &subject.name).unwrap_or_else(|| subject.data_bytes.saturating_add(subject.stack_bytes))
    });
    let promise = |needs: &Needs| match needs.promised {
        Promised::None => None,
        Promised::Stack => Some(stack_bytes(context)),
        Promised::Page => Some(context.page_bytes),
        Promised::Copy(_) if subject.is_other => Some(*copied).filter(|&bytes| bytes > 0),
        Promised::Copy(bytes) => Some(bytes),
    };
    context.bounds_of_demands(Effect::Stops, "", |demand| {
        let needs = &demand.kind.needs;
        let each = promise(needs)?;
        // If the program forks, the objects are other processes.
        let grows = if needs.tasks.is_some() && needs.addresses == Addresses::None { 0 } else { each };
        // The kernel keeps 1/32 of the address space of the calling process free, at most the reserve.
        let kept = |n: u64| (subject.address_bytes.saturating_add(n.saturating_mul(grows)) / 32).min(reserve);
        Some(fitting(room, each, kept))
    })
}

/// Returns the committed memory of a process: the mappings with the flag `ac` in `/proc/PID/smaps`, including those
/// that were writable only while the program was loaded. `None` if they cannot be read.
fn accounted(context: &Context, process: &str) -> Option<u64> {
    let text = context.root.text(&format!("proc/{process}/smaps"))?;
    let (mut total, mut kilobytes) = (0, 0);
    for line in text.lines() {
        if let Some(size) = line.strip_prefix("Size:") {
            kilobytes = size.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        } else if line.strip_prefix("VmFlags:").is_some_and(|flags| flags.split(' ').any(|flag| flag == "ac")) {
            total += kilobytes * 1024;
        }
    }
    Some(total)
}

/// Returns the memory that the kernel reserves from programs without `CAP_SYS_ADMIN` (`__vm_enough_memory()` in its
/// `util.c`).
fn admin_reserve(context: &Context) -> u64 {
    let is_admin = context.subject.may_use_admin_reserve();
    let kilobytes = context.root.sysctl_number("vm.admin_reserve_kbytes").filter(|_| !is_admin);
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beside_the_objects_is_counted_at_the_end() {
        assert_eq!(fitting(100, 10, |_| 0), 10);
        assert_eq!(fitting(99, 10, |_| 0), 9);
        // 5 objects of 10 bytes plus 50, or of 15 bytes plus 25.
        assert_eq!((fitting(100, 10, |_| 50), fitting(100, 10, |n| 25 + 5 * n)), (5, 5));
        assert_eq!((fitting(100, 10, |_| 101), fitting(0, 10, |_| 0)), (0, 0));
    }
}
