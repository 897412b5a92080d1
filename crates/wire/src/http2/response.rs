//! Responses: converts an HTTP/1.1 head to a header block, for a server; collects the fields of a response, for a load
//! generator.

use super::hpack::{write_field, write_status};
use crate::decimal::decimal;
use crate::http::bytes::trimmed;
use memchr::memchr;

/// The maximum length of a field name in bytes that is written without another buffer.
const NAME_BYTES: usize = 64;

/// Appends the header block of the response at the start of these bytes, which has an HTTP/1.1 head of our own. Returns
/// the length of that head, or `None` if it is invalid.
///
/// Connection-specific fields are omitted: they concern HTTP/1.1 (RFC 9113 section 8.2.2).
#[inline]
pub fn write_block(response: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let line = memchr(b'\n', response)?;
    let code = decimal(response.get(9..12)?)?;
    write_status(u16::try_from(code).ok()?, out);
    let mut at = line + 1;
    loop {
        let rest = response.get(at..)?;
        let end = memchr(b'\n', rest)?;
        at += end + 1;
        let line = rest.get(..end)?.strip_suffix(b"\r")?;
        if line.is_empty() {
            return Some(at);
        }
        let colon = memchr(b':', line)?;
        write_line(&line[..colon], trimmed(&line[colon + 1..]), out);
    }
}

#[inline]
fn write_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let mut buffer = [0; NAME_BYTES];
    let Some(lower) = buffer.get_mut(..name.len()) else {
        return write_field(&name.to_ascii_lowercase(), value, out);
    };
    for (lower, byte) in lower.iter_mut().zip(name) {
        *lower = byte.to_ascii_lowercase();
    }
    if !matches!(&*lower, b"connection" | b"keep-alive" | b"transfer-encoding") {
        write_field(lower, value, out);
    }
}

/// The relevant fields of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields {
    /// The status; 0 if there is no valid one.
    pub status: u16,
    /// The length of the content, if it is known.
    pub content_length: Option<u64>,
}

impl Fields {
    /// Adds a field.
    #[inline]
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b":status" => {
                let code = decimal(value).filter(|code| value.len() == 3 && (100..1000).contains(code));
                self.status = code.map_or(0, |code| code as u16);
            }
            b"content-length" => self.content_length = decimal(value),
            _ => {}
        }
    }

    /// Returns whether another response to the same request follows.
    pub const fn is_interim(&self) -> bool {
        matches!(self.status, 100..200)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::hpack::Decoder;

    #[test]
    fn heads_become_blocks() {
        let long = "X".repeat(NAME_BYTES + 1);
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nDate: now\r\nConnection: close\r\nETag: \"a:b\"\r\n{long}: y\r\n\
             Content-Length: 7\r\n\r\n"
        );
        let mut block = Vec::new();
        assert_eq!(write_block(format!("{head}content\r\n\r\n").as_bytes(), &mut block), Some(head.len()));
        let (mut all, mut fields) = (Vec::new(), Fields::default());
        let each = |name: &[u8], value: &[u8]| {
            fields.add(name, value);
            all.push(format!("{}={}", name.escape_ascii(), value.escape_ascii()));
        };
        Decoder::new(0).decode(&block, &mut Vec::new(), each).unwrap();
        let name = long.to_lowercase();
        assert_eq!(all.join(" "), format!(":status=206 date=now etag=\\\"a:b\\\" {name}=y content-length=7"));
        assert_eq!(fields, Fields { status: 206, content_length: Some(7) });
        for none in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nX: y\r\n", "HTTP/1.1 2x0 OK\r\n\r\n"] {
            assert_eq!(write_block(none.as_bytes(), &mut Vec::new()), None, "{none}");
        }
    }
}
