//! With virtual hosts, which hosts have a directory. A result is trusted for as long as a cache entry.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The maximum number of names that are remembered, because clients can invent names.
const MOST: usize = 1024;

/// Hosts that were looked up.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// Whether each host has a directory, and when that was checked.
    known: HashMap<Box<str>, (bool, u32), RandomState>,
}

impl Hosts {
    /// Returns whether a host has a directory, if that was checked recently enough.
    #[inline]
    pub(super) fn get(&self, name: &str, now_ms: u32, for_ms: u32) -> Option<bool> {
        let &(has_folder, looked_ms) = self.known.get(name)?;
        (now_ms.wrapping_sub(looked_ms) < for_ms).then_some(has_folder)
    }

    /// Forgets all hosts.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    pub(super) fn put(&mut self, name: &str, has_folder: bool, now_ms: u32) {
        if self.known.len() >= MOST {
            // Hosts in use are looked up again.
            self.known.clear();
        }
        self.known.insert(name.into(), (has_folder, now_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_expire_and_are_bounded() {
        let mut hosts = Hosts::default();
        for number in 0..5000 {
            hosts.put(&format!("host{number}"), false, 0);
            assert!(hosts.known.len() <= MOST);
        }
        hosts.put("here", true, 100);
        assert_eq!((hosts.get("here", 599, 500), hosts.get("here", 600, 500)), (Some(true), None));
        assert_eq!((hosts.get("host4999", 100, 500), hosts.get("nowhere", 100, 500)), (Some(false), None));
    }
}
