//! The sysctls of Linux that belong to a network namespace, and so can be set in one without changing the host.
//!
//! The list was made in guests with Linux 5.10 and 6.12: every file below `/proc/sys/net` of a new namespace was
//! written, and then read outside. All changes but one were local: `net.netfilter.nf_hooks_lwtunnel` of 6.12 is global
//! although the namespace shows it. Some files are read-only (`net.core.rmem_max`), and other global sysctls below
//! `net` are not visible there. Of the local ones, the list has those that influence a benchmark. The test below writes
//! each one in a namespace of the running kernel and reads it outside.
//! `fs`, `vm` and `kernel` are global: writing them inside a network namespace succeeds, and changes the host.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The sysctls that each network namespace has separately.
pub const OF_A_NETWORK: &[&str] = &[
    "net.core.somaxconn",
    "net.ipv4.ip_autobind_reuse",
    "net.ipv4.ip_default_ttl",
    "net.ipv4.ip_early_demux",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_nonlocal_bind",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_base_mss",
    "net.ipv4.tcp_child_ehash_entries",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_early_demux",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_migrate_req",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_retries1",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_child_hash_entries",
    "net.ipv4.udp_early_demux",
    "net.ipv4.udp_rmem_min",
    "net.ipv4.udp_wmem_min",
    "net.ipv6.bindv6only",
    "net.ipv6.conf.all.disable_ipv6",
    "net.ipv6.conf.default.disable_ipv6",
    "net.ipv6.conf.lo.disable_ipv6",
    "net.mptcp.enabled",
    "net.unix.max_dgram_qlen",
];

/// Returns the file of a sysctl.
pub fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

/// Checks that a sysctl can be set in a network namespace; the error says how it can be set otherwise.
pub fn check(name: &str) -> Result<(), String> {
    if OF_A_NETWORK.contains(&name) {
        return Ok(());
    }
    let why = if name.starts_with("net.") {
        "is not known to be local to a network namespace: setting it there could change the host"
    } else {
        "is global: setting it in a network namespace would change the host"
    };
    Err(format!("{name} {why}; --platform exact or kvm sets it in a guest"))
}

/// Checks that all of them can be set.
pub fn check_all(sysctls: &BTreeMap<String, String>) -> Result<(), String> {
    sysctls.keys().try_for_each(|name| check(name))
}

/// Returns the current values of these sysctls, without those that cannot be read.
pub fn values<'a>(names: impl Iterator<Item = &'a String>) -> BTreeMap<String, String> {
    let value = |name: &String| Some((name.clone(), std::fs::read_to_string(path(name)).ok()?));
    names.filter_map(value).collect()
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_sysctls_are_refused_with_an_alternative() {
        for name in ["fs.file-max", "vm.max_map_count", "kernel.pid_max", "net.core.rmem_max", "net.ipv4.tcp_mem"] {
            let refused = check(name).unwrap_err();
            assert!(refused.contains(name) && refused.contains("--platform exact"), "{refused}");
        }
        for name in ["net/ipv4/tcp_rmem", "net.ipv4.tcp_rmem/../../../fs/file-max", ""] {
            assert!(check(name).is_err(), "{name}");
        }
        assert_eq!(check("net.core.somaxconn"), Ok(()));
    }

    /// Returns other values of the same form.
    fn another(name: &str, value: &str) -> Vec<String> {
        let numbers: Option<Vec<i64>> = value.split_whitespace().map(|word| word.parse().ok()).collect();
        match (name, numbers.as_deref()) {
            ("net.ipv4.ip_local_port_range", _) => vec!["40000 42000".to_owned()],
            ("net.ipv4.ip_local_reserved_ports", _) => vec!["40000".to_owned()],
            (_, Some([one])) => vec![(one + 1).to_string(), (one - 1).to_string(), (one + 4096).to_string()],
            (_, Some([low, middle, high])) => vec![format!("{low} {middle} {}", high + 4096)],
            _ => vec!["reno".to_owned()],
        }
    }

    /// Guards the host: a global sysctl in the list is detected here, and its old value restored.
    #[test]
    fn each_sysctl_is_local_to_its_namespace() {
        let before: BTreeMap<&str, Option<String>> =
            OF_A_NETWORK.iter().map(|name| (*name, std::fs::read_to_string(path(name)).ok())).collect();
        // Only this thread enters the new network; the files show the network of the thread that reads them.
        let inside = std::thread::spawn(|| {
            if landau_sys::process::effective_user() != 0 || landau_sys::boot::unshare_network().is_err() {
                return None;
            }
            let (asked, answers) = std::sync::mpsc::channel::<(&str, Option<String>)>();
            for name in OF_A_NETWORK {
                let Ok(old) = std::fs::read_to_string(path(name)) else { continue };
                let written = another(name, old.trim()).into_iter().find(|new| {
                    let done = std::fs::write(path(name), new).is_ok();
                    done && std::fs::read_to_string(path(name)).is_ok_and(|now| now != old)
                });
                asked.send((name, written)).unwrap();
            }
            drop(asked);
            Some(answers)
        });
        let Some(answers) = inside.join().unwrap() else {
            println!("skipped: this needs root and network namespaces");
            return;
        };
        let mut changed = 0;
        for (name, written) in answers {
            let now = std::fs::read_to_string(path(name)).ok();
            if now != before[name] {
                std::fs::write(path(name), before[name].clone().unwrap_or_default()).unwrap();
                panic!("{name} was set in a namespace and changed the host; the old value is restored");
            }
            assert!(written.is_some() || before[name].is_none(), "{name} could not be changed in a namespace");
            changed += u32::from(written.is_some());
        }
        assert!(changed > 30, "only {changed} settings could be tried");
    }
}
