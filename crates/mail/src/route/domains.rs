//! The route of each domain by its MX records (RFC 5321 section 5.1), cached for its time to live.

use super::destination::is_reachable;
use super::{Hosts, Lookups};
use crate::domain::to_ascii;
use crate::lookup::{Answer, Kind, Problem, Records, Resolver};
use landau_sys::socket::is_loopback_or_private;
use landau_wire::dns::NameBuf;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Maximum number of MX hosts of a domain; those with the worst preferences are ignored. At most five addresses are
/// tried.
const MOST_EXCHANGES: usize = 20;

/// Maximum numbers of remembered domains and hosts. Beyond either, everything is forgotten as soon as no lookup is in
/// progress. A domain whose records change with each lookup adds ever more hosts.
const MOST_DOMAINS: usize = 200_000;
const MOST_HOSTS: usize = 2 * MOST_DOMAINS;

/// The number of sites that are remembered in any case. Beyond it, unused ones are forgotten.
const MANY_SITES: usize = 20_000;

/// One second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// The destination of mail for a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Mail goes to this site.
    Site(u32),
    /// The domain is being looked up.
    Wait,
    /// Mail cannot be delivered.
    Nowhere(Refusal),
}

/// Why mail for a domain cannot be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The enhanced status code (RFC 3463) and the reason.
    pub(crate) text: String,
    pub(crate) kind: RefusalKind,
}

/// The effect of a refusal on a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// It has failed.
    Final,
    /// It may be tried again.
    Transient,
    /// It waits for the user's permission, and is left to a later run.
    NotAllowed,
}

/// Recipients whose domain was looked up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) recipients: Vec<u32>,
    pub(crate) place: Place,
    /// The duration of the lookup in nanoseconds.
    pub(crate) took_ns: u64,
}

/// A domain in the cache.
#[derive(Debug)]
struct Domain {
    name: Box<str>,
    place: Place,
    /// When `place` expires; during a lookup, when the lookup began.
    time_ns: u64,
    /// Preferences and hosts.
    exchanges: Vec<(u16, u32)>,
    /// The number of hosts whose addresses are being looked up.
    missing: u32,
    /// The earliest expiry of the records from which `place` is derived.
    until_ns: u64,
    /// The waiting recipients.
    waiting: Vec<u32>,
}

impl Domain {
    /// Returns the place, if it was looked up and has not expired.
    fn known_place(&self, now_ns: u64) -> Option<&Place> {
        let is_known = self.waiting.is_empty() && self.place != Place::Wait && now_ns < self.time_ns;
        is_known.then_some(&self.place)
    }
}

/// A host in the cache.
#[derive(Debug)]
struct Host {
    name: Box<str>,
    addresses: Vec<IpAddr>,
    problem: Option<Problem>,
    until_ns: u64,
    /// Whether the addresses came with MX records: the host may have others.
    is_partial: bool,
    /// The number of unanswered queries.
    missing: u32,
    /// The domains that wait for it.
    waiting: Vec<u32>,
}

/// The subject of a query.
#[derive(Debug, Clone, Copy)]
enum About {
    Domain(u32),
    Host(u32),
}

/// The routes of domains.
#[derive(Debug)]
pub(crate) struct Domains {
    lookups: Lookups,
    domain_indices: HashMap<Box<str>, u32>,
    domains: Vec<Domain>,
    host_indices: HashMap<Box<str>, u32>,
    hosts: Vec<Host>,
    /// The sites by their hosts ([`site_key`]).
    site_indices: HashMap<Box<str>, u32>,
    /// The numbers of forgotten sites.
    free_sites: Vec<u32>,
    /// The number of sites that are remembered in any case, and the number at which unused sites are next forgotten.
    many_sites: usize,
    crowded_sites: usize,
    questions: HashMap<u32, About>,
    next_question: u32,
    /// Domains whose lookup has ended.
    ended: VecDeque<u32>,
}

