//! `multipart/byteranges` (RFC 9110 section 14.6): the heads of the parts, and the total length before anything is
//! sent.

use super::range::{ByteRange, Ranges, write_content_range};

/// The number of characters in a boundary.
const BOUNDARY_BYTES: usize = 32;

/// A multipart response. The caller sends the content of each part between the heads.
#[derive(Debug, Clone)]
pub struct Multipart<'a> {
    ranges: &'a [ByteRange],
    /// The type of the whole file.
    content_type: &'a [u8],
    length: u64,
    boundary: [u8; BOUNDARY_BYTES],
}

impl<'a> Multipart<'a> {
    /// Returns the parts of a file of `length` bytes. The seed becomes the boundary, which must not occur in a file, so
    /// the authors of files must not be able to guess it.
    pub fn new(ranges: &'a Ranges, length: u64, content_type: &'a [u8], seed: u128) -> Multipart<'a> {
        let mut boundary = [0; BOUNDARY_BYTES];
        for (place, byte) in boundary.iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(seed >> (4 * place) & 15) as usize];
        }
        Multipart { ranges: ranges.as_slice(), content_type, length, boundary }
    }

    /// Returns the parts, in the order of sending.
    pub fn ranges(&self) -> &'a [ByteRange] {
        self.ranges
    }

    /// Appends the value of `Content-Type` for the answer.
    pub fn write_content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        out.extend_from_slice(&self.boundary);
    }

    /// Returns the value of `Content-Length` for the answer.
    pub fn content_length(&self) -> u64 {
        let mut scratch = Vec::with_capacity(256);
        let parts = self.ranges.iter().map(|range| {
            scratch.clear();
            self.write_part_head(*range, &mut scratch);
            range.len.saturating_add(scratch.len() as u64)
        });
        let sum = parts.fold(0u64, u64::saturating_add);
        scratch.clear();
        self.write_end(&mut scratch);
        sum.saturating_add(scratch.len() as u64)
    }

    /// Appends the head of a part, which precedes its content.
    pub fn write_part_head(&self, range: ByteRange, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"\r\nContent-Type: ");
        out.extend_from_slice(self.content_type);
        out.extend_from_slice(b"\r\nContent-Range: ");
        write_content_range(range, self.length, out);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends the end, which follows the last part.
    pub fn write_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"--\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::range::{Selection, select};

    #[test]
    fn the_length_is_exact() {
        let file: Vec<u8> = (0..1000u32).map(|n| b'a' + (n % 26) as u8).collect();
        let Selection::Several(ranges) = select(b"bytes=0-9,500-509,-1", 1000) else { panic!("several") };
        let multipart = Multipart::new(&ranges, 1000, b"text/plain", 0x0123_4567_89ab_cdef);
        let mut out = Vec::new();
        for range in multipart.ranges() {
            multipart.write_part_head(*range, &mut out);
            out.extend_from_slice(&file[range.start as usize..range.end() as usize]);
        }
        multipart.write_end(&mut out);
        assert_eq!(out.len() as u64, multipart.content_length());
        let text = String::from_utf8(out).unwrap();
        let boundary = "fedcba98765432100000000000000000";
        assert_eq!(text.matches(boundary).count(), 4);
        assert!(text.contains("\r\nContent-Type: text/plain\r\nContent-Range: bytes 500-509/1000\r\n\r\ngh"), "{text}");
        assert!(text.ends_with(&format!("--{boundary}--\r\n")), "{text}");
    }

    /// No file is this long, but the sum must not overflow.
    #[test]
    fn the_longest_file_has_the_greatest_length() {
        let Selection::Several(ranges) = select(b"bytes=0-5,114-", u64::MAX) else { panic!("several") };
        assert_eq!(Multipart::new(&ranges, u64::MAX, b"text/plain", 1).content_length(), u64::MAX);
    }
}
