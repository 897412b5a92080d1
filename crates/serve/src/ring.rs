//! A worker that has the kernel do whole operations instead of being told of readiness: connections are accepted and
//! bytes received as they come, answers are handed over with the next wait, and one call does all of it.
//!
//! What is answered, and when a connection ends, is as with the other workers ([`crate::worker`]); what differs is who
//! makes the calls. A connection that has been idle for a moment is parked on a watch, which costs the kernel a third
//! of a pending receive. Large files are read in pieces and sent from there, for the ring has no `sendfile`.

use crate::admission::Admission;
use crate::config::Config;
use crate::connection::{Connection, LINGER, Next, State, Table};
use crate::control::Drain;
use crate::counters::Counters;
use crate::error::Error;
use crate::exchange::{After, Rest, answer};
use crate::fetch::{Fetcher, Ticket};
use crate::listener::{LISTENERS, waiting_at};
use crate::outbox::Outbox;
use crate::site::Site;
use crate::worker::Start;
use landau_reactor::Token;
use landau_reactor::batch::Buffer;
use landau_reactor::completions::{Completion, ProvidedBuffer, Ring};
use landau_sys::stream;
use landau_wire::http::Scan;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// After so long without a request a connection is parked.
const PARK_AFTER: Duration = Duration::from_secs(1);

/// How much of a file is read at once, and under way to a client at most.
const PIECE_BYTES: usize = 128 << 10;

/// What a client may send ahead while its answer leaves; then it is not listened to until that is answered. What was
/// received before that took effect comes on top: as much as the ring has buffers for (1 MiB) at the very most.
const AHEAD_BYTES: usize = 64 << 10;

/// Up to so many bytes of answers that have not left, further requests are answered at once.
const UNSENT_BYTES: u64 = 64 << 10;

/// A worker with a ring.
#[derive(Debug)]
pub(crate) struct RingWorker {
    config: Arc<Config>,
    counters: Arc<Counters>,
    ring: Ring,
    doors: Vec<OwnedFd>,
    table: Table,
    admission: Admission,
    site: Site,
    outbox: Outbox,
    fetcher: Fetcher,
    drain: Drain,
}

impl RingWorker {
    pub(crate) fn new(start: Start) -> Result<Self, Error> {
        let Start { number, config, doors, control, counters, crowd, inboxes, log, cage, .. } = start;
        let mut ring = Ring::new()?;
        ring.register_waker(&inboxes[number].waker)?;
        let doors: Vec<OwnedFd> = doors.into_iter().map(|door| door.fd).collect();
        for (place, fd) in doors.iter().enumerate() {
            ring.accept(fd, Token(LISTENERS + place as u32))?;
        }
        let admission = Admission::new(&config, crowd, &counters)?;
        let site = Site::new(&config, counters.clone(), log, inboxes[number].waker.clone())?;
        cage.enter()?;
        let fetcher = Fetcher::new(inboxes[number].waker.clone());
        Ok(Self {
            admission,
            drain: Drain::new(control, &config.timeouts),
            config,
            counters,
            ring,
            doors,
            table: Table::new(),
            site,
            outbox: Outbox::default(),
            fetcher,
        })
    }

    /// The most connections that it takes.
    pub(crate) fn room(&self) -> usize {
        self.admission.most()
    }

    /// Works until it is told to end.
    pub(crate) fn run(&mut self) {
        while !self.drain.must_end() {
            if self.drain.is_told() && self.drained() {
                break;
            }
            self.turn(self.drain.patience(self.site.log.as_ref()));
        }
        if let Some(log) = &mut self.site.log {
            log.finish();
        }
    }

    /// Hands over what there is to do, and takes what was done.
    fn turn(&mut self, patience: Option<Duration>) {
        if self.ring.wait(patience).is_err() {
            return;
        }
        self.site.tick(self.ring.now_ms());
        loop {
            match self.ring.next_completion() {
                Ok(Some(completion)) => self.take(completion),
                Ok(None) => break,
                // What could not be handed over belongs to a connection that is told of as failed.
                Err(_) => {}
            }
        }
        self.take_fetched();
        self.take_lists();
        if let Some(log) = &mut self.site.log {
            log.flush();
        }
    }

    /// So many, without waiting for anything.
    fn turns(&mut self, count: u32) {
        for _ in 0..count {
            self.turn(Some(Duration::ZERO));
        }
    }

