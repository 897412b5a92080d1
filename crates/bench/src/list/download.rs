//! `download`: a large cold file is fetched from a web server, mebibyte by mebibyte.
//!
//! Measures the time that each mebibyte takes to arrive, as a timeline: of a file that lies in one piece, of one that
//! lies in pieces of 64 KiB or 4 KiB with others' between them, and of one in one piece while a second visitor fetches
//! another, no faster than 4 MB/s. How the file lies is asked of the file system; that it was cold is seen by what the
//! device had to read, whose requests are in the facts beside the rate.
//!
//! Misleads as a disk's figure: most disks are no longer turned, and a virtual one may be somebody's memory. And it
//! does not grow with n: it is a timeline, whose law is that of the machine's mood unless the disk fills a cache.
//!
//! Source: the fragmentation graph of the 2003 study: 11 MB/s over the network, 4 MB/s from a fragmented file.

use crate::fragments::{byte_at, file, prove};
use crate::server::{self, Server};
use crate::volume::{self, Volume};
use landau_engine::{
    Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, Settings, Stop, Study, Support, Timer, Variant,
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

/// What a step fetches.
const MIB: u64 = 1 << 20;

/// How long a part of the answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the second visitor takes, in bytes a second, and in what portions.
const SECOND_RATE: u64 = 4_000_000;
const PORTION: usize = 64 << 10;

/// The benchmark. The server goes before the file system that it reads from.
#[derive(Debug)]
pub struct Download {
    second: Option<Second>,
    connection: TcpStream,
    server: Server,
    place: Place,
    device: Device,
    bytes: u64,
    fetched: u64,
    buffer: Vec<u8>,
    took_ns: u64,
    lies: String,
    /// Why there is no file to fetch: told at the first step, for it is a limit of the file system.
    refused: Option<landau_sys::Error>,
    processor: Option<u32>,
}

/// Where the files are.
#[derive(Debug)]
enum Place {
    /// In a file system of our own.
    Own(Volume),
    /// In the run's folder.
    Folder(PathBuf, Option<String>),
}

const MEBIBYTE: usize = 0;

impl Benchmark for Download {
    const NAME: &'static str = "download";
    const ABOUT: &'static str =
        "How fast does a large cold file arrive, by how it lies on the disk and who else reads?";
    const AXIS: &'static str = "mebibytes fetched";
    const PHASES: &'static [Phase] =
        &[Phase::up("mebibyte", "until the next mebibyte of the answer has arrived; the first with request and head")];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("2", "64", "512", "how large the file is, in MiB"),
        Parameter::fixed(
            "extent",
            Kind::Choice(&["whole", "64KiB", "4KiB"]),
            "whole",
            "how the file lies: in one piece, or in pieces of that size with another file's between them",
        ),
        Parameter::fixed(
            "readers",
            Kind::Choice(&["1", "2"]),
            "1",
            "2: another visitor fetches another file at the same time, at 4 MB/s at the most",
        ),
        Parameter::fixed(
            "location",
            Kind::Choice(&["auto", "image", "folder"]),
            "auto",
            "image: a file system of its own in an image (root); folder: where --dir says; auto: an image if possible",
        ),
        Parameter::fixed("server", Kind::Choice(server::NAMES), "landau", "which server is started"),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("extent", "4KiB")]),
        Variant::full(&[("extent", "64KiB")]),
        Variant::full(&[("readers", "2")]),
        Variant::full(&[("server", "nginx")]),
        Variant::full(&[("server", "nginx"), ("extent", "4KiB")]),
    ];
    const CAVEATS: &'static [&'static str] = &[
        "It is a timeline and no growth: n says how much has arrived. What changes along it is the device's doing.",
        "A disk without moving parts, and a virtual one behind its host's memory, hardly mind where a file lies; what \
         pieces cost there is requests, which the facts count.",
        "In the user's folder (location=folder) the device's requests are those of everybody who uses it.",
        "An image lies in a file of the host's file system, which may be fragmented itself; it is allocated at once.",
    ];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), the fragmentation graph";

    fn support(host: &Host, settings: &Settings) -> Support {
        if !cfg!(target_os = "linux") {
            return Support::No("only Linux says where a file lies (FIEMAP)".to_owned());
        }
        match volume::reason_against().filter(|_| settings.is("location", "image")) {
            Some(reason) => Support::No(reason),
            None => server::support(host, settings),
        }
    }

    fn auto_n(_: &Host, _: &Settings, study: Study) -> u64 {
        if study == Study::Full { 512 } else { 64 }
    }

    fn cost(settings: &Settings) -> Cost {
        // While it is made, what lies between its pieces is as large; a second visitor has a file of his own.
        let files = if settings.is("extent", "whole") && settings.is("readers", "1") { 1 } else { 2 };
        Cost { memory_bytes: 64 << 20, disk_bytes: files * settings.count("n") * MIB + (24 << 20), ..Cost::default() }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let settings = context.settings;
        let (bytes, is_two) = (context.n * MIB, settings.is("readers", "2"));
        let place = Place::of(context, bytes, is_two)?;
        let piece = match settings.text("extent") {
            "64KiB" => 64 << 10,
            "4KiB" => 4 << 10,
            _ => 0,
        };
        let folder = place.folder()?;
        let (lies, refused) = match lay(folder, bytes, piece, is_two) {
            Ok(lies) => (lies, None),
            Err(Stop::Refused(error)) => (String::new(), Some(error)),
            // A file system that others use as well lays files as it likes; the next pass tries again.
            Err(Stop::Wrong(reason)) if matches!(place, Place::Folder(..)) => {
                let _ = fs::remove_file(folder.join(server::FILE));
                (reason, Some(FIEMAP_UNSUPPORTED))
            }
            Err(other) => return Err(other),
        };
        let mut server = Server::start(context, folder)?;
        let connection = connect(server.address)?;
        let second = is_two.then(|| Second::start(server.address)).transpose()?;
        let device = place.device();
        server.begin();
        Ok(Self {
            second,
            connection,
            server,
            place,
            device,
            bytes,
            fetched: 0,
            buffer: vec![0; 256 << 10],
            took_ns: 0,
            lies,
            refused,
            processor: context.host.pinned_processor,
        })
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        if let Some(error) = self.refused {
            return Err(error.into());
        }
        if n == 1 {
            self.device.begin();
            self.took_ns = monotonic_ns();
        }
        let began = timer.now();
        if n == 1 {
            self.ask()?;
        }
        self.fetch(n * MIB)?;
        timer.record_between(MEBIBYTE, began, timer.now());
        if self.fetched == self.bytes {
            self.took_ns = monotonic_ns() - self.took_ns;
        }
        Ok(())
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        if self.refused.is_some() {
            facts.text("no measurement", self.lies.clone());
            return Ok(());
        }
        self.server.report(self.processor, steps, facts);
        Stop::unless(self.fetched == steps * MIB, || format!("{} bytes arrived", self.fetched))?;
        let mut fact = |name: &str, text: String| facts.text(name, text);
        fact("pieces of the file", self.lies.clone());
        let rate = self.fetched as f64 / 1e6 / (self.took_ns as f64 / 1e9);
        fact("rate", format!("{rate:.0} MB/s"));
        if let Some(second) = self.second.take() {
            fact("the second visitor's rate", format!("{:.1} MB/s", second.rate()?));
        }
        match self.device.read() {
            Some((requests, read)) => {
                let mean = read as f64 / 1024.0 / requests.max(1) as f64;
                let name = &self.device.name;
                fact("the device's requests", format!("{requests} reads of {mean:.1} KiB on average ({name})"));
                Stop::unless(read >= self.fetched / 10 * 9, || {
                    format!("of {} bytes the device had to read only {read}: the file was not cold", self.fetched)
                })?;
            }
            None => fact("the device's requests", "not known for this file system".to_owned()),
        }
        if let Place::Folder(_, Some(reason)) = &self.place {
            fact("no file system of its own", reason.clone());
        }
        self.place.folder().map(drop)
    }
}

