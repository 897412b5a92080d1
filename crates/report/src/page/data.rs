//! The data of a chart in the browser.
//!
//! Everything is reduced and computed here (laws evaluated, intervals laid out); the scripts only draw. A case has one
//! block, the source of all its charts and tables. The chart of all variants uses the block of each. Arrays over
//! columns are parallel to the columns that `edges` delimits.

use crate::loops::Loop;
use crate::quantity::Unit;
use crate::reduce::{Columns, Density, Kept};
use crate::{CaseStudy, PhaseStudy};
use landau_record::schema::{AnnotationKind, Case, Direction};
use serde::Serialize;

/// Maximum number of recurring outliers that are drawn; a period is visible with far fewer.
const DRAWN_OUTLIERS: usize = 400;
/// The timer overhead is drawn in charts with a cost below this multiple of it.
const FLOOR_SHOWN: f64 = 20.0;

/// Steps per factor of e in which medians and laws are encoded: one step is 0.05%.
const FINE: f64 = 2000.0;
/// The factor by which the steps are finer for counted instructions, so that a difference of one is visible.
const EXACT: f64 = 100.0;
/// Steps per factor of e for the minimum and the maximum of a column, relative to its median.
const COARSE: f64 = 1000.0;

/// A data block: the source of one case's charts.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    #[serde(skip)]
    pub(crate) id: String,
    /// What n counts.
    axis: String,
    /// The first n of each column, and the end of the last one; a column is drawn at the geometric mean of its n.
    edges: Vec<u32>,
    annotations: Vec<AnnotationLine>,
    /// The timer overhead, in the unit of the samples, if a cost is near it.
    floor: Option<f64>,
    groups: Vec<Group>,
    /// The single calls of each group, in the order of the groups; absent if the block has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    singles: Vec<Singles>,
}

/// Curves that belong together: one phase of one case of one record.
#[derive(Debug, Serialize)]
struct Group {
    name: String,
    /// Index of the colour.
    tone: usize,
    is_down: bool,
    /// The group of the destruction that closes a loop with this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    back: Option<usize>,
    /// The law's symbol, shown next to the curve.
    symbol: String,
    passes: Vec<PassData>,
    /// The law at each column, encoded like the medians of a pass.
    law: Vec<Option<i64>>,
    /// Every point: n, cost, low and high at 95%, passes.
    points: Vec<(f64, f64, f64, f64, usize)>,
    cliffs: Vec<Note>,
    /// Recurring outliers: n; lowest, median and highest cost; the number of passes with the outlier, and of all
    /// passes.
    outliers: Vec<(u32, u64, u64, u64, usize, usize)>,
    /// Their number, which is larger than the list if that was truncated.
    outlier_count: usize,
    limit: Option<Note>,
}

/// A pass in columns. Costs are encoded as differences of logarithms in whole steps, because small integers compress
/// best; `data.js` decodes them.
#[derive(Debug, Serialize)]
struct PassData {
    /// In steps of [`FINE`], relative to the previous column.
    median: Vec<Option<i64>>,
    /// In steps of [`COARSE`] below the median.
    min: Vec<i64>,
    /// In steps of [`COARSE`] above the median.
    max: Vec<i64>,
}

/// A label at a point.
#[derive(Debug, Serialize)]
struct Note {
    n: f64,
    ns: f64,
    text: String,
}

/// An annotation of the axis.
#[derive(Debug, Serialize)]
struct AnnotationLine {
    n: f64,
    name: String,
    kind: AnnotationKind,
}

/// The single calls of a phase: a two-dimensional histogram and quantiles.
#[derive(Debug, Serialize)]
struct Singles {
    /// Lower edge of the first row.
    floor: f64,
    /// For each pair of columns: rows and counts, alternating.
    cells: Vec<Vec<u32>>,
    /// The cost at each of [`SHARES`], in the unit of the samples.
    quantiles: [u64; 6],
}

/// The quantiles in the table of single calls; `tables.js` has their names.
const SHARES: [f64; 6] = [0.0, 0.5, 0.9, 0.99, 0.999, 1.0];

impl Chart {
    /// Creates an empty chart over the axis of a case.
    pub(crate) fn new(id: String, case: &Case, columns: &Columns) -> Self {
        let annotations =
            case.annotations.iter().map(|one| AnnotationLine { n: one.n, name: one.name.clone(), kind: one.kind });
        Self {
            id,
            axis: case.axis.clone(),
            edges: columns.edges().to_vec(),
            annotations: annotations.collect(),
            floor: None,
            groups: Vec::new(),
            singles: Vec::new(),
        }
    }

    /// Adds the curves of a phase.
    pub(crate) fn add(
        &mut self,
        name: String,
        tone: usize,
        study: &CaseStudy<'_>,
        phase: &PhaseStudy<'_>,
        columns: &Columns,
    ) {
        let judged = &phase.verdict.all;
        let (first, last) = judged.range.unwrap_or((f64::INFINITY, 0.0));
        let finer = if judged.unit == Unit::Instructions { EXACT } else { 1.0 };
        let law = judged.fit.as_ref().map(|fit| {
            let at = |n: f64| (n >= first && n <= last).then(|| fit.at(n)).filter(|ns| ns.is_finite());
            encoded((0..columns.len()).map(|i| at(columns.middle(i))), FINE * finer)
        });
        let point = |point: &landau_stats::Point| {
            (drawn(point.n), drawn(point.cost.value), drawn(point.cost.low), drawn(point.cost.high), point.passes)
        };
        // The phases of a case end at the same limit, but another record may end at another one.
        let is_new = |note: &Note| self.groups.iter().flat_map(|group| &group.limit).all(|one| one.text != note.text);
        let limit = limit(study, phase).filter(is_new);
        self.groups.push(Group {
            passes: phase.curve.passes.iter().map(|pass| PassData::of(&columns.keep(pass), finer)).collect(),
            law: law.unwrap_or_default(),
            points: judged.points.iter().map(point).collect(),
            cliffs: cliffs(phase),
            limit,
            ..Group::bare(name, tone, phase)
        });
    }

