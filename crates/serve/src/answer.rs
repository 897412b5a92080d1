//! Writing a response.
//!
//! The head for a whole file was prepared when the file was looked up; only the date and the content are added here.
//! Everything else is rare and composed on demand.

use crate::rules::Policy;
use crate::send_buffers::SendBuffers;
use crate::site::{Body, Client, Entry, Form, Listing};
use landau_reactor::batch::Buffer;
use landau_wire::http::accept::Preference;
use landau_wire::http::condition::{self, Decision, Validators};
use landau_wire::http::encoding::{self, Coding, Codings};
use landau_wire::http::head::Head;
use landau_wire::http::multipart::Multipart;
use landau_wire::http::range::{self, ByteRange, Ranges, Selection};
use landau_wire::http::{Field, Method, Request, Status, Version, date};
use std::hash::BuildHasher;
use std::rc::Rc;

/// The methods of a file server.
const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// Content up to this size is copied after its head, and both are sent together. Larger content is sent from its own
/// buffer or file.
const COPIED_BYTES: usize = 2 << 10;

/// A file modified within this time may change again within the same second, so its date is not a strong validator.
const SETTLED_S: u64 = 2;

/// A response that is being written.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    send_buffers: &'a mut SendBuffers,
    date: [u8; date::DATE_BYTES],
    /// Whether the client speaks HTTP/1.0, where a persistent connection must be announced.
    is_old: bool,
    has_content: bool,
    /// The field lines that the rules add.
    extra: Option<&'a Extra>,
}

/// An error of a path with rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuledFailure<'a> {
    pub(crate) status: Status,
    /// The realm that the client is asked to log in to.
    pub(crate) realm: Option<&'a str>,
    /// The number of seconds after which the client may ask again, if known.
    pub(crate) wait_s: Option<u64>,
}

impl From<Status> for RuledFailure<'_> {
    fn from(status: Status) -> Self {
        Self { status, realm: None, wait_s: None }
    }
}

/// The value of `Retry-After` if the duration of an overload is unknown. A client that retries at once finds the same
/// load.
const RETRY_S: u64 = 5;

/// The field lines that the rules add.
#[derive(Debug, Default)]
struct Extra {
    /// Lines of every response.
    always: Vec<u8>,
    /// Lines of responses that are not errors.
    freshness: Vec<u8>,
    /// `Retry-After`, in seconds.
    wait_s: Option<u64>,
    pages: ConditionPages,
}

/// The pages of the errors that depend on the conditions of a request.
#[derive(Debug, Default)]
pub(crate) struct ConditionPages {
    /// The page of 412.
    pub(crate) failed: Option<Rc<Entry>>,
    /// The page of 416.
    pub(crate) unsatisfiable: Option<Rc<Entry>>,
}

/// Returns the uncompressed file of an error page.
fn page_form(page: &Entry) -> Option<&Form> {
    match page.without_rules() {
        Entry::File { forms, .. } => forms[Coding::Identity as usize].as_ref(),
        _ => None,
    }
}

impl Extra {
    fn new(policy: &Policy, request: &Request<'_>, client: Client) -> Self {
        let tls_lines: &[u8] = if client.is_tls { &policy.tls_lines } else { &[] };
        let mut always = [&policy.lines, tls_lines].concat();
        if let Some(cors) = &policy.cors {
            cors.write(value_of(request, "Origin"), &mut always);
        }
        Self { always, freshness: policy.freshness_lines.clone(), ..Self::default() }
    }
}

impl<'a> Answer<'a> {
    #[inline]
    pub(crate) fn new(
        request: &Request<'_>,
        date: [u8; date::DATE_BYTES],
        close: bool,
        send_buffers: &'a mut SendBuffers,
    ) -> Self {
        (send_buffers.close, send_buffers.content) = (close, 0);
        let (is_old, has_content) = (request.version() == Version::Http10, request.method() != Method::Head);
        Self { send_buffers, date, is_old, has_content, extra: None }
    }

    /// Returns the response to an invalid request; the connection ends with it.
    pub(crate) fn without_request(
        date: [u8; date::DATE_BYTES],
        has_content: bool,
        send_buffers: &'a mut SendBuffers,
    ) -> Self {
        (send_buffers.close, send_buffers.content) = (true, 0);
        Self { send_buffers, date, is_old: false, has_content, extra: None }
    }

    /// Completes a prepared head: the fields that depend on the connection, and the empty line.
    #[inline]
    fn end_head(&mut self) {
        let last: &[u8] = match (self.send_buffers.close, self.is_old) {
            (true, _) => b"Connection: close\r\n\r\n",
            (false, true) => b"Connection: keep-alive\r\n\r\n",
            (false, false) => b"\r\n",
        };
        self.send_buffers.bytes.extend_from_slice(last);
    }

