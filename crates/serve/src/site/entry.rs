//! The entry of a path, with everything that can be prepared before a request.

use super::listing::Listing;
use crate::rules::{Access, Policy};
use landau_sys::path::Status as FileStatus;
use landau_wire::http::encoding::{Coding, Codings};
use landau_wire::http::{Status, date, mime};
use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The entry of a path.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A file, in all codings that exist next to it; the plain one always exists.
    File {
        /// The forms, by [`Coding`].
        forms: Box<[Option<Form>; 4]>,
        /// The codings that exist.
        codings: Codings,
    },
    /// A path whose canonical form is another one, such as that of a directory without the trailing slash.
    Redirect {
        /// The encoded path or URL; the query is appended if it has none.
        location: Box<[u8]>,
        status: Status,
    },
    /// A directory's listing.
    Listing(Listing),
    /// A directory to be listed for clients that may read it.
    Directory,
    /// An error.
    Failure(Status),
    /// A path of an upstream server, which the policy names.
    Forward,
    /// One of the other kinds, with rules.
    Ruled(Box<Ruled>),
}

/// The entry of a path and its rules.
#[derive(Debug)]
pub(crate) struct Ruled {
    pub(crate) entry: Entry,
    pub(crate) policy: Arc<Policy>,
    /// The restrictions of the path; a client must be admitted by all of them.
    pub(crate) access: Vec<Access>,
}

/// The content of a file.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// The bytes of the file.
    Memory(Arc<[u8]>),
    /// An open file.
    File(Arc<OwnedFd>),
}

/// The content and metadata read from a file.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) body: Body,
    pub(crate) status: FileStatus,
    pub(crate) is_settled: bool,
}

/// One form of a file.
#[derive(Debug)]
pub(crate) struct Form {
    /// The file's metadata.
    pub(crate) status: FileStatus,
    /// Whether a later change of the content would change the metadata: the last change was a while before the content
    /// was read.
    pub(crate) is_settled: bool,
    /// The time of the last change in seconds since 1970, in the form that is sent.
    pub(crate) sent_modified_s: Option<u64>,
    /// Whether that time was in the future, so that an earlier one is sent.
    pub(crate) is_ahead: bool,
    pub(crate) body: Body,
    /// The head of a whole response up to the empty line, with a placeholder for the date.
    pub(crate) head: Box<[u8]>,
    /// The field lines of every response, including 304: the validators.
    pub(crate) validators: Box<[u8]>,
    /// The field lines of a response with content.
    pub(crate) content: Box<[u8]>,
    /// The entity tag, quoted.
    pub(crate) tag: Box<[u8]>,
    pub(crate) content_type: Cow<'static, str>,
}

/// The beginning of a prepared head, with a placeholder for the date.
const HEAD: &[u8; 54] = b"HTTP/1.1 200 OK\r\nDate:                              \r\n";

/// The offset of the date.
pub(crate) const DATE_AT: usize = b"HTTP/1.1 200 OK\r\nDate: ".len();

/// Writes a field line. The values are the server's own, and none contains a control byte.
fn line(name: &str, value: &[u8]) -> Vec<u8> {
    [name.as_bytes(), b": ", value, b"\r\n"].concat()
}

/// The size in bytes that an open descriptor counts as in the cache, so that a few dozen fill it and descriptors are
/// left for connections.
const DESCRIPTOR_COST: usize = 1 << 20;

impl Form {
    /// Prepares a file in a coding; its name determines the media type. `varies` states whether other codings exist
    /// too.
    pub(crate) fn new(content: Content, name: &[u8], coding: Coding, varies: bool, policy: Option<&Policy>) -> Self {
        let content_type = policy.map_or_else(|| mime::of_name(name), |policy| policy.media_type(name));
        let varies = varies || policy.is_some_and(|policy| policy.compresses(&content_type, content.status.size));
        // Forms of the same file often have the same time, and may have the same size.
        let mark = if coding == Coding::Identity { "" } else { coding.name() };
        Self::with_type(content, content_type, coding, mark, varies, policy)
    }

