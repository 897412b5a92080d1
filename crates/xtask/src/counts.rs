//! Counts of passed and failed tests and checks, read from the output of test runners.

use std::fmt;
use std::ops::AddAssign;

/// The counts of tests or checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Passed.
    pub(crate) passed: u64,
    /// Failed, cancelled ones included.
    pub(crate) failed: u64,
    /// Skipped; counted neither as passed nor as failed.
    pub(crate) skipped: u64,
}

impl Counts {
    /// Returns the counts of a single check.
    pub(crate) fn of(is_good: bool) -> Self {
        Self { passed: u64::from(is_good), failed: u64::from(!is_good), skipped: 0 }
    }

    /// Adds up the summaries of cargo's test programs.
    pub(crate) fn of_cargo(lines: &[String], is_success: bool) -> Self {
        let mut counts = Self::default();
        for line in lines.iter().filter_map(|line| line.strip_prefix("test result: ")) {
            counts.passed += count_before(line, "passed");
            counts.failed += count_before(line, "failed");
            counts.skipped += count_before(line, "ignored");
        }
        counts.at_least_one_failed_unless(is_success)
    }

    /// Reads the summary of `node --test --test-reporter=tap`.
    pub(crate) fn of_node(lines: &[String], is_success: bool) -> Self {
        let count = |word: &str| -> u64 {
            let value = |line: &String| line.strip_prefix("# ")?.strip_prefix(word)?.trim().parse::<u64>().ok();
            lines.iter().filter_map(value).sum()
        };
        let failed = count("fail ") + count("cancelled ");
        Self { passed: count("pass "), failed, skipped: count("skipped ") }.at_least_one_failed_unless(is_success)
    }

    /// Counts a runner that failed without a failed test, because of a build error or a crash, as one failure.
    fn at_least_one_failed_unless(mut self, is_success: bool) -> Self {
        if !is_success && self.failed == 0 {
            self.failed = 1;
        }
        self
    }

    /// Returns whether something ran and nothing failed.
    pub(crate) fn is_good(self) -> bool {
        self.passed > 0 && self.failed == 0
    }
}

/// Returns the number before a word: 3 in "3 passed; 0 failed".
fn count_before(line: &str, word: &str) -> u64 {
    line.split(['.', ';']).filter_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u64>().ok()).sum()
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn cargo_summaries_are_added_up() {
        let text = "running 2 tests\ntest a ... ok\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 4 filtered out; finished in 1.25s";
        assert_eq!(Counts::of_cargo(&lines(text), false), Counts { passed: 15, failed: 2, skipped: 1 });
    }

    #[test]
    fn a_failed_build_counts_as_a_failure() {
        assert_eq!(Counts::of_cargo(&lines("error: could not compile"), false).failed, 1);
        assert!(!Counts::of_cargo(&[], true).is_good(), "nothing ran");
    }

    #[test]
    fn a_node_summary_is_read() {
        let text = "ok 1 - hover\n# tests 6\n# suites 0\n# pass 3\n# fail 1\n# cancelled 1\n# skipped 1\n# todo 0";
        assert_eq!(Counts::of_node(&lines(text), false), Counts { passed: 3, failed: 2, skipped: 1 });
    }
}
