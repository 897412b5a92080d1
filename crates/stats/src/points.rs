//! Calls to cells: for each pass and each point, the median log cost of the calls in a narrow window.
//!
//! The windows cover the judged range without gaps: at a constant ratio up to a third of it, then at equal distances,
//! because points spaced only in log n would cover little of the last third. Outliers cannot move a median, and on a
//! rising curve the median is the value at the centre of the window. The spread inside a window gives the error of its
//! median.

use crate::{AnnotationKind, Curve, Options, Pass};

/// One pass with its calls in order of rising n.
#[derive(Clone)]
pub(crate) struct Series {
    pub(crate) n: Vec<u32>,
    pub(crate) costs: Vec<u64>,
    /// Whether it was measured in order of falling n.
    pub(crate) is_down: bool,
}

impl Series {
    /// Drops the first calls in order of time.
    pub(crate) fn drop_first(&mut self, calls: usize) {
        let calls = calls.min(self.n.len());
        if self.is_down {
            self.n.truncate(self.n.len() - calls);
            self.costs.truncate(self.n.len());
        } else {
            self.n.drain(..calls);
            self.costs.drain(..calls);
        }
    }

    /// Returns the costs of the calls from the first n up to, but excluding, the second.
    pub(crate) fn between(&self, from: f64, to: f64) -> &[u64] {
        let at = |n: f64| self.n.partition_point(|x| f64::from(*x) < n);
        &self.costs[at(from)..at(to).max(at(from))]
    }

    /// Returns the costs of the calls in a window.
    pub(crate) fn calls_in(&self, window: &Window) -> &[u64] {
        self.between(window.centre - window.half, (window.centre + window.half).floor() + 1.0)
    }

    /// Returns a key that equal sets of calls share, whatever their order: the number of calls, their total cost, and
    /// the sum of their hashes. Another unit does not change the order by the first two.
    fn fingerprint(&self) -> (usize, u128, u64) {
        let hash = |n: u32, cost: u64| {
            // The finalizer of splitmix64 (Steele, Lea and Flood, 2014).
            let mut x = cost ^ u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        };
        let total = self.costs.iter().map(|cost| u128::from(*cost)).sum();
        let hashes = self.n.iter().zip(&self.costs).map(|(n, cost)| hash(*n, *cost));
        (self.costs.len(), total, hashes.fold(0, u64::wrapping_add))
    }
}

/// Passes by points.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// The n of each point, rising.
    pub(crate) n: Vec<f64>,
    /// Half the width of the window of each point, in objects.
    pub(crate) half: Vec<f64>,
    /// Log cost of each pass at each point; absent if the pass made no call in the window.
    pub(crate) cells: Vec<Vec<Option<f64>>>,
    /// The variance of each cell that the spread inside its window explains.
    pub(crate) variance: Vec<Vec<f64>>,
}

impl Grid {
    /// Keeps the points for which `keep` is true.
    pub(crate) fn filtered(&self, keep: &[bool]) -> Self {
        let chosen = |row: &[Option<f64>]| {
            let pairs = row.iter().zip(keep).filter(|pair| *pair.1);
            pairs.map(|pair| *pair.0).collect::<Vec<_>>()
        };
        let kept = |values: &[f64]| {
            let pairs = values.iter().zip(keep).filter(|pair| *pair.1);
            pairs.map(|pair| *pair.0).collect::<Vec<_>>()
        };
        Self {
            n: kept(&self.n),
            half: kept(&self.half),
            cells: self.cells.iter().map(|row| chosen(row)).collect(),
            variance: self.variance.iter().map(|row| kept(row)).collect(),
        }
    }

    /// Splits off the passes from `count` on.
    pub(crate) fn split_off(&mut self, count: usize) -> Self {
        let (cells, variance) = (self.cells.split_off(count), self.variance.split_off(count));
        Self { n: self.n.clone(), half: self.half.clone(), cells, variance }
    }

