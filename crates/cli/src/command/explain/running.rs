//! Explains the costs of the running kernel, from samples of the worker's call chain.

use super::Args;
use super::rounds::{self, Held, Rounds, Shown};
use crate::command::run::{finish, scratch};
use crate::progress::Progress;
use crate::{status, terminal};
use anyhow::bail;
use landau_bench::REGISTRY;
use landau_engine::{
    Adaptive, Output, Pinning, Plan, Profiling, Request, Scratch, Session, Study, describe_host_by_gettime,
    scratch_free_bytes,
};
use landau_profile::{Collector, EXTRA_PASSES, Sampler, compare};
use landau_record::schema::{EndOutcome, Line, Profile};
use landau_record::{Record, Writer};
use landau_report::profiled;
use landau_report::quantity::count;
use landau_sys::signal::interrupted;
use std::path::Path;

/// Runs the passes, writes the record with the profiles, and returns the profiles.
pub(super) fn measure(args: &Args, path: &Path, words: &[String]) -> anyhow::Result<Vec<Profile>> {
    let at = match args.at.as_slice() {
        [] => None,
        [low, high] if low < high => Some([*low, *high]),
        _ => bail!("--at: on the running kernel, pass two values of n, the smaller first, such as --at 1000,8000"),
    };
    let measures_folder = REGISTRY.iter().any(|entry| entry.name == args.benchmark && entry.measures_folder);
    let scratch = scratch(None, measures_folder, None)?;
    let (host, clock) = describe_host_by_gettime(Pinning::default())?;
    let request = Request {
        names: vec![args.benchmark.clone()],
        cases: Vec::new(),
        study: Study::Quick,
        pass_count: Some(1),
        adaptive: Adaptive::Off,
        settings: args.settings.set.clone(),
        varied: Vec::new(),
        seed: 1,
        time_limit_s: None,
    };
    let mut plan = Plan::resolve(REGISTRY, &request, host, clock.clock, scratch_free_bytes(scratch.path()))?;
    if plan.cases.is_empty() {
        let reasons = plan.skips.iter().map(|skip| format!("{}: {}", skip.label, skip.reason));
        bail!("no case can be measured on this system:\n  {}", reasons.collect::<Vec<_>>().join("\n  "));
    }
    check_reached(args, &plan)?;
    let mut collector = Collector::new(Sampler::calibrated()?, at)?;
    // Created before the measurement, so that an unwritable path is reported at once.
    let mut writer = Writer::create(path)?;
    let calls = plan.cases.iter().map(|planned| planned.case.n * planned.case.phases.len() as u64).sum();
    plan.pass_count = rounds::most(calls);
    let profiles = profile(args, &plan, &scratch, &mut collector, &mut writer, words);
    if profiles.is_err() {
        drop(writer);
        super::discard(path);
    }
    profiles
}

/// Checks that a case reaches the requested values of n, with different calls for each value.
fn check_reached(args: &Args, plan: &Plan) -> anyhow::Result<()> {
    let largest = plan.cases.iter().map(|planned| planned.case.n).max().unwrap_or(0);
    if let Some(beyond) = args.at.iter().find(|at| **at > largest) {
        bail!(
            "--at {beyond}: the largest n of {} is {largest} with these settings; choose smaller values, or raise it \
             with --set {}.n=N",
            args.benchmark,
            args.benchmark
        );
    }
    let [low, high] = args.at[..] else { return Ok(()) };
    let reached = plan.cases.iter().map(|planned| planned.case.n).filter(|n| *n >= high);
    // The case with the smallest maximum n has the fewest calls around each value.
    let Some(largest) = reached.min() else { return Ok(()) };
    let (apart, half) = landau_profile::distances(largest);
    if high - low < apart {
        let [half, largest, apart] = [half, largest, apart].map(|n| count(n as f64));
        bail!(
            "--at {low},{high}: each value covers the calls within {half} (an eighth of {largest}) of it; choose two \
             at least {apart} apart"
        );
    }
    Ok(())
}

/// Runs the rounds, and appends the profiles and the end to the record.
fn profile(
    args: &Args,
    plan: &Plan,
    scratch: &Scratch,
    collector: &mut Collector,
    writer: &mut Writer,
    words: &[String],
) -> anyhow::Result<Vec<Profile>> {
    let rounds = Rounds::new(plan.cases.len() as u32, args.duration * plan.cases.len() as u32);
    // `is_over` becomes true only between two rounds, so that no pass is interrupted.
    let is_interrupted = || interrupted().is_some() || rounds.is_over();
    let session = Session {
        command: words,
        scratch,
        observer: &mut Shown { rounds: &rounds, progress: Progress::new(false) },
        interrupted: &is_interrupted,
        switch: None,
        profiling: Some(Profiling { profiler: collector, passes: EXTRA_PASSES }),
    };
    let mut held = Held::default();
    let mut end = landau_engine::run(vec![(plan, Output { writer: &mut held, assessor: None })], session)?;
    if interrupted().is_some() {
        bail!("interrupted");
    }
    if rounds.has_failed() || !matches!(end.outcome, EndOutcome::Complete | EndOutcome::Interrupted) {
        bail!("a pass failed; run `landau run {}` to see the reason", args.benchmark);
    }
    if !rounds.is_over() {
        let made = count(f64::from(rounds.made()));
        status::tell(&format!("stopped before the end of --for: a record has at most {made} rounds"));
    }
    end.outcome = EndOutcome::Complete;
    held.write(rounds.made(), writer)?;
    let profiles = compare(collector, &Record::read(writer.path())?, args.phase.as_deref())?;
    let counts = collector.sampler().sample_instructions.is_some();
    for one in profiles.iter().filter(|one| counts && one.instructions.is_none()) {
        let phase = &one.phase;
        status::tell(&format!("{phase}: too few samples of the instruction counter; sample longer with --for"));
    }
    for one in &profiles {
        writer.append(&Line::Profile(Box::new(one.clone())))?;
    }
    finish(writer, end)?;
    Ok(profiles)
}

/// Prints the profiles. The exit status reports whether they add up.
pub(super) fn tell(args: &Args, profiles: &[Profile], record: &Record) -> anyhow::Result<u8> {
    let text = if args.json {
        serde_json::to_string_pretty(profiles)?
    } else {
        let one = |profile: &Profile| {
            let case = record.case(profile.case)?;
            Some(format!("{}\n{}", profiled::render(profile, case, terminal::layout()), bullets(profile)))
        };
        profiles.iter().filter_map(one).collect::<Vec<_>>().join("\n\n")
    };
    let wrong: Vec<&Profile> = profiles.iter().filter(|one| !one.adds_up()).collect();
    let code = status::answer(&text, if wrong.is_empty() { status::DONE } else { status::FAILED })?;
    for one in wrong {
        let reason = profiled::sum(one);
        status::tell(&format!("{}: the functions do not add up to the measured growth: {reason}", one.phase));
    }
    Ok(code)
}

/// Returns one sentence for each function that certainly grows, with a link to its source.
fn bullets(profile: &Profile) -> String {
    let mut text = String::new();
    for function in profiled::growing(profile) {
        text.push_str(&terminal::bullet(&profiled::words(function)));
        if let Some(link) = landau_report::explained::link(&function.name, &profile.source) {
            text.extend(["      ", &link, "\n"]);
        }
    }
    text
}
