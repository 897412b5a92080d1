//! A file system of a benchmark's own, in an image: where its files lie, and that nothing of them is cached, is then
//! known.
//!
//! The image is a file of the run's scratch folder, attached past the page cache of the file system below, and mounted
//! where only this process and its children see it. When they are gone, however they end, the kernel unmounts it and
//! gives the device back. Nothing is ever written, trusted or unmounted before it was seen that the folder is this very
//! mount: by the number of the device and by a marker inside.

use crate::files::c_path;
use crate::program::find;
use landau_engine::Stop;
use landau_sys::disk::{attach_loop_device, mount, unmount, unshare_mounts};
use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The marker's name inside.
const MARKER: &str = "landau-volume";

/// What makes the file system.
const MAKER: &str = "mkfs.ext4";

/// A mounted file system of our own.
#[derive(Debug)]
pub(crate) struct Volume {
    own: Own,
    target: CString,
    /// `loop0` …
    device: String,
    _attached: OwnedFd,
}

/// What a mount of our own is known by.
#[derive(Debug, Clone)]
struct Own {
    folder: PathBuf,
    device: u64,
    marker: String,
}

impl Own {
    /// Sees that the folder is this very mount.
    fn verify(&self) -> Result<(), Stop> {
        let folder = self.folder.display();
        let io = |error: std::io::Error| Stop::io("stat", &error);
        let there = fs::metadata(&self.folder).map_err(io)?.dev();
        let above = fs::metadata(self.folder.join("..")).map_err(io)?.dev();
        Stop::unless(there == self.device && above != there, || {
            format!("{folder} is not the mount that was made there: its device is {there:#x}, not {:#x}", self.device)
        })?;
        let marker = fs::read_to_string(self.folder.join(MARKER)).unwrap_or_default();
        Stop::unless(marker == self.marker, || format!("{folder} holds another's marker, {marker:?}"))
    }
}

/// Why there can be no file system of our own here; nothing if there can.
pub(crate) fn reason_against() -> Option<String> {
    if landau_sys::process::effective_user() != 0 {
        return Some("only root may mount a file system of his own".to_owned());
    }
    if find(MAKER).is_none() {
        return Some(format!("{MAKER} is not installed (apt-get install e2fsprogs)"));
    }
    (!Path::new("/dev/loop-control").exists()).then(|| "this system has no loop devices".to_owned())
}

impl Volume {
    /// Mounts the image of that name, made with so many bytes if it is not there yet; whether it was made now.
    pub(crate) fn open(scratch: &Path, name: &str, bytes: u64) -> Result<(Self, bool), Stop> {
        let (path, ready) = (scratch.join(format!("{name}.image")), scratch.join(format!("{name}.ready")));
        let io = |call| move |error: std::io::Error| Stop::io(call, &error);
        let is_new = !ready.exists();
        if is_new {
            make(&path, bytes)?;
        }
        unshare_mounts()?;
        let image = File::options().read(true).write(true).open(&path).map_err(io("open"))?;
        let (attached, device_path) = attach_loop_device(&image)?;
        let folder = scratch.join(format!("{name}.mount"));
        fs::create_dir_all(&folder).map_err(io("mkdir"))?;
        let target = c_path(&folder)?;
        mount(&device_path, &target, c"ext4")?;
        let device = device_path.to_string_lossy().into_owned();
        let number = fs::metadata(&device).map_err(io("stat"))?.rdev();
        let marker = format!("{} {}", path.display(), image.metadata().map_err(io("stat"))?.ino());
        if is_new {
            // Before there is a marker, the device's number alone has to do.
            Stop::unless(fs::metadata(&folder).map_err(io("stat"))?.dev() == number, || {
                format!("{} is not mounted on {device}", folder.display())
            })?;
            fs::write(folder.join(MARKER), &marker).map_err(io("write"))?;
        }
        let own = Own { folder, device: number, marker };
        own.verify()?;
        if is_new {
            fs::write(&ready, b"").map_err(io("write"))?;
        }
        let device = device.trim_start_matches("/dev/").to_owned();
        Ok((Self { own, target, device, _attached: attached }, is_new))
    }

