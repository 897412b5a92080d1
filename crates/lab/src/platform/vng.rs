//! `vng`: virtme-ng, which boots a kernel on the host's own files, read-only, and runs a command.
//!
//! It starts more services than landau's own initramfs, and its files are on a shared directory, so its samples are
//! marked as unusable for timing. KVM is disabled; emulation works on every host.

use super::{Platform, refuse_sysctls};
use crate::error::{Error, io};
use crate::guest::child;
use crate::job::Job;
use crate::kernel::Kind;
use crate::launch::{Ending, Launch};
use crate::machine::Machine;
use crate::qemu;
use crate::tool::version_of;
use crate::unpacked::sha256;
use landau_record::schema::{Emulator, Lab, Unit};
use std::path::Path;
use std::process::Command;

/// See the module.
#[derive(Debug)]
pub(super) struct Vng;

/// virtme-ng's program.
const PROGRAM: &str = "vng";

/// Returns virtme-ng's arguments. The guest sees a copy of the command's directory, in memory.
fn arguments(machine: &Machine) -> Vec<String> {
    let mut all: Vec<String> = ["--run", &machine.kernel.image.to_string_lossy()].map(str::to_owned).into();
    all.extend(["--cpus", "1", "--memory", &format!("{}M", machine.memory_mib)].map(str::to_owned));
    // --verbose sends the kernel's messages to the same output as the guest's, as on a serial console. KVM is disabled
    // because its device may open without working, and these times would not be used anyway.
    all.extend("--force-9p --disable-kvm --disable-microvm --verbose".split(' ').map(str::to_owned));
    all.extend(machine.append.split_whitespace().map(|word| format!("--append={word}")));
    all
}

fn version() -> Result<String, Error> {
    version_of(Vng.name(), PROGRAM, "--version", "install virtme-ng (Debian: virtme-ng; or pip install virtme-ng)")
}

impl Platform for Vng {
    fn name(&self) -> &'static str {
        "vng"
    }

    fn about(&self) -> &'static str {
        "a kernel booted by virtme-ng on this machine's files; its timings are not meaningful"
    }

    fn unit(&self) -> Unit {
        Unit::EmulatedNs
    }

    fn runs(&self, kind: &Kind) -> bool {
        kind.is_bootable()
    }

    fn needs_initramfs(&self, _machine: &Machine) -> bool {
        false
    }

    fn check_job(&self, job: &Job) -> Result<(), Error> {
        refuse_sysctls(self.name(), job)
    }

    fn check(&self, _program: &Path) -> Result<String, Error> {
        qemu::version(self.name())?;
        version()
    }

    fn launch(&self, machine: &Machine, job: &Job) -> Result<Launch, Error> {
        let folder = std::path::absolute(machine.folder).map_err(|source| io("find", machine.folder, source))?;
        let (program, path) = (folder.join("landau"), folder.join("job.json"));
        std::fs::copy(machine.program, &program).map_err(|source| io("copy", machine.program, source))?;
        let text = serde_json::to_vec(job).map_err(|error| Error::Guest(error.to_string()))?;
        std::fs::write(&path, text).map_err(|source| io("write", &path, source))?;
        // It writes the console to standard error, which must be read while it runs.
        let guest = format!("{} {} {}", program.display(), child::ARGUMENT, path.display());
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2>&1", PROGRAM]).args(arguments(machine)).arg("--exec").arg(guest);
        Ok(Launch::machine(command))
    }

    fn describe(&self, machine: &Machine) -> Result<Lab, Error> {
        Ok(Lab {
            platform: self.name().to_owned(),
            kernel: Some(machine.kernel.to_record()),
            command_line: machine.append.to_owned(),
            emulator: Some(Emulator { name: PROGRAM.to_owned(), version: version()?, arguments: arguments(machine) }),
            memory_mib: Some(u64::from(machine.memory_mib)),
            program_sha256: sha256(machine.program)?,
            ..Lab::default()
        })
    }

    fn advice(&self, _ending: &Ending) -> &'static str {
        "`landau lab platforms` shows what virtme-ng needs; see its output"
    }
}
