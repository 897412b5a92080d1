//! The server as a whole: starts the workers and tells them to end.

use crate::admission;
use crate::config::{Accepting, Config, Listen};
use crate::control::Control;
use crate::counters::{Counters, Totals};
use crate::error::Error;
use crate::limiter::ConnectionLimiter;
use crate::listener::{Bound, Place};
use crate::log::{self, Feed};
use crate::metrics::Metrics;
use crate::privilege::{self, Sandbox, User};
use crate::tls::Settings;
#[cfg(target_os = "linux")]
use crate::transport::Completions;
use crate::transport::Readiness;
use crate::worker::{AcceptQueue, Start, Worker};
use landau_reactor::{Reactor, Waker};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// A running server.
#[derive(Debug)]
pub struct Server {
    places: Vec<Place>,
    control: Arc<Control>,
    counters: Vec<Arc<Counters>>,
    wakers: Vec<Waker>,
    threads: Vec<JoinHandle<()>>,
    log: Option<log::Writer>,
    metrics: Option<Metrics>,
    metrics_at: Option<Bound>,
    sandbox: Arc<Sandbox>,
    config: Arc<Config>,
    tls: Option<Arc<Settings>>,
}

/// What tells a server from any thread what to do.
#[derive(Debug, Clone)]
pub struct Remote {
    control: Arc<Control>,
    wakers: Vec<Waker>,
    log: Option<log::Remote>,
    tls: Option<Arc<Settings>>,
    say: fn(&str),
}

impl Remote {
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

    /// Opens the access log again, after somebody has put it aside.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Reads the certificates again. Connections that are open keep what they began with; if anything is wrong with the
    /// files, so do new ones. Which of the two it is, is said.
    pub fn reload_certificates(&self) {
        match self.tls.as_ref().map(|tls| tls.reload()) {
            None => {}
            Some(Ok(())) => (self.say)("certificates read again: new connections use them"),
            Some(Err(error)) => (self.say)(&format!("{error}; the certificates read before stay in use")),
        }
    }

    fn wake(&self) {
        for waker in &self.wakers {
            // A worker whose line is broken has ended.
            let _ = waker.wake();
        }
    }
}

/// Whether a ring can be had.
#[cfg(target_os = "linux")]
fn ring() -> Result<(), landau_reactor::Error> {
    landau_reactor::completions::Ring::new().map(drop)
}

/// Whether a ring can be had.
#[cfg(not(target_os = "linux"))]
fn ring() -> Result<(), landau_reactor::Error> {
    Err(landau_reactor::Error::Unavailable {
        mechanism: landau_reactor::Backend::IoUring,
        reason: "io_uring is not among this system's calls".to_owned(),
    })
}

/// What the workers are to use: where a mechanism, or the ring that `multishot` needs, is missing or forbidden,
/// something else is taken, and it is said why.
fn settle(config: &mut Config) -> Result<(), Error> {
    if config.accepting == Accepting::Multishot {
        match ring() {
            Err(reason @ landau_reactor::Error::Unavailable { .. }) => {
                (config.say)(&format!("accepting by own sockets instead of multishot: {reason}"));
                config.accepting = Accepting::Own;
            }
            other => return Ok(other?),
        }
    }
    let (mechanism, why) = Reactor::resolve_backend(config.backend)?;
    config.backend = mechanism;
    if let Some(why) = why {
        (config.say)(&why);
    }
    Ok(())
}

impl Server {
    /// Binds all addresses and starts the workers; returns when all of them listen.
    pub fn start(mut config: Config) -> Result<Self, Error> {
        settle(&mut config)?;
        let workers = config.workers.max(1);
        let tls = settings(&config)?;
        let bound: Vec<Bound> =
            config.listen.iter().map(|listen| Bound::new(&config, listen)).collect::<Result<_, _>>()?;
        // Made before the workers' tables of descriptors are, so that their numbers mean the same in all of them.
        let wakers: Vec<Waker> = (0..workers).map(|_| Waker::new()).collect::<Result<_, _>>()?;
        let counters = (0..workers).map(|_| Arc::default()).collect();
        let control = Arc::new(Control::default());
        let mut server = Self {
            places: Vec::new(),
            control,
            counters,
            wakers,
            threads: Vec::new(),
            log: None,
            metrics: None,
            metrics_at: config.metrics.as_ref().map(Bound::single).transpose()?,
            sandbox: Arc::new(Sandbox::new(&config)?),
            tls,
            config: Arc::new(config),
        };
        if let Err(error) = server.launch(bound) {
            server.end_now();
            server.release();
            return Err(error);
        }
        Ok(server)
    }

