//! Samples of a phase's calls by function, as `landau explain` found them on the running kernel; one line for each
//! phase of each case.

use serde::{Deserialize, Serialize};

/// The time of a phase's calls by function, at small and at large n.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// The case.
    pub case: u32,
    /// The phase.
    pub phase: String,
    /// The version of the kernel's source, as tags name it: `v6.1.192`.
    pub source: String,
    /// What triggered a sample, as perf(1) names it: `cycles` or `cpu-clock`.
    pub event: String,
    /// The processor time that a sample stands for, in nanoseconds, measured before the run.
    pub sample_ns: f64,
    /// Samples in the calls that were compared.
    pub sample_count: u64,
    /// The number of rounds from which the intervals are computed.
    pub round_count: u32,
    /// The smallest and the largest n of the calls that were compared: at small n, and at large n.
    pub ranges: [[u64; 2]; 2],
    /// Sampled calls in each range.
    pub call_counts: [u64; 2],
    /// The number of calls during which another task ran on the processor: in the recorded passes, and in the sampled
    /// ones. The time of that task is not part of the calls. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempted_counts: Option<[u64; 2]>,
    /// Whether functions that ended in a jump to another one are in the chains: the kernel let its code be read. False
    /// in older records.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shows_tail_calls: bool,
    /// The mean time of the calls in each range in passes without a profiler.
    pub measured_ns: [f64; 2],
    /// How much longer a call at large n takes, in passes without a profiler.
    pub measured_growth_ns: Interval,
    /// The mean time of the calls in each range, according to the samples.
    pub sampled_ns: [f64; 2],
    /// How much longer a call at large n takes, according to the samples: the sum over all functions.
    pub sampled_growth_ns: Interval,
    /// Every function with samples in itself or in a function that it called, by its own share of the growth, largest
    /// first. Older records lack functions that have samples only in their callees.
    pub functions: Vec<ProfiledFunction>,
    /// The call chains through which the functions were reached, callers before their callees.
    pub chains: Vec<ProfiledChain>,
    /// How the growth divides. Absent in older records, and if it branches at once or nothing grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branching: Option<Branching>,
    /// The instructions of a call. Absent in older records, on hosts without hardware counters, and if fewer than three
    /// rounds counted them or too few samples fell into a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Instructions>,
}

/// The instructions of a call at small and at large n, sampled with the processor's counter, and the growth of its time
/// for comparison.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Instructions {
    /// Samples of the counter in the calls that were compared.
    pub sample_count: u64,
    /// The mean number of instructions per call in each range, of the kernel and of the program.
    pub per_call: [f64; 2],
    /// The ratio of the instructions of a call at large n to those at small n.
    pub factor: Interval,
    /// The ratio of the time of a call at large n to that at small n, in passes without a profiler.
    pub time_factor: Interval,
}

/// How the growth divides at the last function through which nearly all of it passes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Branching {
    /// That function.
    pub function: String,
    /// The function itself, without callees, and each function that it calls, with callees; the largest share first.
    pub parts: Vec<Part>,
}

/// A part of the growth.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Part {
    /// The function.
    pub name: String,
    /// Its share of the growth.
    pub share: f64,
    /// The 95% interval of the share; absent if the share was counted, not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The first and the last possible place in the order of the called functions. A function is certainly before or
    /// after this one if the interval of the difference excludes 0. Absent if the share was counted, and for the
    /// function itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<[u32; 2]>,
}

/// A number with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The time of one function, without its callees.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProfiledFunction {
    /// The kernel's symbol; `[user]` is the program that measures.
    pub name: String,
    /// The mean time per call in each range, in nanoseconds.
    pub ns: [f64; 2],
    /// How much it grows per call.
    pub growth_ns: Interval,
    /// Its share of the growth of all functions; 0 if nothing grows.
    pub share: Interval,
    /// The first and the last possible place in the order of the shares. A function is certainly before or after this
    /// one if the interval of the difference in growth excludes 0. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<[u32; 2]>,
    /// The same with its callees. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inclusive: Option<Inclusive>,
}

/// The time of one function with all that it calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Inclusive {
    /// The mean time per call in each range, in nanoseconds.
    pub ns: [f64; 2],
    /// Its share of the growth of all functions; 0 if nothing grows.
    pub share: Interval,
}

/// A function in a call chain.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProfiledChain {
    /// The index of its caller in the list; none for the kernel's entry or the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its mean time per call without callees in each range, in nanoseconds.
    pub ns: [f64; 2],
}

impl Interval {
    /// Returns whether it contains a number.
    pub fn contains(&self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }
}

impl Profile {
    /// The largest accepted relative difference between the sum of the functions and the measured growth.
    pub const TOLERANCE: f64 = 0.15;

    /// Returns whether calls take longer at large n, by a growth whose interval does not contain 0.
    pub fn grows(&self) -> bool {
        !self.measured_growth_ns.contains(0.0)
    }

    /// Returns whether the growth is large enough to compare with the sum of the functions: at least a quarter of the
    /// time of a call at small n. Samples make short calls longer than they are without a profiler, by tenths of a
    /// microsecond.
    pub fn is_judged(&self) -> bool {
        let growth = &self.measured_growth_ns;
        growth.low.max(-growth.high) >= self.measured_ns[0] / 4.0
    }

    /// Returns whether the functions' growth equals the measured growth: within [`Profile::TOLERANCE`], or within the
    /// uncertainty of the samples, if the intervals overlap. A growth that is not judged counts as equal.
    pub fn adds_up(&self) -> bool {
        let (sum, growth) = (&self.sampled_growth_ns, &self.measured_growth_ns);
        let overlap = sum.low <= growth.high && growth.low <= sum.high;
        !self.is_judged() || overlap || (sum.value - growth.value).abs() <= Self::TOLERANCE * growth.value.abs()
    }
}
