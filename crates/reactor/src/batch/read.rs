//! Taking bytes out of a queue, for callers that do the sending themselves.

use super::segment::{File, Segment};
use super::{Error, Queue};
use landau_sys::bytes::Bytes;
use landau_sys::{path, stream};

impl<'a> Queue<'a> {
    /// Removes the next buffer, or the next `max` bytes of a file as a buffer. The second value is the offset in the
    /// buffer at which the bytes start. Returns `None` if the queue is empty.
    pub fn pop(&mut self, max: usize) -> Result<Option<(Bytes<'a>, usize)>, Error> {
        self.pop_with(max, stream::read_at)
    }

    /// Like [`pop`](Self::pop), without waiting for the device: fails with an error that
    /// [would block](Error::is_would_block) if nothing of the next part of the file is in memory.
    pub fn pop_cached(&mut self, max: usize) -> Result<Option<(Bytes<'a>, usize)>, Error> {
        self.pop_with(max, path::read_cached)
    }

    fn pop_with(
        &mut self,
        max: usize,
        read: impl FnOnce(&File, &mut [u8], u64) -> landau_sys::Result<usize>,
    ) -> Result<Option<(Bytes<'a>, usize)>, Error> {
        let (bytes, is_done) = match self.segments.front_mut() {
            None => return Ok(None),
            Some(Segment::Buffer { .. }) => match self.segments.pop_front() {
                Some(Segment::Buffer { buffer, from }) => return Ok(Some((buffer, from))),
                _ => return Ok(None),
            },
            Some(Segment::File { file, offset, left, .. }) => {
                let mut bytes = vec![0; (*left).min(max as u64) as usize];
                let got = read(file, &mut bytes, *offset)?;
                if got == 0 {
                    return Err(Error::Truncated { offset: *offset, missing: *left });
                }
                bytes.truncate(got);
                *offset += got as u64;
                *left -= got as u64;
                (bytes, *left == 0)
            }
        };
        if is_done {
            self.segments.pop_front();
        }
        Ok(Some((Bytes::Owned(bytes.into()), 0)))
    }

    /// Removes up to `max` bytes and appends them to `into`, for data that is transformed before it is sent. Returns
    /// the number of bytes. It reads at most one file.
    pub fn read(&mut self, into: &mut Vec<u8>, max: usize) -> Result<usize, Error> {
        let start = into.len();
        let mut has_read_file = false;
        while into.len() - start < max && !(has_read_file && self.is_at_file()) {
            let room = max - (into.len() - start);
            let left = match self.segments.front_mut() {
                None => break,
                Some(Segment::Buffer { buffer, from }) => {
                    let rest = &buffer.bytes()[*from..];
                    let count = room.min(rest.len());
                    into.extend_from_slice(&rest[..count]);
                    self.advance(count);
                    continue;
                }
                Some(Segment::File { file, offset, left, .. }) => {
                    let count = room.min(usize::try_from(*left).unwrap_or(room));
                    let got = append(into, count, |bytes| stream::read_at(file, bytes, *offset))?;
                    if got == 0 {
                        return Err(Error::Truncated { offset: *offset, missing: *left });
                    }
                    *offset += got as u64;
                    *left -= got as u64;
                    has_read_file |= *left == 0;
                    *left
                }
            };
            if left == 0 {
                self.segments.pop_front();
            }
        }
        Ok(into.len() - start)
    }
}

/// Appends the bytes that a call reads, at most `count`.
fn append(
    into: &mut Vec<u8>,
    count: usize,
    read: impl FnOnce(&mut [u8]) -> landau_sys::Result<usize>,
) -> landau_sys::Result<usize> {
    let len = into.len();
    into.resize(len + count, 0);
    let got = read(&mut into[len..]);
    into.truncate(len + got.unwrap_or(0));
    got
}
