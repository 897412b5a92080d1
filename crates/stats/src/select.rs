//! Selection of the law: every law is fitted on relative error, ranked by BIC, and tested for lack of fit.
//!
//! The model is `log a + log(1 + r·g(n))`. Timing error is relative, and `a` follows from averaging, so the fit is a
//! search over `r`. The errors of the points are known from the passes, so the misfit is a chi-square and BIC needs no
//! estimate of variance. Neighbouring points share the drift of the machine, so the errors have a covariance. If even
//! the best law misses by more than the errors explain, the errors of all laws are scaled up, which admits more rivals.

use crate::covariance::{Covariance, Whitener, dot};
use crate::growth::interval;
use crate::law::{Candidate, Fit, LAWS, Law, Place, Shape, by_name};
use crate::polish::{Level, trimmed_mean};
use crate::random::Random;
use crate::{Estimate, Options};
use statrs::distribution::{ContinuousCDF, FisherSnedecor};
use std::ops::RangeInclusive;

/// The laws of a curve.
pub(crate) struct Selection {
    /// The best law.
    pub(crate) best: Fit,
    /// The laws that fit almost as well.
    pub(crate) rivals: Vec<Fit>,
    /// Fixed cost and slope of the best law in each bootstrap draw.
    pub(crate) draws: Vec<(f64, f64)>,
    /// The best law and its rivals as fitted, each with its weight, which is its share of the evidence.
    pub(crate) weighed: Vec<(Solved, f64)>,
}

/// A fitted law.
#[derive(Clone)]
pub(crate) struct Solved {
    law: &'static dyn Law,
    candidate: Candidate,
    fixed: f64,
    slope: f64,
    chi_square: f64,
    /// The charge in BIC for having tried several known capacities.
    charge: f64,
    /// The result of the search for the rise: the logarithm of `r`. Absent if there is no rise.
    log_r: Option<f64>,
}

impl Solved {
    /// Number of fitted parameters: level, slope, location.
    fn parameters(&self) -> f64 {
        let slope = f64::from(u8::from(self.law.shape() != Shape::Flat));
        let place = if self.candidate.is_free { self.law.shape().parameters() } else { 0 };
        1.0 + slope + f64::from(place)
    }

    fn bic(&self, scale: f64, points: usize) -> f64 {
        // A location is the best of many places on the axis, so it explains more noise than another coefficient (Zhang
        // and Siegmund, Biometrics 63, 2007).
        let is_searched =
            self.candidate.is_free && matches!(self.law.shape(), Shape::Step | Shape::Knee | Shape::Tiers);
        let parameters = self.parameters() + f64::from(u8::from(is_searched));
        self.chi_square / scale + parameters * (points as f64).ln() + self.charge
    }

    /// Returns the gradient of the log cost at `n` with respect to the relative slope and the location.
    pub(crate) fn gradient(&self, n: f64) -> Vec<f64> {
        if self.slope <= 0.0 {
            return Vec::new();
        }
        let log = |place: Place, slope: f64| (self.fixed + slope * self.law.g(n, place)).max(f64::MIN_POSITIVE).ln();
        let place = self.candidate.place;
        // The caller handles the level. With a constant fixed cost, a relative change of the slope is the other
        // parameter.
        let mut all = vec![(log(place, self.slope * 1.001) - log(place, self.slope / 1.001)) / 0.002];
        let is_moved = self.candidate.is_free && self.law.shape() != Shape::Step;
        if is_moved {
            // A pole stays beyond the last point.
            let shift = if self.law.shape() == Shape::Pole { 0.0002 } else { 0.01 };
            let at = |factor: f64| Place { n: place.n * factor, ..place };
            all.push((log(at(1.0 + shift), self.slope) - log(at(1.0 - shift), self.slope)) / (2.0 * shift));
        }
        if is_moved && self.law.shape() == Shape::Tiers {
            let at = |factor: f64| Place { ratio: place.ratio * factor, ..place };
            all.push((log(at(1.01), self.slope) - log(at(0.99), self.slope)) / 0.02);
        }
        all
    }

    /// Returns the same gradient, for the growth up to `top`. A law without a fixed cost would have the same growth
    /// whatever its slope, but the absence of a fixed cost is only an estimate from the same points. So the reciprocal
    /// of the cost is used: together with the level, it spans the same space as the gradient with respect to the slope.
    pub(crate) fn gradient_of_growth(&self, n: f64, top: f64) -> Vec<f64> {
        let mut all = self.gradient(n);
        if self.fixed < PROPORTIONAL * self.at(top) {
            all.iter_mut().take(1).for_each(|first| *first = self.at(top) / self.at(n));
        }
        all
    }

