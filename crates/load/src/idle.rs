//! Connections at rest, of which any one can be taken out and one at random picked, each in constant time.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Not in the list.
const NOWHERE: u32 = u32::MAX;

/// Connections at rest.
#[derive(Debug)]
pub(crate) struct Idle {
    ids: Vec<u32>,
    /// Where each connection stands in the list.
    places: Vec<u32>,
    random: ChaCha8Rng,
}

impl Idle {
    pub(crate) fn new(seed: u64) -> Self {
        Self { ids: Vec::new(), places: Vec::new(), random: ChaCha8Rng::seed_from_u64(seed) }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds one; whether it is new.
    pub(crate) fn add(&mut self, id: u32) {
        let index = id as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NOWHERE);
        }
        if self.places[index] == NOWHERE {
            self.places[index] = self.ids.len() as u32;
            self.ids.push(id);
        }
    }

    /// Takes one out, if it is there.
    pub(crate) fn remove(&mut self, id: u32) {
        let Some(&place) = self.places.get(id as usize).filter(|&&place| place != NOWHERE) else { return };
        self.places[id as usize] = NOWHERE;
        self.ids.swap_remove(place as usize);
        if let Some(&moved) = self.ids.get(place as usize) {
            self.places[moved as usize] = place;
        }
    }

    /// Takes one out at random: old and young alike.
    pub(crate) fn take_any(&mut self) -> Option<u32> {
        let count = self.ids.len() as u64;
        if count == 0 {
            return None;
        }
        // The upper half of a product is as even as 64 random bits are.
        let place = (u128::from(self.random.next_u64()) * u128::from(count)) >> 64;
        let id = self.ids[place as usize];
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
        fn it_is_a_set(steps in prop::collection::vec((any::<bool>(), 0_u32..20), 0..200)) {
            let (mut idle, mut set) = (Idle::new(1), BTreeSet::new());
            for (adds, id) in steps {
                if adds {
                    idle.add(id);
                    set.insert(id);
                } else if id % 3 == 0 {
                    let taken = idle.take_any();
                    prop_assert_eq!(taken.is_some(), !set.is_empty());
                    prop_assert!(taken.is_none_or(|one| set.remove(&one)));
                } else {
                    idle.remove(id);
                    set.remove(&id);
                }
                prop_assert_eq!(idle.len(), set.len());
            }
        }
    }

    #[test]
    fn old_and_young_are_picked_alike() {
        let mut counts = [0_u32; 10];
        let mut idle = Idle::new(3);
        (0..10).for_each(|id| idle.add(id));
        for _ in 0..10_000 {
            let id = idle.take_any().unwrap();
            counts[id as usize] += 1;
            idle.add(id);
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
