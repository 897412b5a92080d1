//! Why a step was not completed.

use landau_sys::fork_helper::Failure;

/// Why a step was not completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
    /// The kernel refused a call. If that is a limit, it is a result.
    #[error(transparent)]
    Refused(#[from] landau_sys::Error),
    /// The benchmark did not measure what it claims to: a check failed, a child died.
    #[error("{0}")]
    Wrong(String),
    /// No further object can be destroyed. This ends the destruction and is not a failure.
    #[error("no further object can be destroyed")]
    Enough,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => Stop::Refused(error),
            other => Stop::Wrong(other.to_string()),
        }
    }
}

impl Stop {
    /// Converts a failed operation of the standard library into a refusal of `call`.
    pub fn io(call: &'static str, error: &std::io::Error) -> Self {
        Stop::Refused(landau_sys::Error::from_io(call, error))
    }

    /// Fails with `what` unless a check holds.
    pub fn unless(holds: bool, what: impl FnOnce() -> String) -> Result<(), Stop> {
        if holds { Ok(()) } else { Err(Stop::Wrong(what())) }
    }
}
