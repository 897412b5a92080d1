//! Sends responses: at once as far as the socket accepts them, and the rest as fast as the client reads.

use super::Worker;
use crate::connection::{LINGER, Next, State};
use crate::exchange::{After, Remainder};
use crate::fetch::Ticket;
use crate::tls;
use crate::transport::Transport;
use landau_reactor::Interest;
use landau_reactor::batch::{Bytes, Progress, Queue, TURN_BYTES};
use landau_sys::stream;
use landau_wire::http::{Reject, Status};
use std::os::fd::OwnedFd;

impl<T: Transport> Worker<T> {
    /// Sends the responses and puts the connection into the state that the remainder requires.
    pub(super) fn deliver(&mut self, number: u32, rest: Remainder) {
        if rest.after == After::Http2 {
            return self.begin_http2(number, &rest.input);
        }
        let pacing = self.send_buffers.pacing.take();
        let Some(connection) = self.table.get(number) else { return };
        if !self.send_buffers.bytes.is_empty() {
            // The request is answered: a head that follows has its own timeout.
            connection.state = State::Sending;
        }
        let Some(fd) = connection.fd.as_ref() else { return };
        if let Some(bytes_per_second) = pacing {
            // There is no limit over a Unix socket, or on systems without pacing.
            let _ = stream::set_pacing(fd, bytes_per_second);
        }
        if self.send_buffers.batch.next_file().is_some_and(|(_, _, left)| left > TURN_BYTES as u64) {
            // Before the first part: reno would begin with the small window that BBR leaves behind.
            replace_bbr(fd);
        }
        if connection.is_tls {
            return self.deliver_encrypted(number, rest);
        }
        let Some(fd) = connection.fd.as_ref() else { return };
        let next_file = self.send_buffers.batch.next_file();
        let is_cold = next_file.is_some_and(|(file, offset, left)| {
            self.fetcher.warm.first_cold(file, (offset, left), TURN_BYTES, self.transport.now_ms()).is_some()
        });
        let mut behind: Queue<'_> = std::mem::take(&mut self.send_buffers.batch);
        let mut all: Queue<'_> = Queue::new();
        all.push(Bytes::Borrowed(&self.send_buffers.bytes));
        if !is_cold {
            all.append(&mut behind);
        }
        let before = all.bytes_left();
        let is_end = behind.is_empty() && matches!(rest.after, After::Close(_));
        let progress = if is_end { all.send_before_shutdown(fd) } else { all.send(fd) };
        self.counters.bytes_sent().add(before - all.bytes_left());
        match progress {
            Ok(Progress::Done) if behind.is_empty() => return self.settle(number, rest),
            Ok(_) => {}
            Err(_) => return self.close(number),
        }
        all.append(&mut behind);
        self.send_buffers.batch = all.into_owned();
        self.keep_for_later(number, rest);
        match progress {
            Ok(Progress::Blocked(_)) => self.wait_for_room(number),
            Ok(Progress::Yielded(sent)) if sent >= TURN_BYTES => self.yield_turn(number),
            _ => self.go_on(number),
        }
    }

    /// Keeps what is still to be sent, and what to do after it is sent.
    pub(super) fn keep_for_later(&mut self, number: u32, rest: Remainder) {
        let Some(connection) = self.table.get(number) else { return };
        connection.keep(&mut self.send_buffers.batch, rest, &self.memory);
        // The rules check the request again after this has been sent.
        self.site.forward = None;
        self.set_deadline(number, self.config.timeouts.send);
    }

    /// Returns whether a connection that would keep its buffers must be closed to free their memory.
    #[inline]
    pub(super) fn must_free_memory(&mut self, number: u32) -> bool {
        if !self.memory.is_full() {
            return false;
        }
        let held_bytes = self.held_bytes(number);
        self.memory.must_free(held_bytes)
    }

    /// Returns the memory of a connection's buffers, in bytes.
    #[cold]
    fn held_bytes(&mut self, number: u32) -> usize {
        let active = self.table.get(number).and_then(|connection| connection.active.as_ref());
        let kept = active.map_or(0, |active| active.held_bytes()) + self.transport.kept_bytes(number);
        kept + self.sessions.buffer_bytes(number)
    }

    /// Closes a connection with a reset if there is no memory for its output, or for bytes that its client sent ahead.
    #[cold]
    pub(super) fn close_for_memory(&mut self, number: u32) {
        self.counters.memory_refused().add(1);
        self.reset(number);
    }

    /// Closes a connection with a reset, because the kernel would otherwise keep its buffer for a client that does not
    /// read. The TLS session is not ended either, which would mark a response as complete.
    #[cold]
    pub(super) fn reset(&mut self, number: u32) {
        if let Some(fd) = self.table.fd(number) {
            let _ = stream::set_reset_on_close(fd);
        }
        self.sessions.remove(number);
        self.close(number);
    }

