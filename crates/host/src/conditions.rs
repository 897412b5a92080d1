//! What stops nothing, but bends times: clock, processors, memory, mounts, other programs.
#![allow(clippy::unnecessary_wraps, reason = "every rule has one signature, and most may have nothing to say")]

use crate::cgroups::{Group, groups};
use crate::context::Context;
use crate::limit::ports_in_use;
use crate::root::{counter, field};
use crate::row::Condition;
use crate::text::grouped;

/// Returns what is known.
pub(crate) fn conditions(context: &Context) -> Vec<Condition> {
    let rules = [
        container,
        quota,
        clock_source,
        governor,
        turbo,
        smt,
        mitigations,
        virtualisation,
        aslr,
        huge_pages,
        numa,
        proactive_reclaim,
        durability,
        leftovers,
        tuners,
        load,
    ];
    rules.iter().filter_map(|rule| rule(context)).collect()
}

const CPU: &str = "sys/devices/system/cpu";

/// Whether this is a container: whose limits these are.
fn container(context: &Context) -> Option<Condition> {
    let root = context.root;
    let cgroup = root.text(&context.subject.file("cgroup")).unwrap_or_default();
    let paths = cgroup.lines().filter_map(|line| line.rsplit_once(':')).map(|(_, path)| path);
    let deepest = paths.max_by_key(|path| path.len()).unwrap_or("/").to_owned();
    let kinds = ["pid", "user", "cgroup"].into_iter().filter(|kind| context.is_in_first(kind) == Some(false));
    let mut parts: Vec<String> = kinds.map(|kind| format!("{kind} namespace of its own")).collect();
    let is_one = !parts.is_empty();
    // An image of a container that was booted as a machine has these files too.
    let marks = [("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")];
    let engine = marks.iter().find(|(path, _)| is_one && root.path(path).exists());
    parts.extend(engine.map(|(_, name)| (*name).to_owned()));
    parts.push(format!("control group {deepest}"));
    let effect = "limits of the control groups and namespaces are those that the container was started with";
    Some(if is_one {
        Condition::bends("container", parts.join(", "), effect, None)
    } else {
        Condition::fine("container", format!("none; {}", parts.join(", ")), "the host's own namespaces")
    })
}

/// The tightest quota of processor time of its control groups: `cpu.max`, in version 1 `cpu.cfs_quota_us`.
fn quota(context: &Context) -> Option<Condition> {
    let root = context.root;
    let groups = groups(root, &context.subject.name, "cpu");
    let of = |group: &Group| -> Option<(u64, u64)> {
        if group.is_unified {
            let text = root.text(&group.file("cpu.max"))?;
            let mut words = text.split(' ').map_while(|word| word.parse().ok());
            return Some((words.next()?, words.next()?));
        }
        Some((root.number(&group.file("cpu.cfs_quota_us"))?, root.number(&group.file("cpu.cfs_period_us"))?))
    };
    let share = |(quota, period): (u64, u64)| quota as f64 / period.max(1) as f64;
    let limited = groups.iter().filter_map(|group| Some((group, of(group)?)));
    let (group, (quota, period)) = limited.min_by(|(_, a), (_, b)| share(*a).total_cmp(&share(*b)))?;
    let stat = root.text(&group.file("cpu.stat")).unwrap_or_default();
    let count = |name: &str| counter(&stat, name);
    let used_up = count("nr_throttled").zip(count("nr_periods")).map_or(String::new(), |(throttled, periods)| {
        format!(", used up in {} of {} periods (nr_throttled)", grouped(throttled), grouped(periods))
    });
    let value = format!(
        "{:.2} processors for control group {}: {} ms in each {} ms{used_up}",
        share((quota, period)),
        group.name,
        quota as f64 / 1e3,
        period as f64 / 1e3
    );
    let effect =
        "once it is used up, all tasks of the group wait for the next period: that is in the tail of all times";
    let command =
        if group.is_unified { group.command("cpu.max", "max") } else { group.command("cpu.cfs_quota_us", "-1") };
    Some(Condition::bends("processor quota", value, effect, Some(&command)))
}

fn clock_source(context: &Context) -> Option<Condition> {
    let folder = "sys/devices/system/clocksource/clocksource0";
    let now = context.root.text(&format!("{folder}/current_clocksource"))?;
    let is_fast = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"].contains(&now.as_str());
    let effect = if is_fast { "read without a system call" } else { "each reading of the clock is a system call" };
    let command = format!("echo tsc > /{folder}/current_clocksource");
    Some(Condition::when(!is_fast, "clock source", now, effect, Some(&command)))
}

fn governor(context: &Context) -> Option<Condition> {
    let name = context.root.text(&format!("{CPU}/cpu0/cpufreq/scaling_governor"));
    let Some(name) = name else {
        let effect = if is_guest(context) {
            "the host of a virtual machine chooses the frequency"
        } else {
            "the kernel does not set the frequency"
        };
        return Some(Condition::fine("governor", "not shown", effect));
    };
    let command = "cpupower frequency-set -g performance";
    Some(Condition::when(name != "performance", "governor", name, "the frequency follows the load", Some(command)))
}

