//! The worker's side of the fork helper: a small process, in three linkages, that creates processes on request.
//!
//! The program itself is in `fork_helper/`; `build.rs` compiles and links it, and this crate contains the result.

use crate::descriptor::{pipe, set_close_on_exec, set_inherited, wait_readable_over_signals};
use crate::error::Error;
use crate::process::OwnedChild;
use protocol::{ANSWER_WORDS, DIED_EARLY, OP_ALIVE, OP_MAPPINGS, OP_REAP, OP_RESIDENT, OP_SPAWN, ORDER_WORDS};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

#[path = "../fork_helper/protocol.rs"]
#[allow(dead_code, reason = "the numbers of the methods are for the other side")]
pub(crate) mod protocol;

pub use protocol::{REPLY, WORK_NS};

// The program is compiled without Cargo, so that Clippy sees its code only here.
#[cfg(test)]
#[path = "../fork_helper/helper.rs"]
#[allow(dead_code, reason = "its `main` is called by the program's root")]
mod helper;
#[cfg(all(test, target_os = "linux"))]
use crate::marker;
#[cfg(all(test, target_os = "linux"))]
#[path = "../fork_helper/beside.rs"]
#[allow(dead_code, reason = "it is called by `sleepers`")]
mod beside;
#[cfg(all(test, target_os = "linux"))]
#[path = "../fork_helper/sleepers.rs"]
#[allow(dead_code, reason = "it is called by `helper`, whose `main` is called by the program's root")]
mod sleepers;

include!(concat!(env!("OUT_DIR"), "/fork_helper_built.rs"));

/// The linkages in which a fork helper may exist.
pub const LINKAGES: &[&str] = &["dynamic", "static", "musl"];

/// The methods of creating a process, in the order of the helper's numbers for them.
pub const METHODS: &[&str] = &protocol::METHODS;

/// The maximum time to wait for the answer to an order, in milliseconds: a thousand times as long as the slowest
/// reference machine takes.
const TIMEOUT_MS: u32 = 20_000;

/// Returns the program of a linkage, or the reason why this build has none.
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
    /// A child died before the helper killed it.
    #[error(
        "a child died early (noticed while child {pid} was being created or killed); another process may have \
         killed it"
    )]
    DiedEarly {
        /// The child that was being created or killed when the death was noticed; not necessarily the one that died.
        pid: u64,
    },
    /// The fork helper does not answer.
    #[error("the fork helper did not answer within {} s and was killed", TIMEOUT_MS / 1000)]
    Silent,
    /// The fork helper has ended.
    #[error("the fork helper ended unexpectedly ({0})")]
    Gone(String),
}

/// The creation of a child; times are `CLOCK_MONOTONIC` in nanoseconds.
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
    /// In the parent, after it read the child's time stamp.
    pub read_ns: u64,
}

/// The times of a child's termination: `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Termination {
    /// Before `kill`.
    pub before_ns: u64,
    /// After it returned.
    pub killed_ns: u64,
    /// After `waitpid` returned.
    pub waited_ns: u64,
}

/// A running fork helper. It ends with the process that started it, and its children end when this is dropped or that
/// process ends.
#[derive(Debug)]
pub struct ForkHelper {
    child: OwnedChild,
    orders: ChildStdin,
    answers: ChildStdout,
    /// The writing end of the pipe that every child waits on. The helper has no copy, which each child would have to
    /// close.
    _life: OwnedFd,
}

impl ForkHelper {
    /// Starts the fork helper of a linkage.
    pub fn start(linkage: &str) -> Result<Self, Failure> {
        Self::launch(linkage, |_| Ok(()))
    }

