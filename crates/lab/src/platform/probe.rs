//! Whether the hypervisor works here. That its device opens proves nothing; so a guest is booted, once a start of the
//! host for each version of the emulator, and the answer kept in the cache.

use super::{Machine, Platform, Terminal, qemu};
use crate::error::{Error, io};
use crate::job::{Job, Message};
use crate::kernel::Kernel;
use crate::machine::{Bounds, Ending, attend};
use crate::pack;
use landau_engine::Scratch;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The device of the hypervisor.
const DEVICE: &str = "/dev/kvm";

/// How long a guest may take to come up. Where the hypervisor works it takes a second or two.
const LIMIT: Duration = Duration::from_secs(15);

/// What booting a guest showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the guest came up and did what it was told.
    pub works: bool,
    /// What was seen, in words.
    pub why: String,
    /// What the answer holds for: the host's start, the emulator's version, the device.
    key: Vec<String>,
}

/// Whether the hypervisor's device can be opened: the least that is needed.
pub fn device() -> Result<(), Error> {
    let refuse = |reason: String| Err(Error::Platform { platform: Platform::Kvm.name().to_owned(), reason });
    match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => refuse(format!(
            "there is no {DEVICE}: this machine has no hardware virtualisation, or it is switched off (load the module \
             kvm_intel or kvm_amd; in a guest, allow nested virtualisation)"
        )),
        Err(error) => refuse(format!("{DEVICE}: {error}; a member of the group `kvm` may open it")),
    }
}

/// What makes an answer worth nothing once it changes.
fn key() -> Result<Vec<String>, Error> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let device = std::fs::metadata(DEVICE).map(|facts| format!("{DEVICE} {:x}", facts.rdev())).unwrap_or_default();
    Ok(vec![boot.trim().to_owned(), qemu::version()?, device])
}

/// Where the answer is kept.
pub fn file(cache: &Path) -> PathBuf {
    cache.join("kvm-probe.json")
}

/// The answer of an earlier probe that still holds.
pub fn known(cache: &Path) -> Option<Answer> {
    let text = std::fs::read_to_string(file(cache)).ok()?;
    let answer: Answer = serde_json::from_str(&text).ok()?;
    (answer.key == key().ok()?).then_some(answer)
}

/// Whether the hypervisor works here: by an earlier probe's answer, or by booting this kernel.
///
/// A kernel that boots nowhere would be taken for a hypervisor that does not work; the words name the kernel, and
/// another file in its place is asked anew with the next start of the host, or once the cache's file is removed.
pub fn ask(kernel: &Kernel, program: &Path, cache: &Path, tell: &mut dyn FnMut(&str)) -> Result<Answer, Error> {
    let key = key()?;
    if let Err(error) = device() {
        return Ok(Answer { works: false, why: error.to_string(), key });
    }
    if let Some(answer) = known(cache) {
        return Ok(answer);
    }
    tell(&format!(
        "booting {} under kvm to see whether that works here (once; up to {} s)",
        kernel.name,
        LIMIT.as_secs()
    ));
    let (works, why) = boot(kernel, program)?;
    let answer = Answer { works, why, key };
    let text = serde_json::to_string(&answer).map_err(|error| Error::Guest(error.to_string()))?;
    std::fs::create_dir_all(cache).map_err(|source| io("make", cache, source))?;
    let path = file(cache);
    std::fs::write(&path, text).map_err(|source| io("write", &path, source))?;
    Ok(answer)
}

/// Boots the kernel; whether its guest came up, and what was seen.
fn boot(kernel: &Kernel, program: &Path) -> Result<(bool, String), Error> {
    let scratch = Scratch::create(&std::env::temp_dir())?;
    let initramfs = scratch.path().join("initramfs.cpio");
    let job = Job { probe: true, ..Job::default() };
    std::fs::write(&initramfs, pack::initramfs(program, &job)?).map_err(|source| io("write", &initramfs, source))?;
    let machine = Machine {
        kernel,
        initramfs: &initramfs,
        program,
        folder: scratch.path(),
        terminal: &Terminal::default(),
        memory_mib: 512,
        append: "",
        extra: &[],
    };
    let bounds = Bounds { start: LIMIT, silence: LIMIT, whole: LIMIT };
    let mut done = false;
    let mut take = |message: Message| {
        done |= matches!(message, Message::Done { .. });
        Ok(())
    };
    let ended = attend(qemu::start(Platform::Kvm, &machine), &bounds, &|| false, &mut take)?;
    if done {
        return Ok((true, format!("a guest with {} came up", kernel.name)));
    }
    let last = ended.console.last().map_or("the console stayed empty".to_owned(), |line| format!("last: {line}"));
    let how = match ended.how {
        Ending::Gone(words) => format!("qemu ended: {words}"),
        Ending::Panic(reason) => format!("its kernel panicked: {reason}"),
        _ => format!("it did not come up within {} s", LIMIT.as_secs()),
    };
    Ok((false, format!("{DEVICE} opens, but a guest with {} does not boot: {how} ({last})", kernel.name)))
}
