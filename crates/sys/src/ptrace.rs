//! Linux's `ptrace(2)`: stops of other programs' threads at their system calls, forks, executions and ends.
//!
//! A thread is seized without being stopped, and so are all threads and processes that it creates from then on. Only
//! the thread that seized it may make requests for it, and only while it is stopped. When the seizing thread ends, for
//! whatever reason, the kernel resumes everything that it had seized, because `PTRACE_O_EXITKILL` is not set.

use crate::error::{Error, Result};

/// Requests, whose numbers are the same on every processor.
const PEEK_DATA: libc::c_long = 2;
const CONTINUE: libc::c_long = 7;
const CONTINUE_TO_CALL: libc::c_long = 24;
const EVENT_MESSAGE: libc::c_long = 0x4201;
const SEIZE: libc::c_long = 0x4206;
const INTERRUPT: libc::c_long = 0x4207;
const LISTEN: libc::c_long = 0x4208;
const SYSCALL_INFO: libc::c_long = 0x420e;

/// Events that stop a thread, from bit 16 of its status on.
const FORKED: i32 = 1;
const VFORKED: i32 = 2;
const CLONED: i32 = 3;
const EXECUTED: i32 = 4;
const ENDS: i32 = 6;
#[cfg(any(test, target_os = "linux"))]
const STOPPED: i32 = 128;

/// The lowest bit distinguishes a stop at a call from a signal (`PTRACE_O_TRACESYSGOOD`); each event has the bit of its
/// number.
const OPTIONS: usize = 1 | 1 << FORKED | 1 << VFORKED | 1 << CLONED | 1 << EXECUTED | 1 << ENDS;
#[cfg(any(test, target_os = "linux"))]
const AT_CALL: i32 = 0x80;

/// `AUDIT_ARCH_…` of this program: calls of a 32-bit program have other numbers.
const NATIVE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// Returns whether the calls of programs for this processor can be read.
pub const fn reads_calls() -> bool {
    NATIVE.is_some()
}

/// Why a thread stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// At the beginning or the end of a system call: [`call`] returns which.
    Call,
    /// It receives this signal, which [`resume`] must deliver.
    Signal(i32),
    /// A signal such as SIGSTOP stopped its process: [`listen`] leaves it stopped.
    Group,
    /// It was interrupted, or it is new, or its process resumes after a stop.
    Trap,
    /// It created a process or thread, whose number is its [`message`].
    Made,
    /// It executed a program; its previous number is its [`message`].
    Executed,
    /// It is about to end.
    Ends,
    /// It has ended; no request may be made for it.
    Ended,
}

/// The action of a thread that stopped at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// It begins a call.
    Entry {
        /// The number of the call.
        number: u64,
        /// Its arguments.
        arguments: [u64; 6],
    },
    /// It ends a call.
    Exit {
        /// The result of the call; negative if it failed.
        value: i64,
    },
    /// It makes a call of another architecture, such as one of 32 bits.
    Foreign,
}

/// `struct ptrace_syscall_info` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Information {
    kind: u8,
    _unused: [u8; 3],
    architecture: u32,
    instruction: u64,
    stack: u64,
    values: [u64; 8],
}

/// Makes the request.
///
/// # Safety
///
/// Address and data are those that the request expects, and the memory that they point to is as large as the request
/// states.
#[cfg(target_os = "linux")]
unsafe fn request(request: libc::c_long, tid: u32, address: usize, data: usize) -> libc::c_long {
    // SAFETY: the caller vouches for what address and data point to.
    unsafe { libc::syscall(libc::SYS_ptrace, request, libc::c_long::from(tid), address, data) }
}

/// The call does not exist here.
///
/// # Safety
///
/// Nothing is accessed.
#[cfg(not(target_os = "linux"))]
unsafe fn request(_: libc::c_long, _: u32, _: usize, _: usize) -> libc::c_long {
    -1
}

fn result(call: &'static str, value: libc::c_long) -> Result<libc::c_long> {
    if cfg!(not(target_os = "linux")) {
        return Err(Error::unsupported(call));
    }
    if value < 0 { Err(Error::last(call)) } else { Ok(value) }
}

/// Seizes a thread without stopping it, and all threads and processes that it creates from now on.
///
/// # Errors
///
/// EPERM if this user may not trace it, or if it is traced already; ESRCH if there is no such thread.
pub fn seize(tid: u32) -> Result<()> {
    // SAFETY: the request takes no address, and options as data.
    result("ptrace(PTRACE_SEIZE)", unsafe { request(SEIZE, tid, 0, OPTIONS) }).map(drop)
}

/// Stops a thread ([`Stop::Trap`]). Some blocking calls, such as `epoll_wait`, then fail with EINTR; others continue.
///
/// # Errors
///
/// ESRCH if it has ended.
pub fn interrupt(tid: u32) -> Result<()> {
    // SAFETY: the request takes neither address nor data.
    result("ptrace(PTRACE_INTERRUPT)", unsafe { request(INTERRUPT, tid, 0, 0) }).map(drop)
}

