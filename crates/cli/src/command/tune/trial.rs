//! `landau tune try`: measures the host with and without a profile, in turn, and restores it.
//!
//! Settings of a network namespace are set in a new namespace, which ends with this process. The others are set on the
//! host, and only with `--on-host`, after a guard was started and a journal written.

use super::guard::Guard;
use super::{Common, text};
use crate::command::run::{self, Tuning, measure_tuned, parse_for_tuning, with_word};
use crate::status;
use anyhow::{Context, bail, ensure};
use landau_engine::HostSwitch;
use landau_host::Root;
use landau_lab::sysctl::{self, OF_A_NETWORK};
use landau_record::schema::EndOutcome;
use landau_report::tuned::{self, Answer, LeftOut, Part, Tried};
use landau_sys::boot;
use landau_sys::signal::{catch_interrupts, interrupted};
use landau_tune::{Change, Journal, Place, Plan, Profile, Restored, Setting, Trial};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau tune try idle -- run connect --passes 9
  landau tune try own.toml --ablate --json -- run architecture --set architecture.n=300
  landau tune try files --on-host -- run files        as root
  landau tune try empty -- run connect                no change: how many false differences?

Exit status: 0 if the trial ended and the host is restored, 1 if the trial was interrupted, a pass
failed or a setting that someone else changed was kept, 2 if the trial could not run.")]
pub(super) struct Args {
    /// Name of a profile, or a file
    #[arg(value_name = "PROFILE")]
    profile: String,
    /// Measure each setting alone, and the profile without it, to find which one has the effect
    #[arg(long)]
    ablate: bool,
    /// Also set, on this host, the settings that a network namespace does not have, and restore them at the end; needs
    /// root
    #[arg(long)]
    on_host: bool,
    /// Set all settings on this host and measure in its network, for a server that is already running
    #[arg(long, requires = "on_host")]
    host_network: bool,
    #[command(flatten)]
    common: Common,
    /// The run to measure: `run` with its benchmarks and flags
    #[arg(last = true, required = true, value_name = "RUN")]
    run: Vec<String>,
}

/// The changes of a trial, by where they are made.
struct Scope {
    /// In a network namespace.
    local: Vec<Change>,
    /// On the host.
    global: Vec<Change>,
    /// The settings that are not tried, with the reasons.
    left_out: Vec<LeftOut>,
}

pub(super) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    catch_interrupts();
    let root = args.common.root();
    let profile = Profile::find(&args.profile)?;
    let request = parse_for_tuning(&args.run)?;
    let plan = Plan::of(&root, &profile, OF_A_NETWORK);
    match attempt(args, words, &root, &plan, request) {
        Ok(answer) => {
            let is_done = answer.complete && answer.not_restored.is_empty();
            let text = if args.common.json { serde_json::to_string_pretty(&answer)? } else { text::answer(&answer) };
            status::answer(&text, if is_done { status::DONE } else { status::FAILED })
        }
        Err(error) if status::is_closed_pipe(&error) => Err(error),
        // After any failure, the answer is the plan of the trial.
        Err(error) => {
            let why = format!("{error:#}");
            status::tell(&format!("landau: {why}"));
            let text = if args.common.json { refused_json(&plan, &why)? } else { text::plan(&plan) };
            status::answer(&text, status::COULD_NOT_RUN)
        }
    }
}

/// Returns the plan of a trial that could not run as JSON, with the reason.
fn refused_json(plan: &Plan, why: &str) -> anyhow::Result<String> {
    let mut answer = serde_json::to_value(plan)?;
    answer["error"] = why.into();
    Ok(serde_json::to_string_pretty(&answer)?)
}

