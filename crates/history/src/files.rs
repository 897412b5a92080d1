//! The record files of a directory and its subfolders.

use crate::Error;
use landau_report::history::LeftOut;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of the file that marks a site; its copies of records are not part of a collection.
pub const SITE_MARK: &str = ".landau-site";

/// The extension of a record.
const ENDING: &str = "ndjson";

/// The largest record that is read, in bytes: a larger file may not fit in memory.
const BYTES_MAX: u64 = 2 << 30;

/// A file and its metadata.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The path relative to the directory.
    pub(crate) path: String,
    /// The path to open.
    pub(crate) full: PathBuf,
    /// The metadata that changes with the file.
    pub(crate) identity: Identity,
}

/// The metadata that changes with a file. A change within the resolution of the clock still changes the size, the inode
/// or the ctime, which cannot be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) bytes: i64,
    pub(crate) mtime_ns: i64,
    pub(crate) ctime_ns: i64,
    pub(crate) inode: i64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            bytes: metadata.size().cast_signed(),
            mtime_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino().cast_signed(),
        }
    }
}

/// The files of a collection.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Files that may be records, in order of their paths.
    pub(crate) seen: Vec<Seen>,
    /// Files that cannot be read at all.
    pub(crate) left_out: Vec<LeftOut>,
}

/// The directory of a site that has copies of records next to their pages.
const COPIES: &str = "record";

/// Finds the records of a directory and its subfolders. Sites are left out, and symbolic links to directories are not
/// followed, so a loop ends. A link is reported, and so is a site with its own records.
pub(crate) fn find(folder: &Path) -> Result<Files, Error> {
    let failure = |source| Error::Folder { path: folder.display().to_string(), source };
    let mut files = Files::default();
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let entries = match std::fs::read_dir(folder.join(&below)) {
            Ok(entries) => entries,
            Err(error) if below.as_os_str().is_empty() => return Err(failure(error)),
            Err(error) => {
                files.leave_out(&below, &format!("the directory cannot be read: {error}"));
                continue;
            }
        };
        if !below.as_os_str().is_empty() && folder.join(&below).join(SITE_MARK).exists() {
            match records_of_site(&folder.join(&below)) {
                0 => {}
                count => files.leave_out(&below, &format!("a site, whose records are not read; it contains {count}")),
            }
            continue;
        }
        for entry in entries {
            let entry = entry.map_err(failure)?;
            let path = below.join(entry.file_name());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if is_folder && !is_hidden {
                folders.push(path);
            } else if is_record(&path) && !is_folder {
                files.take(folder, &path);
            } else if !is_folder && !is_hidden && folder.join(&path).is_dir() {
                files.leave_out(&path, "a symbolic link to a directory, which is not followed");
            }
        }
    }
    files.seen.sort_by(|a, b| a.path.cmp(&b.path));
    files.left_out.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn is_record(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == ENDING)
}

/// Counts the records in a site that are not copies next to their pages.
fn records_of_site(site: &Path) -> usize {
    let is_of_copies = site.file_name().is_some_and(|name| name == COPIES) && site.join(SITE_MARK).exists();
    let Ok(entries) = std::fs::read_dir(site) else { return 0 };
    if is_of_copies {
        return 0;
    }
    let count = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => records_of_site(&entry.path()),
        _ => usize::from(is_record(&entry.path())),
    };
    entries.flatten().map(count).sum()
}

impl Files {
    fn take(&mut self, folder: &Path, path: &Path) {
        let full = folder.join(path);
        let metadata = match std::fs::metadata(&full) {
            Ok(metadata) => metadata,
            Err(error) => return self.leave_out(path, &format!("it cannot be read: {error}")),
        };
        match path.to_str() {
            // Opening a named pipe would block until it has a writer.
            _ if !metadata.is_file() => self.leave_out(path, "it is not a regular file"),
            // A kernel file, as in /proc, has size 0, and reading it may block forever.
            _ if metadata.len() == 0 => self.leave_out(path, "it is empty"),
            _ if metadata.len() > BYTES_MAX => self.leave_out(path, "it is larger than 2 GiB, the limit for records"),
            None => self.leave_out(path, "its name is not UTF-8; rename it"),
            Some(name) => {
                self.seen.push(Seen { path: name.to_owned(), full, identity: Identity::of(&metadata) });
            }
        }
    }

    fn leave_out(&mut self, path: &Path, reason: &str) {
        self.left_out.push(LeftOut { path: path.display().to_string(), reason: reason.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_all_folders_are_found_and_sites_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        let names =
            ["b.ndjson", "a/c.landau.ndjson", "a/page.html", "site/.landau-site", "site/d.ndjson", ".x/e.ndjson"];
        let copies = ["pages/.landau-site", "pages/record/.landau-site", "pages/record/f.ndjson"];
        for name in names.into_iter().chain(copies) {
            write(name);
        }
        // A directory that links to itself must not be followed forever.
        std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("gone.ndjson")).unwrap();
        std::fs::create_dir(folder.path().join("folder.ndjson")).unwrap();
        let files = find(folder.path()).unwrap();
        let found: Vec<&str> = files.seen.iter().map(|seen| seen.path.as_str()).collect();
        assert_eq!(found, ["a/c.landau.ndjson", "b.ndjson"]);
        let left_out: Vec<&str> = files.left_out.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(left_out, ["gone.ndjson", "loop", "site"]);
        assert!(files.left_out[2].reason.ends_with("it contains 1"), "{:?}", files.left_out);
        assert!(find(&folder.path().join("none")).is_err());
    }

    /// Guards against a command that blocks forever, or that runs out of memory.
    #[test]
    fn files_without_or_with_too_many_bytes_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let create = |name: &str| std::fs::File::create(folder.path().join(name)).unwrap();
        create("empty.ndjson");
        create("huge.ndjson").set_len(1 << 40).unwrap();
        std::os::unix::fs::symlink("/proc/self/status", folder.path().join("proc.ndjson")).unwrap();
        let files = find(folder.path()).unwrap();
        let left_out: Vec<&str> = files.left_out.iter().map(|one| one.reason.as_str()).collect();
        assert_eq!(left_out, ["it is empty", "it is larger than 2 GiB, the limit for records", "it is empty"]);
        assert!(files.seen.is_empty());
    }

    #[test]
    fn a_file_that_is_written_again_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ndjson");
        let identity = |text: &str| {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, text).unwrap();
            find(folder.path()).unwrap().seen[0].identity
        };
        assert_ne!(identity("one"), identity("four"));
    }
}