    pub(crate) fn at(&self, n: f64) -> f64 {
        if self.slope > 0.0 { self.fixed + self.slope * self.law.g(n, self.candidate.place) } else { self.fixed }
    }
}

/// A law is nearly proportional to g if its fixed cost is less than this share of the cost at the largest n.
const PROPORTIONAL: f64 = 0.01;

/// The points to which a law is fitted.
pub(crate) struct Target<'a> {
    pub(crate) n: &'a [f64],
    /// Log costs.
    pub(crate) y: &'a [f64],
    /// The inverse of their covariance.
    pub(crate) whitener: &'a Whitener,
    /// The inverse variance of each point, without the error that it shares with the others.
    pub(crate) weight: &'a [f64],
    /// The level of the log costs, and the chi-square if they do not rise.
    flat: (f64, f64),
}

/// Minimum number of points from which the points farthest from a law, at most two, may be left out if the law then
/// fits: bursts of stolen time sometimes hit one window in most of the passes.
const MANY_POINTS: usize = 20;
const LEFT_OUT: usize = 2;
/// Number of points at either end that are never left out: nothing shows that the curve continues as before.
const ENDS: usize = 2;
/// A point may be left out if its distance exceeds this many standard errors.
const FAR: f64 = 3.0;
/// p value of the lack of fit below which a law is questioned.
const REJECTED: f64 = 0.01;

/// The errors of the points of a curve, including the tolerance.
#[derive(Clone)]
pub(crate) struct Frame {
    covariance: Covariance,
    pub(crate) whitener: Whitener,
    weight: Vec<f64>,
}

impl Frame {
    pub(crate) fn of(level: &Level, options: &Options) -> Self {
        let mut covariance = level.covariance();
        let tolerance = options.law_tolerance.max(1e-6).powi(2);
        (0..level.n.len()).for_each(|j| covariance.add(j, tolerance));
        let weight = level.error.iter().map(|error| 1.0 / (error * error + tolerance)).collect();
        Self { whitener: Whitener::new(&covariance), covariance, weight }
    }

    /// Returns the errors with negligible weight for the points that are farthest from a law.
    fn without_far(&self, solved: &Solved, level: &Level) -> Self {
        let distance = |j: usize| (level.mean[j] - solved.at(level.n[j]).ln()).abs() / self.error(j);
        let mut far: Vec<(f64, usize)> = (0..level.n.len()).map(|j| (distance(j), j)).collect();
        far.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut covariance, mut weight) = (self.covariance.clone(), self.weight.clone());
        let is_inside = |j: usize| (ENDS..level.n.len() - ENDS).contains(&j);
        for (_, j) in far.into_iter().take(LEFT_OUT).filter(|(distance, j)| *distance > FAR && is_inside(*j)) {
            covariance.add(j, 1e3 * covariance.at(j, j));
            weight[j] *= 1e-3;
        }
        Self { whitener: Whitener::new(&covariance), covariance, weight }
    }

    /// Returns the errors of the points for which `keep` is true.
    fn filtered(&self, keep: &[bool]) -> Self {
        let covariance = self.covariance.filtered(keep);
        let weight = self.weight.iter().zip(keep).filter(|pair| *pair.1).map(|pair| *pair.0).collect();
        Self { whitener: Whitener::new(&covariance), covariance, weight }
    }

    /// Returns the standard error of a point.
    pub(crate) fn error(&self, j: usize) -> f64 {
        self.covariance.at(j, j).sqrt()
    }

    pub(crate) fn target<'a>(&'a self, n: &'a [f64], y: &'a [f64]) -> Target<'a> {
        Target { n, y, whitener: &self.whitener, weight: &self.weight, flat: self.whitener.level(y) }
    }
}

/// Smallest ratio of two slopes: a linear law with noise often seems to have a smaller one.
const LEAST_RATIO: f64 = 1.4;

/// Range of the search for `ln r`: from a rise of a millionth to a fixed cost of a hundred-millionth.
const LOG_R: (f64, f64) = (-14.0, 18.0);

/// Minimises `f` in `[low, high]` by golden-section search: each round reduces the width by 38%.
fn golden(mut low: f64, mut high: f64, rounds: usize, f: impl Fn(f64) -> f64) -> f64 {
    let phi = 0.618_033_988_749_894_9;
    let (mut a, mut b) = (high - phi * (high - low), low + phi * (high - low));
    let (mut at_a, mut at_b) = (f(a), f(b));
    for _ in 0..rounds {
        if at_a <= at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - phi * (high - low);
            at_a = f(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + phi * (high - low);
            at_b = f(b);
        }
    }
    f64::midpoint(low, high)
}

/// The fit of one shape `g`, scaled to a maximum of one, as a function of `r`.
struct Profile<'a> {
    target: &'a Target<'a>,
    g: &'a [f64],
}

