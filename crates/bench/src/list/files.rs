//! `files`: fills a directory with files, which are created, written and closed, looked up, opened, read back and
//! removed.
//!
//! Measures each call separately, as the number of names in the directory grows. With `order=file` each file is read
//! back right after it was written, and the files are removed one by one on the way down. With `order=phase` all files
//! are written before the first is read back, in the order of their creation; `cache=cold` drops their pages before
//! they are read, and fails unless the kernel confirms that none is left. Each file has its own content, which is
//! compared when it is read back. With `size=0B` only the names are created, looked up and removed.
//!
//! Not a measure of a disk, unless `durability` asks for one: with `durability=none` the data is in memory when a call
//! returns, and is written later or never. Classes of durability promise different things, so a faster one is not a
//! better file system. A shared disk varies by a factor of thirty from one pass to the next; look at every pass.
//!
//! Source: J. Rothman and J. Buckman, "Which OS is Fastest for High-Performance Network Applications?", Sys Admin, July
//! 2001: a program that creates, writes and reads back 10,000 files of 4 to 128 KB in one directory, one at a time. It
//! compared file systems whose defaults promised different things.

use crate::placement::PassDirectory;
use crate::volume::{FileSystem, Volume, unmountable};
use landau_engine::{
    Benchmark, Context, Cost, FactUnit, Facts, Host, Kind, Parameter, Phase, ReplayCase, Sequence, Settings, Stop,
    Study, Support, Timer, Variant,
};
use landau_sys::clock::monotonic_ns;
use landau_sys::descriptor::close;
use landau_sys::disk::{cached_pages, drop_cached_pages};
use landau_sys::file::{self, Listing};
use landau_sys::process::thread_time_ns;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Bytes of a page of the page cache on most systems. A stamp at this distance makes every page of every file differ.
const PAGE: usize = 4096;

/// Timeout for the device to receive data that earlier passes left in memory.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for the device to receive the files that are to be dropped from memory.
const WRITE_BACK_TIMEOUT: Duration = Duration::from_secs(60);

/// A pass with more files than this, or more that are removed from the device, takes about a minute. Such a case has
/// fewer planned passes: five are enough for a verdict without reservation.
const MANY: u64 = 100_000;
const MANY_COLD: u64 = 5_000;
const PASSES_OF_MANY: u32 = 5;

/// The maximum number of files whose residency a warm pass queries.
const ASKED: u64 = 256;

/// The error that ends a cold pass if it cannot be proven that a file is not in memory.
const UNPROVEN: landau_sys::Error = landau_sys::Error::not_supported("cachestat");

/// The minimum share of a warm file's pages that must be in memory.
const WARM_SHARE: f64 = 0.9;

/// Descriptions of the place of a pass's directory, with and without the file system's help ([`PassDirectory`]).
const SPREAD: &str = "the fastest of several block groups for each pass (chattr +T)";
const NOT_SPREAD: &str = "chosen by the file system";

/// The error that ends a cold pass on a file system that keeps files in memory only.
const NEVER_COLD: landau_sys::Error = landau_sys::Error::not_supported("posix_fadvise");

/// The operations after which a file counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    None,
    Fsync,
    FsyncDirectory,
    SyncfsAtEnd,
    Dsync,
    Rename,
}

const DURABILITIES: &[&str] = &["none", "fsync", "fsync-directory", "syncfs-at-end", "dsync", "rename"];

impl Durability {
    fn of(settings: &Settings) -> Self {
        match settings.text("durability") {
            "fsync" => Self::Fsync,
            "fsync-directory" => Self::FsyncDirectory,
            "syncfs-at-end" => Self::SyncfsAtEnd,
            "dsync" => Self::Dsync,
            "rename" => Self::Rename,
            _ => Self::None,
        }
    }

    /// Returns whether each file is synced before it is closed.
    fn syncs_each(self) -> bool {
        matches!(self, Self::Fsync | Self::FsyncDirectory | Self::Rename)
    }
}

/// The phases, in the order in which a pass has them. The settings of a case determine which of them it has.
const CREATE: Phase = Phase::up("create", "open(O_CREAT|O_EXCL): a new name in the directory");
const WRITE: Phase = Phase::up("write", "write() of the whole content");
const SYNC: Phase =
    Phase::up("sync", "fsync() of the file; with durability=fsync-directory of the directory after it, too");