impl Domains {
    pub(super) fn new(mut lookups: Lookups) -> Self {
        let as_looked_up = |name: &mut String| *name = to_ascii(name).map_or_else(String::new, Cow::into_owned);
        as_looked_up(&mut lookups.own_name);
        lookups.allowed.iter_mut().for_each(as_looked_up);
        Self {
            lookups,
            domain_indices: HashMap::new(),
            domains: Vec::new(),
            host_indices: HashMap::new(),
            hosts: Vec::new(),
            site_indices: HashMap::new(),
            free_sites: Vec::new(),
            many_sites: MANY_SITES,
            crowded_sites: MANY_SITES,
            questions: HashMap::new(),
            next_question: 0,
            ended: VecDeque::new(),
        }
    }

    /// Returns whether the cache is full, so that the next domain must wait for the end of the lookups in progress.
    pub(super) fn is_full(&self) -> bool {
        self.is_at_limit() && !self.is_idle()
    }

    fn is_at_limit(&self) -> bool {
        self.domains.len() >= MOST_DOMAINS || self.hosts.len() >= MOST_HOSTS
    }

    /// Returns whether no domain is being looked up and none has waiting recipients.
    fn is_idle(&self) -> bool {
        self.questions.is_empty() && self.ended.is_empty()
    }

    /// Returns whether there are so many sites that unused ones must be forgotten.
    pub(super) fn has_many_sites(&self) -> bool {
        self.site_indices.len() >= self.crowded_sites
    }

    /// Sets the number of sites from which unused ones are forgotten.
    #[cfg(test)]
    pub(super) fn set_many_sites(&mut self, many: usize) {
        (self.many_sites, self.crowded_sites) = (many, many);
    }

    /// Forgets the sites that are not `needed`, whose domains are all unknown or expired, and whose addresses have not
    /// failed recently. Returns their numbers, which are reused.
    ///
    /// This scans all sites. The next scan is due when there are twice as many, so that the cost per site is constant.
    pub(super) fn forget_sites(&mut self, mut needed: Vec<bool>, now_ns: u64, sites: &mut [Hosts]) -> Vec<u32> {
        needed.resize(sites.len(), false);
        for domain in &self.domains {
            // While recipients wait, they go to this place next.
            let is_known = now_ns < domain.time_ns || !domain.waiting.is_empty();
            if let Place::Site(site) = domain.place
                && is_known
            {
                needed[site as usize] = true;
            }
        }
        let mut forgotten = Vec::new();
        for ((number, site), needed) in (0..).zip(sites).zip(&mut needed) {
            *needed |= site.avoids_any(now_ns);
            if !*needed && !site.is_empty() {
                *site = Hosts::default();
                forgotten.push(number);
            }
        }
        self.site_indices.retain(|_, site| needed[*site as usize]);
        self.free_sites.extend(&forgotten);
        self.crowded_sites = self.many_sites.max(2 * self.site_indices.len());
        forgotten
    }

    /// Returns the destination of mail for a domain, and starts a lookup if it is not known.
    pub(super) fn place(
        &mut self,
        domain: &str,
        recipient: u32,
        now_ns: u64,
        sites: &mut Vec<Hosts>,
        resolver: &mut Resolver,
    ) -> Place {
        let mut known = self.domain_indices.get(domain).copied();
        // A domain that cannot be converted is kept unchanged, and is refused later.
        let name = known.is_none().then(|| to_ascii(domain).unwrap_or(Cow::Borrowed(domain)));
        if let Some(name) = &name {
            known = self.domain_indices.get(&**name).copied();
        }
        if let Some(place) = known.and_then(|index| self.domains[index as usize].known_place(now_ns)) {
            return place.clone();
        }
        if self.is_at_limit() && self.is_idle() {
            self.forget();
            known = None;
        }
        let index = known.unwrap_or_else(|| self.add_domain(name.as_deref().unwrap_or(domain)));
        let entry = &mut self.domains[index as usize];
        let is_waiting = !entry.waiting.is_empty();
        entry.waiting.push(recipient);
        if !is_waiting {
            (entry.place, entry.time_ns, entry.until_ns) = (Place::Wait, now_ns, u64::MAX);
            self.begin(index, now_ns, sites, resolver);
        }
        Place::Wait
    }

    /// Returns the recipients of a domain whose lookup has ended.
    pub(super) fn next_released(&mut self, now_ns: u64) -> Option<Released> {
        let index = self.ended.pop_front()?;
        let domain = &mut self.domains[index as usize];
        let recipients = std::mem::take(&mut domain.waiting);
        let took_ns = now_ns.saturating_sub(domain.time_ns);
        domain.time_ns = domain.until_ns;
        Some(Released { recipients, place: domain.place.clone(), took_ns })
    }

