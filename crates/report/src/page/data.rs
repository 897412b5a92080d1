//! What a chart in the browser is drawn from.
//!
//! Everything is reduced and computed here (laws evaluated, intervals laid out), so that the scripts draw and never calculate
//! a figure. Arrays over columns are parallel to `spans`.

use crate::reduce::{Columns, Density, Kept};
use crate::{CaseStudy, PhaseStudy};
use landau_record::schema::{Case, Direction, MarkKind};
use serde::Serialize;

/// The recurring calls that are drawn; a rhythm with thousands of them is clear long before.
const DRAWN_OUTLIERS: usize = 400;
/// An empty lap is drawn beside whatever costs less than this many of them.
const FLOOR_MATTERS: f64 = 20.0;

/// A chart.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    #[serde(skip)]
    pub(crate) id: String,
    /// What n counts.
    axis: String,
    /// First and last n of each column, which is drawn at their geometric middle.
    spans: Vec<(u32, u32)>,
    marks: Vec<MarkLine>,
    /// The empty lap in nanoseconds, where it matters.
    floor: Option<f64>,
    groups: Vec<Group>,
    #[serde(skip_serializing_if = "Option::is_none")]
    density: Option<DensityData>,
}

/// Curves that belong together: one phase of one case of one record.
#[derive(Debug, Serialize)]
struct Group {
    name: String,
    /// Which colour.
    tone: usize,
    is_down: bool,
    /// The law, short, to stand beside the curve.
    symbol: String,
    passes: Vec<PassData>,
    law: Vec<Option<f64>>,
    /// n, low and high of each judged or unjudged point, 95%.
    band: Vec<(f64, f64, f64)>,
    cliffs: Vec<Note>,
    /// n, lowest, median and highest cost, of the calls that are dear in pass after pass.
    outliers: Vec<(u32, u64, u64, u64)>,
    limit: Option<Note>,
}

/// A pass in columns, in nanoseconds.
#[derive(Debug, Serialize)]
struct PassData {
    round: u32,
    min: Vec<Option<u64>>,
    median: Vec<Option<f64>>,
    max: Vec<Option<u64>>,
}

/// Words at a place.
#[derive(Debug, Serialize)]
struct Note {
    n: f64,
    ns: f64,
    text: String,
}

/// A known place on the axis.
#[derive(Debug, Serialize)]
struct MarkLine {
    n: f64,
    name: String,
    kind: MarkKind,
}

/// The density of the single calls.
#[derive(Debug, Serialize)]
struct DensityData {
    floor: f64,
    /// For each column: row and count by turns.
    cells: Vec<Vec<u32>>,
    /// Words about the recurring calls.
    words: String,
}

impl Chart {
    /// An empty chart over the axis of a case.
    pub(crate) fn new(id: String, case: &Case, columns: &Columns) -> Self {
        let marks = case.marks.iter().map(|mark| MarkLine { n: mark.n, name: mark.name.clone(), kind: mark.mark });
        Self {
            id,
            axis: case.axis.clone(),
            spans: (0..columns.len()).map(|i| columns.span(i)).collect(),
            marks: marks.collect(),
            floor: None,
            groups: Vec::new(),
            density: None,
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
        let law = judged.fit.as_ref().map(|fit| {
            let at = |n: f64| (n >= first && n <= last).then(|| fit.at(n)).filter(|ns| ns.is_finite()).map(drawn);
            (0..columns.len()).map(|i| at(columns.middle(i))).collect()
        });
        let structural = &phase.verdict.outliers.structural;
        let mut outliers: Vec<_> =
            structural.iter().map(|call| (call.n, call.ns_min, call.ns_median, call.ns_max)).collect();
        if outliers.len() > DRAWN_OUTLIERS {
            outliers.sort_by_key(|call| std::cmp::Reverse(call.2));
            outliers.truncate(DRAWN_OUTLIERS);
            outliers.sort_unstable();
        }
        let passes = phase.curve.passes.iter().zip(&phase.rounds);
        self.groups.push(Group {
            name,
            tone,
            is_down: phase.phase.direction == Direction::Down,
            symbol: crate::table::law_short(judged),
            passes: passes.map(|(pass, &round)| PassData::of(round, &columns.keep(pass))).collect(),
            law: law.unwrap_or_default(),
            band: judged
                .points
                .iter()
                .map(|point| (drawn(point.n), drawn(point.ns.low), drawn(point.ns.high)))
                .collect(),
            cliffs: cliffs(phase),
            outliers,
            limit: limit(study, phase).filter(|_| self.groups.iter().all(|group| group.limit.is_none())),
        });
    }

    /// Adds the line of the instrument where it matters.
    pub(crate) fn add_floor(&mut self, empty_lap_ns: f64, phases: &[PhaseStudy<'_>]) {
        let starts = phases.iter().filter_map(|phase| phase.verdict.all.start);
        let cheapest = starts.map(|start| start.value).fold(f64::INFINITY, f64::min);
        self.floor = (empty_lap_ns > 0.0 && cheapest < FLOOR_MATTERS * empty_lap_ns).then_some(empty_lap_ns);
    }

    /// Leaves the medians alone: beside other cases there is no room for each pass's extremes, and the case's own chart has them.
    pub(crate) fn without_extremes(mut self) -> Self {
        for pass in self.groups.iter_mut().flat_map(|group| &mut group.passes) {
            pass.min.clear();
            pass.max.clear();
        }
        self
    }

    /// Turns the chart into a density; one group with its outliers stays.
    pub(crate) fn add_density(&mut self, density: Density, words: &str) {
        let flat = |column: Vec<(u32, u32)>| column.into_iter().flat_map(|(row, count)| [row, count]).collect();
        self.density = Some(DensityData {
            floor: density.floor_ns,
            cells: density.cells.into_iter().map(flat).collect(),
            words: words.to_owned(),
        });
        for group in &mut self.groups {
            group.passes.clear();
        }
    }
}

impl PassData {
    fn of(round: u32, kept: &[Option<Kept>]) -> Self {
        Self {
            round,
            min: kept.iter().map(|kept| kept.map(|kept| kept.min)).collect(),
            median: kept.iter().map(|kept| kept.map(|kept| kept.median)).collect(),
            max: kept.iter().map(|kept| kept.map(|kept| kept.max)).collect(),
        }
    }
}

/// Five digits: more than any screen shows, and half the size of the page.
fn drawn(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = 10f64.powf(value.abs().log10().floor() - 4.0);
    // Dividing by a whole power keeps the decimal short where multiplying by its inverse would not.
    if unit < 1.0 { (value / unit).round() / (1.0 / unit).round() } else { (value / unit).round() * unit.round() }
}

fn cliffs(phase: &PhaseStudy<'_>) -> Vec<Note> {
    let note = |cliff: &landau_stats::Cliff| Note {
        n: cliff.n.value,
        ns: cliff.after_ns,
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
