//! Counts and latencies of a load, which can be added up over workers.

use crate::failure::Failure;
use crate::histogram::Histogram;
use crate::trend::LatencySeries;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

macro_rules! phases {
    ($($name:ident $label:literal $about:literal,)*) => {
        /// Latencies by phase.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        pub struct Phases {
            $(#[doc = $about] pub $name: Histogram,)*
        }

        impl Phases {
            /// Returns each phase: its name in JSON, its label in the report, what it measures, and its latencies.
            pub fn all(&self) -> Vec<(&'static str, &'static str, &'static str, &Histogram)> {
                vec![$((stringify!($name), $label, $about, &self.$name),)*]
            }

            /// Adds the latencies of another worker.
            pub fn merge(&mut self, other: &Self) {
                $(self.$name.merge(&other.$name);)*
            }
        }
    };
}

phases! {
    setup_handshake "TCP handshake, set-up"
        "The same as `handshake`, for connections started before the measured time.",
    setup_tls "TLS handshake, set-up"
        "The same as `tls`, for connections started before the measured time.",
    handshake "TCP handshake"
        "From `connect()` until the socket is writable: the kernel's handshake, without the server program.",
    tls "TLS handshake" "From the end of the kernel's handshake until the end of the TLS handshake.",
    first_byte_new "first byte, new"
        "From sending the first request of a connection to the first byte of its response; includes `accept`.",
    first_byte_reused "first byte, reused"
        "From sending a later request of a connection to the first byte of its response.",
    service "service time" "From sending a request to the last byte of its response.",
    latency "latency" "From the due time of a request of an open loop to the last byte of its response.",
    connection_wait "wait for connection"
        "From the due time of a request to a free connection: caused by the server.",
    schedule_lag "schedule lag"
        "From the due time of a request until the generator noticed it: caused by the generator.",
    response_lag "response lag"
        "From the earliest time at which a response may have been readable until the generator read it: caused by the \
         generator.",
}

