//! Errors that prevent a sink from starting. Each message contains its cause at a suitable place.

use std::path::PathBuf;

/// Why a sink cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The sink cannot listen at an address.
    #[error("cannot listen at {address}: {cause}{hint}")]
    Listen {
        /// The address as given.
        address: String,
        /// Why.
        cause: landau_sys::Error,
        /// What to do about it; empty if unknown.
        hint: &'static str,
    },
    /// The text is not an address to listen at.
    #[error("{text:?} is not an address; try 127.0.0.1:2525, [::1]:2525, :2525 or 127.0.0.0/8:2525")]
    Address {
        /// The text.
        text: String,
    },
    /// The text is not a network.
    #[error("{text:?} is not an address or network; try 127.0.0.1 or 127.0.2.0/24 (no bits after the first 24)")]
    Prefix {
        /// The text.
        text: String,
    },
    /// The profile file cannot be read.
    #[error("cannot read the profile {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The profile has an error.
    #[error("profile: {0}")]
    Profile(String),
    /// The domains of a name server cannot be created.
    #[error("cannot serve the zone {text:?}: {reason}")]
    Zone {
        /// The name of the zone.
        text: String,
        /// Why.
        reason: String,
    },
    /// A UDP answer must come from the address of the query, so a single address is required.
    #[error("cannot serve DNS at {address}: specify single addresses, such as 127.0.0.1:5353")]
    OneAddress {
        /// The addresses as given.
        address: String,
    },
    /// The directory of mailboxes cannot be created.
    #[error("cannot create the mailbox directory {}: {cause}", path.display())]
    Maildir {
        /// The directory.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The certificate for STARTTLS cannot be used.
    #[error("cannot offer STARTTLS: {reason}")]
    Tls {
        /// Why.
        reason: String,
    },
    /// The event loop failed.
    #[error(transparent)]
    Reactor(#[from] landau_reactor::Error),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
}
