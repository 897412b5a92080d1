//! Kernels out of Debian's archive, fetched by Debian's own package client into a private folder.
//!
//! The archive is the one that the host is configured for; signatures are checked as apt checks them. The index is
//! asked for once a day at most, packages are kept with the checksum that the signed index gives, and what is in the
//! folder is used without a network.

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
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How old an index may be.
const INDEX_AGE: Duration = Duration::from_secs(24 * 3600);
/// How long to wait for another Landau that is fetching.
const LONGEST_WAIT: Duration = Duration::from_secs(1800);
/// What the packages are called that kernels are in, or that belong to them.
const PREFIXES: [&str; 3] = ["linux-image-", "linux-binary-", "linux-base-"];

/// The folder with everything of Debian's, held alone while this lives.
struct Store {
    root: PathBuf,
    _lock: File,
}

/// The kernels that are to be had, oldest first.
pub fn available(cache: &Path, tell: &mut dyn FnMut(&str)) -> Result<Vec<Available>, Error> {
    let store = Store::open(cache, tell)?;
    Ok(choice::available(&store.refreshed(tell)?))
}

/// The kernel that a word means, of those that are to be had.
pub fn meant<'a>(word: &str, all: &'a [Available]) -> Result<&'a Available, Error> {
    choice::Wanted::parse(word).choose(word, all)
}

/// Gets the kernel that `word` means: a version or the beginning of one, and a flavour if need be.
pub(crate) fn obtain(word: &str, cache: &Path, tell: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
    let store = Store::open(cache, tell)?;
    let wanted = Wanted::parse(word);
    let known = store.index();
    let kernels = choice::available(&known);
    // A kernel's whole name means the same tomorrow; what is here already needs no newer index.
    let exact = wanted.choose(word, &kernels).ok().filter(|one| wanted.is_exact(one));
    if let Some(exact) = exact
        && unpacked::is_intact(&store.folder(&known[exact.index]))?
    {
        return store.kernel(&known, exact, tell);
    }
    let entries = store.refreshed(tell)?;
    let kernels = choice::available(&entries);
    let chosen = wanted.choose(word, &kernels).map_err(|error| store.with_troubles(error))?;
    store.kernel(&entries, chosen, tell)
}

