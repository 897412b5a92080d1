//! Messages over a serial line to which the kernel may write at any time.
//!
//! A message is one line: a marker that no kernel writes, a sequence number, the length and the CRC-32 of the rest, and
//! the content, deflated, in base64. Anything else is console output. A kernel message inside a frame makes the frame
//! invalid, which the next sequence number reveals.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::write::{DeflateDecoder, DeflateEncoder};
use flate2::{Compression, Crc};
use std::io::Write;

/// The marker at the beginning of a message.
const MARKER: &str = "LANDAU-FRAME";

/// Encodes a message as one line, with a line feed on both sides.
pub fn encode(number: u64, content: &[u8]) -> std::io::Result<String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content)?;
    let text = STANDARD.encode(encoder.finish()?);
    Ok(format!("\n{MARKER} {number} {} {:08x} {text}\n", text.len(), sum(text.as_bytes())))
}

fn sum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// An item that arrived over the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A valid message.
    Message(Vec<u8>),
    /// A corrupt or lost message, with what is known about it.
    Corrupt(String),
    /// A line of the console.
    Text(String),
}

/// Splits a byte stream into items.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    next: u64,
}

impl Decoder {
    /// Adds bytes; returns the items that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Item> {
        self.pending.extend_from_slice(bytes);
        let mut items = Vec::new();
        while let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            self.line(&line, &mut items);
        }
        items
    }

    /// Returns the incomplete last line, after the stream has ended.
    pub fn finish(mut self) -> Vec<Item> {
        let mut items = Vec::new();
        let rest = std::mem::take(&mut self.pending);
        self.line(&rest, &mut items);
        items
    }

    fn line(&mut self, bytes: &[u8], items: &mut Vec<Item>) {
        let line = String::from_utf8_lossy(bytes);
        let line = line.trim_end_matches(['\r', '\n']);
        let Some(at) = line.find(MARKER) else {
            if !line.is_empty() {
                items.push(Item::Text(line.to_owned()));
            }
            return;
        };
        if at > 0 {
            items.push(Item::Text(line[..at].to_owned()));
        }
        match decode(&line[at..]) {
            Some((number, content)) => {
                if number != self.next {
                    items.push(Item::Corrupt(format!("message {} arrived instead of {}", number, self.next)));
                }
                self.next = number + 1;
                items.push(Item::Message(content));
            }
            None => items.push(Item::Corrupt(line[at..].chars().take(80).collect())),
        }
    }
}

/// Returns the number and the content of a valid message.
fn decode(line: &str) -> Option<(u64, Vec<u8>)> {
    let mut words = line.split(' ').skip(1);
    let number = words.next()?.parse().ok()?;
    let len: usize = words.next()?.parse().ok()?;
    let expected = u32::from_str_radix(words.next()?, 16).ok()?;
    let text = words.next()?;
    if text.len() != len || sum(text.as_bytes()) != expected {
        return None;
    }
    let mut decoder = DeflateDecoder::new(Vec::new());
    decoder.write_all(&STANDARD.decode(text).ok()?).ok()?;
    Some((number, decoder.finish().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Vec<u8> {
        let first = encode(0, b"one").unwrap();
        let second = encode(1, &vec![b'x'; 10_000]).unwrap();
        format!("[    0.1] booting\r\n{first}[    0.2] more{second}").into_bytes()
    }

    fn expected() -> Vec<Item> {
        vec![
            Item::Text("[    0.1] booting".to_owned()),
            Item::Message(b"one".to_vec()),
            Item::Text("[    0.2] more".to_owned()),
            Item::Message(vec![b'x'; 10_000]),
        ]
    }

    #[test]
    fn messages_and_text_are_separated_however_the_bytes_are_split() {
        let stream = stream();
        for size in [1, 2, 3, 7, 64, stream.len()] {
            let mut decoder = Decoder::default();
            let items: Vec<Item> = stream.chunks(size).flat_map(|bytes| decoder.push(bytes)).collect();
            assert_eq!(items, expected(), "chunks of {size}");
        }
    }

    #[test]
    fn a_changed_byte_makes_its_message_corrupt_and_never_another() {
        let message = encode(0, b"a message that is long enough to be worth something").unwrap();
        for place in 1..message.len() - 1 {
            let mut bytes = message.clone().into_bytes();
            bytes[place] ^= 1;
            let mut decoder = Decoder::default();
            let items = decoder.push(&bytes);
            let is_valid = items.iter().any(|item| matches!(item, Item::Message(_)));
            let is_reported = items.iter().any(|item| matches!(item, Item::Corrupt(_)));
            // The sequence number is not part of the checksum; a wrong one is reported.
            assert!(!is_valid || is_reported, "byte {place}: {items:?}");
        }
    }

    #[test]
    fn a_lost_message_is_reported_with_the_next() {
        let mut decoder = Decoder::default();
        decoder.push(encode(0, b"a").unwrap().as_bytes());
        let items = decoder.push(encode(2, b"c").unwrap().as_bytes());
        assert_eq!(items[0], Item::Corrupt("message 2 arrived instead of 1".to_owned()));
    }
}