/// Runs the trial of a plan, and restores the host.
fn attempt(args: &Args, words: &[String], root: &Root, plan: &Plan, mut request: run::Args) -> anyhow::Result<Answer> {
    if let Some(left) = landau_tune::left(root)? {
        status::tell(&text::left(&left));
        bail!("restore the host first, with landau tune restore");
    }
    let scope = Scope::of(args, plan);
    if let Some(why) = scope.obstacle(plan) {
        bail!("nothing was tried or changed: {why}");
    }
    if !scope.local.is_empty() {
        enter_namespace(&scope.local)?;
    }
    let tried = scope.tried();
    let settings = |changes: &[Change]| changes.iter().map(setting).collect::<Vec<Setting>>();
    let global = settings(&scope.global);
    // Dropped after the trial, because the guard reads the journal of the trial.
    let mut guard = if global.is_empty() { None } else { Some(Guard::start(args.common.root.as_deref())?) };
    let journal = (!global.is_empty()).then(|| Journal::open(root, &plan.profile, Trial::entries(&global)));
    let journal = match journal.transpose() {
        Ok(journal) => journal,
        Err(error) => {
            // Nothing was changed. The guard would wait for the end of another trial, and restore what that one leaves.
            guard.iter_mut().for_each(Guard::end);
            return Err(error.into());
        }
    };
    let all = [global, settings(&scope.local)].concat();
    let mut trial = Trial::new(root, all, journal);
    let measured = measure(args, &mut request, &plan.profile, &mut trial, words);
    let restored = trial.restore();
    if restored.is_ok()
        && let Some(guard) = &mut guard
    {
        guard.end();
    }
    let (trials, complete, page) = measured.map_err(|error| explain(error, &restored))?;
    Ok(Answer {
        schema: landau_tune::SCHEMA,
        profile: plan.profile.clone(),
        settings: tried,
        not_tried: scope.left_out,
        level: tuned::LEVEL,
        attribution: tuned::attributions(&trials),
        trials,
        not_restored: restored?.iter().filter_map(Restored::complaint).collect(),
        complete,
        page: page.map(|page| page.display().to_string()),
    })
}

/// Adds what was not restored to the error that ended a trial.
fn explain(error: anyhow::Error, restored: &Result<Vec<Restored>, landau_tune::Error>) -> anyhow::Error {
    let complaints: Vec<String> = match restored {
        Ok(restored) => restored.iter().filter_map(Restored::complaint).collect(),
        Err(error) => vec![error.to_string()],
    };
    if complaints.is_empty() { error } else { error.context(complaints.join("; ")) }
}

fn setting(change: &Change) -> Setting {
    Setting { name: change.name.clone(), old: change.now.clone(), new: change.new.clone() }
}

impl Scope {
    fn of(args: &Args, plan: &Plan) -> Self {
        let is_host_network = args.host_network || args.common.root.is_some();
        let mut scope = Self { local: Vec::new(), global: Vec::new(), left_out: Vec::new() };
        let has_namespace = !is_host_network && plan.tried(Place::Namespace).next().is_some();
        for change in &plan.changes {
            let why = match (change.tried, args.on_host) {
                (Place::Namespace, _) if !is_host_network => {
                    scope.local.push(change.clone());
                    continue;
                }
                (Place::Nowhere, _) => change.obstacle.clone().unwrap_or_default(),
                (_, false) => "it is a setting of the whole host; --on-host tries it there, as root".to_owned(),
                // In a namespace these files do not exist or are read-only.
                (_, true) if has_namespace && change.name.starts_with("net.") => {
                    "it cannot be set from the network namespace of this trial; --on-host --host-network tries all \
                     settings on the host"
                        .to_owned()
                }
                (_, true) => {
                    scope.global.push(change.clone());
                    continue;
                }
            };
            scope.left_out.push(LeftOut { name: change.name.clone(), why });
        }
        scope
    }

    /// Returns why nothing can be tried.
    fn obstacle(&self, plan: &Plan) -> Option<String> {
        let denied = self.global.iter().find_map(|one| Some(format!("{}: {}", one.name, one.obstacle.as_ref()?)));
        if denied.is_some() {
            return denied;
        }
        let is_empty = plan.changes.is_empty() && plan.present.is_empty() && plan.missing.is_empty();
        if is_empty || !self.local.is_empty() || !self.global.is_empty() {
            return None;
        }
        Some(match self.left_out.first() {
            Some(first) => format!("{}: {}", first.name, first.why),
            None if plan.present.is_empty() => "none of the profile's settings can be read here".to_owned(),
            None => "every setting of the profile that this host has already has the profile's value".to_owned(),
        })
    }

