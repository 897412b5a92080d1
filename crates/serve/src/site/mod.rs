//! Responses to requests: the files of a directory, by the rules of HTTP.

mod cache;
mod entry;
mod hosts;
mod lister;
mod listing;
mod lookup;
mod root;

pub(crate) use entry::{Body, DATE_AT, Entry, Form};
pub(crate) use listing::Listing;
pub(crate) use root::Notices;

use crate::answer::Answer;
use crate::config::Config;
use crate::counters::Counters;
use crate::fetch::Ticket;
use crate::limiter::Full;
use crate::log::{Asked, Feed};
use crate::send_buffers::SendBuffers;
use cache::Cache;
use hosts::Hosts;
use landau_reactor::Waker;
use landau_wire::http::{Expectation, Method, Reject, Request, Status, date, host, target};
use lister::{Lister, Made};
pub(crate) use lookup::Folder;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The deployments that one look-up follows.
const DEPLOYMENTS: u32 = 16;

/// What a look-up found.
#[derive(Debug)]
enum Found {
    Entry(Rc<Entry>),
    /// A listing that is being made.
    Ordered,
    /// The served directory was replaced: the look-up must be repeated.
    Replaced,
}

/// The served directory, as one worker sees it.
#[derive(Debug)]
pub(crate) struct Site {
    folder: Arc<Folder>,
    lister: Lister,
    cache: Cache,
    /// A listing that was just made: the clients that waited for it get it, whether or not the cache keeps it.
    fresh: Option<(Box<[u8]>, Rc<Entry>)>,
    cache_for_ms: u32,
    /// When the served directory was followed last.
    root_checked_ms: u32,
    /// How often the workers had noticed a replacement by then.
    replaced_count: u64,
    /// The known hosts, with virtual hosts.
    hosts: Option<Hosts>,
    counters: Counters,
    /// The access log, if there is one.
    pub(crate) log: Option<Feed>,
    /// Whether connections end with their response, because the server is ending.
    pub(crate) closing: bool,
    now_ms: u32,
    /// When the date below was read, on the transport's clock, and for how long it is valid.
    date_read_ms: u32,
    date_holds_ms: u32,
    date: [u8; date::DATE_BYTES],
    now_s: u64,
    /// Buffers for decoded paths and for keys.
    buffer: Vec<u8>,
    key: Vec<u8>,
}

impl Site {
    /// `waker` wakes the worker to take finished listings.
    pub(crate) fn new(config: &Config, folder: Folder, counters: Counters, log: Option<Feed>, waker: Waker) -> Self {
        let folder = Arc::new(folder);
        let mut site = Self {
            lister: Lister::new(folder.clone(), waker),
            folder,
            cache: Cache::new(config.cache_bytes),
            fresh: None,
            cache_for_ms: config.cache_for.as_millis() as u32,
            root_checked_ms: 0,
            replaced_count: 0,
            hosts: config.virtual_hosts.then(Hosts::default),
            counters,
            log,
            closing: false,
            now_ms: 0,
            date_read_ms: 0,
            date_holds_ms: 0,
            date: [b' '; date::DATE_BYTES],
            now_s: 0,
            buffer: vec![0; config.limits.line_bytes],
            key: Vec::new(),
        };
        site.read_clock();
        site
    }

    /// Sets the time, once for everything that a wait found.
    #[inline]
    pub(crate) fn tick(&mut self, now_ms: u32) {
        self.now_ms = now_ms;
        let replaced_count = self.folder.replaced_count();
        if replaced_count != self.replaced_count {
            // Another worker may have sent a part of the new release already.
            self.replaced_count = replaced_count;
            follow_root(&self.folder, &mut self.cache, &mut self.hosts);
        }
        if now_ms.wrapping_sub(self.date_read_ms) >= self.date_holds_ms {
            self.read_clock();
            self.cache.age(now_ms);
            self.counters.cache_bytes().set(self.cache.bytes() as u64);
        }
    }

    fn read_clock(&mut self) {
        // A clock before 1970 is wrong anyway.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.now_s = now.as_secs();
        self.date = date::format(self.now_s);
        if let Some(log) = &mut self.log {
            log.tick(self.now_s);
        }
        (self.date_read_ms, self.date_holds_ms) = (self.now_ms, 1000 - now.subsec_millis());
    }

