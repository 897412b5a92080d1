//! The plan of a run: the request, resolved on this host into cases with their sizes, and the skipped cases with the
//! reasons.

use crate::request::{Chosen, Override, choose, chosen_cases, overrides};
use crate::size::{Files, Free, fit, worker_bytes};
use crate::{Cost, Entry, Error, Fault, Parameter, Request, Settings, StepWindows, Study, Support};
use landau_record::schema::{
    Adaptive, Annotation, AnnotationKind, Case, Host, Phase, Reduced, Replay, Side, Skip, Unit,
};
use landau_sys::clock::Clock;
use landau_sys::system::headroom;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A case with everything that is needed to run it.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The case as the record holds it.
    pub case: Case,
    /// The benchmark.
    pub entry: Entry,
    /// Its settings, with `n` resolved.
    pub settings: Settings,
}

impl Planned {
    /// Returns the address space that the worker takes in addition to the program's own before its first step, if `n`
    /// steps are planned, in bytes.
    pub fn worker_bytes(&self, n: u64) -> u64 {
        worker_bytes(&self.entry, &self.settings, n)
    }
}

/// What will be measured on this host.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How much is measured.
    pub study: Study,
    /// The number of planned rounds, which is the number of passes of each case, except for cases with fewer
    /// ([`Plan::is_in_round`]).
    pub pass_count: u32,
    /// Whether the user chose that number. Then every case has that many, except that a replayed case has at most as
    /// many as its study.
    pub is_pass_count_chosen: bool,
    /// Which passes may follow the planned ones.
    pub adaptive: Adaptive,
    /// The seed of every random order.
    pub seed: u64,
    /// The time limit of the run, in seconds.
    pub time_limit_s: Option<u64>,
    /// The cases, by number.
    pub cases: Vec<Planned>,
    /// What cannot be measured here.
    pub skips: Vec<Skip>,
    /// The machine.
    pub host: Host,
    /// The clock that times the calls.
    pub clock: Clock,
    /// Whether worker and controller run in turn, for a machine with one processor on which nothing may disturb the
    /// worker.
    pub lockstep: bool,
    /// Where each step is a window.
    pub step_windows: Option<StepWindows>,
    /// A fault to inject.
    pub fault: Option<Fault>,
    /// Notes for the beginning of the record.
    pub notes: Vec<String>,
    /// The environment of the workers.
    pub environment: BTreeMap<String, String>,
    /// Which side this is, if the run measures two sides alternately.
    pub side: Option<Side>,
}

impl Plan {
    /// Resolves a request on this host. `scratch_free_bytes` is the space for the benchmarks' files.
    pub fn resolve(
        registry: &[Entry],
        request: &Request,
        host: Host,
        clock: Clock,
        scratch_free_bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let of_user = chosen_cases(registry, &request.cases)?;
        let named = of_user.iter().map(|case| case.benchmark.to_owned());
        let named: Vec<String> = request.names.iter().cloned().chain(named).collect();
        let chosen = choose(registry, &named)?;
        let overrides = overrides(registry, &chosen, &request.settings)?;
        let mut free = Free { headroom: headroom(), scratch_bytes: scratch_free_bytes, files: Files::default() };
        let (mut cases, mut skips) = (Vec::new(), Vec::new());
        for entry in chosen {
            let own: Vec<Override> = overrides.iter().copied().filter(|one| one.benchmark == entry.name).collect();
            if request.study == Study::Quick && !entry.in_quick && named.is_empty() && own.is_empty() {
                let reason =
                    format!("it takes too long for the quick study of all benchmarks; run `landau run {}`", entry.name);
                skips.push(Skip { label: entry.name.to_owned(), reason });
                continue;
            }
            if request.study == Study::Then && entry.replays.is_empty() && !request.names.is_empty() {
                let reason = "no study of 2001, 2003 or 2004 had such a test".to_owned();
                skips.push(Skip { label: entry.name.to_owned(), reason });
            }
            let varied = varied(&request.varied, entry.name);
            let mut labels = Vec::new();
            for (settings, replay) in cases_of(entry, request.study, host.clock.unit, &own, &of_user) {
                let of_study = replay.as_ref().map_or(String::new(), |replay| format!(" as in {}", replay.study));
                let label = label_without(entry, &settings, request.study, &varied) + &of_study;
                if !varied.is_empty() && labels.contains(&label) {
                    let label = self::label(entry, &settings, request.study) + &of_study;
                    let reason = format!("the sides of this run differ in `{}`", varied.join("`, `"));
                    skips.push(Skip { label, reason });
                    continue;
                }
                labels.push(label.clone());
                let size = match entry.supports(&host, &settings, request.study) {
                    Support::No(reason) => Err(reason),
                    Support::Yes => fit(entry, &settings, request.study, &host, &mut free),
                };
                match size {
                    Err(reason) => skips.push(Skip { label, reason }),
                    Ok((n, reduced)) => {
                        let planned = case(cases.len() as u32, entry, label, settings, n, reduced, &host);
                        cases.push(Planned { case: Case { replay, ..planned.case }, ..planned });
                    }
                }
            }
        }
        Ok(Self {
            study: request.study,
            pass_count: request.pass_count.unwrap_or(request.study.pass_count()),
            is_pass_count_chosen: request.pass_count.is_some(),
            adaptive: request.adaptive,
            seed: request.seed,
            time_limit_s: request.time_limit_s,
            cases,
            skips,
            host,
            clock,
            lockstep: false,
            step_windows: None,
            fault: None,
            notes: Vec::new(),
            environment: BTreeMap::new(),
            side: None,
        })
    }

