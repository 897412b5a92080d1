//! `/metrics` for Prometheus, on a separate address, by a separate thread.
//!
//! The thread serves one client at a time, each for at most two seconds: the clients are the operator's, and a response
//! has a few kilobytes. It shares only counters with a worker, and reads them while they change.

use crate::counters::{Counters, Totals};
use crate::error::Error;
use crate::listener::Bound;
use crate::privilege::Sandbox;
use crate::supervisor::Supervision;
use landau_reactor::{Interest, Reactor, Token, Waker};
use landau_sys::stream;
use landau_wire::http::head::Head;
use landau_wire::http::{Limits, Method, Parsed, Scan, Status};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long one client is served.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pause after a failed accept, when no descriptor is left.
const REST: Duration = Duration::from_millis(100);

/// The sources of the metrics.
#[derive(Debug)]
pub(crate) struct Counted {
    /// The counters of all workers and logs.
    pub(crate) counters: Vec<Counters>,
    pub(crate) workers: usize,
    /// The counters of the supervisor, if there is one.
    pub(crate) supervision: Option<Supervision>,
    /// The start time of the server, in seconds since 1970.
    pub(crate) started_s: u64,
}

/// Returns the time since 1970 in seconds.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The metrics thread.
#[derive(Debug)]
pub(crate) struct Metrics {
    must_end: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<()>,
}

impl Metrics {
    /// Starts the thread at a bound address.
    pub(crate) fn start(bound: &Bound, counted: Counted, sandbox: Arc<Sandbox>) -> Result<Self, Error> {
        let socket = bound.socket()?;
        let must_end = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let end = must_end.clone();
        let life = move || {
            let made = Reactor::new(landau_reactor::Backend::default()).and_then(|mut reactor| {
                reactor.register(&socket, Token(0), Interest::READABLE)?;
                Ok((reactor.waker()?, reactor))
            });
            match made.map_err(Error::from).and_then(|made| sandbox.enter().map(|()| made)) {
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
                Ok((waker, mut reactor)) => {
                    let _ = ready.send(Ok(waker));
                    while !end.load(Ordering::Acquire) {
                        // After a failed wait, another one would fail at once.
                        if reactor.wait(None).is_err() {
                            std::thread::sleep(REST);
                        }
                        while reactor.next_event().is_some() {}
                        accept(&socket, &counted);
                    }
                }
            }
        };
        let failed = |cause| Error::Helper { name: "metrics thread", cause };
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(life).map_err(failed)?;
        let waker = is_ready.recv().map_err(|_| failed(std::io::ErrorKind::Other.into()))??;
        Ok(Self { must_end, waker, thread })
    }

    /// Ends the thread.
    pub(crate) fn finish(self) {
        self.must_end.store(true, Ordering::Release);
        // Waking fails only if the thread has ended.
        let _ = self.waker.wake();
        let _ = self.thread.join();
    }
}

fn accept(socket: &std::os::fd::OwnedFd, counted: &Counted) {
    match stream::accept(socket) {
        // The calls used here work on any stream socket.
        Ok(client) => drop(serve(TcpStream::from(client), counted)),
        Err(error) if error.is_would_block() => {}
        Err(_) => std::thread::sleep(REST),
    }
}

/// Answers one client; an error ends only its connection.
fn serve(mut client: TcpStream, counted: &Counted) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(PATIENCE))?;
    let (until, limits) = (Instant::now() + PATIENCE, Limits::default());
    let (mut input, mut scan) = (vec![0; limits.head_bytes], Scan::default());
    let mut len = 0;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        client.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let got = client.read(&mut input[len..])?;
        len += got;
        if got == 0 || left.is_zero() {
            return Ok(());
        }
        let (status, has_content) = match scan.parse(&input[..len], &limits) {
            Ok(Parsed::Partial) => continue,
            Err(reject) => (reject.status, true),
            Ok(Parsed::Complete { request, .. }) => {
                let path = request.path().split(|&byte| byte == b'?').next().unwrap_or_default();
                let status = match request.method() {
                    Method::Get | Method::Head if path == b"/metrics" => Status::OK,
                    Method::Get | Method::Head => Status::NOT_FOUND,
                    _ => Status::METHOD_NOT_ALLOWED,
                };
                (status, request.method() != Method::Head)
            }
        };
        client.write_all(&answer(status, has_content, counted))?;
        client.shutdown(std::net::Shutdown::Write)?;
        return Ok(());
    }
}

