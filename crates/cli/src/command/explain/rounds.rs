//! The rounds of `landau explain` on the running kernel: how many are made, by the clock.
//!
//! How long a round takes is known only once some were made, and other programs change it. So the run is planned with
//! the most rounds that a record may have, and ends between two rounds when the time is used.

use crate::progress::Progress;
use landau_engine::{Event, Observer};
use landau_record::schema::{Outcome, PassEnd};
use landau_record::{Error, Journal, Line, Writer};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The least rounds: an interval of fewer is very wide.
const LEAST: u32 = 5;

/// The most rounds. The samples of a round, by call chain, take some 30 KB of memory.
const MOST: u64 = 10_000;

/// The most calls of all recorded passes. Each takes 12 bytes of memory when the record is read.
const MOST_CALLS: u64 = 20_000_000;

/// Returns the most rounds of which each has so many recorded calls.
pub(super) fn most(calls: u64) -> u32 {
    (MOST_CALLS / calls.max(1)).clamp(LEAST.into(), MOST) as u32
}

/// Returns whether another round is made after some that took so long together. The last one is that which ends nearest
/// to the end of the time.
fn goes_on(made: u32, elapsed: Duration, wanted: Duration) -> bool {
    made < LEAST || elapsed + elapsed / made / 2 < wanted
}

/// Follows the rounds of a run.
pub(super) struct Rounds {
    /// The recorded passes of a round.
    cases: u32,
    /// For how long rounds are made.
    wanted: Duration,
    began: Instant,
    /// Recorded passes that have ended, each with its profiled ones.
    passes: Cell<u32>,
    is_over: Cell<bool>,
    has_failed: Cell<bool>,
}

impl Rounds {
    /// Begins rounds of so many cases, for so long in all.
    pub(super) fn new(cases: u32, wanted: Duration) -> Self {
        let (passes, is_over, has_failed) = (Cell::new(0), Cell::new(false), Cell::new(false));
        Self { cases, wanted, began: Instant::now(), passes, is_over, has_failed }
    }

    /// Returns whether the run must end: the time is used, or a pass has failed.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Returns whether a pass has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// Returns the number of rounds that were made.
    pub(super) fn made(&self) -> u32 {
        self.passes.get() / self.cases.max(1)
    }

    fn pass_ended(&self, end: &PassEnd) {
        self.passes.set(self.passes.get() + 1);
        if end.outcome == Outcome::Failed {
            self.has_failed.set(true);
            self.is_over.set(true);
        } else if self.passes.get().is_multiple_of(self.cases) {
            self.is_over.set(!goes_on(self.made(), self.began.elapsed(), self.wanted));
        }
    }

    /// Returns how many passes are expected, and how long those that are left will take.
    fn expected(&self) -> (u32, Option<Duration>) {
        let (passes, elapsed) = (self.passes.get(), self.began.elapsed());
        let least = LEAST * self.cases;
        if passes == 0 {
            return (least, None);
        }
        let each = elapsed / passes;
        let of_time = self.wanted.as_secs_f64() / each.as_secs_f64().max(1e-9);
        let all = (of_time as u32).max(least).max(passes);
        (all, Some(each * (all - passes)))
    }
}

/// Shows the progress of rounds whose number the clock decides.
pub(super) struct Shown<'a> {
    pub(super) rounds: &'a Rounds,
    pub(super) progress: Progress,
}

impl Observer for Shown<'_> {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::PassEnded { end, .. } = event {
            self.rounds.pass_ended(end);
        }
        let (all, left) = self.rounds.expected();
        let pass_count = all as usize;
        match event {
            // The plan has the most rounds, not those that are expected.
            Event::Started { .. } => self.progress.event(&Event::Started { pass_count }),
            Event::PassStarted { label, role, done, .. } => {
                let shown = Event::PassStarted { label, role: *role, done: *done, of: pass_count, left };
                self.progress.event(&shown);
            }
            Event::PassEnded { .. } => {
                self.progress.event(event);
                self.progress.event(&Event::Started { pass_count });
            }
            _ => self.progress.event(event),
        }
    }
}

/// A journal that keeps its lines until the number of rounds is known, which the first of them names.
#[derive(Default)]
pub(super) struct Held(Vec<Line>);

impl Held {
    /// Writes the lines to a record of so many rounds.
    pub(super) fn write(self, rounds: u32, writer: &mut Writer) -> Result<(), Error> {
        for mut line in self.0 {
            if let Line::Header(header) = &mut line {
                header.pass_count = rounds;
            }
            writer.append(&line)?;
        }
        writer.flush()
    }
}

impl Journal for Held {
    fn append(&mut self, line: &Line) -> Result<(), Error> {
        self.0.push(line.clone());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a number of rounds that caps the time that was asked for.
    #[test]
    fn rounds_are_made_until_the_time_is_used() {
        let made_in = |round_ms: u64, wanted_s: u64| {
            let (round, wanted) = (Duration::from_millis(round_ms), Duration::from_secs(wanted_s));
            (0..100_000).find(|made| !goes_on(*made, round * *made, wanted)).unwrap()
        };
        assert_eq!(made_in(100, 12), 120);
        assert_eq!(made_in(80, 600), 7_500);
        // Five at least, and the last one is that which ends nearest to the time.
        assert_eq!((made_in(10_000, 12), made_in(3_000, 20), made_in(3_000, 19)), (5, 7, 6));
    }

    #[test]
    fn memory_bounds_the_rounds() {
        assert_eq!((most(64), most(2_000), most(20_000), most(u64::MAX), most(0)), (10_000, 10_000, 1_000, 5, 10_000));
    }

    /// Guards against a run that ends within a round, or goes on after a pass that failed.
    #[test]
    fn a_run_ends_between_two_rounds_or_with_a_failure() {
        let end = |outcome| PassEnd {
            pass: 0,
            outcome,
            steps: 1,
            elapsed_ms: 0,
            limit: None,
            error: None,
            facts: landau_record::schema::Facts::new(),
        };
        let rounds = Rounds::new(2, Duration::ZERO);
        for _ in 0..9 {
            rounds.pass_ended(&end(Outcome::Done));
            assert!(!rounds.is_over());
        }
        rounds.pass_ended(&end(Outcome::Limit));
        assert!(rounds.is_over() && !rounds.has_failed() && rounds.made() == 5);
        let rounds = Rounds::new(2, Duration::from_secs(60));
        assert_eq!(rounds.expected(), (10, None));
        rounds.pass_ended(&end(Outcome::Failed));
        assert!(rounds.is_over() && rounds.has_failed());
    }
}
