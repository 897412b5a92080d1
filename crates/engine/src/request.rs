//! The user's request, and checks that its names and values exist.

use crate::entry::nearest;
use crate::{Entry, Error, Kind, Parameter, Study};
use landau_record::former;
use landau_record::schema::Adaptive;

/// The user's request, as typed.
#[derive(Debug, Clone)]
pub struct Request {
    /// Names of benchmarks; empty means those of `cases`, or all if that is empty too.
    pub names: Vec<String>,
    /// `benchmark` or `benchmark.setting.setting…`: these cases of a benchmark instead of those of the study, in the
    /// order given. A setting has the form that [`word`] accepts.
    pub cases: Vec<String>,
    /// How much is measured.
    pub study: Study,
    /// Passes of each case; none for the study's own number.
    pub pass_count: Option<u32>,
    /// Which passes may follow the planned ones.
    pub adaptive: Adaptive,
    /// `benchmark.parameter=value`, in the order given.
    pub settings: Vec<String>,
    /// `benchmark.parameter` in which the two sides of the run differ. Labels leave them out, so that a case has the
    /// same label on both sides.
    pub varied: Vec<String>,
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

/// A case that was requested instead of those of the study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen<'a> {
    pub(crate) benchmark: &'a str,
    pub(crate) settings: Vec<(&'static str, &'a str)>,
}

/// A phase or a setting, as a word about a benchmark names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word<'a> {
    /// A phase.
    Phase(&'static str),
    /// A value of a parameter.
    Setting {
        /// The name of the parameter.
        name: &'static str,
        /// The value.
        value: &'a str,
    },
}

/// Resolves a word about a benchmark. The word is a phase, `PARAMETER=VALUE`, or a value that exactly one parameter
/// accepts: one of its words or a port range. A number alone names nothing: it could be meant for n.
pub fn word<'a>(registry: &[Entry], benchmark: &str, text: &'a str) -> Result<Word<'a>, Error> {
    let entry = Entry::find(registry, benchmark)?;
    if let Some(phase) = entry.phases.iter().find(|one| one.name == text) {
        return Ok(Word::Phase(phase.name));
    }
    let bad = |reason: String| Error::BadWord { benchmark: benchmark.to_owned(), word: text.to_owned(), reason };
    if let Some((name, value)) = text.split_once('=') {
        return entry.setting(name, value).map(|one| Word::Setting { name: one.name, value }).map_err(bad);
    }
    let has_words = |one: &&Parameter| matches!(one.kind, Kind::Choice(_) | Kind::PortRange);
    let others = || entry.parameters.iter().filter(has_words).map(|one| one.name);
    let accepting: Vec<&str> = others().filter(|name| entry.setting(name, text).is_ok()).collect();
    match accepting.as_slice() {
        [name] => Ok(Word::Setting { name, value: text }),
        [] => Err(
            match (former::phase(benchmark, text), others().find_map(|name| former::value(benchmark, name, text))) {
                (Some(new), _) => Error::FormerPhase { benchmark: benchmark.to_owned(), old: text.to_owned(), new },
                (None, Some(new)) => bad(format!("`{text}` is now `{new}`")),
                (None, None) => bad(unknown_word(entry, text)),
            },
        ),
        several => {
            let written: Vec<String> = several.iter().map(|name| format!("{name}={text}")).collect();
            let names = several.join(" and ");
            Err(bad(format!("`{text}` may be a value of {names}; write {}", written.join(" or "))))
        }
    }
}

/// Returns an error message with the words that a benchmark has instead of the unknown one.
fn unknown_word(entry: &Entry, text: &str) -> String {
    let phases = entry.phases.iter().map(|one| one.name);
    let values = entry.parameters.iter().flat_map(|one| match one.kind {
        Kind::Choice(words) => words,
        _ => &[],
    });
    let near = nearest(text, phases.clone().chain(values.copied()));
    let near = near.map_or(String::new(), |word| format!(" (did you mean `{word}`?)"));
    let settings: Vec<&str> = entry.parameters.iter().map(|one| one.name).collect();
    format!(
        "it has no phase or setting `{text}`{near}; phases: {}; settings, written SETTING=VALUE: {}",
        phases.collect::<Vec<_>>().join(", "),
        settings.join(", ")
    )
}

