//! Starts the workers of the server and stops them.

use crate::admission;
use crate::config::{Accepting, Config, Listen};
use crate::control::Control;
use crate::counters::{Counters, Totals};
use crate::error::Error;
use crate::limiter::ConnectionLimiter;
use crate::listener::{Bound, Place};
use crate::log::{self, Feed};
use crate::memory;
use crate::metrics::{Counted, Metrics, now_s};
use crate::privilege::{self, Sandbox, User};
use crate::reader::Reader;
use crate::rules::LiveRules;
use crate::site::{Folder, Notices};
use crate::tls::Settings;
#[cfg(target_os = "linux")]
use crate::transport::Completions;
use crate::transport::Readiness;
use crate::worker::{AcceptQueue, Start, Worker};
use landau_reactor::{Reactor, Waker};
use landau_sys::system::memory_left;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// A running server.
#[derive(Debug)]
pub struct Server {
    places: Vec<Place>,
    control: Arc<Control>,
    /// The counters of each worker, then those of the log.
    counters: Vec<Counters>,
    wakers: Vec<Waker>,
    threads: Vec<JoinHandle<()>>,
    log: Option<log::Writer>,
    metrics: Option<Metrics>,
    metrics_at: Option<Bound>,
    sandbox: Arc<Sandbox>,
    config: Arc<Config>,
    tls: Option<Arc<Settings>>,
    notices: Arc<Notices>,
}

/// Controls a server from any thread.
#[derive(Debug, Clone)]
pub struct Remote {
    control: Arc<Control>,
    wakers: Vec<Waker>,
    log: Option<log::Remote>,
    tls: Option<Arc<Settings>>,
    rules: Option<Arc<LiveRules>>,
    reader: Reader,
    notices: Arc<Notices>,
    is_sandboxed: bool,
    report: fn(&str),
}

impl Remote {
    /// Stops the server: the workers stop accepting and finish the requests under way.
    pub fn drain(&self) {
        self.control.drain.store(true, Ordering::Release);
        self.wake();
    }

    /// Stops the server like [`Remote::drain`], but without a time limit for busy connections.
    pub fn finish(&self) {
        self.control.is_patient.store(true, Ordering::Release);
        self.drain();
    }

    /// Stops the server at once.
    pub fn end_now(&self) {
        self.control.end.store(true, Ordering::Release);
        self.wake();
    }

    /// Reopens the access log, after log rotation.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Reloads the certificates and reports the outcome. Open connections keep the certificate that they began with. If
    /// a file is invalid, new connections keep the previous certificates too.
    pub fn reload_certificates(&self) {
        match self.tls.as_ref().map(|tls| tls.reload()) {
            None => {}
            Some(Ok(())) => (self.report)("certificates reloaded; new connections use them"),
            Some(Err(error)) => (self.report)(&format!("{error}; the previous certificates stay in use")),
        }
    }

    /// Reads the rules of the configuration file again and reports the outcome. If the file is invalid, the previous
    /// rules stay.
    pub fn reload_rules(&self) {
        let Some(rules) = &self.rules else { return };
        (self.report)(&rules.reload(&self.reader, self.is_sandboxed).to_string());
        self.notices.forget();
        self.wake();
    }

    fn wake(&self) {
        for waker in &self.wakers {
            // Waking fails only if the worker has ended.
            let _ = waker.wake();
        }
    }
}

/// Checks whether an `io_uring` instance can be created.
#[cfg(target_os = "linux")]
fn ring() -> Result<(), landau_reactor::Error> {
    landau_reactor::completions::Ring::new().map(drop)
}

/// Checks whether an `io_uring` instance can be created.
#[cfg(not(target_os = "linux"))]
fn ring() -> Result<(), landau_reactor::Error> {
    Err(landau_reactor::Error::Unavailable {
        backend: landau_reactor::Backend::IoUring,
        reason: "this system has no io_uring".to_owned(),
    })
}

/// Divides the memory left for each of `processes` processes between the caches and the connections.
pub(crate) fn settle_memory(config: &mut Config, processes: u64) {
    if let Some(note) = memory::settle(config, memory_left(processes, memory::stack_bytes(config))) {
        (config.report)(&note);
    }
}

/// Decides what the workers use. If a backend, or the ring that `multishot` needs, is missing or not permitted, an
/// alternative is used and the reason is reported.
fn settle(config: &mut Config) -> Result<(), Error> {
    if config.accepting == Accepting::Multishot {
        match ring() {
            Err(reason @ landau_reactor::Error::Unavailable { .. }) => {
                (config.report)(&format!("using --accept own instead of multishot: {reason}"));
                config.accepting = Accepting::Own;
            }
            other => return Ok(other?),
        }
    }
    let (backend, why) = Reactor::resolve_backend(config.backend)?;
    config.backend = backend;
    if let Some(why) = why {
        (config.report)(&why);
    }
    Ok(())
}

