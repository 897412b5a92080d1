//! The other end of the fork helper (`fork_helper/main.rs`): a small process, in three linkages, that makes processes on order.

use crate::descriptor::wait_readable;
use crate::error::Error;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

include!(concat!(env!("OUT_DIR"), "/fork_helper_built.rs"));

/// The linkages in which a fork helper may exist.
pub const LINKAGES: &[&str] = &["dynamic", "static", "musl"];

/// The ways to make a process, by the numbers that the fork helper knows them by.
pub const METHODS: &[&str] = &["fork", "vfork-exec", "posix_spawn", "clone3"];

/// The longest that an order may take before the fork helper is given up, in milliseconds. A thousand times what the
/// slowest machine of the reference takes.
const PATIENCE_MS: i32 = 20_000;

const OP_SPAWN: u64 = 1;
const OP_REAP: u64 = 2;
const OP_RESIDENT: u64 = 3;
const OP_MAPPINGS: u64 = 4;
const OP_ALIVE: u64 = 5;
const DIED_EARLY: u64 = 1 << 32;

/// The program of a linkage, or why this landau has none.
pub fn image(linkage: &str) -> Result<&'static [u8], &'static str> {
    BUILT.iter().find(|(name, _)| *name == linkage).map_or(Err("no such linkage"), |(_, built)| *built)
}

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The system refused a call of the fork helper.
    #[error(transparent)]
    Refused(#[from] Error),
    /// A child died before its time.
    #[error("a child died before it was told to (child {pid} was being made or ended); was it killed from outside?")]
    DiedEarly {
        /// The child that was being made or ended when the termination was noticed; it need not be the dead one.
        pid: u64,
    },
    /// The fork helper does not answer.
    #[error("the fork helper gave no answer within {} s; it was ended", PATIENCE_MS / 1000)]
    Silent,
    /// The fork helper is gone.
    #[error("the fork helper ended unexpectedly ({0})")]
    Gone(String),
}

/// When a child came to life, by `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Creation {
    /// The child's process identifier.
    pub pid: u64,
    /// Before the call.
    pub before_ns: u64,
    /// After it returned in the parent.
    pub returned_ns: u64,
    /// In the child, as the first thing it does.
    pub started_ns: u64,
    /// In the parent, once it has read the child's byte.
    pub read_ns: u64,
}

/// When a child was ended, by `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Termination {
    /// Before `kill`.
    pub before_ns: u64,
    /// After it returned.
    pub killed_ns: u64,
    /// After `waitpid` returned.
    pub waited_ns: u64,
}

/// A running fork helper. Its children end with it, and it ends with the process that started it.
#[derive(Debug)]
pub struct ForkHelper {
    child: Child,
    orders: ChildStdin,
    answers: ChildStdout,
}