    /// Answers a request. Returns false if it needs a listing that is still to be made: then nothing was written, and
    /// the connection may [`Site::wait_for_list`].
    #[inline]
    #[must_use]
    pub(crate) fn answer(&mut self, request: &Request<'_>, send_buffers: &mut SendBuffers) -> bool {
        let close = !request.keep_alive() || self.closing;
        let found = match request.method() {
            _ if request.expectation() == Expectation::Unknown => Err(Status::EXPECTATION_FAILED),
            Method::Get | Method::Head => match self.find(request) {
                Ok(None) => return false,
                found => found,
            },
            _ => Ok(None),
        };
        let mut answer = Answer::new(request, self.date, close, send_buffers);
        let status = match found {
            Ok(Some(entry)) => answer.entry(&entry, request, self.now_s),
            Ok(None) => answer.other_method(request),
            Err(status) => answer.failure(status),
        };
        self.count(status);
        if let Some(log) = &mut self.log {
            log.line(Asked::Request(request), status, send_buffers.content);
        }
        true
    }

    /// Lets a connection wait for the listing that a request just asked for; returns the serial number of the wait.
    pub(crate) fn wait_for_list(&mut self, number: u32) -> u32 {
        self.lister.wait(number)
    }

    /// Returns the connections that waited for a finished listing: their requests can be answered until the next call.
    #[inline]
    pub(crate) fn take_list(&mut self) -> Option<Vec<Ticket>> {
        self.fresh = None;
        let (Made { key, root, list }, waiting) = self.lister.take()?;
        let entry = Rc::new(list.map_or_else(lookup::failure, Entry::Listing));
        // The root was replaced meanwhile: those that wait look the path up again.
        if self.folder.is_root(&root) {
            if !entry.is_passing() {
                self.cache.put(&key, entry.clone(), self.root_checked_ms);
            }
            self.fresh = Some((key, entry));
        }
        Some(waiting)
    }

    /// Answers an invalid request; the connection ends with it.
    pub(crate) fn reject(&mut self, reject: Reject, send_buffers: &mut SendBuffers) -> Status {
        Answer::without_request(self.date, send_buffers).failure(reject.status);
        self.count(reject.status);
        if let Some(log) = &mut self.log {
            log.line(Asked::Refused(reject), reject.status, send_buffers.content);
        }
        reject.status
    }

    /// Answers a connection over a limit: 503 for the limit in total, 429 for that of its address.
    pub(crate) fn refuse_connection(&mut self, full: Full, send_buffers: &mut SendBuffers) {
        send_buffers.clear();
        let status = match full {
            Full::Server => Status::SERVICE_UNAVAILABLE,
            Full::Address => Status::TOO_MANY_REQUESTS,
        };
        Answer::without_request(self.date, send_buffers).failure(status);
    }

    /// Answers a request whose head took too long.
    pub(crate) fn time_out(&mut self, send_buffers: &mut SendBuffers) {
        let reject = Reject { status: Status::REQUEST_TIMEOUT, reason: "the head did not come in time" };
        self.reject(reject, send_buffers);
    }

    #[inline]
    fn count(&self, status: Status) {
        let counters = self.counters;
        counters.requests().add(1);
        match status.0 / 100 {
            1 => counters.informational().add(1),
            2 => counters.succeeded().add(1),
            3 => counters.redirected().add(1),
            4 => counters.client_errors().add(1),
            _ => counters.server_errors().add(1),
        }
    }

    /// Returns the entry of a path, from the cache if it was checked recently, otherwise from the file system. `None`
    /// if it is a listing that is still to be made.
    #[inline]
    fn find(&mut self, request: &Request<'_>) -> Result<Option<Rc<Entry>>, Status> {
        let raw = request.path();
        let raw = raw.split(|&byte| byte == b'?').next().unwrap_or_default();
        let mut site = self.site(request)?;
        // Keys in the cache are clean paths; a path with an escape might equal another's key.
        if !raw.contains(&b'%') {
            let key = key_of(&mut self.key, site.as_deref(), raw);
            if let Some((entry, checked_ms)) = self.cache.get(key, self.now_ms)
                && self.now_ms.wrapping_sub(checked_ms) < self.cache_for_ms
            {
                self.counters.cache_hits().add(1);
                return Ok(Some(entry));
            }
        }
        for _ in 0..DEPLOYMENTS {
            match self.look_up(raw, site.as_deref())? {
                Found::Entry(entry) => return Ok(Some(entry)),
                Found::Ordered => return Ok(None),
                // The host may have got a directory, or lost it.
                Found::Replaced => site = self.site(request)?,
            }
        }
        Err(Status::SERVICE_UNAVAILABLE)
    }

