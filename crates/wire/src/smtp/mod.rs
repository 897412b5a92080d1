//! SMTP (RFC 5321) for a delivery engine, a relay and sinks, one subject a file: what a client reads and writes, what a
//! server reads and writes, and the text of a message on its way.
//!
//! A client writes commands ([`Command::write`]), several into one buffer where PIPELINING (RFC 2920) allows it, reads
//! replies ([`reply::Scan`]) and the answer to EHLO ([`Capabilities::of_reply`]), and prepares a message once for all
//! recipients ([`data::Encoder`]).
//!
//! A server finds command lines ([`line::Scan`]), reads them ([`command::parse`]), answers ([`reply::write`],
//! [`Capabilities::write`]), and reads the content after DATA ([`data::Decoder`]) or counts that after BDAT
//! ([`bdat::Chunks`]).
//!
//! A command line or an end of data that two programs could see in different places lets a client smuggle a second
//! message into the first (CVE-2023-51764, CVE-2023-51765, CVE-2023-51766). So lines end with CR LF alone, and a bare
//! CR or LF is an error wherever it stands ([`line::Scan`], [`data`]).

pub mod address;
pub mod bdat;
mod bytes;
pub mod capabilities;
pub mod code;
pub mod command;
pub mod data;
pub mod line;
pub mod parameter;
pub mod reject;
pub mod reply;

pub use address::{Host, Mailbox, Recipient, ReversePath};
pub use capabilities::{Capabilities, Extension, Extensions};
pub use code::{Class, Code, Enhanced};
pub use command::{Command, Mail, Rcpt};
pub use reject::{Recovery, Reject};
pub use reply::Reply;
