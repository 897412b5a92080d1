//! Linux's `io_uring`: a submission queue and a completion queue shared with the kernel.
//!
//! Requests are queued and submitted together, by the same call that waits for completions. A [`Ring`] belongs to one
//! thread and is set up accordingly if the kernel supports that (`IORING_SETUP_SINGLE_ISSUER`, `_DEFER_TASKRUN`): the
//! kernel then completes requests when the thread asks for completions, and does not interrupt it.
//!
//! [`Ring`] has requests that refer to no memory; [`Operations`] adds those that do.

mod buffers;
mod operations;

pub use buffers::ProvidedBuffer;
pub use operations::{Completion, Features, OperationId, Operations, Options};

use crate::error::{Error, Result};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use std::collections::VecDeque;
use std::os::fd::RawFd;

/// Flags of `io_uring_enter`: process completions, and the argument is a `struct io_uring_getevents_arg`.
const GET_EVENTS: u32 = 1;
const EXTENDED: u32 = 1 << 3;

/// Flag of a completion: more completions of the same request will follow.
const HAS_MORE: u32 = 1 << 1;

/// The `user_data` of requests whose completions are ignored.
pub const IGNORED: u64 = u64::MAX;

/// An entry of the completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The number that was given with the request.
    pub user_data: u64,
    /// The value that the system call would have returned; the negated error number if it failed.
    pub result: i32,
    /// The kernel's flags.
    pub flags: u32,
}

impl Entry {
    /// Returns whether more completions of the same request will follow.
    pub fn has_more(self) -> bool {
        self.flags & HAS_MORE != 0
    }
}

/// A submission queue and a completion queue.
pub struct Ring {
    inner: IoUring,
    /// Requests for the next submission. The submission queue itself cannot take a request back.
    queued: Vec<squeue::Entry>,
    /// Completions that had to be taken out of the queue to make room.
    overflow: VecDeque<Entry>,
    setup: &'static str,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({})", self.setup)
    }
}

