//! Conditions that do not limit anything, but distort times: clock, processors, memory, mounts, other programs.
#![allow(clippy::unnecessary_wraps, reason = "every rule has one signature, and most may have nothing to say")]

use crate::cgroups::{Group, groups};
use crate::context::Context;
use crate::root::{counter, field};
use crate::row::{Condition, Remedy};
use crate::text::{grouped, quoted, unescaped};
use landau_sys::system::virtualization_by;

/// Returns all conditions that are known.
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

/// Returns how to set a kernel parameter permanently.
fn at_boot(parameter: &str) -> String {
    format!(
        "{parameter} on the kernel's command line (with GRUB: in GRUB_CMDLINE_LINUX of /etc/default/grub, then \
         update-grub or grub2-mkconfig), and a restart"
    )
}

/// Returns a remedy that writes a value to a file of `/sys`, now and at each boot.
fn written(path: &str, value: &str, risk: &str) -> Remedy {
    let for_good = format!("\"w /{path} - - - - {value}\" in /etc/tmpfiles.d/90-landau.conf");
    Remedy::of(format!("echo {value} > /{path}"), for_good, risk)
}

/// Reports whether this is a container, whose limits then apply.
fn container(context: &Context) -> Option<Condition> {
    let root = context.root;
    let cgroup = root.text(&context.subject.file("cgroup")).unwrap_or_default();
    let paths = cgroup.lines().filter_map(|line| line.rsplit_once(':')).map(|(_, path)| path);
    let deepest = paths.max_by_key(|path| path.len()).unwrap_or("/").to_owned();
    let kinds = ["pid", "user", "cgroup"].into_iter().filter(|kind| context.is_in_first(kind) == Some(false));
    let mut parts: Vec<String> = kinds.map(|kind| format!("separate {kind} namespace")).collect();
    let is_one = !parts.is_empty();
    // A container image that was booted as a machine has these files too.
    let marks = [("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")];
    let engine = marks.iter().find(|(path, _)| is_one && root.path(path).exists());
    parts.extend(engine.map(|(_, name)| (*name).to_owned()));
    parts.push(format!("control group {deepest}"));
    let effect = "limits of the control groups and namespaces are those that the container was started with";
    Some(if is_one {
        Condition::bends("container", parts.join(", "), effect, Remedy::default())
    } else {
        Condition::fine("container", format!("none; {}", parts.join(", ")), "the host's own namespaces")
    })
}

/// Reports the lowest processor quota of the control groups: `cpu.max`, in version 1 `cpu.cfs_quota_us`.
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
    let effect = "once it is used up, all tasks of the group wait for the next period, which adds to tail latency";
    let command =
        if group.is_unified { group.command("cpu.max", "max") } else { group.command("cpu.cfs_quota_us", "-1") };
    let for_good = format!("CPUQuota= (empty: none) by `{}`", group.edit_command());
    let remedy = Remedy::of(command, for_good, "the group may take processor time from other groups");
    Some(Condition::bends("processor quota", value, effect, remedy))
}

fn clock_source(context: &Context) -> Option<Condition> {
    let folder = "sys/devices/system/clocksource/clocksource0";
    let now = context.root.text(&format!("{folder}/current_clocksource"))?;
    let is_fast = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"].contains(&now.as_str());
    let effect = if is_fast { "read without a system call" } else { "each reading of the clock is a system call" };
    // The kernel does not switch to a clock source that it found unstable, and does not list it.
    let has_tsc = context.root.text(&format!("{folder}/available_clocksource")).unwrap_or_default();
    if !is_fast && !has_tsc.split(' ').any(|name| name == "tsc") {
        let effect = "each reading of the clock is a system call; the kernel offers no tsc (dmesg says why)";
        return Some(Condition::bends("clock source", now, effect, Remedy::default()));
    }
    let risk = "the kernel goes back to a slower one if it finds the TSC unstable";
    let remedy = Remedy::of(format!("echo tsc > /{folder}/current_clocksource"), at_boot("clocksource=tsc"), risk);
    Some(Condition::when(!is_fast, "clock source", now, effect, remedy))
}

