//! The engine: takes recipients from its input, looks up their servers, opens connections, passes transactions to their
//! sessions, and records the outcome of each recipient.
//!
//! A wait returns a batch of events. Each event costs one receive and, if there is output, one send. Outcomes are
//! written before the next wait.

mod bouncing;
mod connection;
mod encryption;
mod hold;
mod progress;
mod routing;
mod transaction;

use crate::bounce::Bounces;
use crate::client::{Content, Event, Session, Timeouts, Verdict};
use crate::envelope::{Envelope, Mode};
use crate::error::{Error, Result};
use crate::input::{Input, Letter, Next, Offer};
use crate::ledger::{Host, Report, State};
use crate::list::Record;
use crate::lookup::Resolver;
use crate::metrics::{self, Exporter};
use crate::network::{Network, Ready};
use crate::queue::is_short;
use crate::route::Routes;
use crate::schedule::{NO_SITE, Schedule};
use crate::stats::Stats;
use crate::tls::TlsConfig;
use connection::{Connection, End, Phase};
use hold::Hold;
use landau_wire::smtp::data::Transfer;
use landau_wire::smtp::{Code, Extension, Mailbox};
use progress::{INTERVAL_NS, Ticker};
use std::io::ErrorKind;
use std::rc::Rc;

pub use progress::{Observer, Progress};

/// The size of the receive buffer.
const BUFFER_BYTES: usize = 64 << 10;

/// How long transactions in progress may go on after an interrupt, and how long a queue may wait for disk space or
/// descriptors at the end.
const GRACE_NS: u64 = 30_000_000_000;

/// The time between attempts to write a queue at the end.
const RETRY_NS: u64 = 1_000_000_000;

/// Maximum number of recipients returned to the input before events are handled.
const MOST_POSTPONED: u32 = 256;

/// The settings of an engine.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The settings for connections. The envelope of a message is in its letter.
    pub(crate) envelope: Envelope,
    /// Maximum number of recipients in memory.
    pub(crate) active: usize,
    /// Maximum number of transactions on a connection.
    pub(crate) per_connection: u64,
    /// Maximum time for which a connection is reused.
    pub(crate) reuse_for_ns: u64,
    /// Maximum number of recipients of a transaction.
    pub(crate) batch: usize,
    pub(crate) timeouts: Timeouts,
    pub(crate) tls: TlsConfig,
    /// The Maildir for reports about failed recipients.
    pub(crate) bounces: Option<Rc<Bounces>>,
    /// Whether mail from the null sender waits for a server that accepts its recipient's address: nobody would get a
    /// report of its failure.
    pub(crate) keeps_double_bounces: bool,
}

/// The engine.
pub(crate) struct Engine<N, I> {
    pub(crate) network: N,
    input: I,
    is_input_at_end: bool,
    /// When the input may have another recipient.
    input_ns: u64,
    /// The number of recipients returned to the input since the last fill, because of their sites.
    postponed: u32,
    record: Record,
    /// The number of recipients that the input has handed out, each counted once.
    offered: u64,
    routes: Routes,
    plan: Plan,
    pub(crate) schedule: Schedule,
    /// The number of sites that were given up for this run.
    given_up_count: u32,
    /// The connections by their network number; the first numbers belong to lookups.
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    hold: Hold,
    /// The recipients of the transaction that is being prepared.
    batch: Vec<u32>,
    buffer: Vec<u8>,
    /// The received bytes after decryption.
    plain: Vec<u8>,
    now_ns: u64,
    /// When the run was asked to end.
    stop_ns: Option<u64>,
    /// The last error caused by a lack of descriptors or ports on this host.
    pub(crate) own_limit: Option<landau_sys::Error>,
    /// Whether this host has refused a connection and opened none since that limit ended.
    is_short: bool,
    /// How often such a shortage began.
    short_count: u32,
    /// Why a report about a failed recipient could not be written.
    bounce_error: Option<std::io::Error>,
    /// Serves the metrics of the run.
    pub(crate) exporter: Option<Exporter>,
    pub(crate) begin_ns: u64,
    pub(crate) notes: Vec<String>,
    /// The next notices for the observer.
    notices: Vec<String>,
    pub(crate) stats: Stats,
}

