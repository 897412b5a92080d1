//! A worker: an event loop, its connections, and what they say.
//!
//! The way of a request that comes whole and whose answer fits is one receive and one send, and the connection owns
//! nothing before and after. All other ways leave it at the place where they must: a head that is not whole, an answer
//! that the client does not take at once, a file that must come from the device.

mod sealed;

use crate::access::Addresses;
use crate::config::{Accepting, Config, SLOWEST_BYTES};
use crate::connection::{State, Table, say_end};
use crate::counters::Counters;
use crate::error::Error;
use crate::exchange::{After, answer, answer_head};
use crate::fetch::{self, Fetcher, Ticket};
use crate::listener::Bound;
use crate::log::Feed;
use crate::outbox::Outbox;
use crate::privilege::Cage;
use crate::site::Site;
use crate::tls::{Sessions, Settings};
use landau_reactor::batch::{Bytes, Progress, Queue};
use landau_reactor::{Event, Interest, Reactor, Token, Waker};
use landau_sys::limits::Resource;
use landau_sys::stream;
use landau_wire::http::Scan;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is received at once at most. One buffer serves all connections of a worker.
const SCRATCH_BYTES: usize = 64 << 10;

/// Connections that are accepted in one turn, before others are looked after.
const ACCEPTS: usize = 64;

/// Tokens from here on are listening sockets.
pub(crate) const LISTENERS: u32 = u32::MAX - 4096;

/// Descriptors that are kept free for files and for the server's own.
pub(crate) const SPARE_DESCRIPTORS: u64 = 96;

/// When descriptors are short, accepting rests for so long: ten attempts a second cost nothing.
const REST: Duration = Duration::from_millis(100);

/// How long a connection that was ended is listened to, and how much of it.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// When lines of the log could not be handed over at once, they are after so long.
const LOG_RETRY: Duration = Duration::from_millis(10);

/// What all workers are told.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) drain: AtomicBool,
    pub(crate) end: AtomicBool,
    pub(crate) is_released: Gate,
}

/// Something that is waited for once.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<bool>, Condvar);

impl Gate {
    pub(crate) fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_all();
    }

    pub(crate) fn wait(&self) {
        let mut is_open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_open {
            is_open = self.1.wait(is_open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct Arrival {
    fd: OwnedFd,
    peer: Option<IpAddr>,
    is_tls: bool,
}

/// Connections that another worker accepted for this one.
#[derive(Debug)]
pub(crate) struct Inbox {
    arrivals: Mutex<Vec<Arrival>>,
    pub(crate) waker: Waker,
}

impl Inbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { arrivals: Mutex::default(), waker }
    }

    fn put(&self, arrival: Arrival) {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
        // A worker whose line is broken has ended, and takes nothing any more.
        let _ = self.waker.wake();
    }

    fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a worker starts with.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) number: usize,
    pub(crate) config: Arc<Config>,
    pub(crate) bound: Arc<Vec<Bound>>,
    pub(crate) control: Arc<Control>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) inboxes: Arc<Vec<Inbox>>,
    /// Its end of the access log.
    pub(crate) log: Option<Feed>,
    /// What it enters when it has opened what it needs.
    pub(crate) cage: Arc<Cage>,
    /// What connections over TLS begin with.
    pub(crate) tls: Option<Arc<Settings>>,
}

/// Whether it pays to look for a request at once when a connection is accepted: it does with clients that make a
/// connection for each request, and is a call in vain with those that stay. Learns from what it found.
#[derive(Debug, Default)]
struct Eager {
    /// From 0 (never there) to 16 (always).
    score: u8,
    count: u8,
}

impl Eager {
    /// Now and then it is tried in any case, to find out.
    fn is_worth_it(&mut self) -> bool {
        self.count = self.count.wrapping_add(1);
        self.score >= 8 || self.count.is_multiple_of(16)
    }

    fn learn(&mut self, was_there: bool) {
        self.score = if was_there { (self.score + 2).min(16) } else { self.score.saturating_sub(1) };
    }
}

