//! Marks: instructions that do nothing on a processor and that an emulator can recognise.
//!
//! `landau explain` counts a guest's instructions from outside, by a plugin of the emulator
//! (`crates/lab/plugin/lib.rs`), and has to know which of them belong to a timed call. So the stopwatch executes a no-
//! op of a form that no compiler emits before and after each. It costs a processor one slot of its decoder, outside
//! what lies between the two readings of the clock; on other processors than x86-64 there is none.

/// How many phases have marks of their own. No benchmark has more than a handful; a phase beyond has none.
const PHASES: usize = 16;

/// The displacement that makes the no-op ours: `LAN` in memory, then what the mark says.
#[cfg(target_arch = "x86_64")]
const OURS: u32 = u32::from_le_bytes(*b"LAN\0");

const PASS: u32 = 0x01;
const BEGIN: u32 = 0x20;
const END: u32 = 0x40;

/// The no-op that says `WHAT`.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn mark<const WHAT: u32>() {
    // SAFETY: a no-op of the architecture: it computes an address and neither uses it nor changes a flag.
    unsafe {
        std::arch::asm!(
            "nop dword ptr [rax + rax + {what}]",
            what = const OURS | WHAT << 24,
            options(nomem, nostack, preserves_flags)
        );
    };
}

/// No mark is known for this processor.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
fn mark<const WHAT: u32>() {}

/// The mark of a phase. `phase` is nearly always a constant where this is called, and one no-op is left of it all.
macro_rules! of_phase {
    ($base:expr, $phase:expr, $($number:literal)+) => {
        match $phase {
            $($number => mark::<{ $base + $number }>(),)+
            PHASES.. => {}
        }
    };
}

/// A pass begins: what was marked before belongs to none.
#[inline(always)]
pub fn pass() {
    mark::<PASS>();
}

/// A timed call of a phase is about to begin.
#[inline(always)]
pub fn begin(phase: usize) {
    of_phase!(BEGIN, phase, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

/// The timed call of a phase has succeeded.
#[inline(always)]
pub fn end(phase: usize) {
    of_phase!(END, phase, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_mark_is_the_eight_bytes_that_the_plugin_looks_for() {
        // The other way round, so that what is looked for stands nowhere as a constant.
        const INVERTED: u64 = !u64::from_le_bytes([0x0f, 0x1f, 0x84, 0x00, b'L', b'A', b'N', 0x23]);

        #[inline(never)]
        fn marked() {
            super::begin(std::hint::black_box(3));
        }
        marked();
        let code = std::fs::read("/proc/self/exe").unwrap();
        let expected = (!std::hint::black_box(INVERTED)).to_le_bytes();
        assert!(code.windows(8).any(|bytes| bytes == expected));
    }
}
