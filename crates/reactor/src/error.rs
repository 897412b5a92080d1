//! What can go wrong in an event loop.

use crate::Backend;
use std::os::fd::RawFd;

/// What can go wrong in an event loop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
    /// A backend that this system has not, or that is forbidden here.
    #[error("no {backend} here: {reason}")]
    Unavailable {
        /// The backend asked for.
        backend: Backend,
        /// Why there is none.
        reason: String,
    },
    /// A name that no backend has.
    #[error("no backend is called {name:?}; there are {known}")]
    UnknownBackend {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A descriptor that was registered before and not given back.
    #[error("descriptor {0} is registered already")]
    Registered(RawFd),
    /// A descriptor that is not registered.
    #[error("descriptor {0} is not registered")]
    Unregistered(RawFd),
    /// A descriptor whose number is beyond what the backend can watch.
    #[error("{backend} watches descriptors below {capacity}, and this is {fd}")]
    Capacity {
        /// The backend.
        backend: Backend,
        /// One more than the highest number.
        capacity: usize,
        /// The descriptor.
        fd: RawFd,
    },
}

/// The result of an operation of the event loop.
pub(crate) type Result<T> = std::result::Result<T, Error>;
