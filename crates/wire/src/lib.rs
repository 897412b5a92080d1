//! HTTP/1.1 as functions of bytes: bytes in, values out, and back. No I/O, no clock, no allocation where a request
//! passes.
//!
//! The server and the generator own their sockets and buffers and ask this crate what the bytes in them mean, so that
//! every rule of the protocol can be tested, fuzzed and timed without a socket. A parsed message borrows the caller's
//! buffer and holds offsets into it; nothing is copied.
//!
//! A request that two programs could read differently is a security hole, so requests are parsed strictly
//! ([`http::request`]). Responses are only measured, so their parser accepts what cannot be misread
//! ([`http::response`]).

mod decimal;
pub mod http;