    /// Prepares a form; `mark` is added to the entity tag.
    fn with_type(
        content: Content,
        content_type: Cow<'static, str>,
        coding: Coding,
        mark: &str,
        varies: bool,
        policy: Option<&Policy>,
    ) -> Self {
        let Content { body, status, is_settled } = content;
        let nanoseconds = i128::from(status.modified_s) * 1_000_000_000 + i128::from(status.modified_ns);
        let tag = format!("\"{nanoseconds:x}-{:x}{mark}\"", status.size).into_bytes();
        let hidden = policy.map(|policy| policy.hidden).unwrap_or_default();
        let mut validators = if hidden.tag { Vec::new() } else { line("ETag", &tag) };
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let modified_s = u64::try_from(status.modified_s).ok();
        let is_ahead = modified_s.is_some_and(|modified_s| modified_s > now_s);
        // A future time would be later than that of the response (RFC 9110 section 8.8.2.1). That time is from the last
        // wait, so it may be in the previous second.
        let sent_modified_s = if is_ahead { Some(now_s.saturating_sub(1)) } else { modified_s };
        if let Some(sent) = sent_modified_s
            && !hidden.time
        {
            validators.extend(line("Last-Modified", &date::format(sent)));
        }
        if varies {
            validators.extend(line("Vary", b"Accept-Encoding"));
        }
        let mut content = line("Accept-Ranges", b"bytes");
        if coding != Coding::Identity {
            content.extend(line("Content-Encoding", coding.name().as_bytes()));
        }
        let kind = line("Content-Type", content_type.as_bytes());
        let length = line("Content-Length", status.size.to_string().as_bytes());
        let head = [&HEAD[..], &validators, &content, &kind, &length].concat();
        let (validators, content) = (validators.into_boxed_slice(), content.into_boxed_slice());
        let (head, tag) = (head.into_boxed_slice(), tag.into_boxed_slice());
        Self { status, is_settled, sent_modified_s, is_ahead, body, head, validators, content, tag, content_type }
    }

    /// Prepares a form that the server made from a file with this media type. Its tag must differ from that of the
    /// plain form.
    pub(crate) fn made(content: Content, content_type: String, coding: Coding, policy: &Policy) -> Self {
        Self::with_type(content, content_type.into(), coding, coding.suffix(), true, Some(policy))
    }

    fn cost(&self) -> usize {
        let own = self.head.len() + self.validators.len() + self.content.len() + self.tag.len() + size_of::<Self>();
        own + match &self.body {
            Body::Memory(bytes) => bytes.len(),
            Body::File(_) => DESCRIPTOR_COST,
        }
    }
}

impl Entry {
    /// Returns the entry regardless of the rules.
    pub(crate) fn without_rules(&self) -> &Self {
        if let Self::Ruled(ruled) = self { &ruled.entry } else { self }
    }

    /// Returns the number of descriptors that the entry holds.
    pub(crate) fn files(&self) -> usize {
        let Self::File { forms, .. } = self.without_rules() else { return 0 };
        forms.iter().flatten().filter(|form| matches!(form.body, Body::File(_))).count()
    }

    /// Returns whether the entry reports a shortage of descriptors or memory, or a failing file system, so that the
    /// next request may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.without_rules(), Self::Failure(Status::SERVICE_UNAVAILABLE))
    }

    /// Returns whether the entry is a directory that is to be listed.
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.without_rules(), Self::Directory)
    }

    /// Returns whether the entry is an error.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self.without_rules(), Self::Failure(_))
    }

    /// Returns the size of the entry in bytes.
    pub(crate) fn cost(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::File { forms, .. } => forms.iter().flatten().map(Form::cost).sum(),
                Self::Redirect { location, .. } => location.len(),
                Self::Listing(listing) => listing.html.len() + listing.json.len(),
                Self::Directory | Self::Failure(_) | Self::Forward => 0,
                Self::Ruled(ruled) => {
                    let own = size_of::<Ruled>() + ruled.access.len() * size_of::<Access>();
                    own + ruled.policy.own_bytes() + ruled.entry.cost()
                }
            }
    }
}