    /// Where it is mounted, once more seen to be ours.
    pub(crate) fn folder(&self) -> Result<&Path, Stop> {
        self.own.verify()?;
        Ok(&self.own.folder)
    }

    /// The name of its device.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // What is not ours stays. What cannot be unmounted yet is unmounted with the process.
        if self.own.verify().is_ok() {
            let _ = unmount(&self.target);
        }
    }
}

/// An image with an empty file system in it.
fn make(path: &Path, bytes: u64) -> Result<(), Stop> {
    let io = |error: std::io::Error| Stop::io("write", &error);
    let image = File::create(path).map_err(io)?;
    // In one piece on the device below, as far as that can be had.
    if landau_sys::disk::allocate(&image, 0, bytes).is_err() {
        image.set_len(bytes).map_err(io)?;
    }
    let maker = find(MAKER).ok_or_else(|| Stop::Wrong(format!("{MAKER} is not installed")))?;
    let mut command = Command::new(maker);
    // Blocks as large as the device's, which takes none smaller. No journal, whose writes would come between; tables
    // written at once, and not by the kernel while we measure.
    command
        .args(["-q", "-F", "-b", "4096", "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard", "-m", "0"])
        .arg(path);
    let output = command.stdin(Stdio::null()).output().map_err(|error| Stop::io("exec", &error))?;
    Stop::unless(output.status.success(), || {
        format!("{MAKER} failed: {}", String::from_utf8_lossy(&output.stderr).trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is no mount, a mount of another device and one with another's marker are not taken for ours.
    #[test]
    fn a_mount_that_is_not_ours_is_refused() {
        let room = tempfile::tempdir().unwrap();
        let folder = room.path().join("mount");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(MARKER), "mine").unwrap();
        let device = fs::metadata(&folder).unwrap().dev();
        let own = |device| Own { folder: folder.clone(), device, marker: "mine".to_owned() };
        let said = |own: Own| own.verify().unwrap_err().to_string();
        assert!(said(own(device)).contains("is not the mount"), "a plain folder with the right marker");
        assert!(said(own(device + 1)).contains("is not the mount"), "another device");
        // In a thread of its own, which alone gets the mounts; only root can.
        let folder = folder.clone();
        std::thread::spawn(move || {
            if unshare_mounts().is_err() || mount(c"none", &c_path(&folder).unwrap(), c"tmpfs").is_err() {
                eprintln!("not tried: this user may not mount");
                return;
            }
            let device = fs::metadata(&folder).unwrap().dev();
            let own = |device, marker: &str| Own { folder: folder.clone(), device, marker: marker.to_owned() };
            assert!(own(device, "mine").verify().unwrap_err().to_string().contains("another's marker"));
            fs::write(folder.join(MARKER), "mine").unwrap();
            own(device, "mine").verify().unwrap();
            assert!(own(device, "yours").verify().is_err() && own(device + 1, "mine").verify().is_err());
            unmount(&c_path(&folder).unwrap()).unwrap();
            assert!(own(device, "mine").verify().is_err(), "gone, and the folder below has the marker");
        })
        .join()
        .unwrap();
    }

    /// A file system of our own is there while it is held, and neither mount nor device stay behind.
    #[test]
    fn a_volume_leaves_nothing_behind() {
        if let Some(reason) = reason_against() {
            eprintln!("not tried: {reason}");
            return;
        }
        let room = tempfile::tempdir().unwrap();
        let path = room.path().to_owned();
        let device = std::thread::spawn(move || {
            let (volume, is_new) = Volume::open(&path, "test", 8 << 20).unwrap();
            assert!(is_new);
            fs::write(volume.folder().unwrap().join("file"), "kept").unwrap();
            drop(volume);
            let (volume, is_new) = Volume::open(&path, "test", 8 << 20).unwrap();
            assert!(!is_new);
            assert_eq!(fs::read_to_string(volume.folder().unwrap().join("file")).unwrap(), "kept");
            volume.device().to_owned()
        })
        .join()
        .unwrap();
        assert!(!fs::exists(room.path().join("test.mount/file")).unwrap(), "nobody else saw the mount");
        let backing = fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).unwrap_or_default();
        assert!(!backing.contains(room.path().to_str().unwrap()), "{device} is still attached to {backing}");
    }
}
