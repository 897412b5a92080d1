//! A server for one test, and a client that reports what it received.

use landau_serve::{Accepting, Config, Listen, LiveRules, Server, Totals};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than any operation takes; a test that reaches this limit has failed.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Waits until a condition holds; fails with the message `otherwise` if it never does.
pub(crate) fn until(otherwise: impl std::fmt::Display, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "{otherwise}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the maximum that connections hold with this memory limit: an eighth more, and the buffers of one connection.
pub(crate) const fn bound(limit: usize) -> usize {
    limit + limit / 8 + (512 << 10)
}

/// Waits until a server with this memory limit has refused some clients. Checks that it does not exceed its limit
/// meanwhile.
#[track_caller]
pub(crate) fn refuses_within(site: &Site, limit: usize) {
    until("nobody is refused", || {
        assert!(site.held() <= bound(limit), "{}", site.held());
        site.server().totals().memory_refused > 10
    });
}

/// Repeats a call that a signal interrupts: an event loop in another test may use signals, which affect the whole
/// process.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Returns the two kinds of workers: those based on readiness and, if available, those with a ring.
pub(crate) fn kinds() -> Vec<Accepting> {
    let has_ring = landau_reactor::backends().contains(&landau_reactor::Backend::IoUring);
    if has_ring { vec![Accepting::Own, Accepting::Multishot] } else { vec![Accepting::Own] }
}

/// Gives a server the rules of a configuration file.
pub(crate) fn set_rules(config: &mut Config, text: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    config.rules = Some(Arc::new(LiveRules::read(file.path(), &[], |_| Vec::new()).unwrap()));
}

/// A server with a separate directory. If its test fails, it prints the kind of the server and its counters.
pub(crate) struct Site {
    folder: TempDir,
    kind: String,
    server: Option<Server>,
    pub(crate) address: SocketAddr,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let own = |line: &&str| line.split(':').next().is_some_and(|own| own.eq_ignore_ascii_case(name));
        self.head.lines().find(own).and_then(|line| line.split_once(": ")).map(|(_, value)| value)
    }
}

impl Site {
    /// Starts a server with files, and with the changes of the test.
    pub(crate) fn new(files: &[(&str, &[u8])], change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let mut config = Config::new(folder.path());
        config.listen = vec!["127.0.0.1:0".parse().unwrap()];
        change(&mut config);
        let kind = format!("{:?}, {}, {} workers", config.accepting, config.backend, config.workers);
        let server = Server::start(config).unwrap();
        server.release();
        let Listen::Tcp(address) = *server.addresses()[0].address().0 else { panic!("the first address is TCP") };
        Self { folder, kind, server: Some(server), address }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Returns the memory that its connections hold, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.server().totals().held_bytes as usize
    }

    /// Returns whether its workers have rings.
    pub(crate) fn is_ring(&self) -> bool {
        self.kind.starts_with("Multishot")
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).unwrap())
    }

    /// Sends one request on a separate connection; returns the response.
    pub(crate) fn get(&self, target: &str, fields: &str) -> Got {
        let mut client = self.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n").as_bytes());
        client.answer().unwrap()
    }

    /// Lets the server finish; returns its counters.
    pub(crate) fn end(mut self) -> Totals {
        let server = self.server.take().unwrap();
        server.drain();
        server.join().unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            if std::thread::panicking() {
                eprintln!("the server: {}; by worker: {:#?}", self.kind, server.totals_by_worker());
            }
            server.end_now();
            let _ = server.join();
        }
    }
}

/// A client of one connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

impl Client {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Self { stream, unread: Vec::new() }
    }

    /// Sends bytes; errors are ignored, because the server may close the connection before all of a hostile request is
    /// sent.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Discards what was read after a response; returns the number of bytes.
    pub(crate) fn take_unread(&mut self) -> usize {
        std::mem::take(&mut self.unread).len()
    }

    /// Reads the bytes that are there; returns 0 at the end of the stream.
    pub(crate) fn read_some(&mut self, buffer: &mut [u8]) -> usize {
        uninterrupted(|| self.stream.read(buffer)).unwrap()
    }

    /// Reads more; returns false at the end of the stream.
    fn more(&mut self) -> bool {
        let mut buffer = vec![0; 64 << 10];
        match uninterrupted(|| self.stream.read(&mut buffer)) {
            Ok(0) => false,
            Ok(count) => {
                self.unread.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing comes: {error}"),
        }
    }

    /// Returns the next response; `None` if the connection ends before it.
    pub(crate) fn answer(&mut self) -> Option<Got> {
        self.answer_of(true)
    }

    /// Returns the next response; `has_body` is false for a response to HEAD.
    pub(crate) fn answer_of(&mut self, has_body: bool) -> Option<Got> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.more() {
                assert!(self.unread.is_empty(), "half a head: {}", self.unread.escape_ascii());
                return None;
            }
        };
        let head = String::from_utf8(self.unread.drain(..end).collect()).unwrap();
        let status = head[9..12].parse().unwrap();
        let got = Got { status, head, body: Vec::new() };
        let length = got.field("Content-Length").map_or(0, |length| length.parse().unwrap());
        let length = if has_body && status != 304 { length } else { 0 };
        while self.unread.len() < length {
            assert!(self.more(), "the content ends after {} of {length} bytes", self.unread.len());
        }
        let body = self.unread.drain(..length).collect();
        Some(Got { body, ..got })
    }

    /// Returns whether the server has ended the connection without sending more.
    pub(crate) fn is_ended(&mut self) -> bool {
        self.unread.is_empty() && !self.more()
    }
}