    /// Returns the program that makes the passes, if it is not this one.
    pub(crate) fn program_path(&self) -> Option<&Path> {
        let program = self.side.as_ref()?.program.as_ref()?;
        Some(Path::new(&program.path))
    }

    /// Returns whether a case has a pass in a planned round. A case whose passes take long may have fewer passes than
    /// there are rounds, unless the user chose the number. These passes are spread from the first round to the last. A
    /// case by the method of an earlier study has as many passes as that study had runs, from the first round on.
    pub fn is_in_round(&self, case: &Planned, round: u32) -> bool {
        if let Some(replay) = &case.case.replay {
            return round < replay.runs.min(self.pass_count);
        }
        let most = (case.entry.most_passes)(&case.settings).filter(|_| !self.is_pass_count_chosen);
        match (most, self.pass_count.saturating_sub(1)) {
            (Some(most), last) if most <= last => {
                (0..most).any(|number| number * last / most.saturating_sub(1).max(1) == round)
            }
            _ => round < self.pass_count,
        }
    }

    /// Returns an estimate of the record's size in bytes, from the time that a step of each benchmark usually takes.
    /// Adaptive passes are expected to double it at most.
    pub fn record_bytes(&self) -> u64 {
        self.record_bytes_left(&BTreeSet::new())
    }

    /// Returns the number of bytes by which the record may still grow if it holds these passes, given by case and
    /// round. At least 1 MiB: the results and the end of the record are written again.
    pub(crate) fn record_bytes_left(&self, finished: &BTreeSet<(u32, u32)>) -> u64 {
        let (mut planned, mut left, mut adaptive) = (0_u64, 0_u64, 0_u64);
        for one in &self.cases {
            let (case, of_pass) = (one.case.case, bytes_of_pass(one));
            for round in (0..self.pass_count).filter(|&round| self.is_in_round(one, round)) {
                planned = planned.saturating_add(of_pass);
                left = left.saturating_add(if finished.contains(&(case, round)) { 0 } else { of_pass });
            }
            let made = finished.range((case, self.pass_count)..=(case, u32::MAX)).count() as u64;
            adaptive = adaptive.saturating_add(made.saturating_mul(of_pass));
        }
        let adaptive_left = if self.adaptive.is_off() { 0 } else { planned.saturating_sub(adaptive) };
        left.saturating_add(adaptive_left).saturating_add(1 << 20)
    }
}

/// Returns an estimate of the bytes that a pass adds to the record. The case may come from a record.
fn bytes_of_pass(one: &Planned) -> u64 {
    one.entry.pass_bytes(&one.settings, one.case.n, one.case.phases.len())
}

/// Returns the settings of each case of a benchmark in a study, and the earlier study whose method the case repeats.
/// The user's settings apply only to this program's cases: those of an earlier study keep its parameters.
fn cases_of(
    entry: &Entry,
    study: Study,
    unit: Unit,
    overrides: &[Override],
    chosen: &[Chosen],
) -> Vec<(Settings, Option<Replay>)> {
    if study != Study::Then || chosen.iter().any(|case| case.benchmark == entry.name) {
        return variants(entry, study, unit, overrides, chosen).into_iter().map(|settings| (settings, None)).collect();
    }
    let mut found: Vec<(Settings, Option<Replay>)> = Vec::new();
    for one in entry.replays {
        let mut settings = Settings::of_study(entry.parameters, study);
        for (name, value) in one.settings {
            settings.set(name, value);
        }
        for one in overrides.iter().filter(|_| one.author.is_none()) {
            settings.set(one.name, one.value);
        }
        let case = (settings, one.author.map(|(study, runs)| Replay { study: study.to_owned(), runs }));
        if !found.contains(&case) {
            found.push(case);
        }
    }
    found
}

