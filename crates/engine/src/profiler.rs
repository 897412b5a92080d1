//! The interface of a profiler of the timed calls. It samples extra passes between the recorded ones, because sampling
//! changes the cost of a call. For the recorded passes it receives the time at which each call began, so that it can
//! exclude interruptions by other tasks from both.

use crate::Error;
use landau_record::schema::Case;

/// A kind of pass that a profiler watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// The samples of the pass are in the record, so the profiler must not change the cost of a call.
    Recorded,
    /// The pass is made for the profiler only.
    Extra,
}

/// Watches workers. An error is a sentence that says what failed and what to do.
pub trait Profiler {
    /// Starts watching a worker, a process with one thread that has not set up its benchmark yet.
    fn begin(&mut self, pid: u32, pass: Watched) -> Result<(), String>;

    /// Collects the data since the last call. It is called ten times a second while the worker of an extra pass runs,
    /// and at least every ten seconds in a recorded one.
    fn poll(&mut self) -> Result<(), String>;

    /// Stops watching a pass that was complete or reached a limit. `calls` are its calls with their times.
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

/// A profiler, and the number of profiled passes that follow each recorded one.
pub struct Profiling<'a> {
    /// The profiler.
    pub profiler: &'a mut dyn Profiler,
    /// Profiled passes after each recorded one.
    pub passes: u32,
}

impl<'a> Profiling<'a> {
    /// Returns the same value with a shorter lifetime. The compiler does not shorten that of a mutable reference to a
    /// trait object implicitly.
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

/// Converts a profiler's reason into an error of the run.
pub(crate) fn failed(reason: String) -> Error {
    Error::Profiler(reason)
}
