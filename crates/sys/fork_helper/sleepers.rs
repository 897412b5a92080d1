//! The fork helper in a pid namespace: sleepers that hold chosen pids, and a child that is timed among them.
//!
//! Five kinds of processes run this program. The *monitor* is the one that the worker starts; it stays outside the
//! namespace and only waits. It creates two others: *init*, the first process of the namespace, and the *timer*, which
//! carries out the worker's orders. The sleepers are children of the timer itself, of a *second parent* that the timer
//! controls over a socket, or, like orphans, of init.
//!
//! No process outlives the run. The worker's end kills the monitor, the monitor's end kills init, and the kernel then
//! kills the namespace. Also, init and every sleeper wait on the life pipe, whose writing end only the worker holds.

use super::beside;
use super::helper::{
    DEAD, EINVAL, EXIT, Program, REPORT_READ, REPORT_WRITE, SIGCHLD, SIGKILL, clone_like_vfork, close_descriptor,
    errno, execute_self, exit, is_alive, now_ns, on_child_death, read_byte, read_words, spawn_self, write_words,
};
use super::marker;
use super::protocol::{
    ANSWER_WORDS, CREATION_CLONE3, CREATION_FORK, CREATION_FORK_EXEC, CREATION_POSIX_SPAWN, CREATION_VFORK, DIED_EARLY,
    IMAGE_EXECUTED, OP_CYCLE, OP_END, OP_PID_MAX, OP_SLEEPER, OP_SLEEPS, OP_WATCH, ORDER_WORDS, PARENT_REAPER,
    PARENT_TIMER, WAIT_ANY, WAIT_PID, WAIT_PIDFD, pack,
};
use core::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

unsafe extern "C" {
    fn fexecve(fd: c_int, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    fn fork() -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn nanosleep(time: *const [c_long; 2], left: *mut [c_long; 2]) -> c_int;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, len: usize) -> isize;
    fn signal(number: c_int, handler: usize) -> usize;
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn waitid(kind: c_int, id: c_int, info: *mut u64, options: c_int) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
}

/// The descriptor of the program for sleepers that execute one.
pub(super) const IMAGE: c_int = 6;
/// The socket between the timer and the second parent: the timer's end, and that of the second parent and of init.
const TIMER_END: c_int = 7;
const SECOND_PARENT_END: c_int = 8;
const LIFE_READ: c_int = 5;

/// The phase whose calls have markers for `landau explain`: the second of `spawn`.
const MARKED: usize = 1;

const SIG_DFL: usize = 0;
const EXISTED: c_int = 70;

/// The state that init needs when one of its children ends: the second parent, and the kind of the sleepers' parent.
static SECOND_PARENT: AtomicI32 = AtomicI32::new(0);
static PARENT: AtomicI32 = AtomicI32::new(0);
/// Children before the first sleeper belong to no step, and have no marker.
static HAS_SLEEPERS: AtomicBool = AtomicBool::new(false);

/// Creates the processes of the namespace. Returns in the timer only; the monitor answers with the timer's pid, and
/// ends with it.
pub(super) fn enter(parent: u64) {
    PARENT.store(parent as c_int, Ordering::Relaxed);
    // The process that started the worker may have ignored SIGCHLD, and then no child could be waited for.
    // SAFETY: SIG_DFL is a disposition.
    unsafe { signal(SIGCHLD, SIG_DFL) };
    // Sleeps of a microsecond must not take fifty more (PR_SET_TIMERSLACK, in nanoseconds).
    // SAFETY: the call takes integers.
    unsafe { prctl(29, 1 as c_ulong) };
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors; 1 and 1 are AF_UNIX and SOCK_STREAM.
    if unsafe { socketpair(1, 1, 0, ends.as_mut_ptr()) } != 0 || ends != [TIMER_END, SECOND_PARENT_END] {
        refuse();
    }
    // SAFETY: this process has one thread, so the child's copy of its memory is in a consistent state.
    let init = unsafe { fork() };
    if init == 0 {
        run_init(parent);
    }
    if init < 0 {
        refuse();
    }
    // SAFETY: as above.
    let timer = unsafe { fork() };
    if timer < 0 {
        refuse();
    }
    if timer == 0 {
        close_descriptor(SECOND_PARENT_END);
        return;
    }
    wait_for_end(init, timer)
}

