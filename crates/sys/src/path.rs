//! Opening files below a directory, so that no path leads out of it.

use crate::descriptor::own;
use crate::error::{Error, Result, check};
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The symbolic links that are followed below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// Links that stay inside the directory.
    #[default]
    Inside,
    /// No links.
    Never,
    /// All links.
    Anywhere,
}

/// The metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Device and inode, which identify the file.
    pub identity: (u64, u64),
    /// The length in bytes.
    pub size: u64,
    /// The last modification, in seconds since 1970.
    pub modified_s: i64,
    /// The nanoseconds of the last modification.
    pub modified_ns: u32,
    /// The last change of the content or of the metadata, in seconds since 1970 and nanoseconds. Programs can set the
    /// time of the modification, but not this one.
    pub changed: (i64, u32),
    /// The kind of file.
    pub kind: Kind,
}

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else: a device, a pipe, a socket.
    Other,
}

/// Opens a directory, for opening files below it.
pub fn open_directory(path: &CStr) -> Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    check("open", unsafe { libc::open(path.as_ptr(), flags) }).map(own)
}

/// Opens a directory for opening files below it. On Linux, the user needs permission only to search it, not to read it;
/// a sandbox that forbids reading it is an error nonetheless.
pub fn open_base(path: &CStr) -> Result<OwnedFd> {
    let opened = open_directory(path);
    #[cfg(target_os = "linux")]
    if let Err(error) = opened
        && error.errno == libc::EACCES
    {
        // This checks the mode alone: a sandbox does not change the result.
        // SAFETY: the path is a C string.
        let is_readable = unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::R_OK, libc::AT_EACCESS) } == 0;
        if is_readable {
            return Err(error);
        }
        // SAFETY: the path is a C string.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) };
        return check("open", fd).map(own);
    }
    opened
}

/// Opens a regular file for reading. Anything else is an error. The call does not wait for the writer of a pipe.
pub fn open_regular(path: &Path) -> std::io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(std::io::Error::other("not a regular file")) }
}

/// Opens an existing file for appending. A FIFO without a reader is an error, and the call does not wait for one;
/// writing to a FIFO that has a reader waits for the reader.
pub fn open_to_append(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::FileTypeExt;
    let opened = File::options().append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let is_fifo = || std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    let file = match opened {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) && is_fifo() => {
            return Err(std::io::Error::other("no process has this FIFO open for reading"));
        }
        opened => opened?,
    };
    crate::stream::set_blocking(&file, true).map_err(|error| std::io::Error::from_raw_os_error(error.errno))?;
    Ok(file)
}

/// The maximum number of attempts to resolve a path if the kernel gives up.
#[cfg(target_os = "linux")]
const ATTEMPTS: u32 = 64;

/// Opens a file or directory below a directory for reading, without waiting for the writer of a pipe. The kernel
/// resolves the whole path at once, so that no part of it can be replaced meanwhile (`openat2`, Linux 5.6). Fails with
/// EXDEV if the path leads out of the directory, and with EAGAIN if other programs rename so many files that the kernel
/// cannot decide this.
#[cfg(target_os = "linux")]
pub fn open_below(folder: &impl AsFd, path: &CStr, links: Links) -> Result<OwnedFd> {
    resolve_below(folder, path, libc::O_RDONLY, links)
}

/// Returns whether a file system is known to be on a local disk or in memory. Other file systems may ask a server for
/// each file that is opened, and wait for its answer.
#[cfg(target_os = "linux")]
pub fn is_local(folder: &impl AsFd) -> bool {
    /// The magic numbers of `btrfs`, `ext4` and its predecessors, `f2fs`, `overlay`, `tmpfs` and `xfs`, from statfs(2).
    /// The layers of an overlay are assumed to be local.
    const LOCAL: [u64; 6] = [0x9123_683e, 0xef53, 0xf2f5_2010, 0x794c_7630, 0x0102_1994, 0x5846_5342];
    // SAFETY: `statfs` is plain data for which all zeroes is a value.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is writable.
    let asked = unsafe { libc::fstatfs(folder.as_fd().as_raw_fd(), &raw mut found) };
    #[allow(clippy::unnecessary_cast, reason = "the field's type differs between C libraries")]
    let kind = found.f_type as u64 & 0xffff_ffff;
    asked == 0 && LOCAL.contains(&kind)
}

