//! The schedule: which recipient is sent to next, over how many connections, and when a deferred one is tried again.
//!
//! Recipients wait in the queue of their site: the servers that take mail for their domains. A site has a limit on its
//! connections that adapts to its answers ([`feedback`]), and waits after it could not be reached ([`backoff`]).

mod backoff;
mod feedback;
mod recipients;
mod site;
mod suspension;

pub use backoff::Backoff;
pub use feedback::Feedback;
pub(crate) use recipients::Recipients;
pub(crate) use site::Site;
pub(crate) use suspension::SiteCounts;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use suspension::Suspension;

/// The site of a recipient whose domain was not looked up successfully.
pub(crate) const NO_SITE: u32 = u32::MAX;

/// How long the connections are limited after this host could not open one, in nanoseconds: other programs may release
/// descriptors and ports.
const LOST_NS: u64 = 60_000_000_000;

/// The limits of a schedule.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum number of connections in total.
    pub sessions: u32,
    /// Maximum number of connections to a site.
    pub per_site: u32,
    /// The initial limit on the connections to a site.
    pub initial: u32,
    /// How the limit of a site adapts to its answers.
    pub feedback: Feedback,
    /// How long a recipient or a site waits after a failure.
    pub backoff: Backoff,
    /// Maximum number of attempts for a recipient in a run, and of consecutive attempts for a site, before it is left
    /// to a later run.
    pub attempts: u32,
    /// The seed of the random draws.
    pub seed: u64,
}

/// The recipients that were read and are neither done nor given up, by site.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) recipients: Recipients,
    sites: Vec<Site>,
    limits: Limits,
    rng: ChaCha8Rng,
    /// Recipients that were deferred, by the time of their next attempt.
    delayed: BinaryHeap<Reverse<(u64, u32)>>,
    /// Sites that wait, by the time at which they are tried again.
    blocked: BinaryHeap<Reverse<(u64, u32)>>,
    /// The waits of sites that a relay could not reach; none if such sites are given up after the limit of attempts.
    suspension: Option<Suspension>,
    /// Sites that may be able to use another connection: starved ones.
    starved: VecDeque<u32>,
    /// Recipients that are due and whose domain must be looked up again.
    unplaced: Vec<u32>,
    /// The number of connections, and of those that were not greeted yet.
    open: u32,
    opening: u32,
    /// The number of connections that this host could open, and when that limit expires.
    lost: Option<(u32, u64)>,
}

