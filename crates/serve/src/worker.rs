//! A worker: an event loop, its connections, and what they say.
//!
//! The way of a request that comes whole and whose answer fits is one receive and one send, and the connection owns
//! nothing before and after. All other ways leave it at the place where they must: a head that is not whole, an answer
//! that the client does not take at once, a file that must come from the device.

mod delivery;
mod doors;
mod sealed;

use crate::access::Crowd;
use crate::admission::Admission;
use crate::config::{Accepting, Config};
use crate::connection::{Connection, State, Table};
use crate::control::{Control, Drain};
use crate::counters::Counters;
use crate::error::Error;
use crate::exchange::{After, Rest, answer};
use crate::fetch::Fetcher;
use crate::listener::{LISTENERS, Listening};
use crate::log::Feed;
use crate::outbox::Outbox;
use crate::privilege::Cage;
use crate::site::Site;
use crate::tls::{Sessions, Settings};
use doors::{Door, Eager};
use landau_reactor::{Event, Interest, Reactor};
use landau_sys::stream;
use landau_wire::http::Scan;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use doors::Inbox;

/// What is received at once at most. One buffer serves all connections of a worker.
const SCRATCH_BYTES: usize = 64 << 10;

/// What a worker starts with.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) number: usize,
    pub(crate) config: Arc<Config>,
    /// Where it listens.
    pub(crate) doors: Vec<Listening>,
    pub(crate) control: Arc<Control>,
    pub(crate) counters: Arc<Counters>,
    /// The connections of all workers.
    pub(crate) crowd: Arc<Crowd>,
    pub(crate) inboxes: Arc<Vec<Inbox>>,
    /// Its end of the access log.
    pub(crate) log: Option<Feed>,
    /// What it enters when it has opened what it needs.
    pub(crate) cage: Arc<Cage>,
    /// What connections over TLS begin with.
    pub(crate) tls: Option<Arc<Settings>>,
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Worker {
    number: usize,
    config: Arc<Config>,
    counters: Arc<Counters>,
    inboxes: Arc<Vec<Inbox>>,
    reactor: Reactor,
    doors: Vec<Door>,
    table: Table,
    admission: Admission,
    site: Site,
    fetcher: Fetcher,
    eager: Eager,
    scratch: Box<[u8]>,
    outbox: Outbox,
    tls: Option<Arc<Settings>>,
    sessions: Sessions,
    /// What was opened, or is about to be sealed.
    plain: Vec<u8>,
    /// Who took all of the last turn's part of a large answer.
    takers: Vec<u32>,
    /// Which worker gets the next connection, where one accepts for all.
    turn: usize,
    drain: Drain,
}