/// Makes the files, and says how the first lies.
fn lay(folder: &Path, bytes: u64, piece: u64, is_two: bool) -> Result<String, Stop> {
    // The name that the server is asked for.
    file(folder, server::FILE, bytes, piece)?;
    if is_two {
        file(folder, Second::FILE, bytes, 0)?;
    }
    prove(&folder.join(server::FILE), bytes, piece)
}

fn connect(address: SocketAddr) -> Result<TcpStream, Stop> {
    let connection = TcpStream::connect(address).map_err(|error| Stop::io("connect", &error))?;
    connection.set_read_timeout(Some(PATIENCE)).map_err(|error| Stop::io("setsockopt", &error))?;
    set_reset_on_close(&connection)?;
    Ok(connection)
}

impl Download {
    /// Sends the request and reads the head.
    fn ask(&mut self) -> Result<(), Stop> {
        send(&self.connection, &self.server.request, false)?;
        let (head, got) = read_head(&self.connection, &mut self.buffer)?;
        Stop::unless(head.1 == Some(self.bytes), || {
            format!("the answer is to have {:?} bytes instead of {}", head.1, self.bytes)
        })?;
        let body = head.0..got;
        self.seen(&body)
    }

    /// Reads until so much of the body has arrived.
    fn fetch(&mut self, until: u64) -> Result<(), Stop> {
        while self.fetched < until {
            let room = self.buffer.len().min((until - self.fetched) as usize);
            let got = receive(&self.connection, &mut self.buffer[..room])?;
            Stop::unless(got > 0, || format!("the answer ends after {} bytes", self.fetched))?;
            self.seen(&(0..got))?;
        }
        Ok(())
    }

