//! Options that several commands share, each with one name, one range and one help.

use clap::ValueEnum;
use landau_engine::Study;
use landau_lab::kernel;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StudyWord {
    /// Seconds: does everything work?
    Smoke,
    /// Minutes: the laws
    Quick,
    /// As long as it takes: past every capacity, nine passes
    Full,
}

impl StudyWord {
    /// The study that the word means.
    pub(crate) fn study(self) -> Study {
        match self {
            StudyWord::Smoke => Study::Smoke,
            StudyWord::Quick => Study::Quick,
            StudyWord::Full => Study::Full,
        }
    }
}

/// What is measured, and how much of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Measurement {
    /// Benchmarks to run; all of them if none is named
    pub(crate) names: Vec<String>,
    /// How much to measure
    #[arg(long, value_enum, default_value = "quick")]
    pub(crate) study: StudyWord,
    /// Passes of each case, each in a fresh process [default: 5 quick, 9 full, 1 where instructions are counted]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) passes: Option<u32>,
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Seed of every random order [default: of the moment, and in the record; 1 where instructions are counted]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

impl Default for Measurement {
    fn default() -> Self {
        let (names, settings) = (Vec::new(), Settings::default());
        Self { names, study: StudyWord::Quick, passes: None, settings, seed: None }
    }
}

/// The benchmarks' parameters.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Settings {
    /// Set a parameter of a benchmark (repeatable)
    #[arg(long, value_name = "BENCH.PARAM=VALUE")]
    pub(crate) set: Vec<String>,
}

/// A guest that a kernel is booted for.
#[derive(Debug, clap::Args)]
pub(crate) struct Guest {
    /// Memory of each guest
    #[arg(long = "memory", value_name = "SIZE", default_value = "1GiB", value_parser = memory_mib)]
    pub(crate) memory_mib: u32,
    /// Further words for the kernel's command line; for runsc under gvisor, for qemu with a disk image
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub(crate) append: String,
    /// Stop a guest that runs for longer
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = whole_seconds)]
    pub(crate) time_limit: Duration,
}

/// When a guest is given up before its time is over.
#[derive(Debug, clap::Args)]
pub(crate) struct Patience {
    /// Stop a guest that prints and measures nothing for this long
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = stall_timeout)]
    pub(crate) stall_timeout: Duration,
}

/// Where kernels are kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Cache {
    /// Folder for fetched kernels and what was found out [default: landau in the user's caches]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl Cache {
    /// The folder, if there is one.
    pub(crate) fn known(&self) -> Option<PathBuf> {
        self.cache.clone().or_else(kernel::default_cache)
    }

    /// The folder; an error where none was named and the user has none.
    pub(crate) fn folder(&self) -> anyhow::Result<PathBuf> {
        self.known().ok_or_else(|| {
            anyhow::anyhow!(
                "no folder for fetched kernels: neither HOME nor XDG_CACHE_HOME is set; name one with --cache"
            )
        })
    }
}

/// A list of processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbers(pub(crate) Vec<u32>);

/// Numbers and ranges: `1`, `0-3,6`.
pub(crate) fn numbers(word: &str) -> Result<Numbers, String> {
    let wrong = || "processors are written 1 or 0-3,6".to_owned();
    let mut found = Vec::new();
    for part in word.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        if first > last || last > 65_535 {
            return Err(wrong());
        }
        found.extend(first..=last);
    }
    Ok(Numbers(found))
}

/// Parses a time limit of at least a second; the record keeps it in whole seconds.
pub(crate) fn whole_seconds(text: &str) -> Result<Duration, String> {
    let limit = landau_units::duration_in(Duration::from_secs(1)..=landau_units::LONGEST)(text);
    let limit = limit.map_err(|error| error.to_string())?;
    if limit.subsec_nanos() == 0 { Ok(limit) } else { Err("must be whole seconds".to_owned()) }
}

/// Parses the time after which a silent guest is stopped.
fn stall_timeout(text: &str) -> Result<Duration, landau_units::Error> {
    landau_units::duration_in(Duration::from_secs(1)..=Duration::from_secs(86_400))(text)
}

/// Parses a guest's memory; returns MiB, rounded up.
fn memory_mib(text: &str) -> Result<u32, landau_units::Error> {
    let bytes = landau_units::size_in(64 << 20..=1 << 40)(text)?;
    // At most 2^20 MiB.
    Ok(bytes.div_ceil(1 << 20) as u32)
}
