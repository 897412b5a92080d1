//! Tests whether a platform works, if opening its device proves nothing. Boots a guest, once for each boot of the host
//! and version of the emulator, and keeps the result in the cache.

use crate::error::{Error, io};
use crate::job::{Job, Message};
use crate::kernel::Kernel;
use crate::launch::{Ending, Timeouts};
use crate::machine::{Login, Machine};
use crate::pack;
use crate::platform::Platform;
use crate::supervise::supervise;
use landau_engine::Scratch;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time limit for the guest to come up. With a working hypervisor it takes a second or two.
const LIMIT: Duration = Duration::from_secs(15);

/// The outcome of booting a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether the guest came up and did its job.
    pub works: bool,
    /// The observation.
    pub why: String,
    /// The conditions under which the outcome is valid: the host's boot, the platform's version, its device.
    key: Vec<String>,
}

impl Outcome {
    #[cfg(test)]
    pub(crate) fn of(platform: &dyn Platform, version: String, works: bool, why: String) -> Self {
        Self { works, why, key: key(platform, version) }
    }
}

/// Returns the conditions under which an outcome stays valid.
fn key(platform: &dyn Platform, version: String) -> Vec<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let device = platform.unproven_device().unwrap_or_default();
    let number = std::fs::metadata(device).map(|about| format!("{device} {:x}", about.rdev())).unwrap_or_default();
    vec![boot.trim().to_owned(), version, number]
}

/// Returns the file that keeps a platform's outcome.
pub fn file(platform: &dyn Platform, cache: &Path) -> PathBuf {
    cache.join(format!("{}-probe.json", platform.name()))
}

/// Returns the outcome of an earlier probe that is still valid.
pub fn known(platform: &dyn Platform, program: &Path, cache: Option<&Path>) -> Option<Outcome> {
    kept(platform, cache?, &key(platform, platform.check(program).ok()?))
}

fn kept(platform: &dyn Platform, cache: &Path, key: &[String]) -> Option<Outcome> {
    let text = std::fs::read_to_string(file(platform, cache)).ok()?;
    let outcome: Outcome = serde_json::from_str(&text).ok()?;
    (outcome.key == key).then_some(outcome)
}

/// Returns whether the platform works: from an earlier probe, or by booting this kernel.
///
/// A kernel of a kind that the platform does not run is an error, and is not evidence about the platform.
///
/// A kernel that boots nowhere looks like a platform that does not work; the outcome names the kernel. The test is
/// repeated after the next boot of the host, or when the file in the cache is removed. An outcome that cannot be kept
/// is reported, but still returned.
pub fn probe(
    platform: &dyn Platform,
    kernel: &Kernel,
    program: &Path,
    cache: Option<&Path>,
    report: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    platform.check_kind(kernel)?;
    let key = match platform.check(program) {
        Ok(version) => key(platform, version),
        Err(error) => return Ok(Outcome { works: false, why: error.to_string(), key: Vec::new() }),
    };
    if let Some(outcome) = cache.and_then(|cache| kept(platform, cache, &key)) {
        return Ok(outcome);
    }
    let (name, limit_s) = (platform.name(), LIMIT.as_secs());
    report(&format!("booting {} to test whether {name} works here (once; up to {limit_s} s)", kernel.name));
    let (works, why) = boot(platform, kernel, program)?;
    let outcome = Outcome { works, why, key };
    if let Err(error) = cache.ok_or(Error::NoCache).and_then(|cache| keep(&outcome, cache, &file(platform, cache))) {
        let why = error.with_causes();
        report(&format!("cannot store the result of the test of {name}: {why}; {name} will be tested again"));
    }
    Ok(outcome)
}

/// Writes an outcome to its file in the cache. The file is replaced atomically, because other runs may read it at the
/// same time.
fn keep(outcome: &Outcome, cache: &Path, path: &Path) -> Result<(), Error> {
    let text = serde_json::to_string(outcome).map_err(|error| Error::Guest(error.to_string()))?;
    std::fs::create_dir_all(cache).map_err(|source| io("create", cache, source))?;
    let beside = path.with_extension(format!("{}.part", std::process::id()));
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // The file may not exist; the error says what failed.
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(|source| io("write", path, source))
}

/// Boots the kernel; returns whether its guest came up, and what was observed.
fn boot(platform: &dyn Platform, kernel: &Kernel, program: &Path) -> Result<(bool, String), Error> {
    let scratch = Scratch::create(&std::env::temp_dir())?;
    let initramfs = scratch.path().join("initramfs.cpio");
    let job = Job { probe: true, ..Job::default() };
    std::fs::write(&initramfs, pack::initramfs(program, &job)?).map_err(|source| io("write", &initramfs, source))?;
    let machine = Machine {
        kernel,
        initramfs: &initramfs,
        program,
        folder: scratch.path(),
        login: &Login::default(),
        memory_mib: 512,
        append: "",
        emulator_arguments: &[],
    };
    let mut done = false;
    let mut take = |message: Message| {
        done |= matches!(message, Message::Done { .. });
        Ok(())
    };
    let ended = supervise(platform.launch(&machine, &job)?, &Timeouts::all(LIMIT), &|| false, &mut take)?;
    if done {
        return Ok((true, format!("a guest with {} started", kernel.name)));
    }
    let last = ended.console.last().map_or("the console is empty".to_owned(), |line| format!("last line: {line}"));
    let how = match ended.how {
        Ending::Exited(output) => format!("the emulator ended: {output}"),
        Ending::Panic(reason) => format!("its kernel panicked: {reason}"),
        _ => format!("it did not start within {} s", LIMIT.as_secs()),
    };
    let device = platform.unproven_device().unwrap_or(platform.name());
    Ok((false, format!("{device} opens, but a guest with {} does not boot: {how} ({last})", kernel.name)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

    use super::*;
    use crate::kernel::Kind;
    use crate::platform::named;

    /// Guards against a run that fails after its test has succeeded, and against a half-written outcome.
    #[test]
    fn an_outcome_is_kept_whole_or_the_error_says_where() {
        let folder = tempfile::tempdir().unwrap();
        let platform = named("kvm").unwrap();
        let outcome = Outcome { works: true, why: "it came up".to_owned(), key: vec!["1".to_owned()] };
        let cache = folder.path().join("cache");
        keep(&outcome, &cache, &file(platform, &cache)).unwrap();
        assert_eq!(kept(platform, &cache, &outcome.key), Some(outcome.clone()));
        assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 1);
        let blocked = folder.path().join("file");
        std::fs::write(&blocked, "").unwrap();
        let error = keep(&outcome, &blocked, &file(platform, &blocked)).unwrap_err().to_string();
        assert!(error.contains(&blocked.display().to_string()), "{error}");
    }

    /// Guards against taking user-mode Linux as proof that kvm does not work.
    #[test]
    fn a_kernel_that_the_platform_does_not_run_is_an_error_and_no_outcome() {
        let cache = tempfile::tempdir().unwrap();
        let kernel = Kernel::without_file("6.1".to_owned(), Kind::Uml, "linux.uml".to_owned());
        let program = Path::new("/proc/self/exe");
        let error =
            probe(named("kvm").unwrap(), &kernel, program, Some(cache.path()), &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("linux.uml (user-mode Linux); use --platform uml"), "{error}");
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0);
    }
}
