//! The studies of 2001, 2003 and 2004, replayed: each test by its authors' method and by this program's, and where the
//! conclusion changes.
//!
//! A record of the study `then` has two kinds of cases. Those with a [`Replay`](landau_record::schema::Replay) have an
//! earlier study's parameters and number of runs; their samples are read here by that study's method, and nowhere else.
//! The others are judged like any. Every sentence is computed: the conclusion by an author's method follows from his
//! samples by a rule, which METHODOLOGY.md states, and no sentence says more than the two results.

mod published;
mod reading;
mod render;
mod study_2001;
mod study_2003;
mod study_2004;

use crate::Analysis;
pub(crate) use published::implied_linux;
pub use published::{Contradiction, Published};
pub use render::render;
use serde::Serialize;

/// An earlier study, replayed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Article {
    /// The year by which it is called.
    pub year: &'static str,
    /// Authors, title, where and when.
    pub citation: &'static str,
    /// What the authors asked.
    pub asked: &'static str,
    /// Their method in general.
    pub method: &'static str,
    /// The tests, as far as the record has them.
    pub tests: Vec<Test>,
    /// Published figures that contradict one another.
    pub contradictions: Vec<Contradiction>,
}

/// A test of an earlier study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Test {
    /// Its name.
    pub name: &'static str,
    /// What it asks.
    pub asked: &'static str,
    /// What the authors published.
    pub published: Vec<Published>,
    /// How they measured it.
    pub method: &'static str,
    /// What their method gives here, in sentences.
    pub then: Vec<String>,
    /// What the corrected method gives here, in sentences.
    pub now: Vec<String>,
    /// Whether the method changes the conclusion.
    pub change: Change,
    /// The conclusion: by which method what, and what was published.
    pub conclusion: String,
    /// Why it changes or stays.
    pub why: Vec<String>,
    /// What the figures show.
    #[serde(skip)]
    pub(crate) figure: Option<Figure>,
}

/// Whether two methods lead to the same conclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// They do not.
    Changes,
    /// They do.
    Stays,
    /// One of them gives no answer.
    Open,
}

impl Change {
    /// Returns the change in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Changes => "changes",
            Self::Stays => "stays",
            Self::Open => "open",
        }
    }
}

/// The curves of a test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// What n counts.
    pub(crate) axis: String,
    /// Samples as the author would plot them: n, cost in nanoseconds.
    pub(crate) samples: Vec<(f64, f64)>,
    /// Of what these samples are.
    pub(crate) sampled: &'static str,
    /// The points of the corrected method, by name.
    pub(crate) curves: Vec<(String, Vec<(f64, f64)>)>,
}

/// A curve that an article reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// The study whose method it has; none for the corrected method.
    pub study: Option<&'static str>,
    /// The benchmark.
    pub benchmark: &'static str,
    /// Settings that its case has.
    pub settings: &'static [(&'static str, &'static str)],
    /// The phase.
    pub phase: &'static str,
}

/// Returns every curve that the articles read, so that a test can find those that no record has.
pub fn subjects() -> Vec<Subject> {
    [study_2001::subjects(), study_2003::subjects(), study_2004::subjects()].concat()
}

/// Returns the studies that a record replays, in the order of their years; none for any other record.
pub fn of(analysis: &Analysis<'_>) -> Vec<Article> {
    if !analysis.record.cases.iter().any(|case| case.replay.is_some()) {
        return Vec::new();
    }
    let every = [study_2001::replay(analysis), study_2003::replay(analysis), study_2004::replay(analysis)];
    every.into_iter().filter(|article| !article.tests.is_empty()).collect()
}

#[cfg(test)]
mod tests;
