//! The messages between controller and worker.

use crate::metrics::Metrics;
use crate::plan::Plan;
use serde::{Deserialize, Serialize};

/// A message from the controller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    /// Open the connections of this plan. The first message.
    Plan(Box<Plan>),
    /// Generate load from this time on.
    Start {
        /// The time by `CLOCK_MONOTONIC`, in nanoseconds.
        at_ns: u64,
    },
    /// Open idle connections until there are this many.
    Open {
        /// Number of idle connections.
        to: u32,
        /// The earliest start of the next one by `CLOCK_MONOTONIC`, in nanoseconds. It continues the pace of the worker
        /// whose turn to open connections ended.
        from_ns: u64,
    },
    /// Take samples on idle and on new connections.
    Sample(SampleCounts),
    /// Report the number of open idle connections.
    Count,
    /// Stop and report the metrics.
    Stop,
}

/// A message from a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The worker has started. The first message: its version distinguishes a worker from any other peer.
    Hello {
        /// The protocol version, [`crate::plan::PROTOCOL`].
        version: u32,
        /// The worker's process ID.
        process: u32,
    },
    /// The connections are open, as far as they could be established.
    Ready {
        /// Number of open connections.
        open: u32,
    },
    /// Progress of a closed or open loop.
    Progress(Progress),
    /// The idle connections are open, as far as they could be established.
    Opened {
        /// Number of open idle connections.
        open: u32,
        /// The time at which the connect rate permits another one.
        next_connect_ns: u64,
    },
    /// Samples on idle and on new connections.
    Sampled(Box<SampleTimes>),
    /// The number of open idle connections, after all events up to now were handled.
    Counted {
        /// Number of open idle connections.
        open: u32,
    },
    /// The metrics of the whole run. The last message.
    Done(Box<Metrics>),
    /// The worker failed.
    Failed {
        /// The error message.
        reason: String,
    },
}

/// Progress of one worker, or of all workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Responses so far.
    pub responses: u64,
    /// Failures so far.
    pub failures: u64,
    /// Open connections.
    pub open: u32,
    /// Requests that are due and wait for a connection.
    pub waiting: u64,
}

/// The number of samples to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SampleCounts {
    /// Requests on idle connections.
    pub(crate) on_idle: u32,
    /// New connections with one request each.
    pub(crate) on_new: u32,
    /// Unreported requests on idle connections before the samples: the worker has slept, so its caches are cold.
    pub(crate) discarded: u32,
}

/// Samples, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the unit comes last")]
pub(crate) struct SampleTimes {
    /// Requests on idle connections: time to the first and to the last byte of the response.
    pub(crate) on_idle_ns: Vec<[u64; 2]>,
    /// New connections: handshake; time from the request to the first and to the last byte.
    pub(crate) on_new_ns: Vec<[u64; 3]>,
    /// The worker's CPU time during the samples.
    pub(crate) cpu_ns: u64,
    /// The elapsed time of the samples.
    pub(crate) elapsed_ns: u64,
}
