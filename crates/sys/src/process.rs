//! Processes: this one's resource usage and identity, and its children.

use crate::error::{Error, Result, check};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output};

/// Disturbances of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Involuntary context switches.
    pub preempted: u64,
    /// Page faults that needed no I/O.
    pub faults_minor: u64,
    /// Page faults that needed I/O.
    pub faults_major: u64,
}

/// Returns the disturbances of this process so far.
pub fn usage() -> Usage {
    // SAFETY: `rusage` is plain data for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable, and the call cannot fail for RUSAGE_SELF.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    Usage {
        preempted: usage.ru_nivcsw as u64,
        faults_minor: usage.ru_minflt as u64,
        faults_major: usage.ru_majflt as u64,
    }
}

/// Processor time, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl ProcessorTime {
    /// Returns the sum.
    pub fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// Returns the difference from an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

/// Returns the processor time of the children that were reaped, and of their reaped children.
pub fn children_time() -> ProcessorTime {
    // SAFETY: `rusage` is plain data for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable, and the call cannot fail for RUSAGE_CHILDREN.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    ProcessorTime { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
}

/// Returns the processor time of this thread; of the whole process on systems that do not distinguish them.
pub fn thread_time() -> ProcessorTime {
    #[cfg(target_os = "linux")]
    const WHO: libc::c_int = libc::RUSAGE_THREAD;
    #[cfg(not(target_os = "linux"))]
    const WHO: libc::c_int = libc::RUSAGE_SELF;
    // SAFETY: `rusage` is plain data for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable, and the call cannot fail for either of these.
    unsafe { libc::getrusage(WHO, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    ProcessorTime { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
}

/// Returns the processor time of this thread in nanoseconds. Unlike [`thread_time`] it is exact at any moment, and not
/// split into user mode and kernel.
pub fn thread_time_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable, and the clock exists on every supported system, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the processor time of another process in nanoseconds, including its threads that have ended, but not its
/// children; `None` if it does not exist or the system has no clock of other processes.
#[cfg(target_os = "linux")]
pub fn time_of_ns(pid: u32) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is writable.
    if unsafe { libc::clock_getcpuclockid(libc::pid_t::try_from(pid).ok()?, &raw mut clock) } != 0 {
        return None;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    let read = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (read == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Returns the processor time of another process: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn time_of_ns(_: u32) -> Option<u64> {
    None
}

/// Returns the processor time of the children that this process has reaped, and of their reaped children, in
/// nanoseconds, with microsecond resolution.
pub fn reaped_time_ns() -> Result<u64> {
    // SAFETY: `rusage` is plain data for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable.
    check("getrusage", unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) })?;
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Ok(ns(usage.ru_utime) + ns(usage.ru_stime))
}

/// Returns the identifier of the parent process. It is the cheapest call that enters the kernel, and used as the
/// canary.
#[inline(always)]
pub fn parent_id() -> i32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::getppid() }
}

/// Returns the effective user identifier.
pub fn effective_user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Sends SIGKILL to every process of a group that a child of this process leads.
fn kill_group(leader: u32) -> Result<()> {
    let group = libc::pid_t::try_from(leader).ok().filter(|&group| group > 1);
    let group = group.ok_or(Error { call: "kill", errno: libc::ESRCH })?;
    // SAFETY: the call takes two integers; the group is greater than 1, so it means neither our own group nor everyone.
    check("kill", unsafe { libc::kill(-group, libc::SIGKILL) }).map(drop)
}

/// Sends SIGKILL to one process.
pub fn kill(pid: u32) -> Result<()> {
    signal(pid, libc::SIGKILL)
}

/// Asks a process to end (SIGTERM).
pub fn terminate(pid: u32) -> Result<()> {
    signal(pid, libc::SIGTERM)
}

fn signal(pid: u32, signal: libc::c_int) -> Result<()> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|&pid| pid > 1);
    let pid = pid.ok_or(Error { call: "kill", errno: libc::ESRCH })?;
    // SAFETY: the call takes two integers; the number is greater than 1, so it means neither a group nor everyone.
    check("kill", unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Returns the path of the program that this process runs, for starting it again.
///
/// On Linux this is `/proc/self/exe`, which names the running file even if another one has taken its place since.
/// Without `/proc` it is the path with which the program was started (`AT_EXECFN`), and on other systems the path that
/// the standard library finds.
pub fn this_program() -> Result<PathBuf> {
    crate::system::this_program()
        .or_else(|| std::env::current_exe().ok())
        .ok_or(Error { call: "execve", errno: libc::ENOENT })
}

/// Returns the path of the program that this process runs, for another process to open while this one runs.
///
/// Like [`this_program`], but with the process identifier in the path: for the other process, `/proc/self` would be
/// itself.
pub fn this_program_for_others() -> Result<PathBuf> {
    match std::fs::read_link("/proc/self") {
        Ok(pid) => Ok(std::path::Path::new("/proc").join(pid).join("exe")),
        Err(_) => this_program(),
    }
}

/// A child process that does not outlive its parent.
///
/// Dropping it kills it with SIGKILL and reaps it. If the parent ends without dropping it, the kernel kills the child
/// (`PR_SET_PDEATHSIG`), as soon as the *thread* that started it has ended. Only Linux has that signal: on other
/// systems the child must detect the end of its parent itself, for example by the end of a pipe. The signal is also
/// lost when the child changes its user.
///
/// Dereferences to [`std::process::Child`].
#[derive(Debug)]
pub struct OwnedChild {
    child: Child,
    leads_group: bool,
}

impl OwnedChild {
    /// Starts a child in the process group of this process.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let parent = std::process::id().cast_signed();
        // SAFETY: between fork and exec the closure calls `prctl`, `getppid` and `_exit`, which are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                // It fails only if the system has no such signal.
                let _ = crate::system::set_parent_death_signal(parent);
                Ok(())
            });
        }
        Ok(Self { child: command.spawn()?, leads_group: false })
    }

    /// Starts a child that leads a new process group, which Ctrl-C at the terminal does not reach. Dropping it kills
    /// the whole group.
    pub fn spawn_group(command: &mut Command) -> io::Result<Self> {
        let mut child = Self::spawn(command.process_group(0))?;
        child.leads_group = true;
        Ok(child)
    }

    /// Waits until the child has ended, kills the rest of the group that it leads, and reaps it. The order matters: no
    /// other process can have the child's number until the child is reaped.
    pub fn wait_and_end_group(&mut self) -> io::Result<ExitStatus> {
        // 0: a signal was caught meanwhile. An error: it was reaped before.
        while matches!(crate::child::state(self.child.id().cast_signed(), 0), Ok(0)) {}
        self.end_group();
        self.child.wait()
    }

    /// Kills the group that the child leads, even if the child has ended: until it is reaped, its number identifies its
    /// group.
    fn end_group(&self) {
        if self.leads_group && crate::child::state(self.child.id().cast_signed(), libc::WNOHANG).is_ok() {
            let _ = kill_group(self.child.id());
        }
    }

    /// Waits until the child has ended, and returns its output, like [`Child::wait_with_output`].
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        fn all(source: Option<impl io::Read>) -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            source.map_or(Ok(0), |mut source| source.read_to_end(&mut bytes))?;
            Ok(bytes)
        }
        drop(self.child.stdin.take());
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let (stdout, stderr) = std::thread::scope(|scope| {
            let stderr = scope.spawn(|| all(err));
            // A thread that panics has read nothing.
            (all(out), stderr.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
        });
        Ok(Output { status: self.child.wait()?, stdout: stdout?, stderr: stderr? })
    }
}

