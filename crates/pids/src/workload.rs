//! The places of the sleeping processes, and what the other processes do among them.

use crate::{INIT, Id, Processes, Refused};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// The target number of encounters with a used number in a sample among random numbers; the mean then varies by about
/// 2%.
const MEETINGS: u64 = 2_000;

/// Allocations before the first measured one, to fetch the model's data into the caches.
const WARM_UP: u32 = 1_000;

/// With [`Workload::Turnover`], the passes of a cursor over the free numbers, and the replacements of each sleeper.
/// After these the allocator has chosen the places of the sleepers.
const PASSES: u32 = 2;
const REPLACEMENTS: u32 = 5;

/// Processes per block with [`Workload::Blocked`].
const BLOCK: u32 = 64;

/// The places of the sleeping processes, and what the other processes do among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Sleepers have random numbers; each new process ends at once.
    Random,
    /// Sleepers have consecutive numbers in the order of their creation, starting at a random one.
    Sequential,
    /// Sleepers are in blocks of 64 consecutive numbers at random places.
    Blocked,
    /// Each sleeper has a random number and keeps a second one in use: that of a session whose leader has ended. In
    /// every second case this is also the number of its group.
    Groups,
    /// Sleepers have random numbers at first. Before each new process a random sleeper ends; the new process replaces
    /// it.
    Turnover,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Self; 5] = [Self::Random, Self::Sequential, Self::Blocked, Self::Groups, Self::Turnover];

    /// The names of all workloads.
    pub const NAMES: &'static [&'static str] = &["random", "sequential", "blocked", "groups", "turnover"];

    /// Returns the workload with that name.
    pub fn named(name: &str) -> Option<Self> {
        let place = Self::NAMES.iter().position(|known| *known == name)?;
        Self::ALL.get(place).copied()
    }

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns a one-line description.
    pub fn about(self) -> &'static str {
        match self {
            Self::Random => "sleepers with random numbers; each new process ends at once",
            Self::Sequential => "sleepers with consecutive numbers; each new process ends at once",
            Self::Blocked => "sleepers in blocks of 64 consecutive numbers; each new process ends at once",
            Self::Groups => {
                "each sleeper also keeps the number of an ended session leader in use; new ones end at once"
            }
            Self::Turnover => {
                "each new process replaces a random one of the sleepers, which had random numbers at first"
            }
        }
    }

    /// Returns how many numbers a sleeper keeps in use.
    pub fn numbers_each(self) -> u32 {
        if self == Self::Groups { 2 } else { 1 }
    }
}

/// The processes of a workload: [`INIT`] and the sleepers.
#[derive(Debug)]
pub struct Population {
    processes: Processes,
    sleepers: Vec<Id>,
    workload: Workload,
    random: ChaCha8Rng,
    /// The range of chosen numbers.
    range: std::ops::RangeInclusive<Id>,
    /// The last chosen number of a sequence or a block.
    last: Option<Id>,
}

impl Population {
    /// Returns a population without sleepers.
    pub fn new(processes: Processes, pid_max: Id, workload: Workload, random: ChaCha8Rng) -> Self {
        let model = processes.model();
        let range = model.low..=model.high(pid_max);
        Self { processes, sleepers: Vec::new(), workload, random, range, last: None }
    }

    /// Adds a sleeper.
    pub fn add(&mut self) -> Result<(), Refused> {
        let sleeper = match self.workload {
            Workload::Groups => self.orphan()?,
            Workload::Random | Workload::Turnover | Workload::Sequential | Workload::Blocked => self.place(INIT)?,
        };
        self.sleepers.push(sleeper);
        Ok(())
    }

    /// Creates processes among the sleepers. Each ends at once or, with [`Workload::Turnover`], replaces a sleeper.
    pub fn fork(&mut self, count: u32) -> Result<(), Refused> {
        if self.workload == Workload::Turnover && !self.sleepers.is_empty() {
            for _ in 0..count {
                let place = self.random.random_range(0..self.sleepers.len());
                self.processes.exit(self.sleepers[place]);
                self.sleepers[place] = self.processes.fork(INIT)?;
            }
        } else {
            for _ in 0..count {
                let child = self.processes.fork(INIT)?;
                self.processes.exit(child);
            }
        }
        Ok(())
    }

    /// Creates processes until the population is in steady state.
    pub fn settle(&mut self) -> Result<(), Refused> {
        let free = self.processes.capacity().saturating_sub(self.processes.in_use());
        let sleepers = self.sleepers.len() as u32;
        let is_turnover = self.workload == Workload::Turnover;
        let most = if is_turnover { (PASSES * free).max(REPLACEMENTS * sleepers) } else { free };
        self.fork(if is_turnover { most } else { most.min(WARM_UP) })
    }

    /// Returns how many allocations are representative of the mean.
    ///
    /// One pass of a cursor over all free numbers meets each used number once. If the used numbers are at random
    /// places, part of a pass has the same mean. With [`Workload::Turnover`] the cursor meets few of them, so the
    /// sample is always a whole pass.
    pub fn representative(&self) -> u32 {
        let used = u64::from(self.processes.in_use());
        let free = u64::from(self.processes.capacity()).saturating_sub(used).max(1);
        let is_even = matches!(self.workload, Workload::Random | Workload::Groups);
        let enough = if is_even { (MEETINGS * free / used.max(1)).max(MEETINGS) } else { free };
        free.min(enough) as u32
    }

    /// Returns the sleepers.
    pub fn sleepers(&self) -> &[Id] {
        &self.sleepers
    }

    /// Returns all processes.
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Creates a process with a number chosen by the workload, or by the allocator if it does not accept one.
    fn place(&mut self, parent: Id) -> Result<Id, Refused> {
        loop {
            let id = self.choose();
            match self.processes.place(parent, id) {
                Ok(()) => {
                    self.last = Some(id);
                    return Ok(id);
                }
                Err(Refused::Unsupported) => return self.processes.fork(parent),
                // A sequence continues after the used number; a block starts at another place.
                Err(Refused::Busy) => self.last = (self.workload == Workload::Sequential).then_some(id),
                Err(refused) => return Err(refused),
            }
        }
    }

    fn choose(&mut self) -> Id {
        let (low, high) = (*self.range.start(), *self.range.end());
        let is_next = match self.workload {
            Workload::Sequential => true,
            Workload::Blocked => !(self.sleepers.len() as u32).is_multiple_of(BLOCK),
            _ => false,
        };
        match self.last {
            Some(last) if is_next && last < high => last + 1,
            Some(_) if is_next => low,
            _ => self.random.random_range(low..=high),
        }
    }

    /// Creates a sleeper in a session whose leader has ended; every second sleeper also gets a separate group there.
    fn orphan(&mut self) -> Result<Id, Refused> {
        let leader = self.place(INIT)?;
        let is_leader = self.processes.setsid(leader);
        let sleeper = self.place(leader)?;
        if is_leader && self.sleepers.len().is_multiple_of(2) {
            self.processes.setpgid(sleeper);
        }
        self.processes.exit(leader);
        Ok(sleeper)
    }
}