    /// Forgets all domains and hosts. Sites are kept: connections and recipients refer to their numbers.
    fn forget(&mut self) {
        self.domain_indices.clear();
        self.domains.clear();
        self.host_indices.clear();
        self.hosts.clear();
    }

    /// Adds a domain, in lower case and in ASCII, and returns its index.
    fn add_domain(&mut self, name: &str) -> u32 {
        let index = self.domains.len() as u32;
        self.domain_indices.insert(name.into(), index);
        self.domains.push(Domain {
            name: name.into(),
            place: Place::Wait,
            time_ns: 0,
            exchanges: Vec::new(),
            missing: 0,
            until_ns: 0,
            waiting: Vec::new(),
        });
        index
    }

    fn begin(&mut self, index: u32, now_ns: u64, sites: &mut Vec<Hosts>, resolver: &mut Resolver) {
        let name = &self.domains[index as usize].name;
        if let Some(address) = literal(name) {
            let host = self.host_index(&address.to_string());
            let host_entry = &mut self.hosts[host as usize];
            (host_entry.addresses, host_entry.until_ns) = (vec![address], u64::MAX);
            self.domains[index as usize].exchanges = vec![(0, host)];
            self.conclude(index, sites);
            return;
        }
        // A name that IDNA does not permit is still in its original form.
        match NameBuf::parse(name).ok().filter(|_| name.is_ascii()) {
            Some(name) => self.ask(About::Domain(index), name, Kind::Mx, resolver),
            None => self.refuse(index, "5.1.2 not a valid domain name", RefusalKind::Final, now_ns, 3600),
        }
    }

    fn ask(&mut self, about: About, name: NameBuf, kind: Kind, resolver: &mut Resolver) {
        self.next_question = self.next_question.wrapping_add(1);
        self.questions.insert(self.next_question, about);
        resolver.ask(self.next_question, name, kind);
    }

    /// Ends the lookup of a domain.
    fn end(&mut self, index: u32, place: Place) {
        self.domains[index as usize].place = place;
        self.ended.push_back(index);
    }

    fn refuse(&mut self, index: u32, text: &str, kind: RefusalKind, now_ns: u64, ttl_s: u32) {
        let domain = &mut self.domains[index as usize];
        domain.until_ns = domain.until_ns.min(now_ns.saturating_add(u64::from(ttl_s) * SECOND));
        self.end(index, Place::Nowhere(Refusal { text: text.to_owned(), kind }));
    }

    /// Acts on an answer.
    pub(super) fn answered(
        &mut self,
        number: u32,
        answer: Answer,
        now_ns: u64,
        sites: &mut Vec<Hosts>,
        resolver: &mut Resolver,
    ) {
        match self.questions.remove(&number) {
            Some(About::Domain(index)) => self.exchanges_answered(index, answer, now_ns, sites, resolver),
            Some(About::Host(index)) => self.host_answered(index, answer, now_ns, sites),
            None => {}
        }
    }

