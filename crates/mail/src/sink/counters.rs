//! Counters of a sink, readable while it works.
//!
//! Most have one writer, the worker, so that a plain load and store is enough. The others use [`Count::add_shared`].

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one or several threads write and others read.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds to a number that only this thread writes.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Adds to a number that other threads also write.
    #[inline]
    pub(crate) fn add_shared(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A counter as it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The name, as in JSON.
    pub name: &'static str,
    /// What it counts.
    pub about: &'static str,
    /// The value.
    pub value: u64,
    /// Whether it may decrease.
    pub is_gauge: bool,
}

/// Counters that can be read.
pub(crate) trait Counted: Send + Sync {
    /// Returns each counter.
    fn readings(&self) -> Vec<Reading>;
}

/// Declares a set of counters, each with a description.
macro_rules! counters {
    ($(#[$doc:meta])* $set:ident { $($name:ident $about:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $set {
            $(#[doc = $about] pub(crate) $name: $crate::sink::counters::Count,)*
        }

        impl $crate::sink::counters::Counted for $set {
            fn readings(&self) -> Vec<$crate::sink::counters::Reading> {
                vec![$($crate::sink::counters::Reading {
                    name: stringify!($name), about: $about, value: self.$name.get(), is_gauge: false,
                },)*]
            }
        }
    };
}

pub(crate) use counters;

counters! {
    /// The counters of every sink.
    Connections {
        connections "connections accepted",
        closed "connections closed",
        refused_elsewhere "connections reset because their destination address is not served",
        resets "connections reset by the profile",
        half_closes "connections half-closed by the profile",
        silent "connections left without an answer by the profile",
        encrypted "connections encrypted by STARTTLS",
        tls_failures "connections closed because TLS failed",
        plain_bytes_discarded "unencrypted bytes after STARTTLS, discarded",
        idle_closed "connections closed because the client was idle",
        descriptors_short "pauses in accepting connections because no descriptor was free",
        bytes_received "bytes received",
        bytes_sent "bytes sent",
    }
}
