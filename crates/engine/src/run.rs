//! A run from its first line to its last, new or resumed.

use crate::driver::Driver;
use crate::execution::{Execution, Means, Track, finished};
use crate::pass::Workers;
use crate::switch::settle;
use crate::{
    Assessor, Entry, Error, Host, HostSwitch, Observer, Plan, Planned, Profiling, Scratch, Settings, Study, handshake,
    scratch,
};
use landau_record::schema::{Adaptive, Case, Direction, End, Header, Line, Note, Resume};
use landau_record::{Journal, Record, SCHEMA_VERSION};
use landau_sys::system;
use std::collections::BTreeMap;
use std::path::Path;

/// Everything that a run needs in addition to its plans.
pub struct Session<'a> {
    /// The command line, for the record.
    pub command: &'a [String],
    /// The directory for the benchmarks' files.
    pub scratch: &'a Scratch,
    /// Receives the run's events.
    pub observer: &'a mut dyn Observer,
    /// Returns whether the user wants the run to end.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Switches the host for the passes of the new side.
    pub switch: Option<&'a mut dyn HostSwitch>,
    /// Profiles passes of the first side, between the recorded ones.
    pub profiling: Option<Profiling<'a>>,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("command", &self.command).finish_non_exhaustive()
    }
}

/// The record of the passes of a side, and the assessor that judges them.
pub struct Output<'a> {
    /// The record.
    pub writer: &'a mut dyn Journal,
    /// Judges the curves between rounds; without it there are no adaptive passes.
    pub assessor: Option<&'a mut dyn Assessor>,
}

impl std::fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

