//! The errors with which a server cannot start. Each message contains its cause where it reads best. No cause is also a
//! `source`, because a caller that prints the whole chain would print it twice.

use std::path::PathBuf;

/// The reason why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory cannot be opened.
    #[error("cannot serve {}: {cause}{hint}", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// What to do about it; empty if unknown.
        hint: &'static str,
        /// Why.
        cause: landau_sys::Error,
    },
    /// The server cannot listen at an address.
    #[error("cannot listen at {address}: {cause}{hint}")]
    Listen {
        /// The address as given.
        address: String,
        /// Why.
        cause: landau_sys::Error,
        /// What to do about it; empty if unknown.
        hint: &'static str,
    },
    /// The text is not an address.
    #[error(
        "{text:?} is not an address; try 127.0.0.1:8080, [::1]:8080, :8080, unix:/run/landau.sock or fd:3, with tls: \
         before it for TLS"
    )]
    Address {
        /// The text.
        text: String,
    },
    /// The access log cannot be written.
    #[error("cannot write the log {target}: {cause}; try --log - for standard output")]
    Log {
        /// The file.
        target: String,
        /// Why.
        cause: std::io::Error,
    },
    /// The user does not exist, or the process is not permitted to switch to it.
    #[error("--user {0}")]
    User(String),
    /// The user that the server switched to cannot enter the directory.
    #[error(
        "cannot serve {}: user {user} cannot enter it: {cause}; run chmod o+x on the directory, or pass another --user",
        path.display()
    )]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The user.
        user: String,
        /// Why.
        cause: landau_sys::Error,
    },
    /// A directory that the sandbox should permit cannot be opened.
    #[error("cannot open {} (--sandbox-read): {cause}", .path.display())]
    Permitted {
        /// The directory.
        path: PathBuf,
        /// Why.
        cause: landau_sys::Error,
    },
    /// The sandbox is required but unavailable.
    #[error("--sandbox always: {0}")]
    Sandbox(String),
    /// A helper thread or process cannot be started.
    #[error("cannot start the {name}: {cause}")]
    Helper {
        /// The thread or process.
        name: &'static str,
        /// Why.
        cause: std::io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("--tls {}: {reason}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// An address uses TLS, but there is no certificate.
    #[error("cannot listen at {0}: no certificate; add --tls CERT.pem KEY.pem")]
    NoCertificate(String),
    /// The event loop failed.
    #[error(transparent)]
    Reactor(#[from] landau_reactor::Error),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
    /// A worker's thread cannot be started.
    #[error("cannot start worker {worker}: {cause}")]
    Thread {
        /// The worker's number.
        worker: usize,
        /// Why.
        cause: std::io::Error,
    },
    /// A worker process ended before it was ready. It has reported the reason itself.
    #[error("a worker process could not start; see the message above")]
    ProcessEnded,
    /// A worker panicked.
    #[error("worker {0} panicked, which is a bug; see the message above")]
    Panicked(usize),
}

impl Error {
    /// Returns the long name of the command-line option whose value is the cause; `root` is the directory.
    pub fn option(&self) -> Option<&'static str> {
        match self {
            Self::Root { .. } | Self::Unreadable { .. } => Some("root"),
            Self::Listen { .. } | Self::Address { .. } | Self::NoCertificate(_) => Some("listen"),
            Self::Log { .. } => Some("log"),
            Self::User(_) => Some("user"),
            Self::Permitted { .. } => Some("sandbox-read"),
            Self::Sandbox(_) => Some("sandbox"),
            Self::Tls { .. } => Some("tls"),
            _ => None,
        }
    }
}
