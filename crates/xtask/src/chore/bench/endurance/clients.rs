//! The clients. Each is a thread that sends requests, checks the responses, and pauses.

use super::PORTS;
use super::hostile;
use super::stream::{Stream, Tls, connect};
use super::tally::{Outcome, Tally};
use crate::client::{Answer, Http1, Http2, Lost};
use anyhow::{Context, Result, ensure};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The names and lengths of the files.
const FILES: [(&str, usize); 4] = [("f", 300), ("f8k", 8_192), ("f40k", 40_000), ("f2m", 2_000_000)];
/// The indices of the file that is downloaded slowly, and of the one that is requested many times at once.
const LARGE: usize = 3;
const MEDIUM: usize = 1;

/// The stack size of a client.
const STACK_BYTES: usize = 256 << 10;
/// All clients start within this time.
const START_MS: u64 = 10_000;
/// The maximum pause of a client; the mean is half of it. It is shorter than the server's idle timeout.
const PAUSE_MS: u64 = 24_000;
/// The pause of a client of a large file after each 16 KiB.
const LARGE_PAUSE: Duration = Duration::from_millis(250);
/// The number of lines of a slow request head, of one kilobyte each, with a pause after each line. The total is within
/// the server's timeout for a head.
const HEAD_LINES: usize = 6;
const HEAD_PAUSE: Duration = Duration::from_secs(1);
/// The number of files that a slow reader requests at once, and the time after which it begins to read.
const PIPELINED: usize = 100;
const READ_AFTER: Duration = Duration::from_secs(12);
/// The receive buffer of a slow client in bytes, so that the server cannot leave all responses to the kernel's buffers.
const RECEIVE_BUFFER: u32 = 16 << 10;
/// The number of concurrent streams of an HTTP/2 client.
const STREAMS: usize = 8;
/// The number of requests after which a client reconnects.
const REQUESTS: usize = 10;

/// The behaviour of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Sends occasional requests on one connection.
    Kept,
    /// Sends each request on a new connection.
    Fresh,
    /// Like `Kept`, over TLS.
    Tls,
    /// Requests several files at a time over HTTP/2.
    Http2,
    /// Like `Http2`, over TLS.
    Http2Tls,
    /// Downloads a large file slowly.
    Large,
    /// Like `Large`, over TLS.
    LargeTls,
    /// Sends its request head slowly.
    SlowHead,
    /// Like `SlowHead`, over TLS.
    SlowHeadTls,
    /// Requests many files at once (pipelining) and reads nothing for a while.
    SlowReader,
    /// Like `SlowReader`, over TLS.
    SlowReaderTls,
    /// Sends invalid or abusive requests, or disconnects in the middle.
    Hostile,
}

/// The kinds of twenty clients; each kind occurs according to its share.
pub(super) const SHARES: [Kind; 20] = [
    Kind::Kept,
    Kind::Kept,
    Kind::Kept,
    Kind::Kept,
    Kind::Fresh,
    Kind::Tls,
    Kind::Tls,
    Kind::Tls,
    Kind::Http2,
    Kind::Http2,
    Kind::Http2Tls,
    Kind::Http2Tls,
    Kind::Large,
    Kind::LargeTls,
    Kind::SlowHead,
    Kind::SlowHeadTls,
    Kind::SlowReader,
    Kind::SlowReaderTls,
    Kind::Hostile,
    Kind::Hostile,
];

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kept => "HTTP/1.1, kept",
            Self::Fresh => "HTTP/1.1, a connection each",
            Self::Tls => "HTTP/1.1, TLS",
            Self::Http2 => "HTTP/2",
            Self::Http2Tls => "HTTP/2, TLS",
            Self::Large => "large file, slowly",
            Self::LargeTls => "large file, slowly, TLS",
            Self::SlowHead => "slow head",
            Self::SlowHeadTls => "slow head, TLS",
            Self::SlowReader => "100 requests, read later",
            Self::SlowReaderTls => "100 requests, read later, TLS",
            Self::Hostile => "hostile",
        }
    }

    fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::Http2Tls | Self::LargeTls | Self::SlowHeadTls | Self::SlowReaderTls)
    }

    fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Http2Tls)
    }

    /// Returns whether the client uses a small receive buffer.
    fn is_slow(self) -> bool {
        matches!(self, Self::Large | Self::LargeTls | Self::SlowReader | Self::SlowReaderTls)
    }
}

