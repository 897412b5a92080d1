//! `noaslr`: the running kernel, with fixed addresses in the measured program (`setarch -R`), to test whether times
//! depend on where its memory is.

use super::{Platform, refuse_sysctls};
use crate::error::Error;
use crate::guest::child;
use crate::job::Job;
use crate::kernel::Kind;
use crate::launch::Launch;
use crate::machine::Machine;
use crate::tool::version_of;
use crate::unpacked::sha256;
use landau_record::schema::{Lab, Unit};
use std::path::Path;
use std::process::Command;

/// See the module.
#[derive(Debug)]
pub(super) struct NoAslr;

impl Platform for NoAslr {
    fn name(&self) -> &'static str {
        "noaslr"
    }

    fn about(&self) -> &'static str {
        "the running kernel, without address randomisation; times of this machine"
    }

    fn unit(&self) -> Unit {
        Unit::Ns
    }

    fn runs(&self, kind: &Kind) -> bool {
        *kind == Kind::Running
    }

    fn needs_initramfs(&self, _machine: &Machine) -> bool {
        false
    }

    fn settle_s(&self) -> u64 {
        0
    }

    fn check_job(&self, job: &Job) -> Result<(), Error> {
        refuse_sysctls(self.name(), job)
    }

    fn check(&self, _program: &Path) -> Result<String, Error> {
        version_of(self.name(), "setarch", "--version", "install util-linux")
    }

    fn launch(&self, machine: &Machine, job: &Job) -> Result<Launch, Error> {
        let mut command = Command::new("setarch");
        command.arg("-R").arg(machine.program).arg(child::ARGUMENT);
        Launch::child(command, job)
    }

    fn describe(&self, machine: &Machine) -> Result<Lab, Error> {
        let program_sha256 = sha256(machine.program)?;
        Ok(Lab { platform: self.name().to_owned(), program_sha256, ..Lab::default() })
    }
}
