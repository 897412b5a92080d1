//! Placement of files on their device (FIEMAP), write-back, and loop devices, for benchmarks of files.

use crate::error::{Error, Result};
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A contiguous range of a file on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The offset in the file, in bytes.
    pub logical: u64,
    /// The offset on the device, in bytes.
    pub physical: u64,
    /// The length in bytes.
    pub length: u64,
}

/// Appends an extent, or extends the last one if it is contiguous with it.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux reports extents"))]
fn push(extents: &mut Vec<Extent>, extent: Extent) {
    match extents.last_mut() {
        Some(last)
            if last.logical + last.length == extent.logical && last.physical + last.length == extent.physical =>
        {
            last.length += extent.length;
        }
        _ => extents.push(extent),
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use super::{Extent, push};
    use crate::descriptor::own;
    use crate::error::{Error, Result, check};
    use std::ffi::{CStr, CString};
    use std::fs::File;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::time::{Duration, Instant};

    /// The maximum number of extents that one call returns.
    const AT_ONCE: usize = 256;

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct RawExtent {
        logical: u64,
        physical: u64,
        length: u64,
        reserved: [u64; 2],
        flags: u32,
        reserved_more: [u32; 3],
    }

    const NO_EXTENT: RawExtent =
        RawExtent { logical: 0, physical: 0, length: 0, reserved: [0; 2], flags: 0, reserved_more: [0; 3] };

    /// `struct fiemap`, followed by room for extents.
    #[repr(C)]
    struct Map {
        start: u64,
        length: u64,
        flags: u32,
        mapped: u32,
        room: u32,
        reserved: u32,
        extents: [RawExtent; AT_ONCE],
    }

    const FIEMAP: libc::c_ulong = 0xC020_660B;
    /// Flush the file first, so that all extents are allocated.
    const SYNC: u32 = 1;
    const LAST: u32 = 1;

    pub(super) fn extents(file: &File) -> Result<Vec<Extent>> {
        let mut extents = Vec::new();
        let mut start = 0;
        loop {
            let mut map = Map {
                start,
                length: u64::MAX - start,
                flags: SYNC,
                mapped: 0,
                room: AT_ONCE as u32,
                reserved: 0,
                extents: [NO_EXTENT; AT_ONCE],
            };
            // SAFETY: the map has the layout of `struct fiemap`, states how many extents it has room for, and is
            // writable.
            check("fiemap", unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut map) })?;
            let mapped = &map.extents[..(map.mapped as usize).min(AT_ONCE)];
            for &RawExtent { logical, physical, length, .. } in mapped {
                push(&mut extents, Extent { logical, physical, length });
            }
            match mapped.last() {
                Some(last) if last.flags & LAST == 0 => start = last.logical + last.length,
                _ => return Ok(extents),
            }
        }
    }

    pub(super) fn allocate(file: &File, offset: u64, length: u64) -> Result<()> {
        let (fd, offset, length) = (file.as_raw_fd(), offset as libc::off_t, length as libc::off_t);
        // SAFETY: the call takes integers.
        check("fallocate", unsafe { libc::fallocate(fd, 0, offset, length) }).map(drop)
    }

    pub(super) fn drop_cached_pages(file: &File) -> Result<()> {
        // SAFETY: the call takes integers.
        match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
            0 => Ok(()),
            errno => Err(Error { call: "posix_fadvise", errno }),
        }
    }

    /// `struct move_extent`: everything but the descriptor is in blocks of the file system.
    #[repr(C)]
    struct MoveExtent {
        reserved: u32,
        donor: u32,
        start: u64,
        donor_start: u64,
        length: u64,
        moved: u64,
    }

    const MOVE_EXTENT: libc::c_ulong = 0xC028_660F;

    pub(super) fn exchange_blocks(file: &File, start: u64, other: &File, other_start: u64, length: u64) -> Result<()> {
        const CALL: &str = "EXT4_IOC_MOVE_EXT";
        let donor = other.as_raw_fd() as u32;
        let mut request = MoveExtent { reserved: 0, donor, start, donor_start: other_start, length, moved: 0 };
        // SAFETY: the request has the layout and size of `struct move_extent`, and is writable.
        check(CALL, unsafe { libc::ioctl(file.as_raw_fd(), MOVE_EXTENT as _, &raw mut request) })?;
        if request.moved == length { Ok(()) } else { Err(Error::not_supported(CALL)) }
    }

    pub(super) fn write_back(file: &File, timeout: Duration) -> Result<bool> {
        let fd = file.as_raw_fd();
        // SAFETY: the child calls `syncfs` and `_exit`, which are async-signal-safe, and nothing else.
        let child = check("fork", unsafe { libc::fork() })?;
        if child == 0 {
            // SAFETY: the call takes an integer; the descriptor is open in the child too.
            let failed = unsafe { libc::syncfs(fd) };
            // SAFETY: the call takes an integer and does not return.
            unsafe { libc::_exit(i32::from(failed != 0)) };
        }
        let deadline = Instant::now() + timeout;
        loop {
            let mut status = 0;
            // SAFETY: `status` is a writable integer.
            if check("waitpid", unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) })? == child {
                return if status == 0 { Ok(true) } else { Err(Error { call: "syncfs", errno: libc::EIO }) };
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// `cachestat(2)`, since Linux 6.5; the same number on every architecture.
    const CACHESTAT: libc::c_long = 451;

    pub(super) fn cache_state(file: &File) -> Option<[u64; 2]> {
        // From offset 0 to the end of the file.
        let range = [0_u64; 2];
        // Pages that are cached, dirty, being written, evicted and recently evicted.
        let mut counts = [0_u64; 5];
        let (range, found) = (range.as_ptr(), counts.as_mut_ptr());
        // SAFETY: the arrays have the layouts of `struct cachestat_range` and `struct cachestat`; the second may be
        // written.
        let result = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range, found, 0_u32) };
        (result == 0).then(|| [counts[0], counts[1] + counts[2]])
    }

    pub(super) fn unshare_mounts() -> Result<()> {
        // SAFETY: the call takes an integer.
        check("unshare", unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        let (none, flags) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
        // SAFETY: the target is a C string; source, type and data are ignored for a change of propagation.
        check("mount", unsafe { libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) }).map(drop)
    }

    pub(super) fn probe_mount() -> Result<()> {
        // SAFETY: the child makes system calls with constants, which are async-signal-safe, and exits.
        let child = check("fork", unsafe { libc::fork() })?;
        if child == 0 {
            let tried = unshare_mounts().and_then(|()| mount(c"landau", c"/", c"tmpfs"));
            let code = tried.err().map_or(0, |error| error.errno);
            // SAFETY: the call takes an integer and does not return.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        loop {
            // SAFETY: `status` is a writable integer.
            match check("waitpid", unsafe { libc::waitpid(child, &raw mut status, 0) }) {
                Err(error) if error.is_interrupted() => {}
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        match libc::WEXITSTATUS(status) {
            0 if libc::WIFEXITED(status) => Ok(()),
            errno => Err(Error { call: "mount", errno }),
        }
    }

    /// `struct loop_config`, with the flags of `struct loop_info64`.
    #[repr(C)]
    struct LoopConfig {
        image: u32,
        block_bytes: u32,
        before: [u64; 5],
        number: u32,
        encryption: [u32; 2],
        flags: u32,
        names: [u8; 160],
        init: [u64; 2],
        reserved: [u64; 8],
    }

    const LOOP_CONTROL_FREE: libc::c_ulong = 0x4C82;
    const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
    /// Detach the device after its last user has closed it.
    const AUTO_CLEAR: u32 = 4;
    /// Bypass the page cache of the file system that has the image.
    const DIRECT: u32 = 16;

    pub(super) fn attach_loop_device(image: &File) -> Result<(OwnedFd, CString)> {
        let open = |path: &CStr| {
            // SAFETY: the path is a C string.
            check("open", unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) }).map(own)
        };
        let control = open(c"/dev/loop-control")?;
        let mut tries = 16;
        loop {
            // SAFETY: the call takes no argument.
            let number = check("ioctl", unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CONTROL_FREE as _) })?;
            let path = CString::new(format!("/dev/loop{number}")).unwrap_or_default();
            let device = open(&path)?;
            let config = LoopConfig {
                image: image.as_raw_fd() as u32,
                block_bytes: 4096,
                before: [0; 5],
                number: 0,
                encryption: [0; 2],
                flags: AUTO_CLEAR | DIRECT,
                names: [0; 160],
                init: [0; 2],
                reserved: [0; 8],
            };
            // SAFETY: `config` has the layout and size of `struct loop_config`, and is only read.
            match check("ioctl", unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) }) {
                Ok(_) => return Ok((device, path)),
                // Another process took the device in between.
                Err(error) if error.errno == libc::EBUSY && tries > 0 => tries -= 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn mount(source: &CStr, target: &CStr, kind: &CStr) -> Result<()> {
        let (source, target, kind) = (source.as_ptr(), target.as_ptr(), kind.as_ptr());
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOATIME;
        // SAFETY: source, target and type are C strings; there is no data.
        check("mount", unsafe { libc::mount(source, target, kind, flags, std::ptr::null()) }).map(drop)
    }

    pub(super) fn unmount(target: &CStr) -> Result<()> {
        // SAFETY: the target is a C string.
        check("umount2", unsafe { libc::umount2(target.as_ptr(), libc::UMOUNT_NOFOLLOW) }).map(drop)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::Extent;
    use crate::error::{Error, Result};
    use std::ffi::{CStr, CString};
    use std::fs::File;
    use std::os::fd::OwnedFd;

    fn none<T>(call: &'static str) -> Result<T> {
        Err(Error::not_supported(call))
    }

    pub(super) fn extents(_: &File) -> Result<Vec<Extent>> {
        none("fiemap")
    }

    pub(super) fn allocate(_: &File, _: u64, _: u64) -> Result<()> {
        none("fallocate")
    }

    pub(super) fn drop_cached_pages(_: &File) -> Result<()> {
        none("posix_fadvise")
    }

    pub(super) fn exchange_blocks(_: &File, _: u64, _: &File, _: u64, _: u64) -> Result<()> {
        none("EXT4_IOC_MOVE_EXT")
    }

    pub(super) fn write_back(file: &File, _: std::time::Duration) -> Result<bool> {
        file.sync_all().map(|()| true).map_err(|error| Error::from_io("fsync", &error))
    }

    pub(super) fn cache_state(_: &File) -> Option<[u64; 2]> {
        None
    }

    pub(super) fn unshare_mounts() -> Result<()> {
        none("unshare")
    }

    pub(super) fn probe_mount() -> Result<()> {
        none("mount")
    }

    pub(super) fn attach_loop_device(_: &File) -> Result<(OwnedFd, CString)> {
        none("ioctl")
    }

    pub(super) fn mount(_: &CStr, _: &CStr, _: &CStr) -> Result<()> {
        none("mount")
    }

    pub(super) fn unmount(_: &CStr) -> Result<()> {
        none("umount2")
    }
}

/// Returns the extents of a file, after flushing it.
pub fn extents(file: &File) -> Result<Vec<Extent>> {
    imp::extents(file)
}

/// Allocates space on the device for a range of a file.
pub fn allocate(file: &File, offset: u64, length: u64) -> Result<()> {
    imp::allocate(file, offset, length)
}

/// Drops the cached pages of a file. Dirty pages stay.
pub fn drop_cached_pages(file: &File) -> Result<()> {
    imp::drop_cached_pages(file)
}

/// Exchanges `length` blocks of a file, from block `start` on, with as many of another file, from `other_start` on: the
/// content stays, the placement on the device changes. Only ext4 supports this. The unit is the file system's block.
pub fn exchange_blocks(file: &File, start: u64, other: &File, other_start: u64, length: u64) -> Result<()> {
    imp::exchange_blocks(file, start, other, other_start, length)
}

/// Writes the dirty data of a file's file system to the device. Returns whether it was written within the timeout;
/// otherwise the kernel continues. Systems without `syncfs` write the file's own data, without a timeout.
///
/// A child process waits for the device, so that this process never hangs and needs no second thread.
pub fn write_back(file: &File, timeout: Duration) -> Result<bool> {
    imp::write_back(file, timeout)
}

/// Returns the number of cached pages of a file that are not on the device yet, if the system reports it (Linux 6.5).
pub fn dirty_pages(file: &File) -> Option<u64> {
    imp::cache_state(file).map(|[_, dirty]| dirty)
}

/// Returns the number of pages of a file in the page cache, if the system reports it (Linux 6.5).
pub fn cached_pages(file: &File) -> Option<u64> {
    imp::cache_state(file).map(|[cached, _]| cached)
}

/// Moves this thread, and the processes it starts, to a separate mount namespace: no other process sees its mounts,
/// which are unmounted when these have ended.
pub fn unshare_mounts() -> Result<()> {
    imp::unshare_mounts()
}

/// Returns whether a file system can be mounted: a child tries it in a separate mount namespace.
pub fn probe_mount() -> Result<()> {
    imp::probe_mount()
}

/// Attaches a disk image to a loop device with direct I/O. Returns the device and its path. The device is detached when
/// it is no longer open or mounted.
pub fn attach_loop_device(image: &File) -> Result<(OwnedFd, std::ffi::CString)> {
    imp::attach_loop_device(image)
}

/// Mounts a file system on a directory.
pub fn mount(source: &CStr, target: &CStr, kind: &CStr) -> Result<()> {
    imp::mount(source, target, kind)
}

/// Unmounts a file system.
pub fn unmount(target: &CStr) -> Result<()> {
    imp::unmount(target)
}

/// Returns the major and minor number of the device that holds a file, which Linux uses as its name in `/sys/dev`.
#[cfg(target_os = "linux")]
pub fn device_numbers(path: &std::path::Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    let number = std::fs::metadata(path).ok()?.dev();
    Some((libc::major(number), libc::minor(number)))
}

/// Returns the numbers of the device that holds a file: only Linux has `/sys/dev`.
#[cfg(not(target_os = "linux"))]
pub fn device_numbers(_: &std::path::Path) -> Option<(u32, u32)> {
    None
}

/// The error of [`extents`] on file systems and systems without FIEMAP.
pub const FIEMAP_UNSUPPORTED: Error = Error::not_supported("fiemap");

/// The error of a file system that cannot exchange the blocks of two files.
pub const EXCHANGE_UNSUPPORTED: Error = Error::not_supported("EXT4_IOC_MOVE_EXT");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_data_is_dirty_until_it_is_written_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1_u8; 1 << 20]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        assert!(write_back(&file, Duration::from_secs(600)).unwrap());
        // `None` on an older kernel; a file system in memory never has dirty pages.
        assert!(matches!(dirty_pages(&file), None | Some(0)));
    }

    #[test]
    fn contiguous_extents_are_merged() {
        let extent = |logical, physical| Extent { logical, physical, length: 10 };
        let mut extents = Vec::new();
        for one in [extent(0, 100), extent(10, 110), extent(20, 200), extent(40, 210)] {
            push(&mut extents, one);
        }
        let lengths: Vec<u64> = extents.iter().map(|one| one.length).collect();
        assert_eq!(lengths, [20, 10, 10]);
    }
}
