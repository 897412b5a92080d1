//! Curves measured call by call, for the tests. The noise is a hash of the position, so that the tests and the crate
//! share no generator.

use landau_stats::{Curve, Pass};

/// Returns a number in [0, 1) that depends only on its arguments (the finaliser of `MurmurHash3`).
pub(crate) fn hash(pass: u32, n: u32, salt: u64) -> f64 {
    let mut x = (u64::from(pass) << 40) ^ u64::from(n) ^ (salt << 52);
    for _ in 0..2 {
        x ^= x >> 33;
        x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^= x >> 33;
        x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    }
    (x >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns a curve of `passes` passes of `calls` calls; `cost` gives nanoseconds for (pass, n), to which up to 5% of
/// jitter is added.
pub(crate) fn dense(passes: u32, calls: u32, cost: impl Fn(u32, u32) -> f64) -> Curve {
    let pass = |p: u32| Pass {
        n: (0..calls).collect(),
        costs: (0..calls).map(|n| (cost(p, n) * (1.0 + 0.05 * hash(p, n, 0))) as u64).collect(),
        clean: vec![true; calls as usize],
    };
    Curve { passes: (0..passes).map(pass).collect(), annotations: Vec::new() }
}
