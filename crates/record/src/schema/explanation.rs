//! Where a call's instructions go: what `landau explain` found, one line for each phase of each case.

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
    /// The sizes that were looked at, ascending: n of one call each, the typical one around the size asked for.
    pub at: Vec<u64>,
    /// What each of these calls took by the guest's own clock, in instructions: samples of the record.
    pub sample_instructions: Vec<u64>,
    /// All that the plugin counted between the marks around each of these calls.
    pub counted_instructions: Vec<u64>,
    /// Counted less sample, over all calls of the phase: smallest and largest. Equal, and a handful, if all is well.
    pub overhead_instructions: [i64; 2],
    /// Every function that ran in one of these calls, those that grow most first.
    pub functions: Vec<FunctionCost>,
    /// By which calls the functions were reached, at the smallest and the largest size.
    pub chains: Vec<Chain>,
}

/// What one function costs; what it calls is not in it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FunctionCost {
    /// The kernel's name for it; `[user]` is the program that measures.
    pub name: String,
    /// Instructions at each size.
    pub instructions: Vec<u64>,
    /// Its part in the growth from the first size to the last: 1 is all of it. Zero where nothing grows.
    pub share: f64,
    /// Instructions for each further object, by least squares over every undisturbed call between the sizes.
    pub per_object_instructions: f64,
    /// Instructions that do not depend on the number of objects, from the same line.
    pub fixed_instructions: f64,
    /// The largest distance of a call from that line.
    pub max_residual_instructions: f64,
    /// Where half of its growth is behind it: half the way if it grows evenly, the place of a step if it does not.
    pub half_at: u64,
}

/// A function in a chain of calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Chain {
    /// The place of its caller in the list; none where it is the kernel's entry, or the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its own instructions at the first size and at the last.
    pub instructions: [u64; 2],
}

impl Explanation {
    /// How much more the call at the last size takes than the one at the first, by the guest's clock.
    pub fn growth(&self) -> i64 {
        grown(&self.sample_instructions)
    }

    /// The same as the sum over all functions.
    pub fn explained(&self) -> i64 {
        self.functions.iter().map(FunctionCost::growth).sum()
    }

    /// Whether the functions' growth adds up to the measured one within so much of it. A growth below a thousandth
    /// of the call is none, and adds up to whatever it is.
    pub fn adds_up(&self, within: f64) -> bool {
        let (growth, last) = (self.growth() as f64, self.sample_instructions.last().copied().unwrap_or(0) as f64);
        (self.explained() as f64 - growth).abs() <= (within * growth.abs()).max(last / 1_000.0)
    }
}

impl FunctionCost {
    /// From the first size to the last.
    pub fn growth(&self) -> i64 {
        grown(&self.instructions)
    }

    /// Whether its calls lie on their line: off it by two instructions, or by a fiftieth of what it grows.
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
