//! Provided buffers: the kernel picks one when data arrives, so that waiting connections hold none.
//!
//! A ring of entries, shared with the kernel, lists the buffers that it may fill. A filled buffer belongs to us until
//! it is recycled. No reference to the memory of a buffer exists while the kernel owns it: all access goes through
//! pointers, and a slice covers only the filled part.

use crate::error::{Error, Result};
use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

/// The buffer group of a ring; there is only one.
pub(super) const GROUP: u16 = 0;

/// The alignment that the ring of entries must have.
const PAGE: usize = 4096;

/// The number of the next buffer ring, so that a buffer is not mistaken for one of another ring.
static NEXT_RING: AtomicU64 = AtomicU64::new(1);

/// A buffer with data that has arrived. Return it to the ring that it came from: the ring loses a buffer that is
/// dropped instead.
#[derive(Debug)]
pub struct ProvidedBuffer(pub(super) Place);

#[derive(Debug)]
pub(super) enum Place {
    /// In a provided buffer of this ring.
    Provided { ring: u64, id: u16, length: u32 },
    /// In a separate buffer.
    Own { bytes: Box<[u8]>, length: u32 },
}

impl ProvidedBuffer {
    /// Returns the number of bytes. 0 means that the stream has ended.
    pub fn len(&self) -> usize {
        match self.0 {
            Place::Provided { length, .. } | Place::Own { length, .. } => length as usize,
        }
    }

    /// Returns whether the stream has ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Buffers of one size, and the ring of entries that lists those of the kernel.
#[derive(Debug)]
pub(super) struct BufferRing {
    number: u64,
    entries: NonNull<BufRingEntry>,
    data: NonNull<u8>,
    count: u16,
    size: u32,
    tail: u16,
    /// The number of filled buffers that are not recycled.
    held_count: u16,
}

fn layouts(count: u16, size: u32) -> Result<(Layout, Layout)> {
    let entries = size_of::<BufRingEntry>() * usize::from(count);
    let data = size as usize * usize::from(count);
    let too_large = |_| Error { call: "io_uring_register", errno: libc::EINVAL };
    Ok((
        Layout::from_size_align(entries, PAGE).map_err(too_large)?,
        Layout::from_size_align(data, PAGE).map_err(too_large)?,
    ))
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: neither layout has size zero, because neither count nor size is zero (`Operations::new`).
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

impl BufferRing {
    /// Registers `count` buffers (a power of two) of `size` bytes (not zero; the caller checks both). The kernel owns
    /// them all.
    pub(super) fn new(submitter: &Submitter<'_>, count: u16, size: u32) -> Result<Self> {
        let (entries, data) = layouts(count, size)?;
        let (entries, data) = (allocate(entries).cast(), allocate(data));
        let number = NEXT_RING.fetch_add(1, Ordering::Relaxed);
        let mut buffers = Self { number, entries, data, count, size, tail: 0, held_count: 0 };
        let address = buffers.entries.as_ptr() as u64;
        // SAFETY: the memory holds `count` entries and lives until the registration ends (`unregister`, which precedes
        // the drop) or for ever.
        let registered = unsafe { submitter.register_buf_ring_with_flags(address, count, GROUP, 0) };
        registered.map_err(|error| Error::from_io("io_uring_register", &error))?;
        for id in 0..count {
            buffers.provide(id);
        }
        Ok(buffers)
    }

    /// Ends the registration.
    pub(super) fn unregister(submitter: &Submitter<'_>) {
        let _ = submitter.unregister_buf_ring(GROUP);
    }

    /// Returns the address of a buffer.
    fn address(&self, id: u16) -> NonNull<u8> {
        // SAFETY: the number is less than the count, as the callers check, so the address lies within the memory.
        unsafe { self.data.add(usize::from(id) * self.size as usize) }
    }

    /// Gives a buffer to the kernel.
    fn provide(&mut self, id: u16) {
        // SAFETY: the masked number is less than the count, so the entry lies within the memory.
        let entry = unsafe { self.entries.add(usize::from(self.tail & (self.count - 1))) };
        let address = self.address(id);
        // SAFETY: the kernel does not read entries beyond the tail, and no other reference to this one exists.
        let entry = unsafe { &mut *entry.as_ptr() };
        entry.set_addr(address.as_ptr() as u64);
        entry.set_len(self.size);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the pointer is to the first entry of the ring.
        let tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) }.cast_mut();
        // SAFETY: the tail is aligned, lives as long as the entries, and from here on is only accessed atomically.
        let tail = unsafe { AtomicU16::from_ptr(tail) };
        tail.store(self.tail, Ordering::Release);
    }

    /// Returns the buffer that a completion names.
    pub(super) fn buffer(&mut self, id: u16, length: u32) -> ProvidedBuffer {
        debug_assert!(id < self.count && length <= self.size, "the kernel names a buffer that it was given");
        self.held_count += 1;
        ProvidedBuffer(Place::Provided { ring: self.number, id, length })
    }

    /// Returns whether the kernel has a buffer, or a completion has one that is not taken yet.
    pub(super) fn has_any(&self) -> bool {
        self.held_count < self.count
    }

    /// Returns whether a buffer is one of this ring.
    fn has(&self, ring: u64, id: u16, length: u32) -> bool {
        ring == self.number && id < self.count && length <= self.size
    }

    /// Returns the bytes of a buffer; an empty slice if it belongs to another ring.
    pub(super) fn bytes(&self, ring: u64, id: u16, length: u32) -> &[u8] {
        if !self.has(ring, id, length) {
            return &[];
        }
        // SAFETY: the buffer is ours from the completion that made its only `ProvidedBuffer` until that is recycled,
        // which consumes it; the kernel filled `length` bytes, and the memory was zeroed when it was allocated.
        unsafe { std::slice::from_raw_parts(self.address(id).as_ptr(), length as usize) }
    }

    /// Gives a filled buffer back to the kernel.
    pub(super) fn recycle(&mut self, ring: u64, id: u16, length: u32) {
        if self.has(ring, id, length) {
            self.held_count -= 1;
            self.provide(id);
        }
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        if let Ok((entries, data)) = layouts(self.count, self.size) {
            // SAFETY: allocated with this layout, and the registration has ended: `Operations` drops this only after
            // that.
            unsafe { dealloc(self.entries.as_ptr().cast(), entries) };
            // SAFETY: allocated with this layout, and no operation that could fill a buffer is in flight: `Operations`
            // drops this only after the last has completed.
            unsafe { dealloc(self.data.as_ptr(), data) };
        }
    }
}
