//! The findings of a record: one sentence each, the most important first.
//!
//! Failures and crashes come first, then the functions that an explanation names. Cliffs, limits, outliers, growth and
//! bimodal costs follow in the order of their weight: the lower bound of the effect times the share of the cost that it
//! concerns (see `weight`). Expected findings come last: periods of a slab, flat curves, small changes, unresolved and
//! skipped curves, slow first calls. A benchmark has one finding of each kind, led by the curve of the largest weight.
//! Every number is from a verdict.

mod across;
mod functions;
mod gathered;
pub(crate) mod instrument;
mod phase;
mod record;
mod variant;
pub(crate) mod weight;

use crate::quantity::numbered;
use crate::{Analysis, CaseStudy, PhaseStudy};
pub use across::across;
pub(crate) use across::alarms;
use landau_record::schema::Direction;
pub(crate) use phase::outlier_share;
pub use record::crash_text;
use serde::Serialize;

/// Maximum number of findings at the top of a page or a table; the others are shown on request.
pub const LEADING_MAX: usize = 7;

/// A sentence with the curves it applies to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// The sentence; one that only introduces its items lacks the full stop.
    pub text: String,
    /// What it means for a program, in one sentence; may be empty.
    pub consequence: String,
    /// The curves that share the finding, each with its value; may be empty.
    pub items: Vec<String>,
    /// The case that the sentence is about, if any.
    pub case: Option<u32>,
    /// The phase that the sentence is about, if any.
    pub phase: Option<String>,
    /// The records between which something changed, by index.
    #[serde(skip)]
    pub(crate) between: Option<[usize; 2]>,
    /// Rank among the findings of its tier, highest first.
    #[serde(skip)]
    weight: f64,
    /// Findings of one kind and theme are merged; empty if the finding is never merged.
    #[serde(skip)]
    theme: String,
    /// The item for this finding if another one leads: "bind family=v6 (×3,356)".
    #[serde(skip)]
    brief: String,
}

/// Kinds of findings. Their order matters only within the tier `Usual`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A pass failed, or the record was altered.
    Failure,
    /// The kernel crashed or hung.
    Crash,
    /// The functions that account for the growth.
    Functions,
    /// The cost jumps at one n.
    Cliff,
    /// A call failed because a resource was exhausted.
    Limit,
    /// Single calls recur at the same n and cost at least ten times as much as the others.
    Outlier,
    /// The cost grows.
    Growth,
    /// The cost falls.
    Fall,
    /// The 99th percentile grows, but the median does not.
    Tail,
    /// The cost changes without growing or falling from end to end.
    Variation,
    /// The costs have two modes.
    Bimodal,
    /// The cost differs between records.
    Change,
    /// A property that several records have in common.
    Shared,
    /// Single calls recur that cost less than ten times as much as the others, as for a new page of a slab.
    Period,
    /// The cost is constant within δ.
    Flat,
    /// The cost changes, by less than δ.
    Small,
    /// No outcome is proven.
    Unresolved,
    /// Not measured.
    Skip,
    /// The first calls of a process are slower.
    FirstCalls,
}

/// The priority of a finding for a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// Something broke.
    Alarm,
    /// The purpose of the record: where a growth comes from.
    Cause,
    /// Ranked by weight.
    Notable,
    /// Expected.
    Usual,
}

impl Kind {
    /// Returns a label of one or two words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failure => "failed",
            Self::Functions => "functions",
            Self::Cliff => "cliff",
            Self::Crash => "crash",
            Self::Limit => "limit",
            Self::Outlier => "outliers",
            Self::Growth => "grows",
            Self::Fall => "falls",
            Self::Tail => "tail grows",
            Self::Variation => "varies",
            Self::Bimodal => "bimodal",
            Self::Change => "changed",
            Self::Shared => "in all records",
            Self::Period => "small outliers",
            Self::Flat => "flat",
            Self::Small => "small change",
            Self::Unresolved => "not resolved",
            Self::Skip => "not measured",
            Self::FirstCalls => "warm-up",
        }
    }

    /// Returns whether the finding only lists curves, so that their number suffices where each curve has its own row.
    pub fn is_gathered(self) -> bool {
        matches!(self, Self::Flat | Self::Small | Self::Unresolved)
    }

    fn tier(self) -> Tier {
        match self {
            Self::Failure | Self::Crash => Tier::Alarm,
            Self::Functions => Tier::Cause,
            Self::Cliff
            | Self::Limit
            | Self::Outlier
            | Self::Growth
            | Self::Fall
            | Self::Tail
            | Self::Variation
            | Self::Bimodal
            | Self::Change
            | Self::Shared => Tier::Notable,
            Self::Period | Self::Flat | Self::Small | Self::Unresolved | Self::Skip | Self::FirstCalls => Tier::Usual,
        }
    }
}

impl Finding {
    fn new(kind: Kind, case: Option<u32>, weight: f64, text: String) -> Self {
        Self {
            kind,
            text,
            consequence: String::new(),
            items: Vec::new(),
            case,
            phase: None,
            between: None,
            weight,
            theme: String::new(),
            brief: String::new(),
        }
    }

