//! What a worker is about to send to one client: bytes first, and then perhaps large pieces and files.
//!
//! The bytes live in the worker's one buffer, used again for each client. Answers to pipelined requests gather in it
//! and leave in one call. What is too large to be copied stands in the batch behind them; until that has left, no
//! further answer is begun.

use landau_reactor::Batch;

/// What is about to be sent.
#[derive(Debug, Default)]
pub(crate) struct SendBuffers {
    pub(crate) bytes: Vec<u8>,
    pub(crate) batch: Batch,
    /// How much of it all is content of the answer that was written last.
    pub(crate) content: u64,
    /// Whether the connection ends with it.
    pub(crate) close: bool,
}

impl SendBuffers {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.batch.clear();
        self.close = false;
    }

    /// Whether a further answer has to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.close || !self.batch.is_empty() || self.bytes.len() >= FULL_BYTES
    }
}

/// Pipelined answers beyond this wait until the client has taken those before: what it does not take is copied, and
/// kept for it.
pub(crate) const FULL_BYTES: usize = 64 << 10;
