//! The file of counts: a sequence of entries, each a tag and numbers in LEB128: seven bits per byte, least significant
//! first.
//!
//! | tag | numbers | means |
//! |---|---|---|
//! | 1 | parent, function | the next node of the tree; nodes are numbered from 1, 0 is the measured program |
//! | 2 | | a pass begins |
//! | 3 | phase, count of pairs, pairs of node and instructions | a timed call that succeeded |
//! | 4 | | the tree is full: chains are incomplete |
//! | 5 | | the last entry: qemu exited normally |

use crate::library::{complain, create_file, write_all};
use alloc::vec::Vec;
use core::ffi::c_int;

/// The file, and the bytes that are not yet written.
pub(crate) struct Output {
    file: c_int,
    bytes: Vec<u8>,
    has_failed: bool,
    has_overflown: bool,
}

impl Output {
    /// Creates the file; `None` if that fails.
    pub(crate) fn create(name: &[u8]) -> Option<Self> {
        let file = create_file(name)?;
        write_all(file, b"landau counts 1\n")?;
        Some(Self { file, bytes: Vec::new(), has_failed: false, has_overflown: false })
    }

    pub(crate) fn node(&mut self, parent: u32, function: u32) {
        self.number(1);
        self.number(u64::from(parent));
        self.number(u64::from(function));
    }

    pub(crate) fn pass(&mut self) {
        self.number(2);
        self.write();
    }

    /// Begins the entry of a timed call; `pairs` calls of [`Self::count`] must follow.
    pub(crate) fn timed_call(&mut self, phase: u8, pairs: usize) {
        self.number(3);
        self.number(u64::from(phase));
        self.number(pairs as u64);
    }

    pub(crate) fn count(&mut self, node: u32, count: u64) {
        self.number(u64::from(node));
        self.number(count);
    }

    pub(crate) fn overflow(&mut self) {
        if !self.has_overflown {
            self.has_overflown = true;
            self.number(4);
        }
    }

    pub(crate) fn end(&mut self) {
        self.number(5);
        self.write();
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Writes all bytes to the file, once for each pass and call: qemu may be killed as soon as the guest is done, and
    /// buffered bytes would be lost.
    pub(crate) fn write(&mut self) {
        if !self.has_failed && write_all(self.file, &self.bytes).is_none() {
            self.has_failed = true;
            complain("landau's plugin: cannot write the counts; check the free space\n");
        }
        self.bytes.clear();
    }
}
