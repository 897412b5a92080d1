//! Streams that the server has ended and the client has not.
//!
//! A client need not send the rest of a request that was answered; a reset without an error requests this (RFC 9113
//! section 8.1). But curl 7.88 discards a response that it receives together with that reset. Therefore a PING follows
//! the response, and the stream is reset after the client has answered the PING, and so has received the response.
//! Until then, what the client sends is ignored and its window is not opened again, so it can send at most 64 KiB. If
//! the client does not answer, its streams are not reset. The list of such streams is bounded. The budget for frames
//! that request nothing also limits frames on these streams.

use super::MOST_STREAMS;
use super::session::Session;
use landau_wire::http2::{Code, frame};

/// A stream with frames that may be in transit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unended {
    id: u32,
    /// Whether the stream was reset. If not, it is reset after the client has answered the PING that follows the
    /// response.
    is_reset: bool,
}

/// The latest such streams.
#[derive(Debug, Default)]
pub(super) struct UnendedStreams(Vec<Unended>);

impl UnendedStreams {
    pub(super) fn has(&self, id: u32) -> bool {
        self.0.iter().any(|own| own.id == id)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Unended>()
    }

    /// Adds a stream. If the list is full, the oldest stream is removed, and reset if it was not yet.
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
    /// Schedules the reset of a stream whose response has ended before its request. The reset follows after the client
    /// has received the response.
    pub(super) fn end_early(&mut self, id: u32, out: &mut Vec<u8>) {
        frame::write_ping(u64::from(id).to_be_bytes(), out);
        self.unended.put(id, false, out);
    }

    /// Resets the stream whose response the client has received, according to its answer to a PING. Returns whether
    /// there is such a stream.
    pub(super) fn reset_answered(&mut self, payload: [u8; 8], out: &mut Vec<u8>) -> bool {
        let number = u64::from_be_bytes(payload);
        let Some(own) = self.unended.0.iter_mut().find(|own| u64::from(own.id) == number && !own.is_reset) else {
            return false;
        };
        own.is_reset = true;
        frame::write_rst_stream(own.id, Code::NO_ERROR, out);
        true
    }

    /// Records that frames of a stream that the server has reset may be in transit.
    pub(super) fn note_reset(&mut self, id: u32, out: &mut Vec<u8>) {
        self.unended.put(id, true, out);
    }

    /// Returns whether a frame is ignored because the client sent it before it knew that the server had ended the
    /// stream (RFC 9113 section 5.1). No frames follow the end of a stream.
    pub(super) fn ignores(&mut self, id: u32, is_end: bool) -> bool {
        let Some(place) = self.unended.0.iter().position(|own| own.id == id) else { return false };
        if is_end {
            self.unended.0.remove(place);
        }
        true
    }
}
