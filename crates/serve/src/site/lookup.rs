//! Finds the file or directory at a clean path.
//!
//! A worker looks paths up itself if the root is on a local file system. Other file systems, such as those on a
//! network, may have to ask a server for each file. Another thread then looks up and waits ([`super::finder`]).

use super::entry::{Body, Content, Entry, Form, Ruled};
use super::listing::{self, Listing};
use super::root::{Followed, Notices, Root};
use crate::config::Config;
use crate::error::Error;
use crate::rules::{Access, LiveRules, Policy, Rules};
use landau_sys::path::{self, Kind, Links, Status as FileStatus};
use landau_sys::stream;
use landau_wire::http::encoding::{Coding, Codings};
use landau_wire::http::{Status, target};
use std::cell::{OnceCell, RefCell};
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Files up to this size are kept in memory; larger ones are sent from the page cache.
const KEPT_BYTES: u64 = 64 << 10;

/// The served directory.
#[derive(Debug)]
pub(crate) struct Folder {
    root: Root,
    links: Links,
    index: Vec<String>,
    listings: bool,
    rules: Option<Arc<LiveRules>>,
}

/// The view of one lookup: all its files are below the same root, and all its rules are from the same configuration.
#[derive(Debug, Clone)]
pub(super) struct View {
    root: Arc<OwnedFd>,
    rules: Option<Arc<Rules>>,
}

/// ENOENT, which has the same number on all systems.
const NO_ENTRY: i32 = 2;

/// The maximum number of lookups of a path whose file is replaced repeatedly.
const LOOK_UPS: u32 = 4;

/// An open file.
type Opened = (OwnedFd, FileStatus);

/// The result of a lookup for a worker.
#[derive(Debug)]
pub(crate) enum Looked {
    Entry(Rc<Entry>),
    /// The file system is not local, so another thread must look up.
    Remote,
}

/// The result of a lookup.
#[derive(Debug)]
enum Found {
    /// The known entry is unchanged.
    Same,
    Entry(Entry),
    /// A directory to be listed.
    Listing,
}

impl Folder {
    /// Opens the served directory; see [`Root::new`] for `notices` and `is_sandboxed`.
    pub(crate) fn new(config: &Config, notices: Arc<Notices>, is_sandboxed: bool) -> Result<Self, Error> {
        let root = Root::new(config, notices, is_sandboxed)?;
        let (index, rules) = (config.index.clone(), config.rules.clone());
        Ok(Self { root, links: config.links, index, listings: config.listings, rules })
    }

    /// Returns the current view for a lookup.
    fn view(&self) -> View {
        View { root: self.root.get(), rules: self.rules() }
    }

    /// Returns the rules in force.
    pub(super) fn rules(&self) -> Option<Arc<Rules>> {
        self.rules.as_ref().map(|rules| rules.current())
    }

    /// Returns whether the rules permit serving a path with a name that begins with a dot.
    #[cold]
    pub(super) fn shows_hidden(&self, path: &[u8]) -> bool {
        self.rules()
            .and_then(|rules| rules.policy(path))
            .is_some_and(|policy| policy.dotfiles || policy.proxy.is_some() || policy.redirect.is_some())
    }

    /// Returns the entry of a path at which nothing is served.
    #[cold]
    pub(super) fn missing(&self, path: &[u8]) -> Entry {
        let view = self.view();
        LookUp::new(self, &view, None, path).with_rules(Entry::Failure(Status::NOT_FOUND))
    }

    /// Returns the entry of a path that cannot be a file because it has an encoded slash: the upstream server that gets
    /// such paths, or the fallback that the rules name for missing files.
    #[cold]
    pub(super) fn unnamed(&self, site: Option<&str>, path: &[u8]) -> Entry {
        let view = self.view();
        let look_up = LookUp::new(self, &view, site, path);
        if view.rules.as_ref().is_some_and(|rules| rules.policy_of_forwarded(path).is_some()) {
            return look_up.with_rules(Entry::Forward);
        }
        let missing = || Entry::Failure(Status::NOT_FOUND);
        let is_of_files = |policy: &&Arc<Policy>| policy.redirect.is_none() && !policy.forwards();
        // On other file systems, another thread would have to look up.
        let policy = look_up.policy.as_ref().filter(is_of_files).filter(|_| self.root.is_local());
        let entry =
            policy.map_or_else(missing, |policy| match look_up.steadily(|| look_up.find_instead(policy, path, None)) {
                Ok(Some(Found::Entry(entry))) => entry,
                Ok(_) => missing(),
                Err(error) => failure(error),
            });
        look_up.with_rules(entry)
    }

