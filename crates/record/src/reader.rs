//! Reads a record, verifies its seals, and groups its samples by pass and phase.
//!
//! A run can be killed at any byte, so the last line may be torn: it is left out and is not an error. An earlier line
//! that cannot be parsed or whose seal is wrong is a [`Fault`]; the first one is reported.

use crate::schema::{
    Case, Chunk, Crash, Cut, End, Explanation, Header, Host, Lab, PassEnd, PassStart, PhaseResult, Resume, Skip, Unit,
    Window,
};
use crate::{Error, Line, SCHEMA_VERSION, chain, upgrade};
use std::collections::BTreeMap;
use std::path::Path;

/// A record as read.
#[derive(Debug, Clone)]
pub struct Record {
    /// The path that it was read from.
    pub path: String,
    /// The first line.
    pub header: Header,
    /// The machine.
    pub host: Host,
    /// The machine that the lab provided; none outside the lab.
    pub lab: Option<Lab>,
    /// What was measured, by number.
    pub cases: Vec<Case>,
    /// Every pass in order of execution, unfinished ones too.
    pub passes: Vec<Pass>,
    /// What could not be measured here.
    pub skips: Vec<Skip>,
    /// Machines of the lab that stopped unexpectedly.
    pub crashes: Vec<Crash>,
    /// Instructions of calls, by function.
    pub explanations: Vec<Explanation>,
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
    pub whole_bytes: u64,
    /// The seal of the last complete line; it identifies the whole record.
    pub last_seal: String,
}

/// A last line without its end.
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
    pub lanes: BTreeMap<String, Lane>,
    /// The windows with what interfered in them.
    pub windows: Vec<Window>,
    /// How it ended; none if the run was killed during it.
    pub end: Option<PassEnd>,
}

/// The samples of one phase of one pass, in the order in which they were taken. Vectors of equal length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lane {
    /// n at each call.
    pub n: Vec<u32>,
    /// The cost of each call, in the unit of the record ([`Record::unit`]).
    pub costs: Vec<u64>,
}

impl Record {
    /// Reads a record. Fails if the file cannot be read or is not a record. A torn or altered record is read as far as
    /// possible, and [`Record::torn`] and [`Record::fault`] say so.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|source| Error::Io { action: "read", path: name.clone(), source })?;
        Self::parse(&name, &bytes)
    }

    /// Reads a record from memory; `name` is its name in messages.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(name);
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            reader.line(&rest[..end])?;
            reader.whole_bytes += end as u64 + 1;
            rest = &rest[end + 1..];
        }
        reader.finish(rest.len() as u64)
    }

    /// Returns the passes of a case that count: of each round the last attempt, or the last that ended if any did.
    pub fn passes_of(&self, case: u32) -> Vec<&Pass> {
        let mut by_round: BTreeMap<u32, &Pass> = BTreeMap::new();
        for pass in self.passes.iter().filter(|pass| pass.start.case == case) {
            let better = by_round.get(&pass.start.round).is_none_or(|held| pass.is_whole() || !held.is_whole());
            if better {
                by_round.insert(pass.start.round, pass);
            }
        }
        by_round.into_values().collect()
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
    pub fn is_whole(&self) -> bool {
        use crate::schema::Outcome;
        self.end.as_ref().is_some_and(|end| matches!(end.outcome, Outcome::Done | Outcome::Limit | Outcome::Crashed))
    }
}

/// The part of a record that has been read.
struct Reader {
    name: String,
    header: Option<Header>,
    host: Host,
    lab: Option<Lab>,
    cases: Vec<Case>,
    passes: Vec<Pass>,
    skips: Vec<Skip>,
    crashes: Vec<Crash>,
    explanations: Vec<Explanation>,
    cuts: Vec<Cut>,
    notes: Vec<String>,
    resumes: Vec<Resume>,
    results: Vec<PhaseResult>,
    end: Option<End>,
    fault: Option<Fault>,
    line_count: u64,
    whole_bytes: u64,
    seal: String,
}

