//! Synthetic curves of known truth, to measure the error rate of verdicts.
//!
//! The noise has several levels, like real noise. Each pass has an offset (3%). Each cell (one pass at one n) has an
//! error that all its calls share (the stated noise, 1% or 4%), and 3% of the cells have an episode that slows all
//! their calls. Each call has its own jitter (2%, with seven calls per cell: equivalent to 7% over a real window of a
//! hundred), and 3% of the calls have a tail. Without the shared part the median of a window would average the noise
//! away, and every method would look perfect.

use crate::random::Random;
use crate::{Annotation, AnnotationKind, Curve, Pass};
use serde::{Deserialize, Serialize};

/// The truth behind a synthetic curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Truth {
    /// Flat.
    Constant,
    /// A linear rise of 6%: within the margin of 10%.
    Rise6,
    /// A logarithmic rise of 6%: within the margin too, but harder, because more of it is visible.
    Rise6Log,
    /// `a + b log n`, ×1.5.
    Logarithmic,
    /// `a + b √n`, ×2.1.
    Root,
    /// `a + b n`, ×7.
    Linear,
    /// `a + b n`, ×1.65: a growth that well-known tools miss.
    Linear65,
    /// `a + b n log n`, ×6.7.
    Linearithmic,
    /// `a + b n²`, ×11.
    Quadratic,
    /// +30% from n = 4,096 on.
    Step,
    /// Flat to 8,000, then linear, ×4.
    Knee,
    /// Linear, with a slope four times as steep beyond about 2,000, ×590. The change is logistic, which no law of the
    /// dictionary matches exactly.
    Tiers,
    /// `a + b / (1 − n/21,000)`, ×11.
    Occupancy,
    /// `a + b / (1 − n/21,000)²`, ×50.
    Probing,
    /// Outside the dictionary: a hash table that is resized every third doubling.
    Sawtooth,
    /// Outside the dictionary: a maximum in the middle.
    Hump,
    /// Outside the dictionary: two steps.
    TwoSteps,
    /// Outside the dictionary: flat, steep, flat again (a log-logistic rise).
    Sigmoid,
    /// Flat, then ten times the cost from call 1,500 on. Simulated call by call.
    Cliff,
}

impl Truth {
    /// Every truth, in the order of the table.
    pub const ALL: [Self; 19] = [
        Self::Constant,
        Self::Rise6,
        Self::Rise6Log,
        Self::Logarithmic,
        Self::Root,
        Self::Linear,
        Self::Linear65,
        Self::Linearithmic,
        Self::Quadratic,
        Self::Step,
        Self::Knee,
        Self::Tiers,
        Self::Occupancy,
        Self::Probing,
        Self::Sawtooth,
        Self::Hump,
        Self::TwoSteps,
        Self::Sigmoid,
        Self::Cliff,
    ];

    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Rise6 => "linear, +6%",
            Self::Rise6Log => "logarithmic, +6%",
            Self::Logarithmic => "logarithmic",
            Self::Root => "root",
            Self::Linear => "linear",
            Self::Linear65 => "linear, +65%",
            Self::Linearithmic => "linearithmic",
            Self::Quadratic => "quadratic",
            Self::Step => "step",
            Self::Knee => "knee",
            Self::Tiers => "tiers",
            Self::Occupancy => "occupancy",
            Self::Probing => "probing",
            Self::Sawtooth => "sawtooth",
            Self::Hump => "hump",
            Self::TwoSteps => "two steps",
            Self::Sigmoid => "sigmoid",
            Self::Cliff => "cliff",
        }
    }

    /// Returns the name of the law that a verdict should name; `None` for shapes outside the dictionary.
    pub fn law(self) -> Option<&'static str> {
        match self {
            Self::Constant | Self::Rise6 | Self::Rise6Log | Self::Cliff => Some("constant"),
            Self::Logarithmic => Some("logarithmic"),
            Self::Root => Some("root"),
            Self::Linear | Self::Linear65 => Some("linear"),
            Self::Linearithmic => Some("linearithmic"),
            Self::Quadratic => Some("quadratic"),
            Self::Step => Some("step"),
            Self::Knee => Some("knee"),
            Self::Tiers => Some("tiers"),
            Self::Occupancy => Some("occupancy"),
            Self::Probing => Some("probing"),
            Self::Sawtooth | Self::Hump | Self::TwoSteps | Self::Sigmoid => None,
        }
    }

    /// Returns the true cost in nanoseconds.
    pub fn cost(self, n: f64) -> f64 {
        match self {
            Self::Constant => 1000.0,
            Self::Rise6 => 1000.0 + 0.003 * n,
            Self::Rise6Log => 1000.0 * (1.0 + 0.06 * (n / 64.0).ln() / 312.5_f64.ln()),
            Self::Logarithmic => 700.0 + 60.0 * n.log2(),
            Self::Root => 900.0 + 8.0 * n.sqrt(),
            Self::Linear => 1000.0 + 0.3 * n,
            Self::Linear65 => 1000.0 + 0.0325 * n,
            Self::Linearithmic => 1000.0 + 0.02 * n * n.log2(),
            Self::Quadratic => 1000.0 + 2.5e-5 * n * n,
            Self::Step => 1000.0 + 300.0 * f64::from(u8::from(n >= 4096.0)),
            Self::Knee => 1000.0 + 0.25 * (n - 8000.0).max(0.0),
            Self::Tiers => 300.0 + 45.0 * n * (1.0 + 3.0 / (1.0 + (2000.0 / n).powi(4))),
            Self::Occupancy => 500.0 + 500.0 / (1.0 - n / 21_000.0),
            Self::Probing => 900.0 + 100.0 / (1.0 - n / 21_000.0).powi(2),
            Self::Sawtooth => 1000.0 * (1.0 + 0.4 * (n.log2() / 3.0).fract()),
            Self::Hump => 1000.0 * (1.0 + 0.8 * (-(n / 1000.0).ln().powi(2)).exp()),
            Self::TwoSteps if n < 300.0 => 1000.0,
            Self::TwoSteps if n < 4000.0 => 1400.0,
            Self::TwoSteps => 2000.0,
            Self::Sigmoid => 1000.0 + 2000.0 / (1.0 + (600.0 / n).powi(3)),
            Self::Cliff if n < 1500.0 => 1000.0,
            Self::Cliff => 10_000.0,
        }
    }
}

