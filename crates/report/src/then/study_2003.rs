//! The study of 2003: system calls and a web server on five kernels, plotted sample by sample.

use super::reading::{
    Answer, Author, Settings, absent, at_end, change, cliff_beyond, judged, mismatch, phase, plot, points, ratio,
    ratio_text, reasons, seen, verdict,
};
use super::{Article, Change, Figure, Published, Subject, Test};
use crate::quantity::{count, factor};
use crate::{Analysis, PhaseStudy, unit_of};
use landau_stats::by_eye::{Reading, by_eye};
use landau_stats::{Class, Estimate};

const STUDY: &str = "2003";

const ARTICLE: &str = "F. von Leitner, Benchmarking BSD and Linux, October 2003";

const CITATION: &str = "F. von Leitner, \"Benchmarking BSD and Linux\" (October and November 2003), on a Pentium III \
                        of 900 MHz with Linux 2.4.22 and 2.6.0-test7, OpenBSD 3.4, FreeBSD 5.1 and NetBSD 1.6.1. Its \
                        results are graphs, which are images, and words; so the rows below quote words.";

const METHOD: &str = "Each program ran five times and every sample was plotted; the law was read from the plot. The \
                      programs did not check whether a call had succeeded until 6 November 2003, and destruction was \
                      not timed until 23 October.";

