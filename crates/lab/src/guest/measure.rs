//! Runs a guest's job: waits until the kernel is idle, and runs the benchmarks.

use super::connection::Connection;
use crate::job::{Job, Message};
use landau_engine::{
    Adaptive, Entry, Fault, Output, Pinning, Plan, Request, Scratch, Session, Silent, Study, describe_host_in,
    scratch_free_bytes,
};
use landau_record::Journal;
use landau_record::schema::{EndOutcome, Unit};
use landau_sys::clock::Clock;
use landau_sys::{process, system};
use std::path::Path;
use std::time::Duration;

/// The maximum number of times that the guest waits for the kernel's background work to end.
const SETTLE_TRIES: u32 = 6;

/// Above this ratio of the canary's mean to its minimum, something else is running.
const SETTLED_RATIO: f64 = 1.05;

/// Measures what the job specifies; returns the last message.
pub(super) fn measure(
    registry: &[Entry],
    job: &Job,
    connection: &mut Connection,
    fault: Option<Fault>,
    mut notes: Vec<String>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Message, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    if job.probe {
        return Ok(Message::Done { outcome: EndOutcome::Complete, elapsed_ms: 0 });
    }
    notes.extend((job.settle_s > 0).then(|| settle(job)));
    let folder = job.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = Scratch::create(&folder).map_err(|error| text(&error))?;
    let mut plan = plan(registry, job, scratch.path()).map_err(|error| text(&error))?;
    plan.notes.extend(notes);
    plan.fault = fault;
    let session =
        Session { command: &[], scratch: &scratch, observer: &mut Silent, interrupted, switch: None, profiling: None };
    let output = Output { writer: connection, assessor: None };
    let end = landau_engine::run(vec![(&plan, output)], session).map_err(|error| text(&error))?;
    connection.flush().map_err(|error| text(&error))?;
    Ok(Message::Done { outcome: end.outcome, elapsed_ms: end.elapsed_ms })
}

/// Waits until the kernel's background work after boot is done; returns a note about it.
fn settle(job: &Job) -> String {
    let mut tries = 0;
    loop {
        std::thread::sleep(Duration::from_secs(job.settle_s));
        tries += 1;
        let (least, mean) = canary(job);
        if mean <= least as f64 * SETTLED_RATIO || tries == SETTLE_TRIES {
            return format!(
                "waited {} s for the kernel's background work; then getppid took {least} {} at least and {mean:.1} on \
                 average",
                u64::from(tries) * job.settle_s,
                if job.unit == Unit::Instructions { "instructions" } else { "ns" },
            );
        }
    }
}

/// Returns the canary's minimum and mean cost. If something else is running, the mean is far above the minimum.
fn canary(job: &Job) -> (u64, f64) {
    const CALLS: u64 = 2_000;
    let clock = if job.unit == Unit::Instructions { Clock::Instructions } else { Clock::Gettime };
    let (mut least, mut sum) = (u64::MAX, 0);
    for _ in 0..CALLS {
        let start = clock.ticks();
        std::hint::black_box(process::parent_id());
        let ticks = clock.ticks() - start;
        least = least.min(ticks);
        sum += ticks;
    }
    (least, sum as f64 / CALLS as f64)
}

fn plan(registry: &[Entry], job: &Job, scratch: &Path) -> Result<Plan, landau_engine::Error> {
    let (host, clock) = describe_host_in(job.unit, Pinning::Last)?;
    let request = Request {
        names: job.names.clone(),
        cases: Vec::new(),
        study: Study::named(&job.study).unwrap_or(Study::Quick),
        pass_count: job.pass_count,
        adaptive: Adaptive::Off,
        settings: job.settings.clone(),
        varied: Vec::new(),
        seed: job.seed,
        time_limit_s: None,
    };
    let mut plan = Plan::resolve(registry, &request, host, clock.clock, scratch_free_bytes(scratch))?;
    // With several processors, worker and controller do not wait for each other.
    plan.lockstep = job.unit == Unit::Instructions || system::processors().len() == 1;
    plan.step_windows = job.step_windows;
    Ok(plan)
}
