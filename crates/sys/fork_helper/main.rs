//! The parent of the `fork` benchmark, small enough that what is measured is the system and not Landau.
//!
//! It is compiled once (without the Rust standard library) and linked against each C library that the build host
//! offers, so that dynamic and static linkage are compared with the same code. It obeys the worker over a pipe:
//! each order on standard input is two 64-bit words (`op`, `argument`), each answer on standard output is
//! [`ANSWER_WORDS`] 64-bit words. All times are `CLOCK_MONOTONIC` nanoseconds, taken here and in the children.
//!
//! A child writes its one byte into the pipe that the parent reads, then waits on a second pipe whose writing end
//! only the parent holds. When the parent is gone, however it ended, every child reads end-of-file and leaves: no
//! process outlives the run. A child that dies before its time is reported by the SIGCHLD handler through the very
//! pipe that the parent waits on, so its death is an error and never a hang.
//!
//! `unsafe` here is calls of the C library with integers, with buffers of this frame whose sizes are given, and with
//! pointers to constants; what goes beyond that says so at its place.
#![no_std]
#![no_main]

use core::ffi::{c_char, c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

unsafe extern "C" {
    fn _exit(code: c_int) -> !;
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    fn fork() -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn mmap(at: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, off: c_long) -> *mut c_void;
    fn mprotect(at: *mut c_void, len: usize, prot: c_int) -> c_int;
    fn pipe(fds: *mut c_int) -> c_int;
    fn posix_spawn(
        pid: *mut c_int,
        path: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        argv: *const *const c_char,
        env: *const *const c_char,
    ) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, len: usize) -> isize;
    fn signal(number: c_int, handler: usize) -> usize;
    fn syscall(number: c_long, ...) -> c_long;
    #[cfg(target_os = "linux")]
    fn clone(
        run: extern "C" fn(*mut c_void) -> c_int,
        stack_top: *mut c_void,
        flags: c_int,
        argument: *mut c_void,
        ...
    ) -> c_int;
    #[cfg(target_os = "linux")]
    fn waitid(kind: c_int, id: c_int, info: *mut u64, options: c_int) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn write(fd: c_int, buffer: *const c_void, len: usize) -> isize;
    #[cfg_attr(target_os = "linux", link_name = "__errno_location")]
    #[cfg_attr(any(target_os = "macos", target_os = "freebsd"), link_name = "__error")]
    #[cfg_attr(any(target_os = "netbsd", target_os = "openbsd"), link_name = "__errno")]
    fn errno_location() -> *mut c_int;
}

#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

/// One argument of the program, found by its address: a child that was executed anew knows what it is.
const CHILD: &[u8] = b"child\0";
const SELF: &[u8] = b"/proc/self/exe\0";

/// The orders. `crates/sys/src/fork_helper.rs` holds the other end of this table.
const OP_SPAWN: u64 = 1;
const OP_REAP: u64 = 2;
const OP_RESIDENT: u64 = 3;
const OP_MAPPINGS: u64 = 4;
const OP_ALIVE: u64 = 5;

/// The ways to make a process.
const WAY_FORK: u64 = 0;
const WAY_VFORK_EXEC: u64 = 1;
const WAY_POSIX_SPAWN: u64 = 2;
const WAY_CLONE3: u64 = 3;

const ANSWER_WORDS: usize = 6;

/// An answer that is not a system error: the child died before it reported.
const DIED_EARLY: u64 = 1 << 32;

const SIGKILL: c_int = 9;
#[cfg(any(target_os = "linux", target_os = "android"))]
const SIGCHLD: c_int = 17;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SIGCHLD: c_int = 20;
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK_MONOTONIC: c_int = 1;
#[cfg(target_os = "freebsd")]
const CLOCK_MONOTONIC: c_int = 4;
#[cfg(any(target_os = "netbsd", target_os = "openbsd"))]
const CLOCK_MONOTONIC: c_int = 3;
#[cfg(target_os = "macos")]
const CLOCK_MONOTONIC: c_int = 6;