/// Counts and latencies of one worker or of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Latencies by phase.
    pub phases: Phases,
    /// Latencies of an open loop by due time.
    pub latency_series: LatencySeries,
    /// Requests sent.
    pub requests: u64,
    /// Requests that the run was to make but had not made when it ended.
    pub not_made: u64,
    /// Requests of an open loop that were due in the measured time.
    pub due: u64,
    /// Requests of an open loop that, in the middle of the schedule, were due but neither answered nor failed.
    pub pending_at_half: u64,
    /// The same number at the end of the schedule.
    pub pending_at_end: u64,
    /// Complete responses.
    pub responses: u64,
    /// Bytes received, headers included.
    pub bytes: u64,
    /// Responses by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// Failures by kind.
    pub failures: BTreeMap<Failure, u64>,
    /// The first message of the system or a library for each kind of failure.
    pub failure_details: BTreeMap<Failure, String>,
    /// Connections established.
    pub connections: u64,
    /// Connections that the server closed while no response was outstanding.
    pub closed_while_idle: u64,
    /// Responses whose body differs in length from the first response to the same request.
    pub length_mismatches: u64,
    /// A description of the first such response.
    pub length_mismatch: Option<String>,
    /// The body length of the first response to each request (`ORIGIN.REQUEST`), in bytes.
    pub lengths: BTreeMap<String, u64>,
    /// CPU time in user mode and in the kernel, in nanoseconds.
    pub cpu_ns: [u64; 2],
    /// Number of seconds of the measured time, over all workers, by the share of a CPU that the worker used, in
    /// percent. For idle connections: number of steps.
    pub cpu_percents: BTreeMap<u32, u64>,
    /// Length of the measured time, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Metrics {
    /// Counts a failure.
    #[cold]
    pub fn fail(&mut self, failure: Failure, detail: impl FnOnce() -> String) {
        self.fail_all(1, failure, detail);
    }

    /// Counts several failures of one kind.
    #[cold]
    pub fn fail_all(&mut self, count: u64, failure: Failure, detail: impl FnOnce() -> String) {
        if count > 0 {
            *self.failures.entry(failure).or_default() += count;
            self.failure_details.entry(failure).or_insert_with(detail);
        }
    }

    /// Adds the metrics of another worker. The elapsed time becomes the longer of the two.
    pub fn merge(&mut self, other: &Self) {
        self.phases.merge(&other.phases);
        self.latency_series.merge(&other.latency_series);
        self.requests += other.requests;
        self.not_made += other.not_made;
        self.due += other.due;
        self.pending_at_half += other.pending_at_half;
        self.pending_at_end += other.pending_at_end;
        self.responses += other.responses;
        self.bytes += other.bytes;
        self.connections += other.connections;
        self.closed_while_idle += other.closed_while_idle;
        self.length_mismatches += other.length_mismatches;
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (failure, count) in &other.failures {
            *self.failures.entry(*failure).or_default() += count;
        }
        for (failure, detail) in &other.failure_details {
            self.failure_details.entry(*failure).or_insert_with(|| detail.clone());
        }
        if self.length_mismatch.is_none() {
            self.length_mismatch.clone_from(&other.length_mismatch);
        }
        for (request, &length) in &other.lengths {
            let own = *self.lengths.entry(request.clone()).or_insert(length);
            if own != length {
                self.length_mismatches += 1;
                self.length_mismatch = Some(format!("request {request}: {own} bytes and {length} bytes"));
            }
        }
        self.cpu_ns[0] += other.cpu_ns[0];
        self.cpu_ns[1] += other.cpu_ns[1];
        for (percent, count) in &other.cpu_percents {
            *self.cpu_percents.entry(*percent).or_default() += count;
        }
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
    }

    /// Returns the CPU time of the generator, in nanoseconds.
    pub fn cpu_total_ns(&self) -> u64 {
        self.cpu_ns.iter().sum()
    }

    /// Counts a second, or a step, in which a worker used `cpu_ns` of a CPU.
    pub(crate) fn count_cpu(&mut self, cpu_ns: u64, elapsed_ns: u64) {
        if elapsed_ns > 0 {
            let percent = (100.0 * cpu_ns as f64 / elapsed_ns as f64).round() as u32;
            *self.cpu_percents.entry(percent).or_default() += 1;
        }
    }

    /// Returns the largest share of a CPU that a worker used in one second, in percent; `None` if none was measured.
    pub fn busiest_percent(&self) -> Option<u32> {
        self.cpu_percents.keys().next_back().copied()
    }

    /// Returns the number of seconds in which a worker used more than `percent` of a CPU, and the total number of
    /// seconds.
    pub fn seconds_above(&self, percent: u32) -> (u64, u64) {
        let above = self.cpu_percents.range(percent.saturating_add(1)..).map(|(_, count)| count).sum();
        (above, self.cpu_percents.values().sum())
    }

    /// Returns the number of failures of the kinds that `which` accepts.
    pub fn failed(&self, which: impl Fn(Failure) -> bool) -> u64 {
        self.failures.iter().filter(|(failure, _)| which(**failure)).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_is_commutative_and_compares_lengths() {
        let one = |status: u16, failure: Failure, length: u64| {
            let mut metrics = Metrics { responses: 1, elapsed_ns: u64::from(status), ..Metrics::default() };
            metrics.statuses.insert(status, 2);
            metrics.fail(failure, || "x".to_owned());
            metrics.lengths.insert("0".to_owned(), length);
            metrics.phases.service.record(u64::from(status));
            metrics.count_cpu(u64::from(status), 400);
            metrics
        };
        let (a, b) = (one(200, Failure::Reset, 5), one(404, Failure::Timeout, 5));
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b);
        ba.merge(&a);
        assert_eq!(ab, ba);
        assert_eq!((ab.seconds_above(50), ab.busiest_percent()), ((1, 2), Some(101)));
        assert_eq!((ab.responses, ab.failed(|_| true), ab.length_mismatches), (2, 2, 0));
        ab.merge(&one(200, Failure::Reset, 6));
        assert_eq!(ab.length_mismatches, 1);
    }
}
