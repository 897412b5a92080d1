//! What runs a kernel: each engine makes, of a machine's description, a command whose standard output is the guest's
//! line to the host.

pub mod qemu;

use crate::error::Error;
use crate::kernel::Kernel;
use landau_record::schema::{Lab, Unit};
use std::path::Path;
use std::process::Command;

/// What runs a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// An emulator that counts instructions and repeats itself to the last of them.
    Exact,
    /// The host's processor under a hypervisor.
    Kvm,
    /// An emulator against the host's clock: no timing of anything.
    Tcg,
}

/// Every engine.
pub const ALL: &[Engine] = &[Engine::Exact, Engine::Kvm, Engine::Tcg];

/// What a machine is made of.
#[derive(Debug, Clone)]
pub struct Machine<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The initramfs.
    pub initramfs: &'a Path,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Further words for the kernel.
    pub append: &'a str,
    /// Further words for the emulator.
    pub extra: &'a [String],
}

/// The kernel as a record tells it.
fn as_recorded(kernel: &Kernel) -> landau_record::schema::Kernel {
    landau_record::schema::Kernel {
        name: kernel.name.clone(),
        file: kernel.image.display().to_string(),
        sha256: kernel.sha256.clone(),
        origin: kernel.origin.clone(),
    }
}

impl Engine {
    /// The engine's name.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Exact => "exact",
            Engine::Kvm => "kvm",
            Engine::Tcg => "tcg",
        }
    }

    /// The engine of that name.
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|one| one.name() == name)
    }

    /// What its samples count.
    pub fn unit(self) -> Unit {
        match self {
            Engine::Exact => Unit::Instructions,
            Engine::Kvm => Unit::Ns,
            Engine::Tcg => Unit::EmulatedNs,
        }
    }

    /// Whether two runs of the same thing are the same to the last instruction.
    pub fn is_exact(self) -> bool {
        self == Engine::Exact
    }

    /// Seconds of its own time that a guest idles before it measures. Where idling is skipped it costs nothing.
    pub fn settle_s(self) -> u64 {
        if self.is_exact() { 20 } else { 3 }
    }

    /// Whether it can be used here at all, as far as that can be told without booting.
    pub fn check(self) -> Result<(), Error> {
        qemu::version().map(drop)
    }

    /// The command that starts a machine.
    pub fn command(self, machine: &Machine) -> Result<Command, Error> {
        Ok(qemu::command(self, machine))
    }

    /// The machine as a record tells it.
    pub fn describe(self, machine: &Machine, program: &Path) -> Result<Lab, Error> {
        qemu::describe(self, machine, program)
    }
}