/// Returns true: on this system every file system is treated as local.
#[cfg(not(target_os = "linux"))]
pub fn is_local(_: &impl AsFd) -> bool {
    true
}

/// Returns the metadata of the file at a path below a directory; the file need not be readable. Fails like
/// [`open_below`].
#[cfg(target_os = "linux")]
pub fn status_below(folder: &impl AsFd, path: &CStr, links: Links) -> Result<Status> {
    status(&locate_below(folder, path, links)?)
}

/// Opens a path below a directory only to locate it: it need not be readable. Fails like [`open_below`].
#[cfg(target_os = "linux")]
pub fn locate_below(folder: &impl AsFd, path: &CStr, links: Links) -> Result<OwnedFd> {
    resolve_below(folder, path, libc::O_PATH, links)
}

/// Opens a path below a directory, even over absolute links that stay inside.
#[cfg(target_os = "linux")]
fn resolve_below(folder: &impl AsFd, path: &CStr, flags: libc::c_int, links: Links) -> Result<OwnedFd> {
    match resolve(folder, path, flags, confinement(links)) {
        Err(error) if error.errno == libc::EXDEV && links == Links::Inside => {
            resolve(folder, &inside(folder, path)?, flags, confinement(links))
        }
        opened => opened,
    }
}

#[cfg(target_os = "linux")]
fn confinement(links: Links) -> u64 {
    match links {
        Links::Inside => libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS,
        Links::Never => libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS,
        Links::Anywhere => libc::RESOLVE_NO_MAGICLINKS,
    }
}

/// Opens a path. The kernel gives up with EAGAIN if anything on the machine is renamed while it resolves `..`.
#[cfg(target_os = "linux")]
fn resolve(folder: &impl AsFd, path: &CStr, flags: libc::c_int, resolve: u64) -> Result<OwnedFd> {
    // SAFETY: `open_how` is plain data for which all zeroes is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    let beside = if flags == libc::O_PATH { 0 } else { libc::O_NONBLOCK | libc::O_NOCTTY };
    how.flags = (flags | beside | libc::O_CLOEXEC) as u64;
    how.resolve = resolve;
    let (fd, name, size) = (folder.as_fd().as_raw_fd(), path.as_ptr(), size_of::<libc::open_how>());
    let mut attempt = 0;
    loop {
        // SAFETY: the path is a C string and `how` is valid for its size.
        let opened = unsafe { libc::syscall(libc::SYS_openat2, fd, name, &raw const how, size) };
        attempt += 1;
        match check("openat2", opened as libc::c_int) {
            Err(error) if error.errno == libc::EAGAIN && attempt < ATTEMPTS => {}
            opened => return opened.map(own),
        }
    }
}

/// Resolves a path over absolute links. Returns the target's path, without links and relative to the directory. Fails
/// with EXDEV if the target is outside, whether or not it exists: the error must not reveal what is there.
/// `RESOLVE_BENEATH` refuses every absolute link, even one that stays inside.
#[cfg(target_os = "linux")]
fn inside(folder: &impl AsFd, path: &CStr) -> Result<std::ffi::CString> {
    let outside = Error { call: "openat2", errno: libc::EXDEV };
    let found = resolve(folder, path, libc::O_PATH, libc::RESOLVE_NO_MAGICLINKS)
        .map_err(|error| if error.is_out_of_descriptors() { error } else { outside })?;
    let below = real_path_below(folder, &found)?.ok_or(outside)?;
    std::ffi::CString::new(if below.is_empty() { b".".to_vec() } else { below }).map_err(|_| outside)
}