    /// Acts on the MX records of a domain.
    fn exchanges_answered(
        &mut self,
        index: u32,
        answer: Answer,
        now_ns: u64,
        sites: &mut Vec<Hosts>,
        resolver: &mut Resolver,
    ) {
        let until_ns = now_ns.saturating_add(u64::from(answer.ttl_s) * SECOND);
        let Records { mut mx, additional, .. } = match answer.records {
            Ok(records) => records,
            Err(problem) => {
                let (status, kind) = meaning(problem);
                return self.refuse(index, &format!("{status} {problem}"), kind, now_ns, answer.ttl_s);
            }
        };
        let domain = &mut self.domains[index as usize];
        domain.until_ns = until_ns;
        if let [(_, only)] = &mx[..]
            && **only == *"."
        {
            let text = "5.1.10 the domain accepts no mail (null MX)";
            return self.refuse(index, text, RefusalKind::Final, now_ns, answer.ttl_s);
        }
        mx.retain(|(_, name)| **name != *".");
        mx.sort();
        mx.dedup_by(|a, b| a.1 == b.1);
        let is_implicit = mx.is_empty();
        if is_implicit {
            // Without MX records the domain is its own host (RFC 5321 section 5.1).
            mx.push((0, domain.name.clone()));
        }
        let own_name = &*self.lookups.own_name;
        let own = mx.iter().find(|(_, name)| **name == *own_name).map(|(preference, _)| *preference);
        // A client without a configured name introduces itself as localhost, and so does a server on the same host.
        if let Some(own) = own.filter(|_| !is_implicit || own_name != "localhost") {
            mx.retain(|(preference, _)| *preference < own);
            if mx.is_empty() {
                let text = "5.4.6 mail loop: this host is the best MX of the domain";
                return self.refuse(index, text, RefusalKind::Final, now_ns, answer.ttl_s);
            }
        }
        mx.truncate(MOST_EXCHANGES);
        // Addresses of other names were not asked for, so they are not trusted.
        let is_exchange = |name: &str| mx.iter().any(|(_, host)| **host == *name);
        for (name, address) in additional.into_iter().filter(|(name, _)| is_exchange(name)) {
            self.note_additional(&name, address, until_ns, now_ns);
        }
        let exchanges: Vec<(u16, u32)> =
            mx.into_iter().map(|(preference, name)| (preference, self.host_index(&name))).collect();
        let mut missing = 0;
        for &(_, host) in &exchanges {
            missing += u32::from(self.want_host(host, index, now_ns, resolver));
        }
        let domain = &mut self.domains[index as usize];
        (domain.exchanges, domain.missing) = (exchanges, missing);
        if missing == 0 {
            self.conclude(index, sites);
        }
    }

    /// Returns the index of a host.
    fn host_index(&mut self, name: &str) -> u32 {
        if let Some(&index) = self.host_indices.get(name) {
            return index;
        }
        let index = self.hosts.len() as u32;
        self.host_indices.insert(name.into(), index);
        self.hosts.push(Host {
            name: name.into(),
            addresses: Vec::new(),
            problem: None,
            until_ns: 0,
            is_partial: false,
            missing: 0,
            waiting: Vec::new(),
        });
        index
    }

    /// Records an address that came with the MX records, unless the host's addresses are known or being looked up.
    fn note_additional(&mut self, name: &str, address: IpAddr, until_ns: u64, now_ns: u64) {
        let index = self.host_index(name);
        let host = &mut self.hosts[index as usize];
        if host.missing > 0 || (host.until_ns > now_ns && host.until_ns != until_ns) {
            return;
        }
        if host.until_ns <= now_ns {
            host.addresses.clear();
        }
        (host.problem, host.until_ns, host.is_partial) = (None, until_ns, true);
        if !host.addresses.contains(&address) {
            host.addresses.push(address);
        }
    }

    /// Makes a domain wait for the addresses of a host, if they are not known. Returns whether it waits.
    fn want_host(&mut self, index: u32, domain: u32, now_ns: u64, resolver: &mut Resolver) -> bool {
        let host = &mut self.hosts[index as usize];
        // While the other addresses are unknown, mail must not depend on IPv6 alone, nor on IPv4 if this system has
        // none.
        let is_enough = |host: &Host| {
            !host.is_partial || host.addresses.iter().any(|&address| address.is_ipv4() && is_reachable(address))
        };
        if host.missing == 0 && host.until_ns > now_ns && is_enough(host) {
            return false;
        }
        host.waiting.push(domain);
        if host.missing > 0 {
            return true;
        }
        (host.addresses, host.problem, host.until_ns, host.is_partial) = (Vec::new(), None, u64::MAX, false);
        let Ok(name) = NameBuf::parse(&host.name) else {
            (host.problem, host.until_ns) = (Some(Problem::NoName), now_ns + 3600 * SECOND);
            host.waiting.pop();
            return false;
        };
        host.missing = 2;
        self.ask(About::Host(index), name, Kind::A, resolver);
        self.ask(About::Host(index), name, Kind::Aaaa, resolver);
        true
    }

