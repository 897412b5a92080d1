//! Kernels of Debian's archive, fetched by apt into a private directory.
//!
//! The archive is the one that the host is configured for, and apt checks its signatures. The index is updated at most
//! once a day. Packages are verified with the checksum of the signed index. A kernel that is already in the directory
//! needs no network.

mod apt;
mod choice;
mod sources;
mod version;

pub use choice::Available;
pub use version::compare;

use crate::deb;
use crate::kernel::{Error, Kernel};
use crate::unpacked::{self, sha256};
use apt::Apt;
use choice::{Entry, Wanted};
use landau_sys::signal::interrupted;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The maximum age of the index.
const INDEX_AGE: Duration = Duration::from_secs(24 * 3600);
/// The name of the file with the index, in the private directory.
const INDEX: &str = "index";
/// The maximum wait for another landau that is fetching.
const LONGEST_WAIT: Duration = Duration::from_secs(1800);
/// The name prefixes of packages with kernels and their companions.
const PREFIXES: [&str; 3] = ["linux-image-", "linux-binary-", "linux-base-"];

/// The private directory, locked while this exists.
struct Store {
    root: PathBuf,
    _lock: File,
}

/// Returns the available kernels, oldest first.
pub fn available(cache: &Path, report: &mut dyn FnMut(&str)) -> Result<Vec<Available>, Error> {
    let store = Store::open(cache, report)?;
    Ok(choice::available(&store.refreshed(report)?))
}

/// Returns the available kernel that `word` selects.
pub fn meant<'a>(word: &str, all: &'a [Available]) -> Result<&'a Available, Error> {
    choice::Wanted::parse(word).choose(word, all)
}

/// Obtains the kernel that `word` selects: a version or the beginning of one, and optionally a flavour.
pub(crate) fn obtain(word: &str, cache: &Path, report: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
    let store = Store::open(cache, report)?;
    let wanted = Wanted::parse(word);
    let known = store.index();
    let kernels = choice::available(&known);
    // A complete name selects the same kernel in every index, so a kernel that is already in the directory needs no
    // update.
    let exact = wanted.choose(word, &kernels).ok().filter(|one| wanted.is_exact(one));
    if let Some(exact) = exact
        && unpacked::is_intact(&store.folder(&known[exact.index]))?
    {
        return store.kernel(&known, exact, report);
    }
    let entries = store.refreshed(report)?;
    let kernels = choice::available(&entries);
    let chosen = wanted.choose(word, &kernels).map_err(|error| store.with_problems(error))?;
    store.kernel(&entries, chosen, report)
}

