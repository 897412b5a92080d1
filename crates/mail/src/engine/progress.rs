//! The progress of a run, reported ten times a second.

use crate::stats::Tally;

/// The time between two reports.
pub(super) const INTERVAL_NS: u64 = 100_000_000;

/// The progress of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// The recipients that were read, by state.
    pub recipients: Tally,
    /// The number of connections.
    pub open: u32,
    /// The number of greeted connections among them.
    pub greeted: u32,
    /// The number of recipients in memory.
    pub active: u64,
}

/// An observer of the progress of a run.
pub trait Observer {
    /// Receives the progress of the run.
    fn progress(&mut self, progress: &Progress);

    /// Receives an immediate notice for the user: a relay does not try a site for a time, or the site answers again.
    fn notice(&mut self, _text: &str) {}
}

/// A timer for progress reports.
#[derive(Debug)]
pub(super) struct Ticker {
    next_ns: u64,
}

impl Ticker {
    pub(super) fn new(now_ns: u64) -> Self {
        Self { next_ns: now_ns + INTERVAL_NS }
    }

    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Returns the progress, if a report is due.
    #[inline]
    pub(super) fn due(&mut self, now_ns: u64, progress: impl FnOnce() -> Progress) -> Option<Progress> {
        if now_ns < self.next_ns {
            return None;
        }
        self.next_ns = now_ns + INTERVAL_NS;
        Some(progress())
    }
}
