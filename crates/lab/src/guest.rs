//! Inside the guest: what measures there, and the line by which it tells the host.
//!
//! A guest is either the first process of a system that was booted for it (`init.rs`), or a child of whoever wants to
//! know, by pipes or over a wire ([`child`]).

pub mod child;
#[cfg(target_os = "linux")]
mod init;

use crate::frame;
use crate::job::{Job, Message};
use landau_engine::{
    Entry, Fault, Pinning, Plan, Request, Scratch, Session, Silent, Study, describe_host_in, scratch_free_bytes,
};
use landau_record::schema::{Line, Unit};
use landau_record::{Error as RecordError, Journal};
use landau_sys::clock::Clock;
use landau_sys::{descriptor, process, system};
use std::fs::File;
use std::io::{Error as IoError, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

/// How often the guest waits anew for the work of its start to end.
const SETTLE_TRIES: u32 = 6;

/// Measures as a guest, if that is what this process is: its exit status then. The first process of a system does not
/// return.
pub fn main(registry: &[Entry]) -> Option<u8> {
    #[cfg(target_os = "linux")]
    init::main(registry);
    child::main(registry)
}

/// The line to the host, and the lines of the record that have not gone over it yet.
struct Link {
    line: File,
    name: String,
    number: u64,
    waiting: Vec<String>,
}

impl Link {
    fn new(line: File, name: &str) -> Self {
        Self { line, name: name.to_owned(), number: 0, waiting: Vec::new() }
    }

    /// Says something and waits until it has left: nothing is to be sent while something is measured.
    fn say(&mut self, message: &Message) -> std::io::Result<()> {
        let content = serde_json::to_vec(message)?;
        let text = frame::encode(self.number, &content)?;
        self.number += 1;
        self.line.write_all(text.as_bytes())?;
        if self.line.is_terminal() { descriptor::drain(&self.line).map_err(IoError::other) } else { Ok(()) }
    }

    fn refused(&self, source: IoError) -> RecordError {
        RecordError::Io { action: "write", path: self.name.clone(), source }
    }
}

impl Journal for Link {
    fn append(&mut self, line: &Line) -> Result<(), RecordError> {
        let text = serde_json::to_string(line).map_err(|error| self.refused(error.into()))?;
        self.waiting.push(text);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.waiting);
        self.say(&Message::Lines(lines)).map_err(|error| self.refused(error))
    }

    fn sync(&mut self) -> Result<(), RecordError> {
        self.flush()
    }
}

/// Measures what the job says; the last message.
fn measure(
    registry: &[Entry],
    job: &Job,
    link: &mut Link,
    fault: Option<Fault>,
    mut notes: Vec<String>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Message, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    if job.probe {
        return Ok(Message::Done { outcome: "complete".to_owned(), elapsed_ms: 0 });
    }
    notes.extend((job.settle_s > 0).then(|| settle(job)));
    let folder = job.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = Scratch::create(&folder).map_err(|error| text(&error))?;
    let mut plan = plan(registry, job, scratch.path()).map_err(|error| text(&error))?;
    plan.notes.extend(notes);
    plan.fault = fault;
    let session = Session { command: &[], scratch: &scratch, observer: &mut Silent, interrupted };
    let (_, end) = landau_engine::run(&plan, link, session).map_err(|error| text(&error))?;
    link.flush().map_err(|error| text(&error))?;
    Ok(Message::Done { outcome: end.outcome, elapsed_ms: end.elapsed_ms })
}

/// Waits until the work that a kernel does in the background after its start is done, and says what was seen.
fn settle(job: &Job) -> String {
    let mut tries = 0;
    loop {
        std::thread::sleep(Duration::from_secs(job.settle_s));
        tries += 1;
        let (quickest, mean) = canary(job);
        if mean <= quickest as f64 * 1.05 || tries == SETTLE_TRIES {
            return format!(
                "waited {} s for the kernel's background work; then getppid took {quickest} {} at the least and \
                 {mean:.1} on average",
                u64::from(tries) * job.settle_s,
                if job.unit == Unit::Instructions { "instructions" } else { "ns" },
            );
        }
    }
}

/// The canary's quickest call and its mean: where others run, the mean is far above.
fn canary(job: &Job) -> (u64, f64) {
    const CALLS: u64 = 2_000;
    let clock = if job.unit == Unit::Instructions { Clock::Instructions } else { Clock::Gettime };
    let (mut quickest, mut sum) = (u64::MAX, 0);
    for _ in 0..CALLS {
        let start = clock.ticks();
        std::hint::black_box(process::parent_id());
        let ticks = clock.ticks() - start;
        quickest = quickest.min(ticks);
        sum += ticks;
    }
    (quickest, sum as f64 / CALLS as f64)
}

fn plan(registry: &[Entry], job: &Job, scratch: &Path) -> Result<Plan, landau_engine::Error> {
    let (host, clock) = describe_host_in(job.unit, Pinning::Last)?;
    let request = Request {
        names: job.names.clone(),
        study: Study::named(&job.study).unwrap_or(Study::Quick),
        pass_count: job.pass_count,
        settings: job.settings.clone(),
        seed: job.seed,
        time_limit_s: None,
    };
    let mut plan = Plan::resolve(registry, &request, host, clock.clock, scratch_free_bytes(scratch))?;
    // Where others can run beside it, nobody waits for the worker, and the worker for nobody.
    plan.lockstep = job.unit == Unit::Instructions || system::processors().len() == 1;
    plan.step_windows = job.step_windows;
    Ok(plan)
}