const CLOSE: Phase = Phase::up("close", "close() of the written file");
const RENAME: Phase = Phase::up("rename", "rename() from the temporary name");
const STAT: Phase = Phase::up("stat", "stat() by name");
const OPEN: Phase = Phase::up("open", "open() for reading");
const READ: Phase = Phase::up("read", "read() of the whole content");
const READDIR: Phase = Phase::down("readdir", "a name's share of the getdents64() that returned it").elsewhere();
const STAT_ALL: Phase = Phase::down("stat_back", "stat() by name, after all files were created");
const OPEN_ALL: Phase = Phase::down("open_back", "open() for reading, after all files were created");
const READ_ALL: Phase = Phase::down("read_back", "read() of the whole content, after all files were created");
const UNLINK: Phase = Phase::down("unlink", "unlink() of the newest file");

/// Returns the phases of a case.
fn phases(settings: &Settings) -> Vec<Phase> {
    let (has_content, durability) = (settings.bytes("size") > 0, Durability::of(settings));
    let is_by_file = settings.is("order", "file");
    let optional = [
        (CREATE, true),
        (WRITE, has_content),
        (SYNC, durability.syncs_each()),
        (CLOSE, true),
        (RENAME, durability == Durability::Rename),
        (STAT, is_by_file),
        (OPEN, is_by_file && has_content),
        (READ, is_by_file && has_content),
        (READDIR, !is_by_file),
        (STAT_ALL, !is_by_file),
        (OPEN_ALL, !is_by_file && has_content),
        (READ_ALL, !is_by_file && has_content),
        (UNLINK, is_by_file),
    ];
    optional.into_iter().filter(|(_, is_present)| *is_present).map(|(phase, _)| phase).collect()
}

/// The index of each phase in a case; a phase that the case lacks is never timed.
#[derive(Debug, Default)]
struct Places {
    create: usize,
    write: usize,
    sync: usize,
    close: usize,
    rename: usize,
    stat: usize,
    open: usize,
    read: usize,
    readdir: usize,
    unlink: usize,
}

impl Places {
    fn of(phases: &[Phase]) -> Self {
        let place = |names: &[&str]| phases.iter().position(|phase| names.contains(&phase.name)).unwrap_or(usize::MAX);
        Self {
            create: place(&["create"]),
            write: place(&["write"]),
            sync: place(&["sync"]),
            close: place(&["close"]),
            rename: place(&["rename"]),
            stat: place(&["stat", "stat_back"]),
            open: place(&["open", "open_back"]),
            read: place(&["read", "read_back"]),
            readdir: place(&["readdir"]),
            unlink: place(&["unlink"]),
        }
    }
}

/// State of a pass. The fields' order matters: descriptors are closed before the file system is unmounted.
#[derive(Debug)]
pub struct Files {
    listing: Option<Listing>,
    directory: PassDirectory,
    _volume: Option<Volume>,
    places: Places,
    durability: Durability,
    is_by_file: bool,
    is_cold: bool,
    /// Why files of this file system cannot be read cold, if the case requires that.
    refused: Option<landau_sys::Error>,
    /// Whether the kernel reports which pages of this file system are in memory.
    has_residency: bool,
    file_system: String,
    /// The content of the file of this step.
    content: Vec<u8>,
    buffer: Vec<u8>,
    /// The names in the last part of the listing that no step has used yet, and the share of each name in the time of
    /// that part.
    listed: u64,
    listed_in_all: u64,
    readdir_ns: u64,
    /// Time of the creation half, excluding work that does not belong to the benchmark.
    elapsed_ns: u64,
    processor_ns: u64,
    /// Whether the device had received the data that earlier passes wrote.
    written_back: &'static str,
}