/// The byte of a living child, and the one the SIGCHLD handler sends for a dead one.
static ALIVE: u8 = b'a';
static DEAD: u8 = b'd';

/// The pipes have fixed descriptors, so that an executed child finds them.
const REPORT_READ: c_int = 3;
const REPORT_WRITE: c_int = 4;
const TIME_READ: c_int = 5;
const TIME_WRITE: c_int = 6;
const LIFE_READ: c_int = 7;
const LIFE_WRITE: c_int = 8;

static REAPING: AtomicBool = AtomicBool::new(false);
/// The stack of a child that borrows the parent's memory.
static STACK: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static PIDFD: AtomicI32 = AtomicI32::new(0);

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { _exit(70) }
}

fn now_ns() -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

fn errno() -> u64 {
    unsafe { *errno_location() as u64 }
}

extern "C" fn on_child_death(_: c_int) {
    if !REAPING.load(Ordering::Relaxed) {
        unsafe { write(REPORT_WRITE, (&raw const DEAD).cast(), 1) };
    }
}

/// What every child does: say that it runs, then wait for its end.
fn child() -> ! {
    let started_ns = now_ns();
    unsafe {
        write(REPORT_WRITE, (&raw const ALIVE).cast(), 1);
        write(TIME_WRITE, (&raw const started_ns).cast(), 8);
        close(LIFE_WRITE);
        let mut byte = 0_u8;
        // Blocks until the parent is gone (end-of-file) or SIGKILL comes; an interrupted read is tried again.
        while read(LIFE_READ, (&raw mut byte).cast(), 1) < 0 {}
        _exit(0)
    }
}

/// Makes a child in the given way; its pid, or the negated error number.
fn make(way: u64, env: *const *const c_char) -> i64 {
    let argv = [SELF.as_ptr().cast::<c_char>(), CHILD.as_ptr().cast(), ptr::null()];
    let pid = match way {
        WAY_FORK => unsafe { fork() },
        WAY_VFORK_EXEC => {
            let pid = vfork_and_execute(&Program { argv: argv.as_ptr(), env });
            return if pid < 0 { -(errno() as i64) } else { i64::from(pid) };
        }
        WAY_POSIX_SPAWN => {
            let mut pid = 0;
            let path = SELF.as_ptr().cast();
            let error = unsafe { posix_spawn(&mut pid, path, ptr::null(), ptr::null(), argv.as_ptr(), env) };
            return if error == 0 { i64::from(pid) } else { -i64::from(error) };
        }
        WAY_CLONE3 => clone_with_pidfd(),
        _ => return -22,
    };
    if pid == 0 {
        child();
    }
    if pid < 0 { -(errno() as i64) } else { i64::from(pid) }
}

/// What a child that shares the parent's memory executes.
struct Program {
    argv: *const *const c_char,
    env: *const *const c_char,
}

/// What `vfork` does: the child borrows the parent's memory, and the parent stands still until the child has executed
/// a program. `vfork` itself returns twice on one stack, which Rust cannot express; so the child gets a stack of its
/// own, as in every `posix_spawn`.
#[cfg(target_os = "linux")]
fn vfork_and_execute(program: &Program) -> c_int {
    const CLONE_VM: c_int = 0x100;
    const CLONE_VFORK: c_int = 0x4000;
    const STACK_BYTES: usize = 64 << 10;
    let stack = STACK.load(Ordering::Relaxed);
    let stack = if stack.is_null() { map(STACK_BYTES) } else { stack };
    if stack.is_null() {
        return -1;
    }
    STACK.store(stack, Ordering::Relaxed);
    let argument = (&raw const *program).cast_mut().cast();
    // SAFETY: the stack is ours, nobody else uses it while the parent stands still, and the program outlives the call.
    unsafe { clone(execute, stack.add(STACK_BYTES).cast(), CLONE_VM | CLONE_VFORK | SIGCHLD, argument) }
}

