//! One kernel measured: a machine is made for it, its record is written down while it runs, and if it stops before its
//! time, it is started again to see whether it stops at the same place.

use crate::error::{Error, io};
use crate::job::{Job, Message};
use crate::kernel::Kernel;
use crate::machine::{Bounds, Ended, Ending, attend};
use crate::platform::{Machine, Platform, Terminal};
use crate::progress::Progress;
use crate::watch::Watch;
use crate::{pack, sysctl};
use landau_engine::StepWindows;
use landau_record::schema::{Crash, CrashKind, End, Header, Lab, Line, Note, Outcome, PassEnd};
use landau_record::{SCHEMA_VERSION, Writer};
use std::path::Path;

/// How many of the console's last lines go into a record, at least.
const LAST_WORDS: usize = 40;

/// How many lines before a panic's own go with it: the oops that led there.
const BEFORE_PANIC: usize = 20;

/// What is measured and how.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// How the machine runs.
    pub platform: Platform,
    /// What the guest does.
    pub job: &'a Job,
    /// The program that becomes the guest's init: this one.
    pub program: &'a Path,
    /// A folder for the initramfs, this kernel's own.
    pub folder: &'a Path,
    /// Who logs in where it is a whole system.
    pub terminal: &'a Terminal,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Further words for the kernel.
    pub append: &'a str,
    /// Further words for the emulator.
    pub extra: &'a [String],
    /// What bounds it.
    pub bounds: Bounds,
    /// When it began, RFC 3339: the guest's own clock is made up.
    pub started: &'a str,
    /// The command line.
    pub words: &'a [String],
}

/// What came of it.
#[derive(Debug)]
pub struct Measured {
    /// How the machine ended.
    pub how: Ending,
    /// The record's last line; the caller puts the figures before it. None where the guest measured nothing at all.
    pub end: Option<End>,
    /// The console's last lines.
    pub console: Vec<String>,
    /// The kernel's symbols, where they were asked for.
    pub symbols: Option<String>,
    /// Why the guest could not measure, in its own words.
    pub failed: Option<String>,
    /// The crash as the record has it.
    pub crash: Option<Crash>,
}

/// What one boot left.
struct Boot {
    ended: Ended,
    done: Option<End>,
    symbols: Option<String>,
    failed: Option<String>,
    progress: Progress,
}

