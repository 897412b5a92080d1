//! `/metrics` for Prometheus, by a thread of its own. The engine writes the page while it runs; the thread only sends
//! it.

use crate::engine::Progress;
use crate::error::{Error, Result};
use crate::sink::conduct::Plan;
use crate::sink::counters::{Counted, counters};
use crate::sink::protocol::{Opened, Origin, Protocol, Step, Then};
use crate::sink::{Config, Listen, Remote, Sink};
use crate::stats::Stats;
use landau_wire::http::head::Head;
use landau_wire::http::{Limits, Method, Parsed, Scan, Status};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a client may be idle.
const IDLE: Duration = Duration::from_secs(60);

/// The reasons that are on the page.
const REASONS: usize = 20;

counters! {
    /// What the endpoint itself counts.
    Counters {
        requests "requests for metrics",
    }
}

/// The endpoint. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Exporter {
    page: Arc<Mutex<String>>,
    remote: Remote,
}

impl Exporter {
    /// Serves the page at an address.
    pub(crate) fn start(listen: Listen) -> Result<Self> {
        let page = Arc::<Mutex<String>>::default();
        let protocol = Pages { page: Arc::clone(&page), limits: Limits::default(), counters: Arc::default() };
        let sink = Sink::bind(protocol, Config::new(vec![listen])).map_err(Error::Metrics)?;
        let remote = sink.remote();
        // The thread ends with an error only if it cannot begin, and then nothing answers.
        let spawned = std::thread::Builder::new().name("metrics".to_owned()).spawn(move || sink.run());
        spawned.map_err(|error| landau_sys::Error::from_io("clone", &error))?;
        Ok(Self { page, remote })
    }

    /// Replaces the page, if no client is being answered.
    pub(crate) fn update(&self, page: impl FnOnce() -> String) {
        if let Ok(mut held) = self.page.try_lock() {
            *held = page();
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.remote.end();
    }
}

/// Answers requests for the page.
struct Pages {
    page: Arc<Mutex<String>>,
    limits: Limits,
    counters: Arc<Counters>,
}

impl Protocol for Pages {
    type Session = Scan;

    fn open(&mut self, _: &Origin, _: u32, _: &mut Vec<u8>) -> Opened<Scan> {
        Opened { session: Scan::default(), plan: Plan::default(), step: Step::receive(0) }
    }

    fn step(&mut self, scan: &mut Scan, input: &[u8], _: u32, out: &mut Vec<u8>) -> Step {
        let (status, consumed, is_head) = match scan.parse(input, &self.limits) {
            Ok(Parsed::Partial) => return Step::receive(0),
            Err(reject) => (reject.status, input.len(), false),
            Ok(Parsed::Complete { request, consumed }) => {
                let path = request.path().split(|&byte| byte == b'?').next().unwrap_or_default();
                let status = match request.method() {
                    Method::Get | Method::Head if path == b"/metrics" => Status::OK,
                    Method::Get | Method::Head => Status::NOT_FOUND,
                    _ => Status::METHOD_NOT_ALLOWED,
                };
                (status, consumed, request.method() == Method::Head)
            }
        };
        self.counters.requests.add(1);
        let page = if status == Status::OK {
            self.page.lock().unwrap_or_else(PoisonError::into_inner).clone()
        } else {
            String::new()
        };
        let head = Head::new(out, status).field("Content-Type", b"text/plain; version=0.0.4; charset=utf-8");
        head.number("Content-Length", page.len() as u64).field("Connection", b"close").end();
        if !is_head {
            out.extend_from_slice(page.as_bytes());
        }
        Step { consumed, delay: Duration::ZERO, then: Then::HangUp }
    }

    fn expire(&mut self, _: &mut Scan, _: &mut Vec<u8>) {}

    fn close(&mut self, _: &mut Scan) {}

    fn idle_timeout(&self, _: &Scan) -> Duration {
        IDLE
    }