impl Benchmark for Files {
    const NAME: &'static str = "files";
    const ABOUT: &'static str = "What do creating, writing, reading and removing a file cost as a directory fills?";
    const AXIS: &'static str = "files in the directory";
    const PHASES: &'static [Phase] =
        &[CREATE, WRITE, SYNC, CLOSE, RENAME, STAT, OPEN, READ, READDIR, STAT_ALL, OPEN_ALL, READ_ALL, UNLINK];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::auto_steps(
            "64",
            "auto",
            "auto",
            "files in the directory at the end; auto: quick 1,000, with cache=cold 300; full 10,000",
        ),
        Parameter::fixed(
            "size",
            Kind::Size { min: 0, max: 1 << 30 },
            "4KiB",
            "size of each file; 0B: only names are created, looked up and removed",
        ),
        Parameter::fixed(
            "order",
            Kind::Choice(&["file", "phase"]),
            "file",
            "file: each file is read back right after it was written; phase: all are written before the first is read",
        ),
        Parameter::fixed(
            "cache",
            Kind::Choice(&["warm", "cold"]),
            "warm",
            "where files are read from, with order=phase. warm: the page cache; cold: the device, after their pages \
             were dropped (names and inodes stay in memory)",
        ),
        Parameter::fixed(
            "durability",
            Kind::Choice(DURABILITIES),
            "none",
            "none: written to memory; fsync: each file; fsync-directory: each file, then the directory; syncfs-at-end: \
             all at the end; dsync: O_DSYNC; rename: written under a temporary name, fsync, rename",
        ),
        Parameter::fixed(
            "filesystem",
            Kind::Choice(&["folder", "ext4", "xfs", "btrfs", "tmpfs"]),
            "folder",
            "folder: that of --dir, by default of the current directory; ext4, xfs, btrfs: in an image on a loop \
             device; tmpfs: in memory (all but folder need root)",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("order", "phase")]),
        Variant { from: Study::Quick, settings: &[("order", "phase"), ("cache", "cold")] },
        Variant::full(&[("size", "8KiB")]),
        Variant::full(&[("size", "16KiB")]),
        Variant::full(&[("size", "32KiB")]),
        Variant::full(&[("size", "64KiB")]),
        Variant::full(&[("size", "128KiB")]),
        Variant::full(&[("durability", "fsync"), ("n", "300")]),
        Variant::full(&[("durability", "fsync-directory"), ("n", "300")]),
        Variant::full(&[("durability", "syncfs-at-end"), ("n", "300")]),
        Variant::full(&[("durability", "dsync"), ("n", "300")]),
        Variant::full(&[("durability", "rename"), ("n", "300")]),
        Variant::full(&[("filesystem", "ext4")]),
        Variant::full(&[("filesystem", "xfs")]),
        Variant::full(&[("filesystem", "btrfs")]),
        Variant::full(&[("filesystem", "tmpfs")]),
        Variant::full(&[("size", "0B"), ("n", "1000000")]),
    ];
    // The smallest and the largest of the study's sizes, the two that the article names. The corrected cases differ
    // only in durability, which the study did not control.
    const REPLAYS: &'static [ReplayCase] = &[
        ReplayCase::author("2001", 1, &[("n", "10000")]),
        ReplayCase::author("2001", 1, &[("n", "10000"), ("size", "128KiB")]),
        ReplayCase::corrected(&[("n", "300")]),
        ReplayCase::corrected(&[("n", "300"), ("durability", "fsync")]),
        ReplayCase::corrected(&[("n", "300"), ("durability", "fsync-directory")]),
    ];
    const IN_QUICK: bool = false;
    const MEASURES_FOLDER: bool = true;
    const EMULATED: &'static [(&'static str, &'static str)] = &[("n", "300")];
    const CAVEATS: &'static [&'static str] = &[
        "Cases with different durability guarantee different things after a power failure: their costs do not say \
         which file system is faster. The study of 2001 compared defaults that differed in this.",
        "With durability=none no write waits for the device. The kernel writes the data later, during a later call or \
         pass, or not at all if the file is removed first.",
        "The speed of a shared or virtual disk varies by a factor of thirty between passes. The curves show the \
         median; check every pass.",
        "cache=cold drops the files' pages, not their names and inodes: open and stat stay warm. A device, or the host \
         of a virtual machine, may have the data in its own memory.",
        "ext4 without a journal does not reuse the inodes of removed files for one to five minutes, and skips them at \
         each creation in the same block group: 270 µs instead of 15 on the machine of 2026. Each pass has its own \
         directory, in the fastest of several groups. A program that removes and creates files all the time pays \
         more.",
        "A file system that is mounted with `discard` tells the device which blocks are free. ext4 without a journal \
         does so during unlink of a file that is on the device: 4 ms instead of 10 µs on the machine of 2026.",
        "Cases that wait for the device have 300 files, in the quick study also those that read from it. In the full \
         study the case of 1,000,000 names and that of cache=cold have five planned passes instead of nine.",
        "The costs of an image on a loop device include those of the file system that contains it. Later passes use an \
         image in which earlier passes created files. btrfs waits for space for its metadata, longer in a smaller \
         image.",
    ];
    const SOURCE: &'static str = "J. Rothman and J. Buckman, Which OS is Fastest for High-Performance Network \
                                  Applications? (2001), file system test";

    fn phases(settings: &Settings) -> Vec<Phase> {
        phases(settings)
    }

    fn auto_n(_: &Host, settings: &Settings, study: Study) -> u64 {
        match (study, settings.text("cache")) {
            (Study::Full, _) => 10_000,
            (_, "cold") => 300,
            _ => 1_000,
        }
    }

    fn most_passes(settings: &Settings) -> Option<u32> {
        let n = settings.count("n");
        (n > MANY || (n > MANY_COLD && settings.is("cache", "cold"))).then_some(PASSES_OF_MANY)
    }

    fn support(_: &Host, settings: &Settings) -> Support {
        if settings.is("cache", "cold") && (settings.is("order", "file") || settings.bytes("size") == 0) {
            return Support::No(
                "cache=cold needs order=phase and a size above 0B: with order=file each file was just written"
                    .to_owned(),
            );
        }
        if settings.is("cache", "cold") && settings.is("filesystem", "tmpfs") {
            return Support::No("tmpfs keeps files in memory only; they are never cold".to_owned());
        }
        let reason = match settings.text("filesystem") {
            "folder" => None,
            "tmpfs" => unmountable(),
            kind => file_system(kind, 0).unsupported(),
        };
        reason.map_or(Support::Yes, Support::No)
    }

    fn cost(settings: &Settings) -> Cost {
        let disk_bytes = match settings.text("filesystem") {
            "folder" => space(settings),
            "tmpfs" => 0,
            kind => image_bytes(settings, &file_system(kind, settings.count("n"))),
        };
        // The page cache holds the content, and the kernel keeps about 1.2 KiB for a name and an inode.
        let page_bytes_each = settings.bytes("size");
        let memory_bytes_each = 1_200 + page_bytes_each;
        let memory_bytes = 16 << 20;
        Cost { memory_bytes_each, page_bytes_each, memory_bytes, disk_bytes, ..Cost::default() }
    }

    fn kept_files(settings: &Settings) -> Option<String> {
        let is_image = !matches!(settings.text("filesystem"), "folder" | "tmpfs");
        is_image.then(|| image_name(settings, settings.count("n")))
    }

    fn step_us(settings: &Settings) -> u64 {
        let of_bytes = settings.bytes("size") / 700;
        40 + of_bytes + if settings.is("durability", "none") { 0 } else { 700 }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let settings = context.settings;
        let volume = volume(context)?;
        let parent = volume.as_ref().map_or(Ok(context.scratch), Volume::directory)?;
        let directory = PassDirectory::create(&parent.join("files"))?;
        let settled = directory.write_back(SETTLE_TIMEOUT)?;
        let (file_system, in_memory) = file::file_system(&directory.handle).unwrap_or_default();
        let has_residency = probe_residency(&directory.handle)?;
        let is_cold = settings.is("cache", "cold");
        let size = settings.bytes("size") as usize;
        let mut content = vec![0; size];
        ChaCha8Rng::seed_from_u64(context.seed).fill_bytes(&mut content);
        Ok(Self {
            listing: None,
            directory,
            _volume: volume,
            places: Places::of(&phases(settings)),
            durability: Durability::of(settings),
            is_by_file: settings.is("order", "file"),
            is_cold,
            refused: if in_memory { Some(NEVER_COLD) } else { (!has_residency).then_some(UNPROVEN) }
                .filter(|_| is_cold),
            has_residency,
            file_system,
            content,
            buffer: vec![0; size],
            listed: 0,
            listed_in_all: 0,
            readdir_ns: 0,
            elapsed_ns: 0,
            processor_ns: 0,
            written_back: if settled { "yes" } else { "not within 10 s" },
        })
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        if let Some(error) = self.refused {
            return Err(error.into());
        }
        let name = name(n)?;
        let is_renamed = self.durability == Durability::Rename;
        let temporary = if is_renamed { Some(temporary_name(n)?) } else { None };
        stamp(&mut self.content, n);
        let (began_ns, used_ns) = (monotonic_ns(), thread_time_ns());
        let mut calls = timer.sequence();
        let mut made = self.create(&name, temporary.as_ref(), &mut calls);
        if made.is_ok() && self.is_by_file {
            made = self.read(&name, &mut calls);
        }
        timer.record(&calls);
        made?;
        self.processor_ns += thread_time_ns() - used_ns;
        self.elapsed_ns += monotonic_ns() - began_ns;
        self.compare(n, self.is_by_file)
    }

    fn undo(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        if self.is_by_file {
            let name = name(n)?;
            return timer.time(self.places.unlink, || file::remove(&self.directory.handle, &name));
        }
        let share_ns = self.list()?;
        timer.record_ns(self.places.readdir, share_ns);
        // The files are read in the order of their creation: `check` has counted them, and n falls from their number to
        // 1.
        let index = self.listed_in_all + 1 - n;
        let name = name(index)?;
        stamp(&mut self.content, index);
        let mut calls = timer.sequence();
        let read = self.read(&name, &mut calls);
        timer.record(&calls);
        read?;
        self.compare(index, true)
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        facts.text("file_system", self.file_system.clone());
        facts.text("earlier_data_written_back", self.written_back);
        facts.text("directory_placement", if self.directory.is_spread { SPREAD } else { NOT_SPREAD });
        if self.refused.is_some() {
            return Ok(());
        }
        if self.durability == Durability::SyncfsAtEnd {
            let began_ns = monotonic_ns();
            file::sync_file_system(&self.directory.handle)?;
            let syncfs_ns = monotonic_ns() - began_ns;
            facts.number("syncfs_time", syncfs_ns as f64, FactUnit::Ns);
            self.elapsed_ns += syncfs_ns;
        }
        facts.number("processor_time_per_file", (self.processor_ns / steps.max(1)) as f64, FactUnit::Ns);
        facts.number("time_per_file", (self.elapsed_ns / steps.max(1)) as f64, FactUnit::Ns);
        // A call that reached a limit may have left one more.
        let names = count_names(&self.directory.handle)?;
        Stop::unless((steps..=steps + 1).contains(&names), || {
            format!("the directory lists {names} names after {steps} files were created")
        })?;
        self.listed_in_all = steps;
        self.report_cache(steps, facts)?;
        if !self.is_by_file {
            self.listing = Some(Listing::new(&self.directory.handle)?);
        }
        Ok(())
    }
}

