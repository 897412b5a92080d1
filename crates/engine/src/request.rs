//! What the user asked for, and whether its names and values exist.

use crate::{Entry, Error, Study};
use landau_record::former;
use landau_record::schema::Adaptive;

/// What the user asked for, as typed.
#[derive(Debug, Clone)]
pub struct Request {
    /// Names of benchmarks; empty means all.
    pub names: Vec<String>,
    /// How much is measured.
    pub study: Study,
    /// Passes of each case; none for the study's own number.
    pub pass_count: Option<u32>,
    /// Which passes may follow the planned ones.
    pub adaptive: Adaptive,
    /// `benchmark.parameter=value`, in the order given.
    pub settings: Vec<String>,
    /// The seed of every random order.
    pub seed: u64,
    /// The time limit of the run, in seconds.
    pub time_limit_s: Option<u64>,
}

/// A setting that replaces the study's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Override<'a> {
    pub(crate) benchmark: &'a str,
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
}

/// Checks that every benchmark and setting exists, and that each setting is of a benchmark that will run.
pub fn check_names(registry: &[Entry], names: &[String], settings: &[String]) -> Result<(), Error> {
    let chosen = choose(registry, names)?;
    overrides(registry, &chosen, settings).map(drop)
}

/// Checks that a benchmark has a phase of that name.
pub fn check_phase(registry: &[Entry], benchmark: &str, phase: &str) -> Result<(), Error> {
    let phases = Entry::find(registry, benchmark)?.phases;
    if phases.iter().any(|one| one.name == phase) {
        return Ok(());
    }
    Err(match former::phase(benchmark, phase) {
        Some(new) => Error::FormerPhase { benchmark: benchmark.to_owned(), old: phase.to_owned(), new },
        None => Error::UnknownPhase {
            benchmark: benchmark.to_owned(),
            name: phase.to_owned(),
            known: phases.iter().map(|one| one.name.to_owned()).collect(),
        },
    })
}

/// Returns the benchmarks that were asked for, in the registry's order; all of them if none was named.
pub(crate) fn choose<'a>(registry: &'a [Entry], names: &[String]) -> Result<Vec<&'a Entry>, Error> {
    for name in names {
        Entry::find(registry, name)?;
    }
    Ok(registry.iter().filter(|entry| names.is_empty() || names.iter().any(|name| name == entry.name)).collect())
}

/// Parses the settings. Fails on one that does not exist, has a wrong value, or is of a benchmark that was not chosen.
pub(crate) fn overrides<'a>(
    registry: &[Entry],
    chosen: &[&Entry],
    settings: &'a [String],
) -> Result<Vec<Override<'a>>, Error> {
    let parse = |text: &'a String| {
        let one = parse(registry, text)?;
        if chosen.iter().any(|entry| entry.name == one.benchmark) {
            return Ok(one);
        }
        let names: Vec<&str> = chosen.iter().map(|entry| entry.name).collect();
        let reason = format!(
            "`{}` is not among the benchmarks of this run ({}); add it to the command or leave out the setting",
            one.benchmark,
            names.join(", ")
        );
        Err(Error::BadSetting { text: text.clone(), reason })
    };
    settings.iter().map(parse).collect()
}

fn parse<'a>(registry: &[Entry], text: &'a str) -> Result<Override<'a>, Error> {
    let bad = |reason: String| Error::BadSetting { text: text.to_owned(), reason };
    let form = || bad("write it as BENCHMARK.PARAMETER=VALUE, for example bind.n=2000".to_owned());
    let (path, value) = text.split_once('=').ok_or_else(form)?;
    let (benchmark, name) = path.split_once('.').ok_or_else(form)?;
    let entry = Entry::find(registry, benchmark)?;
    let parameter = entry.parameter(name).map_err(bad)?;
    match (former::value(benchmark, name, value), parameter.reject(value)) {
        (_, None) => Ok(Override { benchmark, name, value }),
        (Some(new), Some(_)) => Err(bad(format!("`{value}` is now `{new}`"))),
        (None, Some(reason)) => Err(bad(reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::{Benchmark, Context, Facts, Kind, Parameter, Phase, Stop, Timer};

    const REGISTRY: &[Entry] = &[Entry::of::<Fake>(), Entry::of::<Renamed>()];

    /// A benchmark that was renamed, with a parameter and a phase that were renamed.
    struct Renamed;

    impl Benchmark for Renamed {
        const NAME: &'static str = "event_loop";
        const ABOUT: &'static str = "";
        const AXIS: &'static str = "things";
        const PHASES: &'static [Phase] = &[Phase::up("dispatch", "")];
        const PARAMETERS: &'static [Parameter] = &[
            Parameter::steps("10", "100", "1000", ""),
            Parameter::fixed("backend", Kind::Choice(&["epoll"]), "epoll", ""),
        ];
        const CAVEATS: &'static [&'static str] = &[];
        const SOURCE: &'static str = "";

        fn setup(_: &Context) -> Result<Self, Stop> {
            Ok(Renamed)
        }

        fn step(&mut self, _: u64, _: &mut Timer) -> Result<(), Stop> {
            Ok(())
        }

        fn check(&mut self, _: u64, _: &mut Facts) -> Result<(), Stop> {
            Ok(())
        }
    }

    fn error(names: &[&str], settings: &[&str]) -> String {
        let owned = |words: &[&str]| words.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        check_names(REGISTRY, &owned(names), &owned(settings)).unwrap_err().to_string()
    }

    #[test]
    fn unknown_names_are_answered_with_known_ones() {
        assert!(error(&["fkae"], &[]).contains("did you mean `fake`?"));
        assert!(error(&[], &["fkae.n=3"]).contains("did you mean `fake`?"));
        assert!(error(&[], &["fake.color=red"]).contains("it has n, colour"));
        assert!(error(&[], &["fake.colour=green"]).contains("not one of red, blue"));
        assert!(error(&[], &["fake=3"]).contains("BENCHMARK.PARAMETER=VALUE"));
    }

    #[test]
    fn former_names_are_answered_with_new_ones() {
        assert!(error(&["dispatch"], &[]).contains("the benchmark `dispatch` is now `event_loop`"));
        assert!(error(&[], &["event_loop.mechanism=epoll"]).contains("`mechanism` of `event_loop` is now `backend`"));
        let phase = check_phase(REGISTRY, "event_loop", "events").unwrap_err().to_string();
        assert!(phase.contains("the phase `events` of `event_loop` is now `dispatch`"), "{phase}");
    }

    /// Such a setting would have no effect, and the user would believe that it had.
    #[test]
    fn a_setting_of_a_benchmark_that_does_not_run_is_an_error() {
        let message = error(&["event_loop"], &["fake.n=3"]);
        assert!(message.contains("`fake` is not among the benchmarks of this run (event_loop)"), "{message}");
        assert!(check_names(REGISTRY, &[], &["fake.n=3".to_owned()]).is_ok());
    }
}
