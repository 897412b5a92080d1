//! What the C library gives, for qemu is linked with one: memory, files, an end.
//!
//! `unsafe` here is calls with integers and with slices of ours; what goes beyond that says so at its place.

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{CStr, c_char, c_int, c_void};

#[link(name = "c")]
unsafe extern "C" {
    fn abort() -> !;
    fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    fn close(fd: c_int) -> c_int;
    fn free(at: *mut c_void);
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn read(fd: c_int, to: *mut c_void, size: usize) -> isize;
    fn write(fd: c_int, from: *const c_void, size: usize) -> isize;
}

const READ_ONLY: c_int = 0;
/// `O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC` of Linux; the plugin is built for nothing else.
const CREATE: c_int = 0o1 | 0o100 | 0o1000 | 0o2_000_000;

/// The C library's memory.
struct Memory;

// SAFETY: `aligned_alloc` gives memory of the size and alignment asked for, or none; `free` takes back what it gave.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let alignment = layout.align().max(core::mem::size_of::<usize>());
        // SAFETY: the alignment is a power of two and the size a multiple of it, as the function wants.
        unsafe { aligned_alloc(alignment, layout.size().next_multiple_of(alignment)) }.cast()
    }

    unsafe fn dealloc(&self, at: *mut u8, _layout: Layout) {
        // SAFETY: the caller's promise: `alloc` gave it.
        unsafe { free(at.cast()) };
    }
}

#[global_allocator]
static MEMORY: Memory = Memory;

#[panic_handler]
fn panicked(_information: &core::panic::PanicInfo) -> ! {
    complain("landau's plugin: it failed; please report this\n");
    // SAFETY: it takes nothing and never returns.
    unsafe { abort() }
}

/// The string that a pointer points to, which is in memory at `at`.
///
/// # Safety
/// There is a pointer at `at`, to a string that ends with a zero byte and lives while the result is used.
pub(crate) unsafe fn string<'a>(at: *const *const c_char) -> &'a [u8] {
    // SAFETY: the caller's promise.
    let text = unsafe { *at };
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// Writes to standard error.
pub(crate) fn complain(text: &str) {
    let _ = write_all(2, text.as_bytes());
}

fn path_of(name: &[u8]) -> Vec<u8> {
    let mut path = name.to_vec();
    path.push(0);
    path
}

/// The whole of a file.
pub(crate) fn read_file(name: &[u8]) -> Option<Vec<u8>> {
    let path = path_of(name);
    // SAFETY: `path` ends with a zero byte.
    let fd = unsafe { open(path.as_ptr().cast(), READ_ONLY) };
    if fd < 0 {
        return None;
    }
    let mut content = Vec::new();
    let mut buffer = [0_u8; 4096];
    let got = loop {
        // SAFETY: `buffer` has room for its own length.
        let got = unsafe { read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
        match usize::try_from(got) {
            Ok(got @ 1..) => content.extend_from_slice(&buffer[..got.min(buffer.len())]),
            other => break other,
        }
    };
    // SAFETY: `open` gave `fd`.
    unsafe { close(fd) };
    got.ok().map(|_| content)
}

/// A new file to write, in place of an older one.
pub(crate) fn create_file(name: &[u8]) -> Option<c_int> {
    let path = path_of(name);
    // SAFETY: `path` ends with a zero byte; a mode follows, as the flag that creates wants.
    let fd = unsafe { open(path.as_ptr().cast(), CREATE, 0o600 as c_int) };
    (fd >= 0).then_some(fd)
}

/// Writes everything; none where that failed.
pub(crate) fn write_all(fd: c_int, mut bytes: &[u8]) -> Option<()> {
    while !bytes.is_empty() {
        // SAFETY: the slice is as long as it says.
        let put = unsafe { write(fd, bytes.as_ptr().cast(), bytes.len()) };
        let put = usize::try_from(put).ok().filter(|&put| put > 0)?;
        bytes = &bytes[put.min(bytes.len())..];
    }
    Some(())
}
