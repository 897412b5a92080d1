//! The side of a run that measured two in turn.

use serde::{Deserialize, Serialize};

/// Which side of a run that measured two in turn a record holds. Each side has a record of its own; their cases have
/// the same numbers, and the passes of a round ran one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// Which of the two.
    pub role: Role,
    /// Identifies the run: equal in both records, and in no other.
    pub run: String,
    /// The file name of the other side's record, which was written to the same folder.
    pub other: String,
    /// In what the new side differs, as it was given; the same in both records. Empty if the sides are equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// The program that made the passes of this side; absent if it was the one that wrote the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// What switched the host over for the passes of the new side; the same in both records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<Switch>,
    /// The profile of `landau tune try`, which changed `differences` for the passes of the new side. Such a run cannot
    /// be resumed. The same in both records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// The sides of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What the other is compared with.
    Base,
    /// What differs from it.
    New,
}

impl Role {
    /// Returns the name as records have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::New => "new",
        }
    }
}

/// A program that makes passes for another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its absolute path.
    pub path: String,
    /// The version that it names.
    pub version: String,
    /// Its file; absent in records made before November 24, 2026, and if the file system has no such times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<ProgramFile>,
}

/// What tells the file of a program from another build of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramFile {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// When it was written last, RFC 3339 in UTC.
    pub modified: String,
}

/// Commands that change the host for the passes of one side, run by `sh -c`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// Runs before a pass of the new side, unless it is in effect.
    pub command: String,
    /// Undoes it before a pass of the base, and at the end of the run.
    pub restore: String,
}