/// Answers with the number of the last error, and exits.
fn refuse() -> ! {
    write_words(1, &[errno(), 0, 0, 0, 0, 0]);
    exit(EXISTED)
}

/// The monitor: waits until init or the timer has ended, then ends the namespace and waits for all of it.
fn wait_for_end(init: c_int, timer: c_int) -> ! {
    write_words(1, &[0, timer as u64, init as u64, 0, 0, 0]);
    // The worker detects the end of the namespace by end-of-file on the answers, whose pipe this process holds until
    // then.
    (0..=SECOND_PARENT_END).filter(|descriptor| ![1, 2].contains(descriptor)).for_each(close_descriptor);
    let mut status = 0;
    // SAFETY: `status` is a writable integer.
    if unsafe { waitpid(-1, &raw mut status, 0) } == timer {
        // SAFETY: the call takes two integers, and init was not reaped yet.
        unsafe { kill(init, SIGKILL) };
    }
    // Init ends only after the rest of the namespace, including the timer: both must be waited for.
    // SAFETY: as above.
    while unsafe { waitpid(-1, &raw mut status, 0) } > 0 {}
    exit(0)
}

/// Init: creates the second parent, reaps orphans, and ends with the worker.
fn run_init(parent: u64) -> ! {
    // PR_SET_PDEATHSIG. If the monitor ended before this call, the life pipe ends as well.
    // SAFETY: the call takes integers.
    unsafe { prctl(1, SIGKILL as c_ulong) };
    if parent != PARENT_TIMER {
        // SAFETY: this process has one thread, so the child's copy of its memory is in a consistent state.
        let second = unsafe { fork() };
        if second == 0 {
            run_second_parent();
        }
        if second < 0 {
            exit(EXISTED);
        }
        SECOND_PARENT.store(second, Ordering::Relaxed);
    }
    let handler = on_orphan_end as *const () as usize;
    // SAFETY: the handler has the signature that `signal` expects, and its calls are async-signal-safe.
    unsafe { signal(SIGCHLD, handler) };
    [0, 1, TIMER_END].into_iter().for_each(close_descriptor);
    // An interrupted read is repeated.
    while read_byte(LIFE_READ, &mut 0) < 0 {}
    exit(0)
}

/// Reaps all children that have ended, and reports the sleepers among them to the timer.
extern "C" fn on_orphan_end(_: c_int) {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a writable integer; 1 is WNOHANG.
        let pid = unsafe { waitpid(-1, &raw mut status, 1) };
        if pid <= 0 {
            return;
        }
        if pid == SECOND_PARENT.load(Ordering::Relaxed) {
            exit(EXISTED);
        }
        if PARENT.load(Ordering::Relaxed) == PARENT_REAPER as c_int {
            write_words(SECOND_PARENT_END, &[ended_by_kill(status), pid as u64, 0, 0, now_ns(), 0]);
        }
    }
}

/// The second parent: carries out the timer's orders.
fn run_second_parent() -> ! {
    [0, 1, TIMER_END].into_iter().for_each(close_descriptor);
    let mut order = [0_u64; ORDER_WORDS];
    while read_words(SECOND_PARENT_END, &mut order) == size_of_val(&order) as isize {
        write_words(SECOND_PARENT_END, &own(order[0], order[1]));
    }
    exit(0)
}

/// Carries out an order in the timer or the second parent, on its own children; with a reaper, on its siblings.
fn own(op: u64, argument: u64) -> [u64; ANSWER_WORDS] {
    match op {
        OP_SLEEPER => create_sleeper(argument),
        OP_END => end(argument as c_int, argument >> 32),
        OP_SLEEPS => [u64::from(!is_alive(argument as c_int)), argument, 0, 0, 0, 0],
        _ => [EINVAL, 0, 0, 0, 0, 0],
    }
}

