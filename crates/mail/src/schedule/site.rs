//! A site: the servers that take mail for some domains, and the recipients there.

use super::Limits;
use super::feedback::Window;
use std::collections::VecDeque;

/// The state of a site.
#[derive(Debug)]
pub(crate) struct Site {
    /// The recipients that can be sent to now.
    pub(super) queue: VecDeque<u32>,
    /// The number of connections, including those being established.
    pub(super) open: u32,
    /// Those of them that were not greeted yet.
    pub(super) opening: u32,
    pub(super) window: Window,
    /// The number of consecutive times that the site was given up for a time.
    pub(super) failed_rounds: u32,
    /// The number of times it was left. Failures of connections from an earlier epoch do not affect later ones.
    pub(super) epoch: u32,
    /// Whether it waits after failures.
    pub(super) is_blocked: bool,
    /// When the wait ends.
    pub(super) until_ns: u64,
    /// The reason for the wait, if its recipients are deferred meanwhile.
    pub(super) reason: Box<str>,
    /// Whether it is not tried again in this run.
    pub(super) is_given_up: bool,
    /// Whether it is in the list of starved sites.
    pub(super) is_starved: bool,
}

impl Site {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            queue: VecDeque::new(),
            open: 0,
            opening: 0,
            window: Window::new(limits.initial.min(limits.per_site), limits.feedback),
            failed_rounds: 0,
            epoch: 0,
            is_blocked: false,
            until_ns: 0,
            reason: Box::default(),
            is_given_up: false,
            is_starved: false,
        }
    }

    /// Returns whether another connection is useful and allowed.
    pub(super) fn wants_connection(&self) -> bool {
        !self.is_blocked && self.queue.len() > self.opening as usize && self.open < self.window.limit()
    }

    /// Returns whether it has state that must not be forgotten, apart from its recipients.
    pub(super) fn is_needed(&self) -> bool {
        self.open > 0 || self.is_blocked || self.is_given_up || self.is_starved
    }

    /// Returns whether it waits after failures, until a time.
    pub(super) fn waits_until(&self, at_ns: u64) -> bool {
        self.is_blocked && self.until_ns == at_ns
    }
}
