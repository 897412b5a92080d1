//! The kernel that runs already, in a network of its own: what would these settings of the network do?
//!
//! The guest enters a fresh network namespace, raises its loopback interface and sets there what was asked for: only
//! names of [`crate::sysctl::OF_A_NETWORK`]. The namespace is gone with the guest.

use super::{Machine, Platform, native};
use crate::error::Error;
use crate::job::{Job, Message};
use crate::machine::{Bounds, Start, attend};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(super) fn start(machine: &Machine, job: &Job) -> Result<Start, Error> {
    native::start(machine, job)
}

/// Makes such a network and measures nothing in it.
pub(super) fn check(program: &Path) -> Result<String, Error> {
    let mut command = Command::new(program);
    command.arg(crate::guest::child::ARGUMENT);
    let job = Job { probe: true, own_network: true, ..Job::default() };
    try_child(Platform::Netns, native::child_of(command, &job)?)?;
    Ok("a network namespace was made and left".to_owned())
}

/// Whether a guest comes up and says that it is done.
pub(super) fn try_child(platform: Platform, start: Start) -> Result<(), Error> {
    const LIMIT: Duration = Duration::from_secs(10);
    let bounds = Bounds { start: LIMIT, silence: LIMIT, whole: LIMIT };
    let (mut failed, mut done) = (None, false);
    let mut take = |message: Message| {
        match message {
            Message::Failed(reason) => failed = Some(reason),
            Message::Done { .. } => done = true,
            _ => {}
        }
        Ok(())
    };
    let ended = attend(start, &bounds, &|| false, &mut take)?;
    if done {
        return Ok(());
    }
    let last = ended.console.last().cloned();
    let reason = failed.or(last).unwrap_or_else(|| format!("{:?}", ended.how));
    Err(Error::Platform { platform: platform.name().to_owned(), reason })
}
