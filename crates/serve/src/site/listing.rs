//! A directory's listing, as HTML and as JSON: directories first, then by name.

use landau_sys::Error;
use landau_sys::path::{Kind, Status as FileStatus};
use landau_wire::http::{date, target};
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::DirEntry;
use std::io::Error as IoError;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// The most entries that are listed: a longer page is of no use, and delays other listings (10,000 entries take about
/// 50 ms and 2 MB).
pub(super) const MOST: usize = 10_000;

#[derive(Debug)]
struct Row {
    is_file: bool,
    name: Vec<u8>,
    size: u64,
    modified_s: u64,
}

/// A directory's listing in both forms.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    /// The page.
    pub(crate) html: Arc<[u8]>,
    /// The JSON text.
    pub(crate) json: Arc<[u8]>,
}

/// Lists an open directory with the given clean path. `follow` returns the metadata of a link's target if the link may
/// be followed. Of other links, and of what cannot be opened, a client learns nothing, not even the size. If there are
/// more than `most` entries, the first ones in the order of the listing are listed, and the listing says so.
/// `is_listed` says whether a name is listed.
pub(super) fn list(
    folder: &OwnedFd,
    path: &[u8],
    most: usize,
    is_listed: impl Fn(&[u8]) -> bool,
    follow: impl Fn(&[u8]) -> Option<FileStatus>,
) -> Result<Listing, Error> {
    let failed = |error: IoError| Error::from_io("getdents64", &error);
    // The directory is read through its descriptor, because its name may lead elsewhere by now.
    let place = format!("/proc/thread-self/fd/{}", folder.as_raw_fd());
    let place = if cfg!(target_os = "linux") { place } else { format!("/dev/fd/{}", folder.as_raw_fd()) };
    // The first entries so far, the last of them on top: of a million names, `most` are in memory and looked at.
    let (mut first, mut cut) = (BinaryHeap::new(), None);
    for entry in std::fs::read_dir(&place).map_err(failed)? {
        first.extend(candidate(&entry.map_err(failed)?, &is_listed, &follow));
        if first.len() > most {
            first.pop();
            cut = Some(most);
        }
    }
    let rows: Vec<Row> = first.into_sorted_vec().into_iter().filter_map(|one| row(one, Path::new(&place))).collect();
    Ok(Listing { html: html(&rows, path, cut).into_bytes().into(), json: json(&rows, cut).into_bytes().into() })
}

/// An entry of the directory that may be listed. They are ordered as in the listing.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    is_file: bool,
    name: Vec<u8>,
    /// The size and the time of a link's target.
    target: Option<(u64, u64)>,
}

/// Returns an entry; `None` if it is not listed, neither file nor directory, gone by now, or a link that is not
/// followed.
fn candidate(
    entry: &DirEntry,
    is_listed: impl Fn(&[u8]) -> bool,
    follow: impl Fn(&[u8]) -> Option<FileStatus>,
) -> Option<Candidate> {
    let name = entry.file_name().as_bytes().to_vec();
    if !is_listed(&name) {
        return None;
    }
    // The entry's own type: this follows no link.
    let kind = entry.file_type().ok()?;
    if kind.is_symlink() {
        let status = follow(&name)?;
        let modified_s = u64::try_from(status.modified_s).unwrap_or(0);
        return match status.kind {
            Kind::File => Some(Candidate { is_file: true, name, target: Some((status.size, modified_s)) }),
            Kind::Directory => Some(Candidate { is_file: false, name, target: Some((0, modified_s)) }),
            Kind::Other => None,
        };
    }
    (kind.is_file() || kind.is_dir()).then(|| Candidate { is_file: kind.is_file(), name, target: None })
}

/// Returns the row of an entry of the directory at `place`; `None` if it has changed its type or is gone by now.
fn row(entry: Candidate, place: &Path) -> Option<Row> {
    let Candidate { is_file, name, target } = entry;
    let (size, modified_s) = target.or_else(|| {
        let metadata = std::fs::symlink_metadata(place.join(OsStr::from_bytes(&name))).ok()?;
        let is_same = if is_file { metadata.is_file() } else { metadata.is_dir() };
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let size = if is_file { metadata.len() } else { 0 };
        is_same.then(|| (size, modified.map_or(0, |since| since.as_secs())))
    })?;
    Some(Row { is_file, name, size, modified_s })
}

fn link(row: &Row) -> String {
    let mut link = Vec::new();
    target::encode(&row.name, &mut link);
    // A colon in the first segment would make the part before it a scheme.
    let slash = if row.is_file { "" } else { "/" };
    format!("./{}{slash}", String::from_utf8_lossy(&link))
}

