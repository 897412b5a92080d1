//! Errors of the event loop.

use crate::Backend;
use std::os::fd::RawFd;

/// An error of the event loop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
    /// This system does not have the backend, or forbids it.
    #[error("backend {backend} is not available: {reason}")]
    Unavailable {
        /// The requested backend.
        backend: Backend,
        /// Why it is not available.
        reason: String,
    },
    /// No backend has that name.
    #[error("unknown backend {name:?}; it must be one of {known}")]
    UnknownBackend {
        /// The requested name.
        name: String,
        /// The names of all backends.
        known: String,
    },
    /// The descriptor is registered already.
    #[error("descriptor {0} is already registered")]
    Registered(RawFd),
    /// The descriptor is not registered.
    #[error("descriptor {0} is not registered")]
    Unregistered(RawFd),
    /// The number of the descriptor is too high for the backend.
    #[error("backend {backend} cannot watch descriptor {fd}: it is limited to descriptors below {capacity}")]
    Capacity {
        /// The backend.
        backend: Backend,
        /// One more than the highest number that it can watch.
        capacity: usize,
        /// The descriptor.
        fd: RawFd,
    },
}

/// The result of an operation of the event loop.
pub(crate) type Result<T> = std::result::Result<T, Error>;
