//! From what was typed to what will be measured on this host: cases, their sizes, and what is left out and why.

use crate::{Cost, Entry, Error, Parameter, Settings, Study, Support, timer};
use landau_record::schema::{Annotation, AnnotationKind, Case, Host, Phase, Reduced, Skip, Unit};
use landau_sys::clock::Clock;
use landau_sys::system::{Headroom, headroom};
use serde::{Deserialize, Serialize};

/// What was asked for, as typed.
#[derive(Debug, Clone)]
pub struct Request {
    /// Names of benchmarks; empty means all.
    pub names: Vec<String>,
    /// How much is measured.
    pub study: Study,
    /// Passes of each case, where not the study's own number.
    pub pass_count: Option<u32>,
    /// `benchmark.parameter=value`, in the order given.
    pub settings: Vec<String>,
    /// The seed of every random order.
    pub seed: u64,
    /// The longest the run may take, in seconds.
    pub time_limit_s: Option<u64>,
}

/// A place in a run from which on every step is written down by itself: the system is expected to stop there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fine {
    /// The pass, by its number within the record.
    pub pass: u32,
    /// From this n on, upwards.
    pub from: u64,
}

/// A fault that is made on purpose, to see what becomes of a run whose system stops under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The kernel panics at this n.
    Panic(u64),
    /// The worker loops for ever at this n.
    Hang(u64),
}

/// A case with what is needed to run it.
#[derive(Debug, Clone)]
pub struct Planned {
    /// As the record has it.
    pub case: Case,
    /// The benchmark.
    pub entry: Entry,
    /// Its settings, with `n` resolved.
    pub settings: Settings,
}

/// What will be measured on this host.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How much is measured.
    pub study: Study,
    /// Passes of each case.
    pub pass_count: u32,
    /// The seed of every random order.
    pub seed: u64,
    /// The longest the run may take, in seconds.
    pub time_limit_s: Option<u64>,
    /// The cases, by number.
    pub cases: Vec<Planned>,
    /// What cannot be measured here.
    pub skips: Vec<Skip>,
    /// The machine.
    pub host: Host,
    /// The clock that times the calls.
    pub clock: Clock,
    /// Whether worker and controller take turns: for one processor on which nothing may disturb the worker.
    pub lockstep: bool,
    /// Where windows are closed after every step.
    pub fine: Option<Fine>,
    /// A fault that is made on purpose.
    pub fault: Option<Fault>,
    /// Remarks for the record's beginning.
    pub notes: Vec<String>,
}

/// One override: whose, which, what.
struct Override<'a> {
    benchmark: &'a str,
    name: &'a str,
    value: &'a str,
}

impl Plan {
    /// Resolves a request on this host. `scratch_free_bytes` is what the benchmarks' files may take.
    pub fn resolve(
        registry: &[Entry],
        request: &Request,
        host: Host,
        clock: Clock,
        scratch_free_bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let overrides = request.settings.iter().map(|text| parse(registry, text)).collect::<Result<Vec<_>, _>>()?;
        let chosen = choose(registry, &request.names)?;
        let headroom = headroom();
        let (mut cases, mut skips) = (Vec::new(), Vec::new());
        for entry in chosen {
            let own: Vec<&Override> = overrides.iter().filter(|one| one.benchmark == entry.name).collect();
            for settings in variants(entry, request.study, host.clock.unit, &own) {
                let label = label(entry, &settings, request.study);
                let planned = match (entry.support)(&host, &settings) {
                    Support::No(reason) => Err(reason),
                    Support::Yes => size(entry, &settings, request.study, &host, &headroom, scratch_free_bytes),
                };
                match planned {
                    Err(reason) => skips.push(Skip { label, reason }),
                    Ok((n, reduced)) => {
                        cases.push(case(cases.len() as u32, entry, label, settings, n, reduced, &host));
                    }
                }
            }
        }
        Ok(Self {
            study: request.study,
            pass_count: request.pass_count.unwrap_or(request.study.pass_count()),
            seed: request.seed,
            time_limit_s: request.time_limit_s,
            cases,
            skips,
            host,
            clock,
            lockstep: false,
            fine: None,
            fault: None,
            notes: Vec::new(),
        })
    }

    /// An upper estimate of the record's size in bytes: a sample takes six, a window three hundred.
    pub fn record_bytes(&self) -> u64 {
        let samples: u64 = self.cases.iter().map(|one| one.case.n * one.case.phases.len() as u64).sum();
        let windows: u64 = self.cases.iter().map(|one| one.case.n / 64 + 64).sum();
        u64::from(self.pass_count) * (6 * samples + 600 * windows) + (1 << 20)
    }
}

