//! What a worker is to do: plain data that travels to it as JSON.

use crate::schedule::Arrivals;
use crate::target::Endpoint;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// The version of what controller and worker say to each other. Both must have the same.
pub const PROTOCOL: u32 = 2;

/// What a worker is to do. A slice of the whole: each worker has its own connections, schedule and source addresses.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// [`PROTOCOL`].
    pub version: u32,
    /// The worker's number, and how many there are.
    pub share: (u32, u32),
    /// Where connections go and what is asked there; connections take turns.
    pub origins: Vec<Origin>,
    /// The kind of load.
    pub load: Load,
    /// Connections of a loop: those of a crowd come by order.
    pub connections: u32,
    /// How many requests may be under way on one connection.
    pub pipeline: u32,
    /// After how many requests a connection is replaced.
    pub per_connection: Option<u64>,
    /// How long load is made and measured.
    pub duration_ns: Option<u64>,
    /// How many requests are made.
    pub request_count: Option<u64>,
    /// How long load is made before anything is measured.
    pub warm_up_ns: u64,
    /// How long a handshake or an answer may take.
    pub timeout_ns: u64,
    /// How many connections may be on their way to their first answer or handshake at once.
    pub window: u32,
    /// The least time between two connections' beginnings; 0 for none.
    pub connect_gap_ns: u64,
    /// Drives every random choice.
    pub seed: u64,
    /// The processor to stay on.
    pub processor: Option<u32>,
    /// The event loop's mechanism, by name.
    pub mechanism: String,
    /// Where connections come from.
    pub sources: Sources,
}

impl Plan {
    /// Whether each request of an open loop has a connection of its own, whose handshake is part of what a user waits.
    pub(crate) fn is_of_fresh_connections(&self) -> bool {
        matches!(self.load, Load::Open { .. }) && self.per_connection == Some(1)
    }
}

/// The kind of load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// The next request follows the last answer.
    Closed,
    /// Requests are due whether the last ones were answered or not.
    Open {
        /// Requests a second, of this worker.
        per_second: f64,
        /// How they follow one another.
        arrivals: Arrivals,
    },
    /// Idle connections pile up; samples are taken by order.
    Crowd,
}

/// A server, and what is asked there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Origin {
    /// Where it is.
    pub endpoint: Endpoint,
    /// How the connection is made safe, if it is.
    pub tls: Option<Tls>,
    /// The requests.
    pub requests: Vec<Request>,
    /// Which of them follow one another, from the first again after the last; as they stand where there is nothing.
    pub order: Vec<u32>,
}

/// How a connection is made safe.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tls {
    /// The name that the certificate must be for.
    pub name: String,
    /// Whether any certificate will do.
    pub insecure: bool,
    /// Certificates to trust, as PEM; the system's own where there is none.
    pub roots: Option<PathBuf>,
}

/// A request as it is sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Its bytes on a connection that is used again.
    pub bytes: String,
    /// Its bytes as the last one on a connection.
    pub last_bytes: String,
}

/// Where connections come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sources {
    /// Own addresses, taken in turn; none to leave it to the system.
    pub addresses: Vec<IpAddr>,
    /// How ports are chosen.
    pub ports: Ports,
}

/// How the ports of connections are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ports {
    /// By the system, when it connects.
    System,
    /// By the system, when it connects, from a range of ours (`IP_BIND_ADDRESS_NO_PORT`, `IP_LOCAL_PORT_RANGE`).
    Range {
        /// The first port.
        low: u16,
        /// The last one.
        high: u16,
    },
    /// By us, one after another.
    Explicit {
        /// The first port.
        low: u16,
        /// The last one.
        high: u16,
    },
}

impl std::fmt::Display for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = match self.ports {
            Ports::System => "ports by the system".to_owned(),
            Ports::Range { low, high } => {
                format!("ports {low}–{high} by the system (IP_BIND_ADDRESS_NO_PORT, IP_LOCAL_PORT_RANGE)")
            }
            Ports::Explicit { low, high } => format!("ports {low}–{high}, each chosen by us"),
        };
        match self.addresses.as_slice() {
            [] => write!(f, "the system's address, {how}"),
            [one] => write!(f, "{one}, {how}"),
            [first, .., last] => write!(f, "{} addresses ({first} to {last}), {how}", self.addresses.len()),
        }
    }
}
