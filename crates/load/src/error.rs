//! Errors that prevent a load from running. Failures of connections and requests during a run are counted instead.

/// An error that prevents a load from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A URL is invalid.
    #[error("{url}: {reason}")]
    Url {
        /// The URL.
        url: String,
        /// The reason.
        reason: String,
    },
    /// A host on a public address that the user did not permit.
    #[error(
        "{host} ({address}) is neither this host nor in a private network; if you are permitted to load it, add \
         --allow-host {host}"
    )]
    HostNotAllowed {
        /// The host as the user wrote it.
        host: String,
        /// The address that it resolves to.
        address: String,
    },
    /// A name that does not resolve.
    #[error("cannot resolve {host}: {reason}")]
    Unresolved {
        /// The host as the user wrote it.
        host: String,
        /// The reason.
        reason: String,
    },
    /// A specification or plan that contradicts itself, names a file that cannot be used, or exceeds the limits of this
    /// host.
    #[error("{0}")]
    Plan(String),
    /// A worker that cannot be started, or that failed.
    #[error("worker {worker}: {reason}")]
    Worker {
        /// Number of the worker, from 0.
        worker: usize,
        /// The reason.
        reason: String,
    },
    /// The link between controller and worker failed.
    #[error("the link between controller and worker failed: {0}")]
    Link(#[from] std::io::Error),
    /// The controller closed its end of the link.
    #[error("the controller has exited")]
    ControllerExited,
    /// A system call failed.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
    /// The event loop failed.
    #[error(transparent)]
    Reactor(#[from] landau_reactor::Error),
}

/// The result of preparing or running a load.
pub type Result<T> = std::result::Result<T, Error>;
