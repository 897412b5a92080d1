//! Files that benchmarks use: made in the run's scratch directory, kept from pass to pass, removed with the run.

use landau_engine::{Progress, Stop};
use landau_sys::disk;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of files in each directory of the small files, as in the 2003 study.
pub(crate) const FILES_PER_DIRECTORY: u64 = 100;

/// Timeout for the device to receive the files that were made.
const WRITE_BACK_TIMEOUT: Duration = Duration::from_secs(60);

/// Writes the files in a directory to the device, unless an earlier pass has done so. Otherwise the kernel would write
/// them during the pass that made them. If the device takes too long, the next pass tries again.
fn write_back(directory: &Path) -> Result<(), Stop> {
    let marker = directory.join("written-back");
    if !marker.exists() {
        let handle = File::open(directory).map_err(|error| Stop::io("open", &error))?;
        if disk::write_back(&handle, WRITE_BACK_TIMEOUT)? {
            fs::write(&marker, b"").map_err(|error| Stop::io("write", &error))?;
        }
    }
    Ok(())
}

/// Bytes of one write.
const BLOCK: usize = 1 << 20;

/// Bytes after which a file is synced: a minute on a device that writes half a mebibyte a second.
const PART: u64 = 32 << 20;

/// Writes `bytes` bytes to a file; `content` fills each block at an offset. After each part the file is synced and the
/// progress is reported. Otherwise the last sync could take minutes, because the kernel may hold much of the file in
/// memory.
pub(crate) fn write_in_parts(
    mut file: &File,
    bytes: u64,
    progress: Progress,
    mut content: impl FnMut(u64, &mut [u8]),
) -> Result<(), Stop> {
    let mut block = vec![0_u8; BLOCK];
    let mut offset = 0;
    while offset < bytes {
        let count = (bytes - offset).min(BLOCK as u64) as usize;
        content(offset, &mut block[..count]);
        file.write_all(&block[..count]).map_err(|error| Stop::io("write", &error))?;
        offset += count as u64;
        if offset.is_multiple_of(PART) || offset == bytes {
            file.sync_data().map_err(|error| Stop::io("fdatasync", &error))?;
            progress.report();
        }
    }
    Ok(())
}

/// Returns a path in the form that system calls take.
pub(crate) fn c_path(path: &Path) -> Result<CString, Stop> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Stop::Wrong(format!("{} contains a zero byte", path.display())))
}

/// Makes a file of a few bytes and returns its path.
pub(crate) fn small_file(scratch: &Path) -> Result<CString, Stop> {
    let path = scratch.join("small");
    fs::write(&path, b"landau\n").map_err(|error| Stop::io("write", &error))?;
    c_path(&path)
}

/// Returns the first byte of page `index` of the big file: never zero, and different in adjacent pages.
pub(crate) fn page_byte(index: u64) -> u8 {
    (index % 251) as u8 + 1
}

/// Returns the name of the directory of [`big_file`].
pub(crate) fn big_file_name(pages: u64) -> String {
    format!("big-{pages}")
}

/// Returns the name of the directory of [`many_files`].
pub(crate) fn many_files_name(count: u64) -> String {
    format!("many-{count}")
}

/// Returns a file of that many pages, each of which begins with its [`page_byte`]; makes it if no earlier pass has.
pub(crate) fn big_file(scratch: &Path, pages: u64, page_bytes: usize, progress: Progress) -> Result<File, Stop> {
    let io = |error: std::io::Error| Stop::io("write", &error);
    let directory = scratch.join(big_file_name(pages));
    fs::create_dir_all(&directory).map_err(io)?;
    let path = directory.join("file");
    let bytes = pages * page_bytes as u64;
    if fs::metadata(&path).map_or(0, |meta| meta.len()) != bytes {
        // A block is a number of whole pages.
        write_in_parts(&File::create(&path).map_err(io)?, bytes, progress, |offset, block| {
            for (index, page) in (offset / page_bytes as u64..).zip(block.chunks_mut(page_bytes)) {
                page[0] = page_byte(index);
            }
        })?;
    }
    write_back(&directory)?;
    progress.report();
    let file = File::open(&path).map_err(|error| Stop::io("open", &error))?;
    // The 2003 program did not check this: a file that is too short ends the process with SIGBUS during the sweep.
    let len = file.metadata().map_err(|error| Stop::io("fstat", &error))?.len();
    Stop::unless(len == bytes, || format!("{} has {len} bytes instead of {bytes}", path.display()))?;
    Ok(file)
}

/// Returns the paths of `count` small files, a hundred in each directory; makes them if no earlier pass has.
pub(crate) fn many_files(scratch: &Path, count: u64, progress: Progress) -> Result<Vec<CString>, Stop> {
    let root = scratch.join(many_files_name(count));
    let path_of = |index: u64| root.join((index / FILES_PER_DIRECTORY).to_string()).join(format!("{index}.html"));
    let complete = root.join("complete");
    if !complete.exists() {
        for index in 0..count {
            make_page(&path_of(index), index, count)?;
            progress.report();
        }
        fs::write(&complete, b"").map_err(|error| Stop::io("write", &error))?;
    }
    write_back(&root)?;
    progress.report();
    (0..count).map(|index| c_path(&path_of(index))).collect()
}

/// Makes a page of HTML of about 150 bytes with its number and a link to the next.
fn make_page(path: &PathBuf, index: u64, count: u64) -> Result<(), Stop> {
    let io = |error: std::io::Error| Stop::io("write", &error);
    if index.is_multiple_of(FILES_PER_DIRECTORY)
        && let Some(directory) = path.parent()
    {
        fs::create_dir_all(directory).map_err(io)?;
    }
    let next = (index + 1) % count;
    let text = format!(
        "<!DOCTYPE html><title>Page {index}</title><h1>Page {index} of {count}</h1>\
         <p>The <a href=\"../{}/{next}.html\">next page</a> has the number {next}.\n",
        next / FILES_PER_DIRECTORY
    );
    fs::write(path, text).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Guards against a set-up that is killed as hanging while it writes a large file to a slow device.
    #[test]
    fn a_file_that_is_written_reports_its_progress() {
        static REPORTS: AtomicU64 = AtomicU64::new(0);
        let progress = Progress::to(|| {
            REPORTS.fetch_add(1, Ordering::Relaxed);
        });
        let file = tempfile::tempfile().unwrap();
        write_in_parts(&file, 2 * PART + 5, progress, |offset, block| block.fill((offset >> 20) as u8 + 1)).unwrap();
        assert_eq!((file.metadata().unwrap().len(), REPORTS.load(Ordering::Relaxed)), (2 * PART + 5, 3));
        assert!(matches!(disk::dirty_pages(&file), None | Some(0)), "each part is synced");
    }

    /// 200 MB that are still dirty would be written during the first pass, on one of the processors that it uses.
    #[test]
    fn files_are_on_the_device_before_the_first_pass() {
        let scratch = tempfile::tempdir().unwrap();
        let big = big_file(scratch.path(), 2_048, 4_096, Progress::NONE).unwrap();
        let paths = many_files(scratch.path(), 150, Progress::NONE).unwrap();
        let small = File::open(std::ffi::OsStr::from_bytes(paths[149].as_bytes())).unwrap();
        for file in [big, small] {
            // `None` on a kernel before 6.5, which does not report it.
            assert!(matches!(disk::dirty_pages(&file), None | Some(0)), "{:?}", disk::dirty_pages(&file));
        }
    }
}
