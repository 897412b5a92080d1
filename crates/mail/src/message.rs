//! The message: read once, and either encoded once for all recipients or a template with fields of the list.
//!
//! A field is written `{{name}}` and is replaced by the value of that column of the list. A message without fields is
//! encoded for DATA and for BDAT when it is read; sending it copies nothing.
//!
//! A signature (DKIM) is put before the header. A message without fields is signed once, a template for each recipient.

use crate::dkim::Signer;
use crate::error::{Error, Result};
use crate::list::Record;
use landau_wire::smtp::data::{Encoder, Shape, Transfer, Unsendable};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Text of the message.
    Literal(Vec<u8>),
    /// The index of a column of the list.
    Field(usize),
}

/// A message to be sent to every recipient.
#[derive(Debug)]
pub struct Message {
    /// The bytes to send after DATA; empty for a template.
    data: Vec<u8>,
    /// The bytes to send after BDAT; empty for a template.
    chunk: Vec<u8>,
    /// The properties of the content, or of the literal text of a template.
    shape: Shape,
    /// Whether the header has a non-ASCII byte, so that the message needs SMTPUTF8 (RFC 6532).
    has_8bit_header: bool,
    /// The columns of the list whose fields are in the header.
    header_columns: Vec<usize>,
    /// The parts of a template; empty for a message without fields.
    parts: Vec<Part>,
    /// The signer of rendered messages; a message without fields is already signed.
    signer: Option<Arc<Signer>>,
    digest: String,
}

impl Message {
    /// Reads a message: header, empty line and body, in lines that end with LF or CR LF. `columns` are the names of the
    /// list's columns. `signer` signs the message.
    ///
    /// # Errors
    ///
    /// A bare CR, a NUL, a field that is not a column, or a message that cannot be signed.
    pub fn parse(text: &[u8], columns: &[String], signer: Option<Arc<Signer>>) -> Result<Self> {
        let digest = Sha256::digest(text).iter().fold(String::new(), |mut digest, byte| {
            // Writing to a string cannot fail.
            let _ = write!(digest, "{byte:02x}");
            digest
        });
        let mut parts = parts_of(text, columns)?;
        let is_template = parts.len() > 1;
        // A template is also signed here, without its fields, so that a message that cannot be signed is detected at
        // once.
        if let Some(field) = signer.as_deref().map(|signer| signer.field(text)).transpose()?
            && !is_template
        {
            parts.insert(0, Part::Literal(field.into_bytes()));
        }
        let (mut data, mut chunk) = (Vec::new(), Vec::new());
        let literal: Vec<&[u8]> = parts.iter().filter_map(Part::literal).collect();
        let shape = encode(Transfer::Data, literal.iter().copied(), &mut data).map_err(|error| unsendable(&error))?;
        if is_template {
            data.clear();
        } else {
            // The encoder has just accepted these bytes, so it accepts them again.
            encode(Transfer::Bdat, literal.iter().copied(), &mut chunk).map_err(|error| unsendable(&error))?;
        }
        let header = header_of(text);
        let has_8bit_header = !header.is_ascii();
        let header_columns = parts_of(header, columns)?.iter().filter_map(Part::column).collect();
        let (parts, signer) = if is_template { (parts, signer) } else { (Vec::new(), None) };
        Ok(Self { data, chunk, shape, has_8bit_header, header_columns, parts, signer, digest })
    }

    /// Reads a message that was received: its lines end with CR LF, and braces are text. It is encoded for BDAT only if
    /// `is_chunked`. `signer` signs it if the message is from its domain.
    ///
    /// # Errors
    ///
    /// A bare CR or a NUL, or a failure to sign.
    pub(crate) fn received(content: &[u8], is_chunked: bool, signer: Option<&Signer>) -> Result<Self> {
        let signer = signer.filter(|signer| signer.covers(content));
        let signature = signer.map(|signer| signer.field(content)).transpose()?.unwrap_or_default();
        let parts = || [signature.as_bytes(), content].into_iter();
        let (mut data, mut chunk) = (Vec::with_capacity(content.len() + signature.len() + 64), Vec::new());
        let shape = encode(Transfer::Data, parts(), &mut data).map_err(|error| unsendable(&error))?;
        if is_chunked {
            encode(Transfer::Bdat, parts(), &mut chunk).map_err(|error| unsendable(&error))?;
        }
        let has_8bit_header = shape.is_8bit && !header_of(content).is_ascii();
        let (header_columns, parts, signer, digest) = (Vec::new(), Vec::new(), None, String::new());
        Ok(Self { data, chunk, shape, has_8bit_header, header_columns, parts, signer, digest })
    }

