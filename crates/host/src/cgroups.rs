//! The control groups of a process, of versions 1 and 2, and the groups that contain them.
//!
//! The limit of a group applies to all groups in it together, so every level up to the mount point counts. A container
//! sees the hierarchy only from its own group down; the levels above cannot be read.

use crate::root::{Root, counter};
use crate::row::Counter;
use crate::text::{quoted, unescaped};
use std::fmt::Display;

/// A control group, at one level of its hierarchy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its name: the path in its hierarchy, `/` for the topmost visible group.
    pub(crate) name: String,
    /// Its directory, as a path from the root of the file system.
    pub(crate) folder: String,
    /// Whether it is a version 2 group.
    pub(crate) is_unified: bool,
}

impl Group {
    /// Returns the path of one of its files.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// Returns the command that writes a value into one of its files. The path is quoted, because systemd escapes names
    /// with a backslash.
    pub(crate) fn command(&self, name: &str, value: impl Display) -> String {
        format!("echo {value} > '{}'", self.file(name))
    }

    /// Returns the type of the group's systemd unit (such as `service`), from the suffix of its name.
    fn unit_kind(&self) -> Option<&str> {
        let (_, kind) = self.name.rsplit_once('.')?;
        ["service", "slice", "scope"].contains(&kind).then_some(kind)
    }

    /// Returns the service of the user manager that started the group's unit, such as `user@7.service`.
    pub(crate) fn manager(&self) -> Option<String> {
        let (above, _) = self.name.rsplit_once('/')?;
        above.split('/').find(|name| name.starts_with("user@")).map(quoted)
    }

    /// Returns the command that edits the settings of the group's systemd unit. If the group does not belong to a unit,
    /// the command has a placeholder for the name. A scope has no persistent settings.
    pub(crate) fn edit_command(&self) -> String {
        match (self.unit_kind(), self.name.rsplit_once('/')) {
            (Some("service" | "slice"), Some((_, unit))) => {
                let whose = if self.manager().is_some() { "--user " } else { "" };
                format!("systemctl {whose}edit {}", quoted(unit))
            }
            _ => "systemctl edit UNIT".to_owned(),
        }
    }

    /// Returns how often this group hit its own limit, for version 2. Newer kernels have a file without the events of
    /// descendant groups: for `memory` since Linux 5.2, for `pids` since 6.11.
    pub(crate) fn local_event(&self, root: &Root, controller: &str, name: &str) -> Option<Counter> {
        let names = ["events.local", "events"].map(|end| format!("{controller}.{end}"));
        let (file, text) = names.into_iter().find_map(|file| root.text(&self.file(&file)).map(|text| (file, text)))?;
        Some(Counter { name: format!("{file} {name}"), value: counter(&text, name)? })
    }
}

/// Returns the groups of a process that have a controller (`pids`, `memory`), from its own group upwards. A version 2
/// hierarchy is always included; its files show whether a group has the controller.
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
        // A mount shows the hierarchy below its top. A group that no mount shows is not contained in any visible group.
        let shown = mounts_of(&mounts, is_unified.then_some("cgroup2"), controller)
            .filter_map(|(mount_point, top)| Some((below(path, &top)?.to_owned(), mount_point)));
        if let Some((below, mount_point)) = shown.max_by_key(|(below, _)| below.len()) {
            found.extend(levels(&mount_point, &below, is_unified));
        }
    }
    found
}

/// Returns the group of the systemd service of a process. Returns `None` if it belongs to another unit, such as the
/// scope of a session.
pub(crate) fn service(root: &Root, process: &str) -> Option<Group> {
    let unit = groups(root, process, "name=systemd").into_iter().find(|group| group.unit_kind().is_some());
    unit.filter(|group| group.unit_kind() == Some("service"))
}

/// Returns the path of a group relative to the top of a mount; `None` if the mount does not show it. The kernel writes
/// both paths as seen from the reader's cgroup namespace, where `..` leads to an outer one.
fn below<'a>(path: &'a str, top: &str) -> Option<&'a str> {
    let below = path.strip_prefix(top.trim_end_matches('/'))?;
    let is_whole = below.is_empty() || below.starts_with('/');
    (is_whole && below.split('/').all(|name| name != "..")).then_some(below)
}

/// Returns the mount points of a hierarchy, each with the group at its top.
fn mounts_of<'a>(
    mounts: &'a str,
    kind: Option<&'a str>,
    controller: &'a str,
) -> impl Iterator<Item = (String, String)> + use<'a> {
    mounts.lines().filter_map(move |line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (top, mount_point) = (fields.next()?, fields.next()?);
        let mut words = after.split(' ');
        let (system, options) = (words.next()?, words.nth(1).unwrap_or_default());
        let is_it = match kind {
            Some(kind) => system == kind,
            None => system == "cgroup" && options.split(',').any(|option| option == controller),
        };
        is_it.then(|| (unescaped(mount_point), unescaped(top)))
    })
}

