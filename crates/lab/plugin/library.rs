//! Functions of the C library, which qemu is linked with: memory, files, abort.
//!
//! `unsafe` here calls C functions with integers and with valid slices; anything else is explained separately.

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
/// `O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC` of Linux, the only system that the plugin is built for.
const CREATE: c_int = 0o1 | 0o100 | 0o1000 | 0o2_000_000;

/// The C library's allocator.
struct Memory;

// SAFETY: `aligned_alloc` returns memory of the requested size and alignment, or null; `free` releases it.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let alignment = layout.align().max(core::mem::size_of::<usize>());
        // SAFETY: the alignment is a power of two and the size a multiple of it, as the function requires.
        unsafe { aligned_alloc(alignment, layout.size().next_multiple_of(alignment)) }.cast()
    }

    unsafe fn dealloc(&self, at: *mut u8, _layout: Layout) {
        // SAFETY: the caller guarantees that `alloc` returned it.
        unsafe { free(at.cast()) };
    }
}

#[global_allocator]
static MEMORY: Memory = Memory;

#[panic_handler]
fn panicked(_information: &core::panic::PanicInfo) -> ! {
    complain("landau's plugin: internal error; please report it\n");
    // SAFETY: it has no arguments and never returns.
    unsafe { abort() }
}

/// Returns the string that the pointer at `at` points to.
///
/// # Safety
/// At `at` is a pointer to a NUL-terminated string that lives as long as the result.
pub(crate) unsafe fn string<'a>(at: *const *const c_char) -> &'a [u8] {
    // SAFETY: guaranteed by the caller.
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

/// Returns the content of a file.
pub(crate) fn read_file(name: &[u8]) -> Option<Vec<u8>> {
    let path = path_of(name);
    // SAFETY: `path` is NUL-terminated.
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
    // SAFETY: `open` returned `fd`.
    unsafe { close(fd) };
    got.ok().map(|_| content)
}

/// Creates a file for writing, or truncates it.
pub(crate) fn create_file(name: &[u8]) -> Option<c_int> {
    let path = path_of(name);
    // SAFETY: `path` is NUL-terminated; a mode follows, as `O_CREAT` requires.
    let fd = unsafe { open(path.as_ptr().cast(), CREATE, 0o600 as c_int) };
    (fd >= 0).then_some(fd)
}

/// Writes everything; `None` if that fails.
pub(crate) fn write_all(fd: c_int, mut bytes: &[u8]) -> Option<()> {
    while !bytes.is_empty() {
        // SAFETY: pointer and length are those of a slice.
        let put = unsafe { write(fd, bytes.as_ptr().cast(), bytes.len()) };
        let put = usize::try_from(put).ok().filter(|&put| put > 0)?;
        bytes = &bytes[put.min(bytes.len())..];
    }
    Some(())
}