/// Returns the path, without links and relative to the directory, of an open file or directory; `None` if it is
/// outside. Fails with ESTALE if the file no longer has a name, or if the directory was moved meanwhile. Without
/// `/proc` this is an error.
#[cfg(target_os = "linux")]
pub fn real_path_below(folder: &impl AsFd, file: &impl AsFd) -> Result<Option<Vec<u8>>> {
    use std::os::unix::ffi::OsStrExt;
    // The link of this thread, which may have a separate descriptor table.
    let real = |fd: i32| {
        let link = std::fs::read_link(format!("/proc/thread-self/fd/{fd}"));
        link.map_err(|error| Error::from_io("readlink", &error))
    };
    let stale = Error::stale("readlink");
    let (base, path) = (real(folder.as_fd().as_raw_fd())?, real(file.as_fd().as_raw_fd())?);
    if real(folder.as_fd().as_raw_fd())? != base {
        return Err(stale);
    }
    let Ok(below) = path.strip_prefix(&base) else { return Ok(None) };
    let below = below.as_os_str().as_bytes().to_vec();
    // The kernel appends this to the path of a removed file. There may also be a file with such a name.
    if below.ends_with(b" (deleted)") {
        let name = std::ffi::CString::new(below.as_slice()).map_err(|_| stale)?;
        let is_there = status_below(folder, &name, Links::Never).map(|found| found.identity);
        if is_there != Ok(status(file)?.identity) {
            return Err(stale);
        }
    }
    Ok(Some(below))
}

/// Returns the path, without links and relative to the directory, of an open file or directory. This system has no call
/// for that.
#[cfg(not(target_os = "linux"))]
pub fn real_path_below(_: &impl AsFd, _: &impl AsFd) -> Result<Option<Vec<u8>>> {
    Err(Error { call: "readlink", errno: libc::ENOSYS })
}

/// Opens a file or directory below a directory for reading: component by component, without following any symbolic link
/// unless all are allowed, since this system has no call that follows only links that stay inside.
#[cfg(not(target_os = "linux"))]
pub fn open_below(folder: &impl AsFd, path: &CStr, links: Links) -> Result<OwnedFd> {
    let base = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    if links == Links::Anywhere {
        // SAFETY: the path is a C string.
        return check("openat", unsafe { libc::openat(folder.as_fd().as_raw_fd(), path.as_ptr(), base) }).map(own);
    }
    let mut opened: Option<OwnedFd> = None;
    for part in path.to_bytes().split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
        if part == b".." {
            return Err(Error { call: "openat", errno: libc::EXDEV });
        }
        let at = opened.as_ref().map_or(folder.as_fd().as_raw_fd(), AsRawFd::as_raw_fd);
        let name = std::ffi::CString::new(part).map_err(|_| Error { call: "openat", errno: libc::EINVAL })?;
        // SAFETY: the name is a C string.
        opened = Some(check("openat", unsafe { libc::openat(at, name.as_ptr(), base | libc::O_NOFOLLOW) }).map(own)?);
    }
    opened.ok_or(Error { call: "openat", errno: libc::ENOENT })
}

/// Opens a path below a directory to locate it. Fails like [`open_below`].
#[cfg(not(target_os = "linux"))]
pub fn locate_below(folder: &impl AsFd, path: &CStr, links: Links) -> Result<OwnedFd> {
    open_below(folder, path, links)
}

/// Returns the metadata of the file at a path below a directory. Fails like [`open_below`].
#[cfg(not(target_os = "linux"))]
pub fn status_below(folder: &impl AsFd, path: &CStr, links: Links) -> Result<Status> {
    status(&open_below(folder, path, links)?)
}

/// Returns whether an open directory was removed: it then has no entry, and never will.
pub fn is_removed(folder: &impl AsFd) -> Result<bool> {
    Ok(stat(folder)?.st_nlink == 0)
}

/// Returns the metadata of an open file.
pub fn status(file: &impl AsFd) -> Result<Status> {
    Ok(described(&stat(file)?))
}