fn choose<'a>(registry: &'a [Entry], names: &[String]) -> Result<Vec<&'a Entry>, Error> {
    for name in names {
        find(registry, name)?;
    }
    Ok(registry.iter().filter(|entry| names.is_empty() || names.iter().any(|name| name == entry.name)).collect())
}

/// Whether names and settings mean something, before anything is done with them.
pub fn check_words(registry: &[Entry], names: &[String], settings: &[String]) -> Result<(), Error> {
    choose(registry, names)?;
    settings.iter().try_for_each(|text| parse(registry, text).map(drop))
}

/// Whether a benchmark has a phase of that name.
pub fn check_phase(registry: &[Entry], benchmark: &str, phase: &str) -> Result<(), Error> {
    let phases = find(registry, benchmark)?.phases;
    if phases.iter().any(|one| one.name == phase) {
        return Ok(());
    }
    let known = phases.iter().map(|one| one.name.to_owned()).collect();
    Err(Error::UnknownPhase { benchmark: benchmark.to_owned(), name: phase.to_owned(), known })
}

fn find<'a>(registry: &'a [Entry], name: &str) -> Result<&'a Entry, Error> {
    registry.iter().find(|entry| entry.name == name).ok_or_else(|| Error::UnknownBenchmark {
        name: name.to_owned(),
        suggestion: nearest(name, registry.iter().map(|entry| entry.name)),
    })
}

/// The word most like `name`, if one is like it at all.
fn nearest<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Option<String> {
    words
        .map(|word| (strsim::jaro_winkler(name, word), word))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word.to_owned())
}

fn parse<'a>(registry: &[Entry], text: &'a str) -> Result<Override<'a>, Error> {
    let bad = |reason: String| Error::BadSetting { text: text.to_owned(), reason };
    let form = || bad("write it as benchmark.parameter=value, as in bind.n=2000".to_owned());
    let (path, value) = text.split_once('=').ok_or_else(form)?;
    let (benchmark, name) = path.split_once('.').ok_or_else(form)?;
    let entry = find(registry, benchmark)?;
    let parameter = entry.parameters.iter().find(|one| one.name == name).ok_or_else(|| {
        let names: Vec<&str> = entry.parameters.iter().map(|one| one.name).collect();
        bad(format!("`{benchmark}` has no parameter `{name}`; it has {}", names.join(", ")))
    })?;
    match parameter.reject(value) {
        Some(reason) => Err(bad(reason)),
        None => Ok(Override { benchmark, name, value }),
    }
}

/// The settings of each case of a benchmark: the study's values, then each variant's, the user's on top of all.
fn variants(entry: &Entry, study: Study, unit: Unit, overrides: &[&Override]) -> Vec<Settings> {
    let mut found: Vec<Settings> = Vec::new();
    let differing = entry.variants.iter().filter(|one| one.from <= study).map(|one| one.settings);
    for variant in std::iter::once(&[][..]).chain(differing) {
        let mut settings = Settings::of_study(entry.parameters, study);
        let emulated = if unit != Unit::Ns && study == Study::Quick { entry.emulated } else { &[] };
        for (name, value) in emulated {
            settings.set(name, value);
        }
        for (name, value) in variant {
            settings.set(name, value);
        }
        for one in overrides {
            settings.set(one.name, one.value);
        }
        // An override can make two variants equal; the case is then measured once.
        if !found.contains(&settings) {
            found.push(settings);
        }
    }
    found
}

/// The benchmark's name with the settings that differ from the study's, but for the size.
fn label(entry: &Entry, settings: &Settings, study: Study) -> String {
    let differs = |one: &&Parameter| one.name != "n" && settings.text(one.name) != one.value(study);
    let words = entry.parameters.iter().filter(differs).map(|one| format!(" {}={}", one.name, settings.text(one.name)));
    std::iter::once(entry.name.to_owned()).chain(words).collect()
}

/// The number of steps that fits this host, and what was asked for where that was more.
fn size(
    entry: &Entry,
    settings: &Settings,
    study: Study,
    host: &Host,
    headroom: &Headroom,
    scratch_free_bytes: Option<u64>,
) -> Result<(u64, Option<Reduced>), String> {
    let asked = match settings.count("n") {
        0 => (entry.auto_n)(host, settings, study),
        n => n,
    };
    let cost = (entry.cost)(settings);
    if let Some(free) = scratch_free_bytes.filter(|&free| free < cost.disk_bytes) {
        return Err(format!(
            "its files need {} MiB and the folder for them has {} MiB to spare; choose another with --dir",
            cost.disk_bytes >> 20,
            free >> 20
        ));
    }
    let (n, reason) = bounds(entry, &cost, asked, headroom).into_iter().min_by_key(|(n, _)| *n).unwrap_or_else(|| {
        (0, "how much room there is cannot be read (on Linux from /proc: is it mounted?)".to_owned())
    });
    if n >= asked {
        return Ok((asked, None));
    }
    if n < 16 {
        return Err(format!("the host has no room for it: {reason}"));
    }
    Ok((n, Some(Reduced { requested: asked, reason })))
}

