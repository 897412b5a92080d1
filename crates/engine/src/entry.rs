//! A benchmark as a row of the registry: plain data and functions, each compiled for that benchmark alone, so that the
//! timed loop makes no virtual call.

use crate::order::Report;
use crate::{
    Annotation, Benchmark, Context, Cost, Error, Host, Kind, Parameter, Phase, ReplayCase, Settings, Study, Support,
    Timer, Variant, drive,
};
use landau_record::former;
use landau_record::schema::Timeline;
use std::collections::BTreeMap;

/// A type-erased benchmark.
#[derive(Clone, Copy)]
pub struct Entry {
    /// [`Benchmark::NAME`].
    pub name: &'static str,
    /// [`Benchmark::ABOUT`].
    pub about: &'static str,
    /// [`Benchmark::AXIS`].
    pub axis: &'static str,
    /// [`Benchmark::PHASES`].
    pub phases: &'static [Phase],
    /// [`Benchmark::PARAMETERS`].
    pub parameters: &'static [Parameter],
    /// [`Benchmark::VARIANTS`].
    pub variants: &'static [Variant],
    /// [`Benchmark::REPLAYS`].
    pub replays: &'static [ReplayCase],
    /// [`Benchmark::EMULATED`].
    pub emulated: &'static [(&'static str, &'static str)],
    /// [`Benchmark::TIMELINE`].
    pub timeline: Option<Timeline>,
    /// [`Benchmark::IN_QUICK`].
    pub in_quick: bool,
    /// [`Benchmark::MEASURES_FOLDER`].
    pub measures_folder: bool,
    /// [`Benchmark::TAGS_CALLS`].
    pub tags_calls: bool,
    /// [`Benchmark::CAVEATS`].
    pub caveats: &'static [&'static str],
    /// [`Benchmark::SOURCE`].
    pub source: &'static str,
    pub(crate) axis_of: fn(&Settings) -> &'static str,
    pub(crate) phases_of: fn(&Settings) -> Vec<Phase>,
    pub(crate) support: fn(&Host, &Settings) -> Support,
    pub(crate) auto_n: fn(&Host, &Settings, Study) -> u64,
    pub(crate) annotations: fn(&Host, &Settings) -> Vec<Annotation>,
    pub(crate) cost: fn(&Settings) -> Cost,
    pub(crate) kept_files: fn(&Settings) -> Option<String>,
    pub(crate) step_us: fn(&Settings) -> u64,
    pub(crate) most_passes: fn(&Settings) -> Option<u32>,
    pub(crate) uses_other_processors: fn(&Settings) -> bool,
    pub(crate) unsettled: fn(&Settings) -> Option<String>,
    pub(crate) drive: fn(&Context, &mut Timer) -> Report,
}

impl Entry {
    /// Returns the row of a benchmark.
    pub const fn of<B: Benchmark>() -> Self {
        Self {
            name: B::NAME,
            about: B::ABOUT,
            axis: B::AXIS,
            phases: B::PHASES,
            parameters: B::PARAMETERS,
            variants: B::VARIANTS,
            replays: B::REPLAYS,
            emulated: B::EMULATED,
            timeline: B::TIMELINE,
            in_quick: B::IN_QUICK,
            measures_folder: B::MEASURES_FOLDER,
            tags_calls: B::TAGS_CALLS,
            caveats: B::CAVEATS,
            source: B::SOURCE,
            axis_of: B::axis,
            phases_of: B::phases,
            support: B::support,
            auto_n: B::auto_n,
            annotations: B::annotations,
            cost: B::cost,
            kept_files: B::kept_files,
            step_us: B::step_us,
            most_passes: B::most_passes,
            uses_other_processors: B::uses_other_processors,
            unsettled: B::unsettled,
            drive: drive::pass::<B>,
        }
    }