impl Worker {
    pub(crate) fn new(start: Start) -> Result<Self, Error> {
        let Start { number, config, doors, control, counters, crowd, inboxes, log, cage, tls } = start;
        let mut reactor = Reactor::new(config.mechanism)?;
        reactor.register_waker(&inboxes[number].waker)?;
        let doors = Door::all(doors, &mut reactor)?;
        let admission = Admission::new(&config, crowd, &counters)?;
        let site = Site::new(&config, counters.clone(), log, inboxes[number].waker.clone())?;
        cage.enter()?;
        let fetcher = Fetcher::new(inboxes[number].waker.clone());
        Ok(Self {
            number,
            site,
            admission,
            drain: Drain::new(control, &config.timeouts),
            config,
            counters,
            inboxes,
            reactor,
            doors,
            table: Table::new(),
            fetcher,
            eager: Eager::default(),
            scratch: vec![0; sealed::ROOM_BYTES].into_boxed_slice(),
            outbox: Outbox::default(),
            tls,
            sessions: Sessions::default(),
            plain: Vec::new(),
            takers: Vec::new(),
            turn: 0,
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
            if self.reactor.wait(self.drain.patience(self.site.log.as_ref())).is_err() {
                // A change that the kernel refused belongs to a descriptor that is being closed; the next wait tells.
                continue;
            }
            self.site.tick(self.reactor.now_ms());
            while let Some(event) = self.reactor.next_event() {
                if event.token.0 >= LISTENERS {
                    self.accept((event.token.0 - LISTENERS) as usize, event);
                } else {
                    self.handle(event.token.0, event);
                }
            }
            self.take_fetched();
            self.take_lists();
            self.take_turns();
            if self.config.accepting == Accepting::Handed {
                for arrival in self.inboxes[self.number].take() {
                    self.admit(arrival);
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

    /// Notes who asks, for the access log.
    #[inline]
    fn note_peer(&mut self, number: u32) {
        if let Some(log) = &mut self.site.log
            && let Some(connection) = self.table.get(number)
        {
            log.peer = connection.peer();
        }
    }

    /// Accepts no more, ends what is at rest, and says whether nothing is left to be waited for.
    fn drained(&mut self) -> bool {
        if self.drain.begin() {
            self.site.closing = true;
            for number in self.table.at_rest() {
                self.close(number);
            }
            self.close_doors();
            // Who connected just now to speak TLS has had no time to ask.
            for number in self.table.at_rest() {
                if self.table.get(number).is_some_and(|connection| !connection.is_tls) {
                    self.close(number);
                }
            }
        }
        self.drain.is_over(self.table.len())
    }

    #[inline]
    fn handle(&mut self, number: u32, event: Event) {
        let Some(connection) = self.table.get(number) else { return };
        let is_news = event.ready.is_readable() || event.ready.is_writable();
        match connection.state {
            State::Idle | State::Fresh | State::Head | State::Body if is_news => self.receive(number),
            State::Sending if is_news => self.go_on(number),
            State::Lingering if is_news => self.linger(number),
            // Nothing is wanted of it now, and yet it would be told of again and again.
            State::Fetching | State::Listing if event.ready.is_write_closed() => self.close(number),
            State::Free => {}
            _ if event.ready.is_deadline() => self.expire(number),
            _ => {}
        }
    }

    /// Something came.
    #[inline]
    fn receive(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        let Some(fd) = connection.fd.as_ref() else { return };
        let mut got = match stream::receive(fd, &mut self.scratch[..SCRATCH_BYTES]) {
            Ok(0) => return self.close(number),
            Ok(got) => got,
            Err(error) => return self.failed(number, error),
        };
        if got < SCRATCH_BYTES {
            self.reactor.clear_readiness(fd, Interest::READABLE);
        }
        if connection.is_tls {
            match self.open_records(number, got) {
                Some(plain) => got = plain,
                None => return,
            }
        }
        let Some(connection) = self.table.get(number) else { return };
        self.outbox.clear();
        let is_active = connection.active.is_some();
        self.note_peer(number);
        if is_active {
            return self.receive_more(number, got);
        }
        let mut scan = Scan::default();
        let (used, after) = answer(&mut self.site, &self.config, &self.scratch[..got], &mut scan, &mut self.outbox);
        if after == After::Idle && self.outbox.batch.is_empty() && self.send_all(number) {
            return;
        }
        self.deliver_rest(number, used..got, scan, after);
    }

    /// All other ways begin here: a call of its own, which spares the way of nearly all 17 instructions a request
    /// (callgrind, 2,255 to 2,238).
    #[inline(never)]
    fn deliver_rest(&mut self, number: u32, left: Range<usize>, scan: Scan, after: After) {
        let rest = Rest::new(self.scratch[left].to_vec(), scan, after);
        self.deliver(number, rest);
    }

    /// The way of nearly all answers: they leave at once, and the connection is at rest again.
    #[inline]
    fn send_all(&mut self, number: u32) -> bool {
        let Some(connection) = self.table.get(number) else { return false };
        let Some(fd) = connection.fd.as_ref().filter(|_| !connection.is_tls) else { return false };
        let Ok(sent) = stream::send(fd, &self.outbox.bytes, false) else { return false };
        self.counters.bytes_sent.add(sent as u64);
        if sent < self.outbox.bytes.len() {
            self.outbox.bytes.drain(..sent);
            return false;
        }
        connection.state = State::Idle;
        self.reactor.set_deadline(fd, self.config.timeouts.idle);
        true
    }

    /// More of what has begun.
    fn receive_more(&mut self, number: u32, got: usize) {
        let Some(connection) = self.table.get(number) else { return };
        let active = connection.active();
        let rest = active.go_on(&self.scratch[..got], &mut self.site, &self.config, &mut self.outbox);
        if let Some(rest) = rest {
            self.deliver(number, rest);
        }
    }

    fn want(&mut self, number: u32, interest: Interest) {
        let refused = match self.table.get(number).and_then(|connection| connection.fd.as_ref()) {
            Some(fd) => self.reactor.set_interest(fd, interest).is_err(),
            None => false,
        };
        if refused {
            self.close(number);
        }
    }

    /// Throws away what a client still sends after the end.
    fn linger(&mut self, number: u32) {
        let Some(fd) = self.table.get(number).and_then(|connection| connection.fd.as_ref()) else { return };
        match stream::receive(fd, &mut self.scratch[..SCRATCH_BYTES]) {
            Ok(got) if got > 0 => {
                if got < SCRATCH_BYTES {
                    self.reactor.clear_readiness(fd, Interest::READABLE);
                }
            }
            Err(error) if is_again(error) => self.reactor.clear_readiness(fd, Interest::READABLE),
            _ => self.close(number),
        }
    }

    /// A deadline has passed.
    #[cold]
    fn expire(&mut self, number: u32) {
        let is_shaking_hands = self.is_shaking_hands(number);
        let Some(connection) = self.table.get(number) else { return };
        match connection.state {
            State::Idle => self.counters.idle_closed.add(1),
            State::Fresh => self.counters.heads_late.add(1),
            State::Head | State::Body => {
                self.counters.heads_late.add(1);
                self.outbox.clear();
                self.note_peer(number);
                self.site.time_out(&mut self.outbox);
                return self.deliver(number, Rest::end());
            }
            State::Sending if connection.is_tls && is_shaking_hands => self.counters.heads_late.add(1),
            State::Sending => {
                if connection.is_taken() {
                    if let Some(fd) = &connection.fd {
                        self.reactor.set_deadline(fd, self.config.timeouts.send);
                    }
                    return;
                }
                self.counters.slow_closed.add(1);
                // What is still in the kernel's buffer would be kept for a client that does not want it.
                if let Some(fd) = &connection.fd {
                    let _ = stream::set_reset_on_close(fd);
                }
            }
            // The device is slow, and that is not the client's fault.
            State::Fetching | State::Listing => {
                if let Some(fd) = &connection.fd {
                    self.reactor.set_deadline(fd, self.config.timeouts.send);
                }
                return;
            }
            State::Free | State::Lingering => {}
        }
        self.close(number);
    }

    fn failed(&mut self, number: u32, error: landau_sys::Error) {
        if is_again(error) {
            if let Some(fd) = self.table.get(number).and_then(|connection| connection.fd.as_ref()) {
                self.reactor.clear_readiness(fd, Interest::READABLE);
            }
        } else {
            self.close(number);
        }
    }

    fn close(&mut self, number: u32) {
        if self.table.get(number).is_some_and(|connection| connection.is_tls) {
            self.drop_session(number);
        }
        if let Some(serial) = self.table.get(number).and_then(Connection::fetched) {
            self.fetcher.cancel(serial);
        }
        let Some((fd, peer)) = self.table.remove(number) else { return };
        self.admission.leave(peer);
        // The table and the reactor name the same descriptors.
        let _ = self.reactor.close(fd);
        if self.doors.iter().any(|door| door.is_resting) {
            self.open_doors();
        }
    }
}

fn is_again(error: landau_sys::Error) -> bool {
    error.is_would_block()
}