    /// Returns a finding about one case. Cases with the same `theme` share the finding; `brief` is the item for this
    /// one.
    fn of_case(kind: Kind, study: &CaseStudy<'_>, weight: f64, text: String, theme: String, brief: String) -> Self {
        Self { theme, brief, ..Self::new(kind, Some(study.case.case), weight, text) }
    }

    /// Returns the whole finding as text: the sentence with its items, then the consequence. Curves that have their own
    /// rows are counted instead of listed.
    pub fn sentence(&self) -> String {
        let text = match (self.items.as_slice(), self.kind.is_gathered()) {
            ([], _) => self.text.clone(),
            (items, true) => format!("{}: {}.", self.text, curves(items.len())),
            (items, false) if self.text.ends_with('.') => format!("{} Also: {}.", self.text, items.join(", ")),
            (items, false) => format!("{}: {}.", self.text, items.join(", ")),
        };
        if self.consequence.is_empty() { text } else { format!("{text} {}", self.consequence) }
    }
}

/// Formats a number of curves: "1 curve", "71 curves".
pub(crate) fn curves(number: usize) -> String {
    numbered(number, "curve", "curves")
}

/// Returns the findings of an analysis, the most important first.
pub fn of(analysis: &Analysis<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let instrument = instrument::Instrument::of(analysis);
    record::of_record(analysis, &mut found);
    for study in &analysis.cases {
        record::of_case(study, &mut found);
        functions::of_case(analysis, study, &mut found);
        for phase in &study.phases {
            phase::of_phase(study, phase, &instrument, &mut found);
        }
    }
    let mut found = merged(found);
    for one in &mut found {
        variant::contrast(analysis, one);
    }
    gathered::flat(analysis, &mut found);
    gathered::small(analysis, &mut found);
    gathered::unresolved(analysis, &mut found);
    gathered::first_calls(analysis, &mut found);
    found.sort_by(|a, b| {
        let usual = |one: &Finding| (one.kind.tier() == Tier::Usual).then_some(one.kind);
        let tiers = a.kind.tier().cmp(&b.kind.tier());
        tiers.then(usual(a).cmp(&usual(b))).then(b.weight.total_cmp(&a.weight))
    });
    found
}

/// Returns how many of the findings lead: at most [`LEADING_MAX`], and no expected ones unless there are no others.
pub fn leading(found: &[Finding]) -> usize {
    let notable = found.iter().filter(|one| one.kind.tier() != Tier::Usual).count();
    notable.clamp(found.len().min(1), LEADING_MAX)
}

/// Returns the name of a curve: the case's label, and the phase unless the label names it and no other creating phase
/// exists.
pub fn subject(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> String {
    let (case, name) = (study.case, &phase.phase.name);
    let creating = case.phases.iter().filter(|phase| phase.direction == Direction::Up).count();
    if *name == case.benchmark && creating < 2 { case.label.clone() } else { format!("{} · {name}", case.label) }
}

/// Returns the name of a curve in a sentence: [`subject`], with the changes of a variant in words.
fn told(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> String {
    let words = crate::text::variant(&study.case.benchmark, &study.case.label);
    subject(study, phase).replacen(&study.case.label, &words, 1)
}

/// Merges the findings of one kind and theme. The one of the largest weight leads, and the others become its items.
fn merged(mut found: Vec<Finding>) -> Vec<Finding> {
    // The sort is stable: equal weights keep the order of the record.
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let mut kept: Vec<Finding> = Vec::new();
    for one in found {
        let leader =
            kept.iter_mut().find(|held| !one.theme.is_empty() && held.kind == one.kind && held.theme == one.theme);
        match leader {
            Some(leader) => leader.items.push(one.brief),
            None => kept.push(one),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(kind: Kind, weight: f64, text: &str) -> Finding {
        let (theme, brief) = ("bind".to_owned(), format!("{text} in short"));
        Finding { theme, brief, ..Finding::new(kind, Some(1), weight, text.to_owned()) }
    }

    /// Guards against a merged finding with the sentence of one variant and the rank of another.
    #[test]
    fn a_merged_finding_has_sentence_and_rank_of_its_largest_variant() {
        let found = merged(vec![
            finding(Kind::Cliff, 0.5, "small"),
            finding(Kind::Cliff, 6.0, "large"),
            finding(Kind::Cliff, 2.0, "middle"),
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].text.as_str(), found[0].weight), ("large", 6.0));
        assert_eq!(found[0].items, ["middle in short", "small in short"]);
    }

    #[test]
    fn at_most_seven_findings_lead_and_never_a_usual_one_beside_another() {
        let of = |kind, number| vec![Finding::new(kind, None, 1.0, String::new()); number];
        assert_eq!(leading(&of(Kind::Growth, 20)), LEADING_MAX);
        assert_eq!(leading(&[of(Kind::Growth, 2), of(Kind::Period, 20)].concat()), 2);
        assert_eq!(leading(&of(Kind::Flat, 3)), 1);
        assert_eq!(leading(&[]), 0);
    }
}