/// Carries out an order of the worker.
pub(super) fn carry_out(op: u64, argument: u64, env: *const *const c_char) -> [u64; ANSWER_WORDS] {
    let parent = PARENT.load(Ordering::Relaxed) as u64;
    HAS_SLEEPERS.fetch_or(op == OP_SLEEPER, Ordering::Relaxed);
    match op {
        OP_CYCLE => cycle(argument & 0xff, argument >> 8, env),
        OP_PID_MAX => pid_max(),
        OP_WATCH => [u64::from(!beside::watch(argument)), 0, 0, 0, 0, 0],
        OP_SLEEPER | OP_END | OP_SLEEPS if parent == PARENT_TIMER => own(op, argument),
        OP_END if parent == PARENT_REAPER => end_orphan(argument as c_int),
        // SAFETY: signal 0 is not delivered; init reaps at once, so what exists is alive.
        OP_SLEEPS if parent == PARENT_REAPER => [u64::from(unsafe { kill(argument as c_int, 0) } != 0), 0, 0, 0, 0, 0],
        OP_SLEEPER | OP_END | OP_SLEEPS => {
            write_words(TIMER_END, &[op, argument]);
            answer()
        }
        _ => [EINVAL, 0, 0, 0, 0, 0],
    }
}

/// Reads the answer of the second parent or init.
fn answer() -> [u64; ANSWER_WORDS] {
    let mut words = [0; ANSWER_WORDS];
    if read_words(TIMER_END, &mut words) == size_of_val(&words) as isize { words } else { [DIED_EARLY, 0, 0, 0, 0, 0] }
}

/// Creates a sleeper with the pid in the lower half of the argument (0: the kernel's choice) and the image in the upper
/// half, and returns when it sleeps.
fn create_sleeper(argument: u64) -> [u64; ANSWER_WORDS] {
    let (wanted, image) = (argument as u32, argument >> 32);
    let is_orphan = PARENT.load(Ordering::Relaxed) == PARENT_REAPER as c_int;
    let handler = on_child_death as *const () as usize;
    // Only during the creation: otherwise the handler would run in the timed part.
    // SAFETY: the handler has the signature that `signal` expects and only calls `write`, which is async-signal-safe.
    unsafe { signal(SIGCHLD, handler) };
    let before_ns = now_ns();
    let pid = clone_to(wanted, is_orphan);
    if pid == 0 {
        sleep(image);
    }
    let answer = if pid < 0 { [errno(), 0, 0, 0, 0, 0] } else { when_it_sleeps(pid, before_ns) };
    // SAFETY: SIG_DFL is a disposition.
    unsafe { signal(SIGCHLD, SIG_DFL) };
    answer
}

fn when_it_sleeps(pid: c_int, before_ns: u64) -> [u64; ANSWER_WORDS] {
    let returned_ns = now_ns();
    let mut started_ns = [DEAD];
    while read_words(REPORT_READ, &mut started_ns) < 0 {}
    // It has written its time stamp but may not sleep yet: let it run now, or it would run while the next child is
    // timed.
    // SAFETY: the time is readable, and the remaining time is not requested.
    unsafe { nanosleep(&[0, 1_000], ptr::null_mut()) };
    let status = if started_ns[0] == DEAD { DIED_EARLY } else { 0 };
    [status, pid as u64, before_ns, returned_ns, started_ns[0], 0]
}

/// The body of a sleeper.
fn sleep(image: u64) -> ! {
    if image != IMAGE_EXECUTED {
        super::helper::child();
    }
    let argv = [c"landau-fork-helper".as_ptr(), super::helper::CHILD.as_ptr().cast(), ptr::null()];
    let env: [*const c_char; 1] = [ptr::null()];
    // SAFETY: both arrays end with a null pointer. The call returns only if it fails.
    unsafe { fexecve(IMAGE, argv.as_ptr(), env.as_ptr()) };
    write_words(REPORT_WRITE, &[DEAD]);
    exit(71)
}