    /// Returns whether each recipient gets a separate text.
    pub fn is_template(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Returns the length of the content in bytes, without the dots of DATA; `None` for a template.
    pub fn bytes(&self) -> Option<u64> {
        (!self.is_template()).then_some(self.shape.bytes)
    }

    /// Returns the SHA-256 digest of the file in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns whether the text has non-ASCII bytes, so that it needs 8BITMIME.
    pub fn is_8bit(&self) -> bool {
        self.shape.is_8bit
    }

    /// Returns whether the header, as rendered for a record, has non-ASCII bytes, so that it needs SMTPUTF8.
    pub fn needs_utf8(&self, record: &Record) -> bool {
        self.has_8bit_header || self.header_columns.iter().any(|&column| !record.field(column).is_ascii())
    }

    /// Returns the bytes to send to every recipient.
    pub fn encoded(&self, transfer: Transfer) -> &[u8] {
        match transfer {
            Transfer::Data => &self.data,
            Transfer::Bdat => &self.chunk,
        }
    }

    /// Returns the content as it is written to a mailbox, with CR LF line ends; empty for a template.
    pub(crate) fn content(&self) -> Cow<'_, [u8]> {
        if !self.chunk.is_empty() || self.data.is_empty() {
            return Cow::Borrowed(&self.chunk);
        }
        let text = self.data.strip_suffix(b".\r\n").unwrap_or(&self.data);
        let lines = text.split_inclusive(|&byte| byte == b'\n');
        Cow::Owned(lines.flat_map(|line| line.strip_prefix(b".").unwrap_or(line)).copied().collect())
    }

    /// Writes the bytes to send to the recipient of a record into `out`, whose memory is reused.
    ///
    /// # Errors
    ///
    /// A field with a bare CR or a NUL, or a failure to sign.
    pub fn render(&self, transfer: Transfer, record: &Record, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let parts = || {
            self.parts.iter().map(|part| match part {
                Part::Literal(text) => text.as_slice(),
                Part::Field(column) => record.field(*column).as_bytes(),
            })
        };
        let signature = match &self.signer {
            Some(signer) => signer.field(&parts().collect::<Vec<_>>().concat())?,
            None => String::new(),
        };
        encode(transfer, std::iter::once(signature.as_bytes()).chain(parts()), out)
            .map_err(|error| unsendable(&error))?;
        Ok(())
    }
}

impl Part {
    fn literal(&self) -> Option<&[u8]> {
        match self {
            Part::Literal(text) => Some(text),
            Part::Field(_) => None,
        }
    }

    fn column(&self) -> Option<usize> {
        match self {
            Part::Literal(_) => None,
            Part::Field(column) => Some(*column),
        }
    }
}

/// Encodes the parts of a text.
fn encode<'a>(
    transfer: Transfer,
    parts: impl Iterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) -> std::result::Result<Shape, Unsendable> {
    let mut encoder = Encoder::new(transfer);
    for part in parts {
        encoder.push(part, out)?;
    }
    encoder.finish(out)
}

fn unsendable(error: &Unsendable) -> Error {
    Error::Spec(format!("{error}; save it as text, or encode the part as quoted-printable or base64"))
}

/// Returns the text before the first empty line.
fn header_of(text: &[u8]) -> &[u8] {
    let mut at = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if line == b"\n" || line == b"\r\n" {
            return &text[..at];
        }
        at += line.len();
    }
    text
}

