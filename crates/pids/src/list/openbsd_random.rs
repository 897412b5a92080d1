//! `openbsd-random`: tries random numbers until one is free.
//!
//! A number is rejected if it is among the last 128 that became free, or if a process or a group has it. The list of
//! freed numbers is compared first, entry by entry. A session does not keep its number: only its group does.
//!
//! A visit is a number that is tried. Among n of M numbers the mean is 1/(1 − n/M), regardless of their places. The 128
//! comparisons for each number take most of the time.
//!
//! Source: OpenBSD 6, `sys/kern/kern_fork.c`, `allocpid()`, `ispidtaken()` and `freepid()`.

use crate::chains::Chains;
use crate::{Allocator, ClosedForm, INIT, Id, Model, Use};
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

pub(super) const MODEL: Model = Model {
    name: "openbsd-random",
    about: "tries random numbers until one is free (OpenBSD)",
    counts: "numbers tried",
    source: "OpenBSD 6, sys/kern/kern_fork.c, allocpid()",
    reconstructs: None,
    low: 2,
    includes_max: true,
    reserve: FREED as Id,
    sessions_hold: false,
    closed_form: Some(ClosedForm::Drawing),
    new: |pid_max, seed| Box::new(OpenbsdRandom::new(pid_max, seed)),
};

/// The count of recently freed numbers, which are not reused yet (`oldpids`).
const FREED: usize = 128;
/// Processes per bucket of a table when all numbers are in use.
const CHAIN: u32 = 4;

#[derive(Debug)]
struct OpenbsdRandom {
    pid_max: Id,
    /// `ChaCha20`, like `arc4random()`.
    random: ChaCha20Rng,
    freed: [Id; FREED],
    freed_count: usize,
    processes: Chains,
    groups: Chains,
    visits: u64,
}

impl OpenbsdRandom {
    fn new(pid_max: Id, seed: u64) -> Self {
        let table = || Chains::new(pid_max / CHAIN);
        let (mut processes, groups) = (table(), table());
        processes.insert(INIT);
        let random = ChaCha20Rng::seed_from_u64(seed);
        Self { pid_max, random, freed: [0; FREED], freed_count: 0, processes, groups, visits: 0 }
    }

    fn is_taken(&self, number: Id) -> bool {
        self.freed.contains(&number) || self.processes.find(number).0 || self.groups.find(number).0
    }
}

impl Allocator for OpenbsdRandom {
    fn allocate(&mut self) -> Option<Id> {
        loop {
            let number = self.random.random_range(2..=self.pid_max);
            self.visits += 1;
            if !self.is_taken(number) {
                self.processes.insert(number);
                return Some(number);
            }
        }
    }

    fn place(&mut self, id: Id) -> bool {
        self.processes.insert(id);
        true
    }

    fn exit(&mut self, process: Id, _is_free: bool) {
        self.processes.remove(process);
        self.freed[self.freed_count % FREED] = process;
        self.freed_count += 1;
    }

    fn begin(&mut self, id: Id, _of: Use) {
        self.groups.insert(id);
    }

    fn end(&mut self, id: Id, _of: Use, _is_free: bool) {
        self.groups.remove(id);
    }

    fn visits(&self) -> u64 {
        self.visits
    }
}
