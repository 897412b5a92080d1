//! The records of the files: a message with its envelope, and the final state of a recipient.

use crate::envelope::Request;
use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// The first bytes of a message's record; the last one is the version.
const MAGIC: [u8; 4] = *b"LQM\x01";

/// The length of the head before the envelope, in bytes: magic, checksum, length of the envelope, length of the
/// content.
const HEAD_BYTES: usize = 16;

/// The length of a state record, in bytes.
pub(super) const STATE_BYTES: usize = 16;

/// The envelope of a message, written as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta<'a> {
    pub(crate) id: u64,
    /// When it was accepted, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// The sender; empty for the null path.
    #[serde(borrow)]
    pub(crate) from: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) to: Vec<Cow<'a, str>>,
    /// `RET`, as in the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ret: Option<Cow<'a, str>>,
    /// `ENVID`, encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) envid: Option<Cow<'a, str>>,
    /// The requests of the sender for each recipient; empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) requests: Vec<Request>,
    /// The recipients that the message reports, if it is a report of the relay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) about: Option<About>,
}

/// The recipients whose outcome a message reports: they are finished as soon as the message is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// Their message.
    pub(crate) id: u64,
    pub(crate) recipients: Vec<u32>,
}

impl<'a> Meta<'a> {
    /// Returns an envelope without parameters.
    pub(crate) fn new(id: u64, at_ms: u64, from: &'a str, to: Vec<Cow<'a, str>>) -> Self {
        let from = Cow::Borrowed(from);
        Self { id, at_ms, from, to, ret: None, envid: None, requests: Vec::new(), about: None }
    }
}

/// A message's record, as it is read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) meta: Meta<'a>,
    pub(crate) content: &'a [u8],
}

/// Appends the record of a message, whose content is the concatenation of `parts`. Returns its length.
pub(super) fn append(out: &mut Vec<u8>, meta: &Meta<'_>, parts: &[&[u8]]) -> io::Result<u64> {
    let start = out.len();
    let content_bytes: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    serde_json::to_writer(&mut *out, meta)?;
    let meta_bytes = out.len() - start - HEAD_BYTES;
    for part in parts {
        out.extend_from_slice(part);
    }
    let length = |bytes: usize| u32::try_from(bytes).map_err(|_| io::Error::other("a message of 4 GiB or more"));
    let lengths = [length(meta_bytes)?.to_le_bytes(), length(content_bytes)?.to_le_bytes()].concat();
    let crc = checksum(&[&lengths, &out[start + HEAD_BYTES..]]);
    let head = &mut out[start..start + HEAD_BYTES];
    head[..4].copy_from_slice(&MAGIC);
    head[4..8].copy_from_slice(&crc.to_le_bytes());
    head[8..].copy_from_slice(&lengths);
    Ok((out.len() - start) as u64)
}

/// The upper bound of the envelope's length in a search for a record: the high byte of the length is then NUL.
const MOST_META_BYTES: usize = 1 << 24;

/// Returns whether bytes begin like the head of a record that a relay may have written.
pub(super) fn is_head(bytes: &[u8]) -> bool {
    let meta_bytes = bytes.get(8..12).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes);
    bytes.starts_with(&MAGIC) && meta_bytes.is_some_and(|count| (count as usize) < MOST_META_BYTES)
}

/// Parses the record at the start of bytes; `None` if it is incomplete or damaged.
pub(crate) fn parse(bytes: &[u8]) -> Option<Message<'_>> {
    let (head, body) = bytes.split_at_checked(HEAD_BYTES)?;
    let number = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let (crc, meta_bytes, content_bytes) = (number(4)?, number(8)? as usize, number(12)? as usize);
    let body = body.get(..meta_bytes.checked_add(content_bytes)?)?;
    if head[..4] != MAGIC || crc != checksum(&[&head[8..], body]) {
        return None;
    }
    let (meta, content) = body.split_at(meta_bytes);
    Some(Message { meta: serde_json::from_slice(meta).ok()?, content })
}

/// Reads the raw envelope of the record at an offset.
pub(super) fn envelope(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, offset)?;
    let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
    let mut bytes = vec![0; length.min(MOST_META_BYTES)];
    file.read_exact_at(&mut bytes, offset + HEAD_BYTES as u64)?;
    Ok(bytes)
}

/// Reads the next record into `bytes`. Returns whether a complete one was read.
pub(super) fn read(input: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    input.take(HEAD_BYTES as u64).read_to_end(bytes)?;
    if bytes.len() < HEAD_BYTES || bytes[..4] != MAGIC {
        return Ok(false);
    }
    let number = |at: usize| u64::from(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
    let body = number(8) + number(12);
    let read = input.take(body).read_to_end(bytes)?;
    Ok(read as u64 == body)
}

/// The final state of a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Final {
    pub(super) id: u64,
    /// The index of the recipient in its message.
    pub(super) recipient: u32,
}

impl Final {
    /// Returns the bytes of the record.
    pub(super) fn bytes(self) -> [u8; STATE_BYTES] {
        let mut bytes = [0; STATE_BYTES];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.recipient.to_le_bytes());
        let crc = checksum(&[&bytes[..12]]);
        bytes[12..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses a record; `None` if it is damaged.
    pub(super) fn parse(bytes: &[u8; STATE_BYTES]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk::<8>()?;
        let (recipient, crc) = rest.split_first_chunk::<4>()?;
        let is_whole = crc == checksum(&[&bytes[..12]]).to_le_bytes();
        is_whole.then(|| Self { id: u64::from_le_bytes(*id), recipient: u32::from_le_bytes(*recipient) })
    }
}

fn checksum(parts: &[&[u8]]) -> u32 {
    let mut hasher = Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}