/// A listening socket.
#[derive(Debug)]
struct Door {
    fd: OwnedFd,
    is_resting: bool,
    is_tls: bool,
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Worker {
    number: usize,
    config: Arc<Config>,
    control: Arc<Control>,
    counters: Arc<Counters>,
    inboxes: Arc<Vec<Inbox>>,
    reactor: Reactor,
    doors: Vec<Door>,
    table: Table,
    addresses: Addresses,
    site: Site,
    fetcher: Fetcher,
    eager: Eager,
    scratch: Box<[u8]>,
    outbox: Outbox,
    tls: Option<Arc<Settings>>,
    sessions: Sessions,
    /// What was opened, or is about to be sealed.
    plain: Vec<u8>,
    /// The most connections of this worker.
    most: usize,
    /// Which worker gets the next connection, where one accepts for all.
    turn: usize,
    drained_at: Option<Instant>,
}

impl Worker {
    pub(crate) fn new(start: Start) -> Result<Self, Error> {
        let Start { number, config, bound, control, counters, inboxes, log, cage, tls } = start;
        let mut reactor = Reactor::new(config.mechanism)?;
        reactor.hang(&inboxes[number].waker)?;
        let mut doors = Vec::new();
        if config.accepting != Accepting::Handed || number == 0 {
            for (place, bound) in bound.iter().enumerate() {
                let fd = bound.for_worker()?;
                if matches!(bound.listen, crate::Listen::Tcp(_)) {
                    // Inherited by what is accepted, which saves a call for each connection.
                    stream::set_no_delay(&fd)?;
                    if let Some(seconds) = config.defer_accept_s {
                        stream::set_defer_accept(&fd, seconds)?;
                    }
                    #[cfg(target_os = "linux")]
                    if config.accepting == Accepting::Steered {
                        stream::steer_by_processor(&fd, config.workers as u32)?;
                    }
                }
                reactor.register(&fd, Token(LISTENERS + place as u32), Interest::READ)?;
                doors.push(Door { fd, is_resting: false, is_tls: bound.is_tls });
            }
        }
        let descriptors = landau_sys::limits::raise(Resource::Descriptors)?.saturating_sub(SPARE_DESCRIPTORS).max(1);
        let share = config.connections.map_or(usize::MAX, |all| all.div_ceil(config.workers.max(1)));
        let site = Site::new(&config, counters.clone(), log)?;
        cage.enter()?;
        let fetcher = Fetcher::new(inboxes[number].waker.clone());
        Ok(Self {
            number,
            site,
            addresses: Addresses::new(config.connections_per_address),
            most: share.min(descriptors as usize),
            config,
            control,
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
            turn: 0,
            drained_at: None,
        })
    }

