//! Responses to requests for the files of a directory, according to HTTP.

mod cache;
mod compress;
mod entry;
mod finder;
mod forward;
mod hosts;
mod listing;
mod logins;
mod lookup;
mod root;
mod visitor;

pub(crate) use entry::{Body, DATE_AT, Entry, Form, Ruled};
pub(crate) use listing::Listing;
use root::Followed;
pub(crate) use root::Notices;
pub(crate) use visitor::Client;

use crate::answer::{Answer, ConditionPages, RuledFailure, is_plain, value_of};
use crate::config::Config;
use crate::counters::Counters;
use crate::fetch::Ticket;
use crate::limiter::Full;
use crate::log::{Asked, Feed};
use crate::proxy::Forward;
use crate::rules::{Access, Auth, Login, LoginKey, Networks, Policy, rates};
use crate::send_buffers::SendBuffers;
use cache::Cache;
use compress::Job;
use finder::{Finder, LookedUp, Place, Product};
use hosts::Hosts;
use landau_reactor::Waker;
use landau_wire::http::encoding::{self, Coding};
use landau_wire::http::{Expectation, Field, Method, Reject, Request, Status, date, host, target};
use logins::Logins;
pub(crate) use lookup::Folder;
use lookup::Looked;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of replacements of the served directory that one lookup follows.
const DEPLOYMENTS: u32 = 16;

/// Whether a client may get the entry of a path.
#[derive(Debug)]
enum Verdict<'a> {
    Admitted,
    Refused(RuledFailure<'a>),
    /// Another thread verifies the password.
    Wait,
}

/// What is done only once for a request, even if it waits for another thread and is answered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Steps {
    /// Whether `rate` has counted it.
    is_counted: bool,
    /// Whether it has waited for the compressed form of its file.
    has_awaited_form: bool,
}

/// The compressed form of a file.
#[derive(Debug)]
enum Compressed {
    Form(Rc<Entry>),
    /// Another thread makes it.
    Ordered,
    /// The client does not accept one, or there is none.
    Nothing,
}

/// The result of a lookup.
#[derive(Debug)]
enum Found {
    Entry(Rc<Entry>),
    /// Another thread looks the entry up, or makes the listing.
    Ordered,
    /// The served directory was replaced: the lookup must be repeated.
    Replaced,
}

/// The served directory, as one worker sees it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub(crate) struct Site {
    folder: Arc<Folder>,
    finder: Finder,
    cache: Cache,
    /// The latest result of another thread. The clients that waited for it get it, whether or not the cache keeps it.
    fresh: Option<(Box<[u8]>, Rc<Entry>)>,
    cache_for_ms: u32,
    /// When the served directory was last followed.
    root_checked_ms: u32,
    /// Whether the directory must be followed before the next lookup.
    must_follow_root: bool,
    /// The number of replacements that the workers had noticed at that time.
    replaced_count: u64,
    /// The number of times that the directory had changed here when the cache was last cleared.
    change_count: u64,
    /// The known hosts, with virtual hosts.
    hosts: Option<Hosts>,
    counters: Counters,
    /// The access log, if there is one.
    pub(crate) log: Option<Feed>,
    /// Whether the identity of the client is needed.
    pub(crate) notes_client: bool,
    client: Client,
    /// What has been done for the next request already, because it has waited for another thread.
    pub(crate) steps: Steps,
    /// The proxies that are trusted to name the client.
    forwarded_from: Option<Networks>,
    logins: Logins,
    /// The secret of the keys under which logins are remembered.
    secret: [u8; 32],
    /// The request to be forwarded to an upstream server, until the worker takes it.
    pub(crate) forward: Option<Box<Forward>>,
    /// Whether the connection ends with the next response, because the body of its request is not read.
    pub(crate) must_close: bool,
    /// Whether connections end with their response, because the server is stopping.
    pub(crate) closing: bool,
    now_ms: u32,
    /// The time, on the transport's clock, when the date below was read, and how long it is valid.
    date_read_ms: u32,
    date_holds_ms: u32,
    date: [u8; date::DATE_BYTES],
    now_s: u64,
    /// Buffers for decoded paths and for keys.
    buffer: Vec<u8>,
    key: Vec<u8>,
}

