//! Assessment of a run's curves between its rounds, from the part of the record that is already written.

use landau_engine::{Assessment, Assessor, Error, OpenCurve};
use landau_record::Follower;
use landau_report::Verdicts;
use landau_report::precision::{Curves, Need};
use std::path::Path;

/// Assesses the record that the run is writing. A curve keeps its verdict if its case had no further pass.
#[derive(Debug)]
pub(crate) struct RecordAssessor {
    record: Follower,
    curves: Curves,
}

impl RecordAssessor {
    /// Opens the record of a new or a resumed run.
    pub(crate) fn open(path: &Path) -> Result<Self, landau_record::Error> {
        Ok(Self { record: Follower::open(path)?, curves: Curves::default() })
    }

    /// Returns the verdicts of the last assessment.
    pub(crate) fn into_verdicts(self) -> Verdicts {
        self.curves.into_verdicts()
    }
}

impl Assessor for RecordAssessor {
    fn assess(&mut self, round: u32) -> Result<Assessment, Error> {
        let record = self.record.read()?;
        self.curves.judge(record, round);
        let open = self.curves.iter().filter_map(|curve| {
            let more_passes = match curve.need {
                Need::Nothing => return None,
                Need::Passes(count) => Some(count),
                Need::Other => None,
            };
            let is_resolved = curve.is_resolved;
            Some(OpenCurve { case: curve.case, phase: curve.phase.clone(), more_passes, is_resolved })
        });
        let unresolved_count = self.curves.iter().filter(|curve| !curve.is_resolved).count();
        Ok(Assessment { curve_count: self.curves.iter().count(), unresolved_count, open: open.collect() })
    }
}