impl<N: Network, I: Input> Engine<N, I> {
    pub(crate) fn new(network: N, input: I, routes: Routes, plan: Plan, mut schedule: Schedule) -> Self {
        schedule.add_sites(routes.site_count());
        Self {
            now_ns: network.now_ns(),
            network,
            input,
            is_input_at_end: false,
            input_ns: u64::MAX,
            postponed: 0,
            record: Record::default(),
            offered: 0,
            routes,
            plan,
            schedule,
            given_up_count: 0,
            connections: (0..Resolver::NETWORK_IDS).map(|_| None).collect(),
            free: Vec::new(),
            hold: Hold::default(),
            batch: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            plain: vec![0; BUFFER_BYTES],
            stop_ns: None,
            own_limit: None,
            is_short: false,
            short_count: 0,
            bounce_error: None,
            exporter: None,
            begin_ns: 0,
            notes: Vec::new(),
            notices: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// Runs until every recipient is done, failed or left to a later run, or until `should_stop` returns true.
    pub(crate) fn run(&mut self, observer: &mut dyn Observer, should_stop: &dyn Fn() -> bool) -> Result<()> {
        if let Err(error) = self.take_turns(observer, should_stop) {
            // The answers of servers must not be lost with the run. A ledger that failed may already contain a part of
            // its lines.
            if !matches!(error, Error::Ledger(_))
                && let Err(last) = self.input.finish(self.now_ns)
                && last.to_string() != error.to_string()
            {
                return Err(Error::Twice { first: Box::new(error), last: Box::new(last) });
            }
            return Err(error);
        }
        self.close_all();
        self.note_rest();
        self.finish()
    }

    /// Writes everything. If the disk of a queue is full, or no descriptor is free, it is retried for [`GRACE_NS`]:
    /// mail that is not recorded as delivered is sent again.
    fn finish(&mut self) -> Result<()> {
        let (since_ns, mut waited_for) = (self.now_ns, None);
        loop {
            let waited_ns = self.now_ns.saturating_sub(since_ns);
            match self.input.finish(self.now_ns) {
                Err(Error::Queue(error)) if is_short(&error) => {
                    if waited_ns >= GRACE_NS {
                        return Err(Error::Unrecorded { waited_s: waited_ns / 1_000_000_000, error });
                    }
                    waited_for = Some(error);
                }
                finished => {
                    if let Some(error) = waited_for {
                        let waited_s = waited_ns as f64 / 1e9;
                        let note =
                            format!("the queue could not be written until {waited_s:.0} s after the end: {error}");
                        self.notes.push(note);
                    }
                    return finished;
                }
            }
            self.pass(RETRY_NS)?;
        }
    }

    /// Handles events for `time_ns` when no other work is left.
    fn pass(&mut self, time_ns: u64) -> Result<()> {
        let until_ns = self.now_ns.saturating_add(time_ns);
        while self.now_ns < until_ns {
            self.network.wait(until_ns)?;
            self.now_ns = self.network.now_ns();
            while let Some(ready) = self.network.next() {
                self.handle(ready);
            }
        }
        Ok(())
    }

    fn take_turns(&mut self, observer: &mut dyn Observer, should_stop: &dyn Fn() -> bool) -> Result<()> {
        let mut ticker = Ticker::new(self.now_ns);
        self.begin_ns = self.now_ns;
        loop {
            if self.stop_ns.is_none() && should_stop() {
                self.stop_ns = Some(self.now_ns);
            }
            let is_going_on = self.turn(ticker.next_ns())?;
            for notice in self.notices.drain(..) {
                observer.notice(&notice);
            }
            if !is_going_on {
                return Ok(());
            }
            if let Some(progress) = ticker.due(self.now_ns, || self.progress()) {
                self.stats.timeline.sample(INTERVAL_NS, &progress.recipients, progress.open);
                if let Some(exporter) = &self.exporter {
                    exporter.update(|| metrics::page(&progress, &self.stats));
                }
                observer.progress(&progress);
            }
        }
    }

    /// Does the pending work, waits for events until `until_ns`, and handles them. Returns whether work is left.
    pub(crate) fn turn(&mut self, until_ns: u64) -> Result<bool> {
        self.now_ns = self.network.now_ns();
        self.schedule.advance(self.now_ns);
        self.fill()?;
        if self.look_up() {
            self.fill()?;
        }
        self.connect();
        self.input.note_sites(self.schedule.site_counts());
        self.input.commit(self.now_ns)?;
        debug_assert_eq!(self.stats.recipients.sum(), self.offered, "every recipient has one state");
        if let Some(error) = self.bounce_error.take() {
            return Err(Error::Bounce(error));
        }
        if self.is_finished() {
            return Ok(false);
        }
        let next_ns = self.schedule.next_ns().min(self.routes.next_ns()).min(self.input_ns);
        self.network.wait(next_ns.min(until_ns))?;
        self.now_ns = self.network.now_ns();
        while let Some(ready) = self.network.next() {
            self.handle(ready);
        }
        Ok(true)
    }

    /// Returns the input.
    pub(crate) fn input_mut(&mut self) -> &mut I {
        &mut self.input
    }

    /// Returns the routes of the domains.
    #[cfg(test)]
    pub(crate) fn routes_mut(&mut self) -> &mut Routes {
        &mut self.routes
    }

    /// Returns how far the transactions go.
    pub(crate) fn mode(&self) -> Mode {
        self.plan.envelope.mode
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            recipients: self.stats.recipients,
            open: self.schedule.open_count(),
            greeted: self.schedule.greeted_count(),
            active: self.schedule.recipients.len() as u64,
        }
    }

    fn is_finished(&self) -> bool {
        match self.stop_ns {
            // A connection that was not greeted yet has no transaction, and is no longer needed.
            Some(since_ns) => self.schedule.greeted_count() == 0 || self.now_ns.saturating_sub(since_ns) > GRACE_NS,
            None => self.schedule.greeted_count() == 0 && self.has_nothing_left(),
        }
    }

    /// Returns whether no recipient is left and none can follow.
    fn has_nothing_left(&self) -> bool {
        (self.is_input_at_end || self.is_given_up()) && self.schedule.recipients.len() == 0
    }

    /// Takes recipients from the input until the limit in memory is reached.
    fn fill(&mut self) -> Result<()> {
        self.input_ns = u64::MAX;
        self.postponed = 0;
        while self.schedule.recipients.len() < self.plan.active
            && !self.is_input_at_end
            && !self.is_given_up()
            && !self.routes.is_full()
            && self.stop_ns.is_none()
        {
            if self.postponed >= MOST_POSTPONED {
                // Connections must not wait for a scan of the whole input.
                self.input_ns = self.now_ns;
                break;
            }
            let Self { input, record, schedule, routes, plan, .. } = self;
            let is_crowded = |site| routing::is_crowded::<I>(schedule, routes, plan.active, site);
            let next = input.next(record, self.now_ns, &is_crowded)?;
            if input.take_flush() {
                schedule.resume_all();
            }
            match next {
                Next::Recipient(offer) => self.admit(offer),
                Next::Later(at_ns) => {
                    self.input_ns = at_ns;
                    break;
                }
                Next::End => self.is_input_at_end = true,
            }
        }
        self.stats.most_active = self.stats.most_active.max(self.schedule.recipients.len());
        Ok(())
    }

    /// Queues the recipient in `record`, unless its state is final.
    fn admit(&mut self, offer: Offer) {
        let known = offer.state;
        let domain = self.record.address().rsplit_once('@').map_or("", |(_, domain)| domain);
        let domain = self.stats.domains.index(domain);
        if !offer.is_again {
            self.offered += 1;
            *self.stats.recipients.of(known) += 1;
            *self.stats.domains.get_mut(domain).of(known) += 1;
        }
        if matches!(known, Some(State::Done | State::Failed)) {
            *self.stats.earlier.of(known) += 1;
            return;
        }
        let reason = self.unusable(&offer);
        let id = self.schedule.recipients.add(offer, &mut self.record, NO_SITE, domain);
        match reason {
            Some(reason) => self.fail(id, None, None, reason.as_bytes()),
            None => self.route(id),
        }
    }

    /// Returns why the record cannot be sent to, if so.
    fn unusable(&self, offer: &Offer) -> Option<String> {
        if let Err(error) = Mailbox::parse(self.record.address().as_bytes()) {
            return Some(error.to_string());
        }
        let has_control = offer.letter.message.is_template() && self.record.has_control();
        has_control.then(|| "a field contains a control character".to_owned())
    }

    /// Acts on an event of a connection.
    #[inline]
    fn handle(&mut self, ready: Ready) {
        let Some(mut connection) = self.connections.get_mut(ready.id as usize).and_then(Option::take) else {
            if ready.id < Resolver::NETWORK_IDS {
                self.routes.ready(&mut self.network, ready, &mut self.buffer);
            }
            return;
        };
        let outcome = self.act(ready, &mut connection).and_then(|()| self.flush(ready.id, &mut connection));
        let outcome = outcome.or_else(|end| self.attempt_next(ready.id, &mut connection, end));
        match outcome {
            Ok(()) => self.keep(ready.id, connection),
            Err(end) => self.end(ready.id, &mut connection, end),
        }
    }

    fn act(&mut self, ready: Ready, connection: &mut Connection) -> std::result::Result<(), End> {
        if connection.phase == Phase::Connecting {
            if !ready.is_readable && !ready.is_writable {
                return Err(End::TimedOut);
            }
            self.network.established(ready.id).map_err(End::Failed)?;
            connection.phase = Phase::Established;
            self.stats.phases.connected(self.now_ns.saturating_sub(connection.start_ns));
            connection.session.connected(self.now_ns);
        }
        if ready.is_readable {
            return self.receive(ready.id, connection);
        }
        if ready.is_deadline { Err(End::TimedOut) } else { Ok(()) }
    }

    /// Receives the bytes that have arrived, and acts on them.
    #[inline]
    fn receive(&mut self, id: u32, connection: &mut Connection) -> std::result::Result<(), End> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = loop {
            self.stats.receives += 1;
            match self.network.receive(id, &mut buffer) {
                Ok(0) => break Err(End::Closed),
                Ok(count) => {
                    let outcome = match connection.tls {
                        None => self.read(connection, &buffer[..count]),
                        Some(_) => self.read_encrypted(connection, &buffer[..count]),
                    };
                    if let Err(end) = outcome {
                        break Err(end);
                    }
                    if count < buffer.len() {
                        self.network.drained(id);
                        break Ok(());
                    }
                }
                Err(error) if error.is_would_block() => {
                    self.network.drained(id);
                    break Ok(());
                }
                Err(error) => break Err(End::Failed(error)),
            }
        };
        self.buffer = buffer;
        result
    }

