//! Allocators of process identifiers, as models in user space: how much memory does each read to find a free number?
//!
//! A kernel gives each new process a number that nothing uses: no process, no process group and no session. The
//! kernels differ in how they find one. A model keeps only the numbers of an original, and searches as the original
//! does; it counts what the original would read in memory. Models run beside one another on one machine, which the
//! kernels cannot.
//!
//! - [`Model`] describes one allocator, [`Allocator`] is its search. One file each in [`list`]; `cargo xtask registry`
//!   generates the list.
//! - [`Processes`] is the rest of a kernel: it knows the processes, their groups and their sessions, and tells the
//!   allocator when the last use of a number ends.
//! - [`Workload`] places sleeping processes, as D. Schultz did in 2004, and [`measure`] takes samples among them.
//!
//! Not a measure of a kernel: a model has no locks, no interrupts and no other work between two allocations, so its
//! data are warmer in the caches than a kernel's. `spawn` and `fork` measure kernels.

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

/// The number of the first process, which is always there.
pub const INIT: Id = 1;

/// What uses a number besides a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A process group, from its leader's `setpgid()` to its last member's end.
    Group,
    /// A session, from its leader's `setsid()` to its last member's end.
    Session,
}

/// The search for a free number. The numbers that it must know it is told by [`Processes`].
pub trait Allocator: Debug + Send {
    /// Returns a number that nothing uses, and takes it for a process; `None` if the search finds that there is none.
    /// [`Processes`] does not ask when all numbers are in use, as a kernel does not that has as many processes as it
    /// may have: an original may search forever then.
    fn allocate(&mut self) -> Option<Id>;

    /// Takes a number that nothing uses for a process; false if the original cannot give a process a chosen number.
    fn place(&mut self, id: Id) -> bool;

    /// Learns the group and the session of a process: after each allocation, and whenever they change.
    fn join(&mut self, _process: Id, _group: Id, _session: Id) {}

    /// Learns that nothing uses a number any more. A model that looks for processes, groups and sessions in different
    /// places implements [`Allocator::exit`] and [`Allocator::end`] instead.
    fn release(&mut self, _id: Id) {}

    /// Learns that a process ended. `is_free` if no group or session uses its number.
    fn exit(&mut self, process: Id, is_free: bool) {
        if is_free {
            self.release(process);
        }
    }

    /// Learns that a group or a session with this number began. It is that of a process.
    fn begin(&mut self, _id: Id, _of: Use) {}

    /// Learns that a group or a session ended. `is_free` if nothing uses its number any more.
    fn end(&mut self, id: Id, _of: Use, is_free: bool) {
        if is_free {
            self.release(id);
        }
    }

    /// Returns what all calls of [`Allocator::allocate`] have read so far, in the unit of [`Model::counts`].
    fn visits(&self) -> u64;
}

/// A closed form of the mean number of visits of an allocation. M is the largest number, n that of sleepers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedForm {
    /// A list of all processes is walked where a cursor meets a used number.
    Scan,
    /// A cursor tries numbers until one is free.
    Probing,
    /// Random numbers are tried until one is free.
    Drawing,
}

impl ClosedForm {
    /// Returns the mean among `n` sleepers with numbers up to `pid_max`; none if it is not known of the workload.
    ///
    /// With [`Workload::Turnover`] a cursor meets fewer used numbers than there are: those before it are the oldest. A
    /// share u of them is left since the cursor was there. Meanwhile it gave out M·(1 − u) numbers, and as many random
    /// sleepers of n ended: u = e^(−M·(1 − u)/n).
    pub fn visits(self, workload: Workload, n: u32, pid_max: Id) -> Option<f64> {
        let (n, pid_max) = (f64::from(n), f64::from(pid_max));
        match (workload, self) {
            (Workload::Random, Self::Scan) => Some(n * n / pid_max),
            (Workload::Random, Self::Probing) | (Workload::Random | Workload::Turnover, Self::Drawing) => {
                Some(1.0 / (1.0 - n / pid_max))
            }
            (Workload::Turnover, Self::Probing) => Some(1.0 / (1.0 - left(n / pid_max))),
            // A scan also walks where a number was used when it looked ahead, and is not any more.
            (Workload::Turnover, Self::Scan) | (Workload::Sequential | Workload::Blocked | Workload::Groups, _) => None,
        }
    }

    /// Returns the formula, in which n is the number of sleepers; none if it is not known of the workload.
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

/// The share u of used numbers before a cursor in steady state: u = e^(−(1 − u)/`occupancy`). Iteration from 0 rises to
/// the smallest solution.
fn left(occupancy: f64) -> f64 {
    (0..1_000).fold(0.0, |u: f64, _| (-(1.0 - u) / occupancy).exp())
}

/// An allocator: what it is, and how to make one.
#[derive(Debug)]
pub struct Model {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// What is counted as a visit.
    pub counts: &'static str,
    /// The source that it follows: system, version, file, function.
    pub source: &'static str,
    /// What it reconstructs, if an original is lost.
    pub reconstructs: Option<&'static str>,
    /// The smallest number that it gives to a process after the first pass over the numbers.
    pub low: Id,
    /// The largest number is `pid_max` itself; otherwise `pid_max - 1`.
    pub includes_max: bool,
    /// Free numbers that it must not give out, at most.
    pub reserve: Id,
    /// A session keeps its number in use.
    pub sessions_hold: bool,
    /// The mean number of visits, if it is known.
    pub closed_form: Option<ClosedForm>,
    /// Makes an allocator of numbers up to `pid_max`; [`INIT`] is in use.
    pub new: fn(pid_max: Id, seed: u64) -> Box<dyn Allocator>,
}

impl Model {
    /// Returns how many numbers from [`Model::low`] on can be in use at a time.
    pub fn capacity(&self, pid_max: Id) -> u32 {
        (self.high(pid_max) + 1).saturating_sub(self.low + self.reserve)
    }

    /// Returns the largest number among those that are counted in [`Model::capacity`].
    pub fn high(&self, pid_max: Id) -> Id {
        if self.includes_max { pid_max } else { pid_max - 1 }
    }
}

/// Returns the model of that name.
pub fn named(name: &str) -> Option<&'static Model> {
    ALL.iter().find(|model| model.name == name).copied()
}
