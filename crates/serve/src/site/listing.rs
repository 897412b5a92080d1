//! The listing of a directory as HTML and JSON, in pages: directories first, then in the order requested by the query.

use landau_sys::Error;
use landau_sys::path::{Kind, Status as FileStatus};
use landau_wire::http::{date, target};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{DirEntry, Metadata};
use std::io::Error as IoError;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// The maximum number of entries of a page. A longer page is not useful, and delays other listings (10,000 entries take
/// about 50 ms and 2 MB).
pub(super) const MOST: usize = 10_000;

/// The maximum number of pages. To make the last page, all of them are in memory: some 10 MB.
const MOST_PAGES: usize = 10;

/// The sort key of entries, after their kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum By {
    #[default]
    Name,
    Size,
    Time,
}

impl By {
    const ALL: [(&str, Self); 3] = [("name", Self::Name), ("size", Self::Size), ("time", Self::Time)];

    fn word(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// The page of a listing, and the order of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct View {
    by: By,
    is_descending: bool,
    /// The number of the page, counted from 0.
    page: usize,
}

impl View {
    /// Parses a query: `sort=name`, `size` or `time`; `order=asc` or `desc`; `page=1` and so on. Everything else is
    /// ignored.
    pub(super) fn of_query(query: &[u8]) -> Self {
        let mut view = Self::default();
        for part in query.split(|&byte| byte == b'&').filter_map(|part| std::str::from_utf8(part).ok()) {
            match part.split_once('=') {
                Some(("sort", word)) => {
                    view.by = By::ALL.iter().find(|(known, _)| *known == word).map_or(view.by, |(_, by)| *by);
                }
                Some(("order", word @ ("asc" | "desc"))) => view.is_descending = word == "desc",
                Some(("page", number)) => {
                    view.page = number.parse().unwrap_or(1_usize).clamp(1, MOST_PAGES) - 1;
                }
                _ => {}
            }
        }
        view
    }

    /// Returns the query that requests this page and order; it is unique.
    pub(super) fn query(self) -> String {
        let order = if self.is_descending { "desc" } else { "asc" };
        format!("?sort={}&order={order}&page={}", self.by.word(), self.page + 1)
    }
}

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

/// Lists an open directory with the given clean path, in pages of `most` entries. `follow` returns the metadata of a
/// link's target if the link may be followed. Other links, and entries that cannot be opened, are not revealed, not
/// even by their size. A page states if more entries follow it. `is_listed` decides whether a name is listed.
pub(super) fn list(
    folder: &OwnedFd,
    path: &[u8],
    view: View,
    most: usize,
    is_listed: impl Fn(&[u8]) -> bool,
    follow: impl Fn(&[u8]) -> Option<FileStatus>,
) -> Result<Listing, Error> {
    let failed = |error: IoError| Error::from_io("getdents64", &error);
    // The directory is read through its descriptor, because its name may lead elsewhere by now.
    let place = format!("/proc/thread-self/fd/{}", folder.as_raw_fd());
    let place = if cfg!(target_os = "linux") { place } else { format!("/dev/fd/{}", folder.as_raw_fd()) };
    // The first entries so far, with the last of them on top. Of a million names, only those up to the end of the page
    // are in memory.
    let (end, mut first, mut cut) = ((view.page + 1) * most, BinaryHeap::new(), None);
    for entry in std::fs::read_dir(&place).map_err(failed)? {
        first.extend(candidate(&entry.map_err(failed)?, view, &is_listed, &follow));
        if first.len() > end {
            first.pop();
            cut = Some(end);
        }
    }
    let page = first.into_sorted_vec().into_iter().skip(view.page * most);
    let rows: Vec<Row> = page.filter_map(|one| row(one, Path::new(&place))).collect();
    Ok(Listing { html: html(&rows, path, view, cut).into_bytes().into(), json: json(&rows, cut).into_bytes().into() })
}

/// An entry of the directory that may be listed. The order is that of the listing.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    is_file: bool,
    /// The size or the time, if the entries are sorted by it.
    rank: Directed<u64>,
    name: Directed<Vec<u8>>,
    /// The size and the time, if known. For a link, they are those of its target.
    known: Option<(u64, u64)>,
}

/// A value that is sorted in one direction, which is the same for all entries.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Directed<T> {
    Up(T),
    Down(Reverse<T>),
}

impl<T> Directed<T> {
    fn new(value: T, view: View) -> Self {
        if view.is_descending { Self::Down(Reverse(value)) } else { Self::Up(value) }
    }

