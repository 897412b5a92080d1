//! Forwards requests to upstream servers (a reverse proxy).
//!
//! No descriptor is involved here, and the protocol of the client does not matter. A [`Forward`] is a request that the
//! rules admit, rewritten for the upstream server. An [`Exchange`] translates the bytes of the client for the upstream
//! server, and the reverse. The worker ([`crate::worker`]) moves the bytes.
//!
//! Nothing is passed on unparsed. Requests and responses are written from what the parser understood, so that the
//! upstream server, this server and the client agree where each message ends. Ambiguous messages are refused.

use crate::rules::is_alike;

mod exchange;
mod pool;
mod request;
mod response;

pub(crate) use exchange::{Exchange, Step};
pub(crate) use pool::{Connection, Owner, Upstreams};
pub(crate) use request::{Asking, Forward, forwards_left};

/// Fields that are for one connection only (RFC 9110 section 7.6.1), in lower case.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
];

/// Fields that determine where a message ends, which the server writes itself. Names with `_` match too, because some
/// servers treat it as `-`.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// Returns whether a field is for one connection only, by its name or because a value of `Connection` names it.
fn is_of_connection<'a>(name: &[u8], mut connection: impl Iterator<Item = &'a [u8]>) -> bool {
    HOP_BY_HOP.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
        || FRAMING.iter().any(|known| is_alike(known.as_bytes(), name))
        || connection.any(|value| options(value).any(|option| option.eq_ignore_ascii_case(name)))
}

/// Returns the options of a `Connection` field.
fn options(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Writes a field line that the server adds.
fn put(name: &str, value: &[u8], out: &mut Vec<u8>) {
    line(name.as_bytes(), value, out);
}

/// Writes a field line.
fn line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes content as a chunk, or the last chunk if the content is empty.
fn put_chunk(content: &[u8], out: &mut Vec<u8>) {
    use std::io::Write;
    // Writing to a vector cannot fail.
    let _ = write!(out, "{:x}\r\n", content.len());
    out.extend_from_slice(content);
    out.extend_from_slice(b"\r\n");
}
