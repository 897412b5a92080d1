//! How a guest is started, its time limits, and how it can end.

use crate::console::Script;
use crate::error::Error;
use crate::job::Job;
use std::process::Command;
use std::time::Duration;

/// The least time to boot: an emulated kernel on a busy host is slow.
const LEAST_START: Duration = Duration::from_secs(300);

/// The time that a child may take to clean up after it is done or no longer needed.
const CHILD_GRACE: Duration = Duration::from_secs(5);

/// A guest to start.
#[derive(Debug)]
pub struct Launch {
    /// The command. Its standard output is the guest's connection to the host.
    pub command: Command,
    /// Written to its standard input, which then stays open until the guest is done. `None` for an empty standard
    /// input.
    pub input: Option<Vec<u8>>,
    /// Typed on its console until the guest is up.
    pub script: Option<Script>,
    /// The time that it may take to exit on its own after it is done or no longer needed.
    pub grace: Duration,
}

impl Launch {
    /// Returns a machine without input that may be killed at any time.
    pub fn machine(command: Command) -> Self {
        Self { command, input: None, script: None, grace: Duration::ZERO }
    }

    /// Returns a child that reads its job from standard input and cleans up before it exits.
    pub fn child(command: Command, job: &Job) -> Result<Self, Error> {
        let mut line = serde_json::to_vec(job).map_err(|error| Error::Guest(error.to_string()))?;
        line.push(b'\n');
        Ok(Self { command, input: Some(line), script: None, grace: CHILD_GRACE })
    }
}

/// The time limits of a guest, in wall time of the host.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Until the guest reports that it is up.
    pub start: Duration,
    /// Between two signs of life.
    pub silence: Duration,
    /// In total.
    pub total: Duration,
}

impl Timeouts {
    /// Returns limits for a guest that may be silent for `stall` and run for `total`. A boot gets at least 5 minutes.
    pub fn new(stall: Duration, total: Duration) -> Self {
        Self { start: stall.max(LEAST_START), silence: stall, total }
    }

    /// Returns the same limit for everything.
    pub(crate) fn all(limit: Duration) -> Self {
        Self { start: limit, silence: limit, total: limit }
    }
}

/// How a guest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It reported that it was done.
    Done,
    /// Its kernel panicked, with the kernel's message.
    Panic(String),
    /// It did not come up in time.
    NeverUp,
    /// It gave no sign of life for too long.
    Silent,
    /// It took too long in total.
    Overtime,
    /// The process ended without a message from the guest; its exit status and last output.
    Exited(String),
    /// The user interrupted it.
    Interrupted,
}
