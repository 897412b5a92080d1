//! `illumos-hash`: tries consecutive numbers and looks each up in one hash table of all numbers in use.
//!
//! A number is a separate object (`struct pid`) that process, group and session share. It is in the table while one of
//! them refers to it, so one lookup covers all three.
//!
//! A visit is an entry of a chain that is read, plus one for the bucket of each number that is tried. The table has at
//! least one bucket for every four numbers. The original has one for every four processes of its limit (`v_proc`), and
//! so longer chains if that limit is less than the number of identifiers.
//!
//! Source: illumos, `usr/src/uts/common/os/pid.c`, `pid_allocate()`, `pid_lookup()` and `pid_rele()` (read in the
//! version of 2010).

use crate::chains::Chains;
use crate::{Allocator, INIT, Id, Model};

pub(super) const MODEL: Model = Model {
    name: "illumos-hash",
    about: "tries the next number until the hash table of all numbers in use lacks it (illumos)",
    counts: "buckets and entries of the hash table",
    source: "illumos, usr/src/uts/common/os/pid.c, pid_allocate()",
    reconstructs: None,
    low: LOW,
    includes_max: false,
    reserve: 0,
    sessions_hold: true,
    closed_form: None,
    new: |pid_max, _| Box::new(IllumosHash::new(pid_max)),
};

/// `minpid`: the number of the first process after those that the kernel starts. It differs from host to host; this
/// value is the one of the other models.
const LOW: Id = 100;
/// Entries per chain when all numbers are in use (`pid_hashlen`).
const CHAIN: u32 = 4;

#[derive(Debug)]
struct IllumosHash {
    pid_max: Id,
    /// The number to try next.
    next: Id,
    table: Chains,
    visits: u64,
}

impl IllumosHash {
    fn new(pid_max: Id) -> Self {
        // The number of buckets is the next power of two above the quotient.
        let mut table = Chains::new(pid_max / CHAIN + 1);
        table.insert(INIT);
        Self { pid_max, next: LOW, table, visits: 0 }
    }
}

impl Allocator for IllumosHash {
    fn allocate(&mut self) -> Option<Id> {
        let first = self.next;
        loop {
            let number = self.next;
            self.next = if number + 1 == self.pid_max { LOW } else { number + 1 };
            let (is_used, read) = self.table.find(number);
            self.visits += 1 + read;
            if !is_used {
                self.table.insert(number);
                return Some(number);
            }
            if self.next == first {
                return None;
            }
        }
    }

    fn place(&mut self, id: Id) -> bool {
        self.table.insert(id);
        true
    }

    fn release(&mut self, id: Id) {
        self.table.remove(id);
    }

    fn visits(&self) -> u64 {
        self.visits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_finds_no_number_ends() {
        let mut hash = IllumosHash::new(200);
        assert_eq!((LOW..200).filter_map(|_| hash.allocate()).count(), 100);
        assert_eq!(hash.allocate(), None);
        hash.exit(150, true);
        assert_eq!(hash.allocate(), Some(150));
    }
}
