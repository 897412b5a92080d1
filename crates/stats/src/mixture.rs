//! The judgement of a cost whose calls alternate between two branches.
//!
//! If the ratio of the branches does not depend on n, they are one curve at two levels: the calls of the rarer branch
//! are scaled to the level of the other, and all are judged together. Otherwise each branch is judged on its own. In
//! both cases the share of the expensive branch is part of the outcome, because the mean cost depends on it.

use crate::bimodality::{Bimodality, BimodalityKind, Mode, Shares};
use crate::branches::{Branches, Change};
use crate::judgement::{Class, Judgement, Outcome, Reach, Reason, elasticity, judge_series};
use crate::judges::MORE_MAX;
use crate::points::Series;
use crate::{Cliff, Curve, Estimate, Options};

/// A judgement, and the two branches if the calls take two. The judgement is then that of the more frequent branch, or,
/// if only both together explain the outcome, that of their mean.
pub(crate) struct Judged {
    pub(crate) judgement: Judgement,
    pub(crate) bimodality: Option<Bimodality>,
}

/// Confidence with which a change must exceed the margin to count: if there are few passes and the stays are long, many
/// passes differ from end to end by chance.
const CERTAIN: f64 = 0.99;
/// Confidence of the intervals that are reported.
const TOLD: f64 = 0.90;

/// Judges two branches. Returns `None` if a branch has no calls.
pub(crate) fn judge(found: &Branches, curve: &Curve, options: &Options) -> Option<Judged> {
    let calls = |all: &[Series]| all.iter().map(|one| one.n.len()).sum::<usize>() as f64;
    let (of_low, of_high) = (calls(&found.low), calls(&found.high));
    if of_low == 0.0 || of_high == 0.0 {
        return None;
    }
    let share = of_high / (of_low + of_high);
    let both = match together(found, share, options) {
        Some(ratio) => Both::of_one_curve(found, ratio, share, curve, options)?,
        None => Both::of_two_curves(found, share, curve, options)?,
    };
    Some(both.judged(found, options))
}

/// Returns the ratio of the branches, if it is not shown to depend on n and if the mean cost would hardly change if it
/// did.
fn together(found: &Branches, share: f64, options: &Options) -> Option<f64> {
    let distances = found.distances?;
    let change = distances.change?.interval(TOLD).map(f64::exp);
    let is_small = change.low >= 1.0 - options.delta && change.high <= 1.0 + options.delta;
    let of_high = weight_of_high(share, distances.last.exp());
    // The change of the rarer branch relative to the other.
    let (change_of_rarer, of_rarer) =
        if share > 0.5 { (change.map(|factor| 1.0 / factor), 1.0 - of_high) } else { (change, of_high) };
    let is_one = is_small || change.holds(1.0) && !matters(change_of_rarer, of_rarer, options);
    is_one.then_some(distances.mean.exp())
}

/// Returns the share of the expensive branch in the cost of all calls.
fn weight_of_high(share: f64, ratio: f64) -> f64 {
    share * ratio / (1.0 - share + share * ratio)
}

/// Returns twice the margin: the largest change of the mean cost that an uncertainty may cause, if nothing shows that
/// it does.
fn tolerance(options: &Options) -> (f64, f64) {
    (1.0 / (1.0 + 2.0 * options.delta), 1.0 + 2.0 * options.delta)
}

/// Returns the change of the mean cost that a change of one branch causes. `weight` is the share of the branch in the
/// mean cost at the end.
fn of_mean(change: Estimate, weight: f64) -> Estimate {
    change.map(|factor| factor / (weight + (1.0 - weight) * factor))
}

/// Whether a change of a branch may change the mean cost by more than the tolerance.
fn matters(change: Estimate, weight: f64, options: &Options) -> bool {
    let mean = of_mean(change, weight);
    let (low, high) = tolerance(options);
    mean.low < low || mean.high > high
}

/// Whether a change of a branch changes the mean cost by at most a quarter of the margin.
fn is_negligible(change: Estimate, weight: f64, options: &Options) -> bool {
    let mean = of_mean(change, weight);
    (mean.low - 1.0).abs().max((mean.high - 1.0).abs()) <= options.delta / 4.0
}

/// Two branches, each with its judgement.
struct Both {
    low: Judgement,
    high: Judgement,
    /// Share of the expensive branch.
    share: f64,
    /// Whether they were judged together.
    is_one: bool,
}

impl Both {
    /// Judges all calls at the level of the more frequent branch.
    fn of_one_curve(found: &Branches, ratio: f64, share: f64, curve: &Curve, options: &Options) -> Option<Self> {
        let is_high = share > 0.5;
        let (low_scale, high_scale) = if is_high { (ratio, 1.0) } else { (1.0, 1.0 / ratio) };
        let merge = |(low, high): (&Series, &Series)| merged((low, low_scale), (high, high_scale));
        let series = found.low.iter().zip(&found.high).map(merge).collect();
        let judged = judge_series(series, curve, Some(cliffs_at(found, low_scale)), options)?;
        let (low, high) = (scaled(&judged, 1.0 / low_scale), scaled(&judged, 1.0 / high_scale));
        Some(Self { low, high, share, is_one: true })
    }