    /// Takes note of a part of the body, whose last byte must be the file's.
    fn seen(&mut self, part: &std::ops::Range<usize>) -> Result<(), Stop> {
        if part.is_empty() {
            return Ok(());
        }
        self.fetched += part.len() as u64;
        let (last, expected) = (self.buffer[part.end - 1], byte_at(self.fetched - 1));
        Stop::unless(last == expected, || format!("byte {} is {last} instead of {expected}", self.fetched))
    }
}

/// Reads an answer's head: how long it is and how long the body is to be; and how much was read in all.
fn read_head(connection: &TcpStream, buffer: &mut [u8]) -> Result<((usize, Option<u64>), usize), Stop> {
    let (mut reader, mut got) = (Reader::default(), 0);
    loop {
        let more = receive(connection, &mut buffer[got..])?;
        Stop::unless(more > 0, || "the server closed the connection without an answer".to_owned())?;
        got += more;
        match reader.parse(&buffer[..got]) {
            Ok(Some(head)) => {
                let status = head.status;
                Stop::unless(status == Status::OK, || format!("the answer has the status {}", status.0))?;
                return Ok(((head.head_bytes, head.content_length), got));
            }
            Ok(None) => {}
            Err(malformed) => return Err(Stop::Wrong(format!("the server's answer is a {malformed}"))),
        }
    }
}

impl Place {
    fn of(context: &Context, bytes: u64, is_two: bool) -> Result<Self, Stop> {
        let settings = context.settings;
        let reason = volume::reason_against();
        if settings.is("location", "folder") || reason.is_some() {
            let folder = context.scratch.join(format!("download-{}-{bytes}", settings.text("extent")));
            fs::create_dir_all(&folder).map_err(|error| Stop::io("mkdir", &error))?;
            return Ok(Place::Folder(folder, reason.filter(|_| settings.is("location", "auto"))));
        }
        let pieces = settings.text("extent");
        let files = if pieces == "whole" && !is_two { 1 } else { 2 };
        let name = format!("download-{pieces}-{files}-{}", bytes / MIB);
        let (volume, _) = Volume::open(context.scratch, &name, files * bytes + bytes / 32 + (12 << 20))?;
        Ok(Place::Own(volume))
    }

    fn folder(&self) -> Result<&Path, Stop> {
        match self {
            Place::Own(volume) => volume.folder(),
            Place::Folder(folder, _) => Ok(folder),
        }
    }

