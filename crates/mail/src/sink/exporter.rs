//! The counters over HTTP: `/metrics` for Prometheus, every other path as JSON.

use super::conduct::Plan;
use super::counters::{Counted, Reading, counters};
use super::protocol::{Opened, Origin, Protocol, Step, Then};
use super::server::{Config, Remote, Sink};
use super::{Error, Listen};
use landau_wire::http::head::Head;
use landau_wire::http::{Limits, Method, Parsed, Scan, Status};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// How long a client may be idle.
const IDLE: Duration = Duration::from_secs(60);

/// Returns the counters at this moment.
type Source = Box<dyn Fn() -> Vec<Reading> + Send>;

counters! {
    /// What the endpoint itself counts.
    Counters {
        exported "requests for counters",
    }
}

/// The endpoint.
struct Exporter {
    source: Source,
    limits: Limits,
    counters: Arc<Counters>,
}

/// A running endpoint. It ends with the process, or when this is dropped.
#[derive(Debug)]
pub struct Exporting {
    /// Where it listens.
    pub address: Listen,
    remote: Remote,
}

impl Drop for Exporting {
    fn drop(&mut self) {
        self.remote.end();
    }
}

/// Serves counters at an address, in a thread of its own.
pub fn export(listen: Listen, source: impl Fn() -> Vec<Reading> + Send + 'static) -> Result<Exporting, Error> {
    let exporter = Exporter { source: Box::new(source), limits: Limits::default(), counters: Arc::default() };
    let sink = Sink::bind(exporter, Config::new(vec![listen]))?;
    let (addresses, remote) = (sink.addresses(), sink.remote());
    // The thread ends with an error only if it cannot begin, and then nothing answers.
    let spawned = std::thread::Builder::new().name("counters".to_owned()).spawn(move || sink.run());
    spawned.map_err(|error| landau_sys::Error::from_io("clone", &error))?;
    Ok(Exporting { address: addresses.first().copied().unwrap_or(listen), remote })
}

/// Returns counters in the text format of Prometheus.
fn prometheus(readings: &[Reading]) -> String {
    let mut text = String::new();
    for Reading { name, about, value } in readings {
        // What may fall is a gauge.
        let is_gauge = name.ends_with("_left") || name.ends_with("_deferred");
        let (kind, total) = if is_gauge { ("gauge", "") } else { ("counter", "_total") };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "# HELP landau_{name}{total} {about}\n# TYPE landau_{name}{total} {kind}\nlandau_{name}{total} {value}\n"
        );
    }
    text
}

fn json(readings: &[Reading]) -> String {
    let pairs = readings.iter().map(|one| (one.name.to_owned(), one.value.into()));
    let mut text = serde_json::Value::Object(pairs.collect()).to_string();
    text.push('\n');
    text
}

impl Protocol for Exporter {
    type Session = Scan;

    fn open(&mut self, _: &Origin, _: u32, _: &mut Vec<u8>) -> Opened<Scan> {
        Opened { session: Scan::default(), plan: Plan::default(), step: Step::receive(0) }
    }

    fn step(&mut self, scan: &mut Scan, input: &[u8], _: u32, out: &mut Vec<u8>) -> Step {
        let (status, consumed, is_head, is_metrics) = match scan.parse(input, &self.limits) {
            Ok(Parsed::Partial) => return Step::receive(0),
            Ok(Parsed::Complete { request, consumed }) => {
                let is_known = matches!(request.method(), Method::Get | Method::Head);
                let status = if is_known { Status::OK } else { Status::METHOD_NOT_ALLOWED };
                (status, consumed, request.method() == Method::Head, request.path() == b"/metrics")
            }
            Err(reject) => (reject.status, input.len(), false, false),
        };
        self.counters.exported.add(1);
        let readings = if status == Status::OK { (self.source)() } else { Vec::new() };
        let (kind, text): (&[u8], _) = match (status == Status::OK, is_metrics) {
            (false, _) => (b"text/plain", String::new()),
            (true, true) => (b"text/plain; version=0.0.4; charset=utf-8", prometheus(&readings)),
            (true, false) => (b"application/json", json(&readings)),
        };
        let head = Head::new(out, status).field("Content-Type", kind).number("Content-Length", text.len() as u64);
        head.field("Connection", b"close").end();
        if !is_head {
            out.extend_from_slice(text.as_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn counters_are_served_in_both_forms() {
        let reading = |name, value| Reading { name, about: "what it counts", value };
        let source = move || vec![reading("messages", 7), reading("recipients_left", 3)];
        let exporting = export("127.0.0.1:0".parse().unwrap(), source).unwrap();
        let get = |request: &str| {
            let mut stream = TcpStream::connect(exporting.address.to_string()).unwrap();
            stream.write_all(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let metrics = get("GET /metrics");
        assert!(metrics.contains("\r\nContent-Type: text/plain; version=0.0.4"), "{metrics}");
        assert!(metrics.contains("# TYPE landau_messages_total counter\nlandau_messages_total 7\n"), "{metrics}");
        assert!(metrics.ends_with("# TYPE landau_recipients_left gauge\nlandau_recipients_left 3\n"), "{metrics}");
        assert!(get("GET /").ends_with("\r\n\r\n{\"messages\":7,\"recipients_left\":3}\n"));
        assert!(get("HEAD /metrics").ends_with("\r\n\r\n"));
        assert!(get("DELETE /").starts_with("HTTP/1.1 405 "));
    }
}
