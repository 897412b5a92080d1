//! A load as the user specifies it.

use crate::plan::Arrivals;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A load as the user specifies it.
#[derive(Debug, Clone)]
pub struct LoadSpec {
    /// URLs, used round-robin.
    pub urls: Vec<String>,
    /// Hosts on public addresses that the user permits.
    pub allowed_hosts: Vec<String>,
    /// The method.
    pub method: String,
    /// Additional header fields, `Name: value`.
    pub headers: Vec<String>,
    /// An access log whose requests are sent.
    pub replay: Option<PathBuf>,
    /// Whether to accept any certificate.
    pub insecure: bool,
    /// PEM file of the certificates to trust; those of the system if there is none.
    pub ca_file: Option<PathBuf>,
    /// Connections of a closed or open loop.
    pub connections: u32,
    /// Requests in flight per connection.
    pub pipeline: u32,
    /// Whether to speak HTTP/2, with a stream for each request in flight.
    pub http2: bool,
    /// Requests per connection before it is replaced.
    pub per_connection: Option<u64>,
    /// Requests per second of an open loop; a closed loop if there is none.
    pub rate: Option<f64>,
    /// The distribution of the requests of an open loop over time.
    pub arrivals: Arrivals,
    /// Idle connections, instead of a loop.
    pub idle: Option<IdleSpec>,
    /// Length of the measured time.
    pub duration: Option<Duration>,
    /// Number of measured requests.
    pub request_count: Option<u64>,
    /// Time of load before the measured time.
    pub warm_up: Duration,
    /// Time limit of a handshake and of a response.
    pub timeout: Duration,
    /// Maximum number of new connections per second.
    pub connect_rate: Option<f64>,
    /// Number of workers; as few as the limit on open files allows if there is none.
    pub workers: Option<u32>,
    /// CPUs to pin the workers to, round-robin; none to leave them unpinned.
    pub cpus: Vec<u32>,
    /// Source addresses with port 0; chosen automatically if empty.
    pub sources: Vec<SocketAddr>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Name of the event loop's backend.
    pub backend: String,
    /// Names of gates that may fail.
    pub waived: Vec<String>,
}

/// Idle connections as the user specifies them.
#[derive(Debug, Clone)]
pub struct IdleSpec {
    /// Number of idle connections at the last step.
    pub n: u32,
    /// Numbers of idle connections to measure at; those of [`crate::job::ladder`] if empty.
    pub steps: Vec<u32>,
    /// Samples on idle connections, and on new ones, at each step.
    pub samples: u32,
    /// Number of repetitions.
    pub passes: u32,
    /// Time between opening the connections of a step and its samples.
    pub settle: Duration,
    /// Process ID of a server on this host whose memory is reported.
    pub server_pid: Option<u32>,
    /// Maximum number of connections in a handshake, or before their first response, at a time: over all workers, each
    /// of which has a part of it. If there is none, 512 and at most 128 in each worker.
    pub window: Option<u32>,
}
