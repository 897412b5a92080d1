//! Profiles of the running kernel: where it spends the time of a benchmark's calls, and which functions grow with n.
//!
//! The engine runs extra passes between the recorded ones. During the extra passes a [`Collector`] samples the worker's
//! call chain, including the kernel, at fixed intervals of its processor time (`sampler`), and assigns each sample to
//! the timed call in which it was taken. In all passes it records when another task had the processor. [`compare`]
//! compares the calls at small n with those at large n: the mean time per call of each function, its growth, and
//! intervals from leaving out one round at a time.
//!
//! | file | subject |
//! |---|---|
//! | `symbols` | the names of the kernel's functions by address |
//! | `source` | the tag of a kernel's source |
//! | `sampler` | samples and context switches of a process, and the time that a sample represents |
//! | `preemption` | the times in which another task had the processor |
//! | `collector` | from samples and calls to samples per chain at small and at large n |
//! | `compared` | from those samples to functions with their growth |
//! | `jumps` | functions that ended in a jump, from the calls in the kernel's code |
//! | `branching` | the function at which the growth of a call branches |

mod branching;
mod collector;
mod compared;
mod jumps;
mod preemption;
mod sampler;
mod source;
mod symbols;

pub use branching::divide;
pub use collector::{Collector, EXTRA_PASSES, distances};
pub use compared::compare;
pub use sampler::{Event, Sampler};
pub use source::source_version;
pub use symbols::{Symbols, USER};

/// Reasons why nothing can be profiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refuses samples.
    #[error(
        "the kernel refuses to sample its functions: {why}; kernel.perf_event_paranoid is {paranoid}: run as root, \
         or set it to 1"
    )]
    Refused {
        /// The setting.
        paranoid: String,
        /// The error of `perf_event_open(2)`. The message contains it, so it is not a source, which would be printed
        /// again.
        why: std::io::Error,
    },
    /// The kernel hides the addresses of its functions.
    #[error(
        "/proc/kallsyms contains no addresses; kernel.kptr_restrict is {kptr_restrict}: set it to 0, or to 1 and \
         run as root"
    )]
    NoSymbols {
        /// The setting.
        kptr_restrict: String,
    },
    /// The sampler took no samples of a loop of reads.
    #[error("cannot calibrate the sampler: it took no samples of a loop of reads")]
    NoSamples,
    /// No call could be sampled.
    #[error("{0}")]
    NotExplainable(String),
    /// The system has no such interface.
    #[error("profiling kernel functions requires Linux (perf_event_open)")]
    NotLinux,
}

/// Returns a setting of the kernel as text.
fn setting(path: &str) -> String {
    std::fs::read_to_string(path).map_or("unknown".to_owned(), |text| text.trim().to_owned())
}
