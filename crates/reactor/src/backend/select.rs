//! `select`: the call of 1983. A bitmap of all descriptors goes to the kernel and comes back with each wait.
//!
//! What it can hold is a limit of the C library's type, and part of what there is to say of it: a descriptor beyond it
//! is refused when it is added. It does not tell that a peer is gone otherwise than by making both calls possible.

use super::{Backend, Found, Key, Selector};
use crate::error::{Error, Result};
use crate::interest::{Interest, Ready};
use landau_sys::poll;
use landau_sys::select::{self as sys, Bitmap, CAPACITY};
use std::os::fd::RawFd;

#[derive(Debug)]
pub(crate) struct Select {
    /// What is watched, and what the call leaves of it.
    read: [Bitmap; 2],
    write: [Bitmap; 2],
    keys: Vec<Key>,
    /// One more than the highest descriptor that may be watched.
    bound: usize,
}

impl Default for Select {
    fn default() -> Self {
        Self { read: Default::default(), write: Default::default(), keys: vec![Key(0); CAPACITY], bound: 0 }
    }
}

impl Select {
    /// Someone closed a descriptor without giving it back: it is told as closed, and watched no longer.
    #[cold]
    fn tell_not_open(&mut self, found: &mut Vec<Found>) -> Result<()> {
        let mut entries = poll::Entries::default();
        self.read[0].each(&self.write[0], self.bound, |fd, _, _| entries.push(fd, 0));
        let count = entries.wait(0)?;
        for (_, fd, bits) in entries.found(count) {
            if bits & poll::NOT_OPEN != 0 {
                found.push(Found { key: self.keys[fd as usize], ready: super::GONE });
                self.put(fd, Interest::NONE);
            }
        }
        Ok(())
    }

    fn put(&mut self, fd: RawFd, interest: Interest) -> bool {
        self.write[0].put(fd, interest.contains(Interest::WRITABLE));
        self.read[0].put(fd, interest.contains(Interest::READABLE))
    }
}

impl Selector for Select {
    fn add(&mut self, key: Key, interest: Interest) -> Result<()> {
        let fd = key.fd();
        if !self.put(fd, interest) {
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
        self.put(key.fd(), Interest::NONE);
        if key.fd() as usize + 1 == self.bound {
            self.bound = self.read[0].bound(&self.write[0]);
        }
        Ok(())
    }

    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        let ([read, read_left], [write, write_left]) = (&mut self.read, &mut self.write);
        read_left.copy(read, self.bound);
        write_left.copy(write, self.bound);
        match sys::select(self.bound, read_left, write_left, timeout_ms) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.is_bad_descriptor() => return self.tell_not_open(found),
            Err(error) => return Err(error.into()),
        }
        let keys = &self.keys;
        read_left.each(write_left, self.bound, |fd, can_read, can_write| {
            let read = if can_read { Ready::READABLE } else { Ready::default() };
            let ready = if can_write { read.union(Ready::WRITABLE) } else { read };
            found.push(Found { key: keys[fd as usize], ready });
        });
        Ok(())
    }
}
