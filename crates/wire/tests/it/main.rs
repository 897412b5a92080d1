//! Messages as they come off the wire: whole, in pieces, hostile, and as another parser reads them.

mod hostile;
mod pieces;
mod requests;
mod table;
