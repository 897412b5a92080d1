//! `download`: downloads a large cold file from a web server, mebibyte by mebibyte.
//!
//! Measures how long each mebibyte takes to arrive, as a timeline. The file has one extent, or extents of 64 KiB or 4
//! KiB in random order on the device, with those of another file between them. In a third case the file has one extent,
//! and half-way a second reader begins to download another file at up to 4 MB/s. The file system reports the extents
//! (FIEMAP). The device's read counters prove that the file was cold; its reads and the throughput are facts.
//!
//! Not a measure of a disk: few disks still rotate, and a virtual one may be in the host's memory. It is a timeline and
//! does not grow with n; changes along it come from the machine, unless the disk fills a cache.
//!
//! Source: the fragmentation graph of the 2003 study: 11 MB/s over the network; 4 MB/s from a file that `BitTorrent`
//! had fragmented, which writes pieces in random order; and a drop from 11 MB/s when a second download begins.

use crate::extents::{self, Layout, Placement, byte_at};
use crate::server::{self, Server};
use crate::volume::{FileSystem, Volume};
use landau_engine::{
    Annotation, AnnotationKind, Benchmark, Context, Cost, FactUnit, Facts, Host, Kind, Parameter, Phase, Progress,
    Settings, Stop, Study, Support, Timeline, Timer, Variant,
};
use landau_sys::clock::monotonic_ns;
use landau_sys::disk::FIEMAP_UNSUPPORTED;
use landau_sys::stream::{receive, send, set_reset_on_close};
use landau_wire::http::Status;
use landau_wire::http::response::Reader;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that a step downloads.
const MIB: u64 = 1 << 20;

/// Timeout for a part of the response.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// Rate limit of the second reader, in bytes per second, and the size of its reads.
const SECOND_RATE: u64 = 4_000_000;
const SECOND_READ: usize = 64 << 10;

/// State of a pass. The fields' order matters: the server ends before the file system that it reads from is unmounted.
#[derive(Debug)]
pub struct Download {
    second: Option<SecondReader>,
    /// The step before which the second reader starts, if there is one, and when it did.
    second_from: Option<u64>,
    second_since_ns: u64,
    connection: TcpStream,
    server: Server,
    location: Location,
    device: Device,
    bytes: u64,
    received: u64,
    buffer: Vec<u8>,
    began_ns: u64,
    ended_ns: u64,
    layout: Layout,
    /// Why there is no file to download. It is reported at the first step, as a limit of the file system.
    refused: Option<(landau_sys::Error, String)>,
    processor: Option<u32>,
}

/// The location of the files.
#[derive(Debug)]
enum Location {
    /// In a file system for this benchmark alone.
    Image(Volume),
    /// In the run's directory; with the reason why there is no image, if one was wanted.
    Directory(PathBuf, Option<String>),
}

const MEBIBYTE: usize = 0;

