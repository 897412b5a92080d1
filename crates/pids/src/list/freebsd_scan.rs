//! `freebsd-scan`: walks the list of all processes whenever the next number may be in use.
//!
//! FreeBSD until December 2018, and 4.3BSD before it. The kernel remembers the first used number above the last one
//! that it allocated (`pidchecked`); below that number it reads nothing. Then it walks the list of all processes: while
//! a process, its group or its session has the number, it tries the next one. It starts over if an earlier entry of the
//! list may have that number. On the way it finds the next `pidchecked`.
//!
//! New processes are at the head of the list. Among random numbers each used number costs one walk, n²/99,999 visits on
//! average. Consecutive forks leave processes with consecutive numbers in descending order. There, each process makes
//! the walk start over: n²/2 visits in a single allocation, and none in the others of that pass over the numbers.
//!
//! A visit is an entry of the process list; in FreeBSD 5 each is about three cache lines (process, group, session) and
//! a mutex. Zombies, which are on a separate list, are not modelled: a child is reaped at once. `kern.randompid` is 0.
//!
//! Source: FreeBSD 5.2, `sys/kern/kern_fork.c`, `fork1()`; unchanged in `fork_findpid()` until r341684 (7 December
//! 2018).

use crate::{Allocator, ClosedForm, INIT, Id, Model, Use};

pub(super) const MODEL: Model = Model {
    name: "freebsd-scan",
    about: "walks the list of all processes when the next number may be in use (FreeBSD until 2018)",
    counts: "entries of the process list",
    source: "FreeBSD 5.2, sys/kern/kern_fork.c, fork1()",
    reconstructs: None,
    low: LOW,
    includes_max: false,
    reserve: 0,
    sessions_hold: true,
    closed_form: Some(ClosedForm::Scan),
    new: |pid_max, _| Box::new(FreebsdScan::new(pid_max)),
};

/// The smallest number after the first pass; lower numbers belong to daemons.
const LOW: Id = 100;
/// The end of the list.
const NONE: u32 = u32::MAX;

/// An entry of the process list.
#[derive(Debug, Clone, Copy)]
struct Process {
    id: Id,
    group: Id,
    session: Id,
    next: u32,
    previous: u32,
}

#[derive(Debug)]
struct FreebsdScan {
    pid_max: Id,
    last: Id,
    /// The first number above `last` that is known to be in use; 0: unknown.
    checked: Id,
    list: Vec<Process>,
    head: u32,
    free: Vec<u32>,
    /// The entry of each process, which the original finds through a hash table.
    places: Vec<u32>,
    visits: u64,
}

impl FreebsdScan {
    fn new(pid_max: Id) -> Self {
        let mut scan = Self {
            pid_max,
            last: LOW - 1,
            checked: 0,
            list: Vec::new(),
            head: NONE,
            free: Vec::new(),
            places: vec![NONE; pid_max as usize + 1],
            visits: 0,
        };
        scan.insert(INIT);
        scan
    }

    /// Walks the list for a number. Returns the first free number; the error is the number at which the walk must start
    /// over.
    fn walk(&mut self, mut number: Id) -> Result<Id, Id> {
        self.checked = self.pid_max;
        let mut at = self.head;
        while at != NONE {
            let process = self.list[at as usize];
            self.visits += 1;
            while [process.id, process.group, process.session].contains(&number) {
                number += 1;
                if number >= self.checked {
                    return Err(number);
                }
            }
            for used in [process.id, process.group, process.session] {
                if used > number && used < self.checked {
                    self.checked = used;
                }
            }
            at = process.next;
        }
        Ok(number)
    }

    fn insert(&mut self, id: Id) {
        let process = Process { id, group: id, session: id, next: self.head, previous: NONE };
        let place = if let Some(place) = self.free.pop() {
            self.list[place as usize] = process;
            place
        } else {
            self.list.push(process);
            self.list.len() as u32 - 1
        };
        if self.head != NONE {
            self.list[self.head as usize].previous = place;
        }
        self.head = place;
        self.places[id as usize] = place;
    }
}

impl Allocator for FreebsdScan {
    fn allocate(&mut self) -> Option<Id> {
        let mut number = self.last + 1;
        loop {
            if number >= self.pid_max {
                number %= self.pid_max;
                if number < LOW {
                    number += LOW;
                }
                self.checked = 0;
            }
            if number < self.checked {
                break;
            }
            match self.walk(number) {
                Ok(free) => {
                    number = free;
                    break;
                }
                Err(next) => number = next,
            }
        }
        self.last = number;
        self.insert(number);
        Some(number)
    }

    fn place(&mut self, id: Id) -> bool {
        // A kernel with chosen numbers would have to discard what it has seen.
        self.checked = 0;
        self.insert(id);
        true
    }

    fn join(&mut self, process: Id, group: Id, session: Id) {
        let entry = &mut self.list[self.places[process as usize] as usize];
        (entry.group, entry.session) = (group, session);
    }

    fn exit(&mut self, process: Id, _is_free: bool) {
        let place = std::mem::replace(&mut self.places[process as usize], NONE);
        let Process { next, previous, .. } = self.list[place as usize];
        if previous == NONE {
            self.head = next;
        } else {
            self.list[previous as usize].next = next;
        }
        if next != NONE {
            self.list[next as usize].previous = previous;
        }
        self.free.push(place);
    }

    /// Does nothing: groups and sessions are found through their members.
    fn end(&mut self, _id: Id, _of: Use, _is_free: bool) {}

    fn visits(&self) -> u64 {
        self.visits
    }
}