/// Resumes a stopped thread, with a signal unless that is 0. With `to_call` it stops at the next beginning or end of a
/// call.
///
/// # Errors
///
/// ESRCH if it has ended, or was not stopped.
pub fn resume(tid: u32, to_call: bool, signal: i32) -> Result<()> {
    let how = if to_call { CONTINUE_TO_CALL } else { CONTINUE };
    // SAFETY: the request takes no address, and a signal's number as data.
    result("ptrace(PTRACE_CONT)", unsafe { request(how, tid, 0, signal as usize) }).map(drop)
}

/// Leaves a thread stopped together with its process, until the process resumes.
///
/// # Errors
///
/// ESRCH if it has ended, EIO if it did not stop with its process.
pub fn listen(tid: u32) -> Result<()> {
    // SAFETY: the request takes neither address nor data.
    result("ptrace(PTRACE_LISTEN)", unsafe { request(LISTEN, tid, 0, 0) }).map(drop)
}

/// Returns the number that belongs to the event at which a thread stopped.
///
/// # Errors
///
/// ESRCH if it has ended.
pub fn message(tid: u32) -> Result<u32> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the request writes an unsigned long to data, which is one.
    result("ptrace(PTRACE_GETEVENTMSG)", unsafe { request(EVENT_MESSAGE, tid, 0, &raw mut message as usize) })?;
    Ok(message as u32)
}

/// Returns the action of a thread that stopped at a call.
///
/// # Errors
///
/// ESRCH if it has ended; EIO before Linux 5.3.
pub fn call(tid: u32) -> Result<Call> {
    let mut found = Information::default();
    let bytes = std::mem::size_of::<Information>();
    // SAFETY: the request writes at most as many bytes to data as address says, and data has them.
    result("ptrace(PTRACE_GET_SYSCALL_INFO)", unsafe { request(SYSCALL_INFO, tid, bytes, &raw mut found as usize) })?;
    let [first, arguments @ .., _] = found.values;
    Ok(match found.kind {
        _ if NATIVE != Some(found.architecture) => Call::Foreign,
        1 => Call::Entry { number: first, arguments },
        2 => Call::Exit { value: first.cast_signed() },
        _ => Call::Foreign,
    })
}

/// Reads the word at an address of a stopped thread's memory.
///
/// # Errors
///
/// EIO or EFAULT if there is no such memory, ESRCH if the thread has ended.
pub fn peek(tid: u32, address: u64) -> Result<usize> {
    let mut word: usize = 0;
    // SAFETY: the request reads the other program's memory at the address, and writes a word to data, which is one.
    result("ptrace(PTRACE_PEEKDATA)", unsafe { request(PEEK_DATA, tid, address as usize, &raw mut word as usize) })?;
    Ok(word)
}

/// Waits for the next stop or end of a thread that this thread has seized; `None` if a signal arrived first.
///
/// # Errors
///
/// ECHILD if nothing is seized.
#[cfg(target_os = "linux")]
pub fn next() -> Result<Option<(u32, Stop)>> {
    let mut status = 0;
    // Threads as well as processes, but not the children of this process' other threads.
    let options = libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: the status is writable.
    let tid = unsafe { libc::waitpid(-1, &raw mut status, options) };
    if tid < 0 {
        let error = Error::last("waitpid");
        return if error.is_interrupted() { Ok(None) } else { Err(error) };
    }
    Ok(Some((tid.cast_unsigned(), stop_of(status))))
}

/// There is nothing to wait for here.
///
/// # Errors
///
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn next() -> Result<Option<(u32, Stop)>> {
    Err(Error::unsupported("ptrace"))
}

/// Decodes the status of a seized thread.
#[cfg(any(test, target_os = "linux"))]
fn stop_of(status: i32) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Ended;
    }
    let signal = status >> 8 & 0xff;
    match status >> 16 {
        FORKED | VFORKED | CLONED => Stop::Made,
        EXECUTED => Stop::Executed,
        ENDS => Stop::Ends,
        STOPPED if signal == libc::SIGTRAP => Stop::Trap,
        STOPPED => Stop::Group,
        _ if signal == libc::SIGTRAP | AT_CALL => Stop::Call,
        _ => Stop::Signal(signal),
    }
}

/// A thread that may wait in [`next`], for other threads that want to interrupt it.
#[derive(Debug, Clone, Copy)]
pub struct Waiter {
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing waits here"))]
    thread: libc::pid_t,
}

#[cfg(target_os = "linux")]
extern "C" fn nothing(_: libc::c_int) {}

#[cfg(target_os = "linux")]
impl Waiter {
    /// Returns a handle of this thread, and makes SIGURG interrupt the waits of this process.
    pub fn this_thread() -> Self {
        // SAFETY: all zeroes is a value of this structure: no flags, so that a wait is not begun again, and no mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        // SAFETY: the action is initialised, its handler does nothing, and null says that the old one is not wanted.
        unsafe { libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()) };
        // SAFETY: it takes nothing and cannot fail.
        Self { thread: unsafe { libc::gettid() } }
    }

    /// Interrupts the thread's wait if it is waiting at this moment; otherwise the call must be repeated.
    pub fn interrupt(self) {
        // SAFETY: it takes nothing and cannot fail.
        let process = unsafe { libc::getpid() };
        // SAFETY: the call takes numbers. The thread is one of this process, or there is none of that number.
        unsafe { libc::syscall(libc::SYS_tgkill, process, self.thread, libc::SIGURG) };
    }
}