#[cfg(target_os = "linux")]
extern "C" fn execute(program: *mut c_void) -> c_int {
    // SAFETY: the parent, which stands still, holds the program; `execve` does not return unless it fails.
    unsafe {
        let program = &*program.cast::<Program>();
        execve(SELF.as_ptr().cast(), program.argv, program.env);
        _exit(71)
    }
}

#[cfg(not(target_os = "linux"))]
fn vfork_and_execute(_: &Program) -> c_int {
    -1
}

/// Whether a child lives: one that has ended but was not waited for does not, though a signal still finds it.
#[cfg(target_os = "linux")]
fn lives(pid: c_int) -> bool {
    const P_PID: c_int = 1;
    const WNOHANG_WEXITED_WNOWAIT: c_int = 0x0100_0005;
    // A `siginfo_t` is 128 bytes; its first word stays zero where no child has ended.
    let mut info = [0_u64; 16];
    // SAFETY: the buffer holds a `siginfo_t`; WNOWAIT leaves the child as it is.
    let asked = unsafe { waitid(P_PID, pid, info.as_mut_ptr(), WNOHANG_WEXITED_WNOWAIT) };
    asked == 0 && info[0] == 0
}

#[cfg(not(target_os = "linux"))]
fn lives(pid: c_int) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { kill(pid, 0) == 0 }
}

/// `clone3` with a descriptor for the child, which is closed again at once: the call is what is timed, and 20,000
/// open descriptors would end the curve before the processes do.
#[cfg(target_os = "linux")]
fn clone_with_pidfd() -> c_int {
    const SYS_CLONE3: c_long = 435;
    const CLONE_PIDFD: u64 = 0x1000;
    let mut pidfd: c_int = -1;
    let arguments: [u64; 8] = [CLONE_PIDFD, (&raw mut pidfd) as u64, 0, 0, SIGCHLD as u64, 0, 0, 0];
    let pid = unsafe { syscall(SYS_CLONE3, arguments.as_ptr(), 64_usize) } as c_int;
    if pid > 0 {
        PIDFD.store(pidfd, Ordering::Relaxed);
    }
    pid
}

#[cfg(not(target_os = "linux"))]
fn clone_with_pidfd() -> c_int {
    -1
}

/// Makes one child and waits for its byte. The answer: status, pid, then the times of before, returned, child
/// running and byte read.
fn spawn(way: u64, env: *const *const c_char) -> [u64; ANSWER_WORDS] {
    let mut byte = 0_u8;
    PIDFD.store(-1, Ordering::Relaxed);
    let before_ns = now_ns();
    let pid = make(way, env);
    let returned_ns = now_ns();
    if pid < 0 {
        return [-pid as u64, 0, 0, 0, 0, 0];
    }
    while unsafe { read(REPORT_READ, (&raw mut byte).cast(), 1) } < 0 {}
    let read_ns = now_ns();
    let pidfd = PIDFD.load(Ordering::Relaxed);
    if pidfd >= 0 {
        unsafe { close(pidfd) };
    }
    if byte != ALIVE {
        return [DIED_EARLY, pid as u64, 0, 0, 0, 0];
    }
    let mut started_ns = 0_u64;
    while unsafe { read(TIME_READ, (&raw mut started_ns).cast(), 8) } < 0 {}
    [0, pid as u64, before_ns, returned_ns, started_ns, read_ns]
}

