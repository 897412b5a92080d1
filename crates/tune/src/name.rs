//! The names of settings, and the settings that Landau never changes.

use landau_host::Root;
use std::fs;
use std::path::PathBuf;

/// Settings whose change cannot be undone, or that trigger an action instead of holding a state: the beginning of the
/// name, and why.
const UNTOUCHED: &[(&str, &str)] = &[
    ("kernel.modules_disabled", "it cannot be undone before the next boot"),
    ("kernel.kexec_load_disabled", "it cannot be undone before the next boot"),
    ("kernel.kexec_load_limit_", "it can only be lowered before the next boot"),
    ("kernel.tainted", "it cannot be undone before the next boot"),
    ("kernel.unprivileged_bpf_disabled", "it cannot be undone before the next boot"),
    ("kernel.yama.", "its largest value cannot be undone before the next boot"),
    ("kernel.core_pattern", "the kernel executes it as root"),
    ("kernel.modprobe", "the kernel executes it as root"),
    ("kernel.hotplug", "the kernel executes it as root"),
    ("kernel.usermodehelper.", "it cannot be undone before the next boot"),
    ("kernel.panic", "it controls what the host does after a kernel failure"),
    ("kernel.shm_rmid_forced", "setting it destroys shared memory segments, which are not restored"),
    ("fs.binfmt_misc.", "what is written to it is not the state that it shows"),
    ("kernel.ns_last_pid", "it is not a setting: every new process changes it"),
    ("vm.drop_caches", "it is an action, not a setting"),
    ("vm.compact_memory", "it is an action, not a setting"),
    ("vm.stat_refresh", "it is an action, not a setting"),
    ("vm.dirty_bytes", "writing it sets vm.dirty_ratio to 0; use vm.dirty_ratio"),
    ("vm.dirty_background_bytes", "writing it sets vm.dirty_background_ratio to 0; use vm.dirty_background_ratio"),
    ("vm.overcommit_kbytes", "writing it sets vm.overcommit_ratio to 0; use vm.overcommit_ratio"),
];

/// The same, by the whole name, because other names begin with it.
const UNTOUCHED_ITSELF: &[(&str, &str)] =
    &[("kernel.watchdog", "writing it sets kernel.nmi_watchdog and kernel.soft_watchdog; use one of these")];

/// The same for network settings, by the end of the name.
const UNTOUCHED_OF_THE_NETWORK: &[(&str, &str)] = &[
    (".ip_forward", "writing it changes settings of the interfaces"),
    (".forwarding", "writing it changes settings of the interfaces"),
    (".force_forwarding", "writing it changes settings of the interfaces"),
    (".addr_gen_mode", "writing it changes settings of the interfaces"),
    (".ignore_routes_with_linkdown", "writing it changes settings of the interfaces"),
    (".disable_ipv6", "setting it removes addresses, which are not restored"),
    (".unres_qlen", "the kernel rounds it, so it cannot be restored; use unres_qlen_bytes"),
    (".base_reachable_time", "the kernel rounds it, so it cannot be restored; use base_reachable_time_ms"),
    (".retrans_time", "the kernel rounds it, so it cannot be restored; use retrans_time_ms"),
];

