//! Counts of passed, failed and skipped tests and checks, read from the output of test runners.

use std::collections::BTreeMap;
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

    /// Reads the summary of `node --test --test-reporter=tap`. A run without a passed or failed test is a failure.
    fn of_node(lines: &[String], is_success: bool) -> Self {
        let count = |word: &str| -> u64 {
            let value = |line: &String| line.strip_prefix("# ")?.strip_prefix(word)?.trim().parse::<u64>().ok();
            lines.iter().filter_map(value).sum()
        };
        let failed = count("fail ") + count("cancelled ");
        let counts = Self { passed: count("pass "), failed, skipped: count("skipped ") };
        counts.at_least_one_failed_unless(is_success && counts.passed + counts.failed > 0)
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

/// What tests said: how many passed, and which failed.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    /// The names of the failed tests, in the order in which they ended.
    pub(crate) failures: Vec<String>,
}

impl Outcome {
    /// Reads the output of `node --test --test-reporter=tap`. A run without a passed or failed test is a failure.
    pub(crate) fn of_node(lines: &[String], is_success: bool) -> Self {
        let name = |line: &String| {
            line.trim_start().strip_prefix("not ok ")?.split_once(" - ").map(|(_, name)| name.to_owned())
        };
        Self { counts: Counts::of_node(lines, is_success), failures: lines.iter().filter_map(name).collect() }
    }
}

impl From<Counts> for Outcome {
    fn from(counts: Counts) -> Self {
        Self { counts, failures: Vec::new() }
    }
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.counts += other.counts;
        self.failures.extend(other.failures);
    }
}

/// What a line of cargo's test programs belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Section {
    /// The list of the tests, or the result.
    #[default]
    Tests,
    /// What passed tests printed.
    OutputOfPassed,
    /// The names of the passed tests.
    NamesOfPassed,
    /// What failed tests printed.
    OutputOfFailed,
}

/// Reads the output of `cargo test -- --show-output`, line by line.
///
/// A test that cannot run here passes for libtest, and prints a line that begins with `skipped: `.
#[derive(Debug, Default)]
pub(crate) struct CargoOutput {
    counts: Counts,
    section: Section,
    /// The passed test whose output follows.
    test: String,
    /// The number of the test program, since two of them may have tests of the same name.
    program: usize,
    /// The skipped tests, with the first line that says why.
    skips: BTreeMap<(usize, String), String>,
    failures: Vec<String>,
}

impl CargoOutput {
    /// Reads a line. Returns whether it is worth showing: the output and the names of passed tests are not.
    pub(crate) fn read(&mut self, line: &str) -> bool {
        match (self.section, line) {
            (Section::Tests, "successes:") => self.section = Section::OutputOfPassed,
            (Section::Tests, "failures:") => self.section = Section::OutputOfFailed,
            (Section::OutputOfPassed, "successes:") => self.section = Section::NamesOfPassed,
            (Section::OutputOfPassed, _) => self.read_output(line),
            // The names of the passed tests end with an empty line, those of the failed tests need no state.
            (Section::NamesOfPassed, "") | (Section::OutputOfFailed, "failures:") => self.section = Section::Tests,
            (Section::Tests, _) => self.read_result(line),
            (Section::NamesOfPassed | Section::OutputOfFailed, _) => {}
        }
        !matches!(self.section, Section::OutputOfPassed | Section::NamesOfPassed)
    }