    fn into_inner(self) -> T {
        match self {
            Self::Up(value) | Self::Down(Reverse(value)) => value,
        }
    }
}

impl Candidate {
    fn new(is_file: bool, name: Vec<u8>, view: View, known: Option<(u64, u64)>) -> Self {
        let rank = match (view.by, known) {
            (By::Size, Some((size, _))) => size,
            (By::Time, Some((_, modified_s))) => modified_s,
            _ => 0,
        };
        Self { is_file, rank: Directed::new(rank, view), name: Directed::new(name, view), known }
    }
}

/// Returns an entry. Returns `None` if it is not listed, is neither a file nor a directory, no longer exists, or is a
/// link that is not followed.
fn candidate(
    entry: &DirEntry,
    view: View,
    is_listed: impl Fn(&[u8]) -> bool,
    follow: impl Fn(&[u8]) -> Option<FileStatus>,
) -> Option<Candidate> {
    let name = entry.file_name().as_bytes().to_vec();
    if !is_listed(&name) {
        return None;
    }
    // The type of the entry itself: this does not follow links.
    let kind = entry.file_type().ok()?;
    if kind.is_symlink() {
        let status = follow(&name)?;
        let modified_s = u64::try_from(status.modified_s).unwrap_or(0);
        return match status.kind {
            Kind::File => Some(Candidate::new(true, name, view, Some((status.size, modified_s)))),
            Kind::Directory => Some(Candidate::new(false, name, view, Some((0, modified_s)))),
            Kind::Other => None,
        };
    }
    // If the entries are sorted by name, only those of the page are examined.
    let known = if view.by == By::Name { None } else { Some(size_and_time(&entry.metadata().ok()?, kind.is_file())?) };
    (kind.is_file() || kind.is_dir()).then(|| Candidate::new(kind.is_file(), name, view, known))
}

/// Returns the size and the time of modification; `None` if the entry has changed its type.
fn size_and_time(metadata: &Metadata, is_file: bool) -> Option<(u64, u64)> {
    let is_same = if is_file { metadata.is_file() } else { metadata.is_dir() };
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let size = if is_file { metadata.len() } else { 0 };
    is_same.then(|| (size, modified.map_or(0, |since| since.as_secs())))
}

/// Returns the row of an entry of the directory at `place`; `None` if it has changed its type or no longer exists.
fn row(entry: Candidate, place: &Path) -> Option<Row> {
    let Candidate { is_file, name, known, .. } = entry;
    let name = name.into_inner();
    let look = || size_and_time(&std::fs::symlink_metadata(place.join(OsStr::from_bytes(&name))).ok()?, is_file);
    let (size, modified_s) = known.or_else(look)?;
    Some(Row { is_file, name, size, modified_s })
}

fn link(row: &Row) -> String {
    let mut link = Vec::new();
    target::encode(&row.name, &mut link);
    // Without `./`, a colon in the first segment would make the part before it a scheme.
    let slash = if row.is_file { "" } else { "/" };
    format!("./{}{slash}", String::from_utf8_lossy(&link))
}