impl Files {
    /// Creates a file with the content of this step, under its temporary name first if it has one.
    #[inline(always)]
    fn create(&self, name: &CString, temporary: Option<&CString>, calls: &mut Sequence) -> Result<(), Stop> {
        let (directory, places, durability) = (&self.directory.handle, &self.places, self.durability);
        let first = temporary.unwrap_or(name);
        let file = calls.time(places.create, || file::create(directory, first, durability == Durability::Dsync))?;
        if !self.content.is_empty() {
            calls.time(places.write, || file::write_all(&file, &self.content))?;
        }
        if durability.syncs_each() {
            calls.time(places.sync, || {
                file::sync(&file)?;
                if durability == Durability::FsyncDirectory { file::sync(directory) } else { Ok(()) }
            })?;
        }
        calls.time(places.close, || close(file))?;
        if let Some(temporary) = temporary {
            calls.time(places.rename, || file::rename(directory, temporary, name))?;
        }
        Ok(())
    }

    /// Looks up a file, and reads it if it has content.
    #[inline(always)]
    fn read(&mut self, name: &CString, calls: &mut Sequence) -> Result<(), Stop> {
        let (directory, places, size) = (&self.directory.handle, &self.places, self.content.len());
        let found = calls.time(places.stat, || file::size(directory, name))?;
        Stop::unless(found == size as u64, || format!("{name:?} has {found} bytes instead of {size}"))?;
        if size == 0 {
            return Ok(());
        }
        let file = calls.time(places.open, || file::open(directory, name))?;
        let got = calls.time(places.read, || file::read_all(&file, &mut self.buffer))?;
        Stop::unless(got == size, || format!("{name:?} ends after {got} of {size} bytes"))
    }