/// How far each resource of the host reaches, with a margin.
fn bounds(entry: &Entry, cost: &Cost, asked: u64, headroom: &Headroom) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    if let Some(free) = headroom.memory_bytes {
        let lanes = 8 * timer::lane_capacities(entry.phases.len(), asked).iter().sum::<usize>() as u64;
        let each = cost.memory_bytes_each + lanes.div_ceil(asked.max(1));
        let usable = (free / 10 * 7).saturating_sub(cost.memory_bytes);
        found.push((
            usable / each.max(1),
            format!("each takes about {each} bytes, and of {} MiB of free memory 30% are left alone", free >> 20),
        ));
    }
    if let (Some((room, why)), 1..) = (&headroom.processes, cost.processes_each) {
        found.push((room / 10 * 9 / cost.processes_each, format!("{why}; a tenth is left alone")));
    }
    if let (Some((room, why)), 1..) = (&headroom.descriptors, cost.descriptors_each) {
        found.push((room / 10 * 8 / cost.descriptors_each, format!("{why}; a fifth is left alone")));
    }
    found
}

fn case(
    number: u32,
    entry: &Entry,
    label: String,
    mut settings: Settings,
    n: u64,
    reduced: Option<Reduced>,
    host: &Host,
) -> Planned {
    let mut annotations = (entry.annotations)(host, &settings);
    settings.set("n", &n.to_string());
    annotations.extend(general_annotations(&(entry.cost)(&settings), host));
    let phase =
        |one: &crate::Phase| Phase { name: one.name.to_owned(), direction: one.direction, about: one.about.to_owned() };
    let case = Case {
        case: number,
        benchmark: entry.name.to_owned(),
        label,
        about: entry.about.to_owned(),
        axis: entry.axis.to_owned(),
        caveats: entry.caveats.iter().map(|&one| one.to_owned()).collect(),
        source: entry.source.to_owned(),
        phases: entry.phases.iter().map(phase).collect(),
        settings: settings.as_map().clone(),
        n,
        reduced,
        annotations,
    };
    Planned { case, entry: *entry, settings }
}

/// The annotations that every benchmark has: the limit of descriptors, and where its objects fill a cache.
fn general_annotations(cost: &Cost, host: &Host) -> Vec<Annotation> {
    let mut annotations = Vec::new();
    if let (Some(&limit), 1..) = (host.limits.get("RLIMIT_NOFILE"), cost.descriptors_each) {
        annotations.push(Annotation {
            name: "descriptor limit".to_owned(),
            n: limit as f64 / cost.descriptors_each as f64,
            kind: AnnotationKind::Capacity,
            source: "RLIMIT_NOFILE".to_owned(),
        });
    }
    for cache in host.caches.iter().filter(|_| cost.memory_bytes_each > 0) {
        annotations.push(Annotation {
            name: format!("objects fill the L{} cache ({} KiB)", cache.level, cache.bytes / 1024),
            n: cache.bytes as f64 / cost.memory_bytes_each as f64,
            kind: AnnotationKind::Cache,
            source: format!("about {} bytes an object, estimated", cost.memory_bytes_each),
        });
    }
    annotations
}

/// What can be measured here: one row for each benchmark.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Availability {
    /// The benchmark.
    pub name: String,
    /// What it asks.
    pub about: String,
    /// Cases that can be measured in the study, by label.
    pub cases: Vec<String>,
    /// Cases that cannot, and why.
    pub unavailable: Vec<(String, String)>,
    /// Parameters: name, value in the study, help.
    pub parameters: Vec<(String, String, String)>,
}

