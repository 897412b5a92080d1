//! `map_files`: opens, maps and touches thousands of small files, a hundred in each directory.
//!
//! Measures `open()`, `mmap()` of the whole file (one page) and the first access; during destruction `munmap()` and
//! `close()`. A web server that maps its files does this.
//!
//! Not a measure of disks: every file is in the page cache, which is verified before the first call.
//!
//! Source: the "mmapping many small files" benchmark of Felix von Leitner's 2003 study (10,000 files of about 150
//! bytes), made after Thor Lancelot Simon's objection to mapping pages of one file.

use crate::files::{many_files, many_files_name};
use landau_engine::{Benchmark, Context, Cost, Facts, Parameter, Phase, ReplayCase, Settings, Stop, Timer};
use landau_sys::descriptor::{close, open};
use landau_sys::disk::dirty_pages;
use landau_sys::memory::{Mapping, page_bytes};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

/// State of a pass.
#[derive(Debug)]
pub struct MapFiles {
    paths: Vec<CString>,
    /// Pages of the files that were not yet on the device before the first step, if the system reports their number.
    dirty_pages: Option<u64>,
    files: Vec<(OwnedFd, Mapping)>,
}

const OPEN: usize = 0;
const MMAP: usize = 1;
const TOUCH: usize = 2;
const MUNMAP: usize = 3;
const CLOSE: usize = 4;

/// First byte of every file.
const FIRST_BYTE: u8 = b'<';

impl Benchmark for MapFiles {
    const NAME: &'static str = "map_files";
    const ABOUT: &'static str = "Do opening and mapping a small file cost more when thousands are mapped?";
    const AXIS: &'static str = "mapped files";
    const PHASES: &'static [Phase] = &[
        Phase::up("open", "open() of the next file, which no process has open"),
        Phase::up("mmap", "mmap() of the whole file, one page, read-only and shared"),
        Phase::up("touch", "first read of the page: a minor page fault"),
        Phase::down("munmap", "munmap() of the newest file"),
        Phase::down("close", "close() of the file that was just unmapped"),
    ];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("64", "10000", "19000", "mapped files")];
    const REPLAYS: &'static [ReplayCase] =
        &[ReplayCase::author("2003", 5, &[("n", "10000")]), ReplayCase::corrected(&[("n", "19000")])];
    const EMULATED: &'static [(&'static str, &'static str)] = &[("n", "4000")];
    const CAVEATS: &'static [&'static str] = &[
        "Every file is in the page cache; without it the first access costs a thousand times more.",
        "The files are in the scratch directory of the run (`landau run --dir`); file systems differ in open().",
    ];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), mmapping many small files";

    fn cost(settings: &Settings) -> Cost {
        // A file of 150 bytes uses a block and an inode.
        let disk_bytes = settings.count("n") * 4_608;
        Cost { memory_bytes_each: 2_500, memory_bytes: disk_bytes, descriptors_each: 1, disk_bytes, ..Cost::default() }
    }

    fn kept_files(settings: &Settings) -> Option<String> {
        Some(many_files_name(settings.count("n")))
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let paths = many_files(context.scratch, context.n, context.progress)?;
        let mut dirty_pages = Some(0);
        for path in &paths {
            let dirty = ensure_cached(path)?;
            dirty_pages = dirty_pages.zip(dirty).map(|(sum, pages)| sum + pages);
        }
        Ok(Self { paths, dirty_pages, files: Vec::with_capacity(context.n as usize) })
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let path = &self.paths[n as usize - 1];
        let file = timer.time(OPEN, || open(path))?;
        let mapping = timer.time(MMAP, || Mapping::new(file.as_fd(), 0, page_bytes(), false))?;
        let byte = timer.time(TOUCH, || Ok(mapping.touch()))?;
        self.files.push((file, mapping));
        Stop::unless(byte == FIRST_BYTE, || format!("file {n} begins with byte {byte}"))
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let (file, mapping) = self.files.pop().ok_or(Stop::Enough)?;
        timer.time(MUNMAP, || mapping.unmap())?;
        timer.time(CLOSE, || close(file))
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        if let Some(count) = self.dirty_pages {
            facts.count("dirty_pages_at_start", count);
        }
        crate::list::check_open(self.files.iter().map(|(file, _)| file), steps)?;
        let wrong = self.files.iter().position(|(_, mapping)| mapping.touch() != FIRST_BYTE);
        wrong.map_or(Ok(()), |index| Err(Stop::Wrong(format!("the mapping of file {} shows other content", index + 1))))
    }
}

/// The maximum number of times that a page is touched to bring it into the page cache.
const READS_MAX: usize = 5;

/// Reads a file's page if it is not in the page cache, and checks that it is there. Returns how many of its pages are
/// not yet on the device, if the system reports it.
fn ensure_cached(path: &CString) -> Result<Option<u64>, Stop> {
    let file = open(path)?;
    let mapping = Mapping::new(file.as_fd(), 0, page_bytes(), false)?;
    // A page that the kernel reclaims at once is touched again.
    let mut is_resident = mapping.resident_pages(page_bytes())? == 1;
    for _ in 0..READS_MAX {
        if is_resident {
            break;
        }
        mapping.touch();
        is_resident = mapping.resident_pages(page_bytes())? == 1;
    }
    Stop::unless(is_resident, || format!("{} does not stay in the page cache", path.to_string_lossy()))?;
    Ok(dirty_pages(&File::from(file)))
}