    /// Begins a head with the fields that all responses have.
    fn head(&mut self, status: Status) -> Head<'_> {
        let head = Head::new(&mut self.send_buffers.bytes, status).field("Date", &self.date);
        let head = match (self.send_buffers.close, self.is_old) {
            (true, _) => head.field("Connection", b"close"),
            (false, true) => head.field("Connection", b"keep-alive"),
            (false, false) => head,
        };
        match self.extra {
            None => head,
            Some(extra) if status.0 < 400 => head.lines(&extra.always).lines(&extra.freshness),
            Some(extra) => head.lines(&extra.always),
        }
    }

    /// Begins the head of an error.
    fn failure_head(&mut self, status: Status) -> Head<'_> {
        let wait_s = self.extra.and_then(|extra| extra.wait_s).unwrap_or(RETRY_S);
        let head = self.head(status);
        match status {
            Status::METHOD_NOT_ALLOWED | Status::NOT_IMPLEMENTED => head.field("Allow", ALLOW),
            Status::SERVICE_UNAVAILABLE | Status::TOO_MANY_REQUESTS => head.number("Retry-After", wait_s),
            _ => head,
        }
    }

    /// Writes a response with its status as text.
    pub(crate) fn failure(&mut self, status: Status) -> Status {
        let text = format!("{} {}\n", status.0, status.reason());
        let head = self.failure_head(status);
        head.field("Content-Type", b"text/plain; charset=utf-8").number("Content-Length", text.len() as u64).end();
        if self.has_content {
            self.send_buffers.content += text.len() as u64;
            self.send_buffers.bytes.extend_from_slice(text.as_bytes());
        }
        status
    }

    /// Answers methods other than GET and HEAD.
    pub(crate) fn other_method(&mut self, request: &Request<'_>) -> Status {
        if let Some(status) = request.method().refusal() {
            return self.failure(status);
        }
        self.head(Status::NO_CONTENT).field("Allow", ALLOW).end();
        Status::NO_CONTENT
    }

    /// Answers with the entry of a path.
    #[inline]
    pub(crate) fn entry(&mut self, entry: &Entry, request: &Request<'_>, client: Client, now_s: u64) -> Status {
        match entry {
            Entry::File { forms, codings } => {
                let coding = if *codings == Codings::NONE.with(Coding::Identity) {
                    Coding::Identity
                } else {
                    // A client that refuses all codings gets the plain file, which is better than an error (RFC 9110
                    // section 12.5.3).
                    encoding::choose(request.lines(Field::AcceptEncoding), *codings).unwrap_or(Coding::Identity)
                };
                match &forms[coding as usize] {
                    Some(form) if is_plain(request) => self.whole(form),
                    Some(form) => self.conditional(form, request, now_s),
                    None => self.failure(Status::INTERNAL_SERVER_ERROR),
                }
            }
            Entry::Redirect { location, status } => self.redirect(location, *status, request),
            Entry::Listing(listing) => self.listing(listing, request),
            Entry::Failure(status) => self.failure(*status),
            // Unreachable: a directory is listed first.
            Entry::Directory => self.failure(Status::INTERNAL_SERVER_ERROR),
            // Unreachable: such requests are forwarded.
            Entry::Forward => self.failure(Status::BAD_GATEWAY),
            Entry::Ruled(ruled) => {
                self.ruled((&ruled.entry, ConditionPages::default()), &ruled.policy, request, client, now_s)
            }
        }
    }

    /// Answers with the entry of a path, with the fields that the rules add.
    #[cold]
    #[inline(never)]
    pub(crate) fn ruled(
        &mut self,
        (entry, pages): (&Entry, ConditionPages),
        policy: &Policy,
        request: &Request<'_>,
        client: Client,
        now_s: u64,
    ) -> Status {
        let extra = Extra { pages, ..Extra::new(policy, request, client) };
        self.with(&extra, |answer| answer.entry(entry, request, client, now_s))
    }

    /// Answers with an error; the content is the error page, if there is one.
    #[cold]
    pub(crate) fn ruled_failure(
        &mut self,
        (failure, page): (RuledFailure<'_>, Option<&Entry>),
        policy: &Policy,
        request: &Request<'_>,
        client: Client,
    ) -> Status {
        let RuledFailure { status, realm, wait_s } = failure;
        let mut extra = Extra { wait_s, ..Extra::new(policy, request, client) };
        if let Some(realm) = realm {
            let challenge = format!("WWW-Authenticate: Basic realm=\"{realm}\", charset=\"UTF-8\"\r\n");
            extra.always.extend_from_slice(challenge.as_bytes());
        }
        let form = page.and_then(page_form);
        self.with(&extra, |answer| answer.failure_with(status, form))
    }

    /// Redirects as the rules require.
    #[cold]
    pub(crate) fn ruled_redirect(
        &mut self,
        location: &[u8],
        policy: &Policy,
        request: &Request<'_>,
        client: Client,
    ) -> Status {
        let extra = Extra::new(policy, request, client);
        self.with(&extra, |answer| answer.redirect(location, Status::PERMANENT_REDIRECT, request))
    }

    /// Answers a method other than GET and HEAD according to the rules. OPTIONS may be the preflight request of another
    /// site.
    #[cold]
    pub(crate) fn ruled_other_method(&mut self, policy: &Policy, request: &Request<'_>, client: Client) -> Status {
        let mut extra = Extra::new(policy, request, client);
        let is_preflight =
            request.method() == Method::Options && value_of(request, "Access-Control-Request-Method").is_some();
        if let Some(cors) = policy.cors.as_ref().filter(|_| is_preflight) {
            cors.write_preflight(value_of(request, "Origin"), &mut extra.always);
        }
        self.with(&extra, |answer| answer.other_method(request))
    }

    fn with(&mut self, extra: &Extra, write: impl FnOnce(&mut Answer<'_>) -> Status) -> Status {
        let Self { date, is_old, has_content, .. } = *self;
        write(&mut Answer { send_buffers: &mut *self.send_buffers, date, is_old, has_content, extra: Some(extra) })
    }

    /// Writes an error with a file as its content.
    fn page(&mut self, status: Status, form: &Form) -> Status {
        self.failure_head(status)
            .field("Content-Type", form.content_type.as_bytes())
            .number("Content-Length", form.status.size)
            .end();
        if self.has_content {
            self.content(form, ByteRange { start: 0, len: form.status.size });
        }
        status
    }

    /// Answers with a whole file: the hot path.
    #[inline]
    fn whole(&mut self, form: &Form) -> Status {
        let start = self.send_buffers.bytes.len();
        self.send_buffers.bytes.extend_from_slice(&form.head);
        let place = start + crate::site::DATE_AT;
        self.send_buffers.bytes[place..place + date::DATE_BYTES].copy_from_slice(&self.date);
        if let Some(extra) = self.extra {
            self.send_buffers.bytes.extend_from_slice(&extra.always);
            self.send_buffers.bytes.extend_from_slice(&extra.freshness);
        }
        self.end_head();
        if self.has_content {
            self.content(form, ByteRange { start: 0, len: form.status.size });
        }
        Status::OK
    }

    /// Adds a range of a file after the head.
    #[inline]
    fn content(&mut self, form: &Form, range: ByteRange) {
        self.send_buffers.content += range.len;
        match &form.body {
            Body::Memory(bytes) => {
                let part = &bytes[range.start as usize..range.end() as usize];
                // With a bandwidth limit, the content is sent as part of the batch.
                let is_paced = self.extra.is_some() && self.send_buffers.pacing.is_some();
                if part.len() <= COPIED_BYTES && self.send_buffers.batch.is_empty() && !is_paced {
                    self.send_buffers.bytes.extend_from_slice(part);
                } else if part.len() == bytes.len() {
                    self.send_buffers.batch.push(Buffer::Shared(bytes.clone()));
                } else {
                    self.send_buffers.batch.push(Buffer::Owned(part.into()));
                }
            }
            Body::File(file) => self.send_buffers.batch.push_file(file.clone(), range.start, range.len),
        }
    }

    /// Writes an error; the content is the error page, if there is one.
    fn failure_with(&mut self, status: Status, page: Option<&Form>) -> Status {
        match page {
            Some(page) => self.page(status, page),
            None => self.failure(status),
        }
    }

    fn conditional(&mut self, form: &Form, request: &Request<'_>, now_s: u64) -> Status {
        let modified_s = form.sent_modified_s;
        let is_old = |modified_s| now_s >= modified_s + SETTLED_S;
        let is_modified_strong = !form.is_ahead && modified_s.is_some_and(is_old);
        let validators = Validators { tag: &form.tag, modified_s, is_modified_strong };
        match condition::decide(request, &validators) {
            Decision::Failed => {
                let page = self.extra.and_then(|extra| extra.pages.failed.as_deref()).and_then(page_form);
                return self.failure_with(Status::PRECONDITION_FAILED, page);
            }
            Decision::NotModified => {
                self.head(Status::NOT_MODIFIED).lines(&form.validators).end();
                return Status::NOT_MODIFIED;
            }
            Decision::Proceed => {}
        }
        let length = form.status.size;
        match condition::range(request, &validators).map_or(Selection::Whole, |value| range::select(value, length)) {
            Selection::Whole => self.whole(form),
            Selection::Unsatisfiable => self.unsatisfiable(length),
            Selection::One(part) => {
                self.head(Status::PARTIAL_CONTENT)
                    .lines(&form.validators)
                    .lines(&form.content)
                    .field("Content-Type", form.content_type.as_bytes())
                    .field_with("Content-Range", |out| range::write_content_range(part, length, out))
                    .number("Content-Length", part.len)
                    .end();
                self.content(form, part);
                Status::PARTIAL_CONTENT
            }
            Selection::Several(parts) => self.several(form, &parts),
        }
    }

    /// Answers that a file of this length does not contain the requested ranges.
    fn unsatisfiable(&mut self, length: u64) -> Status {
        let page = self.extra.and_then(|extra| extra.pages.unsatisfiable.as_deref()).and_then(page_form);
        let status = Status::RANGE_NOT_SATISFIABLE;
        let head = self.head(status).field_with("Content-Range", |out| range::write_unsatisfied(length, out));
        let Some(page) = page else {
            head.number("Content-Length", 0).end();
            return status;
        };
        let size = page.status.size;
        head.field("Content-Type", page.content_type.as_bytes()).number("Content-Length", size).end();
        if self.has_content {
            self.content(page, ByteRange { start: 0, len: size });
        }
        status
    }

    /// Answers with several parts of a file, each with its own head.
    fn several(&mut self, form: &Form, parts: &Ranges) -> Status {
        // The authors of files cannot predict the boundary.
        let random = || foldhash::quality::RandomState::default().hash_one(self.date);
        let seed = u128::from(random()) << 64 | u128::from(random());
        let multipart = Multipart::new(parts, form.status.size, form.content_type.as_bytes(), seed);
        self.head(Status::PARTIAL_CONTENT)
            .lines(&form.validators)
            .lines(&form.content)
            .field_with("Content-Type", |out| multipart.write_content_type(out))
            .number("Content-Length", multipart.content_length())
            .end();
        for &part in multipart.ranges() {
            let mut head = Vec::new();
            multipart.write_part_head(part, &mut head);
            self.framing(head);
            self.content(form, part);
        }
        let mut end = Vec::new();
        multipart.write_end(&mut end);
        self.framing(end);
        Status::PARTIAL_CONTENT
    }

    /// Appends bytes between parts, which belong to the content.
    fn framing(&mut self, bytes: Vec<u8>) {
        self.send_buffers.content += bytes.len() as u64;
        self.send_buffers.batch.push(Buffer::Owned(bytes.into()));
    }

    /// Redirects to a path or URL, and appends the query of the request if the location has none.
    fn redirect(&mut self, location: &[u8], status: Status, request: &Request<'_>) -> Status {
        let path = request.path();
        let query = path.iter().position(|&byte| byte == b'?').map_or(&[][..], |at| &path[at..]);
        let query = if location.contains(&b'?') { &[] } else { query };
        self.head(status).field("Location", &[location, query].concat()).number("Content-Length", 0).end();
        status
    }

    fn listing(&mut self, listing: &Listing, request: &Request<'_>) -> Status {
        let preference = |kind: &str| Preference::of(kind, request.lines(Field::Accept));
        let (kind, page) = if preference("application/json") > preference("text/html") {
            ("application/json", &listing.json)
        } else {
            ("text/html; charset=utf-8", &listing.html)
        };
        let says_freshness = self.extra.is_some_and(|extra| !extra.freshness.is_empty());
        let head = self.head(Status::OK).field("Content-Type", kind.as_bytes()).field("Vary", b"Accept");
        let head = if says_freshness { head } else { head.field("Cache-Control", b"no-cache") };
        head.number("Content-Length", page.len() as u64).end();
        if self.has_content {
            self.send_buffers.content += page.len() as u64;
            self.send_buffers.batch.push(Buffer::Shared(page.clone()));
        }
        Status::OK
    }
}

/// Returns the value of a field that the parser does not extract, if the field occurs in exactly one line.
pub(crate) fn value_of<'a>(request: &Request<'a>, name: &str) -> Option<&'a [u8]> {
    let mut values = request.fields().filter(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
    values.next().filter(|_| values.next().is_none()).map(|(_, value)| value)
}

/// Returns whether a request asks for the whole file without conditions.
#[inline]
pub(crate) fn is_plain(request: &Request<'_>) -> bool {
    const OTHERS: [Field; 5] =
        [Field::Range, Field::IfNoneMatch, Field::IfModifiedSince, Field::IfMatch, Field::IfUnmodifiedSince];
    // A repeated field has no single value but is present nonetheless.
    !OTHERS.iter().any(|&field| request.has(field))
}
