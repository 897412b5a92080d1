//! An HTTP load generator: closed loops, open loops and idle connections, by worker processes under one controller.
//!
//! A [`LoadSpec`] becomes a [`Job`] with a [`Plan`] for each worker. [`run`] executes it and adds up the workers'
//! [`Metrics`]. The [gates](gate) decide whether the [`Outcome`] is a valid measurement.

mod backlog;
mod clock;
mod connection;
mod connections;
mod controller;
pub mod counters;
mod error;
mod failure;
pub mod gate;
pub mod histogram;
mod http2;
mod idle_load;
mod idle_set;
pub mod job;
mod link;
mod message;
mod metrics;
mod origin;
pub mod outcome;
mod pace;
pub mod plan;
pub mod record;
pub mod replay;
mod request_loop;
mod response;
pub mod schedule;
mod server;
#[cfg(test)]
mod simulation;
mod source;
mod spec;
pub mod target;
mod tls;
mod trend;
mod validate;
pub mod worker;
mod workers;

pub use controller::{Observer, run};
pub use error::{Error, Result};
pub use failure::Failure;
pub use histogram::Histogram;
pub use job::Job;
pub use message::Progress;
pub use metrics::{Metrics, Phases};
pub use outcome::{Outcome, Step};
pub use plan::Plan;
pub use spec::{IdleSpec, LoadSpec};
pub use trend::{LatencySeries, Trend};
pub use workers::Launch;

use landau_reactor::Backend;

/// Returns the name of this system's best event backend.
pub fn default_backend() -> String {
    Backend::default().name().to_owned()
}

/// Returns the names of the event backends that can carry a load.
pub fn backends() -> impl Iterator<Item = &'static str> {
    Backend::useful().map(Backend::name)
}
