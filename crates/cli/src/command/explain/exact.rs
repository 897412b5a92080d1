//! Explains the costs of a kernel that boots in the lab, where every instruction can be counted.

use super::Args;
use crate::command::lab::run::own_program;
use crate::command::run::finish;
use crate::{status, terminal};
use anyhow::Context;
use landau_engine::Scratch;
use landau_lab::explain::{self, Question};
use landau_lab::job::Job;
use landau_lab::launch::Timeouts;
use landau_lab::machine::Login;
use landau_lab::session::RunSpec;
use landau_lab::{obtain, platform};
use landau_record::schema::{Case, Explanation, Unit};
use landau_record::{Record, Writer};
use landau_report::{Analysis, explained};
use landau_sys::signal::interrupted;
use std::path::Path;
use std::time::Duration;

/// Passes of each case: a call that a timer interrupt disturbs in the first is undisturbed in the second.
const PASSES: u32 = 2;

/// Longest silence of a guest. The plugin makes the guest slower by half, and a long search for a port sends nothing.
const STALL_TIMEOUT: Duration = Duration::from_secs(300);

/// Boots the kernel, writes the record with the explanations, and returns them.
pub(super) fn measure(args: &Args, kernel: &str, path: &Path, words: &[String]) -> anyhow::Result<Vec<Explanation>> {
    let platform = platform::for_unit(Unit::Instructions).context("no platform counts instructions")?;
    let cache = args.cache.directory()?;
    let kernel = obtain::obtain(kernel, &cache, &mut |text| status::tell(text))?;
    platform.check_kind(&kernel)?;
    let scratch = Scratch::create(&std::env::temp_dir())?;
    let job = Job {
        names: vec![args.benchmark.clone()],
        study: "quick".to_owned(),
        pass_count: Some(PASSES),
        settings: args.settings.set.clone(),
        seed: 1,
        unit: platform.unit(),
        settle_s: platform.settle_s(),
        ..Job::default()
    };
    let spec = RunSpec {
        kernel: &kernel,
        platform,
        job: &job,
        program: &own_program()?,
        folder: scratch.path(),
        memory_mib: args.guest.memory_mib,
        append: &args.guest.append,
        emulator_arguments: &[],
        login: &Login::default(),
        timeouts: Timeouts::new(STALL_TIMEOUT, args.guest.time_limit),
        started: &jiff::Timestamp::now().to_string(),
        command: words,
    };
    let question = Question { phase: args.phase.as_deref(), at: &args.at };
    let mut writer = Writer::create(path)?;
    let explained = match explain::explain(&spec, &question, &mut writer, &|| interrupted().is_some()) {
        Ok(explained) => explained,
        Err(error) => {
            drop(writer);
            super::discard(path);
            return Err(error).with_context(|| kernel.name.clone());
        }
    };
    if let Some(end) = explained.measured.end {
        finish(&mut writer, end)?;
    }
    Ok(explained.explanations)
}

/// Prints the explanations. The exit status reports whether they add up.
pub(super) fn tell(args: &Args, explanations: &[Explanation], record: &Record) -> anyhow::Result<u8> {
    let text = if args.json {
        serde_json::to_string_pretty(explanations)?
    } else {
        let analysis = Analysis::of(record);
        let one = |explanation: &Explanation| {
            record.case(explanation.case).map(|case| text(explanation, case, &analysis)).unwrap_or_default()
        };
        explanations.iter().map(one).collect::<Vec<_>>().join("\n\n")
    };
    let wrong: Vec<&Explanation> = explanations.iter().filter(|one| !one.adds_up(explained::TOLERANCE)).collect();
    let code = status::answer(&text, if wrong.is_empty() { status::DONE } else { status::FAILED })?;
    for one in &wrong {
        status::tell(&format!(
            "{}: the functions do not add up to the measured growth: {}",
            one.phase,
            explained::sum(one)
        ));
    }
    Ok(code)
}

/// Returns the table, the functions that grow, and the law of the whole call.
fn text(explanation: &Explanation, case: &Case, analysis: &Analysis<'_>) -> String {
    let mut text = explained::render(explanation, case, terminal::layout());
    let study = analysis.cases.iter().find(|study| study.case.case == explanation.case);
    let phase = study.and_then(|study| study.phases.iter().find(|phase| phase.phase.name == explanation.phase));
    if let Some(phase) = phase {
        text.extend(["\nthe whole call: ", &landau_report::text::sentence(&phase.verdict.all)]);
    }
    text.push('\n');
    for function in explanation.functions.iter().take(8).filter(|function| function.share >= 0.01) {
        text.push_str(&terminal::bullet(&explained::words(function, &case.axis)));
        if let Some(link) = explained::source_of(function, &explanation.source) {
            text.extend(["      ", &link, "\n"]);
        }
    }
    text
}
