//! A file system for one benchmark alone, in an image file or in memory, of a chosen kind.
//!
//! An image is a file in the run's scratch directory, attached to a loop device with direct I/O and mounted in a
//! private mount namespace. When the worker and its children end, for any reason, the kernel unmounts it and releases
//! the device. Before anything is written, read or unmounted, the mount is verified by its device number and by a
//! marker file inside.

use crate::files::{c_path, write_in_parts};
use crate::program::{find, require};
use landau_engine::{Progress, Stop};
use landau_sys::disk::{attach_loop_device, mount, unmount, unshare_mounts};
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The number of attempts to lock an image, and the pause between them: 20 s in all.
const LOCK_TRIES: u32 = 2_000;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Name of the marker file.
const MARKER: &str = "landau-volume";

/// A kind of file system, and how to create one in an image.
#[derive(Debug, Clone)]
pub(crate) struct FileSystem {
    /// The kernel's name of the kind.
    kind: &'static CStr,
    /// The program that creates it, and the Debian package that contains the program.
    program: &'static str,
    package: &'static str,
    arguments: Vec<String>,
    /// The smallest image that the program accepts or that is fair to the file system, in bytes.
    pub(crate) smallest_bytes: u64,
}

impl FileSystem {
    /// Returns ext4 without background writes, for files whose placement matters. Blocks have the device's size,
    /// because the device accepts no smaller ones. There is no journal, because its writes would interfere. Inode
    /// tables are written now instead of by the kernel during the measurement, and are as small as possible.
    pub(crate) fn bare_ext4() -> Self {
        let features = ["-O", "^has_journal,^resize_inode", "-N", "64", "-m", "0"];
        Self::ext4(&features)
    }

    /// Returns ext4 with its defaults and room for this number of files.
    pub(crate) fn ext4_for(files: u64) -> Self {
        Self::ext4(&["-N", &(files + files / 16 + 1_024).to_string(), "-m", "0"])
    }

    fn ext4(more: &[&str]) -> Self {
        let arguments = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"];
        Self {
            kind: c"ext4",
            program: "mkfs.ext4",
            package: "e2fsprogs",
            arguments: arguments.iter().chain(more).map(|&word| word.to_owned()).collect(),
            smallest_bytes: 1 << 20,
        }
    }

    /// Returns xfs with its defaults, except for sectors of the loop device's size: mkfs.xfs sees a file, and assumes
    /// 512 bytes.
    pub(crate) fn xfs() -> Self {
        let arguments = ["-q", "-f", "-K", "-s", "size=4096"].map(str::to_owned).to_vec();
        Self { kind: c"xfs", program: "mkfs.xfs", package: "xfsprogs", arguments, smallest_bytes: 320 << 20 }
    }

    /// Returns btrfs with its defaults, and room for the metadata of this number of files: in a small image, btrfs
    /// waits for metadata space. Creating one of 10,000 files took 0.9 ms in 256 MiB and 0.4 ms in 1 GiB.
    pub(crate) fn btrfs_for(files: u64) -> Self {
        let arguments = ["-q", "-f", "-K"].map(str::to_owned).to_vec();
        let smallest_bytes = (256 << 20) + (files * (80 << 10)).min(768 << 20);
        Self { kind: c"btrfs", program: "mkfs.btrfs", package: "btrfs-progs", arguments, smallest_bytes }
    }

    /// Returns why no image with it can be mounted here; none if one can.
    pub(crate) fn unsupported(&self) -> Option<String> {
        let program = self.program;
        unmountable().or_else(|| {
            if find(program).is_none() {
                return Some(format!("{program} is not installed (apt-get install {})", self.package));
            }
            if !Path::new("/dev/loop-control").exists() {
                return Some("this system has no loop devices".to_owned());
            }
            let kind = self.kind.to_string_lossy();
            (!is_known(&kind)).then(|| format!("this kernel has no {kind}"))
        })
    }

    /// Makes an image with an empty file system of this kind.
    fn make(&self, path: &Path, bytes: u64, progress: Progress) -> Result<(), Stop> {
        preallocate(path, bytes, progress)?;
        let mut command = Command::new(require(self.program)?);
        command.args(&self.arguments).arg(path);
        let output = command.stdin(Stdio::null()).output().map_err(|error| Stop::io("exec", &error))?;
        Stop::unless(output.status.success(), || {
            format!("{} failed: {}", self.program, String::from_utf8_lossy(&output.stderr).trim())
        })
    }
}

/// Returns why nothing can be mounted here; none if mounting works. Root in a container may lack the permission.
pub(crate) fn unmountable() -> Option<String> {
    if landau_sys::process::effective_user() != 0 {
        return Some("only root can mount a file system".to_owned());
    }
    let refused = landau_sys::disk::probe_mount().err()?;
    Some(format!("root may not mount a file system here ({refused})"))
}

/// Returns whether the kernel has a kind of file system, or has modules, one of which may provide it.
fn is_known(kind: &str) -> bool {
    let listed = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has_modules = || {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Path::new("/lib/modules").join(release.trim()).exists()
    };
    listed.lines().any(|line| line.split_ascii_whitespace().next_back() == Some(kind)) || has_modules()
}

