//! The servers of a site, and the order in which they are tried.

use super::Server;
use super::destination::{Rank, ranked};
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
    addresses: Vec<Address>,
}

/// An address of a server.
#[derive(Debug)]
struct Address {
    socket: SocketAddr,
    rank: Rank,
    /// The time until which it is tried after all others, because it could not be reached.
    avoided_ns: u64,
    /// The same, because its server took no mail.
    useless_ns: u64,
}

impl Address {
    fn is_avoided(&self, now_ns: u64) -> bool {
        self.avoided_ns.max(self.useless_ns) > now_ns
    }
}

/// The servers of a site.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    /// The hosts, sorted by name. So the index of a host, which connections keep, does not depend on the preference
    /// values of a domain. The order by preference is the same for all domains of the site.
    hosts: Vec<Host>,
}

impl Hosts {
    /// Returns the site of one server.
    pub(super) fn of_server(server: &Server) -> Self {
        let mut hosts = Self::default();
        hosts.set([(0, server.host(), server.addresses().to_vec())].into_iter());
        hosts
    }

    /// Returns whether this is not a site, or a forgotten one: a site has hosts.
    pub(super) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Returns whether an address is currently tried after the others.
    pub(super) fn avoids_any(&self, now_ns: u64) -> bool {
        self.hosts.iter().flat_map(|host| &host.addresses).any(|address| address.is_avoided(now_ns))
    }

    /// Returns the name of the best host.
    pub(crate) fn name(&self) -> &str {
        self.hosts.iter().min_by_key(|host| host.preference).map_or("", |host| &host.name)
    }

    /// Returns the name of a host.
    pub(super) fn host_name(&self, host: u32) -> &str {
        self.hosts.get(host as usize).map_or("", |host| &host.name)
    }

