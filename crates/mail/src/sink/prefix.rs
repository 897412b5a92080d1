//! Networks of addresses: `127.0.2.0/24`.

use super::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// Returns the network of a single address.
    pub fn single(address: IpAddr) -> Self {
        Self { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Returns the number of leading bits that all addresses share.
    pub const fn bits(&self) -> u8 {
        self.bits
    }

    /// Returns the first address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns whether an address belongs to the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && masked(address, self.bits) == self.address
    }
}

/// Returns an address with all but the first bits set to zero.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(32 - bits).unwrap_or(0)).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(128 - bits).unwrap_or(0)).into()),
    }
}

impl FromStr for Prefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Prefix { text: text.to_owned() };
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let mut prefix = Self::single(address.parse().map_err(|_| wrong())?);
        if let Some(bits) = bits {
            prefix.bits = bits.parse().ok().filter(|&bits| bits <= prefix.bits).ok_or_else(wrong)?;
        }
        if masked(prefix.address, prefix.bits) == prefix.address { Ok(prefix) } else { Err(wrong()) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        for (prefix, address, expected) in [
            ("127.0.0.0/8", "127.255.0.1", true),
            ("127.0.0.0/8", "128.0.0.1", false),
            ("127.0.2.0/24", "127.0.2.255", true),
            ("127.0.2.0/24", "127.0.3.0", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "::1", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
        ] {
            let prefix: Prefix = prefix.parse().unwrap();
            assert_eq!(prefix.contains(address.parse().unwrap()), expected, "{prefix} {address}");
        }
    }

    #[test]
    fn a_network_has_no_bits_after_its_length() {
        for text in ["", "x", "127.0.0.1/8", "127.0.0.0/33", "127.0.0.0/", "::1/64", "127.0.0.0/-1"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }
}
