//! How what was answered leaves: at once, as far as the client takes it, and the rest as fast as it takes more.

use super::Worker;
use crate::connection::{LINGER, Next, State};
use crate::exchange::{After, Rest};
use crate::fetch::{self, Ticket};
use landau_reactor::Interest;
use landau_reactor::batch::{Bytes, Progress, Queue};

/// So many turns a fast client gets of a large answer between two waits.
const TURNS: u32 = 8;

impl Worker {
    /// Sends what was answered, and leaves the connection in the state that it needs for what is left.
    pub(super) fn deliver(&mut self, number: u32, rest: Rest) {
        let Some(connection) = self.table.get(number) else { return };
        if !self.outbox.bytes.is_empty() {
            // What had begun is answered: a head behind it has a time of its own.
            connection.state = State::Sending;
        }
        if connection.is_tls {
            return self.deliver_sealed(number, rest);
        }
        let Some(fd) = connection.fd.as_ref() else { return };
        let is_cold =
            self.outbox.batch.next_file().is_some_and(|(file, offset, left)| fetch::is_cold(file, offset, left));
        let mut behind: Queue<'_> = std::mem::take(&mut self.outbox.batch);
        let mut all: Queue<'_> = Queue::new();
        all.push(Bytes::Borrowed(&self.outbox.bytes));
        if !is_cold {
            all.append(&mut behind);
        }
        let before = all.bytes_left();
        let is_end = behind.is_empty() && matches!(rest.after, After::Close(_));
        let progress = if is_end { all.send_before_shutdown(fd) } else { all.send(fd) };
        self.counters.bytes_sent.add(before - all.bytes_left());
        match progress {
            Ok(Progress::Done) if behind.is_empty() => return self.settle(number, rest),
            Ok(_) => {}
            Err(_) => return self.close(number),
        }
        all.append(&mut behind);
        self.outbox.batch = all.into_owned();
        let is_blocked = matches!(progress, Ok(Progress::Blocked(_)));
        self.keep_for_later(number, rest);
        if is_blocked { self.wait_for_room(number) } else { self.go_on(number) }
    }

    /// Notes what is still to be sent, and what then.
    pub(super) fn keep_for_later(&mut self, number: u32, rest: Rest) {
        let Some(connection) = self.table.get(number) else { return };
        connection.keep(&mut self.outbox.batch, rest);
        if let Some(fd) = connection.fd.as_ref() {
            self.reactor.set_deadline(fd, self.config.timeouts.send);
        }
    }

    /// The client's buffer is full: it goes on when there is room again.
    pub(super) fn wait_for_room(&mut self, number: u32) {
        if let Some(fd) = self.table.get(number).and_then(|connection| connection.fd.as_ref()) {
            self.reactor.clear_readiness(fd, Interest::WRITABLE);
        }
        self.want(number, Interest::WRITABLE);
    }

    /// All that was answered has left.
    pub(super) fn settle(&mut self, number: u32, rest: Rest) {
        let Some(connection) = self.table.get(number) else { return };
        if connection.is_tls && self.is_shaking_hands(number) {
            return self.shake_on(number);
        }
        let Some(connection) = self.table.get(number) else { return };
        let timeouts = &self.config.timeouts;
        let limit = match connection.settle(rest) {
            Next::Idle if self.drain.has_begun() => return self.close(number),
            Next::Idle => Some(timeouts.idle),
            Next::Begun => Some(timeouts.head),
            Next::Waiting => None,
            Next::More => return self.next_requests(number),
            Next::List => return self.wait_for_list(number),
            Next::Close(true) if connection.linger() => Some(LINGER),
            Next::Close(_) => return self.close(number),
        };
        if let (Some(fd), Some(limit)) = (connection.fd.as_ref(), limit) {
            self.reactor.set_deadline(fd, limit);
        }
        self.want(number, Interest::READABLE);
    }

    /// Answers what came while an answer was leaving.
    fn next_requests(&mut self, number: u32) {
        self.outbox.clear();
        self.note_peer(number);
        self.receive_more(number, 0);
    }

    /// Nothing more is received until the list is there that the next request asks for.
    #[cold]
    fn wait_for_list(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        connection.active().ticket = self.site.wait_for_list(number);
        if let Some(fd) = connection.fd.as_ref() {
            self.reactor.set_deadline(fd, self.config.timeouts.send);
        }
        self.want(number, Interest::NONE);
    }

    /// Answers those whose list was made.
    pub(super) fn take_lists(&mut self) {
        while let Some(waiting) = self.site.take_list() {
            for Ticket { number, serial } in waiting {
                let Some(connection) = self.table.get(number) else { continue };
                if connection.state == State::Listing && connection.active().ticket == serial {
                    self.next_requests(number);
                }
            }
        }
    }

    /// A part of the handshake has left that the client did not take at once. Its time runs on.
    #[cold]
    fn shake_on(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        (connection.state, connection.active) = (State::Fresh, None);
        self.want(number, Interest::READABLE);
    }

    /// The client takes more.
    pub(super) fn go_on(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        let Some(active) = connection.active.as_mut() else { return };
        if let Some((file, offset, left)) = active.batch.next_file()
            && fetch::is_cold(file, offset, left)
            && let Some(ticket) = self.fetcher.fetch(number, file, offset, left)
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
            Ok(Progress::Blocked(_)) => self.wait_for_room(number),
            Ok(Progress::Yielded(_)) => {
                self.takers.push(number);
                self.want(number, Interest::WRITABLE);
            }
            // The client is gone, or the file became shorter: what it was promised cannot be had any more.
            Err(_) => self.close(number),
        }
    }

    /// Those who took all that they were given take turns, a few each, before others are asked for again.
    pub(super) fn take_turns(&mut self) {
        let mut takers = Vec::new();
        for _ in 1..TURNS {
            if self.takers.is_empty() {
                return;
            }
            std::mem::swap(&mut takers, &mut self.takers);
            for number in takers.drain(..) {
                if self.table.get(number).is_some_and(|connection| connection.state == State::Sending) {
                    self.go_on(number);
                }
            }
        }
        self.takers.clear();
    }

    /// All that was kept for later has left.
    pub(super) fn sent_all(&mut self, number: u32) {
        let Some(active) = self.table.get(number).and_then(|connection| connection.active.as_mut()) else { return };
        let rest = active.rest();
        self.settle(number, rest);
    }

    /// Goes on with those whose part of a file is in memory now.
    pub(super) fn take_fetched(&mut self) {
        for Ticket { number, serial } in self.fetcher.take_done() {
            let Some(connection) = self.table.get(number) else { continue };
            if connection.state == State::Fetching && connection.active().ticket == serial {
                connection.state = State::Sending;
                self.go_on_anyway(number);
            }
        }
    }
}
