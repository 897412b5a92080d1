//! Arrays of numbers ("lanes") in memory that the worker and its controller share.
//!
//! The worker appends each duration with two plain stores; the controller reads while the worker runs and writes the
//! record. So the worker never writes a file, allocates or locks between two readings of the clock, and its
//! measurements survive its end.
//!
//! Numbers that a process shares with its forked children work in the same way, without descriptors.

use crate::error::{Error, Result, check};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of a lane's counter in words: a cache line. The counters precede the lanes.
const COUNTER_STRIDE: usize = 8;

/// Append-only arrays in shared memory. One process appends, another reads.
#[derive(Debug)]
pub struct Lanes {
    words: &'static [AtomicU64],
    bases: Vec<usize>,
    capacities: Vec<usize>,
    locked: bool,
}

impl Lanes {
    /// Creates lanes with the given capacities in words. The worker inherits the descriptor.
    pub fn create(capacities: &[usize]) -> Result<(Self, OwnedFd)> {
        let fd = anonymous_file()?;
        let bytes = Self::byte_count(capacities);
        // SAFETY: the call takes two integers.
        check("ftruncate", unsafe { libc::ftruncate(fd.as_raw_fd(), bytes as libc::off_t) })?;
        let lanes = Self::attach(&fd, capacities)?;
        Ok((lanes, fd))
    }

    /// Maps the lanes in the process that inherited the descriptor; `capacities` must be the same.
    pub fn attach(fd: &OwnedFd, capacities: &[usize]) -> Result<Self> {
        let count = word_count(capacities);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let raw = fd.as_raw_fd();
        // SAFETY: without MAP_FIXED the kernel chooses a free address range, so no mapping in use is replaced.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 8 * count, access, libc::MAP_SHARED, raw, 0) };
        if at == libc::MAP_FAILED {
            return Err(Error::last("mmap"));
        }
        // SAFETY: the mapping holds `count` words, is page-aligned, lives until `drop` unmaps it, and every process
        // that maps it accesses it through atomics only.
        let words = unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), count) };
        let bases = bases(capacities);
        Ok(Self { words, bases, capacities: capacities.to_vec(), locked: false })
    }

    /// Returns the size of the mapping of lanes with these capacities, in bytes.
    pub fn byte_count(capacities: &[usize]) -> u64 {
        8 * word_count(capacities) as u64
    }

    /// Writes to every page, so that none faults while a call is timed, and locks them in memory if the user may.
    /// Returns whether they are locked.
    pub fn prepare(&mut self) -> bool {
        let header = self.capacities.len() * COUNTER_STRIDE;
        for word in self.words[header..].iter().step_by(512) {
            word.store(0, Ordering::Relaxed);
        }
        let bytes = size_of_val(self.words);
        // SAFETY: the range is the mapping, which lives as long as `self`.
        self.locked = unsafe { libc::mlock(self.words.as_ptr().cast(), bytes) } == 0;
        self.locked
    }

    /// Appends a value to a lane. Values beyond its capacity are dropped; the engine never takes more steps than
    /// planned.
    #[inline(always)]
    pub fn push(&self, lane: usize, value: u64) {
        let counter = &self.words[lane * COUNTER_STRIDE];
        let len = counter.load(Ordering::Relaxed) as usize;
        if len < self.capacities[lane] {
            self.words[self.bases[lane] + len].store(value, Ordering::Relaxed);
            // A reader that sees the new length must see the value as well.
            counter.store(len as u64 + 1, Ordering::Release);
        }
    }

    /// Returns the number of values in a lane.
    pub fn len(&self, lane: usize) -> usize {
        self.words[lane * COUNTER_STRIDE].load(Ordering::Acquire) as usize
    }

    /// Returns the values of a lane from `from` up to, but not including, `to`.
    pub fn read(&self, lane: usize, from: usize, to: usize) -> Vec<u64> {
        let to = to.min(self.len(lane));
        let base = self.bases[lane];
        self.words[base + from.min(to)..base + to].iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// Returns the capacity of a lane.
    pub fn capacity(&self, lane: usize) -> usize {
        self.capacities[lane]
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        let bytes = size_of_val(self.words);
        // SAFETY: `attach` mapped the range, and `words` is not reachable after the drop.
        unsafe { libc::munmap(self.words.as_ptr().cast_mut().cast(), bytes) };
    }
}

