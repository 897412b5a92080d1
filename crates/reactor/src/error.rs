//! What can go wrong in an event loop.

use crate::Mechanism;
use std::os::fd::RawFd;

/// What can go wrong in an event loop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
    /// A mechanism that this system has not, or that is forbidden here.
    #[error("no {mechanism} here: {reason}")]
    Unavailable {
        /// The mechanism asked for.
        mechanism: Mechanism,
        /// Why there is none.
        reason: String,
    },
    /// A name that no mechanism has.
    #[error("no mechanism is called {name:?}; there are {known}")]
    UnknownMechanism {
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
    /// A descriptor whose number is beyond what the mechanism can watch.
    #[error("{mechanism} watches descriptors below {capacity}, and this is {fd}")]
    Capacity {
        /// The mechanism.
        mechanism: Mechanism,
        /// One more than the highest number.
        capacity: usize,
        /// The descriptor.
        fd: RawFd,
    },
}

/// The result of an operation of the event loop.
pub(crate) type Result<T> = std::result::Result<T, Error>;
