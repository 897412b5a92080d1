//! HTTP/2 (RFC 9113) and its header compression (RFC 7541), for a server of files and a generator of load: frames,
//! header blocks, and what they mean as requests and responses.
//!
//! Which streams exist and how much may be sent on them is the business of who owns the connection. Here is what can be
//! said about bytes alone: what a frame contains and whether it is valid by itself ([`frame`]), the fields of a header
//! block ([`hpack`]), the request that fields make ([`request`]), and a response's fields ([`response`]).

mod code;
pub mod frame;
pub mod hpack;
pub mod request;
pub mod response;
mod settings;

pub use code::{Code, Fault};
pub use settings::{DEFAULT_TABLE_SIZE, Setting, Settings};

/// What a client sends before its first frame (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The line of the preface by which a server that speaks HTTP/1.1 as well recognises it.
pub const PREFACE_LINE: &[u8; 16] = b"PRI * HTTP/2.0\r\n";

/// The flow-control window of a connection, and of each stream until the peer says otherwise (RFC 9113 section 6.9.2).
pub const INITIAL_WINDOW: u32 = 65_535;

/// The largest flow-control window (RFC 9113 section 6.9.1).
pub const LARGEST_WINDOW: i64 = (1 << 31) - 1;
