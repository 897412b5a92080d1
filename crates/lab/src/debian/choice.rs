//! Selects a kernel of the archive by version and flavour.

use super::version::compare;
use crate::deb::Package;
use crate::kernel::Error;
use crate::stanza::Stanza;
use std::cmp::Ordering;

/// The flavours of Debian's kernels for x86-64, and the suffixes that select them. The first is the default: it is
/// small, and has the drivers of a virtual machine built in.
const FLAVOURS: [(&str, &[&str]); 3] = [
    ("cloud-amd64", &["-cloud-amd64", "-cloud"]),
    ("rt-amd64", &["-rt-amd64", "-rt"]),
    ("amd64", &["-amd64", "-generic"]),
];

/// A package in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) package: Package,
    /// The address of its file.
    pub(super) uri: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Entry {
    /// Parses an index; each file occurs once.
    pub(super) fn all(index: &str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for entry in Stanza::all(index).iter().filter_map(Self::of) {
            if !all.iter().any(|known| known.is(&entry)) {
                all.push(entry);
            }
        }
        all
    }

    /// Returns whether both are the same file, even if their addresses differ.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.package.name == other.package.name && self.sha256 == other.sha256
    }

    fn of(stanza: &Stanza) -> Option<Self> {
        let field = |name| stanza.get(name).map(str::to_owned);
        let bytes = stanza.get("Size")?.parse().ok()?;
        Some(Self { package: Package::of(stanza)?, uri: field("URI")?, bytes, sha256: field("SHA256")? })
    }
}

/// A kernel of Debian's archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Available {
    /// Its release without the flavour, such as `6.1.0-53`.
    pub release: String,
    /// Its flavour, such as `cloud-amd64`.
    pub flavour: &'static str,
    /// The package's version, such as `6.1.187-1`.
    pub version: String,
    /// The package's size.
    pub bytes: u64,
    /// Its position in the index.
    pub(super) index: usize,
}

impl Available {
    /// Returns the value of `--kernel` that selects exactly this one.
    pub fn word(&self) -> String {
        format!("debian:{}-{}", self.release, self.flavour)
    }

    /// Returns its series: the first two numbers of the release.
    pub fn series(&self) -> &str {
        let second = self.release.match_indices('.').nth(1);
        second.map_or(self.release.as_str(), |(at, _)| &self.release[..at])
    }

    fn of(entry: &Entry, index: usize) -> Option<Self> {
        let rest = entry.package.name.strip_prefix("linux-image-")?;
        let split = |(flavour, _): &(&'static str, _)| {
            let release = rest.strip_suffix(flavour)?.strip_suffix('-')?;
            Some((release.to_owned(), *flavour))
        };
        let (release, flavour) = FLAVOURS.iter().find_map(split)?;
        // `linux-image-6.12-cloud-amd64` is a metapackage without kernel.
        let is_kernel = release.starts_with(|first: char| first.is_ascii_digit()) && release.matches('.').count() >= 2;
        let version = entry.package.version.clone();
        is_kernel.then_some(Self { release, flavour, version, bytes: entry.bytes, index })
    }

    fn order(&self, other: &Self) -> Ordering {
        compare(&self.version, &other.version).then_with(|| compare(&self.release, &other.release))
    }
}

/// Returns the kernels of an index, oldest first, each release in its newest version.
pub(super) fn available(entries: &[Entry]) -> Vec<Available> {
    let kernels = entries.iter().enumerate().filter_map(|(index, entry)| Available::of(entry, index));
    let mut all: Vec<Available> = kernels.collect();
    all.sort_by(|a, b| a.order(b).then_with(|| a.flavour.cmp(b.flavour)));
    let newest = |one: &Available| (one.release.clone(), one.flavour);
    let mut seen = std::collections::BTreeSet::new();
    let mut kept: Vec<Available> = all.into_iter().rev().filter(|one| seen.insert(newest(one))).collect();
    kept.reverse();
    kept
}

