//! The routing of mail: to one server for all domains, or to the MX hosts of each domain.
//!
//! A site is an ordered set of MX hosts. Domains with the same hosts in the same order share its connections, limits
//! and back-off, so that a provider with ten thousand domains is not greeted ten thousand times.

mod destination;
mod domains;
mod host;
mod server;

pub(crate) use domains::{Domains, Place, Refusal, RefusalKind, Released};
pub(crate) use host::{Candidate, Hosts};
pub use server::Server;

use crate::error::Result;
use crate::lookup::Resolver;
use crate::network::{Network, Ready};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::net::SocketAddr;

/// Maximum number of addresses tried before a connection counts as failed (Postfix's `smtp_mx_address_limit`).
const MOST_CANDIDATES: usize = 5;

/// The settings for looking up the route of each domain.
#[derive(Debug, Clone)]
pub(crate) struct Lookups {
    /// The name server; none for the configuration of this system.
    pub(crate) server: Option<SocketAddr>,
    /// The SMTP port of MX hosts.
    pub(crate) port: u16,
    /// Domains and hosts on public addresses that the user permits.
    pub(crate) allowed: Vec<String>,
    /// The name by which this host introduces itself: mail whose best MX host has this name would loop.
    pub(crate) own_name: String,
}

/// How the route of a domain is found.
#[derive(Debug)]
enum Way {
    /// All mail goes to site 0.
    Fixed,
    /// By lookups.
    ByDomain(Box<(Domains, Resolver)>),
}

/// The routes of all domains, and the servers of all sites.
#[derive(Debug)]
pub(crate) struct Routes {
    way: Way,
    sites: Vec<Hosts>,
    rng: ChaCha8Rng,
}

impl Routes {
    /// Returns the routes to one server for all mail, which is the only site.
    pub(crate) fn to_server(server: &Server, seed: u64) -> Self {
        Self { way: Way::Fixed, sites: vec![Hosts::of_server(server)], rng: ChaCha8Rng::seed_from_u64(seed ^ 0x50f7) }
    }

    /// Returns the routes with a lookup of each domain.
    ///
    /// # Errors
    ///
    /// The system's configuration is needed and cannot be read.
    pub(crate) fn by_domain(lookups: Lookups, seed: u64) -> Result<Self> {
        let resolver = Resolver::new(lookups.server, seed)?;
        Ok(Self {
            way: Way::ByDomain(Box::new((Domains::new(lookups), resolver))),
            sites: Vec::new(),
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0x50f7),
        })
    }

    /// Returns whether all mail goes to one server.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.way, Way::Fixed)
    }

    /// Returns the number of site numbers that are or were in use. They count from zero, and those of forgotten sites
    /// are reused.
    pub(crate) fn site_count(&self) -> usize {
        self.sites.len()
    }

    /// Returns whether there are so many sites that unused ones must be forgotten.
    pub(crate) fn has_many_sites(&self) -> bool {
        matches!(&self.way, Way::ByDomain(way) if way.0.has_many_sites())
    }

    /// Forgets the sites that are not `needed` and that no mail can be routed to, and returns their numbers. A site
    /// with an address that failed recently is kept.
    pub(crate) fn forget_sites(&mut self, needed: Vec<bool>, now_ns: u64) -> Vec<u32> {
        let Way::ByDomain(way) = &mut self.way else { return Vec::new() };
        way.0.forget_sites(needed, now_ns, &mut self.sites)
    }

    /// Returns the number of sites that are not forgotten.
    #[cfg(test)]
    pub(crate) fn known_site_count(&self) -> usize {
        self.sites.iter().filter(|site| !site.is_empty()).count()
    }

    /// Sets the number of sites from which unused ones are forgotten.
    #[cfg(test)]
    pub(crate) fn set_many_sites(&mut self, many: usize) {
        if let Way::ByDomain(way) = &mut self.way {
            way.0.set_many_sites(many);
        }
    }

    /// Returns the servers of a site.
    pub(crate) fn hosts_mut(&mut self, site: u32) -> &mut Hosts {
        &mut self.sites[site as usize]
    }

    /// Returns the name of a site.
    pub(crate) fn name(&self, site: u32) -> &str {
        self.sites[site as usize].name()
    }

    /// Returns the name of a host of a site.
    pub(crate) fn host_name(&self, site: u32, host: u32) -> &str {
        self.sites[site as usize].host_name(host)
    }

    /// Returns the addresses for a connection to a site in the order in which they are tried.
    pub(crate) fn candidates(&mut self, site: u32, now_ns: u64) -> Vec<Candidate> {
        self.sites[site as usize].candidates(MOST_CANDIDATES, now_ns, &mut self.rng)
    }

    /// Returns the destination of mail for an address. With [`Place::Wait`], `recipient` is queued for the result of
    /// the lookup.
    pub(crate) fn place(&mut self, address: &str, recipient: u32, now_ns: u64) -> Place {
        match &mut self.way {
            Way::Fixed => Place::Site(0),
            Way::ByDomain(way) => {
                let (domains, resolver) = &mut **way;
                let domain = address.rsplit_once('@').map_or("", |(_, domain)| domain);
                domains.place(domain, recipient, now_ns, &mut self.sites, resolver)
            }
        }
    }

    /// Returns whether the cache is full, so that no further domain may be looked up for now.
    pub(crate) fn is_full(&self) -> bool {
        matches!(&self.way, Way::ByDomain(way) if way.0.is_full())
    }

    /// Returns recipients whose lookup has ended.
    pub(crate) fn next_released(&mut self, now_ns: u64) -> Option<Released> {
        let Way::ByDomain(way) = &mut self.way else { return None };
        let (domains, resolver) = &mut **way;
        while let Some((number, answer)) = resolver.next_answer() {
            domains.answered(number, answer, now_ns, &mut self.sites, resolver);
        }
        domains.next_released(now_ns)
    }

    /// Sends the queries that are due.
    pub(crate) fn advance(&mut self, network: &mut impl Network, now_ns: u64) {
        if let Way::ByDomain(way) = &mut self.way {
            way.1.advance(network, now_ns);
        }
    }

    /// Returns when work is due without an event.
    pub(crate) fn next_ns(&self) -> u64 {
        if let Way::ByDomain(way) = &self.way { way.1.next_ns() } else { u64::MAX }
    }

    /// Handles an event of a socket for lookups.
    pub(crate) fn ready(&mut self, network: &mut impl Network, ready: Ready, buffer: &mut [u8]) {
        if let Way::ByDomain(way) = &mut self.way {
            way.1.ready(network, ready, buffer);
        }
    }
}