    fn look_up(&mut self, raw: &[u8], site: Option<&str>) -> Result<Found, Status> {
        if self.follow_root_if_due() {
            return Ok(Found::Replaced);
        }
        let target = target::clean(raw, &mut self.buffer).map_err(|reject| reject.status)?;
        if target.is_hidden() {
            self.counters.cache_misses().add(1);
            return Err(Status::NOT_FOUND);
        }
        let key = key_of(&mut self.key, site, target.path);
        let known = match self.cache.get(key, self.now_ms) {
            Some((entry, checked_ms)) if self.now_ms.wrapping_sub(checked_ms) < self.cache_for_ms => {
                self.counters.cache_hits().add(1);
                return Ok(Found::Entry(entry));
            }
            known => known.map(|(entry, _)| entry),
        };
        if let Some((_, entry)) = self.fresh.as_ref().filter(|(fresh, _)| **fresh == *key) {
            self.counters.cache_misses().add(1);
            return Ok(Found::Entry(entry.clone()));
        }
        if self.lister.is_making(key) {
            return Ok(Found::Ordered);
        }
        let mut found = self.folder.look_up(site, target.path, known);
        if found.as_ref().is_some_and(|entry| entry.is_passing()) && self.cache.let_go_of_files() {
            found = self.folder.look_up(site, target.path, None);
        }
        // What is missing, an index file included, may be in a new directory: the previous one may be half removed.
        let is_missing = found.as_ref().is_none_or(|entry| entry.is_failure());
        if is_missing && follow_root(&self.folder, &mut self.cache, &mut self.hosts) {
            return Ok(Found::Replaced);
        }
        let Some(entry) = found else {
            let is_ordered = self.lister.order(key, site, target.path);
            return if is_ordered { Ok(Found::Ordered) } else { Err(Status::SERVICE_UNAVAILABLE) };
        };
        self.counters.cache_misses().add(1);
        if !entry.is_passing() {
            // It is as old as the knowledge of which directory is served.
            self.cache.put(key, entry.clone(), self.root_checked_ms);
        }
        Ok(Found::Entry(entry))
    }

    /// Follows the served directory unless that was done recently: twice in the time for which entries are trusted, so
    /// that each of them is for half of it at least. Returns whether the directory was replaced.
    fn follow_root_if_due(&mut self) -> bool {
        if self.now_ms.wrapping_sub(self.root_checked_ms) < self.cache_for_ms.div_ceil(2) {
            return false;
        }
        self.root_checked_ms = self.now_ms;
        follow_root(&self.folder, &mut self.cache, &mut self.hosts)
    }

    /// With virtual hosts, returns the directory of the requested host.
    #[inline]
    fn site(&mut self, request: &Request<'_>) -> Result<Option<String>, Status> {
        if self.hosts.is_some() { self.host(request) } else { Ok(None) }
    }

    /// Returns the directory of the requested host, or the default one.
    fn host(&mut self, request: &Request<'_>) -> Result<Option<String>, Status> {
        let mut buffer = [0; host::NAME_BYTES];
        let Some(given) = request.host().filter(|given| !given.is_empty()) else {
            return Ok(Some("default".to_owned()));
        };
        let name = host::folder_name(given, &mut buffer).ok_or(Status::MISDIRECTED_REQUEST)?;
        let known = self.hosts.as_ref().and_then(|hosts| hosts.get(name, self.now_ms, self.cache_for_ms));
        let has_folder = if let Some(known) = known {
            known
        } else {
            self.follow_root_if_due();
            let mut has_folder = self.folder.has_host(name);
            if has_folder != Ok(true) && follow_root(&self.folder, &mut self.cache, &mut self.hosts) {
                has_folder = self.folder.has_host(name);
            }
            if let (Some(hosts), Ok(has_folder)) = (&mut self.hosts, has_folder) {
                hosts.put(name, has_folder, self.root_checked_ms);
            }
            has_folder?
        };
        Ok(Some(if has_folder { name } else { "default" }.to_owned()))
    }
}

/// Follows the served directory if it was replaced, and then forgets what the cache says of the previous one; returns
/// whether it was.
fn follow_root(folder: &Folder, cache: &mut Cache, hosts: &mut Option<Hosts>) -> bool {
    let is_replaced = folder.follow_root();
    if is_replaced {
        cache.clear();
        hosts.iter_mut().for_each(Hosts::clear);
    }
    is_replaced
}

/// Returns the cache's key of a path with a host; a host's name contains no slash.
#[inline]
fn key_of<'a>(buffer: &'a mut Vec<u8>, site: Option<&str>, path: &'a [u8]) -> &'a [u8] {
    let Some(site) = site else { return path };
    buffer.clear();
    buffer.extend_from_slice(site.as_bytes());
    buffer.extend_from_slice(path);
    buffer
}
