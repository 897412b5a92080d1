//! HTTP/2 (RFC 9113) and its header compression (RFC 7541), for a file server and a load generator: frames, header
//! blocks, and their meaning as requests and responses.
//!
//! The owner of a connection tracks its streams, and how much may be sent on them. This module handles bytes only: the
//! contents of a frame and its validity without context ([`frame`]), the fields of a header block ([`hpack`]), the
//! request from these fields ([`request`]), and the fields of a response ([`response`]).

mod code;
pub mod frame;
pub mod hpack;
pub mod request;
pub mod response;
mod settings;

pub use code::{Code, Fault};
pub use settings::{DEFAULT_TABLE_SIZE, Setting, Settings};

/// The bytes that a client sends before its first frame (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first line of the preface, by which a server that also speaks HTTP/1.1 recognises it.
pub const PREFACE_LINE: &[u8; 16] = b"PRI * HTTP/2.0\r\n";

/// The default flow-control window of a connection and of each stream (RFC 9113 section 6.9.2).
pub const INITIAL_WINDOW: u32 = 65_535;

/// The maximum flow-control window (RFC 9113 section 6.9.1).
pub const LARGEST_WINDOW: i64 = (1 << 31) - 1;
