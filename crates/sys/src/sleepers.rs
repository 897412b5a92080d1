//! Sleeping processes that hold chosen pids, in a pid namespace, and a child that is timed among them.
//!
//! The processes run the fork helper's program (`fork_helper/sleepers.rs`). A chosen pid needs `clone3` with `set_tid`
//! (Linux 5.5) and a privilege that every user has in a user namespace, if the system allows one. The namespace ends
//! with the process that started it, for whatever reason, and the kernel kills all processes in it.

use crate::error::Error;
use crate::fork_helper::protocol::{
    self, IMAGE_EXECUTED, OP_CYCLE, OP_END, OP_PID_MAX, OP_SLEEPER, OP_SLEEPS, OP_WATCH, PARENT_REAPER,
};
use crate::fork_helper::{Failure, ForkHelper, executable, image};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The possible parents of the sleepers: the process that is timed, another one, or the first process of the namespace,
/// which adopts orphans.
pub const PARENTS: &[&str] = &protocol::PARENTS;
/// The images of sleepers: a copy-on-write copy of their parent, or a statically linked program that each has executed.
pub const IMAGES: &[&str] = &protocol::IMAGES;
/// The ways of creating the child that exits at once.
pub const CREATIONS: &[&str] = &protocol::CREATIONS;
/// The ways of waiting for a child: `waitpid(-1)`, `waitpid(pid)`, `waitid(P_PIDFD)`.
pub const WAITS: &[&str] = &protocol::WAITS;

/// The creation and the reaping of a child that exits at once; times are `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Cycle {
    /// The child's pid in the namespace.
    pub pid: u32,
    /// Before the call.
    pub before_ns: u64,
    /// After it returned in the parent.
    pub returned_ns: u64,
    /// After the wait returned.
    pub reaped_ns: u64,
    /// RCU softirqs that began on the processor meanwhile; `None` if they are not watched ([`Sleepers::watch`]).
    pub rcu_softirqs: Option<u32>,
    /// The canary: the fastest of six cheap calls in a row, before the child or after it, whichever took longer.
    pub canary_ns: u32,
}

/// The times of a sleeper's termination: `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Before `kill`.
    pub before_ns: u64,
    /// After its parent's wait returned.
    pub reaped_ns: u64,
}

/// The settings that all sleepers share: indices into the lists of this module.
#[derive(Debug, Clone, Copy, Default)]
pub struct Setup {
    /// In [`PARENTS`].
    pub parent: usize,
    /// In [`IMAGES`].
    pub image: usize,
    /// In [`CREATIONS`].
    pub creation: usize,
    /// In [`WAITS`].
    pub wait: usize,
}

/// Sleepers, and the process that creates children among them. Dropping it ends all of them, and waits for their end.
#[derive(Debug)]
pub struct Sleepers {
    /// Present until it is dropped.
    helper: Option<ForkHelper>,
    setup: Setup,
    timer: u32,
}

impl Sleepers {
    /// Creates the namespace, and the process that is timed, whose linkage is one of
    /// [`LINKAGES`](crate::fork_helper::LINKAGES).
    pub fn start(linkage: &str, setup: Setup) -> Result<Self, Failure> {
        let mut helper = ForkHelper::launch(linkage, |command| {
            let file = image_file(setup)?;
            crate::descriptor::set_close_on_exec(&file)?;
            command.arg(setup.parent.to_string()).arg(file.as_raw_fd().to_string());
            // SAFETY: between fork and exec the closure calls `fcntl`, which is async-signal-safe.
            unsafe { command.pre_exec(move || crate::descriptor::set_inherited(&file).map_err(Into::into)) };
            isolate(command);
            Ok(())
        })
        .map_err(of_namespace)?;
        let [_, timer, ..] = helper.answer(Ok(()), "clone")?;
        Ok(Self { helper: Some(helper), setup, timer: timer as u32 })
    }

    /// Returns the pid of the process that is timed, outside the namespace.
    pub fn timer(&self) -> u32 {
        self.timer
    }

