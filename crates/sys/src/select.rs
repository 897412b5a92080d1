//! `select` over bitmaps of our own, whose words can be scanned.
//!
//! [`crate::wait`] holds what the benchmarks time, with the C library's `fd_set`; here a bitmap is as long as that set
//! and never longer, for the call is declared to take one, and no bit beyond it is ever written: the macro `FD_SET`
//! checks nothing, and programs have died of it.

use crate::error::{Result, check};
use std::os::fd::RawFd;

/// One more than the highest descriptor: the size of the C library's `fd_set`.
pub const CAPACITY: usize = libc::FD_SETSIZE;

/// What the system counts bits in; it matters where the highest byte stands first.
#[cfg(any(target_os = "netbsd", target_os = "openbsd", target_vendor = "apple"))]
type Word = u32;
#[cfg(not(any(target_os = "netbsd", target_os = "openbsd", target_vendor = "apple")))]
type Word = libc::c_ulong;

const BITS: usize = Word::BITS as usize;
const WORDS: usize = CAPACITY / BITS;

// The call may be handed a bitmap as an `fd_set`: it is as large and no more strictly aligned.
const _: () = assert!(size_of::<Bitmap>() == size_of::<libc::fd_set>());
const _: () = assert!(align_of::<Bitmap>() >= align_of::<libc::fd_set>());

/// A set of descriptors below [`CAPACITY`].
#[derive(Debug, Clone)]
#[repr(C, align(8))]
pub struct Bitmap([Word; WORDS]);

impl Default for Bitmap {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl Bitmap {
    /// Puts a descriptor in or takes it out; one that is beyond the set is in no set, which the result says.
    pub fn put(&mut self, fd: RawFd, is_in: bool) -> bool {
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

    /// Whether a descriptor is in it.
    pub fn contains(&self, fd: RawFd) -> bool {
        let index = usize::try_from(fd).unwrap_or(usize::MAX);
        self.0.get(index / BITS).is_some_and(|word| word >> (index % BITS) & 1 == 1)
    }

    /// Takes over the bits of another below `count`, rounded up to a word.
    pub fn copy(&mut self, other: &Self, count: usize) {
        let words = count.div_ceil(BITS).min(WORDS);
        self.0[..words].copy_from_slice(&other.0[..words]);
    }

    /// One more than the highest descriptor in either of two sets.
    pub fn bound(&self, other: &Self) -> usize {
        let last = (0..WORDS).rev().find(|&at| self.0[at] | other.0[at] != 0);
        last.map_or(0, |at| (at + 1) * BITS - (self.0[at] | other.0[at]).leading_zeros() as usize)
    }

    /// Tells each descriptor below `count` that is in either of two sets, and in which.
    pub fn each(&self, other: &Self, count: usize, mut tell: impl FnMut(RawFd, bool, bool)) {
        for at in 0..count.div_ceil(BITS).min(WORDS) {
            let (one, two) = (self.0[at], other.0[at]);
            let mut either = one | two;
            while either != 0 {
                let bit = either.trailing_zeros() as usize;
                either &= either - 1;
                tell((at * BITS + bit) as RawFd, one >> bit & 1 == 1, two >> bit & 1 == 1);
            }
        }
    }
}

/// Waits until a descriptor below `count` that is in `read` can be read, or one in `write` written, at most so many
/// milliseconds; -1 is forever. The sets hold only those afterwards.
#[inline]
pub fn select(count: usize, read: &mut Bitmap, write: &mut Bitmap, timeout_ms: i32) -> Result<usize> {
    let mut limit = libc::timeval {
        tv_sec: libc::time_t::from(timeout_ms / 1000),
        tv_usec: libc::suseconds_t::from(timeout_ms % 1000) * 1000,
    };
    let timeout = if timeout_ms < 0 { std::ptr::null_mut() } else { &raw mut limit };
    let (read, write) = ((&raw mut read.0).cast(), (&raw mut write.0).cast());
    let count = count.min(CAPACITY) as libc::c_int;
    // SAFETY: each bitmap is as large as an `fd_set` (asserted above), and `count` lies within it.
    check("select", unsafe { libc::select(count, read, write, std::ptr::null_mut(), timeout) })
        .map(|found| found as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::pipe;
    use std::os::fd::AsRawFd;

    #[test]
    fn it_never_writes_beyond_itself() {
        let mut set = Bitmap::default();
        for fd in [-1, RawFd::MIN, CAPACITY as RawFd, RawFd::MAX] {
            assert!(!set.put(fd, true) && !set.contains(fd), "{fd}");
        }
        assert!(set.put(CAPACITY as RawFd - 1, true) && set.contains(CAPACITY as RawFd - 1));
        assert_eq!(set.bound(&Bitmap::default()), CAPACITY);
    }

    #[test]
    fn its_bits_are_the_kernel_s() {
        let (reading, writing) = pipe().unwrap();
        let (mut read, mut write) = (Bitmap::default(), Bitmap::default());
        assert!(read.put(reading.as_raw_fd(), true) && write.put(writing.as_raw_fd(), true));
        let count = read.bound(&write);
        assert_eq!(count, reading.as_raw_fd().max(writing.as_raw_fd()) as usize + 1);
        assert_eq!(select(count, &mut read, &mut write, -1), Ok(1));
        let mut told = Vec::new();
        read.each(&write, count, |fd, can_read, can_write| told.push((fd, can_read, can_write)));
        assert_eq!(told, [(writing.as_raw_fd(), false, true)]);
    }
}
