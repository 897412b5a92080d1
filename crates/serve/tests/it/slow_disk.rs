//! A disk that does not answer, or fails: a file system of this process (FUSE) that delays requests until the test
//! releases them.

use crate::support::{Client, Site, kinds, set_rules, until};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, Request,
};
use landau_reactor::ManualClock;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

/// The kernel caches nothing, so that each lookup reaches the disk.
const TTL: Duration = Duration::ZERO;

/// The files, each with its name as content. The lookup of the second and the content of the third are delayed.
const FILES: [&str; 3] = ["fast", "unknown", "unread"];

/// A name whose lookup fails until it is repaired; it is then the first file.
const BROKEN: &str = "broken";

/// The delayed replies, until they are released.
#[derive(Default)]
struct Held {
    is_released: bool,
    is_repaired: bool,
    entries: Vec<ReplyEntry>,
    contents: Vec<ReplyData>,
}

#[derive(Default, Clone)]
struct Disk(Arc<Mutex<Held>>);

impl Disk {
    fn held_count(&self) -> usize {
        let held = self.0.lock().unwrap();
        held.entries.len() + held.contents.len()
    }

    fn release(&self) {
        let mut held = self.0.lock().unwrap();
        held.is_released = true;
        for reply in held.entries.drain(..) {
            reply.entry(&TTL, &file(1), Generation(0));
        }
        for reply in held.contents.drain(..) {
            reply.data(FILES[2].as_bytes());
        }
    }
}

/// Releases the disk, even if the test fails: the server stops only after its threads have got their replies.
struct Release(Disk);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The mounted file system, which is unmounted even if the test fails.
struct Mounted {
    _session: BackgroundSession,
    folder: TempDir,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily, because threads of the server may hold it for a moment.
        let unmounted = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
        assert!(std::thread::panicking() || unmounted.is_ok_and(|status| status.success()), "it stays mounted");
    }
}

fn attributes(number: u64, kind: FileType, size: u64) -> FileAttr {
    let (perm, time) = if kind == FileType::Directory { (0o755, UNIX_EPOCH) } else { (0o644, UNIX_EPOCH) };
    FileAttr {
        ino: INodeNo(number),
        size,
        blocks: 1,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 512,
        flags: 0,
    }
}

fn file(index: usize) -> FileAttr {
    attributes(index as u64 + 2, FileType::RegularFile, FILES[index].len() as u64)
}

impl Filesystem for Disk {
    /// Enables parallel lookups; otherwise the kernel makes one at a time in a directory.
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS).map_err(|_| std::io::ErrorKind::Unsupported.into())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut held = self.0.lock().unwrap();
        if name == BROKEN && !held.is_repaired {
            return reply.error(Errno::ENOTCONN);
        }
        let name = if name == BROKEN { OsStr::new(FILES[0]) } else { name };
        let Some(index) = FILES.iter().position(|file| name == *file) else { return reply.error(Errno::ENOENT) };
        if index == 1 && !held.is_released {
            return held.entries.push(reply);
        }
        reply.entry(&TTL, &file(index), Generation(0));
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match u64::from(number) {
            1 => reply.attr(&TTL, &attributes(1, FileType::Directory, 0)),
            number => reply.attr(&TTL, &file(number as usize - 2)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        for (index, name) in FILES.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(index as u64 + 2), index as u64 + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        _: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let index = u64::from(number) as usize - 2;
        let mut held = self.0.lock().unwrap();
        if index == 2 && !held.is_released {
            return held.contents.push(reply);
        }
        reply.data(FILES[index].as_bytes().get(offset as usize..).unwrap_or_default());
    }
}

/// Mounts a disk, if this system permits it.
fn mount(disk: &Disk) -> Option<Mounted> {
    mount_in(&std::env::temp_dir(), disk)
}

