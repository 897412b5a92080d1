//! How workers are told to end, and how one ends.

use crate::config::Timeouts;
use crate::log::Feed;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// A worker's end: it accepts no more, ends what is at rest, and waits for the others no longer than it may.
#[derive(Debug)]
pub(crate) struct Drain {
    control: Arc<Control>,
    limit: Duration,
    since: Option<Instant>,
}

impl Drain {
    pub(crate) fn new(control: Arc<Control>, timeouts: &Timeouts) -> Self {
        Self { control, limit: timeouts.drain, since: None }
    }

    /// Whether the worker is to end at once.
    pub(crate) fn must_end(&self) -> bool {
        self.control.end.load(Ordering::Acquire)
    }

    /// Whether the worker is to end.
    pub(crate) fn is_told(&self) -> bool {
        self.control.drain.load(Ordering::Acquire)
    }

    /// Begins the end; false if it has begun already.
    pub(crate) fn begin(&mut self) -> bool {
        let is_first = self.since.is_none();
        if is_first {
            self.since = Some(Instant::now());
        }
        is_first
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.since.is_some()
    }

    /// Whether the worker is done, with so many connections left.
    pub(crate) fn is_over(&self, left: usize) -> bool {
        left == 0 || self.since.is_some_and(|since| since.elapsed() >= self.limit)
    }

    /// How long the next wait may be: until the end is due, or until lines of the log can be handed over.
    #[inline]
    pub(crate) fn patience(&self, log: Option<&Feed>) -> Option<Duration> {
        let drain = self.since.map(|since| self.limit.saturating_sub(since.elapsed()));
        match log {
            Some(log) if log.is_waiting() => Some(drain.map_or(LOG_RETRY, |drain| drain.min(LOG_RETRY))),
            _ => drain,
        }
    }
}
