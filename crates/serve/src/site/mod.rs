//! What is answered to a request: the files below a folder, as HTTP wants them.

mod cache;
mod entry;
mod listing;
mod lookup;

pub(crate) use entry::{Body, DATE_AT, Entry, Form};
pub(crate) use listing::Listing;

use crate::access::Full;
use crate::answer::Answer;
use crate::config::Config;
use crate::counters::Counters;
use crate::error::Error;
use crate::log::{Asked, Feed};
use crate::outbox::Outbox;
use cache::Cache;
use landau_wire::http::{Expectation, Method, Reject, Request, Status, date, host, target};
use lookup::Folder;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The site of one worker.
#[derive(Debug)]
pub(crate) struct Site {
    folder: Folder,
    cache: Cache,
    cache_for_ms: u32,
    virtual_hosts: bool,
    counters: Arc<Counters>,
    /// The access log, where one is kept.
    pub(crate) log: Option<Feed>,
    /// Whether connections end with their answer: the server is ending.
    pub(crate) closing: bool,
    now_ms: u32,
    /// Until when the date below holds, on the reactor's clock.
    date_until_ms: u32,
    date: [u8; date::DATE_BYTES],
    now_s: u64,
    /// Where paths are decoded, and keys put together.
    buffer: Vec<u8>,
    key: Vec<u8>,
}

impl Site {
    pub(crate) fn new(config: &Config, counters: Arc<Counters>, log: Option<Feed>) -> Result<Self, Error> {
        let mut site = Self {
            folder: Folder::new(config)?,
            cache: Cache::new(config.cache_bytes),
            cache_for_ms: config.cache_for.as_millis() as u32,
            virtual_hosts: config.virtual_hosts,
            counters,
            log,
            closing: false,
            now_ms: 0,
            date_until_ms: 0,
            date: [b' '; date::DATE_BYTES],
            now_s: 0,
            buffer: vec![0; config.limits.line_bytes],
            key: Vec::new(),
        };
        site.read_clock();
        Ok(site)
    }

    /// Tells what time it is, once for all that a wait found.
    #[inline]
    pub(crate) fn tick(&mut self, now_ms: u32) {
        self.now_ms = now_ms;
        if now_ms.wrapping_sub(self.date_until_ms) < u32::MAX / 2 {
            self.read_clock();
            self.cache.age(now_ms);
            self.counters.cache_bytes.set(self.cache.bytes() as u64);
        }
    }

    fn read_clock(&mut self) {
        // A clock before 1970 is as wrong as one that stands there.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.now_s = now.as_secs();
        self.date = date::format(self.now_s);
        if let Some(log) = &mut self.log {
            log.tick(self.now_s);
        }
        self.date_until_ms = self.now_ms.wrapping_add(1000 - now.subsec_millis());
    }

    /// Answers a request.
    #[inline]
    pub(crate) fn answer(&mut self, request: &Request<'_>, outbox: &mut Outbox) -> Status {
        let close = !request.keep_alive() || self.closing;
        let found = match request.method() {
            _ if request.expectation() == Expectation::Unknown => Err(Status::EXPECTATION_FAILED),
            Method::Get | Method::Head => self.find(request),
            _ => Ok(None),
        };
        let mut answer = Answer::new(request, self.date, close, outbox);
        let status = match found {
            Ok(Some(entry)) => answer.entry(&entry, request, self.now_s),
            Ok(None) => answer.other_method(request),
            Err(status) => answer.failure(status),
        };
        self.count(status);
        if let Some(log) = &mut self.log {
            log.line(Asked::Request(request), status, outbox.content);
        }
        status
    }

    /// Refuses what is no request; the connection ends with it.
    pub(crate) fn reject(&mut self, reject: Reject, outbox: &mut Outbox) -> Status {
        Answer::without_request(self.date, outbox).failure(reject.status);
        self.count(reject.status);
        if let Some(log) = &mut self.log {
            log.line(Asked::Refused(reject), reject.status, outbox.content);
        }
        reject.status
    }

    /// Refuses a connection: 503 where there are too many in all, 429 where too many come from one address.
    pub(crate) fn refuse_connection(&mut self, full: Full, outbox: &mut Outbox) {
        outbox.clear();
        let status = match full {
            Full::Server => Status::SERVICE_UNAVAILABLE,
            Full::Address => Status::TOO_MANY_REQUESTS,
        };
        Answer::without_request(self.date, outbox).failure(status);
    }

    /// Says that a head did not come in time.
    pub(crate) fn time_out(&mut self, outbox: &mut Outbox) {
        let reject = Reject { status: Status::REQUEST_TIMEOUT, reason: "the head did not come in time" };
        self.reject(reject, outbox);
    }

    #[inline]
    fn count(&self, status: Status) {
        let counters = &self.counters;
        counters.requests.add(1);
        match status.0 / 100 {
            1 => counters.informational.add(1),
            2 => counters.succeeded.add(1),
            3 => counters.redirected.add(1),
            4 => counters.client_errors.add(1),
            _ => counters.server_errors.add(1),
        }
    }

    /// The entry of a path: from the cache if it was looked at lately, or else as the file system has it now.
    #[inline]
    fn find(&mut self, request: &Request<'_>) -> Result<Option<Rc<Entry>>, Status> {
        let raw = request.path();
        let raw = raw.split(|&byte| byte == b'?').next().unwrap_or_default();
        let site = if self.virtual_hosts { self.host(request)? } else { None };
        let key: &[u8] = match &site {
            None => raw,
            Some(site) => {
                self.key.clear();
                self.key.extend_from_slice(site.as_bytes());
                self.key.extend_from_slice(raw);
                &self.key
            }
        };
        let known = self.cache.get(key, self.now_ms);
        if let Some((entry, checked_ms)) = &known
            && self.now_ms.wrapping_sub(*checked_ms) < self.cache_for_ms
        {
            self.counters.cache_hits.add(1);
            return Ok(Some(entry.clone()));
        }
        self.counters.cache_misses.add(1);
        let target = target::clean(raw, &mut self.buffer).map_err(|reject| reject.status)?;
        if target.is_hidden() {
            return Err(Status::NOT_FOUND);
        }
        let entry = self.folder.look_up(site.as_deref(), target.path, known.map(|(entry, _)| entry));
        self.cache.put(key, entry.clone(), self.now_ms);
        Ok(Some(entry))
    }

    /// The folder of the host that is asked for, or that of all others.
    fn host(&self, request: &Request<'_>) -> Result<Option<String>, Status> {
        let mut buffer = [0; host::NAME_BYTES];
        let Some(given) = request.host().filter(|given| !given.is_empty()) else {
            return Ok(Some("default".to_owned()));
        };
        let name = host::folder_name(given, &mut buffer).ok_or(Status::MISDIRECTED_REQUEST)?;
        let name = if self.folder.has_host(name) { name } else { "default" };
        Ok(Some(name.to_owned()))
    }
}