    /// Acts on the replies in the received bytes.
    #[inline]
    fn read(&mut self, connection: &mut Connection, bytes: &[u8]) -> std::result::Result<(), End> {
        let mut input = bytes;
        loop {
            let Self { plan, now_ns, stats, .. } = self;
            let ended = connection.session.ended();
            let event = connection.session.next(&mut input, &plan.envelope, *now_ns, &mut stats.phases);
            if connection.session.ended() > ended {
                self.succeed(connection.site);
            }
            let Some(event) = event.map_err(End::Broken)? else { return Ok(()) };
            match event {
                Event::Secure => self.secure(connection)?,
                Event::Greeted => {
                    self.greeted(connection);
                    self.next_transaction(connection);
                }
                Event::Ready => self.next_transaction(connection),
                Event::ContentWanted => self.send_content(connection)?,
                Event::Resolved(recipient, verdict) => self.resolve(connection, recipient, verdict),
                Event::Refused => return Err(End::Refused),
                Event::Closing => return Err(End::Closing),
                Event::Done => return Err(End::Quit),
            }
        }
    }

    /// Sends the output of the connection, and sets its deadline.
    #[inline]
    fn flush(&mut self, id: u32, connection: &mut Connection) -> std::result::Result<(), End> {
        let sent = match connection.tls {
            None => self.send(id, connection),
            Some(_) => self.send_encrypted(id, connection),
        };
        match sent {
            // The next transaction had to wait for the rest of a chunk that the server had already refused.
            Ok(true) if connection.phase == Phase::Greeted && connection.session.stage().is_none() => {
                self.next_transaction(connection);
                if !connection.session.outgoing.is_empty() {
                    return self.flush(id, connection);
                }
            }
            Ok(true) => {}
            Ok(false) => {
                connection.watches_writing = true;
                self.network.watch_writing(id, true);
                self.network.set_deadline(id, self.plan.timeouts.block());
                return Ok(());
            }
            Err(End::Failed(error)) if error.is_connection_gone() => {
                // Replies sent before the close explain more than the error: they are read first.
                self.receive(id, connection)?;
                return Err(End::Failed(error));
            }
            Err(end) => return Err(end),
        }
        if std::mem::take(&mut connection.watches_writing) {
            self.network.watch_writing(id, false);
        }
        if let Some(stage) = connection.session.stage() {
            self.network.set_deadline(id, self.plan.timeouts.reply(stage));
        }
        Ok(())
    }

