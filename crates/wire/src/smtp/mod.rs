//! SMTP (RFC 5321) for a delivery engine, a relay and sinks, one subject a file: the client's and the server's side,
//! and the text of a message in transit.
//!
//! A client writes commands ([`Command::write`]), several into one buffer where PIPELINING (RFC 2920) permits it. It
//! parses replies ([`reply::Scan`]) and the response to EHLO ([`Capabilities::of_reply`]), and prepares a message once
//! for all recipients ([`data::Encoder`]).
//!
//! A server finds command lines ([`line::Scan`]), parses them ([`command::parse`]) and responds ([`reply::write`],
//! [`Capabilities::write`]). It decodes the content after DATA ([`data::Decoder`]) or counts that after BDAT
//! ([`bdat::Chunks`]).
//!
//! If two programs can disagree about the end of a command line or of the data, a client can smuggle a second message
//! into the first (CVE-2023-51764, CVE-2023-51765, CVE-2023-51766). So lines end with CR LF only, and a bare CR or LF
//! is an error everywhere ([`line::Scan`], [`data`]).

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
