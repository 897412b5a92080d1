//! The memory of a worker's connections: partial requests, partial responses, and TLS.
//!
//! Idle connections need no memory beyond their tables. But many clients that each send half a request, or read half a
//! response, could use more memory than there is. The memory of a connection is a [`Share`] of the worker's [`Memory`].
//! When three quarters are in use, no further request may begin in parts and no TLS session begins, so that those under
//! way have room to continue. When all memory is in use, a request that needs more is refused. A connection that would
//! keep [`MUCH_BYTES`] or more is then closed; it would keep them for a client that does not read its response, for a
//! part of a TLS record, or for what a ring received ahead. A connection with less sends a file or a few small
//! responses, and continues until an eighth above the limit is in use; beyond that, it is closed as well.
//!
//! The counted memory therefore stays below nine eighths of the limit plus the buffers of one connection. These are at
//! most 0.5 MiB: a head and one receive (twice 64 KiB, in a vector that may have twice the capacity), responses of 68
//! KiB, and parts of a cached file of twice 64 KiB. Each connection is checked whenever it has kept something.

use crate::config::Config;
use std::cell::Cell;
use std::rc::Rc;

/// The memory of a TLS connection in addition to its buffers: keys and the state of rustls. With 3,000 clients that
/// have sent only their first flight, each needs 4.1 KiB of resident memory; an idle session needs 3.6 KB
/// (docs/serve.md).
pub(crate) const SESSION_BYTES: usize = 4 << 10;

/// If each worker has less than this, the threads share one arena, because an arena takes two thirds of it in
/// addresses.
const ARENA_BYTES: usize = 96 << 20;

/// The stack of a thread. Its addresses count towards `RLIMIT_AS` and `RLIMIT_DATA` from the thread's start on.
const STACK_BYTES: usize = 2 << 20;

/// The threads of a worker, including those that read from the device and look files up for it. They start after the
/// memory was divided. Further threads (other file systems, the log, metrics) use the memory that is not assigned.
const THREADS: usize = 4;

/// A connection with less than this is not closed to free its memory, as long as the limit is not exceeded by much.
const MUCH_BYTES: usize = 4 << 10;

/// The minimum that the connections of a worker may hold: enough for some partial requests.
const LEAST_BYTES: usize = 1 << 20;

/// Returns the size of the stacks of threads that are not started yet. These are only addresses until they are used, so
/// control groups do not count them.
pub(crate) fn stack_bytes(config: &Config) -> u64 {
    (config.workers.max(1) * THREADS * STACK_BYTES) as u64
}

/// Divides the memory that the process can still allocate, if known. At most a quarter is for the caches and half for
/// the connections, unless the operator has set the amounts. The rest is for further threads, the log and listings.
/// Returns a note for the operator if memory is so short that the caches had to be reduced.
pub(crate) fn settle(config: &mut Config, left_bytes: Option<u64>) -> Option<String> {
    let workers = config.workers.max(1);
    let left = usize::try_from(left_bytes?).unwrap_or(usize::MAX);
    if left / workers < ARENA_BYTES {
        landau_sys::memory::share_one_arena();
    }
    let most = *config.memory_bytes.get_or_insert((left / 2).max(LEAST_BYTES * workers));
    let cache = left / 4 / workers;
    let is_short = cache < config.cache_bytes;
    config.cache_bytes = cache.min(config.cache_bytes);
    (is_short || most < 2 * LEAST_BYTES * workers).then(|| {
        format!(
            "only {} of memory left (RLIMIT_AS, RLIMIT_DATA, the control group or the system): \
             cache limited to {} per worker, connections to {} in total",
            mebibytes(left),
            mebibytes(config.cache_bytes),
            mebibytes(most)
        )
    })
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[derive(Debug)]
struct Inner {
    used_bytes: Cell<usize>,
    most_bytes: usize,
}

/// The memory that the connections of a worker hold, and its limit.
#[derive(Debug, Clone)]
pub(crate) struct Memory(Rc<Inner>);

impl Memory {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self(Rc::new(Inner { used_bytes: Cell::new(0), most_bytes }))
    }

    /// Returns whether nothing new may begin.
    pub(crate) fn is_short(&self) -> bool {
        self.0.used_bytes.get() >= self.0.most_bytes / 4 * 3
    }

    /// Returns whether no connection may hold more.
    pub(crate) fn is_full(&self) -> bool {
        self.0.used_bytes.get() > self.0.most_bytes
    }

    /// Returns whether so much is in use that even a small amount may not be kept.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.0.used_bytes.get() > self.0.most_bytes.saturating_add(self.0.most_bytes / 8)
    }

    /// Returns whether a connection that would keep `held_bytes` must be closed to free them.
    pub(crate) fn must_free(&self, held_bytes: usize) -> bool {
        self.is_full() && (held_bytes >= MUCH_BYTES || self.is_exceeded())
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.0.used_bytes.get()
    }
}

