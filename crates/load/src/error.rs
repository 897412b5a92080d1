//! What can keep a load from being made at all. What goes wrong while it is made is counted instead.

/// What can keep a load from being made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A URL that cannot be read.
    #[error("{url}: {reason}")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A target that may not be loaded without the user's word.
    #[error(
        "{host} ({address}) is neither this machine nor in a private network; load on somebody else's server is an \
         attack: if it is yours, say so with --i-may-load {host}"
    )]
    Refused {
        /// The host as it was typed.
        host: String,
        /// The address it leads to.
        address: String,
    },
    /// A name that leads nowhere.
    #[error("{host}: {reason}")]
    Unresolved {
        /// The host as it was typed.
        host: String,
        /// Why.
        reason: String,
    },
    /// What was asked for contradicts itself or this host.
    #[error("{0}")]
    Plan(String),
    /// A file that cannot be used.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A worker that cannot be started or spoken with.
    #[error("worker {worker}: {reason}")]
    Worker {
        /// Its number.
        worker: usize,
        /// What happened.
        reason: String,
    },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
    /// The event loop failed.
    #[error(transparent)]
    Reactor(#[from] landau_reactor::Error),
}

/// The result of making a load.
pub type Result<T> = std::result::Result<T, Error>;
