//! The fork helper: creates children on request, by each method that the system has, and times them.
//!
//! It serves the worker over a pipe, with the orders and answers of `protocol.rs`. All times are `CLOCK_MONOTONIC`
//! nanoseconds, taken here and in the children.
//!
//! A child reads the clock, writes that time stamp into the pipe that the parent reads, then waits on a second pipe
//! whose writing end only the worker holds. These are its only two calls, because any other would be part of the time
//! that the parent measures. When the worker has ended, for whatever reason, every child reads end-of-file and exits:
//! no process outlives the run. The SIGCHLD handler reports a child that dies early through the pipe that the parent
//! waits on, so its death is an error and never a hang.

use super::protocol::{
    ANSWER_WORDS, BUSY, DIED_EARLY, METHOD_CLONE3, METHOD_FORK, METHOD_POSIX_SPAWN, METHOD_VFORK_EXEC, OP_ALIVE,
    OP_MAPPINGS, OP_REAP, OP_RESIDENT, OP_SPAWN, ORDER_WORDS, REPLY, WORK, WORK_NS,
};
use core::ffi::{c_char, c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

unsafe extern "C" {
    fn _exit(code: c_int) -> !;
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    fn fork() -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn mmap(at: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, off: c_long) -> *mut c_void;
    #[cfg(target_os = "linux")]
    fn madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int;
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

/// The argument that tells an executed copy of this program that it is a child. The worker starts the helper with the
/// number of the life pipe's reading end instead.
pub(super) const CHILD: &[u8] = b"child\0";
/// The argument that makes an executed copy exit at once.
pub(super) const EXIT: &[u8] = b"exit\0";
const SELF: &[u8] = b"/proc/self/exe\0";

const EINTR: u64 = 4;
pub(super) const EINVAL: u64 = 22;
pub(super) const SIGKILL: c_int = 9;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) const SIGCHLD: c_int = 17;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) const SIGCHLD: c_int = 20;
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK_MONOTONIC: c_int = 1;
#[cfg(target_os = "freebsd")]
const CLOCK_MONOTONIC: c_int = 4;
#[cfg(any(target_os = "netbsd", target_os = "openbsd"))]
const CLOCK_MONOTONIC: c_int = 3;
#[cfg(target_os = "macos")]
const CLOCK_MONOTONIC: c_int = 6;

/// The value that the SIGCHLD handler sends for a dead child. A live child sends its time stamp, which is never 0.
pub(super) const DEAD: u64 = 0;

/// The pipes have fixed descriptors, so that an executed child finds them.
pub(super) const REPORT_READ: c_int = 3;
pub(super) const REPORT_WRITE: c_int = 4;
const LIFE_READ: c_int = 5;
/// The descriptor that holds the life pipe while the others are closed; the next number holds the image of sleepers.
const KEPT: c_int = 62;
/// Descriptors from 3 up to, but not including, this one are closed.
const CLOSED: c_int = 64;

/// The processor time that this process uses before the first kill, in nanoseconds. A process that has received
/// less than its share of the processor is not preempted by a child that wakes up to die, until it has caught up: up to
/// 190 of 1,000 calls of `kill` took 2.5 µs instead of 30 µs. The scheduler of Linux 6.18 limits this lag to a few
/// time slices of 3 ms.
const LAG_NS: u64 = 10_000_000;

static REAPING: AtomicBool = AtomicBool::new(false);
/// The stack of a child that shares the parent's memory.
static STACK: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static PIDFD: AtomicI32 = AtomicI32::new(0);

/// Ends this process without running anything else.
pub(super) fn exit(code: c_int) -> ! {
    // SAFETY: `_exit` takes an integer, does not return and is allowed in a signal handler and in a forked child.
    unsafe { _exit(code) }
}

