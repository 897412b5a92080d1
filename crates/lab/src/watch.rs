//! What the lab tells whoever watches it; several kernels may run at once.

use crate::kernel::Kernel;
use crate::matrix::Fate;
use landau_record::schema::Line;

/// Watches the lab.
pub trait Watch: Sync {
    /// A machine is started.
    fn started(&self, _kernel: &Kernel) {}

    /// Its guest is up.
    fn up(&self, _kernel: &Kernel) {}

    /// It measured something: a line of its record.
    fn line(&self, _kernel: &Kernel, _line: &Line) {}

    /// It stopped before its time and is started again.
    fn again(&self, _kernel: &Kernel, _place: &str) {}

    /// It is done, or what kept it from being done.
    fn ended(&self, _kernel: &Kernel, _fate: &Fate) {}

    /// A remark.
    fn note(&self, _text: &str) {}
}

/// Watches and says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Watch for Silent {}