    fn of_two_curves(found: &Branches, share: f64, curve: &Curve, options: &Options) -> Option<Self> {
        let present = |all: &[Series]| all.iter().filter(|one| !one.n.is_empty()).cloned().collect::<Vec<Series>>();
        let of = |all: &[Series], scale: f64| judge_series(present(all), curve, Some(cliffs_at(found, scale)), options);
        let ratio = found.distances.map_or(1.0, |distances| distances.mean.exp());
        let (mut low, mut high) = (of(&found.low, 1.0)?, of(&found.high, ratio)?);
        // A branch with too few calls for its own points is known by its distance from the other branch.
        if let Some(distances) = found.distances {
            let factor = distances.last.exp();
            low.end = low.end.or_else(|| high.end.map(|end| end.map(|cost| cost / factor)));
            high.end = high.end.or_else(|| low.end.map(|end| end.map(|cost| cost * factor)));
        }
        Some(Self { low, high, share, is_one: false })
    }

    /// Returns the more frequent branch, if its calls suffice, and then the other.
    fn ranked(&self) -> (&Judgement, &Judgement) {
        let has_points = |judged: &Judgement| judged.range.is_some();
        let is_high =
            if has_points(&self.high) == has_points(&self.low) { self.share > 0.5 } else { has_points(&self.high) };
        if is_high { (&self.high, &self.low) } else { (&self.low, &self.high) }
    }

    fn judged(&self, found: &Branches, options: &Options) -> Judged {
        let (major, minor) = self.ranked();
        let range = major.range.or(minor.range);
        // A branch without points has no cost that could be reported.
        let (Some(low), Some(high), Some(range)) = (self.low.end, self.high.end, range) else {
            return Judged { judgement: major.clone(), bimodality: None };
        };
        let shares = range_shares(found, range, self.share, (low.value, high.value), options);
        let ratio_change = found.distances.and_then(|all| all.change);
        let effect = shares.as_ref().map(|shares| Effect::of(shares, (low.value, high.value)));
        let mean_growth = shares.as_ref().and_then(|shares| self.mean_growth(shares, ratio_change));
        let outcome = self.outcome(effect.as_ref(), ratio_change, options);
        let outcome = self.unless_refuted(outcome, mean_growth, options);
        let mode = |judged: &Judgement, share: f64, cost: Estimate| Mode {
            share,
            cost,
            growth: judged.growth.map_or(1.0, |growth| growth.value),
            outcome: Some(judged.outcome.clone()),
        };
        let bimodality = Bimodality {
            kind: BimodalityKind::ByCall,
            low: mode(&self.low, 1.0 - self.share, low),
            high: mode(&self.high, self.share, high),
            high_share: shares.as_ref().map(OverRange::told),
            ratio_change: ratio_change.map(|change| change.interval(TOLD).map(f64::exp)),
        };
        let mut judgement = major.clone();
        if outcome != judgement.outcome {
            forget_law(&mut judgement);
            judgement.outcome = outcome;
            if let Some(shares) = shares {
                self.average(&mut judgement, &shares, mean_growth);
            }
        }
        Judged { judgement, bimodality: Some(bimodality) }
    }

    /// Returns the outcome of both branches. If they agree and the share is not shown to matter, it is theirs. If one
    /// of them changes, or the share does, the cost changes by no law.
    fn outcome(&self, effect: Option<&Effect>, ratio_change: Option<Change>, options: &Options) -> Outcome {
        let (major, minor) = self.ranked();
        let (lowest, highest) = (1.0 - options.delta, 1.0 + options.delta);
        let grows = |judged: &Judgement| matches!(judged.outcome, Outcome::Grows { .. });
        let certain = effect.map(|effect| effect.of_confidence(CERTAIN));
        match certain {
            Some(rise) if rise.low > highest => return Outcome::Grows { law: None },
            Some(rise) if rise.high < lowest && (grows(major) || grows(minor)) => return Outcome::Varies,
            Some(rise) if rise.high < lowest => return Outcome::Falls,
            _ => {}
        }
        let of_costs = if self.is_one { major.outcome.clone() } else { self.of_apart(ratio_change, options) };
        if !matches!(of_costs.class(), Class::Flat | Class::Small) {
            return of_costs;
        }
        let Some(effect) = effect else { return of_costs };
        let rise = effect.of_confidence(TOLD);
        let is_within = rise.low >= lowest && rise.high <= highest;
        let (low, high) = tolerance(options);
        let is_likely = rise.value >= lowest && rise.value <= highest;
        if is_within || is_likely && rise.low >= low && rise.high <= high {
            return of_costs;
        }
        Outcome::Unresolved { reason: Reason::BranchShare, more_passes: effect.more_passes(options) }
    }