/// A selection: version and flavour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    version: String,
    flavour: &'static str,
}

impl Wanted {
    pub(super) fn parse(word: &str) -> Self {
        let endings = FLAVOURS.iter().flat_map(|(flavour, words)| words.iter().map(move |word| (*flavour, *word)));
        let mut split = endings.filter_map(|(flavour, ending)| Some((word.strip_suffix(ending)?, flavour)));
        let (version, flavour) = split.next().unwrap_or((word, FLAVOURS[0].0));
        Self { version: version.strip_prefix("linux-image-").unwrap_or(version).to_owned(), flavour }
    }

    /// Returns whether this is the complete name of a kernel, which selects the same one in every index.
    pub(super) fn is_exact(&self, kernel: &Available) -> bool {
        self.version == kernel.release
    }

    /// Returns whether the selection is `version` or a prefix of it that does not end inside a number.
    fn begins(&self, version: &str) -> bool {
        let rest = version.strip_prefix(&self.version);
        rest.is_some_and(|rest| !self.version.is_empty() && !rest.starts_with(|next: char| next.is_ascii_digit()))
    }

    /// Returns the newest kernel of the selection.
    pub(super) fn choose<'a>(&self, word: &str, all: &'a [Available]) -> Result<&'a Available, Error> {
        let fits = |one: &&Available| self.begins(&one.release) || self.begins(&one.version);
        let mut of_flavour = all.iter().filter(|one| one.flavour == self.flavour);
        let meant: Vec<&Available> = of_flavour.clone().filter(fits).collect();
        if let Some(exact) = meant.iter().find(|one| self.is_exact(one)) {
            return Ok(exact);
        }
        let refuse = |what: String, known: String| Error::Version { wanted: word.to_owned(), what, known };
        let Some(newest) = meant.last() else {
            let is_other = all.iter().find(|one| fits(one));
            let what = match is_other {
                Some(other) => {
                    format!(
                        "no kernel of that version has the flavour {}, but some have {}",
                        self.flavour, other.flavour
                    )
                }
                None => "Debian's archive has no kernel of that version".to_owned(),
            };
            let known = if is_other.is_some() { list(all.iter().filter(fits)) } else { list(of_flavour) };
            return Err(refuse(what, known));
        };
        if meant.iter().any(|one| one.series() != newest.series()) {
            return Err(refuse("it matches several series; specify one".to_owned(), list(meant.iter().copied())));
        }
        debug_assert!(of_flavour.any(|one| one == *newest));
        Ok(newest)
    }
}

