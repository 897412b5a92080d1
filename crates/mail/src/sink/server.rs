//! A running sink: its listeners, its event loop, and a handle for other threads to observe and end it.

use super::counters::{Connections, Counted, Reading};
use super::error::Error;
use super::listener::{Listen, Listener};
use super::protocol::Protocol;
use super::worker::Worker;
use landau_reactor::{Backend, ManualClock, Reactor, Waker};
use landau_sys::descriptor::is_open;
use landau_sys::limits::{self, Resource};
use std::fmt;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The settings of a sink's listeners and event loop.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// The accept backlog of each address.
    pub backlog: u32,
    /// The backend of the event loop.
    pub backend: Backend,
    /// The clock of latencies and timeouts, for tests; `None` for the system's.
    pub clock: Option<ManualClock>,
}

impl Config {
    /// Returns the defaults for some addresses.
    pub fn new(listen: Vec<Listen>) -> Self {
        Self { listen, backlog: 4096, backend: Backend::default(), clock: None }
    }
}

/// A sink that listens but does not answer yet.
pub struct Sink {
    addresses: Vec<Listen>,
    remote: Remote,
    /// Runs the event loop, whose type depends on the protocol.
    run: Box<dyn FnOnce() -> Result<(), Error> + Send>,
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// A handle for observing and ending a sink from any thread.
#[derive(Clone)]
pub struct Remote {
    waker: Waker,
    must_end: Arc<AtomicBool>,
    counters: Arc<Connections>,
    of_protocol: Arc<dyn Counted>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("counters", &self.totals()).finish_non_exhaustive()
    }
}

impl Remote {
    /// Ends the sink. Open connections are closed immediately.
    pub fn end(&self) {
        self.must_end.store(true, Ordering::Release);
        // Waking fails only if the sink has ended.
        let _ = self.waker.wake();
    }

    /// Returns all counters.
    pub fn totals(&self) -> Vec<Reading> {
        let mut all = self.counters.readings();
        all.extend(self.of_protocol.readings());
        all
    }

    /// Returns a counter by its name; 0 if there is none.
    pub fn total(&self, name: &str) -> u64 {
        self.totals().iter().find(|reading| reading.name == name).map_or(0, |reading| reading.value)
    }
}

/// The number of descriptors that a sink opens when it runs: that of the event loop, and one reserved for mailboxes.
const LATER_DESCRIPTORS: u64 = 2;

/// The upper bound of the numbers of a sink's own descriptors, which are opened before those of connections.
const OWN_MOST: u64 = 1024;

impl Sink {
    /// Listens at all addresses. Clients can connect from then on; [`run`](Self::run) answers them.
    #[expect(private_bounds, reason = "the protocols are those of this module")]
    pub fn bind<P: Protocol + Send + 'static>(protocol: P, config: Config) -> Result<Self, Error> {
        let listeners: Vec<Listener> =
            config.listen.iter().map(|&listen| Listener::new(listen, config.backlog)).collect::<Result<_, _>>()?;
        let addresses = listeners.iter().map(|listener| listener.listen).collect();
        let remote = Remote {
            waker: Waker::new()?,
            must_end: Arc::default(),
            counters: Arc::default(),
            of_protocol: protocol.counters(),
        };
        let Remote { waker, must_end, counters, .. } = remote.clone();
        // A reactor must stay in the thread that created it.
        let run = move || {
            let mut reactor = Reactor::new(config.backend)?;
            if let Some(clock) = &config.clock {
                reactor.set_clock(clock);
            }
            reactor.register_waker(&waker)?;
            Worker::new(protocol, reactor, listeners, counters, must_end)?.run();
            Ok(())
        };
        Ok(Self { addresses, remote, run: Box::new(run) })
    }

    /// Returns the addresses, with the port that the system chose for port 0.
    pub fn addresses(&self) -> Vec<Listen> {
        self.addresses.clone()
    }

    /// Raises the limit of descriptors as far as permitted, and returns the number of connections that it allows.
    /// Further connections wait in the accept queue.
    pub fn capacity(&self) -> Result<u64, Error> {
        let limit = limits::raise(Resource::Descriptors)?;
        let open = (0..limit.min(OWN_MOST)).filter(|&number| is_open(number as RawFd)).count() as u64;
        Ok(limit.saturating_sub(open + LATER_DESCRIPTORS))
    }

    /// Returns a handle for other threads.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Answers clients until [`Remote::end`] is called.
    pub fn run(self) -> Result<(), Error> {
        (self.run)()
    }
}
