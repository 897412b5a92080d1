//! Files whose placement on the device is chosen: one extent, or extents of a given size in rising or random order. The
//! placement is verified by the extents that the file system reports (FIEMAP).
//!
//! Writing in random order does not give a random placement: ext4 places a block where it would be if the file were
//! written in order. So the extents of two files are allocated alternately, and the blocks of one are exchanged with
//! those of the other at a random place (`EXT4_IOC_MOVE_EXT`), before they hold any data.

use crate::files::write_in_parts;
use landau_engine::{Progress, Stop};
use landau_sys::disk::{
    EXCHANGE_UNSUPPORTED, Extent, FIEMAP_UNSUPPORTED, allocate, drop_cached_pages, exchange_blocks, extents,
};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The placement of a file that is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// In one extent.
    Whole,
    /// In extents of that size.
    Extents {
        /// The size of an extent.
        bytes: u64,
        /// The seed of their order on the device, if it is random; otherwise the order is that in the file.
        seed: Option<u64>,
    },
}

/// A file's placement as the file system reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Layout {
    /// Number of extents.
    pub(crate) extents: u64,
    /// Mean size of an extent.
    pub(crate) mean_bytes: u64,
    /// The share of extents that follow the preceding extent on the device: 1 if the order on the device is that in the
    /// file, about a half if it is random; none for a single extent.
    pub(crate) rising_share: Option<f64>,
}

/// Returns the byte at an offset of the file: different in neighbouring pages, and never zero, because a hole reads as
/// zeros.
pub(crate) fn byte_at(offset: u64) -> u8 {
    (offset / 4096 % 251) as u8 + 1
}

/// Makes a file of that size and placement, unless it exists, and drops it from the page cache. A second file occupies
/// the space between extents; it is removed afterwards.
pub(crate) fn make(
    directory: &Path,
    name: &str,
    bytes: u64,
    placement: Placement,
    progress: Progress,
) -> Result<(), Stop> {
    let path = directory.join(name);
    if fs::metadata(&path).is_ok_and(|meta| meta.len() == bytes) {
        return drop_from_cache(&path);
    }
    let io = |error: std::io::Error| Stop::io("write", &error);
    let partial = directory.join(format!("{name}.partial"));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&partial).map_err(io)?;
    match placement {
        Placement::Whole => {
            allocate(&file, 0, bytes)?;
            fill(&file, bytes, progress)?;
        }
        Placement::Extents { bytes: extent, seed } => {
            let between = directory.join(format!("{name}.between"));
            let other =
                File::options().read(true).write(true).create(true).truncate(true).open(&between).map_err(io)?;
            for offset in (0..bytes).step_by(extent as usize) {
                allocate(&file, offset, extent)?;
                allocate(&other, offset, extent)?;
                progress.report();
            }
            if let Some(seed) = seed {
                shuffle(&file, &other, bytes / extent, extent, seed, progress)?;
            }
            fill(&file, bytes, progress)?;
            fs::remove_file(&between).map_err(io)?;
        }
    }
    file.sync_all().map_err(io)?;
    fs::rename(&partial, &path).map_err(io)?;
    drop_from_cache(&path)
}

/// Exchanges each extent of a file with one of the other file; those are drawn without replacement.
fn shuffle(file: &File, other: &File, count: u64, extent: u64, seed: u64, progress: Progress) -> Result<(), Stop> {
    let block = file.metadata().map_err(|error| Stop::io("fstat", &error))?.blksize();
    let blocks = extent / block.max(1);
    let mut order: Vec<u64> = (0..count).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    for (to, from) in order.into_iter().enumerate() {
        exchange_blocks(file, to as u64 * blocks, other, from * blocks, blocks).map_err(|error| {
            match error.errno {
                // Other file systems do not know the call, or refuse to exchange these blocks.
                libc::ENOTTY | libc::EINVAL | libc::EOPNOTSUPP => EXCHANGE_UNSUPPORTED,
                _ => error,
            }
        })?;
        progress.report();
    }
    Ok(())
}

fn fill(file: &File, bytes: u64, progress: Progress) -> Result<(), Stop> {
    write_in_parts(file, bytes, progress, |offset, block| {
        for (page, chunk) in (0..).zip(block.chunks_mut(4096)) {
            chunk.fill(byte_at(offset + 4096 * page));
        }
    })
}

/// Writes a file's dirty pages and drops its pages from the page cache.
fn drop_from_cache(path: &Path) -> Result<(), Stop> {
    let file = File::open(path).map_err(|error| Stop::io("open", &error))?;
    file.sync_all().map_err(|error| Stop::io("fsync", &error))?;
    Ok(drop_cached_pages(&file)?)
}