    /// Starts the fork helper of a linkage. `prepare` adds arguments, and actions of the new process before it executes
    /// the program.
    pub(crate) fn launch(
        linkage: &str,
        prepare: impl FnOnce(&mut Command) -> crate::Result<()>,
    ) -> Result<Self, Failure> {
        let program = image(linkage).map_err(|reason| Failure::Gone(reason.to_owned()))?;
        let (path, _keep) = executable(program).map_err(|error| Error::from_io("memfd_create", &error))?;
        let mut command = Command::new(path);
        command.arg0("landau-fork-helper").stdin(Stdio::piped()).stdout(Stdio::piped());
        let (waiting, life) = pipe()?;
        set_close_on_exec(&waiting)?;
        set_close_on_exec(&life)?;
        command.arg(waiting.as_raw_fd().to_string());
        // Only in the child, so that no other child of this process inherits it.
        // SAFETY: between fork and exec the closure calls `fcntl`, which is async-signal-safe.
        unsafe { command.pre_exec(move || set_inherited(&waiting).map_err(Into::into)) };
        prepare(&mut command)?;
        let mut child = OwnedChild::spawn(&mut command).map_err(|error| Error::from_io("execve", &error))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(orders), Some(answers)) => Ok(Self { child, orders, answers, _life: life }),
            _ => Err(Failure::Gone("no pipes".to_owned())),
        }
    }

    /// Returns the process identifier of the helper, the parent of every child.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Creates a child by one of [`METHODS`] and waits for its time stamp.
    pub fn spawn(&mut self, method: usize) -> Result<Creation, Failure> {
        let call = METHODS.get(method).copied().unwrap_or("fork");
        let [_, pid, before_ns, returned_ns, started_ns, read_ns] = self.order(OP_SPAWN, method as u64, call)?;
        Ok(Creation { pid, before_ns, returned_ns, started_ns, read_ns })
    }

    /// Kills a child and waits for it.
    pub fn reap(&mut self, pid: u64) -> Result<Termination, Failure> {
        let [_, _, before_ns, killed_ns, waited_ns, _] = self.order(OP_REAP, pid, "waitpid")?;
        Ok(Termination { before_ns, killed_ns, waited_ns })
    }

    /// Makes the fork helper touch `bytes` bytes of private memory.
    pub fn grow_resident(&mut self, bytes: u64) -> Result<(), Failure> {
        self.order(OP_RESIDENT, bytes, "mmap").map(drop)
    }

    /// Makes the fork helper split its memory into `count` more mappings.
    pub fn grow_mappings(&mut self, count: u64) -> Result<(), Failure> {
        self.order(OP_MAPPINGS, count, "mprotect").map(drop)
    }

    /// Returns whether a child is alive.
    pub fn is_alive(&mut self, pid: u64) -> Result<bool, Failure> {
        match self.order(OP_ALIVE, pid, "kill") {
            Ok(_) => Ok(true),
            Err(Failure::Refused(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Gives an order and returns the answer. `call` is the call that an error number in the answer belongs to.
    pub(crate) fn order(&mut self, op: u64, argument: u64, call: &'static str) -> Result<[u64; ANSWER_WORDS], Failure> {
        let order: [u64; ORDER_WORDS] = [op, argument];
        let sent = self.orders.write_all(&order.map(u64::to_ne_bytes).concat());
        self.answer(sent, call)
    }

    /// Returns the answer to an order that was sent.
    pub(crate) fn answer(
        &mut self,
        sent: std::io::Result<()>,
        call: &'static str,
    ) -> Result<[u64; ANSWER_WORDS], Failure> {
        let mut answer = [[0_u8; 8]; ANSWER_WORDS];
        let got = sent.and_then(|()| match wait_readable_over_signals(&self.answers, TIMEOUT_MS) {
            Ok(false) => Err(std::io::ErrorKind::TimedOut.into()),
            _ => self.answers.read_exact(answer.as_flattened_mut()),
        });
        match got {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => return Err(Failure::Silent),
            Err(_) => return Err(Failure::Gone(self.child.wait().map_or("?".to_owned(), |status| status.to_string()))),
        }
        let words = answer.map(u64::from_ne_bytes);
        match words[0] {
            0 => Ok(words),
            DIED_EARLY => Err(Failure::DiedEarly { pid: words[1] }),
            errno => Err(Error { call, errno: errno as i32 }.into()),
        }
    }
}

impl ForkHelper {
    /// Ends the helper, and waits until it and every process that holds its pipe have ended.
    pub(crate) fn finish(self) {
        let Self { child, orders, answers, _life: life } = self;
        drop((orders, life));
        // Even if some process does not end, `child` is killed below.
        let _ = wait_readable_over_signals(&answers, TIMEOUT_MS);
        drop(child);
    }
}

/// A small program that serves one connection and ends: the fork helper with another argument.
#[derive(Debug)]
pub struct Responder {
    path: String,
    _program: std::fs::File,
}

impl Responder {
    /// Makes the program of a linkage executable. The error states why there is none.
    pub fn new(linkage: &str) -> Result<Self, String> {
        let program = image(linkage).map_err(str::to_owned)?;
        let (path, file) = executable(program).map_err(|error| Error::from_io("memfd_create", &error).to_string())?;
        Ok(Self { path, _program: file })
    }

    /// Executes the program with a connection as its standard input and output. It answers at once; or with `works` it
    /// works for each request, and ends with the connection. The caller reaps it.
    pub fn start(&self, connection: OwnedFd, works: bool) -> crate::Result<u32> {
        let copy = connection.try_clone().map_err(|error| Error::from_io("dup", &error))?;
        let mut command = Command::new(&self.path);
        command.arg(if works { protocol::WORK } else { protocol::BUSY }).stdin(connection).stdout(copy);
        command.spawn().map(|child| child.id()).map_err(|error| Error::from_io("posix_spawn", &error))
    }
}

/// Makes a program executable. Returns its path, and the file that must stay open until it is executed.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn executable(program: &[u8]) -> std::io::Result<(String, std::fs::File)> {
    // MFD_EXEC, Linux 6.3: without it, `vm.memfd_noexec` = 1 forbids executing the file. Older kernels refuse the flag.
    const MAY_EXECUTE: libc::c_uint = 0x10;
    // SAFETY: the name is a C string; the call returns a new descriptor.
    let make = |flags| unsafe { libc::memfd_create(c"landau-fork-helper".as_ptr(), flags) };
    let mut fd = make(MAY_EXECUTE);
    if fd < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        fd = make(0);
    }
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let mut file = std::fs::File::from(crate::descriptor::own(fd));
    file.write_all(program)?;
    Ok((format!("/proc/self/fd/{}", file.as_raw_fd()), file))
}

/// Makes a program executable. Returns its path, and the file that must stay open until it is executed.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn executable(program: &[u8]) -> std::io::Result<(String, std::fs::File)> {
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

    /// Every linkage of this build makes children by every method, in order of time, and ends them.
    #[test]
    fn every_method_makes_and_ends_children() {
        for linkage in LINKAGES.iter().filter(|linkage| image(linkage).is_ok()) {
            for method in 0..METHODS.len() {
                let mut helper = ForkHelper::start(linkage).unwrap();
                let made = helper.spawn(method).unwrap();
                let times = [made.before_ns, made.returned_ns, made.read_ns];
                assert!(times.is_sorted() && made.before_ns < made.started_ns, "{linkage} {method}: {made:?}");
                assert!(helper.is_alive(made.pid).unwrap());
                let ended = helper.reap(made.pid).unwrap();
                assert!(ended.before_ns <= ended.killed_ns && ended.killed_ns <= ended.waited_ns);
                assert!(!helper.is_alive(made.pid).unwrap());
            }
        }
    }

    /// Every additional call of the child would be part of the time until the parent has read its time stamp. In
    /// earlier helpers, the child wrote twice and closed a descriptor.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_writes_once_and_holds_nothing_to_close() {
        let mut helper = ForkHelper::start("dynamic").unwrap();
        for (method, name) in METHODS.iter().enumerate() {
            let child = helper.spawn(method).unwrap();
            let text = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", child.pid)).unwrap_or_default();
            // Until it sleeps in its last call.
            while !text("stat").contains(") S ") {
                assert!(!text("stat").is_empty(), "{name}: the child has ended");
                std::thread::yield_now();
            }
            // A kernel without task I/O accounting lacks this file.
            if let Some(writes) = text("io").lines().find_map(|line| line.strip_prefix("syscw: ")) {
                assert_eq!(writes, "1", "{name}");
            }
            let mut open: Vec<i32> = std::fs::read_dir(format!("/proc/{}/fd", child.pid))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
                // The program that runs the tests may have left others open, with much higher numbers.
                .filter(|&number| number < 64)
                .collect();
            open.sort_unstable();
            // In addition to the standard ones: both ends of the report pipe, and the reading end of the life pipe.
            assert_eq!(open, [0, 1, 2, 3, 4, 5], "{name}");
            helper.reap(child.pid).unwrap();
        }
    }

    /// The children hold no writing end of the life pipe, so they end with the worker even if nobody kills them.
    #[test]
    #[cfg(target_os = "linux")]
    fn children_end_with_the_worker() {
        let mut helper = ForkHelper::start("dynamic").unwrap();
        let child = libc::pid_t::try_from(helper.spawn(0).unwrap().pid).unwrap();
        assert!(crate::process::exists(child));
        drop(helper);
        // The orphan is reaped by whichever process adopts it; a zombie has no descriptors.
        while std::fs::read_dir(format!("/proc/{child}/fd")).is_ok_and(|entries| entries.count() > 0) {}
    }

    #[test]
    fn what_was_seen_beside_a_child_is_unpacked_as_it_was_packed() {
        let through = |softirqs, canary_ns| protocol::unpack(protocol::pack(softirqs, canary_ns));
        assert_eq!([through(None, 170), through(Some(0), 170)], [(None, 170), (Some(0), 170)]);
        assert_eq!(through(Some(7), u64::MAX), (Some(7), u32::MAX));
        assert_eq!(through(Some(u64::MAX), 0), (Some(u32::MAX - 1), 0));
    }

    /// If huge pages were always used, the memory would have a five-hundredth of the entries that fork copies.
    #[test]
    #[cfg(target_os = "linux")]
    fn resident_memory_is_described_page_by_page() {
        let mut helper = ForkHelper::start("dynamic").unwrap();
        helper.grow_resident(64 << 20).unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/smaps", helper.id())).unwrap();
        let mut sizes = maps.split("\nSize:").skip(1);
        let region = sizes.find(|text| text.trim_start().starts_with("65536 kB")).unwrap();
        // "nh": no huge pages, which only a kernel that has them shows.
        let flags = region.lines().find(|line| line.starts_with("VmFlags:")).unwrap();
        let has_huge = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert!(!has_huge || flags.contains(" nh"), "{flags}");
    }

    #[test]
    fn numbers_of_methods_are_their_places() {
        let places = [protocol::METHOD_FORK, protocol::METHOD_VFORK_EXEC, protocol::METHOD_POSIX_SPAWN];
        assert_eq!(places.map(|place| METHODS[place as usize]), ["fork", "vfork-exec", "posix_spawn"]);
        assert_eq!(METHODS[protocol::METHOD_CLONE3 as usize], "clone3");
    }

    /// The check that every child is alive must fail for a child that was killed from outside.
    #[test]
    fn a_killed_child_is_not_alive() {
        let mut helper = ForkHelper::start("dynamic").unwrap();
        let child = helper.spawn(0).unwrap();
        let pid = libc::pid_t::try_from(child.pid).unwrap();
        // SAFETY: the child is alive and the helper has not reaped it, so the pid is its own.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
        // It stays a zombie until the helper waits for it, and signal 0 would still find it.
        while helper.is_alive(child.pid).unwrap() {}
    }

    /// The parent of the 2003 study waited for ever for the byte of a dead child.
    #[test]
    fn a_child_that_dies_early_is_an_error() {
        let mut helper = ForkHelper::start("dynamic").unwrap();
        let first = helper.spawn(0).unwrap();
        let pid = libc::pid_t::try_from(first.pid).unwrap();
        // SAFETY: the child is alive and the helper has not reaped it, so the pid is its own.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        // Once the helper sees the zombie, SIGCHLD is pending, and its handler writes before the next child does.
        while helper.is_alive(first.pid).unwrap() {}
        let failed = helper.spawn(0);
        assert!(matches!(failed, Err(Failure::DiedEarly { .. })), "{failed:?}");
    }
}