    fn tried(&self) -> Vec<Tried> {
        let one = |change: &Change, on_host| Tried {
            name: change.name.clone(),
            old: change.now.clone(),
            new: change.new.clone(),
            on_host,
        };
        let global = self.global.iter().map(|change| one(change, true));
        global.chain(self.local.iter().map(|change| one(change, false))).collect()
    }
}

/// Enters a network namespace in which the sysctls have the same values as on the host.
fn enter_namespace(changes: &[Change]) -> anyhow::Result<()> {
    let network = || std::fs::read_link("/proc/self/ns/net").context("read /proc/self/ns/net");
    let names: Vec<String> = OF_A_NETWORK.iter().map(|&name| name.to_owned()).collect();
    let (outside, host) = (network()?, sysctl::values(names.iter()));
    boot::unshare_network().context(
        "create a network namespace; without root the kernel must allow user namespaces. Nothing was changed",
    )?;
    ensure!(network()? != outside, "the network namespace is still the host's; nothing was changed");
    boot::bring_up_loopback().context("bring up the loopback interface of the namespace")?;
    let inside = sysctl::values(names.iter());
    let different = |(name, value): &(&String, &String)| inside.get(*name).is_some_and(|inside| inside != *value);
    let mut unlike: BTreeMap<&str, std::io::Error> = BTreeMap::new();
    for (name, value) in host.iter().filter(different) {
        if let Err(error) = std::fs::write(sysctl::path(name), value) {
            unlike.insert(name, error);
        }
    }
    // A value may have been refused because of another one that was set later; try again.
    unlike.retain(|name, error| {
        std::fs::write(sysctl::path(name), &host[*name]).map_err(|again| *error = again).is_err()
    });
    for (name, error) in &unlike {
        let is_tried = changes.iter().any(|change| change.name == *name);
        ensure!(!is_tried, "{name} cannot be set in a network namespace: {error}; nothing was changed");
        status::tell(&format!("landau: {name} differs between the host and the namespace: {error}"));
    }
    Ok(())
}

/// A comparison of a trial: the settings that are active in the base and in the new side.
struct Sides {
    part: Part,
    /// The index of the setting that is removed or tried alone.
    setting: Option<usize>,
    base: Vec<bool>,
    new: Vec<bool>,
}

/// Returns the comparisons of a trial of `count` settings.
fn sides(count: usize, ablate: bool) -> Vec<Sides> {
    let (none, all) = (vec![false; count], vec![true; count]);
    let mut found = vec![Sides { part: Part::All, setting: None, base: none.clone(), new: all.clone() }];
    // A single setting is the whole profile.
    for place in (0..count).filter(|_| ablate && count > 1) {
        let mut without = all.clone();
        without[place] = false;
        let mut alone = none.clone();
        alone[place] = true;
        found.push(Sides { part: Part::Without, setting: Some(place), base: without, new: all.clone() });
        found.push(Sides { part: Part::Alone, setting: Some(place), base: none.clone(), new: alone });
    }
    found
}

/// Sets the settings of a side before its passes.
#[derive(Debug)]
struct TrialSwitch<'a> {
    trial: &'a mut Trial,
    base: Vec<bool>,
    new: Vec<bool>,
}

impl HostSwitch for TrialSwitch<'_> {
    fn turn_on(&mut self, _: &dyn Fn() -> bool) -> Result<(), landau_engine::Error> {
        self.trial.set(&self.new).map_err(|error| refused(&error))
    }

    fn turn_off(&mut self) -> Result<(), landau_engine::Error> {
        self.trial.set(&self.base).map_err(|error| refused(&error))
    }
}

fn refused(error: &landau_tune::Error) -> landau_engine::Error {
    landau_engine::Error::Switch { flag: "landau tune", command: "try".to_owned(), reason: error.to_string() }
}

/// The comparisons, whether they are complete, and the page.
type Made = (Vec<tuned::Trial>, bool, Option<PathBuf>);

