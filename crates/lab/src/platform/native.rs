//! `native`: the running kernel. The guest is a child process and ends with this one.

use super::{Platform, refuse_sysctls};
use crate::error::Error;
use crate::guest::child;
use crate::job::Job;
use crate::kernel::Kind;
use crate::launch::{Ending, Launch};
use crate::machine::Machine;
use crate::unpacked::sha256;
use landau_record::schema::{Lab, Unit};
use std::path::Path;
use std::process::Command;

/// See the module.
#[derive(Debug)]
pub(super) struct Native;

impl Platform for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn about(&self) -> &'static str {
        "the running kernel; times of this machine"
    }

    fn unit(&self) -> Unit {
        Unit::Ns
    }

    fn runs(&self, kind: &Kind) -> bool {
        *kind == Kind::Running
    }

    fn preference(&self) -> u8 {
        1
    }

    fn needs_initramfs(&self, _machine: &Machine) -> bool {
        false
    }

    fn settle_s(&self) -> u64 {
        0
    }

    fn adapt(&self, job: &mut Job, machine: &Machine) {
        job.scratch = Some(machine.folder.to_owned());
    }

    fn check_job(&self, job: &Job) -> Result<(), Error> {
        refuse_sysctls(self.name(), job)
    }

    fn check(&self, _program: &Path) -> Result<String, Error> {
        let kernel = landau_sys::system::kernel()?;
        Ok(format!("{} {}", kernel.system, kernel.release))
    }

    fn launch(&self, machine: &Machine, job: &Job) -> Result<Launch, Error> {
        let mut command = Command::new(machine.program);
        command.arg(child::ARGUMENT);
        Launch::child(command, job)
    }

    fn describe(&self, machine: &Machine) -> Result<Lab, Error> {
        Ok(Lab { platform: self.name().to_owned(), program_sha256: sha256(machine.program)?, ..Lab::default() })
    }

    fn advice(&self, _ending: &Ending) -> &'static str {
        "`landau lab platforms` shows what works here"
    }
}
