//! The content of a message in transit: after DATA (RFC 5321 section 4.5.2) and in chunks after BDAT.
//!
//! [`Encoder`] converts a message to the bytes that a client sends, once for all recipients. [`Decoder`] is the
//! inverse, for a server. [`Inspector`] reports the properties of a content: the decoder contains one, and a server
//! feeds the chunks of BDAT to another, because a message received by BDAT may have to be forwarded by DATA.

mod decoder;
mod encoder;
mod inspector;

pub use decoder::{Decoder, Piece};
pub use encoder::{Encoder, Transfer, Unsendable};
pub use inspector::{Inspector, Shape, TEXT_LINE_BYTES};
