//! The usage of server and client during a pass: processor time, and connections that the kernel dropped. Also counts
//! how often the controller ran, which should sleep during the pass.

use landau_engine::{FactUnit, Facts};
use landau_sys::clock::monotonic_ns;
use landau_sys::system;

/// Counters at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    at_ns: u64,
    server_ns: Option<u64>,
    client_ns: Option<u64>,
    drops: Option<(u64, u64)>,
    controller_switches: Option<u64>,
}

impl Usage {
    /// Reads the counters of the process tree of `server` and of this process.
    pub(crate) fn now(server: Option<u32>) -> Self {
        Self::with_server(server.and_then(|pid| system::process_tree(pid).into_iter().map(system::cpu_time_ns).sum()))
    }

    /// Reads the counters of this process, and takes the processor time of a server that was read by other means.
    pub(crate) fn with_server(server_ns: Option<u64>) -> Self {
        Self {
            at_ns: monotonic_ns(),
            server_ns,
            client_ns: system::cpu_time_ns(std::process::id()),
            drops: system::listen_drops(),
            controller_switches: system::context_switches(landau_sys::process::parent_id().unsigned_abs()),
        }
    }

    /// Returns the server's processor time.
    pub(crate) fn server_ns(&self) -> Option<u64> {
        self.server_ns
    }

    /// Adds the usage from `self` to `end` to the facts; `count` is the number of `unit`s in that time.
    pub(crate) fn report(self, end: Self, (count, unit): (u64, &str), facts: &mut Facts) {
        let elapsed_ns = (end.at_ns - self.at_ns).max(1) as f64;
        let mut processor_time = |name: &str, from: Option<u64>, to: Option<u64>| {
            if let Some((from, to)) = from.zip(to) {
                let used_ns = to.saturating_sub(from) as f64;
                facts.number(&format!("{name}_processor_share"), used_ns / elapsed_ns, FactUnit::Share);
                let each_ns = (used_ns / count.max(1) as f64).round();
                facts.number(&format!("{name}_processor_time_per_{unit}"), each_ns, FactUnit::Ns);
            }
        };
        processor_time("server", self.server_ns, end.server_ns);
        processor_time("client", self.client_ns, end.client_ns);
        if let Some((from, to)) = self.drops.zip(end.drops) {
            facts.count("listen_overflows", to.0.saturating_sub(from.0));
            facts.count("listen_drops", to.1.saturating_sub(from.1));
        }
        if let Some((from, to)) = self.controller_switches.zip(end.controller_switches) {
            facts.count("controller_context_switches", to.saturating_sub(from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_reported_as_a_share_and_per_step() {
        let start = Usage {
            at_ns: 1_000,
            server_ns: Some(500),
            client_ns: None,
            drops: Some((3, 4)),
            controller_switches: Some(9),
        };
        let end = Usage {
            at_ns: 2_000,
            server_ns: Some(750),
            client_ns: None,
            drops: Some((3, 6)),
            controller_switches: Some(9),
        };
        let mut facts = Facts::new();
        start.report(end, (10, "step"), &mut facts);
        let fact = |name| facts.get(name).map(ToString::to_string).unwrap_or_default();
        assert_eq!(fact("server_processor_share"), "0.25 share");
        assert_eq!(fact("server_processor_time_per_step"), "25 ns");
        assert_eq!(fact("controller_context_switches"), "0");
        assert_eq!((fact("listen_overflows"), fact("listen_drops")), ("0".to_owned(), "2".to_owned()));
        assert!(facts.get("client_processor_share").is_none(), "a counter that cannot be read is left out");
    }
}
