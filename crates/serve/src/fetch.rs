//! Files that are not in memory: a thread of the worker's own reads them first, so that the worker waits for no device.
//!
//! `sendfile` of a part that the page cache lacks waits until the device has brought it, and with it all connections of
//! the worker. So before each turn the worker asks whether the part is there, without waiting (`RWF_NOWAIT`); if not,
//! the connection rests while the thread reads the part into the page cache, and goes on then. The thread is started
//! when it is first needed: it shares the worker's descriptors, and from then on the kernel counts who uses which.

use landau_reactor::Waker;
use landau_sys::{path, stream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// How far apart the places are that are asked about. A question costs a third of a microsecond, sending a mebibyte
/// a hundred; what is forgotten of a file is mostly forgotten whole, or in runs far longer than this.
const PROBE_BYTES: u64 = 512 << 10;

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
    jobs: Option<mpsc::Sender<Job>>,
    done: Arc<Mutex<Vec<Ticket>>>,
    serial: u32,
}

impl Fetcher {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { waker, jobs: None, done: Arc::default(), serial: 0 }
    }

    /// Has a part of a file read; none if no reader can be started, and then the worker itself has to wait.
    pub(crate) fn fetch(&mut self, number: u32, file: &Arc<OwnedFd>, offset: u64, len: u64) -> Option<Ticket> {
        if self.jobs.is_none() {
            self.jobs = self.start();
        }
        self.serial = self.serial.wrapping_add(1);
        let ticket = Ticket { number, serial: self.serial };
        self.jobs.as_ref()?.send(Job { file: file.clone(), offset, len, ticket }).ok()?;
        Some(ticket)
    }

    /// Those whose part is there now.
    pub(crate) fn take_done(&self) -> Vec<Ticket> {
        std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn start(&self) -> Option<mpsc::Sender<Job>> {
        let (sender, receiver) = mpsc::channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        let started = (0..READERS).filter(|_| {
            let (receiver, done, waker) = (receiver.clone(), self.done.clone(), self.waker.clone());
            let read = move || read_all(&receiver, &done, &waker);
            std::thread::Builder::new().name("reader".to_owned()).spawn(read).is_ok()
        });
        (started.count() > 0).then_some(sender)
    }
}

/// The life of a reader: it ends when its worker does.
fn read_all(jobs: &Mutex<mpsc::Receiver<Job>>, done: &Mutex<Vec<Ticket>>, waker: &Waker) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { file, offset, len, ticket }) = next else { return };
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
        done.lock().unwrap_or_else(PoisonError::into_inner).push(ticket);
        // A worker whose line is broken has ended.
        let _ = waker.wake();
    }
}

/// Whether sending a part of a file would have to wait for the device; where nobody can say, no.
pub(crate) fn is_cold(file: &OwnedFd, offset: u64, len: u64) -> bool {
    let places = (offset..offset + len).step_by(PROBE_BYTES as usize);
    places.chain([offset + len - 1]).any(|place| path::is_cached(file, place) == Some(false))
}