impl Profile<'_> {
    /// Returns level and chi-square for one `r`.
    fn at(&self, r: f64) -> (f64, f64) {
        self.target.whitener.level(&self.rest(r))
    }

    /// Returns the log costs without the rise by `r`.
    fn rest(&self, r: f64) -> Vec<f64> {
        self.target.y.iter().zip(self.g).map(|(y, g)| y - about_ln(1.0 + r * g)).collect()
    }

    /// Returns the chi-square as if the points shared no errors, computed four points at a time.
    fn apart(&self, r: f64) -> f64 {
        let mut lanes = [[0.0; 4]; 3];
        let mut add = |i: usize, [y, w, g]: [f64; 3]| {
            let x = y - about_ln(1.0 + r * g);
            lanes[0][i] += w;
            lanes[1][i] += w * x;
            lanes[2][i] += w * x * x;
        };
        let (y, y_rest) = self.target.y.as_chunks::<4>();
        let (w, w_rest) = self.target.weight.as_chunks::<4>();
        let (g, g_rest) = self.g.as_chunks::<4>();
        for ((y, w), g) in y.iter().zip(w).zip(g) {
            for i in 0..4 {
                add(i, [y[i], w[i], g[i]]);
            }
        }
        for (i, y) in y_rest.iter().enumerate() {
            add(i, [*y, w_rest[i], g_rest[i]]);
        }
        let [s, sx, sxx] = lanes.map(|sums| sums.iter().sum::<f64>());
        (sxx - sx * sx / s).max(0.0)
    }

    /// Finds the minimum near `log_r` to the last digits by Gauss–Newton steps. Comparing chi-squares cannot
    /// distinguish places that differ by less than a hundred-thousandth, so the result would depend on the unit of the
    /// costs. Stays within `reach` of the start, and ends when a step is shorter than `least`.
    fn sharpen(&self, mut log_r: f64, reach: f64, least: f64) -> f64 {
        let start = log_r;
        for _ in 0..20 {
            let r = log_r.exp();
            let gradient: Vec<f64> = self.g.iter().map(|g| r * g / (1.0 + r * g)).collect();
            let rest = self.target.whitener.without_level(&self.rest(r));
            let gradient = self.target.whitener.without_level(&gradient);
            let step = dot(&rest, &gradient) / dot(&gradient, &gradient).max(f64::MIN_POSITIVE);
            log_r = (log_r + step).clamp(start - reach, start + reach);
            if step.abs() < least {
                break;
            }
        }
        log_r
    }
}

/// Returns the natural logarithm of a normal number of at least one, to within 1e-14: a series in (m − 1)/(m + 1), with
/// the mantissa m between √½ and √2. The compiler can vectorise it, unlike the function of the library.
fn about_ln(x: f64) -> f64 {
    const HALF_ROOT: u64 = 0x3fe6_a09e_667f_3bcd;
    /// 1.5 · 2⁵²; in a sum with it, the last bits are an integer.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let above = x.to_bits().wrapping_sub(HALF_ROOT);
    let exponent = f64::from_bits(SHIFT.to_bits() + (above >> 52)) - SHIFT;
    let mantissa = f64::from_bits(x.to_bits() - (above & (0xfff << 52)));
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let mut series = 0.0;
    for power in [17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = series * square + 1.0 / power;
    }
    exponent * std::f64::consts::LN_2 + 2.0 * z * series
}

/// The way in which `ln r` is searched for.
#[derive(Clone, Copy)]
enum Search {
    /// Everywhere, to a few percent; used to rank locations. Only the chi-square is accurate enough for use.
    Coarse,
    /// Like `Coarse`, but as if the points shared no errors; used to preselect locations for ranking.
    Apart,
    /// Everywhere.
    Fine,
    /// Near a known value.
    Around(f64),
    /// Near a known value, to the last digits.
    From(f64),
    /// Near a known value, to a millionth: the last step is below a thousandth, and steps shrink much faster than that.
    Draw(f64),
}

impl Search {
    /// Returns a search near the rise of another fit, if it has one.
    fn around(solved: &Solved) -> Self {
        solved.log_r.map_or(Self::Fine, Self::Around)
    }
}

