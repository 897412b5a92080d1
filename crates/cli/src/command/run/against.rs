//! The two sides of `landau run --against`: their differences, their records and their plans.

use crate::options::benchmark_of;
use anyhow::{Context, bail, ensure};
use landau_bench::REGISTRY;
use landau_engine::{
    HostSwitch, Plan, Request, Scratch, Switch, check_names, consult, describe_host, pair, scratch_free_bytes,
};
use landau_record::Record;
use landau_record::schema::{self, Program, Role, Side};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The word for sides that do not differ: an A/A run.
const SAME: &str = "same";

/// The flags that make a run measure two sides.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Against {
    /// Measure two sides in turn, the base and a new side, and compare them. The new side differs in this: an
    /// environment variable of the measuring processes (NAME=VALUE), a parameter (BENCHMARK.PARAMETER=VALUE), or the
    /// program that measures (the path of another landau). May be repeated; `same` measures one side twice. Writes a
    /// record of each side
    #[arg(long, value_name = "DIFFERENCE", conflicts_with = "resume")]
    against: Vec<String>,
    /// Switch the host over for the new side: run this command in a shell (sh -c) before its passes
    #[arg(long, value_name = "COMMAND", requires = "restore", conflicts_with = "resume")]
    switch: Option<String>,
    /// Undo --switch: run this command before the passes of the base and at the end, also when the run is interrupted
    /// or fails
    #[arg(long, value_name = "COMMAND", requires = "switch", conflicts_with = "resume")]
    restore: Option<String>,
    /// Set an environment variable of the measuring processes, which have no others. May be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, conflicts_with = "resume")]
    env: Vec<(String, String)>,
    /// What `landau tune try` changes for the new side.
    #[arg(skip)]
    pub(super) tuning: Option<Tuning>,
}

/// The changes that `landau tune try` makes for the new side.
#[derive(Debug, Clone)]
pub(crate) struct Tuning {
    /// The profile.
    pub(crate) profile: String,
    /// The settings, as `name=value`.
    pub(crate) differences: Vec<String>,
}

/// The differences between the new side and the base.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    settings: Vec<String>,
    environment: BTreeMap<String, String>,
    program: Option<PathBuf>,
}

impl Against {
    /// Returns the differences between the sides; `None` if the run has only one side.
    ///
    /// # Errors
    ///
    /// Fails on a word that is not a valid difference.
    pub(crate) fn differences(&self) -> anyhow::Result<Option<Differences>> {
        if self.tuning.is_some() {
            return Ok(Some(Differences::default()));
        }
        if !self.has_sides() {
            return Ok(None);
        }
        let is_same = self.against.iter().any(|word| word == SAME);
        ensure!(
            !is_same || (self.against.len() == 1 && self.switch.is_none()),
            "--against {SAME}: cannot be combined with another difference or with --switch"
        );
        let mut found = Differences::default();
        for word in self.against.iter().filter(|word| *word != SAME) {
            found.add(word).with_context(|| format!("--against {word}"))?;
        }
        Ok(Some(found))
    }

    /// Returns whether the user asks for two sides.
    pub(super) fn has_sides(&self) -> bool {
        !self.against.is_empty() || self.switch.is_some()
    }

    /// Returns the environment of the workers of the base.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        self.env.iter().cloned().collect()
    }

    fn switch(&self) -> Option<schema::Switch> {
        let (command, restore) = (self.switch.clone()?, self.restore.clone()?);
        Some(schema::Switch { command, restore })
    }
}

impl Differences {
    fn add(&mut self, word: &str) -> anyhow::Result<()> {
        let before = word.split_once('=').map(|(name, _)| name);
        match before {
            Some(name) if is_variable(name) => {
                let (name, value) = variable(word).map_err(anyhow::Error::msg)?;
                self.environment.insert(name, value);
            }
            Some(name) if is_parameter(name) => self.settings.push(word.to_owned()),
            _ => {
                ensure!(self.program.is_none(), "the new side can have only one program");
                let path = std::path::absolute(word)?;
                ensure!(
                    path.is_file(),
                    "there is no such program, and it is neither NAME=VALUE nor BENCHMARK.PARAMETER=VALUE"
                );
                self.program = Some(path);
            }
        }
        Ok(())
    }

