//! gVisor: a kernel in user space that a sandboxed program gets to see instead of the host's.
//!
//! It calls itself Linux of an old version, and what is measured includes how it intercepts each call. The sandbox has
//! no network but loopback, sees the host's files and writes none of them.

use super::{Machine, Platform, native, netns, version_of};
use crate::error::Error;
use crate::guest::child;
use crate::job::Job;
use crate::kernel::sha256;
use crate::machine::Start;
use landau_record::schema::{Emulator, Lab};
use std::path::Path;
use std::process::Command;

/// The program.
const PROGRAM: &str = "runsc";

/// The words that it is started with: no root needed, nothing of the host changed. The platform that stops calls by
/// `ptrace` is the one that every release has and every host allows; further words, such as another `--platform`,
/// come later and win.
fn arguments(append: &str) -> Vec<String> {
    let words = "--rootless --ignore-cgroups --network=none --platform=ptrace";
    let all = words.split(' ').chain(append.split_whitespace()).chain(["do"]);
    all.map(str::to_owned).collect()
}

fn command(program: &Path, append: &str) -> Result<Command, Error> {
    // Inside the sandbox its own `/proc/self/exe` is another program.
    let real = std::fs::canonicalize(program).map_err(|source| crate::error::io("find", program, source))?;
    let mut command = Command::new(PROGRAM);
    command.args(arguments(append)).arg(real).arg(child::ARGUMENT);
    Ok(command)
}

pub(super) fn start(machine: &Machine, job: &Job) -> Result<Start, Error> {
    native::child_of(command(machine.program, machine.append)?, job)
}

pub(super) fn check(program: &Path) -> Result<String, Error> {
    let version = version()?;
    let job = Job { probe: true, ..Job::default() };
    netns::try_child(Platform::Gvisor, native::child_of(command(program, "")?, &job)?)?;
    Ok(version)
}

fn version() -> Result<String, Error> {
    version_of(Platform::Gvisor, PROGRAM, "--version", "install gVisor's runsc (Debian: runsc)")
}

pub(super) fn describe(machine: &Machine) -> Result<Lab, Error> {
    let emulator = Emulator { name: PROGRAM.to_owned(), version: version()?, arguments: arguments(machine.append) };
    Ok(Lab {
        platform: Platform::Gvisor.name().to_owned(),
        emulator: Some(emulator),
        program_sha256: sha256(machine.program)?,
        ..Lab::default()
    })
}