    /// Acts on addresses of a host.
    fn host_answered(&mut self, index: u32, answer: Answer, now_ns: u64, sites: &mut Vec<Hosts>) {
        let host = &mut self.hosts[index as usize];
        host.missing -= 1;
        host.until_ns = host.until_ns.min(now_ns.saturating_add(u64::from(answer.ttl_s) * SECOND));
        match answer.records {
            Ok(records) => host.addresses.extend(records.addresses),
            // A temporary failure takes precedence over a name that does not exist.
            Err(problem) => host.problem = Some(host.problem.filter(|known| !known.is_final()).unwrap_or(problem)),
        }
        if host.missing > 0 {
            return;
        }
        for domain in std::mem::take(&mut host.waiting) {
            let entry = &mut self.domains[domain as usize];
            entry.missing -= 1;
            if entry.missing == 0 {
                self.conclude(domain, sites);
            }
        }
    }

    /// Finds the site of a domain whose hosts are known.
    fn conclude(&mut self, index: u32, sites: &mut Vec<Hosts>) {
        let Self { domains, hosts, lookups, .. } = self;
        let domain = &mut domains[index as usize];
        let own_ns = domain.until_ns;
        let all = || domain.exchanges.iter().map(|&(preference, host)| (preference, &hosts[host as usize]));
        let until_ns = all().map(|(_, host)| host.until_ns).fold(own_ns, u64::min);
        let problem = all().filter_map(|(_, host)| host.problem).find(|problem| !problem.is_final());
        let has_address = all().any(|(_, host)| !host.addresses.is_empty());
        let is_allowed = |name: &str| lookups.allowed.iter().any(|allowed| **allowed == *name);
        let is_public = |host: &Host| {
            !is_allowed(&host.name) && host.addresses.iter().any(|&address| !is_loopback_or_private(address))
        };
        let public = all().map(|(_, host)| host).find(|host| !is_allowed(&domain.name) && is_public(host));
        let refusal = |text: String, kind| Place::Nowhere(Refusal { text, kind });
        let place = match (has_address, problem, public) {
            (false, Some(problem), _) => refusal(format!("4.4.3 {problem}"), RefusalKind::Transient),
            (false, None, _) => {
                refusal("5.4.4 no mail server of the domain has an address".to_owned(), RefusalKind::Final)
            }
            (true, _, Some(host)) => {
                let text = format!(
                    "4.7.0 {}, a mail server of {}, has a public address; if you are permitted to send mail there, \
                     add --allow-host {} --yes-send-to-public",
                    host.name, domain.name, domain.name
                );
                refusal(text, RefusalKind::NotAllowed)
            }
            (true, _, None) => {
                let exchanges: Vec<(u16, &str)> = all().map(|(preference, host)| (preference, &*host.name)).collect();
                let free_sites = &mut self.free_sites;
                let site = *self.site_indices.entry(site_key(exchanges).into()).or_insert_with(|| {
                    free_sites.pop().unwrap_or_else(|| {
                        sites.push(Hosts::default());
                        sites.len() as u32 - 1
                    })
                });
                let port = lookups.port;
                sites[site as usize].set(all().map(|(preference, host)| {
                    let addresses = host.addresses.iter().map(|&address| SocketAddr::new(address, port));
                    (preference, &*host.name, addresses.collect())
                }));
                Place::Site(site)
            }
        };
        domain.until_ns = until_ns;
        self.end(index, place);
    }
}

/// Returns the key of a site: the names of its hosts in order of preference, those of equal preference sorted. The
/// preference values may differ between domains.
fn site_key(mut exchanges: Vec<(u16, &str)>) -> String {
    exchanges.sort_unstable();
    let mut key = String::new();
    for group in exchanges.chunk_by(|a, b| a.0 == b.0) {
        for (_, name) in group {
            key.push_str(name);
            key.push(' ');
        }
        key.push('/');
    }
    key
}

/// Returns the address of an address literal (RFC 5321 section 4.1.3).
fn literal(domain: &str) -> Option<IpAddr> {
    let inside = domain.strip_prefix('[')?.strip_suffix(']')?;
    match inside.strip_prefix("ipv6:") {
        Some(address) => address.parse().ok().map(IpAddr::V6),
        None => inside.parse().ok().map(IpAddr::V4),
    }
}

/// Returns the effect of a failed MX lookup on a recipient.
fn meaning(problem: Problem) -> (&'static str, RefusalKind) {
    if problem.is_final() { ("5.1.2", RefusalKind::Final) } else { ("4.4.3", RefusalKind::Transient) }
}

#[cfg(test)]
mod tests;