/// Returns a file's layout, or an error if it is not the one that was requested.
pub(crate) fn verify(path: &Path, bytes: u64, placement: Placement) -> Result<Layout, Stop> {
    let file = File::open(path).map_err(|error| Stop::io("open", &error))?;
    let found = extents(&file).map_err(|error| match error.errno {
        libc::ENOTTY | libc::EINVAL => FIEMAP_UNSUPPORTED.into(),
        _ => Stop::from(error),
    })?;
    layout(&found, bytes, placement)
}

fn layout(found: &[Extent], bytes: u64, placement: Placement) -> Result<Layout, Stop> {
    let covered: u64 = found.iter().map(|extent| extent.length).sum();
    let count = found.len() as u64;
    // A file system keeps tables between blocks, and may find adjacent blocks free after all.
    let (min, max) = match placement {
        Placement::Whole => (1, 1 + bytes / (16 << 20)),
        Placement::Extents { bytes: extent, .. } => (bytes / extent / 10 * 9, bytes / extent * 11 / 10 + 1),
    };
    Stop::unless(covered >= bytes && (min..=max).contains(&count), || {
        format!("the file system made {count} extents ({min} to {max} expected) that cover {covered} of {bytes} bytes")
    })?;
    let rising_share = rising_share(found);
    if let (Placement::Extents { seed: Some(_), .. }, Some(share)) = (placement, rising_share) {
        // Of 32 extents in random order, fewer than a fifth or more than four fifths follow the preceding one in one of
        // ten million cases.
        Stop::unless((0.2..=0.8).contains(&share), || {
            format!("{:.0}% of the extents follow the preceding one on the device; expected about 50%", share * 100.0)
        })?;
    }
    Ok(Layout { extents: count, mean_bytes: covered / count.max(1), rising_share })
}

/// Returns the share of extents that follow the preceding extent on the device.
fn rising_share(found: &[Extent]) -> Option<f64> {
    let rising = found.windows(2).filter(|pair| pair[0].physical < pair[1].physical).count();
    (found.len() > 1).then(|| rising as f64 / (found.len() - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const RISING: Placement = Placement::Extents { bytes: 4096, seed: None };
    const RANDOM: Placement = Placement::Extents { bytes: 4096, seed: Some(7) };

    /// Returns the extents of a file in the order of its offsets, each at the position that `place` returns.
    fn extents(count: u64, length: u64, place: impl Fn(u64) -> u64) -> Vec<Extent> {
        (0..count).map(|at| Extent { logical: at * length, physical: 2 * place(at) * length, length }).collect()
    }

    #[test]
    fn a_layout_that_was_not_requested_is_an_error() {
        let rising = |count, length| extents(count, length, |at| at);
        let expected = Layout { extents: 256, mean_bytes: 4096, rising_share: Some(1.0) };
        assert_eq!(layout(&rising(256, 4096), MIB, RISING).unwrap(), expected);
        assert!(layout(&rising(256, 4096), MIB, Placement::Whole).is_err(), "many extents instead of one");
        assert!(layout(&rising(1, MIB), MIB, RISING).is_err(), "one extent instead of many");
        assert!(layout(&rising(16, 4096), MIB, Placement::Whole).is_err(), "a part is missing");
        assert!(layout(&rising(1, MIB), MIB, Placement::Whole).is_ok());
    }

    #[test]
    fn extents_in_rising_order_are_not_random() {
        let error = layout(&extents(256, 4096, |at| at), MIB, RANDOM).unwrap_err().to_string();
        assert!(error.contains("100% of the extents"), "{error}");
        // 97 and 256 have no common divisor, so every place is used once.
        let mixed = layout(&extents(256, 4096, |at| at * 97 % 256), MIB, RANDOM).unwrap();
        assert!(mixed.rising_share.is_some_and(|share| share < 0.8), "{mixed:?}");
    }

    /// Runs on the file system of the temporary directory, if it can exchange blocks, as ext4 can.
    #[test]
    fn a_file_in_random_order_holds_its_content() {
        let directory = tempfile::tempdir().unwrap();
        match make(directory.path(), "file", MIB, RANDOM, Progress::NONE) {
            Ok(()) => {}
            Err(Stop::Refused(error)) => {
                eprintln!("skipped: {error}");
                return;
            }
            Err(other) => panic!("{other:?}"),
        }
        let path = directory.path().join("file");
        let content = fs::read(&path).unwrap();
        assert!(content.iter().zip(0..).all(|(&byte, offset)| byte == byte_at(offset)) && content.len() as u64 == MIB);
        // Other users of the file system can prevent the placement, but they do not influence the order.
        let found = self::super::extents(&File::open(&path).unwrap()).unwrap();
        let share = rising_share(&found);
        assert!(share.is_some_and(|share| (0.2..=0.8).contains(&share)), "{share:?}");
        assert!(!directory.path().join("file.between").exists());
    }
}