/// The served directory and its contents.
pub(super) struct Site {
    pub(super) root: PathBuf,
    contents: Vec<Vec<u8>>,
    tls: Tls,
}

impl Site {
    /// Writes the files.
    pub(super) fn make(folder: &Path) -> Result<Self> {
        let root = folder.join("www");
        fs::create_dir(&root).context("make the site")?;
        let mut contents = Vec::new();
        for (number, (name, length)) in (1_u32..).zip(FILES) {
            let byte = |place: usize| b'a' + ((place as u32).wrapping_mul(2_654_435_761 / number) >> 28) as u8;
            let content: Vec<u8> = (0..length).map(byte).collect();
            fs::write(root.join(name), &content).with_context(|| format!("write {name}"))?;
            contents.push(content);
        }
        Ok(Self { root, contents, tls: Tls::new()? })
    }

    /// Requests every file once, each on a new connection.
    pub(super) fn visit_all(&self) -> Result<()> {
        for (file, (name, _)) in FILES.iter().enumerate() {
            let got = Http1::new(Stream::plain()?).get(&format!("/{name}"), "");
            let outcome = self.judge(file, got);
            ensure!(outcome == Outcome::Whole, "{name}: {outcome:?}");
        }
        Ok(())
    }

    /// Judges the response to a request for a file.
    fn judge(&self, file: usize, got: Result<Answer, Lost>) -> Outcome {
        match got {
            Ok(answer) if answer.status == 200 && answer.body == self.contents[file] => Outcome::Whole,
            Ok(answer) if matches!(answer.status, 429 | 503) => Outcome::Refused,
            Ok(answer) => {
                let name = FILES[file].0;
                Outcome::Lost(format!(
                    "{name}: status {}, {} bytes that differ from the file",
                    answer.status,
                    answer.body.len()
                ))
            }
            Err(lost) => Outcome::of(lost),
        }
    }
}

/// Starts clients. `began` is the origin of the times of losses. Each client returns its counts when it ends.
pub(super) fn start(
    site: &Arc<Site>,
    count: usize,
    began: Instant,
    is_over: &Arc<AtomicBool>,
) -> Result<Vec<JoinHandle<Tally>>> {
    let start = |number: usize| {
        let mut client = Client {
            kind: SHARES[number % SHARES.len()],
            site: Arc::clone(site),
            began,
            is_over: Arc::clone(is_over),
            random: ChaCha8Rng::seed_from_u64(number as u64),
            tally: Tally::default(),
        };
        let run = move || {
            client.run();
            client.tally
        };
        std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).context("start a client")
    };
    (0..count).map(start).collect()
}

/// A client.
struct Client {
    kind: Kind,
    site: Arc<Site>,
    began: Instant,
    is_over: Arc<AtomicBool>,
    random: ChaCha8Rng,
    tally: Tally,
}