/// A question that one curve answers.
struct Question {
    name: &'static str,
    asked: &'static str,
    published: &'static [Published],
    /// The published result for Linux 2.6.
    answer: Reading,
    method: &'static str,
    author: (&'static str, Settings),
    author_phase: &'static str,
    /// The step of the author's clock, in nanoseconds.
    step_ns: u64,
    corrected: (&'static str, Settings),
    phase: &'static str,
    /// Other curves of the corrected method that belong to the answer: a name, the case, and the phase.
    beside: &'static [(&'static str, (&'static str, Settings), &'static str)],
}

/// The step of `gettimeofday()`.
const MICROSECOND: u64 = 1_000;

const FORK: Settings = &[("linkage", "dynamic"), ("order", "creation")];
const STATIC: Settings = &[("linkage", "static"), ("order", "creation")];

const fn words(what: &'static str, value: &'static str) -> Published {
    Published { what, value, source: ARTICLE }
}

const QUESTIONS: [Question; 9] = [
    Question {
        name: "socket",
        asked: "Does socket() cost more when thousands are open?",
        published: &[
            words("all systems", "\"all the operating systems scale quite well … there is no O(n)\""),
            words("FreeBSD", "\"suddenly being so much faster\" from about 3,500 sockets on"),
            Published {
                what: "FreeBSD, explained",
                value: "the program did not see that its calls failed at a full descriptor table",
                source: "C. Jeker, README of an accept and connect test for OpenBSD",
            },
        ],
        answer: Reading::Constant,
        method: "10,000 calls in the program that also binds, timed by the processor's cycle counter.",
        author: ("bind", &[]),
        author_phase: "socket",
        step_ns: 1,
        corrected: ("socket", &[("threads", "0")]),
        phase: "socket",
        beside: &[
            ("close, not timed in 2003", ("socket", &[("threads", "0")]), "close"),
            ("socket with one idle thread, not tried in 2003", ("socket", &[("threads", "1")]), "socket"),
        ],
    },
    Question {
        name: "bind",
        asked: "Does bind() to port 0 cost more when thousands of ports are in use?",
        published: &[
            words("Linux 2.4 and 2.6, FreeBSD", "\"All three graphs are in the same area, … O(1)\""),
            words("NetBSD, OpenBSD", "\"scale O(n) here\""),
        ],
        answer: Reading::Constant,
        method: "10,000 calls, timed by the processor's cycle counter.",
        author: ("bind", &[]),
        author_phase: "bind",
        step_ns: 1,
        corrected: ("bind", &[]),
        phase: "bind",
        beside: &[("close, not timed in 2003", ("bind", &[]), "close")],
    },
    Question {
        name: "fork",
        asked: "Does fork() cost more when thousands of processes exist?",
        published: &[
            words("Linux 2.6", "\"The clear winner in the graph\"; \"scales O(1) in all benchmarks\""),
            words("Linux 2.4", "\"alternated randomly between a point in the O(1) graph and one in the O(n) graph\""),
            words("NetBSD, OpenBSD", "\"NetBSD scales O(n)\", \"OpenBSD does not scale at all\""),
        ],
        answer: Reading::Constant,
        method: "3,000 children of a dynamically linked program; from fork() until the parent has read a byte from the \
                 child, by gettimeofday().",
        author: ("fork", FORK),
        author_phase: "byte",
        step_ns: MICROSECOND,
        corrected: ("fork", FORK),
        phase: "byte",
        beside: &[("the same, statically linked", ("fork", STATIC), "byte")],
    },
    Question {
        name: "fork cleanup",
        asked: "Does killing and reaping a process cost more when thousands exist?",
        published: &[words("Linux 2.6", "\"the first graph where Linux 2.6 does not perform O(1)\"")],
        answer: Reading::Grows,
        method: "Suggested by N. Provos and added after the first version: kill() and waitpid() of each child, the \
                 oldest first, by gettimeofday().",
        author: ("fork", FORK),
        author_phase: "reap",
        step_ns: MICROSECOND,
        corrected: ("fork", FORK),
        phase: "reap",
        beside: &[("kill alone", ("fork", FORK), "kill")],
    },
    Question {
        name: "mmap",
        asked: "Does mmap() of a page cost more when thousands of mappings exist?",
        published: &[
            words("Linux 2.6", "\"the clear winner, scaling O(1) in every respect\""),
            words("Linux 2.4, NetBSD, FreeBSD", "\"three clear losers\""),
        ],
        answer: Reading::Constant,
        method: "10,000 mappings of every second page of a file of 200 MB, timed by the cycle counter; none unmapped.",
        author: ("mmap", &[]),
        author_phase: "mmap",
        step_ns: 1,
        corrected: ("mmap", &[]),
        phase: "mmap",
        beside: &[("munmap, not timed in 2003", ("mmap", &[]), "munmap")],
    },
    Question {
        name: "touch",
        asked: "Does the first read of a mapped page cost more when thousands of mappings exist?",
        published: &[words("Linux 2.6", "\"Linux 2.4 appears to scale O(n), while Linux 2.6 is O(1)\"")],
        answer: Reading::Constant,
        method: "The first byte of each page that was just mapped, timed by the cycle counter.",
        author: ("mmap", &[]),
        author_phase: "touch",
        step_ns: 1,
        corrected: ("mmap", &[]),
        phase: "touch",
        beside: &[],
    },
    Question {
        name: "open",
        asked: "Does open() of a small file cost more when thousands are open and mapped?",
        published: &[words("Linux 2.6", "\"appears to be the only one achieving O(1) here\"")],
        answer: Reading::Constant,
        method: "10,000 files in 100 directories, opened, mapped and touched; added on the suggestion of T. L. Simon.",
        author: ("map_files", &[]),
        author_phase: "open",
        step_ns: 1,
        corrected: ("map_files", &[]),
        phase: "open",
        beside: &[("mmap", ("map_files", &[]), "mmap"), ("touch", ("map_files", &[]), "touch")],
    },
    Question {
        name: "connect latency",
        asked: "Does a web server take longer to accept a connection when thousands are idle?",
        published: &[
            words("Linux, FreeBSD", "graphs omitted \"because they were O(1), as expected\""),
            words("OpenBSD, NetBSD", "OpenBSD with kqueue O(n), NetBSD with poll O(1)"),
        ],
        answer: Reading::Constant,
        method: "connect() alone, by gettimeofday(), beside idle connections that never sent a byte.",
        author: ("connect", &[]),
        author_phase: "handshake",
        step_ns: MICROSECOND,
        corrected: ("connect", &[]),
        phase: "accept",
        beside: &[("handshake, what the study timed", ("connect", &[]), "handshake")],
    },
    Question {
        name: "HTTP request latency",
        asked: "Does a web server take longer to answer when thousands of connections are idle?",
        published: &[
            words("Linux 2.4, Linux 2.6", "\"perform equally O(1) here\""),
            words("NetBSD", "\"The clear loser … they simply don't offer a better API than poll\""),
        ],
        answer: Reading::Constant,
        method: "A request on the connection that was opened last, by gettimeofday().",
        author: ("connect", &[]),
        author_phase: "last_byte",
        step_ns: MICROSECOND,
        corrected: ("request", &[("backend", "epoll")]),
        phase: "last_byte",
        beside: &[("the same server with poll", ("request", &[("backend", "poll")]), "last_byte")],
    },
];

/// Returns the curves that this article uses.
pub(super) fn subjects() -> Vec<Subject> {
    let of = |question: &Question| {
        let subject = |study, (benchmark, settings), phase| Subject { study, benchmark, settings, phase };
        let beside = question.beside.iter().map(move |(_, case, phase)| subject(None, *case, *phase));
        let own = [
            subject(Some(STUDY), question.author, question.author_phase),
            subject(None, question.corrected, question.phase),
        ];
        own.into_iter().chain(beside).collect::<Vec<_>>()
    };
    QUESTIONS.iter().flat_map(of).collect()
}

pub(super) fn replay(analysis: &Analysis<'_>) -> Article {
    let mut tests: Vec<Test> = QUESTIONS.iter().filter_map(|question| question.test(analysis)).collect();
    let place = tests.iter().position(|test| test.name == "fork").map_or(tests.len(), |place| place + 1);
    if let Some(test) = static_fork(analysis) {
        tests.insert(place, test);
    }
    Article {
        year: STUDY,
        citation: CITATION,
        asked: "Which kernel scales for network programs, and how does the cost of each call grow?",
        method: METHOD,
        tests,
        contradictions: Vec::new(),
    }
}

impl Question {
    /// Replays the test, if the record has a part of it.
    fn test(&self, analysis: &Analysis<'_>) -> Option<Test> {
        let unit = unit_of(analysis.record);
        let author = Author::find(analysis, STUDY, self.author, self.author_phase);
        let study = judged(analysis, self.corrected);
        let own = study.and_then(|study| phase(study, self.phase));
        if author.is_none() && own.is_none() {
            return None;
        }
        let eye = author.as_ref().and_then(|author| by_eye(&author.curve, self.step_ns));
        let clock = if self.step_ns == MICROSECOND { ", in whole microseconds" } else { "" };
        let then = eye
            .as_ref()
            .map_or_else(|| absent(analysis, self.author.0), |eye| plot(self.author_phase, eye, unit, clock));
        let mut now = vec![own.map_or_else(|| absent(analysis, self.corrected.0), |own| verdict(self.phase, own))];
        for (name, case, other) in self.beside {
            let found = judged(analysis, *case).and_then(|study| phase(study, other));
            now.extend(found.map(|found| verdict(name, found)));
        }
        if let Some(met) = study.and_then(|study| study.limit.as_ref()) {
            now.push(format!(
                "The curve ends at n = {} with {}: {}.",
                met.at(),
                met.limit.error,
                met.limit.meaning.trim_end_matches('.')
            ));
        }
        let own_n = eye.as_ref().map_or(f64::INFINITY, |eye| f64::from(eye.largest_n));
        let both = author.as_ref().zip(study).zip(own);
        let mismatch = both.and_then(|((author, study), own)| mismatch(author, study, own, &[]));
        let (change, mut conclusion) = match &mismatch {
            Some(reason) => (Change::Open, format!("Open: {reason}.")),
            None => self.conclusion(eye.map(|eye| eye.reading), own.map(|own| Answer::of(own, own_n))),
        };
        let mut why = Vec::new();
        if let (Some(eye), Some(own), None) = (eye, own, mismatch) {
            if let Some(cliff) = cliff_beyond(own, own_n) {
                let beyond = format!(" Beyond the study's axis there is a cliff at n = {}.", count(cliff.n.value));
                conclusion.push_str(&beyond);
            }
            why = reasons(&eye, own);
        }
        why.extend(self.outliers(analysis));
        let case = study.map(|study| study.case).or(author.as_ref().map(|author| author.case));
        let axis = case.map_or("n", |case| &case.axis);
        Some(Test {
            name: self.name,
            asked: self.asked,
            published: self.published.to_vec(),
            method: self.method,
            then: vec![then],
            now,
            change,
            conclusion,
            why,
            figure: figure(axis, author.as_ref(), own, self.phase),
        })
    }

