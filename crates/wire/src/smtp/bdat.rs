//! The chunks that follow BDAT (RFC 3030 section 2): how many bytes are content, and when the message is complete.
//!
//! A chunk is content, regardless of its bytes; the next command follows it. So a server consumes the chunk of every
//! BDAT, even of one that it rejects: otherwise the content would be read as commands.

use super::reject::Reject;

/// The chunks of one message. A server needs a new value after the last chunk, and after RSET.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Chunks {
    /// The remaining bytes of the current chunk.
    left: u64,
    /// The bytes of all chunks so far, including the remaining ones.
    total: u64,
    is_last: bool,
}

impl Chunks {
    /// Returns the state before the first BDAT.
    pub const fn new() -> Chunks {
        Chunks { left: 0, total: 0, is_last: false }
    }

    /// Begins a chunk of `size` bytes, which may be 0. After the last chunk this is an error, but the chunk must still
    /// be consumed (RFC 3030 section 2).
    pub const fn begin(&mut self, size: u64, is_last: bool) -> Result<(), Reject> {
        let was_last = self.is_last;
        self.left = size;
        self.total = self.total.saturating_add(size);
        self.is_last |= is_last;
        if was_last { Err(Reject::BAD_SEQUENCE) } else { Ok(()) }
    }

    /// Consumes content from the start of these bytes and returns it. Bytes after it do not belong to the chunk.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.left -= len as u64;
        &bytes[..len]
    }

    /// Returns the number of remaining bytes of the current chunk. At 0 the server responds to the BDAT.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Returns the bytes of all chunks so far, including the remaining ones. Compare it with the SIZE limit before
    /// reading the chunk.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Returns whether the last chunk has ended, and with it the message.
    pub const fn is_end(&self) -> bool {
        self.is_last && self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_end_where_they_say() {
        let mut chunks = Chunks::new();
        assert_eq!(chunks.begin(6, false), Ok(()));
        assert_eq!(chunks.take(b"\r\n."), b"\r\n.");
        assert_eq!((chunks.left(), chunks.is_end()), (3, false));
        assert_eq!(chunks.take(b"\r\nxBDAT 0 LAST\r\n"), b"\r\nx");
        assert_eq!((chunks.left(), chunks.total(), chunks.is_end()), (0, 6, false));
        assert_eq!(chunks.take(b"BDAT"), b"");
        assert_eq!(chunks.begin(0, true), Ok(()));
        assert!(chunks.is_end());
    }

    #[test]
    fn a_chunk_after_the_last_is_refused_and_taken() {
        let mut chunks = Chunks::new();
        assert_eq!(chunks.begin(1, true), Ok(()));
        assert_eq!(chunks.take(b"ab"), b"a");
        assert_eq!(chunks.begin(4, false), Err(Reject::BAD_SEQUENCE));
        assert_eq!(chunks.take(b"QUIT\r\n"), b"QUIT");
    }

    #[test]
    fn sizes_do_not_overflow() {
        let mut chunks = Chunks::new();
        assert_eq!(chunks.begin(1, false), Ok(()));
        assert_eq!(chunks.take(b"a"), b"a");
        assert_eq!(chunks.begin(u64::MAX, true), Ok(()));
        assert_eq!((chunks.total(), chunks.left()), (u64::MAX, u64::MAX));
        assert!(!chunks.is_end());
    }
}
