//! `select` (4.2BSD, 1983): each wait copies a bitmap of all descriptors to the kernel and back.
//!
//! The size of the C library's `fd_set` limits the descriptor numbers: adding a higher one is an error. It reports a
//! closed peer only as readable and writable.

use super::{Backend, Found, Key, Selector};
use crate::error::{Error, Result};
use crate::interest::{Interest, Ready};
use landau_sys::poll;
use landau_sys::select::{self as sys, CAPACITY, FdSet};
use std::os::fd::RawFd;

#[derive(Debug)]
pub(crate) struct Select {
    /// The watched descriptors, and the copy that the call modifies.
    read: [FdSet; 2],
    write: [FdSet; 2],
    keys: Vec<Key>,
    /// One more than the highest watched descriptor, or greater.
    bound: usize,
}

impl Default for Select {
    fn default() -> Self {
        Self { read: Default::default(), write: Default::default(), keys: vec![Key(0); CAPACITY], bound: 0 }
    }
}

impl Select {
    /// Reports descriptors that were closed without being deregistered, and stops watching them.
    #[cold]
    fn report_not_open(&mut self, found: &mut Vec<Found>) -> Result<()> {
        let mut entries = poll::Entries::default();
        self.read[0].for_each(&self.write[0], self.bound, |fd, _, _| entries.push(fd, 0));
        let count = entries.wait(0)?;
        for (_, fd, events) in entries.found(count) {
            if events & poll::NOT_OPEN != 0 {
                found.push(Found { key: self.keys[fd as usize], ready: super::NOT_OPEN });
                self.watch(fd, Interest::NONE);
            }
        }
        Ok(())
    }

    fn watch(&mut self, fd: RawFd, interest: Interest) -> bool {
        self.write[0].set(fd, interest.contains(Interest::WRITABLE));
        self.read[0].set(fd, interest.contains(Interest::READABLE))
    }
}

impl Selector for Select {
    fn add(&mut self, key: Key, interest: Interest) -> Result<()> {
        let fd = key.fd();
        if !self.watch(fd, interest) {
            return Err(Error::Capacity { backend: Backend::Select, capacity: CAPACITY, fd });
        }
        self.keys[fd as usize] = key;
        self.bound = self.bound.max(fd as usize + 1);
        Ok(())
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        self.add(key, interest)
    }

    fn remove(&mut self, key: Key, _: bool) -> Result<()> {
        self.watch(key.fd(), Interest::NONE);
        if key.fd() as usize + 1 == self.bound {
            self.bound = self.read[0].bound(&self.write[0]);
        }
        Ok(())
    }

    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        let ([read, read_left], [write, write_left]) = (&mut self.read, &mut self.write);
        read_left.copy_from(read, self.bound);
        write_left.copy_from(write, self.bound);
        match sys::select(self.bound, read_left, write_left, timeout_ms) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.is_bad_descriptor() => return self.report_not_open(found),
            Err(error) => return Err(error.into()),
        }
        let keys = &self.keys;
        read_left.for_each(write_left, self.bound, |fd, can_read, can_write| {
            let read = if can_read { Ready::READABLE } else { Ready::default() };
            let ready = if can_write { read.union(Ready::WRITABLE) } else { read };
            found.push(Found { key: keys[fd as usize], ready });
        });
        Ok(())
    }
}