    /// Returns whether a view is still the current one.
    pub(super) fn is_current(&self, view: &View) -> bool {
        let current = self.view();
        let rules = [view, &current].map(|view| view.rules.as_ref().map(Arc::as_ptr));
        Arc::ptr_eq(&view.root, &current.root) && rules[0] == rules[1]
    }

    /// Returns the entry of a path while no file can be found, because the root was removed and has no replacement yet.
    /// Returns `None` if the root still has its files.
    #[cold]
    pub(super) fn unknown(&self, path: &[u8]) -> Option<Entry> {
        if !self.root.is_removed() {
            return None;
        }
        let view = self.view();
        Some(LookUp::new(self, &view, None, path).with_rules(Entry::Failure(Status::SERVICE_UNAVAILABLE)))
    }

    /// Returns whether the root was removed.
    #[cold]
    pub(super) fn is_removed(&self) -> bool {
        self.root.is_removed()
    }

    /// Returns whether no descriptor is free.
    pub(super) fn is_out_of_descriptors(&self) -> bool {
        self.root.is_out_of_descriptors()
    }

    /// Follows the root if it was replaced.
    pub(crate) fn follow_root(&self) -> Followed {
        self.root.follow()
    }

    /// Follows the root after another worker has noticed that it was replaced.
    #[cold]
    pub(crate) fn follow_others(&self) -> Followed {
        self.root.follow_others()
    }

    /// Returns whether the root is on a local file system, so that workers look up themselves.
    pub(crate) fn is_local(&self) -> bool {
        self.root.is_local()
    }

    /// Returns the number of times that the root has changed here.
    #[inline]
    pub(crate) fn change_count(&self) -> u64 {
        self.root.change_count()
    }

    /// Returns the number of times that any worker has noticed a replacement of the root.
    #[inline]
    pub(crate) fn replaced_count(&self) -> u64 {
        self.root.replaced_count()
    }

    /// Returns whether a host has a directory; if that is unknown, the error is the status for the client.
    pub(crate) fn has_host(&self, name: &str) -> Result<bool, Status> {
        // The directory need not be readable.
        let status = c_name(name.as_bytes()).and_then(|name| path::status_below(&self.root.get(), &name, self.links));
        status.map(|status| status.kind == Kind::Directory).or_else(absent)
    }

    /// Looks up a clean path that starts with a slash, on a local file system. `known` is the previous entry, which is
    /// returned if it is unchanged.
    pub(crate) fn look_up(&self, site: Option<&str>, path: &[u8], known: Option<Rc<Entry>>) -> Looked {
        let view = self.view();
        let look_up = LookUp::new(self, &view, site, path);
        if !self.root.is_local() {
            // The paths of an upstream server are not files.
            let is_forward = look_up.policy.as_ref().is_some_and(|policy| policy.forwards());
            let forward = || Looked::Entry(Rc::new(look_up.with_rules(Entry::Forward)));
            return if is_forward { forward() } else { Looked::Remote };
        }
        let find = |known: Option<&Entry>| look_up.steadily(|| look_up.find(path, known));
        let mut found = find(known.as_deref().map(Entry::without_rules));
        if matches!((&found, known.as_deref()), (Ok(Found::Same), Some(known)) if !look_up.has_same_access(known)) {
            // The file is the same, but a link to it, or its directory, may have moved.
            found = find(None);
        }
        match (found, known) {
            (Ok(Found::Same), Some(known)) => Looked::Entry(known),
            (Ok(Found::Entry(entry)), _) => Looked::Entry(Rc::new(look_up.with_rules(entry))),
            (Ok(Found::Listing), _) => Looked::Entry(Rc::new(look_up.with_rules(Entry::Directory))),
            // Unreachable: there was no known entry.
            (Ok(Found::Same), None) => Looked::Entry(Rc::new(Entry::Failure(Status::INTERNAL_SERVER_ERROR))),
            (Err(error), _) => Looked::Entry(Rc::new(look_up.with_rules(failure(error)))),
        }
    }

