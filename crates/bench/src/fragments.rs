//! Files whose place on the device is chosen: in one piece, or in pieces of a given size, each proved by asking the
//! file system where the file lies.

use landau_engine::Stop;
use landau_sys::disk::{Extent, FIEMAP_UNSUPPORTED, allocate, drop_cached_pages, extents};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// What is written at once.
const BLOCK: usize = 1 << 20;

/// The byte at a place of a file: another in each page, and never zero, which a hole would be read as.
pub(crate) fn byte_at(offset: u64) -> u8 {
    (offset / 4096 % 251) as u8 + 1
}

/// Makes a file of so many bytes in pieces of `piece` bytes (0: in one), if it is not there yet; it is then cold. A
/// second file takes the places between the pieces and is removed again.
pub(crate) fn file(folder: &Path, name: &str, bytes: u64, piece: u64) -> Result<(), Stop> {
    let path = folder.join(name);
    if fs::metadata(&path).is_ok_and(|meta| meta.len() == bytes) {
        return cool(&path);
    }
    let io = |error: std::io::Error| Stop::io("write", &error);
    let partial = folder.join(format!("{name}.partial"));
    let file = File::create(&partial).map_err(io)?;
    if piece == 0 {
        allocate(&file, 0, bytes)?;
        fill(&file, bytes)?;
    } else {
        let between = folder.join(format!("{name}.between"));
        let other = File::create(&between).map_err(io)?;
        for offset in (0..bytes).step_by(piece as usize) {
            allocate(&file, offset, piece)?;
            allocate(&other, offset, piece)?;
        }
        fill(&file, bytes)?;
        fs::remove_file(&between).map_err(io)?;
    }
    file.sync_all().map_err(io)?;
    fs::rename(&partial, &path).map_err(io)?;
    cool(&path)
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

/// Drops what the system keeps of a file in memory.
fn cool(path: &Path) -> Result<(), Stop> {
    let file = File::open(path).map_err(|error| Stop::io("open", &error))?;
    file.sync_all().map_err(|error| Stop::io("fsync", &error))?;
    Ok(drop_cached_pages(&file)?)
}

/// Sees that a file lies as was asked, and says how it lies.
pub(crate) fn prove(path: &Path, bytes: u64, piece: u64) -> Result<String, Stop> {
    let file = File::open(path).map_err(|error| Stop::io("open", &error))?;
    let found = extents(&file).map_err(|error| match error.errno {
        libc::ENOTTY | libc::EINVAL => FIEMAP_UNSUPPORTED.into(),
        _ => Stop::from(error),
    })?;
    judged(&found, bytes, piece)
}

fn judged(found: &[Extent], bytes: u64, piece: u64) -> Result<String, Stop> {
    let covered: u64 = found.iter().map(|one| one.length).sum();
    let count = found.len() as u64;
    let said = format!("{count}, of {} KiB on average", covered / count.max(1) / 1024);
    // A file system keeps tables between blocks, and may find neighbours free after all.
    let (least, most) = match piece {
        0 => (1, 1 + bytes / (16 << 20)),
        piece => (bytes / piece / 10 * 9, bytes / piece * 11 / 10 + 1),
    };
    Stop::unless(covered >= bytes && (least..=most).contains(&count), || {
        format!("the file system laid the file in pieces {said}, where {least} to {most} were asked for")
    })?;
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_lies_otherwise_than_asked_is_refused() {
        let extents = |count: u64, length| -> Vec<Extent> {
            (0..count).map(|at| Extent { logical: at * length, physical: 3 * at * length, length }).collect()
        };
        let mib = 1 << 20;
        assert_eq!(judged(&extents(256, 4096), mib, 4096).unwrap(), "256, of 4 KiB on average");
        assert!(judged(&extents(256, 4096), mib, 0).is_err(), "not in one piece");
        assert!(judged(&extents(1, mib), mib, 4096).is_err(), "not in many");
        assert!(judged(&extents(16, 4096), mib, 0).is_err(), "a part is missing");
        assert!(judged(&extents(1, mib), mib, 0).is_ok());
    }
}
