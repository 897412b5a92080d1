//! `exact`: qemu as an emulator that counts instructions. The same program executes the same number of them in every
//! run, on every host.
//!
//! Features that would change the count are disabled: random numbers of the host (`rdrand`, `rdseed`), and string
//! instructions that count once for each repetition (`erms`, `fsrm`).

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
pub(super) struct Exact;

const QEMU: Qemu = Qemu {
    platform: "exact",
    accelerator: "tcg",
    processor: "max,rdrand=off,rdseed=off,erms=off,fsrm=off",
    counts: true,
};

impl Platform for Exact {
    fn name(&self) -> &'static str {
        QEMU.platform
    }

    fn about(&self) -> &'static str {
        "a kernel in an emulator that counts instructions, the same in each run; no times"
    }

    fn unit(&self) -> Unit {
        Unit::Instructions
    }

    fn runs(&self, kind: &Kind) -> bool {
        qemu::runs(kind)
    }

    fn preference(&self) -> u8 {
        1
    }

    /// Idle time costs nothing here: the emulator skips it.
    fn settle_s(&self) -> u64 {
        20
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