/// Measures everything in a plan, or in the plans of two sides alternately, and writes a record of each, without the
/// results and the last line. The caller appends the results, then the returned [`End`].
///
/// Two plans must have been paired with [`crate::pair`].
pub fn run(mut sides: Vec<(&Plan, Output<'_>)>, session: Session<'_>) -> Result<End, Error> {
    for (plan, output) in &mut sides {
        let is_measured = plan.cases.iter().any(|planned| planned.entry.measures_folder);
        let folder = session.scratch.path().parent().filter(|_| is_measured);
        write_plan(plan, session.command, folder, output.writer)?;
    }
    execute(sides, session, &[])
}

/// Makes the passes of the sides, except those in their records.
fn execute(sides: Vec<(&Plan, Output<'_>)>, session: Session<'_>, records: &[&Record]) -> Result<End, Error> {
    let Session { scratch, observer, interrupted, mut switch, mut profiling, .. } = session;
    let workers =
        sides.iter().map(|(plan, _)| Workers::new(plan, scratch.path(), profiling.take().map(Profiling::shorter)));
    let mut workers = workers.collect::<Result<Vec<_>, Error>>()?;
    let tracks = sides.into_iter().zip(&mut workers).map(|((plan, output), driver)| {
        let Output { writer, assessor } = output;
        let assessor = assessor.map(|assessor| assessor as &mut dyn Assessor);
        Track { plan, writer, driver: driver as &mut dyn Driver, assessor, next_pass: 0 }
    });
    let of_passes = switch.as_deref_mut().map(|switch| switch as &mut dyn HostSwitch);
    let means = Means { observer, interrupted, switch: of_passes };
    let mut execution = Execution::new(tracks.collect(), means);
    execution.skip_finished(records);
    let end = execution.run();
    match switch {
        Some(switch) => settle(switch, end),
        None => end,
    }
}

/// Writes the lines of a record that precede its first pass; `folder` is the directory whose file system is measured.
pub(crate) fn write_plan(
    plan: &Plan,
    command: &[String],
    folder: Option<&Path>,
    writer: &mut dyn Journal,
) -> Result<(), Error> {
    let mut header = Header {
        schema: SCHEMA_VERSION,
        landau: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_vec(),
        started: jiff::Timestamp::now().to_string(),
        seed: plan.seed,
        study: plan.study.name().to_owned(),
        pass_count: plan.pass_count,
        case_count: plan.cases.len() as u32,
        time_limit_s: plan.time_limit_s,
        is_pass_count_chosen: plan.is_pass_count_chosen,
        adaptive: plan.adaptive,
        environment: plan.environment.clone(),
        side: plan.side.clone(),
        ..Header::default()
    };
    if let Some(folder) = folder {
        header.set_folder(folder);
    }
    writer.append(&Line::Header(header))?;
    writer.append(&Line::Host(Box::new(plan.host.clone())))?;
    for planned in &plan.cases {
        writer.append(&Line::Case(planned.case.clone()))?;
    }
    for skip in &plan.skips {
        writer.append(&Line::Skip(skip.clone()))?;
    }
    for text in &plan.notes {
        writer.append(&Line::Note(Note { text: text.clone() }))?;
    }
    Ok(writer.sync()?)
}

/// The changes that a resumption makes to a run's plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Changes {
    /// The planned passes of each case; none to keep their number.
    pub pass_count: Option<u32>,
    /// Which passes may follow the planned ones; none to keep that.
    pub adaptive: Option<Adaptive>,
    /// The time limit in seconds, counted in full from now; none to keep the run's own.
    pub time_limit_s: Option<u64>,
}

/// Continues a run: measures the passes that its record lacks, or those that the records of its sides lack, and those
/// that `changes` adds.
pub fn resume(
    sides: Vec<(&Record, Output<'_>)>,
    registry: &[Entry],
    changes: Changes,
    session: Session<'_>,
) -> Result<End, Error> {
    let (host, _) = crate::describe_host(crate::Pinning::Free)?;
    let mut plans = Vec::new();
    for (record, _) in &sides {
        let mut plan = plan_of(record, registry, &host, &system::processors())?;
        plan.pass_count = changes.pass_count.unwrap_or(plan.pass_count);
        plan.is_pass_count_chosen |= changes.pass_count.is_some();
        plan.adaptive = changes.adaptive.unwrap_or(plan.adaptive);
        plan.time_limit_s = changes.time_limit_s.or(plan.time_limit_s);
        plans.push(plan);
    }
    let (records, mut outputs): (Vec<&Record>, Vec<Output<'_>>) = sides.into_iter().unzip();
    let finished = finished(&records);
    let needed = plans.iter().map(|plan| plan.record_bytes_left(&finished)).fold(0, u64::saturating_add);
    for (plan, record) in plans.iter().zip(&records) {
        check_free(needed, Path::new(&record.path), "copy the record to another place and resume the copy")?;
        check_program(plan, record, session.interrupted)?;
    }
    for (record, Output { writer, .. }) in records.iter().zip(&mut outputs) {
        writer.append(&Line::Resume(Resume {
            at: jiff::Timestamp::now().to_string(),
            command: session.command.to_vec(),
            torn_bytes: record.torn.as_ref().map_or(0, |torn| torn.bytes),
            pass_count: changes.pass_count,
            adaptive: changes.adaptive,
        }))?;
        // The host of the new side is that of the base after the switch.
        for difference in differences(&records[0].host, &host) {
            writer
                .append(&Line::Note(Note { text: format!("the host changed before the resumption: {difference}") }))?;
        }
        writer.sync()?;
    }
    execute(plans.iter().zip(outputs).collect(), session, &records)
}

/// Checks that the program of a side still measures what it did when the record was made.
fn check_program(plan: &Plan, record: &Record, interrupted: &dyn Fn() -> bool) -> Result<(), Error> {
    if plan.program_path().is_none() {
        return Ok(());
    }
    let no = |reason: String| Err(Error::NotResumable { path: record.path.clone(), reason });
    let mut asked = plan.clone();
    match handshake::consult(&mut asked, interrupted) {
        Err(Error::Program { path, reason }) => {
            return no(format!("{path}, the program that made its passes: {reason}"));
        }
        result => result?,
    }
    if let Some(skip) = asked.skips.get(plan.skips.len()) {
        return no(format!("{}: {}", skip.label, skip.reason));
    }
    let version = |plan: &Plan| plan.side.as_ref()?.program.as_ref().map(|program| program.version.clone());
    if version(&asked) != version(plan) {
        return no("the version of the program that made its passes has changed; start a new run".to_owned());
    }
    Ok(())
}

/// The maximum number of times the clocks are measured until the record's clock is among those that can be used.
const MEASURED_CLOCKS: u32 = 20;

/// Returns the plan of a record's run, for a program that may use these processors.
fn plan_of(record: &Record, registry: &[Entry], host: &Host, processors: &[u32]) -> Result<Plan, Error> {
    let no = |reason: String| Error::NotResumable { path: record.path.clone(), reason };
    if let Some(fault) = &record.fault {
        return Err(no(format!("line {} was altered: {}", fault.line, fault.reason)));
    }
    if let Some(lab) = &record.lab {
        let how = record.continuation(&record.path).unwrap_or_else(|| "start a new run".to_owned());
        return Err(no(format!("the lab made it (platform {}); {how}", lab.platform)));
    }
    if (&host.release, &host.version) != (&record.host.release, &record.host.version) {
        return Err(no(format!("it was made on kernel {}, but this host runs {}", record.host.release, host.release)));
    }
    if !record.is_plan_complete() {
        return Err(no("its plan is incomplete, so nothing was measured; start a new run".to_owned()));
    }
    let mut cases = Vec::new();
    for case in &record.cases {
        let entry = registry.iter().find(|entry| entry.name == case.benchmark);
        let entry = entry.ok_or_else(|| no(format!("this landau has no benchmark `{}`", case.benchmark)))?;
        let missing = || Some(format!("the record has no value of its parameter `{}`", entry.missing(&case.settings)?));
        if let Some(reason) = entry.rejected(&case.settings).or_else(missing) {
            return Err(no(format!("{}: {reason}; start a new run", case.label)));
        }
        let settings = Settings::from_map(case.settings.clone());
        if let Some(reason) = other_phases(entry, &settings, case) {
            return Err(no(format!("{}: {reason}; start a new run", case.label)));
        }
        cases.push(Planned { case: case.clone(), entry: *entry, settings });
    }
    let study = Study::named(&record.header.study);
    if let Some(own) = record.host.pinned_processor.filter(|own| !processors.contains(own)) {
        return Err(no(format!(
            "its workers were pinned to processor {own}, which this program may not use now; start a new run"
        )));
    }
    // The clock is the record's; its rate is measured again, because it may differ from boot to boot. An interruption
    // during the measurement makes the counter's rate look unstable.
    let name = &record.host.clock.name;
    let measured = || landau_sys::clock::candidates().into_iter().find(|one| one.clock.name() == *name);
    let clock = (0..MEASURED_CLOCKS).find_map(|_| measured());
    let clock =
        clock.ok_or_else(|| no(format!("its clock, {name}, cannot be used now; try again, or start a new run")))?;
    Ok(Plan {
        study: study.unwrap_or(Study::Quick),
        pass_count: record.pass_count(),
        is_pass_count_chosen: record.is_pass_count_chosen(),
        adaptive: record.adaptive(),
        seed: record.header.seed,
        time_limit_s: record.header.time_limit_s,
        cases,
        skips: record.skips.clone(),
        host: record.host.clone(),
        clock: clock.clock,
        lockstep: false,
        step_windows: None,
        fault: None,
        notes: Vec::new(),
        environment: record.header.environment.clone(),
        side: record.header.side.clone(),
    })
}

/// Returns how the phases of a case differ from those that this program times. Controller and worker lay out the shared
/// memory by the number of phases, and a chunk of samples continues the samples of the phase with the same name.
fn other_phases(entry: &Entry, settings: &Settings, case: &Case) -> Option<String> {
    let own: Vec<(&str, Direction)> =
        (entry.phases_of)(settings).iter().map(|phase| (phase.name, phase.direction)).collect();
    let held: Vec<(&str, Direction)> = case.phases.iter().map(|phase| (phase.name.as_str(), phase.direction)).collect();
    let words = |phases: &[(&str, Direction)]| {
        let word = |&(name, direction): &(&str, Direction)| match direction {
            Direction::Up => name.to_owned(),
            Direction::Down => format!("{name} (destruction)"),
        };
        if phases.is_empty() { "none".to_owned() } else { phases.iter().map(word).collect::<Vec<_>>().join(", ") }
    };
    (own != held).then(|| format!("this landau times the phases {}; the record has {}", words(&own), words(&held)))
}

/// Returns what has changed on the host since the run began. Each change may distort a curve, so each becomes a note.
fn differences(then: &Host, now: &Host) -> Vec<String> {
    let facts = |host: &Host| {
        let mut facts = BTreeMap::from([
            ("the processor".to_owned(), host.processor.clone()),
            ("the number of processors".to_owned(), host.processor_count.to_string()),
            ("the memory in bytes".to_owned(), host.memory_bytes.to_string()),
        ]);
        facts.extend(host.limits.iter().map(|(name, value)| (name.clone(), value.to_string())));
        facts.extend(host.sysctls.clone());
        facts
    };
    let now = facts(now);
    let changed = |(name, value): (String, String)| {
        let is = now.get(&name).map_or("unknown", String::as_str);
        (is != value).then(|| format!("{name} was {value} and is now {is}"))
    };
    facts(then).into_iter().filter_map(changed).collect()
}

/// Checks, before anything is measured, that the directory of `path` has space for the complete records of the plans.
pub fn check_space(plans: &[Plan], path: &Path) -> Result<(), Error> {
    let needed = plans.iter().map(Plan::record_bytes).fold(0, u64::saturating_add);
    check_free(needed, path, "choose another place with --output")
}

/// Checks that the directory of `path` has the needed bytes for records; `other` is the alternative to freeing space.
fn check_free(needed: u64, path: &Path, other: &'static str) -> Result<(), Error> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match scratch::free_bytes(folder) {
        Some(free) if free < needed => Err(Error::NoSpace {
            folder: folder.to_owned(),
            needed_mib: (needed >> 20) + 1,
            free_mib: free >> 20,
            other,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::REGISTRY;
    use crate::{Request, Study};
    use landau_sys::clock::Clock;

    /// Returns a record of a run of `fake`.
    fn record() -> Record {
        let request = Request {
            names: vec!["fake".to_owned()],
            cases: Vec::new(),
            study: Study::Quick,
            pass_count: None,
            adaptive: Adaptive::Off,
            settings: Vec::new(),
            varied: Vec::new(),
            seed: 1,
            time_limit_s: None,
        };
        let plan = Plan::resolve(REGISTRY, &request, Host::default(), Clock::Gettime, None).unwrap();
        let header = Header { study: "quick".to_owned(), pass_count: 5, ..Header::default() };
        let mut host = Host::default();
        host.clock.name = "clock_gettime".to_owned();
        Record { header, host, cases: plan.cases.into_iter().map(|one| one.case).collect(), ..Record::default() }
    }

    /// Guards against adding passes to a record that were made with a server on the client's processor, or by another
    /// clock.
    #[test]
    fn a_record_of_another_processor_or_clock_cannot_be_resumed() {
        let reason = |change: fn(&mut Host)| {
            let mut record = record();
            change(&mut record.host);
            plan_of(&record, REGISTRY, &Host::default(), &[0, 1]).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(reason(|host| host.pinned_processor = Some(1)), Ok(()));
        let moved = reason(|host| host.pinned_processor = Some(3)).unwrap_err();
        assert!(moved.contains("pinned to processor 3, which this program may not use now"), "{moved}");
        let clock = reason(|host| host.clock.name = "cntr".to_owned()).unwrap_err();
        assert!(clock.contains("its clock, cntr, cannot be used now"), "{clock}");
    }

    /// Guards against a worker that writes beyond the shared memory, or stores samples of one phase as those of
    /// another.
    #[test]
    fn a_record_with_other_phases_cannot_be_resumed() {
        let held = record();
        assert_eq!(plan_of(&held, REGISTRY, &Host::default(), &[0, 1]).unwrap().cases.len(), held.cases.len());
        let reason = |change: fn(&mut Case)| {
            let mut record = held.clone();
            change(&mut record.cases[1]);
            plan_of(&record, REGISTRY, &Host::default(), &[0, 1]).unwrap_err().to_string()
        };
        let two = reason(|case| {
            let old = case.phases[0].clone();
            case.phases.insert(0, landau_record::schema::Phase { name: "old".to_owned(), ..old });
        });
        let expected = "fake colour=blue: this landau times the phases make; the record has old, make; start a new run";
        assert!(two.ends_with(expected), "{two}");
        let renamed = reason(|case| case.phases[0].name = "old".to_owned());
        assert!(renamed.contains("times the phases make; the record has old;"), "{renamed}");
        let turned = reason(|case| case.phases[0].direction = Direction::Down);
        assert!(turned.contains("times the phases make; the record has make (destruction);"), "{turned}");
        assert!(reason(|case| case.phases.clear()).contains("the record has none;"));
    }
}
