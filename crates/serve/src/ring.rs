//! A worker that has the kernel do whole operations instead of being told of readiness: connections are accepted and
//! bytes received as they come, answers are handed over with the next wait, and one call does all of it.
//!
//! What is answered, and when a connection ends, is as with the other workers ([`crate::worker`]); what differs is who
//! makes the calls. A connection that has been idle for a moment is parked on a watch, which costs the kernel a third
//! of a pending receive. Large files are read in pieces and sent from there, for the ring has no `sendfile`.

use crate::access::Addresses;
use crate::config::Config;
use crate::connection::{State, Table, say_end};
use crate::counters::Counters;
use crate::error::Error;
use crate::exchange::{After, answer, answer_head};
use crate::outbox::Outbox;
use crate::site::Site;
use crate::worker::{Control, LINGER, LISTENERS, SPARE_DESCRIPTORS, Start};
use landau_reactor::Token;
use landau_reactor::batch::Buffer;
use landau_reactor::completions::{Completion, Piece, Ring};
use landau_sys::limits::Resource;
use landau_sys::stream;
use landau_wire::http::Scan;
use std::net::{IpAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// After so long without a request a connection is parked.
const PARK_AFTER: Duration = Duration::from_secs(1);

/// How much of a file is read at once, and under way to a client at most.
const PIECE_BYTES: usize = 128 << 10;

/// What a client may send ahead while its answer leaves.
const AHEAD_BYTES: usize = 64 << 10;

/// A worker with a ring.
#[derive(Debug)]
pub(crate) struct RingWorker {
    config: Arc<Config>,
    control: Arc<Control>,
    counters: Arc<Counters>,
    ring: Ring,
    doors: Vec<OwnedFd>,
    table: Table,
    addresses: Addresses,
    site: Site,
    outbox: Outbox,
    /// The most connections of this worker.
    most: usize,
    drained_at: Option<Instant>,
}

impl RingWorker {
    pub(crate) fn new(start: Start) -> Result<Self, Error> {
        let Start { number, config, bound, control, counters, inboxes, log, cage, .. } = start;
        let mut ring = Ring::new()?;
        ring.hang(&inboxes[number].waker)?;
        let mut doors = Vec::new();
        for (place, bound) in bound.iter().enumerate() {
            let fd = bound.for_worker()?;
            if matches!(bound.listen, crate::Listen::Tcp(_)) {
                stream::set_no_delay(&fd)?;
                if let Some(seconds) = config.defer_accept_s {
                    stream::set_defer_accept(&fd, seconds)?;
                }
            }
            ring.listen(&fd, Token(LISTENERS + place as u32))?;
            doors.push(fd);
        }
        let descriptors = landau_sys::limits::raise(Resource::Descriptors)?.saturating_sub(SPARE_DESCRIPTORS).max(1);
        let share = config.connections.map_or(usize::MAX, |all| all.div_ceil(config.workers.max(1)));
        let site = Site::new(&config, counters.clone(), log)?;
        cage.enter()?;
        Ok(Self {
            addresses: Addresses::new(config.connections_per_address),
            most: share.min(descriptors as usize),
            config,
            control,
            counters,
            ring,
            doors,
            table: Table::new(),
            site,
            outbox: Outbox::default(),
            drained_at: None,
        })
    }

    /// Works until it is told to end.
    pub(crate) fn run(&mut self) {
        while !self.control.end.load(Ordering::Acquire) {
            if self.control.drain.load(Ordering::Acquire) && self.drained() {
                break;
            }
            let limit = self.drained_at.map(|since| self.config.timeouts.drain.saturating_sub(since.elapsed()));
            let limit = crate::worker::patience(limit, self.site.log.as_ref());
            if self.ring.wait(limit).is_err() {
                continue;
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
            if let Some(log) = &mut self.site.log {
                log.flush();
            }
        }
        if let Some(log) = &mut self.site.log {
            log.finish();
        }
    }

    fn take(&mut self, completion: Completion) {
        match completion {
            Completion::Accepted { connection, .. } => self.admit(connection),
            Completion::Received { token, piece } => self.received(token.0, piece),
            Completion::Sent { token, byte_count } => {
                self.counters.bytes_sent.add(byte_count);
                self.sent(token.0, byte_count);
            }
            Completion::Ended { token } => self.close(token.0),
            Completion::Failed { token, .. } if token.0 >= LISTENERS => self.counters.descriptors_short.add(1),
            Completion::Failed { token, .. } => self.abort(token.0),
            Completion::Deadline { token } => self.expire(token.0),
            _ => {}
        }
    }

    /// Accepts no more, ends what is at rest, and says whether nothing is left to be waited for.
    fn drained(&mut self) -> bool {
        if self.drained_at.is_none() {
            self.drained_at = Some(Instant::now());
            self.site.closing = true;
            for door in std::mem::take(&mut self.doors) {
                // What was handed to `listen` is registered.
                let _ = self.ring.close(door);
            }
            for number in self.table.numbers() {
                if self.table.get(number).is_some_and(|line| matches!(line.state, State::Idle | State::Fresh)) {
                    self.close(number);
                }
            }
        }
        let is_late = self.drained_at.is_some_and(|since| since.elapsed() >= self.config.timeouts.drain);
        self.table.len() == 0 || is_late
    }

    fn admit(&mut self, fd: OwnedFd) {
        self.counters.accepted.add(1);
        let must_know = self.config.connections_per_address.is_some() || self.site.log.is_some();
        let (fd, peer) = if must_know { peer_of(fd) } else { (fd, None) };
        let is_full = self.table.len() >= self.most;
        if is_full || !self.addresses.enter(peer) {
            let count = if is_full { &self.counters.refused_full } else { &self.counters.refused_address };
            count.add(1);
            self.counters.closed.add(1);
            self.site.refuse_connection(is_full, &mut self.outbox);
            // One attempt: whoever is refused is not waited for.
            let _ = stream::send(&fd, &self.outbox.bytes, false);
            say_end(&fd);
            return;
        }
        let number = self.table.next();
        if self.ring.receive(&fd, Token(number)).is_err() {
            self.addresses.leave(peer);
            self.counters.closed.add(1);
            return;
        }
        self.ring.set_deadline(&fd, self.config.timeouts.head);
        self.table.insert(fd, peer, false);
    }

    /// Something came.
    fn received(&mut self, number: u32, piece: Piece) {
        let Some(connection) = self.table.get(number) else { return self.ring.give_back(piece) };
        if let Some(log) = &mut self.site.log {
            log.peer = connection.peer();
        }
        self.outbox.clear();
        let bytes = self.ring.bytes(&piece);
        connection.is_parked = false;
        let is_plain = connection.active.is_none();
        match connection.state {
            State::Lingering | State::Free => self.ring.give_back(piece),
            // Answers leave in the order in which they were given: the next one need not wait for the last.
            State::Fresh | State::Idle | State::Sending if is_plain => {
                let mut scan = Scan::default();
                let (used, after) = answer(&mut self.site, &self.config, bytes, &mut scan, &mut self.outbox);
                let rest = bytes[used..].to_vec();
                self.ring.give_back(piece);
                self.deliver(number, rest, scan, after);
            }
            State::Sending | State::Fetching => {
                let active = connection.active();
                // What comes behind the last answer is nobody's.
                if !active.close {
                    active.input.extend_from_slice(bytes);
                }
                let is_flood = active.input.len() > AHEAD_BYTES;
                self.ring.give_back(piece);
                if is_flood {
                    self.abort(number);
                }
            }
            _ => {
                let bytes = bytes.to_vec();
                self.ring.give_back(piece);
                self.receive_more(number, &bytes);
            }
        }
    }

    /// More of what has begun.
    fn receive_more(&mut self, number: u32, mut new: &[u8]) {
        let Some(connection) = self.table.get(number) else { return };
        let active = connection.active();
        if let Some(unwanted) = &mut active.body {
            match unwanted.skip(new) {
                Err(reject) => {
                    self.site.reject(reject, &mut self.outbox);
                    return self.deliver(number, Vec::new(), Scan::default(), After::Close(true));
                }
                Ok((_, false)) => return,
                Ok((used, true)) => new = &new[used..],
            }
            active.body = None;
            let head = std::mem::take(&mut active.input);
            answer_head(&mut self.site, &self.config.limits, &head, &mut self.outbox);
        }
        active.input.extend_from_slice(new);
        let mut scan = active.scan;
        let mut input = std::mem::take(&mut active.input);
        let (used, after) = answer(&mut self.site, &self.config, &input, &mut scan, &mut self.outbox);
        input.drain(..used);
        self.deliver(number, input, scan, after);
    }

    /// Hands over what was answered, and leaves the connection in the state that it needs for what is left.
    fn deliver(&mut self, number: u32, mut rest: Vec<u8>, scan: Scan, after: After) {
        if let After::Body(unwanted) = after {
            // What came of the body was passed over.
            rest.truncate(unwanted.head_bytes);
        }
        let Some(connection) = self.table.get(number) else { return };
        let had_begun = connection.state == State::Head;
        let Some(fd) = connection.fd.as_ref() else { return };
        let has_bytes = !self.outbox.bytes.is_empty();
        if has_bytes && self.ring.send(fd, Buffer::Owned(self.outbox.bytes.as_slice().into())).is_err() {
            return self.abort(number);
        }
        if after == After::Idle && self.outbox.batch.is_empty() {
            connection.active = None;
            connection.state = if has_bytes { State::Sending } else { State::Idle };
            self.ring.set_deadline(fd, self.config.timeouts.send);
            return;
        }
        if !has_bytes && self.outbox.batch.is_empty() {
            return self.settle(number, rest, scan, after, had_begun);
        }
        let active = connection.active.get_or_insert_default();
        active.batch.clear();
        active.batch.append(&mut self.outbox.batch);
        (active.input, active.scan, active.sent) = (rest, scan, 0);
        active.close = matches!(after, After::Close(_));
        active.body = if let After::Body(unwanted) = after { Some(unwanted) } else { None };
        connection.state = State::Sending;
        self.ring.set_deadline(fd, self.config.timeouts.send);
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
        let Some(fd) = connection.fd.as_ref() else { return };
        let Some(active) = connection.active.as_mut() else {
            if self.drained_at.is_some() {
                return self.close(number);
            }
            connection.state = State::Idle;
            return self.ring.set_deadline(fd, PARK_AFTER.min(self.config.timeouts.idle));
        };
        active.sent += byte_count;
        match active.batch.take(PIECE_BYTES) {
            // A connection's pieces are handed over whole: only a buffer that was sent in part would begin later.
            Ok(Some((piece, _))) => {
                if self.ring.send(fd, piece).is_err() {
                    self.abort(number);
                }
            }
            Ok(None) => {
                let (close, body) = (active.close, active.body.take());
                let (input, scan) = (std::mem::take(&mut active.input), active.scan);
                let after = match body {
                    _ if close => After::Close(true),
                    Some(unwanted) => After::Body(unwanted),
                    None if input.is_empty() => After::Idle,
                    None => After::More,
                };
                self.settle(number, input, scan, after, false);
            }
            // The file became shorter: what the client was promised cannot be had any more.
            Err(_) => self.abort(number),
        }
    }

    /// All that was answered has left.
    fn settle(&mut self, number: u32, rest: Vec<u8>, scan: Scan, after: After, had_begun: bool) {
        let Some(connection) = self.table.get(number) else { return };
        let Some(fd) = connection.fd.as_ref() else { return };
        match after {
            After::Idle if self.drained_at.is_some() => self.close(number),
            After::Idle => {
                (connection.state, connection.active) = (State::Idle, None);
                self.ring.set_deadline(fd, PARK_AFTER.min(self.config.timeouts.idle));
            }
            After::Head => {
                if !had_begun {
                    self.ring.set_deadline(fd, self.config.timeouts.head);
                }
                connection.state = State::Head;
                let active = connection.active();
                (active.input, active.scan) = (rest, scan);
            }
            After::Body(unwanted) => {
                self.ring.set_deadline(fd, self.config.timeouts.head);
                connection.state = State::Body;
                let active = connection.active();
                (active.input, active.scan, active.body) = (rest, scan, Some(unwanted));
            }
            After::More => {
                let active = connection.active();
                (active.input, active.scan) = (rest, scan);
                self.outbox.clear();
                self.receive_more(number, &[]);
            }
            After::Close(_) => {
                if !say_end(fd) {
                    return self.close(number);
                }
                (connection.state, connection.active) = (State::Lingering, None);
                self.ring.set_deadline(fd, LINGER);
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
                self.site.time_out(&mut self.outbox);
                self.deliver(number, Vec::new(), Scan::default(), After::Close(true));
            }
            State::Sending if connection.active.as_mut().is_some_and(|active| std::mem::take(&mut active.sent) > 0) => {
                self.ring.set_deadline(fd, self.config.timeouts.send);
            }
            State::Sending => {
                self.counters.slow_closed.add(1);
                let _ = stream::set_reset_on_close(fd);
                self.abort(number);
            }
            State::Free | State::Fetching | State::Lingering => self.close(number),
        }
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
        let Some((fd, peer)) = self.table.remove(number) else { return };
        self.addresses.leave(peer);
        self.counters.closed.add(1);
        // The table and the ring name the same descriptors.
        let _ = end(&mut self.ring, fd);
    }
}

/// From where a connection comes; none over a Unix socket.
fn peer_of(fd: OwnedFd) -> (OwnedFd, Option<IpAddr>) {
    let connection = TcpStream::from(fd);
    let peer = connection.peer_addr().ok().map(|peer| peer.ip());
    (connection.into(), peer)
}
