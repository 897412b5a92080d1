//! Interference with a pass: preemption and page faults of the worker and of the other processes that its benchmark
//! measures, and the time that the hypervisor stole from their processors.

use landau_sys::process::{Usage, read_at_start, usage};
use landau_sys::system;
use landau_sys::watched::WatchedProcess;
use std::fs::File;
use std::os::fd::AsFd;

/// The interference since the last reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Disturbances of the worker.
    pub(crate) own: Usage,
    /// Disturbances of the other measured processes.
    pub(crate) others: Usage,
}

/// The counters of a pass.
#[derive(Debug)]
pub(crate) struct Interference {
    others: Vec<WatchedProcess>,
    last: Reading,
    steal: Steal,
}

/// The stolen time of the measured processors.
#[derive(Debug)]
struct Steal {
    /// `/proc/stat`.
    stat: Option<File>,
    buffer: Vec<u8>,
    /// All processors if empty.
    processors: Vec<u32>,
    centiseconds: u64,
}

impl Interference {
    /// Watches the worker, which is pinned to that processor or to none.
    pub(crate) fn new(processor: Option<u32>) -> Self {
        let stat = File::open("/proc/stat").ok();
        // The lines of the processors come first; what follows them is not read.
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let length = text.find("\nintr").map_or(256, |end| end + 256);
        let steal =
            Steal { stat, buffer: vec![0; length], processors: processor.into_iter().collect(), centiseconds: 0 };
        Self { others: Vec::new(), last: Reading::default(), steal }
    }

    /// Watches these processes and their descendants too. Their processors count if each is pinned to one.
    pub(crate) fn watch(&mut self, pids: &[u32]) {
        for &pid in pids {
            self.others.extend(WatchedProcess::open_tree(pid));
            let Some(&[processor]) = system::processors_of(pid).as_deref() else {
                self.steal.processors.clear();
                continue;
            };
            if !self.steal.processors.is_empty() && !self.steal.processors.contains(&processor) {
                self.steal.processors.push(processor);
            }
        }
    }

    /// Returns whether other processes are watched.
    pub(crate) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Starts all counts.
    pub(crate) fn begin(&mut self) {
        self.stolen();
        self.restart();
    }

    /// Restarts the counts, except that of the stolen time.
    pub(crate) fn restart(&mut self) {
        self.last = self.read();
    }

    /// Returns the interference since the last [`Self::restart`].
    pub(crate) fn since_restart(&self) -> Reading {
        let now = self.read();
        let since = |now: Usage, last: Usage| Usage {
            preempted: now.preempted.saturating_sub(last.preempted),
            faults_minor: now.faults_minor.saturating_sub(last.faults_minor),
            faults_major: now.faults_major.saturating_sub(last.faults_major),
        };
        Reading { own: since(now.own, self.last.own), others: since(now.others, self.last.others) }
    }

    fn read(&self) -> Reading {
        let add = |sum: Usage, one: Usage| Usage {
            preempted: sum.preempted + one.preempted,
            faults_minor: sum.faults_minor + one.faults_minor,
            faults_major: sum.faults_major + one.faults_major,
        };
        Reading { own: usage(), others: self.others.iter().map(WatchedProcess::usage).fold(Usage::default(), add) }
    }

    /// Returns the time stolen since this was last called, in hundredths of a second.
    pub(crate) fn stolen(&mut self) -> u64 {
        let steal = &mut self.steal;
        let now = steal.read().unwrap_or(steal.centiseconds);
        let stolen = now.saturating_sub(steal.centiseconds);
        steal.centiseconds = now;
        stolen
    }
}

impl Steal {
    fn read(&mut self) -> Option<u64> {
        let got = read_at_start(self.stat.as_ref()?.as_fd(), &mut self.buffer).ok()?;
        // A character may be cut at the end of the buffer; the lines of the processors are ASCII.
        let text = String::from_utf8_lossy(&self.buffer[..got]);
        system::steal_centiseconds_of(&text, &self.processors)
    }
}
