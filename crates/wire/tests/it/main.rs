//! Tests of messages as received: whole, in pieces, hostile, and in comparison with another parser.

mod dns;
mod escape;
mod hostile;
mod http2;
mod pieces;
mod requests;
mod server;
mod smtp;
mod smuggling;
mod table;