/// Returns `count` arrays of `N` numbers, all 0, that this process shares with its forked children. They stay mapped
/// for as long as the process lives. No two arrays share a cache line, so that each can have a separate writer.
pub fn numbers<const N: usize>(count: usize) -> Result<Vec<&'static [AtomicU64; N]>> {
    let stride = N.next_multiple_of(COUNTER_STRIDE);
    let word_count = stride * count.max(1);
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANON);
    // SAFETY: without MAP_FIXED the kernel chooses a free address range, so no mapping in use is replaced.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 8 * word_count, access, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(Error::last("mmap"));
    }
    // SAFETY: the mapping holds `word_count` words, is page-aligned, is never unmapped, and every process that has it
    // accesses it through atomics only.
    let words: &'static [AtomicU64] = unsafe { std::slice::from_raw_parts(at.cast(), word_count) };
    Ok(words.chunks_exact(stride).take(count).filter_map(<[AtomicU64]>::first_chunk).collect())
}

/// A number that one process writes and another reads.
#[derive(Debug)]
pub struct Number(File);

impl Number {
    /// Creates a number, which is 0. Its descriptor is not inherited, unless it becomes a standard stream.
    pub fn create() -> Result<Self> {
        let file = File::from(anonymous_file()?);
        // The copy is closed when a program is executed; the original is not.
        let copy = file.try_clone().map_err(|error| Error::from_io("dup", &error))?;
        let number = Self(copy);
        number.set(0)?;
        Ok(number)
    }

    /// Returns the number that a descriptor refers to.
    pub fn of(fd: OwnedFd) -> Self {
        Self(File::from(fd))
    }

    /// Returns another descriptor of the number, for the process that writes.
    pub fn descriptor(&self) -> Result<OwnedFd> {
        Ok(self.0.try_clone().map_err(|error| Error::from_io("dup", &error))?.into())
    }

    /// Writes the number.
    pub fn set(&self, value: u64) -> Result<()> {
        self.0.write_all_at(&value.to_ne_bytes(), 0).map_err(|error| Error::from_io("pwrite", &error))
    }

    /// Reads the number.
    pub fn get(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, 0).map_err(|error| Error::from_io("pread", &error))?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

fn bases(capacities: &[usize]) -> Vec<usize> {
    let mut next = capacities.len() * COUNTER_STRIDE;
    capacities
        .iter()
        .map(|capacity| {
            let base = next;
            next += capacity;
            base
        })
        .collect()
}

fn word_count(capacities: &[usize]) -> usize {
    capacities.len() * COUNTER_STRIDE + capacities.iter().sum::<usize>()
}

/// Creates a file in memory.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn anonymous_file() -> Result<OwnedFd> {
    // SAFETY: the name is a C string, and the call returns a new descriptor.
    check("memfd_create", unsafe { libc::memfd_create(c"landau".as_ptr(), 0) }).map(crate::descriptor::own)
}

/// Creates an unnamed file: in the temporary directory, and removed at once.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn anonymous_file() -> Result<OwnedFd> {
    let path =
        std::env::temp_dir().join(format!("landau-lanes-{}-{}", std::process::id(), crate::clock::monotonic_ns()));
    let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(|error| Error::from_io("open", &error))?;
    std::fs::remove_file(&path).map_err(|error| Error::from_io("unlink", &error))?;
    let fd = OwnedFd::from(file);
    crate::descriptor::set_inherited(&fd)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mapping_reads_what_another_appends() {
        let (mut writer, fd) = Lanes::create(&[4, 2]).unwrap();
        let reader = Lanes::attach(&fd, &[4, 2]).unwrap();
        writer.prepare();
        for value in [10, 20, 30] {
            writer.push(0, value);
        }
        writer.push(1, 7);
        assert_eq!(reader.read(0, 1, usize::MAX), [20, 30]);
        assert_eq!(reader.read(1, 0, usize::MAX), [7]);
    }

    #[test]
    fn shared_numbers_are_apart() {
        let arrays = numbers::<3>(2).unwrap();
        arrays[0][2].store(7, Ordering::Relaxed);
        assert_eq!((arrays.len(), arrays[0][2].load(Ordering::Relaxed)), (2, 7));
        assert!(arrays[1].iter().all(|number| number.load(Ordering::Relaxed) == 0));
        let place = |array: &[AtomicU64; 3]| array.as_ptr() as usize;
        assert_eq!((place(arrays[0]) % 64, place(arrays[1]) % 64), (0, 0));
    }

    #[test]
    fn a_number_is_read_through_another_descriptor() {
        let number = Number::create().unwrap();
        let other = Number::of(number.descriptor().unwrap());
        assert_eq!(number.get().unwrap(), 0);
        other.set(u64::MAX - 7).unwrap();
        assert_eq!(number.get().unwrap(), u64::MAX - 7);
    }

    #[test]
    fn a_full_lane_never_writes_into_the_next() {
        let (lanes, _fd) = Lanes::create(&[1, 1]).unwrap();
        lanes.push(0, 1);
        lanes.push(0, 2);
        assert_eq!((lanes.len(0), lanes.read(1, 0, 1)), (1, Vec::new()));
    }
}
