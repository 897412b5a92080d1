//! Interference on the processor around a timed child: RCU softirqs, and the time of the canary.
//!
//! A call among sleepers can be slow because the kernel meanwhile frees the remains of ended processes in an RCU
//! softirq, or because the processor is slow at that moment. Both are read before and after the timed child, never in
//! between. The number of softirqs is at a fixed offset in `/proc/softirqs`, which every user may read: a line has ten
//! characters for each processor. Reading it takes a few microseconds and does not grow the memory of this process,
//! which every fork copies.

use super::helper::now_ns;
use core::ffi::{c_char, c_int, c_long};
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

unsafe extern "C" {
    fn getppid() -> c_int;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn pread(fd: c_int, buffer: *mut u8, length: usize, offset: c_long) -> isize;
}

/// The number of consecutive calls of the canary; the fastest counts, as in the engine.
const CANARY_CALLS: u32 = 6;
/// The width of a number in characters.
const DIGITS: usize = 10;

/// The descriptor of `/proc/softirqs`, negative if it is not watched, and the offset of the number in it.
static FILE: AtomicI32 = AtomicI32::new(-1);
static PLACE: AtomicU64 = AtomicU64::new(0);

/// Watches the number at the offset `place` from now on. Returns whether it can be read.
pub(super) fn watch(place: u64) -> bool {
    if FILE.load(Ordering::Relaxed) < 0 {
        // SAFETY: the path is a C string; 0 is O_RDONLY.
        FILE.store(unsafe { open(c"/proc/softirqs".as_ptr(), 0) }, Ordering::Relaxed);
    }
    PLACE.store(place, Ordering::Relaxed);
    softirqs().is_some()
}

/// Returns the watched number, if it is watched and can be read.
pub(super) fn softirqs() -> Option<u64> {
    let file = FILE.load(Ordering::Relaxed);
    let mut text = [0_u8; DIGITS];
    if file < 0 {
        return None;
    }
    // SAFETY: the buffer is writable for its whole length.
    let got = unsafe { pread(file, text.as_mut_ptr(), DIGITS, PLACE.load(Ordering::Relaxed) as c_long) };
    if got == DIGITS as isize { number(&text) } else { None }
}

/// Parses a number with leading spaces.
fn number(text: &[u8]) -> Option<u64> {
    let mut digits = text.iter().skip_while(|byte| **byte == b' ').peekable();
    digits.peek()?;
    digits.try_fold(0, |value, byte| byte.is_ascii_digit().then(|| 10 * value + u64::from(byte - b'0')))
}

/// Returns the time of the fastest of a few cheap calls in a row, in nanoseconds.
pub(super) fn canary_ns() -> u64 {
    let mut fastest = u64::MAX;
    for _ in 0..CANARY_CALLS {
        let before_ns = now_ns();
        // SAFETY: the call takes nothing and cannot fail.
        unsafe { getppid() };
        fastest = fastest.min(now_ns() - before_ns);
    }
    fastest
}
