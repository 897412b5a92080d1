//! The worker: a fresh process that runs one pass and nothing else.
//!
//! It reads its order as one line of JSON from standard input, writes its report as one line to standard output, and
//! stores its samples in memory that it shares with the controller. It has one thread unless the benchmark makes more.

use crate::order::{ARGUMENT, CLEAN_UP, Order, Report, SET_UP, WINDOW};
use crate::{Context, Entry, Fault, Progress, Settings, Timer, handshake, lanes};
use landau_sys::clock::Clock;
use landau_sys::limits::{Resource, raise};
use landau_sys::shared::Lanes;
use landau_sys::{descriptor, system};
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::OwnedFd;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// Runs a worker if the program was started as one, and returns its exit status.
///
/// Call it before anything else, while the process has one thread and has opened no descriptors.
pub fn main(registry: &[Entry]) -> Option<u8> {
    let mut words = std::env::args_os().skip(1);
    let word = words.next()?;
    if word == handshake::ARGUMENT {
        // The program that asked sees an exit status and no answer.
        return Some(u8::from(handshake::answer(registry).is_err()));
    }
    if word != ARGUMENT {
        return None;
    }
    Some(match work(registry) {
        Ok(()) => 0,
        Err(reason) => {
            let report = Report { wrong: Some(reason), ..Report::new() };
            u8::from(send(&report).is_err()) + 1
        }
    })
}

fn work(registry: &[Entry]) -> Result<(), String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| format!("cannot read the order: {error}"))?;
    let mut order: Order = serde_json::from_str(&line)
        .map_err(|error| format!("the order is not valid: {error}; only landau itself starts a worker"))?;
    descriptor::close_inherited(order.lanes_fd);
    let entry = registry
        .iter()
        .find(|entry| entry.name == order.benchmark)
        .ok_or_else(|| format!("there is no benchmark `{}`", order.benchmark))?;
    if let Some(processor) = order.processor {
        // The host's description says whether pinning is possible; an unpinned pass still counts.
        let _ = system::pin(&[processor]);
    }
    for resource in [Resource::Descriptors, Resource::Processes] {
        raise(resource).map_err(|error| error.to_string())?;
    }
    let settings = Settings::from_map(std::mem::take(&mut order.settings));
    let phase_count = (entry.phases_of)(&settings).len();
    let capacities = lanes::capacities(phase_count, order.n, entry.tags_calls, order.is_profiled);
    let mut lanes = {
        let fd = descriptor::inherited(order.lanes_fd).map_err(|error| error.to_string())?;
        check_size(&fd, &capacities)?;
        Lanes::attach(&fd, &capacities).map_err(|error| error.to_string())?
    };
    let locked = lanes.prepare();
    let clock = Clock::named(&order.clock, order.ns_per_tick);
    let mut timer = Timer::new(&lanes, clock, phase_count, order.processor, order.seed);
    prepare(&mut timer, &order);
    LazyLock::force(&SET_UP_TOLD);
    let progress = if order.announces.set_up { Progress::to(announce_set_up) } else { Progress::NONE };
    let (scratch, host) = (&order.scratch, &order.host);
    let context = Context { settings: &settings, n: order.n, seed: order.seed, scratch, host, progress };
    let report = (entry.drive)(&context, &mut timer);
    send(&Report { locked, ..report }).map_err(|error| format!("cannot send the report: {error}"))
}

/// Sets up the timer for a profiled pass, announcements, and the options of the lab: lockstep, an injected fault, a
/// window for each step.
fn prepare(timer: &mut Timer, order: &Order) {
    if order.is_profiled {
        timer.store_starts();
    }
    if order.announces.clean_up {
        timer.announce_end(announce_clean_up);
    }
    if order.lockstep {
        timer.pause_after_windows(wait_for_controller);
    }
    match order.fault {
        Some(Fault::Panic(n)) => timer.fail_at(n, system::trigger_panic),
        Some(Fault::Hang(n)) => timer.fail_at(n, || {
            loop {
                std::hint::spin_loop();
            }
        }),
        None => {}
    }
    if let Some(from) = order.step_windows_from {
        timer.use_single_step_windows_from(from);
    }
}

/// Checks that the controller laid out the shared memory as this program does: an access beyond its end would kill the
/// worker by a signal.
fn check_size(fd: &OwnedFd, capacities: &[usize]) -> Result<(), String> {
    let file = fd.try_clone().map(File::from).and_then(|file| file.metadata());
    let shared = file.map_err(|error| format!("cannot read the size of the shared memory: {error}"))?.len();
    let own = Lanes::byte_count(capacities);
    if shared == own {
        return Ok(());
    }
    Err(format!(
        "the controller shares {shared} bytes for the samples of this case, but this worker needs {own}: their \
         versions differ"
    ))
}

/// Notifies the controller that all samples are taken. If the controller is gone, the report will not reach it either.
fn announce_clean_up() {
    let _ = std::io::stdout().lock().write_all(CLEAN_UP.as_bytes());
}

/// The time of the last message to the controller about the set-up; at first, the start of the worker.
static SET_UP_TOLD: LazyLock<Mutex<Instant>> = LazyLock::new(|| Mutex::new(Instant::now()));

/// Notifies the controller that the set-up makes progress, at most once a second: the capacity of the pipe is limited,
/// and the controller need not wake for a short set-up.
fn announce_set_up() {
    let Ok(mut told) = SET_UP_TOLD.lock() else { return };
    if told.elapsed() >= Duration::from_secs(1) {
        *told = Instant::now();
        let _ = std::io::stdout().lock().write_all(SET_UP.as_bytes());
    }
}

/// Waits until the controller has written the window. If the controller is gone, the pass continues: the kernel kills
/// the worker or, on systems without that signal, the worker ends when it writes its report.
fn wait_for_controller() {
    let mut line = String::new();
    if std::io::stdout().lock().write_all(WINDOW.as_bytes()).is_ok() {
        let _ = std::io::stdin().lock().read_line(&mut line);
    }
}

fn send(report: &Report) -> std::io::Result<()> {
    let line = serde_json::to_string(report).map_err(std::io::Error::other)?;
    writeln!(std::io::stdout().lock(), "{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a worker of another version that is killed by SIGBUS, or stores samples where none are read.
    #[test]
    fn shared_memory_of_another_layout_is_refused() {
        let of = |phase_count, tags_calls| lanes::capacities(phase_count, 5_000, tags_calls, false);
        let (_lanes, fd) = Lanes::create(&of(2, false)).unwrap();
        assert_eq!(check_size(&fd, &of(2, false)), Ok(()));
        for other in [of(1, false), of(3, false), of(2, true)] {
            assert!(check_size(&fd, &other).unwrap_err().contains("their versions differ"));
        }
    }
}
