//! Claims about how a cost grows: `bind: O(1) within 10% to 10000`, `fork.dynamic: < 1.1x base at 3000`.
//!
//! `landau check`, `landau lab test` and `landau lab bisect` share this grammar. The crate parses and prints claims and
//! depends on neither records nor statistics: `landau-report` binds a claim to a record, and `landau-stats` decides it.
//!
//! ```text
//! claim     = subject ":" assertion
//!           | subject "." unit "@" N relation NUMBER             a cost at n = N
//! subject   = BENCHMARK { "." WORD } [ "." unit ]                WORD: a phase, "*" for all phases, SETTING=VALUE, or
//!                                                                a value that only one setting has
//! unit      = "ns" | "instructions"
//! assertion = law [ "within" PERCENT ] [ "to" N ]                "within" with O(1) only [default: 10%]
//!           | "grows" "at" "most" law [ "to" N ]
//!           | "grows" relation FACTOR "x" [ "to" N ]             the cost at N over the cost at the smallest n
//!           | relation COST "at" N
//!           | relation FACTOR "x" ( "base" | subject ) "at" N    a ratio of costs
//!           | "no" ( "cliff" | "limit" | "recurring" "outlier" ) [ "below" N ]
//! law       = "O(1)" | "O(log n)" | "O(sqrt n)" | "O(n)" | "O(n log n)" | "O(n sqrt n)" | "O(n^2)"
//! relation  = "<" | "<=" | ">" | ">="
//! COST      = NUMBER "instructions" | NUMBER ( "ns" | "us" | "ms" | "s" )
//! ```

mod cursor;
mod parse;
mod print;

pub use parse::{parse, parse_lines};
use std::str::FromStr;

/// A claim about one curve, or about all phases of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The curve.
    pub subject: Subject,
    /// The assertion about it.
    pub assertion: Assertion,
}

/// The curve that a claim is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The benchmark.
    pub benchmark: String,
    /// A phase, `*` for all phases, settings as `SETTING=VALUE`, or values of settings. Without a phase, the subject is
    /// the phase with the name of the benchmark, or otherwise the first phase.
    pub words: Vec<String>,
    /// The unit that the record must have, if the claim requires one.
    pub unit: Option<Unit>,
}

/// The unit of the costs of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Instructions under an emulator.
    Instructions,
}

/// An assertion about a curve. An n is a number of objects, at least 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Assertion {
    /// The cost at every n differs from that at small n by at most the margin.
    Constant {
        /// The margin, a fraction.
        within: f64,
        /// The largest n; the whole curve without it.
        to: Option<u64>,
    },
    /// The cost follows this law, which is not O(1).
    Follows {
        /// The law.
        law: Law,
        /// The largest n; the whole curve without it.
        to: Option<u64>,
    },
    /// The cost grows by this law or by a slower one.
    AtMost {
        /// The law.
        law: Law,
        /// The largest n; the whole curve without it.
        to: Option<u64>,
    },
    /// The cost at large n over that at the smallest n compares with a factor.
    Growth {
        /// The relation.
        relation: Relation,
        /// The factor.
        factor: f64,
        /// The largest n; the whole curve without it.
        to: Option<u64>,
    },
    /// The cost at one n compares with a bound.
    Cost {
        /// The relation.
        relation: Relation,
        /// The bound, in the unit of the subject.
        bound: f64,
        /// The n.
        n: u64,
    },
    /// The cost at one n over that of another curve at the same n compares with a factor.
    Ratio {
        /// The relation.
        relation: Relation,
        /// The factor.
        factor: f64,
        /// The other curve.
        of: Reference,
        /// The n.
        n: u64,
    },
    /// No call costs much more than those around it at the same n in most passes.
    NoRecurringOutlier {
        /// The n from which recurring outliers are allowed; if `None`, there must be none.
        below: Option<u64>,
    },
    /// The cost does not jump.
    NoCliff {
        /// The n from which it may jump; if `None`, it must not jump anywhere.
        below: Option<u64>,
    },
    /// The kernel refuses no object.
    NoLimit {
        /// The n from which it may; if `None`, it must not refuse any.
        below: Option<u64>,
    },
}

/// The other side of a ratio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The same curve in the base record.
    Base,
    /// Another curve in the same record.
    Subject(Subject),
}

/// The laws that a claim can name, in order of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// O(1)
    Constant,
    /// O(log n)
    Logarithmic,
    /// O(√n)
    Root,
    /// O(n)
    Linear,
    /// O(n log n)
    Linearithmic,
    /// O(n√n)
    Power,
    /// O(n²)
    Quadratic,
}

/// The relation between a value and its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

/// The error for a text that is not a claim: the position, what was expected there, and what was found. Lines and
/// columns begin at 1; columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct ParseError {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// The expected text.
    pub expected: String,
    /// The text that was found.
    pub found: String,
}

/// A claim with its line in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// The line, from 1.
    pub line: usize,
    /// The claim as it was typed, without its comment.
    pub text: String,
    /// The claim.
    pub claim: Claim,
}

/// Number of calls beyond an n that show whether there is a cliff below it: two blocks of 16, the last of which may be
/// incomplete.
const BEYOND_CLIFF: u64 = 32;
/// The margin of `O(1)` without `within`.
pub const WITHIN: f64 = 0.1;

impl Law {
    /// The laws in order of growth.
    pub const ALL: [Self; 7] =
        [Self::Constant, Self::Logarithmic, Self::Root, Self::Linear, Self::Linearithmic, Self::Power, Self::Quadratic];

    /// Returns the name of the law in the dictionary of `landau-stats`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Logarithmic => "logarithmic",
            Self::Root => "root",
            Self::Linear => "linear",
            Self::Linearithmic => "linearithmic",
            Self::Power => "power",
            Self::Quadratic => "quadratic",
        }
    }
}

impl Claim {
    /// Returns the largest n that the claim names, if it names one.
    pub fn n(&self) -> Option<u64> {
        match self.assertion {
            Assertion::Cost { n, .. } | Assertion::Ratio { n, .. } => Some(n),
            Assertion::Constant { to, .. }
            | Assertion::Follows { to, .. }
            | Assertion::AtMost { to, .. }
            | Assertion::Growth { to, .. } => to,
            Assertion::NoRecurringOutlier { below } | Assertion::NoCliff { below } | Assertion::NoLimit { below } => {
                below
            }
        }
    }

    /// Returns the number of objects to measure for the claim, if it names an n. It is slightly larger than that n,
    /// because the cost at an n is based on the calls on both sides of it, and a cliff is visible in the calls beyond
    /// it.
    pub fn steps(&self) -> Option<u64> {
        self.n().map(|n| match self.assertion {
            // Fewer than twice that many calls are too few to judge.
            Assertion::NoCliff { .. } => (n + n.div_ceil(100).max(BEYOND_CLIFF)).max(2 * BEYOND_CLIFF),
            _ => n + n.div_ceil(100),
        })
    }

    /// Returns whether the claim needs a base record.
    pub fn needs_base(&self) -> bool {
        matches!(self.assertion, Assertion::Ratio { of: Reference::Base, .. })
    }
}

impl ParseError {
    /// Returns the error without its line, for a single claim.
    pub fn in_line(&self) -> String {
        format!("column {}: expected {}, found {}", self.column, self.expected, self.found)
    }
}

impl FromStr for Claim {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse(text, 1)
    }
}

#[cfg(test)]
mod tests;
