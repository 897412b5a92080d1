//! Writes the record of an idle load, step by step, so that an aborted run loses at most one step.

use crate::command::finish;
use crate::load::Live;
use landau_load::counters::Memory;
use landau_load::outcome::GateResult;
use landau_load::{Job, Observer, Outcome, Progress, Step, record};
use landau_record::schema::{End, EndOutcome, Header, Host, Limit, Line, Note, PassEnd, PassStart};
use landau_record::{SCHEMA_VERSION, Writer, schema};
use std::path::Path;
use std::time::Instant;

/// Writes a record of an idle load and shows its progress.
pub(crate) struct Recorder<'a> {
    live: &'a mut Live,
    writer: Writer,
    began: Instant,
    memory: Memory,
    /// The number of passes.
    pass_count: u32,
    /// The number of connections at the end of a pass.
    last_n: u32,
    /// When the current pass began.
    pass_began_ms: u64,
    /// Steps of the current pass.
    steps: Vec<Step>,
    /// The first error of the writer.
    error: Option<landau_record::Error>,
}

/// The parts of a record's header that the load does not know.
pub(crate) struct Opening<'a> {
    pub(crate) host: Host,
    pub(crate) words: &'a [String],
    pub(crate) urls: &'a [String],
    pub(crate) seed: u64,
}

impl<'a> Recorder<'a> {
    /// Creates the record and writes the lines before the first pass.
    pub(crate) fn create(
        path: &Path,
        job: &Job,
        opening: Opening<'_>,
        live: &'a mut Live,
    ) -> Result<Self, landau_record::Error> {
        let mut writer = Writer::create(path)?;
        let (pass_count, last_n) =
            job.idle.as_ref().map_or((0, 0), |idle| (idle.passes, idle.steps.last().copied().unwrap_or(0)));
        writer.append(&Line::Header(Header {
            schema: SCHEMA_VERSION,
            landau: env!("CARGO_PKG_VERSION").to_owned(),
            command: opening.words.to_vec(),
            started: jiff::Timestamp::now().to_string(),
            seed: opening.seed,
            study: "full".to_owned(),
            pass_count,
            case_count: 1,
            time_limit_s: None,
            ..Header::default()
        }))?;
        writer.append(&Line::Host(Box::new(opening.host)))?;
        writer.append(&Line::Case(record::case(job, opening.urls)))?;
        writer.flush()?;
        let memory = Memory::read(job.idle.as_ref().and_then(|idle| idle.server_pid));
        let began = Instant::now();
        let (pass_began_ms, steps, error) = (0, Vec::new(), None);
        Ok(Self { live, writer, began, memory, pass_count, last_n, pass_began_ms, steps, error })
    }

    fn elapsed_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn write(&mut self, step: &Step) -> Result<(), landau_record::Error> {
        if self.steps.is_empty() {
            let at_ms = self.pass_began_ms;
            self.writer.append(&Line::Pass(PassStart {
                pass: step.pass,
                case: 0,
                round: step.pass,
                at_ms,
                adaptive_for: Vec::new(),
            }))?;
        }
        self.steps.push(step.clone());
        for chunk in record::chunks(step) {
            self.writer.append(&Line::Chunk(chunk))?;
        }
        // The pass ends now, not with the first step of the next one: an interrupt in between does not concern it.
        if step.n == self.last_n && step.is_reached() {
            self.end_pass(schema::Outcome::Done, None)?;
        }
        self.writer.flush()
    }

    fn end_pass(&mut self, outcome: schema::Outcome, limit: Option<Limit>) -> Result<(), landau_record::Error> {
        let steps = std::mem::take(&mut self.steps);
        let Some(last) = steps.last() else { return Ok(()) };
        let elapsed_ms = self.elapsed_ms() - self.pass_began_ms;
        self.pass_began_ms += elapsed_ms;
        self.writer.append(&Line::PassEnd(PassEnd {
            pass: last.pass,
            outcome,
            steps: last.open,
            elapsed_ms,
            limit,
            error: None,
            facts: record::facts(&self.memory, &steps),
        }))
    }

    /// Writes the end of a pass that has not ended, notes about gates and counters, and the results, and closes the
    /// record.
    pub(crate) fn close(mut self, outcome: &Outcome) -> anyhow::Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error.into());
        }
        let last = self.steps.last();
        let limit = last.and_then(|last| record::limit(last, &outcome.metrics));
        let has_all = last.is_some_and(|last| last.pass + 1 == self.pass_count);
        let (pass, run) = match &limit {
            // A limit is a result; the remaining passes were not run.
            Some(_) if has_all => (schema::Outcome::Limit, EndOutcome::Complete),
            Some(_) => (schema::Outcome::Limit, EndOutcome::Failed),
            None if outcome.is_interrupted => (schema::Outcome::Interrupted, EndOutcome::Interrupted),
            None => (schema::Outcome::Done, EndOutcome::Complete),
        };
        self.end_pass(pass, limit)?;
        for text in outcome.gates.iter().filter_map(GateResult::remark) {
            self.writer.append(&Line::Note(Note { text }))?;
        }
        for (name, by) in &outcome.counters {
            let text = format!("kernel counter {name} increased by {by} during the run (all programs of this host)");
            self.writer.append(&Line::Note(Note { text }))?;
        }
        let elapsed_ms = self.elapsed_ms();
        finish(&mut self.writer, End { outcome: run, line_count: 0, elapsed_ms })
    }
}

impl Observer for Recorder<'_> {
    fn progress(&mut self, progress: &Progress) {
        self.live.progress(progress);
    }

    fn opening(&mut self, open: u64, to: u32) {
        self.live.opening(open, to);
    }

    fn step(&mut self, step: &Step) {
        self.live.step(step);
        if self.error.is_none() {
            self.error = self.write(step).err();
        }
    }
}
