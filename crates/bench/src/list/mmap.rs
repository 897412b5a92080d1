//! `mmap`: maps every second page of a large cached file separately and touches it.
//!
//! Measures `mmap()` of one page, the first access (a minor page fault), and `munmap()` during destruction. It maps
//! only every second page, so that no two mappings can be merged and the kernel's set of mappings grows.
//!
//! Not a measure of mapping many small files: alternate pages of one file are the worst case for systems that merge
//! mappings, and one file is one object (Thor Lancelot Simon's objection, 23 October 2003; `map_files` answers it).
//!
//! Source: the mmap benchmark of Felix von Leitner's 2003 study (200 MB file), whose programs assumed the page size and
//! did not check the size of the file.

use crate::files::{big_file, big_file_name, page_byte};
use landau_engine::{
    Annotation, Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, ReplayCase, Settings, Stop, Study,
    Support, Timer, Variant,
};
use landau_sys::disk::dirty_pages;
use landau_sys::memory::{CAN_POPULATE, Mapping, page_bytes};
use landau_sys::system::setting;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::fs::File;
use std::io::Seek;
use std::os::fd::AsFd;

/// State of a pass.
#[derive(Debug)]
pub struct Mmap {
    file: File,
    page_bytes: usize,
    populate: bool,
    /// Page numbers in the order of mapping.
    order: Vec<u64>,
    /// Pages of the file that were not yet on the device before the first step, if the system reports their number.
    dirty_pages: Option<u64>,
    mappings: Vec<Mapping>,
}

const MMAP: usize = 0;
const TOUCH: usize = 1;
const MUNMAP: usize = 2;

impl Benchmark for Mmap {
    const NAME: &'static str = "mmap";
    const ABOUT: &'static str = "Do mapping and touching a page cost more when thousands of mappings exist?";
    const AXIS: &'static str = "mappings";
    const PHASES: &'static [Phase] = &[
        Phase::up("mmap", "mmap() of one page of the file, read-only and shared"),
        Phase::up(
            "touch",
            "first read of the page: a minor page fault, unless populate=on has mapped the page already",
        ),
        Phase::down("munmap", "munmap() of the newest mapping"),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::auto_steps("64", "auto", "auto", "mappings; auto: as many as the parameter `until` says"),
        Parameter::fixed(
            "until",
            Kind::Choice(&["file", "limit"]),
            "file",
            "largest n if n=auto. file: one mapping for every second page of the file (quick: at most 10,000); \
             limit: until vm.max_map_count is exceeded",
        ),
        Parameter {
            smoke: "2MiB",
            ..Parameter::fixed("file", Kind::Size { min: 1 << 20, max: 1 << 40 }, "200MiB", "size of the mapped file")
        },
        Parameter::fixed("order", Kind::Choice(&["sequential", "random"]), "sequential", "order of the mapped pages"),
        Parameter::fixed(
            "populate",
            Kind::Choice(&["off", "on"]),
            "off",
            "fault the page in during mmap() (MAP_POPULATE)",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("order", "random")]),
        Variant::always(&[("populate", "on")]),
        Variant::full(&[("until", "limit")]),
    ];
    const REPLAYS: &'static [ReplayCase] =
        &[ReplayCase::author("2003", 5, &[("n", "10000")]), ReplayCase::corrected(&[("until", "limit")])];
    const EMULATED: &'static [(&'static str, &'static str)] = &[("n", "4000")];
    const CAVEATS: &'static [&'static str] = &[
        "Every second page of one file is mapped, so no system can merge adjacent mappings; map_files maps many files.",
        "The whole file is in the page cache, which is verified with mincore() before the first call: no disk is \
         involved.",
        "Fault-around has no effect: the adjacent pages belong to no mapping.",
    ];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), the mmap benchmark";

    fn support(_: &Host, settings: &Settings) -> Support {
        if settings.is("until", "limit") && max_map_count().is_none() {
            return Support::No("vm.max_map_count cannot be read".to_owned());
        }
        Support::when(CAN_POPULATE || settings.is("populate", "off"), "this system has no MAP_POPULATE")
    }

    fn auto_n(_: &Host, settings: &Settings, study: Study) -> u64 {
        match max_map_count() {
            Some(limit) if settings.is("until", "limit") => limit + limit / 100,
            _ if study == Study::Full => pages(settings) / 2,
            _ => (pages(settings) / 2).min(10_000),
        }
    }

    fn annotations(_: &Host, _: &Settings) -> Vec<Annotation> {
        let annotation = |limit| Annotation::capacity("limit of mappings", limit as f64, "vm.max_map_count");
        max_map_count().map(annotation).into_iter().collect()
    }

    fn cost(settings: &Settings) -> Cost {
        let bytes = settings.bytes("file");
        // An entry of the order, and one of the list of mappings.
        let worker_bytes_each = (size_of::<u64>() + size_of::<Mapping>()) as u64;
        Cost { memory_bytes_each: 220, memory_bytes: bytes, disk_bytes: bytes, worker_bytes_each, ..Cost::default() }
    }

    fn kept_files(settings: &Settings) -> Option<String> {
        Some(big_file_name(pages(settings)))
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let settings = context.settings;
        let pages = pages(settings);
        let file = big_file(context.scratch, pages, page_bytes(), context.progress)?;
        ensure_cached(&file, pages)?;
        // Past the end of the file the order begins again at its first page: only the number of mappings matters.
        let mut order: Vec<u64> = (0..context.n).map(|index| 2 * index % (pages / 2 * 2)).collect();
        if settings.is("order", "random") {
            order.shuffle(&mut ChaCha8Rng::seed_from_u64(context.seed));
        }
        Ok(Self {
            dirty_pages: dirty_pages(&file),
            file,
            page_bytes: page_bytes(),
            populate: settings.is("populate", "on"),
            order,
            mappings: Vec::with_capacity(context.n as usize),
        })
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let page = self.order[n as usize - 1];
        let (file, len, populate) = (self.file.as_fd(), self.page_bytes, self.populate);
        let mapping = timer.time(MMAP, || Mapping::new(file, page * len as u64, len, populate))?;
        let byte = timer.time(TOUCH, || Ok(mapping.touch()))?;
        self.mappings.push(mapping);
        Stop::unless(byte == page_byte(page), || {
            format!("page {page} begins with byte {byte} instead of {}", page_byte(page))
        })
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let mapping = self.mappings.pop().ok_or(Stop::Enough)?;
        timer.time(MUNMAP, || mapping.unmap())
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        if let Some(count) = self.dirty_pages {
            facts.count("dirty_pages_at_start", count);
        }
        Stop::unless(self.mappings.len() as u64 == steps, || {
            format!("{} mappings exist instead of {steps}", self.mappings.len())
        })?;
        // Each mapping still shows its own page.
        let wrong =
            self.mappings.iter().zip(&self.order).position(|(mapping, &page)| mapping.touch() != page_byte(page));
        wrong.map_or(Ok(()), |index| Err(Stop::Wrong(format!("mapping {} shows another page", index + 1))))
    }
}