impl Site {
    /// Creates a site; `waker` wakes the worker to take the results of other threads.
    pub(crate) fn new(config: &Config, folder: Folder, counters: Counters, log: Option<Feed>, waker: Waker) -> Self {
        let folder = Arc::new(folder);
        let mut site = Self {
            finder: Finder::new(folder.clone(), waker),
            folder,
            cache: Cache::new(config.cache_bytes),
            fresh: None,
            cache_for_ms: config.cache_for.as_millis() as u32,
            root_checked_ms: 0,
            must_follow_root: false,
            replaced_count: 0,
            change_count: 0,
            hosts: config.virtual_hosts.then(Hosts::default),
            counters,
            notes_client: log.is_some() || config.rules.is_some(),
            client: Client::default(),
            steps: Steps::default(),
            forwarded_from: config.forwarded_from.clone(),
            logins: Logins::default(),
            secret: secret(),
            log,
            forward: None,
            must_close: false,
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

    /// Sets the time, once for all events of a wait.
    #[inline]
    pub(crate) fn tick(&mut self, now_ms: u32) {
        self.now_ms = now_ms;
        let replaced_count = self.folder.replaced_count();
        if replaced_count != self.replaced_count {
            self.replaced_count = replaced_count;
            self.follow_others();
        }
        if now_ms.wrapping_sub(self.date_read_ms) >= self.date_holds_ms {
            self.read_clock();
            self.cache.age(now_ms);
            self.counters.cache_bytes().set(self.cache.bytes() as u64);
        }
    }

    /// Follows the served directory after another worker, which may already have sent a part of the new release.
    #[cold]
    fn follow_others(&mut self) {
        self.must_follow_root = true;
        self.forget();
        // If opening the root may block, another thread does it with the next lookup.
        if self.folder.is_local() && self.folder.follow_others() != Followed::Failed {
            self.change_count = self.folder.change_count();
            self.note_followed();
        }
    }

    /// Records the client that sends the next requests.
    pub(crate) fn note_client(&mut self, client: Client) {
        self.client = client;
        if let Some(log) = &mut self.log {
            log.peer = client.peer;
        }
    }

    fn read_clock(&mut self) {
        // A clock before 1970 is wrong in any case.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.now_s = now.as_secs();
        self.date = date::format(self.now_s);
        if let Some(log) = &mut self.log {
            log.tick(self.now_s);
        }
        (self.date_read_ms, self.date_holds_ms) = (self.now_ms, 1000 - now.subsec_millis());
    }

    /// Answers a request. Returns false if another thread must find what it needs; nothing was written then, and the
    /// connection may call [`Site::wait_for_entry`]. Also returns false if the request is to be forwarded; it is then
    /// in `forward`.
    #[inline]
    #[must_use]
    pub(crate) fn answer(&mut self, request: &Request<'_>, send_buffers: &mut SendBuffers) -> bool {
        let close = !request.keep_alive() || self.closing || self.must_close;
        if let Some(log) = &mut self.log {
            // The user of a request that waits, or that was forwarded.
            log.user = None;
        }
        let found = match request.method() {
            _ if request.expectation() == Expectation::Unknown => Err(Status::EXPECTATION_FAILED),
            Method::Get | Method::Head => match self.find(request) {
                Ok(None) => return self.has_to_wait(),
                found => found,
            },
            _ if self.is_forwarded(request) || self.is_redirected(request) => match self.find(request) {
                Ok(None) => return self.has_to_wait(),
                // The rules may just have been replaced.
                found => found.map(|found| found.filter(|entry| entry.is_forward() || entry.is_redirect_by_rules())),
            },
            _ => Ok(None),
        };
        let status = match found {
            Ok(Some(entry)) => match &*entry {
                Entry::Ruled(_) | Entry::Listing(_) | Entry::Directory => {
                    match self.answer_rarely(&entry, request, close, send_buffers) {
                        Some(status) => status,
                        None => return false,
                    }
                }
                entry => {
                    Answer::new(request, self.date, close, send_buffers).entry(entry, request, self.client, self.now_s)
                }
            },
            Ok(None) => self.answer_other_method(request, close, send_buffers),
            Err(status) => Answer::new(request, self.date, close, send_buffers).failure(status),
        };
        self.steps = Steps::default();
        self.count(status);
        if let Some(log) = &mut self.log {
            if let Some(proxies) = &self.forwarded_from {
                log.peer = self.client.behind(proxies, request).peer;
            }
            log.line(Asked::Request(request), status, send_buffers.content);
        }
        true
    }

    /// Returns false, because a request waits for another thread. Drops a request to be forwarded whose connection
    /// failed before the worker took it.
    #[cold]
    fn has_to_wait(&mut self) -> bool {
        self.forward = None;
        false
    }

    /// Answers a request for a path with rules or for a listing; `None` if another thread must find what it needs.
    #[cold]
    #[inline(never)]
    fn answer_rarely(
        &mut self,
        entry: &Rc<Entry>,
        request: &Request<'_>,
        close: bool,
        send_buffers: &mut SendBuffers,
    ) -> Option<Status> {
        self.forward = None;
        // No page is made for a client that is refused.
        if let Entry::Ruled(ruled) = &**entry
            && let ControlFlow::Break(status) = self.refuse(ruled, request, close, send_buffers)
        {
            return status;
        }
        let page = match self.page(entry, request) {
            Ok(page) => page?,
            Err(status) => {
                return Some(match &**entry {
                    Entry::Ruled(ruled) => {
                        let client = self.visitor(request);
                        self.fail_by_rules(status.into(), &ruled.policy, request, (client, close), send_buffers)
                    }
                    _ => Answer::new(request, self.date, close, send_buffers).failure(status),
                });
            }
        };
        match &*page {
            Entry::Ruled(ruled) if Rc::ptr_eq(&page, entry) => {
                self.answer_by_rules(ruled, request, close, send_buffers)
            }
            // The page was found later, and may have other rules.
            Entry::Ruled(ruled) => match self.refuse(ruled, request, close, send_buffers) {
                ControlFlow::Break(status) => status,
                ControlFlow::Continue(()) => self.answer_by_rules(ruled, request, close, send_buffers),
            },
            entry => {
                let mut answer = Answer::new(request, self.date, close, send_buffers);
                Some(answer.entry(entry, request, self.client, self.now_s))
            }
        }
    }

    /// Returns the page of a listing that the query requests, or `None` if another thread makes it. An entry that is
    /// not a directory is returned unchanged.
    fn page(&mut self, entry: &Rc<Entry>, request: &Request<'_>) -> Result<Option<Rc<Entry>>, Status> {
        let (raw, query) = split(request.path());
        let page = listing::View::of_query(query);
        // On a remote file system, the thread that looks up has already made the default page.
        let is_made = page == listing::View::default() && matches!(entry.without_rules(), Entry::Listing(_));
        if is_made || !matches!(entry.without_rules(), Entry::Listing(_) | Entry::Directory) {
            return Ok(Some(entry.clone()));
        }
        let site = self.site(request)?;
        let target = target::clean(raw, &mut self.buffer).map_err(|reject| reject.status)?;
        let key = page_key(site.as_deref(), target.path, &page);
        if let Some((_, page)) = self.fresh.as_ref().filter(|(fresh, _)| **fresh == *key) {
            return Ok(Some(page.clone()));
        }
        match self.cache.get(&key, self.now_ms) {
            Some((entry, checked_ms)) if self.now_ms.wrapping_sub(checked_ms) < self.cache_for_ms => Ok(Some(entry)),
            _ if self.finder.is_making(&key) => Ok(None),
            _ => {
                let place = Place::new(site.as_deref(), target.path, self.root_checked_ms);
                if self.finder.list(&key, place, page) { Ok(None) } else { Err(Status::SERVICE_UNAVAILABLE) }
            }
        }
    }

    /// Returns the page of a listing that another thread has just made, if the request is for it. The path is not
    /// looked up again: a result of that lookup would replace this page, which may have expired in the cache by then.
    #[cold]
    fn fresh_page(&mut self, request: &Request<'_>) -> Option<Rc<Entry>> {
        let (raw, query) = split(request.path());
        let site = self.site(request).ok()?;
        let target = target::clean(raw, &mut self.buffer).ok()?;
        let key = page_key(site.as_deref(), target.path, &listing::View::of_query(query));
        self.fresh.as_ref().filter(|(fresh, _)| **fresh == *key).map(|(_, page)| page.clone())
    }

    /// Answers a request that the rules of a path do not admit, and continues with any other. Breaks with `None` if
    /// another thread must verify the client's password.
    fn refuse(
        &mut self,
        ruled: &Ruled,
        request: &Request<'_>,
        close: bool,
        send_buffers: &mut SendBuffers,
    ) -> ControlFlow<Option<Status>> {
        let (policy, client) = (&*ruled.policy, self.visitor(request));
        if let Some(location) = secure_location(policy, request, client) {
            let mut answer = Answer::new(request, self.date, close, send_buffers);
            return ControlFlow::Break(Some(answer.ruled_redirect(&location, policy, request, client)));
        }
        let failure = match (self.judge(ruled, request, client), &ruled.entry) {
            (Verdict::Wait, _) => return ControlFlow::Break(None),
            (Verdict::Refused(failure), _) => failure,
            (Verdict::Admitted, Entry::Failure(status)) => (*status).into(),
            (Verdict::Admitted, _) => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(Some(self.fail_by_rules(failure, policy, request, (client, close), send_buffers)))
    }

    /// Answers a request that the rules of its path admit; `None` if another thread makes the compressed form, or if
    /// the request is to be forwarded.
    fn answer_by_rules(
        &mut self,
        ruled: &Ruled,
        request: &Request<'_>,
        close: bool,
        send_buffers: &mut SendBuffers,
    ) -> Option<Status> {
        let (policy, client) = (&*ruled.policy, self.visitor(request));
        if let Entry::Forward = ruled.entry {
            self.forward(ruled, request, client);
            return None;
        }
        let made = match self.compressed(ruled, request) {
            Compressed::Form(entry) => Some(entry),
            Compressed::Nothing => None,
            Compressed::Ordered => return None,
        };
        let entry = made.as_deref().unwrap_or(&ruled.entry);
        let pages = if is_plain(request) { ConditionPages::default() } else { self.condition_pages(policy, request) };
        send_buffers.pacing = policy.bandwidth;
        let mut answer = Answer::new(request, self.date, close, send_buffers);
        let status = answer.ruled((entry, pages), policy, request, client, self.now_s);
        if send_buffers.batch.is_empty() {
            send_buffers.pacing = None;
        }
        Some(status)
    }

    /// Returns the compressed form of a file if the client prefers it to the forms that exist.
    fn compressed(&mut self, ruled: &Ruled, request: &Request<'_>) -> Compressed {
        let Entry::File { forms, codings } = &ruled.entry else { return Compressed::Nothing };
        let Some(plain) = forms[Coding::Identity as usize].as_ref() else { return Compressed::Nothing };
        let is_compressed = ruled.policy.compresses(&plain.content_type, plain.status.size)
            && plain.is_settled
            && self.cache.has_room_for(plain.status.size)
            && !codings.has(compress::MADE)
            && encoding::choose(request.lines(Field::AcceptEncoding), codings.with(compress::MADE))
                == Some(compress::MADE);
        if !is_compressed {
            return Compressed::Nothing;
        }
        let key = compress::key_of(plain, &ruled.policy);
        let fresh = self.fresh.as_ref().filter(|(fresh, _)| **fresh == *key).map(|(_, entry)| entry.clone());
        let known = fresh.or_else(|| self.cache.get(&key, self.now_ms).map(|(entry, _)| entry));
        match known {
            Some(entry) if entry.is_failure() => Compressed::Nothing,
            Some(entry) => Compressed::Form(entry),
            // The file has changed since. If it changes often, the next form would come too late as well.
            None if self.steps.has_awaited_form => Compressed::Nothing,
            None if self.finder.is_making(&key) || self.finder.compress(&key, Job::new(plain, &ruled.policy)) => {
                self.steps.has_awaited_form = true;
                Compressed::Ordered
            }
            // Too many files wait already.
            None => Compressed::Nothing,
        }
    }

    /// Returns the client of a request: the connected one, or the one for whom a trusted proxy sends the request.
    fn visitor(&self, request: &Request<'_>) -> Client {
        match &self.forwarded_from {
            Some(proxies) => self.client.behind(proxies, request),
            None => self.client,
        }
    }

    /// Counts a request, and decides whether its address and rate are permitted.
    fn judge_address(&mut self, access: &[Access], client: Client) -> Result<(), RuledFailure<'static>> {
        let now = Duration::from_nanos(landau_sys::clock::monotonic_ns());
        let is_counted = std::mem::replace(&mut self.steps.is_counted, true);
        if !is_counted && let Err(wait_s) = rates(access).try_for_each(|rate| rate.admit(client.peer, now)) {
            return Err(RuledFailure { wait_s: Some(wait_s), ..Status::TOO_MANY_REQUESTS.into() });
        }
        let is_admitted = access.iter().all(|access| access.admits(client.peer));
        is_admitted.then_some(()).ok_or(Status::FORBIDDEN.into())
    }

    /// Decides whether a client may get the entry of a path.
    fn judge<'a>(&mut self, ruled: &'a Ruled, request: &Request<'_>, client: Client) -> Verdict<'a> {
        if let Err(failure) = self.judge_address(&ruled.access, client) {
            return Verdict::Refused(failure);
        }
        for auth in ruled.access.iter().filter_map(|access| access.auth.as_ref()) {
            match self.is_user(auth, request) {
                Ok(true) => {}
                Ok(false) => {
                    let realm = Some(&*auth.realm);
                    return Verdict::Refused(RuledFailure { realm, ..Status::UNAUTHORIZED.into() });
                }
                Err(verdict) => return verdict,
            }
        }
        if ruled.access.iter().any(|access| access.auth.is_some()) {
            self.note_user(request);
        }
        Verdict::Admitted
    }

    /// Records the user of a request for the log.
    fn note_user(&mut self, request: &Request<'_>) {
        if let Some(log) = &mut self.log {
            log.user = value_of(request, "Authorization").and_then(Login::parse).map(|login| login.name);
        }
    }

    /// Returns whether a request is from one of the users, if that is known.
    fn is_user(&mut self, auth: &Arc<Auth>, request: &Request<'_>) -> Result<bool, Verdict<'static>> {
        let given = value_of(request, "Authorization");
        let Some(login) = given.and_then(Login::parse) else { return Ok(false) };
        let digest = auth.users.key_of(&login, &self.secret);
        if let Some(is_right) = self.logins.get(&digest, self.now_ms) {
            return Ok(is_right);
        }
        let key = [&[0], &digest[..]].concat();
        let is_ordered = self.finder.is_making(&key) || self.finder.verify(&key, auth.clone(), login);
        Err(if is_ordered { Verdict::Wait } else { Verdict::Refused(Status::SERVICE_UNAVAILABLE.into()) })
    }

    /// Answers a method other than GET and HEAD. No login is required, because the response does not reveal anything
    /// about a file.
    #[cold]
    fn answer_other_method(&mut self, request: &Request<'_>, close: bool, send_buffers: &mut SendBuffers) -> Status {
        let client = self.visitor(request);
        let found = self.folder.rules().and_then(|rules| {
            let target = target::clean_encoded(request.path(), &mut self.buffer).ok()?;
            let (policy, access) = (rules.policy(target.path), rules.restrictions(target.path));
            let is_refused =
                target::has_encoded_slash(request.path()) && rules.policy_of_forwarded(target.path).is_none();
            (policy.is_some() || !access.is_empty()).then(|| (policy.unwrap_or_default(), access, is_refused))
        });
        let Some((policy, access, is_refused)) = found else {
            return Answer::new(request, self.date, close, send_buffers).other_method(request);
        };
        if forward::has_path(request)
            && !forward::is_preflight(request, &policy)
            && let Some(location) = secure_location(&policy, request, client)
        {
            let mut answer = Answer::new(request, self.date, close, send_buffers);
            return answer.ruled_redirect(&location, &policy, request, client);
        }
        if forward::has_path(request)
            && !forward::is_preflight(request, &policy)
            && let Err(failure) = self.judge_address(&access, client)
        {
            return self.fail_by_rules(failure, &policy, request, (client, close), send_buffers);
        }
        // An upstream server does not get this path because of an encoded slash; no file has it either.
        if is_refused && policy.forwards() && forward::has_path(request) && !forward::is_preflight(request, &policy) {
            return self.fail_by_rules(Status::NOT_FOUND.into(), &policy, request, (client, close), send_buffers);
        }
        match request.method().refusal() {
            Some(status) => self.fail_by_rules(status.into(), &policy, request, (client, close), send_buffers),
            None => Answer::new(request, self.date, close, send_buffers).ruled_other_method(&policy, request, client),
        }
    }

    /// Answers with an error, with the page and the fields that the rules set for it.
    #[cold]
    fn fail_by_rules(
        &mut self,
        failure: RuledFailure<'_>,
        policy: &Policy,
        request: &Request<'_>,
        (client, close): (Client, bool),
        send_buffers: &mut SendBuffers,
    ) -> Status {
        let page = self.error_page(failure.status, policy, request);
        let mut answer = Answer::new(request, self.date, close, send_buffers);
        answer.ruled_failure((failure, page.as_deref()), policy, request, client)
    }

    /// Returns the pages of errors that are known only when the response is written.
    #[cold]
    fn condition_pages(&mut self, policy: &Policy, request: &Request<'_>) -> ConditionPages {
        ConditionPages {
            failed: self.error_page(Status::PRECONDITION_FAILED, policy, request),
            unsatisfiable: self.error_page(Status::RANGE_NOT_SATISFIABLE, policy, request),
        }
    }

    /// Returns the page of an error, if there is one and it is available without waiting.
    fn error_page(&mut self, status: Status, policy: &Policy, request: &Request<'_>) -> Option<Rc<Entry>> {
        let mut path = policy.error_page(status)?;
        let site = self.site(request).ok()?;
        // The canonical path of a page may be another one, without `.html`.
        for _ in 0..2 {
            let Ok(Found::Entry(entry)) = self.look_up(&path, site.as_deref()) else { return None };
            match entry.without_rules() {
                Entry::Redirect { location, .. } => path = Arc::from(&**location),
                _ => return Some(entry),
            }
        }
        None
    }

    /// Lets a connection wait for the result that the last request needs; returns the serial number of the wait.
    pub(crate) fn wait_for_entry(&mut self, number: u32) -> u32 {
        self.finder.wait(number)
    }

    /// Returns the connections that waited for a result that has just arrived. Their requests can be answered until the
    /// next call.
    #[inline]
    pub(crate) fn take_found(&mut self) -> Option<Vec<Ticket>> {
        self.fresh = None;
        let (finder::Made { key, product }, waiting) = self.finder.take()?;
        let LookedUp { view, entry, root_checked_ms, is_certain } = match product {
            Product::Entry(found) | Product::Page(found) => found,
            Product::Compressed(made) => {
                let is_kept = made.is_some();
                // Without a compressed form, the clients that wait get the plain form, and the next request orders it
                // again.
                let entry = Rc::new(made.unwrap_or(Entry::Failure(Status::SERVICE_UNAVAILABLE)));
                if is_kept {
                    self.counters.files_compressed().add(1);
                    self.cache.put(&key, entry.clone(), self.now_ms);
                }
                self.fresh = Some((key, entry));
                return Some(waiting);
            }
            Product::Login(is_right) => {
                if let Ok(digest) = LoginKey::try_from(&key[1..]) {
                    self.logins.put(digest, is_right, self.now_ms);
                }
                return Some(waiting);
            }
        };
        self.note_change();
        // Otherwise the root or the rules were replaced meanwhile, and the connections that wait look the path up
        // again.
        if self.folder.is_current(&view) {
            let entry = Rc::new(entry);
            if entry.is_passing() {
                // The next request may then find a free descriptor.
                free_descriptors(&self.folder, &mut self.cache);
            } else if is_certain {
                // The entry is as old as its order, however long the lookup took.
                self.cache.put(&key, entry.clone(), root_checked_ms);
            }
            self.fresh = Some((key, entry));
        }
        Some(waiting)
    }

    /// Answers an invalid request; the connection ends with it.
    pub(crate) fn reject(&mut self, reject: Reject, send_buffers: &mut SendBuffers) -> Status {
        self.reject_request(reject, true, send_buffers)
    }

    /// Answers an invalid request that begins with `head`. The response to HEAD never has content.
    pub(crate) fn reject_head(&mut self, reject: Reject, head: &[u8], send_buffers: &mut SendBuffers) -> Status {
        self.reject_request(reject, !head.starts_with(b"HEAD "), send_buffers)
    }

    /// Answers an invalid request, with or without content.
    pub(crate) fn reject_request(
        &mut self,
        reject: Reject,
        has_content: bool,
        send_buffers: &mut SendBuffers,
    ) -> Status {
        Answer::without_request(self.date, has_content, send_buffers).failure(reject.status);
        self.count(reject.status);
        if let Some(log) = &mut self.log {
            // The client is unknown; the previous request may have been another client's.
            (log.peer, log.user) = (self.client.peer, None);
            log.line(Asked::Refused(reject), reject.status, send_buffers.content);
        }
        reject.status
    }

    /// Answers a connection beyond a limit: 503 for the total limit, 429 for that of its address.
    pub(crate) fn refuse_connection(&mut self, full: Full, send_buffers: &mut SendBuffers) {
        send_buffers.clear();
        let status = match full {
            Full::Server => Status::SERVICE_UNAVAILABLE,
            Full::Address => Status::TOO_MANY_REQUESTS,
        };
        Answer::without_request(self.date, true, send_buffers).failure(status);
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

    /// Returns the entry of a path: from the cache if it was checked recently, otherwise from the file system. `None`
    /// if another thread must find it. A page of a listing that was just made for the request is returned in its place.
    #[inline]
    fn find(&mut self, request: &Request<'_>) -> Result<Option<Rc<Entry>>, Status> {
        if self.fresh.is_some()
            && let Some(page) = self.fresh_page(request)
        {
            return Ok(Some(page));
        }
        let (raw, _) = split(request.path());
        let mut site = self.site(request)?;
        // Keys in the cache are clean paths; a path with an escape might equal another path's key.
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
        // On a remote file system, the thread that looks up also follows the root.
        let follows = self.is_root_due();
        if follows && self.folder.is_local() {
            self.note_followed();
            if self.follow_root() == Followed::Replaced {
                return Ok(Found::Replaced);
            }
        }
        let target = match target::clean(raw, &mut self.buffer).map_err(|reject| reject.status) {
            Err(Status::NOT_FOUND) => return self.look_up_encoded(raw, site),
            cleaned => cleaned?,
        };
        if target.is_hidden() && !self.folder.shows_hidden(target.path) {
            self.counters.cache_misses().add(1);
            return Ok(Found::Entry(Rc::new(self.folder.missing(target.path))));
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
        if self.finder.is_making(key) {
            return Ok(Found::Ordered);
        }
        let mut looked = self.folder.look_up(site, target.path, known);
        if matches!(&looked, Looked::Entry(entry) if entry.is_passing())
            && free_descriptors(&self.folder, &mut self.cache)
        {
            looked = self.folder.look_up(site, target.path, None);
        }
        // A missing file, including an index file, may be in a new directory: the previous directory may be partly
        // removed.
        let is_missing = match &looked {
            Looked::Entry(entry) => entry.is_failure() || entry.is_directory(),
            Looked::Remote => false,
        };
        let followed = if is_missing {
            follow_root(&self.folder, &mut self.change_count, &mut self.cache, &mut self.hosts)
        } else {
            Followed::Same
        };
        if followed == Followed::Replaced {
            return Ok(Found::Replaced);
        }
        let is_ordered = match looked {
            Looked::Entry(entry) => {
                self.counters.cache_misses().add(1);
                if followed == Followed::Failed {
                    // The time is between the two renames of a deployment; the next request may find the new directory.
                    return Ok(Found::Entry(self.folder.unknown(target.path).map_or(entry, Rc::new)));
                }
                if !entry.is_passing() {
                    // The entry is as old as the last check of which directory is served.
                    self.cache.put(key, entry.clone(), self.root_checked_ms);
                }
                return Ok(Found::Entry(entry));
            }
            Looked::Remote => {
                self.counters.remote_look_ups().add(1);
                let root_checked_ms = if follows { self.now_ms } else { self.root_checked_ms };
                self.finder.look_up(key, Place::new(site, target.path, root_checked_ms), follows)
            }
        };
        if is_ordered && follows {
            self.note_followed();
        }
        if is_ordered { Ok(Found::Ordered) } else { Err(Status::SERVICE_UNAVAILABLE) }
    }

    /// Returns the entry of a path with an encoded slash, which cannot be a file. It is not cached, because a file may
    /// have the same name with a percent sign.
    #[cold]
    fn look_up_encoded(&mut self, raw: &[u8], site: Option<&str>) -> Result<Found, Status> {
        let target = target::clean_encoded(raw, &mut self.buffer).map_err(|reject| reject.status)?;
        self.counters.cache_misses().add(1);
        Ok(Found::Entry(Rc::new(self.folder.unnamed(site, target.path))))
    }

    /// Returns whether the served directory must be followed. This happens twice in the time for which entries are
    /// trusted, so that each entry is trusted for at least half of it.
    fn is_root_due(&self) -> bool {
        let is_due = self.now_ms.wrapping_sub(self.root_checked_ms) >= self.cache_for_ms.div_ceil(2);
        self.must_follow_root || is_due
    }

    /// Records that the served directory is followed now. A request that needs no lookup must not take the turn of one
    /// that does.
    fn note_followed(&mut self) {
        (self.root_checked_ms, self.must_follow_root) = (self.now_ms, false);
    }

    fn follow_root(&mut self) -> Followed {
        follow_root(&self.folder, &mut self.change_count, &mut self.cache, &mut self.hosts)
    }

    /// Clears what is known of the previous directory if another thread has followed it.
    fn note_change(&mut self) {
        if std::mem::replace(&mut self.change_count, self.folder.change_count()) != self.change_count {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.cache.clear();
        self.hosts.iter_mut().for_each(Hosts::clear);
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
            if self.is_root_due() {
                self.note_followed();
                self.follow_root();
            }
            let mut has_folder = self.folder.has_host(name);
            let followed = if has_folder == Ok(true) { Followed::Same } else { self.follow_root() };
            if followed == Followed::Replaced {
                has_folder = self.folder.has_host(name);
            }
            // The host's directory may be in a root that does not exist yet.
            if followed == Followed::Failed && self.folder.is_removed() {
                return Err(Status::SERVICE_UNAVAILABLE);
            }
            if followed != Followed::Failed
                && let (Some(hosts), Ok(has_folder)) = (&mut self.hosts, has_folder)
            {
                hosts.put(name, has_folder, self.root_checked_ms);
            }
            has_folder?
        };
        Ok(Some(if has_folder { name } else { "default" }.to_owned()))
    }
}

/// Returns a secret that clients cannot guess.
fn secret() -> [u8; 32] {
    let mut secret = [0; 32];
    // Without random numbers TLS is unavailable too, and logins are remembered by a hash that is hard to invert.
    let _ = rustls::crypto::ring::default_provider().secure_random.fill(&mut secret);
    secret
}

/// Returns the URL of the same path with TLS, at the port of the rules and the same host. Returns `None` if the rules
/// do not require TLS, the client uses it, or the request names no host.
fn secure_location(policy: &Policy, request: &Request<'_>, client: Client) -> Option<Vec<u8>> {
    let port = policy.https.filter(|_| !client.is_tls)?;
    let host = request.host().filter(|host| !host.is_empty())?;
    // The port in `Host`, if any, is that of this address. An IPv6 address has colons, in brackets.
    let name = host.iter().rposition(|&byte| byte == b':').filter(|at| !host[*at..].contains(&b']'));
    let name = name.map_or(host, |at| &host[..at]);
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    let (path, _) = split(request.path());
    let slash: &[u8] = if path.is_empty() { b"/" } else { path };
    Some([b"https://", name, port.as_bytes(), slash].concat())
}

/// Closes the cache's descriptors if no other descriptor is free; returns whether it had any.
#[cold]
fn free_descriptors(folder: &Folder, cache: &mut Cache) -> bool {
    folder.is_out_of_descriptors() && cache.let_go_of_files()
}

/// Follows the served directory if it was replaced, and then clears the cache of the previous one. Returns `Replaced`
/// also if another thread has followed it since the cache was last cleared.
fn follow_root(folder: &Folder, change_count: &mut u64, cache: &mut Cache, hosts: &mut Option<Hosts>) -> Followed {
    let followed = folder.follow_root();
    let count = folder.change_count();
    if std::mem::replace(change_count, count) == count {
        return followed;
    }
    cache.clear();
    hosts.iter_mut().for_each(Hosts::clear);
    Followed::Replaced
}

/// Returns the cache key of a page of a listing. No path begins with NUL.
fn page_key(site: Option<&str>, path: &[u8], page: &listing::View) -> Vec<u8> {
    [b"\0", site.unwrap_or_default().as_bytes(), path, page.query().as_bytes()].concat()
}

/// Returns the path and the query of a request's target.
fn split(target: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = target.splitn(2, |&byte| byte == b'?');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// Returns the cache key of a path with a host; the name of a host contains no slash.
#[inline]
fn key_of<'a>(buffer: &'a mut Vec<u8>, site: Option<&str>, path: &'a [u8]) -> &'a [u8] {
    let Some(site) = site else { return path };
    buffer.clear();
    buffer.extend_from_slice(site.as_bytes());
    buffer.extend_from_slice(path);
    buffer
}