    /// Returns the number of passes that have a cell at point `j`.
    pub(crate) fn passes_at(&self, j: usize) -> usize {
        self.cells.iter().filter(|row| row[j].is_some()).count()
    }
}

/// Returns the passes with their calls in order of rising n, without empty passes; `clean_only` omits calls with
/// interference. The order of the passes depends only on their contents. Otherwise bootstrap draws by index, and sums
/// of rounded numbers, would depend on the order of execution.
pub(crate) fn series_of(curve: &Curve, clean_only: bool) -> Vec<Series> {
    let mut all = series_as_made(curve, clean_only);
    all.sort_by_cached_key(Series::fingerprint);
    all
}

/// Returns the passes of two curves, where pass `i` of one ran beside pass `i` of the other, in an order that depends
/// only on the contents of the pairs.
pub(crate) fn paired_series_of(a: &Curve, b: &Curve) -> (Vec<Series>, Vec<Series>) {
    let (a, b) = (series_as_made(a, false), series_as_made(b, false));
    if a.len() != b.len() {
        return (a, b);
    }
    let mut pairs: Vec<(Series, Series)> = a.into_iter().zip(b).collect();
    pairs.sort_by_cached_key(|(a, b)| (a.fingerprint(), b.fingerprint()));
    pairs.into_iter().unzip()
}

/// Returns the passes in their order of execution.
fn series_as_made(curve: &Curve, clean_only: bool) -> Vec<Series> {
    let mut all = Vec::with_capacity(curve.passes.len());
    for pass in &curve.passes {
        let (mut n, mut costs) = kept(pass, clean_only);
        if n.is_empty() {
            continue;
        }
        let mut is_down = false;
        if !n.is_sorted() {
            n.reverse();
            costs.reverse();
            is_down = n.is_sorted();
        }
        if !n.is_sorted() {
            let mut calls: Vec<(u32, u64)> = n.into_iter().zip(costs).rev().collect();
            // Ties keep the order of execution.
            calls.sort_by_key(|call| call.0);
            (n, costs) = calls.into_iter().unzip();
        }
        all.push(Series { n, costs, is_down });
    }
    all
}

/// Returns the n and the cost of each call of a pass, or only of each call without interference.
fn kept(pass: &Pass, clean_only: bool) -> (Vec<u32>, Vec<u64>) {
    let count = pass.n.len().min(pass.costs.len());
    let (n, costs) = (&pass.n[..count], &pass.costs[..count]);
    if !clean_only {
        return (n.to_vec(), costs.to_vec());
    }
    let clean = pass.clean.iter().copied().chain(std::iter::repeat(true));
    n.iter().copied().zip(costs.iter().copied()).zip(clean).filter(|call| call.1).map(|call| call.0).unzip()
}

/// A window of calls: its centre and half its width, in objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) centre: f64,
    pub(crate) half: f64,
}

/// The inputs that determine the positions of the points.
pub(crate) struct Layout<'a> {
    /// The series.
    pub(crate) series: &'a [Series],
    /// The n at which the first cliff begins, if there is one.
    pub(crate) cliff: Option<f64>,
    /// Known and detected capacities.
    pub(crate) capacities: &'a [f64],
    /// Smallest n of a point; by default that of [`start`].
    pub(crate) first: Option<f64>,
}

/// Fractions of a capacity at which points are added, to show a rise by occupancy.
const FRACTIONS: [f64; 6] = [0.50, 0.75, 0.90, 0.95, 0.99, 1.01];

/// A series with at most this many different n was measured at chosen points, which are used as they are.
const SPARSE: usize = 64;

/// Returns the capacities among the annotations of a curve.
pub(crate) fn capacities_of(curve: &Curve) -> Vec<f64> {
    let known = curve.annotations.iter();
    let known = known.filter(|mark| mark.kind == AnnotationKind::Capacity && mark.n.is_finite());
    known.map(|mark| mark.n).collect()
}

