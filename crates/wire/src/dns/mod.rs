//! DNS (RFC 1035) for a name server of synthetic domains and the clients that ask it, one subject a file.
//!
//! [`Message::parse`] checks a whole message once; its questions and records are then iterated without errors and
//! without allocation. [`Builder`] writes queries and answers with compressed names, cuts answers off at a limit
//! (RFC 2181 section 9) and keeps room for EDNS (RFC 6891). [`frame`] delimits messages on TCP.

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

/// Bytes of the longest message over UDP without EDNS (RFC 1035 section 4.2.1).
pub const UDP_BYTES: usize = 512;

/// Bytes of the longest message.
pub const MESSAGE_BYTES: usize = 65_535;

/// Why a message or a name was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed DNS data: {0}")]
pub struct Malformed(pub &'static str);
