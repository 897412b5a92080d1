//! Extracts the records and the results from a page, for `landau verify page.html`.

use super::{Made, sha256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use landau_record::schema::PhaseResult;
use std::io::Read;

/// The content of a page.
#[derive(Debug)]
pub struct Extract {
    /// How it was made.
    pub made: Made,
    /// The records, in the page's order.
    pub records: Vec<Packed>,
    /// The results that the page shows for each record, in the same order; `None` if they are those in the record.
    pub results: Vec<Option<Vec<PhaseResult>>>,
}

/// A record as extracted from a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Packed {
    /// The file's name.
    pub file_name: String,
    /// Its SHA-256 as stated by the page. [`extract`] has verified the bytes against it.
    pub sha256: String,
    /// The file; `None` if it is stored next to the page.
    pub bytes: Option<Vec<u8>>,
}

/// The reason why nothing can be extracted from a page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// The file is not a page made by Landau.
    #[error("this is not a page made by `landau report`: it has no {missing}")]
    NoPage {
        /// The missing part.
        missing: &'static str,
    },
    /// The page was made before records had schema 3.
    #[error("an earlier version of landau made this page; extract its record with a browser and run `landau report`")]
    Outdated,
    /// A part of the page was altered.
    #[error("the page was altered: {part}: {reason}")]
    Altered {
        /// The part.
        part: String,
        /// The contradiction.
        reason: String,
    },
}

/// Extracts the content of a page.
///
/// # Errors
///
/// Fails if the file is not a page, or if an embedded record does not match its checksum.
pub fn extract(html: &str) -> Result<Extract, ExtractError> {
    let made = html.split_once("<script type=\"application/json\" id=\"made\">");
    let made = made.and_then(|(_, rest)| rest.split_once("</script>"));
    let (made, _) = made.ok_or(ExtractError::NoPage { missing: "description of how it was made" })?;
    let made = serde_json::from_str(made).map_err(|error| altered("made", &error))?;
    if element(html, "id=\"figures\"").is_some() {
        return Err(ExtractError::Outdated);
    }
    let results = element(html, "id=\"results\"").ok_or(ExtractError::NoPage { missing: "results" })?;
    let results = decompress("results", results.1)?;
    let results = serde_json::from_slice(&results).map_err(|error| altered("results", &error))?;
    let mut records = Vec::new();
    while let Some((tag, content)) = element(html, &format!("id=\"record-{}\"", records.len())) {
        records.push(unpack(records.len(), tag, content)?);
    }
    if records.is_empty() {
        return Err(ExtractError::NoPage { missing: "record" });
    }
    Ok(Extract { made, records, results })
}

fn unpack(index: usize, tag: &str, content: &str) -> Result<Packed, ExtractError> {
    let part = format!("record {}", index + 1);
    let file_name = unescape(attribute(tag, "data-file-name").unwrap_or_default());
    let stated = attribute(tag, "data-sha256").unwrap_or_default().to_owned();
    if content.is_empty() {
        return Ok(Packed { file_name, sha256: stated, bytes: None });
    }
    let bytes = decompress(&part, content)?;
    let found = sha256(&bytes);
    if found != stated {
        return Err(altered(&part, &format!("its SHA-256 is {found}, the page states {stated}")));
    }
    Ok(Packed { file_name, sha256: stated, bytes: Some(bytes) })
}

fn decompress(part: &str, content: &str) -> Result<Vec<u8>, ExtractError> {
    let compressed = STANDARD.decode(content).map_err(|error| altered(part, &error))?;
    let mut bytes = Vec::new();
    GzDecoder::new(compressed.as_slice()).read_to_end(&mut bytes).map_err(|error| altered(part, &error))?;
    Ok(bytes)
}

fn altered(part: &str, reason: &impl ToString) -> ExtractError {
    ExtractError::Altered { part: part.to_owned(), reason: reason.to_string() }
}

/// Returns the attributes and the content of the script element with that attribute. Text from a record cannot imitate
/// such an element, because it is always escaped.
fn element<'h>(html: &'h str, attribute: &str) -> Option<(&'h str, &'h str)> {
    let at = html.find(&format!("<script type=\"application/octet-stream\" {attribute}"))?;
    let (tag, rest) = html[at..].split_once('>')?;
    let (content, _) = rest.split_once("</script>")?;
    Some((tag, content))
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = tag.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

fn unescape(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    plain.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_html_file_is_rejected() {
        let error = extract("<html></html>").unwrap_err();
        assert!(matches!(error, ExtractError::NoPage { .. }));
    }

    #[test]
    fn an_altered_record_is_rejected() {
        let record = super::super::compress(b"{}\n");
        let results = super::super::compress(b"[[]]");
        let page = format!(
            "<script type=\"application/json\" \
             id=\"made\">{{\"landau\":\"0\",\"title\":null,\"size_limit_bytes\":1,\"names\":[]}}</script>\
             <script type=\"application/octet-stream\" id=\"results\">{results}</script>\
             <script type=\"application/octet-stream\" id=\"record-0\" data-file-name=\"a&amp;b\" \
             data-sha256=\"00\">{record}</script>"
        );
        assert!(extract(&page).unwrap_err().to_string().contains("its SHA-256 is"));
        let page = page.replace("\"00\"", &format!("\"{}\"", sha256(b"{}\n")));
        let whole = extract(&page).unwrap();
        assert_eq!(whole.records[0].bytes.as_deref(), Some(&b"{}\n"[..]));
        assert_eq!(whole.records[0].file_name, "a&b");
    }
}
