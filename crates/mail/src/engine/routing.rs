//! The routing of a recipient to an address: the lookup of its domain, and the attempts to connect to the hosts of its
//! site.

use super::connection::{Connection, End, Phase};
use super::{Engine, Input, Network, Session, State, is_own_limit};
use crate::client::Security;
use crate::route::{Place, Refusal, RefusalKind, Released, Routes};
use crate::schedule::{NO_SITE, Schedule};

/// Returns whether a site has used its share of the recipients in memory: it has at least as many waiting as there are
/// free places for others. So a slow site leaves room for others. Only an input that hands out recipients again can
/// take them back.
pub(super) fn is_crowded<I: Input>(schedule: &Schedule, routes: &Routes, active: usize, site: u32) -> bool {
    if !I::RETRIES || routes.is_fixed() {
        return false;
    }
    let free = active.saturating_sub(schedule.recipients.len());
    schedule.waiting_at(site) >= free.max(active / 100).max(1)
}

/// Maximum number of notes of one kind; further ones are only counted. So a relay that runs for months has few notes.
const MOST_NOTES: u32 = 5;

/// One second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

impl<N: Network, I: Input> Engine<N, I> {
    /// Routes a recipient, whose domain may need a lookup first.
    pub(super) fn route(&mut self, id: u32) {
        let address = self.schedule.recipients.get(id).record.address();
        let place = self.routes.place(address, id, self.now_ns);
        self.arrive(id, &place);
    }

    /// Handles the answers of the name server, and sends further queries. Returns whether a domain's lookup has ended:
    /// with a route, or with the reason why there is none.
    pub(super) fn look_up(&mut self) -> bool {
        self.forget_sites();
        for id in self.schedule.take_unplaced() {
            self.route(id);
        }
        self.routes.advance(&mut self.network, self.now_ns);
        let mut is_any = false;
        while let Some(Released { recipients, place, took_ns }) = self.routes.next_released(self.now_ns) {
            is_any = true;
            self.stats.phases.looked_up(took_ns);
            self.schedule.add_sites(self.routes.site_count());
            for id in recipients {
                self.arrive(id, &place);
            }
        }
        is_any
    }

    /// Forgets the unused sites, if there are many: a relay that runs for months gets mail for ever more sites.
    fn forget_sites(&mut self) {
        if self.routes.has_many_sites() {
            for site in self.routes.forget_sites(self.schedule.needed_sites(), self.now_ns) {
                self.schedule.forget_site(site);
            }
        }
    }

    /// Queues a recipient at its site, or records why there is none.
    fn arrive(&mut self, id: u32, place: &Place) {
        match place {
            Place::Wait => {}
            Place::Site(site) => {
                self.schedule.recipients.get_mut(id).site = *site;
                if self.schedule.is_given_up(*site) {
                    self.forget(id);
                } else if self.suspend(id) {
                    // Connections must not wait for a scan of the whole input.
                    self.postponed += 1;
                } else if self.may_wait(id, *site) {
                    self.schedule.queue(id);
                } else {
                    self.postponed += 1;
                    let number = self.schedule.recipients.remove(id);
                    self.input.postpone(number, *site, self.now_ns);
                }
            }
            Place::Nowhere(Refusal { text, kind }) => {
                self.schedule.recipients.get_mut(id).site = NO_SITE;
                match kind {
                    RefusalKind::Final => self.fail(id, None, None, text.as_bytes()),
                    RefusalKind::Transient => self.defer(id, None, None, text.as_bytes()),
                    RefusalKind::NotAllowed => self.settle(id, State::Deferred, None, None, text.as_bytes()),
                }
            }
        }
    }

    /// Returns whether a recipient may wait at a site.
    fn may_wait(&mut self, id: u32, site: u32) -> bool {
        if !I::RETRIES || self.routes.is_fixed() {
            return true;
        }
        let number = self.schedule.recipients.get(id).number;
        !is_crowded::<I>(&self.schedule, &self.routes, self.plan.active, site) && self.input.admit(number, site)
    }

