//! Messages as they come off the wire: whole, in pieces, hostile, and as another parser reads them.

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
