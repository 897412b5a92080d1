//! Pages over HTTP that a separate thread generates on request: counters and metrics.

use super::conduct::Plan;
use super::counters::{Counted, counters};
use super::protocol::{Opened, Origin, Protocol, Step, Then};
use super::server::{Config, Remote, Sink};
use super::{Error, Listen};
use landau_wire::http::head::Head;
use landau_wire::http::{Limits, Method, Parsed, Scan, Status};
use std::sync::Arc;
use std::time::Duration;

/// How long a client may be idle.
const IDLE: Duration = Duration::from_secs(60);

/// The type of a page in the text format of Prometheus, version 0.0.4.
pub(crate) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Its media type.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

/// Generates the page for a path without its query; `None` if there is none.
type Source = Box<dyn Fn(&[u8]) -> Option<Page> + Send>;

counters! {
    /// The counters of the endpoint itself.
    Counters {
        pages "requests for pages",
    }
}

/// The endpoint. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    /// Where it listens.
    pub(crate) address: Listen,
    remote: Remote,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.remote.end();
    }
}

/// Serves pages at an address, in a thread with this name.
pub(crate) fn serve(
    listen: Listen,
    name: &str,
    source: impl Fn(&[u8]) -> Option<Page> + Send + 'static,
) -> Result<Serving, Error> {
    let pages = Pages { source: Box::new(source), limits: Limits::default(), counters: Arc::default() };
    let sink = Sink::bind(pages, Config::new(vec![listen]))?;
    let (addresses, remote) = (sink.addresses(), sink.remote());
    // The thread ends with an error only if it cannot start, and then no request is answered.
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || sink.run());
    spawned.map_err(|error| landau_sys::Error::from_io("clone", &error))?;
    Ok(Serving { address: addresses.first().copied().unwrap_or(listen), remote })
}

/// Answers requests for pages.
struct Pages {
    source: Source,
    limits: Limits,
    counters: Arc<Counters>,
}

impl Protocol for Pages {
    type Session = Scan;

    fn open(&mut self, _: &Origin, _: u32, _: &mut Vec<u8>) -> Opened<Scan> {
        Opened { session: Scan::default(), plan: Plan::default(), step: Step::receive(0) }
    }

    fn step(&mut self, scan: &mut Scan, input: &[u8], _: u32, out: &mut Vec<u8>) -> Step {
        let (status, page, consumed, is_head) = match scan.parse(input, &self.limits) {
            Ok(Parsed::Partial) => return Step::receive(0),
            Err(reject) => (reject.status, Page::default(), input.len(), false),
            Ok(Parsed::Complete { request, consumed }) => {
                let path = request.path().split(|&byte| byte == b'?').next().unwrap_or_default();
                let (status, page) = match request.method() {
                    Method::Get | Method::Head => match (self.source)(path) {
                        Some(page) => (Status::OK, page),
                        None => (Status::NOT_FOUND, Page::default()),
                    },
                    _ => (Status::METHOD_NOT_ALLOWED, Page::default()),
                };
                (status, page, consumed, request.method() == Method::Head)
            }
        };
        self.counters.pages.add(1);
        let kind = if page.kind.is_empty() { "text/plain" } else { page.kind };
        let head = Head::new(out, status).field("Content-Type", kind.as_bytes());
        head.number("Content-Length", page.text.len() as u64).field("Connection", b"close").end();
        if !is_head {
            out.extend_from_slice(page.text.as_bytes());
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