    /// Returns the outcome of the costs of branches that were judged separately. A branch whose growth hardly changes
    /// the mean cost does not change the outcome of a settled one.
    fn of_apart(&self, ratio_change: Option<Change>, options: &Options) -> Outcome {
        let (major, minor) = self.ranked();
        let certain = ratio_change.map(|change| change.interval(CERTAIN).map(f64::exp));
        let is_high = std::ptr::eq(major, &raw const self.high);
        // The change of the rarer branch relative to the other.
        let relative = |change: Estimate| if is_high { change.map(|factor| 1.0 / factor) } else { change };
        let ratio = self.high.end.zip(self.low.end).map_or(1.0, |(high, low)| high.value / low.value);
        let weight_of_high = weight_of_high(self.share, ratio);
        let weight = if is_high { 1.0 - weight_of_high } else { weight_of_high };
        let is_negligible = |change: Estimate| is_negligible(change, weight, options);
        let (rises, sinks) = match certain.map(relative) {
            Some(change) if is_negligible(change) => (false, false),
            Some(change) => (change.low > 1.0 + options.delta, change.high < 1.0 - options.delta),
            None => (false, false),
        };
        let is_settled = |class: Class| matches!(class, Class::Flat | Class::Small);
        let none = Outcome::Grows { law: None };
        match (&major.outcome, &minor.outcome) {
            (Outcome::Grows { .. }, Outcome::Grows { .. }) if !rises && !sinks || have_common_law(major, minor) => {
                major.outcome.clone()
            }
            (Outcome::Grows { .. }, Outcome::Unresolved { .. }) if !rises && !sinks => major.outcome.clone(),
            (settled, Outcome::Grows { .. } | Outcome::Falls)
                if is_settled(settled.class()) && minor.growth.is_some_and(is_negligible) =>
            {
                settled.clone()
            }
            (Outcome::Grows { .. }, _) | (_, Outcome::Grows { .. }) => none,
            (Outcome::Falls, Outcome::Falls | Outcome::Unresolved { .. }) => Outcome::Falls,
            (Outcome::Varies | Outcome::Falls, _) | (_, Outcome::Varies | Outcome::Falls) => Outcome::Varies,
            (a, Outcome::Unresolved { .. }) if is_settled(a.class()) => match ratio_change {
                _ if rises => none,
                _ if sinks => Outcome::Varies,
                Some(change) => {
                    let change = relative(change.interval(TOLD).map(f64::exp));
                    let is_open = matters(change, weight, options);
                    if is_open { open() } else { a.clone() }
                }
                None if self.share.min(1.0 - self.share) < RARE => a.clone(),
                None => open(),
            },
            (a, _) => a.clone(),
        }
    }

    /// Returns the outcome, unless it is that both branches together grow or fall while their estimated mean cost does
    /// not. A branch with few calls may grow, or one may grow while the share of the expensive branch falls.
    fn unless_refuted(&self, outcome: Outcome, mean_growth: Option<Estimate>, options: &Options) -> Outcome {
        let (major, _) = self.ranked();
        let Some(mean) = mean_growth.filter(|_| outcome != major.outcome) else { return outcome };
        let is_refuted = match outcome {
            Outcome::Grows { .. } => mean.value <= 1.0 + options.delta,
            Outcome::Falls => mean.value >= 1.0 - options.delta,
            _ => false,
        };
        match major.outcome.class() {
            _ if !is_refuted => outcome,
            Class::Unresolved => major.outcome.clone(),
            _ => Outcome::Varies,
        }
    }

    /// Turns the judgement into that of the mean cost of both branches, which grows by `growth`.
    fn average(&self, judgement: &mut Judgement, shares: &OverRange, growth: Option<Estimate>) {
        let Some((first, last)) = judgement.range else { return };
        let own = judgement.clone();
        let mean_at = |n: f64| {
            let share = shares.at(n);
            (1.0 - share) * cost_at(&self.low, n) + share * cost_at(&self.high, n)
        };
        for point in &mut judgement.points {
            let factor = mean_at(point.n) / cost_at(&own, point.n).max(f64::MIN_POSITIVE);
            point.cost = point.cost.map(|cost| cost * factor);
        }
        let judged = || judgement.points.iter().filter(|point| point.judged);
        (judgement.start, judgement.end) =
            (judged().next().map(|point| point.cost), judged().next_back().map(|point| point.cost));
        judgement.growth = growth;
        judgement.elasticity = growth.map(|growth| elasticity(growth, (first, last)));
        (judgement.doubling, judgement.exponent) = (None, None);
    }

