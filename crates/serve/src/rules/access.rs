//! Access control for paths.

use super::rate::Rate;
use super::users::Users;
use ipnet::{IpNet, Ipv4Net};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The name of clients over a Unix socket, which have no address.
const UNIX: &str = "unix";

/// A set of client addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    networks: Vec<IpNet>,
    has_unix: bool,
}

impl Networks {
    /// Adds an address, a network (`10.0.0.0/8`, `2001:db8::/32`) or `unix`, the clients of Unix sockets.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        if text == UNIX {
            self.has_unix = true;
            return Ok(());
        }
        let wrong = |_| "expected an address, a network such as 10.0.0.0/8 or 2001:db8::/32, or unix".to_owned();
        let network = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address.to_canonical()),
            Err(_) => canonical(text.parse::<IpNet>().map_err(wrong)?)?,
        };
        self.networks.push(network);
        Ok(())
    }

    /// Returns whether the set contains a client.
    pub(crate) fn has(&self, peer: Option<IpAddr>) -> bool {
        match peer {
            None => self.has_unix,
            Some(address) => {
                let address = address.to_canonical();
                self.networks.iter().any(|network| network.contains(&address))
            }
        }
    }
}

/// Converts a network of IPv4-mapped addresses (`::ffff:10.0.0.0/104`) to IPv4, the form in which clients' addresses
/// are compared.
fn canonical(network: IpNet) -> Result<IpNet, String> {
    let IpNet::V6(v6) = network else { return Ok(network) };
    let Some(v4) = v6.addr().to_ipv4_mapped() else { return Ok(network) };
    let prefix = v6.prefix_len().checked_sub(96).and_then(|prefix| Ipv4Net::new(v4, prefix).ok());
    prefix
        .map(IpNet::V4)
        .ok_or_else(|| "a network of IPv4-mapped addresses must have a prefix of at least 96 bits".to_owned())
}

/// The users who may read, by name and password.
#[derive(Debug)]
pub(crate) struct Auth {
    /// The text that a browser shows; without quotes.
    pub(crate) realm: String,
    /// The users file, and the line of the rule.
    pub(crate) path: PathBuf,
    pub(crate) line: usize,
    pub(crate) users: Users,
}

/// The permissions and the rate limit of a path.
#[derive(Debug, Default, Clone)]
pub(crate) struct Access {
    pub(crate) allow: Option<Arc<Networks>>,
    pub(crate) deny: Option<Arc<Networks>>,
    pub(crate) auth: Option<Arc<Auth>>,
    pub(crate) rate: Option<Arc<Rate>>,
}

fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
}

impl Access {
    /// Returns whether any client may read, without a rate limit.
    pub(crate) fn is_open(&self) -> bool {
        self.is_for_all() && self.rate.is_none()
    }

    /// Returns whether any client may read.
    pub(crate) fn is_for_all(&self) -> bool {
        self.allow.is_none() && self.deny.is_none() && self.auth.is_none()
    }

    /// Returns whether a client with this address may read, provided that its user may.
    pub(crate) fn admits(&self, peer: Option<IpAddr>) -> bool {
        !self.deny.as_ref().is_some_and(|deny| deny.has(peer))
            && self.allow.as_ref().is_none_or(|allow| allow.has(peer))
    }

    /// Returns whether both come from the same rules.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.has_same_readers(other) && is_same(self.rate.as_ref(), other.rate.as_ref())
    }

    /// Returns whether both admit the same clients, by the same rules.
    pub(crate) fn has_same_readers(&self, other: &Self) -> bool {
        is_same(self.allow.as_ref(), other.allow.as_ref())
            && is_same(self.deny.as_ref(), other.deny.as_ref())
            && is_same(self.auth.as_ref(), other.auth.as_ref())
    }
}

/// Returns the rate limits that count a request, each once.
pub(crate) fn rates(access: &[Access]) -> impl Iterator<Item = &Arc<Rate>> {
    access.iter().enumerate().filter_map(|(at, one)| {
        let rate = one.rate.as_ref()?;
        let is_first = !access[..at].iter().any(|before| is_same(before.rate.as_ref(), Some(rate)));
        is_first.then_some(rate)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Networks {
        let mut networks = Networks::default();
        for text in texts {
            networks.add(text).unwrap();
        }
        networks
    }

    #[test]
    fn networks_have_their_addresses() {
        let own = networks(&["10.0.0.0/8", "192.168.1.7", "2001:db8::/32", "::1", "::ffff:172.16.0.0/108"]);
        let has = |text: &str| own.has(Some(text.parse().unwrap()));
        for yes in ["10.1.2.3", "::ffff:10.1.2.3", "192.168.1.7", "2001:db8::5", "::1", "172.31.0.1"] {
            assert!(has(yes), "{yes}");
        }
        for no in ["11.0.0.1", "192.168.1.8", "2001:db9::", "::2", "::ffff:11.0.0.1", "172.32.0.1"] {
            assert!(!has(no), "{no}");
        }
        assert!(!own.has(None) && networks(&["unix"]).has(None));
        assert!(!networks(&["unix"]).has(Some("127.0.0.1".parse().unwrap())));
        for wrong in ["", "10", "10.0.0.0/33", "localhost", "10.0.0.1-5", "::ffff:10.0.0.0/95"] {
            assert!(Networks::default().add(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn deny_goes_before_allow() {
        let access = Access {
            allow: Some(Arc::new(networks(&["10.0.0.0/8"]))),
            deny: Some(Arc::new(networks(&["10.0.0.1"]))),
            ..Access::default()
        };
        let admits = |text: &str| access.admits(Some(text.parse().unwrap()));
        assert!(admits("10.0.0.2") && !admits("10.0.0.1") && !admits("11.0.0.1") && !access.admits(None));
    }
}
