//! Compression of fields (RFC 7541): decoding and encoding of header blocks.
//!
//! A peer chooses what its blocks put into our table, so the decoder bounds what a block can cost: the table has a
//! fixed size, a field is passed on by reference, and an index costs one step whatever it stands for. How long a
//! decoded list may be is the caller's limit; one that is passed must be decoded to its end nevertheless, because
//! later blocks refer to what it put into the table.

mod decoder;
mod encoder;
pub mod huffman;
mod integer;
mod table;

pub use decoder::{Decoder, Malformed};
pub use encoder::{Encoder, write_empty_table, write_field, write_status};
