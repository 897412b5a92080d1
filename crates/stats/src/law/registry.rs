//! The dictionary: every file of this directory that contains a law. `cargo xtask registry` writes the part between the
//! markers.

use super::Law;

// registry:begin
#[path = "constant.rs"]
mod constant;
#[path = "knee.rs"]
mod knee;
#[path = "linear.rs"]
mod linear;
#[path = "linearithmic.rs"]
mod linearithmic;
#[path = "logarithmic.rs"]
mod logarithmic;
#[path = "occupancy.rs"]
mod occupancy;
#[path = "power.rs"]
mod power;
#[path = "probing.rs"]
mod probing;
#[path = "quadratic.rs"]
mod quadratic;
#[path = "root.rs"]
mod root;
#[path = "step.rs"]
mod step;
#[path = "tiers.rs"]
mod tiers;

/// Every law, in the order of the file names.
pub(crate) static LAWS: &[&dyn Law] = &[
    constant::LAW,
    knee::LAW,
    linear::LAW,
    linearithmic::LAW,
    logarithmic::LAW,
    occupancy::LAW,
    power::LAW,
    probing::LAW,
    quadratic::LAW,
    root::LAW,
    step::LAW,
    tiers::LAW,
];
// registry:end