/// Returns the few chosen n of a series in rising order; `None` if it was measured call by call.
pub(crate) fn chosen_points(series: &[Series]) -> Option<Vec<u32>> {
    let mut chosen: Vec<u32> = Vec::new();
    for one in series {
        let mut last = None;
        for n in &one.n {
            if last == Some(*n) {
                continue;
            }
            last = Some(*n);
            if let Err(place) = chosen.binary_search(n) {
                chosen.insert(place, *n);
            }
            if chosen.len() > SPARSE {
                return None;
            }
        }
    }
    // One call per n and pass is a short series, not one measured at chosen points.
    let calls: usize = series.iter().map(|one| one.n.len()).sum();
    (calls > chosen.len() * series.len()).then_some(chosen)
}

/// Returns the windows: tiles up to the end or to the cliff, points near capacities, and points beyond the cliff.
pub(crate) fn windows(layout: &Layout<'_>, options: &Options) -> Vec<Window> {
    if let Some(chosen) = chosen_points(layout.series) {
        let kept = chosen.iter().filter(|n| **n >= 1);
        let as_window = |n: &u32| Window { centre: f64::from(*n), half: 0.0 };
        return kept.map(as_window).collect();
    }
    let Some((first, last)) = range_of(layout.series) else {
        return Vec::new();
    };
    let high = layout.cliff.unwrap_or(last + 1.0).min(last + 1.0);
    let low = first.max(layout.first.unwrap_or_else(|| start(high, options)));
    let stride = stride_of(layout.series);
    let mut all = tiles(low, high, stride);
    if layout.cliff.is_some() {
        all.extend(spread(high * 1.02, last / 1.02, stride).iter().step_by(2));
    }
    let capacities = layout.capacities.iter().chain(layout.cliff.as_ref());
    for capacity in capacities {
        add_fractions(&mut all, *capacity, (low, last), stride);
    }
    all.sort_by(|a, b| a.centre.total_cmp(&b.centre));
    all.dedup_by(|b, a| b.centre - a.centre < 0.5 * a.half);
    all
}

/// Returns the smallest judged n of a series measured call by call: a share of its length (1/32 for times), at most
/// [`Options::first_n`] and at least eight.
///
/// The first calls of a pass cost more (cold caches, first slabs and pages), so a curve that is judged from the first
/// call on would fall.
pub(crate) fn start(high: f64, options: &Options) -> f64 {
    let judge = options.judge();
    (high * judge.first_share()).round().min(judge.first_n(options)).max(8.0)
}

/// Returns the smallest judged n of a series measured at few chosen n: a few dozen objects at most.
pub(crate) fn start_of_chosen(high: f64) -> f64 {
    (high / 200.0).round().clamp(8.0, 64.0)
}

/// Number of tiles at a constant ratio up to a third of the range, and of tiles of equal width in the rest.
const TILES: (usize, usize) = (12, 16);
/// Minimum number of calls in a tile.
const TILE_MIN: f64 = 5.0;

/// Returns tiles from `low` up to, but excluding, `high`.
fn tiles(low: f64, high: f64, stride: f64) -> Vec<Window> {
    if high <= low + TILE_MIN * stride {
        return Vec::new();
    }
    let knee = low.max(high / 3.0).min(high);
    let ratio = (knee / low).ln() / TILES.0 as f64;
    let below = (0..TILES.0).map(|i| low * (ratio * i as f64).exp());
    let above = (0..=TILES.1).map(|i| knee + (high - knee) * i as f64 / TILES.1 as f64);
    let mut edges: Vec<f64> = Vec::new();
    for edge in below.chain(above).map(f64::round) {
        if edges.last().is_none_or(|last| edge - last >= TILE_MIN * stride) {
            edges.push(edge);
        }
    }
    // A last tile that would be too narrow is merged into the one before it.
    if let Some(last) = edges.last_mut() {
        *last = high.round();
    }
    let tile = |pair: &[f64]| {
        // An odd number of calls has a middle call.
        let half = ((pair[1] - pair[0] - 1.0) / 2.0).floor().max(0.0);
        Window { centre: pair[0] + half, half }
    };
    edges.windows(2).map(tile).collect()
}