    /// Looks up a clean path on any file system; also makes the listing if the path is a directory to be listed.
    /// Returns the view that the lookup used as well.
    pub(super) fn look_up_waiting(&self, site: Option<&str>, path: &[u8]) -> (View, Entry) {
        let view = self.view();
        let look_up = LookUp::new(self, &view, site, path);
        let entry = match look_up.steadily(|| look_up.find(path, None)) {
            Ok(Found::Entry(entry)) => entry,
            // Unreachable: there was no known entry.
            Ok(Found::Same) => Entry::Failure(Status::INTERNAL_SERVER_ERROR),
            Ok(Found::Listing) => {
                let page = listing::View::default();
                look_up.steadily(|| look_up.list(path, page)).map_or_else(failure, Entry::Listing)
            }
            Err(error) => failure(error),
        };
        let entry = look_up.with_rules(entry);
        (view, entry)
    }

    /// Lists a directory. Also returns the view that the lookup used.
    pub(super) fn list(&self, site: Option<&str>, path: &[u8], page: listing::View) -> (View, Entry) {
        let view = self.view();
        let look_up = LookUp::new(self, &view, site, path);
        let list = look_up.steadily(|| look_up.list(path, page)).map_or_else(failure, Entry::Listing);
        let list = look_up.with_rules(list);
        (view, list)
    }
}

/// One lookup.
struct LookUp<'a> {
    folder: &'a Folder,
    root: &'a OwnedFd,
    /// The host's directory, with virtual hosts.
    site: Option<&'a str>,
    /// The host's directory, opened when it is first needed.
    home: OnceCell<OwnedFd>,
    rules: Option<&'a Rules>,
    /// The policy of the path.
    policy: Option<Arc<Policy>>,
    /// The restrictions that apply to the path and to the opened files.
    access: RefCell<Vec<Access>>,
}

impl<'a> LookUp<'a> {
    fn new(folder: &'a Folder, view: &'a View, site: Option<&'a str>, path: &[u8]) -> Self {
        let policy = view.rules.as_ref().and_then(|rules| rules.policy(path));
        let rules = view.rules.as_deref();
        let access = rules.map(|rules| rules.restrictions(path)).unwrap_or_default();
        Self { folder, root: &view.root, site, home: OnceCell::new(), rules, policy, access: access.into() }
    }

    /// Looks up again if a file was replaced meanwhile, and then starts again with the restrictions of the path alone.
    fn steadily<T>(&self, look_up: impl Fn() -> Result<T, landau_sys::Error>) -> Result<T, landau_sys::Error> {
        let requested = self.access.borrow().clone();
        for _ in 1..LOOK_UPS {
            match look_up() {
                Err(error) if error.is_stale() => self.access.borrow_mut().clone_from(&requested),
                looked => return looked,
            }
        }
        look_up()
    }

    /// Adds the rules to an entry.
    fn with_rules(&self, entry: Entry) -> Entry {
        let access = self.access.borrow().clone();
        match &self.policy {
            None if access.is_empty() => entry,
            policy => Entry::Ruled(Box::new(Ruled { entry, policy: policy.clone().unwrap_or_default(), access })),
        }
    }

    /// Returns whether a known entry is for the same clients.
    fn has_same_access(&self, known: &Entry) -> bool {
        let known = if let Entry::Ruled(ruled) = known { &ruled.access[..] } else { &[] };
        let access = self.access.borrow();
        access.len() == known.len() && access.iter().zip(known).all(|(one, other)| one.is_same(other))
    }

    /// Returns the file name, relative to the root, of a path.
    fn name_of(&self, path: &[u8]) -> Vec<u8> {
        name_of(self.site, path)
    }