    /// Sets preferences, names and addresses of the servers. The failures recorded for an address are kept.
    pub(super) fn set<'a>(&mut self, hosts: impl Iterator<Item = (u16, &'a str, Vec<SocketAddr>)>) {
        let old = std::mem::take(&mut self.hosts);
        let times = |address: &SocketAddr| {
            let mut all = old.iter().flat_map(|host| &host.addresses);
            all.find(|known| known.socket == *address).map_or((0, 0), |known| (known.avoided_ns, known.useless_ns))
        };
        self.hosts = hosts
            .map(|(preference, name, addresses)| {
                let address = |(socket, rank)| {
                    let (avoided_ns, useless_ns) = times(&socket);
                    Address { socket, rank, avoided_ns, useless_ns }
                };
                let addresses = ranked(addresses).into_iter().map(address).collect();
                Host { preference, name: name.into(), addresses }
            })
            .collect();
        self.hosts.sort_by(|a, b| (&a.name, a.preference).cmp(&(&b.name, b.preference)));
    }

    /// Records that a connection to an address failed: it is tried after the others for a while.
    pub(crate) fn avoid(&mut self, address: SocketAddr, now_ns: u64) {
        let until_ns = now_ns.saturating_add(AVOIDED_NS);
        self.known(address).for_each(|known| known.avoided_ns = known.avoided_ns.max(until_ns));
    }

    /// Records that the server at an address took no mail: it is tried after the others during the wait of its
    /// recipients for their next attempt, and for a while after it.
    pub(crate) fn avoid_beyond(&mut self, address: SocketAddr, now_ns: u64, wait_ns: u64) {
        let until_ns = now_ns.saturating_add(wait_ns).saturating_add(AVOIDED_NS);
        self.known(address).for_each(|known| known.useless_ns = known.useless_ns.max(until_ns));
    }

    /// Records that the server at an address has taken a message.
    pub(crate) fn prefer_again(&mut self, address: SocketAddr) {
        self.known(address).for_each(|known| known.useless_ns = 0);
    }

    fn known(&mut self, address: SocketAddr) -> impl Iterator<Item = &mut Address> {
        let all = self.hosts.iter_mut().flat_map(|host| &mut host.addresses);
        all.filter(move |known| known.socket == address)
    }

    /// Returns up to `most` addresses in the order in which a connection tries them: by preference, the hosts of equal
    /// preference shuffled (RFC 5321 section 5.1), the addresses of a host by their ranks, those of equal rank
    /// shuffled; then those to which this system has no route, and finally those that failed recently.
    pub(super) fn candidates(&self, most: usize, now_ns: u64, rng: &mut ChaCha8Rng) -> Vec<Candidate> {
        let mut places: Vec<u32> = (0..self.hosts.len() as u32).collect();
        places.shuffle(rng);
        let mut order = Vec::new();
        for ((index, host), place) in (0..).zip(&self.hosts).zip(places) {
            for address @ &Address { socket, rank, .. } in &host.addresses {
                let candidate = Candidate { host: index, address: socket };
                let is_avoided = address.is_avoided(now_ns);
                order.push(((is_avoided, rank.is_unreachable, host.preference, place, rank), candidate));
            }
        }
        order.shuffle(rng);
        order.sort_by_key(|(key, _)| *key);
        order.into_iter().take(most).map(|(_, candidate)| candidate).collect()
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

    /// TLS verifies the name at an index, which a connection keeps while domains are looked up.
    #[test]
    fn the_index_of_a_host_stays_when_another_domain_has_other_preferences() {
        let mut hosts = hosts();
        assert_eq!((hosts.name(), [0, 1, 2].map(|host| hosts.host_name(host))), ("a", ["a", "b", "c"]));
        hosts.set([(5, "c", vec![address(5)]), (7, "b", vec![address(3)]), (9, "a", vec![address(1)])].into_iter());
        assert_eq!((hosts.name(), [0, 1, 2].map(|host| hosts.host_name(host))), ("c", ["a", "b", "c"]));
        let order = hosts.candidates(5, 0, &mut ChaCha8Rng::seed_from_u64(1));
        assert_eq!(order.iter().map(|one| one.host).collect::<Vec<_>>(), [2, 1, 0]);
    }

    /// A host with two addresses must not get more mail than a host with one.
    #[test]
    fn the_addresses_of_a_host_follow_one_another() {
        let (hosts, mut rng) = (hosts(), ChaCha8Rng::seed_from_u64(1));
        let mut first = 0;
        for _ in 0..300 {
            let order: Vec<u32> = hosts.candidates(5, 0, &mut rng).iter().map(|one| one.host).collect();
            assert!(order == [0, 0, 1, 2] || order == [1, 0, 0, 2], "{order:?}");
            first += u32::from(order[0] == 0);
        }
        assert!((110..190).contains(&first), "{first}");
    }

    /// The loopback network of IPv4 always exists; that of IPv6 may not.
    #[test]
    fn an_address_that_can_be_reached_comes_first_and_ipv6_before_ipv4() {
        let mut hosts = Hosts::default();
        let (v4, v6) = (SocketAddr::from(([127, 0, 0, 1], 25)), "[::1]:25".parse().unwrap());
        hosts.set([(10, "a", vec![v4, v6])].into_iter());
        let is_there = std::net::UdpSocket::bind("[::1]:0").is_ok();
        let expected = if is_there { [v6, v4] } else { [v4, v6] };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..20 {
            let order: Vec<SocketAddr> = hosts.candidates(5, 0, &mut rng).iter().map(|one| one.address).collect();
            assert_eq!(order, expected);
        }
        hosts.avoid(expected[0], 1);
        assert_eq!(hosts.candidates(5, 2, &mut rng)[0].address, expected[1]);
    }

    /// Otherwise a host with many such addresses would fill the list.
    #[test]
    fn an_address_without_a_route_comes_after_those_of_worse_hosts() {
        let (mut hosts, mut rng) = (hosts(), ChaCha8Rng::seed_from_u64(1));
        for host in &mut hosts.hosts[..2] {
            host.addresses.iter_mut().for_each(|one| one.rank.is_unreachable = true);
        }
        assert_eq!(hosts.candidates(4, 0, &mut rng)[0].address, address(5));
        hosts.avoid(address(5), 1);
        assert_eq!(hosts.candidates(4, 2, &mut rng)[3].address, address(5));
    }

    #[test]
    fn an_address_that_failed_is_tried_last_for_a_while() {
        let (mut hosts, mut rng) = (hosts(), ChaCha8Rng::seed_from_u64(1));
        for last in 1..=3 {
            hosts.avoid(address(last), 1);
        }
        assert_eq!(hosts.candidates(5, 2, &mut rng)[0].address, address(5));
        // A new lookup keeps the recorded failures.
        hosts.set([(10, "a", vec![address(1), address(4)]), (20, "c", vec![address(5)])].into_iter());
        let order = |hosts: &Hosts, now_ns, rng: &mut ChaCha8Rng| -> Vec<SocketAddr> {
            hosts.candidates(5, now_ns, rng).iter().map(|one| one.address).collect()
        };
        assert_eq!(order(&hosts, 2, &mut rng), [address(4), address(5), address(1)]);
        assert_eq!(order(&hosts, 2 + AVOIDED_NS, &mut rng)[2], address(5));
    }
}