/// Fits one law at a fixed location.
fn fit_at(target: &Target<'_>, law: &'static dyn Law, candidate: Candidate, search: Search) -> Solved {
    let mut g: Vec<f64> = target.n.iter().map(|n| law.g(*n, candidate.place)).collect();
    let top = g.iter().copied().fold(0.0, f64::max);
    let solved = |fixed: f64, slope: f64, chi_square: f64, log_r: Option<f64>| Solved {
        law,
        candidate,
        fixed,
        slope,
        chi_square,
        charge: 0.0,
        log_r,
    };
    let (flat, flat_square) = (target.flat.0, target.flat.1);
    if top <= 0.0 || !top.is_finite() {
        return solved(flat.exp(), 0.0, flat_square, None);
    }
    for x in &mut g {
        *x /= top;
    }
    let profile = Profile { target, g: &g };
    let exact = |log_r: f64| profile.at(log_r.exp()).1;
    if let Search::Coarse | Search::Apart = search {
        let about = |log_r: f64| match search {
            Search::Apart => profile.apart(log_r.exp()),
            _ => exact(log_r),
        };
        let (low, high) = bracket(about);
        let log_r = golden(low, high, 9, about);
        let r = log_r.exp();
        // A slope that cannot be distinguished from zero is zero.
        let chi_square = about(log_r);
        let flat_square = if let Search::Apart = search { profile.apart(0.0) } else { flat_square };
        let is_better = chi_square < flat_square * (1.0 - 1e-9);
        if !is_better {
            return solved(flat.exp(), 0.0, flat_square, None);
        }
        return solved(flat.exp(), r / top, chi_square, Some(log_r));
    }
    let near = match search {
        Search::Around(log_r) => Some((log_r, profile.sharpen(log_r, 2.0, 1e-6))),
        Search::Draw(log_r) => Some((log_r, profile.sharpen(log_r, 2.0, 1e-3))),
        Search::From(log_r) => Some((log_r, profile.sharpen(log_r, 2.0, 1e-12))),
        _ => None,
    };
    let found = near.map(|(start, near)| (near, profile.at(near.exp()), exact(start)));
    let found = found.filter(|(_, (_, square), at_start)| square <= at_start).map(|(near, at, _)| (near, at));
    let (log_r, (mean, chi_square)) = found.unwrap_or_else(|| {
        let (low, high) = bracket(exact);
        let log_r = profile.sharpen(golden(low, high, 9, exact), 0.1, 1e-12);
        (log_r, profile.at(log_r.exp()))
    });
    if chi_square < flat_square - 1e-9 {
        solved(mean.exp(), mean.exp() * log_r.exp() / top, chi_square, Some(log_r))
    } else {
        solved(flat.exp(), 0.0, flat_square, None)
    }
}

/// Returns the part of the search range around the lowest of a few values: the misfit may have two minima in r.
fn bracket(square: impl Fn(f64) -> f64) -> (f64, f64) {
    let places = (0..=16).map(|i| LOG_R.0 + 2.0 * f64::from(i));
    let squares = places.map(|log_r| (log_r, square(log_r)));
    let best = squares.min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(LOG_R, |(log_r, _)| (log_r - 2.0, log_r + 2.0))
}

/// Maximum number of locations that are ranked with the errors that the points share; others are eliminated before.
const RANKED: usize = 12;

/// Fits one law and its location, if it has one.
pub(crate) fn fit_law(target: &Target<'_>, law: &'static dyn Law, capacities: &[f64]) -> Option<Solved> {
    let candidates = law.candidates(target.n, capacities);
    let held = candidates.iter().filter(|candidate| !candidate.is_free).count();
    let charge = |candidate: &Candidate| if candidate.is_free { 0.0 } else { 2.0 * (held.max(1) as f64).ln() };
    let of = |c: &Candidate, search| Solved { charge: charge(c), ..fit_at(target, law, *c, search) };
    // Returns the places, best first, each with the search that finds its rise.
    let ranked = |places: Vec<(usize, Search)>, search: &dyn Fn(Search) -> Search, next: &dyn Fn(f64) -> Search| {
        let cost = |(i, found): &(usize, Search)| {
            let solved = of(&candidates[*i], search(*found));
            (solved.bic(1.0, target.n.len()), (*i, solved.log_r.map_or(Search::Fine, next)))
        };
        let mut costs: Vec<(f64, (usize, Search))> = places.iter().map(cost).collect();
        costs.sort_by(|a, b| a.0.total_cmp(&b.0));
        costs.into_iter().map(|(_, place)| place).collect::<Vec<(usize, Search)>>()
    };
    let mut places: Vec<(usize, Search)> = (0..candidates.len()).map(|i| (i, Search::Fine)).collect();
    if places.len() > RANKED {
        places = ranked(places, &|_| Search::Apart, &Search::Around);
        places.truncate(RANKED);
    }
    if places.len() > 1 {
        let search = |found| if let Search::Around(_) = found { found } else { Search::Coarse };
        places = ranked(places, &search, &Search::From);
    }
    let (place, search) = *places.first()?;
    let best = of(&candidates[place], search);
    if !best.candidate.is_free {
        return Some(best);
    }
    let refined = match law.shape() {
        Shape::Knee | Shape::Pole => {
            // The location is searched for between the adjacent free candidates.
            let free = |i: Option<usize>| {
                let adjacent = i.and_then(|i| candidates.get(i)).filter(|c| c.is_free);
                adjacent.map_or(best.candidate.place.n, |c| c.place.n)
            };
            let (low, high) = (free(place.checked_sub(1)), free(Some(place + 1)));
            let at = |n: f64| fit_at(target, law, Candidate::free(n), Search::around(&best));
            at(golden(low, high, 12, |n| at(n).chi_square))
        }
        Shape::Tiers => {
            let last = target.n.len().checked_sub(3)?;
            tiers(target, &best, &(target.n.get(2)?.ln()..=target.n[last].ln()))
        }
        Shape::Step if best.candidate.place.ratio > 1.0 => {
            // A step inside a window: its median is anywhere between the levels.
            let Place { n, ratio } = best.candidate.place;
            let half = (ratio - 1.0) * n;
            let at = |n: f64| fit_at(target, law, Candidate::tier(n, 1.0 + half / n), Search::around(&best));
            at(golden(n - half, n + half, 10, |n| at(n).chi_square))
        }
        Shape::Flat | Shape::Smooth | Shape::Step => return Some(best),
    };
    if refined.chi_square >= best.chi_square {
        return Some(best);
    }
    let search = refined.log_r.map_or(Search::Fine, Search::From);
    Some(fit_at(target, law, refined.candidate, search))
}

