//! Studies: how much of each benchmark is measured.

use landau_record::schema::Adaptive;
use serde::{Deserialize, Serialize};

/// A set of cases with their sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Study {
    /// One pass at a size that a test can run: does the benchmark work?
    Smoke,
    /// Minutes: the laws of growth.
    Quick,
    /// As long as it takes: past every capacity, with more passes.
    Full,
    /// The tests of the studies of 2001, 2003 and 2004, each by its authors' method and by this program's.
    Then,
}

impl Study {
    /// Returns the study of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Study::Smoke, Study::Quick, Study::Full, Study::Then].into_iter().find(|one| one.name() == name)
    }

    /// Returns the study's name.
    pub fn name(self) -> &'static str {
        match self {
            Study::Smoke => "smoke",
            Study::Quick => "quick",
            Study::Full => "full",
            Study::Then => "then",
        }
    }

    /// Returns the default number of passes of each case.
    pub fn pass_count(self) -> u32 {
        match self {
            Study::Smoke => 1,
            Study::Quick | Study::Then => 5,
            // With nine, the second and the eighth order statistic are an exact 96.1% interval of the median.
            Study::Full => 9,
        }
    }

    /// Returns which passes follow the planned ones unless the user chooses.
    pub fn adaptive(self) -> Adaptive {
        match self {
            Study::Smoke => Adaptive::Off,
            Study::Quick | Study::Full | Study::Then => Adaptive::Bounded,
        }
    }
}
