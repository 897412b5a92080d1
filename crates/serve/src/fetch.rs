//! Files that are not in memory: a thread of the worker's own reads them first, so that the worker waits for no device.
//!
//! `sendfile` of a part that the page cache lacks waits until the device has brought it, and with it all connections of
//! the worker. So before each turn the worker asks whether the part is there, without waiting (`RWF_NOWAIT`); if not,
//! the connection rests while the thread reads the part into the page cache, and goes on then. The thread is started
//! when it is first needed: it shares the worker's descriptors, and from then on the kernel counts who uses which.

use landau_reactor::Waker;
use landau_reactor::batch::TURN_BYTES;
use landau_sys::{path, stream};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How much is fetched for a connection at once: several turns of its answer.
const PART_BYTES: u64 = 2 << 20;

/// How much is read at once.
const READ_BYTES: usize = 256 << 10;

/// Threads of a worker that read: so many devices, or places of one, are read at the same time.
const READERS: usize = 2;

/// A part of a file that a connection waits for.
#[derive(Debug)]
struct Job {
    file: Arc<OwnedFd>,
    offset: u64,
    len: u64,
    ticket: Ticket,
}

/// What is to be read, by its ticket's serial: in the order in which it was asked for.
#[derive(Debug, Default)]
struct Queue {
    jobs: BTreeMap<u32, Job>,
    is_over: bool,
}

/// What a worker and its readers share.
#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    news: Condvar,
    done: Mutex<Vec<Ticket>>,
}

/// Which connection waits, and its how manieth wait it is: the line may belong to another by the time that it is done.
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
}

impl Fetcher {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { waker, shared: Arc::default(), has_readers: false, serial: 0 }
    }

    /// Has the next part read of what is left of a file; none if no reader can be started, and then the worker itself
    /// has to wait.
    pub(crate) fn fetch(&mut self, number: u32, file: &Arc<OwnedFd>, offset: u64, left: u64) -> Option<Ticket> {
        self.has_readers = self.has_readers || self.start();
        if !self.has_readers {
            return None;
        }
        self.serial = self.serial.wrapping_add(1);
        let ticket = Ticket { number, serial: self.serial };
        let len = left.min(PART_BYTES);
        self.shared.queue().jobs.insert(ticket.serial, Job { file: file.clone(), offset, len, ticket });
        self.shared.news.notify_one();
        Some(ticket)
    }

    /// Reads nothing for who is gone, and keeps no file open for it.
    pub(crate) fn cancel(&self, serial: u32) {
        self.shared.queue().jobs.remove(&serial);
    }

    /// Those whose part is there now.
    pub(crate) fn take_done(&self) -> Vec<Ticket> {
        std::mem::take(&mut *self.shared.done())
    }

    /// Whether there is a reader now.
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
        self.shared.news.notify_all();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> MutexGuard<'_, Vec<Ticket>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next part to be read; none when the worker has ended.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        while !queue.is_over {
            if let Some((_, job)) = queue.jobs.pop_first() {
                return Some(job);
            }
            queue = self.news.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

/// The life of a reader: it ends when its worker does.
fn read_all(shared: &Shared, waker: &Waker) {
    let mut buffer = vec![0; READ_BYTES];
    while let Some(Job { file, offset, len, ticket }) = shared.next() {
        let mut at = offset;
        while at < offset + len {
            let room = buffer.len().min((offset + len - at) as usize);
            // What cannot be read the worker's own call finds out, and tells the client.
            match stream::read_at(&file, &mut buffer[..room], at) {
                Ok(got) if got > 0 => at += got as u64,
                _ => break,
            }
        }
        drop(file);
        shared.done().push(ticket);
        // A worker whose line is broken has ended.
        let _ = waker.wake();
    }
}

/// Whether the next turn of what is left of a file would have to wait for the device; where nobody can say, no. Its
/// first and its last byte are asked about, a third of a microsecond each: what is forgotten of a file is mostly
/// forgotten whole, or in runs far longer than a turn.
pub(crate) fn is_cold(file: &OwnedFd, offset: u64, left: u64) -> bool {
    let len = left.min(TURN_BYTES as u64);
    [offset, offset + len - 1].into_iter().any(|place| path::is_cached(file, place) == Some(false))
}
