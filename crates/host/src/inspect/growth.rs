//! What an architecture means for growth: in words, and by Landau's own curve of it.

use super::Architecture;

/// The processor time of a connection that is answered and closed at once: the medians of the facts
/// `server_processor_time_per_reply_at_16` and `_at_1000` of the passes in
/// `docs/records/architecture/quick.landau.ndjson.gz`. A test of the program compares the two.
struct Curve {
    setting: &'static str,
    with_16: &'static str,
    with_1000: &'static str,
}

impl Architecture {
    /// Says what the architecture means for growth, by Landau's own measurement where there is one, and names the
    /// command that measures it on this host.
    pub fn growth(self) -> String {
        let Some((settings, other)) = self.measured() else { return self.cost().to_owned() };
        let it = other.map_or("it".to_owned(), |other| format!("the closest server of Landau's, {other},"));
        let command =
            format!("`landau run architecture --set architecture.architecture={settings}` measures {it} here");
        let own = CURVES.iter().find(|curve| curve.setting == settings && other.is_none());
        let Some(Curve { with_16, with_1000, .. }) = own else { return format!("{}; {command}", self.cost()) };
        format!(
            "{}. Landau's own server of this kind, on one processor under Linux 6.18, took {with_16} of processor time \
             for a connection that it answered and closed at once with 16 open, and {with_1000} with 1,000, most of \
             which waited for accept(); {command}",
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

    /// Returns the settings of the benchmark, and what its server is if it is only the closest.
    fn measured(self) -> Option<(&'static str, Option<&'static str>)> {
        Some(match self {
            Self::Exec => ("exec", None),
            Self::Fork => ("fork", None),
            Self::Prefork => ("prefork", None),
            Self::Thread => ("thread", None),
            Self::ThreadPool => ("thread-pool", None),
            Self::EventLoop => ("event-loop", None),
            Self::EventLoops => (ALL_PROCESSORS, None),
            Self::EventLoopWithWorkers => ("event-loop", Some("one without workers")),
            Self::EventLoopProcesses => (ALL_PROCESSORS, Some("loops as threads")),
            Self::Iterative => return None,
        })
    }
}

/// Beside a client on two processors, the loops would have one of them otherwise.
const ALL_PROCESSORS: &str = "event-loops --set architecture.processors=all";

const CURVES: &[Curve] = &[
    Curve { setting: "exec", with_16: "830 µs", with_1000: "784 µs" },
    Curve { setting: "fork", with_16: "310 µs", with_1000: "362 µs" },
    Curve { setting: "prefork", with_16: "41.1 µs", with_1000: "40.1 µs" },
    Curve { setting: "thread", with_16: "113 µs", with_1000: "127 µs" },
    Curve { setting: "thread-pool", with_16: "40.1 µs", with_1000: "39.8 µs" },
    Curve { setting: "event-loop", with_16: "43.1 µs", with_1000: "40.9 µs" },
];
