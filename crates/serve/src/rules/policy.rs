//! The combined rules for one path.

use super::compressible;
use super::field::{Field, FieldChange};
use super::{Access, Change, Cors, Proxy, Redirect, Rule};
use landau_wire::http::{Status, mime, target};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fields that limit how long a response may be cached. An error must not be cached as long as the file that is
/// missing.
const FRESHNESS: [&str; 3] = ["Cache-Control", "Expires", "Pragma"];

/// A field that has no meaning without TLS, and must not be sent then (RFC 6797 section 7.2).
const TLS_ONLY: &str = "Strict-Transport-Security";

/// The combined rules for one path.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub(crate) struct Policy {
    /// Whether other paths share it.
    pub(super) is_shared: bool,
    /// The field lines of every response.
    pub(crate) lines: Vec<u8>,
    /// The field lines of responses that are not errors.
    pub(crate) freshness_lines: Vec<u8>,
    /// The field lines of responses over TLS.
    pub(crate) tls_lines: Vec<u8>,
    pub(crate) hidden: Hidden,
    pub(crate) cors: Option<Arc<Cors>>,
    pub(crate) redirect: Option<Arc<Redirect>>,
    /// The upstream server that requests are forwarded to, with its settings.
    pub(crate) proxy: Option<Arc<Proxy>>,
    /// The fields that are removed from an upstream server's responses.
    replaced: Vec<Replaced>,
    /// The port to which requests without TLS are redirected.
    pub(crate) https: Option<u16>,
    /// Paths to try if the requested one does not exist.
    pub(crate) try_files: Arc<[String]>,
    /// Whether `.html` is omitted from paths.
    pub(crate) clean_urls: bool,
    error_pages: BTreeMap<Status, Arc<[u8]>>,
    types: BTreeMap<String, Arc<str>>,
    default_type: Option<Arc<str>>,
    /// Whether directories without an index file are listed, if a rule sets this.
    pub(crate) listings: Option<bool>,
    /// Whether names that begin with a dot are served.
    pub(crate) dotfiles: bool,
    /// Whether files are compressed for clients that accept it.
    compress: bool,
    pub(crate) access: Access,
    /// The maximum number of bytes per second over one connection.
    pub(crate) bandwidth: Option<u64>,
}

/// A field that is removed from an upstream server's responses.
#[derive(Debug)]
struct Replaced {
    name: String,
    /// Whether a rule removes the field. Otherwise, a rule sets it.
    is_removed: bool,
}

/// The fields that are removed from responses with files.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// The entity tag.
    pub(crate) tag: bool,
    /// The time of modification.
    pub(crate) time: bool,
}

