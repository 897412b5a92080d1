//! `freebsd-bitmap`: three bitmaps with one bit for each number, for processes, groups and sessions.
//!
//! FreeBSD since December 2018, after `freebsd-scan`. This is also the second guess at "Tim's" allocator of 2004, whose
//! description is lost (the first is `hash-probe`). The search for a clear bit in the map of processes starts after the
//! last number. If another map has the bit set, the search continues after it.
//!
//! A visit is a word of 64 bits that is read in any of the maps. The original has a fourth map (reapers), which no
//! ordinary process changes.
//!
//! Source: FreeBSD 13, `sys/kern/kern_fork.c`, `fork_findpid()` (r341684, 7 December 2018; at that time the restart was
//! at 100 instead of 2).

use crate::bits::Bits;
use crate::{Allocator, INIT, Id, Model, Use};

pub(super) const MODEL: Model = Model {
    name: "freebsd-bitmap",
    about: "finds a clear bit in bitmaps (FreeBSD since 2018; the other reconstruction of \"Tim's\" of 2004)",
    counts: "words of the bitmaps",
    source: "FreeBSD 13, sys/kern/kern_fork.c, fork_findpid()",
    reconstructs: Some("the same allocator if it was a bitmap; for FreeBSD since 2018 it follows the source"),
    low: LOW,
    includes_max: false,
    reserve: 0,
    sessions_hold: true,
    closed_form: None,
    new: |pid_max, _| Box::new(FreebsdBitmap::new(pid_max)),
};

const LOW: Id = 2;

#[derive(Debug)]
struct FreebsdBitmap {
    pid_max: Id,
    last: Id,
    processes: Bits,
    groups: Bits,
    sessions: Bits,
    reapers: Bits,
    visits: u64,
}

impl FreebsdBitmap {
    fn new(pid_max: Id) -> Self {
        let map = || Bits::new(pid_max);
        let (mut processes, groups, sessions, mut reapers) = (map(), map(), map(), map());
        processes.set(INIT);
        reapers.set(INIT);
        Self { pid_max, last: INIT, processes, groups, sessions, reapers, visits: 0 }
    }
}

impl Allocator for FreebsdBitmap {
    fn allocate(&mut self) -> Option<Id> {
        let mut number = self.last + 1;
        loop {
            if number >= self.pid_max {
                number = LOW;
            }
            let (found, read) = self.processes.first_clear(number, self.pid_max);
            self.visits += read;
            let Some(found) = found else {
                if number == LOW {
                    return None;
                }
                number = LOW;
                continue;
            };
            let others = [&self.groups, &self.sessions, &self.reapers];
            let busy = others.iter().position(|map| map.has(found));
            self.visits += busy.map_or(others.len(), |place| place + 1) as u64;
            if busy.is_none() {
                self.processes.set(found);
                self.last = found;
                return Some(found);
            }
            number = found + 1;
        }
    }

    fn place(&mut self, id: Id) -> bool {
        self.processes.set(id);
        true
    }

    fn exit(&mut self, process: Id, _is_free: bool) {
        self.processes.clear(process);
    }

    fn begin(&mut self, id: Id, of: Use) {
        match of {
            Use::Group => self.groups.set(id),
            Use::Session => self.sessions.set(id),
        }
    }

    fn end(&mut self, id: Id, of: Use, _is_free: bool) {
        match of {
            Use::Group => self.groups.clear(id),
            Use::Session => self.sessions.clear(id),
        }
    }

    fn visits(&self) -> u64 {
        self.visits
    }
}
