//! Opening files below a folder, such that no name leads out of it.

use crate::descriptor::own;
use crate::error::{Error, Result, check};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Which symbolic links are followed below a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// Those that stay inside.
    #[default]
    Inside,
    /// None.
    Never,
    /// All, wherever they lead.
    Anywhere,
}

/// What the kernel says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Device and inode: the same file.
    pub identity: (u64, u64),
    /// Length in bytes.
    pub size: u64,
    /// Last change of the content: seconds since 1970.
    pub modified_s: i64,
    /// Nanoseconds of it.
    pub modified_ns: u32,
    /// What it is.
    pub kind: Kind,
}

/// What a name may stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A device, a pipe, a socket.
    Other,
}

/// Opens a folder, as a place to open others below.
pub fn open_directory(path: &CStr) -> Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    check("open", unsafe { libc::open(path.as_ptr(), flags) }).map(own)
}

/// Opens a file or folder below a folder for reading, without waiting for the writer of a pipe. The kernel resolves
/// the name as a whole, so that nobody can exchange a part of it halfway (`openat2`, Linux 5.6).
#[cfg(target_os = "linux")]
pub fn open_below(folder: &impl AsFd, path: &CStr, links: Links) -> Result<OwnedFd> {
    // SAFETY: `open_how` is plain data for which all zeroes is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY) as u64;
    how.resolve = match links {
        Links::Inside => libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS,
        Links::Never => libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS,
        Links::Anywhere => libc::RESOLVE_NO_MAGICLINKS,
    };
    let (fd, name, size) = (folder.as_fd().as_raw_fd(), path.as_ptr(), size_of::<libc::open_how>());
    // SAFETY: the path is a C string and `how` is valid for its size.
    let opened = unsafe { libc::syscall(libc::SYS_openat2, fd, name, &raw const how, size) };
    check("openat2", opened as libc::c_int).map(own)
}

/// Opens a file or folder below a folder for reading: part by part, without following any symbolic link unless all
/// are allowed, for want of a call that follows those that stay inside.
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

/// What the kernel says of an open file.
pub fn status(file: &impl AsFd) -> Result<Status> {
    // SAFETY: `stat` is plain data for which all zeroes is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` may be written by the call.
    check("fstat", unsafe { libc::fstat(file.as_fd().as_raw_fd(), &raw mut stat) })?;
    Ok(described(&stat))
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
fn described(stat: &libc::stat) -> Status {
    Status {
        identity: (stat.st_dev as u64, stat.st_ino as u64),
        size: stat.st_size as u64,
        modified_s: stat.st_mtime as i64,
        modified_ns: modified_ns(stat),
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

/// Whether reading a byte at a place would not have to wait for the device (`preadv2` with `RWF_NOWAIT`, Linux 4.14).
/// None where the file system cannot say.
#[cfg(target_os = "linux")]
pub fn is_cached(file: &impl AsFd, offset: u64) -> Option<bool> {
    let mut byte = 0_u8;
    let piece = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let (fd, offset) = (file.as_fd().as_raw_fd(), offset as libc::off_t);
    // SAFETY: the piece leads to one byte that the call may write.
    let got = unsafe { libc::preadv2(fd, &raw const piece, 1, offset, libc::RWF_NOWAIT) };
    if got >= 0 {
        return Some(true);
    }
    (Error::last("preadv2").is_would_block()).then_some(false)
}

/// Reads from a place in a file what is in memory there; 0 is the file's end. EAGAIN says that nothing is; where the
/// file system cannot tell, it is read however long that takes.
#[cfg(target_os = "linux")]
pub fn read_cached(file: &impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: the piece leads to bytes that the call may write.
    let got = unsafe {
        libc::preadv2(file.as_fd().as_raw_fd(), &raw const piece, 1, offset as libc::off_t, libc::RWF_NOWAIT)
    };
    if got >= 0 {
        return Ok(got as usize);
    }
    let error = Error::last("preadv2");
    if error.is_would_block() { Err(error) } else { crate::stream::read_at(file, buffer, offset) }
}

/// Reads from a place in a file, however long that takes: this system does not say what is in memory.
#[cfg(not(target_os = "linux"))]
pub fn read_cached(file: &impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    crate::stream::read_at(file, buffer, offset)
}

/// Whether reading a byte at a place would not have to wait for the device: this system does not say.
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
    fn no_name_leads_out() {
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
        let said = status(&file).unwrap();
        assert_eq!((said.size, said.kind), (5, Kind::File));
        assert_ne!(is_cached(&file, 0), Some(false));
        let mut buffer = [0; 9];
        assert_eq!((read_cached(&file, &mut buffer, 1), &buffer[..4]), (Ok(4), &b"ello"[..]));
        assert_eq!(read_cached(&file, &mut buffer, 5), Ok(0));
    }
}
