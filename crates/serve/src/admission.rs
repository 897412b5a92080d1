//! Who gets in: as many connections as a worker has descriptors for, and as many as the server may have in all and from
//! each address.

use crate::config::{Accepting, Config};
use crate::connection::say_end;
use crate::counters::Counters;
use crate::error::Error;
use crate::limiter::{ConnectionLimiter, Full};
use crate::send_buffers::SendBuffers;
use crate::site::Site;
use landau_sys::descriptor::is_open;
use landau_sys::limits::{self, Resource};
use landau_sys::stream;
use std::net::IpAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

/// Of the descriptors that are left, this part is kept free for the files of connections.
const SPARE_SHARE: u64 = 4;

/// The most that are kept free: large files are few, and small ones are in the cache.
const SPARE_MOST: u64 = 80;

/// What the server itself has open has low numbers: it was opened first.
const OWN_MOST: u64 = 1024;

/// A room for fewer connections than this is worth a word, whoever asked for how many.
const FEW: usize = 500;

/// More than a request that is refused unread has, and less than would keep the others waiting.
const DISCARD_BYTES: usize = 64 << 10;

/// Lets connections in, and counts those that have left.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The most connections for which this worker has descriptors.
    most: usize,
    /// Those of all workers.
    limiter: Arc<ConnectionLimiter>,
    counters: Arc<Counters>,
}

/// There is no room.
#[derive(Debug)]
pub(crate) struct Refusal(Full);

impl Admission {
    pub(crate) fn new(
        config: &Config,
        limiter: Arc<ConnectionLimiter>,
        counters: &Arc<Counters>,
    ) -> Result<Self, Error> {
        let limit = limits::raise(Resource::Descriptors)?;
        let own = (0..limit.min(OWN_MOST)).filter(|&number| is_open(number as RawFd)).count() as u64;
        // Where one accepts for all, and elsewhere than on Linux, all workers have one table of descriptors.
        let is_shared = config.accepting == Accepting::Handed || cfg!(not(target_os = "linux"));
        let sharers = if is_shared { config.workers.max(1) as u64 } else { 1 };
        Ok(Self { most: room(limit.saturating_sub(own) / sharers), limiter, counters: counters.clone() })
    }

    /// The most connections for which this worker has descriptors.
    pub(crate) fn capacity(&self) -> usize {
        self.most
    }

    /// Counts a connection that was accepted beside so many others, and says whether there is room for it.
    #[inline]
    pub(crate) fn enter(&mut self, others: usize, peer: Option<IpAddr>) -> Result<(), Refusal> {
        self.counters.accepted.add(1);
        let entered = if others < self.most { self.limiter.enter(peer) } else { Err(Full::Server) };
        entered.map_err(|full| {
            let count = match full {
                Full::Server => &self.counters.refused_full,
                Full::Address => &self.counters.refused_address,
            };
            count.add(1);
            self.counters.closed.add(1);
            Refusal(full)
        })
    }

    /// Counts a connection that was let in and has ended.
    #[inline]
    pub(crate) fn leave(&mut self, peer: Option<IpAddr>) {
        self.limiter.leave(peer);
        self.counters.closed.add(1);
    }
}

/// Room for connections in so many descriptors that are free.
fn room(free: u64) -> usize {
    let spare = (free / SPARE_SHARE).min(SPARE_MOST);
    usize::try_from(free - spare).unwrap_or(usize::MAX).max(1)
}

/// What the operator should know of a room for so many connections, if it is small or not what was asked for.
pub(crate) fn note(most: usize, config: &Config) -> Option<String> {
    let is_short = config.connections.map_or(most < FEW, |asked| most < asked);
    let limit = limits::get(Resource::Descriptors).ok().filter(|_| is_short)?.0;
    let count = if most == 1 { "1 connection".to_owned() } else { format!("{most} connections") };
    Some(format!("room for {count}: RLIMIT_NOFILE is {limit}; raise it with ulimit -n, or LimitNOFILE= of the service"))
}

impl Refusal {
    /// Tells the client. One attempt: whoever is refused is not waited for.
    #[cold]
    pub(crate) fn tell(&self, fd: &OwnedFd, is_tls: bool, site: &mut Site, send_buffers: &mut SendBuffers) {
        site.refuse_connection(self.0, send_buffers);
        // Who speaks TLS would not understand it.
        if !is_tls {
            let _ = stream::send(fd, &send_buffers.bytes, true);
        }
        say_end(fd);
        // To close on a request that is here already would be a reset, which destroys the answer on its way.
        let _ = stream::discard(fd, DISCARD_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 96 were kept free of however few: 64 were room for one connection.
    #[test]
    fn a_small_table_has_room_for_most_of_what_is_free() {
        assert_eq!([0, 1, 4, 52, 1012, 20_000].map(room), [1, 1, 3, 39, 932, 19_920]);
        let with = |connections| Config { connections, ..Config::new(".") };
        assert!(note(39, &with(None)).unwrap().starts_with("room for 39 connections: RLIMIT_NOFILE is "));
        assert_eq!((note(39, &with(Some(39))), note(932, &with(None))), (None, None));
        assert!(note(932, &with(Some(1000))).unwrap().contains("raise it with ulimit -n"));
    }
}
