//! Who gets in: as many connections as a worker has descriptors for, and as many as the server may have in all and from
//! each address.

use crate::access::{Crowd, Full};
use crate::connection::say_end;
use crate::counters::Counters;
use crate::error::Error;
use crate::outbox::Outbox;
use crate::site::Site;
use landau_sys::limits::{self, Resource};
use landau_sys::stream;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Descriptors that are kept free for files and for the server's own.
const SPARE_DESCRIPTORS: u64 = 96;

/// Lets connections in, and counts those that have left.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The most connections of this worker.
    most: usize,
    /// Those of all workers.
    crowd: Arc<Crowd>,
    counters: Arc<Counters>,
}

/// There is no room.
#[derive(Debug)]
pub(crate) struct Refusal(Full);

impl Admission {
    pub(crate) fn new(crowd: Arc<Crowd>, counters: &Arc<Counters>) -> Result<Self, Error> {
        let descriptors = limits::raise(Resource::Descriptors)?.saturating_sub(SPARE_DESCRIPTORS).max(1);
        Ok(Self { most: descriptors as usize, crowd, counters: counters.clone() })
    }

    /// Counts a connection that was accepted beside so many others, and says whether there is room for it.
    #[inline]
    pub(crate) fn enter(&mut self, others: usize, peer: Option<IpAddr>) -> Result<(), Refusal> {
        self.counters.accepted.add(1);
        let entered = if others < self.most { self.crowd.enter(peer) } else { Err(Full::Server) };
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
        self.crowd.leave(peer);
        self.counters.closed.add(1);
    }
}

impl Refusal {
    /// Tells the client. One attempt: whoever is refused is not waited for.
    #[cold]
    pub(crate) fn tell(&self, fd: &OwnedFd, is_tls: bool, site: &mut Site, outbox: &mut Outbox) {
        site.refuse_connection(self.0, outbox);
        // Who speaks TLS would not understand it.
        if !is_tls {
            let _ = stream::send(fd, &outbox.bytes, false);
        }
        say_end(fd);
    }
}
