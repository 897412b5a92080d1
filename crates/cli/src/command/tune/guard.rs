//! The guard of a trial on the host: a process that outlives the trial, and restores the host if it was killed.
//!
//! The trial holds the other end of the guard's standard input, and says there that it has restored what it could. If
//! it is killed the kernel closes it without a word, and the guard undoes what the journal has. If the guard is killed
//! too the journal stays, and the next start of `landau run` or `landau tune` says so.

use super::Common;
use crate::status;
use anyhow::Context;
use landau_tune::Restored;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What a trial says that has restored the host itself.
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
        // A group of its own: Ctrl-C at the terminal must not reach it, nor whatever kills the group of the trial.
        command.process_group(0).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null());
        Ok(Self(command.spawn().context("start the guard of the trial")?))
    }
}

impl Guard {
    /// Says that the trial has restored what it could, and has told what it could not.
    pub(super) fn end(&mut self) {
        // A guard that was killed has nothing to do either.
        let _ = self.0.stdin.as_mut().map(|stdin| stdin.write_all(ENDED));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Its standard input ends; it finds no journal, or restores what is left.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut said = Vec::new();
    // An error is an end, too.
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
    status::tell(&format!("landau: the trial was killed; {count} settings of the host are as before it"));
    for complaint in &complaints {
        status::tell(&format!("landau: {complaint}; landau tune restore --force restores it"));
    }
    Ok(if complaints.is_empty() { status::DONE } else { status::FAILED })
}
