//! Maps addresses to functions.
//!
//! The file has 16 bytes for each symbol, sorted by address: the address, the function's number and its traits, all
//! little-endian. The names are in landau (`crates/profile/src/symbols.rs`).

use crate::library::read_file;
use alloc::vec::Vec;

/// The function number of all addresses in the user half of the address space.
pub(crate) const USER: u32 = 0;

/// The function number of kernel addresses before the first symbol.
pub(crate) const UNKNOWN: u32 = 1;

/// The start of the kernel's half of the address space.
const KERNEL: u64 = 1 << 63;

/// The kernel's symbols.
pub(crate) struct Symbols {
    rows: Vec<(u64, u32, u32)>,
}

/// The function of an address.
pub(crate) struct Symbol {
    /// Its first address.
    pub(crate) start: u64,
    /// The address after its last byte.
    pub(crate) end: u64,
    pub(crate) function: u32,
    pub(crate) traits: u32,
}

impl Symbols {
    /// Reads the file; `None` if that fails.
    pub(crate) fn read(name: &[u8]) -> Option<Self> {
        let content = read_file(name)?;
        let word = |row: &[u8], at: usize| row[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let rows = content.chunks_exact(16).map(|row| {
            let address = u64::from(word(row, 4)) << 32 | u64::from(word(row, 0));
            (address, word(row, 8), word(row, 12))
        });
        Some(Self { rows: rows.collect() })
    }

    /// Returns the function at an address.
    pub(crate) fn find(&self, address: u64) -> Symbol {
        if address < KERNEL {
            return Symbol { start: 0, end: KERNEL, function: USER, traits: 0 };
        }
        let after = self.rows.partition_point(|row| row.0 <= address);
        let end = self.rows.get(after).map_or(u64::MAX, |row| row.0);
        let found = after.checked_sub(1).and_then(|index| self.rows.get(index));
        let &(start, function, traits) = found.unwrap_or(&(KERNEL, UNKNOWN, 0));
        Symbol { start, end, function, traits }
    }
}