    fn take(&mut self, completion: Completion) {
        match completion {
            Completion::Accepted { connection, .. } => self.admit(connection),
            Completion::Received { token, buffer: piece } => self.received(token.0, piece),
            Completion::Sent { token, byte_count } => {
                self.counters.bytes_sent.add(byte_count);
                self.sent(token.0, byte_count);
            }
            Completion::Ended { token } => self.ended(token.0),
            Completion::Failed { token, .. } if token.0 >= LISTENERS => self.counters.descriptors_short.add(1),
            Completion::Failed { token, .. } => self.abort(token.0),
            Completion::Deadline { token } => self.expire(token.0),
            _ => {}
        }
    }

    /// Accepts no more, ends what is at rest, and says whether nothing is left to be waited for.
    fn drained(&mut self) -> bool {
        if self.drain.begin() {
            self.site.closing = true;
            self.close_doors();
            for number in self.table.at_rest() {
                self.close(number);
            }
        }
        self.drain.is_over(self.table.len())
    }

    /// Accepts whoever has connected already, and then nobody any more.
    #[cold]
    fn close_doors(&mut self) {
        for door in &self.doors {
            // What was handed to `listen` is registered.
            let _ = self.ring.stop_accepting(door);
        }
        // The kernel hears of it with the first turn, and who was accepted until then is told of with the second.
        self.turns(2);
        for door in std::mem::take(&mut self.doors) {
            for (fd, _) in waiting_at(&door, self.config.backlog) {
                self.admit(fd);
            }
            let _ = self.ring.close(door);
        }
        // Likewise what they have sent.
        self.turns(2);
    }

    fn admit(&mut self, fd: OwnedFd) {
        let must_know = self.config.connections_per_address.is_some() || self.site.log.is_some();
        let peer = if must_know { stream::peer(&fd).ok().flatten().map(|peer| peer.ip()) } else { None };
        if let Err(refusal) = self.admission.enter(self.table.len(), peer) {
            return refusal.tell(&fd, false, &mut self.site, &mut self.outbox);
        }
        let number = self.table.next();
        if self.ring.receive(&fd, Token(number)).is_err() {
            return self.admission.leave(peer);
        }
        self.ring.set_deadline(&fd, self.config.timeouts.head);
        self.table.insert(fd, peer, false);
    }

    /// Notes who asks, for the access log.
    #[inline]
    fn note_peer(&mut self, number: u32) {
        if let Some(log) = &mut self.site.log
            && let Some(connection) = self.table.get(number)
        {
            log.peer = connection.peer();
        }
    }

    /// Something came.
    fn received(&mut self, number: u32, piece: ProvidedBuffer) {
        self.note_peer(number);
        let Some(connection) = self.table.get(number) else { return self.ring.recycle(piece) };
        self.outbox.clear();
        let bytes = self.ring.bytes(&piece);
        connection.is_parked = false;
        let unsent = connection.fd.as_ref().map_or(0, |fd| self.ring.unsent(fd));
        match connection.state {
            State::Lingering | State::Free => self.ring.recycle(piece),
            // Answers leave in the order in which they were given: the next one need not wait for the last.
            State::Fresh | State::Idle | State::Sending if connection.active.is_none() && unsent < UNSENT_BYTES => {
                let mut scan = Scan::default();
                let (used, after) = answer(&mut self.site, &self.config, bytes, &mut scan, &mut self.outbox);
                let rest = Rest::new(bytes[used..].to_vec(), scan, after);
                self.ring.recycle(piece);
                self.deliver(number, rest);
            }
            State::Sending | State::Fetching | State::Listing => {
                let waiting = connection.active().hear_ahead(bytes);
                self.ring.recycle(piece);
                if waiting >= AHEAD_BYTES {
                    self.listen(number, false);
                }
            }
            _ => {
                let bytes = bytes.to_vec();
                self.ring.recycle(piece);
                self.receive_more(number, &bytes);
            }
        }
    }

    /// The client says no more. What it asked for it gets, if something of that is still to be sent.
    fn ended(&mut self, number: u32) {
        match self.table.get(number) {
            Some(connection) if matches!(connection.state, State::Sending | State::Fetching | State::Listing) => {
                connection.has_ended = true;
            }
            _ => self.close(number),
        }
    }