#[cfg(not(target_os = "linux"))]
impl Waiter {
    /// Returns a handle of this thread.
    pub fn this_thread() -> Self {
        Self { thread: 0 }
    }

    /// Nothing waits here.
    pub fn interrupt(self) {}
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::syscalls::number_of;
    use std::process::{Child, Command, Stdio};

    #[test]
    fn a_status_says_why_a_thread_stopped() {
        let stopped = |event: i32, signal: i32| stop_of(event << 16 | signal << 8 | 0x7f);
        assert_eq!(stopped(0, libc::SIGTRAP | AT_CALL), Stop::Call);
        assert_eq!(stopped(0, libc::SIGTRAP), Stop::Signal(libc::SIGTRAP));
        assert_eq!(stopped(0, libc::SIGSTOP), Stop::Signal(libc::SIGSTOP));
        assert_eq!(stopped(STOPPED, libc::SIGSTOP), Stop::Group);
        assert_eq!(stopped(STOPPED, libc::SIGTRAP), Stop::Trap);
        for event in [FORKED, VFORKED, CLONED] {
            assert_eq!(stopped(event, libc::SIGTRAP), Stop::Made);
        }
        assert_eq!(stopped(EXECUTED, libc::SIGTRAP), Stop::Executed);
        assert_eq!(stopped(ENDS, libc::SIGTRAP), Stop::Ends);
        assert_eq!((stop_of(0), stop_of(9)), (Stop::Ended, Stop::Ended));
    }

    /// A `cat` that this thread has seized; `None` if that is not permitted.
    fn seized() -> Option<(Child, u32)> {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let tid = child.id();
        match seize(tid) {
            Ok(()) => return Some((child, tid)),
            Err(error) if error.is_not_permitted() || error.is_unsupported() => eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
        let mut child = child;
        child.kill().unwrap();
        child.wait().unwrap();
        None
    }

    /// Resumes a thread at each stop until a stop satisfies the condition.
    fn until(tid: u32, mut is_it: impl FnMut(Stop) -> bool) {
        loop {
            let Some((stopped, stop)) = next().unwrap() else { continue };
            assert_eq!(stopped, tid);
            if is_it(stop) {
                return;
            }
            let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
            resume(tid, true, signal).unwrap();
        }
    }

    #[test]
    fn calls_signals_and_the_end_of_a_process_are_seen() {
        use std::io::Write;
        let Some((mut child, tid)) = seized() else { return };
        interrupt(tid).unwrap();
        child.stdin.as_mut().unwrap().write_all(b"hello\n").unwrap();
        let number = u64::from(number_of("write").unwrap());
        let mut text = 0;
        until(tid, |stop| {
            let found = if stop == Stop::Call { call(tid).unwrap() } else { Call::Foreign };
            if let Call::Entry { arguments, .. } = found {
                text = arguments[1];
            }
            matches!(found, Call::Entry { number: this, arguments: [1, _, 6, ..] } if this == number)
        });
        assert_eq!(&peek(tid, text).unwrap().to_ne_bytes()[..6], b"hello\n");
        resume(tid, true, 0).unwrap();
        until(tid, |stop| stop == Stop::Call);
        assert_eq!(call(tid).unwrap(), Call::Exit { value: 6 });
        resume(tid, false, 0).unwrap();
        // SAFETY: the call takes numbers.
        unsafe { libc::kill(tid.cast_signed(), libc::SIGTERM) };
        until(tid, |stop| stop == Stop::Signal(libc::SIGTERM));
        resume(tid, false, libc::SIGTERM).unwrap();
        until(tid, |stop| stop == Stop::Ends);
        resume(tid, false, 0).unwrap();
        until(tid, |stop| stop == Stop::Ended);
        assert!(resume(tid, false, 0).unwrap_err().is_no_process());
        assert_eq!(next().unwrap_err().errno, libc::ECHILD);
    }

    #[test]
    fn another_thread_interrupts_a_wait() {
        let Some((mut child, tid)) = seized() else { return };
        let waiter = Waiter::this_thread();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            // Dropped if the test fails; otherwise the other thread would run for ever.
            let sender = sender;
            scope.spawn(move || {
                let once = std::time::Duration::from_millis(1);
                while receiver.recv_timeout(once) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    waiter.interrupt();
                }
            });
            // `cat` may have been seized before its execution was over.
            while let Some((stopped, stop)) = next().unwrap() {
                assert_eq!((stopped, stop), (tid, Stop::Executed));
                resume(tid, false, 0).unwrap();
            }
            sender.send(()).unwrap();
        });
        child.kill().unwrap();
        until(tid, |stop| stop == Stop::Ended);
    }
}