impl Reader {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            header: None,
            host: Host::default(),
            lab: None,
            cases: Vec::new(),
            passes: Vec::new(),
            skips: Vec::new(),
            crashes: Vec::new(),
            explanations: Vec::new(),
            cuts: Vec::new(),
            notes: Vec::new(),
            resumes: Vec::new(),
            results: Vec::new(),
            end: None,
            fault: None,
            line_count: 0,
            whole_bytes: 0,
            seal: chain::START.to_owned(),
        }
    }

    /// Reads one complete line.
    fn line(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.line_count += 1;
        let parsed =
            std::str::from_utf8(bytes).map_err(|error| error.to_string()).and_then(|text| self.check_seal(text));
        match parsed {
            Ok(line) => self.take(line),
            Err(reason) if self.line_count == 1 => Err(self.malformed(format!(
                "not a Landau record ({reason}); `landau run` writes records, named *.landau.ndjson"
            ))),
            Err(reason) => {
                self.fault(reason);
                Ok(())
            }
        }
    }

    /// Verifies the line's seal and parses it, as a line of today's schema. A wrong seal is noted as a fault; the line
    /// is parsed all the same, so that the rest of the record can be shown.
    fn check_seal(&mut self, text: &str) -> Result<Line, String> {
        let (body, seal) = chain::detach(text).ok_or("the line has no seal")?;
        let expected = chain::seal(&self.seal, &body);
        if expected != seal {
            self.fault(format!("its seal is {seal}, but its content gives {expected}"));
        }
        seal.clone_into(&mut self.seal);
        let line = if upgrade::is_needed(self.schema(), &body) {
            serde_json::from_str(&body).and_then(|old| serde_json::from_value(upgrade::line(old)))
        } else {
            serde_json::from_str(&body)
        };
        line.map_err(|error| error.to_string())
    }

    /// Gives the phase of an older record's line its name of today.
    fn upgrade_phase(&self, line: &mut Line) {
        if self.schema() >= SCHEMA_VERSION {
            return;
        }
        let (case, phase) = match line {
            Line::Chunk(chunk) => {
                let pass = self.passes.iter().rev().find(|pass| pass.start.pass == chunk.pass);
                (pass.map(|pass| pass.start.case), &mut chunk.phase)
            }
            Line::Result(result) => (Some(result.case), &mut result.phase),
            Line::Explanation(explanation) => (Some(explanation.case), &mut explanation.phase),
            _ => return,
        };
        if let Some(case) = self.cases.iter().find(|held| Some(held.case) == case) {
            upgrade::phase(&case.benchmark, phase);
        }
    }

    /// The schema of the record; today's until its header was read.
    fn schema(&self) -> u32 {
        self.header.as_ref().map_or(SCHEMA_VERSION, |header| header.schema)
    }

    fn take(&mut self, mut line: Line) -> Result<(), Error> {
        self.upgrade_phase(&mut line);
        if self.header.is_none() && !matches!(line, Line::Header(_)) {
            return Err(self.malformed("the first line is not a header; is the beginning of the file missing?".into()));
        }
        if !matches!(line, Line::Result(_)) {
            self.end = None;
        }
        match line {
            Line::Header(header) if header.schema > SCHEMA_VERSION => {
                return Err(self.malformed(format!(
                    "its schema is {}, and this landau reads schemas up to {SCHEMA_VERSION}; use landau {}, which \
                     wrote it, or a newer one",
                    header.schema, header.landau
                )));
            }
            Line::Header(header) => self.header = Some(header),
            Line::Host(host) => self.host = *host,
            Line::Lab(lab) => self.lab = Some(*lab),
            Line::Case(case) => self.cases.push(case),
            Line::Skip(skip) => self.skips.push(skip),
            Line::Pass(start) => {
                self.passes.push(Pass { start, lanes: BTreeMap::new(), windows: Vec::new(), end: None });
            }
            Line::Chunk(chunk) => self.chunk(&chunk),
            Line::Window(window) => self.window(window),
            Line::Crash(crash) => self.crashes.push(crash),
            Line::PassEnd(end) => self.in_pass(end.pass, |pass| pass.end = Some(end)),
            Line::Explanation(found) => self.explanations.push(*found),
            Line::Cut(cut) => self.cuts.push(cut),
            Line::Note(note) => self.notes.push(note.text),
            Line::Resume(resume) => {
                // The results and cuts of the part before do not describe the whole.
                self.results.clear();
                self.cuts.clear();
                self.resumes.push(resume);
            }
            Line::Result(result) => self.results.push(result),
            Line::End(end) => self.end = Some(end),
        }
        Ok(())
    }

    fn chunk(&mut self, chunk: &Chunk) {
        let number = self.line_count;
        let mut misfit = self.other_unit(chunk.samples.unit());
        self.in_pass(chunk.pass, |pass| {
            if misfit.is_some() {
                return;
            }
            let costs = chunk.samples.values();
            let lane = pass.lanes.entry(chunk.phase.clone()).or_default();
            // With a stride of 0, all calls were made at one chosen n; the next chunk may have any n.
            let expected = lane.n.last().map(|&n| i64::from(n) + i64::from(chunk.stride)).filter(|_| chunk.stride != 0);
            if expected.is_some_and(|n| n != i64::from(chunk.first)) {
                misfit = Some(format!("its samples of `{}` do not continue the chunk before", chunk.phase));
            }
            let n_of = |i: i64| (i64::from(chunk.first) + i * i64::from(chunk.stride)).max(0) as u32;
            lane.n.extend((0_i64..).take(costs.len()).map(n_of));
            lane.costs.extend(costs);
        });
        if let Some(reason) = misfit {
            self.fault_at(number, reason);
        }
    }

    fn window(&mut self, window: Window) {
        match self.other_unit(window.canary.unit()) {
            Some(reason) => self.fault(reason),
            None => self.in_pass(window.pass, |pass| pass.windows.push(window)),
        }
    }

    /// Returns what is wrong with samples in another unit than the record's. They are left out.
    fn other_unit(&self, unit: Unit) -> Option<String> {
        let own = self.host.clock.unit;
        (unit != own).then(|| format!("its samples are in {}, the record's clock counts {}", unit.name(), own.name()))
    }

    fn in_pass(&mut self, number: u32, act: impl FnOnce(&mut Pass)) {
        match self.passes.iter_mut().rev().find(|pass| pass.start.pass == number) {
            Some(pass) => act(pass),
            None => self.fault(format!("it belongs to pass {number}, which did not start")),
        }
    }

    fn fault(&mut self, reason: String) {
        self.fault_at(self.line_count, reason);
    }

    fn fault_at(&mut self, line: u64, reason: String) {
        self.fault.get_or_insert(Fault { line, reason });
    }

    fn malformed(&self, reason: String) -> Error {
        Error::Malformed { path: self.name.clone(), line: self.line_count, reason }
    }

    fn finish(self, torn_bytes: u64) -> Result<Record, Error> {
        let Some(header) = self.header else {
            return Err(Error::Malformed {
                path: self.name,
                line: 1,
                reason: "the file is empty or its first line is torn; nothing was measured".into(),
            });
        };
        let torn = (torn_bytes > 0).then_some(Torn { line: self.line_count + 1, bytes: torn_bytes });
        Ok(Record {
            path: self.name,
            header,
            host: self.host,
            lab: self.lab,
            cases: self.cases,
            passes: self.passes,
            skips: self.skips,
            crashes: self.crashes,
            explanations: self.explanations,
            cuts: self.cuts,
            notes: self.notes,
            resumes: self.resumes,
            results: self.results,
            end: self.end,
            torn,
            fault: self.fault,
            line_count: self.line_count,
            whole_bytes: self.whole_bytes,
            last_seal: self.seal,
        })
    }
}