    /// Counts the RCU softirqs of a processor around each child from now on. Returns whether the system reports them.
    /// The processes must stay on that processor.
    pub fn watch(&mut self, processor: u32) -> Result<bool, Failure> {
        let Some(place) = crate::system::rcu_softirqs_place(processor) else { return Ok(false) };
        match self.order(OP_WATCH, place, "pread") {
            Ok(_) => Ok(true),
            Err(Failure::Refused(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Returns the largest pid of the namespace.
    pub fn pid_max(&mut self) -> Result<u32, Failure> {
        let [_, pid_max, ..] = self.order(OP_PID_MAX, 0, "open")?;
        Ok((pid_max as u32).saturating_sub(1))
    }

    /// Adds a sleeper with a given pid, or with one of the kernel's choice, and returns its pid. It sleeps when this
    /// returns. Fails with EEXIST if the pid is in use, and with EINVAL if it is too large.
    pub fn add(&mut self, pid: Option<u32>) -> Result<u32, Failure> {
        let argument = u64::from(pid.unwrap_or(0)) | (self.setup.image as u64) << 32;
        let [_, pid, ..] = self.order(OP_SLEEPER, argument, "clone3")?;
        Ok(pid as u32)
    }

    /// Creates a child that exits at once, and reaps it; then another one, whose times are returned.
    pub fn cycle(&mut self) -> Result<Cycle, Failure> {
        let Setup { creation, wait, .. } = self.setup;
        let call = CREATIONS.get(creation).copied().unwrap_or("fork");
        let [_, pid, before_ns, returned_ns, reaped_ns, beside] =
            self.order(OP_CYCLE, creation as u64 | (wait as u64) << 8, call)?;
        let (rcu_softirqs, canary_ns) = protocol::unpack(beside);
        Ok(Cycle { pid: pid as u32, before_ns, returned_ns, reaped_ns, rcu_softirqs, canary_ns })
    }

    /// Kills a sleeper; its parent reaps it with the same wait, unless the parent is the reaper, which waits for any
    /// child.
    pub fn end(&mut self, pid: u32) -> Result<End, Failure> {
        let wait = if self.setup.parent as u64 == PARENT_REAPER { 0 } else { self.setup.wait as u64 };
        let [_, _, before_ns, _, reaped_ns, _] = self.order(OP_END, u64::from(pid) | wait << 32, "kill")?;
        Ok(End { before_ns, reaped_ns })
    }

    /// Returns whether a sleeper sleeps: whether it is a child of the expected process, and has not ended.
    pub fn sleeps(&mut self, pid: u32) -> Result<bool, Failure> {
        match self.order(OP_SLEEPS, u64::from(pid), "waitid") {
            Ok(_) => Ok(true),
            Err(Failure::Refused(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    fn order(&mut self, op: u64, argument: u64, call: &'static str) -> Result<[u64; protocol::ANSWER_WORDS], Failure> {
        match &mut self.helper {
            Some(helper) => helper.order(op, argument, call),
            None => Err(Failure::Gone("it was stopped".to_owned())),
        }
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        if let Some(helper) = self.helper.take() {
            helper.finish();
        }
    }
}

/// Adds the name of the call that refused a namespace. A new process reports only the number of an error that occurs
/// before it executes its program.
fn of_namespace(failure: Failure) -> Failure {
    match failure {
        Failure::Refused(error) if error.call == "execve" && is_refusal(error) => {
            Failure::Refused(Error { call: "unshare", ..error })
        }
        other => other,
    }
}

/// Makes the processes that a command creates live in a pid namespace.
#[cfg(target_os = "linux")]
fn isolate(command: &mut Command) {
    let namespace = crate::boot::Namespace::new(libc::CLONE_NEWPID);
    // SAFETY: between fork and exec the closure makes system calls, which are async-signal-safe.
    unsafe { command.pre_exec(move || namespace.enter().map_err(Into::into)) };
}

/// Makes the processes that a command creates live in a pid namespace: not supported here.
#[cfg(not(target_os = "linux"))]
fn isolate(command: &mut Command) {
    // SAFETY: the closure does nothing but fail.
    unsafe { command.pre_exec(|| Err(Error::unsupported("unshare").into())) };
}

/// Opens the program that a sleeper executes; if it executes none, a file that takes the same place among the
/// descriptors.
fn image_file(setup: Setup) -> crate::Result<OwnedFd> {
    if setup.image as u64 != IMAGE_EXECUTED {
        let file = std::fs::File::open("/dev/null").map_err(|error| Error::from_io("open", &error))?;
        return Ok(file.into());
    }
    let program = sleeping_program().map_err(|_| Error { call: "execve", errno: libc::ENOENT })?;
    Ok(executable(program).map_err(|error| Error::from_io("memfd_create", &error))?.1.into())
}

/// Returns the program of sleepers that execute one, or why this build has none.
pub fn sleeping_program() -> Result<&'static [u8], &'static str> {
    image("static").or_else(|_| image("musl"))
}

/// Checks that this process may create sleepers with chosen pids. The error is the one that refused it.
pub fn try_all() -> Result<(), Failure> {
    let mut sleepers = Sleepers::start("dynamic", Setup::default())?;
    sleepers.add(Some(300)).map(drop)
}

/// Returns whether the system allows sleepers with chosen pids; false if it refuses them: a container that forbids
/// namespaces or has no more of them, or a kernel without `set_tid`. The error is any other failure.
pub fn is_allowed() -> Result<bool, Failure> {
    match try_all() {
        Ok(()) => Ok(true),
        Err(Failure::Refused(error)) if is_refusal(error) => Ok(false),
        Err(other) => Err(other),
    }
}

fn is_refusal(error: Error) -> bool {
    [libc::EPERM, libc::ENOSPC, libc::EUSERS, libc::ENOSYS, libc::E2BIG].contains(&error.errno)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::fork_helper::LINKAGES;

    #[test]
    fn only_what_a_system_may_refuse_is_a_refusal() {
        let is_one = |errno: i32| is_refusal(Error { call: "clone3", errno });
        assert!([libc::EPERM, libc::ENOSPC, libc::EUSERS, libc::ENOSYS, libc::E2BIG].into_iter().all(is_one));
        assert!(![libc::EINVAL, libc::EEXIST, libc::ENOENT, libc::EAGAIN, libc::EIO].into_iter().any(is_one));
    }

    fn all_setups() -> Vec<Setup> {
        let mut all = Vec::new();
        for parent in 0..PARENTS.len() {
            for image in 0..IMAGES.len() {
                for creation in 0..CREATIONS.len() {
                    all.extend((0..WAITS.len()).map(|wait| Setup { parent, image, creation, wait }));
                }
            }
        }
        all
    }

    /// Each parent, image, creation and wait, in each linkage.
    #[test]
    fn children_are_timed_among_sleepers_with_chosen_pids() {
        if !is_allowed().unwrap() {
            return;
        }
        for linkage in LINKAGES.iter().filter(|linkage| image(linkage).is_ok()) {
            for setup in all_setups() {
                let mut sleepers = Sleepers::start(linkage, setup).unwrap();
                assert_eq!(sleepers.add(Some(4_321)).unwrap(), 4_321, "{setup:?}");
                let other = sleepers.add(None).unwrap();
                let taken = sleepers.add(Some(4_321));
                assert!(matches!(taken, Err(Failure::Refused(error)) if error.errno == libc::EEXIST), "{setup:?}");
                let cycle = sleepers.cycle().unwrap();
                assert!(![4_321, other].contains(&cycle.pid));
                assert!([cycle.before_ns, cycle.returned_ns, cycle.reaped_ns].is_sorted(), "{setup:?}: {cycle:?}");
                for pid in [4_321, other] {
                    assert!(sleepers.sleeps(pid).unwrap(), "{setup:?}");
                    let end = sleepers.end(pid).unwrap();
                    assert!(end.before_ns < end.reaped_ns);
                    assert!(!sleepers.sleeps(pid).unwrap(), "{setup:?}");
                }
                // A pid that was freed can be chosen again.
                assert_eq!(sleepers.add(Some(4_321)).unwrap(), 4_321);
            }
        }
    }

    /// The number is that of the processor on which the children run: its RCU softirqs free the children.
    #[test]
    fn rcu_softirqs_beside_a_child_are_counted() {
        let (processors, shown) = (crate::system::processors(), std::fs::read_to_string("/proc/softirqs"));
        let is_shown = shown.is_ok_and(|text| text.contains(" RCU:"));
        let Some(&processor) = processors.last().filter(|_| is_allowed().unwrap() && is_shown) else { return };
        // Pins this thread, and the processes that it starts.
        crate::system::pin(&[processor]).unwrap();
        let mut sleepers = Sleepers::start("dynamic", Setup::default()).unwrap();
        assert_eq!(sleepers.cycle().unwrap().rcu_softirqs, None);
        assert!(sleepers.cycle().unwrap().canary_ns > 0);
        assert!(sleepers.watch(processor).unwrap());
        let counted = |sleepers: &mut Sleepers| sleepers.cycle().unwrap().rcu_softirqs.unwrap();
        // Every child leaves its memory to RCU, so that a softirq occurs sooner or later.
        assert!((0..20_000).any(|_| counted(&mut sleepers) > 0));
        // A processor that does not exist has no number.
        assert!(!sleepers.watch(u32::MAX).unwrap());
    }

    /// A sleeper of another parent is not a child of the process that is timed, and one that was executed runs another
    /// program: otherwise the parameters would have no effect.
    #[test]
    fn a_sleeper_has_the_parent_and_the_program_that_were_chosen() {
        if !is_allowed().unwrap() {
            return;
        }
        let number = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_ascii_whitespace().last().unwrap().parse::<u32>().unwrap()
        };
        for setup in all_setups().into_iter().filter(|setup| setup.creation + setup.wait == 0) {
            let mut sleepers = Sleepers::start("dynamic", setup).unwrap();
            let pid = sleepers.add(Some(54_321)).unwrap();
            let timer = sleepers.timer();
            let at = |pid: u32| std::path::PathBuf::from(format!("/proc/{pid}"));
            let status = |pid: u32| std::fs::read_to_string(at(pid).join("status")).unwrap_or_default();
            let namespace = std::fs::read_link(at(timer).join("ns/pid")).unwrap();
            // Other tests have sleepers with the same pid in their namespaces.
            let is_it = |other: &u32| {
                std::fs::read_link(at(*other).join("ns/pid")).is_ok_and(|one| one == namespace)
                    && number(&status(*other), "NSpid:") == pid
            };
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            let sleeper = pids.find(is_it).unwrap();
            let parent = number(&status(sleeper), "PPid:");
            let actual = (parent == timer, number(&status(parent), "NSpid:") == 1);
            let expected = [(true, false), (false, false), (false, true)][setup.parent];
            assert_eq!(actual, expected, "{setup:?}");
            let size = |pid: u32| std::fs::metadata(at(pid).join("exe")).unwrap().len();
            assert_eq!(size(sleeper) != size(timer), setup.image == 1, "{setup:?}");
            // A sleeper that executes no program needs none: a build may lack it.
            let image = std::fs::read_link(at(timer).join("fd/6")).unwrap();
            assert_eq!(image == std::path::Path::new("/dev/null"), setup.image == 0, "{image:?}");
        }
    }

    /// The whole namespace ends with the worker's end of the pipes, and `drop` waits for that.
    #[test]
    fn nothing_is_left_when_they_are_dropped() {
        if !is_allowed().unwrap() {
            return;
        }
        for parent in 0..PARENTS.len() {
            let mut sleepers = Sleepers::start("dynamic", Setup { parent, ..Setup::default() }).unwrap();
            for _ in 0..20 {
                sleepers.add(None).unwrap();
            }
            let timer = sleepers.timer();
            let namespace = std::fs::read_link(format!("/proc/{timer}/ns/pid")).unwrap();
            // While it is open, no other test's namespace gets its number.
            let _open = std::fs::File::open(format!("/proc/{timer}/ns/pid")).unwrap();
            let inside = || {
                let processes = std::fs::read_dir("/proc").unwrap().flatten();
                let of = |entry: std::fs::DirEntry| std::fs::read_link(entry.path().join("ns/pid")).ok();
                processes.filter_map(of).filter(|one| *one == namespace).count()
            };
            // The timer, the sleepers, init, and the second parent if they are not the timer's.
            assert_eq!(inside(), 22 + usize::from(parent > 0));
            drop(sleepers);
            assert_eq!(inside(), 0);
        }
    }

    /// A sleeper that was killed from outside is noticed, and is not mistaken for the timed child.
    #[test]
    fn a_sleeper_that_dies_is_noticed() {
        if !is_allowed().unwrap() {
            return;
        }
        let mut sleepers = Sleepers::start("dynamic", Setup::default()).unwrap();
        let pid = sleepers.add(Some(777)).unwrap();
        let timer = sleepers.timer();
        let children = std::fs::read_to_string(format!("/proc/{timer}/task/{timer}/children")).unwrap();
        let outside: u32 = children.trim().parse().unwrap();
        crate::process::kill(outside).unwrap();
        while sleepers.sleeps(pid).unwrap() {}
        let cycle = sleepers.cycle();
        assert!(matches!(cycle, Err(Failure::DiedEarly { .. })), "{cycle:?}");
    }
}