/// Pairs of settings. If the second is not 0, it is in effect instead of the first; writing the first sets it to 0.
const TWINS: &[(&str, &str)] = &[
    ("vm.dirty_ratio", "vm.dirty_bytes"),
    ("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
    ("vm.overcommit_ratio", "vm.overcommit_kbytes"),
];

/// Returns the setting that is in effect instead of this one on a host, and its value; `None` if this one is in effect.
pub(crate) fn twin(root: &Root, name: &str) -> Option<(&'static str, String)> {
    let (_, twin) = TWINS.iter().find(|(one, _)| *one == name)?;
    root.sysctl(twin).filter(|value| value != "0").map(|value| (*twin, value))
}

/// Checks the name of a sysctl: words of a file below `/proc/sys`, separated by dots.
///
/// # Errors
///
/// Returns why it is not accepted.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let is_word = |word: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        !word.is_empty() && word.bytes().all(is_letter)
    };
    if !name.contains('.') || !name.split('.').all(is_word) {
        return Err("write a sysctl as sysctl(8) does, such as net.core.somaxconn".to_owned());
    }
    let of_the_network =
        UNTOUCHED_OF_THE_NETWORK.iter().filter(|(end, _)| name.starts_with("net.") && name.ends_with(end));
    let itself = UNTOUCHED_ITSELF.iter().filter(|(one, _)| name == *one);
    let mut found = UNTOUCHED.iter().filter(|(start, _)| name.starts_with(start)).chain(itself).chain(of_the_network);
    match found.next() {
        Some((_, why)) => Err(format!("landau tune does not change it: {why}")),
        None => Ok(()),
    }
}

/// Checks a value: one line of printable text.
///
/// # Errors
///
/// Returns why it is not accepted.
pub(crate) fn check_value(value: &str) -> Result<(), String> {
    let is_printable = |byte: u8| (b' '..=b'~').contains(&byte) || byte == b'\t';
    if value.trim().is_empty() || value.len() > 1024 || !value.bytes().all(is_printable) {
        return Err("a value is one line of at most 1,024 printable characters".to_owned());
    }
    Ok(())
}

/// Returns the file of a sysctl whose name was checked.
pub(crate) fn file(root: &Root, name: &str) -> PathBuf {
    root.path(&format!("proc/sys/{}", name.replace('.', "/")))
}

/// Writes a value.
pub(crate) fn write(root: &Root, name: &str, value: &str) -> std::io::Result<()> {
    // The kernel would not see a write of an empty text.
    fs::write(file(root, name), if value.is_empty() { "\n" } else { value })
}

/// Returns a value with single spaces between its words; the kernel separates them by tabs.
pub(crate) fn normalized(value: &str) -> String {
    value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_the_folder_of_sysctls() {
        for name in ["net.core.somaxconn", "net.ipv4.conf.eth0-1.rp_filter", "vm.dirty_ratio"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in ["", "net", "net..core", "net.../etc", "net/core/somaxconn", "a.b\n", ".a", "a. b"] {
            assert!(check(name).is_err(), "{name:?}");
        }
        for name in [
            "net.ipv4.ip_forward",
            "net.ipv6.conf.all.disable_ipv6",
            "net.ipv4.conf.default.forwarding",
            "net.ipv6.conf.all.force_forwarding",
            "net.ipv6.conf.all.addr_gen_mode",
            "net.ipv6.conf.all.ignore_routes_with_linkdown",
            "net.ipv4.neigh.default.unres_qlen",
            "net.ipv6.neigh.eth0.base_reachable_time",
            "fs.binfmt_misc.status",
            "kernel.shm_rmid_forced",
        ] {
            assert!(check(name).is_err(), "{name}");
        }
        assert!(check("net.ipv4.neigh.default.unres_qlen_bytes").is_ok());
        assert!(check("net.ipv4.neigh.default.base_reachable_time_ms").is_ok());
        assert!(check("net.ipv4.ip_forward_use_pmtu").is_ok() && check("kernel.kexec_load_limit_reboot").is_err());
        let refused = check("kernel.watchdog").unwrap_err();
        assert!(refused.contains("kernel.soft_watchdog"), "{refused}");
        assert!(check("kernel.watchdog_thresh").is_ok() && check("kernel.nmi_watchdog").is_ok());
        let refused = check("vm.dirty_bytes").unwrap_err();
        assert!(refused.contains("vm.dirty_ratio"), "{refused}");
        assert!(
            check_value("4096 131072\t6291456").is_ok() && check_value("1\n2").is_err() && check_value(" ").is_err()
        );
    }
}