    /// Opens connections for the recipients that wait.
    pub(super) fn connect(&mut self) {
        while self.stop_ns.is_none()
            && let Some(site) = self.schedule.next_connection()
        {
            let id = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() as u32 - 1
            });
            let candidates = self.routes.candidates(site, self.now_ns);
            let session = Session::new(self.plan.envelope.mode, self.plan.tls.security, self.now_ns);
            let place = (site, self.schedule.epoch(site));
            let mut connection = Box::new(Connection::new(place, candidates, session, self.now_ns));
            match self.attempt(id, &mut connection) {
                Ok(()) => {
                    // This host has descriptors and ports again.
                    self.is_short &= self.schedule.is_short();
                    self.connections[id as usize] = Some(connection);
                    self.stats.most_open = self.stats.most_open.max(self.schedule.open_count());
                }
                Err(End::Failed(error)) if is_own_limit(error) && self.schedule.open_count() > 1 => {
                    self.free.push(id);
                    let limit = self.schedule.lose_connection(site, self.now_ns);
                    self.own_limit = Some(error);
                    if !std::mem::replace(&mut self.is_short, true) {
                        self.note_short(error, limit);
                    }
                }
                Err(end) => self.end(id, &mut connection, end),
            }
        }
    }

    /// Adds a note that this host begins to refuse connections beyond a limit.
    fn note_short(&mut self, error: landau_sys::Error, limit: u32) {
        self.short_count += 1;
        if self.short_count <= MOST_NOTES {
            self.notes.push(format!("{error}: limiting to {limit} connections for one minute"));
        }
    }

    /// Begins to connect to the next address of a site.
    fn attempt(&mut self, id: u32, connection: &mut Connection) -> Result<(), End> {
        let Some(address) = connection.address() else { return Err(End::Closed) };
        match self.network.connect(id, address) {
            Ok(()) => {
                self.network.set_deadline(id, self.plan.timeouts.connect());
                Ok(())
            }
            Err(error) if is_own_limit(error) => Err(End::Failed(error)),
            Err(error) => self.attempt_next(id, connection, End::Failed(error)),
        }
    }

    /// After a host could not be reached or refused the connection, begins to connect to the next one. Returns `end` if
    /// there is none.
    pub(super) fn attempt_next(&mut self, id: u32, connection: &mut Connection, end: End) -> Result<(), End> {
        if connection.phase >= Phase::Greeted || self.stop_ns.is_some() {
            return Err(end);
        }
        // If TLS is opportunistic, a server whose TLS does not work gets the mail without it.
        let has_failed = end == End::Tls || connection.is_in_handshake();
        let is_plain = has_failed && self.plan.tls.security == Security::Opportunistic;
        if !is_plain {
            // A host that refuses this connection may accept the next one: it is not avoided.
            if let Some(address) = connection.address().filter(|_| end != End::Refused) {
                self.routes.hosts_mut(connection.site).avoid(address, self.now_ns);
            }
            if connection.candidates.len() < 2 {
                return Err(end);
            }
        }
        self.stats.lost.count(&connection.describe(end));
        self.send_alert(id, connection);
        self.network.close(id);
        if !is_plain {
            connection.candidates.pop();
        }
        let security = if is_plain { Security::Plain } else { self.plan.tls.security };
        connection.restart(Session::new(self.plan.envelope.mode, security, self.now_ns), self.now_ns);
        self.attempt(id, connection)
    }

    /// Records that a server greets clients but takes no mail: the next attempts for its recipients use another server
    /// of the site, if there is one (RFC 5321 section 5.1).
    pub(super) fn avoid_useless(&mut self, connection: &Connection) {
        if let Some(address) = connection.address() {
            let wait_ns = self.schedule.longest_wait_ns();
            self.routes.hosts_mut(connection.site).avoid_beyond(address, self.now_ns, wait_ns);
        }
    }

    /// Leaves the recipients of a site to a later run, or to the input if it hands them out again.
    pub(super) fn give_up(&mut self, site: u32, reason: &str) {
        let until_ns = self.schedule.suspended(site).map(|(until_ns, _)| until_ns);
        if let Some(until_ns) = until_ns {
            self.schedule.set_reason(site, reason);
            let wait_s = until_ns.saturating_sub(self.now_ns).div_ceil(SECOND);
            self.notices.push(format!("{}: suspended for {wait_s} s: {reason}", self.routes.name(site)));
            for id in self.schedule.abandon(site) {
                self.input.suspend(self.schedule.recipients.get(id).number, until_ns);
                self.settle(id, State::Deferred, None, None, reason.as_bytes());
            }
            return;
        }
        self.given_up_count += 1;
        if self.given_up_count <= MOST_NOTES {
            self.notes.push(format!("{}: given up for this run: {reason}", self.routes.name(site)));
        }
        for id in self.schedule.give_up(site) {
            self.forget(id);
        }
    }

    /// Defers a recipient if its site is suspended. Returns whether it is.
    pub(super) fn suspend(&mut self, id: u32) -> bool {
        let recipient = self.schedule.recipients.get(id);
        let Some((until_ns, reason)) = self.schedule.suspended(recipient.site) else { return false };
        // Operators search for these words, which Postfix uses.
        let text = format!("4.4.1 delivery temporarily suspended: {reason}");
        self.input.suspend(recipient.number, until_ns);
        self.schedule.count_suspended_recipient();
        self.settle(id, State::Deferred, None, None, text.as_bytes());
        true
    }

    /// Records that a server of a site has answered.
    pub(super) fn succeed(&mut self, site: u32) {
        if self.schedule.succeeded(site) {
            self.notices.push(format!("{} answers again", self.routes.name(site)));
        }
    }

    /// Returns whether no more mail can be sent because the only server was given up.
    pub(crate) fn is_given_up(&self) -> bool {
        self.routes.is_fixed() && self.given_up_count > 0
    }

    /// Returns whether recipients were left to a later run because their site was given up.
    #[cfg(test)]
    pub(crate) fn has_given_up(&self) -> bool {
        self.given_up_count > 0
    }

    /// Adds the notes that are due at the end of a run.
    pub(super) fn note_rest(&mut self) {
        let [sites, refusals] = [self.given_up_count, self.short_count].map(|count| count.saturating_sub(MOST_NOTES));
        if sites > 0 {
            self.notes.push(format!("{sites} more sites were given up for this run"));
        }
        if refusals > 0 {
            self.notes.push(format!("this host refused connections beyond a limit {refusals} more times"));
        }
    }
}
