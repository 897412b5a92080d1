//! Encoding of header blocks.
//!
//! A server's responses are written without a table and without Huffman coding: a connection then needs no state for
//! them, and saving a byte would cost more processor time than sending it. A client that sends the same fields
//! repeatedly uses an [`Encoder`], whose table reduces each of them to one byte.

use super::table::{Dynamic, STATIC, static_name};
use super::{huffman, integer};

/// Appends a table size of zero, for the beginning of a block. A peer that has reduced its table expects a size update
/// there (RFC 7541 section 4.2).
pub fn write_empty_table(out: &mut Vec<u8>) {
    integer::write(0, 5, 0x20, out);
}

/// Appends the status of a response.
#[inline]
pub fn write_status(status: u16, out: &mut Vec<u8>) {
    let index = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            let digits = [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
            out.extend_from_slice(&[8, 3]);
            return out.extend_from_slice(&digits);
        }
    };
    out.push(0x80 | index);
}

/// Appends a field without adding it to a table. The name must be in lower case.
#[inline]
pub fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if let Some(index) = static_name(name) {
        integer::write(index, 4, 0, out);
    } else {
        out.push(0);
        write_plain(name, out);
    }
    write_plain(value, out);
}

#[inline]
fn write_plain(text: &[u8], out: &mut Vec<u8>) {
    integer::write(text.len(), 7, 0, out);
    out.extend_from_slice(text);
}

/// Appends a string, Huffman-coded if that is shorter.
fn write_short(text: &[u8], out: &mut Vec<u8>) {
    let len = huffman::encoded_len(text);
    if len >= text.len() {
        return write_plain(text, out);
    }
    integer::write(len, 7, 0x80, out);
    huffman::encode(text, out);
}

/// Encodes the header blocks of a connection in order, with a table.
#[derive(Debug)]
pub struct Encoder {
    table: Dynamic,
    /// The smallest and the last size of the table that the peer has not been notified of.
    resized: Option<(usize, usize)>,
}

impl Encoder {
    /// The maximum size of the table, even if the peer allows more.
    const MOST: usize = 4096;

    /// Creates the encoder for a peer that has not specified the size of its table.
    pub fn new() -> Self {
        Self { table: Dynamic::new(Self::MOST), resized: None }
    }

    /// Uses a table of at most `most` bytes from the next block on, as specified by the peer's settings.
    pub fn resize(&mut self, most: u32) {
        let size = (most as usize).min(Self::MOST);
        if size != self.table.most() || self.resized.is_some() {
            let least = self.resized.map_or(size, |(least, _)| least.min(size));
            self.resized = Some((least, size));
            self.table.resize(size);
        }
    }

    /// Begins a block.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some((least, last)) = self.resized.take() {
            if least < last {
                integer::write(least, 5, 0x20, out);
            }
            integer::write(last, 5, 0x20, out);
        }
    }

    /// Appends a field and adds it to the table. The name must be in lower case.
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let is_value = |index: &usize| STATIC[index - 1] == (to_str(name), to_str(value));
        let of_static = static_name(name);
        let whole = of_static.and_then(|first| {
            (first..=STATIC.len()).take_while(|index| STATIC[index - 1].0.as_bytes() == name).find(is_value)
        });
        let (known, of_name) = self.table.find(name, value);
        if let Some(index) = whole.or(known) {
            return integer::write(index, 7, 0x80, out);
        }
        if let Some(index) = of_static.or(of_name) {
            integer::write(index, 6, 0x40, out);
        } else {
            out.push(0x40);
            write_short(name, out);
        }
        write_short(value, out);
        self.table.insert([name, value].concat().into(), name.len());
    }
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the text; anything but UTF-8 becomes a text that is not in the static table.
fn to_str(text: &[u8]) -> &str {
    str::from_utf8(text).unwrap_or("\0")
}

#[cfg(test)]
mod tests {
    use super::super::Decoder;
    use super::*;

