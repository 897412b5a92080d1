//! What a worker is about to send to one client: bytes first, and then perhaps large buffers and files.
//!
//! The bytes are in one buffer of the worker, which it reuses for each client. Responses to pipelined requests gather
//! in it and leave in one call. What is too large to copy is in the batch behind them; until that has left, no further
//! response is begun.

use landau_reactor::Batch;

/// What is about to be sent.
#[derive(Debug, Default)]
pub(crate) struct SendBuffers {
    pub(crate) bytes: Vec<u8>,
    pub(crate) batch: Batch,
    /// How many of the bytes are content of the last response.
    pub(crate) content: u64,
    /// Whether the connection ends after this.
    pub(crate) close: bool,
    /// How many bytes a second the connection may take from now on, if a rule says so. There is a batch then, or no
    /// content.
    pub(crate) pacing: Option<u64>,
    /// Whether memory is short, so that fewer responses are made at a time: a client then holds less.
    pub(crate) is_scarce: bool,
}

impl SendBuffers {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.batch.clear();
        self.close = false;
        // A limit left over would be that of the next connection.
        self.pacing = None;
    }

    /// Returns whether further responses have to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.close || !self.batch.is_empty() || self.bytes.len() >= self.full_bytes()
    }

    /// Returns how many bytes are as many as may be sent at a time.
    pub(crate) fn full_bytes(&self) -> usize {
        if self.is_scarce { SCARCE_BYTES } else { FULL_BYTES }
    }
}

/// The same while memory is short. A worker calls itself for each such part of what the socket takes at once, so it
/// must not be much less.
const SCARCE_BYTES: usize = 16 << 10;

/// Further pipelined requests are answered when the client has taken these bytes: what it does not take has to be
/// copied and kept.
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
