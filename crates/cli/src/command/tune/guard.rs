//! The guard of a trial on the host: a process that outlives the trial, and restores the host if the trial was killed.
//!
//! The trial holds the write end of the pipe that is the guard's standard input. It writes a message there after it has
//! restored what it could. If the trial is killed, the kernel closes the pipe without that message, and the guard
//! undoes the changes in the journal. If the guard is killed too, the journal remains, and the next start of
//! `landau run` or `landau tune` reports it.

use super::Common;
use crate::status;
use anyhow::Context;
use landau_tune::Restored;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The message of a trial that has restored the host itself.
const ENDED: &[u8] = b"ended";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
}

/// A running guard. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// Starts a guard of the host below `root`.
    pub(super) fn start(root: Option<&Path>) -> anyhow::Result<Self> {
        let mut command = Command::new(landau_sys::process::this_program()?);
        command.args(["tune", "guard"]);
        if let Some(root) = root {
            command.arg("--root").arg(std::path::absolute(root)?);
        }
        // A separate process group: neither Ctrl-C at the terminal nor a signal to the group of the trial must reach
        // the guard.
        command.process_group(0).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null());
        Ok(Self(command.spawn().context("start the guard of the trial")?))
    }
}

impl Guard {
    /// Informs the guard that the trial has restored what it could, and has reported what it could not.
    pub(super) fn end(&mut self) {
        // If the guard was killed, there is nothing to do.
        let _ = self.0.stdin.as_mut().map(|stdin| stdin.write_all(ENDED));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The guard reads the end of its standard input. It finds no journal, or restores what is left.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut said = Vec::new();
    // A read error counts as the end of the input.
    let _ = std::io::stdin().read_to_end(&mut said);
    if said == ENDED {
        return Ok(status::DONE);
    }
    let restored = landau_tune::restore(&args.common.root(), false, true)?;
    if restored.is_empty() {
        return Ok(status::DONE);
    }
    let complaints: Vec<String> = restored.iter().filter_map(Restored::complaint).collect();
    let count = restored.len() - complaints.len();
    let have = if count == 1 { "setting of the host has its value" } else { "settings of the host have their values" };
    status::tell(&format!("landau: the trial was killed; {count} {have} from before the trial"));
    for complaint in &complaints {
        status::tell(&format!("landau: {complaint}; landau tune restore --force restores it"));
    }
    Ok(if complaints.is_empty() { status::DONE } else { status::FAILED })
}