fn escaped(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn html(rows: &[Row], path: &[u8], view: View, cut: Option<usize>) -> String {
    let title = escaped(path);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <style>body{{font:16px/1.5 system-ui,sans-serif;margin:2em;color-scheme:light dark}}\
         td,th{{padding:0 1.5em 0 0;text-align:left}}\
         td.n{{text-align:right;font-variant-numeric:tabular-nums}}</style>\n\
         </head><body><h1>{title}</h1>\n"
    );
    write_pages(&mut page, view, cut);
    page.push_str("<table><thead><tr>");
    for (by, heading) in [(By::Name, "Name"), (By::Size, "Size"), (By::Time, "Modified")] {
        let is_own = by == view.by;
        let direction = if view.is_descending { "descending" } else { "ascending" };
        let sorted = if is_own { format!(" aria-sort=\"{direction}\"") } else { String::new() };
        let query = View { by, is_descending: is_own && !view.is_descending, page: 0 }.query();
        // Writing to a string cannot fail.
        let _ = write!(page, "<th{sorted}><a href=\"{}\">{heading}</a></th>", escaped(query.as_bytes()));
    }
    page.push_str("</tr></thead><tbody>\n");
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

/// Writes the page number, with links to the previous and the next page, if there are any.
fn write_pages(page: &mut String, view: View, cut: Option<usize>) {
    let link = |number: usize, word: &str| {
        let query = View { page: number, ..view }.query();
        format!(" <a href=\"{}\">{word}</a>", escaped(query.as_bytes()))
    };
    if view.page == 0 && cut.is_none() {
        return;
    }
    let _ = write!(page, "<p>Page {}.", view.page + 1);
    if view.page > 0 {
        page.push_str(&link(view.page - 1, "Previous page"));
    }
    match cut {
        Some(_) if view.page + 1 < MOST_PAGES => page.push_str(&link(view.page + 1, "Next page")),
        Some(most) => {
            let _ = write!(page, " The list is truncated: there are more than {most} entries.");
        }
        None => {}
    }
    page.push_str("</p>\n");
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
        let Listing { html, json } = list(&folder, b"/<i>/", View::default(), MOST, is_visible, |_| None).unwrap();
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
        let json = list(&folder, b"/", View::default(), MOST, is_visible, |_| None).unwrap().json;
        assert!(String::from_utf8_lossy(&json).contains(r#""link":"./%FF%FE""#), "{json:?}");
    }

    #[test]
    fn listings_are_in_pages() {
        let room = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(std::fs::File::open(room.path()).unwrap());
        let lists = |most: usize, query: &str| {
            let view = View::of_query(query.as_bytes());
            let Listing { html, json } = list(&folder, b"/", view, most, is_visible, |_| None).unwrap();
            (String::from_utf8_lossy(&html).into_owned(), String::from_utf8_lossy(&json).into_owned())
        };
        // The file system returns them in another order; hidden entries do not count.
        for name in ["c", "b", ".hidden", "a", ".also"] {
            std::fs::write(room.path().join(name), "x").unwrap();
        }
        std::fs::create_dir(room.path().join("z")).unwrap();
        let (html, json) = lists(2, "");
        assert!(html.matches("href=\"./").count() == 2 && html.contains("page=2\">Next page"), "{html}");
        assert!(html.find("./z/").unwrap() < html.find("./a\"").unwrap(), "folders first: {html}");
        assert!(json.ends_with("},\n{\"name\":\"\",\"type\":\"cut\",\"most\":2}\n]\n"), "{json}");
        let (html, json) = lists(2, "page=2");
        assert!(html.contains("./b\"") && html.contains("./c\"") && !html.contains("./a\""), "{html}");
        assert!(html.contains("page=1\">Previous page") && !html.contains("Next"), "{html}");
        assert!(!json.contains("cut") && json.contains("\"c\""), "{json}");
        assert!(!lists(2, "page=3").1.contains("name"));
        let (html, json) = lists(4, "");
        assert!(!html.contains("Page ") && !json.contains("cut"), "{html}");
        // The last page states that there are more entries, but has no link to a next page.
        for number in 0..MOST_PAGES {
            std::fs::write(room.path().join(format!("n{number}")), "x").unwrap();
        }
        let (html, json) = lists(1, &format!("page={}", MOST_PAGES + 5));
        assert!(html.contains("there are more than 10 entries") && !html.contains("Next page"), "{html}");
        assert!(json.contains("\"type\":\"cut\",\"most\":10}"), "{json}");
    }

    #[test]
    fn listings_are_sorted() {
        let room = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(std::fs::File::open(room.path()).unwrap());
        for (name, size, modified_s) in [("a", 30, 200), ("b", 10, 300), ("c", 20, 100), ("d", 20, 100)] {
            let file = std::fs::File::create(room.path().join(name)).unwrap();
            file.set_len(size).unwrap();
            file.set_modified(UNIX_EPOCH + std::time::Duration::from_secs(modified_s)).unwrap();
        }
        std::fs::create_dir(room.path().join("z")).unwrap();
        let names = |query: &str| {
            let view = View::of_query(query.as_bytes());
            let json = list(&folder, b"/", view, MOST, is_visible, |_| None).unwrap().json;
            let json = String::from_utf8_lossy(&json).into_owned();
            json.split("\"name\":\"").skip(1).map(|rest| rest[..1].to_owned()).collect::<String>()
        };
        for (query, expected) in [
            ("", "zabcd"),
            ("order=desc", "zdcba"),
            ("sort=size", "zbcda"),
            ("sort=size&order=desc", "zadcb"),
            ("sort=time", "zcdab"),
            ("order=desc&sort=time&page=1", "zbadc"),
            ("sort=owner&order=up&page=-1&other&=&sort", "zabcd"),
            ("page=99999999999999999999", "zabcd"),
            ("page=0", "zabcd"),
            ("sort=%73ize&\u{fc}", "zabcd"),
        ] {
            assert_eq!(names(query), expected, "{query}");
        }
        assert_eq!(View::of_query(b"page=2&sort=time").query(), "?sort=time&order=asc&page=2");
    }
}