impl Benchmark for Download {
    const NAME: &'static str = "download";
    const ABOUT: &'static str = "How fast is the download of a large cold file, depending on its fragmentation?";
    const AXIS: &'static str = "mebibytes downloaded";
    const PHASES: &'static [Phase] = &[Phase::up(
        "mebibyte",
        "until the next mebibyte of the response has arrived; the first includes the request and the response header",
    )];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("2", "64", "512", "size of the file in MiB"),
        Parameter::fixed(
            "extent",
            Kind::Choice(&["whole", "64KiB", "4KiB"]),
            "whole",
            "the file's placement on the device. whole: one extent; 64KiB, 4KiB: extents of this size, interleaved \
             with those of another file",
        ),
        Parameter::fixed(
            "order",
            Kind::Choice(&["random", "rising"]),
            "random",
            "order of the extents on the device, if extent is not whole. rising: as in the file",
        ),
        Parameter::fixed(
            "readers",
            Kind::Choice(&["1", "2"]),
            "1",
            "2: when half of the file has arrived, a second client starts to download another file, at up to 4 MB/s",
        ),
        Parameter::fixed(
            "location",
            Kind::Choice(&["auto", "image", "directory"]),
            "auto",
            "image: an ext4 image mounted for the run (needs root); directory: the scratch directory below --dir; \
             auto: image if possible",
        ),
        Parameter::fixed("server", Kind::Choice(server::NAMES), "landau", "web server to start"),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("extent", "4KiB")]),
        Variant::full(&[("extent", "4KiB"), ("order", "rising")]),
        Variant::full(&[("extent", "64KiB")]),
        Variant::full(&[("readers", "2")]),
        Variant::full(&[("server", "nginx")]),
        Variant::full(&[("server", "nginx"), ("extent", "4KiB")]),
    ];
    const TIMELINE: Option<Timeline> = Some(Timeline { step_bytes: MIB });
    const CAVEATS: &'static [&'static str] = &[
        "This is a timeline: n is the number of mebibytes received, and no law is fitted. Changes along it come from \
         the device.",
        "The second reader reads at most 4 MB/s. On a device that delivers a hundred times as much, it has an effect \
         only if requests at two places cost more than requests at one.",
        "On a disk without moving parts, or a virtual one cached by its host, placement costs little; small \
         extents cost more requests: see device reads under Checks and facts.",
        "With location=directory the counters of the device include reads by other processes.",
        "The image with the file system (location=image) is preallocated, but may still be fragmented on the device.",
    ];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), the fragmentation graph";

    fn support(host: &Host, settings: &Settings) -> Support {
        if !cfg!(target_os = "linux") {
            return Support::No("only Linux reports where a file is on the device (FIEMAP)".to_owned());
        }
        match FileSystem::bare_ext4().unsupported().filter(|_| settings.is("location", "image")) {
            Some(reason) => Support::No(reason),
            None => server::support(host, settings),
        }
    }

    fn auto_n(_: &Host, _: &Settings, study: Study) -> u64 {
        if study == Study::Full { 512 } else { 64 }
    }

    fn annotations(_: &Host, settings: &Settings) -> Vec<Annotation> {
        let annotation = |n| Annotation {
            name: "second reader starts".to_owned(),
            n: n as f64,
            kind: AnnotationKind::Event,
            source: "readers=2: half of the file".to_owned(),
        };
        second_from(settings, settings.count("n")).map(annotation).into_iter().collect()
    }

    fn uses_other_processors(_: &Settings) -> bool {
        true
    }

    fn cost(settings: &Settings) -> Cost {
        let files = file_count(settings);
        let disk_bytes = image_bytes(files, settings.count("n") * MIB);
        Cost { memory_bytes: 64 << 20, disk_bytes, ..Cost::default() }
    }

    fn kept_files(settings: &Settings) -> Option<String> {
        let mib = settings.count("n");
        let is_directory = is_directory(settings, FileSystem::bare_ext4().unsupported().as_ref());
        Some(if is_directory { directory_name(settings, mib * MIB) } else { image_name(settings, mib) })
    }

    fn step_us(_: &Settings) -> u64 {
        5_000
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let settings = context.settings;
        let (bytes, second_from) = (context.n * MIB, second_from(settings, context.n));
        let location = Location::new(context, bytes)?;
        let placement = match settings.text("extent") {
            "whole" => Placement::Whole,
            extent => {
                let bytes = if extent == "4KiB" { 4 << 10 } else { 64 << 10 };
                Placement::Extents { bytes, seed: settings.is("order", "random").then_some(context.seed) }
            }
        };
        let directory = location.directory()?;
        let (layout, refused) = match make_files(directory, bytes, placement, second_from.is_some(), context.progress) {
            Ok(layout) => (layout, None),
            Err(Stop::Refused(error)) => (Layout::default(), Some((error, String::new()))),
            // A file system with other users may place files differently; the next pass tries again.
            Err(Stop::Wrong(reason)) if matches!(location, Location::Directory(..)) => {
                let _ = fs::remove_file(directory.join(server::FILE));
                (Layout::default(), Some((FIEMAP_UNSUPPORTED, reason)))
            }
            Err(other) => return Err(other),
        };
        let mut server = Server::start(context, directory)?;
        let connection = connect(server.address)?;
        let device = location.device();
        server.begin();
        Ok(Self {
            second: None,
            second_from,
            second_since_ns: 0,
            connection,
            server,
            location,
            device,
            bytes,
            received: 0,
            buffer: vec![0; 256 << 10],
            began_ns: 0,
            ended_ns: 0,
            layout,
            refused,
            processor: context.host.pinned_processor,
        })
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        if let Some((error, _)) = self.refused {
            return Err(error.into());
        }
        if n == 1 {
            self.device.begin();
            self.began_ns = monotonic_ns();
        }
        if self.second_from == Some(n) {
            self.second_since_ns = monotonic_ns();
            self.second = Some(SecondReader::start(self.server.address)?);
        }
        let began = timer.now();
        if n == 1 {
            self.request()?;
        }
        self.receive_until(n * MIB)?;
        timer.record_between(MEBIBYTE, began, timer.now());
        if self.received == self.bytes {
            self.ended_ns = monotonic_ns();
        }
        Ok(())
    }

    fn measured_processes(&self) -> Vec<u32> {
        self.server.processes()
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        if let Some((_, reason)) = &self.refused {
            if !reason.is_empty() {
                facts.text("not_measured", reason.clone());
            }
            return Ok(());
        }
        self.server.report(self.processor, steps, facts);
        Stop::unless(self.received == steps * MIB, || format!("{} bytes arrived", self.received))?;
        facts.count("extents", self.layout.extents);
        facts.number("extent_size_mean", self.layout.mean_bytes as f64, FactUnit::Bytes);
        if let Some(share) = self.layout.rising_share {
            facts.number("extents_behind_the_one_before", share, FactUnit::Share);
        }
        let mut throughput = |name: &str, bytes: u64, elapsed_ns: u64| {
            facts.number(name, (bytes as f64 * 1e9 / elapsed_ns as f64).round(), FactUnit::BytesPerS);
        };
        throughput("throughput", self.received, self.ended_ns - self.began_ns);
        if let (Some(second), Some(from)) = (self.second.take(), self.second_from) {
            let alone = (from - 1) * MIB;
            throughput("throughput_alone", alone, self.second_since_ns - self.began_ns);
            throughput("throughput_with_second_reader", self.received - alone, self.ended_ns - self.second_since_ns);
            throughput("second_reader_throughput", second.finish()?, self.ended_ns - self.second_since_ns);
            facts.count("second_reader_starts_at", from);
        }
        facts.text("device", self.device.name.clone());
        if let Some((requests, bytes)) = self.device.read() {
            facts.count("device_reads", requests);
            facts.number("device_read_size_mean", (bytes / requests.max(1)) as f64, FactUnit::Bytes);
            Stop::unless(bytes >= self.received / 10 * 9, || {
                format!("the device read only {bytes} of {} bytes: the file was cached", self.received)
            })?;
        } else {
            // As with btrfs and overlayfs, whose files are on no single device.
            facts.text("file_was_cold", "not proven: the device of its file system has no counter of reads");
        }
        if let Location::Directory(_, Some(reason)) = &self.location {
            facts.text("no_image", reason.clone());
        }
        self.location.directory().map(drop)
    }
}

