//! `select` for an event loop: sets whose words can be scanned.
//!
//! [`crate::wait`] has the call that benchmarks time, with the C library's `fd_set`. [`FdSet`] is exactly as large,
//! since the call is declared to take one, and never writes a bit beyond its end: the macro `FD_SET` checks nothing,
//! and programs have crashed because of it.

use crate::error::{Result, check};
use std::os::fd::RawFd;

/// One more than the highest descriptor that a set can hold: the size of the C library's `fd_set`.
pub const CAPACITY: usize = libc::FD_SETSIZE;

/// The word in which the system counts bits; it matters on big-endian systems.
#[cfg(any(target_os = "netbsd", target_os = "openbsd", target_vendor = "apple"))]
type Word = u32;
#[cfg(not(any(target_os = "netbsd", target_os = "openbsd", target_vendor = "apple")))]
type Word = libc::c_ulong;

const BITS: usize = Word::BITS as usize;
const WORDS: usize = CAPACITY / BITS;

// A set may be passed as an `fd_set`: it is as large and at least as strictly aligned.
const _: () = assert!(size_of::<FdSet>() == size_of::<libc::fd_set>());
const _: () = assert!(align_of::<FdSet>() >= align_of::<libc::fd_set>());

/// A set of descriptors below [`CAPACITY`].
#[derive(Debug, Clone)]
#[repr(C, align(8))]
pub struct FdSet([Word; WORDS]);

impl Default for FdSet {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl FdSet {
    /// Adds or removes a descriptor. Returns whether the set can hold it.
    pub fn set(&mut self, fd: RawFd, is_in: bool) -> bool {
        let index = usize::try_from(fd).unwrap_or(usize::MAX);
        let Some(word) = self.0.get_mut(index / BITS) else { return false };
        let bit = 1 << (index % BITS);
        if is_in {
            *word |= bit;
        } else {
            *word &= !bit;
        }
        true
    }

    /// Returns whether the set contains a descriptor.
    pub fn contains(&self, fd: RawFd) -> bool {
        let index = usize::try_from(fd).unwrap_or(usize::MAX);
        self.0.get(index / BITS).is_some_and(|word| word >> (index % BITS) & 1 == 1)
    }

    /// Copies the descriptors below `count`, rounded up to a word, from another set.
    pub fn copy_from(&mut self, other: &Self, count: usize) {
        let words = count.div_ceil(BITS).min(WORDS);
        self.0[..words].copy_from_slice(&other.0[..words]);
    }

    /// Returns one more than the highest descriptor in either of two sets; 0 if both are empty.
    pub fn bound(&self, other: &Self) -> usize {
        let last = (0..WORDS).rev().find(|&at| self.0[at] | other.0[at] != 0);
        last.map_or(0, |at| (at + 1) * BITS - (self.0[at] | other.0[at]).leading_zeros() as usize)
    }

    /// Calls a closure with each descriptor below `count` that is in either of two sets, and whether it is in each.
    pub fn for_each(&self, other: &Self, count: usize, mut call: impl FnMut(RawFd, bool, bool)) {
        for at in 0..count.div_ceil(BITS).min(WORDS) {
            let (one, two) = (self.0[at], other.0[at]);
            let mut either = one | two;
            while either != 0 {
                let bit = either.trailing_zeros() as usize;
                either &= either - 1;
                call((at * BITS + bit) as RawFd, one >> bit & 1 == 1, two >> bit & 1 == 1);
            }
        }
    }
}

/// Waits until a descriptor below `count` in `read` is readable or one in `write` writable, for at most `timeout_ms`
/// milliseconds; -1 waits for ever. Leaves only the ready descriptors in the sets, and returns their number.
#[inline]
pub fn select(count: usize, read: &mut FdSet, write: &mut FdSet, timeout_ms: i32) -> Result<usize> {
    let mut limit = libc::timeval {
        tv_sec: libc::time_t::from(timeout_ms / 1000),
        tv_usec: libc::suseconds_t::from(timeout_ms % 1000) * 1000,
    };
    let timeout = if timeout_ms < 0 { std::ptr::null_mut() } else { &raw mut limit };
    let (read, write) = ((&raw mut read.0).cast(), (&raw mut write.0).cast());
    let count = count.min(CAPACITY) as libc::c_int;
    // SAFETY: each set is as large as an `fd_set` (asserted above), and `count` is at most that size.
    check("select", unsafe { libc::select(count, read, write, std::ptr::null_mut(), timeout) })
        .map(|found| found as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::pipe;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_set_never_writes_beyond_its_end() {
        let mut set = FdSet::default();
        for fd in [-1, RawFd::MIN, CAPACITY as RawFd, RawFd::MAX] {
            assert!(!set.set(fd, true) && !set.contains(fd), "{fd}");
        }
        assert!(set.set(CAPACITY as RawFd - 1, true) && set.contains(CAPACITY as RawFd - 1));
        assert_eq!(set.bound(&FdSet::default()), CAPACITY);
    }

    #[test]
    fn the_kernel_reads_the_same_bits() {
        let (reading, writing) = pipe().unwrap();
        let (mut read, mut write) = (FdSet::default(), FdSet::default());
        assert!(read.set(reading.as_raw_fd(), true) && write.set(writing.as_raw_fd(), true));
        let count = read.bound(&write);
        assert_eq!(count, reading.as_raw_fd().max(writing.as_raw_fd()) as usize + 1);
        assert_eq!(select(count, &mut read, &mut write, -1), Ok(1));
        let mut found = Vec::new();
        read.for_each(&write, count, |fd, can_read, can_write| found.push((fd, can_read, can_write)));
        assert_eq!(found, [(writing.as_raw_fd(), false, true)]);
    }
}