/// Mounts a disk below a directory.
fn mount_in(place: &Path, disk: &Disk) -> Option<Mounted> {
    let folder = tempfile::Builder::new().prefix("disk").tempdir_in(place).unwrap();
    let mut config = Config::default();
    config.mount_options = vec![MountOption::RO];
    match fuser::spawn_mount(disk.clone(), folder.path(), &config) {
        Ok(session) => Some(Mounted { _session: session, folder }),
        Err(error) => {
            eprintln!("skipped: a file system cannot be mounted here: {error}");
            None
        }
    }
}

fn ask(site: &Site, name: &str) -> Client {
    let mut client = site.connect();
    client.send(format!("GET /{name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes());
    client
}

/// The only worker once looked files up itself and waited for the disk, and served no other client meanwhile.
#[test]
fn a_slow_disk_delays_only_those_who_wait_for_it() {
    for kind in kinds() {
        let disk = Disk::default();
        let Some(mounted) = mount(&disk) else { return };
        let root = mounted.folder.path().to_owned();
        let site = Site::new(&[], |config| {
            (config.root, config.accepting, config.cache_for) = (root, kind, Duration::ZERO);
            set_rules(config, "[[rule]]\npath = '/unknown/x/'\nproxy = 'unix:/nowhere/app.sock'\n");
        });
        let _release = Release(disk.clone());
        assert_eq!(site.get("/fast", "").body, b"fast", "{kind:?}");
        // A forwarded request needs no lookup, and no listing is made.
        assert_eq!(site.get("/unknown/x/?sort=size", "").status, 502, "{kind:?}");
        assert_eq!(disk.held_count(), 0, "{kind:?}");
        let names = ["unknown", "unread", "unknown"];
        let mut waiting = names.map(|name| ask(&site, name));
        until(format!("{kind:?}: nobody waits"), || disk.held_count() == 2);
        // The cache is never trusted, so each of them is looked up.
        for _ in 0..20 {
            assert_eq!(site.get("/fast", "").body, b"fast", "{kind:?}");
            assert_eq!(site.get("/missing", "").status, 404, "{kind:?}");
        }
        assert_eq!(disk.held_count(), 2, "{kind:?}: one file was looked up twice");
        disk.release();
        for (client, name) in waiting.iter_mut().zip(names) {
            assert_eq!(client.answer().unwrap().body, name.as_bytes(), "{kind:?}");
        }
        assert!(site.end().remote_look_ups >= 43, "{kind:?}");
    }
}

/// The page of a listing and the path each come from another thread. Each was once looked up again because the other
/// had expired, for ever.
#[test]
fn a_page_that_expires_while_it_is_made_is_sent() {
    for kind in kinds() {
        let disk = Disk::default();
        disk.release();
        let Some(mounted) = mount(&disk) else { return };
        let root = mounted.folder.path().to_owned();
        let site = Site::new(&[], |config| {
            (config.root, config.accepting, config.cache_for) = (root, kind, Duration::ZERO);
        });
        for target in ["/", "/?sort=size", "/?order=desc"] {
            let got = site.get(target, "");
            let text = String::from_utf8_lossy(&got.body);
            assert!(got.status == 200 && FILES.iter().all(|file| text.contains(file)), "{kind:?} {target}: {text}");
        }
        assert_eq!(site.end().remote_look_ups, 3, "{kind:?}");
    }
}

/// A file that could not be looked up was once missing for as long as the cache keeps entries, or another one was sent
/// in its place.
#[test]
fn what_a_failing_disk_does_not_find_is_not_missing() {
    for kind in kinds() {
        let disk = Disk::default();
        let Some(mounted) = mount(&disk) else { return };
        let root = mounted.folder.path().to_owned();
        let site = Site::new(&[], |config| {
            (config.root, config.accepting, config.cache_for) = (root, kind, Duration::from_secs(3600));
            set_rules(config, "[[rule]]\npath = '/'\ntry-files = '/fast'\n");
        });
        assert_eq!(site.get("/missing", "").body, b"fast", "{kind:?}");
        for _ in 0..2 {
            let got = site.get("/broken", "");
            assert_eq!((got.status, got.field("Retry-After")), (503, Some("5")), "{kind:?}");
        }
        disk.0.lock().unwrap().is_repaired = true;
        assert_eq!(site.get("/broken", "").status, 200, "{kind:?}");
    }
}

/// A request for a file of a failing disk once made the server close all large files in its cache.
#[test]
fn a_failing_disk_leaves_the_cache_alone() {
    for kind in kinds() {
        let (place, disk) = (tempfile::tempdir().unwrap(), Disk::default());
        let Some(mounted) = mount_in(place.path(), &disk) else { return };
        let broken = format!("/{}/broken", mounted.folder.path().file_name().unwrap().to_str().unwrap());
        let (root, large) = (place.path().to_owned(), place.path().join("large"));
        fs::write(&large, vec![b'x'; 1 << 20]).unwrap();
        let site = Site::new(&[], |config| {
            (config.root, config.accepting, config.cache_for) = (root, kind, Duration::from_secs(3600));
        });
        assert_eq!(site.get("/large", "").body.len(), 1 << 20, "{kind:?}");
        fs::remove_file(&large).unwrap();
        assert_eq!(site.get(&broken, "").status, 503, "{kind:?}");
        assert_eq!(site.get("/large", "").status, 200, "{kind:?}");
    }
}

/// A request that needs no lookup once took the turn to follow the served directory. A new release was then not
/// noticed for another half of the time for which entries are trusted, repeatedly.
#[test]
fn a_disk_is_followed_whatever_else_is_requested() {
    for kind in kinds() {
        let (place, disk) = (tempfile::tempdir().unwrap(), Disk::default());
        let Some(mounted) = mount(&disk) else { return };
        let (link, next, clock) = (place.path().join("current"), place.path().join("next"), ManualClock::default());
        symlink(mounted.folder.path(), &link).unwrap();
        let site = Site::new(&[], |config| {
            (config.root, config.accepting) = (link.clone(), kind);
            (config.cache_for, config.clock) = (Duration::from_secs(1), Some(clock.clone()));
        });
        assert_eq!(site.get("/fast", "").body, b"fast", "{kind:?}");
        fs::create_dir(&next).unwrap();
        fs::write(next.join("fast"), "new").unwrap();
        symlink("next", place.path().join("new")).unwrap();
        fs::rename(place.path().join("new"), &link).unwrap();
        clock.advance(Duration::from_millis(600));
        assert_eq!(site.get("/.hidden", "").status, 404, "{kind:?}");
        clock.advance(Duration::from_millis(400));
        assert_eq!(site.get("/fast", "").body, b"new", "{kind:?}");
    }
}

/// A result was once trusted from the end of the lookup on, however long the lookup had taken.
#[test]
fn a_slow_look_up_is_as_old_as_its_order() {
    for kind in kinds() {
        let disk = Disk::default();
        let Some(mounted) = mount(&disk) else { return };
        let (root, clock) = (mounted.folder.path().to_owned(), ManualClock::default());
        let site = Site::new(&[], |config| {
            (config.root, config.accepting) = (root, kind);
            (config.cache_for, config.clock) = (Duration::from_secs(1), Some(clock.clone()));
        });
        let _release = Release(disk.clone());
        let mut waiting = ask(&site, "unknown");
        until(format!("{kind:?}: nobody waits"), || disk.held_count() == 1);
        clock.advance(Duration::from_millis(600));
        // This lookup also follows the directory.
        assert_eq!(site.get("/fast", "").body, b"fast", "{kind:?}");
        disk.release();
        assert_eq!(waiting.answer().unwrap().body, b"unknown", "{kind:?}");
        let look_ups = || site.server().totals().remote_look_ups;
        let before = look_ups();
        clock.advance(Duration::from_millis(300));
        assert_eq!((site.get("/unknown", "").body, look_ups()), (b"unknown".to_vec(), before), "{kind:?}");
        clock.advance(Duration::from_millis(100));
        assert_eq!((site.get("/unknown", "").body, look_ups()), (b"unknown".to_vec(), before + 1), "{kind:?}");
    }
}