    /// Returns the growth of the mean cost, with a 90% interval.
    fn mean_growth(&self, shares: &OverRange, ratio_change: Option<Change>) -> Option<Estimate> {
        let (low, high) = (self.low.end?.value, self.high.end?.value);
        let of_ratio = ratio_change.map(|change| change.interval(TOLD).map(f64::exp));
        let low_growth = self.low.growth.or_else(|| {
            let ratio = of_ratio?;
            self.high.growth.map(|growth| growth.map(|x| x / ratio.value))
        });
        let high_growth = self.high.growth.or_else(|| {
            let ratio = of_ratio?;
            self.low.growth.map(|growth| growth.map(|x| x * ratio.value))
        });
        let (low_growth, high_growth) = (low_growth?, high_growth?);
        let change = shares.change.interval(TOLD);
        let growth = |of_low: f64, of_high: f64, change: f64| {
            let (early, late) = (shares.first.value, (shares.first.value + change).clamp(0.0, 1.0));
            let start = (1.0 - early) * low / of_low + early * high / of_high;
            (((1.0 - late) * low + late * high) / start).ln()
        };
        let value = growth(low_growth.value, high_growth.value, change.value);
        let side = |l: f64, h: f64, c: f64| {
            let parts = if self.is_one {
                vec![growth(l, h, change.value), growth(low_growth.value, high_growth.value, c)]
            } else {
                vec![
                    growth(l, high_growth.value, change.value),
                    growth(low_growth.value, h, change.value),
                    growth(low_growth.value, high_growth.value, c),
                ]
            };
            parts.into_iter().map(|part| (part - value).powi(2)).sum::<f64>().sqrt()
        };
        let below = side(low_growth.low, high_growth.low, change.low);
        let above = side(low_growth.high, high_growth.high, change.high);
        Some(Estimate { value, low: value - below, high: value + above }.map(f64::exp))
    }
}

/// A branch with a smaller share does not revoke the outcome of the other.
const RARE: f64 = 0.1;

fn open() -> Outcome {
    Outcome::Unresolved { reason: Reason::BranchCost, more_passes: None }
}

/// Whether both may grow by the same law.
fn have_common_law(a: &Judgement, b: &Judgement) -> bool {
    let laws = |judged: &Judgement| {
        let own = judged.fit.iter().filter(|_| matches!(judged.outcome, Outcome::Grows { law: Some(_) }));
        own.chain(&judged.rivals).map(|fit| fit.law.clone()).collect::<Vec<String>>()
    };
    let (of_a, of_b) = (laws(a), laws(b));
    of_a.iter().any(|law| of_b.contains(law))
}

/// Removes everything that depends on a law that the outcome does not name.
fn forget_law(judgement: &mut Judgement) {
    (judgement.fit, judgement.bend, judgement.at_ten_times) = (None, None, None);
    judgement.rivals.clear();
    if matches!(judgement.one_million, Reach::Extrapolated { .. }) {
        judgement.one_million = Reach::Unknown;
    }
}

/// Returns the cost at `n`, interpolated linearly between the points.
fn cost_at(judged: &Judgement, n: f64) -> f64 {
    let points = &judged.points;
    let after = points.partition_point(|point| point.n < n);
    match (after.checked_sub(1).map(|i| &points[i]), points.get(after)) {
        (Some(a), Some(b)) => {
            a.cost.value + (b.cost.value - a.cost.value) * (n - a.n) / (b.n - a.n).max(f64::MIN_POSITIVE)
        }
        (Some(one), None) | (None, Some(one)) => one.cost.value,
        (None, None) => 0.0,
    }
}

/// Merges the calls of a pass in both branches, scaled to one level.
fn merged((low, low_scale): (&Series, f64), (high, high_scale): (&Series, f64)) -> Series {
    let count = low.n.len() + high.n.len();
    let mut all = Series { n: Vec::with_capacity(count), costs: Vec::with_capacity(count), is_down: low.is_down };
    let (mut i, mut j) = (0, 0);
    while i < low.n.len() || j < high.n.len() {
        let is_low = j >= high.n.len() || i < low.n.len() && low.n[i] <= high.n[j];
        let (one, scale, at) = if is_low { (low, low_scale, &mut i) } else { (high, high_scale, &mut j) };
        all.n.push(one.n[*at]);
        all.costs.push((one.costs[*at] as f64 * scale).round() as u64);
        *at += 1;
    }
    all
}

/// Returns the cliffs of a branch whose costs are those of the cheap branch multiplied by a factor.
fn cliffs_at(found: &Branches, factor: f64) -> Vec<Cliff> {
    let scaled = |cliff: &Cliff| Cliff { cost_after: cliff.cost_after * factor, ..cliff.clone() };
    found.cliffs.iter().map(scaled).collect()
}

/// Returns a judgement with all costs multiplied by a factor.
fn scaled(judged: &Judgement, factor: f64) -> Judgement {
    let mut one = judged.clone();
    let scale = |cost: Estimate| cost.map(|x| x * factor);
    for point in &mut one.points {
        point.cost = scale(point.cost);
    }
    (one.start, one.end) = (one.start.map(scale), one.end.map(scale));
    one.at_ten_times = one.at_ten_times.map(scale);
    for fit in one.fit.iter_mut().chain(&mut one.rivals) {
        (fit.fixed, fit.slope) = (scale(fit.fixed), fit.slope.map(scale));
    }
    for cliff in &mut one.cliffs {
        cliff.cost_after *= factor;
    }
    one
}