    /// Returns the names of the parameters in which the sides differ, `benchmark.parameter`.
    fn varied(&self) -> Vec<String> {
        self.settings.iter().filter_map(|setting| setting.split_once('=')).map(|(name, _)| name.to_owned()).collect()
    }

    /// Checks that the parameters exist and belong to benchmarks that run.
    fn check(&self, request: &Request) -> anyhow::Result<()> {
        let of_cases = request.cases.iter().map(|case| benchmark_of(case).to_owned());
        let names: Vec<String> = request.names.iter().cloned().chain(of_cases).collect();
        check_names(REGISTRY, &names, &self.settings).map_err(|error| match error {
            landau_engine::Error::BadSetting { text, reason } => anyhow::anyhow!("--against {text}: {reason}"),
            other => other.into(),
        })
    }
}

/// Returns whether a word is the name of an environment variable.
fn is_variable(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_part) && !name.as_bytes()[0].is_ascii_digit()
}

/// Returns whether a word has the form of a parameter's name.
fn is_parameter(name: &str) -> bool {
    name.split_once('.').is_some_and(|(benchmark, parameter)| is_variable(benchmark) && is_variable(parameter))
}

/// Parses an environment variable with its value.
fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if is_variable(name) && !value.contains('\0') => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

/// Plans the sides of a run: one, or two that are paired. The host is briefly switched, so that it is described as the
/// new side will find it. `external` switches it if present, otherwise the user's commands do.
pub(crate) fn plan(
    args: &super::Args,
    request: &Request,
    scratch: &Scratch,
    paths: &[PathBuf],
    external: Option<&mut dyn HostSwitch>,
) -> anyhow::Result<(Vec<Plan>, Option<Switch>)> {
    let against = &args.against;
    let (host, clock) = describe_host(args.cpu)?;
    let free = scratch_free_bytes(scratch.path());
    let Some(differences) = against.differences()? else {
        let mut plan = Plan::resolve(REGISTRY, request, host, clock.clock, free)?;
        plan.environment = against.environment();
        if !plan.environment.is_empty() {
            consult(&mut plan, &is_interrupted)?;
        }
        return Ok((vec![plan], None));
    };
    differences.check(request)?;
    let run = format!("{} {}", jiff::Timestamp::now(), std::process::id());
    let mut switch = against.switch().map(|commands| Switch::new(commands, run.clone(), scratch));
    let mut switched = host.clone();
    if let Some(switch) = external.or(switch.as_mut().map(|switch| switch as &mut dyn HostSwitch)) {
        switch.turn_on(&is_interrupted)?;
        switched = describe_host(args.cpu)?.0;
        switch.turn_off()?;
        // Both sides are timed by the same clock.
        switched.clock = host.clock.clone();
    }
    let mut of_new = Request { varied: differences.varied(), ..request.clone() };
    let of_base = of_new.clone();
    of_new.settings.extend(differences.settings.iter().cloned());
    let mut base = Plan::resolve(REGISTRY, &of_base, host, clock.clock, free)?;
    let mut new = Plan::resolve(REGISTRY, &of_new, switched, clock.clock, free)?;
    for (plan, role, other) in [(&mut base, Role::Base, 1), (&mut new, Role::New, 0)] {
        plan.environment = against.environment();
        plan.side = Some(side(against, role, &run, &paths[other]));
    }
    new.environment.extend(differences.environment);
    if let (Some(path), Some(side)) = (&differences.program, &mut new.side) {
        let path = path.to_str().with_context(|| format!("{}: the path is not UTF-8", path.display()))?;
        side.program = Some(Program { path: path.to_owned(), version: String::new(), file: None });
    }
    for plan in [&mut base, &mut new] {
        if !plan.environment.is_empty() || plan.side.as_ref().is_some_and(|side| side.program.is_some()) {
            consult(plan, &is_interrupted)?;
        }
    }
    pair(&mut base, &mut new);
    Ok((vec![base, new], switch))
}

fn is_interrupted() -> bool {
    landau_sys::signal::interrupted().is_some()
}

