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

/// Sees nothing.
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

    /// Waits for events, for 100 ms at most, and acts on them. Returns whether something is left to do.
    ///
    /// # Errors
    ///
    /// The list cannot be read, or the ledger not written.
    #[inline]
    pub fn turn(&mut self) -> Result<bool> {
        self.0.turn(u64::MAX)
    }

    /// Returns what the run has reached.
    #[inline]
    pub fn progress(&self) -> Progress {
        self.0.progress()
    }

    /// Changes the most connections at a time. Connections above it stay open until they end by themselves.
    pub fn set_sessions(&mut self, sessions: u32) {
        self.0.schedule.set_sessions(sessions);
    }

    /// Sets how many connections work: the others are opened, greeted, and wait. All work until this is called.
    pub fn set_busy(&mut self, most: u32) {
        self.0.set_busy(most);
    }

    /// Puts the recipients that are read from now on into so many domains, if the list is synthetic. Those in memory
    /// stay where they are.
    pub fn use_domains(&mut self, count: u32) {
        self.0.input_mut().list_mut().use_domains(count);
    }

    /// Makes connections be reset when they are closed, so that none stays in `TIME_WAIT`.
    pub fn reset_on_close(&mut self) {
        self.0.network.reset_on_close();
    }

    /// Returns the error by which this host refused another connection, if it did.
    pub fn own_limit(&self) -> Option<landau_sys::Error> {
        self.0.own_limit
    }

    /// Begins no further transaction, waits until those in progress have ended, and resets the connections.
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
