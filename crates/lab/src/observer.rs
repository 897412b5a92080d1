//! The lab's reports while it runs; several kernels may run at once.

use crate::kernel::Kernel;
use crate::outcome::KernelOutcome;
use landau_record::schema::Line;

/// Receives the events of each kernel.
pub trait KernelObserver: Sync {
    /// A machine is started.
    fn started(&self, _kernel: &Kernel) {}

    /// Its guest is up.
    fn up(&self, _kernel: &Kernel) {}

    /// The guest sent a line of its record.
    fn line(&self, _kernel: &Kernel, _line: &Line) {}

    /// It stopped early, at `place`, and is started again.
    fn restarted(&self, _kernel: &Kernel, _place: &str) {}

    /// It is finished.
    fn ended(&self, _kernel: &Kernel, _outcome: &KernelOutcome) {}
}

/// An observer that ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl KernelObserver for Silent {}