impl Store {
    fn open(cache: &Path, tell: &mut dyn FnMut(&str)) -> Result<Self, Error> {
        let root = std::path::absolute(cache).map_err(|error| Error::io(cache, error))?.join("debian");
        for folder in ["packages", "kernels"].map(|name| root.join(name)) {
            std::fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        }
        let path = root.join("lock");
        let lock = File::create(&path).map_err(|error| Error::io(&path, error))?;
        let start = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { root, _lock: lock }),
                Err(TryLockError::Error(error)) => return Err(Error::io(&path, error)),
                Err(TryLockError::WouldBlock) if start.elapsed() > LONGEST_WAIT => {
                    return Err(Error::Apt(format!("{} is held by another landau; use --cache", root.display())));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            if start.elapsed() < Duration::from_millis(100) {
                tell("waiting for another landau that is fetching kernels");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn index_path(&self) -> PathBuf {
        self.root.join("index")
    }

    /// The packages that were to be had when the archive was last asked.
    fn index(&self) -> Vec<Entry> {
        Entry::all(&std::fs::read_to_string(self.index_path()).unwrap_or_default())
    }

    fn is_fresh(&self) -> bool {
        let changed = std::fs::metadata(self.index_path()).and_then(|about| about.modified()).ok();
        let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
        age.is_some_and(|age| age < INDEX_AGE)
    }

    /// The index, asked for anew if it is old, or as it was where the archive cannot be reached.
    fn refreshed(&self, tell: &mut dyn FnMut(&str)) -> Result<Vec<Entry>, Error> {
        let old = self.index();
        let (apt, is_new) = match Apt::new(&self.root) {
            Ok(ready) => ready,
            Err(error) if old.is_empty() => return Err(error),
            Err(error) => {
                tell(&format!("{error}; going on with what was fetched before"));
                return Ok(old);
            }
        };
        if self.is_fresh() && !is_new && !old.is_empty() {
            return Ok(old);
        }
        tell("asking the host's Debian archive which kernels there are (once a day, about 40 MB the first time)");
        let update = apt.update()?;
        if !update.reached {
            let why = update.troubles.first().map_or("no answer", String::as_str);
            if old.is_empty() {
                return Err(Error::Apt(format!("the host's Debian archive cannot be reached: {why}")));
            }
            tell(&format!("the archive cannot be reached ({why}); going on with the list of before"));
            return Ok(old);
        }
        for trouble in &update.troubles {
            tell(trouble);
        }
        self.note(&apt, &old, &update.troubles)?;
        Ok(self.index())
    }

    /// Writes down what the archive has, and what it has no more but is here.
    fn note(&self, apt: &Apt, old: &[Entry], troubles: &[String]) -> Result<(), Error> {
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
        self.replace(&self.root.join("troubles"), &troubles.join("\n"))?;
        self.replace(&self.index_path(), &text)
    }

    fn replace(&self, path: &Path, text: &str) -> Result<(), Error> {
        let draft = self.root.join("draft");
        std::fs::write(&draft, text).map_err(|error| Error::io(&draft, error))?;
        std::fs::rename(&draft, path).map_err(|error| Error::io(path, error))
    }

    /// What is missing may be missing because a part of the archive could not be read.
    fn with_troubles(&self, error: Error) -> Error {
        let troubles = std::fs::read_to_string(self.root.join("troubles")).unwrap_or_default();
        match error {
            Error::Version { wanted, what, known } if !troubles.is_empty() => {
                let what =
                    format!("{what} (a part of the archive could not be read: {})", troubles.replace('\n', "; "));
                Error::Version { wanted, what, known }
            }
            error => error,
        }
    }

    /// Where a package's file is kept.
    fn file(&self, entry: &Entry) -> PathBuf {
        self.root.join("packages").join(entry.uri.rsplit('/').next().unwrap_or_default())
    }

    /// Where a package's kernel is unpacked.
    fn folder(&self, entry: &Entry) -> PathBuf {
        self.root.join("kernels").join(format!("{}_{}", entry.package.name, entry.package.version.replace(':', "%3a")))
    }

    /// A package's file, fetched if it is not here whole.
    fn fetch(&self, entry: &Entry, tell: &mut dyn FnMut(&str)) -> Result<PathBuf, Error> {
        let file = self.file(entry);
        if file.exists() {
            if sha256(&file)? == entry.sha256 {
                return Ok(file);
            }
            tell(&format!("{} was changed; fetching it again", file.display()));
        }
        let package = &entry.package;
        tell(&format!("fetching {} {} ({:.1} MB)", package.name, package.version, entry.bytes as f64 / 1e6));
        let incoming = file.with_extension("incoming");
        let _ = std::fs::remove_file(&incoming);
        Apt::new(&self.root)?.0.download(&entry.uri, &entry.sha256, &incoming)?;
        if sha256(&incoming)? != entry.sha256 {
            let what = "what was fetched has another checksum than the signed index says; try again".to_owned();
            return Err(Error::Package { path: incoming, what });
        }
        std::fs::rename(&incoming, &file).map_err(|error| Error::io(&file, error))?;
        Ok(file)
    }

    /// A kernel of the index, fetched and unpacked if need be. Newer releases have it in a package of its own, and its
    /// configuration in another.
    fn kernel(&self, all: &[Entry], chosen: &Available, tell: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
        let entry = &all[chosen.index];
        let part = |kind| {
            let name = entry.package.part(kind)?;
            all.iter().find(|one| one.package.name == name && one.package.version == entry.package.version)
        };
        let holder = part("binary").unwrap_or(entry);
        let folder = self.folder(entry);
        if !unpacked::is_intact(&folder)? {
            let file = self.fetch(holder, tell)?;
            let beside = part("base").map(|base| self.fetch(base, tell)).transpose()?;
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