/// Boots a kernel and writes what its guest measures to a record, up to where it ended.
pub fn measure(
    order: &Order,
    writer: &mut Writer,
    interrupted: &dyn Fn() -> bool,
    watch: &dyn Watch,
) -> Result<Measured, Error> {
    let lab = describe(order)?;
    let mut keep = |line: &Line| -> Result<(), Error> {
        writer.append(line)?;
        if matches!(line, Line::Host(_)) {
            writer.append(&Line::Lab(Box::new(lab.clone())))?;
        }
        writer.flush()?;
        Ok(())
    };
    let outside = || sysctl::values(order.job.sysctls.keys());
    let before = outside();
    let boot = boot(order, order.job, interrupted, watch, &mut keep)?;
    if order.platform == Platform::Netns && outside() != before {
        // The list of what a network has to itself would be wrong on this kernel: that must not go unnoticed.
        return Err(Error::Guest(format!("settings of the host changed meanwhile; they were {before:?}")));
    }
    for what in &boot.ended.broken {
        keep(&Line::Note(Note { text: format!("the serial line broke a message: {what}") }))?;
    }
    let mut crash = None;
    let end = match (&boot.ended.how, boot.done) {
        (Ending::Done, done) => done,
        _ if !boot.progress.has_plan() => None,
        (Ending::Interrupted, _) => Some(unfinished("interrupted")),
        (how, _) => {
            let found = again(order, &boot.progress, how, &boot.ended.console, interrupted, watch, &mut keep)?;
            keep(&Line::Crash(found.clone()))?;
            crash = Some(found);
            Some(unfinished("crashed"))
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

fn unfinished(outcome: &str) -> End {
    End { outcome: outcome.to_owned(), line_count: 0, elapsed_ms: 0 }
}

/// The machine as the record tells it.
fn describe(order: &Order) -> Result<Lab, Error> {
    order.platform.describe(&machine(order, &order.folder.join("initramfs.cpio")))
}

fn machine<'a>(order: &'a Order, initramfs: &'a Path) -> Machine<'a> {
    Machine {
        kernel: order.kernel,
        initramfs,
        program: order.program,
        folder: order.folder,
        terminal: order.terminal,
        memory_mib: order.memory_mib,
        append: order.append,
        extra: order.extra,
    }
}

/// One start of the machine, from its initramfs to its end.
fn boot(
    order: &Order,
    job: &Job,
    interrupted: &dyn Fn() -> bool,
    watch: &dyn Watch,
    keep: &mut dyn FnMut(&Line) -> Result<(), Error>,
) -> Result<Boot, Error> {
    let initramfs = order.folder.join("initramfs.cpio");
    let machine = machine(order, &initramfs);
    let job = order.platform.job(job, &machine);
    if order.platform.wants_initramfs(&machine) {
        std::fs::write(&initramfs, pack::initramfs(order.program, &job)?)
            .map_err(|source| io("write", &initramfs, source))?;
    }
    let start = order.platform.start(&machine, &job)?;
    let (mut done, mut symbols, mut failed, mut progress) = (None, None, None, Progress::default());
    let mut take = |message: Message| -> Result<(), Error> {
        match message {
            Message::Up => watch.up(order.kernel),
            Message::Lines(lines) => {
                for text in &lines {
                    let line = line_of(text, order)?;
                    keep(&line)?;
                    progress.note(&line);
                    watch.line(order.kernel, &line);
                }
            }
            Message::Symbols(text) => symbols = Some(text),
            Message::Done { outcome, elapsed_ms } => done = Some(End { outcome, line_count: 0, elapsed_ms }),
            Message::Failed(reason) => failed = Some(reason),
        }
        Ok(())
    };
    let ended = attend(start, &order.bounds, interrupted, &mut take)?;
    Ok(Boot { ended, done, symbols, failed, progress })
}

/// A line of the guest; its header says when and by which words the run was started on the host.
fn line_of(text: &str, order: &Order) -> Result<Line, Error> {
    let line: Line = serde_json::from_str(text)
        .map_err(|error| Error::Guest(format!("the guest wrote what is no line of a record: {error}")))?;
    Ok(match line {
        Line::Header(header) => {
            let (started, command) = (order.started.to_owned(), order.words.to_vec());
            Line::Header(Header { schema: SCHEMA_VERSION, started, command, ..header })
        }
        other => other,
    })
}

/// Starts a machine that stopped once more, with every step near the place told at once. What the second start adds
/// to the pass that was under way goes into the record if the platform repeats itself exactly: then it is the same pass.
fn again(
    order: &Order,
    first: &Progress,
    how: &Ending,
    console: &[String],
    interrupted: &dyn Fn() -> bool,
    watch: &dyn Watch,
    keep: &mut dyn FnMut(&Line) -> Result<(), Error>,
) -> Result<Crash, Error> {
    let mut places = vec![first.last_n()];
    let mut same = None;
    if let (Some(pass), Some(last)) = (first.pass(), first.last_n())
        && !interrupted()
    {
        watch.again(order.kernel, &first.place());
        let job = Job { step_windows: Some(StepWindows { pass, from: last }), ..order.job.clone() };
        let mut behind = Vec::new();
        let mut gather = |line: &Line| -> Result<(), Error> {
            if let Line::Chunk(chunk) = line
                && chunk.pass == pass
                && chunk.stride > 0
                && u64::from(chunk.first) > last
            {
                behind.push(line.clone());
            }
            Ok(())
        };
        let second = boot(order, &job, interrupted, watch, &mut gather)?;
        let is_same = second.progress.pass() == Some(pass)
            && std::mem::discriminant(&second.ended.how) == std::mem::discriminant(how)
            && second.progress.last_n() >= Some(last);
        // The first start may have taken up to a window of steps more than it could tell.
        same = Some(is_same);
        places.push(second.progress.last_n());
        if is_same && order.platform.is_exact() {
            behind.iter().try_for_each(&mut *keep)?;
        }
    }
    let last_n = places.iter().flatten().copied().max();
    if let Some(pass) = first.pass() {
        keep(&Line::PassEnd(PassEnd {
            pass,
            outcome: Outcome::Crashed,
            steps: last_n.unwrap_or(0),
            elapsed_ms: 0,
            limit: None,
            error: None,
            facts: landau_record::schema::Facts::new(),
        }))?;
    }
    let (crash, meaning) = told(how, order);
    Ok(Crash {
        pass: first.pass(),
        crash,
        last_n,
        console: last_words(console).to_vec(),
        boots: places.len() as u32,
        same_place: same,
        every_last_n: places.into_iter().flatten().collect(),
        meaning,
    })
}

/// The console's last words: a panic's own line is among them, however long the trace that follows it.
fn last_words(console: &[String]) -> &[String] {
    let panic = console.iter().position(|line| line.contains("Kernel panic"));
    let tail = console.len().saturating_sub(LAST_WORDS);
    &console[panic.map_or(tail, |line| tail.min(line.saturating_sub(BEFORE_PANIC)))..]
}

/// The kind of a stop, and a sentence about it.
pub(crate) fn told(how: &Ending, order: &Order) -> (CrashKind, String) {
    let bounds = &order.bounds;
    match how {
        Ending::Panic(reason) => (CrashKind::Panic, format!("the kernel panicked: {reason}")),
        Ending::Silent => (CrashKind::Hang, format!("nothing was heard for {} s", bounds.silence.as_secs())),
        Ending::NeverUp => (CrashKind::Hang, format!("the guest did not come up within {} s", bounds.start.as_secs())),
        Ending::Overtime => (CrashKind::Hang, format!("it was not done within {} s", bounds.whole.as_secs())),
        Ending::Gone(words) => (CrashKind::Exit, format!("the machine ended without a word: {words}")),
        Ending::Done | Ending::Interrupted => (CrashKind::Other, "it was ended".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that prints its call trace behind the panic's line once pushed that line out of the record.
    #[test]
    fn the_line_of_a_panic_is_kept_however_long_its_trace() {
        let mut console: Vec<String> = (0..60).map(|line| format!("booting {line}")).collect();
        assert_eq!(last_words(&console).first().map(String::as_str), Some("booting 20"));
        console.push("[   21.6] Kernel panic - not syncing: sysrq triggered crash".to_owned());
        console.extend((0..90).map(|line| format!("trace {line}")));
        let kept = last_words(&console);
        assert_eq!(kept.len(), BEFORE_PANIC + 1 + 90);
        assert!(kept[BEFORE_PANIC].contains("Kernel panic"));
        assert!(last_words(&[]).is_empty());
    }
}