    /// Sends the output of the connection. Returns whether all of it was sent.
    #[inline]
    fn send(&mut self, id: u32, connection: &mut Connection) -> std::result::Result<bool, End> {
        let Connection { session, letter, .. } = connection;
        while !session.outgoing.is_empty() {
            let buffers = session.outgoing.slices(content(session, letter.as_deref()));
            self.stats.sends += 1;
            match self.network.send(id, &buffers) {
                Ok(count) => {
                    self.stats.sent_bytes += count as u64;
                    session.outgoing.advance(count);
                }
                Err(error) if error.is_would_block() => return Ok(false),
                Err(error) => return Err(End::Failed(error)),
            }
        }
        Ok(true)
    }

    /// Records the outcome of a recipient and forgets the recipient. `from` is the connection over which a server
    /// answered.
    fn settle(&mut self, id: u32, state: State, from: Option<&Connection>, code: Option<Code>, text: &[u8]) {
        self.record(id, state, from, code, text);
        self.forget(id);
    }

    /// Returns a recipient to the input.
    pub(super) fn forget(&mut self, id: u32) {
        let number = self.schedule.recipients.remove(id);
        self.input.release(number, self.now_ns);
    }

    /// Records the outcome of a recipient.
    fn record(&mut self, id: u32, state: State, from: Option<&Connection>, code: Option<Code>, text: &[u8]) {
        let host = from.and_then(|one| {
            let name = self.routes.host_name(one.site, one.candidates.last()?.host);
            Some(Host { name, has_dsn: one.session.capabilities().extensions.has(Extension::Dsn) })
        });
        let entry = self.schedule.recipients.get_mut(id);
        let before = entry.state.replace(state);
        self.stats.domains.note_time(entry.domain, self.now_ns);
        for tally in [&mut self.stats.recipients, self.stats.domains.get_mut(entry.domain)] {
            *tally.of(before) -= 1;
            *tally.of(Some(state)) += 1;
        }
        let code = code.map(Code::number);
        let report = Report { number: entry.number, address: entry.record.address(), state, code, text, host };
        self.input.record(&report, || self.network.unix_ms());
        if state != State::Done {
            let code = code.map_or(String::new(), |code| format!("{code} "));
            self.stats.reasons.count(&format!("{code}{}", String::from_utf8_lossy(text)));
        }
    }

