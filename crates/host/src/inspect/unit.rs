//! The first process of a systemd unit, from its control group.

use super::Error;
use super::sample::table;
use crate::root::Root;
use std::collections::BTreeSet;

/// The tops of systemd's hierarchies: the unified one, and systemd's own in addition to those of version 1.
const TOPS: &[&str] = &["sys/fs/cgroup", "sys/fs/cgroup/systemd", "sys/fs/cgroup/unified"];

/// The maximum nesting depth of slices, or of groups within a unit.
const DEPTH: usize = 8;

/// Returns the first process of a unit, which is the one whose parent is outside the unit. The name may omit
/// `.service`.
///
/// # Errors
///
/// [`Error::NoUnit`] if no control group has the name, or it has no process.
pub fn main_process(root: &Root, unit: &str) -> Result<u32, Error> {
    let name = if unit.contains('.') { unit.to_owned() } else { format!("{unit}.service") };
    let folders = TOPS.iter().filter_map(|top| find(root, top, &name, DEPTH));
    let table = table(root);
    for folder in folders {
        let pids = processes(root, &folder, DEPTH);
        let is_first = |pid: &&u32| table.get(pid).is_some_and(|entry| !pids.contains(&entry.parent));
        if let Some(first) = pids.iter().find(is_first) {
            return Ok(*first);
        }
    }
    Err(Error::NoUnit(name))
}

/// Returns the directory of a unit below a slice, or below a user manager, which is a system unit.
fn find(root: &Root, folder: &str, name: &str, depth: usize) -> Option<String> {
    let names = root.names(folder);
    if names.iter().any(|one| one == name) {
        return Some(format!("{folder}/{name}"));
    }
    let is_manager = |one: &str| one.starts_with("user@") && one.strip_suffix(".service").is_some();
    let mut slices = names.iter().filter(|one| depth > 0 && (one.strip_suffix(".slice").is_some() || is_manager(one)));
    slices.find_map(|slice| find(root, &format!("{folder}/{slice}"), name, depth - 1))
}

/// Returns the processes of a group and its descendants.
fn processes(root: &Root, folder: &str, depth: usize) -> BTreeSet<u32> {
    let text = root.text(&format!("{folder}/cgroup.procs")).unwrap_or_default();
    let mut pids: BTreeSet<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let is_group = |name: &String| root.path(&format!("{folder}/{name}")).is_dir();
    for name in root.names(folder).iter().filter(|name| depth > 0 && is_group(name)) {
        pids.extend(processes(root, &format!("{folder}/{name}"), depth - 1));
    }
    pids
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a host with a unit whose processes are 40 and 41, started by process 1.
    fn planted(unit: &str, folder: &str) -> (tempfile::TempDir, Root) {
        let room = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = room.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let stat = |pid: u32, parent: u32| format!("{pid} (x) S {parent} 1 1 0 {}", "0 ".repeat(40));
        for (pid, parent) in [(1, 0), (40, 1), (41, 40)] {
            write(&format!("proc/{pid}/stat"), &stat(pid, parent));
        }
        write(&format!("{folder}/{unit}/cgroup.procs"), "41\n");
        // A unit may have subgroups.
        write(&format!("{folder}/{unit}/main/cgroup.procs"), "40\n");
        let root = Root::planted(room.path());
        (room, root)
    }

    #[test]
    fn the_first_process_of_a_unit_is_the_one_whose_parent_is_outside() {
        let cases = [
            ("nginx", "nginx.service", "sys/fs/cgroup/system.slice"),
            ("nginx.service", "nginx.service", "sys/fs/cgroup/systemd/system.slice"),
            ("db@1", "db@1.service", "sys/fs/cgroup/system.slice/system-db.slice"),
            ("run-1.scope", "run-1.scope", "sys/fs/cgroup/unified/user.slice/user-0.slice"),
            // A unit of `systemd --user`; these were once not found.
            ("app", "app.service", "sys/fs/cgroup/user.slice/user-7.slice/user@7.service/app.slice"),
        ];
        for (asked, unit, folder) in cases {
            let (_room, root) = planted(unit, folder);
            assert_eq!(main_process(&root, asked), Ok(40), "{asked} in {folder}");
            assert_eq!(main_process(&root, "absent"), Err(Error::NoUnit("absent.service".to_owned())));
        }
    }

    #[test]
    fn a_unit_without_processes_has_no_first_one() {
        let (room, root) = planted("a.service", "sys/fs/cgroup/system.slice");
        std::fs::remove_dir_all(room.path().join("proc")).unwrap();
        assert_eq!(main_process(&root, "a"), Err(Error::NoUnit("a.service".to_owned())));
    }
}
