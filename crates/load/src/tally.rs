//! What a worker found: counts and histograms, to be added up over workers.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What can go wrong with a connection or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// Nobody listens there.
    ConnectRefused,
    /// No answer to the handshake in time.
    ConnectTimeout,
    /// No port is left at the source address.
    ConnectNoPort,
    /// This machine has no such source address, or has it no more.
    ConnectNoAddress,
    /// The descriptor table is full.
    ConnectNoDescriptor,
    /// Any other reason why there is no connection.
    Connect,
    /// The secure handshake failed.
    Tls,
    /// The server closed a connection before it had answered a byte.
    ClosedBeforeAnswer,
    /// The server closed a connection in the middle of an answer.
    ClosedInAnswer,
    /// The server reset a connection that owed an answer.
    Reset,
    /// Receiving or sending failed for another reason.
    Transfer,
    /// No whole answer in time.
    Timeout,
    /// What came is no HTTP.
    Garbage,
    /// Bytes that nobody had asked for.
    Unasked,
    /// Requests that were due and could not be sent before the end.
    NeverSent,
}

impl Failure {
    /// Whether there never was a connection.
    pub fn is_of_connecting(self) -> bool {
        matches!(
            self,
            Self::ConnectRefused
                | Self::ConnectTimeout
                | Self::ConnectNoPort
                | Self::ConnectNoAddress
                | Self::ConnectNoDescriptor
                | Self::Connect
                | Self::Tls
        )
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::ConnectRefused => "connection refused: is the server running?",
            Self::ConnectTimeout => "no handshake in time",
            Self::ConnectNoPort => "no port left at the source address",
            Self::ConnectNoAddress => "this machine has no such source address",
            Self::ConnectNoDescriptor => "no descriptor left",
            Self::Connect => "could not connect",
            Self::Tls => "secure handshake failed",
            Self::ClosedBeforeAnswer => "closed before the answer",
            Self::ClosedInAnswer => "closed in the middle of an answer",
            Self::Reset => "reset by the server",
            Self::Transfer => "sending or receiving failed",
            Self::Timeout => "no answer in time",
            Self::Garbage => "the answer is no HTTP",
            Self::Unasked => "bytes that nobody asked for",
            Self::NeverSent => "due but never sent",
        }
    }
}

macro_rules! phases {
    ($($name:ident $words:literal $about:literal,)*) => {
        /// Latencies, phase by phase.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        pub struct Phases {
            $(#[doc = $about] pub $name: Histogram,)*
        }

        impl Phases {
            /// Each phase: its name in JSON, its name in words, what it measures, and what was found.
            pub fn all(&self) -> Vec<(&'static str, &'static str, &'static str, &Histogram)> {
                vec![$((stringify!($name), $words, $about, &self.$name),)*]
            }

            /// Adds what another holds.
            pub fn merge(&mut self, other: &Self) {
                $(self.$name.merge(&other.$name);)*
            }
        }
    };
}

phases! {
    handshake "handshake"
        "From `connect()` until the socket is writable: the kernel's handshake, in which the server has no part.",
    tls "TLS" "From there until the secure handshake is done.",
    first_byte_fresh "first byte, fresh"
        "From the first request on a connection until its answer's first byte: the server has accepted by then.",
    first_byte "first byte, used" "From a further request until its answer's first byte.",
    service "service time" "From sending a request until its answer's last byte.",
    intended "from when due" "From when a request was due until its answer's last byte: what a user waits.",
    wait "wait for a connection" "From when a request was due until a connection was free: the server's doing.",
    lag "schedule lag" "From when a request was due until the generator noticed: the generator's doing.",
}

