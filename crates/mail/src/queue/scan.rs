//! Reads the files of a queue. A crash may have cut off the end of a file, and the device may have damaged parts of it
//! or fail to read them.

use super::record::{self, Final, STATE_BYTES};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The unit in which devices fail.
const BLOCK_BYTES: u64 = 4096;

/// The size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// A source to read: a file, or a failing device in tests.
pub(super) trait Source {
    fn length(&self) -> io::Result<u64>;
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }
}

/// A reader of a source, starting at an offset.
struct Cursor<'a, S> {
    source: &'a S,
    offset: u64,
}

impl<S: Source> Read for Cursor<'_, S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read_at(bytes, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Finds the messages of a segment. Returns the ranges without messages: damaged ones, and the bytes after the last
/// complete record.
pub(super) fn messages<S: Source>(
    source: &S,
    mut found: impl FnMut(u64, &[u8], record::Message<'_>),
) -> io::Result<Vec<Range<u64>>> {
    let length = source.length()?;
    let (mut offset, mut bytes, mut others) = (0, Vec::new(), Vec::new());
    let from = |offset| BufReader::with_capacity(BUFFER_BYTES, Cursor { source, offset });
    let mut input = from(0);
    while offset < length {
        let mut is_whole = record::read(&mut input, &mut bytes);
        if is_whole.is_err() {
            // The device may have failed at a later block, which the buffer includes.
            is_whole = record::read(&mut Cursor { source, offset }, &mut bytes);
            input = from(offset + bytes.len() as u64);
        }
        if let (Ok(true), Some(message)) = (is_whole, record::parse(&bytes)) {
            found(offset, &bytes, message);
            offset += bytes.len() as u64;
            continue;
        }
        let next = next_record(source, offset..length)?.unwrap_or(length);
        others.push(offset..next);
        offset = next;
        input = from(offset);
    }
    Ok(others)
}

/// Returns the offset of the first complete record after a damaged one.
///
/// Its head is searched for byte by byte, because the damage may be in the length field of the damaged record's head.
/// No message can imitate a record: heads contain NUL bytes, and the relay accepts no message with a NUL byte.
fn next_record(source: &impl Source, damaged: Range<u64>) -> io::Result<Option<u64>> {
    let (bytes, _) = range(source, damaged.clone())?;
    let next = (1..bytes.len()).find(|&at| record::is_head(&bytes[at..]) && record::parse(&bytes[at..]).is_some());
    Ok(next.map(|at| damaged.start + at as u64))
}

/// Reads a range. Returns its bytes and whether all of them could be read; unreadable blocks are zero.
pub(super) fn range(source: &impl Source, range: Range<u64>) -> io::Result<(Vec<u8>, bool)> {
    let length = usize::try_from(range.end - range.start).map_err(|_| io::Error::other("a segment beyond memory"))?;
    let mut bytes = vec![0; length];
    if read_exact_at(source, &mut bytes, range.start).is_ok() {
        return Ok((bytes, true));
    }
    let mut offset = range.start;
    while offset < range.end {
        let end = (offset / BLOCK_BYTES + 1).saturating_mul(BLOCK_BYTES).min(range.end);
        let block = &mut bytes[(offset - range.start) as usize..(end - range.start) as usize];
        if read_exact_at(source, block, offset).is_err() {
            block.fill(0);
        }
        offset = end;
    }
    Ok((bytes, false))
}

fn read_exact_at(source: &impl Source, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    Cursor { source, offset }.read_exact(bytes)
}

/// The states of a segment.
#[derive(Debug, Default)]
pub(super) struct States {
    pub(super) whole: Vec<Final>,
    /// The number of damaged records.
    pub(super) damaged: u64,
    /// The end of the last complete record.
    pub(super) end: u64,
}

/// Reads the states of a segment.
pub(super) fn states(source: &impl Source) -> io::Result<States> {
    let length = source.length()?;
    let mut states = States { end: length - length % STATE_BYTES as u64, ..States::default() };
    for bytes in range(source, 0..states.end)?.0.as_chunks::<STATE_BYTES>().0 {
        match Final::parse(bytes) {
            Some(state) => states.whole.push(state),
            // A damaged record is ignored: its recipient is sent to again rather than forgotten.
            None => states.damaged += 1,
        }
    }
    Ok(states)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::queue::record::Meta;

    /// A file on a device with an unreadable block.
    pub(in crate::queue) struct Failing {
        pub(in crate::queue) bytes: Vec<u8>,
        pub(in crate::queue) block: u64,
    }

    impl Source for Failing {
        fn length(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
            let bad = self.block * BLOCK_BYTES..(self.block + 1) * BLOCK_BYTES;
            if bad.contains(&offset) {
                return Err(io::Error::other("EIO"));
            }
            // Like the kernel, it returns the bytes before the bad block.
            let end = if offset < bad.start { bad.start.min(self.length()?) } else { self.length()? };
            let count = ((end - offset) as usize).min(bytes.len());
            bytes[..count].copy_from_slice(&self.bytes[offset as usize..][..count]);
            Ok(count)
        }
    }

    #[test]
    fn a_block_that_cannot_be_read_loses_the_messages_in_it_and_no_other() {
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for id in 0..40 {
            let meta = Meta::new(id, 1, "s@x", vec!["r@d".into()]);
            record::append(&mut bytes, &meta, &[&vec![b'x'; 100 * id as usize]]).unwrap();
            ends.push(bytes.len() as u64);
        }
        let blocks = bytes.len() as u64 / BLOCK_BYTES;
        for block in 0..=blocks + 1 {
            let source = Failing { bytes: bytes.clone(), block };
            let mut left = Vec::new();
            let others = messages(&source, |_, _, message| left.push(message.meta.id)).unwrap();
            let bad = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
            let is_hit = |id: &u64| ends[*id as usize] < bad.end && ends[*id as usize + 1] > bad.start;
            assert_eq!(left, (0..40).filter(|id| !is_hit(id)).collect::<Vec<_>>(), "{block}");
            assert_eq!(others.len(), usize::from(block <= blocks), "{block}: {others:?}");
        }
    }

    #[test]
    fn states_that_cannot_be_read_say_nothing() {
        let count = 3 * BLOCK_BYTES / STATE_BYTES as u64;
        let all: Vec<Final> = (0..count).map(|id| Final { id, recipient: 0 }).collect();
        let bytes: Vec<u8> = all.iter().flat_map(|state| state.bytes()).chain(*b"cut off").collect();
        let found = states(&Failing { bytes, block: 1 }).unwrap();
        assert_eq!((found.damaged, found.end), (count / 3, count * STATE_BYTES as u64));
        let (first, last) = (&all[..(count / 3) as usize], &all[(2 * count / 3) as usize..]);
        assert_eq!(found.whole, [first, last].concat());
    }
}