/// Returns the number of pages of the file.
fn pages(settings: &Settings) -> u64 {
    settings.bytes("file") / page_bytes() as u64
}

fn max_map_count() -> Option<u64> {
    setting("vm.max_map_count")?.parse().ok()
}

/// The maximum number of times that a file is read to bring all of it into the page cache. A kernel that reclaims pages
/// before memory is short (DAMON) evicts some in the meantime.
const READS_MAX: usize = 5;

/// Reads the file if it is not in the page cache as a whole, and checks that it is.
fn ensure_cached(file: &File, pages: u64) -> Result<(), Stop> {
    let mut resident = resident_pages(file, pages)?;
    for _ in 0..READS_MAX {
        if resident == pages {
            return Ok(());
        }
        let mut file = file;
        file.rewind().map_err(|error| Stop::io("lseek", &error))?;
        let mut reader = std::io::BufReader::with_capacity(1 << 20, file);
        std::io::copy(&mut reader, &mut std::io::sink()).map_err(|error| Stop::io("read", &error))?;
        resident = resident_pages(file, pages)?;
    }
    Stop::unless(resident == pages, || format!("only {resident} of the file's {pages} pages stay in the page cache"))
}

/// Returns how many of the file's pages are in the page cache. Maps a part at a time: a mapping of the whole file would
/// be the first to exceed a limit on the address space.
fn resident_pages(file: &File, pages: u64) -> Result<u64, Stop> {
    const PART: u64 = 256;
    let mut resident = 0;
    for first in (0..pages).step_by(PART as usize) {
        let len = PART.min(pages - first) as usize * page_bytes();
        let part = Mapping::new(file.as_fd(), first * page_bytes() as u64, len, false)?;
        resident += part.resident_pages(page_bytes())? as u64;
    }
    Ok(resident)
}