/// Returns how many files of the size are on the device at a time: a file with small extents needs as much space
/// between them while it is made, and the second reader has its own file.
fn file_count(settings: &Settings) -> u64 {
    if settings.is("extent", "whole") && settings.is("readers", "1") { 1 } else { 2 }
}

/// Returns the size of an image that holds this number of files: ext4 keeps up to 16 MiB in reserve, and a file in
/// extents of 4 KiB needs a table of them.
fn image_bytes(files: u64, bytes: u64) -> u64 {
    files * bytes / 32 * 33 + (16 << 20)
}

/// Returns the step before which the second reader starts, if the settings request one: the first step of the second
/// half.
fn second_from(settings: &Settings, n: u64) -> Option<u64> {
    settings.is("readers", "2").then_some(n / 2 + 1)
}

/// Makes the files and returns the layout of the first.
fn make_files(
    directory: &Path,
    bytes: u64,
    placement: Placement,
    has_second: bool,
    progress: Progress,
) -> Result<Layout, Stop> {
    extents::make(directory, server::FILE, bytes, placement, progress)?;
    if has_second {
        extents::make(directory, SecondReader::FILE, bytes, Placement::Whole, progress)?;
    }
    extents::verify(&directory.join(server::FILE), bytes, placement)
}

fn connect(address: SocketAddr) -> Result<TcpStream, Stop> {
    let connection = TcpStream::connect(address).map_err(|error| Stop::io("connect", &error))?;
    connection.set_read_timeout(Some(RECEIVE_TIMEOUT)).map_err(|error| Stop::io("setsockopt", &error))?;
    set_reset_on_close(&connection)?;
    Ok(connection)
}

impl Download {
    /// Sends the request and reads the response header.
    fn request(&mut self) -> Result<(), Stop> {
        send(&self.connection, &self.server.request, false)?;
        let (head, received) = read_head(&self.connection, &mut self.buffer)?;
        Stop::unless(head.1 == Some(self.bytes), || {
            format!("the response has Content-Length {:?} instead of {}", head.1, self.bytes)
        })?;
        let body = head.0..received;
        self.count(&body)
    }

