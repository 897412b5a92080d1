//! Truths with drawn parameters, to which no table was tuned.
//!
//! The published table has fixed factors and places. Here each seed draws different ones: factors from ×1.5 to ×30,
//! places from n = 50 to 0.9 of the length, and shapes outside the dictionary that the table does not contain.

use super::{Cost, Expected, Truth, jump, law, truth};
use crate::law::Place;
use crate::random::Random;

/// Returns one truth of each kind for series of `calls` calls. Equal arguments give equal truths.
pub fn drawn(calls: u32, seed: u64) -> Vec<Truth> {
    let last = f64::from(calls);
    let mut draw = Draw(Random::new(seed));
    let mut all = Vec::new();
    for name in ["logarithmic", "root", "linear", "linearithmic", "power", "quadratic"] {
        // The logarithm is the flattest law: with a smaller factor, its growth over the judged range is near the
        // margin.
        let least = if name == "logarithmic" { 2.0 } else { 1.5 };
        let most = if name == "root" { 0.9 * last.sqrt() } else { 30.0 };
        all.push(law(name, last, draw.log(least, most), Place::at(0.0)));
    }
    for (name, most) in [("occupancy", 10.0), ("probing", 30.0)] {
        let capacity = last * draw.uniform(1.03, 1.15);
        // The cost of the empty table is a part of the fixed cost, which cannot be negative.
        let possible = if name == "occupancy" { 1.0 } else { 2.0 };
        let most = 0.9 * (1.0 - last / capacity).powf(-possible).min(most / 0.9);
        all.push(law(name, last, draw.log(1.5, most), Place::at(capacity)));
    }
    all.push(law("knee", last, draw.log(1.5, 20.0), Place::at(last * draw.uniform(0.15, 0.75))));
    let place = Place { n: last * draw.uniform(0.12, 0.5), ratio: draw.log(2.5, 8.0) };
    all.push(law("tiers", last, draw.log(5.0, 100.0), place));
    for at in [draw.log(50.0, 0.2 * last).round(), draw.uniform(0.2 * last, 0.9 * last).round()] {
        let factor = draw.log(1.3, 2.2);
        all.push(truth("step", format!("×{factor:.2} at {at}"), Expected::Law("step"), jump(at, factor)));
        let factor = draw.log(3.0, 100.0);
        all.push(truth("cliff", format!("×{factor:.1} at {at}"), Expected::Cliff { n: at, factor }, jump(at, factor)));
    }
    all.extend(outside(last, &mut draw));
    all
}

/// Returns shapes that follow no law of the dictionary.
fn outside(last: f64, draw: &mut Draw) -> Vec<Truth> {
    let shape = |name: &str, f: Cost| truth("outside", name.to_owned(), Expected::NoLaw, f);
    let (centre, height, width) = (last * draw.log(0.1, 0.5), draw.uniform(0.5, 1.5), draw.uniform(0.5, 1.0));
    let bump = move |n: f64| (-((n / centre).ln() / width).powi(2)).exp();
    let (period, tooth) = (draw.uniform(1.0, 2.5), draw.uniform(0.4, 0.8));
    let (early, late) = (draw.uniform(0.08, 0.2), draw.uniform(0.45, 0.75));
    let first = early * last;
    let (early, late) = (jump(first, draw.uniform(1.35, 1.8)), jump(late * last, draw.uniform(1.35, 1.8)));
    let (half, steepness, rise) = (draw.uniform(0.2, 0.4), draw.uniform(4.0, 8.0), draw.uniform(1.5, 4.0));
    let (flat_to, fall) = (draw.uniform(0.2, 0.5) * last, draw.uniform(0.3, 0.6));
    let flat_from = draw.uniform(0.2, 0.5) * last;
    vec![
        shape("hump", Box::new(move |n| 1.0 + height * bump(n))),
        shape("dip", Box::new(move |n| 2.0 - 0.6 * height.min(1.2) * bump(n))),
        shape("sawtooth", Box::new(move |n| 1.0 + tooth * (n.log2() / period).fract())),
        shape("two steps", Box::new(move |n| early(n) * late(n))).with_law_from(first, "step"),
        shape("sigmoid", Box::new(move |n| 1.0 + rise / (1.0 + (half * last / n).powf(steepness)))),
        shape("plateau then fall", Box::new(move |n| 1.0 - fall * ((n - flat_to) / (last - flat_to)).max(0.0))),
        shape("root then flat", Box::new(move |n| 1.0 + n.min(flat_from).sqrt())),
        shape("n^0.3", Box::new(|n| n.powf(0.3))),
        shape("n^2.5", Box::new(move |n| 1.0 + 1000.0 * (n / last).powf(2.5))),
        shape("log² n", Box::new(|n| (1.0 + n.ln()).powi(2))),
        shape("power and pole", Box::new(move |n| n.powf(0.3) + 0.5 / (1.0 - n / (1.02 * last)))),
    ]
}

/// Draws of parameters.
struct Draw(Random);

impl Draw {
    fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.uniform()
    }

    /// Draws from a uniform distribution of the logarithm.
    fn log(&mut self, low: f64, high: f64) -> f64 {
        self.uniform(low.ln(), high.ln()).exp()
    }
}