    /// Compares the content that was read with the content that was written, if the step read anything.
    fn compare(&mut self, n: u64, has_read: bool) -> Result<(), Stop> {
        let is_equal = !has_read || self.buffer == self.content;
        // Bytes that the read of the next file leaves in the buffer must not pass for its content.
        if let Some(first) = self.buffer.first_mut() {
            *first = !*first;
        }
        Stop::unless(is_equal, || format!("file {n} does not have the content that was written"))
    }

    /// Returns the share of the next name in the time of the call that returned it.
    fn list(&mut self) -> Result<u64, Stop> {
        while self.listed == 0 {
            let Some(listing) = &mut self.listing else { return Err(Stop::Enough) };
            let began_ns = monotonic_ns();
            let count = listing.next_count()?;
            let elapsed_ns = monotonic_ns() - began_ns;
            let ended = || Stop::Wrong("the directory ends before its last name".to_owned());
            self.listed = count.ok_or_else(ended)?;
            self.readdir_ns = elapsed_ns / self.listed.max(1);
        }
        self.listed -= 1;
        Ok(self.readdir_ns)
    }

    /// Drops the files from the page cache if the case is cold, and reports what the page cache holds.
    fn report_cache(&self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        if self.content.is_empty() || steps == 0 {
            return Ok(());
        }
        if self.is_cold {
            Stop::unless(self.directory.write_back(WRITE_BACK_TIMEOUT)?, || {
                format!("the device did not take the files within {} s", WRITE_BACK_TIMEOUT.as_secs())
            })?;
            self.each(steps, 1, &mut |file| Ok(drop_cached_pages(file)?))?;
        }
        if !self.has_residency {
            facts.text("cached_before_reading", "not reported for this file system by this kernel");
            return Ok(());
        }
        let mut cached = 0;
        let stride = if self.is_cold { 1 } else { steps.div_ceil(ASKED) };
        let asked = self.each(steps, stride, &mut |file| {
            cached += cached_pages(file).unwrap_or(0);
            Ok(())
        })?;
        let pages = asked * pages_of(self.content.len(), landau_sys::memory::page_bytes());
        let share = cached as f64 / pages as f64;
        facts.number("cached_before_reading", share, FactUnit::Share);
        let is_as_wanted = if self.is_cold { cached == 0 } else { share >= WARM_SHARE };
        Stop::unless(is_as_wanted, || {
            let wanted = if self.is_cold { "none, they were dropped" } else { "nearly all" };
            format!("{cached} of {pages} pages are in the page cache before they are read, instead of {wanted}")
        })
    }