/// What a worker found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Latencies, phase by phase.
    pub phases: Phases,
    /// Requests that were sent.
    pub requests: u64,
    /// Requests that were due within the time measured, of an open loop.
    pub due: u64,
    /// Requests of an open loop that were due and neither answered nor lost when half of its schedule was over.
    pub pending_half_way: u64,
    /// The same when all of it was over.
    pub pending_at_end: u64,
    /// Whole answers.
    pub answers: u64,
    /// Bytes of answers, heads included.
    pub bytes: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// What went wrong, by kind.
    pub failures: BTreeMap<Failure, u64>,
    /// The first words of the system or a library about each kind.
    pub details: BTreeMap<Failure, String>,
    /// Connections that were made.
    pub connections: u64,
    /// Connections that the server closed while they owed nothing.
    pub closed_idle: u64,
    /// Answers whose body had another length than the first answer to the same request.
    pub wrong_lengths: u64,
    /// The first such answer, in words.
    pub wrong_length: Option<String>,
    /// The length of the first answer to each request: origin and number.
    pub lengths: BTreeMap<String, u64>,
    /// Processor time in the program and in the kernel, in nanoseconds.
    pub processor_ns: [u64; 2],
    /// How long was measured, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Tally {
    /// Adds a failure.
    #[cold]
    pub fn fail(&mut self, failure: Failure, detail: impl FnOnce() -> String) {
        self.fail_all(1, failure, detail);
    }

    /// Adds so many of a kind.
    #[cold]
    pub fn fail_all(&mut self, count: u64, failure: Failure, detail: impl FnOnce() -> String) {
        if count > 0 {
            *self.failures.entry(failure).or_default() += count;
            self.details.entry(failure).or_insert_with(detail);
        }
    }

    /// Adds what another worker found.
    pub fn merge(&mut self, other: &Self) {
        self.phases.merge(&other.phases);
        self.requests += other.requests;
        self.due += other.due;
        self.pending_half_way += other.pending_half_way;
        self.pending_at_end += other.pending_at_end;
        self.answers += other.answers;
        self.bytes += other.bytes;
        self.connections += other.connections;
        self.closed_idle += other.closed_idle;
        self.wrong_lengths += other.wrong_lengths;
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (failure, count) in &other.failures {
            *self.failures.entry(*failure).or_default() += count;
        }
        for (failure, detail) in &other.details {
            self.details.entry(*failure).or_insert_with(|| detail.clone());
        }
        if self.wrong_length.is_none() {
            self.wrong_length.clone_from(&other.wrong_length);
        }
        for (request, &length) in &other.lengths {
            let own = *self.lengths.entry(request.clone()).or_insert(length);
            if own != length {
                self.wrong_lengths += 1;
                self.wrong_length = Some(format!("request {request}: {own} bytes and {length} bytes"));
            }
        }
        self.processor_ns[0] += other.processor_ns[0];
        self.processor_ns[1] += other.processor_ns[1];
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
    }

    /// Processor time of the generator, in nanoseconds.
    pub fn processor_total_ns(&self) -> u64 {
        self.processor_ns.iter().sum()
    }

    /// Failures of some kinds.
    pub fn failed(&self, which: impl Fn(Failure) -> bool) -> u64 {
        self.failures.iter().filter(|(failure, _)| which(**failure)).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up_in_any_order() {
        let one = |status: u16, failure: Failure, length: u64| {
            let mut tally = Tally { answers: 1, elapsed_ns: u64::from(status), ..Tally::default() };
            tally.statuses.insert(status, 2);
            tally.fail(failure, || "x".to_owned());
            tally.lengths.insert("0".to_owned(), length);
            tally.phases.service.record(u64::from(status));
            tally
        };
        let (a, b) = (one(200, Failure::Reset, 5), one(404, Failure::Timeout, 5));
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b);
        ba.merge(&a);
        assert_eq!(ab, ba);
        assert_eq!((ab.answers, ab.failed(|_| true), ab.wrong_lengths), (2, 2, 0));
        ab.merge(&one(200, Failure::Reset, 6));
        assert_eq!(ab.wrong_lengths, 1);
    }
}