impl Schedule {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            recipients: Recipients::default(),
            sites: Vec::new(),
            rng: ChaCha8Rng::seed_from_u64(limits.seed),
            limits,
            delayed: BinaryHeap::new(),
            blocked: BinaryHeap::new(),
            suspension: None,
            starved: VecDeque::new(),
            unplaced: Vec::new(),
            open: 0,
            opening: 0,
            lost: None,
        }
    }

    /// Adds sites until there are `count`.
    pub(crate) fn add_sites(&mut self, count: usize) {
        while self.sites.len() < count {
            self.sites.push(Site::new(&self.limits));
        }
    }

    /// Returns for each site whether it has recipients or connections, waits after failures, or was given up.
    pub(crate) fn needed_sites(&self) -> Vec<bool> {
        let mut needed: Vec<bool> = self.sites.iter().map(Site::is_needed).collect();
        for site in self.recipients.sites() {
            if let Some(one) = needed.get_mut(site as usize) {
                *one = true;
            }
        }
        needed
    }

    /// Forgets everything about an unused site; its number will be reused for another one.
    pub(crate) fn forget_site(&mut self, site: u32) {
        if let Some(one) = self.sites.get_mut(site as usize) {
            *one = Site::new(&self.limits);
        }
    }

    /// Puts a recipient at the end of the queue of its site.
    pub(crate) fn queue(&mut self, id: u32) {
        let site = self.recipients.get(id).site;
        self.sites[site as usize].queue.push_back(id);
        self.note(site);
    }

    /// Returns an untried recipient to the front of the queue of its site.
    pub(crate) fn put_back(&mut self, id: u32) {
        let site = self.recipients.get(id).site;
        self.sites[site as usize].queue.push_front(id);
        self.note(site);
    }

    /// Returns whether this host could not open a connection recently, so that the number it had then is the limit.
    pub(crate) fn is_short(&self) -> bool {
        self.lost.is_some()
    }

    /// Returns how many recipients wait at a site.
    pub(crate) fn waiting_at(&self, site: u32) -> usize {
        self.sites[site as usize].queue.len()
    }

    /// Takes the next recipient of a site.
    pub(crate) fn next_of(&mut self, site: u32) -> Option<u32> {
        self.sites[site as usize].queue.pop_front()
    }

    /// Records a failed attempt. If the recipient is tried again in this run, delays it and returns true.
    pub(crate) fn delay(&mut self, id: u32, now_ns: u64) -> bool {
        let entry = self.recipients.get_mut(id);
        entry.attempts += 1;
        if entry.attempts >= self.limits.attempts {
            return false;
        }
        let delay_ns = self.limits.backoff.delay_ns(entry.attempts, &mut self.rng);
        self.delayed.push(Reverse((now_ns.saturating_add(delay_ns), id)));
        true
    }

    /// Returns the longest wait after a failure of a recipient or of its site, in nanoseconds.
    pub(crate) fn longest_wait_ns(&self) -> u64 {
        let of_site = self.suspension.as_ref().map(|one| one.backoff.longest).unwrap_or_default();
        u64::try_from(self.limits.backoff.longest.max(of_site).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Queues the recipients and wakes the sites that are due.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        while let Some((_, id)) = pop_due(&mut self.delayed, now_ns) {
            match self.recipients.get(id).site {
                NO_SITE => self.unplaced.push(id),
                _ => self.queue(id),
            }
        }
        while let Some((at_ns, site)) = pop_due(&mut self.blocked, now_ns) {
            self.end_wait(site, at_ns);
        }
        self.lost = self.lost.filter(|&(_, until_ns)| until_ns > now_ns);
    }

    /// Takes the recipients whose domain must be looked up again.
    pub(crate) fn take_unplaced(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.unplaced)
    }

    /// Returns when something changes without an event.
    pub(crate) fn next_ns(&self) -> u64 {
        let first = |heap: &BinaryHeap<Reverse<(u64, u32)>>| heap.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
        let lost_ns = self.lost.map_or(u64::MAX, |(_, until_ns)| until_ns);
        first(&self.delayed).min(first(&self.blocked)).min(lost_ns)
    }

    /// Returns a site that can use another connection, and counts the connection.
    pub(crate) fn next_connection(&mut self) -> Option<u32> {
        while self.open < self.sessions() {
            let site = *self.starved.front()?;
            let one = &mut self.sites[site as usize];
            if one.wants_connection() {
                one.open += 1;
                one.opening += 1;
                self.open += 1;
                self.opening += 1;
                if let Some(suspension) = self.suspension.as_mut().filter(|_| one.failed_rounds > 0) {
                    suspension.counts.probes += 1;
                }
                // The next connection goes to another site, if there is one.
                self.starved.rotate_left(1);
                return Some(site);
            }
            one.is_starved = false;
            self.starved.pop_front();
        }
        None
    }

    /// Records that a connection was greeted.
    pub(crate) fn greeted(&mut self, site: u32) {
        self.opening -= 1;
        self.sites[site as usize].opening -= 1;
    }

    /// Records that a connection was closed, and whether it had been greeted.
    pub(crate) fn closed(&mut self, site: u32, was_greeted: bool) {
        let one = &mut self.sites[site as usize];
        one.open -= 1;
        one.opening -= u32::from(!was_greeted);
        self.open -= 1;
        self.opening -= u32::from(!was_greeted);
        self.note(site);
    }

    /// Changes the maximum number of connections.
    pub(crate) fn set_sessions(&mut self, sessions: u32) {
        (self.limits.sessions, self.lost) = (sessions, None);
    }

    /// Returns the current maximum number of connections.
    fn sessions(&self) -> u32 {
        self.lost.map_or(self.limits.sessions, |(most, _)| most.min(self.limits.sessions))
    }

    /// Records that this host cannot open another connection. The number that it has is the limit for [`LOST_NS`].
    /// Returns that number.
    pub(crate) fn lose_connection(&mut self, site: u32, now_ns: u64) -> u32 {
        self.closed(site, false);
        self.lost = Some((self.open, now_ns.saturating_add(LOST_NS)));
        self.open
    }

    /// Gives a site up for this run. Returns its waiting recipients, including deferred ones.
    pub(crate) fn give_up(&mut self, site: u32) -> Vec<u32> {
        self.sites[site as usize].is_given_up = true;
        self.abandon(site)
    }

    /// Takes the waiting recipients of a site, including deferred ones.
    pub(crate) fn abandon(&mut self, site: u32) -> Vec<u32> {
        let mut all: Vec<u32> = self.sites[site as usize].queue.drain(..).collect();
        let recipients = &self.recipients;
        self.delayed.retain(|Reverse((_, id))| {
            let is_of_site = recipients.get(*id).site == site;
            if is_of_site {
                all.push(*id);
            }
            !is_of_site
        });
        all
    }

    /// Returns whether a site was given up for this run.
    pub(crate) fn is_given_up(&self, site: u32) -> bool {
        self.sites.get(site as usize).is_some_and(|site| site.is_given_up)
    }

    /// Records that a server of a site answered a greeting or finished a transaction correctly. Returns whether a relay
    /// could not reach the site before.
    pub(crate) fn succeeded(&mut self, site: u32) -> bool {
        let limit = self.limits.per_site;
        let had_failed = self.answered(site);
        let one = &mut self.sites[site as usize];
        one.window.succeed(one.open, limit);
        self.note(site);
        had_failed
    }

    /// Returns the number of times that a site was left, for [`Self::failed`].
    pub(crate) fn epoch(&self, site: u32) -> u32 {
        self.sites[site as usize].epoch
    }

    /// Records that a connection to a site could not be established, or that a server refused more work (421). `epoch`
    /// is the site's epoch when the connection was opened. Returns whether the site has reached its limit of
    /// consecutive attempts: its recipients must then be left to a later run.
    pub(crate) fn failed(&mut self, site: u32, epoch: u32, now_ns: u64) -> bool {
        let one = &mut self.sites[site as usize];
        // Recipients that arrived after the site was left may have a working connection: failures of older connections
        // must not make them wait.
        if one.is_blocked || one.epoch != epoch || !one.window.fail() {
            return false;
        }
        one.epoch = one.epoch.wrapping_add(1);
        one.is_blocked = true;
        one.failed_rounds = one.failed_rounds.saturating_add(1);
        let rounds = one.failed_rounds;
        if self.suspend(site, now_ns) || rounds >= self.limits.attempts {
            return true;
        }
        let until_ns = now_ns.saturating_add(self.limits.backoff.delay_ns(rounds, &mut self.rng));
        self.sites[site as usize].until_ns = until_ns;
        self.blocked.push(Reverse((until_ns, site)));
        false
    }

    /// Returns the number of connections.
    pub(crate) fn open_count(&self) -> u32 {
        self.open
    }

    /// Returns the number of connections that were greeted.
    pub(crate) fn greeted_count(&self) -> u32 {
        self.open - self.opening
    }

    fn note(&mut self, site: u32) {
        let one = &mut self.sites[site as usize];
        if !one.is_starved {
            one.is_starved = true;
            self.starved.push_back(site);
        }
    }
}

