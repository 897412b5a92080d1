//! The content of a message on its way: after DATA (RFC 5321 section 4.5.2) and in chunks after BDAT.
//!
//! [`Encoder`] turns a message into what a client sends, once for all recipients. [`Decoder`] undoes that on a server.
//! [`Inspector`] says what a content is like: the decoder has one of its own, and a server feeds the chunks of BDAT to
//! another, because what came by BDAT may have to go on by DATA.

mod decoder;
mod encoder;
mod inspector;

pub use decoder::{Decoder, Piece};
pub use encoder::{Encoder, Transfer, Unsendable};
pub use inspector::{Inspector, Shape, TEXT_LINE_BYTES};
