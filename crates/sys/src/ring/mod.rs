//! Linux's `io_uring`: two rings shared with the kernel, one of wishes and one of what became of them.
//!
//! Wishes are written down and handed over together, in the same call that waits. A [`Ring`] belongs to one thread,
//! and says so to the kernel where that can make use of it: work that completes a wish is then done when the thread
//! asks for completions, and does not interrupt it.

mod buffers;
mod operations;

pub use buffers::ProvidedBuffer;
pub use operations::{Bytes, Done, Level, Operations, Options, Wish};

use crate::error::{Error, Result};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use std::collections::VecDeque;
use std::os::fd::RawFd;

/// `io_uring_enter`: hand completions over; and its argument is the extended one.
const GET_EVENTS: u32 = 1;
const EXTENDED: u32 = 1 << 3;

/// Of a completion: more will follow of the same wish; and it came with a provided buffer.
const HAS_MORE: u32 = 1 << 1;

/// The number of a wish whose completion nobody wants to hear of.
pub const NOBODY: u64 = u64::MAX;

/// What became of a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The number that was given with the wish.
    pub user: u64,
    /// What the call would have returned; an error number, negated, if it failed.
    pub result: i32,
    /// The kernel's flags.
    pub flags: u32,
}

impl Completion {
    /// Whether the wish stands, and more completions follow.
    pub fn has_more(self) -> bool {
        self.flags & HAS_MORE != 0
    }
}

/// The rings.
pub struct Ring {
    rings: IoUring,
    /// Completions that had to be taken to make room.
    taken: VecDeque<Completion>,
    setup: &'static str,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({})", self.setup)
    }
}

impl Ring {
    /// Rings with room for so many wishes at once, and for `completions` that were not yet looked at. Asks for all that
    /// helps a ring of a single thread, and for less where the kernel knows less. ENOSYS and EPERM say that there is no
    /// `io_uring`, or that it is forbidden here.
    pub fn new(wishes: u32, completions: u32) -> Result<Self> {
        let mut failed = Error { call: "io_uring_setup", errno: libc::ENOSYS };
        for (setup, level) in [("single issuer, deferred work", 2), ("cooperative work", 1), ("plain", 0)] {
            let mut builder = IoUring::builder();
            builder.setup_cqsize(completions).setup_clamp();
            if level > 0 {
                builder.setup_coop_taskrun().setup_submit_all();
            }
            if level > 1 {
                builder.setup_single_issuer().setup_defer_taskrun();
            }
            match builder.build(wishes) {
                Ok(ring) if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() => {
                    return Err(Error::unsupported("io_uring_setup"));
                }
                Ok(ring) => return Ok(Self { rings: ring, taken: VecDeque::new(), setup }),
                Err(error) => failed = Error::from_io("io_uring_setup", &error),
            }
            // Only an unknown flag is a reason to ask for less.
            if failed.errno != libc::EINVAL {
                break;
            }
        }
        Err(failed)
    }

    /// What it was set up for.
    pub fn setup(&self) -> &'static str {
        self.setup
    }

    /// Whether one wish to watch may be told of many times (Linux 5.13: tags of resources came with it).
    pub fn has_multishot_poll(&self) -> bool {
        self.rings.params().is_feature_resource_tagging()
    }

    /// Wishes to be told when one of those things (as `epoll` has them) may be done with a descriptor: once, or with
    /// each change. The kernel holds the open file until it has told or the wish is taken back.
    pub fn watch(&mut self, fd: RawFd, bits: u32, user: u64, is_multishot: bool) -> Result<()> {
        let entry = opcode::PollAdd::new(Fd(fd), bits).multi(is_multishot).build().user_data(user);
        self.push(&entry)
    }

    /// Takes a wish to watch back; its completion says `ECANCELED`.
    pub fn unwatch(&mut self, user: u64) -> Result<()> {
        let entry = opcode::PollRemove::new(user).build().user_data(NOBODY);
        self.push(&entry)
    }

    /// Sees to it that so many wishes can be written down without handing over a part of them.
    fn make_place(&mut self, count: usize) -> Result<()> {
        let queue = self.rings.submission();
        let free = queue.capacity() - queue.len();
        drop(queue);
        if free < count { self.submit() } else { Ok(()) }
    }

    /// Writes a wish down. What memory it leads to must live, and stay where it is, until its completion.
    fn push(&mut self, entry: &squeue::Entry) -> Result<()> {
        loop {
            // SAFETY: the entry leads to no memory (watches, cancellations, closing), or to memory that `Operations`
            // keeps until its completion.
            if unsafe { self.rings.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }

    /// Hands over what was wished, has completed work done, and does not wait.
    pub fn submit(&mut self) -> Result<()> {
        self.enter(0, 0)
    }

    /// Hands over what was wished and waits for a completion, at most so many milliseconds; -1 is forever. Returns at
    /// once if one is there.
    #[inline]
    pub fn wait(&mut self, timeout_ms: i32) -> Result<()> {
        let is_there = !self.taken.is_empty() || !self.rings.completion().is_empty();
        self.enter(u32::from(timeout_ms != 0 && !is_there), timeout_ms)
    }

    fn enter(&mut self, wanted: u32, timeout_ms: i32) -> Result<()> {
        let time = Timespec::new()
            .sec(u64::from(timeout_ms.unsigned_abs() / 1000))
            .nsec(timeout_ms.unsigned_abs() % 1000 * 1_000_000);
        let args = if timeout_ms < 0 { SubmitArgs::new() } else { SubmitArgs::new().timespec(&time) };
        loop {
            let wished = self.rings.submission().len() as u32;
            let flags = GET_EVENTS | EXTENDED;
            // SAFETY: every entry in the ring was pushed by `push`; the argument is the one that `EXTENDED` announces
            // and leads to `time`, which lives as long as the call.
            let result = unsafe { self.rings.submitter().enter(wished, wanted, flags, Some(&args)) };
            match result.map_err(|error| Error::from_io("io_uring_enter", &error)) {
                Ok(_) => return Ok(()),
                Err(error) if error.errno == libc::ETIME => return Ok(()),
                // No room for completions: those that are there are taken, and the kernel has room again.
                Err(error) if error.errno == libc::EBUSY && self.make_room() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes all completions; whether there was any.
    fn make_room(&mut self) -> bool {
        let before = self.taken.len();
        self.taken.extend(self.rings.completion().map(|entry| completion(&entry)));
        self.taken.len() > before
    }

    /// The next completion that is there.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Completion> {
        if !self.taken.is_empty() {
            return self.taken.pop_front();
        }
        self.rings.completion().next().map(|entry| completion(&entry))
    }
}

fn completion(entry: &io_uring::cqueue::Entry) -> Completion {
    Completion { user: entry.user_data(), result: entry.result(), flags: entry.flags() }
}