/// Locks an image, so that it is mounted only once at a time. The loop device holds the same open file, so the lock
/// lasts until the device is detached, even if the worker was killed and a child of it still has the mount.
fn lock(image: &File) -> Result<(), Stop> {
    let mut tries = LOCK_TRIES;
    loop {
        match image.try_lock() {
            Ok(()) => return Ok(()),
            Err(fs::TryLockError::WouldBlock) if tries > 0 => {
                tries -= 1;
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(fs::TryLockError::WouldBlock) => {
                return Err(Stop::Wrong("the image is still mounted by an earlier pass".to_owned()));
            }
            // A file system without locks, such as some over the network.
            Err(fs::TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => return Ok(()),
            Err(fs::TryLockError::Error(error)) => return Err(Stop::io("flock", &error)),
        }
    }
}

/// A mounted file system.
#[derive(Debug)]
pub(crate) struct Volume {
    identity: Identity,
    target: CString,
    /// The name of the device, such as `loop0`; `tmpfs` in memory.
    device: String,
    _attached: Option<OwnedFd>,
}

/// Identifies a mount that this module made.
#[derive(Debug, Clone)]
struct Identity {
    directory: PathBuf,
    device: u64,
    marker: String,
}

impl Identity {
    /// Checks that the mount is at the directory.
    fn verify(&self) -> Result<(), Stop> {
        let directory = self.directory.display();
        let io = |error: std::io::Error| Stop::io("stat", &error);
        let found = fs::metadata(&self.directory).map_err(io)?.dev();
        let parent = fs::metadata(self.directory.join("..")).map_err(io)?.dev();
        Stop::unless(found == self.device && parent != found, || {
            format!("{directory} is not Landau's mount: its device is {found:#x} instead of {:#x}", self.device)
        })?;
        let marker = fs::read_to_string(self.directory.join(MARKER)).unwrap_or_default();
        Stop::unless(marker == self.marker, || format!("{directory} is not Landau's mount: its marker is {marker:?}"))
    }
}

impl Volume {
    /// Mounts the image `name`. If it does not exist, creates it with a file system and at least `bytes` bytes. The
    /// second value is true if it was created.
    pub(crate) fn open(
        scratch: &Path,
        name: &str,
        bytes: u64,
        file_system: &FileSystem,
        progress: Progress,
    ) -> Result<(Self, bool), Stop> {
        let (path, ready) = (scratch.join(format!("{name}.image")), scratch.join(format!("{name}.ready")));
        let io = |call| move |error: std::io::Error| Stop::io(call, &error);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let image = options.open(&path).map_err(io("open"))?;
        lock(&image)?;
        let is_new = !ready.exists();
        if is_new {
            file_system.make(&path, bytes.max(file_system.smallest_bytes), progress)?;
            progress.report();
        }
        unshare_mounts()?;
        let (attached, device_path) = attach_loop_device(&image)?;
        let directory = scratch.join(format!("{name}.mount"));
        fs::create_dir_all(&directory).map_err(io("mkdir"))?;
        let target = c_path(&directory)?;
        mount(&device_path, &target, file_system.kind)?;
        let device = device_path.to_string_lossy().into_owned();
        let mounted = fs::metadata(&directory).map_err(io("stat"))?.dev();
        let number = fs::metadata(&device).map_err(io("stat"))?.rdev();
        let marker = format!("{} {}", path.display(), image.metadata().map_err(io("stat"))?.ino());
        // A btrfs has its own device number.
        let expected = if file_system.kind == c"btrfs" { mounted } else { number };
        if is_new {
            // There is no marker yet, so the device number alone must suffice.
            let below = fs::metadata(scratch).map_err(io("stat"))?.dev();
            Stop::unless(mounted == expected && mounted != below, || {
                format!("{} is not mounted on {device}", directory.display())
            })?;
            fs::write(directory.join(MARKER), &marker).map_err(io("write"))?;
        }
        let identity = Identity { directory, device: expected, marker };
        identity.verify()?;
        if is_new {
            fs::write(&ready, b"").map_err(io("write"))?;
        }
        let device = device.trim_start_matches("/dev/").to_owned();
        Ok((Self { identity, target, device, _attached: Some(attached) }, is_new))
    }

    /// Mounts an empty tmpfs, which is lost with the mount.
    pub(crate) fn in_memory(scratch: &Path, name: &str) -> Result<Self, Stop> {
        let io = |call| move |error: std::io::Error| Stop::io(call, &error);
        unshare_mounts()?;
        let directory = scratch.join(format!("{name}.mount"));
        fs::create_dir_all(&directory).map_err(io("mkdir"))?;
        let below = fs::metadata(&directory).map_err(io("stat"))?.dev();
        let target = c_path(&directory)?;
        mount(c"landau", &target, c"tmpfs")?;
        let device = fs::metadata(&directory).map_err(io("stat"))?.dev();
        Stop::unless(device != below, || format!("{} is not mounted", directory.display()))?;
        let marker = directory.display().to_string();
        fs::write(directory.join(MARKER), &marker).map_err(io("write"))?;
        let identity = Identity { directory, device, marker };
        identity.verify()?;
        Ok(Self { identity, target, device: "tmpfs".to_owned(), _attached: None })
    }

    /// Returns the mount point, after verifying the mount again.
    pub(crate) fn directory(&self) -> Result<&Path, Stop> {
        self.identity.verify()?;
        Ok(&self.identity.directory)
    }

    /// Returns the name of the loop device.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A mount that cannot be verified stays. A mount that is still busy is unmounted when the process ends.
        if self.identity.verify().is_ok() {
            let _ = unmount(&self.target);
        }
    }
}

/// Makes a file of that size without holes.
fn preallocate(path: &Path, bytes: u64, progress: Progress) -> Result<(), Stop> {
    let io = |error: std::io::Error| Stop::io("write", &error);
    let image = File::create(path).map_err(io)?;
    // The space is contiguous on the underlying device, if its file system can do that; otherwise writing allocates the
    // space.
    let _ = landau_sys::disk::allocate(&image, 0, bytes);
    // The image is written completely. Otherwise each piece that a file in 4 KiB extents does not fill stays a separate
    // extent of the image, and removing the image takes minutes if its file system discards every freed extent.
    write_in_parts(&image, bytes, progress, |_, _| ())?;
    image.sync_all().map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plain directory, a mount of another device and a mount with another marker are rejected.
    #[test]
    fn a_foreign_mount_is_rejected() {
        let room = tempfile::tempdir().unwrap();
        let directory = room.path().join("mount");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(MARKER), "mine").unwrap();
        let device = fs::metadata(&directory).unwrap().dev();
        let identity = |device| Identity { directory: directory.clone(), device, marker: "mine".to_owned() };
        let error = |identity: Identity| identity.verify().unwrap_err().to_string();
        assert!(error(identity(device)).contains("its device is"), "a plain directory with the right marker");
        assert!(error(identity(device + 1)).contains("its device is"), "another device");
        // The thread has its own mount namespace; only root can make one.
        let directory = directory.clone();
        std::thread::spawn(move || {
            if unshare_mounts().is_err() || mount(c"none", &c_path(&directory).unwrap(), c"tmpfs").is_err() {
                eprintln!("skipped: this user may not mount");
                return;
            }
            let device = fs::metadata(&directory).unwrap().dev();
            let identity =
                |device, marker: &str| Identity { directory: directory.clone(), device, marker: marker.to_owned() };
            assert!(identity(device, "mine").verify().unwrap_err().to_string().contains("its marker is"));
            fs::write(directory.join(MARKER), "mine").unwrap();
            identity(device, "mine").verify().unwrap();
            assert!(identity(device, "yours").verify().is_err() && identity(device + 1, "mine").verify().is_err());
            unmount(&c_path(&directory).unwrap()).unwrap();
            assert!(identity(device, "mine").verify().is_err(), "unmounted, and the directory below has the marker");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_volume_keeps_its_files_and_leaves_no_mount_or_device() {
        if let Some(reason) = FileSystem::bare_ext4().unsupported() {
            eprintln!("skipped: {reason}");
            return;
        }
        let room = tempfile::tempdir().unwrap();
        let path = room.path().to_owned();
        let device = std::thread::spawn(move || {
            let (volume, is_new) =
                Volume::open(&path, "test", 8 << 20, &FileSystem::bare_ext4(), Progress::NONE).unwrap();
            assert!(is_new);
            let image = File::open(path.join("test.image")).unwrap();
            let block_count = image.metadata().unwrap().blocks();
            assert!(block_count * 512 >= 8 << 20, "{block_count}: the image has holes");
            // An extent for each piece that was written would make the removal slow. With `Err`, no extents are
            // reported.
            assert!(landau_sys::disk::extents(&image).map_or(0, |found| found.len()) < 64);
            fs::write(volume.directory().unwrap().join("file"), "kept").unwrap();
            drop(volume);
            let (volume, is_new) =
                Volume::open(&path, "test", 8 << 20, &FileSystem::bare_ext4(), Progress::NONE).unwrap();
            assert!(!is_new);
            assert_eq!(fs::read_to_string(volume.directory().unwrap().join("file")).unwrap(), "kept");
            volume.device().to_owned()
        })
        .join()
        .unwrap();
        assert!(!fs::exists(room.path().join("test.mount/file")).unwrap(), "the mount is private");
        // The kernel detaches the device when no process has it open. A child that another test forks in the meantime
        // has it open until it ends.
        let backing = || fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).unwrap_or_default();
        let deadline = std::time::Instant::now() + Duration::from_secs(120);
        while backing().contains(room.path().to_str().unwrap()) {
            assert!(std::time::Instant::now() < deadline, "{device} is still attached to {}", backing());
            std::thread::sleep(LOCK_PAUSE);
        }
    }
}