fn turbo(context: &Context) -> Option<Condition> {
    let root = context.root;
    let off = root.number(&format!("{CPU}/intel_pstate/no_turbo"));
    let on = off.map(|off| off == 0).or(root.number(&format!("{CPU}/cpufreq/boost")).map(|boost| boost == 1))?;
    let (value, effect) = if on {
        ("on", "the frequency depends on temperature and on other cores")
    } else {
        ("off", "a steady frequency")
    };
    let command = if off.is_some() {
        format!("echo 1 > /{CPU}/intel_pstate/no_turbo")
    } else {
        format!("echo 0 > /{CPU}/cpufreq/boost")
    };
    Some(Condition::when(on, "turbo", value, effect, Some(&command)))
}

fn smt(context: &Context) -> Option<Condition> {
    let control = context.root.text(&format!("{CPU}/smt/control"))?;
    let (is_on, control) = (control == "on", control.replace("notsupported", "not supported"));
    let effect =
        if is_on { "two threads share a core and slow each other down" } else { "each processor has its core" };
    Some(Condition::when(is_on, "SMT", control, effect, Some(&format!("echo off > /{CPU}/smt/control"))))
}

fn mitigations(context: &Context) -> Option<Condition> {
    let folder = format!("{CPU}/vulnerabilities");
    let names = context.root.names(&folder);
    let active: Vec<String> = names
        .iter()
        .filter(|name| {
            context.root.text(&format!("{folder}/{name}")).is_some_and(|text| text.starts_with("Mitigation"))
        })
        .cloned()
        .collect();
    if names.is_empty() {
        return None;
    }
    let value = if active.is_empty() { "none active".to_owned() } else { active.join(", ") };
    Some(Condition::when(
        !active.is_empty(),
        "mitigations",
        value,
        "each entry into the kernel costs more; compare hosts with equal mitigations only",
        None,
    ))
}

/// Returns whether the processor shows a hypervisor.
fn is_guest(context: &Context) -> bool {
    let information = context.root.text("proc/cpuinfo").unwrap_or_default();
    information.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor"))
}

fn virtualisation(context: &Context) -> Option<Condition> {
    let root = context.root;
    root.text("proc/cpuinfo")?;
    let stat = root.text("proc/stat").unwrap_or_default();
    let total: Vec<u64> =
        stat.lines().next()?.split_ascii_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let share = 100.0 * total.get(7).copied().unwrap_or(0) as f64 / total.iter().take(8).sum::<u64>().max(1) as f64;
    if !is_guest(context) {
        return Some(Condition::fine("virtualisation", "none", "no hypervisor takes time"));
    }
    let value = format!("guest, {share:.2}% of its time stolen since the start");
    Some(Condition::bends("virtualisation", value, "the hypervisor takes time that the guest does not see", None))
}

fn aslr(context: &Context) -> Option<Condition> {
    let mode = context.root.sysctl_number("kernel.randomize_va_space")?;
    let effect =
        if mode > 0 { "addresses differ from pass to pass, and cache conflicts with them" } else { "fixed addresses" };
    Some(Condition::when(mode > 0, "ASLR", mode.to_string(), effect, Some("setarch -R PROGRAM # for one program")))
}

fn huge_pages(context: &Context) -> Option<Condition> {
    let text = context.root.text("sys/kernel/mm/transparent_hugepage/enabled")?;
    let chosen = text.split('[').nth(1)?.split(']').next()?.to_owned();
    let command = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    let is_always = chosen == "always";
    let effect = if is_always { "a first touch may clear 2 MiB" } else { "only programs that ask for them" };
    Some(Condition::when(is_always, "transparent huge pages", chosen, effect, Some(command)))
}

fn numa(context: &Context) -> Option<Condition> {
    let nodes = context.root.text("sys/devices/system/node/online")?;
    let is_one = nodes == "0";
    let effect = if is_one { "one node" } else { "memory of another node is slower" };
    Some(Condition::when(!is_one, "NUMA", nodes, effect, Some("numactl --cpunodebind=0 --membind=0 PROGRAM")))
}

const DAMON: &str = "sys/kernel/mm/damon/admin/kdamonds";

