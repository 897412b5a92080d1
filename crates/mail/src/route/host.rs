//! The servers of a site, and the order in which they are tried.

use super::Server;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::net::SocketAddr;

/// How long an address that failed is tried after all others, in nanoseconds.
const AVOIDED_NS: u64 = 60_000_000_000;

/// An address to which a connection may be attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The index of the host in its site.
    pub(crate) host: u32,
    pub(crate) address: SocketAddr,
}

/// A server of a site.
#[derive(Debug)]
struct Host {
    preference: u16,
    name: Box<str>,
    /// Addresses, and until when each is avoided.
    addresses: Vec<(SocketAddr, u64)>,
}

/// The servers of a site.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    /// By preference, the best first.
    hosts: Vec<Host>,
}

impl Hosts {
    /// Returns the site of one server.
    pub(super) fn of_server(server: &Server) -> Self {
        let mut hosts = Self::default();
        hosts.set([(0, server.host(), server.addresses().to_vec())].into_iter());
        hosts
    }

    /// Returns the name of the best host.
    pub(crate) fn name(&self) -> &str {
        self.hosts.first().map_or("", |host| &host.name)
    }

    /// Returns the name of a host.
    pub(super) fn host_name(&self, host: u32) -> &str {
        self.hosts.get(host as usize).map_or("", |host| &host.name)
    }

    /// Sets preferences, names and addresses of the servers. What is known about an address stays.
    pub(super) fn set<'a>(&mut self, hosts: impl Iterator<Item = (u16, &'a str, Vec<SocketAddr>)>) {
        let old = std::mem::take(&mut self.hosts);
        let avoided_ns = |address: &SocketAddr| {
            let mut all = old.iter().flat_map(|host| &host.addresses);
            all.find(|(known, _)| known == address).map_or(0, |(_, until_ns)| *until_ns)
        };
        self.hosts = hosts
            .map(|(preference, name, addresses)| {
                let addresses = addresses.into_iter().map(|address| (address, avoided_ns(&address))).collect();
                Host { preference, name: name.into(), addresses }
            })
            .collect();
        self.hosts.sort_by_key(|host| host.preference);
    }

    /// Notes that a connection to an address failed: for a while it is tried after the others.
    pub(crate) fn avoid(&mut self, address: SocketAddr, now_ns: u64) {
        for (known, until_ns) in self.hosts.iter_mut().flat_map(|host| &mut host.addresses) {
            if *known == address {
                *until_ns = now_ns.saturating_add(AVOIDED_NS);
            }
        }
    }

    /// Returns up to `most` addresses in the order in which a connection tries them: by preference, those of equal
    /// preference shuffled (RFC 5321 section 5.1), and at the end those that failed a short while ago.
    pub(super) fn candidates(&self, most: usize, now_ns: u64, rng: &mut ChaCha8Rng) -> Vec<Candidate> {
        let mut order: Vec<(bool, u16, Candidate)> = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            for &(address, until_ns) in &host.addresses {
                order.push((until_ns > now_ns, host.preference, Candidate { host: index as u32, address }));
            }
        }
        order.shuffle(rng);
        order.sort_by_key(|&(is_avoided, preference, _)| (is_avoided, preference));
        order.into_iter().take(most).map(|(.., candidate)| candidate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 25))
    }

    fn hosts() -> Hosts {
        let mut hosts = Hosts::default();
        let all = [(20, "c", vec![address(5)]), (10, "a", vec![address(1), address(2)]), (10, "b", vec![address(3)])];
        hosts.set(all.into_iter());
        hosts
    }

    #[test]
    fn hosts_of_equal_preference_are_shuffled_and_worse_ones_come_later() {
        let (hosts, mut rng) = (hosts(), ChaCha8Rng::seed_from_u64(1));
        let mut first = [0; 4];
        for _ in 0..300 {
            let order = hosts.candidates(5, 0, &mut rng);
            assert_eq!((order.len(), order[3]), (4, Candidate { host: 2, address: address(5) }));
            let SocketAddr::V4(best) = order[0].address else { panic!() };
            first[best.ip().octets()[3] as usize] += 1;
        }
        assert!(first[1..].iter().all(|&count| count > 50), "{first:?}");
        assert_eq!(hosts.candidates(2, 0, &mut rng).len(), 2);
    }

    #[test]
    fn an_address_that_failed_is_tried_last_for_a_while() {
        let (mut hosts, mut rng) = (hosts(), ChaCha8Rng::seed_from_u64(1));
        for last in 1..=3 {
            hosts.avoid(address(last), 1);
        }
        assert_eq!(hosts.candidates(5, 2, &mut rng)[0].address, address(5));
        // A new look-up keeps what is known.
        hosts.set([(10, "a", vec![address(1), address(4)]), (20, "c", vec![address(5)])].into_iter());
        let order = |hosts: &Hosts, now_ns, rng: &mut ChaCha8Rng| -> Vec<SocketAddr> {
            hosts.candidates(5, now_ns, rng).iter().map(|one| one.address).collect()
        };
        assert_eq!(order(&hosts, 2, &mut rng), [address(4), address(5), address(1)]);
        assert_eq!(order(&hosts, 2 + AVOIDED_NS, &mut rng)[2], address(5));
    }
}
