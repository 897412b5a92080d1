//! The contract of the selectors, one for each [`Backend`], and the list of backends.
//!
//! A selector determines which of many descriptors are ready. Selectors differ in the cost of a wait and in the
//! descriptors that they can watch; their reports have the same meaning:
//!
//! 1. A descriptor is identified by a [`Key`]: its number, and a generation that is incremented with each registration
//!    of the number. The kernel recycles numbers; a key recurs only after 2³² registrations of its number. Each result
//!    of a selector carries the key that the descriptor was added with, so that the reactor detects and drops events of
//!    an earlier owner of the number.
//! 2. `add` starts watching a descriptor. Adding a number that is watched already is an error of the caller. A selector
//!    that cannot watch the number fails here, not in a later wait. The caller keeps ownership of the descriptor.
//! 3. `change` replaces the interest. With an empty interest the descriptor remains known, and the selector may still
//!    report that it is closed.
//! 4. `remove` stops watching a descriptor. With `closing`, the caller closes it immediately afterwards and holds no
//!    duplicate: the selector may then leave the removal to `close`, and releases its references to the open file in
//!    the next waits or when it is dropped. Earlier results must not be reported afterwards; the reactor ensures this
//!    with the key.
//! 5. `wait` appends its results and returns: at once if a descriptor is ready, otherwise when one becomes ready or the
//!    timeout has passed. An interrupted wait fails with EINTR and has appended only readiness that was known before
//!    it slept; the reactor uses that, and ignores the error. A wait makes one system call if the backend allows that.
//!    It may report only some of the ready descriptors (a batch), as long as it reports the others in the waits that
//!    follow.
//! 6. A *level-triggered* selector reports a ready descriptor in each wait. An *edge-triggered* selector reports it
//!    once, until the caller has read or written until that would block; the reactor remembers it meanwhile. Reporting
//!    too often is allowed; omitting a report is not: data that arrived before `add` counts as a change.
//! 7. A closed peer and an error are reported as readable and writable, as far as those are of interest, so that a
//!    caller that only reads notices it by reading. They are also reported as `READ_CLOSED` if the backend can tell;
//!    `READ_CLOSED` is only a hint (`select` and `null` never report it). `WRITE_CLOSED` means that nothing more can be
//!    sent. `epoll` and `poll` report it whatever the interest, so a caller with an empty interest must handle it. Data
//!    that has arrived can be read first.
//! 8. When events are lost (the queue of signals overflows), the selector recovers them in the same or the next wait,
//!    and counts the loss.
//! 9. A descriptor that is always ready (a regular file) is reported in each wait while it is watched, by every
//!    backend.
//! 10. `add_exclusive` is `add` for a descriptor that other selectors watch too, if it is enough to wake one of the
//!     waiting selectors. A selector that supports this wakes fewer than all, in the order in which they were added or
//!     last changed.

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

/// The maximum number of events that one wait reports, for backends with a limit.
pub(crate) const MAX_EVENTS: usize = 256;

/// Identifies a registration: the descriptor's number in the low half, a generation in the high half.
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

/// A ready descriptor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) key: Key,
    pub(crate) ready: Ready,
}

/// The readiness of a descriptor that cannot be watched because it is not open.
const NOT_OPEN: Ready = Ready::READABLE.union(Ready::WRITABLE).union(Ready::READ_CLOSED).union(Ready::WRITE_CLOSED);

/// Enters a ring often enough for `count` cancellations to complete, or until an enter completes nothing. Since Linux
/// 6.13 one enter of a ring with `IORING_SETUP_DEFER_TASKRUN` completes at most 20 requests; 8 per enter is a safe
/// bound.
#[cfg(target_os = "linux")]
pub(crate) fn settle(count: usize, mut enter: impl FnMut() -> bool) {
    for _ in 0..count.div_ceil(8) {
        if !enter() {
            return;
        }
    }
}

/// Returns the readiness for the events of `epoll`, which are the same bits as those of `poll`.
#[cfg(target_os = "linux")]
#[inline]
fn ready_of_epoll(events: u32) -> Ready {
    const SAME: bool = landau_sys::epoll::PEER_CLOSED == landau_sys::poll::PEER_CLOSED as u32
        && landau_sys::epoll::READ == landau_sys::poll::READ as u32
        && landau_sys::epoll::WRITE == landau_sys::poll::WRITE as u32;
    const { assert!(SAME, "the kernel relies on it as well") };
    ready_of_poll(events as i16)
}