/// Whether the kernel takes pages that were not accessed lately away before memory is short (DAMON, admin-guide/mm).
fn proactive_reclaim(context: &Context) -> Option<Condition> {
    let root = context.root;
    let is_reclaiming = |folder: &str| {
        let contexts = format!("{DAMON}/{folder}/contexts");
        let pages_out = |of: &String| {
            let schemes = format!("{contexts}/{of}/schemes");
            let action = |scheme: &String| root.text(&format!("{schemes}/{scheme}/action"));
            root.names(&schemes).iter().any(|scheme| action(scheme).is_some_and(|action| action == "pageout"))
        };
        root.text(&format!("{DAMON}/{folder}/state")).is_some_and(|state| state == "on")
            && root.names(&contexts).iter().any(pages_out)
    };
    let threads: Vec<String> = root.names(DAMON).into_iter().filter(|name| name.parse::<u32>().is_ok()).collect();
    let found = threads.iter().find(|folder| is_reclaiming(folder));
    let (value, command) = if let Some(folder) = found {
        ("DAMON".to_owned(), format!("echo off > /{DAMON}/{folder}/state"))
    } else if root.text("sys/module/damon_reclaim/parameters/enabled").is_some_and(|value| value == "Y") {
        ("DAMON_RECLAIM".to_owned(), "echo N > /sys/module/damon_reclaim/parameters/enabled".to_owned())
    } else if threads.iter().any(|folder| root.text(&format!("{DAMON}/{folder}/state")).is_none()) {
        let effect = "DAMON is set up; only root can read whether it pages out what is not in use";
        return Some(Condition::fine("proactive reclaim", "not known", effect));
    } else {
        return None;
    };
    let effect = "pages not accessed lately leave the memory: their next access waits for the device";
    Some(Condition::bends("proactive reclaim", value, effect, Some(&command)))
}

/// Mount options of the folder's file system: whether what is synced survives a loss of power.
fn durability(context: &Context) -> Option<Condition> {
    let folder = context.folder?;
    let mounts = context.root.text(&context.subject.file("mountinfo"))?;
    let contains = |point: &str| {
        point == "/"
            || folder.path == point
            || folder.path.strip_prefix(point).is_some_and(|rest| rest.starts_with('/'))
    };
    let of = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(4);
        let (point, own) = (fields.next()?.to_owned(), fields.next()?);
        let mut words = after.split(' ');
        let (kind, options) = (words.next()?.to_owned(), words.nth(1).unwrap_or_default());
        contains(&point).then(|| (point.len(), kind, format!("{own},{options}")))
    };
    // Of equal mount points, the last one covers the others.
    let (_, kind, options) = mounts.lines().filter_map(of).max_by_key(|(len, ..)| *len)?;
    let unsafe_ones = ["nobarrier", "barrier=0", "volatile"];
    let found: Vec<&str> = options.split(',').filter(|option| unsafe_ones.contains(option)).collect();
    let in_memory = kind == "tmpfs" || kind == "ramfs";
    let value = format!(
        "{kind} ({})",
        options.split(',').collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",")
    );
    Some(if in_memory {
        Condition::bends("durability", value, "files are in memory only: fsync() costs nothing and keeps nothing", None)
    } else if !found.is_empty() {
        let effect = format!("{}: what fsync() wrote may be lost with the power", found.join(", "));
        let is_volatile = found == ["volatile"];
        let command = (!is_volatile).then_some("mount -o remount,barrier=1");
        Condition::bends("durability", value, &effect, command)
    } else if options.split(',').any(|option| option == "sync") {
        Condition::bends("durability", value, "sync: each write waits for the device", None)
    } else {
        Condition::fine("durability", value, "fsync() waits for the device")
    })
}

fn leftovers(context: &Context) -> Option<Condition> {
    let waiting = ports_in_use(context).time_wait;
    let own: Vec<String> = context
        .root
        .names("tmp")
        .into_iter()
        .filter(|name| name.starts_with("landau-scratch"))
        .map(|name| format!("/tmp/{name}"))
        .collect();
    let value = format!(
        "sockets in TIME_WAIT: {}{}",
        grouped(waiting),
        if own.is_empty() { String::new() } else { format!(", {}", own.join(", ")) }
    );
    let effect = if waiting > 100 {
        "they hold ports: bind() and connect() search longer; they end within 60 s"
    } else if own.is_empty() {
        "nothing that bends a curve"
    } else {
        "folders of runs that go on or were killed"
    };
    Some(Condition::when(waiting > 100 || !own.is_empty(), "leftovers", value, effect, None))
}

/// Programs that change sysctls while something is measured.
fn tuners(context: &Context) -> Option<Condition> {
    let known = ["tuned", "bpftune", "tuned-ppd", "power-profiles-daemon", "irqbalance", "earlyoom", "systemd-oomd"];
    // The kernel keeps 15 characters of a name.
    let is_running = |name: &&&str| context.census.programs.contains_key(&name[..name.len().min(15)]);
    let found: Vec<&str> = known.iter().filter(is_running).copied().collect();
    Some(if found.is_empty() {
        Condition::fine("tuners", "none running", "nothing changes settings meanwhile")
    } else {
        let stop = format!("systemctl stop {}", found.join(" "));
        Condition::bends("tuners", found.join(", "), "settings may change while something is measured", Some(&stop))
    })
}

fn load(context: &Context) -> Option<Condition> {
    let text = context.root.text("proc/loadavg")?;
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    let memory = context.root.text("proc/meminfo").unwrap_or_default();
    let swap = field(&memory, "SwapTotal").zip(field(&memory, "SwapFree")).map_or(0, |(all, free)| all - free);
    let is_loaded = load > 0.5 || swap > 0;
    let value = format!("{load:.2} over the last minute{}", if swap > 0 { ", swap in use" } else { "" });
    let effect = if is_loaded { "other programs run: times are theirs too" } else { "hardly anything else runs" };
    Some(Condition::when(is_loaded, "load", value, effect, None))
}
