//! Reads Debian packages: their control file, and the kernel in them.
//!
//! A package is an `ar` archive of two compressed tar archives: `control.tar` with its description, `data.tar` with its
//! files. Both are read to the end, so that the decompressor verifies its checksums: a kernel from a damaged package
//! would cause errors that are hard to explain.

use crate::compression::Compression;
use crate::image::{ACCEPTED, inspect};
use crate::kernel::Error;
use crate::stanza::Stanza;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A `System.map` below this size is a placeholder that names the debugging package, not a table of symbols.
pub(crate) const LEAST_MAP_BYTES: u64 = 4096;

/// The description of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name, such as `linux-image-6.1.0-53-cloud-amd64`.
    pub name: String,
    /// Its version, such as `6.1.187-1`.
    pub version: String,
    /// Debian's name of its architecture.
    pub architecture: String,
    /// The names of the packages it depends on, without versions and alternatives.
    pub depends: Vec<String>,
}

impl Package {
    /// Reads a control file, or a package's entry in an index.
    pub fn of(stanza: &Stanza) -> Option<Self> {
        let field = |name| stanza.get(name).map(str::to_owned);
        let depends = stanza.get("Depends").unwrap_or_default().split(',');
        let first = depends.filter_map(|one| one.split_whitespace().next());
        Some(Self {
            name: field("Package")?,
            version: field("Version")?,
            architecture: field("Architecture")?,
            depends: first.map(str::to_owned).collect(),
        })
    }

    /// Returns the package `linux-KIND-RELEASE` that this one depends on: newer releases have the kernel in
    /// `linux-binary-…`.
    pub fn part(&self, kind: &str) -> Option<&str> {
        let prefix = format!("linux-{kind}-");
        self.depends.iter().map(String::as_str).find(|one| {
            let release = one.strip_prefix(&prefix);
            release.is_some_and(|release| {
                self.name.ends_with(release) && release.starts_with(|c: char| c.is_ascii_digit())
            })
        })
    }
}

/// The files that [`extract`] wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The kernel.
    pub image: Option<PathBuf>,
    /// The configuration it was built with.
    pub config: Option<PathBuf>,
    /// Its symbols.
    pub system_map: Option<PathBuf>,
}

/// One file of an `ar` archive.
struct Member {
    name: String,
    start: u64,
    len: u64,
}

/// An open package file and its members.
struct Archive {
    path: PathBuf,
    file: File,
    members: Vec<Member>,
}

fn broken(path: &Path, what: impl Into<String>) -> Error {
    Error::Package { path: path.to_owned(), what: what.into() }
}

impl Archive {
    fn open(path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::io(path, error);
        let mut file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let mut magic = [0; 8];
        if file.read_exact(&mut magic).is_err() || &magic != b"!<arch>\n" {
            return Err(broken(path, "it is not an ar archive"));
        }
        let mut members = Vec::new();
        let mut at = 8;
        while at < len {
            let mut header = [0; 60];
            file.seek(SeekFrom::Start(at)).map_err(failed)?;
            file.read_exact(&mut header).map_err(|_| broken(path, format!("truncated in the header at byte {at}")))?;
            let member =
                member(&header, at + 60).ok_or_else(|| broken(path, format!("invalid header at byte {at}")))?;
            at = member.start.saturating_add(member.len);
            if at > len {
                return Err(broken(path, format!("truncated: {} ends at byte {at} of {len}", member.name)));
            }
            at = at.next_multiple_of(2);
            members.push(member);
        }
        Ok(Self { path: path.to_owned(), file, members })
    }

    /// Returns a tar archive of the package, decompressed.
    fn tar(&mut self, name: &str) -> Result<tar::Archive<Box<dyn Read + '_>>, Error> {
        let path = &self.path;
        let member = self.members.iter().find(|one| one.name == name || one.name.starts_with(&format!("{name}.")));
        let member = member.ok_or_else(|| broken(path, format!("it has no {name}")))?;
        let mut head = Vec::new();
        let failed = |error| Error::io(path, error);
        self.file.seek(SeekFrom::Start(member.start)).map_err(failed)?;
        self.file.by_ref().take(member.len.min(8)).read_to_end(&mut head).map_err(failed)?;
        self.file.seek(SeekFrom::Start(member.start)).map_err(failed)?;
        let bytes = BufReader::with_capacity(1 << 16, (&mut self.file).take(member.len));
        let reader: Box<dyn Read + '_> = match Compression::of(&head) {
            None if member.name == name => Box::new(bytes),
            None => return Err(broken(path, format!("{} has an unknown compression", member.name))),
            Some(compression) => match compression.reader(bytes) {
                None => {
                    return Err(broken(
                        path,
                        format!(
                            "{} is compressed with {}, which landau cannot decompress",
                            member.name,
                            compression.name()
                        ),
                    ));
                }
                Some(reader) => reader.map_err(|error| broken(path, format!("{}: {error}", member.name)))?,
            },
        };
        Ok(tar::Archive::new(reader))
    }
}

