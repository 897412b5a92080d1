//! Preemption and page faults of another process, read from `/proc` without opening a file each time.

use crate::process::{Usage, read_at_start};
use crate::system;
use std::fs::{self, File};
use std::os::fd::AsFd;

/// The maximum number of threads of a process that are watched.
const THREADS_MAX: usize = 32;

/// A process whose disturbances are read from time to time.
#[derive(Debug)]
pub struct WatchedProcess {
    /// `/proc/PID/stat`, for the page faults of all threads.
    stat: File,
    /// `/proc/PID/task/TID/status` of each thread, for its involuntary context switches.
    threads: Vec<File>,
}

impl WatchedProcess {
    /// Opens the files of a process and of its present threads. Returns `None` if the system does not have them.
    pub fn open(pid: u32) -> Option<Self> {
        let stat = File::open(format!("/proc/{pid}/stat")).ok()?;
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten().take(THREADS_MAX);
        let threads: Vec<File> = tasks.filter_map(|task| File::open(task.path().join("status")).ok()).collect();
        (!threads.is_empty()).then_some(Self { stat, threads })
    }

    /// Opens a process and all of its descendants.
    pub fn open_tree(pid: u32) -> Vec<Self> {
        system::process_tree(pid).into_iter().filter_map(Self::open).collect()
    }

    /// Returns its disturbances so far. Values that cannot be read, such as those of a thread that has ended, count as
    /// zero.
    pub fn usage(&self) -> Usage {
        let mut buffer = [0_u8; 4096];
        let preempted = self.threads.iter().filter_map(|file| preempted_of(text_of(file, &mut buffer)?)).sum();
        let (faults_minor, faults_major) = text_of(&self.stat, &mut buffer).and_then(faults_of).unwrap_or_default();
        Usage { preempted, faults_minor, faults_major }
    }
}

fn text_of<'b>(file: &File, buffer: &'b mut [u8; 4096]) -> Option<&'b str> {
    let got = read_at_start(file.as_fd(), buffer).ok()?;
    std::str::from_utf8(&buffer[..got]).ok()
}

/// Returns the involuntary context switches from the text of a thread's `status`.
fn preempted_of(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// Returns the minor and major page faults from the text of a process's `stat`.
fn faults_of(stat: &str) -> Option<(u64, u64)> {
    // The name of the program, in parentheses, may contain anything; fields are counted after it.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(7);
    let minor = fields.next()?.parse().ok()?;
    Some((minor, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_beside_a_strange_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 230 11 4 5 6 7 8 9";
        assert_eq!(faults_of(stat), Some((230, 4)));
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t41\n";
        assert_eq!(preempted_of(status), Some(41));
        assert_eq!((faults_of(""), preempted_of("")), (None, None));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_faulted() {
        let own = WatchedProcess::open(std::process::id()).unwrap();
        let before = own.usage().faults_minor;
        let taken = std::hint::black_box(vec![1_u8; 8 << 20]);
        assert!(own.usage().faults_minor > before, "{}", taken.len());
        assert!(WatchedProcess::open(u32::MAX).is_none());
    }
}