impl std::ops::Deref for OwnedChild {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl std::ops::DerefMut for OwnedChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        self.end_group();
        // Once the child was reaped, its number may belong to another process.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Gives this process the lowest scheduling class (`SCHED_IDLE`): it runs only when no other process needs the
/// processor.
#[cfg(target_os = "linux")]
pub fn set_idle_priority() -> Result<()> {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: `priority` is readable for the length of the call.
    check("sched_setscheduler", unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const priority) }).map(drop)
}

/// Gives this process the lowest scheduling class: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn set_idle_priority() -> Result<()> {
    Err(Error::unsupported("sched_setscheduler"))
}

/// Restores the normal scheduling class of a process. From the lowest class this requires a privilege, or a limit on
/// nice values that allows 0 (`RLIMIT_NICE`); without either it fails (EPERM).
#[cfg(target_os = "linux")]
pub fn set_normal_priority(pid: u32) -> Result<()> {
    let priority = libc::sched_param { sched_priority: 0 };
    let pid = pid.cast_signed();
    // SAFETY: `priority` is readable for the length of the call.
    check("sched_setscheduler", unsafe { libc::sched_setscheduler(pid, libc::SCHED_OTHER, &raw const priority) })
        .map(drop)
}

/// Restores the normal scheduling class of a process: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn set_normal_priority(_: u32) -> Result<()> {
    Err(Error::unsupported("sched_setscheduler"))
}