impl Client {
    fn run(&mut self) {
        let first = self.random.random_range(0..START_MS);
        self.pause(Duration::from_millis(first));
        while !self.is_over() {
            if let Err(error) = self.connection() {
                self.count(Outcome::Lost(format!("{error:#}")));
            }
            self.pause_as_people_do();
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Pauses, but not beyond the end of the run.
    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while let left = end.saturating_duration_since(Instant::now())
            && !left.is_zero()
            && !self.is_over()
        {
            std::thread::sleep(left.min(Duration::from_secs(1)));
        }
    }

    fn pause_as_people_do(&mut self) {
        let time = self.random.random_range(0..PAUSE_MS);
        self.pause(Duration::from_millis(time));
    }

    fn count(&mut self, outcome: Outcome) -> bool {
        let is_whole = outcome == Outcome::Whole;
        self.tally.count(self.kind, outcome, self.began.elapsed());
        is_whole
    }

    /// Returns one of the small files.
    fn any(&mut self) -> usize {
        self.random.random_range(0..LARGE)
    }

    /// Connects in the way of this kind.
    fn connect(&self) -> Result<Stream> {
        let stream =
            if self.kind.is_tls() { Stream::tls(&self.site.tls, self.kind.is_http2()) } else { Stream::plain() }?;
        if self.kind.is_slow() {
            landau_sys::stream::set_receive_buffer(stream.socket(), RECEIVE_BUFFER)?;
        }
        Ok(stream)
    }

    /// Opens a connection and acts on it according to the kind.
    fn connection(&mut self) -> Result<()> {
        match self.kind {
            Kind::Kept | Kind::Tls => self.ask(10 * REQUESTS)?,
            Kind::Fresh => self.ask(1)?,
            Kind::Http2 | Kind::Http2Tls => self.ask_http2()?,
            Kind::Large | Kind::LargeTls => self.download()?,
            Kind::SlowHead | Kind::SlowHeadTls => self.send_slowly()?,
            Kind::SlowReader | Kind::SlowReaderTls => self.read_late()?,
            Kind::Hostile => {
                // The result does not matter, and neither does a connection error.
                let port = PORTS[self.random.random_range(0..2)];
                let _ = connect(port).and_then(|stream| hostile::act(stream, &mut self.random));
                self.count(Outcome::Hostile);
            }
        }
        Ok(())
    }

    /// Requests small files, one after another.
    fn ask(&mut self, count: usize) -> Result<()> {
        let mut client = Http1::new(self.connect()?);
        for _ in 0..if self.kind == Kind::Tls { REQUESTS } else { count } {
            let file = self.any();
            let got = client.get(&format!("/{}", FILES[file].0), "");
            let outcome = self.site.judge(file, got);
            if !self.count(outcome) || self.is_over() {
                break;
            }
            if count > 1 {
                self.pause_as_people_do();
            }
        }
        Ok(())
    }

    fn ask_http2(&mut self) -> Result<()> {
        let mut client = match Http2::new(self.connect()?) {
            Ok(client) => client,
            // The TLS handshake was refused.
            Err(error) => {
                self.count(Outcome::of(Lost::Unanswered(error.to_string())));
                return Ok(());
            }
        };
        for _ in 0..REQUESTS {
            let files: Vec<usize> = (0..STREAMS).map(|_| self.any()).collect();
            let paths: Vec<String> = files.iter().map(|&file| format!("/{}", FILES[file].0)).collect();
            let requests: Vec<(&str, &[(&str, &str)])> = paths.iter().map(|path| (&**path, &[][..])).collect();
            let mut is_open = true;
            for (file, got) in files.into_iter().zip(client.get(&requests)) {
                let outcome = self.site.judge(file, got);
                is_open &= self.count(outcome);
            }
            if !is_open || self.is_over() {
                break;
            }
            self.pause_as_people_do();
        }
        Ok(())
    }

    fn download(&mut self) -> Result<()> {
        let mut client = Http1::new(self.connect()?);
        let request = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", FILES[LARGE].0);
        // After a failed write, the response of the server can still be read.
        let _ = client.stream.write_all(request.as_bytes());
        let got = client.answer(&mut || self.pause(LARGE_PAUSE));
        let outcome = self.site.judge(LARGE, got);
        self.count(outcome);
        Ok(())
    }

    fn send_slowly(&mut self) -> Result<()> {
        let file = self.any();
        let mut client = Http1::new(self.connect()?);
        let line = format!("X-Padding: {}\r\n", "x".repeat(1000));
        let mut sent = client.stream.write_all(format!("GET /{} HTTP/1.1\r\nHost: x\r\n", FILES[file].0).as_bytes());
        for _ in 0..HEAD_LINES {
            if sent.is_err() {
                break;
            }
            self.pause(HEAD_PAUSE);
            sent = client.stream.write_all(line.as_bytes());
        }
        let _ = sent.and_then(|()| client.stream.write_all(b"\r\n"));
        let got = client.answer(&mut || ());
        let outcome = self.site.judge(file, got);
        self.count(outcome);
        Ok(())
    }

    fn read_late(&mut self) -> Result<()> {
        let mut client = Http1::new(self.connect()?);
        let request = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", FILES[MEDIUM].0);
        let _ = client.stream.write_all(request.repeat(PIPELINED).as_bytes());
        self.pause(READ_AFTER);
        for _ in 0..PIPELINED {
            let got = client.answer(&mut || ());
            // When its memory is used up, the server closes connections whose clients do not read their responses.
            let is_ended = matches!(got, Err(Lost::Cut(_) | Lost::Unanswered(_)));
            let outcome = if is_ended { Outcome::Dropped } else { self.site.judge(MEDIUM, got) };
            if !self.count(outcome) {
                break;
            }
        }
        Ok(())
    }
}
