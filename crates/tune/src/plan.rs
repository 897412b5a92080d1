//! The changes that a profile would make on a host, and why. Nothing is changed.

use crate::limit;
use crate::name::{file, twin};
use crate::profile::{Profile, Unmapped, Want};
use landau_host::Root;
use serde::Serialize;
use std::fs::OpenOptions;

/// A profile, compared with a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The schema version of these members.
    pub schema: u32,
    /// The profile.
    pub profile: String,
    /// What it is for.
    pub about: String,
    /// The settings that would change.
    pub changes: Vec<Change>,
    /// The settings that already have their values.
    pub present: Vec<Present>,
    /// The settings that this host does not have.
    pub missing: Vec<Missing>,
    /// The changes that belong to the profile, but that Landau does not make.
    pub unmapped: Vec<Unmapped>,
}

/// A setting that would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// The present value.
    pub now: String,
    /// The value that the profile wants.
    pub new: String,
    /// What it bounds or controls; absent for a setting that Landau does not know.
    pub bounds: Option<&'static str>,
    /// The risk of changing it.
    pub risk: Option<&'static str>,
    /// Its name in the source that suggested it.
    pub source: Option<String>,
    /// Where it can be tried.
    pub tried: Place,
    /// Why this process cannot write it; absent if it can.
    pub obstacle: Option<String>,
}

/// Where a setting can be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In a network namespace, without a change to the host.
    Namespace,
    /// On the host only.
    Host,
    /// Nowhere; `keep` makes it permanent.
    Nowhere,
}

/// A setting that already has its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Present {
    /// Its name.
    pub name: String,
    /// The present value.
    pub now: String,
    /// The value that the profile wants.
    pub wanted: String,
    /// Its name in the source that suggested it.
    pub source: Option<String>,
}

/// A setting that the host does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// The value that the profile wants.
    pub wanted: String,
    /// Why the host does not have it.
    pub why: String,
}

impl Plan {
    /// Compares a profile with a host; `local` names the sysctls that belong to a network namespace.
    pub fn of(root: &Root, profile: &Profile, local: &[&str]) -> Self {
        let mut plan = Self {
            schema: crate::SCHEMA,
            profile: profile.name.clone(),
            about: profile.about.clone(),
            changes: Vec::new(),
            present: Vec::new(),
            missing: Vec::new(),
            unmapped: profile.unmapped.clone(),
        };
        for want in &profile.wants {
            plan.add(root, want, local);
        }
        plan
    }

    fn add(&mut self, root: &Root, want: &Want, local: &[&str]) {
        let now = match present(root, want) {
            Ok(now) => now,
            Err(why) => {
                self.missing.push(Missing { name: want.name.clone(), wanted: want.value.clone(), why });
                return;
            }
        };
        let Some(new) = want.target(&now) else {
            let wanted = if want.at_least { format!("at least {}", want.value) } else { want.value.clone() };
            self.present.push(Present { name: want.name.clone(), now, wanted, source: want.source.clone() });
            return;
        };
        let known = want.known();
        let tried = match (want.is_limit(), local.contains(&want.name.as_str())) {
            (true, _) => Place::Nowhere,
            (false, true) => Place::Namespace,
            (false, false) => Place::Host,
        };
        self.changes.push(Change {
            name: want.name.clone(),
            now,
            new,
            bounds: known.map(|knob| knob.bounds),
            risk: known.map(|knob| knob.risk),
            source: want.source.clone(),
            tried,
            obstacle: obstacle(root, want),
        });
    }

    /// Returns the changes that can be tried in this place.
    pub fn tried(&self, place: Place) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.tried == place)
    }
}

/// Returns the present value of a setting, or why there is none.
fn present(root: &Root, want: &Want) -> Result<String, String> {
    if want.is_limit() {
        let present = limit::of_process(root, "self", &want.name);
        return present
            .map(|pair| limit::written(pair.soft, "unlimited"))
            .ok_or_else(|| "/proc/self/limits cannot be read".to_owned());
    }
    if let Some((twin, value)) = twin(root, &want.name) {
        return Err(format!("{twin} is {value} and takes precedence; writing {} would set it to 0", want.name));
    }
    if let Some(value) = root.sysctl(&want.name) {
        return Ok(value);
    }
    Err(match std::fs::symlink_metadata(file(root, &want.name)) {
        Ok(_) => "its value cannot be read by this user".to_owned(),
        Err(_) if want.name.starts_with("net.netfilter.") => {
            "connection tracking is not loaded (modprobe nf_conntrack), so it limits nothing".to_owned()
        }
        Err(_) => "this kernel, or this namespace, does not have it".to_owned(),
    })
}

