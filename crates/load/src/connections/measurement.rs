//! Metrics of the connections, and of the requests that are due from the start of the measured time on.

use super::ResponseTimes;
use super::timeout::unanswered;
use crate::connection::InFlight;
use crate::failure::{Failure, Reason};
use crate::metrics::Metrics;
use crate::plan::Load;
use crate::response::Response;
use crate::server::Server;

/// Number of counters for status codes: one for each number of at most three digits.
const STATUSES: usize = 1000;

/// The arrival of bytes, as far as the generator can tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) arrived_ns: u64,
    /// Time from the earliest instant at which they may have been readable until they were read.
    pub(super) lag_ns: u64,
}

/// Metrics of requests and connections.
#[derive(Debug)]
pub(super) struct Measurement {
    metrics: Metrics,
    /// Responses by status. Indexing by status costs an addition instead of a map lookup.
    statuses: Vec<u64>,
    /// Requests that were due earlier are not measured.
    from_ns: u64,
    /// Handshakes that began earlier belong to the set-up.
    handshakes_from_ns: u64,
    is_open_loop: bool,
    timeout_ns: u64,
    last_response_ns: u64,
}

impl Measurement {
    pub(super) fn new(load: &Load, timeout_ns: u64) -> Self {
        Self {
            metrics: Metrics::default(),
            statuses: vec![0; STATUSES],
            from_ns: 0,
            handshakes_from_ns: u64::MAX,
            is_open_loop: matches!(load, Load::Open { .. }),
            timeout_ns,
            last_response_ns: 0,
        }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(super) fn last_response_ns(&self) -> u64 {
        self.last_response_ns
    }

    /// Returns whether a request that was due at `due_ns` is measured.
    #[inline]
    pub(super) fn includes(&self, due_ns: u64) -> bool {
        due_ns >= self.from_ns
    }

    /// Counts the handshakes that begin at `from_ns` or later as measured, and the others as set-up.
    pub(super) fn measure_handshakes_from(&mut self, from_ns: u64) {
        self.handshakes_from_ns = from_ns;
    }

    /// Measures the requests that are due at `from_ns` or later. The metrics of earlier requests are dropped; those of
    /// connections are kept.
    pub(super) fn start_at(&mut self, from_ns: u64) {
        self.from_ns = from_ns;
        self.handshakes_from_ns = from_ns;
        self.statuses.fill(0);
        let old = std::mem::take(&mut self.metrics);
        self.metrics.phases.setup_handshake = old.phases.setup_handshake;
        self.metrics.phases.setup_tls = old.phases.setup_tls;
        self.metrics.connections = old.connections;
        self.metrics.lengths = old.lengths;
        self.metrics.failures = old.failures;
        self.metrics.failures.retain(|failure, _| failure.is_of_connecting());
        self.metrics.failure_details = old.failure_details;
        self.metrics.failure_details.retain(|failure, _| failure.is_of_connecting());
    }

    pub(super) fn restart_bytes(&mut self) {
        self.metrics.bytes = 0;
    }

    /// Returns the metrics and resets them.
    pub(super) fn take(&mut self) -> Metrics {
        let mut metrics = std::mem::take(&mut self.metrics);
        let seen = self.statuses.iter_mut().enumerate().filter(|(_, count)| **count > 0);
        metrics.statuses = seen.map(|(status, count)| (status as u16, std::mem::take(count))).collect();
        metrics
    }

    #[cold]
    pub(super) fn fail(&mut self, failure: Failure, detail: impl FnOnce() -> String) {
        self.metrics.fail(failure, detail);
    }

    /// Counts a request as failed, if it is measured.
    #[cold]
    pub(super) fn fail_request(&mut self, request: &InFlight, failure: Failure, detail: impl FnOnce() -> String) {
        if self.includes(request.due_ns) {
            self.fail(failure, detail);
        }
    }

    /// Records the kernel's handshake of a connection that was started at `start_ns`.
    pub(super) fn connected(&mut self, start_ns: u64, handshake_ns: u64) {
        let is_setup = start_ns < self.handshakes_from_ns;
        let phases = &mut self.metrics.phases;
        if is_setup { &mut phases.setup_handshake } else { &mut phases.handshake }.record(handshake_ns);
    }

    /// Records the TLS handshake of a connection that was started at `start_ns`.
    pub(super) fn secured(&mut self, start_ns: u64, handshake_ns: u64) {
        let is_setup = start_ns < self.handshakes_from_ns;
        let phases = &mut self.metrics.phases;
        if is_setup { &mut phases.setup_tls } else { &mut phases.tls }.record(handshake_ns);
    }

    pub(super) fn opened(&mut self) {
        self.metrics.connections += 1;
    }

    pub(super) fn closed_while_idle(&mut self) {
        self.metrics.closed_while_idle += 1;
    }

    #[inline]
    pub(super) fn sent(&mut self, due_ns: u64, count: u64) {
        if self.includes(due_ns) {
            self.metrics.requests += count;
        }
    }

    #[inline]
    pub(super) fn received(&mut self, bytes: usize) {
        self.metrics.bytes += bytes as u64;
    }

    /// Returns a failure if a response was completed after the timeout. Expired connections are searched for only at
    /// intervals, so a late response may arrive before the next search.
    #[inline]
    pub(super) fn lateness(&self, request: &InFlight, arrival: Arrival) -> Option<Reason> {
        let waited_ns = arrival.arrived_ns.saturating_sub(request.sent_ns);
        (waited_ns > self.timeout_ns).then(|| (Failure::Timeout, unanswered(waited_ns)))
    }

    /// Records an unanswered request with the time that it waited since it was sent, at most the timeout.
    #[cold]
    pub(super) fn unanswered(&mut self, request: &InFlight, now_ns: u64) {
        if !self.includes(request.due_ns) {
            return;
        }
        let waited_ns = now_ns.saturating_sub(request.sent_ns).min(self.timeout_ns);
        let phases = &mut self.metrics.phases;
        let first_byte = if request.is_first { &mut phases.first_byte_new } else { &mut phases.first_byte_reused };
        match request.first_byte_ns {
            0 => first_byte.record_censored(waited_ns),
            first_byte_ns => first_byte.record(first_byte_ns - request.sent_ns),
        }
        phases.service.record_censored(waited_ns);
        if self.is_open_loop {
            let latency_ns = request.sent_ns - request.due_ns + waited_ns;
            phases.latency.record_censored(latency_ns);
            self.metrics.latency_series.record(request.due_ns - self.from_ns, latency_ns);
        }
    }

    /// Records a complete response, whose last byte arrived at `arrived_ns`, and returns its timing. `lag_ns` is the
    /// time by which the generator may have read it late.
    #[inline]
    pub(super) fn response(
        &mut self,
        request: &InFlight,
        response: Response,
        server: &mut Server,
        Arrival { arrived_ns, lag_ns }: Arrival,
    ) -> ResponseTimes {
        self.last_response_ns = self.last_response_ns.max(arrived_ns);
        let times = ResponseTimes {
            first_byte_ns: request.first_byte_ns.max(request.sent_ns) - request.sent_ns,
            last_byte_ns: arrived_ns - request.sent_ns,
            status: response.status.min(STATUSES as u16 - 1),
        };
        if !self.includes(request.due_ns) {
            return times;
        }
        let metrics = &mut self.metrics;
        server.check_length(request.request as usize, response, metrics);
        metrics.responses += 1;
        self.statuses[usize::from(times.status)] += 1;
        let phases = &mut metrics.phases;
        let first_byte = if request.is_first { &mut phases.first_byte_new } else { &mut phases.first_byte_reused };
        first_byte.record(times.first_byte_ns);
        phases.service.record(times.last_byte_ns);
        phases.response_lag.record(lag_ns);
        if self.is_open_loop {
            let latency_ns = arrived_ns - request.due_ns;
            phases.latency.record(latency_ns);
            metrics.latency_series.record(request.due_ns - self.from_ns, latency_ns);
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The detail of a failure that is dropped once described a later failure of the same kind.
    #[test]
    fn failures_before_the_measured_time_are_not_described() {
        let mut measurement = Measurement::new(&Load::Closed, 1);
        measurement.fail(Failure::UnsolicitedResponse, || "early".to_owned());
        measurement.fail(Failure::ConnectRefused, || "refused".to_owned());
        measurement.start_at(5);
        let metrics = measurement.metrics();
        let kept: Vec<Failure> = metrics.failures.keys().copied().collect();
        let described: Vec<Failure> = metrics.failure_details.keys().copied().collect();
        assert_eq!((kept, described), (vec![Failure::ConnectRefused], vec![Failure::ConnectRefused]));
        measurement.fail(Failure::UnsolicitedResponse, || "late".to_owned());
        assert_eq!(measurement.take().failure_details[&Failure::UnsolicitedResponse], "late");
    }
}
