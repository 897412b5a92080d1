//! Functions that are missing from call chains because they ended in a jump to another function (a tail call).
//!
//! While the other function runs, the return address on the stack is still that after the call of the first one. The
//! call instruction before that address names the first one.

use crate::Symbols;
use landau_sys::kernel_text::KernelText;
use std::collections::BTreeMap;

/// Number of functions whose first bytes show whether the code can be read.
const PROBED: usize = 64;

/// The addresses that the call instructions of the kernel name.
#[derive(Debug)]
pub(crate) struct Calls {
    /// `None` if the kernel does not let this user read its code.
    text: Option<KernelText>,
    /// By return address. `None` if a register or memory has the address of the function.
    known: BTreeMap<u64, Option<u64>>,
}

impl Calls {
    /// Returns a reader of the calls of the running kernel, which has these symbols.
    pub(crate) fn of(symbols: &Symbols) -> Self {
        let is_known = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        // Before Linux 5.10 the program does not run, and on some kernels that are locked down it reads nothing.
        let reads =
            |text: &KernelText| symbols.starts().take(PROBED).any(|at| text.word(at).is_ok_and(|word| word != 0));
        Self { text: KernelText::open().ok().filter(|text| is_known && reads(text)), known: BTreeMap::new() }
    }

    /// Returns calls that are known, and no way to read others.
    #[cfg(test)]
    pub(crate) fn known(known: &[(u64, u64)]) -> Self {
        Self { text: None, known: known.iter().map(|&(place, target)| (place, Some(target))).collect() }
    }

    /// Returns whether the kernel's code can be read.
    pub(crate) fn are_readable(&self) -> bool {
        self.text.is_some()
    }

    /// Reads the call before a return address.
    pub(crate) fn read(&mut self, place: u64) {
        let Some(text) = &self.text else { return };
        self.known.entry(place).or_insert_with(|| {
            let words = [8, 4].map(|before| text.word(place.wrapping_sub(before)).unwrap_or(0));
            target(place, words)
        });
    }

    /// Returns the address that the call before a return address names. It must have been read.
    pub(crate) fn target(&self, place: u64) -> Option<u64> {
        self.known.get(&place).copied().flatten()
    }
}

/// Returns the address that a call names, from the return address and the two words before it.
fn target(place: u64, words: [u32; 2]) -> Option<u64> {
    let distance = if cfg!(target_arch = "x86_64") {
        // CALL rel32: one byte, and the distance from the return address.
        (words[0] >> 24 == 0xe8).then(|| i64::from(words[1].cast_signed()))
    } else if cfg!(target_arch = "aarch64") {
        // BL: a distance of 26 bits from the instruction itself, in instructions.
        (words[1] >> 26 == 0b10_0101).then(|| (i64::from((words[1] << 6).cast_signed()) >> 6) * 4 - 4)
    } else {
        None
    };
    distance.map(|distance| place.wrapping_add_signed(distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_call_names_the_address_at_its_distance() {
        // call -0x1234; the three bytes before it belong to another instruction.
        let words = |bytes: [u8; 8]| [0, 4].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
        let place = 0xffff_ffff_8100_2000;
        assert_eq!(target(place, words([1, 2, 3, 0xe8, 0xcc, 0xed, 0xff, 0xff])), Some(place - 0x1234));
        assert_eq!(target(place, words([1, 2, 3, 0xe8, 0x10, 0, 0, 0])), Some(place + 16));
        // call *%rax, and what cannot be read.
        assert_eq!(target(place, words([0xe8, 0, 0, 0, 0, 0, 0xff, 0xd0])), None);
        assert_eq!(target(place, [0, 0]), None);
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn a_call_names_the_address_at_its_distance() {
        let place = 0xffff_8000_8000_2000;
        // bl . - 8, bl . + 0x40, and blr x8.
        assert_eq!(target(place, [0, 0x97ff_fffe]), Some(place - 12));
        assert_eq!(target(place, [0, 0x9400_0010]), Some(place + 60));
        assert_eq!(target(place, [0, 0xd63f_0100]), None);
    }

    /// The calls of the running kernel name starts of its functions.
    #[test]
    fn calls_of_this_kernel_are_read() {
        let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let Some(symbols) = Symbols::of(&kallsyms) else { return eprintln!("skipped: no addresses in /proc/kallsyms") };
        let mut calls = Calls::of(&symbols);
        if !calls.are_readable() {
            return eprintln!("skipped: the kernel's code cannot be read");
        }
        // System calls that every kernel has; each calls other functions.
        let starts = symbols.starts().filter(|&at| symbols.name(symbols.lookup(at)).contains("sys_openat"));
        let places = starts.flat_map(|start| start..start + 512).collect::<Vec<u64>>();
        let found = places.into_iter().filter(|&place| {
            calls.read(place);
            calls.target(place).is_some_and(|target| symbols.starting_at(target).is_some())
        });
        assert!(found.count() > 0);
    }
}