/// Returns the readiness for the events of `poll`. `HANG_UP` and `ERROR` are reported whatever the interest, and
/// neither reading nor writing blocks then.
#[inline]
fn ready_of_poll(events: i16) -> Ready {
    use landau_sys::poll::{self, ERROR, HANG_UP, PEER_CLOSED, READ, WRITE};
    let mut ready = Ready::default();
    if events & (READ | PEER_CLOSED | HANG_UP | ERROR | poll::NOT_OPEN) != 0 {
        ready = ready.union(Ready::READABLE);
    }
    if events & (WRITE | HANG_UP | ERROR | poll::NOT_OPEN) != 0 {
        ready = ready.union(Ready::WRITABLE);
    }
    if events & (HANG_UP | ERROR | poll::NOT_OPEN) != 0 {
        ready = ready.union(Ready::WRITE_CLOSED).union(Ready::READ_CLOSED);
    }
    if events & PEER_CLOSED != 0 { ready.union(Ready::READ_CLOSED) } else { ready }
}

/// A backend's mechanism for finding ready descriptors. The module description is the contract.
pub(crate) trait Selector: fmt::Debug {
    /// Whether it is edge-triggered.
    fn is_edge(&self) -> bool {
        false
    }
    fn add(&mut self, key: Key, interest: Interest) -> Result<()>;
    fn add_exclusive(&mut self, key: Key, interest: Interest) -> Result<()> {
        self.add(key, interest)
    }
    fn change(&mut self, key: Key, interest: Interest) -> Result<()>;
    fn remove(&mut self, key: Key, closing: bool) -> Result<()>;
    /// Called when a descriptor that was readable already was found readable again: the end of the stream may have
    /// arrived after the data. An edge-triggered selector that cannot tell the two apart checks this in the next wait.
    fn look_again(&mut self, _key: Key) {}
    /// Waits for at most `timeout_ms` milliseconds; -1 waits for ever.
    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()>;
    /// Returns a note on how the backend works on this system.
    fn note(&self) -> Option<String> {
        None
    }
}

macro_rules! define_backends {
    ($($variant:ident $name:literal $about:literal,)*) => {
        /// A method of determining which descriptors are ready.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Backend {
            $(#[doc = $about] $variant,)*
        }

        impl Backend {
            /// All backends, whether this system has them or not.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the backends that are suitable for a program: all but [`Backend::Null`], which is for
            /// measurements.
            pub fn useful() -> impl Iterator<Item = Self> {
                Self::ALL.iter().copied().filter(|one| *one != Self::Null)
            }

            /// Returns its name, which [`FromStr`] parses.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns a one-line description.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }
        }
    };
}

define_backends! {
    Select "select" "4.2BSD, 1983: a bitmap of all descriptors, copied and scanned in each wait",
    Poll "poll" "an array of descriptors, copied and scanned in each wait",
    Epoll "epoll" "Linux: the kernel keeps the set and returns the ready descriptors",
    EpollEdge "epoll-edge" "epoll, edge-triggered: only changes are reported",
    Sigio "sigio" "Linux: a queued real-time signal for each change; poll when the queue overflows",
    IoUring "io_uring" "Linux: queues shared with the kernel; one call submits many requests",
    IoUringOnce "io_uring-once" "Linux: the same, with one poll request for each event, as before Linux 5.13",
    Kqueue "kqueue" "BSD and macOS: the kernel keeps the set; one call passes changes and returns events",
    Null "null" "for measurements: makes no system call and reports every descriptor as ready",
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = Error;

    fn from_str(name: &str) -> std::result::Result<Self, Error> {
        let known = || Self::useful().map(Self::name).collect::<Vec<_>>().join(", ");
        let found = Self::ALL.iter().find(|one| one.name() == name);
        found.copied().ok_or_else(|| Error::UnknownBackend { name: name.to_owned(), known: known() })
    }
}

/// Returns the backends that are available on this system, by trying each.
pub fn backends() -> Vec<Backend> {
    Backend::ALL.iter().copied().filter(|&one| open(one).is_ok()).collect()
}

/// Returns the best backend of this system.
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

/// Creates the selector of a backend.
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
        #[allow(unreachable_patterns, reason = "no system has all of them, which the compiler cannot know")]
        _ => {
            let reason = format!("this system has no {}", backend.name());
            return Err(Error::Unavailable { backend, reason });
        }
    })
}
