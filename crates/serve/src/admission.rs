//! Who gets in: as many connections as a worker has room for, and of each address as many as it may have.

use crate::access::Addresses;
use crate::config::Config;
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
    addresses: Addresses,
    counters: Arc<Counters>,
}

/// There is no room: in the whole worker, or for this address.
#[derive(Debug)]
pub(crate) struct Refusal {
    is_full: bool,
}

impl Admission {
    pub(crate) fn new(config: &Config, counters: &Arc<Counters>) -> Result<Self, Error> {
        let descriptors = limits::raise(Resource::Descriptors)?.saturating_sub(SPARE_DESCRIPTORS).max(1);
        let share = config.connections.map_or(usize::MAX, |all| all.div_ceil(config.workers.max(1)));
        Ok(Self {
            most: share.min(descriptors as usize),
            addresses: Addresses::new(config.connections_per_address),
            counters: counters.clone(),
        })
    }

    /// Counts a connection that was accepted beside so many others, and says whether there is room for it.
    #[inline]
    pub(crate) fn enter(&mut self, others: usize, peer: Option<IpAddr>) -> Result<(), Refusal> {
        self.counters.accepted.add(1);
        let is_full = others >= self.most;
        if !is_full && self.addresses.enter(peer) {
            return Ok(());
        }
        let count = if is_full { &self.counters.refused_full } else { &self.counters.refused_address };
        count.add(1);
        self.counters.closed.add(1);
        Err(Refusal { is_full })
    }

    /// Counts a connection that was let in and has ended.
    #[inline]
    pub(crate) fn leave(&mut self, peer: Option<IpAddr>) {
        self.addresses.leave(peer);
        self.counters.closed.add(1);
    }
}

impl Refusal {
    /// Tells the client. One attempt: whoever is refused is not waited for.
    #[cold]
    pub(crate) fn tell(&self, fd: &OwnedFd, is_tls: bool, site: &mut Site, outbox: &mut Outbox) {
        site.refuse_connection(self.is_full, outbox);
        // Who speaks TLS would not understand it.
        if !is_tls {
            let _ = stream::send(fd, &outbox.bytes, false);
        }
        say_end(fd);
    }
}
