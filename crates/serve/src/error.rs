//! Why a server cannot start. Each message tells the cause with it, in the place where it is best understood; so no
//! cause is handed out as a source besides, which whoever prints the whole chain would print a second time.

use std::path::PathBuf;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder cannot be opened.
    #[error("serve {}: {cause}{hint}", path.display())]
    Root {
        /// The folder.
        path: PathBuf,
        /// What to do about it; empty where nothing is known.
        hint: &'static str,
        /// Why.
        cause: landau_sys::Error,
    },
    /// An address cannot be listened at.
    #[error("listen at {address}: {cause}{hint}")]
    Listen {
        /// The address as it was given.
        address: String,
        /// Why.
        cause: landau_sys::Error,
        /// What to do about it; empty where nothing is known.
        hint: &'static str,
    },
    /// What was given is no address.
    #[error(
        "{text:?} is no address to listen at; try 127.0.0.1:8080, [::1]:8080, :8080, unix:/run/landau.sock or fd:3, \
         with tls: before it where TLS is spoken"
    )]
    Address {
        /// What was given.
        text: String,
    },
    /// The access log cannot be written.
    #[error("log {place}: {cause}; try --log - for standard output")]
    Log {
        /// Where it should go.
        place: String,
        /// Why it cannot.
        cause: std::io::Error,
    },
    /// There is no such user, or the process may not become this user.
    #[error("--user {0}")]
    User(String),
    /// The folder cannot be read by the user that the server became.
    #[error(
        "serve {}: user {user} may not read it: {cause}; chmod o+rx the folder, or name another --user",
        path.display()
    )]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The user.
        user: String,
        /// Why.
        cause: landau_sys::Error,
    },
    /// There is no fence although there must be one.
    #[error("--sandbox always: {0}")]
    Sandbox(String),
    /// A thread beside the workers cannot be started.
    #[error("start the thread {name}: {cause}")]
    Helper {
        /// Its name.
        name: &'static str,
        /// Why.
        cause: std::io::Error,
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
    #[error("start worker {worker}: {cause}")]
    Thread {
        /// Its number.
        worker: usize,
        /// Why.
        cause: std::io::Error,
    },
    /// A worker ended although nobody told it to.
    #[error("worker {0} ended by a defect of ours; its message stands above")]
    Died(usize),
}
