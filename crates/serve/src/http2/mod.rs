//! HTTP/2 (RFC 9113): many requests at a time over one connection, each a stream.
//!
//! A [`Session`] is the state of such a connection, and no descriptor is involved: bytes go in, and bytes to be sent
//! come out. Each request becomes a head as HTTP/1.1 has it and is answered by the same code ([`crate::site`]); the
//! head of the answer is translated on its way out. So rules, conditions, ranges, the log and all limits are the same.
//!
//! A response whose content is small and may be sent at once leaves no trace: it is written behind those before it, and
//! all of them leave in one call. Only one that has to wait, for its client or for another thread, is kept as a
//! [`stream`]. Streams with content take turns, a frame each.
//!
//! Requests that are passed on to an upstream server, over HTTP/1.1, are streams too ([`relay`]).
//!
//! What a client can make the server do is bounded: streams by their number, header blocks by `--max-head`, what is to
//! be sent by [`OUT_BYTES`], because nothing more is read while that is full, and frames that ask for nothing by a
//! [`budget`].

mod budget;
mod headers;
mod relay;
mod session;
mod stream;
mod unended;

pub(crate) use relay::{Passed, Relay, Turn};
pub(crate) use session::{Begun, Desk, Session, Timer};

use landau_wire::http2::request::Fields;

/// How many streams a client may have open at a time; as in nginx.
const MOST_STREAMS: usize = 128;

/// When so much is to be sent, nothing more is answered until it has left; while memory is short, when there is less.
const OUT_BYTES: usize = 64 << 10;

/// How much is written for one connection before the others have their turn, and how much of a file is read after a
/// check that it is in memory.
pub(crate) const TURN_BYTES: usize = 256 << 10;

/// The bytes of a connection or stream that are received before the client gets as many again.
const WINDOW_STEP: u32 = 32 << 10;

/// The table for header blocks that a client may use: the default, about as much as its usual fields take.
const TABLE_BYTES: usize = 4096;

/// Buffers that all connections of a worker share.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The fields of the request that is being decoded.
    fields: Fields,
    /// Strings of it.
    scratch: Vec<u8>,
    /// Its head.
    head: Vec<u8>,
    /// What is to be sent.
    pub(crate) out: Vec<u8>,
}