fn governor(context: &Context) -> Option<Condition> {
    let name = context.root.text(&format!("{CPU}/cpu0/cpufreq/scaling_governor"));
    let Some(name) = name else {
        let effect = match is_guest(context) {
            Some(true) => "the host of a virtual machine chooses the frequency",
            Some(false) | None => "the kernel does not set the frequency",
        };
        return Some(Condition::fine("governor", "not shown", effect));
    };
    // The kernel parameter cpufreq.default_governor exists only since Linux 5.9.
    let risk = "more power and heat";
    let for_good = written(&format!("{CPU}/cpu*/cpufreq/scaling_governor"), "performance", risk);
    let remedy = Remedy { now: Some("cpupower frequency-set -g performance".to_owned()), ..for_good };
    Some(Condition::when(name != "performance", "governor", name, "the frequency follows the load", remedy))
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
    let risk = "every program is slower while few cores are busy";
    let remedy = if off.is_some() {
        written(&format!("{CPU}/intel_pstate/no_turbo"), "1", risk)
    } else {
        written(&format!("{CPU}/cpufreq/boost"), "0", risk)
    };
    Some(Condition::when(on, "turbo", value, effect, remedy))
}

fn smt(context: &Context) -> Option<Condition> {
    let control = context.root.text(&format!("{CPU}/smt/control"))?;
    let (is_on, control) = (control == "on", control.replace("notsupported", "not supported"));
    let effect =
        if is_on { "two threads share a core and slow each other down" } else { "each processor has its core" };
    let risk = "halves the number of processors and lowers the host's throughput";
    let remedy = Remedy::of(format!("echo off > /{CPU}/smt/control"), at_boot("nosmt"), risk);
    Some(Condition::when(is_on, "SMT", control, effect, remedy))
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
        Remedy {
            now: None,
            for_good: Some(at_boot("mitigations=off")),
            risk: Some(
                "a program may read the memory of others and of the kernel: only for trusted programs".to_owned(),
            ),
        },
    ))
}

/// Returns whether there is a hypervisor; `None` if that is unknown.
fn is_guest(context: &Context) -> Option<bool> {
    virtualization_by(|path| context.root.text(path)).map(|name| name != "none")
}

fn virtualisation(context: &Context) -> Option<Condition> {
    let root = context.root;
    root.text("proc/cpuinfo")?;
    let stat = root.text("proc/stat").unwrap_or_default();
    let total: Vec<u64> =
        stat.lines().next()?.split_ascii_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let share = 100.0 * total.get(7).copied().unwrap_or(0) as f64 / total.iter().take(8).sum::<u64>().max(1) as f64;
    match is_guest(context) {
        Some(true) => {}
        None if share > 0.0 => {}
        Some(false) => return Some(Condition::fine("virtualisation", "none", "no hypervisor takes time")),
        None => {
            let effect = "this kind of processor does not show a hypervisor, and no time was stolen since the start";
            return Some(Condition::fine("virtualisation", "not known", effect));
        }
    }
    let value = format!("guest, {share:.2}% of its time stolen since the start");
    Some(Condition::bends(
        "virtualisation",
        value,
        "the hypervisor takes time that the guest does not see",
        Remedy::default(),
    ))
}

fn aslr(context: &Context) -> Option<Condition> {
    let mode = context.root.sysctl_number("kernel.randomize_va_space")?;
    let effect =
        if mode > 0 { "addresses differ from pass to pass, and cache conflicts with them" } else { "fixed addresses" };
    let remedy = Remedy::of(
        "setarch -R PROGRAM # for one program",
        "leave it on; for one service, put setarch -R into its ExecStart=",
        "an attacker can guess the program's addresses",
    );
    Some(Condition::when(mode > 0, "ASLR", mode.to_string(), effect, remedy))
}