/// Parses the header of a file in an `ar` archive: name, four numbers, length, and two terminating bytes.
fn member(header: &[u8; 60], start: u64) -> Option<Member> {
    let text = std::str::from_utf8(header).ok()?;
    let name = text.get(..16)?.trim_end().trim_end_matches('/').to_owned();
    let len = text.get(48..58)?.trim_end().parse().ok()?;
    (text.get(58..)? == "`\n").then_some(Member { name, start, len })
}

/// Returns the description of a package.
pub fn read_control(path: &Path) -> Result<Package, Error> {
    let mut archive = Archive::open(path)?;
    let failed = |error: io::Error| broken(path, format!("control.tar: {error}"));
    let mut control = None;
    let mut tar = archive.tar("control.tar")?;
    for entry in tar.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        if name_of(&entry).as_deref() == Some("control") {
            let mut text = String::new();
            entry.read_to_string(&mut text).map_err(failed)?;
            control = Stanza::all(&text).first().and_then(Package::of);
        }
    }
    io::copy(&mut tar.into_inner(), &mut io::sink()).map_err(failed)?;
    control.ok_or_else(|| broken(path, "its control file lacks name, version or architecture"))
}

/// Returns the path of an entry, without the leading `./` that packages use.
fn name_of<R: Read>(entry: &tar::Entry<R>) -> Option<String> {
    let path = entry.path().ok()?;
    Some(path.to_str()?.trim_start_matches("./").to_owned())
}

/// Returns which of the three files an entry is. They are in `boot`, or in newer packages in the modules' directory.
fn role(place: &str) -> Option<&'static str> {
    const ROLES: [(&str, &str); 4] =
        [("vmlinuz", "vmlinuz"), ("vmlinux", "vmlinuz"), ("config", "config"), ("System.map", "System.map")];
    let place = place.strip_prefix("usr/lib/debug/").or_else(|| place.strip_prefix("usr/")).unwrap_or(place);
    let parts: Vec<&str> = place.split('/').collect();
    let is = |(name, _): &&(&str, &str)| match parts[..] {
        ["boot", file] => file.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')),
        ["lib", "modules", _, file] => file == *name,
        _ => false,
    };
    ROLES.iter().find(is).map(|(_, role)| *role)
}

/// Writes the kernel and its companions into a directory, as `vmlinuz`, `config` and `System.map`.
pub fn extract(path: &Path, into: &Path) -> Result<Contents, Error> {
    let mut archive = Archive::open(path)?;
    let failed = |error: io::Error| broken(path, format!("data.tar: {error}"));
    let mut contents = Contents::default();
    let mut tar = archive.tar("data.tar")?;
    for entry in tar.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let role = name_of(&entry).as_deref().and_then(role).filter(|_| entry.header().entry_type().is_file());
        let Some(role) = role else { continue };
        if role == "System.map" && entry.size() < LEAST_MAP_BYTES {
            continue;
        }
        let target = into.join(role);
        let mut file = File::create(&target).map_err(|error| Error::io(&target, error))?;
        copy(&mut entry, &mut file).map_err(|error| match error {
            Copying::Read(error) => failed(error),
            Copying::Write(error) => Error::io(&target, error),
        })?;
        *match role {
            "vmlinuz" => &mut contents.image,
            "config" => &mut contents.config,
            _ => &mut contents.system_map,
        } = Some(target);
    }
    io::copy(&mut tar.into_inner(), &mut io::sink()).map_err(failed)?;
    Ok(contents)
}

/// The side of a copy that failed.
#[derive(Debug)]
pub(crate) enum Copying {
    Read(io::Error),
    Write(io::Error),
}

/// Copies everything up to the end of the input; the error says which side failed.
pub(crate) fn copy(from: &mut impl Read, to: &mut impl io::Write) -> Result<(), Copying> {
    let mut piece = vec![0; 1 << 16];
    loop {
        match from.read(&mut piece).map_err(Copying::Read)? {
            0 => return to.flush().map_err(Copying::Write),
            read => to.write_all(&piece[..read]).map_err(Copying::Write)?,
        }
    }
}

/// Extracts the kernel of a package; the error explains a package without one.
pub fn extract_kernel(path: &Path, into: &Path) -> Result<(Package, Contents), Error> {
    let package = read_control(path)?;
    if !["amd64", "all"].contains(&package.architecture.as_str()) {
        let is = format!("it is for {}, the wrong architecture; {ACCEPTED}", package.architecture);
        return Err(broken(path, is));
    }
    let contents = extract(path, into)?;
    let Some(image) = &contents.image else {
        let hint = match package.part("binary") {
            Some(other) => format!("the kernel is in the package {other}; give that file"),
            None => ACCEPTED.to_owned(),
        };
        return Err(broken(path, format!("{} contains no kernel: {hint}", package.name)));
    };
    match inspect(image)?.refusal() {
        Some(refusal) => Err(broken(path, format!("its kernel cannot be used: {refusal}"))),
        None => Ok((package, contents)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
