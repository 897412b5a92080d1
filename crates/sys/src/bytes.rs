//! Bytes to be sent: borrowed, owned or shared.

use std::sync::Arc;

/// Bytes to be sent: borrowed, owned or shared.
#[derive(Debug, Clone)]
pub enum Bytes<'a> {
    /// Borrowed for `'a`; for [`Buffer`] that is as long as the program runs.
    Borrowed(&'a [u8]),
    /// Owned by this value.
    Owned(Box<[u8]>),
    /// Shared with other readers.
    Shared(Arc<[u8]>),
}

/// Bytes that borrow from nothing shorter-lived than the program.
pub type Buffer = Bytes<'static>;

impl Bytes<'_> {
    /// Returns the bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    /// Returns the bytes from `from` on as a value that borrows nothing, and the offset in it at which they start.
    /// Borrowed bytes are copied.
    pub fn into_owned(self, from: usize) -> (Buffer, usize) {
        match self {
            Self::Borrowed(bytes) => (Bytes::Owned(bytes[from..].into()), 0),
            Self::Owned(bytes) => (Bytes::Owned(bytes), from),
            Self::Shared(bytes) => (Bytes::Shared(bytes), from),
        }
    }
}
