//! A trial: settings that are toggled between measurements, and restored at the end.

use crate::Error;
use crate::journal::{Entry, Journal, Outcome, Restored, undo};
use crate::name::{normalized, write};
use landau_host::Root;

/// A setting of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// The value before the trial.
    pub old: String,
    /// The value to try.
    pub new: String,
}

/// A trial. Dropping it restores the settings.
#[derive(Debug)]
pub struct Trial {
    root: Root,
    settings: Vec<Setting>,
    is_on: Vec<bool>,
    /// Absent if the settings belong to a namespace, which ends with its processes.
    journal: Option<Journal>,
}

impl Trial {
    /// Returns a trial of settings that have their old values. With a journal, they are settings of the host.
    pub fn new(root: &Root, settings: Vec<Setting>, journal: Option<Journal>) -> Self {
        Self { root: root.clone(), is_on: vec![false; settings.len()], settings, journal }
    }

    /// Returns the journal entries of settings.
    pub fn entries(settings: &[Setting]) -> Vec<Entry> {
        let entry = |one: &Setting| Entry { name: one.name.clone(), old: one.old.clone(), new: one.new.clone() };
        settings.iter().map(entry).collect()
    }

    /// Returns the settings.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Gives each setting its new value if `is_on` is true for it, or else its old one.
    ///
    /// # Errors
    ///
    /// Fails if a setting has neither of these values, because something else has changed it in the meantime; if it
    /// cannot be written; or if the kernel changes the value that was written.
    pub fn set(&mut self, is_on: &[bool]) -> Result<(), Error> {
        let count = self.settings.len().min(is_on.len());
        // In reverse order, as in a restoration: a setting may be valid only while an earlier one is on.
        for place in (0..count).rev().filter(|&place| !is_on[place]) {
            if self.is_on[place] {
                self.change(place, false)?;
            }
        }
        for place in (0..count).filter(|&place| is_on[place]) {
            if !self.is_on[place] {
                self.change(place, true)?;
            }
        }
        Ok(())
    }

    fn change(&mut self, place: usize, is_on: bool) -> Result<(), Error> {
        let setting = &self.settings[place];
        let (from, to) = if is_on { (&setting.old, &setting.new) } else { (&setting.new, &setting.old) };
        let failed = |reason: String| Error::Setting { name: setting.name.clone(), reason };
        let read = || self.root.sysctl(&setting.name).ok_or_else(|| failed("it cannot be read".to_owned()));
        let now = read()?;
        if now != normalized(from) {
            let reason = format!("expected {from}, found {now}: another process changed it during the trial");
            return Err(failed(reason));
        }
        // Even a write that fails may have changed the value.
        self.is_on[place] = true;
        write(&self.root, &setting.name, to).map_err(|error| failed(format!("cannot set it to {to}: {error}")))?;
        let now = read()?;
        if now != normalized(to) {
            // Later, a value adjusted by the kernel could not be distinguished from one that something else wrote.
            let entry = || Self::entries(std::slice::from_ref(setting)).remove(0);
            self.is_on[place] = !(is_on && undo(&self.root, &entry(), true).outcome.is_done());
            return Err(failed(format!(
                "cannot set it to {to}: the kernel changes it to {now}; use that value in the profile"
            )));
        }
        self.is_on[place] = is_on;
        Ok(())
    }

    /// Restores the changed settings in reverse order, and removes the journal if nothing is left to do. A value that
    /// comes neither from the trial nor from the kernel's adjustment of it is kept.
    ///
    /// # Errors
    ///
    /// Fails if the journal cannot be removed.
    pub fn restore(&mut self) -> Result<Vec<Restored>, Error> {
        let mut restored = Vec::new();
        for (place, entry) in Self::entries(&self.settings).iter().enumerate().rev() {
            let done = undo(&self.root, entry, false);
            self.is_on[place] = self.is_on[place] && !done.outcome.is_done();
            restored.push(done);
        }
        if restored.iter().all(|one| one.outcome.is_done())
            && let Some(journal) = self.journal.take()
        {
            journal.close()?;
        }
        Ok(restored)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if self.journal.is_some() || self.is_on.contains(&true) {
            // This happens after a panic. Settings that cannot be restored stay in the journal, and the next start
            // reports them.
            let _ = self.restore();
        }
    }
}