fn huge_pages(context: &Context) -> Option<Condition> {
    let text = context.root.text("sys/kernel/mm/transparent_hugepage/enabled")?;
    let chosen = text.split('[').nth(1)?.split(']').next()?.to_owned();
    let is_always = chosen == "always";
    let effect = if is_always { "a first touch may clear 2 MiB" } else { "only programs that ask for them" };
    let remedy = Remedy::of(
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        at_boot("transparent_hugepage=madvise"),
        "programs with much memory that do not ask for huge pages miss the TLB more often",
    );
    Some(Condition::when(is_always, "transparent huge pages", chosen, effect, remedy))
}

fn numa(context: &Context) -> Option<Condition> {
    let nodes = context.root.text("sys/devices/system/node/online")?;
    let is_one = nodes == "0";
    let effect = if is_one { "one node" } else { "memory of another node is slower" };
    let remedy = Remedy::of(
        "numactl --cpunodebind=0 --membind=0 PROGRAM",
        format!("NUMAPolicy=bind, NUMAMask=0 and CPUAffinity=numa by `{}`", context.edit_service_command()),
        "the program has the memory and the processors of one node only",
    );
    Some(Condition::when(!is_one, "NUMA", nodes, effect, remedy))
}

const DAMON: &str = "sys/kernel/mm/damon/admin/kdamonds";

/// Reports whether the kernel reclaims pages that were not accessed recently before memory is short (DAMON,
/// admin-guide/mm).
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
    let risk = "idle memory is not paged out";
    let (value, remedy) = if let Some(folder) = found {
        let for_good = "disable the service that sets DAMON up (such as damo)";
        ("DAMON", Remedy::of(format!("echo off > /{DAMON}/{folder}/state"), for_good, risk))
    } else if root.text("sys/module/damon_reclaim/parameters/enabled").is_some_and(|value| value == "Y") {
        let now = "echo N > /sys/module/damon_reclaim/parameters/enabled";
        ("DAMON_RECLAIM", Remedy::of(now, at_boot("damon_reclaim.enabled=N"), risk))
    } else if threads.iter().any(|folder| root.text(&format!("{DAMON}/{folder}/state")).is_none()) {
        let effect = "DAMON is set up; only root can read whether it pages out idle memory";
        return Some(Condition::fine("proactive reclaim", "not known", effect));
    } else {
        return None;
    };
    let effect = "pages not accessed recently are paged out; their next access waits for the device";
    Some(Condition::bends("proactive reclaim", value, effect, remedy))
}

/// Reports the mount options of the directory's file system: whether synced data survives a power failure.
fn durability(context: &Context) -> Option<Condition> {
    let folder = context.folder?;
    // The directory belongs to this process, even if another program is examined.
    let mounts = context.root.text("proc/self/mountinfo")?;
    let contains = |point: &str| {
        point == "/"
            || folder.path == point
            || folder.path.strip_prefix(point).is_some_and(|rest| rest.starts_with('/'))
    };
    let of = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(4);
        let (point, own) = (unescaped(fields.next()?), fields.next()?);
        let mut words = after.split(' ');
        let (kind, options) = (words.next()?.to_owned(), words.nth(1).unwrap_or_default());
        contains(&point).then(|| (point, kind, format!("{own},{options}")))
    };
    // Of identical mount points, the last one covers the others.
    let (point, kind, options) = mounts.lines().filter_map(of).max_by_key(|(point, ..)| point.len())?;
    let unsafe_ones = ["nobarrier", "barrier=0", "volatile"];
    let found: Vec<&str> = options.split(',').filter(|option| unsafe_ones.contains(option)).collect();
    let in_memory = kind == "tmpfs" || kind == "ramfs";
    let value = format!(
        "{kind} ({})",
        options.split(',').collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",")
    );
    Some(if in_memory {
        Condition::bends(
            "durability",
            value,
            "files are in memory only: fsync() costs nothing and stores nothing",
            Remedy::default(),
        )
    } else if !found.is_empty() {
        let effect = format!("{}: data written by fsync() may be lost in a power failure", found.join(", "));
        let remedy = Remedy::of(
            format!("mount -o remount,barrier {}", quoted(&point)),
            format!("without {} for {point} in /etc/fstab", found.join(", ")),
            "each sync waits for the device",
        );
        // An overlay's option is fixed at mount time.
        let remedy = if found == ["volatile"] { Remedy { now: None, ..remedy } } else { remedy };
        Condition::bends("durability", value, &effect, remedy)
    } else if options.split(',').any(|option| option == "sync") {
        let remedy = Remedy::of(
            format!("mount -o remount,async {}", quoted(&point)),
            format!("without sync for {point} in /etc/fstab"),
            "data that a program does not sync may be lost in a power failure",
        );
        Condition::bends("durability", value, "sync: each write waits for the device", remedy)
    } else {
        Condition::fine("durability", value, "fsync() waits for the device")
    })
}

