//! A connection with its buffers: input that no step has consumed, and unsent output.

use super::conduct::{Pieces, Plan};
use super::protocol::{Step, Then};
use crate::tls::TlsSession;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The client's next bytes.
    Receiving,
    /// The time of a delayed reply, or of the next piece of a reply.
    Pausing,
    /// The protocol's commit.
    Committing,
    /// Room in the send buffer.
    Sending,
    /// The client's end of the stream: further input is discarded.
    Draining,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    pub(crate) fd: OwnedFd,
    /// The TLS session, if the connection is encrypted.
    pub(crate) tls: Option<Box<TlsSession>>,
    pub(crate) session: S,
    pub(crate) state: State,
    pub(crate) plan: Plan,
    pub(crate) received: u64,
    /// Input that no step has consumed.
    pub(crate) input: Vec<u8>,
    pub(crate) output: Output,
    /// What follows after the output is sent.
    pub(crate) then: Then,
}

impl<S> Connection<S> {
    pub(crate) fn new(fd: OwnedFd, session: S, plan: Plan) -> Self {
        Self {
            fd,
            tls: None,
            session,
            state: State::Receiving,
            plan,
            received: 0,
            input: Vec::new(),
            output: Output::default(),
            then: Then::Receive,
        }
    }
}

/// Unsent output: bytes to send now, then perhaps a pause, then the bytes of a delayed reply.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    sent: usize,
    /// The number of bytes at the end that are sent after the pause.
    late: usize,
    pause: Duration,
}

/// The next action for an output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// Send these bytes.
    Send(&'a [u8]),
    /// Wait this long; then ask again.
    Pause(Duration),
    /// Nothing: everything was sent.
    Done,
}

impl Output {
    /// Adds the output of some steps. The last one has the delay `step.delay`, and its bytes begin at `late_from`.
    pub(crate) fn keep(&mut self, bytes: &[u8], late_from: usize, step: &Step) {
        self.bytes.extend_from_slice(bytes);
        self.late = if step.delay.is_zero() { 0 } else { bytes.len() - late_from };
        self.pause = step.delay;
    }

    pub(crate) fn next(&mut self, pieces: Option<Pieces>) -> Next<'_> {
        let prompt = self.bytes.len() - self.late;
        if self.sent < prompt {
            let size = pieces.map_or(usize::MAX, |pieces| pieces.bytes);
            return Next::Send(&self.bytes[self.sent..prompt.min(self.sent.saturating_add(size))]);
        }
        if self.pause.is_zero() {
            self.bytes.clear();
            self.sent = 0;
            return Next::Done;
        }
        // At the next call the pause is over.
        self.late = 0;
        Next::Pause(std::mem::take(&mut self.pause))
    }

    /// Records that `count` bytes were sent.
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent += count;
    }

    /// Returns whether bytes remain to be sent before a pause or the end.
    pub(crate) fn has_more(&self) -> bool {
        self.sent < self.bytes.len() - self.late
    }
}

/// All connections of a sink.
#[derive(Debug)]
pub(crate) struct Table<S> {
    entries: Vec<Option<Connection<S>>>,
    free: Vec<u32>,
}

impl<S> Table<S> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// Adds a connection and returns its number.
    pub(crate) fn insert(&mut self, connection: Connection<S>) -> u32 {
        if let Some(number) = self.free.pop() {
            self.entries[number as usize] = Some(connection);
            return number;
        }
        self.entries.push(Some(connection));
        self.entries.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut Connection<S>> {
        self.entries.get_mut(number as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Connection<S>> {
        let connection = self.entries.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reply_leaves_after_the_prompt_ones_and_a_pause() {
        let ms = Duration::from_millis;
        let pieces = Some(Pieces { bytes: 2, every: ms(1) });
        let mut output = Output::default();
        output.keep(b"abcd", 3, &Step { consumed: 0, delay: ms(5), then: Then::Continue });
        assert_eq!(output.next(None), Next::Send(b"abc"));
        assert_eq!(output.next(pieces), Next::Send(b"ab"));
        output.advance(2);
        assert!(output.has_more());
        assert_eq!(output.next(pieces), Next::Send(b"c"));
        output.advance(1);
        assert!(!output.has_more());
        assert_eq!(output.next(pieces), Next::Pause(ms(5)));
        assert_eq!(output.next(pieces), Next::Send(b"d"));
        output.advance(1);
        assert_eq!(output.next(pieces), Next::Done);
    }

    #[test]
    fn a_pause_without_a_reply_is_a_pause() {
        let mut output = Output::default();
        output.keep(b"", 0, &Step { consumed: 0, delay: Duration::from_secs(1), then: Then::Receive });
        assert_eq!(output.next(None), Next::Pause(Duration::from_secs(1)));
        assert_eq!(output.next(None), Next::Done);
    }
}