/// Fits location and ratio of the law of two slopes, alternately, around the best candidate of the grid. The logarithm
/// of the location stays within `range`, because both slopes must be visible.
fn tiers(target: &Target<'_>, best: &Solved, range: &RangeInclusive<f64>) -> Solved {
    let search = Search::around(best);
    let at = |place: Place| fit_at(target, best.law, Candidate::tier(place.n, place.ratio), search);
    let mut found = best.candidate.place;
    for _ in 0..3 {
        let square = |log_ratio: f64| at(Place { ratio: log_ratio.exp(), ..found }).chi_square;
        let log_ratio = found.ratio.ln();
        found.ratio = golden((log_ratio - 0.45).max(LEAST_RATIO.ln()), log_ratio + 0.45, 10, square).exp();
        let square = |log_n: f64| at(Place { n: log_n.exp(), ..found }).chi_square;
        let log_n = found.n.ln();
        found.n = golden((log_n - 0.5).max(*range.start()), (log_n + 0.5).min(*range.end()), 10, square).exp();
    }
    at(found)
}

/// Returns the laws that a curve in this unit can follow.
fn dictionary(options: &Options) -> impl Iterator<Item = &'static dyn Law> {
    let judge = options.judge();
    LAWS.iter().copied().filter(move |law| judge.can_follow(*law))
}

/// Rivals are named until the named laws have this share of the evidence; and the maximum number of rivals.
const EVIDENCE: f64 = 0.98;
const RIVALS_MAX: usize = 3;

/// Returns the laws with their fits, the best by BIC first, and the scale of the errors.
fn ranked(target: &Target<'_>, capacities: &[f64], options: &Options) -> (Vec<Solved>, f64) {
    let points = target.n.len();
    let fits = dictionary(options).filter_map(|law| fit_law(target, law, capacities));
    let mut fits: Vec<Solved> = fits.collect();
    let spare = |solved: &Solved| (points as f64 - solved.parameters()).max(1.0);
    let least = fits.iter().map(|solved| solved.chi_square / spare(solved)).fold(f64::MAX, f64::min);
    let scale = least.max(1.0);
    fits.sort_by(|a, b| a.bic(scale, points).total_cmp(&b.bic(scale, points)));
    (fits, scale)
}

/// The amount by which a point exceeds a law.
#[derive(Clone, Copy, Default)]
pub(crate) struct Excess {
    /// As a logarithm.
    pub(crate) log: f64,
    /// In standard errors.
    pub(crate) errors: f64,
}

/// Returns the amount by which each point exceeds the best law of the points for which `is_kept` is true.
pub(crate) fn excess(level: &Level, is_kept: &[bool], capacities: &[f64], options: &Options) -> Vec<Excess> {
    let frame = Frame::of(level, options);
    let kept = |values: &[f64]| {
        let pairs = values.iter().zip(is_kept).filter(|pair| *pair.1);
        pairs.map(|pair| *pair.0).collect::<Vec<f64>>()
    };
    let (n, y) = (kept(&level.n), kept(&level.mean));
    let (fits, scale) = ranked(&frame.filtered(is_kept).target(&n, &y), capacities, options);
    let Some(best) = fits.first() else { return vec![Excess::default(); level.n.len()] };
    let of = |j: usize| {
        let log = level.mean[j] - best.at(level.n[j]).ln();
        Excess { log, errors: log / (frame.error(j) * scale.sqrt()) }
    };
    (0..level.n.len()).map(of).collect()
}