    /// Ends a TLS connection if there is no memory for a part of its next record. Its responses have been sent, and a
    /// reset could destroy the last of them in transit.
    #[cold]
    pub(super) fn end_for_memory(&mut self, number: u32) {
        self.counters.memory_refused().add(1);
        if self.is_handshaking(number)
            && let Some(fd) = self.table.fd(number)
        {
            tls::refuse(fd);
        }
        self.end_session(number);
    }

    /// Refuses a partial request if there is no memory for the rest of it.
    #[cold]
    fn refuse_for_memory(&mut self, number: u32) {
        self.counters.memory_refused().add(1);
        let reject = Reject { status: Status::SERVICE_UNAVAILABLE, reason: "no memory for a partial request" };
        self.refuse_begun(number, reject);
    }

    /// Refuses a request whose head has begun, and ends the connection.
    #[cold]
    pub(super) fn refuse_begun(&mut self, number: u32, reject: Reject) {
        let Some(connection) = self.table.get(number) else { return };
        let head = connection.active.take().map_or_else(Vec::new, |active| active.input);
        self.send_buffers.clear();
        self.note_peer(number);
        self.site.reject_head(reject, &head, &mut self.send_buffers);
        self.deliver(number, Remainder::end());
    }

    /// Waits until another thread has read the next part of a file.
    fn wait_for_part(&mut self, number: u32) {
        self.wait_by(number, |transport, fd| transport.set_interest(number, fd, Interest::NONE));
    }

    /// Ends the turn of a connection that has more to send.
    pub(super) fn yield_turn(&mut self, number: u32) {
        self.wait_by(number, |transport, fd| transport.yield_turn(number, fd));
    }

    /// Waits for room in the socket's buffer.
    pub(super) fn wait_for_room(&mut self, number: u32) {
        self.wait_by(number, |transport, fd| {
            replace_bbr(fd);
            transport.wait_writable(number, fd)
        });
    }

    /// Waits as the closure asks the transport to. Closes the connection instead if the memory of its output must be
    /// freed.
    fn wait_by(&mut self, number: u32, ask: impl FnOnce(&mut T, &OwnedFd) -> Result<(), landau_reactor::Error>) {
        if self.must_free_memory(number) {
            return self.close_for_memory(number);
        }
        self.ask_transport(number, ask);
    }

    /// Continues after all responses have been sent.
    pub(super) fn settle(&mut self, number: u32, rest: Remainder) {
        if self.is_handshaking(number) {
            return self.continue_handshake(number);
        }
        let (now_ms, record_bytes) = (self.transport.now_ms(), self.sessions.buffer_bytes(number));
        let Some(connection) = self.table.get(number) else { return };
        let next = connection.settle(rest, &self.memory);
        let Some(fd) = connection.fd.as_ref() else { return };
        let timeouts = &self.config.timeouts;
        match next {
            Next::Idle if self.drain.has_begun() => return self.close(number),
            // Over TLS, a part of the next record may have arrived.
            Next::Idle if record_bytes > 0 && self.memory.must_free(record_bytes) => {
                return self.end_for_memory(number);
            }
            Next::Idle => self.transport.set_idle_deadline(number, fd, timeouts.idle),
            Next::Forward if self.memory.is_short() => {
                self.site.forward = None;
                return self.refuse_for_memory(number);
            }
            Next::Begun if self.memory.is_short() => return self.refuse_for_memory(number),
            Next::Waiting | Next::Body | Next::LookUp if self.memory.is_full() => {
                return self.refuse_for_memory(number);
            }
            Next::Begun | Next::Body => self.transport.set_deadline(number, fd, timeouts.head),
            Next::Waiting => {}
            Next::More => return self.unanswered.push(number),
            Next::LookUp => return self.wait_for_entry(number),
            Next::Forward => return self.forward(number),
            Next::Relay => return self.go_on_relaying(number),
            Next::Close(true) if connection.linger(now_ms, &self.memory) => self.set_deadline(number, LINGER),
            Next::Close(_) => return self.close(number),
        }
        self.set_interest(number, Interest::READABLE);
    }

    /// Answers the requests that arrived after answered ones. This is not done while their responses are sent, because
    /// each request would then take another stack frame.
    pub(super) fn answer_further(&mut self) {
        while let Some(number) = self.unanswered.pop() {
            self.next_requests(number);
        }
    }

    /// Answers the requests that arrived after an answered one.
    fn next_requests(&mut self, number: u32) {
        self.send_buffers.clear();
        self.note_peer(number);
        self.receive_more(number, 0);
    }

    /// Receives nothing more until another thread has looked up what the next request needs.
    #[cold]
    fn wait_for_entry(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        connection.active().ticket = self.site.wait_for_entry(number);
        self.set_deadline(number, self.config.timeouts.send);
        self.set_interest(number, Interest::NONE);
    }

    /// Answers the requests whose lookup by another thread is complete.
    pub(super) fn take_found(&mut self) {
        while let Some(waiting) = self.site.take_found() {
            for Ticket { number, serial } in waiting {
                let Some(connection) = self.table.get(number) else { continue };
                if connection.state == State::Http2 {
                    self.found_for_http2(number, serial);
                } else if connection.state == State::LookingUp && connection.active().ticket == serial {
                    self.next_requests(number);
                }
            }
        }
    }

