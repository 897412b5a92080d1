//! The server as a whole: starts the workers and tells them to end.

use crate::config::{Accepting, Config, Listen};
use crate::counters::{Counters, Totals};
use crate::error::Error;
use crate::listener::Bound;
use crate::worker::{Control, Inbox, Worker};
use landau_reactor::Waker;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// A running server.
#[derive(Debug)]
pub struct Server {
    bound: Arc<Vec<Bound>>,
    control: Arc<Control>,
    counters: Vec<Arc<Counters>>,
    wakers: Vec<Waker>,
    threads: Vec<JoinHandle<()>>,
}

/// What a worker says when it is ready.
type Ready = Result<(usize, Waker), Error>;

impl Server {
    /// Binds all addresses and starts the workers; returns when all of them listen.
    pub fn start(config: Config) -> Result<Self, Error> {
        let workers = config.workers.max(1);
        let bound: Vec<Bound> =
            config.listen.iter().map(|listen| Bound::new(&config, listen)).collect::<Result<_, _>>()?;
        let (bound, config, control) = (Arc::new(bound), Arc::new(config), Arc::new(Control::default()));
        let counters: Vec<Arc<Counters>> = (0..workers).map(|_| Arc::default()).collect();
        let inboxes: Arc<Vec<Inbox>> = Arc::new((0..workers).map(|_| Inbox::default()).collect());
        let (ready, became_ready) = mpsc::channel::<Ready>();
        let mut threads = Vec::with_capacity(workers);
        for (number, counters) in counters.iter().enumerate() {
            let (bound, config, control) = (bound.clone(), config.clone(), control.clone());
            let (counters, inboxes, ready) = (counters.clone(), inboxes.clone(), ready.clone());
            let work = move || work(number, config, &bound, &control, counters, inboxes, &ready);
            let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(work);
            threads.push(thread.map_err(|source| Error::Thread { worker: number, source })?);
        }
        drop(ready);
        let mut server = Self { bound, control, counters, wakers: Vec::new(), threads };
        let mut wakers: Vec<(usize, Waker)> = Vec::new();
        for said in &became_ready {
            match said {
                Ok(one) => wakers.push(one),
                Err(error) => {
                    server.wakers = wakers.into_iter().map(|(_, waker)| waker).collect();
                    server.control.end.store(true, Ordering::Release);
                    server.control.is_released.set();
                    server.end_now();
                    return Err(error);
                }
            }
            if wakers.len() == workers {
                break;
            }
        }
        if wakers.len() < workers {
            return Err(Error::Died(wakers.len()));
        }
        wakers.sort_by_key(|(number, _)| *number);
        server.wakers = wakers.into_iter().map(|(_, waker)| waker).collect();
        for (inbox, waker) in inboxes.iter().zip(&server.wakers) {
            inbox.set_waker(waker.clone());
        }
        Ok(server)
    }

    /// Lets the workers begin to accept: from here on nothing privileged is done.
    pub fn release(&self) {
        self.control.is_released.set();
    }

    /// Where it listens: with the port that the system chose where port 0 was asked for.
    pub fn addresses(&self) -> Vec<Listen> {
        self.bound.iter().map(|bound| bound.listen.clone()).collect()
    }

    /// What was counted so far, over all workers.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for counters in &self.counters {
            totals.add(counters);
        }
        totals
    }

    /// Tells the workers to accept no more, to answer what is under way, and to end.
    pub fn drain(&self) {
        self.control.drain.store(true, Ordering::Release);
        self.wake();
    }

    /// Tells the workers to end at once.
    pub fn end_now(&self) {
        self.control.end.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        for waker in &self.wakers {
            // A worker whose line is broken has ended.
            let _ = waker.wake();
        }
    }

    /// Waits until all workers have ended.
    pub fn join(mut self) -> Result<Totals, Error> {
        let threads = std::mem::take(&mut self.threads);
        for (number, thread) in threads.into_iter().enumerate() {
            thread.join().map_err(|_| Error::Died(number))?;
        }
        for bound in self.bound.iter() {
            if let Listen::Unix(path) = &bound.listen {
                // Somebody may have removed it already.
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(self.totals())
    }
}

/// The life of a worker's thread.
fn work(
    number: usize,
    config: Arc<Config>,
    bound: &[Bound],
    control: &Arc<Control>,
    counters: Arc<Counters>,
    inboxes: Arc<Vec<Inbox>>,
    ready: &mpsc::Sender<Ready>,
) {
    // Where one worker accepts for all, they must know the same descriptors.
    if config.accepting != Accepting::Handed {
        // Elsewhere than on Linux the table is shared, which is only slower.
        let _ = landau_sys::descriptor::own_table();
    }
    if let Some(&processor) = config.processors.get(number % config.processors.len().max(1))
        && let Err(error) = landau_sys::system::pin(&[processor])
    {
        let _ = ready.send(Err(error.into()));
        return;
    }
    match Worker::new(number, config, bound, control.clone(), counters, inboxes) {
        Err(error) => {
            // Nobody listens only if the start has failed already.
            let _ = ready.send(Err(error));
        }
        Ok((mut worker, waker)) => {
            let _ = ready.send(Ok((number, waker)));
            control.is_released.wait();
            worker.run();
        }
    }
}