impl Restored {
    /// Returns why the setting does not have its value from before the trial; `None` if it does.
    pub fn complaint(&self) -> Option<String> {
        let found = self.found.as_deref().unwrap_or("unreadable");
        match self.outcome {
            Outcome::Foreign => Some(format!(
                "{} is {found}; the trial set {}, but another process has changed it since, so it is kept (before the \
                 trial it was {})",
                self.name, self.new, self.old
            )),
            Outcome::Failed => Some(format!(
                "{} is {found} and was {} before the trial: {}",
                self.name,
                self.old,
                self.reason.as_deref().unwrap_or_default()
            )),
            Outcome::Restored | Outcome::Unchanged | Outcome::Rebooted => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::left;
    use crate::plan::tests::plant;

    fn trial(room: &std::path::Path) -> (Trial, Root) {
        plant(room, "vm.dirty_ratio", "20");
        plant(room, "net.ipv4.ip_local_port_range", "32768\t60999");
        let root = Root::planted(room);
        let setting = |name: &str, old: &str, new: &str| Setting {
            name: name.to_owned(),
            old: old.to_owned(),
            new: new.to_owned(),
        };
        let settings = vec![
            setting("vm.dirty_ratio", "20", "40"),
            setting("net.ipv4.ip_local_port_range", "32768 60999", "1024 65535"),
        ];
        let journal = Journal::open(&root, "own", Trial::entries(&settings)).unwrap();
        (Trial::new(&root, settings, Some(journal)), root)
    }

    fn values(root: &Root) -> [String; 2] {
        ["vm.dirty_ratio", "net.ipv4.ip_local_port_range"].map(|name| root.sysctl(name).unwrap())
    }

    /// A setting may be valid only while an earlier one is on; `kernel.sched_rt_runtime_us` is an example.
    #[test]
    fn settings_are_turned_off_from_the_last_on() {
        let room = tempfile::tempdir().unwrap();
        let (mut trial, root) = trial(room.path());
        trial.set(&[true, true]).unwrap();
        // A foreign value makes it fail at the first setting.
        plant(room.path(), "vm.dirty_ratio", "30");
        trial.set(&[false, false]).unwrap_err();
        assert_eq!(values(&root), ["30", "32768 60999"]);
    }

    #[test]
    fn settings_follow_and_the_end_restores_them() {
        let room = tempfile::tempdir().unwrap();
        let (mut trial, root) = trial(room.path());
        trial.set(&[true, true]).unwrap();
        assert_eq!(values(&root), ["40", "1024 65535"]);
        trial.set(&[true, false]).unwrap();
        assert_eq!(values(&root), ["40", "32768 60999"]);
        trial.set(&[false, true]).unwrap();
        assert_eq!(values(&root), ["20", "1024 65535"]);
        drop(trial);
        assert_eq!(values(&root), ["20", "32768 60999"]);
        assert!(left(&root).unwrap().is_none());
    }

    #[test]
    fn a_value_that_somebody_else_wrote_ends_the_trial_and_is_kept() {
        let room = tempfile::tempdir().unwrap();
        let (mut trial, root) = trial(room.path());
        trial.set(&[true, true]).unwrap();
        plant(room.path(), "vm.dirty_ratio", "30");
        let error = trial.set(&[false, true]).unwrap_err().to_string();
        assert!(error.contains("expected 40, found 30: another process"), "{error}");
        let restored = trial.restore().unwrap();
        let complaints: Vec<String> = restored.iter().filter_map(Restored::complaint).collect();
        assert!(complaints.len() == 1 && complaints[0].contains("vm.dirty_ratio is 30"), "{complaints:?}");
        assert_eq!(values(&root), ["30", "32768 60999"]);
        drop(trial);
        assert_eq!(left(&root).unwrap().unwrap().profile, "own", "the journal stays");
    }
}
