//! Measures one kernel: starts a machine for it, writes its record while it runs, and if it stops early, starts it
//! again to see whether it stops at the same step.

use crate::error::{Error, io};
use crate::job::{Job, Message};
use crate::kernel::Kernel;
use crate::launch::{Ending, Timeouts};
use crate::machine::{Login, Machine};
use crate::observer::KernelObserver;
use crate::platform::Platform;
use crate::progress::Progress;
use crate::supervise::{Ended, supervise};
use crate::{pack, sysctl};
use landau_engine::{StepWindows, WINDOW_MAX};
use landau_record::schema::{
    Crash, CrashKind, End, EndOutcome, Facts, Header, Lab, Line, Note, Outcome, PassEnd, Unit,
};
use landau_record::{SCHEMA_VERSION, Writer};
use std::mem::discriminant;
use std::path::Path;
use std::time::{Duration, Instant};

/// The minimum number of the console's last lines that are recorded for a crash.
const CONSOLE_LINES: usize = 40;

/// The number of lines that are recorded before the line of a panic: the oops that led to it.
const LINES_BEFORE_PANIC: usize = 20;

/// A run under one kernel: what to measure, and how.
#[derive(Debug, Clone, Copy)]
pub struct RunSpec<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The platform that runs it.
    pub platform: &'static dyn Platform,
    /// The job of the guest.
    pub job: &'a Job,
    /// The program that measures, usually the running one.
    pub program: &'a Path,
    /// A directory for the files of this machine.
    pub folder: &'a Path,
    /// How to log in on a disk image.
    pub login: &'a Login,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Additional arguments for the kernel's command line.
    pub append: &'a str,
    /// Additional arguments for the emulator.
    pub emulator_arguments: &'a [String],
    /// The guest's time limits.
    pub timeouts: Timeouts,
    /// The start of the run (RFC 3339), because the guest's clock does not know the date.
    pub started: &'a str,
    /// The command line of the run.
    pub command: &'a [String],
}

impl RunSpec<'_> {
    fn initramfs(&self) -> std::path::PathBuf {
        self.folder.join("initramfs.cpio")
    }

    fn machine<'b>(&'b self, initramfs: &'b Path) -> Machine<'b> {
        Machine {
            kernel: self.kernel,
            initramfs,
            program: self.program,
            folder: self.folder,
            login: self.login,
            memory_mib: self.memory_mib,
            append: self.append,
            emulator_arguments: self.emulator_arguments,
        }
    }

    /// Returns the job as this platform's guest gets it.
    fn adapted(&self, job: &Job, machine: &Machine) -> Job {
        let mut job = job.clone();
        self.platform.adapt(&mut job, machine);
        job
    }
}

/// The result of [`measure`].
#[derive(Debug)]
pub struct Measured {
    /// How the guest ended.
    pub how: Ending,
    /// The record's last line, before which the caller writes the results. `None` if nothing was measured.
    pub end: Option<End>,
    /// The console's last lines.
    pub console: Vec<String>,
    /// The kernel's symbols, if the job asked for them.
    pub symbols: Option<String>,
    /// Why the guest could not measure, in its own words.
    pub failed: Option<String>,
    /// The crash as recorded.
    pub crash: Option<Crash>,
}

/// The result of one boot.
struct Boot {
    ended: Ended,
    done: Option<End>,
    symbols: Option<String>,
    failed: Option<String>,
    progress: Progress,
}

/// The place at which a boot stopped, and how.
#[derive(Debug, Clone, Copy)]
struct Stopped<'a> {
    pass: Option<u32>,
    last_n: Option<u64>,
    how: &'a Ending,
}

impl<'a> Stopped<'a> {
    fn of(progress: &Progress, how: &'a Ending) -> Self {
        Self { pass: progress.pass(), last_n: progress.last_n(), how }
    }

    /// Returns whether this second boot stopped where the first one did. The first one may have done steps that it
    /// could not report.
    fn is_where(&self, first: &Self, guest: Guest) -> bool {
        let (Some(last), Some(again)) = (first.last_n, self.last_n) else { return false };
        let is_near = again >= last && (!guest.reports_windows || again <= last + u64::from(WINDOW_MAX));
        self.pass == first.pass && discriminant(self.how) == discriminant(first.how) && is_near
    }
}

/// The properties of a platform's guests.
#[derive(Debug, Clone, Copy)]
struct Guest {
    /// Whether they repeat a run exactly.
    repeats: bool,
    /// Whether they report each window before the next one, so that at most one is missing when they stop. On several
    /// processors they report at most twice a second.
    reports_windows: bool,
}

impl Guest {
    fn of(platform: &dyn Platform) -> Self {
        // A machine that the lab boots has one processor.
        Self { repeats: platform.unit() == Unit::Instructions, reports_windows: platform.boots() }
    }
}

