//! Why a server cannot start.

use std::path::PathBuf;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder cannot be opened.
    #[error("serve {}: {source}", path.display())]
    Root {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: landau_sys::Error,
    },
    /// An address cannot be listened at.
    #[error("listen at {address}: {source}{hint}")]
    Listen {
        /// The address as it was given.
        address: String,
        /// Why.
        source: landau_sys::Error,
        /// What to do about it; empty where nothing is known.
        hint: &'static str,
    },
    /// What was given is no address.
    #[error("{text:?} is no address to listen at; try 127.0.0.1:8080, [::1]:8080, :8080 or unix:/run/landau.sock")]
    Address {
        /// What was given.
        text: String,
    },
    /// The access log cannot be written.
    #[error("log {place}: {source}; try --log - for standard output")]
    Log {
        /// Where it should go.
        place: String,
        /// Why it cannot.
        source: std::io::Error,
    },
    /// There is no such user, or the process may not become this user.
    #[error("--user {0}")]
    User(String),
    /// The folder cannot be read by the user that the server became.
    #[error("serve {}: user {user} may not read it: {source}; chmod o+rx the folder, or name another --user", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The user.
        user: String,
        /// Why.
        source: landau_sys::Error,
    },
    /// There is no fence although there must be one.
    #[error("--fence always: {0}")]
    Fence(String),
    /// A thread beside the workers cannot be started.
    #[error("start the thread {name}: {source}")]
    Helper {
        /// Its name.
        name: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("tls {}: {reason}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// An address is for TLS, and there is no certificate.
    #[error("listen at {0}: there is no certificate; add --tls CERT.pem KEY.pem")]
    NoCertificate(String),
    /// The event loop failed.
    #[error(transparent)]
    Reactor(#[from] landau_reactor::Error),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
    /// A thread cannot be started.
    #[error("start worker {worker}: {source}")]
    Thread {
        /// Its number.
        worker: usize,
        /// Why.
        source: std::io::Error,
    },
    /// A worker ended although nobody told it to.
    #[error("worker {0} ended by a defect of ours; its message stands above")]
    Died(usize),
}