impl ForkHelper {
    /// Starts the fork helper of a linkage.
    pub fn start(linkage: &str) -> Result<Self, Failure> {
        let program = image(linkage).map_err(|reason| Failure::Gone(reason.to_owned()))?;
        let (path, _keep) = executable(program).map_err(|error| Error::from_io("memfd_create", &error))?;
        let mut child = Command::new(path)
            .arg0("landau-fork-helper")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Error::from_io("execve", &error))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(orders), Some(answers)) => Ok(Self { child, orders, answers }),
            _ => Err(Failure::Gone("no pipes".to_owned())),
        }
    }

    /// Makes a child in one of [`METHODS`] and waits for its byte.
    pub fn spawn(&mut self, way: usize) -> Result<Creation, Failure> {
        let call = METHODS.get(way).copied().unwrap_or("fork");
        let [_, pid, before_ns, returned_ns, started_ns, read_ns] = self.order(OP_SPAWN, way as u64, call)?;
        Ok(Creation { pid, before_ns, returned_ns, started_ns, read_ns })
    }

    /// Kills a child and waits for it.
    pub fn reap(&mut self, pid: u64) -> Result<Termination, Failure> {
        let [_, _, before_ns, killed_ns, waited_ns, _] = self.order(OP_REAP, pid, "waitpid")?;
        Ok(Termination { before_ns, killed_ns, waited_ns })
    }

    /// Lets the fork helper touch so many bytes of private memory.
    pub fn grow_resident(&mut self, bytes: u64) -> Result<(), Failure> {
        self.order(OP_RESIDENT, bytes, "mmap").map(drop)
    }

    /// Lets the fork helper split its memory into so many more mappings.
    pub fn grow_mappings(&mut self, count: u64) -> Result<(), Failure> {
        self.order(OP_MAPPINGS, count, "mprotect").map(drop)
    }

    /// Whether a child lives.
    pub fn is_alive(&mut self, pid: u64) -> Result<bool, Failure> {
        match self.order(OP_ALIVE, pid, "kill") {
            Ok(_) => Ok(true),
            Err(Failure::Refused(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    fn order(&mut self, op: u64, argument: u64, call: &'static str) -> Result<[u64; 6], Failure> {
        let mut order = [0_u8; 16];
        order[..8].copy_from_slice(&op.to_ne_bytes());
        order[8..].copy_from_slice(&argument.to_ne_bytes());
        let sent = self.orders.write_all(&order);
        let mut answer = [0_u8; 48];
        let got = sent.and_then(|()| match wait_readable(&self.answers, PATIENCE_MS) {
            Ok(false) => Err(std::io::ErrorKind::TimedOut.into()),
            _ => self.answers.read_exact(&mut answer),
        });
        match got {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => return Err(Failure::Silent),
            Err(_) => return Err(Failure::Gone(self.child.wait().map_or("?".to_owned(), |status| status.to_string()))),
        }
        let mut words = [0_u64; 6];
        for (word, bytes) in words.iter_mut().zip(answer.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        }
        if cfg!(target_endian = "big") {
            words = words.map(u64::swap_bytes);
        }
        match words[0] {
            0 => Ok(words),
            DIED_EARLY => Err(Failure::DiedEarly { pid: words[1] }),
            errno => Err(Error { call, errno: errno as i32 }.into()),
        }
    }
}

impl Drop for ForkHelper {
    fn drop(&mut self) {
        // The fork helper leaves at end-of-file; killing it is for the case that it hangs. Its children follow it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts a program where it can be executed: its path, and what must stay open until then.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn executable(program: &[u8]) -> std::io::Result<(String, std::fs::File)> {
    use std::os::fd::AsRawFd;
    // SAFETY: the name is a C string; the call returns a new descriptor.
    let fd = unsafe { libc::memfd_create(c"landau-fork-helper".as_ptr(), 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let mut file = std::fs::File::from(crate::descriptor::own(fd));
    file.write_all(program)?;
    Ok((format!("/proc/self/fd/{}", file.as_raw_fd()), file))
}

/// Puts a program where it can be executed: its path, and what must stay open until then.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn executable(program: &[u8]) -> std::io::Result<(String, std::fs::File)> {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("landau-fork-helper-{}", std::process::id()));
    std::fs::write(&path, program)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
    let file = std::fs::File::open(&path)?;
    Ok((path.display().to_string(), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every linkage that this landau has makes children in every way, in order of time, and ends them.
    #[test]
    fn children_come_and_go_in_every_way() {
        for linkage in LINKAGES.iter().filter(|linkage| image(linkage).is_ok()) {
            for way in 0..METHODS.len() {
                let mut helper = ForkHelper::start(linkage).unwrap();
                let creation = helper.spawn(way).unwrap();
                let times = [creation.before_ns, creation.returned_ns, creation.read_ns];
                assert!(times.is_sorted() && creation.before_ns < creation.started_ns, "{linkage} {way}: {creation:?}");
                assert!(helper.is_alive(creation.pid).unwrap());
                let termination = helper.reap(creation.pid).unwrap();
                assert!(
                    termination.before_ns <= termination.killed_ns && termination.killed_ns <= termination.waited_ns
                );
                assert!(!helper.is_alive(creation.pid).unwrap());
            }
        }
    }

    /// A child that was killed from outside must not pass the check that every child lives.
    #[test]
    fn a_dead_child_is_not_taken_for_a_living_one() {
        let mut helper = ForkHelper::start("dynamic").unwrap();
        let child = helper.spawn(0).unwrap();
        let pid = libc::pid_t::try_from(child.pid).unwrap();
        // SAFETY: the child is the fork helper's and alive.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
        // It stays a zombie until the fork helper waits for it, and signal 0 would still find it.
        assert!((0..10_000).any(|_| !helper.is_alive(child.pid).unwrap()));
    }

    /// The 2003 program's parent waited for ever for the byte of a dead child.
    #[test]
    fn a_child_that_dies_early_is_an_error() {
        let mut helper = ForkHelper::start("dynamic").unwrap();
        let first = helper.spawn(0).unwrap();
        let pid = libc::pid_t::try_from(first.pid).unwrap();
        // SAFETY: the child is the fork helper's and alive.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        let failed = (0..50).find_map(|_| helper.spawn(0).err());
        assert!(matches!(failed, Some(Failure::DiedEarly { .. })), "{failed:?}");
    }
}
