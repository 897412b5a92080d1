//! Admission of connections. Limits are the descriptors of each worker, and the maximum that the server allows in total
//! and from each address.

use crate::config::{Accepting, Config};
use crate::connection::say_end;
use crate::counters::Counters;
use crate::error::Error;
use crate::limiter::{ConnectionLimiter, Full};
use crate::send_buffers::SendBuffers;
use crate::site::Site;
use crate::tls;
use landau_sys::descriptor::is_open;
use landau_sys::limits::{self, Resource};
use landau_sys::stream;
use std::net::IpAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

/// The reserve for files is one in this many of the free descriptors.
const SPARE_SHARE: u64 = 4;

/// The maximum number of descriptors reserved for files. Large files are few, and small ones are in the cache.
const SPARE_MOST: u64 = 80;

/// The maximum number of refused connections that stay open.
const MANY_REFUSED: usize = 1024;

/// The maximum number of refused connections that stay open with descriptors of the reserve.
const FEW_REFUSED: u64 = 16;

/// The server's own descriptors are below this number, because they were opened first.
const OWN_MOST: u64 = 1024;

/// A capacity below this is reported even if the operator requested no number of connections.
const FEW: usize = 500;

/// Admits connections, and counts those that have ended.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The number of connections that this worker has descriptors for.
    most: usize,
    /// The number of refused connections that may stay open in any case.
    few_refused: usize,
    /// Shared by all workers.
    limiter: Arc<ConnectionLimiter>,
    counters: Counters,
}

/// A connection that was not admitted.
#[derive(Debug)]
pub(crate) struct Refusal(Full);

impl Admission {
    pub(crate) fn new(config: &Config, limiter: Arc<ConnectionLimiter>, counters: Counters) -> Result<Self, Error> {
        let limit = limits::raise(Resource::Descriptors)?;
        let own = (0..limit.min(OWN_MOST)).filter(|&number| is_open(number as RawFd)).count() as u64;
        // With `handed`, and on systems other than Linux, all workers share one descriptor table.
        let is_shared = config.accepting == Accepting::Handed || cfg!(not(target_os = "linux"));
        let sharers = if is_shared { config.workers.max(1) as u64 } else { 1 };
        let free = limit.saturating_sub(own) / sharers;
        let few_refused = (reserve(free) / 2).min(FEW_REFUSED) as usize;
        Ok(Self { most: room(free), few_refused, limiter, counters })
    }

    /// Returns the maximum number of refused connections that may stay open in addition to `open` admitted ones. This
    /// is the number that the worker still has descriptors for, but at least a few, with descriptors of the reserve.
    #[inline]
    pub(crate) fn most_refused(&self, open: usize) -> usize {
        self.most.saturating_sub(open).clamp(self.few_refused, MANY_REFUSED)
    }

    /// The number of connections that this worker has descriptors for.
    pub(crate) fn capacity(&self) -> usize {
        self.most
    }

    /// Returns whether the limits of the server admit another connection of a client, apart from descriptors.
    pub(crate) fn has_room_for(&self, peer: Option<IpAddr>) -> bool {
        self.limiter.has_room(peer)
    }

    /// Counts an accepted connection, and admits it unless a limit is reached. `others` is the number of open
    /// connections.
    #[inline]
    pub(crate) fn enter(&mut self, others: usize, peer: Option<IpAddr>) -> Result<(), Refusal> {
        self.counters.accepted().add(1);
        let entered = if others < self.most { self.limiter.enter(peer) } else { Err(Full::Server) };
        entered.map_err(|full| {
            let count = match full {
                Full::Server => self.counters.refused_full(),
                Full::Address => self.counters.refused_address(),
            };
            count.add(1);
            self.counters.closed().add(1);
            Refusal(full)
        })
    }

    /// Counts a connection from a proxy against the limit of its client's address; returns the reason if the limit is
    /// reached.
    pub(crate) fn enter_client(&mut self, client: Option<IpAddr>) -> Result<(), Refusal> {
        if self.limiter.enter_address(client) {
            return Ok(());
        }
        self.counters.refused_address().add(1);
        Err(Refusal(Full::Address))
    }

    /// Counts an admitted connection that has ended.
    #[inline]
    pub(crate) fn leave(&mut self, peer: Option<IpAddr>) {
        self.limiter.leave(peer);
        self.counters.closed().add(1);
    }
}

/// Returns how many of `free` descriptors are reserved for files.
fn reserve(free: u64) -> u64 {
    (free / SPARE_SHARE).min(SPARE_MOST)
}

/// Returns the number of connections that `free` descriptors allow.
fn room(free: u64) -> usize {
    usize::try_from(free - reserve(free)).unwrap_or(usize::MAX).max(1)
}

/// Returns a note for the operator if the capacity is small or below what was requested.
pub(crate) fn note(most: usize, config: &Config) -> Option<String> {
    let is_short = config.connections.map_or(most < FEW, |asked| most < asked);
    let limit = limits::get(Resource::Descriptors).ok().filter(|_| is_short)?.0;
    let count = if most == 1 { "1 connection".to_owned() } else { format!("{most} connections") };
    Some(format!("room for {count}: RLIMIT_NOFILE is {limit}; raise it with ulimit -n, or LimitNOFILE= of the service"))
}

impl Refusal {
    /// Answers the client with a single attempt to send: the server does not wait for a refused client.
    #[cold]
    pub(crate) fn tell(&self, fd: &OwnedFd, is_tls: bool, site: &mut Site, send_buffers: &mut SendBuffers) {
        if is_tls {
            return tls::refuse(fd);
        }
        site.refuse_connection(self.0, send_buffers);
        let _ = stream::send(fd, &send_buffers.bytes, true);
        say_end(fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reserve of 96 descriptors, independent of the limit, once left a table of 64 with room for one connection.
    #[test]
    fn most_free_descriptors_of_a_small_table_are_for_connections() {
        assert_eq!([0, 1, 4, 52, 1012, 20_000].map(room), [1, 1, 3, 39, 932, 19_920]);
        let with = |connections| Config { connections, ..Config::new(".") };
        assert!(note(39, &with(None)).unwrap().starts_with("room for 39 connections: RLIMIT_NOFILE is "));
        assert_eq!((note(39, &with(Some(39))), note(932, &with(None))), (None, None));
        assert!(note(932, &with(Some(1000))).unwrap().contains("raise it with ulimit -n"));
    }
}