    /// Ends a connection. Recipients without an outcome are tried again.
    fn end(&mut self, id: u32, connection: &mut Connection, end: End) {
        self.send_alert(id, connection);
        self.network.close(id);
        self.free.push(id);
        self.hold.ended(connection.work);
        let (site, reason) = (connection.site, connection.describe(end));
        if self.stop_ns.is_none() && connection.was_useless(end) {
            self.avoid_useless(connection);
        }
        let is_worn_out = connection.is_worn_out();
        for (recipient, is_in_progress) in connection.session.unresolved() {
            if is_in_progress && !is_worn_out {
                self.defer(recipient, None, None, reason.as_bytes());
            } else {
                self.put_back(recipient);
            }
        }
        self.schedule.closed(site, connection.phase >= Phase::Greeted);
        if end == End::Quit || connection.phase == Phase::Quitting {
            return;
        }
        self.stats.lost.count(&reason);
        let is_refusal = connection.phase < Phase::Greeted || (end == End::Closing && connection.session.ended() == 0);
        if is_refusal && self.schedule.failed(site, connection.epoch, self.now_ns) {
            if matches!(end, End::Failed(error) if is_own_limit(error)) {
                // The error was not caused by the site.
                self.schedule.forgive(site);
            }
            self.give_up(site, &reason);
        }
    }

    /// Closes the open connections at the end of the run. No connection is still needed, unless the run ends early. In
    /// that case a connection without a greeting is not counted as lost; a greeted one had [`GRACE_NS`] to end.
    fn close_all(&mut self) {
        let has_nothing_left = self.has_nothing_left();
        for id in 0..self.connections.len() {
            if let Some(mut connection) = self.connections[id].take() {
                let is_needed = !has_nothing_left && connection.phase >= Phase::Greeted;
                self.end(id as u32, &mut connection, if is_needed { End::TimedOut } else { End::Quit });
            }
        }
    }
}

/// Returns the content that a session is sending.
fn content<'a>(session: &'a Session, letter: Option<&'a Letter>) -> &'a [u8] {
    match session.outgoing.content() {
        Some(Content::Shared(transfer)) => letter.map_or(&[], |letter| letter.message.encoded(transfer)),
        Some(Content::Own) => &session.own_content,
        None => &[],
    }
}

/// Returns whether a connect error means that this host has no descriptor or port left.
fn is_own_limit(error: landau_sys::Error) -> bool {
    error.is_out_of_descriptors() || matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse)
}