    /// Records the restrictions of an opened file, by the name with which it was opened and by its path without links.
    /// So neither an index file nor a link can bypass a rule. Everything that a client learns about was recorded here.
    fn restrict(&self, name: &[u8], opened: &OwnedFd) -> Result<(), landau_sys::Error> {
        let Some(rules) = self.rules.filter(|rules| rules.restricts()) else { return Ok(()) };
        let mut paths = self.real_paths(opened)?;
        paths.push(name[self.name_of(b"").len()..].to_vec());
        let mut access = self.access.borrow_mut();
        for further in paths.iter().flat_map(|path| rules.restrictions(path)) {
            if !access.iter().any(|known| known.is_same(&further)) {
                access.push(further);
            }
        }
        Ok(())
    }

    /// Returns the paths, without links, by which the rules know an opened file. If the file is outside, this is an
    /// error, or an empty list if links may lead outside.
    fn real_paths(&self, opened: &OwnedFd) -> Result<Vec<Vec<u8>>, landau_sys::Error> {
        if !cfg!(target_os = "linux") {
            // On other systems, links are followed only if they may lead anywhere; the documents warn of this.
            return Ok(Vec::new());
        }
        // Without /proc the paths are unknown, and no client may read the file.
        if let Some(below) = path::real_path_below(self.home()?, opened)? {
            return Ok(vec![[b"/", &below[..]].concat()]);
        }
        let below = match self.site {
            Some(_) => path::real_path_below(self.root, opened)?,
            None => None,
        };
        match below {
            // The file belongs to another host, whose directory may be any of these prefixes; the rules are for paths
            // below it.
            Some(below) => {
                let path = [b"/", &below[..]].concat();
                let starts = (0..path.len()).filter(|at| path[*at] == b'/');
                Ok(starts.map(|at| path[at..].to_vec()).collect())
            }
            None if self.folder.links == Links::Anywhere => Ok(Vec::new()),
            // The file was inside when it was opened.
            None => Err(landau_sys::Error::stale("readlink")),
        }
    }

    /// Returns the directory that the paths of rules are relative to.
    fn home(&self) -> Result<&OwnedFd, landau_sys::Error> {
        let Some(site) = self.site else { return Ok(self.root) };
        if let Some(home) = self.home.get() {
            return Ok(home);
        }
        let home = path::locate_below(self.root, &c_name(site.as_bytes())?, self.folder.links)?;
        Ok(self.home.get_or_init(|| home))
    }

    fn list(&self, path: &[u8], page: listing::View) -> Result<Listing, landau_sys::Error> {
        let name = self.name_of(path);
        let (fd, _) = self.open(&name)?;
        self.restrict(&name, &fd)?;
        if path::is_removed(&fd)? {
            // The directory could be opened, because the descriptor of the root keeps it.
            return Err(landau_sys::Error { call: "openat2", errno: NO_ENTRY });
        }
        let (rules, own) = (self.rules.filter(|rules| rules.restricts()), self.access.borrow().clone());
        let is_readable = |path: &[u8]| {
            let further = rules.map(|rules| rules.restrictions(path)).unwrap_or_default();
            let is_known = |access: &Access| own.iter().any(|own| own.has_same_readers(access));
            further.iter().all(|access| access.is_for_all() || is_known(access))
        };
        let mut places = if rules.is_some() { self.real_paths(&fd)? } else { Vec::new() };
        places.iter_mut().filter(|place| !place.ends_with(b"/")).for_each(|place| place.push(b'/'));
        places.push(path.to_vec());
        let is_listed = |name: &[u8]| places.iter().all(|place| is_readable(&[place, name].concat()));
        // Relative to the root, like a request for this name, because a link may lead up to it.
        let follow = |link: &[u8]| {
            let (fd, status) = self.open(&[&name, link].concat()).ok()?;
            let paths = if rules.is_some() { self.real_paths(&fd).ok()? } else { Vec::new() };
            paths.iter().all(|path| is_readable(path)).then_some(status)
        };
        let shows_dotfiles = self.policy.as_ref().is_some_and(|policy| policy.dotfiles);
        listing::list(
            &fd,
            path,
            page,
            listing::MOST,
            |name: &[u8]| (shows_dotfiles || !name.starts_with(b".")) && is_listed(name),
            follow,
        )
    }

