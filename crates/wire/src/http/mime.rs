//! Media types by file name extension. Our own table has the types of web sites, and tells which of them are UTF-8
//! text. The others come from `mime-db`, collected from IANA, Apache and nginx.

use std::borrow::Cow;

/// The type for unknown extensions, which is a download.
pub const UNKNOWN: &str = "application/octet-stream";

/// Extensions in lower case, sorted, and their types. Text is assumed to be UTF-8: a file in another encoding declares
/// it itself, or cannot declare it at all.
const TYPES: &[(&str, &str)] = &[
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apk", "application/vnd.android.package-archive"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bin", "application/octet-stream"),
    ("bmp", "image/bmp"),
    ("br", "application/octet-stream"),
    ("bz2", "application/x-bzip2"),
    ("c", "text/plain; charset=utf-8"),
    ("conf", "text/plain; charset=utf-8"),
    ("cpp", "text/plain; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("deb", "application/vnd.debian.binary-package"),
    ("diff", "text/plain; charset=utf-8"),
    ("dmg", "application/octet-stream"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("eot", "application/vnd.ms-fontobject"),
    ("eps", "application/postscript"),
    ("epub", "application/epub+zip"),
    ("exe", "application/octet-stream"),
    ("flac", "audio/flac"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("go", "text/plain; charset=utf-8"),
    ("gz", "application/gzip"),
    ("h", "text/plain; charset=utf-8"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("img", "application/octet-stream"),
    ("ini", "text/plain; charset=utf-8"),
    ("iso", "application/octet-stream"),
    ("jar", "application/java-archive"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("log", "text/plain; charset=utf-8"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mkv", "video/matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("ndjson", "application/x-ndjson"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("patch", "text/plain; charset=utf-8"),
    ("pdf", "application/pdf"),
    ("pl", "text/plain; charset=utf-8"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("ps", "application/postscript"),
    ("py", "text/plain; charset=utf-8"),
    ("rar", "application/vnd.rar"),
    ("rpm", "application/x-rpm"),
    ("rs", "text/plain; charset=utf-8"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("sh", "text/plain; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("tsv", "text/tab-separated-values; charset=utf-8"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("vcf", "text/vcard; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("xsl", "application/xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The maximum length of an extension to look up.
const LONGEST_OF_ALL: usize = 24;

/// Returns the extension of a name or path, without the dot; `None` if the name has no dot.
pub fn ending_of(name: &[u8]) -> Option<&[u8]> {
    let dot = name.iter().rposition(|&b| b == b'.' || b == b'/').filter(|at| name[*at] == b'.')?;
    Some(&name[dot + 1..])
}

/// Returns the type of a file with that name or path, if its extension is known.
pub fn known(name: &[u8]) -> Option<Cow<'static, str>> {
    let ending = ending_of(name)?;
    let mut buffer = [0; LONGEST_OF_ALL];
    let lower = buffer.get_mut(..ending.len())?;
    lower.copy_from_slice(ending);
    lower.make_ascii_lowercase();
    let lower = std::str::from_utf8(lower).ok()?;
    if let Ok(at) = TYPES.binary_search_by(|(own, _)| (*own).cmp(lower)) {
        return Some(Cow::Borrowed(TYPES[at].1));
    }
    mime_db::lookup(lower).map(|kind| match kind {
        _ if kind.starts_with("text/") => Cow::Owned(format!("{kind}; charset=utf-8")),
        _ => Cow::Borrowed(kind),
    })
}

/// Returns the type of a file with that name or path.
pub fn of_name(name: &[u8]) -> Cow<'static, str> {
    known(name).unwrap_or(Cow::Borrowed(UNKNOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_extensions_fit() {
        assert!(TYPES.is_sorted_by(|(one, _), (other, _)| one < other));
        assert!(TYPES.iter().all(|(ending, _)| ending.len() <= LONGEST_OF_ALL));
        assert!(TYPES.iter().all(|(ending, _)| ending.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())));
    }

    #[test]
    fn names_have_types() {
        for (name, kind) in [
            ("/a/index.html", "text/html; charset=utf-8"),
            ("A.JPG", "image/jpeg"),
            ("a.tar.gz", "application/gzip"),
            ("x.webmanifest", "application/manifest+json"),
            ("/a.html/b", UNKNOWN),
            ("README", UNKNOWN),
            ("a.", UNKNOWN),
            ("", UNKNOWN),
            ("a.abcdefghijklmnop", UNKNOWN),
            ("a.\u{e9}", UNKNOWN),
            ("a.kml", "application/vnd.google-earth.kml+xml"),
            ("a.PSD", "image/vnd.adobe.photoshop"),
            ("a.scss", "text/x-scss; charset=utf-8"),
            ("a.cjs", "application/node"),
            ("a.mka", "audio/x-matroska"),
        ] {
            assert_eq!(of_name(name.as_bytes()), kind, "{name}");
        }
    }
}
