//! Mappings of files and their resident pages, memory that a host must supply, and the allocator.

use crate::error::{Error, Result, check};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A read-only shared mapping of a part of a file.
///
/// The file must not be truncated below the mapped part while the mapping is read: benchmarks map files that they
/// created in a separate directory.
#[derive(Debug)]
pub struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to the thread that created it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file from `offset` (a multiple of the page size) for reading.
    #[inline(always)]
    pub fn new(file: BorrowedFd<'_>, offset: u64, len: usize, populate: bool) -> Result<Self> {
        let flags = libc::MAP_SHARED | if populate { POPULATE } else { 0 };
        let raw = file.as_raw_fd();
        // SAFETY: without MAP_FIXED the kernel chooses a free address range, so no mapping in use is replaced.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, flags, raw, offset as libc::off_t) };
        if at == libc::MAP_FAILED {
            return Err(Error::last("mmap"));
        }
        NonNull::new(at.cast()).map(|at| Self { at, len }).ok_or(Error { call: "mmap", errno: libc::ENOMEM })
    }

    /// Reads the first byte of the mapping, which faults its page in.
    #[inline(always)]
    pub fn touch(&self) -> u8 {
        // SAFETY: the mapping is readable and at least one byte long. Volatile, so that the read is not optimised away.
        unsafe { self.at.as_ptr().read_volatile() }
    }

    /// Unmaps the mapping.
    #[inline(always)]
    pub fn unmap(self) -> Result<()> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `new` created the mapping, and as `self` is consumed, it is never used again.
        check("munmap", unsafe { libc::munmap(this.at.as_ptr().cast(), this.len) }).map(drop)
    }

    /// Returns how many pages of the mapping are resident: OpenBSD has not reported it since 6.5.
    #[cfg(target_os = "openbsd")]
    pub fn resident_pages(&self, _page_bytes: usize) -> Result<usize> {
        Err(Error::unsupported("mincore"))
    }

    /// Returns how many pages of the mapping are resident.
    #[cfg(not(target_os = "openbsd"))]
    pub fn resident_pages(&self, page_bytes: usize) -> Result<usize> {
        let mut pages = vec![0_u8; self.len.div_ceil(page_bytes)];
        // SAFETY: the range is mapped and the vector has a byte for each of its pages.
        let result = unsafe { libc::mincore(self.at.as_ptr().cast(), self.len, pages.as_mut_ptr().cast()) };
        check("mincore", result)?;
        Ok(pages.iter().filter(|&&page| page & 1 == 1).count())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` created the mapping, and it is not used after the drop. A failure could not be reported.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const POPULATE: libc::c_int = libc::MAP_POPULATE;
#[cfg(target_os = "freebsd")]
const POPULATE: libc::c_int = libc::MAP_PREFAULT_READ;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
const POPULATE: libc::c_int = 0;

/// Whether this system can populate a mapping when it is created.
pub const CAN_POPULATE: bool = POPULATE != 0;

/// Makes the kernel allocate and free `kernel_bytes` of memory for its own objects and `page_bytes` for pages of
/// programs, and write to all of it, so that it hands out this memory next. In a virtual machine the host may have to
/// supply a page when the guest first writes to it, and the guest cannot see which pages those are.
///
/// Linux takes the memory of its own objects and that of programs from different blocks. Elsewhere, and if the kernel
/// refuses the addresses of its page tables, the whole is allocated for pages. Returns the error of the latter case.
///
/// # Errors
///
/// `ENOMEM` if the kernel refuses the memory.
pub fn supply(kernel_bytes: usize, page_bytes: usize) -> Result<Option<Error>> {
    #[cfg(target_os = "linux")]
    let refused = match supply_tables(kernel_bytes) {
        Ok(()) => return supply_pages(page_bytes).map(|()| None),
        // The tables need many times as many addresses, which a limit (`RLIMIT_AS`) may refuse.
        Err(error) => Some(error),
    };
    #[cfg(not(target_os = "linux"))]
    let refused = None;
    supply_pages(kernel_bytes.saturating_add(page_bytes)).map(|()| refused)
}

fn supply_pages(bytes: usize) -> Result<()> {
    if bytes > 0 {
        Anonymous::new(bytes, POPULATE)?.write_each(page_bytes());
    }
    Ok(())
}

/// Makes the kernel allocate page tables of `bytes` in all, and free them. They describe addresses that are only read,
/// so no other memory is needed: each of these addresses is the same page of zeros.
#[cfg(target_os = "linux")]
fn supply_tables(bytes: usize) -> Result<()> {
    // `membarrier(2)`.
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    let page = page_bytes();
    let tables = bytes.div_ceil(page);
    if tables == 0 {
        return Ok(());
    }
    // A table is a page of addresses of eight bytes, each that of a page.
    let reach = page / 8 * page;
    let memory = Anonymous::with_access(tables.saturating_mul(reach), libc::PROT_READ, libc::MAP_NORESERVE)?;
    memory.refuse_huge_pages();
    for table in 0..tables {
        // SAFETY: the offset is within the mapping.
        let byte = unsafe { memory.at.as_ptr().add(table * reach) };
        // SAFETY: the mapping is readable. Volatile, so that the read is not optimised away.
        unsafe { byte.read_volatile() };
    }
    drop(memory);
    // Linux frees page tables soon after no processor can be using them any more, which this call waits for. If it
    // fails, they are freed a little later.
    // SAFETY: the call takes integers.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    Ok(())
}

/// The distance between writes that reach every line of a cache: no last-level cache has shorter lines.
const CACHE_LINE_BYTES: usize = 64;

/// Displaces the contents of this processor's caches: allocates memory from the kernel, in huge pages if there are any,
/// writes to each of its cache lines, and frees it. It writes twice, because not every cache replaces the least
/// recently used line.
///
/// # Errors
///
/// `ENOMEM` if the kernel refuses the memory.
pub fn displace_caches(bytes: usize) -> Result<()> {
    let memory = Anonymous::new(bytes, 0)?;
    memory.prefer_huge_pages();
    for _ in 0..2 {
        memory.write_each(CACHE_LINE_BYTES);
    }
    Ok(())
}

/// A mapping of memory that belongs to no file.
struct Anonymous {
    at: NonNull<u8>,
    len: usize,
}

impl Anonymous {
    fn new(len: usize, flags: libc::c_int) -> Result<Self> {
        Self::with_access(len, libc::PROT_READ | libc::PROT_WRITE, flags)
    }

    fn with_access(len: usize, access: libc::c_int, flags: libc::c_int) -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | flags;
        // SAFETY: without MAP_FIXED the kernel chooses a free address range, so no mapping in use is replaced.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(Error::last("mmap"));
        }
        NonNull::new(at.cast()).map(|at| Self { at, len }).ok_or(Error { call: "mmap", errno: libc::ENOMEM })
    }

    /// Requests huge pages, which the kernel may not have.
    fn prefer_huge_pages(&self) {
        #[cfg(target_os = "linux")]
        // SAFETY: the range is that of the mapping, and the advice does not change its contents.
        let _ = unsafe { libc::madvise(self.at.as_ptr().cast(), self.len, libc::MADV_HUGEPAGE) };
    }

    /// Refuses huge pages, which need no page tables.
    #[cfg(target_os = "linux")]
    fn refuse_huge_pages(&self) {
        // SAFETY: as in `prefer_huge_pages`.
        let _ = unsafe { libc::madvise(self.at.as_ptr().cast(), self.len, libc::MADV_NOHUGEPAGE) };
    }

    /// Writes to each multiple of `step` bytes.
    fn write_each(&self, step: usize) {
        for offset in (0..self.len).step_by(step) {
            // SAFETY: the offset is within the mapping.
            let byte = unsafe { self.at.as_ptr().add(offset) };
            // SAFETY: the mapping is writable, and nothing else uses it. Volatile, so that no write is optimised away.
            unsafe { byte.write_volatile(1) };
        }
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: `new` created the mapping, and it is not used after the drop. It fails only for a wrong range.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Makes all threads allocate from one arena from now on. Otherwise glibc reserves 64 MiB of address space for the
/// arena of each thread. If the limit on the address space (`RLIMIT_AS`) forbids that, each allocation of the thread is
/// a mapping of at least one page. With other C libraries, this changes nothing.
pub fn share_one_arena() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the call takes integers. If it fails, each thread keeps its own arena.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Returns the size of a page in bytes.
pub fn page_bytes() -> usize {
    // SAFETY: the call takes an integer and accesses no memory of ours.
    let value = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(value).unwrap_or(4096)
}