/// Checks that every benchmark and setting exists, and that each setting belongs to a benchmark that will run.
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

/// Parses the requested cases.
pub(crate) fn chosen_cases<'a>(registry: &[Entry], cases: &'a [String]) -> Result<Vec<Chosen<'a>>, Error> {
    cases.iter().map(|text| chosen_case(registry, text)).collect()
}

fn chosen_case<'a>(registry: &[Entry], text: &'a str) -> Result<Chosen<'a>, Error> {
    let mut words = text.split('.');
    let benchmark = words.next().unwrap_or_default();
    Entry::find(registry, benchmark)?;
    let mut settings = Vec::new();
    for text in words {
        match word(registry, benchmark, text)? {
            Word::Setting { name, value } => settings.push((name, value)),
            Word::Phase(_) => {
                let reason = "it is a phase; a case has settings only".to_owned();
                return Err(Error::BadWord { benchmark: benchmark.to_owned(), word: text.to_owned(), reason });
            }
        }
    }
    Ok(Chosen { benchmark, settings })
}

/// Returns the requested benchmarks, in the registry's order; all of them if none was named.
pub(crate) fn choose<'a>(registry: &'a [Entry], names: &[String]) -> Result<Vec<&'a Entry>, Error> {
    for name in names {
        Entry::find(registry, name)?;
    }
    Ok(registry.iter().filter(|entry| names.is_empty() || names.iter().any(|name| name == entry.name)).collect())
}

/// Parses the settings. Fails if a setting does not exist, has a wrong value, or belongs to a benchmark that was not
/// chosen.
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
            "`{}` is not among the benchmarks of this run ({}); add it to the command or omit the setting",
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
    Entry::find(registry, benchmark)?.setting(name, value).map_err(bad)?;
    Ok(Override { benchmark, name, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::{Benchmark, Context, Facts, Phase, Stop, Timer};

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
            Parameter::fixed("backend", Kind::Choice(&["epoll", "any"]), "epoll", ""),
            Parameter::fixed("object", Kind::Choice(&["pipe", "any"]), "pipe", ""),
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

    /// Guards against silently assigning a value to another setting.
    #[test]
    fn a_word_is_a_phase_or_a_value_of_exactly_one_parameter() {
        let of = |text| word(REGISTRY, "event_loop", text);
        assert_eq!(of("dispatch").unwrap(), Word::Phase("dispatch"));
        assert_eq!(of("backend=epoll").unwrap(), Word::Setting { name: "backend", value: "epoll" });
        assert_eq!(of("epoll").unwrap(), Word::Setting { name: "backend", value: "epoll" });
        let error = |text| of(text).unwrap_err().to_string();
        assert_eq!(
            error("any"),
            "`event_loop.any`: `any` may be a value of backend and object; write backend=any or object=any"
        );
        assert!(error("epol").contains("no phase or setting `epol` (did you mean `epoll`?); phases: dispatch"));
        assert!(error("100").contains("no phase or setting `100`"));
        assert!(error("backend=x").contains("`x` is not one of epoll, any"));
        assert!(error("mechanism=epoll").contains("is now `backend`"));
        assert!(error("events").contains("is now `dispatch`"));
    }

    #[test]
    fn a_case_has_settings_only() {
        let error = |text: &str| chosen_cases(REGISTRY, &[text.to_owned()]).unwrap_err().to_string();
        let owned = ["event_loop.epoll.n=5".to_owned()];
        let chosen = chosen_cases(REGISTRY, &owned).unwrap();
        assert_eq!(
            (chosen[0].benchmark, &chosen[0].settings[..]),
            ("event_loop", &[("backend", "epoll"), ("n", "5")][..])
        );
        assert!(error("event_loop.dispatch").contains("a case has settings only"));
        assert!(error("evnt_loop").contains("did you mean `event_loop`?"));
    }

    /// The setting would have no effect, and the user would not notice.
    #[test]
    fn a_setting_of_a_benchmark_that_does_not_run_is_an_error() {
        let message = error(&["event_loop"], &["fake.n=3"]);
        assert!(message.contains("`fake` is not among the benchmarks of this run (event_loop)"), "{message}");
        assert!(check_names(REGISTRY, &[], &["fake.n=3".to_owned()]).is_ok());
    }
}
