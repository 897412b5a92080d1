//! Processors that do not halt while somebody waits on them.
//!
//! A processor with nothing to do halts, and to wake it costs more the longer it was to sleep; in a virtual machine the
//! host takes it away and has to bring it back, which is tens of microseconds and follows a rhythm of its own. Both
//! look like growth, or hide it (METHODOLOGY.md, "Event loops, servers and disks"). So a program of the lowest class
//! (`SCHED_IDLE`) spins on each of the processors concerned. It gives way to whoever wakes, at once; what is left of a
//! wake-up is the kernel's own work, which is the same however long the wait was.
//!
//! It is a process of its own, in the worker's group, and ends with it.

use landau_sys::process::{self, OwnedChild};
use landau_sys::system;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// The word that makes this program one that spins; the processor follows. It is not for users.
const ARGUMENT: &str = "__awake";

/// Spins until it is killed, if the program was started for that: the exit status, where it cannot.
pub fn main() -> Option<u8> {
    let mut words = std::env::args().skip(1);
    if words.next().is_none_or(|word| word != ARGUMENT) {
        return None;
    }
    let Some(processor) = words.next().and_then(|word| word.parse().ok()) else { return Some(2) };
    // To spin where one could be in the way is worse than not to spin.
    if system::pin(&[processor]).and_then(|()| process::set_idle_priority()).is_err() {
        return Some(1);
    }
    // Whoever started it waits for this.
    if std::io::stdout().write_all(b".").and_then(|()| std::io::stdout().flush()).is_err() {
        return Some(1);
    }
    loop {
        for _ in 0..1_000 {
            std::hint::spin_loop();
        }
    }
}

/// Processors that are kept awake until this is dropped.
#[derive(Debug)]
pub(crate) struct Awake {
    children: Vec<OwnedChild>,
    processors: Vec<u32>,
}

impl Awake {
    /// Keeps these from halting, where the system lets it.
    pub(crate) fn keep(mut processors: Vec<u32>) -> Self {
        processors.sort_unstable();
        processors.dedup();
        let children = processors.iter().filter_map(|processor| {
            let mut command = Command::new(process::this_program().ok()?);
            command.args([ARGUMENT, &processor.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
            let mut child = OwnedChild::spawn(command.stdout(Stdio::piped())).ok()?;
            // It ends without a word where it may not spin, and the facts will say so.
            let _ = child.stdout.as_mut()?.read(&mut [0]);
            Some(child)
        });
        Self { children: children.collect(), processors }
    }

    /// What came of it.
    pub(crate) fn fact(&mut self) -> String {
        let spins = |child: &mut OwnedChild| matches!(child.try_wait(), Ok(None));
        if self.processors.is_empty() || self.children.len() < self.processors.len() {
            return "as the system has it".to_owned();
        }
        if !self.children.iter_mut().all(spins) {
            return "as the system has it: nothing may spin at the lowest class".to_owned();
        }
        let names: Vec<String> = self.processors.iter().map(u32::to_string).collect();
        format!("kept awake by a process of the lowest class on each of {}", names.join(", "))
    }
}
