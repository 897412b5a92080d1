//! The process whose limits are read: this one, or a running program.

use crate::rights;
use crate::root::{Root, field};
use serde::Serialize;
use std::collections::BTreeMap;

/// The capabilities that exempt a process from `RLIMIT_NPROC` (clone(2)) and let it raise its hard limits.
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_SYS_RESOURCE: u64 = 1 << 24;

/// The initial user namespace, whose number the kernel fixes.
pub(crate) const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

/// A process.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// Its directory in `/proc`: `self` or its pid.
    pub(crate) name: String,
    /// Whether it is a program that the user specified.
    pub(crate) is_other: bool,
    pub(crate) program: String,
    /// Soft and hard limits by their names in `/proc/PID/limits`; [`u64::MAX`] means no limit.
    limits: BTreeMap<String, (u64, u64)>,
    /// Real user identifier.
    pub(crate) user: Option<u64>,
    capabilities: u64,
    /// Whether it is in the initial user namespace: in others, its capabilities do not override limits of the host.
    is_in_first_users: bool,
    /// The size of its address space and of its data, in bytes.
    pub(crate) address_bytes: u64,
    pub(crate) data_bytes: u64,
    /// The size of its stack, in bytes.
    pub(crate) stack_bytes: u64,
    pub(crate) threads: u64,
    /// The number of open descriptors, if it can be read.
    pub(crate) descriptors: Option<u64>,
    /// The number of mappings, if it can be read.
    pub(crate) maps: Option<u64>,
    /// What could not be read, with the reason.
    pub(crate) unread: Vec<Unread>,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// What could not be read.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl Subject {
    /// Reads a process; `None` if it does not exist.
    pub(crate) fn read(root: &Root, pid: Option<u32>) -> Option<Self> {
        let name = pid.map_or("self".to_owned(), |pid| pid.to_string());
        let at = |file: &str| format!("proc/{name}/{file}");
        let status = root.text(&at("status"))?;
        let of = |name: &str| field(&status, name);
        let hexadecimal = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            u64::from_str_radix(line.trim(), 16).ok()
        };
        let listed = |path: &str| std::fs::read_dir(root.path(path)).map(|entries| entries.flatten().count() as u64);
        let mut unread = Vec::new();
        let mut count = |what: &str, counted: std::io::Result<u64>| match counted {
            Ok(count) => Some(count),
            Err(error) => {
                let why = format!("{error}; {}", rights::advice(root, "landau doctor"));
                unread.push(Unread { what: what.to_owned(), why });
                None
            }
        };
        // The descriptor used to read the directory is listed with the others.
        let own = u64::from(pid.is_none());
        let descriptors = count("its descriptors", listed(&at("fd")).map(|count| count.saturating_sub(own)));
        let maps = std::fs::read(root.path(&at("maps"))).map(|text| {
            // The last line is the processor's vsyscall page, which is not a mapping of the process.
            let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
            lines.filter(|line| !line.ends_with(b"[vsyscall]")).count() as u64
        });
        let maps = count("its mappings", maps).filter(|&count| count > 0);
        Some(Self {
            is_other: pid.is_some(),
            program: root.text(&at("comm")).unwrap_or_default(),
            limits: limits(&root.text(&at("limits")).unwrap_or_default()),
            user: of("Uid"),
            capabilities: hexadecimal("CapEff").unwrap_or(0),
            is_in_first_users: is_in_first_users(root, &name),
            address_bytes: of("VmSize").unwrap_or(0),
            data_bytes: of("VmData").unwrap_or(0),
            stack_bytes: of("VmStk").unwrap_or(0),
            threads: of("Threads").unwrap_or(1),
            descriptors,
            maps,
            unread,
            name,
        })
    }

    /// Returns the soft and the hard limit of a resource, by its name in `/proc/PID/limits`.
    pub(crate) fn limit(&self, name: &str) -> Option<(u64, u64)> {
        self.limits.get(name).copied()
    }

    /// Returns the path of one of its files.
    pub(crate) fn file(&self, file: &str) -> String {
        format!("proc/{}/{file}", self.name)
    }

    /// Returns whether the kernel applies `RLIMIT_NPROC` to it. Root and processes with some capabilities are exempt.
    /// Root of a user namespace other than the initial one counts as the user who created it.
    pub(crate) fn is_bound_by_user_tasks(&self) -> bool {
        self.user != Some(0) && !self.has(CAP_SYS_ADMIN | CAP_SYS_RESOURCE) || !self.is_in_first_users
    }

    /// Returns whether it is permitted to raise hard limits.
    pub(crate) fn may_raise_hard_limits(&self) -> bool {
        self.has(CAP_SYS_RESOURCE)
    }

    /// Returns whether it can use the memory that the kernel reserves for administrators.
    pub(crate) fn may_use_admin_reserve(&self) -> bool {
        self.has(CAP_SYS_ADMIN)
    }

    /// Returns whether it can open files beyond `fs.file-max`.
    pub(crate) fn may_exceed_open_files(&self) -> bool {
        self.has(CAP_SYS_ADMIN)
    }

    /// Returns whether it has one of the capabilities with effect on the host.
    fn has(&self, capabilities: u64) -> bool {
        self.is_in_first_users && self.capabilities & capabilities != 0
    }

    /// Returns whether it is in the same namespace of a kind (`net`, `pid`) as this process; `None` if that is unknown.
    pub(crate) fn shares_namespace(&self, root: &Root, kind: &str) -> Option<bool> {
        let link = |process: &str| root.link(&format!("proc/{process}/ns/{kind}"));
        Some(link(&self.name)? == link("self")?)
    }

    /// Returns its pid for use in a shell command; for a program that is started, the shell's.
    pub(crate) fn shell_pid(&self) -> &str {
        if self.is_other { &self.name } else { "$$" }
    }

    /// Returns the owner of its own limits.
    pub(crate) fn owner(&self) -> String {
        if self.is_other { format!("process {} ({})", self.name, self.program) } else { "this process".to_owned() }
    }
}