/// The share of the expensive branch over the judged range.
struct OverRange {
    /// The middles of the parts in which it was counted.
    centres: (f64, f64),
    first: Estimate,
    last: Estimate,
    change: Change,
    passes: usize,
}

/// Weight, in degrees of freedom, of the variance that the length of the stays predicts for the share in a pass.
const PREDICTED: f64 = 4.0;

/// A part of the range of n.
type Part = (f64, f64);

/// Returns the share of the expensive branch at small and at large n: in the first and the last third of the range, or
/// in a shorter part if the share there is shown to matter. `None` for a single pass.
fn range_shares(
    found: &Branches,
    range: Part,
    overall: f64,
    costs: (f64, f64),
    options: &Options,
) -> Option<OverRange> {
    let (first, last) = (range.0.max(found.warm.0), range.1.min(found.warm.1));
    let width = last - first;
    let thirds = ((first, first + width / 3.0), (last - width / 3.0, last));
    let usual = shares_in(found, thirds, overall)?;
    let shorter = [2.0, 4.0, 8.0].map(|factor| ((first, (factor * first).min(thirds.0.1)), thirds.1));
    let late = (thirds.0, (last - width / 10.0, last));
    let parts: Vec<(Part, Part)> = shorter.into_iter().chain([late]).collect();
    // Correct for the number of tests: the parts and the thirds.
    let confidence = 1.0 - (1.0 - CERTAIN) / (parts.len() + 1) as f64;
    let is_material = |shares: &OverRange| {
        let rise = Effect::of(shares, costs).of_confidence(confidence);
        rise.low > 1.0 + options.delta || rise.high < 1.0 - options.delta
    };
    if is_material(&usual) {
        return Some(usual);
    }
    let found = parts.into_iter().filter_map(|parts| shares_in(found, parts, overall)).find(is_material);
    Some(found.unwrap_or(usual))
}

/// Minimum number of calls of a pass in a part of the range.
const CALLS_MIN: f64 = 8.0;

/// Returns the share of the expensive branch in two parts of the range.
fn shares_in(found: &Branches, (early, late): (Part, Part), overall: f64) -> Option<OverRange> {
    let count = |one: &Series, (from, to): Part| {
        let at = |x: f64| one.n.partition_point(|n| f64::from(*n) < x);
        (at(to) - at(from)) as f64
    };
    let of_part = |part: Part| {
        let counts = found.low.iter().zip(&found.high).map(|(low, high)| (count(low, part), count(high, part)));
        let counts: Vec<(f64, f64)> = counts.collect();
        let calls = counts.iter().map(|(a, b)| a + b).sum::<f64>() / counts.len().max(1) as f64;
        let shares = counts.into_iter().map(|(a, b)| (a + b >= CALLS_MIN).then(|| b / (a + b)));
        (shares.collect::<Vec<Option<f64>>>(), calls)
    };
    let ((of_early, early_calls), (of_late, late_calls)) = (of_part(early), of_part(late));
    let changes: Vec<Option<f64>> = of_early.iter().zip(&of_late).map(|(a, b)| Some((*b)? - (*a)?)).collect();
    // Neighbouring calls tend to be in the same branch, so a part has few independent calls.
    let stay = 1.0 / (found.leave[0] + found.leave[1]).max(1e-9);
    let predicted = |calls: f64| {
        let shortened = 1.0 - stay / calls * (1.0 - (-calls / stay).exp());
        overall * (1.0 - overall) * 2.0 * stay / calls * shortened
    };
    let change_of = |all: &[Option<f64>], predicted: f64| {
        let all: Vec<f64> = all.iter().copied().flatten().collect();
        let passes = all.len() as f64;
        let value = all.iter().sum::<f64>() / passes;
        let squares = all.iter().map(|x| (x - value).powi(2)).sum::<f64>();
        let freedom = passes - 1.0 + PREDICTED;
        let error = ((squares + PREDICTED * predicted) / freedom / passes).sqrt();
        (passes > 1.0).then_some(Change { value, error, freedom })
    };
    let told = |change: Change| {
        let told = change.interval(TOLD);
        Estimate { low: told.low.max(0.0), high: told.high.min(1.0), ..told }
    };
    let (of_first, of_last) = (predicted(early_calls), predicted(late_calls));
    Some(OverRange {
        centres: (f64::midpoint(early.0, early.1), f64::midpoint(late.0, late.1)),
        first: told(change_of(&of_early, of_first)?),
        last: told(change_of(&of_late, of_last)?),
        change: change_of(&changes, of_first + of_last)?,
        passes: changes.iter().flatten().count(),
    })
}

impl OverRange {
    fn told(&self) -> Shares {
        Shares { first: self.first, last: self.last, change: self.change.interval(TOLD) }
    }