/// Whether the best law of a reduced curve is questioned.
pub(crate) fn questioned(level: &Level, capacities: &[f64], options: &Options) -> bool {
    let frame = Frame::of(level, options);
    let target = frame.target(&level.n, &level.mean);
    let is_rejected = |solved: &Solved| lack_of_fit_p(solved, &frame, level).is_some_and(|p| p < REJECTED);
    // Laws without a location are cheap to fit. If one of them fits, so does the best law, whose misfit is smaller.
    let smooth = dictionary(options).filter(|law| matches!(law.shape(), Shape::Flat | Shape::Smooth));
    if smooth.filter_map(|law| fit_law(&target, law, capacities)).any(|solved| !is_rejected(&solved)) {
        return false;
    }
    ranked(&target, capacities, options).0.first().is_some_and(is_rejected)
}

/// Selects the law of a reduced curve. `None` without points.
pub(crate) fn select(level: &Level, capacities: &[f64], options: &Options) -> Option<Selection> {
    let mut frame = Frame::of(level, options);
    let points = level.n.len();
    let (mut fits, mut scale) = ranked(&frame.target(&level.n, &level.mean), capacities, options);
    let is_rejected =
        |solved: &Solved, frame: &Frame| lack_of_fit_p(solved, frame, level).is_some_and(|p| p < REJECTED);
    if points >= MANY_POINTS && fits.first().is_some_and(|solved| is_rejected(solved, &frame)) {
        let without = frame.without_far(&fits[0], level);
        let (others, other_scale) = ranked(&without.target(&level.n, &level.mean), capacities, options);
        if others.first().is_some_and(|solved| !is_rejected(solved, &without)) {
            (frame, fits, scale) = (without, others, other_scale);
        }
    }
    let target = frame.target(&level.n, &level.mean);
    let lowest = fits.first()?.bic(scale, points);
    let evidence: Vec<f64> = fits.iter().map(|solved| (-0.5 * (solved.bic(scale, points) - lowest)).exp()).collect();
    let total: f64 = evidence.iter().sum();
    let best = simplest(&fits, |s| s.bic(scale, points));
    // Name rivals until enough of the evidence is named: first those with as few parameters as the best law, then those
    // with more, in each group the likeliest first. With a fitted location, several laws can imitate any law that bends
    // a little.
    let extends = |solved: &Solved| solved.parameters() > fits[best].parameters();
    let is_rival = |solved: &Solved| solved.bic(scale, points) < lowest + options.rival_bic;
    let mut order: Vec<usize> = (0..fits.len()).filter(|i| *i != best && is_rival(&fits[*i])).collect();
    order.sort_by_key(|i| extends(&fits[*i]));
    let mut weighed = vec![(fits[best].clone(), evidence[best] / total)];
    let mut named = weighed[0].1;
    for i in order {
        if named >= EVIDENCE || weighed.len() > RIVALS_MAX {
            break;
        }
        weighed.push((fits[i].clone(), evidence[i] / total));
        named += evidence[i] / total;
    }
    let described = |solved: &Solved, draws: usize| {
        let (draws, fixed, slope) = resample(level, solved, &frame, draws, options.seed);
        let p = lack_of_fit_p(solved, &frame, level);
        (draws, describe(solved, fixed, slope, &target, p, solved.bic(scale, points) - lowest))
    };
    let (draws, best) = described(&weighed[0].0, options.draws / 2);
    let rivals = weighed[1..].iter().map(|(solved, _)| described(solved, options.draws / 8).1).collect();
    Some(Selection { best, rivals, draws, weighed })
}

/// Returns the index of the best law; of nested laws within 2 BIC, the simpler one.
fn simplest(fits: &[Solved], bic: impl Fn(&Solved) -> f64) -> usize {
    let mut best = 0;
    let limit = bic(&fits[0]) + 2.0;
    for (i, solved) in fits.iter().enumerate() {
        let is_inside = fits[best].law.contains().contains(&solved.law.name());
        if is_inside && bic(solved) <= limit {
            best = i;
        }
    }
    best
}

/// Returns the p value of the misfit relative to the error between passes. It combines the tests of the misfit as a
/// whole and of its smooth part, which errors of single points do not hide. `None` for a single pass.
fn lack_of_fit_p(solved: &Solved, frame: &Frame, level: &Level) -> Option<f64> {
    let points = level.n.len() as f64;
    let spare = points - solved.parameters();
    let freedom = (level.passes as f64 - 1.0) * (points - 1.0);
    if level.passes < 2 || spare < 1.0 {
        return None;
    }
    let p = |square: f64, spare: f64| {
        let f = FisherSnedecor::new(spare, freedom).ok()?;
        Some(f.sf((square / spare).min(1e12)))
    };
    let whole = p(solved.chi_square, spare)?;
    let (square, directions) = smooth_misfit(solved, frame, level);
    let smooth = if directions == 0 { 1.0 } else { p(square, f64::from(directions))? };
    Some((2.0 * whole.min(smooth)).min(1.0))
}

