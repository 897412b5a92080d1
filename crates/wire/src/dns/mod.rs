//! DNS (RFC 1035) for a name server of synthetic domains and for clients that query it, one subject a file.
//!
//! [`Message::parse`] checks a whole message once. Iteration over its questions and records then cannot fail, and does
//! not allocate. [`Builder`] writes queries and answers with compressed names, truncates answers at a limit (RFC 2181
//! section 9) and reserves room for EDNS (RFC 6891). [`frame`] delimits messages over TCP.

pub mod builder;
pub mod frame;
pub mod header;
pub mod kind;
pub mod message;
pub mod name;
pub mod record;

pub use builder::{Builder, Section};
pub use header::{Header, Opcode, Rcode};
pub use kind::{Class, Type};
pub use message::{Message, Question, Records};
pub use name::{Name, NameBuf};
pub use record::{Data, Edns, Record, Soa, Txt};

/// The maximum length of a message over UDP without EDNS, in bytes (RFC 1035 section 4.2.1).
pub const UDP_BYTES: usize = 512;

/// The maximum length of a message, in bytes.
pub const MESSAGE_BYTES: usize = 65_535;

/// The reason why a message or a name was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed DNS data: {0}")]
pub struct Malformed(pub &'static str);