    /// Calls `of` with every `stride`-th of the first `steps` files. Returns the number of files.
    fn each(&self, steps: u64, stride: u64, of: &mut dyn FnMut(&File) -> Result<(), Stop>) -> Result<u64, Stop> {
        let mut count = 0;
        for n in (1..=steps).step_by(stride as usize) {
            of(&File::from(file::open(&self.directory.handle, &name(n)?)?))?;
            count += 1;
        }
        Ok(count)
    }
}

/// Returns the number of pages of the page cache that hold this many bytes of a file.
fn pages_of(bytes: usize, page_bytes: usize) -> u64 {
    bytes.div_ceil(page_bytes) as u64
}

/// Returns the name of file n.
fn name(n: u64) -> Result<CString, Stop> {
    c_name(format!("file-{n:08}"))
}

/// Returns the name that file n has before it is renamed.
fn temporary_name(n: u64) -> Result<CString, Stop> {
    c_name(format!("temporary-{n:08}"))
}

fn c_name(name: String) -> Result<CString, Stop> {
    CString::new(name).map_err(|error| Stop::Wrong(error.to_string()))
}

/// Writes the number of a file into each page of its content.
fn stamp(content: &mut [u8], n: u64) {
    for page in content.chunks_mut(PAGE) {
        let number = n.to_le_bytes();
        let room = page.len().min(number.len());
        page[..room].copy_from_slice(&number[..room]);
    }
}

