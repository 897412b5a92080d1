//! The contract that every backend keeps, and the list of them.
//!
//! A backend tells which of many descriptors can be read or written. They differ in what a wait costs and in what
//! they can hold; what they say means the same:
//!
//! 1. A descriptor is named by its number and by a *key* that the reactor gives with it. Numbers are recycled by the
//!    kernel, keys are not: what a backend finds carries the key under which the descriptor was added, so that what
//!    is left over from an earlier owner of the number can be told and dropped.
//! 2. `add` begins to watch. A number that is watched already is the caller's mistake. Where the backend cannot hold
//!    the number it says so then, and not in a later wait. The descriptor stays the caller's.
//! 3. `change` replaces the interest. An interest of none keeps the descriptor known; the backend may still tell
//!    that it is closed.
//! 4. `remove` ends the watch, with `closing` if the caller closes the descriptor right after and holds no copy of it:
//!    then a backend may leave the rest to `close`, and what it holds of the open file it lets go in the next waits,
//!    or when it is dropped. Nothing that was found before may be told of it afterwards; the reactor sees to that by
//!    the key.
//! 5. `wait` appends what it found and returns: at once if something is ready, else when something becomes so or the
//!    timeout has passed. An interrupted wait has found nothing. It makes one kernel call where the backend allows
//!    it. It may tell less than all that is ready (a batch), as long as it tells the rest in the waits that follow.
//! 6. A *level* backend tells of a ready descriptor in each wait. An *edge* backend tells once, until the caller
//!    has read or written until it would block; the reactor remembers for it. Telling too often is lawful, telling
//!    never is not: data that arrived before `add` counts as news.
//! 7. A peer that is gone, and an error, are told as whatever of reading and writing is watched, so that they are found
//!    by whoever only reads, and as `CLOSED` besides where the backend knows: it is a hint too (`select` and `null`
//!    never give it). `GONE` says besides that nothing can be sent any more, which `epoll` and `poll` tell whatever is
//!    watched: who wants nothing of a descriptor for now has to look out for it. Data that is still there can be read
//!    first.
//! 8. When something is lost (the queue of signals overflows), the backend finds it again by itself in the same or
//!    the next wait, and counts it.
//! 9. What is always ready (a regular file) is told in each wait while it is watched, by all alike.

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(target_os = "linux")]
pub(crate) mod io_uring;
#[cfg(any(
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    target_os = "dragonfly",
    target_vendor = "apple"
))]
mod kqueue;
mod null;
mod poll;
mod select;
#[cfg(target_os = "linux")]
mod sigio;

use crate::error::{Error, Result};
use crate::interest::{Interest, Ready};
use std::fmt;
use std::os::fd::RawFd;
use std::str::FromStr;

/// How many events one wait tells at most, where the backend has a limit at all.
pub(crate) const BATCH: usize = 256;

/// The name of a registration: the descriptor's number below, a generation above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) u64);

impl Key {
    #[inline]
    pub(crate) fn new(fd: RawFd, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(fd.cast_unsigned()))
    }

    #[inline]
    pub(crate) fn fd(self) -> RawFd {
        (self.0 as u32).cast_signed()
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A descriptor that is ready.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) key: Key,
    pub(crate) ready: Ready,
}

/// Of a descriptor that cannot be watched, for it is not open: whatever is watched says so.
const GONE: Ready = Ready::READABLE.union(Ready::WRITABLE).union(Ready::READ_CLOSED).union(Ready::WRITE_CLOSED);

/// Repeats a turn of a ring's until so many wishes must have been taken back, or a turn brings nothing more: a turn
/// does twenty of them, for a ring whose work is deferred, since Linux 6.13.
#[cfg(target_os = "linux")]
pub(crate) fn settle(count: usize, mut turn: impl FnMut() -> bool) {
    for _ in 0..count.div_ceil(8) {
        if !turn() {
            return;
        }
    }
}

/// What `epoll`'s bits mean: the same as `poll`'s.
#[cfg(target_os = "linux")]
#[inline]
fn ready_of_epoll(bits: u32) -> Ready {
    const SAME: bool = landau_sys::epoll::PEER_CLOSED == landau_sys::poll::PEER_CLOSED as u32
        && landau_sys::epoll::READ == landau_sys::poll::READ as u32
        && landau_sys::epoll::WRITE == landau_sys::poll::WRITE as u32;
    const { assert!(SAME, "the kernel's own code takes the one for the other") };
    ready_of_poll(bits as i16)
}

