//! The settings that differ from the kernel's default or from the distribution's value, and the files that set them.

use crate::Error;
use crate::journal::{Journaled, left};
use crate::keep::MARK;
use crate::knob;
use crate::name::normalized;
use landau_host::Root;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The directories of sysctl.d(5). A file masks files of the same name in later directories.
const FOLDERS: [&str; 5] =
    ["etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d"];

/// How a host's settings differ from its defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The schema version of these members.
    pub schema: u32,
    /// The settings that Landau knows or that a file sets.
    pub settings: Vec<Row>,
    /// The changes that a killed trial has left.
    pub left: Option<Journaled>,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The present value; absent if the host does not have it.
    pub now: Option<String>,
    /// The kernel's default; absent if it is computed from the memory size, or not known to Landau.
    pub kernel_default: Option<&'static str>,
    /// The value that a package of the distribution sets.
    pub distribution: Option<Source>,
    /// The value that the administrator sets.
    pub administrator: Option<Source>,
    /// Whether the present value differs from the default: that of the distribution, or else that of the kernel. Absent
    /// if the default is not known.
    pub differs: Option<bool>,
}

/// A file that sets a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The value.
    pub value: String,
    /// The file.
    pub file: String,
    /// Whether `landau tune keep` wrote it.
    pub ours: bool,
}

impl Status {
    /// Reads the status of a host.
    ///
    /// # Errors
    ///
    /// Fails if the journal of a trial cannot be read or trusted.
    pub fn of(root: &Root) -> Result<Self, Error> {
        let mut sources: BTreeMap<String, [Option<Source>; 2]> = BTreeMap::new();
        for knob in knob::sysctls() {
            sources.insert(knob.name.to_owned(), [None, None]);
        }
        for (name, folder) in files(root) {
            let file = format!("/{folder}/{name}");
            let text = root.text(&file).unwrap_or_default();
            let ours = text.starts_with(MARK);
            let is_administrator = usize::from(!folder.contains("lib/"));
            for (name, value) in settings(&text) {
                let source = Source { value, file: file.clone(), ours };
                sources.entry(name).or_default()[is_administrator] = Some(source);
            }
        }
        let row = |(name, [distribution, administrator]): (String, [Option<Source>; 2])| {
            row(root, name, distribution, administrator)
        };
        let settings = sources.into_iter().map(row).collect();
        Ok(Self { schema: crate::SCHEMA, settings, left: left(root)? })
    }
}

fn row(root: &Root, name: String, distribution: Option<Source>, administrator: Option<Source>) -> Row {
    let now = root.sysctl(&name);
    let kernel_default = knob::find(&name).and_then(|knob| knob.default_of(root));
    let default = distribution.as_ref().map(|source| source.value.as_str()).or(kernel_default);
    let differs = now.as_deref().zip(default).map(|(now, default)| now != default);
    Row { name, now, kernel_default, distribution, administrator, differs }
}

/// Returns the files of sysctl.d with their directories, in the order in which they apply.
fn files(root: &Root) -> BTreeMap<String, &'static str> {
    let mut found = BTreeMap::new();
    for folder in FOLDERS {
        for name in root.names(folder).into_iter().filter(|name| is_read(name)) {
            found.entry(name).or_insert(folder);
        }
    }
    found
}

/// Returns the value that the files of sysctl.d give a setting at the next boot, if the administrator's file `own` has
/// this text; `None` if no file sets it.
pub(crate) fn at_start(root: &Root, setting: &str, own: &str, text: &str) -> Option<String> {
    source_at_start(root, setting, own, text).map(|(_, value)| value)
}

/// Like [`at_start`]; returns the file, too.
pub(crate) fn source_at_start(root: &Root, setting: &str, own: &str, text: &str) -> Option<(String, String)> {
    let mut files = files(root);
    files.insert(own.to_owned(), FOLDERS[0]);
    let mut set = files.iter().filter_map(|(name, folder)| {
        let file = format!("{folder}/{name}");
        let text = if name == own { text.to_owned() } else { root.text(&file).unwrap_or_default() };
        let value = settings(&text).filter(|(name, _)| name == setting).map(|(_, value)| value).last()?;
        Some((file, value))
    });
    set.next_back()
}

/// Returns whether sysctl.d(5) reads a file of this name.
fn is_read(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|kind| kind == "conf")
}

/// Returns the settings of a file of sysctl.d, by the names that sysctl(8) prints. Patterns are skipped.
pub(crate) fn settings(text: &str) -> impl Iterator<Item = (String, String)> + '_ {
    text.lines().filter_map(|line| {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            return None;
        }
        let (name, value) = line.split_once('=')?;
        let name = name.trim().trim_start_matches('-');
        // The first separator decides: in `net/ipv4/conf/eth0.1/rp_filter` the dot is part of a name.
        let is_path = name.find(['/', '.']).is_some_and(|place| name.as_bytes()[place] == b'/');
        if name.contains('*') || (is_path && name.contains('.')) {
            return None;
        }
        Some((name.replace('/', "."), normalized(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plant;
    use std::fs;

    #[test]
    fn a_later_file_wins_and_one_of_the_administrator_masks() {
        let room = tempfile::tempdir().unwrap();
        plant(room.path(), "net.core.somaxconn", "8192");
        plant(room.path(), "vm.dirty_ratio", "20");
        plant(room.path(), "vm.max_map_count", "262144");
        plant(room.path(), "kernel.osrelease", "6.1.0");
        let write = |path: &str, text: &str| {
            let path = room.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("usr/lib/sysctl.d/10-map.conf", "# comment\nvm.max_map_count = 262144\nnet.*.x = 1\n");
        write("usr/lib/sysctl.d/50-masked.conf", "vm.dirty_ratio = 90\n");
        write("etc/sysctl.d/50-masked.conf", "-vm/dirty_ratio=30\n");
        write("etc/sysctl.d/90-landau-own.conf", &format!("{MARK} own`.\nnet.core.somaxconn = 8192\n"));
        let status = Status::of(&Root::planted(room.path())).unwrap();
        let row = |name: &str| status.settings.iter().find(|row| row.name == name).unwrap();
        let somaxconn = row("net.core.somaxconn");
        assert_eq!((somaxconn.differs, somaxconn.kernel_default), (Some(true), Some("4096")));
        assert!(somaxconn.administrator.as_ref().unwrap().ours);
        let dirty = row("vm.dirty_ratio");
        assert_eq!((dirty.differs, &dirty.distribution), (Some(false), &None));
        assert_eq!(dirty.administrator.as_ref().unwrap().value, "30");
        assert_eq!(row("vm.max_map_count").differs, Some(false), "the distribution sets it");
        assert_eq!(row("net.ipv4.tcp_mem").differs, None);
        assert!(!status.settings.iter().any(|row| row.name.contains('*')));
    }
}