fn escaped(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn html(rows: &[Row], path: &[u8], cut: Option<usize>) -> String {
    let title = escaped(path);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <style>body{{font:16px/1.5 system-ui,sans-serif;margin:2em;color-scheme:light dark}}\
         td,th{{padding:0 1.5em 0 0;text-align:left}}\
         td.n{{text-align:right;font-variant-numeric:tabular-nums}}</style>\n\
         </head><body><h1>{title}</h1>\n"
    );
    if let Some(most) = cut {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "<p>This list was cut: there are more than {most} entries, and these come first.</p>");
    }
    page.push_str("<table><thead><tr><th>Name</th><th>Size</th><th>Modified</th></tr></thead><tbody>\n");
    if path != b"/" {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for row in rows {
        let (name, link) = (escaped(&row.name), escaped(link(row).as_bytes()));
        let (slash, size) = if row.is_file { ("", row.size.to_string()) } else { ("/", String::new()) };
        let modified = String::from_utf8_lossy(&date::format(row.modified_s)).into_owned();
        let _ = writeln!(
            page,
            "<tr><td><a href=\"{link}\">{name}{slash}</a></td><td class=\"n\">{size}</td><td>{modified}</td></tr>"
        );
    }
    page.push_str("</tbody></table></body></html>\n");
    page
}

fn json(rows: &[Row], cut: Option<usize>) -> String {
    let mut text = "[".to_owned();
    for (place, row) in rows.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let kind = if row.is_file { "file" } else { "folder" };
        let _ = write!(
            text,
            "{comma}\n{{\"name\":{},\"link\":{},\"type\":\"{kind}\",\"size\":{},\"modified_s\":{}}}",
            quoted(&String::from_utf8_lossy(&row.name)),
            quoted(&link(row)),
            row.size,
            row.modified_s
        );
    }
    if let Some(most) = cut {
        let comma = if rows.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}\n{{\"name\":\"\",\"type\":\"cut\",\"most\":{most}}}");
    }
    text.push_str("\n]\n");
    text
}

/// Writes a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\u{0}'..='\u{1f}' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_visible(name: &[u8]) -> bool {
        !name.starts_with(b".")
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let room = tempfile::tempdir().unwrap();
        std::fs::create_dir(room.path().join("z folder")).unwrap();
        for name in ["<b>\"&.html", "a:b", "plain", ".hidden"] {
            std::fs::write(room.path().join(name), "x").unwrap();
        }
        let folder = OwnedFd::from(std::fs::File::open(room.path()).unwrap());
        let Listing { html, json } = list(&folder, b"/<i>/", MOST, is_visible, |_| None).unwrap();
        let (html, json) = (String::from_utf8_lossy(&html).into_owned(), String::from_utf8_lossy(&json).into_owned());
        assert!(html.contains("<h1>/&lt;i&gt;/</h1>") && html.contains("href=\"./%3Cb%3E%22%26.html\""), "{html}");
        assert!(html.contains("./a:b") || html.contains("./a%3Ab"), "{html}");
        assert!(!html.contains("hidden") && html.contains("href=\"../\""), "{html}");
        assert!(html.find("z%20folder/").unwrap() < html.find("plain").unwrap(), "folders first: {html}");
        assert!(
            json.contains(r#""name":"<b>\"&.html","link":"./%3Cb%3E%22%26.html","type":"file","size":1"#),
            "{json}"
        );
        assert!(!html.contains("cut") && !json.contains("cut"));
    }

    #[test]
    fn a_name_that_is_not_utf_8_has_a_link() {
        let room = tempfile::tempdir().unwrap();
        std::fs::write(room.path().join(OsStr::from_bytes(b"\xff\xfe")), "x").unwrap();
        let folder = OwnedFd::from(std::fs::File::open(room.path()).unwrap());
        let json = list(&folder, b"/", MOST, is_visible, |_| None).unwrap().json;
        assert!(String::from_utf8_lossy(&json).contains(r#""link":"./%FF%FE""#), "{json:?}");
    }

    #[test]
    fn truncated_listings_are_marked() {
        let room = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(std::fs::File::open(room.path()).unwrap());
        let lists = |most: usize| {
            let Listing { html, json } = list(&folder, b"/", most, is_visible, |_| None).unwrap();
            (String::from_utf8_lossy(&html).into_owned(), String::from_utf8_lossy(&json).into_owned())
        };
        // The file system returns them in another order; what is hidden does not count.
        for name in ["c", "b", ".hidden", "a", ".also"] {
            std::fs::write(room.path().join(name), "x").unwrap();
        }
        std::fs::create_dir(room.path().join("z")).unwrap();
        let (html, json) = lists(2);
        assert!(html.contains("more than 2 entries") && html.matches("href=\"./").count() == 2, "{html}");
        assert!(html.find("./z/").unwrap() < html.find("./a\"").unwrap(), "folders first: {html}");
        assert!(json.ends_with("},\n{\"name\":\"\",\"type\":\"cut\",\"most\":2}\n]\n"), "{json}");
        let (html, json) = lists(4);
        assert!(!html.contains("cut") && !json.contains("cut"), "{html}");
    }
}