    /// Listens to a client, or not: then what it sends fills the kernel's buffers, and it has to wait.
    #[inline]
    fn listen(&mut self, number: u32, is_wanted: bool) {
        let Some(fd) = self.table.get(number).and_then(|connection| connection.fd.as_ref()) else { return };
        let done = if is_wanted { self.ring.resume(fd) } else { self.ring.pause(fd) };
        if done.is_err() {
            self.abort(number);
        }
    }

    /// More of what has begun.
    fn receive_more(&mut self, number: u32, new: &[u8]) {
        self.note_peer(number);
        let Some(connection) = self.table.get(number) else { return };
        let has_ended = connection.has_ended;
        let rest = connection.active().go_on(new, &mut self.site, &self.config, &mut self.outbox);
        match rest {
            // The rest of the body will never come.
            None if has_ended => return self.close(number),
            Some(Rest { after: After::More | After::List(_), .. }) => {}
            _ => self.listen(number, true),
        }
        if let Some(rest) = rest {
            self.deliver(number, rest);
        }
    }

    /// Hands over what was answered, and leaves the connection in the state that it needs for what is left.
    fn deliver(&mut self, number: u32, rest: Rest) {
        let Some(connection) = self.table.get(number) else { return };
        let Some(fd) = connection.fd.as_ref() else { return };
        let has_bytes = !self.outbox.bytes.is_empty();
        if has_bytes && self.ring.send(fd, Buffer::Owned(self.outbox.bytes.as_slice().into())).is_err() {
            return self.abort(number);
        }
        if !has_bytes && self.outbox.batch.is_empty() {
            return self.settle(number, rest);
        }
        // The client's time runs from when something began to leave; more to send is no more time.
        if connection.state != State::Sending {
            self.ring.set_deadline(fd, self.config.timeouts.send);
        }
        if rest.after == After::Idle && self.outbox.batch.is_empty() {
            (connection.state, connection.active) = (State::Sending, None);
            return;
        }
        connection.keep(&mut self.outbox.batch, rest);
        if !has_bytes {
            self.sent(number, 0);
        }
    }

    /// All that was handed over has left: the next piece, or what comes after the answer.
    fn sent(&mut self, number: u32, byte_count: u64) {
        let Some(connection) = self.table.get(number) else { return };
        if connection.state != State::Sending {
            return;
        }
        let Some(active) = connection.active.as_mut() else {
            if self.drain.has_begun() || connection.has_ended {
                return self.close(number);
            }
            connection.state = State::Idle;
            let Some(fd) = connection.fd.as_ref() else { return };
            return self.ring.set_deadline(fd, PARK_AFTER.min(self.config.timeouts.idle));
        };
        active.sent += byte_count;
        self.send_next(number, false);
    }

    /// Hands over the next piece, or goes on to what comes after the answer. A piece that is not in memory is fetched
    /// first; one that was may have been forgotten again, and then waiting is better than fetching for ever.
    fn send_next(&mut self, number: u32, is_fetched: bool) {
        let Some(connection) = self.table.get(number) else { return };
        let (Some(fd), Some(active)) = (connection.fd.as_ref(), connection.active.as_mut()) else { return };
        let batch = &mut active.batch;
        match if is_fetched { batch.pop(PIECE_BYTES) } else { batch.pop_cached(PIECE_BYTES) } {
            // A connection's pieces are handed over whole: only a buffer that was sent in part would begin later.
            Ok(Some((piece, _))) => {
                if self.ring.send(fd, piece).is_err() {
                    self.abort(number);
                }
            }
            Ok(None) => {
                let rest = active.rest();
                self.settle(number, rest);
            }
            Err(error) if error.is_would_block() && !is_fetched => self.fetch(number),
            // The file became shorter: what the client was promised cannot be had any more.
            Err(_) => self.abort(number),
        }
    }

    /// Has what comes next read into memory by another thread.
    fn fetch(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        let Some((file, offset, left)) = connection.active().batch.next_file() else { return };
        let Some(ticket) = self.fetcher.fetch(number, file, offset, left) else {
            return self.send_next(number, true);
        };
        self.counters.cold_reads.add(1);
        connection.active().ticket = ticket.serial;
        connection.state = State::Fetching;
    }

