//! An allocator that does not search: the baseline of the time of all others.

use crate::{Allocator, Id, Model};

/// Allocates the number that became free last, or the next unused one. It is not one of the compared allocators: its
/// time is theirs without their search.
pub const NOTHING: &Model = &Model {
    name: "nothing",
    about: "gives out the number that became free last",
    counts: "nothing",
    source: "none",
    reconstructs: None,
    low: 2,
    includes_max: true,
    reserve: 0,
    sessions_hold: true,
    closed_form: None,
    new: |_, _| Box::new(Nothing { next: 2, free: Vec::new() }),
};

#[derive(Debug)]
struct Nothing {
    next: Id,
    free: Vec<Id>,
}

impl Allocator for Nothing {
    fn allocate(&mut self) -> Option<Id> {
        self.free.pop().or_else(|| {
            self.next += 1;
            Some(self.next - 1)
        })
    }

    fn place(&mut self, _id: Id) -> bool {
        false
    }

    fn release(&mut self, id: Id) {
        self.free.push(id);
    }

    fn visits(&self) -> u64 {
        0
    }
}
