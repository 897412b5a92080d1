//! The mail engine: delivers a message to a list of recipients over SMTP, and records the outcome of each.
//!
//! [`deliver`] reads a [`List`] one record at a time, encodes the [`Message`] once, and drives SMTP sessions over the
//! event library. A ledger records the outcome of every recipient, so that a killed run can be continued without
//! sending to anybody twice.
//!
//! [`sink`] contains receivers for tests of this and other senders.

mod bounce;
mod client;
mod delivery;
mod dkim;
mod domain;
mod engine;
mod envelope;
mod error;
#[doc(hidden)]
pub mod hostile;
mod input;
mod ledger;
pub mod list;
mod lookup;
pub mod message;
mod metrics;
mod network;
mod queue;
pub mod relay;
mod route;
mod run;
mod schedule;
#[cfg(test)]
mod simulation;
pub mod sink;
mod stats;
pub mod synthetic;
mod tls;

pub use delivery::{Delivery, Outcome, Source, deliver};
pub use dkim::Signer;
pub use engine::{Observer, Progress};
pub use envelope::{Envelope, Mode};
pub use error::{Error, Result};
pub use ledger::Sync;
pub use list::List;
pub use message::Message;
pub use route::Server;
pub use run::Run;
pub use schedule::{Backoff, Feedback, Limits};
pub use stats::{DomainRow, Histogram, Phases, Tally, Timeline};
pub use tls::{Certificate, Encryption};
