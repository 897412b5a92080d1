//! Receivers for tests and benchmarks: they answer like real servers, including slow, full and broken ones.
//!
//! A sink is one thread with an event loop (`server`) and a protocol. Protocols do no I/O; the treatment of connections
//! that does not depend on the protocol (late replies, replies in pieces, resets, half-closes, silence) is in
//! [`conduct`]. Every random decision depends on a seed and on its subject, not on the order of events.

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
