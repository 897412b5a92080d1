//! The protocol between the fork helper and the worker, over the helper's standard input and output.
//!
//! Both sides include this file: `fork_helper/helper.rs` and `src/fork_helper.rs`. An order is two 64-bit words in the
//! machine's byte order (operation, argument); an answer is [`ANSWER_WORDS`] such words. The first is 0, an error
//! number or [`DIED_EARLY`].

/// Create a child by the method that the argument names. Answer: status, pid, then the times before the call, after it
/// returned, in the child and after its time stamp was read.
pub(crate) const OP_SPAWN: u64 = 1;
/// Kill the child whose pid is the argument and wait for it. Answer: status, pid, then the times before `kill`, after
/// it and after `waitpid`.
pub(crate) const OP_REAP: u64 = 2;
/// Touch as many bytes of private memory as the argument specifies. Answer: status.
pub(crate) const OP_RESIDENT: u64 = 3;
/// Split memory into as many more mappings as the argument specifies. Answer: status.
pub(crate) const OP_MAPPINGS: u64 = 4;
/// Report whether the child whose pid is the argument is alive. Answer: 0 if so, otherwise 1.
pub(crate) const OP_ALIVE: u64 = 5;

/// The methods of creating a process, numbered by index.
pub(crate) const METHODS: [&str; 4] = ["fork", "vfork-exec", "posix_spawn", "clone3"];
/// The indices in [`METHODS`].
pub(crate) const METHOD_FORK: u64 = 0;
pub(crate) const METHOD_VFORK_EXEC: u64 = 1;
pub(crate) const METHOD_POSIX_SPAWN: u64 = 2;
pub(crate) const METHOD_CLONE3: u64 = 3;

/// In a pid namespace: create a sleeper whose pid is the lower half of the argument (0: the kernel's choice) and whose
/// image is the upper half. Answer: status, pid, then the times before the call, after it and in the sleeper.
pub(crate) const OP_SLEEPER: u64 = 6;
/// In a pid namespace: kill the sleeper whose pid is the argument; its parent reaps it. Answer: status, pid, then the
/// times before `kill`, after it and after the parent's wait.
pub(crate) const OP_END: u64 = 7;
/// In a pid namespace: report whether the sleeper whose pid is the argument sleeps. Answer: 0 if so, otherwise 1.
pub(crate) const OP_SLEEPS: u64 = 8;
/// In a pid namespace: create a child that exits at once, and reap it; then another, which is timed. The argument is
/// the creation plus 256 times the wait. Answer: status, pid, then the times before the creation, after it and after
/// the wait, then the interference around the timed child ([`pack`]).
pub(crate) const OP_CYCLE: u64 = 9;
/// In a pid namespace: report its largest pid, plus one. Answer: status, number.
pub(crate) const OP_PID_MAX: u64 = 10;

/// In a pid namespace: from now on, read the number at this offset of `/proc/softirqs` before and after each timed
/// child. Answer: status.
pub(crate) const OP_WATCH: u64 = 11;

/// Packs the interference around a timed child: the growth of the watched number (`None`: it cannot be read), and the
/// time of the canary in nanoseconds. Both saturate at the largest number that fits.
pub(crate) fn pack(softirqs: Option<u64>, canary_ns: u64) -> u64 {
    let most = u64::from(u32::MAX);
    softirqs.map_or(0, |count| count.min(most - 1) + 1) << 32 | canary_ns.min(most)
}

/// Unpacks the result of [`pack`].
pub(crate) fn unpack(word: u64) -> (Option<u32>, u32) {
    (((word >> 32) as u32).checked_sub(1), word as u32)
}

/// The possible parents of the sleepers, numbered by index: the process that is timed, another one, or the first
/// process of the namespace, which adopts orphans.
pub(crate) const PARENTS: [&str; 3] = ["timer", "helper", "reaper"];
/// Two of the indices in [`PARENTS`].
pub(crate) const PARENT_TIMER: u64 = 0;
pub(crate) const PARENT_REAPER: u64 = 2;

/// The images of sleepers, numbered by index: a copy-on-write copy of their parent, or a statically linked program that
/// each has executed.
pub(crate) const IMAGES: [&str; 2] = ["shared", "executed"];
/// The index of `executed` in [`IMAGES`].
pub(crate) const IMAGE_EXECUTED: u64 = 1;

/// The ways of creating the child that exits at once, numbered by index.
pub(crate) const CREATIONS: [&str; 5] = ["fork", "vfork", "clone3", "posix_spawn", "fork-exec"];
/// The indices in [`CREATIONS`].
pub(crate) const CREATION_FORK: u64 = 0;
pub(crate) const CREATION_VFORK: u64 = 1;
pub(crate) const CREATION_CLONE3: u64 = 2;
pub(crate) const CREATION_POSIX_SPAWN: u64 = 3;
pub(crate) const CREATION_FORK_EXEC: u64 = 4;

/// The ways of waiting for that child, numbered by index: `waitpid(-1)`, `waitpid(pid)`, `waitid(P_PIDFD)`.
pub(crate) const WAITS: [&str; 3] = ["any", "pid", "pidfd"];
/// The indices in [`WAITS`].
pub(crate) const WAIT_ANY: u64 = 0;
pub(crate) const WAIT_PID: u64 = 1;
pub(crate) const WAIT_PIDFD: u64 = 2;

/// The number of words in an order.
pub(crate) const ORDER_WORDS: usize = 2;
/// The number of words in an answer.
pub(crate) const ANSWER_WORDS: usize = 6;

/// A status that is not an error number: a child died before it reported, or before it was killed.
pub(crate) const DIED_EARLY: u64 = 1 << 32;

/// The argument that makes the program answer the connection that is its standard input and output, and end.
pub(crate) const BUSY: &str = "busy";
/// The argument that makes the program work for each request of that connection, and end with it.
pub(crate) const WORK: &str = "work";
/// The answer to a connection or request.
pub const REPLY: &[u8] = b"450 too busy\r\n";
/// The processor time of the work for a request.
pub const WORK_NS: u64 = 1_000_000;
