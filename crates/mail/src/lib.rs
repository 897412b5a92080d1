//! The mail engine: delivers a message to a list of recipients over SMTP, and records what became of each.
//!
//! A [`List`] is read one record at a time and a [`Message`] is encoded once, so neither memory nor work per recipient
//! grows with the list.

mod error;
pub mod list;
pub mod message;
pub mod synthetic;

pub use error::{Error, Result};
pub use list::List;
pub use message::Message;
