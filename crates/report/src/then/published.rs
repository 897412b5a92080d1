//! The published results of the studies, with their sources, and published figures that contradict one another.

use crate::quantity::{digits, factor};
use serde::Serialize;

/// A published result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Published {
    /// What was measured.
    pub what: &'static str,
    /// The figure, or the words if no figure was published.
    pub value: &'static str,
    /// The source.
    pub source: &'static str,
}

/// Two published statements about one ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contradiction {
    /// The ratio.
    pub what: &'static str,
    /// Each statement and the ratio that follows from it.
    pub statements: Vec<(&'static str, f64)>,
    /// The largest of these ratios over the smallest.
    pub apart: f64,
    /// Whether rounding explains the difference.
    pub agree: bool,
}

/// Statements that were rounded to two digits differ by less than this factor.
const ROUNDED: f64 = 1.1;

/// The published times of the file test, in seconds for all files, from the follow-up of 2001.
pub(super) const LINUX_S: f64 = 542.0;
pub(super) const FREEBSD_ASYNC_S: f64 = 630.0;
pub(super) const FREEBSD_S: f64 = 2_398.0;
pub(super) const SOLARIS_S: f64 = 3_990.0;

/// The published ratios: throughput of the architectures, of the mail engine by system, and of the file test.
pub(super) const EXEC_TIMES: f64 = 12.0;
pub(super) const EXEC_SHARE: f64 = 0.05;
pub(super) const THREAD_TIMES: f64 = 1.35;
const BEST_TO_WORST: f64 = 1.75;
const TUNED_TO_UNTUNED: f64 = 1.27;
const FREEBSD_TIMES: f64 = 6.0;
const SOLARIS_TIMES: f64 = 10.0;
const ASYNC_TIMES: f64 = 3.8;

impl Contradiction {
    fn of(what: &'static str, statements: &[(&'static str, f64)]) -> Self {
        let ratios = || statements.iter().map(|statement| statement.1);
        let apart = ratios().fold(0.0, f64::max) / ratios().fold(f64::INFINITY, f64::min);
        Self { what, statements: statements.to_vec(), apart, agree: apart < ROUNDED }
    }

    /// Returns the statements with their ratios, and whether they agree.
    pub fn sentence(&self) -> String {
        let every: Vec<String> =
            self.statements.iter().map(|(words, ratio)| format!("{words}: {}", factor(*ratio))).collect();
        let verdict = if self.agree { "They agree" } else { "They contradict each other" };
        format!("{}: {}. {verdict} ({} apart).", self.what, every.join("; "), factor(self.apart))
    }
}

/// Returns the ratios of the study of 2001 that were published twice, each by two statements.
pub(super) fn of_2001() -> Vec<Contradiction> {
    vec![
        Contradiction::of(
            "Event loop over a process for each connection",
            &[
                ("\"12x\" (findings, summary)", EXEC_TIMES),
                ("\"about 5 percent\" (architecture test)", 1.0 / EXEC_SHARE),
            ],
        ),
        Contradiction::of(
            "File test, FreeBSD over Linux",
            &[("\"6x\" (article)", FREEBSD_TIMES), ("2,398 s and 542 s (follow-up)", FREEBSD_S / LINUX_S)],
        ),
        Contradiction::of(
            "File test, Solaris over Linux",
            &[("\"10x\" (article)", SOLARIS_TIMES), ("3,990 s and 542 s (follow-up)", SOLARIS_S / LINUX_S)],
        ),
        Contradiction::of(
            "File test, Solaris over FreeBSD",
            &[
                ("10 and 6 (article)", SOLARIS_TIMES / FREEBSD_TIMES),
                ("3,990 s and 2,398 s (follow-up)", SOLARIS_S / FREEBSD_S),
            ],
        ),
        Contradiction::of(
            "File test, FreeBSD without and with the async option",
            &[
                ("\"3.8 times\" (follow-up)", ASYNC_TIMES),
                ("2,398 s and 630 s (follow-up)", FREEBSD_S / FREEBSD_ASYNC_S),
            ],
        ),
        Contradiction::of(
            "Mail, Linux over tuned FreeBSD",
            &[
                ("75% from best to worst, FreeBSD 27% faster when tuned", BEST_TO_WORST / TUNED_TO_UNTUNED),
                ("\"as fast as an untuned version of Linux\" to 1,500 sends", 1.0),
            ],
        ),
    ]
}

/// Describes what the ratios of the file test have in common: the time of Linux that each of them implies.
pub(crate) fn implied_linux() -> String {
    let (freebsd, solaris) = (FREEBSD_S / FREEBSD_TIMES, SOLARIS_S / SOLARIS_TIMES);
    format!(
        "\"6x\" and \"10x\" imply one time of Linux, {} s and {} s; the follow-up has {} s, {} of that. So the two \
         articles report different runs of Linux.",
        digits(freebsd),
        digits(solaris),
        digits(LINUX_S),
        factor(LINUX_S / freebsd)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand: 1/0.05 = 20; 2398/542 = 4.424; 3990/542 = 7.362; 10/6 = 1.667, 3990/2398 = 1.664; 2398/630 =
    /// 3.806; 1.75/1.27 = 1.378; 2398/6 = 399.7, 3990/10 = 399.
    #[test]
    fn the_ratios_of_2001_are_those_of_its_figures() {
        let every = of_2001();
        let ratios: Vec<[String; 2]> =
            every.iter().map(|one| [digits(one.statements[0].1), digits(one.statements[1].1)]).collect();
        let texts = |one: [&str; 2]| one.map(str::to_owned);
        let expected = [["12", "20"], ["6", "4.42"], ["10", "7.36"], ["1.67", "1.66"], ["3.8", "3.81"], ["1.38", "1"]];
        assert_eq!(ratios, expected.map(texts));
        let agree: Vec<bool> = every.iter().map(|one| one.agree).collect();
        assert_eq!(agree, [false, false, false, true, true, false]);
        assert!(every[0].sentence().ends_with("They contradict each other (×1.67 apart)."), "{}", every[0].sentence());
        assert!(implied_linux().contains("400 s and 399 s"), "{}", implied_linux());
    }
}