/// Kills a child and waits for it. The answer: status, pid, then the times of before, killed and waited for.
fn reap(pid: c_int) -> [u64; ANSWER_WORDS] {
    REAPING.store(true, Ordering::Relaxed);
    let before_ns = now_ns();
    let killed = unsafe { kill(pid, SIGKILL) };
    let killed_ns = now_ns();
    if killed != 0 {
        return [errno(), pid as u64, 0, 0, 0, 0];
    }
    let mut status = 0;
    loop {
        let waited = unsafe { waitpid(pid, &mut status, 0) };
        if waited == pid {
            break;
        }
        if waited < 0 && errno() != 4 {
            return [errno(), pid as u64, 0, 0, 0, 0];
        }
    }
    // A child that was still alive ends by our signal; anything else died before its time.
    let verdict = if status & 0x7f == SIGKILL { 0 } else { DIED_EARLY };
    [verdict, pid as u64, before_ns, killed_ns, now_ns(), 0]
}

/// Touches so many pages of private memory, which fork must then describe to each child.
fn grow_resident(bytes: u64) -> u64 {
    let at = map(bytes as usize);
    if at.is_null() {
        return errno();
    }
    let mut offset = 0;
    while offset < bytes as usize {
        unsafe { at.add(offset).write_volatile(1) };
        offset += 4096;
    }
    0
}

/// Splits a region into so many mappings by changing the protection of every second page.
fn grow_mappings(count: u64) -> u64 {
    const PAGE_BYTES_MAX: usize = 65_536;
    let at = map(count as usize * PAGE_BYTES_MAX);
    if at.is_null() {
        return errno();
    }
    let mut index = 0;
    while index < count as usize {
        let failed = unsafe { mprotect(at.add(index * PAGE_BYTES_MAX).cast(), PAGE_BYTES_MAX, 1) };
        if failed != 0 {
            return errno();
        }
        index += 2;
    }
    0
}

fn map(bytes: usize) -> *mut u8 {
    const READ_WRITE: c_int = 3;
    #[cfg(target_os = "linux")]
    const PRIVATE_ANONYMOUS: c_int = 0x22;
    #[cfg(not(target_os = "linux"))]
    const PRIVATE_ANONYMOUS: c_int = 0x1002;
    if bytes == 0 {
        return 1 as *mut u8;
    }
    let at = unsafe { mmap(ptr::null_mut(), bytes, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0) };
    if at as isize == -1 { ptr::null_mut() } else { at.cast() }
}

/// Opens the three pipes at their fixed descriptors: 0, 1 and 2 are taken, so the first free ones are 3 to 8.
fn open_pipes() -> bool {
    let expected = [(REPORT_READ, REPORT_WRITE), (TIME_READ, TIME_WRITE), (LIFE_READ, LIFE_WRITE)];
    expected.iter().all(|&(reading, writing)| {
        let mut fds = [0; 2];
        (unsafe { pipe(fds.as_mut_ptr()) }) == 0 && fds == [reading, writing]
    })
}

#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, _argv: *const *const c_char, env: *const *const c_char) -> c_int {
    if argc > 1 {
        child();
    }
    // A measurement starts from the same six descriptors whatever the caller left open.
    (3..64).for_each(|fd| {
        unsafe { close(fd) };
    });
    if !open_pipes() {
        return 72;
    }
    unsafe { signal(SIGCHLD, on_child_death as *const () as usize) };
    loop {
        let mut order = [0_u64; 2];
        if unsafe { read(0, order.as_mut_ptr().cast(), 16) } != 16 {
            return 0;
        }
        let answer = match order[0] {
            OP_SPAWN => spawn(order[1], env),
            OP_REAP => reap(order[1] as c_int),
            OP_RESIDENT => [grow_resident(order[1]), 0, 0, 0, 0, 0],
            OP_MAPPINGS => [grow_mappings(order[1]), 0, 0, 0, 0, 0],
            OP_ALIVE => {
                [u64::from(!lives(order[1] as c_int)), order[1], 0, 0, 0, 0]
            }
            _ => [22, 0, 0, 0, 0, 0],
        };
        if unsafe { write(1, answer.as_ptr().cast(), 8 * ANSWER_WORDS) } != 8 * ANSWER_WORDS as isize {
            return 73;
        }
    }
}