/// Calls `clone3` like `fork`, with a chosen pid. With `is_sibling`, the new process is a child of this process's
/// parent.
fn clone_to(wanted: u32, is_sibling: bool) -> c_int {
    const CLONE_PARENT: u64 = 0x8000;
    let pids = [wanted];
    let (flags, set) = (if is_sibling { CLONE_PARENT } else { 0 }, u64::from(wanted != 0));
    // The kernel gives a sibling the exit signal of the process that creates it.
    let at_end = if is_sibling { 0 } else { SIGCHLD as u64 };
    clone3(&[flags, 0, 0, 0, at_end, 0, 0, 0, set * pids.as_ptr() as u64, set])
}

fn clone3(arguments: &[u64; 10]) -> c_int {
    // SAFETY: the array is a `struct clone_args` of that size, whose addresses are null or those of live variables. No
    // stack is given and memory is not shared, so the child continues on a copy of this one, as after `fork`.
    unsafe { syscall(435, arguments.as_ptr(), size_of_val(arguments)) as c_int }
}

/// Kills a child and waits for it.
fn end(pid: c_int, wait: u64) -> [u64; ANSWER_WORDS] {
    let pidfd = if wait == WAIT_PIDFD { open_pidfd(pid) } else { -1 };
    let before_ns = now_ns();
    // SAFETY: the call takes two integers; the pid is one that an answer of this program named.
    if unsafe { kill(pid, SIGKILL) } != 0 {
        return [errno(), pid as u64, 0, 0, 0, 0];
    }
    let killed_ns = now_ns();
    let (ended, status) = wait_for(pid, wait, pidfd);
    let ended_ns = now_ns();
    if pidfd >= 0 {
        close_descriptor(pidfd);
    }
    let verdict = if ended == pid { ended_by_kill(status) } else { DIED_EARLY };
    [verdict, pid as u64, before_ns, killed_ns, ended_ns, 0]
}

/// Kills a child of init, which reaps the child and reports it.
fn end_orphan(pid: c_int) -> [u64; ANSWER_WORDS] {
    let before_ns = now_ns();
    // SAFETY: as in `end`.
    if unsafe { kill(pid, SIGKILL) } != 0 {
        return [errno(), pid as u64, 0, 0, 0, 0];
    }
    let killed_ns = now_ns();
    let [status, ended, _, _, ended_ns, _] = answer();
    [if ended == pid as u64 { status } else { DIED_EARLY }, ended, before_ns, killed_ns, ended_ns, 0]
}

fn ended_by_kill(status: c_int) -> u64 {
    if status & 0x7f == SIGKILL { 0 } else { DIED_EARLY }
}

/// Creates a child that exits at once, and waits for it; then another one, which is timed. A sleeper that has executed
/// a program leaves other data in the caches than one that has not: the first child loads the data that the second
/// needs.
fn cycle(creation: u64, wait: u64, env: *const *const c_char) -> [u64; ANSWER_WORDS] {
    let first = create(creation, WAIT_PID, &mut -1, env);
    if first < 0 {
        return [-first as u64, 0, 0, 0, 0, 0];
    }
    if wait_for(first, WAIT_PID, -1) != (first, 0) {
        return [DIED_EARLY, first as u64, 0, 0, 0, 0];
    }
    let mut pidfd = -1;
    let (softirqs, canary_ns) = (beside::softirqs(), beside::canary_ns());
    let is_marked = HAS_SLEEPERS.load(Ordering::Relaxed);
    if is_marked {
        marker::begin(MARKED);
    }
    let before_ns = now_ns();
    let pid = create(creation, wait, &mut pidfd, env);
    let returned_ns = now_ns();
    if pid < 0 {
        return [-pid as u64, 0, 0, 0, 0, 0];
    }
    if wait == WAIT_PIDFD && pidfd < 0 {
        pidfd = open_pidfd(pid);
    }
    let (ended, status) = wait_for(pid, wait, pidfd);
    let reaped_ns = now_ns();
    if is_marked {
        marker::end(MARKED);
    }
    let canary_ns = canary_ns.max(beside::canary_ns());
    let softirqs = beside::softirqs().and_then(|after| after.checked_sub(softirqs?));
    if pidfd >= 0 {
        close_descriptor(pidfd);
    }
    let verdict = if ended == pid && status == 0 { 0 } else { DIED_EARLY };
    [verdict, pid as u64, before_ns, returned_ns, reaped_ns, pack(softirqs, canary_ns)]
}