impl Server {
    /// Binds all addresses and starts the workers; returns when all of them listen.
    pub fn start(mut config: Config) -> Result<Self, Error> {
        settle_memory(&mut config, 1);
        let counters = (0..=config.workers.max(1)).map(|_| Counters::default()).collect();
        Self::start_with(config, counters)
    }

    /// Checks what a start would open except addresses and the log: the directory, the certificates and the directories
    /// of the sandbox. If this process is root's, it also switches to `user`, and checks that this user can enter the
    /// directory. Returns all errors.
    pub fn check(config: &Config, user: Option<&User>) -> Vec<Error> {
        let of_folder = Folder::new(config, Arc::default(), false).err();
        let others = [settings(config).err(), Sandbox::new(config).err()];
        let is_root = landau_sys::process::effective_user() == 0;
        let of_user = user.filter(|_| is_root && of_folder.is_none());
        let of_user = of_user.and_then(|user| privilege::switch_user(user, config).err());
        of_folder.into_iter().chain(others.into_iter().flatten()).chain(of_user).collect()
    }

    /// Starts a server with these counters: one set for each worker, and one for the log. The memory of caches and
    /// connections has been divided already.
    pub(crate) fn start_with(mut config: Config, counters: Vec<Counters>) -> Result<Self, Error> {
        settle(&mut config)?;
        let workers = config.workers.max(1);
        let tls = settings(&config)?;
        let bound: Vec<Bound> =
            config.listen.iter().map(|listen| Bound::new(&config, listen)).collect::<Result<_, _>>()?;
        // Created before the workers' descriptor tables, so that their numbers are valid in all of them.
        let wakers: Vec<Waker> = (0..workers).map(|_| Waker::new()).collect::<Result<_, _>>()?;
        let control = Arc::new(Control::default());
        let notices = Arc::new(Notices::new(wakers.clone()));
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
            notices,
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
        // From here on, only the workers hold listening sockets, so that the addresses close with them.
        self.places = bound.into_iter().map(|bound| bound.place).collect();
        let accept_queues: Arc<Vec<AcceptQueue>> =
            Arc::new(self.wakers.iter().cloned().map(AcceptQueue::new).collect());
        let (ready, became_ready) = mpsc::channel::<Ready>();
        let limiter = Arc::new(ConnectionLimiter::new(&config));
        let lines = Arc::new(log::Shared::new(self.wakers.len()));
        // Lines lost by an earlier process, which has reported them.
        let lost_before = self.counters.iter().map(|counters| counters.log_lost().get()).sum();
        for ((number, &counters), listeners) in self.counters.iter().enumerate().zip(listeners) {
            let start = Start {
                number,
                config: config.clone(),
                listeners,
                control: self.control.clone(),
                counters,
                limiter: limiter.clone(),
                accept_queues: accept_queues.clone(),
                log: config.log.as_ref().map(|log| Feed::new(number, log.format, lines.clone(), counters)),
                sandbox: self.sandbox.clone(),
                tls: self.tls.clone(),
                notices: self.notices.clone(),
            };
            let (ready, name) = (ready.clone(), format!("worker-{number}"));
            let thread = std::thread::Builder::new().name(name).spawn(move || work(start, &ready));
            self.threads.push(thread.map_err(|cause| Error::Thread { worker: number, cause })?);
        }
        drop(ready);
        let (mut room, mut failed) = (0_usize, Ok(()));
        for number in 0..self.threads.len() {
            let Ready { left, result } = became_ready.recv().map_err(|_| Error::Panicked(number))?;
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
            (config.report)(&note);
        }
        if let Some(log) = &config.log {
            let (sandbox, report, owner) = (self.sandbox.clone(), config.report, config.log_owner);
            let beside = log::Beside { sandbox, report, owner, lost_before };
            let (own, of_workers) =
                self.counters.split_last().map_or_else(Default::default, |(own, others)| (*own, others.to_vec()));
            self.log = Some(log::Writer::start(log, lines, of_workers, own, beside)?);
        }
        if let Some(bound) = &self.metrics_at {
            let counted = Counted {
                counters: self.counters.clone(),
                workers: config.workers.max(1),
                supervision: None,
                started_s: now_s(),
            };
            self.metrics = Some(Metrics::start(bound, counted, self.sandbox.clone())?);
        }
        Ok(())
    }