/// Degree of the polynomial in log n that represents a smooth misfit.
const DEGREE: i32 = 4;

/// Returns the square of the part of the misfit that is a polynomial in log n, and the number of its independent
/// directions.
fn smooth_misfit(solved: &Solved, frame: &Frame, level: &Level) -> (f64, u32) {
    let white = |column: &[f64]| frame.whitener.without_level(column);
    let (first, last) = (level.n[0].ln(), level.n[level.n.len() - 1].ln());
    let place = |n: &f64| 2.0 * (n.ln() - first) / (last - first).max(1e-9) - 1.0;
    let gradients: Vec<Vec<f64>> = level.n.iter().map(|n| solved.gradient(*n)).collect();
    let fitted = (0..gradients[0].len()).map(|k| gradients.iter().map(|row| row[k]).collect::<Vec<f64>>());
    let smooth = (1..=DEGREE).map(|k| level.n.iter().map(|n| place(n).powi(k)).collect::<Vec<f64>>());
    let count = gradients[0].len();
    let rest = level.n.iter().zip(&level.mean).map(|(n, y)| y - solved.at(*n).ln());
    let mut rest = white(&rest.collect::<Vec<f64>>());
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let (mut square, mut directions) = (0.0, 0);
    for (k, column) in fitted.chain(smooth).enumerate() {
        let mut column = white(&column);
        let length = dot(&column, &column);
        for one in &basis {
            let along = dot(&column, one);
            column.iter_mut().zip(one).for_each(|(x, y)| *x -= along * y);
        }
        let left = dot(&column, &column);
        // A column that depends on the others, or is zero, adds no direction.
        if left <= (1e-4 * length).max(f64::MIN_POSITIVE) {
            continue;
        }
        for x in &mut column {
            *x /= left.sqrt();
        }
        let along = dot(&rest, &column);
        rest.iter_mut().zip(&column).for_each(|(x, y)| *x -= along * y);
        // Directions that the coefficients of the law could still explain are not a misfit.
        if k >= count {
            square += along * along;
            directions += 1;
        }
        basis.push(column);
    }
    (square, directions)
}

/// Fits the law to resampled passes at its location. Returns draws of (fixed, slope), and the intervals of both.
fn resample(
    level: &Level,
    solved: &Solved,
    frame: &Frame,
    draws: usize,
    seed: u64,
) -> (Vec<(f64, f64)>, Estimate, Estimate) {
    let top = level.n.iter().map(|n| solved.law.g(*n, solved.candidate.place));
    let top = top.fold(0.0, f64::max);
    let is_rising = solved.slope > 0.0 && solved.fixed > 0.0;
    let search = if is_rising { Search::Draw((solved.slope * top / solved.fixed).ln()) } else { Search::Fine };
    let mut random = Random::new(seed);
    let mut pairs = Vec::with_capacity(draws);
    let draws = if level.passes < 2 { 0 } else { draws };
    for _ in 0..draws {
        let y = resampled_means(level, &mut random);
        let drawn = fit_at(&frame.target(&level.n, &y), solved.law, solved.candidate, search);
        pairs.push((drawn.fixed, drawn.slope));
    }
    let spread = |value: f64, pick: &dyn Fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(pick).collect();
        let raw = interval(value, &mut values, level.passes, 0.95);
        // Widening may reach below zero, but neither a fixed cost nor a slope is negative.
        Estimate { low: raw.low.max(0.0), ..raw }
    };
    let fixed = spread(solved.fixed, &|pair| pair.0);
    let slope = spread(solved.slope, &|pair| pair.1);
    (pairs, fixed, slope)
}

/// Returns the point means of one bootstrap sample of the passes, with the level of that sample. Polishing removed the
/// offsets of the passes from the shape, but costs include them.
pub(crate) fn resampled_means(level: &Level, random: &mut Random) -> Vec<f64> {
    let chosen: Vec<usize> = (0..level.passes).map(|_| random.below(level.passes)).collect();
    let mut shifts: Vec<f64> = chosen.iter().map(|p| level.offsets[*p]).collect();
    let shift = trimmed_mean(&mut shifts).unwrap_or(0.0);
    let mut column = Vec::with_capacity(level.passes);
    let means = level.mean.iter().enumerate().map(|(j, whole)| {
        column.clear();
        column.extend(chosen.iter().filter_map(|p| level.cells[*p][j]));
        shift + trimmed_mean(&mut column).unwrap_or(*whole)
    });
    means.collect()
}