/// Splits a text at its fields. Braces without a valid name between them are text.
fn parts_of(text: &[u8], columns: &[String]) -> Result<Vec<Part>> {
    let (mut parts, mut literal, mut rest) = (Vec::new(), Vec::new(), text);
    while let Some(at) = rest.windows(2).position(|two| two == b"{{") {
        let after = &rest[at + 2..];
        let name = after.windows(2).position(|two| two == b"}}").map(|end| &after[..end]);
        let name = name.and_then(|name| std::str::from_utf8(name).ok()).map(str::trim).filter(|name| is_name(name));
        let Some(name) = name else {
            literal.extend_from_slice(&rest[..at + 2]);
            rest = after;
            continue;
        };
        let Some(column) = columns.iter().position(|column| column.trim() == name) else {
            return Err(Error::Spec(format!(
                "the message has the field {{{{{name}}}}}, but the list has no such column; its columns: {}",
                if columns.is_empty() { "none".to_owned() } else { columns.join(", ") }
            )));
        };
        literal.extend_from_slice(&rest[..at]);
        parts.push(Part::Literal(std::mem::take(&mut literal)));
        parts.push(Part::Field(column));
        let end = after.windows(2).position(|two| two == b"}}").unwrap_or(0);
        rest = &after[end + 2..];
    }
    literal.extend_from_slice(rest);
    parts.push(Part::Literal(literal));
    Ok(parts)
}

/// Returns whether a text can be the name of a field.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_message_is_encoded_for_both_transfers() {
        let message = Message::parse(b"Subject: a\n\n.b\n", &[], None).unwrap();
        assert_eq!(message.encoded(Transfer::Data), b"Subject: a\r\n\r\n..b\r\n.\r\n");
        assert_eq!(message.encoded(Transfer::Bdat), b"Subject: a\r\n\r\n.b\r\n");
        assert_eq!((message.bytes(), message.is_8bit(), message.is_template()), (Some(18), false, false));
        assert!(Message::parse(b"a\rb", &[], None).is_err());
    }

    #[test]
    fn the_content_of_a_received_message_has_no_dots_of_the_transfer() {
        let text = b"Subject: a\r\n\r\n.\r\n..b\r\n.c.\r\n\r\n";
        for is_chunked in [false, true] {
            let message = Message::received(text, is_chunked, None).unwrap();
            assert_eq!(message.content().escape_ascii().to_string(), text.escape_ascii().to_string());
        }
    }

    #[test]
    fn fields_are_replaced_and_dots_doubled_after_that() {
        let columns = columns(&["email", "name"]);
        let message = Message::parse(b"To: {{ email }}\n\n{{name}}{{x\n{{ }}\n", &columns, None).unwrap();
        assert_eq!((message.is_template(), message.bytes()), (true, None));
        let mut record = Record::default();
        record.set(["a@b", ".dot"]);
        let mut out = b"old".to_vec();
        message.render(Transfer::Data, &record, &mut out).unwrap();
        assert_eq!(out, b"To: a@b\r\n\r\n..dot{{x\r\n{{ }}\r\n.\r\n");
        let error = Message::parse(b"{{nme}}", &columns, None).unwrap_err().to_string();
        assert!(error.contains("{{nme}}") && error.contains("email, name"), "{error}");
    }

    #[test]
    fn only_bytes_of_the_header_need_smtputf8() {
        let parsed = |text: &str| Message::parse(text.as_bytes(), &[], None).unwrap();
        let record = Record::default();
        let header = parsed("Subject: \u{e9}\r\n\r\na\n");
        assert!(header.needs_utf8(&record) && header.is_8bit());
        let body = parsed("Subject: e\n\n\u{e9}\n");
        assert!(!body.needs_utf8(&record) && body.is_8bit());
    }

    #[test]
    fn a_field_of_the_header_needs_smtputf8_if_it_is_beyond_ascii() {
        let columns = columns(&["email", "name", "city"]);
        let message = Message::parse(b"To: {{email}}\nSubject: {{name}}\n\n{{city}}\n", &columns, None).unwrap();
        let mut record = Record::default();
        for (fields, expected) in [
            (["a@b", "e", "e"], false),
            (["a@b", "e", "\u{e9}"], false),
            (["a@b", "\u{e9}", "e"], true),
            (["\u{e9}@b", "e", "e"], true),
        ] {
            record.set(fields);
            assert_eq!(message.needs_utf8(&record), expected, "{fields:?}");
        }
    }
}
