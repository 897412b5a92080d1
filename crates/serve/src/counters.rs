//! What a worker counts, for whoever asks while it works.
//!
//! Each worker writes its own counters and nobody else does, so that a plain load and store is enough: no locked
//! operation is paid for a request.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    (counts { $($name:ident $about:literal,)* } states { $($state:ident $of:literal,)* }) => {
        /// The counters of one worker.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $about] pub(crate) $name: Count,)*
            $(#[doc = $of] pub(crate) $state: Count,)*
        }

        /// The sums over all workers.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct Totals {
            $(#[doc = $about] pub $name: u64,)*
            $(#[doc = $of] pub $state: u64,)*
        }

        impl Totals {
            /// Adds a worker's.
            pub fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.get();)*
                $(self.$state += counters.$state.get();)*
            }

            /// Each count with its name and what it counts.
            pub fn each(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $about, self.$name),)*]
            }

            /// What is so at the moment: each with its name and what it is.
            pub fn each_state(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($state), $of, self.$state),)*]
            }
        }
    };
}

counters! {
    counts {
        accepted "connections accepted",
        closed "connections closed",
        refused_full "connections refused with 503 because there were too many",
        refused_address "connections refused with 429 because there were too many from one address",
        descriptors_short "times that accepting paused for want of descriptors",
        requests "requests answered",
        informational "answers 1xx",
        succeeded "answers 2xx",
        redirected "answers 3xx",
        client_errors "answers 4xx",
        server_errors "answers 5xx",
        bytes_sent "bytes sent",
        heads_late "connections closed because a request's head did not come in time",
        idle_closed "connections closed because no request came",
        slow_closed "connections closed because the client did not read",
        cache_hits "requests answered from the cache",
        cache_misses "requests that asked the file system",
        cold_reads "times that a file had to come from the device first",
        tls_handshakes "handshakes of TLS that succeeded",
        tls_resumed "handshakes of TLS that took up an earlier session",
        tls_failed "connections that failed to speak TLS",
        log_lost "lines of the access log that were dropped because its reader was too slow",
    }
    states {
        cache_bytes "bytes that the caches hold",
    }
}

/// A number that one thread writes and others read.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
