//! What the fork helper and the worker say to each other over the helper's standard input and output.
//!
//! Both sides include this file: `fork_helper/helper.rs` and `src/fork_helper.rs`. An order is two 64-bit words in the
//! machine's byte order (operation, argument); an answer is [`ANSWER_WORDS`] of them, of which the first is 0, an error
//! number or [`DIED_EARLY`].

/// Make a child by the method that the argument names. Answer: status, pid, then the times before the call, after it
/// returned, in the child and after its time stamp was read.
pub(crate) const OP_SPAWN: u64 = 1;
/// Kill the child whose pid is the argument and wait for it. Answer: status, pid, then the times before `kill`, after
/// it and after `waitpid`.
pub(crate) const OP_REAP: u64 = 2;
/// Touch as many bytes of private memory as the argument says. Answer: status.
pub(crate) const OP_RESIDENT: u64 = 3;
/// Split memory into as many more mappings as the argument says. Answer: status.
pub(crate) const OP_MAPPINGS: u64 = 4;
/// Report whether the child whose pid is the argument is alive. Answer: 0 if so, else 1.
pub(crate) const OP_ALIVE: u64 = 5;

/// The methods of making a process, numbered by their place here.
pub(crate) const METHODS: [&str; 4] = ["fork", "vfork-exec", "posix_spawn", "clone3"];
/// The places in [`METHODS`].
pub(crate) const METHOD_FORK: u64 = 0;
pub(crate) const METHOD_VFORK_EXEC: u64 = 1;
pub(crate) const METHOD_POSIX_SPAWN: u64 = 2;
pub(crate) const METHOD_CLONE3: u64 = 3;

/// The words of an order.
pub(crate) const ORDER_WORDS: usize = 2;
/// The words of an answer.
pub(crate) const ANSWER_WORDS: usize = 6;

/// A status that is no error number: a child died before it reported, or before it was killed.
pub(crate) const DIED_EARLY: u64 = 1 << 32;

/// The argument by which the program answers the connection that is its standard input and output, and ends.
pub(crate) const BUSY: &str = "busy";
/// The argument by which the program works for each request of that connection, and ends with it.
pub(crate) const WORK: &str = "work";
/// The answer to a connection or request.
pub const REPLY: &[u8] = b"450 too busy\r\n";
/// The work for a request.
pub const WORK_NS: u64 = 1_000_000;
