//! DNS queries: the MX hosts of a domain, and the addresses of a host.
//!
//! A [`Stub`] queries one name server, on the engine's event loop: thousands of queries need no thread and never block.
//! A [`System`] queries the name servers in the configuration of this system.

mod answer;
mod stub;
mod system;

use stub::Stub;
use system::System;

use crate::error;
use crate::network::{Network, Ready};
use landau_wire::dns::{NameBuf, Rcode, Type};
use std::net::{IpAddr, SocketAddr};

/// Maximum number of aliases (CNAME) followed from one name.
const MOST_ALIASES: u32 = 8;

/// The bounds of the time for which an answer is cached, in seconds. A time to live of 0 must not cause a query for
/// every recipient of a domain, and an error in a zone must not last longer than a day.
const TTL_S: std::ops::RangeInclusive<u32> = 1..=86_400;

/// The type of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The hosts that take mail for the name.
    Mx,
    /// The IPv4 addresses of the name.
    A,
    /// The IPv6 addresses of the name.
    Aaaa,
}

impl Kind {
    fn record(self) -> Type {
        match self {
            Self::Mx => Type::MX,
            Self::A => Type::A,
            Self::Aaaa => Type::AAAA,
        }
    }
}

/// The records of an answer; empty if the name has none of the type. Names are in lower case, without a trailing dot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Records {
    /// Preferences and names of MX hosts; the name `.` belongs to a null MX (RFC 7505).
    pub(crate) mx: Vec<(u16, Box<str>)>,
    pub(crate) addresses: Vec<IpAddr>,
    /// Addresses of MX hosts from the additional section of the answer.
    pub(crate) additional: Vec<(Box<str>, IpAddr)>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("the name does not exist (NXDOMAIN)")]
    NoName,
    #[error("the name server failed (SERVFAIL)")]
    ServerFailure,
    #[error("the name server refuses to answer (REFUSED)")]
    Refused,
    #[error("the name server answered with code {}", .0.0)]
    Code(Rcode),
    #[error("the name server is not authoritative for the name (lame delegation)")]
    Lame,
    #[error("the name server did not answer")]
    TimedOut,
    #[error("cannot query the name server: {0}")]
    Unreachable(landau_sys::Error),
    #[error("the answer of the name server is malformed")]
    Malformed,
    #[error("the name has more than 8 aliases (CNAME) in a row")]
    Aliases,
}

impl Problem {
    /// Returns whether the problem is permanent. All others may be temporary failures of a name server.
    pub(crate) fn is_final(self) -> bool {
        self == Self::NoName
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) records: Result<Records, Problem>,
    /// How long the answer may be cached, in seconds.
    pub(crate) ttl_s: u32,
}

impl Answer {
    /// How long a failure of a name server is cached (RFC 2308 section 7 allows up to 5 minutes).
    const FAILURE_TTL_S: u32 = 30;

    fn problem(problem: Problem) -> Self {
        Self { records: Err(problem), ttl_s: Self::FAILURE_TTL_S }
    }
}

/// A resolver.
#[derive(Debug)]
pub(crate) enum Resolver {
    /// One name server.
    Stub(Box<Stub>),
    /// The resolver of this system.
    System(System),
}

impl Resolver {
    /// The number of network ids used by lookups, from 0 on.
    pub(crate) const NETWORK_IDS: u32 = Stub::NETWORK_IDS;

    /// Returns the resolver that queries `server`, or otherwise the resolver of this system.
    ///
    /// # Errors
    ///
    /// The configuration of the system cannot be read.
    pub(crate) fn new(server: Option<SocketAddr>, seed: u64) -> error::Result<Self> {
        Ok(match server {
            Some(server) => Self::Stub(Box::new(Stub::new(server, seed))),
            None => Self::System(System::start()?),
        })
    }

    /// Starts a query. The answer carries `number`.
    pub(crate) fn ask(&mut self, number: u32, name: NameBuf, kind: Kind) {
        match self {
            Self::Stub(stub) => stub.ask(number, name, kind),
            Self::System(system) => system.ask(number, name, kind),
        }
    }

    /// Returns the next answer.
    pub(crate) fn next_answer(&mut self) -> Option<(u32, Answer)> {
        match self {
            Self::Stub(stub) => stub.next_answer(),
            Self::System(system) => system.next_answer(),
        }
    }

    /// Returns when work is due without an event.
    pub(crate) fn next_ns(&self) -> u64 {
        match self {
            Self::Stub(stub) => stub.next_ns(),
            Self::System(system) => system.next_ns(),
        }
    }

    /// Does the work that is due.
    pub(crate) fn advance(&mut self, network: &mut impl Network, now_ns: u64) {
        match self {
            Self::Stub(stub) => stub.advance(network, now_ns),
            Self::System(system) => system.advance(now_ns),
        }
    }

    /// Handles an event of a socket for lookups.
    pub(crate) fn ready(&mut self, network: &mut impl Network, ready: Ready, buffer: &mut [u8]) {
        if let Self::Stub(stub) = self {
            stub.ready(network, ready, buffer);
        }
    }
}