    fn counters(&self) -> Arc<dyn Counted> {
        self.counters.clone()
    }
}

/// Returns the page (text format of Prometheus, version 0.0.4).
pub(crate) fn page(progress: &Progress, stats: &Stats) -> String {
    let mut out = String::new();
    let tally = progress.recipients;
    let states = [("done", tally.done), ("deferred", tally.deferred), ("failed", tally.failed), ("left", tally.left)];
    describe(&mut out, "recipients", "gauge", "Recipients that were read, by state.");
    for (state, value) in states {
        line(&mut out, "recipients", &[("state", state)], value as f64);
    }
    for (name, kind, about, value) in [
        ("active_recipients", "gauge", "Recipients in memory.", progress.active),
        ("connections", "gauge", "Connections, those being established included.", u64::from(progress.open)),
        ("connections_total", "counter", "Connections that were greeted.", stats.connections),
        ("encrypted_connections_total", "counter", "Connections that were encrypted.", stats.encrypted),
        ("attempts_total", "counter", "Times that a recipient was given to a session.", stats.attempts),
        ("sent_bytes_total", "counter", "Bytes sent.", stats.sent_bytes),
        ("bounces_total", "counter", "Reports about failed recipients.", stats.bounces),
    ] {
        describe(&mut out, name, kind, about);
        line(&mut out, name, &[], value as f64);
    }
    describe(&mut out, "phase_seconds", "summary", "Times of the phases of connections and transactions.");
    for (phase, times) in stats.phases.all().into_iter().filter(|(_, times)| times.count() > 0) {
        for (label, share) in [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("1", 1.0)] {
            let seconds = times.quantile_ns(share) as f64 / 1e9;
            line(&mut out, "phase_seconds", &[("phase", phase), ("quantile", label)], seconds);
        }
        line(&mut out, "phase_seconds_count", &[("phase", phase)], times.count() as f64);
    }
    for (name, about, reasons) in [
        ("refusals_total", "Deferrals and failures of recipients, the most frequent reasons.", &stats.reasons),
        ("lost_connections_total", "Connections refused or lost, the most frequent reasons.", &stats.lost),
    ] {
        describe(&mut out, name, "counter", about);
        for (reason, count) in reasons.sorted().into_iter().take(REASONS) {
            line(&mut out, name, &[("reason", &reason)], count as f64);
        }
    }
    out
}

fn describe(out: &mut String, name: &str, kind: &str, about: &str) {
    // Writing to a string cannot fail.
    let _ = write!(out, "# HELP landau_mail_{name} {about}\n# TYPE landau_mail_{name} {kind}\n");
}

fn line(out: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let _ = write!(out, "landau_mail_{name}");
    for (index, (label, text)) in labels.iter().enumerate() {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        let _ = write!(out, "{}{label}=\"{escaped}\"", if index == 0 { '{' } else { ',' });
    }
    let _ = writeln!(out, "{} {value}", if labels.is_empty() { "" } else { "}" });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpStream;

    #[test]
    fn the_page_has_what_was_counted() {
        let mut stats = Stats { connections: 3, ..Stats::default() };
        stats.phases.connected(2_000_000_000);
        stats.reasons.count("450 \"busy\" \\ later");
        let mut progress = Progress::default();
        progress.recipients.done = 12;
        let page = page(&progress, &stats);
        for text in [
            "# TYPE landau_mail_recipients gauge\nlandau_mail_recipients{state=\"done\"} 12\n",
            "landau_mail_connections_total 3\n",
            "landau_mail_phase_seconds_count{phase=\"connect\"} 1\n",
            "landau_mail_refusals_total{reason=\"450 \\\"busy\\\" \\\\ later\"} 1\n",
        ] {
            assert!(page.contains(text), "{text} in {page}");
        }
        assert!(page.lines().all(|line| line.starts_with("# ") || line.starts_with("landau_mail_")), "{page}");
    }

    #[test]
    fn the_page_is_served_until_the_end() {
        let exporter = Exporter::start("127.0.0.1:0".parse().unwrap());
        // The address is chosen by the system, and known to the sink only.
        assert!(exporter.is_ok());
        drop(exporter);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken: Listen = listener.local_addr().unwrap().to_string().parse().unwrap();
        assert!(matches!(Exporter::start(taken), Err(Error::Metrics(_))));
        let page = Arc::new(Mutex::new("a 1\n".to_owned()));
        let protocol = Pages { page, limits: Limits::default(), counters: Arc::default() };
        let sink = Sink::bind(protocol, Config::new(vec!["127.0.0.1:0".parse().unwrap()])).unwrap();
        let (address, remote) = (sink.addresses()[0].to_string(), sink.remote());
        let thread = std::thread::spawn(move || sink.run());
        let get = |request: &str| {
            let mut stream = TcpStream::connect(&address).unwrap();
            std::io::Write::write_all(&mut stream, format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        assert!(get("GET /metrics").ends_with("\r\n\r\na 1\n"));
        assert!(get("HEAD /metrics").ends_with("\r\n\r\n"));
        assert!(get("GET /").starts_with("HTTP/1.1 404 ") && get("DELETE /metrics").starts_with("HTTP/1.1 405 "));
        remote.end();
        thread.join().unwrap().unwrap();
    }
}