/// The place of a crash, as one or two boots show it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// The last n with a sample in the record.
    last_n: Option<u64>,
    /// The number of boots that stopped on their own.
    boots: u32,
    same_place: Option<bool>,
    every_last_n: Vec<u64>,
    /// Whether the samples of the second boot continue the pass in the record.
    is_continued: bool,
}

impl Place {
    /// Returns the place. A second boot that the user or the time limit ended shows nothing.
    fn of(first: Stopped, second: Option<Stopped>, guest: Guest) -> Self {
        let every_last_n = first.last_n.into_iter().collect();
        let alone = Self { last_n: first.last_n, boots: 1, same_place: None, every_last_n, is_continued: false };
        let Some(second) = second.filter(|one| !matches!(one.how, Ending::Interrupted | Ending::Overtime)) else {
            return alone;
        };
        let is_same = second.is_where(&first, guest);
        let is_continued = is_same && guest.repeats;
        Self {
            last_n: if is_continued { second.last_n } else { first.last_n },
            boots: 2,
            same_place: Some(is_same),
            every_last_n: first.last_n.into_iter().chain(second.last_n).collect(),
            is_continued,
        }
    }
}

/// Boots a kernel and writes what its guest measures to a record, up to where it ended.
pub fn measure(
    spec: &RunSpec,
    writer: &mut Writer,
    interrupted: &dyn Fn() -> bool,
    observer: &dyn KernelObserver,
) -> Result<Measured, Error> {
    let initramfs = spec.initramfs();
    let machine = spec.machine(&initramfs);
    let lab: Lab = spec.platform.describe(&machine)?;
    let mut append = |line: &Line| -> Result<(), Error> {
        writer.append(line)?;
        if matches!(line, Line::Host(_)) {
            writer.append(&Line::Lab(Box::new(lab.clone())))?;
        }
        writer.flush()?;
        Ok(())
    };
    let host_settings = || sysctl::values(spec.job.sysctls.keys());
    let before = host_settings();
    let start = Instant::now();
    let boot = boot(spec, spec.job, interrupted, observer, &mut append)?;
    if spec.adapted(spec.job, &machine).own_network && host_settings() != before {
        // A network namespace should have kept them apart, so the list of its sysctls is wrong for this kernel.
        return Err(Error::Guest(format!("sysctls of the host changed during the run; they were {before:?}")));
    }
    for what in &boot.ended.corrupt {
        append(&note(format!("a message on the serial line was corrupt: {what}")))?;
    }
    let mut crash = None;
    let end = match (&boot.ended.how, &boot.failed) {
        (Ending::Done, _) => boot.done,
        _ if !boot.progress.has_plan() => None,
        (Ending::Interrupted, _) => Some(unfinished(EndOutcome::Interrupted)),
        // The guest has given the reason why it ended. The kernel did not stop, so another start would show nothing
        // about it.
        (_, Some(reason)) => {
            if let Some(pass) = boot.progress.pass() {
                append(&ended_pass(pass, Outcome::Failed, boot.progress.last_n(), Some(reason.clone())))?;
            }
            append(&note(format!("the guest could not continue: {reason}")))?;
            Some(unfinished(EndOutcome::Failed))
        }
        (how, None) => {
            let left = spec.timeouts.total.saturating_sub(start.elapsed());
            let again = RunSpec { timeouts: Timeouts { total: left, ..spec.timeouts }, ..*spec };
            let place = restart(&again, &boot.progress, how, interrupted, observer, &mut append)?;
            if let Some(pass) = boot.progress.pass() {
                append(&ended_pass(pass, Outcome::Crashed, place.last_n, None))?;
            }
            let found = crash_at(place, boot.progress.pass(), how, &spec.timeouts, &boot.ended.console);
            append(&Line::Crash(found.clone()))?;
            crash = Some(found);
            Some(unfinished(EndOutcome::Crashed))
        }
    };
    writer.sync()?;
    Ok(Measured {
        how: boot.ended.how,
        end,
        console: boot.ended.console,
        symbols: boot.symbols,
        failed: boot.failed,
        crash,
    })
}

fn unfinished(outcome: EndOutcome) -> End {
    End { outcome, line_count: 0, elapsed_ms: 0 }
}

fn note(text: String) -> Line {
    Line::Note(Note { text })
}

/// Returns the last line of a pass that the guest did not end.
fn ended_pass(pass: u32, outcome: Outcome, last_n: Option<u64>, error: Option<String>) -> Line {
    let steps = last_n.unwrap_or(0);
    Line::PassEnd(PassEnd { pass, outcome, steps, elapsed_ms: 0, limit: None, error, facts: Facts::new() })
}