    /// Returns the benchmark of that name. The error gives the new name of a renamed benchmark, or a similar name.
    pub fn find<'a>(registry: &'a [Entry], name: &str) -> Result<&'a Entry, Error> {
        registry.iter().find(|entry| entry.name == name).ok_or_else(|| match former::benchmark(name) {
            Some(new) => Error::FormerBenchmark { old: name.to_owned(), new },
            None => Error::UnknownBenchmark {
                name: name.to_owned(),
                suggestion: nearest(name, registry.iter().map(|entry| entry.name)),
            },
        })
    }

    /// Returns the largest number of steps that the benchmark accepts.
    pub fn most_steps(&self) -> u64 {
        let of = |parameter: &Parameter| match parameter.kind {
            Kind::Count { max, .. } | Kind::AutoCount { max, .. } => Some(max),
            _ => None,
        };
        self.parameters.iter().find(|one| one.name == "n").and_then(of).unwrap_or(u64::MAX)
    }

    /// Returns whether the host supports a case with these settings. The benchmark gets the number of steps that `auto`
    /// stands for.
    pub fn supports(&self, host: &Host, settings: &Settings, study: Study) -> Support {
        let mut settings = settings.clone();
        settings.set("n", &self.steps(host, &settings, study).to_string());
        (self.support)(host, &settings)
    }

    /// Returns the number of steps of a case with these settings, before the resources of the host reduce it.
    pub fn steps(&self, host: &Host, settings: &Settings, study: Study) -> u64 {
        match settings.count("n") {
            0 => (self.auto_n)(host, settings, study),
            n => n,
        }
    }

    /// Returns an estimate of the bytes that a pass of n steps adds to a record: 0.9 to 2.3 times the true number if a
    /// step takes as long as the benchmark says. The test `the_size_of_a_record_is_known_before` compares it with the
    /// records that the tree keeps.
    pub fn pass_bytes(&self, settings: &Settings, n: u64, phase_count: usize) -> u64 {
        let (step_us, phases) = ((self.step_us)(settings), phase_count.max(1) as u64);
        let digits = |ns: u64| u64::from(ns.checked_ilog10().unwrap_or(0)) + 1;
        // A sample and a comma, with one more digit for samples above the average; the tags of a call are two numbers.
        let of_samples = phases.saturating_mul(digits(step_us.saturating_mul(1_000) / phases) + 1);
        let of_step = of_samples + if self.tags_calls { 8 } else { 0 };
        // A window of either direction ends after its number of steps or its time; the last windows end earlier.
        let by_time = n.saturating_mul(step_us) / 9_000;
        let windows = (n / 224).saturating_add(by_time.min(n.saturating_mul(2))).saturating_add(4);
        // A line for the window and one for each phase; the rest is for the lines of the pass with its facts.
        let of_windows = windows.saturating_mul(240 + 65 * phases);
        n.saturating_mul(of_step).saturating_add(of_windows).saturating_add(1_500)
    }

    /// Returns the parameter of that name if it accepts a value. The error says what is wrong.
    pub(crate) fn setting(&self, name: &str, value: &str) -> Result<&'static Parameter, String> {
        let parameter = self.parameter(name)?;
        match (former::value(self.name, name, value), parameter.reject(value)) {
            (_, None) => Ok(parameter),
            (Some(new), Some(_)) => Err(format!("`{value}` is now `{new}`")),
            (None, Some(reason)) => Err(reason),
        }
    }

    /// Returns an error message for values that come from elsewhere, such as a record; none if all are accepted.
    pub(crate) fn rejected(&self, settings: &BTreeMap<String, String>) -> Option<String> {
        let rejected = |(name, value): (&String, &String)| match self.parameter(name) {
            Ok(parameter) => parameter.reject(value).map(|reason| format!("{name}={value}: {reason}")),
            Err(reason) => Some(reason),
        };
        settings.iter().find_map(rejected)
    }

    /// Returns the name of a parameter that has no value in these settings, if there is one.
    pub(crate) fn missing(&self, settings: &BTreeMap<String, String>) -> Option<&'static str> {
        self.parameters.iter().map(|one| one.name).find(|name| !settings.contains_key(*name))
    }

    /// Returns the parameter of that name. The error says what is wrong.
    pub(crate) fn parameter(&self, name: &str) -> Result<&'static Parameter, String> {
        self.parameters.iter().find(|one| one.name == name).ok_or_else(|| {
            if let Some(new) = former::parameter(self.name, name) {
                return format!("the parameter `{name}` of `{}` is now `{new}`", self.name);
            }
            let names: Vec<&str> = self.parameters.iter().map(|one| one.name).collect();
            format!("`{}` has no parameter `{name}`; it has {}", self.name, names.join(", "))
        })
    }
}

/// Returns the word that is most similar to `name`, if any is similar enough.
pub(crate) fn nearest<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Option<String> {
    words
        .map(|word| (strsim::jaro_winkler(name, word), word))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word.to_owned())
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({})", self.name)
    }
}
