//! A table that forgets: it holds the entries that were used most recently, and takes bounded memory however many
//! different keys a client invents.

use std::collections::HashMap;

/// The number of entries that a table holds at least, once it has had so many.
pub(crate) const ENTRIES: usize = 1 << 20;

/// A table of what was seen recently. Two generations take turns: when the younger is full, the older is dropped. An
/// entry that is used moves to the younger one.
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

    /// Returns the value of a key, which is `first` for a key that is new or forgotten.
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
            // A key that is used again and again is not forgotten.
            *recent.entry(u64::MAX, 0) += 1;
            assert!(recent.len() <= 200, "{}", recent.len());
        }
        assert_eq!(*recent.entry(u64::MAX, 0), 10_000);
        assert!((9_905..10_000).all(|key| *recent.entry(key, 0) == 1));
        assert_eq!(*recent.entry(0, 7), 7);
    }
}
