//! A profiler of the timed calls. It samples extra passes that are made between the recorded ones, because samples
//! change what a call costs. Of the recorded passes it learns when each call began, so that it can leave out of both
//! what another task interrupted.

use crate::Error;
use landau_record::schema::Case;

/// A kind of pass that a profiler watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// Its samples are in the record: the profiler must not change what a call costs.
    Recorded,
    /// It is made for the profiler.
    Extra,
}

/// Watches workers. An error is a sentence that says what failed and what to do.
pub trait Profiler {
    /// Begins to watch a worker, a process with one thread that has not set up its benchmark yet.
    fn begin(&mut self, pid: u32, pass: Watched) -> Result<(), String>;

    /// Collects what was seen since the last call; called ten times a second while the worker of an extra pass runs,
    /// and at least every ten seconds in a recorded one.
    fn poll(&mut self) -> Result<(), String>;

    /// Ends the watching of a pass that was complete or reached a limit. Its calls are given with their times.
    fn end(&mut self, calls: &TimedCalls<'_>) -> Result<(), String>;
}

/// The calls of a pass.
#[derive(Debug)]
pub struct TimedCalls<'a> {
    /// The case.
    pub case: &'a Case,
    /// The round in which the pass was made.
    pub round: u32,
    /// The calls of each phase of the case, in the order in which they were made.
    pub phases: Vec<Vec<TimedCall>>,
}

/// A call of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedCall {
    /// The number of objects.
    pub n: u64,
    /// When it began, in nanoseconds of `CLOCK_MONOTONIC`; none if it was timed in another process.
    pub began_ns: Option<u64>,
    /// How long it took, in nanoseconds.
    pub ns: u64,
}

/// What makes profiled passes: the profiler, and how many passes follow each recorded one.
pub struct Profiling<'a> {
    /// The profiler.
    pub profiler: &'a mut dyn Profiler,
    /// Profiled passes after each recorded one.
    pub passes: u32,
}

impl<'a> Profiling<'a> {
    /// Returns it for a shorter lifetime, which a mutable reference to a trait object does not take by itself.
    pub(crate) fn shorter<'b>(self) -> Profiling<'b>
    where
        'a: 'b,
    {
        Profiling { profiler: self.profiler, passes: self.passes }
    }
}

impl std::fmt::Debug for Profiling<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profiling").field("passes", &self.passes).finish_non_exhaustive()
    }
}

/// Turns a profiler's reason into an error of the run.
pub(crate) fn failed(reason: String) -> Error {
    Error::Profiler(reason)
}