fn measure(
    args: &Args,
    request: &mut run::Args,
    profile: &str,
    trial: &mut Trial,
    words: &[String],
) -> anyhow::Result<Made> {
    let names: Vec<(String, String)> = trial.settings().iter().map(|one| (one.name.clone(), one.new.clone())).collect();
    let all = sides(names.len(), args.ablate);
    let (count, mut trials, mut page, mut is_complete) = (all.len(), Vec::new(), None, true);
    for (place, one) in all.into_iter().enumerate() {
        if interrupted().is_some() {
            return Ok((trials, false, page));
        }
        let setting = one.setting.map(|place| names[place].0.clone());
        let (word, said) = match (one.part, &setting) {
            (Part::Without, Some(name)) => (format!("without-{name}"), format!("the profile without {name}")),
            (Part::Alone, Some(name)) => (format!("alone-{name}"), format!("{name} alone")),
            _ => (String::new(), "the whole profile".to_owned()),
        };
        let output = request.output().to_owned();
        let output = if word.is_empty() { output } else { with_word(&output, &word) };
        status::tell(&format!("landau: comparison {} of {count}: {said}", place + 1));
        let differs = |place: &usize| one.base[*place] != one.new[*place];
        let differences =
            (0..names.len()).filter(differs).map(|place| format!("{}={}", names[place].0, names[place].1));
        let tuning = Tuning { profile: profile.to_owned(), differences: differences.collect() };
        trial.set(&one.base)?;
        let mut switch = TrialSwitch { trial: &mut *trial, base: one.base, new: one.new };
        let measured = measure_tuned(request, output, tuning, one.part == Part::All, words, &mut switch)?;
        if measured.outcome == EndOutcome::Interrupted {
            return Ok((trials, false, page));
        }
        page = page.or(measured.page);
        let name = |path: &PathBuf| path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let records = measured.paths.iter().map(name).collect();
        let sides = measured.records.each_ref();
        trials.push(tuned::Trial::of(one.part, setting, records, sides, &measured.compared, count));
        is_complete &= !matches!(measured.outcome, EndOutcome::Failed | EndOutcome::Crashed);
    }
    Ok((trials, is_complete, page))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `try idle --on-host` once set `net.core.netdev_max_backlog` from the namespace, which does not have it: the
    /// trial failed, and its journal refused the next one.
    #[test]
    fn what_a_network_namespace_does_not_show_is_not_set_from_one() {
        let text = "[sysctl]\n\"net.core.somaxconn\" = 7\n\"net.core.netdev_max_backlog\" = 7\n\"vm.dirty_ratio\" = 7";
        let profile = Profile::parse("own", "own.toml", text).unwrap();
        let room = tempfile::tempdir().unwrap();
        for name in ["net/core/somaxconn", "net/core/netdev_max_backlog", "vm/dirty_ratio"] {
            let path = room.path().join("proc/sys").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "9").unwrap();
        }
        let plan = Plan::of(&landau_host::Root::planted(room.path()), &profile, OF_A_NETWORK);
        let scope = |host_network| {
            let common = Common { root: None, json: false };
            let (profile, run) = (String::new(), Vec::new());
            Scope::of(&Args { profile, ablate: false, on_host: true, host_network, common, run }, &plan)
        };
        let names = |changes: &[Change]| changes.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        let found = scope(false);
        assert_eq!(
            (names(&found.local), names(&found.global)),
            (vec!["net.core.somaxconn".into()], vec!["vm.dirty_ratio".into()])
        );
        assert!(found.left_out[0].why.contains("--host-network"), "{}", found.left_out[0].why);
        assert_eq!((scope(true).global.len(), scope(true).left_out.len()), (3, 0));
    }

    #[test]
    fn an_ablation_has_each_setting_alone_and_the_rest_without_it() {
        let shown = |count, ablate| -> Vec<(Part, Vec<bool>, Vec<bool>)> {
            sides(count, ablate).into_iter().map(|one| (one.part, one.base, one.new)).collect()
        };
        assert_eq!(shown(0, true), [(Part::All, vec![], vec![])]);
        assert_eq!(shown(1, true), [(Part::All, vec![false], vec![true])]);
        let all = shown(2, true);
        assert_eq!(all.len(), 5);
        assert_eq!(all[1], (Part::Without, vec![false, true], vec![true, true]));
        assert_eq!(all[4], (Part::Alone, vec![false, false], vec![false, true]));
        assert_eq!(shown(2, false).len(), 1);
    }
}
