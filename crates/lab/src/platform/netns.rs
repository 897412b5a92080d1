//! `netns`: the running kernel in a network namespace with its own sysctls, to try settings of the network.
//!
//! The guest enters a new network namespace, brings its loopback interface up and sets the sysctls there: only those in
//! [`crate::sysctl::OF_A_NETWORK`]. The namespace ends with the guest.

use super::Platform;
use crate::error::Error;
use crate::guest::child;
use crate::job::Job;
use crate::kernel::Kind;
use crate::launch::{Ending, Launch};
use crate::machine::Machine;
use crate::unpacked::sha256;
use crate::{supervise, sysctl};
use landau_record::schema::{Lab, Unit};
use std::path::Path;
use std::process::Command;

/// See the module.
#[derive(Debug)]
pub(super) struct Netns;

fn launch(program: &Path, job: &Job) -> Result<Launch, Error> {
    let mut command = Command::new(program);
    command.arg(child::ARGUMENT);
    Launch::child(command, job)
}

impl Platform for Netns {
    fn name(&self) -> &'static str {
        "netns"
    }

    fn about(&self) -> &'static str {
        "the running kernel in its own network namespace, to try network sysctls; times of this machine"
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

    fn adapt(&self, job: &mut Job, machine: &Machine) {
        job.scratch = Some(machine.folder.to_owned());
        job.own_network = true;
    }

    fn check_job(&self, job: &Job) -> Result<(), Error> {
        sysctl::check_all(&job.sysctls).map_err(|reason| Error::unusable(self.name(), reason))
    }

    /// Creates such a namespace and measures nothing in it.
    fn check(&self, program: &Path) -> Result<String, Error> {
        let job = Job { probe: true, own_network: true, ..Job::default() };
        supervise::try_guest(launch(program, &job)?)?.map_err(|reason| Error::unusable(self.name(), reason))?;
        Ok("a network namespace can be created".to_owned())
    }

    fn launch(&self, machine: &Machine, job: &Job) -> Result<Launch, Error> {
        launch(machine.program, job)
    }

    fn describe(&self, machine: &Machine) -> Result<Lab, Error> {
        Ok(Lab { platform: self.name().to_owned(), program_sha256: sha256(machine.program)?, ..Lab::default() })
    }

    fn advice(&self, _ending: &Ending) -> &'static str {
        "`landau lab platforms` shows what works here"
    }
}