/// What can be measured on this host in a study, and what cannot and why.
pub fn availability(registry: &[Entry], study: Study, host: &Host) -> Vec<Availability> {
    registry
        .iter()
        .map(|entry| {
            let (mut cases, mut unavailable) = (Vec::new(), Vec::new());
            for settings in variants(entry, study, host.clock.unit, &[]) {
                let label = label(entry, &settings, study);
                match (entry.support)(host, &settings) {
                    Support::Yes => cases.push(label),
                    Support::No(reason) => unavailable.push((label, reason)),
                }
            }
            let row = |one: &Parameter| (one.name.to_owned(), one.value(study).to_owned(), one.help.to_owned());
            Availability {
                name: entry.name.to_owned(),
                about: entry.about.to_owned(),
                cases,
                unavailable,
                parameters: entry.parameters.iter().map(row).collect(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Benchmark, Context, Facts, Kind, Phase, Stop, Timer, Variant};

    /// A benchmark that is never run: only its description counts here.
    struct Fake;

    impl Benchmark for Fake {
        const NAME: &'static str = "fake";
        const ABOUT: &'static str = "";
        const AXIS: &'static str = "things";
        const PHASES: &'static [Phase] = &[Phase::up("make", "")];
        const PARAMETERS: &'static [Parameter] = &[
            Parameter::steps("10", "100", "1000", ""),
            Parameter::fixed("colour", Kind::Choice(&["red", "blue"]), "red", ""),
        ];
        const VARIANTS: &'static [Variant] =
            &[Variant::always(&[("colour", "blue")]), Variant::full(&[("colour", "blue"), ("n", "7")])];
        const CAVEATS: &'static [&'static str] = &[];
        const SOURCE: &'static str = "";

        fn support(_: &Host, settings: &Settings) -> Support {
            Support::when(settings.count("n") != 7, "seven is not supported")
        }

        fn cost(_: &Settings) -> Cost {
            Cost { processes_each: 1, ..Cost::default() }
        }

        fn setup(_: &Context) -> Result<Self, Stop> {
            Ok(Fake)
        }

        fn step(&mut self, _: u64, _: &mut Timer) -> Result<(), Stop> {
            Ok(())
        }

        fn check(&mut self, _: u64, _: &mut Facts) -> Result<(), Stop> {
            Ok(())
        }
    }

    const REGISTRY: &[Entry] = &[Entry::of::<Fake>()];

    fn plan(study: Study, settings: &[&str]) -> Result<Plan, Error> {
        let request = Request {
            names: Vec::new(),
            study,
            pass_count: None,
            settings: settings.iter().map(|&one| one.to_owned()).collect(),
            seed: 1,
            time_limit_s: None,
        };
        Plan::resolve(REGISTRY, &request, Host::default(), Clock::Gettime, None)
    }

    fn labels(plan: &Plan) -> Vec<&str> {
        plan.cases.iter().map(|one| one.case.label.as_str()).collect()
    }

    #[test]
    fn a_study_brings_its_sizes_and_its_variants() {
        let quick = plan(Study::Quick, &[]).unwrap();
        assert_eq!(labels(&quick), ["fake", "fake colour=blue"]);
        assert!(quick.cases.iter().all(|one| one.case.n == 100) && quick.pass_count == 5);
        let full = plan(Study::Full, &[]).unwrap();
        assert_eq!((full.pass_count, full.cases[0].case.n), (9, 1_000));
        assert_eq!(full.skips[0].reason, "seven is not supported");
    }

    /// An override that makes two variants equal must not measure the same case twice.
    #[test]
    fn an_override_applies_to_all_and_equal_cases_become_one() {
        let plan = plan(Study::Quick, &["fake.colour=blue", "fake.n=50"]).unwrap();
        assert_eq!(labels(&plan), ["fake colour=blue"]);
        assert_eq!(plan.cases[0].settings.count("n"), 50);
    }

    #[test]
    fn what_does_not_exist_is_named_with_what_does() {
        let message = |settings: &[&str]| plan(Study::Quick, settings).unwrap_err().to_string();
        assert!(message(&["fkae.n=3"]).contains("did you mean `fake`?"));
        assert!(message(&["fake.color=red"]).contains("it has n, colour"));
        assert!(message(&["fake.colour=green"]).contains("not one of red, blue"));
        assert!(message(&["fake=3"]).contains("benchmark.parameter=value"));
    }

    /// The host is never asked for more than it has: a tenth of the processes is left alone.
    #[test]
    fn the_tightest_resource_bounds_the_size() {
        let headroom =
            Headroom { memory_bytes: Some(1 << 40), processes: Some((1_000, "a limit".to_owned())), descriptors: None };
        let settings = Settings::of_study(Fake::PARAMETERS, Study::Full);
        let found = size(&REGISTRY[0], &settings, Study::Full, &Host::default(), &headroom, None).unwrap();
        assert_eq!(
            found,
            (900, Some(Reduced { requested: 1_000, reason: "a limit; a tenth is left alone".to_owned() }))
        );
        let none = Headroom { processes: Some((9, "full".to_owned())), ..headroom };
        let refused = size(&REGISTRY[0], &settings, Study::Full, &Host::default(), &none, None).unwrap_err();
        assert!(refused.contains("no room"), "{refused}");
    }
}