fn leftovers(context: &Context) -> Option<Condition> {
    let waiting = context.ports.time_wait;
    let own: Vec<String> = context
        .root
        .names("tmp")
        .into_iter()
        .filter(|name| name.starts_with("landau-scratch"))
        .map(|name| format!("/tmp/{name}"))
        .collect();
    let mut parts = vec![format!("sockets in TIME_WAIT: {}", grouped(waiting))];
    parts.extend(own.iter().cloned());
    parts.extend(context.killed_trial.map(|profile| format!("a killed trial of the profile {profile}")));
    let effect = if context.killed_trial.is_some() {
        "landau tune applied its profile and did not restore the settings"
    } else if waiting > 100 {
        "they hold ports: bind() and connect() search longer; they end within 60 s"
    } else if own.is_empty() {
        "nothing that distorts a curve"
    } else {
        "directories of runs that are in progress or were killed"
    };
    let remedy = context.killed_trial.map(|_| Remedy {
        now: Some("landau tune restore".to_owned()),
        for_good: None,
        risk: Some("a value that another process has changed since is kept and reported".to_owned()),
    });
    let bends = waiting > 100 || !own.is_empty() || remedy.is_some();
    Some(Condition::when(bends, "leftovers", parts.join(", "), effect, remedy.unwrap_or_default()))
}

/// Reports programs that change sysctls during a measurement.
fn tuners(context: &Context) -> Option<Condition> {
    let known = ["tuned", "bpftune", "tuned-ppd", "power-profiles-daemon", "irqbalance", "earlyoom", "systemd-oomd"];
    // The kernel keeps only 15 characters of a name.
    let is_running = |name: &&&str| context.census.programs.contains_key(&name[..name.len().min(15)]);
    let found: Vec<&str> = known.iter().filter(is_running).copied().collect();
    Some(if found.is_empty() {
        Condition::fine("tuners", "none running", "no program changes settings during a run")
    } else {
        let names = found.join(" ");
        let remedy = Remedy::of(
            format!("systemctl stop {names}"),
            format!("systemctl disable --now {names}"),
            "their settings may remain, and are no longer adapted to the load",
        );
        Condition::bends("tuners", found.join(", "), "settings may change while something is measured", remedy)
    })
}

fn load(context: &Context) -> Option<Condition> {
    let text = context.root.text("proc/loadavg")?;
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    let memory = context.root.text("proc/meminfo").unwrap_or_default();
    let swap = field(&memory, "SwapTotal").zip(field(&memory, "SwapFree")).map_or(0, |(all, free)| all - free);
    let is_loaded = load > 0.5 || swap > 0;
    let value = format!("{load:.2} over the last minute{}", if swap > 0 { ", swap in use" } else { "" });
    let effect = if is_loaded {
        "other programs are running and affect the measured times"
    } else {
        "hardly anything else is running"
    };
    Some(Condition::when(is_loaded, "load", value, effect, Remedy::default()))
}
