//! Load on servers, by worker processes under one controller: closed loops, open loops, and crowds of idle connections.
//!
//! What a worker does it is told in a [`Plan`]; what it found comes back as a [`Tally`] of counts and histograms, which
//! are added up, and whether that is worth anything the gates decide.

mod answer;
mod backlog;
mod check;
mod connection;
mod controller;
pub mod counters;
mod crowd;
mod engine;
mod error;
mod fleet;
pub mod gate;
pub mod histogram;
mod idle;
pub mod job;
mod link;
mod looped;
pub mod outcome;
pub mod plan;
pub mod record;
pub mod replay;
pub mod schedule;
mod server;
mod source;
pub mod tally;
pub mod target;
mod tls;
mod trust;
pub mod worker;

pub use controller::{Observer, run};
pub use error::{Error, Result};
pub use fleet::Launch;
pub use histogram::Histogram;
pub use job::{CrowdWish, Job, Wish};
pub use link::Progress;
pub use outcome::{Outcome, Step};
pub use plan::Plan;
pub use tally::{Failure, Tally};

/// The name of the event loop's mechanism that is best here.
pub fn mechanism() -> String {
    landau_reactor::Backend::default().name().to_owned()
}