fn stat(file: &impl AsFd) -> Result<libc::stat> {
    // SAFETY: `stat` is plain data for which all zeroes is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is writable.
    check("fstat", unsafe { libc::fstat(file.as_fd().as_raw_fd(), &raw mut stat) })?;
    Ok(stat)
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
fn described(stat: &libc::stat) -> Status {
    Status {
        identity: (stat.st_dev as u64, stat.st_ino as u64),
        size: stat.st_size as u64,
        modified_s: stat.st_mtime as i64,
        modified_ns: modified_ns(stat),
        changed: (stat.st_ctime as i64, changed_ns(stat)),
        kind: match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG => Kind::File,
            libc::S_IFDIR => Kind::Directory,
            _ => Kind::Other,
        },
    }
}

#[cfg(not(target_os = "netbsd"))]
#[allow(clippy::unnecessary_cast, reason = "the field's type differs between systems")]
fn modified_ns(stat: &libc::stat) -> u32 {
    stat.st_mtime_nsec as u32
}

#[cfg(target_os = "netbsd")]
fn modified_ns(stat: &libc::stat) -> u32 {
    stat.st_mtimensec as u32
}

#[cfg(not(target_os = "netbsd"))]
#[allow(clippy::unnecessary_cast, reason = "the field's type differs between systems")]
fn changed_ns(stat: &libc::stat) -> u32 {
    stat.st_ctime_nsec as u32
}

#[cfg(target_os = "netbsd")]
fn changed_ns(stat: &libc::stat) -> u32 {
    stat.st_ctimensec as u32
}

/// Returns whether the byte at an offset can be read without waiting for the device (`preadv2` with `RWF_NOWAIT`, Linux
/// 4.14); `None` if the file system cannot tell.
#[cfg(target_os = "linux")]
pub fn is_cached(file: &impl AsFd, offset: u64) -> Option<bool> {
    let mut byte = 0_u8;
    let slice = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let (fd, offset) = (file.as_fd().as_raw_fd(), offset as libc::off_t);
    // SAFETY: the slice is one writable byte.
    let got = unsafe { libc::preadv2(fd, &raw const slice, 1, offset, libc::RWF_NOWAIT) };
    if got >= 0 {
        return Some(true);
    }
    (Error::last("preadv2").is_would_block()).then_some(false)
}

/// Reads cached data of a file at an offset; 0 is the end of the file. Fails with EAGAIN if nothing is cached there. If
/// the file system cannot tell, it reads and waits for the device.
#[cfg(target_os = "linux")]
pub fn read_cached(file: &impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: the slice is the buffer, which is writable for its whole length.
    let got = unsafe {
        libc::preadv2(file.as_fd().as_raw_fd(), &raw const slice, 1, offset as libc::off_t, libc::RWF_NOWAIT)
    };
    if got >= 0 {
        return Ok(got as usize);
    }
    let error = Error::last("preadv2");
    if error.is_would_block() { Err(error) } else { crate::stream::read_at(file, buffer, offset) }
}

/// Reads a file at an offset, waiting for the device: this system does not report what is cached.
#[cfg(not(target_os = "linux"))]
pub fn read_cached(file: &impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    crate::stream::read_at(file, buffer, offset)
}