/// Locks the private directory; waits for another landau that has locked it.
fn locked(root: &Path, interrupted: &dyn Fn() -> bool, report: &mut dyn FnMut(&str)) -> Result<File, Error> {
    let path = root.join("lock");
    let lock = File::create(&path).map_err(|error| Error::io(&path, error))?;
    let start = Instant::now();
    let mut is_reported = false;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::Error(error)) => return Err(Error::io(&path, error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let root = root.display();
        if interrupted() {
            return Err(Error::Apt(format!("interrupted while waiting for another landau, which has locked {root}")));
        }
        if start.elapsed() > LONGEST_WAIT {
            return Err(Error::Apt(format!(
                "{root} is locked by another landau; choose another directory with --cache"
            )));
        }
        if !is_reported {
            report("waiting for another landau that is fetching kernels");
            is_reported = true;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

impl Store {
    fn open(cache: &Path, report: &mut dyn FnMut(&str)) -> Result<Self, Error> {
        let root = std::path::absolute(cache).map_err(|error| Error::io(cache, error))?.join("debian");
        for folder in ["packages", "kernels"].map(|name| root.join(name)) {
            std::fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        }
        let lock = locked(&root, &|| interrupted().is_some(), report)?;
        Ok(Self { root, _lock: lock })
    }

    fn index_path(&self) -> PathBuf {
        self.root.join(INDEX)
    }

    /// Returns the packages of the last update.
    fn index(&self) -> Vec<Entry> {
        Entry::all(&std::fs::read_to_string(self.index_path()).unwrap_or_default())
    }

    fn is_fresh(&self) -> bool {
        let changed = std::fs::metadata(self.index_path()).and_then(|about| about.modified()).ok();
        let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
        age.is_some_and(|age| age < INDEX_AGE)
    }

    /// Returns the index, updated if it is old and the archive can be reached.
    fn refreshed(&self, report: &mut dyn FnMut(&str)) -> Result<Vec<Entry>, Error> {
        let old = self.index();
        let apt = match Apt::new(&self.root) {
            Ok(ready) => ready,
            Err(error) if old.is_empty() => return Err(error),
            Err(error) => {
                report(&format!("{error}; using the kernels fetched before"));
                return Ok(old);
            }
        };
        if self.is_fresh() && !old.is_empty() {
            return Ok(old);
        }
        report("updating the index of Debian's archive (once a day, about 40 MB the first time)");
        let update = apt.update()?;
        if !update.reached {
            let why = update.problems.first().map_or("no answer", String::as_str);
            if old.is_empty() {
                return Err(Error::Apt(format!("cannot reach Debian's archive: {why}")));
            }
            report(&format!("cannot reach Debian's archive ({why}); using the index of the last update"));
            return Ok(old);
        }
        for problem in &update.problems {
            report(problem);
        }
        self.save(&apt, &old, &update.problems)?;
        Ok(self.index())
    }

    /// Saves the index, including the packages that the archive no longer has but this directory does.
    fn save(&self, apt: &Apt, old: &[Entry], problems: &[String]) -> Result<(), Error> {
        let mut text = apt.packages(&PREFIXES)?;
        let now = Entry::all(&text);
        for entry in old.iter().filter(|entry| !now.iter().any(|one| one.is(entry)) && self.file(entry).exists()) {
            let package = &entry.package;
            let _ = write!(
                text,
                "\nPackage: {}\nVersion: {}\nArchitecture: {}\nDepends: {}\nURI: {}\nSize: {}\nSHA256: {}\n",
                package.name,
                package.version,
                package.architecture,
                package.depends.join(", "),
                entry.uri,
                entry.bytes,
                entry.sha256
            );
        }
        self.replace(&self.root.join("troubles"), &problems.join("\n"))?;
        self.replace(&self.index_path(), &text)
    }

    fn replace(&self, path: &Path, text: &str) -> Result<(), Error> {
        let draft = self.root.join("draft");
        std::fs::write(&draft, text).map_err(|error| Error::io(&draft, error))?;
        std::fs::rename(&draft, path).map_err(|error| Error::io(path, error))
    }

    /// Adds to an error that a part of the archive could not be read, which may be its cause.
    fn with_problems(&self, error: Error) -> Error {
        let problems = std::fs::read_to_string(self.root.join("troubles")).unwrap_or_default();
        match error {
            Error::Version { wanted, what, known } if !problems.is_empty() => {
                let what =
                    format!("{what} (a part of the archive could not be read: {})", problems.replace('\n', "; "));
                Error::Version { wanted, what, known }
            }
            error => error,
        }
    }

    /// Returns the path of a package's file.
    fn file(&self, entry: &Entry) -> PathBuf {
        self.root.join("packages").join(entry.uri.rsplit('/').next().unwrap_or_default())
    }

    /// Returns the directory of a package's unpacked kernel.
    fn folder(&self, entry: &Entry) -> PathBuf {
        self.root.join("kernels").join(format!("{}_{}", entry.package.name, entry.package.version.replace(':', "%3a")))
    }

    /// Returns a package's file, which is fetched unless it is present and intact.
    fn fetch(&self, entry: &Entry, report: &mut dyn FnMut(&str)) -> Result<PathBuf, Error> {
        let file = self.file(entry);
        if file.exists() {
            if sha256(&file)? == entry.sha256 {
                return Ok(file);
            }
            report(&format!("the checksum of {} differs from the index; fetching it again", file.display()));
        }
        let package = &entry.package;
        report(&format!("fetching {} {} ({:.1} MB)", package.name, package.version, entry.bytes as f64 / 1e6));
        let incoming = file.with_extension("incoming");
        let _ = std::fs::remove_file(&incoming);
        Apt::new(&self.root)?.download(&entry.uri, &entry.sha256, &incoming)?;
        if sha256(&incoming)? != entry.sha256 {
            let what = "its checksum differs from the signed index; try again".to_owned();
            return Err(Error::Package { path: incoming, what });
        }
        std::fs::rename(&incoming, &file).map_err(|error| Error::io(&file, error))?;
        Ok(file)
    }

    /// Returns a kernel of the index, fetched and unpacked if necessary. Newer releases have the kernel and its
    /// configuration in separate packages.
    fn kernel(&self, all: &[Entry], chosen: &Available, report: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
        let entry = &all[chosen.index];
        let part = |kind| {
            let name = entry.package.part(kind)?;
            all.iter().find(|one| one.package.name == name && one.package.version == entry.package.version)
        };
        let holder = part("binary").unwrap_or(entry);
        let folder = self.folder(entry);
        if !unpacked::is_intact(&folder)? {
            let file = self.fetch(holder, report)?;
            let beside = part("base").map(|base| self.fetch(base, report)).transpose()?;
            unpacked::create(&folder, |draft| {
                if let Some(base) = &beside {
                    deb::extract(base, draft)?;
                }
                deb::extract_kernel(&file, draft).map(drop)
            })?;
        }
        let origin = format!("{} {}, Debian", holder.package.name, holder.package.version);
        unpacked::kernel(&folder, origin)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

    use super::*;
    use std::cell::Cell;

    /// Guards against Ctrl-C having no effect for half an hour while another landau is fetching.
    #[test]
    fn waiting_for_another_landau_can_be_interrupted() {
        let root = tempfile::tempdir().unwrap();
        let other = locked(root.path(), &|| false, &mut |_| {}).unwrap();
        let asked = Cell::new(0);
        let is_second = || asked.replace(asked.get() + 1) == 1;
        let mut reports = Vec::new();
        let error = locked(root.path(), &is_second, &mut |text| reports.push(text.to_owned())).unwrap_err();
        assert!(error.to_string().contains("interrupted while waiting for another landau"), "{error}");
        assert_eq!(reports, ["waiting for another landau that is fetching kernels"]);
        drop(other);
        assert!(locked(root.path(), &|| false, &mut |_| {}).is_ok());
    }
}
