//! The interface between a run's loop and the machine: it makes the passes, tells the time, and checks whether the host
//! has settled.
//!
//! Runs use [`crate::pass::Workers`]; tests of the loop use a driver without processes, in which time is simulated.

use crate::{Error, Observer, Planned};
use landau_record::Journal;
use landau_record::schema::{PassEnd, PassStart};
use std::time::Duration;

/// The conditions that end a pass from outside.
pub(crate) struct Bounds<'a> {
    /// The time limit of the run, counted like [`Driver::elapsed`].
    pub(crate) deadline: Option<Duration>,
    pub(crate) interrupted: &'a dyn Fn() -> bool,
}

/// Makes the passes of a run.
pub(crate) trait Driver {
    /// Returns the time since the run, or its resumption, began.
    fn elapsed(&self) -> Duration;

    /// Waits.
    fn sleep(&mut self, duration: Duration);

    /// Returns a description of leftovers of earlier work on the host that would distort the curve.
    fn unsettled(&self, planned: &Planned) -> Option<String>;

    /// Makes one pass and writes everything about it except its first line.
    fn pass(
        &mut self,
        planned: &Planned,
        start: &PassStart,
        bounds: &Bounds,
        writer: &mut dyn Journal,
        observer: &mut dyn Observer,
    ) -> Result<PassEnd, Error>;
}
