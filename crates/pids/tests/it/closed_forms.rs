//! Compares the mean number of visits with the closed forms, within 5%.

use landau_pids::measure::Experiment;
use landau_pids::{ALL, ClosedForm, Id, Model, Workload, named};

/// `PID_MAX` of FreeBSD.
const PID_MAX: Id = 99_999;

fn experiment(model: &'static Model, workload: Workload) -> Experiment {
    Experiment { model, workload, pid_max: PID_MAX }
}

/// Returns the mean of three samples with different seeds.
fn mean(experiment: &Experiment, n: u32) -> f64 {
    (1..=3).map(|seed| experiment.sample(n, seed, || 0).expect("numbers are free").visits).sum::<f64>() / 3.0
}

fn compare(form: ClosedForm, workload: Workload, sizes: &[u32]) {
    let models: Vec<_> = ALL.iter().filter(|model| model.closed_form == Some(form)).collect();
    assert!(!models.is_empty());
    for model in models {
        for &n in sizes {
            let expected = form.visits(workload, n, PID_MAX).expect("a form of this workload");
            let visits = mean(&experiment(model, workload), n);
            let ratio = visits / expected;
            assert!((0.95..1.05).contains(&ratio), "{} among {n}: {visits} visits, not {expected}", model.name);
        }
    }
}

#[test]
fn a_scan_reads_the_square_of_the_processes_by_the_numbers() {
    compare(ClosedForm::Scan, Workload::Random, &[500, 1_000, 2_000, 5_000, 10_000]);
}

#[test]
fn probing_tries_one_by_the_free_share_of_the_numbers() {
    let sizes = [500, 3_000, 20_000, 50_000, 90_000];
    compare(ClosedForm::Probing, Workload::Random, &sizes);
    compare(ClosedForm::Drawing, Workload::Random, &sizes);
}

/// In steady state the numbers ahead of a cursor are those of the oldest sleepers: few of them are left.
#[test]
fn a_cursor_meets_fewer_numbers_in_steady_state() {
    let at = |n| ClosedForm::Probing.visits(Workload::Turnover, n, PID_MAX).expect("a form of this workload");
    assert!((at(50_000) - 1.255).abs() < 0.001, "{}", at(50_000));
    compare(ClosedForm::Probing, Workload::Turnover, &[20_000, 50_000, 80_000]);
    compare(ClosedForm::Drawing, Workload::Turnover, &[20_000, 80_000]);
}

/// With few sleepers, none is left where the cursor passes. A pass then has two walks: one at its start, which looks
/// ahead to the last numbers of the previous pass, and one where those were.
#[test]
fn a_scan_walks_twice_in_a_pass_of_few_sleepers_in_steady_state() {
    let scan = experiment(named("freebsd-scan").expect("a model"), Workload::Turnover);
    let walks = mean(&scan, 500) / 501.0 * f64::from(PID_MAX);
    assert!((1.9..2.1).contains(&walks), "{walks}");
}

/// Two numbers per sleeper: half as many sleepers give the same encounters, and the list is half as long.
#[test]
fn groups_that_outlive_their_leader_are_met_as_processes_are() {
    let probe = experiment(named("hash-probe").unwrap(), Workload::Groups);
    let expected = ClosedForm::Probing.visits(Workload::Random, 40_000, PID_MAX).expect("a form");
    assert!((0.95..1.05).contains(&(mean(&probe, 20_000) / expected)));
    let scan = experiment(named("freebsd-scan").unwrap(), Workload::Groups);
    let expected = 2.0 * ClosedForm::Scan.visits(Workload::Random, 3_000, PID_MAX).expect("a form");
    assert!((0.95..1.05).contains(&(mean(&scan, 3_000) / expected)));
}

#[test]
fn every_workload_runs_on_every_model() {
    for model in ALL {
        for workload in Workload::ALL {
            let experiment = Experiment { model, workload, pid_max: 1_000 };
            let sample = experiment.sample(200, 1, || 0).unwrap();
            assert!(sample.visits >= 0.9 || model.name == "freebsd-scan", "{} {}", model.name, workload.name());
            let most = experiment.sleepers_max();
            assert!(experiment.sample(most, 2, || 0).is_ok(), "{} {}: {most}", model.name, workload.name());
        }
    }
}

/// Consecutive forks leave the process list in descending order. The walk starts over for each number of a dense block,
/// and each time ends one entry earlier. So a pass over the numbers visits n²/2 entries, where random numbers cost n².
#[test]
fn a_dense_block_costs_the_scan_half_as_much_as_random_numbers() {
    let scan = named("freebsd-scan").unwrap();
    let (random, dense) = (experiment(scan, Workload::Random), experiment(scan, Workload::Sequential));
    let ratio = mean(&dense, 2_000) / mean(&random, 2_000);
    assert!((0.475..0.525).contains(&ratio), "{ratio}");
}
