//! From a clean path to the file or directory there.

use super::entry::{Body, Entry, Form};
use super::listing::{self, Listing};
use crate::config::Config;
use crate::error::Error;
use landau_sys::path::{self, Kind, Links, Status as FileStatus};
use landau_sys::stream;
use landau_wire::http::encoding::{Coding, Codings};
use landau_wire::http::{Status, target};
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;

/// Files up to this size are kept in memory; larger ones are sent from the page cache.
const KEPT_BYTES: u64 = 64 << 10;

/// The served directory.
#[derive(Debug)]
pub(crate) struct Folder {
    root: OwnedFd,
    links: Links,
    index: Vec<String>,
    listings: bool,
}

/// An open file.
type Opened = (OwnedFd, FileStatus);

impl Folder {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let failed = |errno| {
            let hint = match std::io::Error::from_raw_os_error(errno).kind() {
                ErrorKind::NotFound => "; pass an existing directory",
                ErrorKind::NotADirectory => "; pass the directory that contains it",
                ErrorKind::PermissionDenied => "; run chmod o+rx on the directory, or start the server as its owner",
                _ => "",
            };
            Error::Root { path: config.root.clone(), hint, cause: landau_sys::Error { call: "open", errno } }
        };
        let name = CString::new(config.root.as_os_str().as_bytes()).map_err(|_| failed(22))?;
        let root = path::open_directory(&name).map_err(|error| failed(error.errno))?;
        Ok(Self { root, links: config.links, index: config.index.clone(), listings: config.listings })
    }

    /// Returns whether a host has a directory; if that cannot be found out, the status for the client.
    pub(crate) fn has_host(&self, name: &str) -> Result<bool, Status> {
        self.open(name.as_bytes()).map(|(_, status)| status.kind == Kind::Directory).or_else(absent)
    }

    /// Looks up a clean path that starts with a slash; `None` if it is a directory to be listed, which takes longer
    /// ([`Folder::list`]). `known` is the previous entry, which is returned if nothing has changed.
    pub(crate) fn look_up(&self, site: Option<&str>, path: &[u8], known: Option<Rc<Entry>>) -> Option<Rc<Entry>> {
        self.try_look_up(site, path, known).unwrap_or_else(|error| Some(Rc::new(failure(error))))
    }

    fn try_look_up(
        &self,
        site: Option<&str>,
        path: &[u8],
        known: Option<Rc<Entry>>,
    ) -> Result<Option<Rc<Entry>>, landau_sys::Error> {
        let name = name_of(site, path);
        let is_folder = name.ends_with(b"/");
        let (fd, status) = self.open(&name)?;
        match (status.kind, is_folder) {
            (Kind::File, false) => self.file(&name, (fd, status), known).map(Some),
            (Kind::Directory, true) => self.folder(name, known),
            (Kind::Directory, false) => {
                let mut location = Vec::new();
                target::encode(path, &mut location);
                location.push(b'/');
                Ok(Some(Rc::new(Entry::Folder { location: location.into() })))
            }
            (Kind::File, true) => Ok(Some(Rc::new(Entry::Failure(Status::NOT_FOUND)))),
            (Kind::Other, _) => Ok(Some(Rc::new(Entry::Failure(Status::FORBIDDEN)))),
        }
    }

    /// Lists a directory.
    pub(super) fn list(&self, site: Option<&str>, path: &[u8]) -> Result<Listing, landau_sys::Error> {
        let name = name_of(site, path);
        let (fd, _) = self.open(&name)?;
        // Relative to the root, as a request for this name would be, because a link may lead up to it.
        let follow = |link: &[u8]| self.open(&[&name, link].concat()).ok().map(|(_, status)| status);
        listing::list(&fd, path, listing::MOST, follow)
    }

    fn open(&self, name: &[u8]) -> Result<Opened, landau_sys::Error> {
        // Neither a clean path nor a host's name contains NUL.
        let name = CString::new(name).map_err(|_| landau_sys::Error::invalid("openat2"))?;
        let fd = path::open_below(&self.root, &name, self.links)?;
        let status = path::status(&fd)?;
        Ok((fd, status))
    }

    /// Looks up a file with its compressed forms.
    fn file(&self, name: &[u8], plain: Opened, known: Option<Rc<Entry>>) -> Result<Rc<Entry>, landau_sys::Error> {
        let mut opened: [Option<Opened>; 4] = [None, None, None, None];
        let mut codings = Codings::NONE.with(Coding::Identity);
        for coding in Coding::ALL {
            let packed = [name, coding.suffix().as_bytes()].concat();
            let form = if coding == Coding::Identity { None } else { self.open(&packed).ok() };
            if let Some((fd, status)) = form
                && status.kind == Kind::File
                // A form older than the plain file was made from another version.
                && (status.modified_s, status.modified_ns) >= (plain.1.modified_s, plain.1.modified_ns)
            {
                codings = codings.with(coding);
                opened[coding as usize] = Some((fd, status));
            }
        }
        opened[Coding::Identity as usize] = Some(plain);
        if let Some(known) = known.filter(|known| is_same(known, &opened)) {
            return Ok(known);
        }
        let varies = opened.iter().flatten().count() > 1;
        let mut forms = [None, None, None, None];
        for coding in Coding::ALL {
            if let Some((fd, status)) = opened[coding as usize].take() {
                let (body, status) = content(fd, status)?;
                forms[coding as usize] = Some(Form::new(status, body, name, coding, varies));
            }
        }
        Ok(Rc::new(Entry::File { forms: Box::new(forms), codings }))
    }

    /// Looks up a directory: its index file if there is one, otherwise its listing if that is allowed.
    fn folder(&self, mut name: Vec<u8>, known: Option<Rc<Entry>>) -> Result<Option<Rc<Entry>>, landau_sys::Error> {
        let len = name.len();
        for index in &self.index {
            name.truncate(len);
            name.extend_from_slice(index.as_bytes());
            match self.open(&name) {
                Ok(opened) if opened.1.kind == Kind::File => return self.file(&name, opened, known).map(Some),
                Err(error) if status_of(error) != Status::NOT_FOUND => return Err(error),
                _ => {}
            }
        }
        Ok(if self.listings { None } else { Some(Rc::new(Entry::Failure(Status::FORBIDDEN))) })
    }
}

