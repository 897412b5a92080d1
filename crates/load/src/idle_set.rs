//! A set of idle connections. Removing a given one, or taking a random one, takes constant time.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The position of an ID that is not in the set.
const ABSENT: u32 = u32::MAX;

/// A set of idle connections.
#[derive(Debug)]
pub(crate) struct IdleSet {
    ids: Vec<u32>,
    /// Position of each ID in `ids`.
    positions: Vec<u32>,
    random: ChaCha8Rng,
}

impl IdleSet {
    pub(crate) fn new(seed: u64) -> Self {
        Self { ids: Vec::new(), positions: Vec::new(), random: ChaCha8Rng::seed_from_u64(seed) }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds an ID, if the set does not contain it.
    pub(crate) fn add(&mut self, id: u32) {
        let index = id as usize;
        if index >= self.positions.len() {
            self.positions.resize(index + 1, ABSENT);
        }
        if self.positions[index] == ABSENT {
            self.positions[index] = self.ids.len() as u32;
            self.ids.push(id);
        }
    }

    /// Removes an ID. Returns whether the set contained it.
    pub(crate) fn remove(&mut self, id: u32) -> bool {
        let position = self.positions.get(id as usize).copied().filter(|&position| position != ABSENT);
        let Some(position) = position else { return false };
        self.positions[id as usize] = ABSENT;
        self.ids.swap_remove(position as usize);
        if let Some(&moved) = self.ids.get(position as usize) {
            self.positions[moved as usize] = position;
        }
        true
    }

    /// Removes and returns a random ID; each is equally likely, whenever it was added.
    pub(crate) fn take_any(&mut self) -> Option<u32> {
        let count = self.ids.len() as u64;
        if count == 0 {
            return None;
        }
        // The upper half of the product is as uniform as the 64 random bits are.
        let position = (u128::from(self.random.next_u64()) * u128::from(count)) >> 64;
        let id = self.ids[position as usize];
        self.remove(id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(steps in prop::collection::vec((any::<bool>(), 0_u32..20), 0..200)) {
            let (mut idle, mut set) = (IdleSet::new(1), BTreeSet::new());
            for (adds, id) in steps {
                if adds {
                    idle.add(id);
                    set.insert(id);
                } else if id % 3 == 0 {
                    let taken = idle.take_any();
                    prop_assert_eq!(taken.is_some(), !set.is_empty());
                    prop_assert!(taken.is_none_or(|one| set.remove(&one)));
                } else {
                    prop_assert_eq!(idle.remove(id), set.remove(&id));
                }
                prop_assert_eq!(idle.len(), set.len());
            }
        }
    }

    #[test]
    fn old_and_new_ids_are_equally_likely() {
        let mut counts = [0_u32; 10];
        let mut idle = IdleSet::new(3);
        (0..10).for_each(|id| idle.add(id));
        for _ in 0..10_000 {
            let id = idle.take_any().unwrap();
            counts[id as usize] += 1;
            idle.add(id);
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
