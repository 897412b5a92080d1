//! Content received with BDAT, chunk by chunk (RFC 3030), for the sink and the relay.

use landau_wire::smtp::Reject;
use landau_wire::smtp::bdat::Chunks;
use landau_wire::smtp::data::{Inspector, Shape};

/// The chunks of a message so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Received {
    chunks: Chunks,
    inspector: Inspector,
}

/// A chunk that is being received. It is consumed even if its BDAT was refused, and then dropped (RFC 3030 section 2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    chunks: Chunks,
    refusal: Option<Reject>,
}

/// The result of the end of a chunk.
#[derive(Debug)]
pub(crate) enum End {
    /// The command was refused. The rest of the transaction would be a message with a gap.
    Refused(Reject),
    /// The message is complete.
    Message(Shape),
    /// Other chunks follow.
    Chunk,
}

impl Chunk {
    /// Begins a chunk of the message whose earlier chunks are in `received`. `limit` is the maximum size of a message.
    pub(crate) fn begin(
        received: &mut Option<Received>,
        size: u64,
        is_last: bool,
        has_recipients: bool,
        limit: u64,
    ) -> Self {
        let mut next = received.take().unwrap_or_default();
        let refusal = match next.chunks.begin(size, is_last) {
            Err(reject) => Some(reject),
            Ok(()) if !has_recipients => Some(Reject::BAD_SEQUENCE),
            Ok(()) if next.chunks.total() > limit => Some(Reject::TOO_LARGE),
            Ok(()) => None,
        };
        if refusal.is_none() {
            *received = Some(next);
        }
        Self { chunks: next.chunks, refusal }
    }

    /// Takes the bytes of the chunk from `input`. Returns them, whether they are content, and the result if the chunk
    /// ends.
    pub(crate) fn take<'a>(
        &mut self,
        received: &mut Option<Received>,
        input: &'a [u8],
    ) -> (&'a [u8], bool, Option<End>) {
        let content = self.chunks.take(input);
        let is_kept = self.refusal.is_none();
        if let Some(received) = received.as_mut().filter(|_| is_kept) {
            received.chunks = self.chunks;
            received.inspector.push(content);
        }
        let end = (self.chunks.left() == 0).then(|| match self.refusal {
            Some(reject) => End::Refused(reject),
            None if self.chunks.is_end() => {
                End::Message(received.map(|received| received.inspector.shape()).unwrap_or_default())
            }
            None => End::Chunk,
        });
        (content, is_kept, end)
    }
}