/// Returns the name below the root of a host's path.
fn name_of(site: Option<&str>, path: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(path.len() + 32);
    name.extend_from_slice(site.unwrap_or(".").as_bytes());
    name.extend_from_slice(path);
    name
}

/// Returns whether the known entry was made of these files, unchanged.
fn is_same(known: &Entry, opened: &[Option<Opened>; 4]) -> bool {
    let Entry::File { forms, .. } = known else { return false };
    forms
        .iter()
        .zip(opened)
        .all(|(form, opened)| form.as_ref().map(|form| form.status) == opened.as_ref().map(|(_, status)| *status))
}

/// Returns a small file's content, or the descriptor of a large one. If the file changes while it is read, the metadata
/// is what it was afterwards: the promised length must be the one that is sent.
fn content(fd: OwnedFd, status: FileStatus) -> Result<(Body, FileStatus), landau_sys::Error> {
    if status.size > KEPT_BYTES {
        return Ok((Body::File(Arc::new(fd)), status));
    }
    let mut bytes = vec![0; KEPT_BYTES as usize + 1];
    let mut len = 0;
    while len < bytes.len() {
        match stream::read_at(&fd, &mut bytes[len..], len as u64)? {
            0 => break,
            got => len += got,
        }
    }
    let status = FileStatus { size: len as u64, ..path::status(&fd)? };
    if len as u64 > KEPT_BYTES {
        let status = path::status(&fd)?;
        return Ok((Body::File(Arc::new(fd)), status));
    }
    bytes.truncate(len);
    Ok((Body::Memory(bytes.into()), status))
}

/// A name that could not be opened does not exist, or the error says otherwise: when descriptors run out, no client may
/// get another host's files.
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
        // Descriptors or memory are short: the file may exist.
        ErrorKind::OutOfMemory | ErrorKind::StorageFull => Status::SERVICE_UNAVAILABLE,
        _ if matches!(landau_sys::errno_name(error.errno).as_str(), "EMFILE" | "ENFILE" | "EIO") => {
            Status::SERVICE_UNAVAILABLE
        }
        _ => Status::NOT_FOUND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_files_are_absent() {
        let of = |errno: i32| absent(landau_sys::Error { call: "openat2", errno });
        // ENOENT and ENOTDIR; EMFILE, ENFILE and EIO; EACCES.
        assert_eq!([2, 20].map(of), [Ok(false); 2]);
        assert_eq!([24, 23, 5].map(of), [Err(Status::SERVICE_UNAVAILABLE); 3]);
        assert_eq!(of(13), Err(Status::FORBIDDEN));
    }
}