/// The noise, as fractions (standard deviations of the logarithm).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Error that all calls of one cell share.
    pub cell: f64,
    /// Offset of a pass.
    pub pass: f64,
    /// Jitter of one call.
    pub call: f64,
    /// Probability of an episode in a cell, and of a tail in a call.
    pub tail: f64,
}

impl Noise {
    /// Returns the noise of the published calibration, with this error of a cell.
    pub fn of_cell(cell: f64) -> Self {
        Self { cell, pass: 0.03, call: 0.02, tail: 0.03 }
    }
}

/// Number of points of a synthetic curve: 19, from 64 to 20,000, at a ratio of 1.38.
const POINTS: i32 = 19;
/// Number of calls in one cell.
const CALLS: usize = 7;
/// Number of calls of a pass that is simulated call by call.
const LENGTH: u32 = 3000;

/// Simulates a curve. Equal arguments give equal curves.
pub fn simulate(truth: Truth, noise: Noise, passes: usize, seed: u64) -> Curve {
    let mut random = Random::new(seed);
    let passes = (0..passes).map(|_| {
        if truth == Truth::Cliff { dense(truth, noise, &mut random) } else { sparse(truth, noise, &mut random) }
    });
    let passes = passes.collect();
    let annotations = vec![Annotation {
        name: "a capacity that is not reached".to_owned(),
        n: 50_000.0,
        kind: AnnotationKind::Capacity,
    }];
    Curve { passes, annotations }
}

/// Draws the right tail of a logarithm: 0, or with the given probability a factor of 1.2 to about 4.
fn tail(chance: f64, random: &mut Random) -> f64 {
    if random.uniform() < chance { 0.2 + 0.4 * random.normal().abs() } else { 0.0 }
}

fn sparse(truth: Truth, noise: Noise, random: &mut Random) -> Pass {
    let offset = noise.pass * random.normal();
    let mut pass = Pass::default();
    for i in 0..POINTS {
        let n = (64.0 * 312.5_f64.powf(f64::from(i) / f64::from(POINTS - 1))).round();
        let cell = offset + noise.cell * random.normal() + tail(noise.tail, random);
        for _ in 0..CALLS {
            add(&mut pass, n, truth.cost(n), cell, noise, random);
        }
    }
    pass
}

fn dense(truth: Truth, noise: Noise, random: &mut Random) -> Pass {
    let offset = noise.pass * random.normal();
    let mut pass = Pass::default();
    let mut cell = offset;
    for n in 0..LENGTH {
        // One error for a hundred calls, because episodes have a duration.
        if n % 100 == 0 {
            cell = offset + noise.cell * random.normal() + tail(noise.tail, random);
        }
        add(&mut pass, f64::from(n), truth.cost(f64::from(n)), cell, noise, random);
    }
    pass
}

fn add(pass: &mut Pass, n: f64, cost: f64, cell: f64, noise: Noise, random: &mut Random) {
    let call = noise.call * random.normal() + 2.0 * tail(noise.tail, random);
    pass.n.push(n as u32);
    pass.costs.push((cost * (cell + call).exp()).round() as u64);
    pass.clean.push(true);
}
