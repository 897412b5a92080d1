//! The chunks that follow BDAT (RFC 3030 section 2): how many bytes are content, and when the message is complete.
//!
//! A chunk is content whatever it holds; what follows it is the next command. So a server takes the chunk of every
//! BDAT, also of one that it refuses: otherwise the content would be read as commands.

use super::reject::Reject;

/// The chunks of one message. A server needs a new value after the last chunk, and after RSET.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Chunks {
    /// The bytes of the current chunk that are still to come.
    left: u64,
    /// The bytes of all chunks so far, those still to come included.
    total: u64,
    is_last: bool,
}

impl Chunks {
    /// Returns the state before the first BDAT.
    pub const fn new() -> Chunks {
        Chunks { left: 0, total: 0, is_last: false }
    }

    /// Begins a chunk of so many bytes, which may be none. After the last chunk this is an error, and the chunk must be
    /// taken all the same (RFC 3030 section 2).
    pub const fn begin(&mut self, size: u64, is_last: bool) -> Result<(), Reject> {
        let was_last = self.is_last;
        self.left = size;
        self.total = self.total.saturating_add(size);
        self.is_last |= is_last;
        if was_last { Err(Reject::BAD_SEQUENCE) } else { Ok(()) }
    }

    /// Takes content from the start of these bytes and returns it. The rest follows the chunk.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.left -= len as u64;
        &bytes[..len]
    }

    /// Returns how many bytes of the current chunk are still to come. At 0 the server answers the BDAT.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Returns the bytes of all chunks so far, those still to come included: compare it with the limit of SIZE before
    /// the chunk is read.
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