fn side(args: &Against, role: Role, run: &str, other: &Path) -> Side {
    let of_user = args.against.iter().filter(|word| *word != SAME);
    let of_tuning = args.tuning.iter().flat_map(|tuning| &tuning.differences);
    Side {
        role,
        run: run.to_owned(),
        other: other.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned()),
        differences: of_user.chain(of_tuning).cloned().collect(),
        program: None,
        switch: args.switch(),
        profile: args.tuning.as_ref().map(|tuning| tuning.profile.clone()),
    }
}

/// The suffixes of a record's name.
const SUFFIXES: [&str; 2] = [".landau.ndjson", ".ndjson"];

/// Returns the path of a side's record, with the role before the suffix: `run.base.landau.ndjson`.
pub(crate) fn path_of(output: &Path, role: Role) -> PathBuf {
    with_word(output, role.name())
}

/// Returns the path with a word before the suffix: `run.alone-x.landau.ndjson`.
pub(crate) fn with_word(output: &Path, word: &str) -> PathBuf {
    let name = output.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let (stem, suffix) = split(&name);
    output.with_file_name(format!("{stem}.{word}{suffix}"))
}

/// Returns the path from which the paths of both sides are derived: the inverse of [`path_of`].
pub(crate) fn common_path(base: &Path) -> PathBuf {
    let name = base.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let (stem, suffix) = split(&name);
    base.with_file_name(format!("{}{suffix}", stem.strip_suffix(".base").unwrap_or(stem)))
}

fn split(name: &str) -> (&str, &str) {
    let found = SUFFIXES.iter().find_map(|suffix| Some((name.strip_suffix(suffix)?, *suffix)));
    found.unwrap_or((name, ""))
}

/// Reads the record of a run, or those of both sides, the base first.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<(PathBuf, Record)>> {
    let record = Record::read(path)?;
    let Some(side) = record.header.side.clone() else { return Ok(vec![(path.to_owned(), record)]) };
    let there = path.with_file_name(&side.other);
    let other = Record::read(&there).with_context(|| {
        format!("{} is one side of a run; cannot read the record of the other side", path.display())
    })?;
    match &other.header.side {
        Some(counterpart) if counterpart.run == side.run && counterpart.role != side.role => {}
        _ => bail!("{} is not the other side of the run in {}", there.display(), path.display()),
    }
    let mut sides = vec![(path.to_owned(), record), (there, other)];
    if side.role == Role::New {
        sides.reverse();
    }
    Ok(sides)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> anyhow::Result<Differences> {
        let against = words.iter().map(|&word| word.to_owned()).collect();
        let found = Against { against, ..Against::default() }.differences()?;
        found.context("no difference")
    }

    #[test]
    fn a_difference_is_known_by_its_form() {
        let found = parsed(&["LD_PRELOAD=/a=b.so", "bind.family=v6", "/bin/sh"]).unwrap();
        assert_eq!(found.environment, BTreeMap::from([("LD_PRELOAD".to_owned(), "/a=b.so".to_owned())]));
        assert_eq!(
            (found.settings, found.program),
            (vec!["bind.family=v6".to_owned()], Some(PathBuf::from("/bin/sh")))
        );
        assert_eq!(parsed(&["same"]).unwrap(), Differences::default());
    }

    #[test]
    fn what_is_no_difference_is_refused() {
        let error = |words: &[&str]| format!("{:#}", parsed(words).unwrap_err());
        assert!(error(&["./no-such-landau"]).contains("there is no such program"), "{}", error(&["./no-such-landau"]));
        assert!(error(&["same", "A=1"]).contains("cannot be combined with another difference"));
        assert!(error(&["/bin/sh", "/bin/sh"]).contains("one program"));
        assert!(error(&["1A=1"]).contains("neither NAME=VALUE"));
        assert!(error(&[""]).contains("--against"));
    }

    #[test]
    fn the_role_comes_before_the_end_of_the_name() {
        for (output, base) in
            [("d/run.landau.ndjson", "d/run.base.landau.ndjson"), ("r", "r.base"), ("x.ndjson", "x.base.ndjson")]
        {
            let path = path_of(Path::new(output), Role::Base);
            assert_eq!((path.to_str().unwrap(), common_path(&path).to_str().unwrap()), (base, output));
        }
    }
}
