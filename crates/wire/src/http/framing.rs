//! The combined meaning of the field lines: the host, the length of the body, and whether the connection persists. It
//! is determined when the head is complete (RFC 9112 sections 3.2, 6.3 and 9.3).

use super::bytes::{self, members};
use super::field::Field;
use super::host::is_authority;
use super::request::{BodyLength, Fields, Index, Lines, Reject, Version};
use super::status::Status;
use crate::decimal::decimal;

impl Index {
    /// Validates the recorded fields of this head, and records the results.
    #[inline]
    pub(crate) fn settle(&mut self, head: &[u8]) -> Result<(), Reject> {
        self.settle_host(head)?;
        if self.is_present(Field::ContentLength) || self.is_present(Field::TransferEncoding) {
            self.body = self.body_length(head)?;
        }
        let asks = self.is_present(Field::Connection);
        self.keep_alive = if asks { self.goes_on(head) } else { self.version == Version::Http11 };
        Ok(())
    }

    fn value<'a>(&self, field: Field, head: &'a [u8]) -> &'a [u8] {
        self.fields[field as usize].of(head)
    }

    fn lines<'a>(&self, field: Field, head: &'a [u8]) -> Lines<'a> {
        if self.is_repeated(field) {
            return Lines::Several(Fields { rest: head.get(usize::from(self.fields_at)..).unwrap_or_default() }, field);
        }
        Lines::One(Some(self.value(field, head)))
    }

    /// Checks for exactly one host in HTTP/1.1, at most one in HTTP/1.0, and its validity (RFC 9112 section 3.2).
    #[inline]
    fn settle_host(&self, head: &[u8]) -> Result<(), Reject> {
        if !self.is_present(Field::Host) {
            return match self.version {
                Version::Http10 => Ok(()),
                Version::Http11 | Version::Http2 => Err(Reject::bad("no Host")),
            };
        }
        if self.is_repeated(Field::Host) {
            return Err(Reject::bad("several Hosts"));
        }
        is_authority(self.value(Field::Host, head)).then_some(()).ok_or(Reject::bad("malformed Host"))
    }

    /// Returns the length by RFC 9112 section 6.3, but stricter: two lengths are rejected even if they agree.
    #[cold]
    fn body_length(&self, head: &[u8]) -> Result<BodyLength, Reject> {
        if !self.is_present(Field::TransferEncoding) {
            if self.is_repeated(Field::ContentLength) {
                return Err(Reject::bad("several Content-Lengths"));
            }
            let length = decimal(self.value(Field::ContentLength, head));
            return length.map(BodyLength::Bytes).ok_or(Reject::bad("malformed Content-Length"));
        }
        if self.is_present(Field::ContentLength) {
            return Err(Reject::bad("both Content-Length and Transfer-Encoding"));
        }
        if self.version == Version::Http10 {
            return Err(Reject::bad("Transfer-Encoding in HTTP/1.0"));
        }
        let (mut chunked, mut other) = (0, false);
        for line in self.lines(Field::TransferEncoding, head) {
            for coding in line.split(|&b| b == b',').map(bytes::trimmed) {
                if chunked > 0 {
                    return Err(Reject::bad("a transfer coding after chunked"));
                }
                if coding.eq_ignore_ascii_case(b"chunked") {
                    chunked += 1;
                } else if is_coding(coding) {
                    other = true;
                } else {
                    return Err(Reject::bad("malformed Transfer-Encoding"));
                }
            }
        }
        match (chunked, other) {
            (0, _) => Err(Reject::bad("the last transfer coding is not chunked")),
            (_, true) => Err(Reject { status: Status::NOT_IMPLEMENTED, reason: "unknown transfer coding" }),
            _ => Ok(BodyLength::Chunked),
        }
    }

    /// Returns whether the connection persists (RFC 9112 section 9.3): `close` takes precedence, and only HTTP/1.0
    /// needs `keep-alive`.
    fn goes_on(&self, head: &[u8]) -> bool {
        let (mut close, mut keep) = (false, self.version == Version::Http11);
        for option in self.lines(Field::Connection, head).flat_map(members) {
            close |= option.eq_ignore_ascii_case(b"close");
            keep |= option.eq_ignore_ascii_case(b"keep-alive");
        }
        keep && !close
    }
}

/// Returns whether this is a coding, optionally with parameters (RFC 9112 section 7). `chunked` has no parameters.
fn is_coding(text: &[u8]) -> bool {
    let name = text.split(|&b| b == b';').next().map(bytes::trimmed).unwrap_or_default();
    bytes::is_token(name) && !name.eq_ignore_ascii_case(b"chunked")
}
