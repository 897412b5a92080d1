//! The plan of a worker: plain data, sent to it as JSON.

use crate::target::Endpoint;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The version of the protocol between controller and worker, which must be the same on both sides.
pub const PROTOCOL: u32 = 7;

/// The plan of one worker, its share of the load: each worker has its own connections, schedule and source addresses.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// The protocol version, [`PROTOCOL`].
    pub version: u32,
    /// The worker's number, from 0, and the number of workers.
    pub share: (u32, u32),
    /// Servers and their requests; new connections use the servers round-robin.
    pub origins: Vec<Origin>,
    /// The kind of load.
    pub load: Load,
    /// Connections of a closed or open loop; for an idle load, the controller sends the number step by step.
    pub connections: u32,
    /// Maximum number of requests in flight per connection.
    pub pipeline: u32,
    /// Whether to use HTTP/2, with a stream for each request in flight.
    pub http2: bool,
    /// Requests per connection before it is replaced.
    pub per_connection: Option<u64>,
    /// Length of the measured time.
    pub duration_ns: Option<u64>,
    /// Number of measured requests.
    pub request_count: Option<u64>,
    /// Time of load before the measured time.
    pub warm_up_ns: u64,
    /// Time limit of a handshake and of a response.
    pub timeout_ns: u64,
    /// Maximum number of connections in a handshake, or before their first response, at a time.
    pub window: u32,
    /// The shortest time between the starts of two connections; 0 for no limit.
    pub connect_gap_ns: u64,
    /// Seed of every random choice.
    pub seed: u64,
    /// The CPU to pin the worker to.
    pub cpu: Option<u32>,
    /// Name of the event loop's backend.
    pub backend: String,
    /// Source addresses and ports.
    pub sources: Sources,
}

impl Plan {
    /// Returns whether each request of an open loop opens a connection, whose handshake is part of its latency.
    pub(crate) fn connects_per_request(&self) -> bool {
        matches!(self.load, Load::Open { .. }) && self.per_connection == Some(1)
    }
}

/// The kind of load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Closed loop: each connection sends its next request after the previous response.
    Closed,
    /// Open loop: requests are due on a schedule, whether earlier ones were answered or not.
    Open {
        /// Requests per second, of this worker.
        per_second: f64,
        /// The distribution of the requests over time.
        arrivals: Arrivals,
    },
    /// Idle connections, opened step by step; the controller asks for samples at each step.
    Idle,
}

/// The distribution of the requests of an open loop over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// A Poisson process: independent, exponentially distributed intervals, like the requests of many users.
    #[default]
    Poisson,
    /// Constant intervals.
    Constant,
}

/// A server and its requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Origin {
    /// Address of the server.
    pub endpoint: Endpoint,
    /// TLS settings for `https`.
    pub tls: Option<Tls>,
    /// The different requests.
    pub requests: Vec<Request>,
    /// The order of the requests, as indices, repeated after the last one; empty for the order of the list.
    pub order: Vec<u32>,
}

/// TLS settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tls {
    /// The name that the certificate must be valid for.
    pub name: String,
    /// Whether to accept any certificate.
    pub insecure: bool,
    /// PEM file of the certificates to trust; those of the system if there is none.
    pub ca_file: Option<PathBuf>,
}

/// A request in the forms in which it is sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The bytes to send on a connection that stays open.
    pub bytes: String,
    /// The bytes to send as the last request of a connection, with `Connection: close`.
    pub last_bytes: String,
    /// The fields to send with HTTP/2, instead of the bytes.
    pub fields: Vec<(String, String)>,
}

/// Source addresses and ports of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sources {
    /// Addresses with port 0, used round-robin; empty to leave the choice to the kernel. Link-local ones have a scope.
    pub addresses: Vec<SocketAddr>,
    /// The choice of ports.
    pub ports: Ports,
}

/// The choice of source ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ports {
    /// The kernel chooses an ephemeral port at `connect`.
    Kernel,
    /// The kernel chooses from a range at `connect` (`IP_BIND_ADDRESS_NO_PORT`, `IP_LOCAL_PORT_RANGE`).
    Range {
        /// First port.
        low: u16,
        /// Last port.
        high: u16,
    },
    /// The generator binds the ports of a range one after another.
    Explicit {
        /// First port.
        low: u16,
        /// Last port.
        high: u16,
    },
}

/// Returns an address as text without its port, but with its scope: `fe80::1%2`.
pub(crate) fn without_port(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        _ => address.ip().to_string(),
    }
}

impl std::fmt::Display for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.addresses.as_slice() {
            [] => f.write_str("address chosen by the kernel")?,
            [one] => f.write_str(&without_port(*one))?,
            [first, .., last] => {
                let (first, last) = (without_port(*first), without_port(*last));
                write!(f, "{} addresses ({first} to {last})", self.addresses.len())?;
            }
        }
        match self.ports {
            Ports::Kernel => f.write_str(", ephemeral ports"),
            Ports::Range { low, high } => {
                write!(f, ", ports {low}–{high} chosen by the kernel (IP_BIND_ADDRESS_NO_PORT, IP_LOCAL_PORT_RANGE)")
            }
            Ports::Explicit { low, high } => write!(f, ", ports {low}–{high} chosen by the generator"),
        }
    }
}
