//! HTTP/1.1 as functions of bytes: bytes in, values out, and back. No I/O, no clock, no allocation where a request
//! passes.
//!
//! The server and the generator own their sockets and buffers and ask this crate what the bytes in them mean, so that
//! every rule of the protocol can be tested, fuzzed and timed without a socket. A parsed message borrows the caller's
//! buffer and holds offsets into it; nothing is copied.
//!
//! Whoever reads a request that two programs could read in two ways has a hole in his house. So the reading of
//! requests is strict ([`http::request`]), and the reading of responses, where it is us who measure and nobody trusts
//! our judgement, forgives what cannot be misread ([`http::response`]).

pub mod http;
