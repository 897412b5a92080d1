//! The kernel that runs already: the guest is a child of this program, and ends with it.

use super::{Machine, Platform};
use crate::error::Error;
use crate::guest::child;
use crate::job::Job;
use crate::kernel::sha256;
use crate::machine::Start;
use landau_record::schema::Lab;
use std::process::Command;
use std::time::Duration;

/// How long a child may take to tidy up once it is done or not wanted any more.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// A child of `command`, which leads to a guest that takes its job as a line.
pub(super) fn child_of(command: Command, job: &Job) -> Result<Start, Error> {
    let mut line = serde_json::to_vec(job).map_err(|error| Error::Guest(error.to_string()))?;
    line.push(b'\n');
    Ok(Start { command, input: Some(line), script: None, grace: GRACE })
}

pub(super) fn start(machine: &Machine, job: &Job) -> Result<Start, Error> {
    let mut command = Command::new(machine.program);
    command.arg(child::ARGUMENT);
    child_of(command, job)
}

pub(super) fn check() -> Result<String, Error> {
    let kernel = landau_sys::system::kernel()?;
    Ok(format!("{} {}", kernel.system, kernel.release))
}

/// No machine was made: only the platform and the program are the lab's.
pub(super) fn describe(platform: Platform, machine: &Machine) -> Result<Lab, Error> {
    Ok(Lab { platform: platform.name().to_owned(), program_sha256: sha256(machine.program)?, ..Lab::default() })
}