    /// Reads until `end` bytes of the body have arrived.
    fn receive_until(&mut self, end: u64) -> Result<(), Stop> {
        while self.received < end {
            let room = self.buffer.len().min((end - self.received) as usize);
            let received = receive(&self.connection, &mut self.buffer[..room])?;
            Stop::unless(received > 0, || format!("the response ends after {} bytes", self.received))?;
            self.count(&(0..received))?;
        }
        Ok(())
    }

    /// Counts a part of the body in the buffer and compares its last byte with the file's.
    fn count(&mut self, part: &std::ops::Range<usize>) -> Result<(), Stop> {
        if part.is_empty() {
            return Ok(());
        }
        self.received += part.len() as u64;
        let (last, expected) = (self.buffer[part.end - 1], byte_at(self.received - 1));
        Stop::unless(last == expected, || format!("byte {} is {last} instead of {expected}", self.received))
    }
}

/// Reads the header of a response. Returns its length and Content-Length, and the number of bytes in the buffer.
fn read_head(connection: &TcpStream, buffer: &mut [u8]) -> Result<((usize, Option<u64>), usize), Stop> {
    let (mut reader, mut received) = (Reader::default(), 0);
    loop {
        let more = receive(connection, &mut buffer[received..])?;
        Stop::unless(more > 0, || "the server closed the connection without a response".to_owned())?;
        received += more;
        match reader.parse(&buffer[..received]) {
            Ok(Some(head)) => {
                let status = head.status;
                Stop::unless(status == Status::OK, || format!("the response has status {}", status.0))?;
                return Ok(((head.head_bytes, head.content_length), received));
            }
            Ok(None) => {}
            Err(malformed) => return Err(Stop::Wrong(format!("the server's response is a {malformed}"))),
        }
    }
}

/// Returns how the extents of the file are laid out.
fn layout(settings: &Settings) -> String {
    let extent = settings.text("extent");
    if extent == "whole" { extent.to_owned() } else { format!("{extent}-{}", settings.text("order")) }
}

/// Returns the name of the image that holds files of so many mebibytes.
fn image_name(settings: &Settings, mib: u64) -> String {
    format!("download-{}-{}-{mib}", layout(settings), file_count(settings))
}

/// Returns the name of the directory that holds files of so many bytes.
fn directory_name(settings: &Settings, bytes: u64) -> String {
    format!("download-{}-{bytes}", layout(settings))
}

/// Returns whether the files are in a directory of the run: on request, or because there can be no image.
fn is_directory(settings: &Settings, no_image: Option<&String>) -> bool {
    settings.is("location", "directory") || no_image.is_some()
}

impl Location {
    fn new(context: &Context, bytes: u64) -> Result<Self, Stop> {
        let settings = context.settings;
        let reason = FileSystem::bare_ext4().unsupported();
        // Extents are placed once in a run, so all passes of a case read the same file.
        if is_directory(settings, reason.as_ref()) {
            let directory = context.scratch.join(directory_name(settings, bytes));
            fs::create_dir_all(&directory).map_err(|error| Stop::io("mkdir", &error))?;
            return Ok(Location::Directory(directory, reason.filter(|_| settings.is("location", "auto"))));
        }
        let files = file_count(settings);
        let name = image_name(settings, bytes / MIB);
        let bytes = image_bytes(files, bytes);
        let (volume, _) = Volume::open(context.scratch, &name, bytes, &FileSystem::bare_ext4(), context.progress)?;
        Ok(Location::Image(volume))
    }

    fn directory(&self) -> Result<&Path, Stop> {
        match self {
            Location::Image(volume) => volume.directory(),
            Location::Directory(directory, _) => Ok(directory),
        }
    }

    fn device(&self) -> Device {
        match self {
            Location::Image(volume) => Device::new(volume.device(), format!("/sys/block/{}/stat", volume.device())),
            Location::Directory(directory, _) => {
                let (major, minor) = landau_sys::disk::device_numbers(directory).unwrap_or_default();
                let name = format!("{major}:{minor}, all its users");
                Device::new(&name, format!("/sys/dev/block/{major}:{minor}/stat"))
            }
        }
    }
}

/// A block device's counters of reads.
#[derive(Debug)]
struct Device {
    name: String,
    stat: String,
    baseline: Option<(u64, u64)>,
}

impl Device {
    fn new(name: &str, stat: String) -> Self {
        Self { name: name.to_owned(), stat, baseline: None }
    }

