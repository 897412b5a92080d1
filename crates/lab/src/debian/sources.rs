//! Reads the host's apt sources to find its Debian archive.
//!
//! So landau contains no host names, uses the host's mirror and proxy, and apt checks signatures with the keys that the
//! host trusts for that archive.

use crate::stanza::Stanza;
use std::fmt::Write as _;

/// The releases whose kernels are listed, and other names of releases in a host's sources.
const LISTED: &[&str] = &["bullseye", "bookworm", "trixie", "sid"];
const OTHER_NAMES: &[&str] = &["buster", "forky", "duke", "oldoldstable", "oldstable", "stable", "testing", "unstable"];

/// One archive and suite that the host installs from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    uri: String,
    suite: String,
    signed_by: Option<String>,
}

/// Parses a file of sources, in the format of its name's extension.
pub(super) fn read(name: &str, text: &str) -> Vec<Entry> {
    if name.ends_with(".sources") { paragraphs(text) } else { text.lines().filter_map(line).collect() }
}

/// `deb [option=value …] uri suite component…`
fn line(line: &str) -> Option<Entry> {
    let rest = line.split('#').next()?.trim().strip_prefix("deb")?;
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => ("", rest),
    };
    let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    let mut words = rest.split_whitespace();
    let (uri, suite) = (words.next()?.to_owned(), words.next()?.to_owned());
    let signed_by = signed_by.map(|keys| keys.replace(',', " "));
    words.any(|component| component == "main").then_some(Entry { uri, suite, signed_by })
}

/// Parses the newer format, in paragraphs.
fn paragraphs(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for stanza in Stanza::all(text) {
        let is_off = stanza.get("Enabled").is_some_and(|word| word.eq_ignore_ascii_case("no") || word == "false");
        let has = |field, word: &str| stanza.words(field).any(|one| one == word);
        if is_off || !has("Types", "deb") || !has("Components", "main") {
            continue;
        }
        let Some(uri) = stanza.words("URIs").next() else { continue };
        let signed_by = stanza.get("Signed-By").map(str::to_owned);
        let of = |suite: &str| Entry { uri: uri.to_owned(), suite: suite.to_owned(), signed_by: signed_by.clone() };
        entries.extend(stanza.words("Suites").map(of));
    }
    entries
}

/// Returns the release of a suite, and whether it is the security suite; `None` if it is not Debian's.
fn release(suite: &str) -> Option<(&str, bool)> {
    let suite = suite.trim_end_matches('/');
    let (name, is_security) = match suite.strip_suffix("-security/updates").or(suite.strip_suffix("/updates")) {
        Some(name) => (name, true),
        None => suite.strip_suffix("-security").map_or((suite, false), |name| (name, true)),
    };
    (LISTED.contains(&name) || OTHER_NAMES.contains(&name)).then_some((name, is_security))
}

/// Rates how likely an entry is Debian's own archive: other archives use its release names, too, but not its key and
/// path.
fn likeness(entry: &Entry) -> u32 {
    let folder = entry.uri.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let has_key = entry.signed_by.as_deref().is_some_and(|keys| keys.contains("debian-archive"));
    2 * u32::from(has_key) + u32::from(folder.starts_with("debian"))
}

/// Returns the first of the most likely archives.
fn archive(entries: &[Entry], security: bool) -> Option<&Entry> {
    let fitting = entries.iter().filter(|entry| release(&entry.suite).is_some_and(|(_, is)| is == security));
    let fitting = fitting.filter(|entry| !entry.uri.starts_with("cdrom:"));
    fitting.rev().max_by_key(|entry| likeness(entry))
}

/// Returns sources with the host's archive and every listed release; `None` if the host has no Debian archive.
pub(super) fn private(entries: &[Entry]) -> Option<String> {
    let main = archive(entries, false)?;
    let mut suites = LISTED.to_vec();
    let own = release(&main.suite).map(|(name, _)| name).filter(|name| ["forky", "duke", "testing"].contains(name));
    suites.extend(own);
    let mut text = paragraph(main, &suites.join(" "));
    if let Some(security) = archive(entries, true) {
        // Sid has no security suite.
        suites.retain(|name| *name != "sid");
        let suites: Vec<_> = suites.iter().map(|name| format!("{name}-security")).collect();
        text.push_str(&paragraph(security, &suites.join(" ")));
    }
    Some(text)
}

