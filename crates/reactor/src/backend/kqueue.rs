//! `kqueue`: the kernel keeps the set, and the call that waits passes changes to it.
//!
//! A descriptor has two filters, for reading and for writing. The kernel deletes both when the descriptor is closed.
//! Regular files are reported as ready in each wait, as with the other backends; the queue itself would instead report
//! whether the end of the file is reached.

use super::{Found, Key, MAX_EVENTS, Selector};
use crate::error::Result;
use crate::interest::{Interest, Ready};
use landau_sys::kqueue::{self as sys, Filter};
use std::os::fd::RawFd;

#[derive(Debug, Clone, Copy, Default)]
struct Watch {
    generation: u32,
    interest: Interest,
    /// The interest that the kernel knows.
    armed: Interest,
    is_watched: bool,
    is_changed: bool,
}

#[derive(Debug)]
pub(crate) struct Kqueue {
    queue: sys::Kqueue,
    watches: Vec<Watch>,
    /// Descriptors whose interest the kernel does not know yet.
    changed: Vec<RawFd>,
    /// Descriptors that are always ready.
    files: Vec<(Key, Interest)>,
}

impl Kqueue {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            queue: sys::Kqueue::with_capacity(MAX_EVENTS)?,
            watches: Vec::new(),
            changed: Vec::new(),
            files: Vec::new(),
        })
    }

    fn mark(&mut self, fd: RawFd) {
        let watch = &mut self.watches[fd as usize];
        if !watch.is_changed {
            watch.is_changed = true;
            self.changed.push(fd);
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
        let (generation, armed) = (key.generation(), Interest::NONE);
        *watch = Watch { generation, interest, armed, is_watched: true, ..*watch };
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
        let armed = std::mem::take(&mut watch.armed);
        if closing || armed.is_empty() { Ok(()) } else { Ok(self.queue.delete(key.fd())?) }
    }

    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        while let Some(fd) = self.changed.pop() {
            let watch = &mut self.watches[fd as usize];
            watch.is_changed = false;
            if !watch.is_watched {
                continue;
            }
            let (interest, armed) = (watch.interest, std::mem::replace(&mut watch.armed, watch.interest));
            for (one, filter) in [(Interest::READABLE, Filter::Read), (Interest::WRITABLE, Filter::Write)] {
                if interest.contains(one) != armed.contains(one) {
                    self.queue.change(fd, filter, interest.contains(one));
                }
            }
        }
        let files = self.files.iter().filter(|(_, interest)| !interest.is_empty());
        found.extend(files.map(|&(key, interest)| Found { key, ready: Ready::from(interest) }));
        self.queue.wait(if found.is_empty() { timeout_ms } else { 0 })?;
        for event in self.queue.events() {
            let sys::Event { fd, filter, is_closed } = event?;
            let Some(watch) = self.watches.get(fd as usize).filter(|watch| watch.is_watched) else { continue };
            let ready = if filter == Filter::Read { Ready::READABLE } else { Ready::WRITABLE };
            let ready = if is_closed { ready.union(Ready::READ_CLOSED) } else { ready };
            let ready = if is_closed && filter == Filter::Write { ready.union(Ready::WRITE_CLOSED) } else { ready };
            found.push(Found { key: Key::new(fd, watch.generation), ready });
        }
        Ok(())
    }
}
