//! Writes the head of a response into a buffer that the caller keeps, so that nothing is allocated after it has grown.

use super::status::Status;

pub use crate::decimal::write_decimal;

/// A head that is being written, at the end of a buffer.
#[derive(Debug)]
pub struct Head<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Head<'a> {
    /// Writes the status line. The version is always HTTP/1.1, which the server speaks (RFC 9110 section 6.2), even to
    /// an HTTP/1.0 client.
    pub fn new(out: &'a mut Vec<u8>, status: Status) -> Head<'a> {
        out.extend_from_slice(b"HTTP/1.1 ");
        write_decimal(u64::from(status.0), out);
        out.push(b' ');
        out.extend_from_slice(status.reason().as_bytes());
        out.extend_from_slice(b"\r\n");
        Head { out }
    }

    /// Writes a field. Control bytes in the value become spaces, so that no file name or byte of the request can end
    /// the line (response splitting).
    #[must_use]
    pub fn field(self, name: &str, value: &[u8]) -> Head<'a> {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        let start = self.out.len();
        self.out.extend_from_slice(value);
        for byte in &mut self.out[start..] {
            if byte.is_ascii_control() {
                *byte = b' ';
            }
        }
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Writes a field whose value is a number.
    #[must_use]
    pub fn number(self, name: &str, value: u64) -> Head<'a> {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        write_decimal(value, self.out);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Writes a field whose value a function appends; the function must not append control bytes.
    #[must_use]
    pub fn field_with(self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> Head<'a> {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        write(self.out);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Writes complete field lines that were prepared elsewhere, including their line ends.
    #[must_use]
    pub fn lines(self, lines: &[u8]) -> Head<'a> {
        self.out.extend_from_slice(lines);
        self
    }

    /// Writes the empty line.
    pub fn end(self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_formatted() {
        let mut out = Vec::new();
        Head::new(&mut out, Status::NOT_FOUND)
            .field("X-Name", b"a\r\nSet-Cookie: x\0")
            .number("Content-Length", 0)
            .field_with("X-Max", |out| write_decimal(u64::MAX, out))
            .lines(b"A: b\r\n")
            .end();
        let expected = "HTTP/1.1 404 Not Found\r\nX-Name: a  Set-Cookie: x \r\nContent-Length: 0\r\n\
            X-Max: 18446744073709551615\r\nA: b\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        Head::new(&mut out, Status::OK).end();
        assert_eq!(out, b"HTTP/1.1 200 OK\r\n\r\n");
    }
}
