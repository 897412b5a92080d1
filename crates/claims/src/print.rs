//! Prints claims in the form that is shown, which parses to the same claim.

use crate::{Assertion, Claim, Law, Reference, Relation, Subject, Unit};
use std::fmt;

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |word: &str, n: Option<u64>| n.map_or(String::new(), |n| format!(" {word} {n}"));
        let subject = &self.subject;
        match &self.assertion {
            Assertion::Cost { relation, bound, n } => write!(f, "{subject}@{n} {relation} {bound}"),
            Assertion::Constant { within, to } => {
                // A tenth of a percent has no exact binary form.
                let percent = (within * 100.0 * 1e9).round() / 1e9;
                write!(f, "{subject}: O(1) within {percent}%{}", end("to", *to))
            }
            Assertion::Follows { law, to } => write!(f, "{subject}: {law}{}", end("to", *to)),
            Assertion::AtMost { law, to } => write!(f, "{subject}: grows at most {law}{}", end("to", *to)),
            Assertion::Growth { relation, factor, to } => {
                write!(f, "{subject}: grows {relation} {factor}x{}", end("to", *to))
            }
            Assertion::Ratio { relation, factor, of, n } => {
                write!(f, "{subject}: {relation} {factor}x {of} at {n}")
            }
            Assertion::NoRecurringOutlier { below } => {
                write!(f, "{subject}: no recurring outlier{}", end("below", *below))
            }
            Assertion::NoCliff { below } => write!(f, "{subject}: no cliff{}", end("below", *below)),
            Assertion::NoLimit { below } => write!(f, "{subject}: no limit{}", end("below", *below)),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.benchmark)?;
        for word in self.words.iter().map(String::as_str).chain(self.unit.map(Unit::name)) {
            write!(f, ".{word}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base => f.write_str("base"),
            Self::Subject(subject) => subject.fmt(f),
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Below => "<",
            Self::AtMost => "<=",
            Self::Above => ">",
            Self::AtLeast => ">=",
        })
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Constant => "O(1)",
            Self::Logarithmic => "O(log n)",
            Self::Root => "O(sqrt n)",
            Self::Linear => "O(n)",
            Self::Linearithmic => "O(n log n)",
            Self::Power => "O(n sqrt n)",
            Self::Quadratic => "O(n^2)",
        })
    }
}

impl Unit {
    /// Returns the name of the unit in claims and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Instructions => "instructions",
        }
    }
}
