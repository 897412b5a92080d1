//! `landau pids`: compares models of PID allocators.

use crate::status;
use crate::terminal;
use anyhow::{Context, bail};
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressDrawTarget};
use landau_pids::measure::{Experiment, Sample, Study};
use landau_pids::{Model, Workload, list};
use landau_report::allocators::{self, Measured, Row};
use serde_json::json;
use std::io::IsTerminal;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau pids
  landau pids --allocators freebsd-scan,netbsd-table,hash-probe   the study of 2004
  landau pids --workload sequential
  landau pids --n 1000,3000,10000,30000 --json | jq '.allocators[].points'

The models are data structures in user space. They show how many entries a search visits, not the
cost of a fork. To measure the running kernel, use `landau run spawn`.")]
pub(crate) struct Args {
    /// Allocators to compare [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = PossibleValuesParser::new(list::NAMES))]
    allocators: Vec<String>,
    /// Set where the sleeping processes are, and what the others do
    #[arg(long, value_name = "WORKLOAD", default_value = "random",
        value_parser = PossibleValuesParser::new(Workload::NAMES))]
    workload: String,
    /// Set the largest process identifier; 99,999 is that of FreeBSD
    #[arg(long, value_name = "N", default_value_t = 99_999,
        value_parser = clap::value_parser!(u32).range(1_000..=4_194_304))]
    pid_max: u32,
    /// Set the numbers of sleeping processes [default: 0.5% to 90% of the identifiers, for freebsd-scan 0.5% to 10% of
    /// at most 100,000]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    n: Vec<u32>,
    /// Repeat the measurement this many times, each time with other PIDs for the sleeping processes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    passes: u32,
    /// Seed the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let workload = Workload::named(&args.workload).context("the parser accepts known workloads only")?;
    let chosen =
        |model: &&&'static Model| args.allocators.is_empty() || args.allocators.iter().any(|name| name == model.name);
    let models = list::ALL.iter().filter(chosen).copied();
    let experiments = models.map(|model| Experiment { model, workload, pid_max: args.pid_max });
    let experiments = experiments.map(|one| Ok((one, sizes(args, &one)?))).collect::<anyhow::Result<Vec<_>>>()?;
    let study = Study { experiments, passes: args.passes, seed: args.seed };
    let samples = measure(&study)?;
    let around_ns = around_ns(&study)?;
    let measured = study.experiments.iter().zip(samples);
    let rows: Vec<Row> = measured.map(|((experiment, sizes), passes)| judged(experiment, sizes, &passes)).collect();
    let text = if args.json {
        let about = json!({
            "workload": workload.name(), "pid_max": args.pid_max, "passes": args.passes, "seed": args.seed,
            "around_ns": around_ns, "allocators": rows
        });
        serde_json::to_string_pretty(&about)?
    } else {
        allocators::render(&rows, workload.about(), around_ns, terminal::layout())
    };
    status::print(&text)?;
    Ok(status::DONE)
}

/// Returns the numbers of sleepers of an experiment, in ascending order.
fn sizes(args: &Args, experiment: &Experiment) -> anyhow::Result<Vec<u32>> {
    let (most, name) = (experiment.sleepers_max(), experiment.model.name);
    if args.n.is_empty() {
        return Ok(experiment.sizes());
    }
    let mut sizes = args.n.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if let Some(large) = sizes.iter().find(|n| **n > most) {
        bail!(
            "--n {large}: {name} has identifiers for only {most} sleeping processes of this workload; raise --pid-max"
        );
    }
    Ok(sizes)
}

/// Takes the samples. On a terminal a progress bar is shown.
fn measure(study: &Study) -> anyhow::Result<Vec<Vec<Vec<Sample>>>> {
    let is_shown = std::io::stderr().is_terminal();
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    let samples = study.run(landau_sys::process::thread_time_ns, |taken, all| {
        bar.set_length(all);
        bar.set_position(taken);
    });
    bar.finish_and_clear();
    Ok(samples?)
}

/// Returns the time with an allocator that does not search, at the smallest number of sleepers of the first experiment.
fn around_ns(study: &Study) -> anyhow::Result<f64> {
    let (experiment, sizes) = study.experiments.first().context("there is at least one allocator")?;
    let n = sizes.first().context("there is at least one number of sleepers")?;
    Ok(experiment.around_ns(*n, landau_sys::process::thread_time_ns)?)
}

fn judged(experiment: &Experiment, sizes: &[u32], passes: &[Vec<Sample>]) -> Row {
    let Experiment { model, workload, pid_max } = *experiment;
    let formula = model.closed_form.and_then(|form| Some((form, form.formula(workload)?)));
    let expected = formula.map(|(form, formula)| {
        let at = |n: &u32| Some((*n, form.visits(workload, *n, pid_max)?));
        (formula, sizes.iter().filter_map(at).collect())
    });
    let taken = |sample: &Sample| allocators::Sample { n: sample.n, visits: sample.visits, time_ns: sample.time_ns };
    allocators::row(&Measured {
        name: model.name,
        about: model.about,
        counts: model.counts,
        source: model.source,
        reconstructs: model.reconstructs,
        closed_form: expected,
        capacity: f64::from(pid_max) / f64::from(workload.numbers_each()),
        passes: passes.iter().map(|samples| samples.iter().map(taken).collect()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use landau_pids::{Workload, list, named};

    #[test]
    fn every_name_that_is_accepted_has_a_model_and_every_workload_a_meaning() {
        assert!(list::NAMES.iter().all(|name| named(name).is_some()));
        assert!(Workload::NAMES.iter().all(|name| Workload::named(name).is_some_and(|one| one.name() == *name)));
    }
}
