//! `hash-probe`: tries consecutive numbers and looks each up in the hash tables of processes, groups and sessions.
//!
//! A reconstruction of "Tim's" allocator, which D. Schultz preferred in 2004; its description is lost. This is the
//! smallest patch that fits his text: numbers stay consecutive as with `freebsd-scan`, and the two tables of processes
//! and groups existed already, with one bucket for every four processes. `freebsd-bitmap` is another guess.
//!
//! A visit is a number that is tried. Each costs one chain in each of the tables until it is found. Among n of M
//! numbers the mean is 1/(1 − n/M).
//!
//! Source: none; reconstructed from D. Schultz, "Process Creation/Destruction Benchmarks" (February 2004), with the
//! hash tables of FreeBSD 5.2, `sys/kern/kern_proc.c`, `pfind()` and `pgfind()`.

use crate::chains::Chains;
use crate::{Allocator, ClosedForm, INIT, Id, Model, Use};

pub(super) const MODEL: Model = Model {
    name: "hash-probe",
    about: "tries the next number until no hash table has it (reconstruction of \"Tim's\" of 2004)",
    counts: "numbers tried",
    source: "none: reconstructed from D. Schultz (2004)",
    reconstructs: Some("\"Tim's\" allocator of 2004, whose description is lost"),
    low: LOW,
    includes_max: false,
    reserve: 0,
    sessions_hold: true,
    closed_form: Some(ClosedForm::Probing),
    new: |pid_max, _| Box::new(HashProbe::new(pid_max)),
};

/// The smallest number after the first pass; lower numbers belong to daemons.
const LOW: Id = 100;
/// Processes per bucket of a table when all numbers are in use.
const CHAIN: u32 = 4;

#[derive(Debug)]
struct HashProbe {
    pid_max: Id,
    last: Id,
    processes: Chains,
    groups: Chains,
    sessions: Chains,
    visits: u64,
}

impl HashProbe {
    fn new(pid_max: Id) -> Self {
        let table = || Chains::new(pid_max / CHAIN);
        let (mut processes, groups, sessions) = (table(), table(), table());
        processes.insert(INIT);
        Self { pid_max, last: LOW - 1, processes, groups, sessions, visits: 0 }
    }
}

impl Allocator for HashProbe {
    fn allocate(&mut self) -> Option<Id> {
        let mut number = self.last;
        loop {
            number = if number + 1 < self.pid_max { number + 1 } else { LOW };
            self.visits += 1;
            if ![&self.processes, &self.groups, &self.sessions].iter().any(|table| table.find(number).0) {
                break;
            }
        }
        self.last = number;
        self.processes.insert(number);
        Some(number)
    }

    fn place(&mut self, id: Id) -> bool {
        self.processes.insert(id);
        true
    }

    fn exit(&mut self, process: Id, _is_free: bool) {
        self.processes.remove(process);
    }

    fn begin(&mut self, id: Id, of: Use) {
        match of {
            Use::Group => self.groups.insert(id),
            Use::Session => self.sessions.insert(id),
        }
    }

    fn end(&mut self, id: Id, of: Use, _is_free: bool) {
        match of {
            Use::Group => self.groups.remove(id),
            Use::Session => self.sessions.remove(id),
        }
    }

    fn visits(&self) -> u64 {
        self.visits
    }
}
