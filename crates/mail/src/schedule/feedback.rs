//! The limit on the connections to a site, which adapts to its answers.
//!
//! The rule is that of Postfix 2.5 (W. Venema and P. Rak, `SCHEDULER_README`): a success adds g(N) to a sum, a failure
//! subtracts f(N) from another one, and the limit N changes by whole steps of these sums: upwards at the end of the
//! 1/g(N) successes, downwards at the beginning of the 1/f(N) failures, because a correction must not wait. After as
//! many consecutive failures as there are connections (a pseudo-cohort), the site is given up for a time.
//!
//! A server that refuses the connections above L keeps the limit between L and L + 1, and 1 in 1 + ceil(1/g(L))
//! connections is refused.

/// N times 1/N is not exactly one.
const ROUNDING: f64 = 1e-9;

/// How much a success or a failure changes the limit N.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Feedback {
    /// By 1.
    Constant,
    /// By 1/sqrt N.
    SquareRoot,
    /// By 1/N, so that it takes N of them to change the limit by 1: the fewest refusals.
    #[default]
    Inverse,
}

impl Feedback {
    fn of(self, limit: u32) -> f64 {
        let n = f64::from(limit);
        match self {
            Self::Constant => 1.0,
            Self::SquareRoot => 1.0 / n.sqrt(),
            Self::Inverse => 1.0 / n,
        }
    }
}

/// The limit on the connections to a site.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    feedback: Feedback,
    initial: u32,
    limit: u32,
    /// The sum of the successes since the last change of the limit.
    success: f64,
    /// The remainder until failures decrease the limit.
    failure: f64,
    /// The number of pseudo-cohorts of failures since the last success.
    failed_cohorts: f64,
}

impl Window {
    pub(crate) fn new(initial: u32, feedback: Feedback) -> Self {
        let initial = initial.max(1);
        Self { feedback, initial, limit: initial, success: 0.0, failure: 0.0, failed_cohorts: 0.0 }
    }

    /// Returns the limit.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Forgets everything about the site.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.initial, self.feedback);
    }

    /// Forgets everything about a site except that it did not answer: it begins with one connection.
    pub(crate) fn restart_with_one(&mut self) {
        *self = Self { limit: 1, ..Self::new(self.initial, self.feedback) };
    }

    /// Records a success at a number of open connections. The limit stays close to that number: otherwise a failure
    /// would reduce a limit that is not reached.
    pub(crate) fn succeed(&mut self, open: u32, most: u32) {
        self.failed_cohorts = 0.0;
        if self.limit >= most || self.limit >= open + self.initial {
            return;
        }
        self.success += self.feedback.of(self.limit);
        while self.success >= 1.0 - ROUNDING {
            self.limit += 1;
            self.success -= 1.0;
            self.failure = 0.0;
        }
        self.limit = self.limit.min(most);
    }

    /// Records a failure. Returns whether it completes a pseudo-cohort of failures.
    pub(crate) fn fail(&mut self) -> bool {
        self.failed_cohorts += 1.0 / f64::from(self.limit);
        if self.failed_cohorts >= 1.0 - ROUNDING {
            return true;
        }
        self.failure -= self.feedback.of(self.limit);
        while self.failure < -ROUNDING {
            self.limit = self.limit.saturating_sub(1);
            self.success = 0.0;
            self.failure += 1.0;
        }
        self.limit = self.limit.max(1);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the share of connections refused by a server that accepts `server` at a time, from a client with a limit
    /// of `client`. Each connection carries one message of equal duration; a refused one ends at once.
    fn refused(feedback: Feedback, client: u32, server: u32) -> f64 {
        let mut window = Window::new(5, feedback);
        let mut running = std::collections::VecDeque::new();
        let (mut refused, mut all) = (0_u32, 0_u32);
        for _ in 0..200_000 {
            while (running.len() as u32) < window.limit() {
                all += 1;
                if running.len() as u32 >= server {
                    refused += 1;
                    assert!(!window.fail(), "the site was given up");
                } else {
                    running.push_back(());
                }
            }
            running.pop_front();
            window.succeed(running.len() as u32 + 1, client);
        }
        f64::from(refused) / f64::from(all)
    }

    /// Postfix measured 16.5%, 24.5% and 49.7% where the rule predicts 1/6, 1/4 and 1/2 (`SCHEDULER_README`: client
    /// limit 20, server limit 5).
    #[test]
    fn the_shares_of_refusals_are_those_that_postfix_published() {
        for (feedback, published) in
            [(Feedback::Inverse, 0.165), (Feedback::SquareRoot, 0.245), (Feedback::Constant, 0.497)]
        {
            let share = refused(feedback, 20, 5);
            assert!((share - published).abs() < 0.01, "{feedback:?}: {share}");
        }
    }

    #[test]
    fn a_cohort_of_failures_gives_a_site_up() {
        for feedback in [Feedback::Constant, Feedback::SquareRoot, Feedback::Inverse] {
            let mut window = Window::new(5, feedback);
            let failures = (1..=5).find(|_| window.fail());
            assert!(matches!(failures, Some(2..=5)), "{feedback:?}: {failures:?}");
            window.restart();
            assert_eq!(window.limit(), 5);
        }
    }

    #[test]
    fn the_limit_does_not_run_ahead_of_what_is_used() {
        let mut window = Window::new(5, Feedback::Constant);
        (0..100).for_each(|_| window.succeed(3, 1_000));
        assert_eq!(window.limit(), 8);
        (0..100).for_each(|_| window.succeed(1_000, 20));
        assert_eq!(window.limit(), 20);
    }
}
