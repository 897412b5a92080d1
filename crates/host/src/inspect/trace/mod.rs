//! Traces of a server's tasks: their system calls, and the connections of these calls.
//!
//! A [`Trace`] does not depend on how it was collected: by programs in the kernel ([`probes`]), or by stops of the
//! server's threads ([`stops`]).
//!
//! A task visits a connection when one of its calls receives from the connection or sends to it. Architectures differ
//! in which tasks visit which connections, and in which order:
//!
//! - a task *returns* to a connection when it visited another one in between;
//! - it *overlaps* two when it visits a second one for the first time while the previous one is still open;
//! - a connection *moves* when another thread of the process visits it, and is *handed over* when another process does.

pub(super) mod btf;
mod descriptors;
mod ledger;
pub(super) mod probes;
mod program;
pub(super) mod stops;

use super::account::Stopped;
use super::calls::About;
use super::sample::Process;
use std::collections::BTreeMap;

/// The activity of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) process: u32,
    /// The key under which its calls are counted: its process or, with [`BORN`], the process of the ancestor that
    /// existed first.
    pub(super) group: u32,
    /// The process of the task that created it.
    pub(super) parent: u32,
    pub(super) flags: u32,
    /// Connections that no task had visited before.
    pub(super) connections: u32,
    pub(super) returns: u32,
    pub(super) overlaps: u32,
    pub(super) moves: u32,
    pub(super) handovers: u32,
    /// Calls that accept from a listening socket of the server.
    pub(super) accepts: u32,
    /// Calls that wait for events of several descriptors.
    pub(super) waits: u32,
    pub(super) receives: u32,
    pub(super) sends: u32,
    /// Calls that send to something other than a connection of the server: a file, a pipe, another socket.
    pub(super) elsewhere: u32,
    pub(super) born_ns: u64,
    pub(super) ended_ns: u64,
}

/// The task was created during the window, by a fork or as a thread.
pub(super) const IS_BORN: u32 = 1;
/// It executed a program.
pub(super) const IS_EXECUTED: u32 = 2;
/// It ended.
pub(super) const IS_ENDED: u32 = 4;
/// It is a thread of the process that created it.
pub(super) const IS_THREAD: u32 = 8;

/// The bit that marks the group of processes created during the window; the other bits are the group of their ancestor.
pub(super) const BORN: u32 = 1 << 31;

impl Task {
    pub(super) fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns how often it switched to a connection.
    pub(super) fn visits(&self) -> u32 {
        self.connections + self.returns + self.moves + self.handovers
    }

    /// Returns whether it served several connections at the same time.
    pub(super) fn interleaves(&self) -> bool {
        self.returns + self.overlaps > 0
    }
}

/// The observations of a window.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    /// The tasks, by thread identifier.
    pub(super) tasks: BTreeMap<u32, Task>,
    /// The number of calls by group, number and subject.
    pub(super) calls: BTreeMap<(u32, u16, About), u64>,
    /// TCP connections established during the whole window, and while calls were counted.
    pub(super) established: u64,
    pub(super) established_counted: u64,
    /// Sends on a connection that follow a receive: replies to requests.
    pub(super) replies: u64,
    pub(super) forks: u64,
    pub(super) threads: u64,
    pub(super) executions: u64,
    /// Entries that did not fit into a table.
    pub(super) lost: u64,
    /// The total time in which calls were counted.
    pub(super) counted_ns: u64,
    /// Whether operations of `io_uring` could be counted.
    pub(super) sees_rings: bool,
    /// Stops at calls that could not be interpreted.
    pub(super) unread: u64,
    /// The cost to the server, if it was stopped to count its calls.
    pub(super) cost: Option<Stopped>,
}

/// The collector of a trace.
#[derive(Debug)]
pub(super) enum Collector {
    Probes(Box<probes::Probes>),
    Stops(stops::Stops),
}

impl Collector {
    /// Follows the tasks of these processes that are not followed yet. Returns whether there was a new one.
    ///
    /// # Errors
    ///
    /// The reason why they cannot be followed.
    pub(super) fn follow(&mut self, processes: &[Process]) -> Result<bool, String> {
        match self {
            Self::Probes(probes) => probes.follow(processes),
            Self::Stops(stops) => stops.follow(processes),
        }
    }

    /// Begins a time slice in which calls are counted. Returns the number of replies counted before it.
    ///
    /// # Errors
    ///
    /// The reason why they cannot be counted.
    pub(super) fn resume(&mut self) -> Result<u64, String> {
        match self {
            Self::Probes(probes) => probes.resume(),
            Self::Stops(stops) => stops.resume(),
        }
    }

    /// Ends the time slice.
    ///
    /// # Errors
    ///
    /// The reason why the counts cannot be read.
    pub(super) fn pause(&mut self) -> Result<(), String> {
        match self {
            Self::Probes(probes) => probes.pause(),
            Self::Stops(stops) => {
                stops.pause();
                Ok(())
            }
        }
    }

    /// Ends the window and returns the trace.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be read.
    pub(super) fn finish(self) -> Result<Trace, String> {
        match self {
            Self::Probes(probes) => probes.finish(),
            Self::Stops(stops) => stops.finish(),
        }
    }
}
