//! The default numbers of sleepers.

use landau_pids::measure::Experiment;
use landau_pids::{ALL, ClosedForm, Workload};

/// The minimum of points that are judged.
const POINTS_MIN: usize = 6;

/// Guards against an allocator without any sizes for a large `pid_max`, whose row was once empty.
#[test]
fn every_largest_identifier_has_enough_sizes() {
    for &model in ALL {
        for workload in Workload::ALL {
            for pid_max in [1_000, 5_000, 32_768, 99_999, 200_000, 1_000_000, 4_194_304] {
                let experiment = Experiment { model, workload, pid_max };
                let sizes = experiment.sizes();
                let of = format!("{} with {pid_max}, {workload:?}: {sizes:?}", model.name);
                assert!(sizes.len() >= POINTS_MIN && sizes.is_sorted_by(|a, b| a < b), "{of}");
                assert!(sizes.iter().all(|n| (1..=experiment.sleepers_max()).contains(n)), "{of}");
                assert!(model.closed_form != Some(ClosedForm::Scan) || sizes.iter().all(|n| *n <= 10_000), "{of}");
            }
        }
    }
}
