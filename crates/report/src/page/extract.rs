//! Takes the records and the figures out of a page again, for `landau verify page.html`.

use super::{Made, sha256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use landau_record::schema::PhaseResult;
use std::io::Read;

/// What a page holds.
#[derive(Debug)]
pub struct Extract {
    /// How it was made.
    pub made: Made,
    /// The records, in the page's order.
    pub records: Vec<Packed>,
    /// The figures that the page shows of each record, in the same order; none where they are those that the record
    /// holds.
    pub figures: Vec<Option<Vec<PhaseResult>>>,
}

/// A record as a page holds it.
#[derive(Debug, PartialEq, Eq)]
pub struct Packed {
    /// The file's name.
    pub file_name: String,
    /// The checksum that the page states. [`extract`] has checked the bytes against it.
    pub sha256: String,
    /// The file; none where the page says that it lies beside.
    pub bytes: Option<Vec<u8>>,
}

/// Why a page cannot be taken apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// The file is no page of Landau's.
    #[error("this is no page made by `landau report`: it holds no {missing}")]
    NoPage {
        /// What was looked for.
        missing: &'static str,
    },
    /// A part of it is not as it was written.
    #[error("the page is not as it was written: {part}: {reason}")]
    Altered {
        /// Which part.
        part: String,
        /// What does not fit.
        reason: String,
    },
}

/// Takes a page apart. Fails where it is none, or where a record inside is not the one that its checksum names.
pub fn extract(html: &str) -> Result<Extract, ExtractError> {
    let made = html.split_once("<script type=\"application/json\" id=\"made\">");
    let made = made.and_then(|(_, rest)| rest.split_once("</script>"));
    let (made, _) = made.ok_or(ExtractError::NoPage { missing: "word on how it was made" })?;
    let made = serde_json::from_str(made).map_err(|error| altered("made", &error))?;
    let figures = element(html, "id=\"figures\"").ok_or(ExtractError::NoPage { missing: "figures" })?;
    let figures = decompress("figures", figures.1)?;
    let figures = serde_json::from_slice(&figures).map_err(|error| altered("figures", &error))?;
    let mut records = Vec::new();
    while let Some((tag, content)) = element(html, &format!("id=\"record-{}\"", records.len())) {
        records.push(unpack(records.len(), tag, content)?);
    }
    if records.is_empty() {
        return Err(ExtractError::NoPage { missing: "record" });
    }
    Ok(Extract { made, records, figures })
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
        return Err(altered(&part, &format!("its checksum is {found}, the page says {stated}")));
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

/// The attributes and the content of the script element with that attribute. Text out of a record cannot pose as one,
/// because it is escaped wherever it stands.
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
    fn what_is_no_page_is_named_as_such() {
        let error = extract("<html></html>").unwrap_err();
        assert!(matches!(error, ExtractError::NoPage { .. }));
    }

    #[test]
    fn an_altered_record_is_noticed() {
        let record = super::super::compress(b"{}\n");
        let figures = super::super::compress(b"[[]]");
        let page = format!(
            "<script type=\"application/json\" \
             id=\"made\">{{\"landau\":\"0\",\"title\":null,\"size_limit_bytes\":1,\"names\":[]}}</script>\
             <script type=\"application/octet-stream\" id=\"figures\">{figures}</script>\
             <script type=\"application/octet-stream\" id=\"record-0\" data-file-name=\"a&amp;b\" \
             data-sha256=\"00\">{record}</script>"
        );
        assert!(extract(&page).unwrap_err().to_string().contains("its checksum is"));
        let page = page.replace("\"00\"", &format!("\"{}\"", sha256(b"{}\n")));
        let whole = extract(&page).unwrap();
        assert_eq!(whole.records[0].bytes.as_deref(), Some(&b"{}\n"[..]));
        assert_eq!(whole.records[0].file_name, "a&b");
    }
}