/// Returns whether the kernel reports the pages of a file that are in memory: a file that was just written must have
/// some. An older kernel does not report them. A file system on top of another one, or with its own cache, reports
/// none.
fn probe_residency(directory: &OwnedFd) -> Result<bool, Stop> {
    let probe = file::create(directory, c"probe", false)?;
    file::write_all(&probe, &[1; PAGE])?;
    let cached = cached_pages(&File::from(probe));
    file::remove(directory, c"probe")?;
    Ok(cached.is_some_and(|pages| pages > 0))
}

/// Returns the number of names in a directory.
fn count_names(directory: &OwnedFd) -> Result<u64, Stop> {
    let mut listing = Listing::new(directory)?;
    let mut names = 0;
    while let Some(count) = listing.next_count()? {
        names += count;
    }
    Ok(names)
}

/// Returns the space that the files take: whole blocks, an inode and a name each.
fn space(settings: &Settings) -> u64 {
    settings.count("n") * (settings.bytes("size").next_multiple_of(PAGE as u64) + 1_024) + (1 << 20)
}

/// Returns the size of an image that holds the files, and a journal and tables of the file system.
fn image_bytes(settings: &Settings, file_system: &FileSystem) -> u64 {
    (space(settings) + (96 << 20)).max(file_system.smallest_bytes)
}

/// Returns a kind of file system with room for this number of files.
fn file_system(kind: &str, files: u64) -> FileSystem {
    match kind {
        "xfs" => FileSystem::xfs(),
        "btrfs" => FileSystem::btrfs_for(files),
        _ => FileSystem::ext4_for(files),
    }
}

/// Returns the name of the image of the file system that holds `n` files.
fn image_name(settings: &Settings, n: u64) -> String {
    format!("files-{}-{}-{n}", settings.text("filesystem"), settings.text("size"))
}

/// Mounts and returns the file system that the case selects; none for that of the run's directory.
fn volume(context: &Context) -> Result<Option<Volume>, Stop> {
    let settings = context.settings;
    match settings.text("filesystem") {
        "folder" => Ok(None),
        "tmpfs" => Volume::in_memory(context.scratch, "files-tmpfs").map(Some),
        kind => {
            let name = image_name(settings, context.n);
            let file_system = file_system(kind, context.n);
            let bytes = image_bytes(settings, &file_system);
            let (volume, _) = Volume::open(context.scratch, &name, bytes, &file_system, context.progress)?;
            Ok(Some(volume))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(changes: &[(&str, &str)]) -> Vec<&'static str> {
        let mut settings = Settings::of_study(Files::PARAMETERS, Study::Quick);
        for (name, value) in changes {
            settings.set(name, value);
        }
        phases(&settings).iter().map(|phase| phase.name).collect()
    }

    #[test]
    fn a_case_has_the_phases_of_its_settings() {
        assert_eq!(names(&[]), ["create", "write", "close", "stat", "open", "read", "unlink"]);
        assert_eq!(names(&[("size", "0B")]), ["create", "close", "stat", "unlink"]);
        assert_eq!(
            names(&[("order", "phase"), ("durability", "rename")]),
            ["create", "write", "sync", "close", "rename", "readdir", "stat_back", "open_back", "read_back"]
        );
        for changes in [&[][..], &[("order", "phase")], &[("durability", "fsync-directory")]] {
            assert!(names(changes).iter().all(|name| Files::PHASES.iter().any(|phase| phase.name == *name)));
        }
    }

    /// Pages of the page cache have the system's page size, which is at most 64 KiB.
    #[test]
    fn pages_are_those_of_the_system() {
        assert_eq!(
            [(8192, 4096), (8192, 65536), (131_072, 16384)].map(|(bytes, page)| pages_of(bytes, page)),
            [2, 1, 8]
        );
    }

    /// Every page of every file differs from that page of every other file.
    #[test]
    fn pages_of_two_files_differ() {
        let mut content = vec![7; 2 * PAGE + 3];
        stamp(&mut content, 1);
        let first = content.clone();
        stamp(&mut content, 2);
        let pages = || first.chunks(PAGE).zip(content.chunks(PAGE));
        assert_eq!(pages().filter(|(a, b)| a != b).count(), 3);
    }
}
