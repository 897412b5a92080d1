//! Which settings of Linux belong to a network namespace, and so may be tried in one without touching the host.
//!
//! How the list came about: in guests with Linux 5.10 and 6.12, every file below `/proc/sys/net` of a fresh namespace
//! was written to, and read again outside. All but one stayed within (`net.netfilter.nf_hooks_lwtunnel` on 6.12 is the
//! system's although the namespace shows it), some could only be read (`net.core.rmem_max`), and what else is global
//! below `net` is not to be seen there at all. Of those that stayed within, the ones that bear on a benchmark of ours
//! are listed. The test below writes each one in a namespace of the running kernel and reads it outside.
//! `fs`, `vm` and `kernel` are global: written inside a network namespace they are accepted, and change the host.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The settings that a network namespace has to itself.
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

/// The file of a setting.
pub fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

/// Why a setting cannot be tried in a network namespace, and what can try it; `Ok` if it can.
pub fn check(name: &str) -> Result<(), String> {
    if OF_A_NETWORK.contains(&name) {
        return Ok(());
    }
    let why = if name.starts_with("net.") {
        "is not known to belong to a network namespace: written in one it could change the host, or be refused"
    } else {
        "belongs to the whole system: written in a network namespace it would change the host"
    };
    Err(format!("{name} {why}; --platform exact or kvm sets it in a guest of its own"))
}

/// Whether all of them can be tried.
pub fn check_all(sysctls: &BTreeMap<String, String>) -> Result<(), String> {
    sysctls.keys().try_for_each(|name| check(name))
}

/// What these settings are now, as far as they can be read here.
pub fn values<'a>(names: impl Iterator<Item = &'a String>) -> BTreeMap<String, String> {
    let value = |name: &String| Some((name.clone(), std::fs::read_to_string(path(name)).ok()?));
    names.filter_map(value).collect()
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_global_is_refused_with_what_can_do_it() {
        for name in ["fs.file-max", "vm.max_map_count", "kernel.pid_max", "net.core.rmem_max", "net.ipv4.tcp_mem"] {
            let refused = check(name).unwrap_err();
            assert!(refused.contains(name) && refused.contains("--platform exact"), "{refused}");
        }
        for name in ["net/ipv4/tcp_rmem", "net.ipv4.tcp_rmem/../../../fs/file-max", ""] {
            assert!(check(name).is_err(), "{name}");
        }
        assert_eq!(check("net.core.somaxconn"), Ok(()));
    }

    /// Another value for a setting, of the same form.
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

    /// Guards the host: a name in the list that is global would be found here, and what it changed put back.
    #[test]
    fn each_one_written_in_a_namespace_stays_there() {
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
                panic!("{name} was written in a namespace and changed the host; it was put back");
            }
            assert!(written.is_some() || before[name].is_none(), "{name} could not be changed in a namespace");
            changed += u32::from(written.is_some());
        }
        assert!(changed > 30, "only {changed} settings could be tried");
    }
}
