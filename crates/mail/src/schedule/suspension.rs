//! Suspension of sites that did not answer, as in Postfix's queue manager. The wait doubles from one failure to the
//! next. When it has passed, one connection probes whether the site answers again. Meanwhile its recipients are
//! deferred without an attempt, so that a dead site costs one connection for each wait, however much mail arrives for
//! it.

use super::{Backoff, Schedule};
use std::cmp::Reverse;

/// Maximum number of suspended sites. Beyond it, the site that is due next is tried early.
const MOST_SUSPENDED: u64 = 20_000;

/// Maximum length of a stored reason, in characters.
const REASON_CHARS: usize = 512;

/// The counts of sites that did not answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SiteCounts {
    /// The number of sites that are currently suspended.
    pub(crate) suspended: u64,
    /// The number of suspensions so far.
    pub(crate) suspensions: u64,
    /// The number of connections that probed whether a site answers again.
    pub(crate) probes: u64,
    /// The number of recipients deferred without an attempt.
    pub(crate) recipients: u64,
}

/// The suspension of sites.
#[derive(Debug)]
pub(super) struct Suspension {
    pub(super) backoff: Backoff,
    pub(super) most: u64,
    pub(super) counts: SiteCounts,
}

impl Schedule {
    /// Makes sites that did not answer wait instead of giving them up: a relay gets more mail for them.
    pub(crate) fn with_suspension(mut self, backoff: Backoff) -> Self {
        self.suspension = Some(Suspension { backoff, most: MOST_SUSPENDED, counts: SiteCounts::default() });
        self
    }

    /// Returns the counts of sites that did not answer.
    pub(crate) fn site_counts(&self) -> SiteCounts {
        self.suspension.as_ref().map_or(SiteCounts::default(), |suspension| suspension.counts)
    }

    /// Returns the end of a site's suspension and the reason; `None` if it is not suspended.
    pub(crate) fn suspended(&self, site: u32) -> Option<(u64, &str)> {
        self.suspension.as_ref()?;
        let one = self.sites.get(site as usize)?;
        one.is_blocked.then_some((one.until_ns, &*one.reason))
    }

    /// Counts a recipient that was deferred because its site is suspended.
    pub(crate) fn count_suspended_recipient(&mut self) {
        if let Some(suspension) = &mut self.suspension {
            suspension.counts.recipients += 1;
        }
    }

    /// Sets the reason for a site's suspension.
    pub(crate) fn set_reason(&mut self, site: u32, reason: &str) {
        self.sites[site as usize].reason = reason.chars().take(REASON_CHARS).collect::<String>().into();
    }

    /// Takes back the last failure of a site, which the site did not cause, so that its waits do not grow. The site
    /// still counts as failed: the next connection probes whether it answers.
    pub(crate) fn forgive(&mut self, site: u32) {
        let one = &mut self.sites[site as usize];
        one.failed_rounds = one.failed_rounds.saturating_sub(1).max(1);
    }

    /// Suspends a site. Returns false if sites are not suspended in this run.
    pub(super) fn suspend(&mut self, site: u32, now_ns: u64) -> bool {
        let Some(Suspension { backoff, most, counts }) = &mut self.suspension else { return false };
        let one = &mut self.sites[site as usize];
        one.window.restart_with_one();
        one.until_ns = now_ns.saturating_add(backoff.nominal_ns(one.failed_rounds));
        self.blocked.push(Reverse((one.until_ns, site)));
        counts.suspensions += 1;
        counts.suspended += 1;
        let (is_beyond, live) = (counts.suspended > *most, counts.suspended as usize);
        while is_beyond && let Some(Reverse((at_ns, first))) = self.blocked.pop() {
            if self.end_wait(first, at_ns) {
                break;
            }
        }
        // A site that answers leaves its entry behind.
        if self.blocked.len() > 2 * live + 64 {
            let sites = &self.sites;
            self.blocked.retain(|Reverse((at_ns, site))| sites[*site as usize].waits_until(*at_ns));
        }
        true
    }

    /// Ends the wait of a site that is due. Returns whether it was waiting until `at_ns`.
    pub(super) fn end_wait(&mut self, site: u32, at_ns: u64) -> bool {
        let one = &mut self.sites[site as usize];
        if !one.waits_until(at_ns) {
            return false;
        }
        one.is_blocked = false;
        match &mut self.suspension {
            // The site is still limited to one connection.
            Some(Suspension { counts, .. }) => counts.suspended -= 1,
            None => one.window.restart(),
        }
        self.note(site);
        true
    }

    /// Ends the waits of all sites, because the user requests a flush.
    pub(crate) fn resume_all(&mut self) {
        if self.suspension.is_some() {
            for Reverse((at_ns, site)) in std::mem::take(&mut self.blocked) {
                self.end_wait(site, at_ns);
            }
        }
    }

    /// Ends the wait of a site that has answered. Returns whether it had failed since its last answer.
    pub(super) fn answered(&mut self, site: u32) -> bool {
        let one = &mut self.sites[site as usize];
        let had_failed = std::mem::take(&mut one.failed_rounds) > 0;
        let Some(Suspension { counts, .. }) = &mut self.suspension else { return false };
        if std::mem::take(&mut one.is_blocked) {
            counts.suspended -= 1;
        }
        if had_failed {
            one.reason = Box::default();
        }
        had_failed
    }
}
