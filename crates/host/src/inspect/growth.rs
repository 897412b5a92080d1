//! What an architecture implies for growth: as text, and from Landau's own measurements.

use super::Architecture;

/// Landau's measurement of an architecture.
struct Measured {
    /// The settings of the benchmark.
    settings: &'static str,
    /// The kind of Landau's server, if it is only the closest to this architecture.
    closest: Option<&'static str>,
    /// The processor time of a connection that is answered and closed at once, with 9 to 16 and with 257 to 1,000 open.
    /// It is the median and the range of the passes in a record of `docs/records/architecture`, from the facts
    /// `server_processor_time_per_reply_at_16` and `_at_1000`. A test of the program compares
    /// the two.
    costs: Option<[&'static str; 2]>,
}

impl Architecture {
    /// Returns what the architecture implies for growth, with Landau's own measurement if there is one, and the command
    /// that measures it on this host.
    pub fn growth(self) -> String {
        let Some(Measured { settings, closest, costs }) = self.measured() else { return self.cost().to_owned() };
        let it = closest.map_or("it".to_owned(), |other| format!("the closest server of Landau's, {other},"));
        let command =
            format!("`landau run architecture --set architecture.architecture={settings}` measures {it} here");
        let Some([with_16, with_1000]) = costs else { return format!("{}; {command}", self.cost()) };
        let place = if settings == ALL_PROCESSORS {
            "two processors, one of which its client used too,"
        } else {
            "one processor"
        };
        format!(
            "{}. Landau's own server of this kind, on {place} under Linux 6.18, took {with_16} of processor time \
             for a connection that it answered and closed at once with 9 to 16 open, and {with_1000} with 257 to \
             1,000, most of which waited for accept() (medians and ranges of the passes); {command}",
            self.cost()
        )
    }

    /// Returns the cost of a connection.
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

    fn measured(self) -> Option<Measured> {
        let own = |settings, costs| Measured { settings, closest: None, costs: Some(costs) };
        let closest = |settings, closest| Measured { settings, closest: Some(closest), costs: None };
        Some(match self {
            Self::Exec => own("exec", ["830 µs (654–949 µs)", "784 µs (740–870 µs)"]),
            Self::Fork => own("fork", ["310 µs (259–363 µs)", "362 µs (292–399 µs)"]),
            Self::Prefork => own("prefork", ["41.1 µs (28.7–51.1 µs)", "40.1 µs (30.6–52.7 µs)"]),
            Self::Thread => own("thread", ["113 µs (85–136 µs)", "127 µs (101–168 µs)"]),
            Self::ThreadPool => own("thread-pool", ["40.1 µs (27.8–52 µs)", "39.8 µs (28–49.7 µs)"]),
            Self::EventLoop => own("event-loop", ["43.1 µs (38.1–50.3 µs)", "40.9 µs (34.9–46.1 µs)"]),
            Self::EventLoops => own(ALL_PROCESSORS, ["39.6 µs (32.6–50.7 µs)", "44 µs (38.6–47.9 µs)"]),
            Self::EventLoopWithWorkers => closest("event-loop", "one without workers"),
            Self::EventLoopProcesses => closest(ALL_PROCESSORS, "loops as threads"),
            Self::Iterative => return None,
        })
    }
}

/// With a client on two processors, the loops would otherwise have only one of them.
const ALL_PROCESSORS: &str = "event-loops --set architecture.processors=all";
