//! Instructions of a phase's calls by function, as `landau explain` found them; one line for each phase of each case.

use super::profile::Branching;
use serde::{Deserialize, Serialize};

/// The instructions of a phase's calls, by function of the kernel.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// The case.
    pub case: u32,
    /// The phase.
    pub phase: String,
    /// The version of the kernel's source, as tags name it: `v6.1.192`.
    pub source: String,
    /// The sizes, ascending: n of one call each, a typical one near the size that was requested.
    pub at: Vec<u64>,
    /// The instructions of each of these calls according to the guest's clock; they are samples of the record.
    pub sample_instructions: Vec<u64>,
    /// The instructions that the plugin counted between the markers around each of these calls.
    pub counted_instructions: Vec<u64>,
    /// Counted minus sample over all calls of the phase: smallest and largest. Equal and small if the count is correct.
    pub overhead_instructions: [i64; 2],
    /// Every function that ran in one of these calls, by growth, largest first.
    pub functions: Vec<FunctionCost>,
    /// The call chains by which the functions were reached, at the smallest and the largest size.
    pub chains: Vec<Chain>,
    /// How the growth divides. Absent in older records, and if it branches at once or nothing grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branching: Option<Branching>,
}

/// The cost of one function, without its callees.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FunctionCost {
    /// The kernel's symbol; `[user]` is the program that measures.
    pub name: String,
    /// Instructions at each size.
    pub instructions: Vec<u64>,
    /// Its share of the growth from the first size to the last. 0 if nothing grows.
    pub share: f64,
    /// Instructions at each size with those of its callees. Empty in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inclusive_instructions: Vec<u64>,
    /// Its share of the growth with that of its callees. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inclusive_share: Option<f64>,
    /// Instructions per object: the slope of a least-squares line through every undisturbed call between the sizes.
    pub per_object_instructions: f64,
    /// Instructions that do not depend on the number of objects: the intercept of that line.
    pub fixed_instructions: f64,
    /// The largest residual: the distance of a call from that line.
    pub max_residual_instructions: f64,
    /// The n at which half of its growth is reached: half-way if the growth is even, at the step if there is one.
    pub half_at: u64,
}

/// A function in a call chain.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Chain {
    /// The index of its caller in the list; none for the kernel's entry or the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its instructions without callees, at the first size and at the last.
    pub instructions: [u64; 2],
}

impl Explanation {
    /// Returns how many more instructions the call at the last size takes than the call at the first, according to the
    /// guest's clock.
    pub fn growth(&self) -> i64 {
        grown(&self.sample_instructions)
    }

    /// Returns the growth as the sum over all functions.
    pub fn explained(&self) -> i64 {
        self.functions.iter().map(FunctionCost::growth).sum()
    }

    /// Returns whether the growth of the functions equals the measured growth within the share `within`. A growth below
    /// a thousandth of the call's instructions counts as none.
    pub fn adds_up(&self, within: f64) -> bool {
        let (growth, last) = (self.growth() as f64, self.sample_instructions.last().copied().unwrap_or(0) as f64);
        (self.explained() as f64 - growth).abs() <= (within * growth.abs()).max(last / 1_000.0)
    }
}

impl FunctionCost {
    /// Returns its growth from the first size to the last, in instructions.
    pub fn growth(&self) -> i64 {
        grown(&self.instructions)
    }

    /// Returns whether its growth is linear: no residual above two instructions or a fiftieth of the growth.
    pub fn is_linear(&self) -> bool {
        self.max_residual_instructions <= (self.growth().unsigned_abs() as f64 / 50.0).max(2.0)
    }
}

fn grown(values: &[u64]) -> i64 {
    match values {
        [first, .., last] => last.cast_signed() - first.cast_signed(),
        _ => 0,
    }
}
