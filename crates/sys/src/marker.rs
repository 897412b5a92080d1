//! Marker instructions: no-ops that an emulator recognises.
//!
//! `landau explain` counts a guest's instructions with a plugin of the emulator (`crates/lab/plugin/lib.rs`), which
//! must know which of them belong to a timed call. Therefore the timer executes a no-op before and after each call, in
//! a form that no compiler emits. It costs one slot of the processor's decoder, outside the two readings of the clock.
//! Only x86-64 has markers.

/// The number of phases with markers. No benchmark has more than a few phases; further ones have no marker.
const PHASES: usize = 16;

/// The displacement that identifies our no-ops: `LAN` in memory, then the marker's number.
#[cfg(target_arch = "x86_64")]
const PREFIX: u32 = u32::from_le_bytes(*b"LAN\0");

const PASS: u32 = 0x01;
const BEGIN: u32 = 0x20;
const END: u32 = 0x40;

/// Executes the no-op with this number.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn marker<const NUMBER: u32>() {
    // SAFETY: the architecture defines the instruction as a no-op: it accesses no memory and changes no flag.
    unsafe {
        core::arch::asm!(
            "nop dword ptr [rax + rax + {what}]",
            what = const PREFIX | NUMBER << 24,
            options(nomem, nostack, preserves_flags)
        );
    };
}

/// This processor has no markers.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
fn marker<const NUMBER: u32>() {}

/// Executes the marker of a phase. `phase` is almost always a constant, and then the match compiles to a single no-op.
macro_rules! of_phase {
    ($base:expr, $phase:expr, $($number:literal)+) => {
        match $phase {
            $($number => marker::<{ $base + $number }>(),)+
            PHASES.. => {}
        }
    };
}

/// Marks the start of a pass.
#[inline(always)]
pub fn pass() {
    marker::<PASS>();
}

/// Marks the start of a timed call of a phase.
#[inline(always)]
pub fn begin(phase: usize) {
    of_phase!(BEGIN, phase, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

/// Marks the successful end of a timed call of a phase.
#[inline(always)]
pub fn end(phase: usize) {
    of_phase!(END, phase, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_marker_is_the_instruction_that_the_plugin_expects() {
        // Inverted, so that the bytes are not in the program as a constant.
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