/// Returns a group and its ancestors, up to the mount point.
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

    /// Every remedy once contained the placeholder UNIT. The unit of a user belongs to another manager, and the name of
    /// a scope is not persistent.
    #[test]
    fn remedies_name_the_unit_of_a_group_and_the_service_of_a_process() {
        let edits = |path: &str| {
            let mounts =
                format!("{MOUNTS}\n42 31 0:39 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd");
            let (_room, root) = planted(&format!("8:pids:{path}\n1:name=systemd:{path}\n"), &mounts);
            let own = groups(&root, "self", "pids").remove(0).edit_command();
            let service = service(&root, "self").unwrap_or_default().edit_command();
            [own, service].map(|command| command.strip_prefix("systemctl ").unwrap().to_owned())
        };
        assert_eq!(edits("/system.slice/nginx.service"), ["edit nginx.service"; 2]);
        assert_eq!(edits("/system.slice/a\\x2db.service"), ["edit 'a\\x2db.service'"; 2]);
        assert_eq!(edits("/system.slice/db.service/payload"), ["edit UNIT", "edit db.service"]);
        assert_eq!(edits("/user.slice"), ["edit user.slice", "edit UNIT"]);
        let of_user = "/user.slice/user-7.slice/user@7.service";
        assert_eq!(edits(of_user), ["edit user@7.service"; 2]);
        assert_eq!(edits(&format!("{of_user}/app.slice/a.service")), ["--user edit a.service"; 2]);
        assert_eq!(edits(&format!("{of_user}/app.slice/a.scope")), ["edit UNIT"; 2]);
        for other in ["/", "/docker/abc", "/user.slice/user-7.slice/session-3.scope"] {
            assert_eq!(edits(other), ["edit UNIT"; 2], "{other}");
        }
        // A version 2 group, and one that is not visible from here.
        let mounts = "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw";
        for (path, expected) in [("/a.service", "systemctl edit a.service"), ("/../a.service", "systemctl edit UNIT")] {
            let (_room, root) = planted(&format!("0::{path}\n"), mounts);
            assert_eq!(service(&root, "self").unwrap_or_default().edit_command(), expected);
        }
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

    /// Docker mounts the container's own group. Without a cgroup namespace, the path starts at the host's top.
    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let mounts = "32 31 0:29 /docker/abc /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids";
        let (_room, root) = planted("8:pids:/docker/abc/x\n", mounts);
        assert_eq!(folders(&root, "pids"), ["/sys/fs/cgroup/pids/x", "/sys/fs/cgroup/pids"]);
        let mounts = "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw";
        let (_room, root) = planted("0::/\n", mounts);
        assert_eq!(folders(&root, "pids"), ["/sys/fs/cgroup"]);
        // A program of the host: no group visible here contains it, least of all this container's.
        let (_room, root) = planted("0::/../../init.scope\n", mounts);
        assert_eq!(folders(&root, "pids"), [""; 0]);
    }

    /// A container without a cgroup namespace reads the host's paths. The limit of its own group was once attributed to
    /// processes of the host, and to other containers whose names have its name as a prefix.
    #[test]
    fn a_container_does_not_give_its_limits_to_processes_outside() {
        let mounts = "32 31 0:29 /docker/abc /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n\
                      30 23 0:26 /docker/abc /sys/fs/cgroup/unified ro - cgroup2 cgroup rw";
        for outside in ["/", "/system.slice/nginx.service", "/docker/abcdef", "/docker"] {
            let (_room, root) = planted(&format!("8:pids:{outside}\n0::{outside}\n"), mounts);
            assert_eq!(folders(&root, "pids"), [""; 0], "{outside}");
        }
        let (_room, root) = planted("8:pids:/docker/abc\n", mounts);
        assert_eq!(folders(&root, "pids"), ["/sys/fs/cgroup/pids"]);
        // The mount belongs to an outer namespace: a path that starts there is below it.
        let mounts = "30 23 0:26 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw";
        let (_room, root) = planted("0::/../../init.scope\n", mounts);
        assert_eq!(folders(&root, "pids"), ["/sys/fs/cgroup/init.scope", "/sys/fs/cgroup"]);
        // The paths do not show which group of the mount this one is.
        let (_room, root) = planted("0::/x\n", mounts);
        assert_eq!(folders(&root, "pids"), [""; 0]);
    }

    /// A container may see the whole hierarchy in addition to its own part. The kernel escapes backslashes.
    #[test]
    fn the_mount_that_shows_most_levels_counts() {
        let mounts = "31 23 0:29 /m/a\\134x2db /own ro - cgroup cgroup rw,pids\n\
                      32 23 0:29 / /all ro - cgroup cgroup rw,pids";
        let (_room, root) = planted("8:pids:/m/a\\x2db\n", mounts);
        assert_eq!(folders(&root, "pids"), ["/all/m/a\\x2db", "/all/m", "/all"]);
        let (_room, root) = planted("8:pids:/m/a\\x2db/c\n", mounts.lines().next().unwrap());
        assert_eq!(folders(&root, "pids"), ["/own/c", "/own"]);
    }
}