/// Carries out orders until standard input ends. Returns the exit status.
pub(super) fn main(count: c_int, argv: *const *const c_char, env: *const *const c_char) -> c_int {
    if count < 2 {
        return 72;
    }
    // SAFETY: `argv` has `count` entries, and there are two at least.
    let second = unsafe { argv.add(1) };
    // SAFETY: as above, and entries are readable.
    let argument = unsafe { *second };
    if is(argument, BUSY.as_bytes()) {
        return reply();
    }
    if is(argument, WORK.as_bytes()) {
        return work();
    }
    if is(argument, &EXIT[..EXIT.len() - 1]) {
        return 0;
    }
    let Some(life) = number(argument) else { child() };
    let [parent, image] = [2, 3].map(|place| {
        if place >= count {
            return None;
        }
        // SAFETY: `argv` has `count` entries, of which this is one.
        let entry = unsafe { argv.add(place as usize) };
        // SAFETY: as above, and entries are readable.
        number(unsafe { *entry })
    });
    if !open_pipes(life, image) {
        return 72;
    }
    #[cfg(target_os = "linux")]
    if let Some(parent) = parent {
        super::sleepers::enter(parent as u64);
        return carry_out_all(env);
    }
    let handler = on_child_death as *const () as usize;
    // SAFETY: the handler has the signature that `signal` expects and only calls `write`, which is async-signal-safe.
    unsafe { signal(SIGCHLD, handler) };
    carry_out_all(env)
}

/// Carries out the worker's orders. Returns the exit status.
fn carry_out_all(env: *const *const c_char) -> c_int {
    loop {
        let mut order = [0_u64; ORDER_WORDS];
        if read_words(0, &mut order) != size_of_val(&order) as isize {
            return 0;
        }
        let answer = match order[0] {
            OP_SPAWN => spawn(order[1], env),
            OP_REAP => reap(order[1] as c_int),
            OP_RESIDENT => [grow_resident(order[1]), 0, 0, 0, 0, 0],
            OP_MAPPINGS => [grow_mappings(order[1]), 0, 0, 0, 0, 0],
            OP_ALIVE => [u64::from(!is_alive(order[1] as c_int)), order[1], 0, 0, 0, 0],
            #[cfg(target_os = "linux")]
            op => super::sleepers::carry_out(op, order[1], env),
            #[cfg(not(target_os = "linux"))]
            _ => [EINVAL, 0, 0, 0, 0, 0],
        };
        if write_words(1, &answer) != size_of_val(&answer) as isize {
            return 73;
        }
    }
}

/// Returns whether an argument equals a word.
fn is(text: *const c_char, word: &[u8]) -> bool {
    let bytes = word.iter().copied().chain([0]).enumerate();
    bytes.into_iter().all(|(index, expected)| {
        // SAFETY: the text is an argument of this program, a C string, and no byte before this one is its end.
        let place = unsafe { text.add(index) };
        // SAFETY: as above, and its bytes are readable.
        let byte = unsafe { *place } as u8;
        byte == expected
    })
}

/// Answers the connection that is standard input and output. Returns the exit status.
fn reply() -> c_int {
    // SAFETY: the slice is readable for its whole length.
    let written = unsafe { write(1, REPLY.as_ptr().cast(), REPLY.len()) };
    c_int::from(written != REPLY.len() as isize)
}

/// Works and answers for each request of the connection that is standard input and output. Returns the exit status.
fn work() -> c_int {
    let mut request = [0_u64; 8];
    while read_words(0, &mut request) > 0 {
        use_processor(WORK_NS);
        if reply() != 0 {
            return 1;
        }
    }
    0
}

/// Parses a decimal number; `None` if the text is not one.
fn number(text: *const c_char) -> Option<c_int> {
    let (mut value, mut index) = (0, 0);
    loop {
        // SAFETY: the text is an argument of this program, a C string, and no byte before this one is its end.
        let place = unsafe { text.add(index) };
        // SAFETY: as above, and its bytes are readable.
        let byte = unsafe { *place } as u8;
        match byte {
            0 if index > 0 => return Some(value),
            b'0'..=b'9' if index < 9 => value = 10 * value + c_int::from(byte - b'0'),
            _ => return None,
        }
        index += 1;
    }
}

