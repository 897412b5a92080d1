//! Progress: what a run has reached, ten times a second.

use crate::stats::Tally;

/// The time between two reports.
pub(super) const INTERVAL_NS: u64 = 100_000_000;

/// What a run has reached.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// The recipients that were read, by state.
    pub recipients: Tally,
    /// The number of connections.
    pub open: u32,
    /// Of them, those that were greeted.
    pub greeted: u32,
    /// The number of recipients in memory.
    pub active: u64,
}

/// Sees the progress of a run.
pub trait Observer {
    /// Reports what the run has reached.
    fn progress(&mut self, progress: &Progress);

    /// Reports what the user should know at once: that a relay does not try a site for a time, or that the site answers
    /// again.
    fn notice(&mut self, _text: &str) {}
}

/// Says when progress is due.
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

    /// Returns what has been reached, if it is time to report it.
    #[inline]
    pub(super) fn due(&mut self, now_ns: u64, progress: impl FnOnce() -> Progress) -> Option<Progress> {
        if now_ns < self.next_ns {
            return None;
        }
        self.next_ns = now_ns + INTERVAL_NS;
        Some(progress())
    }
}
