//! Files whose placement on the device is chosen: one extent, or extents of a given size. The file system is asked for
//! the extents (FIEMAP) to verify it.

use landau_engine::Stop;
use landau_sys::disk::{Extent, FIEMAP_UNSUPPORTED, allocate, drop_cached_pages, extents};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Bytes of one write.
const BLOCK: usize = 1 << 20;

/// A file's placement: how many extents it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Number of extents.
    pub(crate) extents: u64,
    /// Mean size of an extent.
    pub(crate) mean_bytes: u64,
}

/// Returns the byte at an offset of the file: different in neighbouring pages, and never zero, which a hole reads as.
pub(crate) fn byte_at(offset: u64) -> u8 {
    (offset / 4096 % 251) as u8 + 1
}

/// Makes a file of that size in extents of `extent` bytes (0: one extent), unless it exists, and drops it from the page
/// cache. A second file occupies the space between the extents; it is removed afterwards.
pub(crate) fn make(directory: &Path, name: &str, bytes: u64, extent: u64) -> Result<(), Stop> {
    let path = directory.join(name);
    if fs::metadata(&path).is_ok_and(|meta| meta.len() == bytes) {
        return drop_from_cache(&path);
    }
    let io = |error: std::io::Error| Stop::io("write", &error);
    let partial = directory.join(format!("{name}.partial"));
    let file = File::create(&partial).map_err(io)?;
    if extent == 0 {
        allocate(&file, 0, bytes)?;
        fill(&file, bytes)?;
    } else {
        let between = directory.join(format!("{name}.between"));
        let other = File::create(&between).map_err(io)?;
        for offset in (0..bytes).step_by(extent as usize) {
            allocate(&file, offset, extent)?;
            allocate(&other, offset, extent)?;
        }
        fill(&file, bytes)?;
        fs::remove_file(&between).map_err(io)?;
    }
    file.sync_all().map_err(io)?;
    fs::rename(&partial, &path).map_err(io)?;
    drop_from_cache(&path)
}

fn fill(mut file: &File, bytes: u64) -> Result<(), Stop> {
    let mut block = vec![0_u8; BLOCK];
    let mut offset = 0;
    while offset < bytes {
        let count = (bytes - offset).min(BLOCK as u64) as usize;
        for (page, chunk) in block[..count].chunks_mut(4096).enumerate() {
            chunk.fill(byte_at(offset + 4096 * page as u64));
        }
        file.write_all(&block[..count]).map_err(|error| Stop::io("write", &error))?;
        offset += count as u64;
    }
    Ok(())
}

/// Writes a file's dirty pages and drops its pages from the page cache.
fn drop_from_cache(path: &Path) -> Result<(), Stop> {
    let file = File::open(path).map_err(|error| Stop::io("open", &error))?;
    file.sync_all().map_err(|error| Stop::io("fsync", &error))?;
    Ok(drop_cached_pages(&file)?)
}

/// Returns a file's layout, or an error if it is not the one that was requested.
pub(crate) fn verify(path: &Path, bytes: u64, extent: u64) -> Result<Layout, Stop> {
    let file = File::open(path).map_err(|error| Stop::io("open", &error))?;
    let found = extents(&file).map_err(|error| match error.errno {
        libc::ENOTTY | libc::EINVAL => FIEMAP_UNSUPPORTED.into(),
        _ => Stop::from(error),
    })?;
    layout(&found, bytes, extent)
}

fn layout(found: &[Extent], bytes: u64, extent: u64) -> Result<Layout, Stop> {
    let covered: u64 = found.iter().map(|extent| extent.length).sum();
    let count = found.len() as u64;
    // A file system keeps tables between blocks, and may find adjacent blocks free after all.
    let (min, max) = match extent {
        0 => (1, 1 + bytes / (16 << 20)),
        extent => (bytes / extent / 10 * 9, bytes / extent * 11 / 10 + 1),
    };
    Stop::unless(covered >= bytes && (min..=max).contains(&count), || {
        format!("the file system made {count} extents that cover {covered} of {bytes} bytes, instead of {min} to {max}")
    })?;
    Ok(Layout { extents: count, mean_bytes: covered / count.max(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_that_was_not_requested_is_an_error() {
        let extents = |count: u64, length| -> Vec<Extent> {
            (0..count).map(|at| Extent { logical: at * length, physical: 3 * at * length, length }).collect()
        };
        let mib = 1 << 20;
        let expected = Layout { extents: 256, mean_bytes: 4096 };
        assert_eq!(layout(&extents(256, 4096), mib, 4096).unwrap(), expected);
        assert!(layout(&extents(256, 4096), mib, 0).is_err(), "many extents instead of one");
        assert!(layout(&extents(1, mib), mib, 4096).is_err(), "one extent instead of many");
        assert!(layout(&extents(16, 4096), mib, 0).is_err(), "a part is missing");
        assert!(layout(&extents(1, mib), mib, 0).is_ok());
    }
}
