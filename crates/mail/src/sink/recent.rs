//! A table with bounded memory: it holds the most recently used entries, regardless of the number of different keys
//! that a client sends.

use std::collections::HashMap;

/// The minimum number of entries that a table keeps, after it has had as many.
pub(crate) const ENTRIES: usize = 1 << 20;

/// A table of recent entries, in two generations. When the younger one is full, the older one is dropped. A used entry
/// moves to the younger one.
#[derive(Debug, Clone)]
pub(crate) struct Recent<V> {
    young: HashMap<u64, V>,
    old: HashMap<u64, V>,
    capacity: usize,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self::new(ENTRIES)
    }
}

impl<V> Recent<V> {
    /// Returns a table that holds the last `capacity` keys, and at most twice as many.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), capacity }
    }

    /// Returns the value of a key; `first` for a key that is new or forgotten.
    pub(crate) fn entry(&mut self, key: u64, first: V) -> &mut V {
        if !self.young.contains_key(&key) && self.young.len() >= self.capacity {
            self.old = std::mem::take(&mut self.young);
        }
        let kept = self.old.remove(&key);
        let first = kept.unwrap_or(first);
        self.young.entry(key).or_insert(first)
    }

    /// Returns the number of keys.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_keys_are_known_and_the_memory_is_bounded() {
        let mut recent = Recent::new(100);
        for key in 0..10_000 {
            *recent.entry(key, 0) += 1;
            // A key in constant use is not forgotten.
            *recent.entry(u64::MAX, 0) += 1;
            assert!(recent.len() <= 200, "{}", recent.len());
        }
        assert_eq!(*recent.entry(u64::MAX, 0), 10_000);
        assert!((9_905..10_000).all(|key| *recent.entry(key, 0) == 1));
        assert_eq!(*recent.entry(0, 7), 7);
    }
}
