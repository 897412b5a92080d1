//! How many connections each address has, where that is bounded.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::net::IpAddr;

/// Connections by address. An address with none takes no room.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    most: Option<u32>,
    counts: HashMap<IpAddr, u32, RandomState>,
}

impl Addresses {
    pub(crate) fn new(most: Option<u32>) -> Self {
        Self { most, counts: HashMap::default() }
    }

    /// Counts a connection; false if the address has its fill, and then it is not counted.
    #[inline]
    pub(crate) fn enter(&mut self, address: Option<IpAddr>) -> bool {
        let (Some(most), Some(address)) = (self.most, address) else { return true };
        let count = self.counts.entry(whole(address)).or_insert(0);
        let has_room = *count < most;
        *count += u32::from(has_room);
        has_room
    }

    /// Counts a connection that has ended.
    #[inline]
    pub(crate) fn leave(&mut self, address: Option<IpAddr>) {
        let (Some(_), Some(address)) = (self.most, address) else { return };
        if let std::collections::hash_map::Entry::Occupied(mut count) = self.counts.entry(whole(address)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// What one customer has: a whole IPv4 address, but of IPv6 the first 64 bits, since the rest is his to choose.
fn whole(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => (u128::from(address) >> 64 << 64).to_be_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_fill_and_a_network_of_ipv6_is_one() {
        let address = |text: &str| Some(text.parse().unwrap());
        let mut addresses = Addresses::new(Some(2));
        assert!(addresses.enter(address("10.0.0.1")) && addresses.enter(address("10.0.0.1")));
        assert!(!addresses.enter(address("10.0.0.1")) && addresses.enter(address("10.0.0.2")));
        addresses.leave(address("10.0.0.1"));
        assert!(addresses.enter(address("10.0.0.1")));
        assert!(addresses.enter(address("2001:db8::1")) && addresses.enter(address("2001:db8::2")));
        assert!(!addresses.enter(address("2001:db8::3")) && addresses.enter(address("2001:db8:0:1::3")));
        assert!(addresses.enter(None) && Addresses::default().enter(address("10.0.0.1")));
    }
}
