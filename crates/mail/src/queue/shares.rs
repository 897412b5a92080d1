//! The memory for loaded messages. Each site may use a share of it: as much as is free. So a slow site with large
//! messages leaves room for the others.
//!
//! It also remembers the domains for which no recipient could be handed out recently because their site had used its
//! share. Their next messages are not encoded or signed before they can be sent.

use super::feed::LOADED_BYTES;
use std::collections::HashMap;

/// How long the site of a domain is remembered: its MX hosts may change.
const KNOWN_NS: u64 = 60_000_000_000;

/// Maximum number of remembered domains. When it is reached, all are forgotten.
const MOST_DOMAINS: usize = 10_000;

/// The shares of the sites.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The memory of all loaded messages.
    all: u64,
    /// The memory of the messages with recipients at each site.
    sites: HashMap<u32, u64>,
    /// The sites of domains that had to wait, and when each entry expires.
    domains: HashMap<Box<str>, (u32, u64)>,
}

impl Shares {
    /// Returns whether no further message may be loaded.
    pub(super) fn is_full(&self) -> bool {
        self.all >= LOADED_BYTES
    }

    /// Records that a message was loaded.
    pub(super) fn load(&mut self, bytes: u64) {
        self.all += bytes;
    }

    /// Records that a message is no longer in memory.
    pub(super) fn unload(&mut self, bytes: u64) {
        self.all -= bytes;
    }

    /// Returns whether a site has used its share: as much as is free. A site may always have one message.
    pub(super) fn is_crowded(&self, site: u32) -> bool {
        let free = LOADED_BYTES.saturating_sub(self.all);
        self.sites.get(&site).is_some_and(|&bytes| bytes >= free.max(LOADED_BYTES / 100))
    }

    /// Records that a site has recipients of a message, or no longer has any.
    pub(super) fn charge(&mut self, site: u32, bytes: u64) {
        *self.sites.entry(site).or_default() += bytes;
    }

    pub(super) fn discharge(&mut self, site: u32, bytes: u64) {
        if let Some(held) = self.sites.get_mut(&site) {
            *held -= bytes;
            if *held == 0 {
                self.sites.remove(&site);
            }
        }
    }

    /// Records that a recipient of a domain had to wait because its site had used its share.
    pub(super) fn note_crowded(&mut self, address: &str, site: u32, now_ns: u64) {
        if self.domains.len() >= MOST_DOMAINS {
            self.domains.clear();
        }
        self.domains.insert(domain(address).into(), (site, now_ns.saturating_add(KNOWN_NS)));
    }

    /// Returns the site of an address whose domain had to wait recently.
    pub(super) fn known_site(&self, address: &str, now_ns: u64) -> Option<u32> {
        let (site, until_ns) = self.domains.get(domain(address)).copied()?;
        (until_ns > now_ns).then_some(site)
    }

    /// Sets the memory of all loaded messages.
    #[cfg(test)]
    pub(super) fn set_all(&mut self, bytes: u64) {
        self.all = bytes;
    }
}

fn domain(address: &str) -> &str {
    address.rsplit_once('@').map_or("", |(_, domain)| domain)
}
