//! Limits the rate of requests from each client.
//!
//! Each client has a theoretical arrival time (GCRA). A request advances it by the time of one request, and is refused
//! if that would put it ahead of now by more than a burst. The state is one number for each client.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The number of parts of the table, each with its own lock.
const PARTS: usize = 16;

/// The maximum number of clients in each part. If a part is full, clients without recent requests are removed. If there
/// are none, a new client is refused; otherwise a client with many addresses would have no limit.
const MOST: usize = 8192;

/// The minimum interval between searches of a full part for clients to remove, because requests wait meanwhile.
const SEARCH_NS: u64 = 100_000_000;

/// The time at which each client is next due, and at which the part may be searched again.
#[derive(Debug, Default)]
struct Part {
    due_ns: HashMap<IpAddr, u64, RandomState>,
    search_ns: u64,
}

impl Part {
    /// Returns whether there is room for another client.
    fn has_room(&mut self, now_ns: u64) -> bool {
        if self.due_ns.len() >= MOST && now_ns >= self.search_ns {
            self.search_ns = now_ns + SEARCH_NS;
            self.due_ns.retain(|_, due_ns| *due_ns > now_ns);
        }
        self.due_ns.len() < MOST
    }
}

/// A request rate limit for each address, or for each /64 network of IPv6.
#[derive(Debug)]
pub(crate) struct Rate {
    /// The time of one request, in nanoseconds.
    each_ns: u64,
    /// The number of additional requests that may arrive at once.
    burst: u64,
    parts: Box<[Mutex<Part>]>,
    choice: RandomState,
}

impl Rate {
    /// Parses `10/s`, `600/m` or `1000/h`. `burst` is the number of additional requests that may arrive at once; the
    /// default is the number in one second.
    pub(crate) fn new(text: &str, burst: Option<u64>) -> Result<Self, String> {
        let wrong = || "expected a number of requests and a time, such as 10/s, 600/m or 1000/h".to_owned();
        let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
        let count: u64 = count.parse().ok().filter(|count| (1..=1_000_000).contains(count)).ok_or_else(wrong)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return Err(wrong()),
        };
        let burst = burst.unwrap_or(count / seconds);
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Ok(Self { each_ns: seconds * 1_000_000_000 / count, burst, parts, choice: RandomState::default() })
    }

    /// Counts a request. If it exceeds the limit, returns the number of seconds, at least 1, until the next one is
    /// admitted. A client without an address has no limit.
    pub(crate) fn admit(&self, peer: Option<IpAddr>, now: Duration) -> Result<(), u64> {
        let Some(client) = peer.map(client_of) else { return Ok(()) };
        let now_ns = now.as_nanos() as u64;
        let part = self.choice.hash_one(client) as usize % PARTS;
        let mut part = self.parts[part].lock().unwrap_or_else(PoisonError::into_inner);
        let known = part.due_ns.get(&client).copied();
        let due_ns = known.unwrap_or(0).max(now_ns);
        let early_ns = (due_ns - now_ns).saturating_sub(self.burst.saturating_mul(self.each_ns));
        if early_ns > 0 {
            return Err(early_ns.div_ceil(1_000_000_000));
        }
        let has_room = known.is_some() || part.has_room(now_ns);
        if has_room {
            part.due_ns.insert(client, due_ns + self.each_ns);
        }
        // It is unknown when there is room for another client. A client is removed after the time of one request at the
        // earliest.
        has_room.then_some(()).ok_or(self.each_ns.div_ceil(1_000_000_000))
    }
}

/// Returns the address that counts as one client.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_burst_and_then_its_rate() {
        let rate = Rate::new("10/s", Some(5)).unwrap();
        let asks =
            |address: &str, ms: u64| rate.admit(Some(address.parse().unwrap()), Duration::from_millis(ms)).is_ok();
        assert_eq!((0..20).filter(|_| asks("10.0.0.1", 1000)).count(), 6);
        assert!(asks("10.0.0.2", 1000), "another client");
        assert!(!asks("10.0.0.1", 1099) && asks("10.0.0.1", 1100) && !asks("10.0.0.1", 1101));
        // Continuous requests for one second.
        assert_eq!((1101..2101).filter(|ms| asks("10.0.0.1", *ms)).count(), 10);
        assert_eq!((0..20).filter(|_| asks("10.0.0.1", 60_000)).count(), 6);
        // An IPv6 network counts as one client.
        assert_eq!((0..20).filter(|place| asks(&format!("2001:db8::{place}"), 1000)).count(), 6);
        assert_eq!(rate.admit(None, Duration::ZERO), Ok(()));
    }

    #[test]
    fn a_client_is_told_how_long_to_wait() {
        let asks = |rate: &Rate, ms: u64| rate.admit(Some([10, 0, 0, 1].into()), Duration::from_millis(ms));
        let rate = Rate::new("6/h", Some(0)).unwrap();
        assert_eq!(asks(&rate, 5000), Ok(()));
        for (ms, expected) in [
            (5000, Err(600)),
            (5001, Err(600)),
            (6000, Err(599)),
            (604_999, Err(1)),
            (605_000, Ok(())),
            (605_001, Err(600)),
        ] {
            assert_eq!(asks(&rate, ms), expected, "{ms}");
        }
        let rate = Rate::new("6/m", Some(2)).unwrap();
        assert_eq!([0; 4].map(|ms| asks(&rate, ms)), [Ok(()), Ok(()), Ok(()), Err(10)]);
        let rate = Rate::new("10/s", Some(0)).unwrap();
        assert_eq!([0; 2].map(|ms| asks(&rate, ms)), [Ok(()), Err(1)]);
    }

    #[test]
    fn the_table_is_bounded() {
        let rate = Rate::new("1/h", Some(0)).unwrap();
        let asks =
            |number: u32, seconds| rate.admit(Some(IpAddr::V4(number.into())), Duration::from_secs(seconds)).is_ok();
        let admitted = (0..300_000_u32).filter(|number| asks(*number, 1)).count();
        let count = || rate.parts.iter().map(|part| part.lock().unwrap().due_ns.len()).sum::<usize>();
        assert_eq!((admitted, count()), (PARTS * MOST, PARTS * MOST));
        assert!(!asks(1 << 30, 2) && !asks(1, 2), "neither a new client nor a known one");
        // Then the earlier clients are removed.
        assert_eq!((0..1000_u32).filter(|number| asks(1 << 30 | number, 7200)).count(), 1000);
        assert!(count() < PARTS * MOST);
    }

    #[test]
    fn rates_are_parsed() {
        for wrong in ["", "10", "10/", "/s", "0/s", "-1/s", "10/d", "1.5/s", "99999999/s"] {
            assert!(Rate::new(wrong, None).is_err(), "{wrong}");
        }
        assert_eq!(Rate::new("600/m", None).unwrap().each_ns, 100_000_000);
    }
}
