//! `tcg`: qemu as an emulator that follows the host's clock. It shows whether something works, but never how long it
//! takes.

use super::Platform;
use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kind;
use crate::launch::Launch;
use crate::machine::Machine;
use crate::qemu::{self, Qemu};
use landau_record::schema::{Lab, Unit};
use std::path::Path;

/// See the module.
#[derive(Debug)]
pub(super) struct Tcg;

const QEMU: Qemu = Qemu { platform: "tcg", accelerator: "tcg", processor: "max", counts: false };

impl Platform for Tcg {
    fn name(&self) -> &'static str {
        QEMU.platform
    }

    fn about(&self) -> &'static str {
        "a kernel in an emulator, to test whether the kernel works; its timings are not meaningful"
    }

    fn unit(&self) -> Unit {
        Unit::EmulatedNs
    }

    fn runs(&self, kind: &Kind) -> bool {
        qemu::runs(kind)
    }

    fn check(&self, _program: &Path) -> Result<String, Error> {
        qemu::version(self.name())
    }

    fn launch(&self, machine: &Machine, job: &Job) -> Result<Launch, Error> {
        QEMU.launch(machine, job)
    }

    fn describe(&self, machine: &Machine) -> Result<Lab, Error> {
        QEMU.describe(machine)
    }
}