/// Returns the settings of each case of a benchmark: the study's values, replaced by each variant's, then the user's.
/// Cases that the user chose replace the variants.
pub(crate) fn variants(
    entry: &Entry,
    study: Study,
    unit: Unit,
    overrides: &[Override],
    chosen: &[Chosen],
) -> Vec<Settings> {
    let mut found: Vec<Settings> = Vec::new();
    let chosen: Vec<&[(&str, &str)]> =
        chosen.iter().filter(|case| case.benchmark == entry.name).map(|case| &case.settings[..]).collect();
    let differing = entry.variants.iter().filter(|one| one.from <= study).map(|one| one.settings);
    let of_study = std::iter::once(&[][..]).chain(differing);
    let variants: Vec<&[(&str, &str)]> = if chosen.is_empty() { of_study.collect() } else { chosen };
    for variant in variants {
        let mut settings = Settings::of_study(entry.parameters, study);
        let emulated = if unit != Unit::Ns && study == Study::Quick { entry.emulated } else { &[] };
        for (name, value) in emulated.iter().chain(variant) {
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

/// Returns the benchmark's name with the settings that differ from the study's, except for the size.
pub(crate) fn label(entry: &Entry, settings: &Settings, study: Study) -> String {
    label_without(entry, settings, study, &[])
}

/// Returns the label without some parameters.
fn label_without(entry: &Entry, settings: &Settings, study: Study, without: &[&str]) -> String {
    let is_left_out = |name: &str| name == "n" || without.contains(&name);
    let differs = |one: &&Parameter| !is_left_out(one.name) && settings.text(one.name) != one.value(study);
    let words = entry.parameters.iter().filter(differs).map(|one| format!(" {}={}", one.name, settings.text(one.name)));
    std::iter::once(entry.name.to_owned()).chain(words).collect()
}

/// Returns the parameters of a benchmark in which the sides of the run differ.
fn varied<'a>(all: &'a [String], benchmark: &str) -> Vec<&'a str> {
    let of_benchmark = |one: &'a String| one.split_once('.').filter(|(name, _)| *name == benchmark);
    all.iter().filter_map(of_benchmark).map(|(_, parameter)| parameter).collect()
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
    settings.set("n", &n.to_string());
    let mut annotations = (entry.annotations)(host, &settings);
    annotations.extend(general_annotations(&(entry.cost)(&settings), host));
    let phase =
        |one: &crate::Phase| Phase { name: one.name.to_owned(), direction: one.direction, about: one.about.to_owned() };
    let case = Case {
        case: number,
        benchmark: entry.name.to_owned(),
        label,
        about: entry.about.to_owned(),
        axis: (entry.axis_of)(&settings).to_owned(),
        caveats: entry.caveats.iter().map(|&one| one.to_owned()).collect(),
        source: entry.source.to_owned(),
        phases: (entry.phases_of)(&settings).iter().map(phase).collect(),
        settings: settings.as_map().clone(),
        settings_about: entry.parameters.iter().map(|one| (one.name.to_owned(), one.help.to_owned())).collect(),
        n,
        reduced,
        annotations,
        timeline: entry.timeline,
        replay: None,
    };
    Planned { case, entry: *entry, settings }
}

/// Returns the annotations that every benchmark has: the descriptor limit, and the n at which its objects fill a cache.
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
            source: format!("about {} bytes per object, estimated", cost.memory_bytes_each),
        });
    }
    annotations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::REGISTRY;

    fn plan(study: Study, settings: &[&str]) -> Plan {
        plan_of(&[], study, settings)
    }

    fn plan_of(cases: &[&str], study: Study, settings: &[&str]) -> Plan {
        let request = Request {
            names: vec!["fake".to_owned()],
            cases: cases.iter().map(|&one| one.to_owned()).collect(),
            study,
            pass_count: None,
            adaptive: Adaptive::Off,
            settings: settings.iter().map(|&one| one.to_owned()).collect(),
            varied: Vec::new(),
            seed: 1,
            time_limit_s: None,
        };
        Plan::resolve(REGISTRY, &request, Host::default(), Clock::Gettime, None).unwrap()
    }

    fn labels(plan: &Plan) -> Vec<&str> {
        plan.cases.iter().map(|one| one.case.label.as_str()).collect()
    }

    #[test]
    fn a_study_sets_sizes_and_variants() {
        let quick = plan(Study::Quick, &[]);
        assert_eq!(labels(&quick), ["fake", "fake colour=blue"]);
        assert!(quick.cases.iter().all(|one| one.case.n == 100) && quick.pass_count == 5);
        let full = plan(Study::Full, &[]);
        assert_eq!((full.pass_count, full.cases[0].case.n), (9, 1_000));
        assert_eq!(full.skips[0].reason, "seven is not supported");
    }

    /// Guards against cases of the study among those that the user chose, and against one size for all of them.
    #[test]
    fn chosen_cases_replace_those_of_the_study() {
        let plan = plan_of(&["fake.blue.n=50", "fake"], Study::Quick, &[]);
        assert_eq!(labels(&plan), ["fake colour=blue", "fake"]);
        assert_eq!((plan.cases[0].case.n, plan.cases[1].case.n), (50, 100));
        let set = plan_of(&["fake.blue", "fake"], Study::Quick, &["fake.colour=red"]);
        assert_eq!(labels(&set), ["fake"]);
    }

    /// A case that takes long has fewer passes, spread from the first round to the last. A number that the user chose
    /// is exact.
    #[test]
    fn a_long_case_is_not_in_every_round() {
        let rounds = |plan: &Plan| -> Vec<u32> {
            (0..plan.pass_count).filter(|&round| plan.is_in_round(&plan.cases[0], round)).collect()
        };
        let mut full = plan(Study::Full, &["fake.n=5000"]);
        assert_eq!(rounds(&full), [0, 2, 4, 6, 8]);
        let record_bytes = full.record_bytes();
        full.pass_count = 5;
        assert_eq!(rounds(&full), [0, 1, 2, 3, 4]);
        (full.pass_count, full.is_pass_count_chosen) = (9, true);
        assert_eq!(rounds(&full), (0..9).collect::<Vec<u32>>());
        assert!(record_bytes < full.record_bytes());
        assert_eq!(rounds(&plan(Study::Full, &[])), (0..9).collect::<Vec<u32>>());
    }

    /// Guards against refusing a resumption for lack of space that the record already occupies.
    #[test]
    fn what_is_in_the_record_needs_no_space() {
        let mut plan = plan(Study::Quick, &["fake.n=100000"]);
        let least = 1 << 20;
        let of_pass = bytes_of_pass(&plan.cases[0]);
        assert_eq!(plan.record_bytes(), 10 * of_pass + least);
        let finished: BTreeSet<(u32, u32)> = (0..2).flat_map(|case| (0..5).map(move |round| (case, round))).collect();
        let first: BTreeSet<(u32, u32)> = finished.iter().copied().filter(|(_, round)| *round < 3).collect();
        assert_eq!(plan.record_bytes_left(&first), 4 * of_pass + least);
        assert_eq!(plan.record_bytes_left(&finished), least);
        plan.adaptive = Adaptive::Bounded;
        assert_eq!(plan.record_bytes_left(&first), 14 * of_pass + least);
        let adaptive: BTreeSet<(u32, u32)> = (5..8).map(|round| (1, round)).chain(finished).collect();
        assert_eq!(plan.record_bytes_left(&adaptive), 7 * of_pass + least);
        plan.cases[0].case.n = u64::MAX;
        assert_eq!(plan.record_bytes(), u64::MAX);
    }

    /// Cases by an earlier study's method keep its parameters and have as many passes as it had runs. Cases by this
    /// program's method have the planned passes and the user's settings.
    #[test]
    fn the_study_then_has_both_methods() {
        let then = plan(Study::Then, &["fake.n=50"]);
        assert_eq!(labels(&then), ["fake as in 2003", "fake colour=blue as in 2001", "fake", "fake colour=blue"]);
        assert_eq!(then.cases.iter().map(|one| one.case.n).collect::<Vec<_>>(), [30, 40, 50, 50]);
        let passes = |one: &Planned| (0..then.pass_count).filter(|&round| then.is_in_round(one, round)).count();
        assert_eq!(then.cases.iter().map(passes).collect::<Vec<_>>(), [3, 1, 5, 5]);
        assert_eq!(then.cases[0].case.replay, Some(Replay { study: "2003".to_owned(), runs: 3 }));
        assert_eq!(then.cases[2].case.replay, None);
        assert!(plan(Study::Quick, &[]).cases.iter().all(|one| one.case.replay.is_none()));
    }

    /// An override that makes two variants equal must not measure the same case twice.
    #[test]
    fn an_override_applies_to_all_and_equal_cases_become_one() {
        let plan = plan(Study::Quick, &["fake.colour=blue", "fake.n=50"]);
        assert_eq!(labels(&plan), ["fake colour=blue"]);
        assert_eq!(plan.cases[0].settings.count("n"), 50);
    }
}
