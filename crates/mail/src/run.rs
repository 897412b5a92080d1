//! A delivery that its caller drives, turn by turn: a benchmark changes the load and reads the clock between turns.

use crate::delivery::{Delivery, Outcome, prepare};
use crate::engine::{Engine, Observer, Progress};
use crate::error::Result;
use crate::input::Listed;
use crate::ledger::FileStorage;
use crate::network::Sockets;

/// A delivery in progress.
pub struct Run(Engine<Sockets, Listed<FileStorage>>);

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Run({:?})", self.0.progress())
    }
}

/// An observer that ignores all progress.
struct Blind;

impl Observer for Blind {
    fn progress(&mut self, _progress: &Progress) {}
}

impl Run {
    /// Opens the ledger. Nothing is sent before the first turn.
    ///
    /// # Errors
    ///
    /// Those of [`crate::deliver`].
    pub fn start(delivery: &Delivery) -> Result<Self> {
        prepare(delivery).map(Self)
    }

    /// Waits for events, for at most 100 ms, and handles them. Returns whether work is left.
    ///
    /// # Errors
    ///
    /// The list cannot be read, or the ledger cannot be written.
    #[inline]
    pub fn turn(&mut self) -> Result<bool> {
        self.0.turn(u64::MAX)
    }

    /// Returns the progress of the run.
    #[inline]
    pub fn progress(&self) -> Progress {
        self.0.progress()
    }

    /// Changes the maximum number of simultaneous connections. Connections above it stay open until they end normally.
    pub fn set_sessions(&mut self, sessions: u32) {
        self.0.schedule.set_sessions(sessions);
    }

    /// Sets the maximum number of busy connections: the others are opened, greeted, and held. Until the first call, no
    /// connection is held.
    pub fn set_busy(&mut self, most: u32) {
        self.0.set_busy(most);
    }

    /// Distributes the recipients that are read from now on over `count` domains, if the list is synthetic. Those in
    /// memory keep their domains.
    pub fn use_domains(&mut self, count: u32) {
        self.0.input_mut().list_mut().use_domains(count);
    }

    /// Makes connections send a reset when they are closed, so that none stays in `TIME_WAIT`.
    pub fn reset_on_close(&mut self) {
        self.0.network.reset_on_close();
    }

    /// Returns the last error caused by a lack of descriptors or ports on this host, if there was one.
    pub fn own_limit(&self) -> Option<landau_sys::Error> {
        self.0.own_limit
    }

    /// Begins no further transaction, waits for those in progress, and resets the connections.
    ///
    /// # Errors
    ///
    /// Those of [`Run::turn`].
    pub fn finish(mut self) -> Result<Outcome> {
        self.0.set_busy(u32::MAX);
        self.reset_on_close();
        self.0.run(&mut Blind, &|| true)?;
        Ok(self.0.into_outcome())
    }
}