    /// Returns the share at `n`, interpolated linearly between the middles of the parts.
    fn at(&self, n: f64) -> f64 {
        let (first, last) = self.centres;
        let place = (n - first) / (last - first);
        (self.first.value + place.clamp(0.0, 1.0) * self.change.value).clamp(0.0, 1.0)
    }
}

/// The effect of the share on the mean cost, with the cost of each branch at the largest n.
struct Effect {
    first: f64,
    change: Change,
    low: f64,
    high: f64,
    passes: usize,
}

impl Effect {
    fn of(shares: &OverRange, (low, high): (f64, f64)) -> Self {
        Self { first: shares.first.value, change: shares.change, low, high, passes: shares.passes }
    }

    /// Returns the mean cost in the last third over that in the first.
    fn of_confidence(&self, confidence: f64) -> Estimate {
        let mean = |share: f64| self.low + share.clamp(0.0, 1.0) * (self.high - self.low);
        self.change.interval(confidence).map(|change| mean(self.first + change) / mean(self.first))
    }

    /// Returns the number of further passes after which the share is known well enough, if the change equals its
    /// estimate. `None` if the change exceeds the margin, because no number of passes is enough then, or if too many
    /// would be needed.
    fn more_passes(&self, options: &Options) -> Option<u32> {
        let (rise, (low, high)) = (self.of_confidence(TOLD), tolerance(options));
        if (rise.value - 1.0).abs() > options.delta {
            return None;
        }
        // The half width of the interval on each side, relative to the distance of the tolerance on that side.
        let below = (rise.value - rise.low) / (rise.value - low).max(1e-9);
        let above = (rise.high - rise.value) / (high - rise.value).max(1e-9);
        let times = below.max(above).powi(2);
        let more = (self.passes as f64 * (times - 1.0)).ceil();
        (1.0..=MORE_MAX as f64).contains(&more).then_some(more as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn series(calls: u32, cost: f64, random: &mut Random) -> Series {
        let costs = (0..calls).map(|_| (cost * (0.05 * random.normal()).exp()) as u64).collect();
        Series { n: (1..=calls).collect(), costs, is_down: false }
    }

    /// Guards against the weight at the end that is taken for that at the start: a branch that falls mattered too
    /// little, and one that grows too much.
    #[test]
    fn a_change_of_a_branch_changes_the_mean_by_its_share_of_the_cost() {
        let (share, cheap, dear) = (0.1, 1000.0, 3000.0);
        let mean = |dear: f64| (1.0 - share) * cheap + share * dear;
        for factor in [0.25, 0.5, 1.0, 2.0, 4.0] {
            let found = of_mean(Estimate::bare(factor), weight_of_high(share, dear / cheap));
            let expected = mean(dear) / mean(dear / factor);
            assert!((found.value / expected - 1.0).abs() < 1e-12, "{factor}: {found:?}, {expected}");
        }
        // As the expensive branch falls to a third, the mean falls by a third; it was said to fall by a sixth.
        let options = Options::default();
        assert!(matters(Estimate::bare(1.0 / 3.0), 0.25, &options));
        assert!(!matters(Estimate::bare(0.75), 0.25, &options));
    }

    /// The ratio of the branches is that of the expensive one to the cheap one. If the cheap one is rarer, its change
    /// is the inverse.
    #[test]
    fn a_rarer_cheap_branch_changes_by_the_inverse_of_the_ratio() {
        // Six of ten calls cost 1.5 times as much, so the others are 31% of the cost. As these grow to ×1.9, the mean
        // grows to ×1.17; as they fall to ×0.53, it falls to ×0.78.
        let judged = |[low, high]: [f64; 2]| {
            // The 90% interval of 8 degrees of freedom is ±1.8595 standard errors.
            let (value, error) = (f64::midpoint(low.ln(), high.ln()), (high / low).ln() / 2.0 / 1.8595);
            let change = Some(Change { value, error, freedom: 8.0 });
            let distances = Some(crate::branches::Distances { mean: 1.5_f64.ln(), last: 1.5_f64.ln(), change });
            let (low, high) = (Vec::new(), Vec::new());
            let found = Branches { low, high, leave: [0.6, 0.4], distances, cliffs: Vec::new(), warm: (8.0, 256.0) };
            together(&found, 0.6, &Options::default())
        };
        assert!(judged([1.0 / 1.9, 1.05]).is_some_and(|ratio| (ratio - 1.5).abs() < 1e-9));
        assert_eq!(judged([0.95, 1.9]), None);
    }

    /// Guards against reporting a branch without points with a cost of 0 ns.
    #[test]
    fn a_branch_without_points_is_not_told() {
        let mut random = Random::new(1);
        let low: Vec<Series> = (0..5).map(|_| series(2000, 1000.0, &mut random)).collect();
        let high: Vec<Series> = (0..5).map(|pass| series(if pass == 0 { 6 } else { 0 }, 3000.0, &mut random)).collect();
        let found =
            Branches { low, high, leave: [0.001, 0.1], distances: None, cliffs: Vec::new(), warm: (256.0, 2000.0) };
        let judged = judge(&found, &Curve::default(), &Options::default()).unwrap();
        assert!(matches!(judged.judgement.outcome, Outcome::Flat { .. }), "{:?}", judged.judgement.outcome);
        assert_eq!(judged.bimodality, None);
    }

    /// Guards against reporting that a cost grows, ×1.03 (0.93–1.14), because its cheap branch does.
    #[test]
    fn a_branch_that_grows_is_no_growth_of_a_mean_that_does_not() {
        let options = Options::default();
        let judged = |outcome: Outcome, growth: [f64; 3], end: f64| {
            let [low, value, high] = growth;
            let point = |value: f64| Estimate { value, low: 0.95 * value, high: 1.05 * value };
            let empty = Judgement::empty(crate::Unit::Time);
            let (growth, end) = (Some(Estimate { value, low, high }), Some(point(end)));
            Judgement { outcome, growth, end, range: Some((300.0, 10_000.0)), ..empty }
        };
        let law = || Outcome::Grows { law: Some("logarithmic".into()) };
        let flat = || Outcome::Flat { within: options.delta };
        // The outcome for given outcomes and growths of the cheap and the expensive branch, and shares of the latter.
        let outcome = |low: (Outcome, [f64; 3]), high: (Outcome, [f64; 3]), shares: [f64; 2], error: f64| {
            let both = Both {
                low: judged(low.0, low.1, 3000.0),
                high: judged(high.0, high.1, 4260.0),
                share: f64::midpoint(shares[0], shares[1]),
                is_one: false,
            };
            let change = Change { value: shares[1] - shares[0], error, freedom: 8.0 };
            let told = |value: f64| Estimate { value, low: value - error, high: value + error };
            let (first, last) = (told(shares[0]), told(shares[1]));
            let shares = OverRange { centres: (1000.0, 9000.0), first, last, change, passes: 5 };
            let effect = Effect::of(&shares, (3000.0, 4260.0));
            let found = both.outcome(Some(&effect), None, &options);
            both.unless_refuted(found, both.mean_growth(&shares, None), &options)
        };
        let growing = [1.1, 1.15, 1.2];
        let (steady, doubling) = ([0.99, 1.0, 1.01], [1.9, 2.0, 2.1]);
        // As observed: the frequent, expensive branch is not resolved, and its share falls.
        let noisy = || Outcome::Unresolved { reason: Reason::TooNoisy, more_passes: Some(2) };
        assert_eq!(outcome((law(), growing), (noisy(), [1.02, 1.09, 1.17]), [0.65, 0.55], 0.1), noisy());
        // One call of ten becomes twice as expensive: the mean grows by 4%.
        assert_eq!(outcome((law(), doubling), (flat(), steady), [0.9, 0.9], 0.01), Outcome::Varies);
        // The frequent branch grows by 15%, the mean by 9%.
        assert_eq!(outcome((law(), growing), (flat(), steady), [0.3, 0.3], 0.01), Outcome::Varies);
        // Both fall by a quarter while the expensive calls become more frequent: the mean hardly changes.
        let falling = (Outcome::Falls, [0.72, 0.75, 0.78]);
        assert_eq!(outcome(falling.clone(), falling.clone(), [0.0, 0.9], 0.01), Outcome::Varies);
        assert_eq!(outcome(falling.clone(), falling, [0.5, 0.5], 0.01), Outcome::Falls);
        // Half of the calls become twice as expensive.
        assert_eq!(outcome((law(), doubling), (flat(), steady), [0.6, 0.6], 0.01), Outcome::Grows { law: None });
    }

    /// Guards against reporting that a cost varies because the few calls that cost next to nothing do.
    #[test]
    fn a_branch_that_hardly_contributes_leaves_the_outcome_to_the_other() {
        let options = Options::default();
        let outcome = |share: f64, minor: Outcome, growth: f64| {
            let judged = |outcome: Outcome, growth: f64, end: f64| {
                let of = |value: f64| Some(Estimate { value, low: 0.98 * value, high: 1.02 * value });
                let empty = Judgement::empty(crate::Unit::Time);
                Judgement { outcome, growth: of(growth), end: of(end), range: Some((37.0, 950.0)), ..empty }
            };
            let low = judged(minor, growth, 3_300.0);
            let high = judged(Outcome::Flat { within: options.delta }, 1.0, 48_000.0);
            // The ratio of the two costs changes as much as the cheap branch does.
            let change = Change { value: -growth.ln(), error: 0.05, freedom: 8.0 };
            Both { low, high, share, is_one: false }.of_apart(Some(change), &options)
        };
        let open = || Outcome::Unresolved { reason: Reason::TooFewPoints, more_passes: None };
        // As observed: 6% of the calls cost 3 us, and four times as much at small n.
        assert_eq!(outcome(0.94, open(), 0.25).class(), Class::Flat);
        assert_eq!(outcome(0.94, Outcome::Falls, 0.25).class(), Class::Flat);
        assert_eq!(outcome(0.94, Outcome::Grows { law: None }, 4.0).class(), Class::Flat);
        // Four calls in ten change the mean cost by 12%, or by 3%.
        assert_eq!(outcome(0.6, open(), 0.25), Outcome::Varies);
        assert_eq!(outcome(0.6, Outcome::Falls, 0.25), Outcome::Varies);
        assert_eq!(outcome(0.6, Outcome::Grows { law: None }, 4.0), Outcome::Grows { law: None });
    }

    /// Guards against an outcome of both branches with the growth, costs or law of only one of them.
    #[test]
    fn growth_and_ends_beside_an_outcome_of_both_are_those_of_their_mean() {
        let mut random = Random::new(3);
        // Of ten calls, `cheap` cost 1,000 ns at first and twice as much at the end; the others cost 3,000 ns.
        let mut judged = |cheap: u32| {
            let pass = |_: usize| {
                let all = series(2000, 1.0e6, &mut random);
                let (low, high): (Vec<_>, Vec<_>) =
                    all.n.iter().zip(&all.costs).map(|(&n, &cost)| (n, cost)).partition(|(n, _)| n % 10 < cheap);
                let low = low.into_iter().map(|(n, cost)| (n, cost / 1000 * (2000 + u64::from(n)) / 2000));
                let high = high.into_iter().map(|(n, cost)| (n, 3 * cost / 1000));
                let of = |(n, costs)| Series { n, costs, is_down: false };
                (of(low.unzip()), of(high.unzip()))
            };
            let (low, high) = (0..5).map(pass).unzip();
            let share = f64::from(cheap) / 10.0;
            let leave = [1.0 - share, share];
            let found = Branches { low, high, leave, distances: None, cliffs: Vec::new(), warm: (64.0, 2000.0) };
            judge(&found, &Curve::default(), &Options::default()).unwrap()
        };
        for (cheap, outcome) in [(1, Outcome::Varies), (6, Outcome::Grows { law: None })] {
            let Judged { judgement, bimodality } = judged(cheap);
            let bimodality = bimodality.expect("two branches");
            assert_eq!(judgement.outcome, outcome, "{cheap} of 10");
            assert!(matches!(bimodality.low.outcome, Some(Outcome::Grows { .. })), "{bimodality:?}");
            assert!(judgement.fit.is_none() && judgement.rivals.is_empty() && judgement.at_ten_times.is_none());
            let (from, to) = judgement.range.unwrap();
            let mean = |n: f64| 100.0 * f64::from(cheap) * (1.0 + n / 2000.0) + 300.0 * f64::from(10 - cheap);
            let (start, end, growth) = (judgement.start.unwrap(), judgement.end.unwrap(), judgement.growth.unwrap());
            for (told, truth) in
                [(start.value, mean(from)), (end.value, mean(to)), (growth.value, mean(to) / mean(from))]
            {
                assert!((told / truth - 1.0).abs() < 0.03, "{cheap} of 10: {told} for {truth}");
            }
            assert!(growth.low < growth.value && growth.value < growth.high, "{growth:?}");
        }
    }

    /// Guards against promises that are not kept, that exceed the maximum, or that are made although no number of
    /// passes would be enough.
    #[test]
    fn promised_passes_make_the_share_known_well_enough() {
        let options = Options::default();
        let (low, high) = tolerance(&options);
        let effect = |value: f64, error: f64, passes: usize| {
            let change = crate::branches::Change { value, error, freedom: 8.0 };
            Effect { first: 0.3, change, low: 1000.0, high: 3000.0, passes }
        };
        let (mut promised, mut beyond) = (0, 0);
        for (i, j) in (-20..=20).flat_map(|i| (1..=15).map(move |j| (i, j))) {
            let (value, error) = (0.005 * f64::from(i), 0.01 * f64::from(j));
            let found = effect(value, error, 5);
            let is_known = |more: u32| {
                let error = error * (5.0 / (5.0 + f64::from(more))).sqrt();
                let rise = effect(value, error, 5).of_confidence(TOLD);
                rise.low >= low && rise.high <= high
            };
            let rise = found.of_confidence(TOLD).value;
            match found.more_passes(&options) {
                Some(more) => {
                    promised += 1;
                    assert!((1..=15).contains(&more) && (rise - 1.0).abs() <= 0.1 + 1e-9, "{value} {error}: {more}");
                    assert!(is_known(more) && !is_known(more - 1), "{value} {error}: {more}");
                }
                None if (rise - 1.0).abs() > options.delta => beyond += 1,
                None => assert!(is_known(0) || !is_known(15), "{value} {error}"),
            }
        }
        assert!(promised > 50 && beyond > 50, "{promised} promised, {beyond} beyond the margin");
    }
}