pub(super) fn now_ns() -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` has the layout of `struct timespec` and is writable for the length of the call.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// Uses this much processor time.
fn use_processor(ns: u64) {
    let end_ns = used_ns() + ns;
    while used_ns() < end_ns {
        core::hint::spin_loop();
    }
}

/// Returns the processor time of this thread.
fn used_ns() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: c_int = 3;
    #[cfg(target_os = "freebsd")]
    const CLOCK: c_int = 14;
    #[cfg(target_os = "macos")]
    const CLOCK: c_int = 16;
    #[cfg(target_os = "netbsd")]
    const CLOCK: c_int = 0x2000_0000;
    #[cfg(target_os = "openbsd")]
    const CLOCK: c_int = 4;
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` has the layout of `struct timespec` and is writable for the length of the call.
    unsafe { clock_gettime(CLOCK, &raw mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

pub(super) fn errno() -> u64 {
    // SAFETY: the call takes nothing and returns the address of this thread's `errno`.
    let location = unsafe { errno_location() };
    // SAFETY: the C library keeps that address valid as long as the thread lives, and only this thread uses it.
    unsafe { *location as u64 }
}

pub(super) fn close_descriptor(fd: c_int) {
    // SAFETY: no value of this program owns a descriptor, so none is closed behind an owner's back.
    unsafe { close(fd) };
}

pub(super) fn read_words(fd: c_int, words: &mut [u64]) -> isize {
    // SAFETY: the slice is writable for its whole length, and any bytes are valid integers.
    unsafe { read(fd, words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// Async-signal-safe, because the SIGCHLD handler calls it.
pub(super) fn write_words(fd: c_int, words: &[u64]) -> isize {
    // SAFETY: the slice is readable for its whole length, and integers have no padding.
    unsafe { write(fd, words.as_ptr().cast(), size_of_val(words)) }
}

pub(super) fn read_byte(fd: c_int, byte: &mut u8) -> isize {
    // SAFETY: the reference is to one writable byte, and one is read.
    unsafe { read(fd, ptr::from_mut(byte).cast(), 1) }
}

pub(super) extern "C" fn on_child_death(_: c_int) {
    if !REAPING.load(Ordering::Relaxed) {
        write_words(REPORT_WRITE, &[DEAD]);
    }
}

/// The body of every child: reports that it runs, then waits until it is ended.
pub(super) fn child() -> ! {
    write_words(REPORT_WRITE, &[now_ns()]);
    // Blocks until the worker has ended (end-of-file) or SIGKILL arrives; an interrupted read is repeated.
    while read_byte(LIFE_READ, &mut 0) < 0 {}
    exit(0)
}

/// Creates a child by a method. Returns its pid, or the negated error number.
fn make(method: u64, env: *const *const c_char) -> i64 {
    let pid = match method {
        // SAFETY: this process has one thread, so the child's copy of its memory is in a consistent state.
        METHOD_FORK => unsafe { fork() },
        METHOD_VFORK_EXEC => {
            let pid = vfork_and_execute(&Program::new(CHILD, env));
            return if pid < 0 { -(errno() as i64) } else { i64::from(pid) };
        }
        METHOD_POSIX_SPAWN => return spawn_self(CHILD, env),
        METHOD_CLONE3 => clone_with_pidfd(),
        _ => return -(EINVAL as i64),
    };
    if pid == 0 {
        child();
    }
    if pid < 0 { -(errno() as i64) } else { i64::from(pid) }
}

/// The program that a child executes: this one with another argument.
pub(super) struct Program {
    argv: [*const c_char; 3],
    env: *const *const c_char,
}

impl Program {
    /// `argument` ends with a zero byte.
    pub(super) fn new(argument: &'static [u8], env: *const *const c_char) -> Self {
        Self { argv: [SELF.as_ptr().cast(), argument.as_ptr().cast(), ptr::null()], env }
    }
}

/// Executes this program with an argument by `posix_spawn`. Returns the child's pid, or the negated error number.
pub(super) fn spawn_self(argument: &'static [u8], env: *const *const c_char) -> i64 {
    let program = Program::new(argument, env);
    let (mut pid, path, none) = (0, SELF.as_ptr().cast(), ptr::null());
    // SAFETY: the path is a C string, `argv` and `env` end with a null pointer, no actions and no attributes are given,
    // and `pid` is writable.
    let error = unsafe { posix_spawn(&raw mut pid, path, none, none, program.argv.as_ptr(), env) };
    if error == 0 { i64::from(pid) } else { -i64::from(error) }
}

#[cfg(target_os = "linux")]
fn vfork_and_execute(program: &Program) -> c_int {
    // The program outlives the use, because the parent is suspended meanwhile.
    clone_like_vfork(execute, ptr::from_ref(program).cast_mut().cast())
}

/// Does what `vfork` does: the child shares the parent's memory, and the parent is suspended until the child has
/// executed a program or exited. `vfork` itself returns twice on one stack, which Rust cannot express; so the child
/// gets its own stack, as in every `posix_spawn`.
#[cfg(target_os = "linux")]
pub(super) fn clone_like_vfork(run: extern "C" fn(*mut c_void) -> c_int, argument: *mut c_void) -> c_int {
    const CLONE_VM: c_int = 0x100;
    const CLONE_VFORK: c_int = 0x4000;
    const STACK_BYTES: usize = 64 << 10;
    let stack = STACK.load(Ordering::Relaxed);
    let stack = if stack.is_null() { map(STACK_BYTES) } else { stack };
    if stack.is_null() {
        return -1;
    }
    STACK.store(stack, Ordering::Relaxed);
    // SAFETY: the mapping is `STACK_BYTES` long, so this is the address just past its end.
    let stack_top = unsafe { stack.add(STACK_BYTES) };
    // SAFETY: no other child uses the stack, because the parent is suspended until this one has executed or exited
    // (CLONE_VFORK).
    unsafe { clone(run, stack_top.cast(), CLONE_VM | CLONE_VFORK | SIGCHLD, argument) }
}

#[cfg(target_os = "linux")]
extern "C" fn execute(program: *mut c_void) -> c_int {
    // SAFETY: `vfork_and_execute` passed a reference to a `Program`, and its frame is suspended while this child runs.
    execute_self(unsafe { &*program.cast::<Program>() })
}

/// Executes this program, or exits if that fails.
#[cfg(target_os = "linux")]
pub(super) fn execute_self(program: &Program) -> ! {
    // SAFETY: the path is a C string, and both arrays end with a null pointer. The call returns only if it fails.
    unsafe { execve(SELF.as_ptr().cast(), program.argv.as_ptr(), program.env) };
    exit(71)
}

#[cfg(not(target_os = "linux"))]
fn vfork_and_execute(_: &Program) -> c_int {
    -1
}

/// Returns whether a child is alive. A zombie is not alive, although a signal still finds it.
#[cfg(target_os = "linux")]
pub(super) fn is_alive(pid: c_int) -> bool {
    const P_PID: c_int = 1;
    const WNOHANG_WEXITED_WNOWAIT: c_int = 0x0100_0005;
    // A `siginfo_t` is 128 bytes; its first word stays zero if no child has ended.
    let mut info = [0_u64; 16];
    // SAFETY: the buffer is as large and as strictly aligned as a `siginfo_t`; WNOWAIT leaves the child waitable.
    let result = unsafe { waitid(P_PID, pid, info.as_mut_ptr(), WNOHANG_WEXITED_WNOWAIT) };
    result == 0 && info[0] == 0
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_alive(pid: c_int) -> bool {
    // SAFETY: signal 0 is not delivered; the call only checks that the process exists.
    unsafe { kill(pid, 0) == 0 }
}

/// Calls `clone3` with a descriptor for the child, which is closed again at once: only the call is timed, and 20,000
/// open descriptors would end the curve before the number of processes does.
#[cfg(target_os = "linux")]
fn clone_with_pidfd() -> c_int {
    const SYS_CLONE3: c_long = 435;
    const CLONE_PIDFD: u64 = 0x1000;
    let mut pidfd: c_int = -1;
    let arguments: [u64; 8] = [CLONE_PIDFD, (&raw mut pidfd) as u64, 0, 0, SIGCHLD as u64, 0, 0, 0];
    let (pointer, size) = (arguments.as_ptr(), size_of_val(&arguments));
    // SAFETY: the array is a `struct clone_args` of that size whose `pidfd` is the address of a writable integer. No
    // stack is given and memory is not shared, so the child continues on a copy of this one, as after `fork`.
    let pid = unsafe { syscall(SYS_CLONE3, pointer, size) } as c_int;
    if pid > 0 {
        PIDFD.store(pidfd, Ordering::Relaxed);
    }
    pid
}

#[cfg(not(target_os = "linux"))]
fn clone_with_pidfd() -> c_int {
    -1
}

/// Creates one child and waits for its time stamp.
fn spawn(method: u64, env: *const *const c_char) -> [u64; ANSWER_WORDS] {
    let mut started_ns = [DEAD];
    PIDFD.store(-1, Ordering::Relaxed);
    let before_ns = now_ns();
    let pid = make(method, env);
    let returned_ns = now_ns();
    if pid < 0 {
        return [-pid as u64, 0, 0, 0, 0, 0];
    }
    while read_words(REPORT_READ, &mut started_ns) < 0 {}
    let read_ns = now_ns();
    let pidfd = PIDFD.load(Ordering::Relaxed);
    if pidfd >= 0 {
        close_descriptor(pidfd);
    }
    if started_ns[0] == DEAD {
        return [DIED_EARLY, pid as u64, 0, 0, 0, 0];
    }
    [0, pid as u64, before_ns, returned_ns, started_ns[0], read_ns]
}

/// Kills a child and waits for it. The first kill is preceded by `LAG_NS` of work.
fn reap(pid: c_int) -> [u64; ANSWER_WORDS] {
    if !REAPING.load(Ordering::Relaxed) {
        use_processor(LAG_NS);
    }
    REAPING.store(true, Ordering::Relaxed);
    let before_ns = now_ns();
    // SAFETY: the call takes two integers; the pid is one that an answer of this program named.
    let killed = unsafe { kill(pid, SIGKILL) };
    let killed_ns = now_ns();
    if killed != 0 {
        return [errno(), pid as u64, 0, 0, 0, 0];
    }
    let mut status = 0;
    loop {
        // SAFETY: `status` is a writable integer.
        let waited = unsafe { waitpid(pid, &raw mut status, 0) };
        if waited == pid {
            break;
        }
        if waited < 0 && errno() != EINTR {
            return [errno(), pid as u64, 0, 0, 0, 0];
        }
    }
    // A child that was still alive is ended by our signal; any other status means that it died early.
    let verdict = if status & 0x7f == SIGKILL { 0 } else { DIED_EARLY };
    [verdict, pid as u64, before_ns, killed_ns, now_ns(), 0]
}

/// Touches private memory page by page, so that fork must copy its page table entries for each child. Returns 0 or an
/// error number.
fn grow_resident(bytes: u64) -> u64 {
    let at = map(bytes as usize);
    if at.is_null() {
        return errno();
    }
    // Each page gets a separate entry, which it would not have in a huge page. A kernel without huge pages refuses the
    // advice and does not need it.
    #[cfg(target_os = "linux")]
    {
        const MADV_NOHUGEPAGE: c_int = 15;
        // SAFETY: the range is that of the mapping, and the advice does not change its content.
        unsafe { madvise(at.cast(), bytes as usize, MADV_NOHUGEPAGE) };
    }
    let mut offset = 0;
    while offset < bytes as usize {
        // SAFETY: the offset is less than the length of the mapping.
        let page = unsafe { at.add(offset) };
        // SAFETY: the mapping is private and writable, and nothing else refers to it.
        unsafe { page.write_volatile(1) };
        offset += 4096;
    }
    0
}

/// Splits a region into mappings by changing the protection of every second part. A part has the size of the
/// largest page, 64 KiB. Returns 0 or an error number.
fn grow_mappings(count: u64) -> u64 {
    const PAGE_BYTES_MAX: usize = 65_536;
    const PROT_READ: c_int = 1;
    let at = map(count as usize * PAGE_BYTES_MAX);
    if at.is_null() {
        return errno();
    }
    let mut index = 0;
    while index < count as usize {
        // SAFETY: the region has `count` parts of that size, and `index` is less than `count`.
        let part = unsafe { at.add(index * PAGE_BYTES_MAX) };
        // SAFETY: the part is within a mapping that nothing refers to, so losing write access to it is harmless.
        let failed = unsafe { mprotect(part.cast(), PAGE_BYTES_MAX, PROT_READ) };
        if failed != 0 {
            return errno();
        }
        index += 2;
    }
    0
}

/// Maps private memory. Returns null if that fails.
fn map(bytes: usize) -> *mut u8 {
    const READ_WRITE: c_int = 3;
    #[cfg(target_os = "linux")]
    const PRIVATE_ANONYMOUS: c_int = 0x22;
    #[cfg(not(target_os = "linux"))]
    const PRIVATE_ANONYMOUS: c_int = 0x1002;
    if bytes == 0 {
        return ptr::dangling_mut();
    }
    // SAFETY: without MAP_FIXED the kernel chooses an address range that is free, so no mapping in use is replaced.
    let at = unsafe { mmap(ptr::null_mut(), bytes, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0) };
    if at as isize == -1 { ptr::null_mut() } else { at.cast() }
}

/// Puts the report pipe, the life pipe and the image of sleepers, if there is one, at their fixed descriptors. Closes
/// all others but the standard ones: a measurement starts from the same descriptors whatever the caller left open.
fn open_pipes(life: c_int, image: Option<c_int>) -> bool {
    // Neither may have the number at which the other is kept; descriptors that large are not in use yet.
    let kept = [(life, KEPT), (image.unwrap_or(life), KEPT + 1)];
    for (from, to) in kept {
        // SAFETY: the call takes two integers; nothing in this program owns the descriptor that it may replace.
        if unsafe { dup2(from, to) } != to {
            return false;
        }
    }
    (3..CLOSED).filter(|descriptor| !(KEPT..=KEPT + 1).contains(descriptor)).for_each(close_descriptor);
    kept.into_iter().filter(|(from, _)| *from >= CLOSED).for_each(|(from, _)| {
        close_descriptor(from);
    });
    let mut fds = [0; 2];
    // SAFETY: the array has room for the two descriptors that the call writes.
    let opened = unsafe { pipe(fds.as_mut_ptr()) };
    // SAFETY: the call takes two integers; the descriptor that it sets was closed above.
    let moved = unsafe { dup2(KEPT, LIFE_READ) };
    #[cfg(target_os = "linux")]
    if image.is_some() {
        // SAFETY: as above.
        unsafe { dup2(KEPT + 1, super::sleepers::IMAGE) };
    }
    [KEPT, KEPT + 1].into_iter().for_each(close_descriptor);
    opened == 0 && fds == [REPORT_READ, REPORT_WRITE] && moved == LIFE_READ
}
