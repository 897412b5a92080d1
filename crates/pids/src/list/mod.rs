//! The allocators, one file each. `cargo xtask registry` generates the lines between the markers.

use crate::Model;

// registry:begin
mod freebsd_bitmap;
mod freebsd_scan;
mod hash_probe;
mod illumos_hash;
mod linux_bitmap;
mod linux_idr;
mod netbsd_table;
mod openbsd_random;

/// Every allocator, by name.
pub const ALL: &[&Model] = &[
    &freebsd_bitmap::MODEL,
    &freebsd_scan::MODEL,
    &hash_probe::MODEL,
    &illumos_hash::MODEL,
    &linux_bitmap::MODEL,
    &linux_idr::MODEL,
    &netbsd_table::MODEL,
    &openbsd_random::MODEL,
];
// registry:end

/// The names of all allocators.
pub const NAMES: &[&str] = &names();

const fn names() -> [&'static str; ALL.len()] {
    let mut names = [""; ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = ALL[index].name;
        index += 1;
    }
    names
}
