//! A million random operations on each model, compared with a simple account of the numbers in use.

use landau_pids::{ALL, INIT, Id, Model, Processes, Refused};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::BTreeMap;

const OPERATIONS: u32 = 1_000_000;
/// Numbers available to processes. They are few, so that the operations pass over them often and sometimes use them
/// all.
const NUMBERS: u32 = 300;

/// The users of each number, by counting.
#[derive(Default)]
struct Account {
    /// Group and session of each process.
    processes: BTreeMap<Id, (Id, Id)>,
    groups: BTreeMap<Id, u32>,
    sessions: BTreeMap<Id, u32>,
}

impl Account {
    fn add(&mut self, process: Id, group: Id, session: Id) {
        assert!(self.processes.insert(process, (group, session)).is_none(), "{process} was handed out twice");
        *self.groups.entry(group).or_default() += 1;
        *self.sessions.entry(session).or_default() += 1;
    }

    fn remove(&mut self, process: Id) -> (Id, Id) {
        let (group, session) = self.processes.remove(&process).expect("the process is alive");
        for (of, id) in [(&mut self.groups, group), (&mut self.sessions, session)] {
            let members = of.get_mut(&id).expect("the process is its member");
            *members -= 1;
            if *members == 0 {
                of.remove(&id);
            }
        }
        (group, session)
    }

    fn uses(&self, id: Id, model: &Model) -> bool {
        let has_session = model.sessions_hold && self.sessions.contains_key(&id);
        self.processes.contains_key(&id) || self.groups.contains_key(&id) || has_session
    }

    /// Returns how many numbers are in use, of those that the capacity counts.
    fn in_use(&self, model: &Model) -> u32 {
        let mut used: Vec<Id> = self.processes.keys().chain(self.groups.keys()).copied().collect();
        if model.sessions_hold {
            used.extend(self.sessions.keys());
        }
        used.sort_unstable();
        used.dedup();
        used.iter().filter(|id| **id >= model.low).count() as u32
    }
}

struct Trial {
    model: &'static Model,
    pid_max: Id,
    processes: Processes,
    account: Account,
    alive: Vec<Id>,
    random: ChaCha8Rng,
    refusals: u32,
    orphans: u32,
}

impl Trial {
    fn new(model: &'static Model) -> Self {
        let mut account = Account::default();
        account.add(INIT, INIT, INIT);
        let pid_max = model.low + model.reserve + NUMBERS;
        let processes = Processes::new(model, pid_max, 7);
        let random = ChaCha8Rng::seed_from_u64(7);
        Self { model, pid_max, processes, account, alive: Vec::new(), random, refusals: 0, orphans: 0 }
    }

    fn capacity(&self) -> u32 {
        self.model.capacity(self.pid_max)
    }

    fn any(&mut self) -> Option<usize> {
        (!self.alive.is_empty()).then(|| self.random.random_range(0..self.alive.len()))
    }

    fn enter(&mut self, id: Id, parent: Id) {
        let (group, session) = self.account.processes[&parent];
        let name = self.model.name;
        assert!(!self.account.uses(id, self.model), "{name}: {id} is in use");
        assert!(id >= self.model.low, "{name}: {id}");
        self.account.add(id, group, session);
        self.alive.push(id);
    }

    fn fork(&mut self) {
        let parent = self.any().map_or(INIT, |place| self.alive[place]);
        match self.processes.fork(parent) {
            Ok(id) => self.enter(id, parent),
            Err(refused) => {
                let used = self.account.in_use(self.model);
                // Linux's bitmap may refuse its lowest number if no other is left.
                let is_early = self.model.name == "linux-bitmap"
                    && used + 1 == self.capacity()
                    && !self.account.uses(self.model.low, self.model);
                assert!(used >= self.capacity() || is_early, "{}: {refused} at {used}", self.model.name);
                self.refusals += 1;
            }
        }
    }

    fn place(&mut self) {
        let id = self.random.random_range(0..self.pid_max + 10);
        let parent = self.any().map_or(INIT, |place| self.alive[place]);
        let is_used = self.account.uses(id, self.model);
        match self.processes.place(parent, id) {
            Ok(()) => self.enter(id, parent),
            Err(Refused::Busy) => {
                let is_outside = id < self.model.low || id > self.model.high(self.pid_max);
                assert!(is_used || is_outside, "{}: {id} is free", self.model.name);
            }
            Err(Refused::Full) => assert!(self.account.in_use(self.model) >= self.capacity()),
            Err(_) => assert_eq!(self.model.name, "netbsd-table"),
        }
    }

    fn exit(&mut self) {
        let Some(place) = self.any() else { return };
        let id = self.alive.swap_remove(place);
        self.account.remove(id);
        self.processes.exit(id);
        self.orphans += u32::from(self.account.uses(id, self.model));
    }

    fn regroup(&mut self) {
        let Some(place) = self.any() else { return };
        let id = self.alive[place];
        let (group, session) = self.account.processes[&id];
        if self.random.random_range(0..2) == 0 {
            let exists = self.account.groups.contains_key(&id) || self.account.sessions.contains_key(&id);
            assert_eq!(self.processes.setsid(id), !exists);
            if !exists {
                self.account.remove(id);
                self.account.add(id, id, id);
            }
        } else if self.processes.setpgid(id) {
            assert_ne!(session, id);
            if group != id {
                self.account.remove(id);
                self.account.add(id, id, session);
            }
        }
    }

    /// Performs a random operation. Phases with more forks alternate with phases with more exits.
    fn step(&mut self, number: u32) {
        let is_growing = (number / 3_000).is_multiple_of(2);
        match self.random.random_range(0..100) {
            0..10 => self.regroup(),
            10..20 => self.place(),
            draw if (draw < 60) == is_growing || draw >= 90 => self.fork(),
            _ => self.exit(),
        }
        let (counted, name) = (self.processes.in_use(), self.model.name);
        if number.is_multiple_of(1_000) {
            assert_eq!(counted, self.account.in_use(self.model), "{name}");
        }
    }

    /// Ends all processes and creates as many as possible, to show that no number was lost.
    fn fill(&mut self) {
        while !self.alive.is_empty() {
            self.exit();
        }
        let before = self.account.in_use(self.model);
        for _ in before..self.capacity() {
            self.fork();
        }
        assert_eq!(self.account.in_use(self.model), self.capacity(), "{}: numbers were lost", self.model.name);
        assert_eq!(self.processes.fork(INIT), Err(Refused::Full), "{}", self.model.name);
    }
}

fn try_out(name: &str) {
    let model = landau_pids::named(name).expect("a model");
    let mut trial = Trial::new(model);
    for number in 0..OPERATIONS {
        trial.step(number);
    }
    assert!(trial.refusals > 1_000, "{name}: the numbers were in use {} times", trial.refusals);
    assert!(trial.orphans > 10_000, "{name}: {} groups and sessions outlived their leader", trial.orphans);
    trial.fill();
}

macro_rules! each {
    ($($test:ident: $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                try_out($name);
            }
        )*

        /// Guards against a model without a test.
        #[test]
        fn every_model_is_tried() {
            let names: Vec<&str> = ALL.iter().map(|model| model.name).collect();
            assert_eq!(names, [$($name),*]);
        }
    };
}

each! {
    freebsd_bitmap: "freebsd-bitmap";
    freebsd_scan: "freebsd-scan";
    hash_probe: "hash-probe";
    illumos_hash: "illumos-hash";
    linux_bitmap: "linux-bitmap";
    linux_idr: "linux-idr";
    netbsd_table: "netbsd-table";
    openbsd_random: "openbsd-random";
}
