//! The findings of a record: one sentence each, the most surprising first.
//!
//! The order is: failures, cliffs by their factor, crashes, limits, outliers by their cost, growth by its factor,
//! bimodal costs, periodic slow calls, then the flat curves, the small changes and those not resolved, what was
//! skipped or cut, and the first calls. Variants of a benchmark that show the same share one finding. Every number is
//! one of a verdict's.

mod gathered;
mod phase;
mod record;

use crate::{Analysis, CaseStudy, PhaseStudy};
use landau_record::schema::Direction;
pub use phase::cliff_text;
pub use record::crash_text;
use serde::Serialize;

/// A sentence with the curves it applies to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Its kind; findings are sorted by it.
    pub kind: Kind,
    /// The sentence. It lacks its last mark where a list follows.
    pub text: String,
    /// The curves that share the sentence, each with its value; may be empty.
    pub items: Vec<String>,
    /// The case that the sentence is about, if it is about one.
    pub case: Option<u32>,
    /// Rank among the findings of its kind, highest first.
    #[serde(skip)]
    weight: f64,
    /// Findings of one kind and theme are merged; empty for those that never are.
    #[serde(skip)]
    theme: String,
    /// The item for this finding where another one leads: "bind family=v6 (×3,356)".
    #[serde(skip)]
    brief: String,
}

/// Kinds of findings, in their order on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A pass failed, or the record was altered.
    Failure,
    /// The cost jumps at one n.
    Cliff,
    /// The kernel crashed or hung.
    Crash,
    /// A call failed because a resource was exhausted.
    Limit,
    /// Single calls recur at the same n and cost at least ten times as much as the others.
    Outlier,
    /// The cost grows.
    Growth,
    /// The cost falls.
    Fall,
    /// The cost changes without growing or falling from end to end.
    Variation,
    /// The costs have two modes.
    Bimodal,
    /// Single calls recur that cost less than ten times as much as the others: a new page of a slab.
    Period,
    /// The cost is constant within δ.
    Flat,
    /// The cost changes, by less than δ.
    Small,
    /// No outcome is shown.
    Unresolved,
    /// Not measured.
    Skip,
    /// The first calls of a process are slower.
    FirstCalls,
}

impl Kind {
    /// A label of one or two words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failure => "failed",
            Self::Cliff => "cliff",
            Self::Crash => "crash",
            Self::Limit => "limit",
            Self::Outlier => "outliers",
            Self::Growth => "grows",
            Self::Fall => "falls",
            Self::Variation => "varies",
            Self::Bimodal => "bimodal",
            Self::Period => "recurring",
            Self::Flat => "flat",
            Self::Small => "small change",
            Self::Unresolved => "not resolved",
            Self::Skip => "not measured",
            Self::FirstCalls => "warm-up",
        }
    }
}

impl Finding {
    fn new(kind: Kind, case: Option<u32>, weight: f64, text: String) -> Self {
        Self { kind, text, items: Vec::new(), case, weight, theme: String::new(), brief: String::new() }
    }

    /// About one case; variants with the same `theme` share the finding, where `brief` represents this one.
    fn of_case(kind: Kind, study: &CaseStudy<'_>, weight: f64, text: String, theme: String, brief: String) -> Self {
        Self { theme, brief, ..Self::new(kind, Some(study.case.case), weight, text) }
    }

    /// The whole finding as text, items included.
    pub fn sentence(&self) -> String {
        if self.items.is_empty() { self.text.clone() } else { format!("{}: {}.", self.text, self.items.join(", ")) }
    }
}

/// The findings of an analysis, most surprising first.
pub fn of(analysis: &Analysis<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    record::of_record(analysis, &mut found);
    for study in &analysis.cases {
        record::of_case(study, &mut found);
        for phase in &study.phases {
            phase::of_phase(study, phase, &mut found);
        }
    }
    let mut found = merged(found);
    gathered::flat(analysis, &mut found);
    gathered::small(analysis, &mut found);
    gathered::unresolved(analysis, &mut found);
    gathered::first_calls(analysis, &mut found);
    found.sort_by(|a, b| a.kind.cmp(&b.kind).then(b.weight.total_cmp(&a.weight)));
    found
}

/// The name of a curve: the case's label, and the phase unless the label names it and no other creating phase exists.
pub fn subject(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> String {
    let (case, name) = (study.case, &phase.phase.name);
    let creating = case.phases.iter().filter(|phase| phase.direction == Direction::Up).count();
    if *name == case.benchmark && creating < 2 { case.label.clone() } else { format!("{} · {name}", case.label) }
}

/// Merges the findings of one kind and theme: the first leads, the others become its items.
fn merged(found: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for one in found {
        let leader =
            kept.iter_mut().find(|held| !one.theme.is_empty() && held.kind == one.kind && held.theme == one.theme);
        if let Some(leader) = leader {
            leader.weight = leader.weight.max(one.weight);
            leader.items.push(one.brief);
        } else {
            kept.push(one);
        }
    }
    for one in kept.iter_mut().filter(|one| !one.items.is_empty()) {
        one.text.push_str(" Also");
    }
    kept
}
