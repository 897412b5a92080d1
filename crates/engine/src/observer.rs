//! What a run tells whoever watches it. The engine itself prints nothing.

use landau_record::schema::{Cut, PassEnd, Skip};
use std::time::Duration;

/// Something that happened in a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The run begins.
    Started {
        /// How many passes it will take.
        pass_count: usize,
    },
    /// A benchmark cannot be measured here.
    Skipped(&'a Skip),
    /// A size was brought down.
    Reduced {
        /// The case.
        label: &'a str,
        /// What was asked for and what is left, and why.
        reason: &'a str,
    },
    /// The run waits until something on the host has passed.
    Waiting {
        /// What for.
        reason: &'a str,
        /// How much longer at the most.
        left: Duration,
    },
    /// A worker starts.
    PassStarted {
        /// The case.
        label: &'a str,
        /// Passes that have ended, and all.
        done: usize,
        /// All passes of the run.
        of: usize,
        /// How long the rest of the run will take, judged by the passes so far.
        left: Option<Duration>,
    },
    /// A worker goes on.
    Progress {
        /// Samples taken so far.
        samples: u64,
        /// Samples expected.
        of: u64,
    },
    /// A worker has ended.
    PassEnded {
        /// The case.
        label: &'a str,
        /// How.
        end: &'a PassEnd,
    },
    /// Something was left out.
    Cut(&'a Cut),
    /// A remark that is in the record as well.
    Note(&'a str),
}

/// Watches a run.
pub trait Observer {
    /// Takes note of something that happened.
    fn event(&mut self, event: &Event<'_>);
}

/// Watches and says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _: &Event<'_>) {}
}
