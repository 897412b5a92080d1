//! The recently verified logins: a password is hashed once, and not with every request.

use crate::rules::LoginKey;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// How long a valid login is remembered. A user who is removed from the file is refused directly after a reload,
/// because the key depends on the configuration.
const RIGHT_MS: u32 = 300_000;

/// How long an invalid login is remembered, so that a client that repeats it costs nothing.
const WRONG_MS: u32 = 10_000;

/// The maximum number of logins that are remembered, because clients can invent logins.
const MOST: usize = 1024;

/// Verified logins.
#[derive(Debug, Default)]
pub(super) struct Logins {
    /// When each valid login was verified. Invalid ones have a separate table: clients can invent them, and they must
    /// not displace valid ones.
    right: HashMap<LoginKey, u32, RandomState>,
    wrong: HashMap<LoginKey, u32, RandomState>,
}

impl Logins {
    /// Returns whether a login is valid, if that is known.
    pub(super) fn get(&self, key: &LoginKey, now_ms: u32) -> Option<bool> {
        let is_fresh = |of: &HashMap<_, u32, _>, life_ms| {
            of.get(key).is_some_and(|&verified_ms| now_ms.wrapping_sub(verified_ms) < life_ms)
        };
        if is_fresh(&self.right, RIGHT_MS) {
            return Some(true);
        }
        is_fresh(&self.wrong, WRONG_MS).then_some(false)
    }

    pub(super) fn put(&mut self, key: LoginKey, is_right: bool, now_ms: u32) {
        let (logins, life_ms) = if is_right { (&mut self.right, RIGHT_MS) } else { (&mut self.wrong, WRONG_MS) };
        if logins.len() >= MOST {
            logins.retain(|_, verified_ms| now_ms.wrapping_sub(*verified_ms) < life_ms);
        }
        if logins.len() >= MOST {
            // The logins in use are verified again.
            logins.clear();
        }
        logins.insert(key, now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_expire_and_are_bounded() {
        let mut logins = Logins::default();
        logins.put([1; 32], true, 0);
        logins.put([2; 32], false, 0);
        let known = |logins: &Logins, now_ms| [1, 2, 3].map(|byte| logins.get(&[byte; 32], now_ms));
        assert_eq!(known(&logins, WRONG_MS - 1), [Some(true), Some(false), None]);
        assert_eq!(known(&logins, WRONG_MS), [Some(true), None, None]);
        assert_eq!(known(&logins, RIGHT_MS), [None; 3]);
        for number in 0..5000_u32 {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&number.to_le_bytes());
            logins.put(key, false, 1);
            assert!(logins.wrong.len() <= MOST);
        }
        assert_eq!(logins.get(&[1; 32], 1), Some(true), "wrong ones displace none");
    }
}
