//! Compression of fields (RFC 7541): decoding and encoding of header blocks.
//!
//! A peer chooses what its blocks add to our table, so the decoder bounds the cost of a block: the table has a fixed
//! size, a field is passed by reference, and an index costs one step for any field. The caller limits the length of a
//! decoded list. A list beyond this limit must still be decoded to its end, because later blocks refer to the fields
//! that it added to the table.

mod decoder;
mod encoder;
pub mod huffman;
mod integer;
mod table;

pub use decoder::{Decoder, Malformed};
pub use encoder::{Encoder, write_empty_table, write_field, write_status};