impl Policy {
    /// Returns the combined policy of rules.
    pub(super) fn of<'a>(rules: impl Iterator<Item = &'a Rule>) -> Self {
        let (mut policy, mut fields) = (Self::default(), Vec::new());
        for rule in rules {
            policy.apply(rule, &mut fields);
        }
        policy.write(&fields);
        if policy.proxy.is_none() {
            policy.replaced.clear();
        }
        policy
    }

    /// Applies a rule, which overrides earlier ones.
    fn apply<'a>(&mut self, rule: &'a Rule, fields: &mut Vec<&'a Field>) {
        for change in &rule.fields {
            match change {
                FieldChange::Remove(name) => self.remove(name, true, fields),
                FieldChange::Set(field) => {
                    self.remove(&field.name, false, fields);
                    fields.push(field);
                }
                FieldChange::Add(field) => fields.push(field),
            }
        }
        let set = &rule.settings;
        change(&mut self.cors, &set.cors);
        change(&mut self.redirect, &set.redirect);
        change(&mut self.proxy, &set.proxy);
        change(&mut self.https, &set.https);
        replace(&mut self.try_files, set.try_files.as_ref());
        replace(&mut self.clean_urls, set.clean_urls.as_ref());
        replace(&mut self.dotfiles, set.dotfiles.as_ref());
        change(&mut self.access.allow, &set.allow);
        change(&mut self.access.deny, &set.deny);
        change(&mut self.access.auth, &set.auth);
        change(&mut self.access.rate, &set.rate);
        replace(&mut self.compress, set.compress.as_ref());
        change(&mut self.bandwidth, &set.bandwidth);
        self.listings = set.listings.or(self.listings);
        self.default_type = set.default_type.clone().or(self.default_type.take());
        self.error_pages.extend(set.error_pages.clone());
        self.types.extend(set.types.clone());
    }

    fn remove(&mut self, name: &str, is_removed: bool, fields: &mut Vec<&Field>) {
        fields.retain(|field| !field.is(name));
        match self.replaced.iter_mut().find(|own| own.name.eq_ignore_ascii_case(name)) {
            Some(own) => own.is_removed |= is_removed,
            None => self.replaced.push(Replaced { name: name.to_owned(), is_removed }),
        }
        self.hidden.tag |= name.eq_ignore_ascii_case("ETag");
        self.hidden.time |= name.eq_ignore_ascii_case("Last-Modified");
    }

    /// Prepares the field lines.
    fn write(&mut self, fields: &[&Field]) {
        for field in fields {
            let lines = if FRESHNESS.iter().any(|name| field.is(name)) {
                &mut self.freshness_lines
            } else if field.is(TLS_ONLY) {
                &mut self.tls_lines
            } else {
                &mut self.lines
            };
            lines.extend(field.line());
        }
    }

    /// Returns whether requests are forwarded.
    pub(crate) fn forwards(&self) -> bool {
        self.proxy.is_some() && self.redirect.is_none()
    }

    /// Returns whether a field of an upstream server's response is removed because the rules set or remove it. The
    /// freshness that rules set does not apply to errors, because only the upstream server knows how long they last.
    pub(crate) fn replaces(&self, name: &[u8], status: Status) -> bool {
        const CORS: &[u8] = b"Access-Control-";
        let is_kept = status.0 >= 400 && FRESHNESS.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name));
        let is_it = |own: &&Replaced| own.name.as_bytes().eq_ignore_ascii_case(name);
        self.replaced.iter().find(is_it).is_some_and(|own| own.is_removed || !is_kept)
            || (self.cors.is_some() && name.get(..CORS.len()).is_some_and(|start| start.eq_ignore_ascii_case(CORS)))
    }

    /// Returns the size in bytes; 0 if other paths share the policy.
    pub(crate) fn own_bytes(&self) -> usize {
        if self.is_shared {
            return 0;
        }
        let lines = self.lines.len() + self.freshness_lines.len() + self.tls_lines.len();
        let of_type = |(ending, _): (&String, &Arc<str>)| ending.len() + size_of::<(String, Arc<str>)>();
        let types: usize = self.types.iter().map(of_type).sum();
        let replaced: usize = self.replaced.iter().map(|own| own.name.len() + size_of::<Replaced>()).sum();
        size_of::<Self>() + lines + types + replaced + self.error_pages.len() * size_of::<(Status, Arc<[u8]>)>()
    }

    /// Returns the media type of a file by its name.
    pub(crate) fn media_type(&self, name: &[u8]) -> Cow<'static, str> {
        let own = mime::ending_of(name).and_then(|ending| {
            let ending = String::from_utf8_lossy(ending).to_ascii_lowercase();
            self.types.get(&ending)
        });
        let or_default = || self.default_type.as_ref().filter(|_| mime::known(name).is_none());
        match own.or_else(or_default) {
            Some(kind) => Cow::Owned(kind.to_string()),
            None => mime::of_name(name),
        }
    }

    /// Returns the paths to try, in their order, if a path does not exist.
    pub(crate) fn instead_of(&self, path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        let is_hidden = |path: &Vec<u8>| target::Target { path, query: None }.is_hidden();
        let html = (self.clean_urls && !path.ends_with(b"/")).then(|| [path, b".html"].concat());
        let tried = self.try_files.iter().map(|template| match template.split_once("{path}") {
            Some((before, after)) => joined(&[before.as_bytes(), path, after.as_bytes()].concat()),
            None => template.clone().into_bytes(),
        });
        html.into_iter().chain(tried).filter(move |path| self.dotfiles || !is_hidden(path))
    }

    /// Returns whether a file is compressed for clients that accept it.
    pub(crate) fn compresses(&self, content_type: &str, size: u64) -> bool {
        self.compress && compressible::is_worth_it(content_type, size)
    }

    /// Returns the page for an error, as an encoded path.
    pub(crate) fn error_page(&self, status: Status) -> Option<Arc<[u8]>> {
        self.error_pages.get(&status).cloned()
    }
}

/// Returns a path without empty segments.
fn joined(path: &[u8]) -> Vec<u8> {
    let mut joined = path.to_vec();
    joined.dedup_by(|one, before| *one == b'/' && *before == b'/');
    joined
}

fn change<T: Clone>(own: &mut Option<T>, said: &Change<T>) {
    match said {
        Change::Keep => {}
        Change::Lift => *own = None,
        Change::Set(value) => *own = Some(value.clone()),
    }
}

fn replace<T: Clone>(own: &mut T, set: Option<&T>) {
    if let Some(set) = set {
        own.clone_from(set);
    }
}
