//! Streams that have ended here, and that the client has not ended.
//!
//! A client need not send the rest of a request that was answered, and a reset without an error says so (RFC 9113
//! section 8.1). curl 7.88 discards a response that it receives together with that reset. So a PING follows the
//! response, and the stream is reset when the client has answered it: by then it has received the response. Until then
//! what it sends is ignored, and its window is not opened again: that is 64 KiB at most. The streams of a client that
//! does not answer are not reset. Their list is bounded, and so are frames on them, by the account of those that ask
//! for nothing.

use super::MOST_STREAMS;
use super::session::Session;
use landau_wire::http2::{Code, frame};

/// A stream of which frames may be on their way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unended {
    id: u32,
    /// Whether it was reset. If not, it is when the client has answered the PING behind the response.
    is_reset: bool,
}

/// The latest streams of this kind.
#[derive(Debug, Default)]
pub(super) struct UnendedStreams(Vec<Unended>);

impl UnendedStreams {
    pub(super) fn has(&self, id: u32) -> bool {
        self.0.iter().any(|own| own.id == id)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Unended>()
    }

    /// Adds a stream. Where there are too many, the oldest one is forgotten, and reset if it was not.
    fn put(&mut self, id: u32, is_reset: bool, out: &mut Vec<u8>) {
        if let Some(own) = self.0.iter_mut().find(|own| own.id == id) {
            own.is_reset |= is_reset;
            return;
        }
        if self.0.len() >= MOST_STREAMS {
            let oldest = self.0.remove(0);
            if !oldest.is_reset {
                frame::write_rst_stream(oldest.id, Code::NO_ERROR, out);
            }
        }
        self.0.push(Unended { id, is_reset });
    }
}

impl Session {
    /// Has a stream reset whose response has ended, and whose request has not, when the client has received that.
    pub(super) fn end_early(&mut self, id: u32, out: &mut Vec<u8>) {
        frame::write_ping(u64::from(id).to_be_bytes(), out);
        self.unended.put(id, false, out);
    }

    /// Resets the stream whose response the client has received, as its answer to a PING says; returns whether there is
    /// one.
    pub(super) fn reset_answered(&mut self, payload: [u8; 8], out: &mut Vec<u8>) -> bool {
        let number = u64::from_be_bytes(payload);
        let Some(own) = self.unended.0.iter_mut().find(|own| u64::from(own.id) == number && !own.is_reset) else {
            return false;
        };
        own.is_reset = true;
        frame::write_rst_stream(own.id, Code::NO_ERROR, out);
        true
    }

    /// Notes that frames of a stream may be on their way that was reset here.
    pub(super) fn note_reset(&mut self, id: u32, out: &mut Vec<u8>) {
        self.unended.put(id, true, out);
    }

    /// Returns whether a frame is ignored because it was sent before the client knew that the stream had ended here
    /// (RFC 9113 section 5.1). After its end no others follow.
    pub(super) fn ignores(&mut self, id: u32, is_end: bool) -> bool {
        let Some(place) = self.unended.0.iter().position(|own| own.id == id) else { return false };
        if is_end {
            self.unended.0.remove(place);
        }
        true
    }
}
