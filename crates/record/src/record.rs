//! A record as read: its lines by kind, and its samples by pass and phase.

use crate::Error;
use crate::reader::Reader;
use crate::schema::{
    Adaptive, Case, Crash, Cut, End, Explanation, Header, Host, Lab, Outcome, PassEnd, PassStart, PhaseResult, Profile,
    Resume, Skip, Unit, Window,
};
use std::collections::BTreeMap;
use std::path::Path;

/// A record as read.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// The path that it was read from.
    pub path: String,
    /// The first line.
    pub header: Header,
    /// The machine.
    pub host: Host,
    /// The machine that the lab provided; none outside the lab.
    pub lab: Option<Lab>,
    /// The measured cases, by number.
    pub cases: Vec<Case>,
    /// Every pass in order of execution, unfinished ones too.
    pub passes: Vec<Pass>,
    /// What could not be measured here.
    pub skips: Vec<Skip>,
    /// Machines of the lab that stopped unexpectedly.
    pub crashes: Vec<Crash>,
    /// Instructions of calls, by function.
    pub explanations: Vec<Explanation>,
    /// Samples of calls, by function.
    pub profiles: Vec<Profile>,
    /// What the time limit left out.
    pub cuts: Vec<Cut>,
    /// Notes.
    pub notes: Vec<String>,
    /// Resumptions.
    pub resumes: Vec<Resume>,
    /// Verdicts as they were computed when the run ended.
    pub results: Vec<PhaseResult>,
    /// How the run ended; none if it was killed.
    pub end: Option<End>,
    /// The torn last line, if any.
    pub torn: Option<Torn>,
    /// The first line that was altered.
    pub fault: Option<Fault>,
    /// Complete lines.
    pub line_count: u64,
    /// Bytes up to the end of the last complete line.
    pub complete_bytes: u64,
    /// The seal of the last complete line; it identifies the whole record.
    pub last_seal: String,
}

/// An incomplete last line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The line's number, counted from 1.
    pub line: u64,
    /// Its length so far.
    pub bytes: u64,
}

/// A line that was altered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line's number, counted from 1.
    pub line: u64,
    /// What is wrong.
    pub reason: String,
}

/// One pass with its samples.
#[derive(Debug, Clone)]
pub struct Pass {
    /// How it began.
    pub start: PassStart,
    /// The samples of each phase.
    pub series: BTreeMap<String, Series>,
    /// The windows, each with the interference in it.
    pub windows: Vec<Window>,
    /// How it ended; none if the run was killed during it.
    pub end: Option<PassEnd>,
}

/// The samples of one phase of one pass, in the order in which they were taken. Vectors of equal length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Series {
    /// n at each call.
    pub n: Vec<u32>,
    /// The cost of each call, in the unit of the record ([`Record::unit`]).
    pub costs: Vec<u64>,
}

impl Record {
    /// Reads a record. Fails if the file cannot be read or is not a record. A torn or altered record is read as far as
    /// possible, and [`Record::torn`] and [`Record::fault`] report it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        Self::parse(&name, &crate::read_file(path)?)
    }

    /// Reads a record from memory; `name` is its name in messages.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        Reader::new(name).read(bytes)
    }

    /// Returns the passes of a case that count: the last complete attempt of each round, or its last attempt if none is
    /// complete.
    pub fn passes_of(&self, case: u32) -> Vec<&Pass> {
        let mut by_round: BTreeMap<u32, &Pass> = BTreeMap::new();
        for pass in self.passes.iter().filter(|pass| pass.start.case == case) {
            let better = by_round.get(&pass.start.round).is_none_or(|held| pass.is_complete() || !held.is_complete());
            if better {
                by_round.insert(pass.start.round, pass);
            }
        }
        by_round.into_values().collect()
    }

    /// Returns the planned number of passes of each case, as of the last resumption.
    pub fn pass_count(&self) -> u32 {
        self.resumes.iter().rev().find_map(|resume| resume.pass_count).unwrap_or(self.header.pass_count)
    }

    /// Returns whether the user chose the planned number of passes, at the start or in a resumption.
    pub fn is_pass_count_chosen(&self) -> bool {
        self.header.is_pass_count_chosen || self.resumes.iter().any(|resume| resume.pass_count.is_some())
    }

    /// Returns which passes may follow the planned ones, as of the last resumption.
    pub fn adaptive(&self) -> Adaptive {
        self.resumes.iter().rev().find_map(|resume| resume.adaptive).unwrap_or(self.header.adaptive)
    }

    /// Returns whether the record has every case of its plan; without one, nothing was measured.
    pub fn is_plan_complete(&self) -> bool {
        !self.cases.is_empty() && self.cases.len() >= self.header.case_count as usize
    }

    /// Returns how the user can continue the run of this file if it did not end; `None` if its command cannot continue
    /// it. Of the commands that write records, only `landau run` and `landau lab run` can. `landau run` appends to the
    /// record, unless it was altered, is compressed (by its name), has an older schema, or lacks cases of its plan.
    /// `landau lab run` replaces the record.
    pub fn continuation(&self, file: &str) -> Option<String> {
        let words: Vec<&str> = self.header.command.iter().skip(1).take(2).map(String::as_str).collect();
        match (words.as_slice(), &self.lab) {
            ([] | ["run", ..], None) if self.can_be_appended_to() => Some(format!("landau run --resume {file}")),
            (["lab", "run"], _) => Some("repeat its `landau lab run` command with --resume".to_owned()),
            _ => None,
        }
    }

    fn can_be_appended_to(&self) -> bool {
        let is_compressed = Path::new(&self.path).extension().is_some_and(|ending| ending == "gz");
        let is_current = self.header.schema >= crate::SCHEMA_VERSION;
        self.fault.is_none() && !is_compressed && is_current && self.is_plan_complete()
    }

    /// Returns the continuation as a clause that can follow a sentence about the run, after a semicolon; empty if its
    /// command cannot continue it.
    pub fn how_to_continue(&self, file: &str) -> String {
        self.continuation(file).map_or_else(String::new, |how| format!("; to continue it: {how}"))
    }

    /// Returns the unit of every sample of the record.
    pub fn unit(&self) -> Unit {
        self.host.clock.unit
    }

    /// Returns the case with that number.
    pub fn case(&self, case: u32) -> Option<&Case> {
        self.cases.iter().find(|held| held.case == case)
    }
}

impl Pass {
    /// Returns whether the pass was not interrupted: it completed, or a limit or a crash of the kernel ended it.
    pub fn is_complete(&self) -> bool {
        self.end.as_ref().is_some_and(|end| matches!(end.outcome, Outcome::Done | Outcome::Limit | Outcome::Crashed))
    }
}
