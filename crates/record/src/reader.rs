//! Reads a record, verifies its seals, and groups its samples by pass and phase.
//!
//! A run can be killed at any byte, so the last line may be torn. A torn line is left out; it is not an error. An
//! earlier line that cannot be parsed or whose seal is wrong is a [`Fault`]; the first one is reported.

use crate::schema::{Chunk, Unit, Window};
use crate::{Error, Fault, Line, Pass, Record, SCHEMA_VERSION, Torn, chain, former, upgrade};
use std::collections::BTreeMap;

/// The part of a record that has been read.
pub(crate) struct Reader {
    record: Record,
    has_header: bool,
}

impl Reader {
    /// Returns a reader that has read nothing; `name` is the record's name in messages.
    pub(crate) fn new(name: &str) -> Self {
        let record = Record { path: name.to_owned(), last_seal: chain::START.to_owned(), ..Record::default() };
        Self { record, has_header: false }
    }

    /// Reads a record from its first byte to its last.
    pub(crate) fn read(mut self, bytes: &[u8]) -> Result<Record, Error> {
        let rest = self.complete_lines(bytes)?;
        self.finish(rest.len() as u64)
    }

    /// Reads the complete lines; returns the bytes after the last one.
    pub(crate) fn complete_lines<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Error> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.line(&rest[..end])?;
            self.record.complete_bytes += end as u64 + 1;
            rest = &rest[end + 1..];
        }
        Ok(rest)
    }

    /// Returns what has been read so far.
    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Reads one complete line.
    fn line(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.record.line_count += 1;
        if self.record.line_count == 1 {
            self.check_schema(bytes)?;
        }
        let parsed =
            std::str::from_utf8(bytes).map_err(|error| error.to_string()).and_then(|text| self.check_seal(text));
        match parsed {
            Ok(line) => self.take(line),
            Err(reason) if self.record.line_count == 1 => Err(self.malformed(format!(
                "not a Landau record ({reason}); `landau run` writes records, named *.landau.ndjson"
            ))),
            Err(reason) => {
                self.fault(reason);
                Ok(())
            }
        }
    }

    /// Fails if a header has a newer schema, whatever its other members are.
    fn check_schema(&self, header: &[u8]) -> Result<(), Error> {
        /// The members that the header of every schema has.
        #[derive(serde::Deserialize)]
        struct AnyHeader {
            schema: u32,
            landau: String,
        }
        match serde_json::from_slice::<AnyHeader>(header) {
            Ok(header) if header.schema > SCHEMA_VERSION => Err(self.malformed(format!(
                "its schema is {}, and this landau reads schemas up to {SCHEMA_VERSION}; use landau {}, which wrote \
                 it, or a newer one",
                header.schema, header.landau
            ))),
            _ => Ok(()),
        }
    }

    /// Verifies the line's seal and parses it, as a line of today's schema. A wrong seal is recorded as a fault. The
    /// line is parsed nevertheless, so that the rest of the record can be shown.
    fn check_seal(&mut self, text: &str) -> Result<Line, String> {
        let (body, seal) = chain::detach(text).ok_or("the line has no checksum (member `seal`)")?;
        let expected = chain::seal(&self.record.last_seal, &body);
        if expected != seal {
            self.fault(format!("its checksum is {seal}, but its content gives {expected}"));
        }
        seal.clone_into(&mut self.record.last_seal);
        let line = if upgrade::is_needed(self.schema(), &body) {
            serde_json::from_str(&body).and_then(|old| serde_json::from_value(upgrade::line(old)))
        } else {
            serde_json::from_str(&body)
        };
        line.map_err(|error| error.to_string())
    }

    /// Renames the phase in a line of an older record to its current name.
    fn upgrade_phase(&self, line: &mut Line) {
        if self.schema() >= SCHEMA_VERSION {
            return;
        }
        let (case, phase) = match line {
            Line::Chunk(chunk) => {
                let pass = self.record.passes.iter().rev().find(|pass| pass.start.pass == chunk.pass);
                (pass.map(|pass| pass.start.case), &mut chunk.phase)
            }
            Line::Result(result) => (Some(result.case), &mut result.phase),
            Line::Explanation(explanation) => (Some(explanation.case), &mut explanation.phase),
            _ => return,
        };
        if let Some(case) = self.record.cases.iter().find(|held| Some(held.case) == case) {
            upgrade::phase(&case.benchmark, phase);
        }
    }

    /// Returns the schema of the record; the current one until the header has been read.
    fn schema(&self) -> u32 {
        if self.has_header { self.record.header.schema } else { SCHEMA_VERSION }
    }

    /// Adds a line to the record.
    fn take(&mut self, mut line: Line) -> Result<(), Error> {
        self.upgrade_phase(&mut line);
        if !self.has_header && !matches!(line, Line::Header(_)) {
            return Err(self.malformed("the first line is not a header; is the beginning of the file missing?".into()));
        }
        if !matches!(line, Line::Result(_)) {
            self.record.end = None;
        }
        match line {
            Line::Header(header) => {
                self.record.header = header;
                self.has_header = true;
            }
            Line::Host(host) => self.record.host = *host,
            Line::Lab(lab) => self.record.lab = Some(*lab),
            Line::Case(mut case) => {
                case.timeline = case.timeline.or_else(|| former::timeline(&case.benchmark));
                self.record.cases.push(case);
            }
            Line::Skip(skip) => self.record.skips.push(skip),
            Line::Pass(start) => {
                self.record.passes.push(Pass { start, series: BTreeMap::new(), windows: Vec::new(), end: None });
            }
            Line::Chunk(chunk) => self.chunk(&chunk),
            Line::Window(window) => self.window(window),
            Line::Crash(crash) => self.record.crashes.push(crash),
            Line::PassEnd(end) => self.in_pass(end.pass, |pass| pass.end = Some(end)),
            Line::Explanation(found) => self.record.explanations.push(*found),
            Line::Profile(found) => self.record.profiles.push(*found),
            Line::Cut(cut) => self.record.cuts.push(cut),
            Line::Note(note) => self.record.notes.push(note.text),
            Line::Resume(resume) => {
                // The results and cuts from before the resumption do not describe the whole run.
                self.record.results.clear();
                self.record.cuts.clear();
                self.record.resumes.push(resume);
            }
            Line::Result(result) => self.record.results.push(result),
            Line::End(end) => self.record.end = Some(end),
        }
        Ok(())
    }

    fn chunk(&mut self, chunk: &Chunk) {
        let number = self.record.line_count;
        let mut misfit = self.other_unit(chunk.samples.unit());
        self.in_pass(chunk.pass, |pass| {
            if misfit.is_some() {
                return;
            }
            let costs = chunk.samples.values();
            let series = pass.series.entry(chunk.phase.clone()).or_default();
            // With a stride of 0, all calls were made at one chosen n; the next chunk may have any n.
            let expected =
                series.n.last().map(|&n| i64::from(n) + i64::from(chunk.stride)).filter(|_| chunk.stride != 0);
            if expected.is_some_and(|n| n != i64::from(chunk.first)) {
                misfit = Some(format!("its samples of `{}` do not continue the previous chunk", chunk.phase));
            }
            let n_of = |i: i64| (i64::from(chunk.first) + i * i64::from(chunk.stride)).max(0) as u32;
            series.n.extend((0_i64..).take(costs.len()).map(n_of));
            series.costs.extend(costs);
        });
        if let Some(reason) = misfit {
            self.fault_at(number, reason);
        }
    }

    fn window(&mut self, window: Window) {
        let of_calls = window.calls.as_ref();
        let misfit = self
            .other_unit(window.canary.unit())
            .or_else(|| self.other_unit(of_calls?.canary.unit()))
            .or_else(|| of_calls?.misfit(window.count));
        match misfit {
            Some(reason) => self.fault(reason),
            None => self.in_pass(window.pass, |pass| pass.windows.push(window)),
        }
    }

    /// Returns an error message for samples in a unit other than the record's. Such samples are left out.
    fn other_unit(&self, unit: Unit) -> Option<String> {
        let own = self.record.host.clock.unit;
        (unit != own)
            .then(|| format!("its samples are in {}, but the record's clock counts {}", unit.name(), own.name()))
    }

    fn in_pass(&mut self, number: u32, act: impl FnOnce(&mut Pass)) {
        match self.record.passes.iter_mut().rev().find(|pass| pass.start.pass == number) {
            Some(pass) => act(pass),
            None => self.fault(format!("it belongs to pass {number}, which did not start")),
        }
    }

    fn fault(&mut self, reason: String) {
        self.fault_at(self.record.line_count, reason);
    }

    fn fault_at(&mut self, line: u64, reason: String) {
        self.record.fault.get_or_insert(Fault { line, reason });
    }

    fn malformed(&self, reason: String) -> Error {
        Error::Malformed { path: self.record.path.clone(), line: self.record.line_count, reason }
    }

    fn finish(mut self, torn_bytes: u64) -> Result<Record, Error> {
        if !self.has_header {
            let reason = "the file is empty or its first line is torn; nothing was measured".to_owned();
            return Err(Error::Malformed { path: self.record.path, line: 1, reason });
        }
        self.record.torn = (torn_bytes > 0).then_some(Torn { line: self.record.line_count + 1, bytes: torn_bytes });
        Ok(self.record)
    }
}
