//! `gvisor`: gVisor's kernel in user space, which a sandboxed program sees instead of the host's.
//!
//! It reports itself as an old version of Linux, and every sample includes the interception of the call. The sandbox
//! has no network but loopback; it reads the host's files and writes none of them.

use super::{Platform, refuse_sysctls};
use crate::error::{Error, io};
use crate::guest::child;
use crate::job::Job;
use crate::kernel::Kind;
use crate::launch::{Ending, Launch};
use crate::machine::Machine;
use crate::supervise;
use crate::tool::version_of;
use crate::unpacked::sha256;
use landau_record::schema::{Emulator, Lab, Unit};
use std::path::Path;
use std::process::Command;

/// See the module.
#[derive(Debug)]
pub(super) struct Gvisor;

/// gVisor's program.
const PROGRAM: &str = "runsc";

/// Returns the arguments of runsc: no root needed, no change to the host. Every release has the platform `ptrace` and
/// every host allows it; the user's arguments, such as another `--platform`, come later and take precedence.
fn arguments(append: &str) -> Vec<String> {
    let fixed = "--rootless --ignore-cgroups --network=none --platform=ptrace";
    let all = fixed.split(' ').chain(append.split_whitespace()).chain(["do"]);
    all.map(str::to_owned).collect()
}

fn launch(program: &Path, append: &str, job: &Job) -> Result<Launch, Error> {
    // Inside the sandbox /proc/self/exe is another program.
    let real = std::fs::canonicalize(program).map_err(|source| io("find", program, source))?;
    let mut command = Command::new(PROGRAM);
    command.args(arguments(append)).arg(real).arg(child::ARGUMENT);
    Launch::child(command, job)
}

fn version() -> Result<String, Error> {
    version_of(Gvisor.name(), PROGRAM, "--version", "install gVisor's runsc (Debian: runsc)")
}

impl Platform for Gvisor {
    fn name(&self) -> &'static str {
        "gvisor"
    }

    fn about(&self) -> &'static str {
        "gVisor's kernel in user space; times include the interception of each call"
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

    fn check(&self, program: &Path) -> Result<String, Error> {
        let version = version()?;
        let job = Job { probe: true, ..Job::default() };
        supervise::try_guest(launch(program, "", &job)?)?.map_err(|reason| Error::unusable(self.name(), reason))?;
        Ok(version)
    }

    fn launch(&self, machine: &Machine, job: &Job) -> Result<Launch, Error> {
        launch(machine.program, machine.append, job)
    }

    fn describe(&self, machine: &Machine) -> Result<Lab, Error> {
        let emulator = Emulator { name: PROGRAM.to_owned(), version: version()?, arguments: arguments(machine.append) };
        Ok(Lab {
            platform: self.name().to_owned(),
            emulator: Some(emulator),
            program_sha256: sha256(machine.program)?,
            ..Lab::default()
        })
    }

    fn advice(&self, _ending: &Ending) -> &'static str {
        "`landau lab platforms` shows what works here"
    }
}