    fn conclusion(&self, reading: Option<Reading>, answer: Option<Answer>) -> (Change, String) {
        let (Some(reading), Some(answer)) = (reading, answer) else {
            return (Change::Open, "Open: one of the two methods has no samples in this record.".to_owned());
        };
        let change = change(reading, answer);
        let method = match change {
            Change::Open => {
                let text = format!(
                    "Open: by eye {}; the corrected method does not resolve the curve on this machine today.",
                    seen(reading)
                );
                return (change, text);
            }
            Change::Stays => format!("The method does not change the conclusion: {} by both.", answer.word()),
            Change::Changes => format!(
                "The method changes the conclusion: {} by eye, {} by the corrected method.",
                seen(reading),
                answer.word()
            ),
        };
        let time = if answer.agrees(self.answer) {
            "That is what was published for Linux 2.6.".to_owned()
        } else if reading == self.answer {
            "The study's own method still gives what was published for Linux 2.6.".to_owned()
        } else {
            format!("For Linux 2.6 {} was published; this kernel differs.", seen(self.answer))
        };
        (change, format!("{method} {time}"))
    }

    /// Describes where one of the `beside` curves has recurring outliers that the answer's own curve lacks.
    fn outliers(&self, analysis: &Analysis<'_>) -> Vec<String> {
        let count = |phase: &PhaseStudy<'_>| phase.verdict.outliers.recurring_count;
        let own = judged(analysis, self.corrected).and_then(|study| phase(study, self.phase)).map_or(0, count);
        let more = |(name, case, other): &(&'static str, (&'static str, Settings), &'static str)| {
            let found = judged(analysis, *case).and_then(|study| phase(study, other))?;
            let is_tried = case.1.contains(&("threads", "1"));
            (is_tried && count(found) > own).then(|| {
                format!("Medians do not show them: {name} has {} recurring outliers, {} without it.", count(found), own)
            })
        };
        self.beside.iter().filter_map(more).collect()
    }
}

