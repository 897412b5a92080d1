//! Synthetic domains: their names and properties.
//!
//! Nothing is stored. `d0001.example` to `d9113.example` receive mail; each belongs to a site, a set of one to three MX
//! hosts that it may share with other domains. The hosts of site 42 are `mx1.s0042.example` and so on, and each has one
//! address, given by its number in the network, or one of each family. The properties of a domain are derived from the
//! seed and its number.

use crate::sink::draw::{Draws, Purpose};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum number of MX hosts of a site.
pub const HOSTS: u32 = 3;

/// The layout of the domains, and the shares of faulty ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// The number of domains.
    pub domains: u32,
    /// The number of sites.
    pub sites: u32,
    /// The address of the first host. The hosts have the following addresses, [`HOSTS`] for each site.
    pub first_address: Ipv4Addr,
    /// The IPv6 address of the first host; the others follow. With the loopback address, all hosts have the same
    /// address, because that network has no other.
    pub first_address_v6: Ipv6Addr,
    /// The share of sites whose hosts have IPv6 addresses, too.
    pub dual_stack: f64,
    /// The share of sites whose hosts have IPv6 addresses only.
    pub ipv6_only: f64,
    /// The share of domains that accept no mail (null MX, RFC 7505), from 0 to 1. The other shares have the same range.
    pub null_mx: f64,
    /// The share of domains without MX, whose mail goes to their own address.
    pub no_mx: f64,
    /// The share of domains that do not exist.
    pub nonexistent: f64,
    /// The share of domains whose server fails.
    pub failing: f64,
    /// The share of domains whose answers over UDP are always truncated.
    pub truncated: f64,
}

impl Default for Layout {
    /// 9,113 domains, as in the study of 2001, each at a separate site.
    fn default() -> Self {
        Self {
            domains: 9113,
            sites: 9113,
            first_address: Ipv4Addr::new(127, 1, 0, 0),
            first_address_v6: Ipv6Addr::LOCALHOST,
            dual_stack: 0.0,
            ipv6_only: 0.0,
            null_mx: 0.0,
            no_mx: 0.0,
            nonexistent: 0.0,
            failing: 0.0,
            truncated: 0.0,
        }
    }
}

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The top of the zone.
    Top,
    /// The domain with this number, from 1 on.
    Domain(u32),
    /// The name of a site, which has no records but has names below it.
    Site,
    /// A host of a site; both numbers count from 1.
    Host { site: u32, host: u32 },
    /// Not a name of the zone.
    Missing,
}

/// The kind of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has the MX hosts of this site.
    Mail { site: u32 },
    /// It accepts no mail.
    NullMx,
    /// It has no MX, but the address of the first host of this site.
    NoMx { site: u32 },
    /// It does not exist.
    Nonexistent,
    /// Its server fails.
    Failing,
}

/// The addresses of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Addresses {
    pub(super) v4: Option<Ipv4Addr>,
    pub(super) v6: Option<Ipv6Addr>,
}

/// The domains.
#[derive(Debug, Clone)]
pub(super) struct Zone {
    layout: Layout,
    draws: Draws,
    domain_digits: usize,
    site_digits: usize,
}

/// Returns the number of digits of the largest number.
fn digits(most: u32) -> usize {
    most.max(1).ilog10() as usize + 1
}

impl Zone {
    pub(super) fn new(layout: Layout, seed: u64) -> Self {
        let (domain_digits, site_digits) = (digits(layout.domains), digits(layout.sites));
        Self { layout, draws: Draws::new(seed), domain_digits, site_digits }
    }

    /// Finds a name by its labels before the name of the zone, the last one first.
    pub(super) fn find(&self, labels: &[&[u8]]) -> Place {
        let Layout { domains, sites, .. } = self.layout;
        let site = |label| number(label, b's', self.site_digits, sites);
        match *labels {
            [] => Place::Top,
            [label] => match number(label, b'd', self.domain_digits, domains) {
                Some(domain) => Place::Domain(domain),
                None if site(label).is_some() => Place::Site,
                None => Place::Missing,
            },
            [label, [m, x, host]] if m.eq_ignore_ascii_case(&b'm') && x.eq_ignore_ascii_case(&b'x') => {
                let host = u32::from(*host).wrapping_sub(u32::from(b'0'));
                match site(label) {
                    Some(site) if (1..=self.host_count(site)).contains(&host) => Place::Host { site, host },
                    _ => Place::Missing,
                }
            }
            _ => Place::Missing,
        }
    }

