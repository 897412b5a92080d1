//! virtme-ng, for those who have it: it boots a kernel on this machine's own files, read-only, and runs a command.
//!
//! Around the command it starts more of a system than our own initramfs does, and its files come over a shared folder;
//! so what is measured is marked as no timing, and it is told to emulate, which works everywhere.

use super::{Machine, Platform, version_of};
use crate::error::{Error, io};
use crate::guest::child;
use crate::job::Job;
use crate::kernel::sha256;
use crate::machine::Start;
use landau_record::schema::{Emulator, Lab};
use std::process::Command;

/// The program.
const PROGRAM: &str = "vng";

/// The words that it is started with; of the command's folder the guest sees a copy in memory.
fn arguments(machine: &Machine) -> Vec<String> {
    let mut words: Vec<String> = ["--run", &machine.kernel.image.to_string_lossy()].map(str::to_owned).into();
    words.extend(["--cpus", "1", "--memory", &format!("{}M", machine.memory_mib)].map(str::to_owned));
    // What the kernel says comes beside the guest's messages, as on a serial line.
    // That a device opens does not mean that it works, and its times would not be trusted here anyway.
    words.extend("--force-9p --disable-kvm --disable-microvm --verbose".split(' ').map(str::to_owned));
    words.extend(machine.append.split_whitespace().map(|word| format!("--append={word}")));
    words
}

pub(super) fn start(machine: &Machine, job: &Job) -> Result<Start, Error> {
    let folder = std::path::absolute(machine.folder).map_err(|source| io("find", machine.folder, source))?;
    let (program, path) = (folder.join("landau"), folder.join("job.json"));
    std::fs::copy(machine.program, &program).map_err(|source| io("copy", machine.program, source))?;
    let text = serde_json::to_vec(job).map_err(|error| Error::Guest(error.to_string()))?;
    std::fs::write(&path, text).map_err(|source| io("write", &path, source))?;
    // Its console goes to standard error, which must be read while it runs.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1", PROGRAM]).args(arguments(machine)).arg("--exec").arg(format!(
        "{} {} {}",
        program.display(),
        child::ARGUMENT,
        path.display()
    ));
    Ok(Start::machine(command))
}

fn version() -> Result<String, Error> {
    version_of(Platform::Vng, PROGRAM, "--version", "install virtme-ng (Debian: virtme-ng; or pip install virtme-ng)")
}

pub(super) fn check() -> Result<String, Error> {
    super::qemu::version()?;
    version()
}

pub(super) fn describe(machine: &Machine) -> Result<Lab, Error> {
    Ok(Lab {
        platform: Platform::Vng.name().to_owned(),
        kernel: Some(super::as_recorded(machine.kernel)),
        command_line: machine.append.to_owned(),
        emulator: Some(Emulator { name: PROGRAM.to_owned(), version: version()?, arguments: arguments(machine) }),
        memory_mib: Some(u64::from(machine.memory_mib)),
        program_sha256: sha256(machine.program)?,
        ..Lab::default()
    })
}