/// Returns whether a process is in the initial user namespace, by its user mapping if its link cannot be read.
pub(crate) fn is_in_first_users(root: &Root, process: &str) -> bool {
    if let Some(link) = root.link(&format!("proc/{process}/ns/user")) {
        return link == FIRST_USER_NAMESPACE;
    }
    let map = root.text(&format!("proc/{process}/uid_map"));
    map.is_none_or(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]))
}

/// Parses the table of `/proc/PID/limits`, whose columns have fixed positions.
fn limits(text: &str) -> BTreeMap<String, (u64, u64)> {
    let row = |line: &str| {
        let name = line.get(..26)?.trim().to_owned();
        let mut words = line.get(26..)?.split_ascii_whitespace();
        let mut value = || match words.next()? {
            "unlimited" => Some(u64::MAX),
            word => word.parse().ok(),
        };
        Some((name, (value()?, value()?)))
    };
    text.lines().skip(1).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_their_columns() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max open files            1024                 524288               files     \n\
                    Max address space         unlimited            unlimited            bytes     \n\
                    Max nice priority         0                    0                    \n";
        let limits = limits(text);
        assert_eq!(limits["Max open files"], (1_024, 524_288));
        assert_eq!(limits["Max address space"], (u64::MAX, u64::MAX));
        assert_eq!(limits.len(), 3);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_read() {
        let own = Subject::read(&Root::live(), None).unwrap();
        assert!(own.limit("Max open files").is_some_and(|(soft, hard)| 0 < soft && soft <= hard));
        assert!(own.descriptors.is_some_and(|count| count >= 3) && own.maps.is_some_and(|count| count > 5));
        assert!(own.unread.is_empty() && own.address_bytes > 0);
        assert!(Subject::read(&Root::live(), Some(u32::MAX)).is_none());
    }
}
