//! `kqueue`: the kernel keeps the set; what changed goes to it in the call that waits.
//!
//! Reading and writing are two watches of a descriptor. The kernel deletes both when the descriptor is closed. A
//! regular file is told as ready in each wait, as with the other backends; the queue itself would tell of its end
//! instead.

use super::{BATCH, Found, Key, Selector};
use crate::error::Result;
use crate::interest::{Interest, Ready};
use landau_sys::kqueue::{self as sys, Filter};
use std::os::fd::RawFd;

#[derive(Debug, Clone, Copy, Default)]
struct Watch {
    generation: u32,
    interest: Interest,
    /// What the kernel was told.
    told: Interest,
    is_watched: bool,
    is_dirty: bool,
}

#[derive(Debug)]
pub(crate) struct Kqueue {
    queue: sys::Kqueue,
    watches: Vec<Watch>,
    /// Descriptors of which the kernel is to be told.
    dirty: Vec<RawFd>,
    /// What is always ready.
    files: Vec<(Key, Interest)>,
}

impl Kqueue {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { queue: sys::Kqueue::with_room(BATCH)?, watches: Vec::new(), dirty: Vec::new(), files: Vec::new() })
    }

    fn mark(&mut self, fd: RawFd) {
        let watch = &mut self.watches[fd as usize];
        if !watch.is_dirty {
            watch.is_dirty = true;
            self.dirty.push(fd);
        }
    }
}

impl Selector for Kqueue {
    fn add(&mut self, key: Key, interest: Interest) -> Result<()> {
        if sys::is_always_ready(key.fd())? {
            self.files.push((key, interest));
            return Ok(());
        }
        let index = key.fd() as usize;
        if index >= self.watches.len() {
            self.watches.resize(index + 1, Watch::default());
        }
        let watch = &mut self.watches[index];
        let (generation, told) = (key.generation(), Interest::NONE);
        *watch = Watch { generation, interest, told, is_watched: true, ..*watch };
        self.mark(key.fd());
        Ok(())
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        if let Some(file) = self.files.iter_mut().find(|(file, _)| *file == key) {
            file.1 = interest;
            return Ok(());
        }
        self.watches[key.fd() as usize].interest = interest;
        self.mark(key.fd());
        Ok(())
    }

    fn remove(&mut self, key: Key, closing: bool) -> Result<()> {
        if let Some(at) = self.files.iter().position(|(file, _)| *file == key) {
            self.files.swap_remove(at);
            return Ok(());
        }
        let watch = &mut self.watches[key.fd() as usize];
        watch.is_watched = false;
        let told = std::mem::take(&mut watch.told);
        if closing || told.is_empty() { Ok(()) } else { Ok(self.queue.delete(key.fd())?) }
    }

    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        while let Some(fd) = self.dirty.pop() {
            let watch = &mut self.watches[fd as usize];
            watch.is_dirty = false;
            if !watch.is_watched {
                continue;
            }
            let (interest, told) = (watch.interest, std::mem::replace(&mut watch.told, watch.interest));
            for (one, filter) in [(Interest::READABLE, Filter::Read), (Interest::WRITABLE, Filter::Write)] {
                if interest.contains(one) != told.contains(one) {
                    self.queue.change(fd, filter, interest.contains(one));
                }
            }
        }
        let files = self.files.iter().filter(|(_, interest)| !interest.is_empty());
        found.extend(files.map(|&(key, interest)| Found { key, ready: Ready::from(interest) }));
        self.queue.wait(if found.is_empty() { timeout_ms } else { 0 })?;
        for told in self.queue.told() {
            let sys::Told { fd, filter, is_closed } = told?;
            let Some(watch) = self.watches.get(fd as usize).filter(|watch| watch.is_watched) else { continue };
            let ready = if filter == Filter::Read { Ready::READABLE } else { Ready::WRITABLE };
            let ready = if is_closed { ready.union(Ready::READ_CLOSED) } else { ready };
            let ready = if is_closed && filter == Filter::Write { ready.union(Ready::WRITE_CLOSED) } else { ready };
            found.push(Found { key: Key::new(fd, watch.generation), ready });
        }
        Ok(())
    }
}