    fn device(&self) -> Device {
        match self {
            Place::Own(volume) => Device::named(volume.device(), format!("/sys/block/{}/stat", volume.device())),
            Place::Folder(folder, _) => {
                let (major, minor) = landau_sys::disk::device_numbers(folder).unwrap_or_default();
                let name = format!("device {major}:{minor}, with all who use it");
                Device::named(&name, format!("/sys/dev/block/{major}:{minor}/stat"))
            }
        }
    }
}

/// A block device's account of what it read.
#[derive(Debug)]
struct Device {
    name: String,
    stat: String,
    began: Option<(u64, u64)>,
}

impl Device {
    fn named(name: &str, stat: String) -> Self {
        Self { name: name.to_owned(), stat, began: None }
    }

    /// Requests and bytes read since the system started.
    fn now(&self) -> Option<(u64, u64)> {
        let text = fs::read_to_string(&self.stat).ok()?;
        let mut words = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (requests, _merged, sectors) = (words.next()?.ok()?, words.next()?, words.next()?.ok()?);
        Some((requests, sectors * 512))
    }

    fn begin(&mut self) {
        self.began = self.now();
    }

    /// Requests and bytes read since then.
    fn read(&self) -> Option<(u64, u64)> {
        let ((from, from_bytes), (to, to_bytes)) = (self.began?, self.now()?);
        Some((to - from, to_bytes - from_bytes))
    }
}

/// The second visitor: a thread that fetches another file at a bounded rate, again and again, until it is told to end.
#[derive(Debug)]
struct Second {
    thread: Option<JoinHandle<Result<(), String>>>,
    end: Arc<AtomicBool>,
    fetched: Arc<AtomicU64>,
    began_ns: u64,
}

impl Second {
    const FILE: &'static str = "second";

    fn start(address: SocketAddr) -> Result<Self, Stop> {
        let connection = connect(address)?;
        let (end, fetched) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, count) = (end.clone(), fetched.clone());
        let visit = move || visit(&connection, &told, &count).map_err(|stop| stop.to_string());
        let thread = std::thread::Builder::new().spawn(visit).map_err(|error| Stop::io("pthread_create", &error))?;
        Ok(Self { thread: Some(thread), end, fetched, began_ns: monotonic_ns() })
    }

    /// Ends it, and says how fast it was, in MB/s.
    fn rate(mut self) -> Result<f64, Stop> {
        let took_s = (monotonic_ns() - self.began_ns) as f64 / 1e9;
        let rate = self.fetched.load(Ordering::Relaxed) as f64 / 1e6 / took_s;
        match self.join() {
            Some(Ok(Err(reason))) => Err(Stop::Wrong(format!("the second visitor failed: {reason}"))),
            Some(Err(_)) => Err(Stop::Wrong("the second visitor's thread panicked".to_owned())),
            _ => Ok(rate),
        }
    }

    fn join(&mut self) -> Option<std::thread::Result<Result<(), String>>> {
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        // Its failure is the business of whoever asked for its rate.
        let _ = self.join();
    }
}

fn visit(connection: &TcpStream, end: &AtomicBool, count: &AtomicU64) -> Result<(), Stop> {
    let mut buffer = vec![0; PORTION];
    let request = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", Second::FILE);
    let (began, mut all) = (monotonic_ns(), 0);
    loop {
        send(connection, request.as_bytes(), false)?;
        let ((head, length), got) = read_head(connection, &mut buffer)?;
        let length = length.unwrap_or(0);
        let mut body = (got - head) as u64;
        while body < length && !end.load(Ordering::Relaxed) {
            let room = PORTION.min((length - body) as usize);
            let got = receive(connection, &mut buffer[..room])? as u64;
            Stop::unless(got > 0, || "the answer ends early".to_owned())?;
            body += got;
            all += got;
            count.store(all, Ordering::Relaxed);
            let due = began + all * 1_000_000_000 / SECOND_RATE;
            std::thread::sleep(Duration::from_nanos(due.saturating_sub(monotonic_ns())));
        }
        if end.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}