/// What `poll`'s bits mean. `HANG_UP` and `ERROR` come whether asked for or not, and make both calls return.
#[inline]
fn ready_of_poll(bits: i16) -> Ready {
    use landau_sys::poll::{ERROR, HANG_UP, NOT_OPEN, PEER_CLOSED, READ, WRITE};
    let mut ready = Ready::default();
    if bits & (READ | PEER_CLOSED | HANG_UP | ERROR | NOT_OPEN) != 0 {
        ready = ready.union(Ready::READABLE);
    }
    if bits & (WRITE | HANG_UP | ERROR | NOT_OPEN) != 0 {
        ready = ready.union(Ready::WRITABLE);
    }
    if bits & (HANG_UP | ERROR | NOT_OPEN) != 0 {
        ready = ready.union(Ready::WRITE_CLOSED).union(Ready::READ_CLOSED);
    }
    if bits & PEER_CLOSED != 0 { ready.union(Ready::READ_CLOSED) } else { ready }
}

/// A backend. See the contract above.
pub(crate) trait Selector: fmt::Debug {
    /// Whether it tells only of changes.
    fn is_edge(&self) -> bool {
        false
    }
    fn add(&mut self, key: Key, interest: Interest) -> Result<()>;
    fn change(&mut self, key: Key, interest: Interest) -> Result<()>;
    fn remove(&mut self, key: Key, closing: bool) -> Result<()>;
    /// Waits at most so many milliseconds; -1 is forever.
    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()>;
    /// What the backend has to say about how it does its work here: a fallback, an overflow.
    fn note(&self) -> Option<String> {
        None
    }
}

macro_rules! backends {
    ($($variant:ident $name:literal $about:literal,)*) => {
        /// A way to ask the kernel which descriptors are ready.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Backend {
            $(#[doc = $about] $variant,)*
        }

        impl Backend {
            /// All there are, whether this system has them or not.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name, as it is typed.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it is, in a line.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }
        }
    };
}

backends! {
    Select "select" "the call of 1983: a bitmap of all descriptors, copied and scanned at each wait",
    Poll "poll" "an array of descriptors, handed over and scanned at each wait",
    Epoll "epoll" "Linux: the kernel keeps the set and hands over what is ready",
    EpollEdge "epoll-edge" "the same, told of changes only",
    Sigio "sigio" "a queued real-time signal for each change; poll when the queue overflows",
    IoUring "io_uring" "Linux: a ring shared with the kernel; watches, and whole operations, without a call each",
    IoUringOnce "io_uring-once" "the same, each watch for one event: what there is before Linux 5.13",
    Kqueue "kqueue" "BSD and macOS: the kernel keeps the set; changes and events in one call",
    Null "null" "the instrument: asks nobody and calls everything ready",
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = Error;

    fn from_str(name: &str) -> std::result::Result<Self, Error> {
        let known = || Self::ALL.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ");
        let found = Self::ALL.iter().find(|one| one.name() == name);
        found.copied().ok_or_else(|| Error::UnknownBackend { name: name.to_owned(), known: known() })
    }
}

/// The backends that this system has and lets us use, each tried.
pub fn backends() -> Vec<Backend> {
    Backend::ALL.iter().copied().filter(|&one| open(one).is_ok()).collect()
}

/// The best backend of this system.
impl Default for Backend {
    fn default() -> Self {
        if cfg!(target_os = "linux") {
            Self::Epoll
        } else if cfg!(any(target_os = "illumos", target_os = "solaris")) {
            Self::Poll
        } else {
            Self::Kqueue
        }
    }
}

/// Makes a backend.
pub(crate) fn open(backend: Backend) -> Result<Box<dyn Selector>> {
    Ok(match backend {
        Backend::Null => Box::new(null::Null::default()),
        Backend::Select => Box::new(select::Select::default()),
        Backend::Poll => Box::new(poll::Poll::default()),
        #[cfg(target_os = "linux")]
        Backend::Epoll => Box::new(epoll::Epoll::new(epoll::Trigger::Level)?),
        #[cfg(target_os = "linux")]
        Backend::EpollEdge => Box::new(epoll::Epoll::new(epoll::Trigger::Edge)?),
        #[cfg(target_os = "linux")]
        Backend::Sigio => Box::new(sigio::Sigio::new()?),
        #[cfg(target_os = "linux")]
        Backend::IoUring | Backend::IoUringOnce => Box::new(io_uring::IoUring::new(backend)?),
        #[cfg(any(
            target_os = "freebsd",
            target_os = "netbsd",
            target_os = "openbsd",
            target_os = "dragonfly",
            target_vendor = "apple"
        ))]
        Backend::Kqueue => Box::new(kqueue::Kqueue::new()?),
        #[allow(unreachable_patterns, reason = "no system has all of them, and the compiler need not know")]
        _ => {
            let reason = format!("{} is not among this system's calls", backend.name());
            return Err(Error::Unavailable { backend, reason });
        }
    })
}
