//! Files that are not in memory. Another thread reads them first, so that the worker never waits for a device.
//!
//! `sendfile` of a part that is not in the page cache blocks the worker, and so all its connections, until the device
//! has delivered the part. Before each turn, the worker therefore checks without blocking (`RWF_NOWAIT`) whether the
//! part is cached, unless it was there a moment ago. If it is not, the connection waits while a reader thread reads the
//! part into the page cache. The threads are started when they are first needed. They share the worker's descriptor
//! table, so the kernel has to count references to its files from then on.

use crate::warm::Warm;
use landau_reactor::Waker;
use landau_sys::stream;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The number of bytes read ahead for a connection, which is more than one turn of its response. Each turn looks a
/// whole turn ahead. A part of that length would therefore need the next one as soon as some of it is sent.
const PART_BYTES: u64 = 4 << 20;

/// The number of bytes that a reader reads at once.
const READ_BYTES: usize = 256 << 10;

/// The number of reader threads of a worker: this many devices, or parts of one, are read at the same time.
const READERS: usize = 2;

/// A part of a file that a connection waits for.
#[derive(Debug)]
struct Job {
    file: Arc<OwnedFd>,
    offset: u64,
    len: u64,
    ticket: Ticket,
}

/// The parts to be read, by serial number: in the order of the requests.
#[derive(Debug, Default)]
struct Queue {
    jobs: BTreeMap<u32, Job>,
    is_over: bool,
}

/// The state shared by a worker and its readers.
#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    has_work: Condvar,
    done: Mutex<Vec<Ticket>>,
}

/// Identifies a wait by the connection and a serial number. The connection's number may have been reused by the time
/// the part is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) number: u32,
    pub(crate) serial: u32,
}

/// The readers of a worker.
#[derive(Debug)]
pub(crate) struct Fetcher {
    waker: Waker,
    shared: Arc<Shared>,
    has_readers: bool,
    serial: u32,
    /// What need not be fetched.
    pub(crate) warm: Warm,
}

impl Fetcher {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { waker, shared: Arc::default(), has_readers: false, serial: 0, warm: Warm::new() }
    }

    /// Starts to read the next part of a file. Returns `None` if no reader can be started; the worker must then read
    /// the part itself.
    pub(crate) fn fetch(&mut self, number: u32, file: &Arc<OwnedFd>, offset: u64, left: u64) -> Option<Ticket> {
        self.has_readers = self.has_readers || self.start();
        if !self.has_readers {
            return None;
        }
        self.serial = self.serial.wrapping_add(1);
        let ticket = Ticket { number, serial: self.serial };
        let len = left.min(PART_BYTES);
        self.shared.queue().jobs.insert(ticket.serial, Job { file: file.clone(), offset, len, ticket });
        self.shared.has_work.notify_one();
        Some(ticket)
    }

    /// Cancels a read, so that the file is not kept open for a closed connection.
    pub(crate) fn cancel(&self, serial: u32) {
        self.shared.queue().jobs.remove(&serial);
    }

    /// Returns the waits whose part is now in memory.
    pub(crate) fn take_done(&self) -> Vec<Ticket> {
        std::mem::take(&mut *self.shared.done())
    }

    /// Starts the readers; returns whether at least one was started.
    fn start(&self) -> bool {
        let started = (0..READERS).filter(|_| {
            let (shared, waker) = (self.shared.clone(), self.waker.clone());
            let read = move || read_all(&shared, &waker);
            std::thread::Builder::new().name("reader".to_owned()).spawn(read).is_ok()
        });
        started.count() > 0
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.shared.queue().is_over = true;
        self.shared.has_work.notify_all();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> MutexGuard<'_, Vec<Ticket>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next part to read; `None` when the worker has ended.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        while !queue.is_over {
            if let Some((_, job)) = queue.jobs.pop_first() {
                return Some(job);
            }
            queue = self.has_work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

/// Runs a reader thread, which ends with its worker.
fn read_all(shared: &Shared, waker: &Waker) {
    let mut buffer = vec![0; READ_BYTES];
    while let Some(Job { file, offset, len, ticket }) = shared.next() {
        let mut at = offset;
        while at < offset + len {
            let room = buffer.len().min((offset + len - at) as usize);
            // If this fails, the worker's own call fails too, and handles the error.
            match stream::read_at(&file, &mut buffer[..room], at) {
                Ok(got) if got > 0 => at += got as u64,
                _ => break,
            }
        }
        drop(file);
        shared.done().push(ticket);
        // Waking fails only if the worker has ended.
        let _ = waker.wake();
    }
}