/// Takes the first entry if it is due, and returns its time and the entry.
fn pop_due(heap: &mut BinaryHeap<Reverse<(u64, u32)>>, now_ns: u64) -> Option<(u64, u32)> {
    let Reverse((at_ns, entry)) = *heap.peek()?;
    if at_ns > now_ns {
        return None;
    }
    heap.pop();
    Some((at_ns, entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Envelope, Mode};
    use crate::input::{Letter, Offer};
    use crate::list::Record;
    use crate::message::Message;
    use std::rc::Rc;
    use std::time::Duration;

    /// Returns a schedule with a site with ten waiting recipients.
    fn schedule() -> Schedule {
        let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(1) };
        let feedback = Feedback::Inverse;
        let limits = Limits { sessions: 4, per_site: 10, initial: 10, feedback, backoff, attempts: 1, seed: 1 };
        let longest = Duration::from_secs(3);
        let mut schedule = Schedule::new(limits).with_suspension(Backoff { longest, ..backoff });
        schedule.add_sites(1);
        let message = Message::parse(b"a\n", &[], None).unwrap();
        let letter = Rc::new(Letter::new(Envelope::new("", Mode::Rset), message));
        for number in 0..10 {
            let offer = Offer { number, letter: Rc::clone(&letter), state: None, is_again: false };
            let id = schedule.recipients.add(offer, &mut Record::default(), 0, 0);
            schedule.queue(id);
        }
        schedule
    }

    /// The limit was once permanent, so that after one shortage of descriptors a relay never had more connections than
    /// it had then.
    #[test]
    fn the_limit_of_this_host_holds_for_a_minute() {
        let mut schedule = schedule();
        assert_eq!([(); 3].map(|()| schedule.next_connection()), [Some(0); 3]);
        assert_eq!((schedule.lose_connection(0, 5), schedule.next_connection()), (2, None));
        assert_eq!(schedule.next_ns(), 5 + LOST_NS);
        schedule.advance(4 + LOST_NS);
        assert_eq!(schedule.next_connection(), None);
        schedule.advance(5 + LOST_NS);
        assert_eq!((schedule.next_connection(), schedule.next_ns()), (Some(0), u64::MAX));
        // The user's limit still applies, and a new one applies at once.
        assert_eq!([schedule.next_connection(), schedule.next_connection()], [Some(0), None]);
        assert_eq!(schedule.lose_connection(0, 7), 3);
        schedule.set_sessions(5);
        assert_eq!([(); 3].map(|()| schedule.next_connection()), [Some(0), Some(0), None]);
    }

    /// A site that did not answer was once tried with a connection for each message that arrived for it.
    #[test]
    fn a_site_that_did_not_answer_gets_one_connection_after_each_wait() {
        let mut schedule = schedule();
        schedule.set_sessions(10);
        assert_eq!([(); 11].map(|()| schedule.next_connection().is_some()).iter().filter(|is| **is).count(), 10);
        let fail = |schedule: &mut Schedule| {
            schedule.closed(0, false);
            let is_left = schedule.failed(0, schedule.epoch(0), 1);
            for id in if is_left { schedule.abandon(0) } else { Vec::new() } {
                schedule.queue(id);
            }
            is_left
        };
        assert_eq!((0..10).filter(|_| fail(&mut schedule)).count(), 1);
        let mut now_ns = 1;
        for (suspensions, wait_s) in (1..).zip([1, 2, 3, 3]) {
            let until_ns = now_ns + wait_s * 1_000_000_000;
            schedule.advance(until_ns - 1);
            assert_eq!((schedule.next_connection(), schedule.next_ns()), (None, until_ns));
            assert_eq!(schedule.suspended(0).map(|(at_ns, _)| at_ns), Some(until_ns));
            let counts = SiteCounts { suspended: 1, suspensions, probes: suspensions - 1, recipients: 0 };
            assert_eq!(schedule.site_counts(), counts);
            now_ns = until_ns;
            schedule.advance(now_ns);
            assert_eq!([schedule.next_connection(), schedule.next_connection()], [Some(0), None]);
            schedule.closed(0, false);
            assert!(schedule.failed(0, schedule.epoch(0), now_ns));
        }
        // The user requests a flush.
        schedule.resume_all();
        assert_eq!([schedule.next_connection(), schedule.next_connection()], [Some(0), None]);
        schedule.greeted(0);
        assert!(schedule.succeeded(0) && !schedule.succeeded(0));
        assert_eq!((schedule.site_counts().suspended, schedule.suspended(0)), (0, None));
        assert_eq!(schedule.next_connection(), Some(0));
    }

    /// A working connection from before shows that the site answers.
    #[test]
    fn an_answer_ends_the_wait_of_a_site_and_the_next_wait_is_short_again() {
        let mut schedule = schedule();
        let fail = |schedule: &mut Schedule, now_ns| {
            let epoch = schedule.epoch(0);
            while !schedule.failed(0, epoch, now_ns) {}
            schedule.suspended(0).map(|(until_ns, _)| until_ns)
        };
        assert_eq!(schedule.next_connection(), Some(0));
        assert_eq!(fail(&mut schedule, 0), Some(1_000_000_000));
        schedule.greeted(0);
        assert!(schedule.succeeded(0) && schedule.suspended(0).is_none());
        assert_eq!(fail(&mut schedule, 500_000_000), Some(1_500_000_000));
        // The end of the first wait does not end the second one.
        schedule.advance(1_000_000_000);
        assert!(schedule.suspended(0).is_some());
    }

    /// A relay that runs for months gets mail for ever more unreachable sites.
    #[test]
    fn as_many_sites_wait_as_may_be_and_the_first_ones_are_tried_early() {
        let mut schedule = schedule();
        schedule.add_sites(1000);
        schedule.suspension.as_mut().unwrap().most = 3;
        for (site, now_ns) in (0..1000).zip(0..) {
            while !schedule.failed(site, schedule.epoch(site), now_ns) {}
        }
        let waiting: Vec<u32> = (0..1000).filter(|&site| schedule.suspended(site).is_some()).collect();
        assert_eq!((waiting, schedule.site_counts().suspended), (vec![997, 998, 999], 3));
        // Sites that answer leave no entries behind.
        for now_ns in 0..1000 {
            schedule.succeeded(999);
            while !schedule.failed(999, schedule.epoch(999), now_ns) {}
        }
        assert!(schedule.blocked.len() < 100, "{}", schedule.blocked.len());
    }

    /// With a limit of one connection, each failure of a connection opened before a site was left once deferred all the
    /// mail that had arrived for it since.
    #[test]
    fn connections_of_before_a_site_was_left_do_not_leave_it_again() {
        let mut schedule = schedule();
        schedule.set_sessions(10);
        schedule.sites[0].window = feedback::Window::new(10, Feedback::Constant);
        let opened = std::iter::from_fn(|| schedule.next_connection());
        assert_eq!(opened.count(), 10);
        let old = schedule.epoch(0);
        let fail = |schedule: &mut Schedule| {
            schedule.closed(0, false);
            schedule.failed(0, old, 1)
        };
        while !fail(&mut schedule) {}
        // The site's wait ends, and its mail is due.
        schedule.resume_all();
        assert!(schedule.open_count() > 1);
        while schedule.open_count() > 0 {
            assert!(!fail(&mut schedule), "an older connection has left the site again");
        }
        assert!(schedule.suspended(0).is_none());
        assert_eq!(schedule.next_connection(), Some(0));
        assert!(schedule.failed(0, schedule.epoch(0), 1));
    }

    /// The number of a forgotten site is reused for another one, so no reference to it may remain.
    #[test]
    fn sites_with_recipients_or_connections_are_needed() {
        let mut schedule = schedule();
        schedule.add_sites(2);
        let ids: Vec<u32> = std::iter::from_fn(|| schedule.next_of(0)).collect();
        let letter = schedule.recipients.letter(ids[0]);
        schedule.put_back(ids[0]);
        assert_eq!(schedule.next_connection(), Some(0));
        schedule.greeted(0);
        assert_eq!(schedule.next_of(0), Some(ids[0]));
        for id in ids {
            schedule.recipients.remove(id);
        }
        // Only the connection is left, then nothing.
        assert_eq!((schedule.next_connection(), schedule.needed_sites()), (None, vec![true, false]));
        schedule.closed(0, true);
        assert_eq!((schedule.next_connection(), schedule.needed_sites()), (None, vec![false, false]));
        // A recipient that waits for its next attempt.
        let offer = Offer { number: 1, letter, state: None, is_again: false };
        let id = schedule.recipients.add(offer, &mut Record::default(), 1, 0);
        assert_eq!(schedule.needed_sites(), [false, true]);
        schedule.recipients.remove(id);
        assert_eq!(schedule.needed_sites(), [false, false]);
        schedule.give_up(1);
        assert_eq!(schedule.needed_sites(), [false, true]);
    }
}
