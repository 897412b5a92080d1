//! The root of `/proc` and `/sys`: `/`, or a directory in which a test has created a host.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of a host's `/proc`, `/sys` and `/etc`.
#[derive(Debug, Clone)]
pub struct Root {
    prefix: PathBuf,
}

impl Root {
    /// Returns the root of this host.
    pub fn live() -> Self {
        Self { prefix: PathBuf::from("/") }
    }

    /// Returns the root of a host that a test created in a directory.
    pub fn planted(folder: &Path) -> Self {
        Self { prefix: folder.to_owned() }
    }

    /// Returns whether it is this host, so that the kernel can be queried beyond its files.
    pub(crate) fn is_live(&self) -> bool {
        self.prefix == Path::new("/")
    }

    /// Returns the full path of a path with or without a leading `/`.
    pub fn path(&self, path: &str) -> PathBuf {
        self.prefix.join(path.trim_start_matches('/'))
    }

    /// Returns the text of a file without trailing white space; `None` if it cannot be read. Names of programs, paths
    /// and sockets in it may have arbitrary bytes: the kernel truncates the name of a program even within a character.
    pub fn text(&self, path: &str) -> Option<String> {
        fs::read(self.path(path)).ok().map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// Returns the number in a file; `None` if it cannot be read or has another value, such as `max`.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// Returns the value of a sysctl by its name, such as `net.core.somaxconn`, with single spaces.
    pub fn sysctl(&self, name: &str) -> Option<String> {
        let text = self.text(&format!("proc/sys/{}", name.replace('.', "/")))?;
        Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Returns the value of a numeric sysctl.
    pub(crate) fn sysctl_number(&self, name: &str) -> Option<u64> {
        self.sysctl(name)?.parse().ok()
    }

    /// Returns the values of a sysctl with several numbers, such as `net.ipv4.tcp_mem`.
    pub(crate) fn sysctl_numbers(&self, name: &str) -> Vec<u64> {
        let text = self.sysctl(name).unwrap_or_default();
        text.split(' ').filter_map(|word| word.parse().ok()).collect()
    }

    /// Returns the names in a directory, sorted; empty if it cannot be read.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the target of a link, verbatim; `None` if it cannot be read.
    pub fn link(&self, path: &str) -> Option<String> {
        fs::read_link(self.path(path)).ok()?.into_os_string().into_string().ok()
    }
}

/// Returns the number after `name:` on its line, in `/proc/meminfo` and `/proc/PID/status`; kilobytes are converted to
/// bytes.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut words = line.split_ascii_whitespace();
    let value: u64 = words.next()?.parse().ok()?;
    Some(if words.next() == Some("kB") { value * 1024 } else { value })
}

/// Returns the number after `name` and a space on its line, in `/proc/vmstat` and cgroup files.
pub(crate) fn counter(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kilobytes_are_bytes_and_names_are_whole() {
        let text = "MemTotal:  8 kB\nSlab: 5\nSReclaimable: 7 kB";
        assert_eq!((field(text, "MemTotal"), field(text, "Slab"), field(text, "Mem")), (Some(8192), Some(5), None));
    }

    #[test]
    fn a_planted_file_is_read() {
        let room = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(room.path().join("proc/sys/net/ipv4")).unwrap();
        std::fs::write(room.path().join("proc/sys/net/ipv4/ip_local_port_range"), "32768\t60999\n").unwrap();
        let root = Root::planted(room.path());
        assert_eq!(root.sysctl("net.ipv4.ip_local_port_range").as_deref(), Some("32768 60999"));
        assert_eq!(root.sysctl_numbers("net.ipv4.ip_local_port_range"), [32768, 60999]);
        assert_eq!(root.sysctl_number("net.core.somaxconn"), None);
    }
}
