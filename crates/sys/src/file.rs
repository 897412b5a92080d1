//! Files by name in an open directory, as benchmarks time them: one function for each system call.

use crate::descriptor::own;
use crate::error::{Error, Result, check};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Returns a length, or the error in `errno` if it is -1.
fn length(call: &'static str, value: libc::ssize_t) -> Result<usize> {
    if value < 0 { Err(Error::last(call)) } else { Ok(value as usize) }
}

/// Creates a file that does not exist yet, for writing. With `is_synchronous`, each write returns when the device has
/// the data (`O_DSYNC`).
#[inline(always)]
pub fn create(directory: &OwnedFd, name: &CStr, is_synchronous: bool) -> Result<OwnedFd> {
    let synchronous = if is_synchronous { libc::O_DSYNC } else { 0 };
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | synchronous;
    let mode: libc::c_uint = 0o600;
    // SAFETY: the name is a C string that lives as long as the call.
    check("open", unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, mode) }).map(own)
}

/// Opens a file for reading.
#[inline(always)]
pub fn open(directory: &OwnedFd, name: &CStr) -> Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the name is a C string that lives as long as the call.
    check("open", unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags) }).map(own)
}

/// Writes all bytes, with one call unless the kernel takes fewer.
#[inline(always)]
pub fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the slice is readable for its whole length.
        let written = unsafe { libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        bytes = &bytes[length("write", written)?..];
    }
    Ok(())
}