    /// Returns the kind of a domain.
    pub(super) fn kind(&self, domain: u32) -> Kind {
        let Layout { null_mx, no_mx, nonexistent, failing, .. } = self.layout;
        let drawn = self.draws.uniform(Purpose::DomainKind, u64::from(domain), 0);
        let site = self.site(domain);
        let kinds = [
            (nonexistent, Kind::Nonexistent),
            (failing, Kind::Failing),
            (null_mx, Kind::NullMx),
            (no_mx, Kind::NoMx { site }),
        ];
        let mut below = 0.0;
        for (share, kind) in kinds {
            below += share;
            if drawn < below {
                return kind;
            }
        }
        Kind::Mail { site }
    }

    /// Returns the site of a domain. With as many sites as domains, each has its own; with fewer, the first domains
    /// have one each, so that no site is without domains, and the others are drawn.
    fn site(&self, domain: u32) -> u32 {
        let sites = self.layout.sites;
        if domain <= sites {
            return domain;
        }
        1 + (self.draws.uniform(Purpose::Site, u64::from(domain), 0) * f64::from(sites)) as u32
    }

    /// Returns the number of a site's MX hosts.
    pub(super) fn host_count(&self, site: u32) -> u32 {
        1 + (self.draws.uniform(Purpose::Hosts, u64::from(site), 0) * f64::from(HOSTS)) as u32
    }

    /// Returns the preference of a site's MX host: every other site has its first two hosts at the same preference.
    pub(super) fn preference(&self, site: u32, host: u32) -> u16 {
        let is_tied = self.draws.falls_in(0.5, Purpose::Preference, u64::from(site));
        10 * if is_tied && host == 2 { 1 } else { host as u16 }
    }

    /// Returns the addresses of a site's MX host.
    pub(super) fn addresses(&self, site: u32, host: u32) -> Addresses {
        let Layout { first_address, first_address_v6, dual_stack, ipv6_only, .. } = self.layout;
        let number = (site - 1) * HOSTS + host - 1;
        let v4 = Ipv4Addr::from(first_address.to_bits().wrapping_add(number));
        let number = if first_address_v6.is_loopback() { 0 } else { u128::from(number) };
        let v6 = Ipv6Addr::from(first_address_v6.to_bits().wrapping_add(number));
        let has_share = ipv6_only + dual_stack > 0.0;
        let drawn = if has_share { self.draws.uniform(Purpose::Family, u64::from(site), 0) } else { 1.0 };
        let (is_v6_only, has_v6) = (drawn < ipv6_only, drawn < ipv6_only + dual_stack);
        Addresses { v4: (!is_v6_only).then_some(v4), v6: has_v6.then_some(v6) }
    }

    /// Returns whether answers about a domain are always truncated over UDP.
    pub(super) fn is_truncated(&self, domain: u32) -> bool {
        self.draws.falls_in(self.layout.truncated, Purpose::Truncation, u64::from(domain))
    }

    /// Returns the first label of a site's name.
    pub(super) fn site_label(&self, site: u32) -> String {
        format!("s{site:0width$}", width = self.site_digits)
    }
}

