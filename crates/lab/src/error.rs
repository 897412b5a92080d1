//! An error from obtaining, booting or measuring a kernel.

use std::path::Path;

/// An error from obtaining, booting or measuring a kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a program could not be used.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried: `read`, `start` …
        action: &'static str,
        /// The file or program.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The guest cannot be made, or misbehaves.
    #[error("{0}")]
    Guest(String),
    /// A platform cannot be used on this host.
    #[error("the platform `{platform}` cannot be used here: {reason}")]
    Platform {
        /// Its name.
        platform: String,
        /// Why, and what to do.
        reason: String,
    },
    /// There is no directory for kernels and the results of probes: none was named, and the user has no default one.
    #[error("no cache directory: neither HOME nor XDG_CACHE_HOME is set; specify a directory with --cache")]
    NoCache,
    /// A kernel could not be obtained.
    #[error(transparent)]
    Kernel(#[from] crate::kernel::Error),
    /// The record cannot be written.
    #[error(transparent)]
    Record(#[from] landau_record::Error),
    /// The run cannot be planned or carried out.
    #[error(transparent)]
    Run(#[from] landau_engine::Error),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
}

impl Error {
    /// Returns the error for a platform that cannot be used. The reason also says what to do.
    pub(crate) fn unusable(platform: &str, reason: impl Into<String>) -> Self {
        Self::Platform { platform: platform.to_owned(), reason: reason.into() }
    }

    /// Returns the error with its causes, as `cli` prints one.
    pub(crate) fn with_causes(&self) -> String {
        let mut messages = vec![self.to_string()];
        let mut cause = std::error::Error::source(self);
        while let Some(inner) = cause {
            messages.push(inner.to_string());
            cause = inner.source();
        }
        messages.join(": ")
    }
}

pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { action, path: path.display().to_string(), source }
}