    /// Looks up the path, and if nothing exists there, the fallbacks that the rules name.
    fn find(&self, path: &[u8], known: Option<&Entry>) -> Result<Found, landau_sys::Error> {
        let Some(policy) = &self.policy else { return self.find_at(path, known) };
        if let Some(redirect) = &policy.redirect {
            let (location, status) = (redirect.location(path).into(), redirect.status);
            return Ok(Found::Entry(Entry::Redirect { location, status }));
        }
        if policy.forwards() {
            return Ok(Found::Entry(Entry::Forward));
        }
        let found = self.find_at(path, known);
        let Err(error) = found else { return found };
        if status_of(error) != Status::NOT_FOUND {
            return Err(error);
        }
        self.find_instead(policy, path, known)?.ok_or(error)
    }

    /// Looks up the fallbacks that the rules name for a missing file.
    fn find_instead(
        &self,
        policy: &Policy,
        path: &[u8],
        known: Option<&Entry>,
    ) -> Result<Option<Found>, landau_sys::Error> {
        for other in policy.instead_of(path) {
            match self.open(&self.name_of(&other)) {
                Ok(opened) if opened.1.kind == Kind::File => {
                    return self.file(&self.name_of(&other), opened, known).map(Some);
                }
                Err(error) if status_of(error) != Status::NOT_FOUND => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns whether directories without an index file are listed.
    fn lists(&self) -> bool {
        self.policy.as_ref().and_then(|policy| policy.listings).unwrap_or(self.folder.listings)
    }

    /// Returns the path of a file without `.html`, or that of the directory of an index file, if the rules require it
    /// and the same file is sent there.
    fn clean_path(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.policy.as_ref().filter(|policy| policy.clean_urls)?;
        let clean = path.strip_suffix(b".html")?;
        let (folder, name) = path.split_at(path.iter().rposition(|&byte| byte == b'/')? + 1);
        let policy = |path: &[u8]| self.rules.and_then(|rules| rules.policy(path));
        let is_of_files = |policy: &Policy| policy.redirect.is_none() && policy.proxy.is_none();
        if let Some(at) = self.folder.index.iter().position(|index| index.as_bytes() == name)
            && !self.folder.index[..at].iter().any(|before| self.is_chosen(folder, before))
        {
            return policy(folder).is_none_or(|policy| is_of_files(&policy)).then(|| folder.to_vec());
        }
        let is_clean = policy(clean).is_some_and(|policy| policy.clean_urls && is_of_files(&policy));
        let is_free = self.open(&self.name_of(clean)).is_err_and(|error| status_of(error) == Status::NOT_FOUND);
        (is_clean && is_free && name.len() > b".html".len()).then(|| clean.to_vec())
    }

    /// Returns whether an index file is the one for its directory, provided that those before it do not exist: it is a
    /// file, or cannot be examined.
    fn is_chosen(&self, folder: &[u8], index: &str) -> bool {
        match self.open(&self.name_of(&[folder, index.as_bytes()].concat())) {
            Ok((_, status)) => status.kind == Kind::File,
            Err(error) => status_of(error) != Status::NOT_FOUND,
        }
    }

    fn find_at(&self, path: &[u8], known: Option<&Entry>) -> Result<Found, landau_sys::Error> {
        let name = self.name_of(path);
        let is_folder = name.ends_with(b"/");
        let opened = match self.open(&name) {
            // A directory that may be entered but not read has no listing, but it can have an index file.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let place = path::locate_below(self.root, &c_name(&name)?, self.folder.links)?;
                self.restrict(&name, &place)?;
                return match (path::status(&place)?.kind, is_folder) {
                    (Kind::Directory, true) => self.index_file(name, known)?.ok_or(error),
                    (Kind::Directory, false) => Ok(with_slash(path)),
                    _ => Err(error),
                };
            }
            opened => opened?,
        };
        self.restrict(&name, &opened.0)?;
        Ok(match (opened.1.kind, is_folder) {
            (Kind::File, false) => match self.clean_path(path) {
                Some(path) => redirect(&path),
                None => self.file(&name, opened, known)?,
            },
            (Kind::Directory, true) => match self.index_file(name, known)? {
                Some(found) => found,
                None if self.lists() => Found::Listing,
                None => Found::Entry(Entry::Failure(Status::FORBIDDEN)),
            },
            (Kind::Directory, false) => with_slash(path),
            (Kind::File, true) => Found::Entry(Entry::Failure(Status::NOT_FOUND)),
            (Kind::Other, _) => Found::Entry(Entry::Failure(Status::FORBIDDEN)),
        })
    }

    fn open(&self, name: &[u8]) -> Result<Opened, landau_sys::Error> {
        let fd = path::open_below(self.root, &c_name(name)?, self.folder.links)?;
        let status = path::status(&fd)?;
        Ok((fd, status))
    }

    /// Looks up a file with its compressed forms.
    fn file(&self, name: &[u8], plain: Opened, known: Option<&Entry>) -> Result<Found, landau_sys::Error> {
        let mut opened: [Option<Opened>; 4] = [None, None, None, None];
        let mut codings = Codings::NONE.with(Coding::Identity);
        for coding in Coding::ALL {
            if coding == Coding::Identity {
                continue;
            }
            match self.open(&[name, coding.suffix().as_bytes()].concat()) {
                // A form older than the plain file was made from another version of the file.
                Ok((fd, status))
                    if status.kind == Kind::File
                        && (status.modified_s, status.modified_ns) >= (plain.1.modified_s, plain.1.modified_ns) =>
                {
                    codings = codings.with(coding);
                    opened[coding as usize] = Some((fd, status));
                }
                _ => {}
            }
        }
        opened[Coding::Identity as usize] = Some(plain);
        for coding in Coding::ALL {
            if let Some((fd, _)) = &opened[coding as usize] {
                self.restrict(&[name, coding.suffix().as_bytes()].concat(), fd)?;
            }
        }
        if known.is_some_and(|known| is_same(known, &opened)) {
            return Ok(Found::Same);
        }
        let varies = opened.iter().flatten().count() > 1;
        let mut forms = [None, None, None, None];
        for coding in Coding::ALL {
            if let Some((fd, status)) = opened[coding as usize].take() {
                let content = content(fd, status)?;
                forms[coding as usize] = Some(Form::new(content, name, coding, varies, self.policy.as_deref()));
            }
        }
        Ok(Found::Entry(Entry::File { forms: Box::new(forms), codings }))
    }

    /// Looks up the index file of a directory; returns `None` if there is none.
    fn index_file(&self, mut name: Vec<u8>, known: Option<&Entry>) -> Result<Option<Found>, landau_sys::Error> {
        let len = name.len();
        for index in &self.folder.index {
            name.truncate(len);
            name.extend_from_slice(index.as_bytes());
            match self.open(&name) {
                Ok(opened) if opened.1.kind == Kind::File => return self.file(&name, opened, known).map(Some),
                Err(error) if status_of(error) != Status::NOT_FOUND => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }
}

/// Returns the redirect from a directory's path to the same path with a slash.
fn with_slash(path: &[u8]) -> Found {
    redirect(&[path, b"/"].concat())
}

/// Returns the redirect to another path.
fn redirect(path: &[u8]) -> Found {
    let mut location = Vec::new();
    target::encode(path, &mut location);
    Found::Entry(Entry::Redirect { location: location.into(), status: Status::MOVED_PERMANENTLY })
}

fn c_name(name: &[u8]) -> Result<CString, landau_sys::Error> {
    // Neither a clean path nor a host's name contains NUL.
    CString::new(name).map_err(|_| landau_sys::Error::invalid("openat2"))
}

/// Returns the file name, relative to the root, of a host's path.
fn name_of(site: Option<&str>, path: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(path.len() + 32);
    name.extend_from_slice(site.unwrap_or(".").as_bytes());
    name.extend_from_slice(path);
    name
}

/// Returns whether the known entry was made from these files and they are unchanged.
fn is_same(known: &Entry, opened: &[Option<Opened>; 4]) -> bool {
    let Entry::File { forms, .. } = known else { return false };
    forms
        .iter()
        .zip(opened)
        .all(|(form, opened)| form.as_ref().map(|form| form.status) == opened.as_ref().map(|(_, status)| *status))
        && forms.iter().flatten().all(|form| form.is_settled && !form.is_ahead)
}

/// Before Linux 6.13, the times of a file advance in steps of the kernel's clock, of at most 10 ms (100 Hz). Two
/// changes within one step have the same time.
const STEP: Duration = Duration::from_millis(20);

/// Returns whether a change after the time `read` would get another time than the last change.
pub(super) fn is_settled(status: &FileStatus, read: Duration) -> bool {
    let (changed_s, changed_ns) = status.changed;
    let changed = u64::try_from(changed_s).map_or(Duration::ZERO, |seconds| Duration::new(seconds, changed_ns));
    read >= changed + STEP
}

/// The number of times that a small file is read, at most, if it changes meanwhile.
const READS: u32 = 4;

/// Returns a small file's content, or the descriptor of a large file. A file that changes meanwhile is read again. If
/// it never stops changing, the metadata is that after the last read, because the announced length must be the one that
/// is sent.
fn content(fd: OwnedFd, mut status: FileStatus) -> Result<Content, landau_sys::Error> {
    for read in 1.. {
        // A clock before 1970 is wrong in any case.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if status.size > KEPT_BYTES {
            break;
        }
        let mut bytes = vec![0; KEPT_BYTES as usize + 1];
        let mut len = 0;
        while len < bytes.len() {
            match stream::read_at(&fd, &mut bytes[len..], len as u64)? {
                0 => break,
                got => len += got,
            }
        }
        let after = path::status(&fd)?;
        if (after != status || len as u64 != status.size) && read < READS {
            status = after;
            continue;
        }
        status = after;
        if len as u64 <= KEPT_BYTES {
            bytes.truncate(len);
            let is_settled = is_settled(&status, now);
            let status = FileStatus { size: len as u64, ..status };
            return Ok(Content { body: Body::Memory(bytes.into()), status, is_settled });
        }
        break;
    }
    // An open file has the content of the time when it is sent.
    Ok(Content { body: Body::File(Arc::new(fd)), status, is_settled: true })
}

/// Returns false if the error shows that a name does not exist, and otherwise the status of the error: when descriptors
/// run out, no client may get another host's files.
fn absent(error: landau_sys::Error) -> Result<bool, Status> {
    match status_of(error) {
        Status::NOT_FOUND => Ok(false),
        status => Err(status),
    }
}

/// Returns the entry for a name that could not be opened.
pub(super) fn failure(error: landau_sys::Error) -> Entry {
    Entry::Failure(status_of(error))
}

/// Returns the status for a failed open. A name that leads out of the root gets the same status as one that does not
/// exist, so that clients learn nothing about the outside.
fn status_of(error: landau_sys::Error) -> Status {
    match error.kind() {
        ErrorKind::PermissionDenied => Status::FORBIDDEN,
        _ if error.is_absent() => Status::NOT_FOUND,
        // Descriptors or memory are short, the kernel could not resolve the path, the file was replaced repeatedly, or
        // the file system or its server has failed. The file may exist.
        _ => Status::SERVICE_UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two writes of the same size within a step of the kernel's clock look alike. The first once stayed in the cache
    /// for ever.
    #[test]
    fn a_file_that_was_just_written_is_read_again() {
        let room = tempfile::tempdir().unwrap();
        let open = || {
            let fd = OwnedFd::from(std::fs::File::open(room.path().join("f")).unwrap());
            let status = path::status(&fd).unwrap();
            (fd, status)
        };
        std::fs::write(room.path().join("f"), "AAAA").unwrap();
        let (fd, status) = open();
        let (changed_s, changed_ns) = status.changed;
        let changed = Duration::new(changed_s as u64, changed_ns);
        assert!(!is_settled(&status, changed) && !is_settled(&status, changed + STEP / 2));
        assert!(is_settled(&status, changed + STEP));
        let entry = |is_settled| {
            let content = Content { is_settled, ..content(open().0, status).unwrap() };
            let form = Form::new(content, b"f", Coding::Identity, false, None);
            Entry::File { forms: Box::new([None, None, None, Some(form)]), codings: Codings::NONE }
        };
        let opened = [None, None, None, Some((fd, status))];
        assert!(is_same(&entry(true), &opened) && !is_same(&entry(false), &opened));
    }

    /// A file that was replaced after it was opened, before its path was determined, once had no rule.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_has_no_place_is_not_served() {
        let (room, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [&room, &outside] {
            std::fs::write(folder.path().join("f"), "secret").unwrap();
        }
        let file = crate::config::ConfigFile::parse("[[rule]]\npath = '/f'\ndeny = '::1'\n", &[]).unwrap();
        let rules = Arc::new(file.rules);
        let mut config = Config::new(room.path());
        let view = |folder: &Folder| View { rules: Some(rules.clone()), ..folder.view() };
        for links in [Links::Inside, Links::Never, Links::Anywhere] {
            config.links = links;
            let folder = Folder::new(&config, Arc::default(), false).unwrap();
            let view = view(&folder);
            let look_up = LookUp::new(&folder, &view, None, b"/link");
            let open = |place: &tempfile::TempDir| OwnedFd::from(std::fs::File::open(place.path().join("f")).unwrap());
            let (removed, elsewhere) = (open(&room), open(&outside));
            assert_eq!(look_up.restrict(b"./link", &removed), Ok(()));
            assert_eq!(look_up.access.borrow().len(), 1);
            std::fs::write(room.path().join("new"), "new").unwrap();
            std::fs::rename(room.path().join("new"), room.path().join("f")).unwrap();
            let statuses = [removed, elsewhere].map(|fd| look_up.restrict(b"./link", &fd).map_err(status_of));
            let passing = Err(Status::SERVICE_UNAVAILABLE);
            assert_eq!(statuses, [passing, if links == Links::Anywhere { Ok(()) } else { passing }]);
            // The path is looked up again, a few times.
            let count = std::cell::Cell::new(0);
            let stale = |after: u32| {
                count.set(count.get() + 1);
                look_up.access.borrow_mut().push(Access::default());
                if count.get() < after { Err(landau_sys::Error::stale("readlink")) } else { Ok(()) }
            };
            look_up.access.borrow_mut().clear();
            assert!(look_up.steadily(|| stale(3)).is_ok());
            assert_eq!(look_up.access.borrow().len(), 1, "that of the last time");
            count.set(0);
            assert!(look_up.steadily(|| stale(100)).is_err() && count.get() == LOOK_UPS);
        }
    }

    #[test]
    fn only_missing_files_are_absent() {
        let of = |errno: i32| absent(landau_sys::Error { call: "openat2", errno });
        let passing = Err(Status::SERVICE_UNAVAILABLE);
        // ENOENT, ENOTDIR, EXDEV, EINVAL and ENXIO; EMFILE, ENFILE, EIO, EINTR, ENOMEM and EBUSY; EACCES and EPERM.
        assert_eq!([2, 20, 18, 22, 6].map(of), [Ok(false); 5]);
        assert_eq!([24, 23, 5, 4, 12, 16].map(of), [passing; 6]);
        assert_eq!([13, 1].map(of), [Err(Status::FORBIDDEN); 2]);
        if cfg!(target_os = "linux") {
            // ELOOP, ENAMETOOLONG and EILSEQ; EAGAIN, ENOTCONN, ETIMEDOUT, EHOSTDOWN, EUCLEAN, ENOKEY and ESTALE.
            assert_eq!([40, 36, 84].map(of), [Ok(false); 3]);
            assert_eq!([11, 107, 110, 112, 117, 126, 116].map(of), [passing; 7]);
        }
    }
}