    type Fields<'a> = &'a [(&'a str, &'a str)];

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        decoder.decode(block, &mut Vec::new(), |name, value| fields.push((text(name), text(value)))).unwrap();
        fields
    }

    fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// RFC 7541 appendix C.4: three requests, Huffman-coded, with a table.
    #[test]
    fn requests_of_the_rfc() {
        let cases: [(Fields<'_>, &[u8]); 3] = [
            (
                &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
                b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
            ),
            (
                &[
                    (":method", "GET"),
                    (":scheme", "http"),
                    (":path", "/"),
                    (":authority", "www.example.com"),
                    ("cache-control", "no-cache"),
                ],
                b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf",
            ),
            (
                &[
                    (":method", "GET"),
                    (":scheme", "https"),
                    (":path", "/index.html"),
                    (":authority", "www.example.com"),
                    ("custom-key", "custom-value"),
                ],
                b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
            ),
        ];
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for (fields, block) in cases {
            let mut out = Vec::new();
            encoder.begin(&mut out);
            for (name, value) in fields {
                encoder.field(name.as_bytes(), value.as_bytes(), &mut out);
            }
            assert_eq!(out, block);
            assert_eq!(decoded(&mut decoder, block), owned(fields));
        }
    }

    /// RFC 7541 appendix C.6: three responses, Huffman-coded, with a table of 256 bytes that evicts fields.
    #[test]
    fn responses_of_the_rfc() {
        let date = "Mon, 21 Oct 2013 20:13:21 GMT";
        let first: &[(&str, &str)] = &[
            (":status", "302"),
            ("cache-control", "private"),
            ("date", date),
            ("location", "https://www.example.com"),
        ];
        let blocks: [&[u8]; 3] = [
            b"\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x61\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\
              \x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff\x6e\x91\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\
              \x43\xd3",
            b"\x48\x83\x64\x0e\xff\xc1\xc0\xbf",
            b"\x88\xc1\x61\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x84\xa6\x2d\x1b\xff\
              \xc0\x5a\x83\x9b\xd9\xab\x77\xad\x94\xe7\x82\x1d\xd7\xf2\xe6\xc7\xb3\x35\xdf\xdf\xcd\x5b\x39\x60\xd5\xaf\
              \x27\x08\x7f\x36\x72\xc1\xab\x27\x0f\xb5\x29\x1f\x95\x87\x31\x60\x65\xc0\x03\xed\x4e\xe5\xb1\x06\x3d\x50\
              \x07",
        ];
        let mut decoder = Decoder::new(256);
        assert_eq!(decoded(&mut decoder, blocks[0]), owned(first));
        let second = [&[(":status", "307")], &first[1..]].concat();
        assert_eq!(decoded(&mut decoder, blocks[1]), owned(&second));
        let third = [
            (":status", "200"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
            ("location", "https://www.example.com"),
            ("content-encoding", "gzip"),
            ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
        ];
        assert_eq!(decoded(&mut decoder, blocks[2]), owned(&third));
    }

    /// RFC 7541 appendix C.2: a field that is added to the table, one that is not, and one that must never be.
    #[test]
    fn literals_of_the_rfc() {
        let mut decoder = Decoder::new(4096);
        for (block, field) in [
            (&b"\x40\x0acustom-key\x0dcustom-header"[..], ("custom-key", "custom-header")),
            (b"\x04\x0c/sample/path", (":path", "/sample/path")),
            (b"\x10\x08password\x06secret", ("password", "secret")),
            (b"\xbe", ("custom-key", "custom-header")),
        ] {
            assert_eq!(decoded(&mut decoder, block), owned(&[field]));
        }
    }

    #[test]
    fn fields_without_a_table_are_restored() {
        let mut out = Vec::new();
        for status in [200, 204, 206, 304, 400, 404, 500, 302, 431] {
            write_status(status, &mut out);
        }
        write_field(b"content-type", b"text/html", &mut out);
        write_field(b"x-own", &[b'v'; 300], &mut out);
        let found = decoded(&mut Decoder::new(0), &out);
        let statuses: Vec<&str> = found[..9].iter().map(|(_, value)| &value[..]).collect();
        assert_eq!(statuses, ["200", "204", "206", "304", "400", "404", "500", "302", "431"]);
        assert_eq!(found[9..], owned(&[("content-type", "text/html"), ("x-own", &"v".repeat(300))]));
    }

    #[test]
    fn the_peer_is_told_of_each_size() {
        let (mut encoder, mut decoder, mut out) = (Encoder::new(), Decoder::new(4096), Vec::new());
        let mut send = |encoder: &mut Encoder| {
            out.clear();
            encoder.begin(&mut out);
            encoder.field(b"a", b"b", &mut out);
            assert_eq!(decoded(&mut decoder, &out), owned(&[("a", "b")]));
            out.clone()
        };
        send(&mut encoder);
        assert_eq!(send(&mut encoder), b"\xbe");
        encoder.resize(65_536);
        assert_eq!(send(&mut encoder), b"\xbe", "it is as large as it was");
        encoder.resize(0);
        encoder.resize(100);
        assert!(send(&mut encoder).starts_with(b"\x20\x3f\x45\x40"), "it was empty in between");
        assert_eq!(send(&mut encoder), b"\xbe");
    }

    #[test]
    fn invalid_blocks_are_refused() {
        for (block, reason) in [
            (&b"\x80"[..], "index 0"),
            (b"\xbe", "beyond the table"),
            (b"\xff\xff\xff\xff\xff\xff\x0f", "an endless integer"),
            (b"\x82\x20", "a size behind a field"),
            (b"\x3f\xe2\x1f", "a table of 4,097 bytes"),
            (b"\x00\x05ab", "a string beyond the block"),
            (b"\x00\x01a", "no value"),
            (b"\x7e\x01a", "a name beyond the table"),
            (b"\x00\x81\xff\x01a", "invalid padding"),
        ] {
            assert!(Decoder::new(4096).decode(block, &mut Vec::new(), |_, _| ()).is_err(), "{reason}");
        }
        assert!(Decoder::new(4096).decode(b"\x3f\xe1\x1f\x20\x82", &mut Vec::new(), |_, _| ()).is_ok());
    }
}