/// Returns whether a process with that identifier exists; a zombie does.
pub fn exists(pid: i32) -> bool {
    // SAFETY: signal 0 is not delivered; the call only checks.
    let asked = unsafe { libc::kill(pid, 0) };
    asked == 0 || Error::last("kill").is_not_permitted()
}

/// A child that holds copies of all descriptors that were open when it was created, and does nothing else.
#[derive(Debug)]
pub struct DescriptorHolder {
    pid: libc::pid_t,
    _life: OwnedFd,
}

impl DescriptorHolder {
    /// Creates such a child. It ends when the holder is dropped or this process ends, however it ends.
    ///
    /// The process must have a single thread: the child continues with a copy of its memory.
    pub fn new() -> Result<Self> {
        let (reading, writing) = crate::descriptor::pipe()?;
        // SAFETY: the process has one thread (the caller's promise), so the child's copy of it is whole.
        let pid = check("fork", unsafe { libc::fork() })?;
        if pid == 0 {
            drop(writing);
            hold(&reading);
        }
        Ok(Self { pid, _life: writing })
    }
}

/// Waits for the end of the parent, then exits without running anything else.
pub(crate) fn hold(life: &OwnedFd) -> ! {
    let mut byte = 0_u8;
    loop {
        // SAFETY: the buffer has room for the one byte.
        let got = unsafe { libc::read(life.as_raw_fd(), (&raw mut byte).cast(), 1) };
        if got == 0 {
            break;
        }
    }
    // SAFETY: the call takes an integer; it exits at once, without running the parent's destructors.
    unsafe { libc::_exit(0) }
}

impl Drop for DescriptorHolder {
    fn drop(&mut self) {
        // SAFETY: the child is ours and not yet waited for, so the identifier is still its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        let mut status = 0;
        // SAFETY: `status` may be written; the child is ours.
        unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
    }
}

/// Reads an open file from its start, without moving its position: for small files of `/proc` that are kept open.
pub fn read_at_start(file: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the buffer is writable for its whole length.
    let got = unsafe { libc::pread(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    usize::try_from(got).map_err(|_| Error::last("pread"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("1000");
        command
    }

    #[test]
    fn a_dropped_child_is_killed_and_reaped() {
        for spawn in [OwnedChild::spawn, OwnedChild::spawn_group] {
            let child = spawn(&mut sleeper()).unwrap();
            let pid = child.id().cast_signed();
            assert!(exists(pid));
            drop(child);
            assert!(!exists(pid));
        }
    }

    /// A shell that leads a group and ends, and the number of the process that it has started.
    #[cfg(target_os = "linux")]
    fn shell_with_sleeper() -> (OwnedChild, String) {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!"]).stdout(std::process::Stdio::piped());
        let mut child = OwnedChild::spawn_group(&mut command).unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        (child, line.trim().to_owned())
    }

    /// Waits until a process has ended. The process that adopted it may or may not have reaped it.
    #[cfg(target_os = "linux")]
    fn await_end(pid: &str) {
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        while !(state().is_empty() || state().contains(") Z ")) {
            std::thread::yield_now();
        }
    }

    /// A worker that dies on its own may have started a server.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_an_ended_child_has_started_is_killed() {
        let (mut child, sleeper) = shell_with_sleeper();
        assert_eq!(child.wait_and_end_group().unwrap().code(), Some(0));
        await_end(&sleeper);
        assert_eq!(child.wait_and_end_group().unwrap().code(), Some(0));
    }

    /// Before the fix, a group whose leader had ended was not killed.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_dropped_group_is_killed_though_its_leader_has_ended() {
        let (child, sleeper) = shell_with_sleeper();
        let leader = child.id().cast_signed();
        while crate::child::state(leader, 0).unwrap() != leader {}
        drop(child);
        await_end(&sleeper);
    }

    /// For the kernel, the parent is the thread that started the child.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_is_killed_when_its_parent_ends() {
        let parent = std::thread::spawn(|| OwnedChild::spawn(&mut sleeper()).unwrap());
        let mut child = parent.join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
