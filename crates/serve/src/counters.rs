//! Counters of a worker, which other threads can read while it works.
//!
//! Each worker is the only writer of its counters. Plain loads and stores are therefore enough, and a request costs no
//! locked instruction. The counters of worker processes are in memory that is shared with their supervisor, and outlive
//! them.

use crate::error::Error;
use landau_sys::shared;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    (counts { $($name:ident $about:literal,)* } states { $($state:ident $of:literal,)* }) => {
        /// The index of each number.
        #[allow(non_camel_case_types, reason = "they are named as the counters")]
        enum Place {
            $($name,)*
            $($state,)*
            Count,
        }

        impl Counters {
            $(#[doc = $about] #[inline] pub(crate) fn $name(self) -> Count { Count(&self.0[Place::$name as usize]) })*
            $(#[doc = $of] #[inline] pub(crate) fn $state(self) -> Count { Count(&self.0[Place::$state as usize]) })*
        }

        /// The sums over all workers.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct Totals {
            $(#[doc = $about] pub $name: u64,)*
            $(#[doc = $of] pub $state: u64,)*
        }

        impl Totals {
            /// Adds a worker's counters.
            pub fn add(&mut self, counters: Counters) {
                $(self.$name += counters.$name().get();)*
                $(self.$state += counters.$state().get();)*
            }

            /// Returns each counter with its name and its description.
            pub fn each(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $about, self.$name),)*]
            }

            /// Returns each gauge with its name and its description.
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
        refused_full "connections refused with 503 because of the limit on all connections",
        refused_address "connections refused with 429 because of the limit for one address",
        memory_refused "requests refused with 503 and connections closed because of the memory limit",
        descriptors_short "pauses in accepting connections because no descriptor was free",
        requests "requests answered",
        informational "responses 1xx",
        succeeded "responses 2xx",
        redirected "responses 3xx",
        client_errors "responses 4xx",
        server_errors "responses 5xx",
        bytes_sent "bytes sent",
        http2_connections "HTTP/2 connections",
        http2_failed "HTTP/2 connections closed because of a protocol error or a flood of frames",
        heads_late "connections closed because a request head or TLS handshake took too long",
        prefaces_malformed "connections from a proxy closed because they did not begin with a PROXY protocol header",
        idle_closed "connections closed because they were idle",
        slow_closed "connections closed because the client read too slowly",
        upstream_connections "connection attempts to upstream servers",
        upstream_reuses "requests forwarded over a connection kept from an earlier request",
        upstream_retries "requests forwarded again because the kept connection was closed",
        upstream_errors "requests that got no response, or an incomplete one, because of their upstream server",
        files_compressed "files compressed for clients that accept compression",
        cache_hits "requests answered from the cache",
        cache_misses "requests answered from the file system",
        remote_look_ups "lookups on non-local file systems, by another thread",
        cold_reads "reads of file data that was not in memory",
        tls_handshakes "TLS handshakes completed",
        tls_resumed "TLS handshakes that resumed a session",
        tls_failed "connections closed by a TLS error",
        log_lost "access log lines dropped because the writer was too slow",
    }
    states {
        cache_bytes "bytes in the caches",
        held_bytes "bytes held by connections: partial requests and responses, TLS sessions",
    }
}

const COUNT: usize = Place::Count as usize;

/// The counters of one worker, by reference. They exist until the process ends.
#[derive(Debug, Clone, Copy)]
pub struct Counters(&'static [AtomicU64; COUNT]);

impl Default for Counters {
    fn default() -> Self {
        Self(Box::leak(Box::new([const { AtomicU64::new(0) }; COUNT])))
    }
}

impl Counters {
    /// Returns `count` sets of counters that this process shares with the processes that it forks.
    pub(crate) fn shared(count: usize) -> Result<Vec<Self>, Error> {
        Ok(shared::numbers(count)?.into_iter().map(Self).collect())
    }

    /// Records that the worker has ended and released everything.
    pub(crate) fn close_all(self) {
        self.closed().set(self.accepted().get());
        self.cache_bytes().set(0);
        self.held_bytes().set(0);
    }
}

/// A number with one writing thread and any number of readers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(&'static AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn set(self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