/// Starts the machine once, and waits until it ends.
fn boot(
    spec: &RunSpec,
    job: &Job,
    interrupted: &dyn Fn() -> bool,
    observer: &dyn KernelObserver,
    append: &mut dyn FnMut(&Line) -> Result<(), Error>,
) -> Result<Boot, Error> {
    let initramfs = spec.initramfs();
    let machine = spec.machine(&initramfs);
    let job = spec.adapted(job, &machine);
    if spec.platform.needs_initramfs(&machine) {
        std::fs::write(&initramfs, pack::initramfs(spec.program, &job)?)
            .map_err(|source| io("write", &initramfs, source))?;
    }
    let launch = spec.platform.launch(&machine, &job)?;
    let (mut done, mut symbols, mut failed, mut progress) = (None, None, None, Progress::default());
    let mut take = |message: Message| -> Result<(), Error> {
        match message {
            Message::Up => observer.up(spec.kernel),
            Message::Lines(lines) => {
                for text in &lines {
                    let line = parse_line(text, spec)?;
                    append(&line)?;
                    progress.update(&line);
                    observer.line(spec.kernel, &line);
                }
            }
            Message::Symbols(text) => symbols = Some(text),
            Message::Done { outcome, elapsed_ms } => done = Some(End { outcome, line_count: 0, elapsed_ms }),
            Message::Failed(reason) => failed = Some(reason),
        }
        Ok(())
    };
    let ended = supervise(launch, &spec.timeouts, interrupted, &mut take)?;
    Ok(Boot { ended, done, symbols, failed, progress })
}

/// Parses a line of the guest's record. The header gets the start and the command line of the host.
fn parse_line(text: &str, spec: &RunSpec) -> Result<Line, Error> {
    let line: Line = serde_json::from_str(text)
        .map_err(|error| Error::Guest(format!("the guest sent an invalid line of a record: {error}")))?;
    Ok(match line {
        Line::Header(header) => {
            let (started, command) = (spec.started.to_owned(), spec.command.to_vec());
            Line::Header(Header { schema: SCHEMA_VERSION, started, command, ..header })
        }
        other => other,
    })
}

/// Restarts a machine that stopped, with windows of one step near the place where it stopped, and returns that place.
/// If the platform repeats a run exactly, the samples of the second boot continue the interrupted pass, and are added
/// to the record. If the machine cannot be restarted, or its guest cannot measure, a note is added to the record; the
/// findings of the first boot are recorded in any case. A machine that has used up its time is not restarted.
fn restart(
    spec: &RunSpec,
    first: &Progress,
    how: &Ending,
    interrupted: &dyn Fn() -> bool,
    observer: &dyn KernelObserver,
    append: &mut dyn FnMut(&Line) -> Result<(), Error>,
) -> Result<Place, Error> {
    let guest = Guest::of(spec.platform);
    let stopped = Stopped::of(first, how);
    let (Some(pass), Some(last)) = (stopped.pass, stopped.last_n) else {
        return Ok(Place::of(stopped, None, guest));
    };
    if interrupted() || *how == Ending::Overtime || spec.timeouts.total == Duration::ZERO {
        return Ok(Place::of(stopped, None, guest));
    }
    observer.restarted(spec.kernel, &first.place());
    let job = Job { step_windows: Some(StepWindows { pass, from: last }), ..spec.job.clone() };
    let mut further = Vec::new();
    let mut collect = |line: &Line| -> Result<(), Error> {
        if let Line::Chunk(chunk) = line
            && chunk.pass == pass
            && chunk.stride > 0
            && u64::from(chunk.first) > last
        {
            further.push(line.clone());
        }
        Ok(())
    };
    let second = boot(spec, &job, interrupted, observer, &mut collect).map_err(|error| error.with_causes());
    let second = match second.and_then(|second| second.failed.clone().map_or(Ok(second), Err)) {
        Ok(second) => second,
        Err(reason) => {
            append(&note(format!("the machine could not be started again: {reason}")))?;
            return Ok(Place::of(stopped, None, guest));
        }
    };
    if second.ended.how == Ending::Overtime {
        append(&note("the time limit ended the second boot before the step at which it stops was known".to_owned()))?;
    }
    let place = Place::of(stopped, Some(Stopped::of(&second.progress, &second.ended.how)), guest);
    if place.is_continued {
        further.iter().try_for_each(&mut *append)?;
    }
    Ok(place)
}

/// Returns a crash as the record describes it.
fn crash_at(place: Place, pass: Option<u32>, how: &Ending, timeouts: &Timeouts, console: &[String]) -> Crash {
    let (crash, meaning) = crash_of(how, timeouts);
    let Place { last_n, boots, same_place, every_last_n, .. } = place;
    let console = recorded_lines(console).to_vec();
    Crash { pass, crash, last_n, console, boots, same_place, every_last_n, meaning }
}