    fn launch(&mut self, bound: Vec<Bound>) -> Result<(), Error> {
        let config = self.config.clone();
        let listeners = Bound::listeners(&bound, &config)?;
        // From here on only the workers listen: when they end, nobody does.
        self.places = bound.into_iter().map(|bound| bound.place).collect();
        let accept_queues: Arc<Vec<AcceptQueue>> =
            Arc::new(self.wakers.iter().cloned().map(AcceptQueue::new).collect());
        let (ready, became_ready) = mpsc::channel::<Ready>();
        let limiter = Arc::new(ConnectionLimiter::new(&config));
        let lines = Arc::new(log::Shared::new(self.wakers.len()));
        for ((number, counters), listeners) in self.counters.iter().enumerate().zip(listeners) {
            let start = Start {
                number,
                config: config.clone(),
                listeners,
                control: self.control.clone(),
                counters: counters.clone(),
                limiter: limiter.clone(),
                accept_queues: accept_queues.clone(),
                log: config.log.as_ref().map(|log| Feed::new(number, log.format, lines.clone(), counters.clone())),
                sandbox: self.sandbox.clone(),
                tls: self.tls.clone(),
            };
            let (ready, name) = (ready.clone(), format!("worker-{number}"));
            let thread = std::thread::Builder::new().name(name).spawn(move || work(start, &ready));
            self.threads.push(thread.map_err(|cause| Error::Thread { worker: number, cause })?);
        }
        drop(ready);
        let (mut room, mut failed) = (0_usize, Ok(()));
        for number in 0..self.threads.len() {
            let Ready { left, result } = became_ready.recv().map_err(|_| Error::Died(number))?;
            for listener in left {
                drop(landau_sys::descriptor::inherited(listener)?);
            }
            match result {
                Ok(more) => room = room.saturating_add(more),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed?;
        if let Some(note) = admission::note(room, &config) {
            (config.say)(&note);
        }
        if let Some(log) = &config.log {
            let beside = log::Beside { sandbox: self.sandbox.clone(), say: config.say, owner: config.log_owner };
            self.log = Some(log::Writer::start(log, lines, self.counters.clone(), beside)?);
        }
        if let Some(bound) = &self.metrics_at {
            let own = self.log.as_ref().map(log::Writer::shared_counters).unwrap_or_default();
            let counters = self.counters.iter().cloned().chain([own]).collect();
            self.metrics = Some(Metrics::start(bound, counters, self.sandbox.clone())?);
        }
        Ok(())
    }

    /// Gives up what is not needed any more, between [`Server::start`] and [`Server::release`]: the process becomes
    /// the user, and the calling thread, and all that it starts from now on, are locked in as the workers are. What
    /// could not be done is said.
    pub fn give_up_privileges(&self, user: Option<&User>) -> Result<Option<String>, Error> {
        if let Some(user) = user {
            privilege::switch_user(user, &self.config)?;
        }
        self.sandbox.enter_for_cleanup()?;
        Ok(self.sandbox.note.as_ref().map(|note| format!("no sandbox: {note}")))
    }

    /// Whether the workers are in a sandbox.
    pub fn is_sandboxed(&self) -> bool {
        self.sandbox.is_active()
    }

    /// Where it tells what it counts.
    pub fn metrics_address(&self) -> Option<Listen> {
        self.metrics_at.as_ref().map(|bound| bound.place.listen.clone())
    }

    /// Lets the workers begin to accept: from here on nothing privileged is done.
    pub fn release(&self) {
        self.control.is_released.set();
    }

    /// Where it listens: with the port that the system chose where port 0 was asked for.
    pub fn addresses(&self) -> Vec<Listen> {
        self.places.iter().map(Place::address).collect()
    }

    /// What was counted so far, over all workers.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.counters.iter().for_each(|counters| totals.add(counters));
        self.log.iter().for_each(|log| totals.add(log.counters()));
        totals
    }

    /// The same, worker by worker.
    pub fn totals_by_worker(&self) -> Vec<Totals> {
        let of = |counters: &Arc<Counters>| {
            let mut totals = Totals::default();
            totals.add(counters);
            totals
        };
        self.counters.iter().map(of).collect()
    }

    /// What tells it what to do while another thread waits in [`Server::join`].
    pub fn remote(&self) -> Remote {
        let log = self.log.as_ref().map(log::Writer::remote);
        Remote {
            control: self.control.clone(),
            wakers: self.wakers.clone(),
            log,
            tls: self.tls.clone(),
            say: self.config.say,
        }
    }

    /// Tells the workers to accept no more, to answer what is under way, and to end.
    pub fn drain(&self) {
        self.remote().drain();
    }

    /// Tells the workers to end at once.
    pub fn end_now(&self) {
        self.remote().end_now();
    }

    /// Waits until all workers have ended.
    pub fn join(mut self) -> Result<Totals, Error> {
        let threads = std::mem::take(&mut self.threads);
        for (number, thread) in threads.into_iter().enumerate() {
            thread.join().map_err(|_| Error::Died(number))?;
        }
        self.metrics.take().into_iter().for_each(Metrics::finish);
        self.log.iter().for_each(log::Writer::finish);
        Ok(self.totals())
    }
}

/// The certificates, if TLS is spoken anywhere.
fn settings(config: &Config) -> Result<Option<Arc<Settings>>, Error> {
    let sealed = config.listen.iter().find(|listen| listen.address().1);
    match sealed {
        Some(listen) if config.tls.is_empty() => Err(Error::NoCertificate(listen.to_string())),
        Some(_) => Ok(Some(Arc::new(Settings::new(&config.tls)?))),
        None => Ok(None),
    }
}

/// How the start of a worker went.
#[derive(Debug)]
struct Ready {
    /// Listening sockets that are still open under these numbers in the starter's table of descriptors, where nobody
    /// owns them any more, for the worker has a table of its own.
    left: Vec<RawFd>,
    /// For how many connections the worker has room.
    result: Result<usize, Error>,
}

/// The life of a worker's thread.
fn work(start: Start, ready: &mpsc::Sender<Ready>) {
    let control = start.control.clone();
    let left = if has_own_table(&start) { numbers(&start) } else { Vec::new() };
    // Nobody listens only if the start has failed already.
    let say = |result| drop(ready.send(Ready { left, result }));
    match worker(start) {
        Err(error) => say(Err(error)),
        Ok(mut worker) => {
            say(Ok(worker.capacity()));
            control.is_released.wait();
            worker.run();
        }
    }
}

/// The numbers of a worker's listening sockets.
fn numbers(start: &Start) -> Vec<RawFd> {
    start.listeners.iter().map(|listener| listener.fd.as_raw_fd()).collect()
}

/// Takes a table of descriptors of the thread's own, with what the worker starts with. Elsewhere than on Linux the
/// table is shared, which is only slower.
fn has_own_table(start: &Start) -> bool {
    // Where one worker accepts for all, they must know the same descriptors.
    if start.config.accepting == Accepting::Handed {
        return false;
    }
    let wakers = start.accept_queues.iter().flat_map(|queue| queue.waker.descriptors());
    let keep: Vec<RawFd> = numbers(start).into_iter().chain(wakers).chain(start.sandbox.descriptors()).collect();
    landau_sys::descriptor::unshare_descriptors(&keep).is_ok()
}

fn worker(start: Start) -> Result<Work, Error> {
    if let Some(&processor) = start.config.processors.get(start.number % start.config.processors.len().max(1)) {
        landau_sys::system::pin(&[processor])?;
    }
    if start.config.accepting != Accepting::Multishot {
        return Worker::new(start).map(|worker| Work::Readiness(Box::new(worker)));
    }
    #[cfg(target_os = "linux")]
    return Worker::new(start).map(|worker| Work::Completions(Box::new(worker)));
    // Unreachable: `settle` found that there is no ring.
    #[cfg(not(target_os = "linux"))]
    Worker::new(start).map(|worker| Work::Readiness(Box::new(worker)))
}

/// A worker of either kind.
#[derive(Debug)]
enum Work {
    Readiness(Box<Worker<Readiness>>),
    #[cfg(target_os = "linux")]
    Completions(Box<Worker<Completions>>),
}

impl Work {
    fn capacity(&self) -> usize {
        match self {
            Self::Readiness(worker) => worker.capacity(),
            #[cfg(target_os = "linux")]
            Self::Completions(worker) => worker.capacity(),
        }
    }

    fn run(&mut self) {
        match self {
            Self::Readiness(worker) => worker.run(),
            #[cfg(target_os = "linux")]
            Self::Completions(worker) => worker.run(),
        }
    }
}
