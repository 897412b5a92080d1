//! The output of a worker for one client: bytes first, then possibly large buffers and files.
//!
//! The bytes are in one buffer of the worker, which it reuses for each client. Responses to pipelined requests are
//! collected in it and sent in one call. Content that is too large to copy follows in the batch; until the batch has
//! been sent, no further response is begun.

use landau_reactor::Batch;

/// The output that is about to be sent.
#[derive(Debug, Default)]
pub(crate) struct SendBuffers {
    pub(crate) bytes: Vec<u8>,
    pub(crate) batch: Batch,
    /// The number of bytes that are content of the last response.
    pub(crate) content: u64,
    /// Whether the connection ends after this output.
    pub(crate) close: bool,
    /// The bandwidth limit of the connection from now on, in bytes per second, if a rule sets one. Content of the
    /// server itself is then in the batch; content of an upstream server is in `bytes`.
    pub(crate) pacing: Option<u64>,
    /// Whether memory is short. Fewer responses are then made at a time, so that a client holds less memory.
    pub(crate) is_scarce: bool,
}

impl SendBuffers {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.batch.clear();
        self.close = false;
        // A remaining limit would apply to the next connection.
        self.pacing = None;
    }

    /// Returns whether further responses must wait.
    pub(crate) fn is_full(&self) -> bool {
        self.close || !self.batch.is_empty() || self.bytes.len() >= self.full_bytes()
    }

    /// Returns the number of bytes at which no more are added.
    pub(crate) fn full_bytes(&self) -> usize {
        if self.is_scarce { SCARCE_BYTES } else { FULL_BYTES }
    }
}

/// Like `FULL_BYTES`, while memory is short. A worker calls itself for each part of this size that the socket accepts
/// at once, so the size must not be much smaller.
const SCARCE_BYTES: usize = 16 << 10;

/// Further pipelined requests are answered after the client has read this many bytes, because what it does not read
/// must be copied and kept.
pub(crate) const FULL_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_for_the_next_connection() {
        let mut buffers = SendBuffers { close: true, pacing: Some(1), ..SendBuffers::default() };
        buffers.bytes.push(b'x');
        buffers.clear();
        assert!(buffers.bytes.is_empty() && buffers.batch.is_empty() && !buffers.close);
        assert_eq!(buffers.pacing, None);
    }
}
