//! Files that benchmarks work on: made in the run's scratch folder, kept from pass to pass, removed with the run.

use landau_engine::Stop;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Files in a folder of the many-files set, as in the 2003 study.
pub(crate) const FILES_PER_FOLDER: u64 = 100;

/// A path as the system call takes it.
pub(crate) fn c_path(path: &Path) -> Result<CString, Stop> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Stop::Wrong(format!("{} holds a zero byte", path.display())))
}

/// A file of a few bytes.
pub(crate) fn small_file(scratch: &Path) -> Result<CString, Stop> {
    let path = scratch.join("small");
    fs::write(&path, b"landau\n").map_err(|error| Stop::io("write", &error))?;
    c_path(&path)
}

/// The byte that stands at the beginning of page `index` of the big file: never zero, different from neighbour to
/// neighbour.
pub(crate) fn page_byte(index: u64) -> u8 {
    (index % 251) as u8 + 1
}

/// A file of that many pages, each beginning with its [`page_byte`]; made if an earlier pass has not.
pub(crate) fn big_file(scratch: &Path, pages: u64, page_bytes: usize) -> Result<File, Stop> {
    let path = scratch.join(format!("big-{pages}"));
    let io = |error: std::io::Error| Stop::io("write", &error);
    let whole = pages * page_bytes as u64;
    if fs::metadata(&path).map_or(0, |meta| meta.len()) != whole {
        let mut writer = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(io)?);
        let mut page = vec![0_u8; page_bytes];
        for index in 0..pages {
            page[0] = page_byte(index);
            writer.write_all(&page).map_err(io)?;
        }
        writer.into_inner().map_err(|error| io(error.into_error()))?;
    }
    let file = File::open(&path).map_err(|error| Stop::io("open", &error))?;
    // The way the 2003 program failed: a file that is too short ends it with SIGBUS in the middle of the curve.
    let len = file.metadata().map_err(|error| Stop::io("fstat", &error))?.len();
    Stop::unless(len == whole, || format!("{} has {len} bytes instead of {whole}", path.display()))?;
    Ok(file)
}

/// The paths of `count` small files, a hundred to a folder, made if an earlier pass has not.
pub(crate) fn many_files(scratch: &Path, count: u64) -> Result<Vec<CString>, Stop> {
    let root = scratch.join(format!("many-{count}"));
    let path_of = |index: u64| root.join((index / FILES_PER_FOLDER).to_string()).join(format!("{index}.html"));
    let finished = root.join("complete");
    if !finished.exists() {
        for index in 0..count {
            make_page(&path_of(index), index, count)?;
        }
        fs::write(&finished, b"").map_err(|error| Stop::io("write", &error))?;
    }
    (0..count).map(|index| c_path(&path_of(index))).collect()
}

/// One small page of HTML, about 150 bytes, that names itself and links to the next.
fn make_page(path: &PathBuf, index: u64, count: u64) -> Result<(), Stop> {
    let io = |error: std::io::Error| Stop::io("write", &error);
    if index.is_multiple_of(FILES_PER_FOLDER)
        && let Some(folder) = path.parent()
    {
        fs::create_dir_all(folder).map_err(io)?;
    }
    let next = (index + 1) % count;
    let text = format!(
        "<!DOCTYPE html><title>Page {index}</title><h1>Page {index} of {count}</h1>\
         <p>The <a href=\"../{}/{next}.html\">next page</a> has the number {next}.\n",
        next / FILES_PER_FOLDER
    );
    fs::write(path, text).map_err(io)
}