/// Returns the console's last lines; a panic's own line is among them, however long the trace after it.
fn recorded_lines(console: &[String]) -> &[String] {
    let panic = console.iter().position(|line| line.contains("Kernel panic"));
    let tail = console.len().saturating_sub(CONSOLE_LINES);
    &console[panic.map_or(tail, |line| tail.min(line.saturating_sub(LINES_BEFORE_PANIC)))..]
}

/// Returns the kind of an ending, and a sentence about it.
pub(crate) fn crash_of(how: &Ending, timeouts: &Timeouts) -> (CrashKind, String) {
    match how {
        Ending::Panic(reason) => (CrashKind::Panic, format!("the kernel panicked: {reason}")),
        Ending::Silent => (CrashKind::Hang, format!("the guest sent nothing for {} s", timeouts.silence.as_secs())),
        Ending::NeverUp => (CrashKind::Hang, format!("the guest did not start within {} s", timeouts.start.as_secs())),
        Ending::Overtime => {
            (CrashKind::Hang, format!("the guest did not finish within {} s", timeouts.total.as_secs()))
        }
        Ending::Exited(output) => (CrashKind::Exit, format!("the machine ended without a message: {output}")),
        Ending::Done | Ending::Interrupted => (CrashKind::Other, "the machine was stopped".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Guest = Guest { repeats: true, reports_windows: true };

    fn at(last_n: u64, how: &Ending) -> Stopped<'_> {
        Stopped { pass: Some(0), last_n: Some(last_n), how }
    }

    /// Guards against recording an n without a sample as the last one, if the samples of the second boot are not in the
    /// record.
    #[test]
    fn only_a_boot_whose_samples_are_recorded_moves_the_place() {
        let (panic, hang) = (Ending::Panic("a".to_owned()), Ending::Silent);
        let other_panic = Ending::Panic("b".to_owned());
        for (first, second, repeats, last_n, is_same) in [
            (at(500, &panic), at(700, &other_panic), true, 700, true),
            (at(500, &panic), at(700, &panic), false, 500, true),
            (at(500, &panic), at(500, &panic), true, 500, true),
            (at(500, &panic), at(499, &panic), true, 500, false),
            (at(500, &panic), at(700, &hang), true, 500, false),
            (at(500, &panic), Stopped { pass: Some(1), ..at(700, &panic) }, true, 500, false),
            // The first boot cannot have done more than a window of steps that it did not report.
            (at(500, &panic), at(500 + 640, &panic), true, 1_140, true),
            (at(500, &panic), at(500 + 641, &panic), true, 500, false),
        ] {
            let place = Place::of(first, Some(second), Guest { repeats, ..EXACT });
            assert_eq!((place.last_n, place.same_place), (Some(last_n), Some(is_same)), "{first:?}, {second:?}");
            assert_eq!((place.boots, place.is_continued), (2, is_same && repeats), "{first:?}, {second:?}");
            assert_eq!(place.every_last_n, [first.last_n, second.last_n].map(Option::unwrap_or_default));
        }
        // The guest of a machine with several processors may not have reported thousands of steps.
        let several = Guest { repeats: false, reports_windows: false };
        let place = |again| Place::of(at(500, &panic), Some(at(again, &panic)), several).same_place;
        assert_eq!([place(9_000), place(499)], [Some(true), Some(false)]);
    }

    /// Guards against permanently recording Ctrl-C or a time limit in the second boot as a different place.
    #[test]
    fn a_second_boot_that_was_ended_from_here_shows_nothing() {
        let panic = Ending::Panic("a".to_owned());
        let alone = Place::of(at(500, &panic), None, EXACT);
        assert_eq!((alone.last_n, alone.boots, alone.same_place), (Some(500), 1, None));
        for how in [Ending::Interrupted, Ending::Overtime] {
            assert_eq!(Place::of(at(500, &panic), Some(at(520, &how)), EXACT), alone, "{how:?}");
        }
    }

    /// Guards against a record without the panic's line, which a long call trace once pushed out.
    #[test]
    fn the_panic_line_is_recorded_however_long_its_trace() {
        let mut console: Vec<String> = (0..60).map(|line| format!("booting {line}")).collect();
        assert_eq!(recorded_lines(&console).first().map(String::as_str), Some("booting 20"));
        console.push("[   21.6] Kernel panic - not syncing: sysrq triggered crash".to_owned());
        console.extend((0..90).map(|line| format!("trace {line}")));
        let kept = recorded_lines(&console);
        assert_eq!(kept.len(), LINES_BEFORE_PANIC + 1 + 90);
        assert!(kept[LINES_BEFORE_PANIC].contains("Kernel panic"));
        assert!(recorded_lines(&[]).is_empty());
    }
}