/// Fills the buffer, with one call unless the kernel returns fewer bytes. Returns the number of bytes, which is smaller
/// than the buffer if the file ends earlier.
#[inline(always)]
pub fn read_all(file: &OwnedFd, buffer: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let room = &mut buffer[done..];
        // SAFETY: the buffer is writable for its whole length.
        let got = unsafe { libc::read(file.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
        match length("read", got)? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

/// Writes a file's or a directory's dirty data and metadata to the device (`fsync`).
#[inline(always)]
pub fn sync(file: &OwnedFd) -> Result<()> {
    // SAFETY: the call takes an integer.
    check("fsync", unsafe { libc::fsync(file.as_raw_fd()) }).map(drop)
}

/// Writes everything that is dirty in the file system of a descriptor to the device (`syncfs`).
#[cfg(target_os = "linux")]
pub fn sync_file_system(fd: &OwnedFd) -> Result<()> {
    // SAFETY: the call takes an integer.
    check("syncfs", unsafe { libc::syncfs(fd.as_raw_fd()) }).map(drop)
}

/// Writes everything that is dirty in a file system to the device: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn sync_file_system(_: &OwnedFd) -> Result<()> {
    Err(Error::unsupported("syncfs"))
}

/// Returns the size of a file in bytes (`fstatat`).
#[inline(always)]
pub fn size(directory: &OwnedFd, name: &CStr) -> Result<u64> {
    // SAFETY: `stat` is plain data for which all zeroes is a value.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a C string, and `status` may be written.
    check("stat", unsafe { libc::fstatat(directory.as_raw_fd(), name.as_ptr(), &raw mut status, 0) })?;
    Ok(status.st_size as u64)
}

/// Renames a file within its directory.
#[inline(always)]
pub fn rename(directory: &OwnedFd, from: &CStr, to: &CStr) -> Result<()> {
    let directory = directory.as_raw_fd();
    // SAFETY: both names are C strings.
    check("rename", unsafe { libc::renameat(directory, from.as_ptr(), directory, to.as_ptr()) }).map(drop)
}

/// Removes a file.
#[inline(always)]
pub fn remove(directory: &OwnedFd, name: &CStr) -> Result<()> {
    // SAFETY: the name is a C string.
    check("unlink", unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

/// `FS_TOPDIR_FL` of `linux/fs.h`: the directory is the top of unrelated hierarchies.
#[cfg(target_os = "linux")]
const TOP_DIRECTORY: libc::c_long = 0x0002_0000;

/// Asks the file system to place the directories that are created in this one far from each other, as `chattr +T` does:
/// ext4 then chooses a block group for each by its name and by how full the groups are. Fails on file systems without
/// block groups (EOPNOTSUPP, ENOTTY).
#[cfg(target_os = "linux")]
pub fn spread_directories(directory: &OwnedFd) -> Result<()> {
    let mut flags: libc::c_long = 0;
    // SAFETY: `flags` is as large as the call's type says, and may be written.
    check("ioctl", unsafe { libc::ioctl(directory.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) })?;
    flags |= TOP_DIRECTORY;
    // SAFETY: `flags` is as large as the call's type says.
    check("ioctl", unsafe { libc::ioctl(directory.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) }).map(drop)
}

/// Asks the file system to place new directories far from each other: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn spread_directories(_: &OwnedFd) -> Result<()> {
    Err(Error::unsupported("ioctl"))
}

/// The buffer size in bytes of one call that reads a directory, as in the C library.
#[cfg(target_os = "linux")]
const LISTING_BYTES: usize = 32 << 10;

/// Reads a directory (`getdents64`).
#[derive(Debug)]
pub struct Listing {
    #[cfg(target_os = "linux")]
    directory: OwnedFd,
    #[cfg(target_os = "linux")]
    buffer: Vec<u64>,
}

#[cfg(target_os = "linux")]
impl Listing {
    /// Opens a directory again, so that it is read from its beginning.
    pub fn new(directory: &OwnedFd) -> Result<Self> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the path is a C string.
        let own_handle =
            check("open", unsafe { libc::openat(directory.as_raw_fd(), c".".as_ptr(), flags) }).map(own)?;
        Ok(Self { directory: own_handle, buffer: vec![0; LISTING_BYTES / 8] })
    }

    /// Reads the next part of the directory and returns the number of its names without `.` and `..`; `None` at the
    /// end.
    pub fn next_count(&mut self) -> Result<Option<u64>> {
        let (first, bytes) = (self.buffer.as_mut_ptr(), self.buffer.len() * 8);
        // SAFETY: the buffer is writable for `bytes` bytes, and aligned for the entries.
        let got = unsafe { libc::syscall(libc::SYS_getdents64, self.directory.as_raw_fd(), first, bytes) };
        let got = length("getdents64", got as libc::ssize_t)?;
        Ok((got > 0).then(|| self.count(got)))
    }

    /// Counts the names in the first `bytes` bytes of the buffer: an entry is an inode number and an offset (8 bytes
    /// each), its length (2), a type (1) and a name that ends with a zero byte.
    fn count(&self, bytes: usize) -> u64 {
        let byte = |at: usize| self.buffer.get(at / 8).map_or(0, |word| word.to_ne_bytes()[at % 8]);
        let (mut at, mut count) = (0, 0);
        while at < bytes {
            let len = usize::from(u16::from_ne_bytes([byte(at + 16), byte(at + 17)]));
            let name = [byte(at + 19), byte(at + 20), byte(at + 21)];
            let is_dots = matches!(name, [b'.', 0, _] | [b'.', b'.', 0]);
            count += u64::from(!is_dots);
            at += len.max(24);
        }
        count
    }
}

#[cfg(not(target_os = "linux"))]
impl Listing {
    /// Opens a directory: not supported here.
    pub fn new(_: &OwnedFd) -> Result<Self> {
        Err(Error::unsupported("getdents64"))
    }

    /// Reads the next part of the directory: not supported here.
    pub fn next_count(&mut self) -> Result<Option<u64>> {
        Err(Error::unsupported("getdents64"))
    }
}

/// The magic numbers of file systems from `linux/magic.h`, with their names, and whether they keep files in memory
/// only.
#[cfg(target_os = "linux")]
const FILE_SYSTEMS: [(u64, &str, bool); 14] = [
    (0xEF53, "ext4", false),
    (0x5846_5342, "xfs", false),
    (0x9123_683E, "btrfs", false),
    (0xF2F5_2010, "f2fs", false),
    (0x2FC1_2FC1, "zfs", false),
    (0x794C_7630, "overlay", false),
    (0x6969, "nfs", false),
    (0x0102_1997, "9p", false),
    (0x6573_5546, "fuse", false),
    (0xFF53_4D42, "cifs", false),
    (0x4D44, "vfat", false),
    (0xCA45_1A4E, "bcachefs", false),
    (0x0102_1994, "tmpfs", true),
    (0x8584_58F6, "ramfs", true),
];

/// Returns the name of the file system of a descriptor, or its magic number, and whether it keeps files in memory only;
/// `None` if the system does not report it. ext2 and ext3 are reported as ext4: they share its number.
#[cfg(target_os = "linux")]
pub fn file_system(fd: &OwnedFd) -> Option<(String, bool)> {
    // SAFETY: `statfs` is plain data for which all zeroes is a value.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `found` may be written.
    check("fstatfs", unsafe { libc::fstatfs(fd.as_raw_fd(), &raw mut found) }).ok()?;
    let magic = found.f_type as u64 & 0xFFFF_FFFF;
    let known = FILE_SYSTEMS.iter().find(|(number, ..)| *number == magic);
    Some(known.map_or((format!("{magic:#x}"), false), |&(_, name, in_memory)| (name.to_owned(), in_memory)))
}

/// Returns the file system of a descriptor: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn file_system(_: &OwnedFd) -> Option<(String, bool)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    fn directory() -> (tempfile::TempDir, OwnedFd) {
        let room = tempfile::tempdir().unwrap();
        let open = std::fs::File::open(room.path()).unwrap().into();
        (room, open)
    }

    #[test]
    fn a_file_is_written_found_renamed_read_and_removed() {
        let (_room, open_directory) = directory();
        let file = create(&open_directory, c"a", false).unwrap();
        write_all(&file, b"content").unwrap();
        sync(&file).unwrap();
        assert_eq!(create(&open_directory, c"a", false).unwrap_err().errno, libc::EEXIST);
        assert_eq!(size(&open_directory, c"a").unwrap(), 7);
        rename(&open_directory, c"a", c"b").unwrap();
        let mut buffer = [0; 16];
        let reading = open(&open_directory, c"b").unwrap();
        assert_eq!(read_all(&reading, &mut buffer).unwrap(), 7);
        assert_eq!(&buffer[..7], b"content");
        remove(&open_directory, c"b").unwrap();
        assert_eq!(size(&open_directory, c"b").unwrap_err().errno, libc::ENOENT);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_synchronous_file_is_opened_with_o_dsync() {
        let (_room, open_directory) = directory();
        for (name, is_synchronous) in [(c"a", false), (c"b", true)] {
            let file = create(&open_directory, name, is_synchronous).unwrap();
            // SAFETY: the call takes integers; the descriptor is open.
            let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
            assert_eq!(flags & libc::O_DSYNC != 0, is_synchronous);
        }
    }

    /// Names with one or two leading dots count, too; there are more names than fit into one call.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_listing_counts_every_name() {
        let (room, open_directory) = directory();
        let names = [".a", "..b", "..."].map(str::to_owned).into_iter().chain((0..3_000).map(|n| format!("file-{n}")));
        names.for_each(|name| drop(std::fs::File::create(room.path().join(name)).unwrap()));
        let mut listing = Listing::new(&open_directory).unwrap();
        let counts: Vec<u64> = std::iter::from_fn(|| listing.next_count().unwrap()).collect();
        assert!(counts.len() > 1 && counts.iter().sum::<u64>() == 3_003, "{counts:?}");
    }
}