/// The memory of one holder; it is returned when the share is dropped.
#[derive(Debug, Default)]
pub(crate) struct Share {
    of: Option<Memory>,
    bytes: usize,
}

impl Share {
    /// Takes a share of the memory.
    pub(crate) fn new(memory: &Memory, bytes: usize) -> Self {
        memory.0.used_bytes.set(memory.used_bytes() + bytes);
        Self { of: Some(memory.clone()), bytes }
    }

    /// Sets the holder's memory; a default share belongs to no memory and does not change.
    pub(crate) fn resize(&mut self, bytes: usize) {
        if let Some(memory) = &self.of {
            memory.0.used_bytes.set(memory.used_bytes() - self.bytes + bytes);
            self.bytes = bytes;
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_divided_between_caches_and_connections() {
        let (plenty, little) = (Some(8 << 30), Some(40 << 20));
        let mut config = Config::new(".");
        assert_eq!((settle(&mut config, plenty), config.memory_bytes), (None, Some(4 << 30)));
        let mut config = Config { workers: 2, ..Config::new(".") };
        let note = settle(&mut config, little).unwrap();
        assert!(
            note.starts_with("only 40.0 MiB of memory left")
                && note.ends_with("cache limited to 5.0 MiB per worker, connections to 20.0 MiB in total"),
            "{note}"
        );
        assert_eq!((config.memory_bytes, config.cache_bytes), (Some(20 << 20), 5 << 20));
        let mut config = Config { memory_bytes: Some(30 << 20), cache_bytes: 1 << 20, ..Config::new(".") };
        assert_eq!((settle(&mut config, little), config.memory_bytes), (None, Some(30 << 20)));
        assert_eq!(settle(&mut config, None), None);
        let mut config = Config { cache_bytes: 0, ..Config::new(".") };
        assert!(settle(&mut config, Some(0)).is_some_and(|note| note.ends_with("connections to 1.0 MiB in total")));
        assert!(!Memory::new(config.memory_bytes.unwrap()).is_short(), "nothing would be served");
    }

    #[test]
    fn shares_are_returned() {
        let memory = Memory::new(1000);
        let mut one = Share::new(&memory, 700);
        assert!(!memory.is_short());
        let two = Share::new(&memory, 100);
        assert!(memory.is_short() && !memory.is_full());
        one.resize(901);
        assert!(memory.is_full());
        assert!(memory.must_free(MUCH_BYTES) && !memory.must_free(MUCH_BYTES - 1));
        one.resize(1025);
        assert!(!memory.is_exceeded());
        one.resize(1026);
        assert!(memory.is_exceeded() && memory.must_free(0));
        drop(one);
        assert!(!memory.must_free(MUCH_BYTES));
        assert_eq!((memory.used_bytes(), two.bytes()), (100, 100));
        drop(two);
        assert_eq!(memory.used_bytes(), 0);
    }
}
