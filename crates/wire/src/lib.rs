//! HTTP/1.1, HTTP/2, SMTP and DNS as functions of bytes: bytes in, values out, and back. No I/O, no clock, and no
//! allocation per message for HTTP/1.1 and SMTP.
//!
//! The servers, the load generators and the mail engine own their sockets and buffers, and use this crate to interpret
//! the bytes in them. So every rule of the protocols can be tested, fuzzed and timed without a socket. A parsed message
//! borrows the caller's buffer; nothing is copied. Output is appended to a buffer that the caller keeps.
//!
//! A message that two programs could read differently is a security hole, so the parsers of a server are strict
//! ([`http::request`], [`smtp::line`], [`smtp::command`], [`smtp::data`]). Responses are only measured, so their
//! parsers accept everything that is unambiguous ([`http::response`], [`smtp::reply`]).

mod decimal;
pub mod dns;
pub mod http;
pub mod http2;
pub mod proxy;
pub mod smtp;
