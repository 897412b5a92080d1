//! Receivers for tests and benchmarks: they answer as real servers do, also when those are slow, full or broken.
//!
//! A sink is one thread with an event loop (`server`) and a protocol. Protocols do no I/O; what happens to a
//! connection whatever its protocol (late replies, replies in pieces, resets, half-closes, silence) is
//! [`conduct`]. Every random decision follows from a seed and from what it is about, not from the order of events.

pub(crate) mod chunks;
pub mod conduct;
mod connection;
pub(crate) mod counters;
pub mod dns;
mod draw;
mod encryption;
mod error;
mod exporter;
pub mod http;
mod listener;
pub mod mailbox;
pub(crate) mod page;
mod prefix;
pub(crate) mod protocol;
mod recent;
mod server;
pub mod smtp;
pub mod tcp;
mod worker;

pub use counters::Reading;
pub use error::Error;
pub use exporter::{Exporting, export};
pub use listener::Listen;
pub use prefix::Prefix;
pub use server::{Config, Remote, Sink};