/// Lists kernels by series: "6.1 (6.1.0-47, 6.1.0-53); 6.12 (…)".
fn list<'a>(kernels: impl Iterator<Item = &'a Available>) -> String {
    let mut series: Vec<(&str, Vec<String>)> = Vec::new();
    for kernel in kernels {
        let name = if kernel.flavour == FLAVOURS[0].0 {
            kernel.release.clone()
        } else {
            format!("{}-{}", kernel.release, kernel.flavour)
        };
        match series.iter_mut().find(|(known, _)| *known == kernel.series()) {
            Some((_, names)) => names.push(name),
            None => series.push((kernel.series(), vec![name])),
        }
    }
    let texts: Vec<String> = series.iter().map(|(series, names)| format!("{series} ({})", names.join(", "))).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

    use super::*;

    fn index(packages: &[(&str, &str)]) -> Vec<Entry> {
        let stanza = |(name, version): &(&str, &str)| {
            format!(
                "Package: {name}\nVersion: {version}\nArchitecture: amd64\nURI: a/{name}.deb\nSize: 9\n\
                 SHA256: {name}{version}\n\n"
            )
        };
        Entry::all(&packages.iter().map(stanza).collect::<String>())
    }

    fn archive() -> Vec<Available> {
        let entries = index(&[
            ("linux-image-6.12-cloud-amd64", "6.12.107-1~deb12u1"),
            ("linux-image-6.12.107+deb12-cloud-amd64", "6.12.107-1~deb12u1"),
            ("linux-image-6.12.107+deb13-cloud-amd64", "6.12.107-1"),
            ("linux-image-6.12.94+deb13-cloud-amd64", "6.12.94-1"),
            ("linux-image-6.1.0-9-cloud-amd64", "6.1.27-1"),
            ("linux-image-6.1.0-53-cloud-amd64", "6.1.187-1"),
            ("linux-image-6.1.0-53-cloud-amd64", "6.1.187-2"),
            ("linux-image-6.1.0-53-cloud-amd64", "6.1.187-2"),
            ("linux-image-6.1.0-53-cloud-amd64-dbg", "6.1.187-1"),
            ("linux-image-6.1.0-53-amd64", "6.1.187-1"),
            ("linux-image-6.1.0-53-rt-amd64", "6.1.187-1"),
            ("linux-image-6.1.0-0.deb11.52-cloud-amd64", "6.1.180-1~deb11u1"),
            ("linux-image-5.10.0-32-cloud-amd64", "5.10.223-1"),
            ("linux-image-amd64", "6.1.187-1"),
            ("linux-binary-7.2.13+deb14-amd64", "7.2.13-1"),
        ]);
        available(&entries)
    }

    fn choose(word: &str) -> Result<String, String> {
        let all = archive();
        let chosen = Wanted::parse(word).choose(word, &all);
        chosen.map(|one| format!("{} {} {}", one.release, one.flavour, one.version)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_newest_match_is_selected() {
        let cases = [
            ("6.12", "6.12.107+deb13 cloud-amd64 6.12.107-1"),
            ("6.12.94", "6.12.94+deb13 cloud-amd64 6.12.94-1"),
            ("6.12.107+deb12", "6.12.107+deb12 cloud-amd64 6.12.107-1~deb12u1"),
            ("6.1", "6.1.0-53 cloud-amd64 6.1.187-2"),
            ("6.1.0-9", "6.1.0-9 cloud-amd64 6.1.27-1"),
            ("6.1.187", "6.1.0-53 cloud-amd64 6.1.187-2"),
            ("6.1-rt", "6.1.0-53 rt-amd64 6.1.187-1"),
            ("6.1-amd64", "6.1.0-53 amd64 6.1.187-1"),
            ("6.1.0-53-cloud-amd64", "6.1.0-53 cloud-amd64 6.1.187-2"),
            ("linux-image-6.1.0-53-rt-amd64", "6.1.0-53 rt-amd64 6.1.187-1"),
            ("5", "5.10.0-32 cloud-amd64 5.10.223-1"),
        ];
        for (word, expected) in cases {
            assert_eq!(choose(word).as_deref(), Ok(expected), "{word}");
        }
    }

    #[test]
    fn ambiguous_and_missing_versions_list_the_available_ones() {
        let said = choose("6").unwrap_err();
        assert!(
            said.contains("several series") && said.contains("6.1 (") && said.contains("; 6.12 (6.12.94+deb13,"),
            "{said}"
        );
        let said = choose("6.1.0-5").unwrap_err();
        assert!(said.contains("no kernel of that version") && said.contains("5.10 (5.10.0-32)"), "{said}");
        let said = choose("5.10-rt").unwrap_err();
        assert!(said.contains("flavour rt-amd64, but some have cloud-amd64"), "{said}");
        assert!(choose("").is_err() && choose("-cloud").is_err() && choose("x").is_err());
    }

    #[test]
    fn each_release_is_listed_once() {
        let all = archive();
        assert_eq!(all.len(), 9, "{all:?}");
        assert_eq!(all[0].word(), "debian:5.10.0-32-cloud-amd64");
        assert_eq!(all.last().map(Available::series), Some("6.12"));
    }
}
