//! The control groups of a process, of both versions, and the groups that contain them.
//!
//! A group's limit is for all groups in it together, so every level up to the mount point counts. A container sees the
//! hierarchy from its own group on: what is above cannot be read.

use crate::root::Root;

/// A control group, at one level of its hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its name: the path in its hierarchy, `/` for the topmost that can be seen.
    pub(crate) name: String,
    /// Its folder, below the root of the file system.
    pub(crate) folder: String,
    /// Whether it is of version 2.
    pub(crate) is_unified: bool,
}

impl Group {
    /// Returns the path of one of its files.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// Returns the command that writes a value into one of its files. systemd escapes names with a backslash.
    pub(crate) fn command(&self, name: &str, value: u64) -> String {
        format!("echo {value} > '{}'", self.file(name))
    }
}

/// Returns the groups of a process that have a controller (`pids`, `memory`), from its own one up. A hierarchy of
/// version 2 is always among them; whether a group has the controller, its files say.
pub(crate) fn groups(root: &Root, process: &str, controller: &str) -> Vec<Group> {
    let memberships = root.text(&format!("proc/{process}/cgroup")).unwrap_or_default();
    let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
    let mut found = Vec::new();
    for line in memberships.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(names), Some(path)) = (parts.next(), parts.next()) else { continue };
        let is_unified = names.is_empty();
        if !is_unified && !names.split(',').any(|name| name == controller) {
            continue;
        }
        let Some((mount_point, top)) = mount_of(&mounts, is_unified.then_some("cgroup2"), controller) else { continue };
        // In a container the mount shows a part of the hierarchy, and the path may be from its own top.
        let below = path.strip_prefix(top.trim_end_matches('/')).unwrap_or(path);
        // It is outside of what the mount shows, and nothing there contains it.
        if below.split('/').any(|name| name == "..") {
            continue;
        }
        found.extend(levels(&mount_point, below, is_unified));
    }
    found
}

/// Returns the mount point of a hierarchy, and which of its groups is at its top.
fn mount_of(mounts: &str, kind: Option<&str>, controller: &str) -> Option<(String, String)> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (top, mount_point) = (fields.next()?, fields.next()?);
        let mut words = after.split(' ');
        let (system, options) = (words.next()?, words.nth(1).unwrap_or_default());
        let is_it = match kind {
            Some(kind) => system == kind,
            None => system == "cgroup" && options.split(',').any(|option| option == controller),
        };
        is_it.then(|| (mount_point.to_owned(), top.to_owned()))
    })
}

/// Returns a group and those that contain it, up to the mount point.
fn levels(mount_point: &str, path: &str, is_unified: bool) -> Vec<Group> {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let level = |count: usize| {
        let name = format!("/{}", names[..count].join("/"));
        let folder = format!("{}{}", mount_point, if count == 0 { "" } else { &name });
        Group { name, folder, is_unified }
    };
    (0..=names.len()).rev().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "32 31 0:29 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
                          33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                          41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

    fn planted(cgroup: &str, mounts: &str) -> (tempfile::TempDir, Root) {
        let room = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(room.path().join("proc/self")).unwrap();
        std::fs::write(room.path().join("proc/self/cgroup"), cgroup).unwrap();
        std::fs::write(room.path().join("proc/self/mountinfo"), mounts).unwrap();
        let root = Root::planted(room.path());
        (room, root)
    }

    fn folders(root: &Root, controller: &str) -> Vec<String> {
        groups(root, "self", controller).into_iter().map(|group| group.folder).collect()
    }

    #[test]
    fn both_versions_are_followed_up_to_the_mount_point() {
        let (_room, root) = planted("8:pids:/a/b\n4:memory:/m\n1:cpu:/\n0::/u\n", MOUNTS);
        let expected = [
            "/sys/fs/cgroup/pids/a/b",
            "/sys/fs/cgroup/pids/a",
            "/sys/fs/cgroup/pids",
            "/sys/fs/cgroup/unified/u",
            "/sys/fs/cgroup/unified",
        ];
        assert_eq!(folders(&root, "pids"), expected);
        assert_eq!(folders(&root, "memory")[0], "/sys/fs/cgroup/memory/m");
    }

    /// Docker mounts the container's own group, and without a namespace the path is from the host's top.
    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let mounts = "32 31 0:29 /docker/abc /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids";
        let (_room, root) = planted("8:pids:/docker/abc/x\n", mounts);
        assert_eq!(folders(&root, "pids"), ["/sys/fs/cgroup/pids/x", "/sys/fs/cgroup/pids"]);
        let mounts = "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw";
        let (_room, root) = planted("0::/\n", mounts);
        assert_eq!(folders(&root, "pids"), ["/sys/fs/cgroup"]);
        // A program of the host: no group that is seen here contains it, this container's own the least.
        let (_room, root) = planted("0::/../../init.scope\n", mounts);
        assert_eq!(folders(&root, "pids"), [""; 0]);
    }
}
