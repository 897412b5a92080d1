//! What an architecture means for growth: in words, and by Landau's own curve of it.

use super::Architecture;

/// The processor time of a connection by the curve `processor` of the benchmark `architecture`, as `landau show` prints
/// it of `docs/records/architecture/quick.landau.ndjson.gz`. A test of the program compares the two.
struct Curve {
    setting: &'static str,
    /// The cost, and the number of simultaneous connections, at both ends.
    ends: [(&'static str, u32); 2],
    outcome: &'static str,
}

impl Architecture {
    /// Says what the architecture means for growth, by its curve where Landau has one, and names the command that
    /// measures it on this host.
    pub fn growth(self) -> String {
        let Some((setting, curve)) = self.measured() else { return self.cost().to_owned() };
        let command = format!("`landau run architecture --set architecture.architecture={setting}` measures it here");
        let Some(Curve { ends: [(small, few), (large, many)], outcome, .. }) = curve else {
            return format!("{}; {command}", self.cost());
        };
        format!(
            "{}. Landau's own server of this kind took {small} of processor time a connection with {few} at once and \
             {large} with {many} ({outcome}), on two processors under Linux 6.18; {command}",
            self.cost()
        )
    }

    /// What a connection costs.
    fn cost(self) -> &'static str {
        match self {
            Self::Exec => "each connection costs an execution and a process",
            Self::Fork => "each connection costs a fork, which copies the parent's page tables, and a process",
            Self::Prefork => "at most as many connections are served as the pool has processes; further ones wait",
            Self::Thread => "each connection costs a thread and its stack",
            Self::ThreadPool => "at most as many connections are served as the pool has threads; further ones wait",
            Self::EventLoop | Self::EventLoopWithWorkers => {
                "a connection costs a descriptor and its buffers, and one processor watches them all"
            }
            Self::EventLoops | Self::EventLoopProcesses => {
                "a connection costs a descriptor and its buffers, on as many processors as there are loops"
            }
            Self::Iterative => "a slow client stops all others: connections wait for accept()",
        }
    }

    /// Returns the setting of the benchmark that comes closest, and its curve if it is a server of this kind.
    fn measured(self) -> Option<(&'static str, Option<&'static Curve>)> {
        let setting = match self {
            Self::Exec => "exec",
            Self::Fork => "fork",
            Self::Prefork => "prefork",
            Self::Thread => "thread",
            Self::ThreadPool => "thread-pool",
            Self::EventLoop | Self::EventLoopWithWorkers => "event-loop",
            Self::EventLoops | Self::EventLoopProcesses => "event-loops",
            Self::Iterative => return None,
        };
        let is_other = matches!(self, Self::EventLoopWithWorkers | Self::EventLoopProcesses);
        Some((setting, CURVES.iter().find(|curve| curve.setting == setting && !is_other)))
    }
}

const CURVES: &[Curve] = &[
    Curve { setting: "exec", ends: [("803 µs", 110), ("853 µs", 979)], outcome: "flat" },
    Curve { setting: "fork", ends: [("370 µs", 43), ("385 µs", 979)], outcome: "flat" },
    Curve { setting: "prefork", ends: [("48.7 µs", 157), ("67.2 µs", 979)], outcome: "grows, no simple law" },
    Curve { setting: "thread", ends: [("84.9 µs", 36), ("89.5 µs", 979)], outcome: "not resolved: passes differ" },
    Curve { setting: "thread-pool", ends: [("47.3 µs", 97), ("57.1 µs", 979)], outcome: "grows, no simple law" },
    Curve { setting: "event-loop", ends: [("47.3 µs", 137), ("56.7 µs", 979)], outcome: "varies" },
    Curve { setting: "event-loops", ends: [("44.5 µs", 137), ("58.9 µs", 979)], outcome: "grows, no simple law" },
];
