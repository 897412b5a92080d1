//! The rounds of `landau explain` on the running kernel. The elapsed time determines their number.
//!
//! The duration of a round is known only after a few rounds, and other programs change it. The run is therefore planned
//! with the maximum number of rounds of a record, and ends between two rounds when the time is used up.

use crate::progress::Progress;
use landau_engine::{Event, Observer};
use landau_record::schema::{Outcome, PassEnd};
use landau_record::{Error, Journal, Line, Writer};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The minimum number of rounds: the confidence interval of fewer rounds is very wide.
const LEAST: u32 = 5;

/// The maximum number of rounds. The samples of a round, by call chain, take about 30 KB of memory.
const MOST: u64 = 10_000;

/// The maximum number of calls in all recorded passes. Each takes 12 bytes of memory when the record is read.
const MOST_CALLS: u64 = 20_000_000;

/// Returns the maximum number of rounds if each round records this many calls.
pub(super) fn most(calls: u64) -> u32 {
    (MOST_CALLS / calls.max(1)).clamp(LEAST.into(), MOST) as u32
}

/// Returns whether to run another round after `made` rounds that took `elapsed` in total. The last round is the one
/// that ends nearest to `wanted`.
fn goes_on(made: u32, elapsed: Duration, wanted: Duration) -> bool {
    made < LEAST || elapsed + elapsed / made / 2 < wanted
}

/// Follows the rounds of a run.
pub(super) struct Rounds {
    /// The number of recorded passes in a round.
    cases: u32,
    /// The total duration of the rounds.
    wanted: Duration,
    began: Instant,
    /// The number of recorded passes that have ended, each with its profiled passes.
    passes: Cell<u32>,
    is_over: Cell<bool>,
    has_failed: Cell<bool>,
}

impl Rounds {
    /// Starts rounds of `cases` cases each, for `wanted` in total.
    pub(super) fn new(cases: u32, wanted: Duration) -> Self {
        let (passes, is_over, has_failed) = (Cell::new(0), Cell::new(false), Cell::new(false));
        Self { cases, wanted, began: Instant::now(), passes, is_over, has_failed }
    }

    /// Returns whether the run must end: the time is used up, or a pass has failed.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Returns whether a pass has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// Returns the number of complete rounds.
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

    /// Returns the expected number of passes and the expected duration of the remaining ones.
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

/// Shows the progress of rounds whose number depends on the elapsed time.
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
            // The plan has the maximum number of rounds, not the expected number.
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

/// A journal that holds its lines back until the number of rounds is known, because the header contains it.
#[derive(Default)]
pub(super) struct Held(Vec<Line>);

impl Held {
    /// Writes the lines to a record of `rounds` rounds.
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

    /// Guards against a limit on the rounds that ends the run before the requested time.
    #[test]
    fn rounds_are_made_until_the_time_is_used() {
        let made_in = |round_ms: u64, wanted_s: u64| {
            let (round, wanted) = (Duration::from_millis(round_ms), Duration::from_secs(wanted_s));
            (0..100_000).find(|made| !goes_on(*made, round * *made, wanted)).unwrap()
        };
        assert_eq!(made_in(100, 12), 120);
        assert_eq!(made_in(80, 600), 7_500);
        // At least five rounds; the last one is the one that ends nearest to the time.
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
