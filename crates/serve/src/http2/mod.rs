//! HTTP/2 (RFC 9113): many concurrent requests over one connection, each a stream.
//!
//! A [`Session`] is the state of such a connection. No descriptor is involved: received bytes are the input, and the
//! bytes to be sent are the output. Each request becomes an HTTP/1.1 head and is answered by the same code
//! ([`crate::site`]); the head of the response is translated on its way out. So rules, conditions, ranges, the log and
//! all limits are the same.
//!
//! A response with small content that may be sent at once leaves no state: it is written after earlier ones, and all of
//! them are sent in one call. Only a response that has to wait, for its client or for another thread, is kept as a
//! [`stream`]. Streams with content take turns of one frame each.
//!
//! Requests that are forwarded to an upstream server, over HTTP/1.1, are streams too ([`relay`]).
//!
//! The work that a client can cause is bounded. Streams are limited by their number, header blocks by `--max-head`, and
//! frames that request nothing by a [`budget`]. Output is limited by [`OUT_BYTES`]: while it is full, nothing more is
//! read.

mod budget;
mod headers;
mod relay;
mod session;
mod stream;
mod unended;

pub(crate) use relay::{Passed, Relay, Turn};
pub(crate) use session::{Begun, Desk, Session, Timer};

use landau_wire::http2::request::Fields;

/// The maximum number of concurrent streams of a client; as in nginx.
const MOST_STREAMS: usize = 128;

/// When this much is to be sent, nothing more is answered until it has been sent. The limit is lower while memory is
/// short.
const OUT_BYTES: usize = 64 << 10;

/// The number of bytes written for one connection before the others have their turn, and the number read from a file
/// after a check that it is in memory.
pub(crate) const TURN_BYTES: usize = 256 << 10;

/// The number of bytes received on a connection or stream before the client is credited with them again.
const WINDOW_STEP: u32 = 32 << 10;

/// The table for header blocks that a client may use: the default, which is about the size of a client's usual fields.
const TABLE_BYTES: usize = 4096;

/// Buffers that all connections of a worker share.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The fields of the request that is being decoded.
    fields: Fields,
    /// Decoded strings of that request.
    scratch: Vec<u8>,
    /// The head of that request.
    head: Vec<u8>,
    /// The bytes to be sent.
    pub(crate) out: Vec<u8>,
}
