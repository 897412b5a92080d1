//! Bounds on the processes and threads that a server starts, so that no number of connections endangers the host.

use crate::Start;
use landau_sys::child;
use landau_sys::process::reaped_time_ns;
use landau_sys::shared::Number;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The children of a server with a process for each connection.
#[derive(Debug)]
pub(crate) struct Children<'a> {
    count: u32,
    most: u32,
    reaped: &'a Number,
}

impl<'a> Children<'a> {
    /// Returns an empty set of children, limited to the number that the server may have at a time.
    pub(crate) fn new(start: &'a Start) -> Self {
        Self { count: 0, most: start.most.max(1), reaped: &start.reaped }
    }

    /// Reaps the children that have ended, and waits for one to end if the limit is reached.
    pub(crate) fn make_room(&mut self) {
        let before = self.count;
        while self.count > 0 {
            match child::reap_any(self.count >= self.most) {
                Ok(true) => self.count -= 1,
                Ok(false) => break,
                // No child is left, whatever the count says.
                Err(_) => self.count = 0,
            }
        }
        if self.count < before {
            self.publish_time();
        }
    }

    /// Publishes the processor time of the reaped children for the client: only their parent knows it to a microsecond.
    fn publish_time(&self) {
        if let Ok(ns) = reaped_time_ns() {
            // Standard input is something else if the server was not started by the benchmark.
            let _ = self.reaped.set(ns);
        }
    }

    /// Counts a new child.
    pub(crate) fn add(&mut self) {
        self.count += 1;
    }
}

/// The threads of a server with a thread for each connection.
#[derive(Debug, Clone)]
pub(crate) struct Threads(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    count: Mutex<u32>,
    ended: Condvar,
    most: u32,
}

/// A permit for one thread; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place(Threads);

impl Threads {
    /// Returns an empty set of threads, limited to `most` at a time.
    pub(crate) fn new(most: u32) -> Self {
        Self(Arc::new(Shared { count: Mutex::new(0), ended: Condvar::new(), most: most.max(1) }))
    }

    /// Takes a place. Waits until a thread ends if the limit is reached.
    pub(crate) fn take(&self) -> Place {
        let mut count = self.0.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count >= self.0.most {
            count = self.0.ended.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
        *count += 1;
        Place(self.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let shared = &self.0.0;
        let mut count = shared.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        // Only a server that is full waits.
        if *count + 1 == shared.most {
            shared.ended.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let threads = Threads::new(1);
        let first = threads.take();
        let other = std::thread::spawn({
            let threads = threads.clone();
            move || drop(threads.take())
        });
        drop(first);
        other.join().unwrap();
        assert_eq!(*threads.0.count.lock().unwrap(), 0);
    }
}