    /// Closes loops between groups.
    pub(crate) fn close(&mut self, loops: &[Loop]) {
        for one in loops {
            self.groups[one.up].back = Some(one.down);
        }
    }

    /// Adds only the parts of a phase that the single calls need.
    pub(crate) fn add_bare(&mut self, name: String, tone: usize, phase: &PhaseStudy<'_>) {
        self.groups.push(Group::bare(name, tone, phase));
    }

    /// Adds the line of the timer overhead if a cost is near it.
    pub(crate) fn add_floor(&mut self, timer_overhead: f64, phases: &[PhaseStudy<'_>]) {
        let starts = phases.iter().filter_map(|phase| phase.verdict.all.start);
        let cheapest = starts.map(|start| start.value).fold(f64::INFINITY, f64::min);
        self.floor = (timer_overhead > 0.0 && cheapest < FLOOR_SHOWN * timer_overhead).then_some(timer_overhead);
    }

    /// Adds the single calls of the next group.
    pub(crate) fn add_singles(&mut self, phase: &PhaseStudy<'_>, columns: &Columns) {
        let Density { floor_cost, cells } = columns.paired().density(&phase.curve);
        let flat = |column: Vec<(u32, u32)>| column.into_iter().flat_map(|(row, count)| [row, count]).collect();
        let mut every: Vec<u64> = phase.curve.passes.iter().flat_map(|pass| pass.costs.iter().copied()).collect();
        every.sort_unstable();
        let last = every.len().saturating_sub(1) as f64;
        let quantiles = SHARES.map(|share| every.get((last * share).round() as usize).copied().unwrap_or(0));
        self.singles.push(Singles { floor: floor_cost, cells: cells.into_iter().map(flat).collect(), quantiles });
    }
}

impl Group {
    /// Returns a phase without its curves.
    fn bare(name: String, tone: usize, phase: &PhaseStudy<'_>) -> Self {
        let recurring = &phase.verdict.outliers.recurring;
        let tell = |call: &landau_stats::RecurringOutlier| {
            (call.n, call.cost_min, call.cost_median, call.cost_max, call.passes, call.of)
        };
        let mut outliers: Vec<_> = recurring.iter().map(tell).collect();
        if outliers.len() > DRAWN_OUTLIERS {
            outliers.sort_by_key(|call| std::cmp::Reverse(call.2));
            outliers.truncate(DRAWN_OUTLIERS);
            outliers.sort_unstable();
        }
        Self {
            name,
            tone,
            is_down: phase.phase.direction == Direction::Down,
            back: None,
            symbol: crate::table::law_short(&phase.verdict.all),
            passes: Vec::new(),
            law: Vec::new(),
            points: Vec::new(),
            cliffs: Vec::new(),
            outliers,
            outlier_count: phase.verdict.outliers.recurring_count.max(recurring.len()),
            limit: None,
        }
    }
}

impl PassData {
    fn of(kept: &[Option<Kept>], finer: f64) -> Self {
        let coarse = COARSE * finer;
        let below = |kept: &Kept| steps(kept.median, coarse) - steps(kept.min as f64, coarse);
        let above = |kept: &Kept| steps(kept.max as f64, coarse) - steps(kept.median, coarse);
        Self {
            median: encoded(kept.iter().map(|kept| kept.map(|kept| kept.median)), FINE * finer),
            min: kept.iter().flatten().map(below).collect(),
            max: kept.iter().flatten().map(above).collect(),
        }
    }
}

/// Returns the logarithm of a cost in whole steps; costs below 1 count as 1.
fn steps(ns: f64, fineness: f64) -> i64 {
    (ns.max(1.0).ln() * fineness).round() as i64
}

/// Encodes costs as differences from one to the next.
fn encoded(costs: impl Iterator<Item = Option<f64>>, fineness: f64) -> Vec<Option<i64>> {
    let mut before = 0;
    let next = |ns: f64| {
        let now = steps(ns, fineness);
        let step = now - before;
        before = now;
        step
    };
    let mut next = next;
    costs.map(|cost| cost.map(&mut next)).collect()
}

/// Rounds to five significant digits, more than a screen resolves; this halves the size of the page.
fn drawn(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = 10f64.powf(value.abs().log10().floor() - 4.0);
    // Dividing by a whole power keeps the decimal short; multiplying by its inverse would not.
    if unit < 1.0 { (value / unit).round() / (1.0 / unit).round() } else { (value / unit).round() * unit.round() }
}

fn cliffs(phase: &PhaseStudy<'_>) -> Vec<Note> {
    let note = |cliff: &landau_stats::Cliff| Note {
        n: cliff.n.value,
        ns: cliff.cost_after,
        text: format!(
            "{} at {}",
            crate::quantity::factor(cliff.factor_over_start),
            crate::quantity::count(cliff.n.value)
        ),
    };
    phase.verdict.all.cliffs.iter().map(note).collect()
}

fn limit(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> Option<Note> {
    let met = study.limit.as_ref().filter(|_| phase.phase.direction == Direction::Up)?;
    let ns = phase.verdict.all.end.map_or(0.0, |end| end.value);
    let n = met.range.0 as f64;
    Some(Note { n, ns, text: format!("{} at {}", met.limit.error, crate::quantity::count(n)) })
}