/// Calls `pidfd_open`.
fn open_pidfd(pid: c_int) -> c_int {
    // SAFETY: the call takes two integers.
    unsafe { syscall(434, c_long::from(pid), 0 as c_long) as c_int }
}

/// Creates the timed child. Returns its pid, or the negated error number.
fn create(creation: u64, wait: u64, pidfd: &mut c_int, env: *const *const c_char) -> c_int {
    const CLONE_PIDFD: u64 = 0x1000;
    let pid = match creation {
        // SAFETY: this process has one thread, so the child's copy of its memory is in a consistent state.
        CREATION_FORK | CREATION_FORK_EXEC => unsafe { fork() },
        CREATION_VFORK => clone_like_vfork(leave, ptr::null_mut()),
        CREATION_CLONE3 => {
            let flags = if wait == WAIT_PIDFD { CLONE_PIDFD } else { 0 };
            clone3(&[flags, ptr::from_mut(pidfd) as u64, 0, 0, SIGCHLD as u64, 0, 0, 0, 0, 0])
        }
        CREATION_POSIX_SPAWN => return spawn_self(EXIT, env) as c_int,
        _ => return -(EINVAL as c_int),
    };
    if pid == 0 && creation == CREATION_FORK_EXEC {
        execute_self(&Program::new(EXIT, env));
    }
    if pid == 0 {
        exit(0);
    }
    if pid < 0 { -(errno() as c_int) } else { pid }
}

extern "C" fn leave(_: *mut c_void) -> c_int {
    exit(0)
}

/// Waits for a child. Returns the pid of the child that has ended, and its status as `waitpid` reports it; a negative
/// pid if the call failed.
fn wait_for(pid: c_int, wait: u64, pidfd: c_int) -> (c_int, c_int) {
    const P_PIDFD: c_int = 3;
    const WEXITED: c_int = 4;
    const CLD_EXITED: c_int = 1;
    let mut status = 0;
    if wait != WAIT_PIDFD {
        let whom = if wait == WAIT_ANY { -1 } else { pid };
        // SAFETY: `status` is a writable integer.
        return (unsafe { waitpid(whom, &raw mut status, 0) }, status);
    }
    // A `siginfo_t` is 128 bytes: si_signo, si_errno; si_code, padding; si_pid, si_uid; si_status.
    let mut info = [0_u64; 16];
    // SAFETY: the buffer is as large and as strictly aligned as a `siginfo_t`.
    if unsafe { waitid(P_PIDFD, pidfd, info.as_mut_ptr(), WEXITED) } != 0 {
        return (-1, 0);
    }
    let status = if info[1] as c_int == CLD_EXITED { (info[3] as c_int) << 8 } else { info[3] as c_int };
    (info[2] as c_int, status)
}

/// Returns the largest pid of this namespace, plus one.
fn pid_max() -> [u64; ANSWER_WORDS] {
    // SAFETY: the path is a C string; 0 is O_RDONLY.
    let file = unsafe { open(c"/proc/sys/kernel/pid_max".as_ptr(), 0) };
    if file < 0 {
        return [errno(), 0, 0, 0, 0, 0];
    }
    let mut text = [0_u8; 16];
    // SAFETY: the buffer is writable for its whole length.
    let length = unsafe { read(file, text.as_mut_ptr().cast(), text.len()) };
    close_descriptor(file);
    let digits = text.iter().take(length.max(0) as usize).take_while(|byte| byte.is_ascii_digit());
    let value = digits.fold(0, |value, byte| 10 * value + u64::from(byte - b'0'));
    [0, value, 0, 0, 0, 0]
}