impl Ring {
    /// Creates a ring whose queues have room for the given numbers of submissions and completions. It uses the setup
    /// flags that suit a ring of one thread, as far as the kernel supports them.
    ///
    /// Fails with ENOSYS if the kernel has no `io_uring`, and with EPERM if it is forbidden.
    pub fn new(submissions: u32, completions: u32) -> Result<Self> {
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
            match builder.build(submissions) {
                Ok(ring) if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() => {
                    return Err(Error::unsupported("io_uring_setup"));
                }
                Ok(ring) => {
                    let queued = Vec::with_capacity(ring.params().sq_entries() as usize);
                    return Ok(Self { inner: ring, queued, overflow: VecDeque::new(), setup });
                }
                Err(error) => failed = Error::from_io("io_uring_setup", &error),
            }
            // Only an unknown flag is a reason to try fewer.
            if failed.errno != libc::EINVAL {
                break;
            }
        }
        Err(failed)
    }

    /// Returns a description of the ring's setup.
    pub fn setup(&self) -> &'static str {
        self.setup
    }

    /// Returns whether one poll request can complete many times (Linux 5.13, the version that added resource tagging).
    pub fn has_multishot_poll(&self) -> bool {
        self.inner.params().is_feature_resource_tagging()
    }

    /// Polls a descriptor for events, given in the bits of `epoll`: completes once, or for each change. The kernel
    /// holds the open file until the request has completed or is removed.
    pub fn poll_add(&mut self, fd: RawFd, events: u32, user_data: u64, is_multishot: bool) -> Result<()> {
        let entry = opcode::PollAdd::new(Fd(fd), events).multi(is_multishot).build().user_data(user_data);
        self.push(entry)
    }

    /// Removes a poll request, which completes with ECANCELED.
    pub fn poll_remove(&mut self, user_data: u64) -> Result<()> {
        let entry = opcode::PollRemove::new(user_data).build().user_data(IGNORED);
        self.push(entry)
    }

    /// Returns the size of the submission queue.
    fn capacity(&self) -> usize {
        self.inner.params().sq_entries() as usize
    }

    /// Makes room for `count` requests, up to the size of the queue, so that they can be submitted together.
    fn reserve(&mut self, count: usize) -> Result<()> {
        if self.capacity() - self.queued.len() < count.min(self.capacity()) { self.submit() } else { Ok(()) }
    }

    /// Queues a request. Memory that it refers to must stay valid and in place until the request has completed.
    fn push(&mut self, entry: squeue::Entry) -> Result<()> {
        self.reserve(1)?;
        self.queued.push(entry);
        Ok(())
    }

    /// Moves the queued requests to the submission queue, and returns how many there are in it.
    fn load(&mut self) -> u32 {
        let mut queue = self.inner.submission();
        // If the kernel has left a part of the queue, there may be no room. A chain must not be split: then all stay.
        // SAFETY: the entries refer to no memory (polls, cancellations, closing), or to memory that `Operations` keeps
        // until the request has completed.
        if unsafe { queue.push_multiple(&self.queued) }.is_ok() {
            self.queued.clear();
        }
        queue.len() as u32
    }

    /// Submits the queued requests and lets the kernel process completions, without waiting.
    pub fn submit(&mut self) -> Result<()> {
        self.enter(0, 0)
    }

    /// Submits the queued requests and waits for a completion, for at most `timeout_ms` milliseconds; -1 waits for
    /// ever. Returns at once if there is a completion already.
    #[inline]
    pub fn wait(&mut self, timeout_ms: i32) -> Result<()> {
        let has_completion = !self.overflow.is_empty() || !self.inner.completion().is_empty();
        self.enter(u32::from(timeout_ms != 0 && !has_completion), timeout_ms)
    }

    fn enter(&mut self, wanted: u32, timeout_ms: i32) -> Result<()> {
        let time = Timespec::new()
            .sec(u64::from(timeout_ms.unsigned_abs() / 1000))
            .nsec(timeout_ms.unsigned_abs() % 1000 * 1_000_000);
        let args = if timeout_ms < 0 { SubmitArgs::new() } else { SubmitArgs::new().timespec(&time) };
        loop {
            let submitted = self.load();
            // Requests that are still queued follow at once.
            let wanted = if self.queued.is_empty() { wanted } else { 0 };
            let flags = GET_EVENTS | EXTENDED;
            // SAFETY: every entry in the queue was put there by `load`; the argument is of the type that `EXTENDED`
            // announces and points to `time`, which lives as long as the call.
            let result = unsafe { self.inner.submitter().enter(submitted, wanted, flags, Some(&args)) };
            match result.map_err(|error| Error::from_io("io_uring_enter", &error)) {
                Ok(_) if self.queued.is_empty() => return Ok(()),
                Ok(_) => {}
                Err(error) if error.errno == libc::ETIME => return Ok(()),
                // The completion queue is full: the kernel continues after its entries are taken out.
                Err(error) if error.errno == libc::EBUSY && self.make_room() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes all entries out of the completion queue. Returns whether there were any.
    fn make_room(&mut self) -> bool {
        let before = self.overflow.len();
        self.overflow.extend(self.inner.completion().map(|entry| completion(&entry)));
        self.overflow.len() > before
    }

    /// Returns whether a completion with this number is pending that is neither a cancellation nor a shortage of
    /// buffers: those are not results of the operation itself.
    pub fn has_completion(&mut self, user_data: u64) -> bool {
        self.make_room();
        let is_it =
            |entry: &Entry| entry.user_data == user_data && ![-libc::ECANCELED, -libc::ENOBUFS].contains(&entry.result);
        self.overflow.iter().any(is_it)
    }

    /// Returns the next completion, if there is one.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Entry> {
        if !self.overflow.is_empty() {
            return self.overflow.pop_front();
        }
        self.inner.completion().next().map(|entry| completion(&entry))
    }
}

fn completion(entry: &io_uring::cqueue::Entry) -> Entry {
    Entry { user_data: entry.user_data(), result: entry.result(), flags: entry.flags() }
}