fn answer(status: Status, has_content: bool, counted: &Counted) -> Vec<u8> {
    let (kind, page) = match status {
        Status::OK => ("text/plain; version=0.0.4; charset=utf-8", page(counted)),
        Status::NOT_FOUND => ("text/plain; charset=utf-8", "404 Not Found: try /metrics\n".to_owned()),
        _ => ("text/plain; charset=utf-8", format!("{} {}\n", status.0, status.reason())),
    };
    let mut bytes = Vec::new();
    let head = Head::new(&mut bytes, status).field("Content-Type", kind.as_bytes());
    let head = if status == Status::METHOD_NOT_ALLOWED { head.field("Allow", b"GET, HEAD") } else { head };
    head.number("Content-Length", page.len() as u64).field("Connection", b"close").end();
    if has_content {
        bytes.extend_from_slice(page.as_bytes());
    }
    bytes
}

/// Returns all counters in Prometheus' text format.
fn page(counted: &Counted) -> String {
    let mut totals = Totals::default();
    counted.counters.iter().for_each(|counters| totals.add(*counters));
    let mut page = String::new();
    let mut put = |name: &str, kind: &str, about: &str, value: u64| {
        // Writing to a string cannot fail. No text contains a backslash or a newline.
        let _ = write!(page, "# HELP {name} {about}\n# TYPE {name} {kind}\n{name} {value}\n");
    };
    for (name, about, value) in totals.each() {
        put(&format!("landau_serve_{name}_total"), "counter", about, value);
    }
    for (name, about, value) in totals.each_state() {
        put(&format!("landau_serve_{name}"), "gauge", about, value);
    }
    // The counters of a worker are not read at a single instant.
    let open = totals.accepted.saturating_sub(totals.closed);
    put("landau_serve_open_connections", "gauge", "open connections", open);
    put("landau_serve_workers", "gauge", "workers", counted.workers as u64);
    if let Some(supervision) = counted.supervision {
        put("landau_serve_processes", "gauge", "worker processes that are running", supervision.running_count());
        let about = "worker and metrics processes that ended unexpectedly and were restarted";
        put("landau_serve_process_ends_total", "counter", about, supervision.ended_count());
    }
    put(
        "landau_serve_start_time_seconds",
        "gauge",
        "start time of the server, in seconds since 1970",
        counted.started_s,
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_help_and_type_and_names_are_unique() {
        let one = Counters::default();
        one.accepted().add(3);
        one.closed().add(1);
        let supervision = Some(Supervision::new().unwrap());
        let counters = vec![one, Counters::default()];
        let page = page(&Counted { counters, workers: 1, supervision, started_s: 7 });
        let mut names = std::collections::HashSet::new();
        let lines: Vec<&str> = page.lines().collect();
        for three in lines.chunks(3) {
            let [help, kind, sample] = three else { panic!("{three:?}") };
            let name = sample.split(' ').next().unwrap();
            assert!(help.starts_with(&format!("# HELP {name} ")), "{help}");
            let expected = if name.ends_with("_total") { "counter" } else { "gauge" };
            assert_eq!(*kind, format!("# TYPE {name} {expected}"));
            assert!(names.insert(name) && name.starts_with("landau_serve_"), "{name}");
        }
        for line in [
            "landau_serve_accepted_total 3",
            "landau_serve_open_connections 2",
            "landau_serve_workers 1",
            "landau_serve_processes 0",
        ] {
            assert!(lines.contains(&line), "{page}");
        }
        assert!(page.ends_with('\n'));
    }
}
