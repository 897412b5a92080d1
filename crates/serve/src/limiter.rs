//! Limits on the number of connections, in total and from each address, over all workers.
//!
//! Without limits nothing is counted. A limit on the total costs an atomic operation for each accepted and each closed
//! connection. A limit for each address also costs a lock that is shared with few other addresses.

use crate::config::Config;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of parts of the table of addresses, each with its own lock.
const PARTS: usize = 64;

/// Counts the server's connections, if their number is limited.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    /// The maximum number of connections in total.
    most: Option<usize>,
    count: AtomicUsize,
    addresses: Option<Addresses>,
}

/// The limit that was reached: that of the server, or of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Server,
    Address,
}

impl ConnectionLimiter {
    pub(crate) fn new(config: &Config) -> Self {
        let addresses = config.connections_per_address.map(Addresses::new);
        Self { most: config.connections, count: AtomicUsize::new(0), addresses }
    }

    /// Counts a connection, unless a limit is reached.
    #[inline]
    pub(crate) fn enter(&self, peer: Option<IpAddr>) -> Result<(), Full> {
        if let Some(most) = self.most {
            let more = |count: usize| (count < most).then_some(count + 1);
            self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| Full::Server)?;
        }
        if let (Some(addresses), Some(peer)) = (&self.addresses, peer)
            && !addresses.enter(peer)
        {
            self.leave_server();
            return Err(Full::Address);
        }
        Ok(())
    }

    /// Returns whether [`enter`](Self::enter) would count a connection now.
    pub(crate) fn has_room(&self, peer: Option<IpAddr>) -> bool {
        self.most.is_none_or(|most| self.count.load(Ordering::Relaxed) < most)
            && match (&self.addresses, peer) {
                (Some(addresses), Some(peer)) => addresses.has_room(peer),
                _ => true,
            }
    }

    /// Counts a connection, so far counted without an address, against the limit of its client's address. Returns
    /// false, without counting it, if that limit is reached.
    pub(crate) fn enter_address(&self, client: Option<IpAddr>) -> bool {
        match (&self.addresses, client) {
            (Some(addresses), Some(client)) => addresses.enter(client),
            _ => true,
        }
    }

    /// Counts a connection that has ended.
    #[inline]
    pub(crate) fn leave(&self, peer: Option<IpAddr>) {
        self.leave_server();
        if let (Some(addresses), Some(peer)) = (&self.addresses, peer) {
            addresses.leave(peer);
        }
    }

    #[inline]
    fn leave_server(&self) {
        if self.most.is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

type Counts = HashMap<IpAddr, u32, RandomState>;

/// Connections by address. An address without connections takes no memory, unless the limit is 0, which the command
/// line refuses.
#[derive(Debug)]
struct Addresses {
    most: u32,
    parts: Box<[Mutex<Counts>]>,
    /// Selects an address's part. The hash is keyed, so that no client can choose addresses that share a part.
    choice: RandomState,
}

impl Addresses {
    fn new(most: u32) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self { most, parts, choice: RandomState::default() }
    }

    /// Counts a connection; returns false, without counting, if the address's limit is reached.
    fn enter(&self, address: IpAddr) -> bool {
        let address = whole(address);
        let mut counts = self.part(address);
        let count = counts.entry(address).or_insert(0);
        let has_room = *count < self.most;
        *count += u32::from(has_room);
        has_room
    }

    fn has_room(&self, address: IpAddr) -> bool {
        let address = whole(address);
        self.part(address).get(&address).is_none_or(|count| *count < self.most)
    }

    fn leave(&self, address: IpAddr) {
        let address = whole(address);
        if let std::collections::hash_map::Entry::Occupied(mut count) = self.part(address).entry(address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    fn part(&self, address: IpAddr) -> MutexGuard<'_, Counts> {
        let place = self.choice.hash_one(address) as usize % self.parts.len();
        self.parts[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the part of an address that identifies one subscriber: a whole IPv4 address, or the first 64 bits of an IPv6
/// address.
fn whole(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => (u128::from(address) >> 64 << 64).to_be_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(in_all: Option<usize>, per_address: Option<u32>) -> ConnectionLimiter {
        let mut config = Config::new(".");
        (config.connections, config.connections_per_address) = (in_all, per_address);
        ConnectionLimiter::new(&config)
    }

    #[test]
    fn addresses_and_ipv6_networks_are_limited() {
        let address = |text: &str| Some(text.parse().unwrap());
        let addresses = limiter(None, Some(2));
        let enters = |text: &str| addresses.enter(address(text)).is_ok();
        let has_room = |text: &str| addresses.has_room(address(text));
        assert!(enters("10.0.0.1") && has_room("10.0.0.1") && enters("10.0.0.1"));
        assert!(!has_room("10.0.0.1") && !enters("10.0.0.1") && has_room("10.0.0.2") && enters("10.0.0.2"));
        addresses.leave(address("10.0.0.1"));
        assert!(enters("10.0.0.1"));
        assert!(enters("2001:db8::1") && enters("2001:db8::2"));
        assert!(!enters("2001:db8::3") && enters("2001:db8:0:1::3"));
        assert!(addresses.enter(None).is_ok() && limiter(None, None).enter(address("10.0.0.1")).is_ok());
    }

    /// A connection that one limit refuses is not counted for the other.
    #[test]
    fn the_total_is_limited() {
        let address = |number: u8| Some(IpAddr::from([10, 0, 0, number]));
        let both = limiter(Some(2), Some(1));
        assert_eq!((both.enter(address(1)), both.enter(address(1))), (Ok(()), Err(Full::Address)));
        assert_eq!((both.enter(address(2)), both.enter(address(3))), (Ok(()), Err(Full::Server)));
        both.leave(address(1));
        assert_eq!((both.enter(address(3)), both.enter(address(1))), (Ok(()), Err(Full::Server)));
    }
}
