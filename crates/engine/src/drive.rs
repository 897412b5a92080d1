//! The life of a pass inside the worker: set up, create, check, destroy.

use crate::order::Report;
use crate::{Benchmark, Context, Cost, Settings, Stop, Timer, limit};
use landau_record::schema::{Direction, Limit};
use landau_sys::{memory, system};

/// Runs one pass of a benchmark.
pub(crate) fn pass<B: Benchmark>(context: &Context, timer: &mut Timer) -> Report {
    let mut report = Report::new();
    let mut benchmark = match B::setup(context) {
        Ok(benchmark) => benchmark,
        Err(stop) => {
            fail(&mut report, &stop, 0);
            return report;
        }
    };
    supply_memory(&B::cost(context.settings), context, &mut report);
    timer.watch(&benchmark.measured_processes());
    create(&mut benchmark, context, timer, &mut report);
    if report.wrong.is_none()
        && let Err(stop) = benchmark.check(report.steps, &mut report.facts)
    {
        let steps = report.steps;
        fail(&mut report, &stop, steps);
    }
    if report.wrong.is_none() && B::phases(context.settings).iter().any(|phase| phase.direction == Direction::Down) {
        destroy(&mut benchmark, timer, &mut report);
    }
    report
}

/// Lets a virtual machine's host supply the memory of the objects before they are measured.
fn supply_memory(cost: &Cost, context: &Context, report: &mut Report) {
    let expected = cost.memory_bytes_each.saturating_mul(context.n);
    // What is free may have changed since the plan was made, or the record that is resumed.
    let free = system::headroom().memory_bytes.unwrap_or(0);
    // Whatever else runs takes memory, too.
    let bytes = expected.saturating_add(expected / 4).min(free / 2) as usize;
    if bytes > 0
        && let Err(error) = memory::supply(bytes)
    {
        report.facts.text("memory", format!("not supplied before the pass: {error}"));
    }
}

fn create<B: Benchmark>(benchmark: &mut B, context: &Context, timer: &mut Timer, report: &mut Report) {
    timer.begin(Direction::Up);
    for n in 1..=context.n {
        if let Err(stop) = benchmark.step(n, timer) {
            refuse::<B>(report, &stop, n, context.settings);
            break;
        }
        timer.end_step(n);
        report.steps = n;
    }
    timer.finish();
}

fn destroy<B: Benchmark>(benchmark: &mut B, timer: &mut Timer, report: &mut Report) {
    timer.begin(Direction::Down);
    for n in (1..=report.steps).rev() {
        if let Err(stop) = benchmark.undo(n, timer) {
            fail(report, &stop, n);
            break;
        }
        timer.end_step(n);
    }
    timer.finish();
}

/// Reports what ended the creation; a refusal that is a limit is a result.
fn refuse<B: Benchmark>(report: &mut Report, stop: &Stop, n: u64, settings: &Settings) {
    if let Stop::Refused(error) = stop
        && let Some(limit) = limit::explain(*error, n)
    {
        let (meaning, raise) = B::limit(settings, *error).unwrap_or((limit.meaning, limit.raise));
        report.limit = Some(Limit { meaning, raise, ..limit });
    } else {
        fail(report, stop, n);
    }
}

/// Reports why the pass failed.
fn fail(report: &mut Report, stop: &Stop, n: u64) {
    match stop {
        Stop::Refused(error) => report.wrong = Some(format!("at n = {n}: {error}")),
        Stop::Wrong(what) => report.wrong = Some(format!("at n = {n}: {what}")),
        Stop::Enough => {}
    }
}