/// Returns the public form of a fitted law.
fn describe(
    solved: &Solved,
    fixed: Estimate,
    slope: Estimate,
    target: &Target<'_>,
    lack_of_fit_p: Option<f64>,
    bic: f64,
) -> Fit {
    let shape = solved.law.shape();
    let place = solved.candidate.place;
    let residual = |(n, y): (&f64, &f64)| (y - solved.at(*n).ln()).powi(2);
    let square: f64 = target.n.iter().zip(target.y).map(residual).sum();
    Fit {
        law: solved.law.name().to_owned(),
        fixed,
        slope: (shape != Shape::Flat).then_some(slope),
        location: (shape.parameters() > 0).then_some(place.n),
        ratio: (shape == Shape::Tiers).then_some(place.ratio),
        delta_bic: bic,
        rms_residual: (square / target.n.len() as f64).sqrt(),
        lack_of_fit_p,
    }
}

/// Returns the constant law at the mean level.
pub(crate) fn constant(level: &Level, options: &Options) -> Option<Fit> {
    let frame = Frame::of(level, options);
    let target = frame.target(&level.n, &level.mean);
    let solved = fit_law(&target, by_name("constant")?, &[])?;
    let (_, fixed, slope) = resample(level, &solved, &frame, options.draws / 2, options.seed);
    Some(describe(&solved, fixed, slope, &target, lack_of_fit_p(&solved, &frame, level), 0.0))
}

/// Returns the step that fits a curve best.
pub(crate) fn step(level: &Level, options: &Options) -> Option<(Solved, Fit)> {
    let frame = Frame::of(level, options);
    let target = frame.target(&level.n, &level.mean);
    let solved = fit_law(&target, by_name("step")?, &[])?;
    let (fixed, slope) = (Estimate::bare(solved.fixed), Estimate::bare(solved.slope));
    let fit = describe(&solved, fixed, slope, &target, lack_of_fit_p(&solved, &frame, level), 0.0);
    Some((solved, fit))
}

/// Returns the law that fits two curves best, with separate coefficients.
pub(crate) fn both(a: &Level, b: &Level, capacities: &[f64], options: &Options) -> Option<&'static dyn Law> {
    let cost = |law: &'static dyn Law, level: &Level| {
        let frame = Frame::of(level, options);
        let target = frame.target(&level.n, &level.mean);
        Some(fit_law(&target, law, capacities)?.bic(1.0, level.n.len()))
    };
    let costs = dictionary(options).filter_map(|law| Some((cost(law, a)? + cost(law, b)?, law)));
    costs.min_by(|x, y| x.0.total_cmp(&y.0)).map(|pair| pair.1)
}

/// Returns fixed cost and slope of `b` over those of `a` under one law, with 95% confidence intervals. A ratio is
/// absent if one of its terms is zero.
pub(crate) fn coefficient_ratios(
    a: &Level,
    b: &Level,
    law: &'static dyn Law,
    capacities: &[f64],
    options: &Options,
) -> (Option<Estimate>, Option<Estimate>) {
    let drawn = |level: &Level, seed: u64| {
        let frame = Frame::of(level, options);
        let solved = fit_law(&frame.target(&level.n, &level.mean), law, capacities)?;
        let (draws, ..) = resample(level, &solved, &frame, options.draws / 2, seed);
        Some((solved, draws))
    };
    // Independent curves need independent draws, so two seeds.
    let (Some(a_found), Some(b_found)) = (drawn(a, options.seed), drawn(b, options.seed.wrapping_add(1))) else {
        return (None, None);
    };
    let passes = options.judge().ratio_passes(a, b);
    // The draws do not contain differences between runs.
    let runs = if options.paired { 0.0 } else { 2.0 * options.between_runs.powi(2) };
    let extra = crate::growth::student(0.975, passes.max(2) as f64 - 1.0) * runs.sqrt();
    let ratio = |pick: &dyn Fn(&(f64, f64)) -> f64| {
        let of = |s: &Solved| pick(&(s.fixed, s.slope));
        let (x, y) = (of(&a_found.0), of(&b_found.0));
        let pairs = a_found.1.iter().zip(&b_found.1).map(|(a, b)| (pick(b) / pick(a)).ln());
        let mut logs: Vec<f64> = pairs.filter(|log| log.is_finite()).collect();
        if x <= 0.0 || y <= 0.0 || logs.len() * 10 < a_found.1.len() * 9 || passes < 2 {
            return None;
        }
        let log = interval((y / x).ln(), &mut logs, passes, 0.95);
        let widened = Estimate {
            value: log.value,
            low: log.value - (log.value - log.low).hypot(extra),
            high: log.value + (log.high - log.value).hypot(extra),
        };
        Some(widened.map(f64::exp))
    };
    (ratio(&|pair| pair.0), ratio(&|pair| pair.1))
}
