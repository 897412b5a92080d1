//! The side of a run that measured two sides alternately.

use serde::{Deserialize, Serialize};

/// The side of a run that a record holds, if the run measured two sides alternately. Each side has a separate record;
/// their cases have the same numbers, and the passes of a round ran one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// Which of the two.
    pub role: Role,
    /// Identifies the run: equal in both records, and in no other.
    pub run: String,
    /// The file name of the other side's record, which was written to the same directory.
    pub other: String,
    /// The differences of the new side, as the user gave them; the same in both records. Empty if the sides are equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// The program that made the passes of this side; absent if it was the one that wrote the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// The commands that switched the host for the passes of the new side; the same in both records.
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
    /// The side with which the new side is compared.
    Base,
    /// The side that differs from the base.
    New,
}

impl Role {
    /// Returns the name that records use.
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
    /// The version that it reports.
    pub version: String,
    /// Its file; absent in records made before November 24, 2026, and if the file system has no such times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<ProgramFile>,
}

/// Distinguishes the file of a program from the file of another build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramFile {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// When it was last modified, RFC 3339 in UTC.
    pub modified: String,
}

/// Commands that change the host for the passes of one side, run by `sh -c`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// The command that runs before a pass of the new side, unless the switch is already in effect.
    pub command: String,
    /// The command that undoes the switch before a pass of the base, and at the end of the run.
    pub restore: String,
}
