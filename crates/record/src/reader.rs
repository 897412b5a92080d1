//! Reads a record back, checks its chain, and gathers its samples by pass and phase.
//!
//! A run can be killed at any byte, so the last line may be torn: it is recognised and left out, never an error.
//! Any earlier line that does not parse or whose seal does not fit is a [`Fault`], and the first one is named.

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
    /// Where it was read from.
    pub path: String,
    /// The first line.
    pub header: Header,
    /// The machine.
    pub host: Host,
    /// The machine that the lab made for it; none outside the lab.
    pub lab: Option<Lab>,
    /// What was measured, by number.
    pub cases: Vec<Case>,
    /// Every pass in order of execution, unfinished ones too.
    pub passes: Vec<Pass>,
    /// What could not be measured here.
    pub skips: Vec<Skip>,
    /// Machines of the lab that came to a stop before their time.
    pub crashes: Vec<Crash>,
    /// Where calls' instructions go, by function.
    pub explanations: Vec<Explanation>,
    /// What was left out.
    pub cuts: Vec<Cut>,
    /// Remarks.
    pub notes: Vec<String>,
    /// Interruptions that were overcome.
    pub resumes: Vec<Resume>,
    /// Figures as they were computed when the run ended.
    pub results: Vec<PhaseResult>,
    /// How the run ended; none where it was killed.
    pub end: Option<End>,
    /// The torn last line, if there is one.
    pub torn: Option<Torn>,
    /// The first line that is not as it was written.
    pub fault: Option<Fault>,
    /// Whole lines.
    pub line_count: u64,
    /// Bytes up to the end of the last whole line.
    pub whole_bytes: u64,
    /// The seal of the last whole line: it stands for the whole record.
    pub last_seal: String,
}

/// A last line without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The line's number, counted from 1.
    pub line: u64,
    /// How much of it there is.
    pub bytes: u64,
}

/// A line that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line's number, counted from 1.
    pub line: u64,
    /// What does not fit.
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
    /// How it ended; none where the run was killed in it.
    pub end: Option<PassEnd>,
}

/// The samples of one phase of one pass, in the order in which they were taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lane {
    /// n at each call.
    pub n: Vec<u32>,
    /// What it cost, in the unit of the record ([`Record::unit`]).
    pub costs: Vec<u64>,
}

impl Record {
    /// Reads a record. Fails where the file cannot be read or is no record; a torn or altered one is read as far
    /// as it makes sense and says so in [`Record::torn`] and [`Record::fault`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|source| Error::Io { action: "read", path: name.clone(), source })?;
        Self::parse(&name, &bytes)
    }

    /// Reads a record out of memory; `name` is what messages call it.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        let mut gather = Gather::new(name);
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            gather.line(&rest[..end])?;
            gather.whole_bytes += end as u64 + 1;
            rest = &rest[end + 1..];
        }
        gather.finish(rest.len() as u64)
    }

    /// The passes of a case that count: the last attempt of each round, ended ones before torn-off ones.
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

    /// What every sample of the record counts.
    pub fn unit(&self) -> Unit {
        self.host.clock.unit
    }

    /// The case with that number.
    pub fn case(&self, case: u32) -> Option<&Case> {
        self.cases.iter().find(|held| held.case == case)
    }
}

impl Pass {
    /// Whether the pass ran to its own end, be it done, at a limit, or at that of the kernel.
    pub fn is_whole(&self) -> bool {
        use crate::schema::Outcome;
        self.end.as_ref().is_some_and(|end| matches!(end.outcome, Outcome::Done | Outcome::Limit | Outcome::Crashed))
    }
}

/// The record while its lines come in.
struct Gather {
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

impl Gather {
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

    /// Takes one whole line.
    fn line(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.line_count += 1;
        let parsed =
            std::str::from_utf8(bytes).map_err(|error| error.to_string()).and_then(|text| self.check_seal(text));
        match parsed {
            Ok(line) => self.take(line),
            Err(reason) if self.line_count == 1 => Err(self.malformed(format!(
                "this is no Landau record ({reason}); a record is what `landau run` leaves behind"
            ))),
            Err(reason) => {
                self.fault(reason);
                Ok(())
            }
        }
    }

    /// Notes where the chain breaks and parses the line all the same, so that a reader sees what is left.
    fn check_seal(&mut self, text: &str) -> Result<Line, String> {
        let (body, seal) = chain::detach(text).ok_or("the line carries no seal")?;
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
            return Err(self.malformed("the first line is no header; is the beginning of the file missing?".into()));
        }
        if !matches!(line, Line::Result(_)) {
            self.end = None;
        }
        match line {
            Line::Header(header) if header.schema > SCHEMA_VERSION => {
                return Err(self.malformed(format!(
                    "schema {} is newer than this landau reads ({SCHEMA_VERSION}); landau {} wrote it: use that one, \
                     or a newer",
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
                // Figures and cuts of the part before no longer speak for the whole.
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
            // Calls at one n were taken at a chosen one: the next chunk may begin anywhere.
            let expected = lane.n.last().map(|&n| i64::from(n) + i64::from(chunk.stride)).filter(|_| chunk.stride != 0);
            if expected.is_some_and(|n| n != i64::from(chunk.first)) {
                misfit = Some(format!("samples of `{}` do not follow on from the chunk before", chunk.phase));
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

    /// What is wrong with a line whose samples count something else than the record's clock: no figure may rest on it.
    fn other_unit(&self, unit: Unit) -> Option<String> {
        let own = self.host.clock.unit;
        (unit != own)
            .then(|| format!("its samples are in {}, but the record's clock counts {}", unit.name(), own.name()))
    }

    fn in_pass(&mut self, number: u32, act: impl FnOnce(&mut Pass)) {
        match self.passes.iter_mut().rev().find(|pass| pass.start.pass == number) {
            Some(pass) => act(pass),
            None => self.fault(format!("it belongs to pass {number}, which never started")),
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
                reason: "the file is empty or its first line is torn: nothing was measured yet".into(),
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
