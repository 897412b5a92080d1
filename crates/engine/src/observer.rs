//! Events of a run, for progress displays. The engine prints nothing.

use landau_record::schema::{Cut, PassEnd, Role, Skip};
use std::time::Duration;

/// An event of a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The run begins.
    Started {
        /// The number of passes that will run.
        pass_count: usize,
    },
    /// A benchmark, or one of its cases, cannot be measured here.
    Skipped(&'a Skip),
    /// The size of a case was reduced.
    Reduced {
        /// The case.
        label: &'a str,
        /// The old and the new size, and why.
        reason: &'a str,
    },
    /// The run waits for the host to settle.
    Waiting {
        /// What it waits for.
        reason: &'a str,
        /// The longest time that it will still wait.
        left: Duration,
    },
    /// A round of adaptive passes begins.
    AdaptiveRound {
        /// The number of the round, from 0.
        round: u32,
        /// The number of passes in it.
        pass_count: usize,
        /// Curves that are not resolved.
        unresolved: usize,
        /// All curves.
        of: usize,
    },
    /// A worker starts.
    PassStarted {
        /// The case.
        label: &'a str,
        /// The side, if the run measures two.
        role: Option<Role>,
        /// Passes that have ended.
        done: usize,
        /// All passes of the run.
        of: usize,
        /// How long the rest of the run will take, estimated from the passes so far; none if not known.
        left: Option<Duration>,
    },
    /// A worker makes progress.
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
        /// How it ended.
        end: &'a PassEnd,
    },
    /// The time limit left passes out.
    Cut(&'a Cut),
    /// A note that is in the record as well.
    Note(&'a str),
}

/// Receives the events of a run.
pub trait Observer {
    /// Handles an event.
    fn event(&mut self, event: &Event<'_>);
}

/// Ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _: &Event<'_>) {}
}