/// Returns the address of the archive that a package list comes from, by the suite in the list's file name.
pub(super) fn archive_of(private: &str, list: &str) -> Option<String> {
    let suite = list.split("_dists_").nth(1)?.split("_main_binary-").next()?;
    let stanzas = Stanza::all(private);
    let stanza = stanzas.iter().find(|stanza| stanza.words("Suites").any(|one| one == suite))?;
    stanza.get("URIs").map(str::to_owned)
}

fn paragraph(entry: &Entry, suites: &str) -> String {
    let mut text = format!("Types: deb\nURIs: {}\nSuites: {suites}\nComponents: main\n", entry.uri);
    text.push_str("Architectures: amd64\nTargets: Packages\n");
    if let Some(keys) = &entry.signed_by {
        let _ = writeln!(text, "Signed-By:{}{keys}", if keys.starts_with('\n') { "" } else { " " });
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

    use super::*;

    const LINES: &str = "# deb http://off.example/debian bookworm main\n\
        deb https://repo.example/tool bookworm main\n\
        deb-src http://mirror.example/debian bookworm main\n\
        deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg,/b.gpg] http://mirror.example/debian/ bookworm main x # y\n\
        deb http://mirror.example/debian bookworm-updates main\n\
        deb http://sql.example/debian bookworm-tool main\n\
        deb\thttp://mirror.example/debian-security bookworm-security main\n";

    #[test]
    fn the_older_format_is_parsed() {
        let entries = read("sources.list", LINES);
        assert_eq!(entries.len(), 5, "{entries:?}");
        assert_eq!(entries[1].signed_by.as_deref(), Some("/usr/share/keyrings/a.gpg /b.gpg"));
        let text = private(&entries).unwrap();
        let stanzas = Stanza::all(&text);
        assert_eq!(stanzas[0].get("URIs"), Some("http://mirror.example/debian/"));
        assert_eq!(stanzas[0].get("Suites"), Some("bullseye bookworm trixie sid"));
        assert_eq!(stanzas[0].get("Signed-By"), Some("/usr/share/keyrings/a.gpg /b.gpg"));
        assert_eq!(stanzas[1].get("URIs"), Some("http://mirror.example/debian-security"));
        assert_eq!(stanzas[1].get("Suites"), Some("bullseye-security bookworm-security trixie-security"));
        assert_eq!(stanzas[1].get("Signed-By"), None);
        let list = "/x/mirror.example_debian-security_dists_trixie-security_main_binary-amd64_Packages.lz4";
        assert_eq!(archive_of(&text, list).as_deref(), Some("http://mirror.example/debian-security"));
        assert_eq!(archive_of(&text, "/x/y_dists_noble_main_binary-amd64_Packages"), None);
    }

    #[test]
    fn the_newer_format_is_parsed_with_its_keys() {
        let text = "Types: deb deb-src\nURIs: http://a.example/debian http://b.example/debian\nSuites: sid\n\
            Components: main contrib\nSigned-By:\n -----BEGIN PGP\n .\n abc\n\n\
            Enabled: no\nTypes: deb\nURIs: http://off.example/debian\nSuites: trixie\nComponents: main\n";
        let entries = read("debian.sources", text);
        assert_eq!(entries.len(), 1, "{entries:?}");
        let ours = private(&entries).unwrap();
        assert!(ours.contains("URIs: http://a.example/debian\n") && !ours.contains("-security"), "{ours}");
        assert!(ours.contains("Signed-By:\n -----BEGIN PGP\n .\n abc\n"), "{ours}");
    }

    #[test]
    fn the_key_identifies_debian() {
        let lines = "deb http://x.example/debian trixie main\n\
            deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://y.example/pub trixie main\n";
        assert!(private(&read("a.list", lines)).unwrap().contains("URIs: http://y.example/pub"));
    }

    #[test]
    fn other_distributions_have_no_debian_archive() {
        let lines = "deb http://x.example/ubuntu noble main universe\ndeb cdrom:[Debian 12]/ bookworm main\n";
        assert_eq!(private(&read("a.list", lines)), None);
        assert_eq!(private(&[]), None);
    }

    #[test]
    fn old_and_new_names_of_security_suites_are_known() {
        assert_eq!(release("buster/updates"), Some(("buster", true)));
        assert_eq!(release("bookworm-security"), Some(("bookworm", true)));
        assert_eq!(release("stable"), Some(("stable", false)));
        assert_eq!(release("bookworm-backports"), None);
    }
}