    /// Goes on with those whose part of a file is in memory now.
    fn take_fetched(&mut self) {
        for Ticket { number, serial } in self.fetcher.take_done() {
            let Some(connection) = self.table.get(number) else { continue };
            if connection.state == State::Fetching && connection.active().ticket == serial {
                connection.state = State::Sending;
                self.send_next(number, true);
            }
        }
    }

    /// All that was answered has left.
    fn settle(&mut self, number: u32, rest: Rest) {
        let Some(connection) = self.table.get(number) else { return };
        let timeouts = &self.config.timeouts;
        let has_ended = connection.has_ended;
        let next = connection.settle(rest);
        let ahead = connection.active.as_mut().map_or(Vec::new(), |active| active.take_ahead());
        let limit = match next {
            Next::Idle if self.drain.has_begun() || has_ended => return self.close(number),
            Next::Begun | Next::Waiting if has_ended && ahead.is_empty() => return self.close(number),
            Next::Idle => PARK_AFTER.min(timeouts.idle),
            Next::Begun => timeouts.head,
            Next::Waiting => return,
            Next::More => {
                self.outbox.clear();
                return self.receive_more(number, &ahead);
            }
            Next::List => {
                connection.active().ticket = self.site.wait_for_list(number);
                timeouts.send
            }
            Next::Close(_) if !has_ended && connection.linger() => LINGER,
            Next::Close(_) => return self.close(number),
        };
        if let Some(fd) = connection.fd.as_ref() {
            self.ring.set_deadline(fd, limit);
        }
        if !ahead.is_empty() {
            // The body that has begun goes on with what came meanwhile.
            self.outbox.clear();
            self.receive_more(number, &ahead);
        }
    }

    /// Answers those whose list was made.
    fn take_lists(&mut self) {
        while let Some(waiting) = self.site.take_list() {
            for Ticket { number, serial } in waiting {
                let Some(connection) = self.table.get(number) else { continue };
                if connection.state == State::Listing && connection.active().ticket == serial {
                    let ahead = connection.active().take_ahead();
                    self.outbox.clear();
                    self.receive_more(number, &ahead);
                }
            }
        }
    }

    /// A deadline has passed.
    fn expire(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        let Some(fd) = connection.fd.as_ref() else { return };
        match connection.state {
            State::Idle if connection.active.is_none() && !connection.is_parked => {
                connection.is_parked = true;
                // One that cannot be parked stays as it is, only dearer.
                let _ = self.ring.park(fd);
                let rest = self.config.timeouts.idle.saturating_sub(PARK_AFTER).max(Duration::from_millis(1));
                self.ring.set_deadline(fd, rest);
            }
            State::Idle => {
                self.counters.idle_closed.add(1);
                self.close(number);
            }
            State::Fresh => {
                self.counters.heads_late.add(1);
                self.close(number);
            }
            State::Head | State::Body => {
                self.counters.heads_late.add(1);
                self.outbox.clear();
                self.note_peer(number);
                self.site.time_out(&mut self.outbox);
                self.deliver(number, Rest::end());
            }
            State::Sending => self.expire_sending(number),
            // The device is slow, and that is not the client's fault.
            State::Fetching | State::Listing => self.ring.set_deadline(fd, self.config.timeouts.send),
            State::Free | State::Lingering => self.close(number),
        }
    }

    fn expire_sending(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        let is_taken = connection.is_taken();
        let Some(fd) = connection.fd.as_ref() else { return };
        if is_taken {
            return self.ring.set_deadline(fd, self.config.timeouts.send);
        }
        self.counters.slow_closed.add(1);
        // What is still in the kernel's buffer would be kept for a client that does not want it.
        let _ = stream::set_reset_on_close(fd);
        self.abort(number);
    }

    /// Ends a connection when all has left that was handed over.
    fn close(&mut self, number: u32) {
        self.remove(number, Ring::close);
    }

    /// Ends a connection at once.
    fn abort(&mut self, number: u32) {
        self.remove(number, Ring::abort);
    }

    fn remove(&mut self, number: u32, end: impl Fn(&mut Ring, OwnedFd) -> Result<(), landau_reactor::Error>) {
        if let Some(serial) = self.table.get(number).and_then(Connection::fetched) {
            self.fetcher.cancel(serial);
        }
        let Some((fd, peer)) = self.table.remove(number) else { return };
        self.admission.leave(peer);
        // The table and the ring name the same descriptors.
        let _ = end(&mut self.ring, fd);
    }
}
