//! The studies of 2001, 2003 and 2004, replayed: each test by its authors' method and by Landau's, and whether the
//! conclusion changes.
//!
//! A record of the study `then` has two kinds of cases. Those with a [`Replay`](landau_record::schema::Replay) have an
//! earlier study's parameters and number of runs. Their samples are read only here, by that study's method. The others
//! are judged like any case. Every sentence is computed: the conclusion by an author's method follows from his samples
//! by a rule, which METHODOLOGY.md states. No sentence says more than the two results.

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
    /// The year by which it is known.
    pub year: &'static str,
    /// Authors, title, place and date of publication.
    pub citation: &'static str,
    /// The authors' question.
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
    /// The question that it asks.
    pub asked: &'static str,
    /// What the authors published.
    pub published: Vec<Published>,
    /// How they measured it.
    pub method: &'static str,
    /// The result of their method here, in sentences.
    pub then: Vec<String>,
    /// The result of the corrected method here, in sentences.
    pub now: Vec<String>,
    /// Whether the method changes the conclusion.
    pub change: Change,
    /// The conclusion: the result of each method, and what was published.
    pub conclusion: String,
    /// Why it changes or stays.
    pub why: Vec<String>,
    /// The content of the figures.
    #[serde(skip)]
    pub(crate) figure: Option<Figure>,
}

/// Whether two methods lead to the same conclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The conclusions differ.
    Changes,
    /// The conclusions are the same.
    Stays,
    /// One of the methods gives no answer.
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
    /// A description of these samples.
    pub(crate) sampled: &'static str,
    /// The points of the corrected method, by name.
    pub(crate) curves: Vec<(String, Vec<(f64, f64)>)>,
}

/// A curve that an article uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// The study whose method it has; `None` for the corrected method.
    pub study: Option<&'static str>,
    /// The benchmark.
    pub benchmark: &'static str,
    /// Settings that its case must have.
    pub settings: &'static [(&'static str, &'static str)],
    /// The phase.
    pub phase: &'static str,
}

/// Returns every curve that the articles use, so that a test can find those that no record has.
pub fn subjects() -> Vec<Subject> {
    [study_2001::subjects(), study_2003::subjects(), study_2004::subjects()].concat()
}

/// Returns the studies that a record replays, in the order of their years; empty for any other record.
pub fn of(analysis: &Analysis<'_>) -> Vec<Article> {
    if !analysis.record.cases.iter().any(|case| case.replay.is_some()) {
        return Vec::new();
    }
    let every = [study_2001::replay(analysis), study_2003::replay(analysis), study_2004::replay(analysis)];
    every.into_iter().filter(|article| !article.tests.is_empty()).collect()
}

#[cfg(test)]
mod tests;