fn figure(axis: &str, author: Option<&Author<'_>>, own: Option<&PhaseStudy<'_>>, name: &'static str) -> Option<Figure> {
    let samples = author.map(Author::samples).unwrap_or_default();
    let curves: Vec<_> = own.into_iter().map(|own| (name.to_owned(), points(own))).collect();
    (!samples.is_empty() || !curves.is_empty()).then(|| Figure {
        axis: axis.to_owned(),
        samples,
        sampled: name,
        curves,
    })
}

/// A static fork costs "almost half" if it costs at most this share of a dynamic one.
const ALMOST_HALF: f64 = 0.6;

/// Returns the static fork test: the ratio of two programs.
fn static_fork(analysis: &Analysis<'_>) -> Option<Test> {
    let authors = [FORK, STATIC].map(|settings| Author::find(analysis, STUDY, ("fork", settings), "byte"));
    let plots = authors.each_ref().map(|author| by_eye(&author.as_ref()?.curve, MICROSECOND));
    let cases = [FORK, STATIC].map(|settings| judged(analysis, ("fork", settings)));
    let ends = cases.map(|study| phase(study?, "byte"));
    let by_plot = plots[0].zip(plots[1]).map(|(dynamic, fixed)| fixed.right / dynamic.right);
    let corrected = ends[0].zip(ends[1]).and_then(|(dynamic, fixed)| ratio(&at_end(fixed), &at_end(dynamic)));
    let (by_plot, corrected) = (by_plot?, corrected?);
    let differs = |place: usize| mismatch(authors[place].as_ref()?, cases[place]?, ends[place]?, &[]);
    let (change, conclusion) = match differs(0).or_else(|| differs(1)) {
        Some(reason) => (Change::Open, format!("Open: {reason}.")),
        None => static_fork_conclusion(by_plot, corrected),
    };
    let grows = |phase: &PhaseStudy<'_>| phase.verdict.class() == Class::Material;
    let both = ends[0].zip(ends[1]).is_some_and(|(dynamic, fixed)| grows(dynamic) && grows(fixed));
    let why = if both {
        vec!["Both curves grow with the number of children, so a ratio of the two holds at one n.".to_owned()]
    } else {
        vec!["The ratio is taken at one n, in the same rounds; two plots do not say how far it varies.".to_owned()]
    };
    Some(Test {
        name: "static fork",
        asked: "How much of a fork is the parent's dynamic linkage?",
        published: vec![
            words("Linux 2.6, FreeBSD", "\"linking statically almost halves the fork latency on both systems\""),
            words("all BSDs", "\"fork is O(1) on all BSDs if the binaries are statically linked\" (23 October 2003)"),
        ],
        method: "The fork test with a static program, plotted beside the dynamic one.",
        then: vec![format!(
            "The right ends of the two plots: a static fork costs {} of a dynamic one.",
            factor(by_plot)
        )],
        now: vec![format!(
            "Medians of the last tenth of the children, paired by round: {} of a dynamic one, 95%.",
            ratio_text(corrected)
        )],
        change,
        conclusion,
        why,
        figure: None,
    })
}

/// Returns whether two plots and the corrected ratio agree that a static fork costs almost half, and the conclusion.
fn static_fork_conclusion(by_plot: f64, corrected: Estimate) -> (Change, String) {
    let is_half = by_plot <= ALMOST_HALF;
    let verdict = match corrected {
        one if !one.high.is_finite() => None,
        one if one.high <= ALMOST_HALF => Some(true),
        one if one.low > ALMOST_HALF => Some(false),
        _ => None,
    };
    let word = |is_half: bool| if is_half { "almost half" } else { "more than half" };
    match verdict {
        None if !corrected.high.is_finite() => {
            (Change::Open, "Open: the ratio of one pass has no interval.".to_owned())
        }
        None => (
            Change::Open,
            format!(
                "Open: the interval contains {}, up to which a static fork costs \"almost half\".",
                factor(ALMOST_HALF)
            ),
        ),
        Some(half) if half == is_half => {
            let time = if half { "as published for Linux 2.6 and FreeBSD" } else { "\"almost half\" was published" };
            (Change::Stays, format!("The method does not change the conclusion: {} by both; {time}.", word(half)))
        }
        Some(half) => (
            Change::Changes,
            format!(
                "The method changes the conclusion: {} by the plots, {} by the corrected method.",
                word(is_half),
                word(half)
            ),
        ),
    }
}
