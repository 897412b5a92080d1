//! The progress of a guest, from the lines it sends.

use landau_record::schema::{Line, PassStart};

/// The progress of a guest.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    labels: Vec<String>,
    pass: Option<PassStart>,
    last_n: Option<u64>,
}

impl Progress {
    /// Updates it with a line.
    pub(crate) fn update(&mut self, line: &Line) {
        match line {
            Line::Case(case) => self.labels.push(case.label.clone()),
            Line::Pass(start) => (self.pass, self.last_n) = (Some(start.clone()), Some(0)),
            Line::Chunk(chunk) if chunk.stride > 0 => {
                let last = u64::from(chunk.first) + chunk.samples.values().len() as u64 - 1;
                self.last_n = self.last_n.max(Some(last));
            }
            Line::PassEnd(_) => (self.pass, self.last_n) = (None, None),
            _ => {}
        }
    }

    /// Returns whether the guest has sent its plan.
    pub(crate) fn has_plan(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Returns the current pass.
    pub(crate) fn pass(&self) -> Option<u32> {
        self.pass.as_ref().map(|start| start.pass)
    }

    /// Returns the last step of the current pass that has a sample.
    pub(crate) fn last_n(&self) -> Option<u64> {
        self.last_n
    }

    /// Returns the current place, as text for the user.
    pub(crate) fn place(&self) -> String {
        match (&self.pass, self.last_n) {
            (Some(start), Some(n)) => {
                let label = self.labels.get(start.case as usize).map_or("a case", String::as_str);
                format!("{label}, pass {}, after n = {n}", start.round + 1)
            }
            _ => "between two passes".to_owned(),
        }
    }
}
