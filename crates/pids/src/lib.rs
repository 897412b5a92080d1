//! User-space models of process identifier allocators: how much memory does each read to find a free number?
//!
//! A kernel gives each new process a number that no process, process group or session uses. The kernels differ in how
//! they find one. A model keeps only the numbers of the original and searches as the original does. It counts what the
//! original would read in memory. Unlike kernels, all models run on one machine.
//!
//! - [`Model`] describes one allocator; [`Allocator`] is its search. Each has one file in [`list`];
//!   `cargo xtask registry` generates the list.
//! - [`Processes`] is the rest of a kernel: it keeps the processes, their groups and their sessions, and notifies the
//!   allocator when the last use of a number ends.
//! - [`Workload`] places sleeping processes, as D. Schultz did in 2004, and [`measure`] takes samples among them.
//!
//! The models do not measure a kernel: a model has no locks, no interrupts and no other work between two allocations,
//! so its data are warmer in the caches than a kernel's. The benchmarks `spawn` and `fork` measure kernels.

mod bits;
mod chains;
pub mod list;
pub mod measure;
mod nothing;
mod processes;
mod workload;

pub use list::ALL;
pub use nothing::NOTHING;
pub use processes::{Processes, Refused};
pub use workload::{Population, Workload};

use std::fmt::Debug;

/// A number of a process, a group or a session.
pub type Id = u32;

/// The number of the first process, which always exists.
pub const INIT: Id = 1;

/// The uses of a number other than by a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A process group, from its leader's `setpgid()` to its last member's end.
    Group,
    /// A session, from its leader's `setsid()` to its last member's end.
    Session,
}

/// The search for a free number. [`Processes`] notifies it of the numbers that it must know.
pub trait Allocator: Debug + Send {
    /// Returns an unused number and marks it as used by a process, or `None` if the search finds no free number.
    ///
    /// [`Processes`] does not call this when all numbers are in use, as a kernel does not at its limit of processes:
    /// some originals would search forever.
    fn allocate(&mut self) -> Option<Id>;

    /// Marks an unused number as used by a process. Returns false if the original cannot give a process a chosen
    /// number.
    fn place(&mut self, id: Id) -> bool;

    /// Records the group and the session of a process, after each allocation and each change.
    fn join(&mut self, _process: Id, _group: Id, _session: Id) {}

    /// Records that a number became free. A model that searches processes, groups and sessions in different places
    /// implements [`Allocator::exit`] and [`Allocator::end`] instead.
    fn release(&mut self, _id: Id) {}

    /// Records the end of a process. `is_free` is true if no group or session uses its number.
    fn exit(&mut self, process: Id, is_free: bool) {
        if is_free {
            self.release(process);
        }
    }

    /// Records the start of a group or a session with this number, which is that of a process.
    fn begin(&mut self, _id: Id, _of: Use) {}

    /// Records the end of a group or a session. `is_free` is true if nothing uses its number any more.
    fn end(&mut self, id: Id, _of: Use, is_free: bool) {
        if is_free {
            self.release(id);
        }
    }

    /// Returns the number of visits of all calls of [`Allocator::allocate`] so far, in the unit of [`Model::counts`].
    fn visits(&self) -> u64;
}

/// A closed form of the mean number of visits of an allocation. M is the largest number and n the number of sleepers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedForm {
    /// Walks the list of all processes where a cursor reaches a used number.
    Scan,
    /// Tries consecutive numbers from a cursor until one is free.
    Probing,
    /// Tries random numbers until one is free.
    Drawing,
}

impl ClosedForm {
    /// Returns the mean among `n` sleepers with numbers up to `pid_max`; `None` if it is not known for the workload.
    ///
    /// With [`Workload::Turnover`] the numbers ahead of a cursor are the oldest, so it meets fewer used numbers than
    /// the average. A share u of them is left since the last visit of the cursor. Meanwhile it allocated M·(1 − u)
    /// numbers, and as many random sleepers of n ended: u = e^(−M·(1 − u)/n).
    pub fn visits(self, workload: Workload, n: u32, pid_max: Id) -> Option<f64> {
        let (n, pid_max) = (f64::from(n), f64::from(pid_max));
        match (workload, self) {
            (Workload::Random, Self::Scan) => Some(n * n / pid_max),
            (Workload::Random, Self::Probing) | (Workload::Random | Workload::Turnover, Self::Drawing) => {
                Some(1.0 / (1.0 - n / pid_max))
            }
            (Workload::Turnover, Self::Probing) => Some(1.0 / (1.0 - left(n / pid_max))),
            // A scan also walks at a number that was used when it looked ahead, but has since become free.
            (Workload::Turnover, Self::Scan) | (Workload::Sequential | Workload::Blocked | Workload::Groups, _) => None,
        }
    }

    /// Returns the formula, in which n is the number of sleepers; `None` if it is not known for the workload.
    pub fn formula(self, workload: Workload) -> Option<&'static str> {
        match (workload, self) {
            (Workload::Random, Self::Scan) => Some("n²/pid_max"),
            (Workload::Random, Self::Probing) | (Workload::Random | Workload::Turnover, Self::Drawing) => {
                Some("1/(1 − n/pid_max)")
            }
            (Workload::Turnover, Self::Probing) => Some("1/(1 − u), u = e^(−pid_max·(1 − u)/n),"),
            (Workload::Turnover, Self::Scan) | (Workload::Sequential | Workload::Blocked | Workload::Groups, _) => None,
        }
    }
}

/// Returns the share u of used numbers ahead of a cursor in steady state: u = e^(−(1 − u)/`occupancy`). Iteration from
/// 0 converges upwards to the smallest solution.
fn left(occupancy: f64) -> f64 {
    (0..1_000).fold(0.0, |u: f64, _| (-(1.0 - u) / occupancy).exp())
}

/// An allocator: its description and its constructor.
#[derive(Debug)]
pub struct Model {
    /// Its name on the command line.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// The unit of a visit.
    pub counts: &'static str,
    /// The source that it follows: system, version, file, function.
    pub source: &'static str,
    /// The lost original that it reconstructs, if any.
    pub reconstructs: Option<&'static str>,
    /// The smallest number that it allocates after the first pass over the numbers.
    pub low: Id,
    /// Whether the largest number is `pid_max` itself; otherwise it is `pid_max - 1`.
    pub includes_max: bool,
    /// The maximum number of free numbers that it must not allocate.
    pub reserve: Id,
    /// Whether a session keeps its number in use.
    pub sessions_hold: bool,
    /// The mean number of visits, if it is known.
    pub closed_form: Option<ClosedForm>,
    /// Creates an allocator of numbers up to `pid_max`, with [`INIT`] in use.
    pub new: fn(pid_max: Id, seed: u64) -> Box<dyn Allocator>,
}

impl Model {
    /// Returns how many numbers from [`Model::low`] on can be in use at a time.
    pub fn capacity(&self, pid_max: Id) -> u32 {
        (self.high(pid_max) + 1).saturating_sub(self.low + self.reserve)
    }

    /// Returns the largest number that [`Model::capacity`] counts.
    pub fn high(&self, pid_max: Id) -> Id {
        if self.includes_max { pid_max } else { pid_max - 1 }
    }
}

/// Returns the model with that name.
pub fn named(name: &str) -> Option<&'static Model> {
    ALL.iter().find(|model| model.name == name).copied()
}
