//! HTTP/1.1, HTTP/2, SMTP and DNS as functions of bytes: bytes in, values out, and back. No I/O, no clock, no
//! allocation where a message of HTTP/1.1 or SMTP passes.
//!
//! The servers, the generators and the mail engine own their sockets and buffers and ask this crate what the bytes in
//! them mean, so that every rule of the protocols can be tested, fuzzed and timed without a socket. A parsed message
//! borrows the caller's buffer; nothing is copied. What is written is appended to a buffer that the caller keeps.
//!
//! A message that two programs could read differently is a security hole, so what a server receives is parsed strictly
//! ([`http::request`], [`smtp::line`], [`smtp::command`], [`smtp::data`]). Responses are only measured, so their parser
//! accepts what cannot be misread ([`http::response`], [`smtp::reply`]).

mod decimal;
pub mod dns;
pub mod http;
pub mod http2;
pub mod proxy;
pub mod smtp;