    /// Continues a handshake after the rest of a partial send has been sent. The deadline does not change.
    #[cold]
    fn continue_handshake(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        (connection.state, connection.active) = (State::Fresh, None);
        self.set_interest(number, Interest::READABLE);
    }

    /// Sends more to a client that has room, until its turn is over. A part that is not in memory is first read by
    /// another thread.
    pub(super) fn go_on(&mut self, number: u32) {
        let mut turn = 0;
        while turn < TURN_BYTES {
            if self.must_fetch(number) {
                return self.wait_for_part(number);
            }
            let Some(sent) = self.send_next(number) else { return };
            turn += sent;
        }
        self.yield_turn(number);
    }

    /// Lets another thread read the next part of a file if it is not in memory; returns whether the connection waits
    /// for it.
    fn must_fetch(&mut self, number: u32) -> bool {
        let Some(connection) = self.table.get(number) else { return false };
        let Some(active) = connection.active.as_mut() else { return false };
        let turn = if connection.is_tls { super::tls::TURN_BYTES } else { TURN_BYTES };
        let Some((file, offset, left)) = active.batch.next_file() else { return false };
        let now_ms = self.transport.now_ms();
        let Some(from) = self.fetcher.warm.first_cold(file, (offset, left), turn, now_ms) else { return false };
        let Some(ticket) = self.fetcher.fetch(number, file, from, offset + left - from) else { return false };
        self.counters.cold_reads().add(1);
        (active.ticket, connection.state) = (ticket.serial, State::Fetching);
        true
    }

    /// Sends the next part, even from the device. Returns the number of bytes if more can be sent at once.
    fn send_next(&mut self, number: u32) -> Option<usize> {
        let connection = self.table.get(number)?;
        if connection.is_tls {
            self.go_on_encrypted(number);
            return None;
        }
        let (Some(fd), Some(active)) = (connection.fd.as_ref(), connection.active.as_mut()) else { return None };
        let before = active.batch.bytes_left();
        let progress = active.batch.send(fd);
        let sent = before - active.batch.bytes_left();
        active.sent += sent;
        self.counters.bytes_sent().add(sent);
        match progress {
            Ok(Progress::Yielded(count)) => return Some(count),
            Ok(Progress::Done) => self.sent_all(number),
            Ok(Progress::Blocked(_)) => self.wait_for_room(number),
            // The client has disconnected, or the file became shorter than the announced length.
            Err(_) => self.close(number),
        }
        None
    }

    /// Continues after everything that was kept has been sent.
    pub(super) fn sent_all(&mut self, number: u32) {
        let Some(active) = self.table.get(number).and_then(|connection| connection.active.as_mut()) else { return };
        let rest = active.take_remainder();
        self.settle(number, rest);
    }

    /// Continues the connections whose part of a file is now in memory.
    pub(super) fn take_fetched(&mut self) {
        for Ticket { number, serial } in self.fetcher.take_done() {
            let Some(connection) = self.table.get(number) else { continue };
            if connection.state == State::Http2 {
                self.fetched_for_http2(number, serial);
            } else if connection.state == State::Fetching && connection.active().ticket == serial {
                connection.state = State::Sending;
                // The part is not checked again. It may have been evicted meanwhile, and blocking is better than
                // fetching for ever.
                if self.send_next(number).is_some() {
                    self.yield_turn(number);
                }
            }
        }
    }
}

/// Replaces BBR on a connection within this host, as from a proxy in front of the server. Nothing between the two can
/// be congested, and BBR paces by timers: on one machine, downloads of 100 MB took four to six times the processor
/// time. The kernel still paces what reno sends, but at more than the rate of its window.
fn replace_bbr(fd: &OwnedFd) {
    if stream::is_paced_by_bbr(fd) && stream::is_within_host(fd) {
        // If this fails, the connection is only slower.
        let _ = stream::set_congestion_control(fd, "reno");
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// A kernel without BBR, or one that permits it to root only, shows only the first half.
    #[test]
    fn bbr_is_replaced_within_the_host() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut here = listener.accept().unwrap().0;
        // The shortest of many round trips is short even on a busy machine.
        for _ in 0..100 {
            here.write_all(b"x").unwrap();
            there.read_exact(&mut [0]).unwrap();
            there.write_all(b"x").unwrap();
            here.read_exact(&mut [0]).unwrap();
        }
        let here = OwnedFd::from(here);
        assert!(stream::is_within_host(&here));
        match stream::set_congestion_control(&here, "bbr") {
            Err(error) if error.is_absent() || error.is_not_permitted() => return,
            set => set.unwrap(),
        }
        assert!(stream::is_paced_by_bbr(&here));
        replace_bbr(&here);
        assert!(!stream::is_paced_by_bbr(&here));
    }
}