    /// Drops privileges; to be called between [`Server::start`] and [`Server::release`]. The process switches to the
    /// user, and the calling thread, with all threads that it starts later, enters the sandbox. Returns a note if there
    /// is no sandbox.
    pub fn give_up_privileges(&self, user: Option<&User>) -> Result<Option<String>, Error> {
        if let Some(user) = user {
            privilege::switch_user(user, &self.config)?;
        }
        self.sandbox.enter_for_cleanup()?;
        Ok(self.sandbox.note.as_ref().map(|note| format!("no sandbox: {note}")))
    }

    /// Returns whether the workers are in a sandbox.
    pub fn is_sandboxed(&self) -> bool {
        self.sandbox.is_active()
    }

    /// Returns the address of the metrics.
    pub fn metrics_address(&self) -> Option<Listen> {
        self.metrics_at.as_ref().map(|bound| bound.place.listen.clone())
    }

    /// Lets the workers accept connections; no privileged operation follows.
    pub fn release(&self) {
        self.control.is_released.set();
    }

    /// Returns the addresses, with the port that the system chose for port 0.
    pub fn addresses(&self) -> Vec<Listen> {
        self.places.iter().map(Place::address).collect()
    }

    /// Returns the counters so far, summed over all workers.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.counters.iter().for_each(|counters| totals.add(*counters));
        totals
    }

    /// Returns the counters of each worker.
    pub fn totals_by_worker(&self) -> Vec<Totals> {
        let of = |counters: &Counters| {
            let mut totals = Totals::default();
            totals.add(*counters);
            totals
        };
        self.counters.iter().take(self.wakers.len()).map(of).collect()
    }

    /// Returns a handle that controls the server while another thread waits in [`Server::join`].
    pub fn remote(&self) -> Remote {
        let log = self.log.as_ref().map(log::Writer::remote);
        Remote {
            control: self.control.clone(),
            wakers: self.wakers.clone(),
            log,
            tls: self.tls.clone(),
            rules: self.config.rules.clone(),
            reader: self.config.reader.clone(),
            notices: self.notices.clone(),
            is_sandboxed: self.sandbox.is_active(),
            report: self.config.report,
        }
    }

    /// Stops the server: the workers stop accepting and finish the requests under way.
    pub fn drain(&self) {
        self.remote().drain();
    }

    /// Stops the server at once.
    pub fn end_now(&self) {
        self.remote().end_now();
    }

    /// Waits until all workers have ended, and returns the counters.
    pub fn join(mut self) -> Result<Totals, Error> {
        let threads = std::mem::take(&mut self.threads);
        for (number, thread) in threads.into_iter().enumerate() {
            thread.join().map_err(|_| Error::Panicked(number))?;
        }
        self.metrics.take().into_iter().for_each(Metrics::finish);
        self.log.iter().for_each(log::Writer::finish);
        Ok(self.totals())
    }
}

/// Loads the certificates if an address uses TLS.
fn settings(config: &Config) -> Result<Option<Arc<Settings>>, Error> {
    let sealed = config.listen.iter().find(|listen| listen.address().1);
    match sealed {
        Some(listen) if config.tls.is_empty() => Err(Error::NoCertificate(listen.to_string())),
        Some(_) => Ok(Some(Arc::new(Settings::new(&config.tls, &config.reader, config.http2)?))),
        None => Ok(None),
    }
}

/// The outcome of a worker's start.
#[derive(Debug)]
struct Ready {
    /// Listening sockets that are still open in the starting thread's descriptor table, because the worker has its own
    /// table.
    left: Vec<RawFd>,
    /// The number of connections that the worker has descriptors for.
    result: Result<usize, Error>,
}

/// Runs a worker's thread.
fn work(start: Start, ready: &mpsc::Sender<Ready>) {
    let control = start.control.clone();
    let left = if has_own_table(&start) { numbers(&start) } else { Vec::new() };
    // The receiver is gone only if the start has failed already.
    let report = |result| drop(ready.send(Ready { left, result }));
    match worker(start) {
        Err(error) => report(Err(error)),
        Ok(mut worker) => {
            report(Ok(worker.capacity()));
            control.is_released.wait();
            worker.run();
        }
    }
}

/// Returns the descriptors of a worker's listening sockets.
fn numbers(start: &Start) -> Vec<RawFd> {
    start.listeners.iter().map(|listener| listener.fd.as_raw_fd()).collect()
}

/// Gives the thread its own descriptor table, which saves the kernel locking; returns whether it has one. On systems
/// other than Linux the table is shared, which is only slower.
fn has_own_table(start: &Start) -> bool {
    // A worker that accepts for all passes descriptors to the others, so the table must be shared.
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
    // Unreachable: `settle` has found that there is no ring.
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
