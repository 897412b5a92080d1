//! Advice for when this process cannot read another one.

use crate::root::Root;
use crate::subject::is_in_first_users;

/// The capability to read processes of other users, or with more capabilities (ptrace(2)).
const CAP_SYS_PTRACE: u64 = 1 << 19;

/// Returns what to do so that `command` can read another process, as a clause.
pub(crate) fn advice(root: &Root, command: &str) -> String {
    of_root(root, command).unwrap_or_else(|| format!("run {command} as root or as the program's user"))
}

/// Like [`advice`], if this process is root's; otherwise `None`.
pub(crate) fn of_root(root: &Root, command: &str) -> Option<String> {
    let status = root.text("proc/self/status").unwrap_or_default();
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    // The second user is the effective one.
    let user = value("Uid")?.split_ascii_whitespace().nth(1)?;
    let capabilities = value("CapEff").and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    if user != "0" {
        return None;
    }
    Some(if capabilities & CAP_SYS_PTRACE == 0 {
        format!(
            "root lacks CAP_SYS_PTRACE here, as in most containers: run {command} on the host, or give the container \
             the capability (docker run --cap-add SYS_PTRACE)"
        )
    } else if is_in_first_users(root, "self") {
        format!("even root is denied: a security module such as AppArmor may block {command}")
    } else {
        format!("root of this user namespace has no rights outside of it: run {command} on the host")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Root was once told to run the command as root.
    #[test]
    fn root_without_the_capability_is_told_of_it() {
        let said = |users: &str, capabilities: &str, map: &str| {
            let room = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(room.path().join("proc/self")).unwrap();
            let status = format!("Name:\tlandau\nUid:\t{users}\nCapEff:\t{capabilities}\n");
            std::fs::write(room.path().join("proc/self/status"), status).unwrap();
            std::fs::write(room.path().join("proc/self/uid_map"), map).unwrap();
            advice(&Root::planted(room.path()), "landau inspect")
        };
        let (all, of_docker, first) = ("000001ffffffffff", "00000000a80425fb", "0 0 4294967295");
        assert!(said("1000\t1000\t1000\t1000", "0", first).contains("as root or as the program's user"));
        assert!(said("1000\t0\t0\t0", of_docker, first).contains("--cap-add SYS_PTRACE"));
        assert!(said("0\t0\t0\t0", of_docker, first).contains("--cap-add SYS_PTRACE"));
        assert!(said("0\t0\t0\t0", all, first).contains("security module"));
        assert!(said("0\t0\t0\t0", all, "0 100000 65536").contains("user namespace"));
    }
}
