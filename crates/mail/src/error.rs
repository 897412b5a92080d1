//! Errors that prevent a delivery from running or going on. Failures of connections and recipients are counted instead.

use std::path::PathBuf;

/// An error that prevents a delivery from running or going on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A specification that contradicts itself.
    #[error("{0}")]
    Spec(String),
    /// A file that cannot be used.
    #[error("{path}: {reason}", path = .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A list that cannot be read, at one of its lines.
    #[error("line {line} of the list: {reason}")]
    List {
        /// Number of the line, from 1.
        line: u64,
        /// The reason.
        reason: String,
    },
    /// A server on a public address, which the user did not permit.
    #[error(
        "{host} ({address}) is neither this host nor in a private network; if you are permitted to send mail to it, \
         add --allow-host {host} --yes-send-to-public"
    )]
    HostNotAllowed {
        /// The host as the user wrote it.
        host: String,
        /// The address that it resolves to.
        address: String,
    },
    /// A name that does not resolve.
    #[error("cannot resolve {host}: {reason}; check the name, or use an address")]
    Unresolved {
        /// The host as the user wrote it.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The ledger cannot be written. The outcomes of further recipients could not be recorded, so none is sent to.
    #[error("cannot write the ledger: {0}; the run has stopped; run the same command again to continue")]
    Ledger(std::io::Error),
    /// A report about a failed recipient cannot be written. The recipient is not recorded as failed.
    #[error("cannot write a bounce: {0}; the run has stopped; run the same command again to continue")]
    Bounce(std::io::Error),
    /// The metrics cannot be served.
    #[error("--metrics: {0}")]
    Metrics(crate::sink::Error),
    /// The queue of a relay cannot be read or written.
    #[error("cannot use the queue: {0}; the relay has stopped; run the same command again to continue")]
    Queue(std::io::Error),
    /// The queue cannot be written at the end of a relay, for lack of disk space or descriptors.
    #[error(
        "cannot write the queue: {error}; the relay gave up after {waited_s} s; some delivered mail will be sent again \
         after the restart"
    )]
    Unrecorded {
        /// How long the relay waited, in seconds.
        waited_s: u64,
        /// Why it waited.
        error: std::io::Error,
    },
    /// A run ended with an error, and the outcomes so far could not be written either.
    #[error("{first}; at the end of the run: {last}")]
    Twice {
        /// Why the run ended.
        first: Box<Error>,
        /// Why it could not be written.
        last: Box<Error>,
    },
    /// The list of the messages of a queue cannot be written.
    #[error("cannot write the list")]
    Output(#[source] std::io::Error),
    /// The receiver of a relay cannot listen or wait.
    #[error(transparent)]
    Receiver(#[from] crate::sink::Error),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
    /// The event loop failed.
    #[error(transparent)]
    Reactor(#[from] landau_reactor::Error),
}

impl Error {
    /// Returns the error of a file that cannot be used.
    pub(crate) fn file(path: &std::path::Path, reason: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), reason: reason.into() }
    }
}

/// The result of preparing or running a delivery.
pub type Result<T> = std::result::Result<T, Error>;