/// Returns why this process cannot write a setting.
fn obstacle(root: &Root, want: &Want) -> Option<String> {
    if want.is_limit() {
        return Some("a limit belongs to each process; `landau tune keep` sets it for new sessions".to_owned());
    }
    // Opening writes nothing.
    let error = OpenOptions::new().write(true).open(file(root, &want.name)).err()?;
    Some(match error.kind() {
        std::io::ErrorKind::PermissionDenied => "it needs root".to_owned(),
        std::io::ErrorKind::ReadOnlyFilesystem => "/proc/sys is read-only here, as in most containers".to_owned(),
        _ => error.to_string(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::Path;

    /// Plants a sysctl below a directory.
    pub(crate) fn plant(room: &Path, name: &str, value: &str) {
        let path = room.join("proc/sys").join(name.replace('.', "/"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{value}\n")).unwrap();
    }

    /// A trial would leave both settings at 0, and every writer would block.
    #[test]
    fn a_ratio_whose_twin_in_bytes_is_set_is_left_alone() {
        let room = tempfile::tempdir().unwrap();
        plant(room.path(), "vm.dirty_ratio", "0");
        plant(room.path(), "vm.dirty_bytes", "268435456");
        let profile = Profile::parse("own", "own.toml", "[sysctl]\n\"vm.dirty_ratio\" = 40").unwrap();
        let root = Root::planted(room.path());
        let plan = Plan::of(&root, &profile, &[]);
        assert!(plan.changes.is_empty() && plan.missing[0].why.contains("vm.dirty_bytes is 268435456"), "{plan:?}");
        assert!(crate::keep::keep(&root, &profile).unwrap().is_empty());
        plant(room.path(), "vm.dirty_bytes", "0");
        assert_eq!(Plan::of(&root, &profile, &[]).changes.len(), 1);
    }

    #[test]
    fn each_setting_is_a_change_or_there_or_missing() {
        let room = tempfile::tempdir().unwrap();
        plant(room.path(), "net.core.somaxconn", "128");
        plant(room.path(), "fs.file-max", "9223372036854775807");
        plant(room.path(), "vm.dirty_ratio", "20");
        std::fs::create_dir_all(room.path().join("proc/self")).unwrap();
        let limits = "Limit   Soft Limit   Hard Limit   Units\nMax open files   1024   524288   files\n";
        std::fs::write(room.path().join("proc/self/limits"), limits).unwrap();
        let text = "[sysctl]\n\"net.core.somaxconn\" = { at_least = 4096 }\n\"fs.file-max\" = { at_least = 65536 }\n\
                    \"vm.dirty_ratio\" = 40\n\"net.netfilter.nf_conntrack_max\" = 1\n[limits]\nnofile = 65536";
        let profile = Profile::parse("own", "own.toml", text).unwrap();
        let plan = Plan::of(&Root::planted(room.path()), &profile, &["net.core.somaxconn"]);
        let changes: Vec<_> =
            plan.changes.iter().map(|one| (one.name.as_str(), one.now.as_str(), one.new.as_str(), one.tried)).collect();
        let expected = [
            ("net.core.somaxconn", "128", "4096", Place::Namespace),
            ("vm.dirty_ratio", "20", "40", Place::Host),
            ("nofile", "1024", "65536", Place::Nowhere),
        ];
        assert_eq!(changes, expected);
        assert_eq!((plan.present.len(), plan.present[0].name.as_str()), (1, "fs.file-max"));
        assert!(plan.missing[0].why.contains("modprobe nf_conntrack"), "{plan:?}");
        assert!(plan.changes[0].bounds.is_some_and(|text| text.contains("accept()")) && plan.changes[0].risk.is_some());
        assert_eq!(plan.changes[0].obstacle, None);
    }
}
