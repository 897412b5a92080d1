//! A crowd written down as it grows, so that whatever ends the run costs one size at the most.

use crate::command::finish;
use crate::load::Live;
use landau_load::counters::Memory;
use landau_load::gate::Gate;
use landau_load::{Job, Observer, Outcome, Progress, Step, record};
use landau_record::schema::{End, Header, Host, Line, Note, PassEnd, PassStart};
use landau_record::{SCHEMA_VERSION, Writer, schema};
use std::path::Path;
use std::time::Instant;

/// Writes a record of a crowd, and shows what it grows to.
pub(crate) struct Recorder<'a> {
    live: &'a mut Live,
    writer: Writer,
    begun: Instant,
    memory: Memory,
    /// Steps of the pass that is under way.
    steps: Vec<Step>,
    /// Why the record could not be written, if it could not.
    failure: Option<landau_record::Error>,
}

/// What a record says before anything is measured.
pub(crate) struct Opening<'a> {
    pub(crate) host: Host,
    pub(crate) words: &'a [String],
    pub(crate) urls: &'a [String],
    pub(crate) seed: u64,
}

impl<'a> Recorder<'a> {
    pub(crate) fn create(
        path: &Path,
        job: &Job,
        opening: Opening<'_>,
        live: &'a mut Live,
    ) -> Result<Self, landau_record::Error> {
        let mut writer = Writer::create(path)?;
        let pass_count = job.crowd.as_ref().map_or(0, |crowd| crowd.passes);
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
        }))?;
        writer.append(&Line::Host(Box::new(opening.host)))?;
        writer.append(&Line::Case(record::case(job, opening.urls)))?;
        writer.flush()?;
        let memory = Memory::read(job.crowd.as_ref().and_then(|crowd| crowd.server));
        Ok(Self { live, writer, begun: Instant::now(), memory, steps: Vec::new(), failure: None })
    }

    fn elapsed_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn write(&mut self, step: &Step) -> Result<(), landau_record::Error> {
        if self.steps.first().is_none_or(|first| first.pass != step.pass) {
            self.end_pass(schema::Outcome::Done)?;
            let at_ms = self.elapsed_ms();
            self.writer.append(&Line::Pass(PassStart { pass: step.pass, case: 0, round: step.pass, at_ms }))?;
        }
        self.steps.push(step.clone());
        for chunk in record::chunks(step) {
            self.writer.append(&Line::Chunk(chunk))?;
        }
        self.writer.flush()
    }

    fn end_pass(&mut self, outcome: schema::Outcome) -> Result<(), landau_record::Error> {
        let steps = std::mem::take(&mut self.steps);
        let Some(last) = steps.last() else { return Ok(()) };
        self.writer.append(&Line::PassEnd(PassEnd {
            pass: last.pass,
            outcome,
            steps: last.open,
            elapsed_ms: self.elapsed_ms(),
            limit: None,
            error: None,
            facts: record::facts(&self.memory, &steps),
        }))
    }

    /// Writes how it ended, judges the curves and closes the record.
    pub(crate) fn close(mut self, outcome: &Outcome) -> anyhow::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        let (pass, word) = if outcome.is_interrupted {
            (schema::Outcome::Interrupted, "interrupted")
        } else {
            (schema::Outcome::Done, "complete")
        };
        self.end_pass(pass)?;
        for text in outcome.gates.iter().filter_map(Gate::remark) {
            self.writer.append(&Line::Note(Note { text }))?;
        }
        for (name, by) in &outcome.counters {
            let text = format!("the kernel counted {name} +{by} meanwhile, of all programs of this host");
            self.writer.append(&Line::Note(Note { text }))?;
        }
        let elapsed_ms = self.elapsed_ms();
        finish(&mut self.writer, End { outcome: word.to_owned(), line_count: 0, elapsed_ms })
    }
}

impl Observer for Recorder<'_> {
    fn progress(&mut self, progress: &Progress) {
        self.live.progress(progress);
    }

    fn grown(&mut self, open: u64, to: u32) {
        self.live.grown(open, to);
    }

    fn step(&mut self, step: &Step) {
        self.live.step(step);
        if self.failure.is_none() {
            self.failure = self.write(step).err();
        }
    }

    fn note(&mut self, text: &str) {
        self.live.note(text);
    }
}