    /// Works until it is told to end.
    pub(crate) fn run(&mut self) {
        while !self.control.end.load(Ordering::Acquire) {
            if self.control.drain.load(Ordering::Acquire) && self.drained() {
                break;
            }
            let drain = self.drained_at.map(|since| self.config.timeouts.drain.saturating_sub(since.elapsed()));
            if self.reactor.wait(patience(drain, self.site.log.as_ref())).is_err() {
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
        if self.drained_at.is_none() {
            self.drained_at = Some(Instant::now());
            self.site.closing = true;
            for door in std::mem::take(&mut self.doors) {
                // What was handed to `register` is registered.
                let _ = self.reactor.deregister(&door.fd);
            }
            for number in self.table.numbers() {
                let at_rest =
                    |line: &mut crate::connection::Connection| matches!(line.state, State::Idle | State::Fresh);
                if self.table.get(number).is_some_and(at_rest) {
                    self.close(number);
                }
            }
        }
        let is_late = self.drained_at.is_some_and(|since| since.elapsed() >= self.config.timeouts.drain);
        self.table.len() == 0 || is_late
    }

    fn accept(&mut self, door: usize, event: Event) {
        if event.ready.is_deadline() {
            self.open_doors();
        }
        for _ in 0..ACCEPTS {
            let Some(&Door { ref fd, is_resting: false, is_tls }) = self.doors.get(door) else { return };
            match stream::accept_from(fd) {
                Ok((fd, peer)) => self.take(Arrival { fd, peer: peer.map(|peer| peer.ip()), is_tls }),
                Err(error) => match std::io::Error::from_raw_os_error(error.errno).kind() {
                    std::io::ErrorKind::WouldBlock => {
                        self.reactor.used_up(fd, Interest::READ);
                        return;
                    }
                    // The client has gone already, or a signal came: there may be others.
                    std::io::ErrorKind::ConnectionAborted | std::io::ErrorKind::Interrupted => {}
                    _ => return self.rest(door),
                },
            }
        }
    }

    /// A connection for whoever's turn it is.
    fn take(&mut self, arrival: Arrival) {
        if self.config.accepting == Accepting::Handed {
            self.turn = (self.turn + 1) % self.inboxes.len();
            if self.turn != self.number {
                return self.inboxes[self.turn].put(arrival);
            }
        }
        self.admit(arrival);
    }

    fn admit(&mut self, Arrival { fd, peer, is_tls }: Arrival) {
        self.counters.accepted.add(1);
        let is_full = self.table.len() >= self.most;
        if is_full || !self.addresses.enter(peer) {
            let count = if is_full { &self.counters.refused_full } else { &self.counters.refused_address };
            count.add(1);
            self.counters.closed.add(1);
            self.site.refuse_connection(is_full, &mut self.outbox);
            // One attempt: whoever is refused is not waited for. Who speaks TLS would not understand it.
            if !is_tls {
                let _ = stream::send(&fd, &self.outbox.bytes, false);
            }
            say_end(&fd);
            return;
        }
        let arrival = Arrival { fd, peer, is_tls };
        if !is_tls && self.eager.is_worth_it() {
            self.admit_eagerly(arrival);
        } else {
            self.enter(arrival);
        }
    }

    /// Into the table, from where it is told of; its number.
    fn enter(&mut self, Arrival { fd, peer, is_tls }: Arrival) -> Option<u32> {
        let number = self.table.next();
        if self.reactor.register_nonblocking(&fd, Token(number), Interest::READ).is_err() {
            self.addresses.leave(peer);
            self.counters.closed.add(1);
            return None;
        }
        self.reactor.set_deadline(&fd, self.config.timeouts.head);
        self.table.insert(fd, peer, is_tls);
        if is_tls && !self.begin_session(number) {
            self.close(number);
            return None;
        }
        Some(number)
    }

    /// The request may have come with the connection. If so, one that ends with its answer is never waited for, and
    /// never stands in the table at all.
    fn admit_eagerly(&mut self, arrival: Arrival) {
        let got = stream::receive(&arrival.fd, &mut self.scratch);
        self.eager.learn(matches!(got, Ok(1..)));
        let Ok(got @ 1..) = got else {
            // Nothing yet, or already the end: that is told of like any other.
            self.enter(arrival);
            return;
        };
        if let Some(log) = &mut self.site.log {
            log.peer = arrival.peer;
        }
        self.outbox.clear();
        let mut scan = Scan::default();
        let (used, after) = answer(&mut self.site, &self.config, &self.scratch[..got], &mut scan, &mut self.outbox);
        if after == After::Close(false) && self.outbox.batch.is_empty() {
            let sent = stream::send(&arrival.fd, &self.outbox.bytes, false).unwrap_or(0);
            self.counters.bytes_sent.add(sent as u64);
            if sent == self.outbox.bytes.len() {
                self.addresses.leave(arrival.peer);
                self.counters.closed.add(1);
                return;
            }
            self.outbox.bytes.drain(..sent);
        }
        let rest = self.scratch[used..got].to_vec();
        if let Some(number) = self.enter(arrival) {
            self.deliver(number, rest, scan, after);
        }
    }

    /// Descriptors are short. Whoever waits in the queue goes on waiting; asking again at once would only burn the
    /// processor.
    fn rest(&mut self, door: usize) {
        self.counters.descriptors_short.add(1);
        if let Some(door) = self.doors.get_mut(door) {
            door.is_resting = true;
            let _ = self.reactor.want(&door.fd, Interest::NONE);
            self.reactor.set_deadline(&door.fd, REST);
        }
    }

    fn open_doors(&mut self) {
        for door in self.doors.iter_mut().filter(|door| door.is_resting) {
            door.is_resting = false;
            let _ = self.reactor.want(&door.fd, Interest::READ);
            self.reactor.clear_deadline(&door.fd);
        }
    }

    #[inline]
    fn handle(&mut self, number: u32, event: Event) {
        let Some(connection) = self.table.get(number) else { return };
        let is_news = event.ready.is_readable() || event.ready.is_writable();
        match connection.state {
            State::Idle | State::Fresh | State::Head | State::Body if is_news => self.receive(number),
            State::Sending if is_news => self.go_on(number),
            State::Lingering if is_news => self.linger(number),
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
            self.reactor.used_up(fd, Interest::READ);
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
        let rest = self.scratch[used..got].to_vec();
        self.deliver(number, rest, scan, after);
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
        let mut new = &self.scratch[..got];
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

    /// Sends what was answered, and leaves the connection in the state that it needs for what is left.
    fn deliver(&mut self, number: u32, mut rest: Vec<u8>, scan: Scan, after: After) {
        if let After::Body(unwanted) = after {
            // What came of the body was passed over.
            rest.truncate(unwanted.head_bytes);
        }
        let Some(connection) = self.table.get(number) else { return };
        if connection.is_tls {
            return self.deliver_sealed(number, rest, scan, after);
        }
        let had_begun = connection.state == State::Head;
        let Some(fd) = connection.fd.as_ref() else { return };
        let is_cold =
            self.outbox.batch.next_file().is_some_and(|(file, offset, len)| fetch::is_cold(file, offset, len));
        let mut behind: Queue<'_> = std::mem::take(&mut self.outbox.batch);
        let mut all: Queue<'_> = Queue::new();
        all.add(Bytes::Borrowed(&self.outbox.bytes));
        if !is_cold {
            all.append(&mut behind);
        }
        let before = all.bytes_left();
        let progress = all.send(fd);
        self.counters.bytes_sent.add(before - all.bytes_left());
        match progress {
            Ok(Progress::Done) if behind.is_empty() => {
                return self.settle(number, rest, scan, after, had_begun);
            }
            Ok(_) => {}
            Err(_) => return self.close(number),
        }
        all.append(&mut behind);
        self.outbox.batch = all.into_owned();
        let is_blocked = matches!(progress, Ok(Progress::Blocked(_)));
        connection.active.get_or_insert_default().batch.clear();
        self.keep_for_later(number, rest, scan, after);
        if is_blocked { self.want(number, Interest::WRITE) } else { self.go_on(number) }
    }

    /// Notes what is still to be sent, and what then.
    fn keep_for_later(&mut self, number: u32, rest: Vec<u8>, scan: Scan, after: After) {
        let Some(connection) = self.table.get(number) else { return };
        let Some(fd) = connection.fd.as_ref() else { return };
        let active = connection.active.get_or_insert_default();
        active.batch.append(&mut self.outbox.batch);
        (active.input, active.scan) = (rest, scan);
        (active.close, active.sent) = (matches!(after, After::Close(_)), 0);
        active.body = if let After::Body(unwanted) = after { Some(unwanted) } else { None };
        connection.state = State::Sending;
        self.reactor.set_deadline(fd, self.config.timeouts.send);
    }

    /// All that was answered has left.
    fn settle(&mut self, number: u32, rest: Vec<u8>, scan: Scan, after: After, had_begun: bool) {
        let Some(connection) = self.table.get(number) else { return };
        if connection.is_tls && self.is_shaking_hands(number) {
            return self.shake_on(number);
        }
        let Some(connection) = self.table.get(number) else { return };
        let Some(fd) = connection.fd.as_ref() else { return };
        match after {
            After::Idle if self.drained_at.is_some() => return self.close(number),
            After::Idle => {
                (connection.state, connection.active) = (State::Idle, None);
                self.reactor.set_deadline(fd, self.config.timeouts.idle);
            }
            After::Head => {
                // The time for a head counts from its first byte: each further byte must not begin it anew.
                if !had_begun {
                    self.reactor.set_deadline(fd, self.config.timeouts.head);
                }
                connection.state = State::Head;
                let active = connection.active();
                (active.input, active.scan) = (rest, scan);
            }
            After::Body(unwanted) => {
                self.reactor.set_deadline(fd, self.config.timeouts.head);
                connection.state = State::Body;
                let active = connection.active();
                (active.input, active.scan, active.body) = (rest, scan, Some(unwanted));
            }
            After::More => {
                let active = connection.active();
                (active.input, active.scan) = (rest, scan);
                return self.next_requests(number);
            }
            After::Close(false) => return self.close(number),
            After::Close(true) => {
                if !say_end(fd) {
                    return self.close(number);
                }
                (connection.state, connection.active) = (State::Lingering, None);
                self.reactor.set_deadline(fd, LINGER);
            }
        }
        self.want(number, Interest::READ);
    }

    /// Answers what came while an answer was leaving.
    fn next_requests(&mut self, number: u32) {
        self.outbox.clear();
        self.note_peer(number);
        self.receive_more(number, 0);
    }

    /// A part of the handshake has left that the client did not take at once.
    #[cold]
    fn shake_on(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        (connection.state, connection.active) = (State::Fresh, None);
        if let Some(fd) = connection.fd.as_ref() {
            self.reactor.set_deadline(fd, self.config.timeouts.head);
        }
        self.want(number, Interest::READ);
    }

    fn want(&mut self, number: u32, interest: Interest) {
        let refused = match self.table.get(number).and_then(|connection| connection.fd.as_ref()) {
            Some(fd) => self.reactor.want(fd, interest).is_err(),
            None => false,
        };
        if refused {
            self.close(number);
        }
    }

    /// The client takes more.
    fn go_on(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        let Some(active) = connection.active.as_mut() else { return };
        if let Some((file, offset, len)) = active.batch.next_file()
            && fetch::is_cold(file, offset, len)
            && let Some(ticket) = self.fetcher.fetch(number, file, offset, len)
        {
            self.counters.cold_reads.add(1);
            (active.ticket, connection.state) = (ticket.serial, State::Fetching);
            return self.want(number, Interest::NONE);
        }
        self.go_on_anyway(number);
    }

    /// Sends what comes next, from wherever it has to come: what was fetched may have been forgotten again, and then
    /// waiting is better than fetching for ever.
    fn go_on_anyway(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        if connection.is_tls {
            return self.go_on_sealed(number);
        }
        let (Some(fd), Some(active)) = (connection.fd.as_ref(), connection.active.as_mut()) else { return };
        let before = active.batch.bytes_left();
        let progress = active.batch.send(fd);
        let sent = before - active.batch.bytes_left();
        active.sent += sent;
        self.counters.bytes_sent.add(sent);
        match progress {
            Ok(Progress::Done) => self.sent_all(number),
            Ok(Progress::Blocked(_) | Progress::Yielded(_)) => self.want(number, Interest::WRITE),
            // The client is gone, or the file became shorter: what it was promised cannot be had any more.
            Err(_) => self.close(number),
        }
    }

    /// All that was kept for later has left.
    fn sent_all(&mut self, number: u32) {
        let Some(active) = self.table.get(number).and_then(|connection| connection.active.as_mut()) else { return };
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

    /// Goes on with those whose part of a file is in memory now.
    fn take_fetched(&mut self) {
        for Ticket { number, serial } in self.fetcher.take_done() {
            let Some(connection) = self.table.get(number) else { continue };
            if connection.state == State::Fetching && connection.active().ticket == serial {
                connection.state = State::Sending;
                self.go_on_anyway(number);
            }
        }
    }

    /// Throws away what a client still sends after the end.
    fn linger(&mut self, number: u32) {
        let Some(fd) = self.table.get(number).and_then(|connection| connection.fd.as_ref()) else { return };
        match stream::receive(fd, &mut self.scratch[..SCRATCH_BYTES]) {
            Ok(got) if got > 0 => {
                if got < SCRATCH_BYTES {
                    self.reactor.used_up(fd, Interest::READ);
                }
            }
            Err(error) if is_again(error) => self.reactor.used_up(fd, Interest::READ),
            _ => self.close(number),
        }
    }

    /// A deadline has passed.
    #[cold]
    fn expire(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        match connection.state {
            State::Idle => self.counters.idle_closed.add(1),
            State::Fresh => self.counters.heads_late.add(1),
            State::Head | State::Body => {
                self.counters.heads_late.add(1);
                self.outbox.clear();
                self.note_peer(number);
                self.site.time_out(&mut self.outbox);
                let after = After::Close(true);
                return self.deliver(number, Vec::new(), Scan::default(), after);
            }
            State::Sending => {
                let active = connection.active();
                if std::mem::take(&mut active.sent) >= SLOWEST_BYTES {
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
            State::Fetching => {
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
                self.reactor.used_up(fd, Interest::READ);
            }
        } else {
            self.close(number);
        }
    }

    fn close(&mut self, number: u32) {
        if self.table.get(number).is_some_and(|connection| connection.is_tls) {
            self.drop_session(number);
        }
        let Some((fd, peer)) = self.table.remove(number) else { return };
        self.addresses.leave(peer);
        self.counters.closed.add(1);
        // The table and the reactor name the same descriptors.
        let _ = self.reactor.close(fd);
        if self.doors.iter().any(|door| door.is_resting) {
            self.open_doors();
        }
    }
}

/// How long the next wait may be: until the end is due, or until lines of the log can be handed over.
#[inline]
pub(crate) fn patience(drain: Option<Duration>, log: Option<&Feed>) -> Option<Duration> {
    match log {
        Some(log) if log.is_waiting() => Some(drain.map_or(LOG_RETRY, |drain| drain.min(LOG_RETRY))),
        _ => drain,
    }
}

fn is_again(error: landau_sys::Error) -> bool {
    std::io::Error::from_raw_os_error(error.errno).kind() == std::io::ErrorKind::WouldBlock
}