    /// Returns requests and bytes read since the system started.
    fn counters(&self) -> Option<(u64, u64)> {
        let text = fs::read_to_string(&self.stat).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (requests, _merged, sectors) = (numbers.next()?.ok()?, numbers.next()?, numbers.next()?.ok()?);
        Some((requests, sectors * 512))
    }

    fn begin(&mut self) {
        self.baseline = self.counters();
    }

    /// Returns requests and bytes read since [`Device::begin`].
    fn read(&self) -> Option<(u64, u64)> {
        let ((from, from_bytes), (to, to_bytes)) = (self.baseline?, self.counters()?);
        Some((to - from, to_bytes - from_bytes))
    }
}

/// The second reader: a thread that downloads another file again and again, at a limited rate.
#[derive(Debug)]
struct SecondReader {
    thread: Option<JoinHandle<Result<(), String>>>,
    should_end: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
}

impl SecondReader {
    const FILE: &'static str = "second";

    fn start(address: SocketAddr) -> Result<Self, Stop> {
        let connection = connect(address)?;
        let (should_end, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (end, count) = (should_end.clone(), received.clone());
        let read = move || read_again_and_again(&connection, &end, &count).map_err(|stop| stop.to_string());
        let thread = std::thread::Builder::new().spawn(read).map_err(|error| Stop::io("pthread_create", &error))?;
        Ok(Self { thread: Some(thread), should_end, received })
    }

    /// Ends the thread and returns the number of bytes that it received until then.
    fn finish(mut self) -> Result<u64, Stop> {
        let received = self.received.load(Ordering::Relaxed);
        match self.join() {
            Some(Ok(Err(reason))) => Err(Stop::Wrong(format!("the second reader failed: {reason}"))),
            Some(Err(_)) => Err(Stop::Wrong("the second reader's thread panicked".to_owned())),
            _ => Ok(received),
        }
    }

    fn join(&mut self) -> Option<std::thread::Result<Result<(), String>>> {
        self.should_end.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for SecondReader {
    fn drop(&mut self) {
        // `finish` reports a failure; here the pass has failed already.
        let _ = self.join();
    }
}

fn read_again_and_again(connection: &TcpStream, end: &AtomicBool, count: &AtomicU64) -> Result<(), Stop> {
    let mut buffer = vec![0; SECOND_READ];
    let request = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", SecondReader::FILE);
    let (began, mut total) = (monotonic_ns(), 0);
    loop {
        send(connection, request.as_bytes(), false)?;
        let ((head, length), received) = read_head(connection, &mut buffer)?;
        let length = length.unwrap_or(0);
        let mut body = (received - head) as u64;
        while body < length && !end.load(Ordering::Relaxed) {
            let room = SECOND_READ.min((length - body) as usize);
            let received = receive(connection, &mut buffer[..room])? as u64;
            Stop::unless(received > 0, || "the response ends early".to_owned())?;
            body += received;
            total += received;
            count.store(total, Ordering::Relaxed);
            let due = began + total * 1_000_000_000 / SECOND_RATE;
            std::thread::sleep(Duration::from_nanos(due.saturating_sub(monotonic_ns())));
        }
        if end.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The full study's image was once a few mebibytes too small for two files, so no fragmented file was ever
    /// measured.
    #[test]
    fn an_image_has_room_for_its_files() {
        if let Some(reason) = FileSystem::bare_ext4().unsupported() {
            eprintln!("skipped: {reason}");
            return;
        }
        let room = tempfile::tempdir().unwrap();
        let path = room.path().to_owned();
        // A thread, because a mount namespace belongs to a thread.
        let made = std::thread::spawn(move || {
            for (files, mebibytes) in [(1, 256), (2, 256)] {
                let bytes = mebibytes * MIB;
                let (volume, _) = Volume::open(
                    &path,
                    &format!("test-{files}"),
                    image_bytes(files, bytes),
                    &FileSystem::bare_ext4(),
                    Progress::NONE,
                )
                .unwrap();
                let directory = volume.directory().unwrap();
                let open = |number| fs::File::create(directory.join(format!("file-{number}"))).unwrap();
                let all: Vec<fs::File> = (0..files).map(open).collect();
                for offset in (0..bytes).step_by(64 << 10) {
                    for file in &all {
                        landau_sys::disk::allocate(file, offset, 64 << 10).unwrap();
                    }
                }
            }
        });
        made.join().unwrap();
    }
}
