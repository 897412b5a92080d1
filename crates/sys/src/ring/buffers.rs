//! Buffers that the kernel chooses from when something has arrived, so that who waits holds none.
//!
//! A ring of places, shared with the kernel, says which buffers it may fill. One that was filled belongs to us until it
//! is given back. Nothing refers to the memory of a buffer while it is the kernel's: all goes by pointers, and a slice
//! is made of what was filled only.

use crate::error::{Error, Result};
use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

/// The group under which a ring knows its buffers; there is one.
pub(super) const GROUP: u16 = 0;

/// How the ring of places must be aligned.
const PAGE: usize = 4096;

/// A number for each set of buffers, so that no piece is taken for another's.
static NEXT_SET: AtomicU64 = AtomicU64::new(1);

/// Something that has arrived. To be given back to the ring that it came from; one that is dropped instead is missing
/// there from then on.
#[derive(Debug)]
pub struct ProvidedBuffer(pub(super) Place);

#[derive(Debug)]
pub(super) enum Place {
    /// In a buffer of that set.
    Provided { set: u64, id: u16, length: u32 },
    /// In a buffer of its own.
    Own { bytes: Box<[u8]>, length: u32 },
}

impl ProvidedBuffer {
    /// How many bytes; none means that the stream has ended.
    pub fn len(&self) -> usize {
        match self.0 {
            Place::Provided { length, .. } | Place::Own { length, .. } => length as usize,
        }
    }

    /// Whether the stream has ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A set of buffers of one size.
#[derive(Debug)]
pub(super) struct BufferRing {
    set: u64,
    places: NonNull<BufRingEntry>,
    data: NonNull<u8>,
    count: u16,
    size: u32,
    tail: u16,
}

fn layouts(count: u16, size: u32) -> Result<(Layout, Layout)> {
    let places = size_of::<BufRingEntry>() * usize::from(count);
    let data = size as usize * usize::from(count);
    let too_large = |_| Error { call: "io_uring_register", errno: libc::EINVAL };
    Ok((
        Layout::from_size_align(places, PAGE).map_err(too_large)?,
        Layout::from_size_align(data, PAGE).map_err(too_large)?,
    ))
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: neither layout is of no bytes, for neither count nor size is zero (`Operations::new`).
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

impl BufferRing {
    /// So many buffers (a power of two) of that size (not zero; the caller's check), all the kernel's.
    pub(super) fn new(submitter: &Submitter<'_>, count: u16, size: u32) -> Result<Self> {
        let (places, data) = layouts(count, size)?;
        let (places, data) = (allocate(places).cast(), allocate(data));
        let set = NEXT_SET.fetch_add(1, Ordering::Relaxed);
        let mut buffers = Self { set, places, data, count, size, tail: 0 };
        let address = buffers.places.as_ptr() as u64;
        // SAFETY: the memory holds so many places and lives until the registration ends (`unregister`, which precedes
        // the drop) or for ever.
        let registered = unsafe { submitter.register_buf_ring_with_flags(address, count, GROUP, 0) };
        registered.map_err(|error| Error::from_io("io_uring_register", &error))?;
        for id in 0..count {
            buffers.give(id);
        }
        Ok(buffers)
    }

    /// Ends the registration.
    pub(super) fn unregister(submitter: &Submitter<'_>) {
        let _ = submitter.unregister_buf_ring(GROUP);
    }

    /// Where a buffer begins.
    fn address(&self, id: u16) -> NonNull<u8> {
        // SAFETY: the number is below the count (the callers' check), so the place lies within the memory.
        unsafe { self.data.add(usize::from(id) * self.size as usize) }
    }

    /// Makes a buffer the kernel's.
    fn give(&mut self, id: u16) {
        // SAFETY: the masked number is below the count, so the place lies within the memory.
        let place = unsafe { self.places.add(usize::from(self.tail & (self.count - 1))) };
        let address = self.address(id);
        // SAFETY: the kernel does not look at a place beyond the tail, and nobody else refers to it.
        let place = unsafe { &mut *place.as_ptr() };
        place.set_addr(address.as_ptr() as u64);
        place.set_len(self.size);
        place.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the pointer leads to the first place of the ring.
        let tail = unsafe { BufRingEntry::tail(self.places.as_ptr()) }.cast_mut();
        // SAFETY: the tail is aligned, lives as long as the places, and is only ever accessed like this from here on.
        let tail = unsafe { AtomicU16::from_ptr(tail) };
        tail.store(self.tail, Ordering::Release);
    }

    /// What a completion says has arrived in a buffer.
    pub(super) fn buffer(&self, id: u16, length: u32) -> ProvidedBuffer {
        debug_assert!(id < self.count && length <= self.size, "the kernel says what it was given");
        ProvidedBuffer(Place::Provided { set: self.set, id, length })
    }

    /// Whether a number and a length, of which a piece was made, are of this set.
    fn has(&self, set: u64, id: u16, length: u32) -> bool {
        set == self.set && id < self.count && length <= self.size
    }

    /// What has arrived; nothing of a piece that another ring gave.
    pub(super) fn bytes(&self, set: u64, id: u16, length: u32) -> &[u8] {
        if !self.has(set, id, length) {
            return &[];
        }
        // SAFETY: the buffer is ours from the completion that made the only piece for it until that is given back,
        // which takes the piece; it was filled up to `length` and is initialised beyond.
        unsafe { std::slice::from_raw_parts(self.address(id).as_ptr(), length as usize) }
    }

    /// Makes the buffer of a piece the kernel's again.
    pub(super) fn recycle(&mut self, set: u64, id: u16, length: u32) {
        if self.has(set, id, length) {
            self.give(id);
        }
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        if let Ok((places, data)) = layouts(self.count, self.size) {
            // SAFETY: allocated with that layout; no operation of the kernel's is left that could use it (the drop of
            // `Operations` sees to that, or this is never called).
            unsafe { dealloc(self.places.as_ptr().cast(), places) };
            // SAFETY: as above.
            unsafe { dealloc(self.data.as_ptr(), data) };
        }
    }
}
