//! Keeps processors from halting while a benchmark waits on them: `idle=poll`.
//!
//! An idle processor halts, and the cost of its wake-up grows with the depth of its sleep state. A virtual machine's
//! processor is taken away by the host and has to be scheduled again, which costs tens of microseconds and depends on
//! the host. Either can look like growth, or hide it (METHODOLOGY.md, "Event loops, servers and disks"). So a process
//! of the class `SCHED_IDLE`, the lowest, spins on each of the processors. It gives way at once to any process that
//! wakes; what remains of a wake-up is the kernel's own work, which does not depend on how long the wait was.
//!
//! Each of these processes is a child in the worker's process group, and is killed with the worker.

use landau_sys::process::{self, OwnedChild};
use landau_sys::system;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// The first argument of a process that spins; the second is its processor. Not for users.
const ARGUMENT: &str = "__idle-poll";

/// Spins until it is killed, if this process was started for that; returns the exit status if it cannot spin.
pub fn main() -> Option<u8> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().is_none_or(|first| first != ARGUMENT) {
        return None;
    }
    let Some(processor) = arguments.next().and_then(|number| number.parse().ok()) else { return Some(2) };
    // A process of a higher class would compete with the measured processes.
    if system::pin(&[processor]).and_then(|()| process::set_idle_priority()).is_err() {
        return Some(1);
    }
    // The parent waits for this byte.
    if std::io::stdout().write_all(b".").and_then(|()| std::io::stdout().flush()).is_err() {
        return Some(1);
    }
    loop {
        for _ in 0..1_000 {
            std::hint::spin_loop();
        }
    }
}

/// Processes that keep processors busy until this is dropped. A process of the lowest class needs a processor to end,
/// and on a busy machine gets one only after a second. So it returns to the normal class before it is killed.
#[derive(Debug)]
pub(crate) struct IdlePoll {
    children: Vec<OwnedChild>,
    processors: Vec<u32>,
}

impl IdlePoll {
    /// Starts a process on each of these processors, if the system permits it.
    pub(crate) fn start(mut processors: Vec<u32>) -> Self {
        processors.sort_unstable();
        processors.dedup();
        let children = processors.iter().filter_map(|processor| {
            let mut command = Command::new(process::this_program().ok()?);
            command.args([ARGUMENT, &processor.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
            let mut child = OwnedChild::spawn(command.stdout(Stdio::piped())).ok()?;
            // End of file: the process is not permitted to spin. `describe` reports that.
            let _ = child.stdout.as_mut()?.read(&mut [0]);
            Some(child)
        });
        Self { children: children.collect(), processors }
    }

    /// Returns a description of how the processors idle.
    pub(crate) fn describe(&mut self) -> String {
        if self.processors.is_empty() || self.children.len() < self.processors.len() {
            return "the kernel's default".to_owned();
        }
        if !self.children.iter_mut().all(spins) {
            return "the kernel's default; SCHED_IDLE is not permitted".to_owned();
        }
        let numbers: Vec<String> = self.processors.iter().map(u32::to_string).collect();
        format!("kept busy by SCHED_IDLE processes on {}", numbers.join(", "))
    }
}

fn spins(child: &mut OwnedChild) -> bool {
    matches!(child.try_wait(), Ok(None))
}

impl Drop for IdlePoll {
    fn drop(&mut self) {
        // The pid of a child that was reaped may belong to an unrelated process.
        for child in self.children.iter_mut().filter_map(|child| spins(child).then_some(child)) {
            // Without permission to do this, the process ends later.
            let _ = process::set_normal_priority(child.id());
        }
    }
}
