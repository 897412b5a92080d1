//! Flags that several commands share.

use clap::ValueEnum;
use landau_engine::Study;
use landau_lab::obtain;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StudyWord {
    /// A few seconds: small sizes, to check that every benchmark works
    Smoke,
    /// Two to three minutes: sizes large enough for most verdicts
    Quick,
    /// Every case at full size, nine passes: socket, bind and mmap until the kernel refuses another object
    /// (`RLIMIT_NOFILE`, the port range, `vm.max_map_count`); bound the time with `--time-limit`
    Full,
    /// A few minutes: the tests of the studies of 2001, 2003 and 2004, each with its authors' parameters and method and
    /// with Landau's, and where the conclusions differ
    Then,
}

impl StudyWord {
    /// Returns the study of this name.
    pub(crate) fn study(self) -> Study {
        match self {
            StudyWord::Smoke => Study::Smoke,
            StudyWord::Quick => Study::Quick,
            StudyWord::Full => Study::Full,
            StudyWord::Then => Study::Then,
        }
    }
}

/// Flags that choose what to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Measurement {
    /// Benchmarks to run [default: all]
    #[arg(value_name = "BENCHMARK")]
    pub(crate) names: Vec<String>,
    /// Choose how much to measure
    #[arg(long, value_enum, default_value = "quick")]
    pub(crate) study: StudyWord,
    /// Repeat each case (a benchmark with one set of parameter values) this many times, each time in a fresh process
    /// [default: smoke 1, quick 5, full 9, then 5]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) passes: Option<u32>,
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Seed every random order [default: random, and stored in the record]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

impl Measurement {
    /// Checks that each setting belongs to a benchmark that runs: one that is named, or that one of the `cases` belongs
    /// to.
    ///
    /// # Errors
    ///
    /// Fails if benchmarks are named and a setting is for another one, which would have no effect, and if there are
    /// `cases` in a study whose cases are those of earlier studies.
    pub(crate) fn check(&self, cases: &[String]) -> anyhow::Result<()> {
        if let (StudyWord::Then, Some(case)) = (self.study, cases.first()) {
            let benchmark = benchmark_of(case);
            anyhow::bail!("--case {case}: --study then chooses the cases itself; write `{benchmark}` instead")
        }
        let of_cases = cases.iter().map(|case| benchmark_of(case).to_owned());
        let names: Vec<String> = self.names.iter().cloned().chain(of_cases).collect();
        landau_engine::check_names(landau_bench::REGISTRY, &names, &self.settings.set)?;
        let has_effect = |setting: &&String| names.is_empty() || names.iter().any(|name| name == benchmark_of(setting));
        match self.settings.set.iter().find(|setting| !has_effect(setting)) {
            Some(setting) => {
                let benchmark = benchmark_of(setting);
                anyhow::bail!("--set {setting}: benchmark `{benchmark}` is not selected; select it or omit --set")
            }
            None => Ok(()),
        }
    }
}

/// Returns the benchmark of a setting or a case: `bind` of `bind.n=500`.
pub(crate) fn benchmark_of(text: &str) -> &str {
    text.split('.').next().unwrap_or_default()
}

impl Default for Measurement {
    fn default() -> Self {
        let (names, settings) = (Vec::new(), Settings::default());
        Self { names, study: StudyWord::Quick, passes: None, settings, seed: None }
    }
}

/// The flag that sets parameters of benchmarks.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Settings {
    /// Set a parameter in every case of a benchmark, including the cases that vary it; cases that become equal are
    /// measured once. May be repeated. `landau list --long` lists the parameters
    #[arg(long, value_name = "BENCHMARK.PARAMETER=VALUE")]
    pub(crate) set: Vec<String>,
}

/// Flags for the guests in which kernels run.
#[derive(Debug, clap::Args)]
pub(crate) struct Guest {
    /// Give each guest this much memory
    #[arg(long = "memory", value_name = "SIZE", default_value = "1GiB", value_parser = memory_mib)]
    pub(crate) memory_mib: u32,
    /// Append arguments to the command line of the kernel; for a disk image, to that of qemu
    #[arg(long, value_name = "ARGS", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub(crate) append: String,
    /// Stop a guest after this time, such as 90s or 30m (a whole number of seconds)
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = whole_seconds)]
    pub(crate) time_limit: Duration,
}

/// The flag that stops silent guests.
#[derive(Debug, clap::Args)]
pub(crate) struct Stall {
    /// Stop a guest after this time without output or samples
    #[arg(long = "stall-timeout", value_name = "TIME", default_value = "2m", value_parser = stall_timeout)]
    pub(crate) timeout: Duration,
}

/// The flag that names the cache of downloaded kernels.
#[derive(Debug, clap::Args)]
pub(crate) struct Cache {
    /// Keep downloaded kernels and the result of testing kvm in this directory [default: ~/.cache/landau]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl Cache {
    /// Returns the cache directory, if one was named or the user has one.
    pub(crate) fn known(&self) -> Option<PathBuf> {
        self.cache.clone().or_else(obtain::default_cache)
    }

    /// Returns the cache directory.
    ///
    /// # Errors
    ///
    /// Fails if no directory was named and neither `HOME` nor `XDG_CACHE_HOME` is set.
    pub(crate) fn directory(&self) -> anyhow::Result<PathBuf> {
        Ok(self.known().ok_or(landau_lab::Error::NoCache)?)
    }
}

/// A list of CPU numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbers(pub(crate) Vec<u32>);

/// Parses CPU numbers and ranges: `1`, `0-3,6`.
pub(crate) fn numbers(text: &str) -> Result<Numbers, String> {
    let invalid = || "not a list of CPU numbers; write for example 1 or 0-3,6".to_owned();
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().map_err(|_| invalid())?, last.parse().map_err(|_| invalid())?);
        if first > last || last > 65_535 {
            return Err(invalid());
        }
        found.extend(first..=last);
    }
    Ok(Numbers(found))
}

/// Parses a time limit of at least one second. The record stores it in whole seconds.
pub(crate) fn whole_seconds(text: &str) -> Result<Duration, String> {
    let limit = landau_units::duration_in(Duration::from_secs(1)..=landau_units::LONGEST)(text);
    let limit = limit.map_err(|error| error.to_string())?;
    if limit.subsec_nanos() == 0 { Ok(limit) } else { Err("must be a whole number of seconds".to_owned()) }
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