/// Returns whether the byte at an offset is cached: this system does not report it.
#[cfg(not(target_os = "linux"))]
pub fn is_cached(_: &impl AsFd, _: u64) -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    fn c(text: &str) -> CString {
        CString::new(text).unwrap()
    }

    #[test]
    fn no_path_leads_out_of_the_directory() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(place.path().join("secret"), "s").unwrap();
        std::fs::write(root.join("sub/file"), "hello").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("out")).unwrap();
        std::os::unix::fs::symlink("sub/file", root.join("in")).unwrap();
        let folder = open_directory(&CString::new(root.as_os_str().as_bytes()).unwrap()).unwrap();
        let opens = |name: &str, links| open_below(&folder, &c(name), links).is_ok();
        assert!(opens("sub/file", Links::Inside) && opens("sub/file", Links::Never));
        for out in ["../secret", "sub/../../secret", "out", "/etc/passwd"] {
            assert!(!opens(out, Links::Inside) && !opens(out, Links::Never), "{out}");
        }
        assert!(opens("out", Links::Anywhere) && !opens("in", Links::Never));
        assert_eq!(opens("in", Links::Inside), cfg!(target_os = "linux"));
        let file = open_below(&folder, &c("sub/file"), Links::Inside).unwrap();
        let metadata = status(&file).unwrap();
        assert_eq!((metadata.size, metadata.kind), (5, Kind::File));
        assert_ne!(is_cached(&file, 0), Some(false));
        assert_eq!(status_below(&folder, &c("sub/file"), Links::Inside), Ok(metadata));
        let mut buffer = [0; 9];
        assert_eq!((read_cached(&file, &mut buffer, 1), &buffer[..4]), (Ok(4), &b"ello"[..]));
        assert_eq!(read_cached(&file, &mut buffer, 5), Ok(0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn absolute_links_are_followed_inside_only() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::create_dir(place.path().join("root2")).unwrap();
        std::fs::write(place.path().join("root2/secret"), "s").unwrap();
        std::fs::write(root.join("sub/file"), "hello").unwrap();
        let link = |target: &std::path::Path, name: &str| std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        link(&root.join("sub/file"), "in");
        link(&root.join("sub"), "folder");
        link(&root, "whole");
        link(&place.path().join("root2/secret"), "beside");
        link(std::path::Path::new("/etc/passwd"), "out");
        link(&root.join("sub/none"), "dangling");
        let folder = open_directory(&CString::new(root.as_os_str().as_bytes()).unwrap()).unwrap();
        let errno = |name: &str, links| open_below(&folder, &c(name), links).map_or_else(|error| error.errno, |_| 0);
        for name in ["in", "folder/file", "whole/sub/file", "whole"] {
            assert_eq!(errno(name, Links::Inside), 0, "{name}");
            assert_eq!(errno(name, Links::Never), libc::ELOOP, "{name}");
        }
        // The error does not reveal whether there is something outside.
        assert_eq!(["beside", "out", "dangling"].map(|name| errno(name, Links::Inside)), [libc::EXDEV; 3]);
        let kind = |name: &str| status_below(&folder, &c(name), Links::Inside).map(|status| status.kind);
        assert_eq!((kind("folder"), kind("in")), (Ok(Kind::Directory), Ok(Kind::File)));
        assert_eq!(kind("beside").map_err(|error| error.errno), Err(libc::EXDEV));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_removed_file_has_no_real_path() {
        let place = tempfile::tempdir().unwrap();
        let folder = open_directory(&CString::new(place.path().as_os_str().as_bytes()).unwrap()).unwrap();
        for name in ["a", "b (deleted)", "outside"] {
            std::fs::write(place.path().join(name), "x").unwrap();
        }
        let open = |name: &str| open_below(&folder, &c(name), Links::Inside).unwrap();
        let (removed, named_so) = (open("a"), open("b (deleted)"));
        // The file still has another name, which its descriptor does not reveal.
        std::fs::hard_link(place.path().join("a"), place.path().join("c")).unwrap();
        std::fs::rename(place.path().join("outside"), place.path().join("a")).unwrap();
        assert!(real_path_below(&folder, &removed).is_err_and(Error::is_stale));
        assert_eq!(real_path_below(&folder, &named_so), Ok(Some(b"b (deleted)".to_vec())));
        assert_eq!(real_path_below(&folder, &open("a")), Ok(Some(b"a".to_vec())));
        std::fs::remove_file(place.path().join("b (deleted)")).unwrap();
        assert!(real_path_below(&folder, &named_so).is_err_and(Error::is_stale));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn renames_elsewhere_hide_no_file() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("file"), "hello").unwrap();
        std::os::unix::fs::symlink("../file", root.join("sub/link")).unwrap();
        let folder = open_directory(&CString::new(root.as_os_str().as_bytes()).unwrap()).unwrap();
        let (is_over, renames) = (AtomicBool::new(false), place.path().join("renamed"));
        std::fs::create_dir(&renames).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::fs::rename(&renames, place.path().join("other")).unwrap();
                    std::fs::rename(place.path().join("other"), &renames).unwrap();
                }
            });
            let failed = (0..20_000).filter(|_| open_below(&folder, &c("sub/link"), Links::Inside).is_err()).count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(failed, 0);
        });
    }
}