/// Returns the number in a label: a letter and exactly `digits` digits.
fn number(label: &[u8], letter: u8, digits: usize, most: u32) -> Option<u32> {
    let (first, rest) = label.split_first()?;
    let is_number = first.eq_ignore_ascii_case(&letter) && rest.len() == digits && rest.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(rest).ok().filter(|_| is_number)?.parse().ok()?;
    (1..=most).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_have_one_spelling() {
        let zone = Zone::new(Layout::default(), 1);
        for (labels, expected) in [
            (&[][..], Place::Top),
            (&[&b"d0001"[..]], Place::Domain(1)),
            (&[b"D9113"], Place::Domain(9113)),
            (&[b"s0042"], Place::Site),
            (&[b"s0042", b"mx1"], Place::Host { site: 42, host: 1 }),
            (&[b"S0042", b"MX1"], Place::Host { site: 42, host: 1 }),
            (&[b"d0000"], Place::Missing),
            (&[b"d9114"], Place::Missing),
            (&[b"d1"], Place::Missing),
            (&[b"d00001"], Place::Missing),
            (&[b"d+001"], Place::Missing),
            (&[b"d0001", b"www"], Place::Missing),
            (&[b"s0042", b"mx0"], Place::Missing),
            (&[b"s0042", b"mx4"], Place::Missing),
            (&[b"s0042", b"mx"], Place::Missing),
            (&[b"s9114", b"mx1"], Place::Missing),
            (&[b"s0042", b"mx1", b"x"], Place::Missing),
        ] {
            assert_eq!(zone.find(labels), expected, "{labels:?}");
        }
    }

    #[test]
    fn every_site_has_a_domain_and_every_host_an_address_of_its_own() {
        let layout = Layout { domains: 1000, sites: 100, ..Layout::default() };
        let zone = Zone::new(layout, 1);
        let sites: HashSet<u32> = (1..=1000).map(|domain| zone.site(domain)).collect();
        assert_eq!(sites.len(), 100);
        assert!(sites.iter().all(|site| (1..=100).contains(site)));
        let hosts = |site: &u32| (1..=zone.host_count(*site)).map(|host| (*site, host)).collect::<Vec<_>>();
        let all: Vec<(u32, u32)> = sites.iter().flat_map(hosts).collect();
        let addresses: HashSet<_> = all.iter().filter_map(|&(site, host)| zone.addresses(site, host).v4).collect();
        assert_eq!(addresses.len(), all.len());
        let counts: HashSet<u32> = sites.iter().map(|site| zone.host_count(*site)).collect();
        assert_eq!(counts, HashSet::from([1, 2, 3]));
    }

    #[test]
    fn shares_of_sites_have_ipv6_addresses() {
        let first_address_v6 = "fd00::100".parse().unwrap();
        let layout = Layout { dual_stack: 0.3, ipv6_only: 0.2, first_address_v6, ..Layout::default() };
        let zone = Zone::new(layout, 1);
        let all: Vec<Addresses> = (1..=9113).map(|site| zone.addresses(site, 2)).collect();
        let count = |is: fn(&Addresses) -> bool| all.iter().filter(|one| is(one)).count();
        let (dual, only) = (count(|one| one.v4.is_some() && one.v6.is_some()), count(|one| one.v4.is_none()));
        // Five standard deviations are 219 and 191.
        assert!((2515..2953).contains(&dual) && (1631..2014).contains(&only), "{dual} {only}");
        let addresses: HashSet<Ipv6Addr> = all.iter().filter_map(|one| one.v6).collect();
        assert_eq!(addresses.len(), dual + only);
        let loopback = Zone::new(Layout { ipv6_only: 1.0, ..Layout::default() }, 1);
        assert_eq!(loopback.addresses(7, 3), Addresses { v4: None, v6: Some(Ipv6Addr::LOCALHOST) });
    }

    #[test]
    fn shares_of_domains_are_out_of_order() {
        let layout = Layout { null_mx: 0.1, no_mx: 0.1, nonexistent: 0.1, failing: 0.1, ..Layout::default() };
        let zone = Zone::new(layout, 1);
        let count = |is: fn(Kind) -> bool| (1..=9113).filter(|&domain| is(zone.kind(domain))).count();
        for found in [
            count(|kind| kind == Kind::NullMx),
            count(|kind| matches!(kind, Kind::NoMx { .. })),
            count(|kind| kind == Kind::Nonexistent),
            count(|kind| kind == Kind::Failing),
        ] {
            // Five standard deviations are 143.
            assert!((768..1055).contains(&found), "{found}");
        }
        let usual = Zone::new(Layout::default(), 1);
        assert!((1..=9113).all(|domain| usual.kind(domain) == Kind::Mail { site: domain }));
    }
}
