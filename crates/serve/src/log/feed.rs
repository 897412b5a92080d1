//! The worker's end of the access log.
//!
//! Lines are collected in the worker's buffer and passed to the writer once for all events of a wait. Either the two
//! buffers are swapped, or the lines are appended to those that the writer has not fetched yet. The worker tries the
//! lock and never waits for it. The writer holds the lock only while it swaps two pointers, but may be preempted at
//! that moment. Lines that do not fit are dropped and counted.

use super::line::{Asked, Line, LogFormat, Stamp};
use super::writer::Shared;
use crate::counters::Counters;
use landau_wire::http::Status;
use std::net::IpAddr;
use std::sync::{Arc, TryLockError};

/// The number of bytes that may wait for the writer, for each worker. They last 20 ms at 100 bytes a line and 500,000
/// lines a second.
const RING_BYTES: usize = 1 << 20;

/// The number of bytes collected before the worker tries to pass them on within a turn.
const TURN_BYTES: usize = 64 << 10;

/// The worker's end of the log.
#[derive(Debug)]
pub(crate) struct Feed {
    format: LogFormat,
    shared: Arc<Shared>,
    number: usize,
    counters: Counters,
    stamp: Stamp,
    pending: Vec<u8>,
    pending_lines: u64,
    /// The client's address for the next lines.
    pub(crate) peer: Option<IpAddr>,
    /// The user name of the request for the next line, if the client has logged in.
    pub(crate) user: Option<String>,
}

impl Feed {
    pub(crate) fn new(number: usize, format: LogFormat, shared: Arc<Shared>, counters: Counters) -> Self {
        let (pending, stamp) = (Vec::new(), Stamp::new(0));
        Self { format, shared, number, counters, stamp, pending, pending_lines: 0, peer: None, user: None }
    }

    /// Sets the time of the following lines.
    pub(crate) fn tick(&mut self, now_s: u64) {
        self.stamp = Stamp::new(now_s);
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, asked: Asked<'_>, status: Status, bytes: u64) {
        let user = self.user.take();
        if self.pending.len() >= TURN_BYTES {
            self.flush();
            if self.pending.len() >= 2 * TURN_BYTES {
                return self.counters.log_lost().add(1);
            }
        }
        let line = Line { stamp: &self.stamp, peer: self.peer, user: user.as_deref(), asked, status, bytes };
        line.write(self.format, &mut self.pending);
        self.pending_lines += 1;
    }

    /// Returns whether lines wait to be passed on.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Passes the lines on if that is possible without waiting.
    pub(crate) fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let buffer = &self.shared.buffers[self.number];
        let len = {
            let mut buffer = match buffer.try_lock() {
                Ok(buffer) => buffer,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            if buffer.is_empty() {
                std::mem::swap(&mut *buffer, &mut self.pending);
            } else if buffer.len() + self.pending.len() <= RING_BYTES {
                buffer.extend_from_slice(&self.pending);
            } else {
                self.counters.log_lost().add(self.pending_lines);
            }
            buffer.len()
        };
        self.pending.clear();
        self.pending_lines = 0;
        self.shared.wake_writer(len >= RING_BYTES / 2);
    }

    /// Passes on the remaining lines at the end, and waits if necessary.
    pub(crate) fn finish(&mut self) {
        while self.is_waiting() {
            self.flush();
            std::thread::yield_now();
        }
    }
}