    fn read_output(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            name.clone_into(&mut self.test);
        } else if line.starts_with("skipped: ") {
            self.skips.entry((self.program, self.test.clone())).or_insert_with(|| line.to_owned());
        }
    }

    fn read_result(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.counts.passed += count_before(result, "passed");
            self.counts.failed += count_before(result, "failed");
            self.counts.skipped += count_before(result, "ignored");
            self.program += 1;
        } else if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failures.push(name.to_owned());
        }
    }

    /// Returns a line for each skipped test: `skipped: ` with the reason, and the name of the test.
    pub(crate) fn skips(&self) -> impl Iterator<Item = String> {
        self.skips.iter().map(|((_, test), reason)| format!("{reason} ({test})"))
    }

    /// Returns the outcome; skipped tests are not counted as passed.
    pub(crate) fn outcome(self, is_success: bool) -> Outcome {
        let skipped = self.skips.len() as u64;
        let Counts { passed, failed, skipped: ignored } = self.counts;
        let counts = Counts { passed: passed.saturating_sub(skipped), failed, skipped: ignored + skipped };
        Outcome { counts: counts.at_least_one_failed_unless(is_success), failures: self.failures }
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

    fn read(text: &str) -> CargoOutput {
        let mut output = CargoOutput::default();
        for line in text.lines() {
            output.read(line);
        }
        output
    }

    #[test]
    fn cargo_summaries_are_added_up() {
        let text = "running 2 tests\ntest a ... ok\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 4 filtered out; finished in 1.25s";
        assert_eq!(read(text).outcome(false).counts, Counts { passed: 15, failed: 2, skipped: 1 });
    }

    #[test]
    fn a_failed_build_counts_as_a_failure() {
        assert_eq!(read("error: could not compile").outcome(false).counts.failed, 1);
        assert!(!read("").outcome(true).counts.is_good(), "nothing ran");
    }

    /// The output of `cargo test --no-fail-fast -- --show-output` with two test programs.
    const SHOWN: &str = "\nrunning 4 tests\ntest a::b ... ok\ntest c ... ok\ntest d ... FAILED\ntest e ... ok\n\n\
        successes:\n\n---- a::b stdout ----\nrow 1\nskipped: no root\nskipped: no IPv6\n\n\
        ---- c stdout ----\nfailures:\ntest result: ok. 7 passed; 0 failed\n\n\n\
        successes:\n    a::b\n    c\n    e\n\nfailures:\n\n---- d stdout ----\nskipped: a part\nassertion failed\n\n\n\
        failures:\n    d\n\ntest result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\n\
        running 1 test\ntest a::b ... ok\n\nsuccesses:\n\n---- a::b stdout ----\nskipped: no strace\n\n\n\
        successes:\n    a::b\n\ntest result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n\n\
        running 0 tests\n\nsuccesses:\n\nsuccesses:\n\n\
        test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";

    /// Guards against a skipped test that counts as passed.
    #[test]
    fn a_skipped_test_is_counted_once_and_did_not_pass() {
        let output = read(SHOWN);
        let skips: Vec<String> = output.skips().collect();
        assert_eq!(skips, ["skipped: no root (a::b)", "skipped: no strace (a::b)"]);
        let outcome = output.outcome(false);
        assert_eq!(outcome.counts, Counts { passed: 2, failed: 1, skipped: 4 });
        assert_eq!(outcome.failures, ["d"]);
    }

    #[test]
    fn the_output_of_passed_tests_is_not_shown() {
        let mut output = CargoOutput::default();
        let shown: Vec<&str> = SHOWN.lines().filter(|line| output.read(line) && !line.is_empty()).collect();
        let expected = [
            "running 4 tests",
            "test a::b ... ok",
            "test c ... ok",
            "test d ... FAILED",
            "test e ... ok",
            "failures:",
            "---- d stdout ----",
            "skipped: a part",
            "assertion failed",
            "failures:",
            "    d",
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
            "running 1 test",
            "test a::b ... ok",
            "test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out",
            "running 0 tests",
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_node_summary_is_read() {
        let text = "ok 1 - hover\nnot ok 2 - a - b\n\
            # tests 6\n# suites 0\n# pass 3\n# fail 1\n# cancelled 1\n# skipped 1\n# todo 0";
        let outcome = Outcome::of_node(&lines(text), false);
        assert_eq!(outcome.counts, Counts { passed: 3, failed: 2, skipped: 1 });
        assert_eq!(outcome.failures, ["a - b"]);
    }

    /// Guards against browser tests that are not found, which node reports as success.
    #[test]
    fn a_node_run_without_tests_is_a_failure() {
        let text = "TAP version 13\n1..0\n# tests 0\n# suites 0\n# pass 0\n# fail 0\n# cancelled 0\n# skipped 0";
        assert_eq!(Counts::of_node(&lines(text), true), Counts { passed: 0, failed: 1, skipped: 0 });
        assert_eq!(Counts::of_node(&lines("# pass 0\n# skipped 3"), true).failed, 1);
    }
}
