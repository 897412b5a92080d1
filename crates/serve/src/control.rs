//! Flags by which the server stops its workers, and the drain of a worker.

use crate::config::Timeouts;
use crate::log::Feed;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The interval of retries after log lines could not be passed to the writer.
const LOG_RETRY: Duration = Duration::from_millis(10);

/// The flags that all workers read.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) drain: AtomicBool,
    /// Whether busy connections have unlimited time; set before `drain`.
    pub(crate) is_patient: AtomicBool,
    pub(crate) end: AtomicBool,
    pub(crate) is_released: Gate,
}

/// An event that threads wait for; it is set once.
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

/// The drain of a worker: it stops accepting, closes idle connections, and waits for busy ones. The wait is limited
/// unless the server is patient.
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

    /// Returns whether the worker must stop at once.
    pub(crate) fn must_end(&self) -> bool {
        self.control.end.load(Ordering::Acquire)
    }

    /// Returns whether the server has requested the drain.
    pub(crate) fn is_requested(&self) -> bool {
        self.control.drain.load(Ordering::Acquire)
    }

    /// Begins the drain; returns false if it has begun already.
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

    /// Returns whether the worker can stop, given the number of connections left.
    pub(crate) fn is_over(&self, left: usize) -> bool {
        left == 0 || self.left().is_some_and(|left| left.is_zero())
    }

    /// Returns the time left to busy connections, if the drain has begun and has a limit.
    fn left(&self) -> Option<Duration> {
        let since = self.since.filter(|_| !self.control.is_patient.load(Ordering::Relaxed))?;
        Some(self.limit.saturating_sub(since.elapsed()))
    }

    /// Returns the longest permitted wait: until the drain limit, or until log lines can be passed on.
    #[inline]
    pub(crate) fn max_wait(&self, log: Option<&Feed>) -> Option<Duration> {
        let drain = self.left();
        match log {
            Some(log) if log.is_waiting() => Some(drain.map_or(LOG_RETRY, |drain| drain.min(LOG_RETRY))),
            _ => drain,
        }
    }
}