/// Returns points at a constant ratio from `low` to `high`.
fn spread(low: f64, high: f64, stride: f64) -> Vec<Window> {
    if high <= low {
        return Vec::new();
    }
    let wanted = ((high / low).ln() / 1.6_f64.ln()).ceil() as usize + 1;
    let count = wanted.clamp(17, 25);
    let ratio = (high / low).ln() / (count - 1) as f64;
    let at = |i: usize| (low * (ratio * i as f64).exp()).round();
    (0..count).map(|i| window(at(i), stride)).collect()
}

/// Returns a window of 3% of n to each side, at least 4 and at most 256 objects. A narrower one would be shorter than a
/// burst of noise.
fn window(centre: f64, stride: f64) -> Window {
    Window { centre, half: (0.03 * centre).clamp(4.0, 256.0).max(4.0 * stride) }
}

/// Adds the points near a capacity. Their windows do not straddle it, and they replace the points that they overlap.
fn add_fractions(all: &mut Vec<Window>, capacity: f64, range: (f64, f64), stride: f64) {
    for fraction in FRACTIONS {
        let mut new = window((capacity * fraction).round(), stride);
        new.half = new.half.min(0.3 * (capacity - new.centre).abs());
        let is_inside = new.centre >= range.0 && new.centre + new.half <= range.1;
        // Near a small capacity there are too few calls to show a shape.
        if !is_inside || new.half < 3.0 {
            continue;
        }
        all.retain(|old| (old.centre - new.centre).abs() > old.half + new.half);
        all.push(new);
    }
}

/// Returns the smallest n of all passes, and the n that half of the passes reach.
fn range_of(series: &[Series]) -> Option<(f64, f64)> {
    let first = series.iter().filter_map(|one| one.n.first()).min()?;
    let mut ends: Vec<u32> = series.iter().filter_map(|one| one.n.last().copied()).collect();
    ends.sort_unstable();
    let last = ends[(ends.len() - 1) / 2];
    Some((f64::from(*first), f64::from(last)))
}

/// Returns the mean distance between two calls, in objects.
fn stride_of(series: &[Series]) -> f64 {
    let spans = series.iter().map(|one| {
        let span = one.n.last().zip(one.n.first()).map_or(0, |(b, a)| b - a);
        f64::from(span) / (one.n.len().max(2) - 1) as f64
    });
    spans.fold(1.0, f64::max)
}

/// Minimum number of calls of a cell, if the window has so many.
const CELL_MIN: usize = 5;

/// Reduces the calls in the windows to cells.
pub(crate) fn reduce(series: &[Series], windows: &[Window], options: &Options) -> Grid {
    let quantum = options.quantum();
    let judge = options.judge();
    let mut calls: Vec<u64> = Vec::new();
    let mut cell = |one: &Series, window: &Window| {
        let half = judge.half_width(window, one);
        calls.clear();
        calls.extend_from_slice(one.calls_in(&Window { half, ..*window }));
        // A few calls at the end of a stay in a branch are not enough for a cell.
        if calls.len() < CELL_MIN.min((2.0 * half) as usize) {
            return None;
        }
        judge.cell(&mut calls, quantum)
    };
    let mut grid = Grid {
        n: windows.iter().map(|window| window.centre).collect(),
        half: windows.iter().map(|window| window.half).collect(),
        cells: Vec::with_capacity(series.len()),
        variance: Vec::with_capacity(series.len()),
    };
    for one in series {
        let row: Vec<Option<Cell>> = windows.iter().map(|window| cell(one, window)).collect();
        grid.cells.push(row.iter().map(|cell| cell.map(|cell| cell.log)).collect());
        grid.variance.push(row.iter().map(|cell| cell.map_or(0.0, |cell| cell.variance)).collect());
    }
    grid
}

/// The calls of one pass in one window, reduced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Log cost.
    pub(crate) log: f64,
    /// The variance of the log cost, from the spread inside the window.
    pub(crate) variance: f64,
}
