//! The reactor's backends as values of a parameter, and what its errors mean for a pass.

use landau_engine::{Settings, Stop, Support};
use landau_reactor::{Backend, Error};

/// The names of all backends, this system's or not: what is typed is refused only if no system has it.
pub(crate) const NAMES: &[&str] = &names();

const fn names() -> [&'static str; Backend::ALL.len()] {
    let mut names = [""; Backend::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Backend::ALL[at].name();
        at += 1;
    }
    names
}

/// The backend that a parameter names; the best of this system where it names none.
pub(crate) fn named(settings: &Settings, parameter: &str) -> Backend {
    settings.text(parameter).parse().unwrap_or_default()
}

/// Whether this system has it and lets us use it: it is tried.
pub(crate) fn support(backend: Backend) -> Support {
    match landau_reactor::Reactor::new(backend) {
        Ok(_) => Support::Yes,
        Err(error) => Support::No(error.to_string()),
    }
}

/// Why a step was not completed. A descriptor that a set has no room for is a refusal like one of the system's.
pub(crate) fn stop(error: Error) -> Stop {
    match error {
        Error::System(error) => Stop::Refused(error),
        Error::Capacity { .. } => Stop::Refused(landau_sys::Error { call: "select", errno: libc::EINVAL }),
        other => Stop::Wrong(other.to_string()),
    }
}

/// The same for a wait, which is only ever refused by the system.
pub(crate) fn refused(error: Error) -> landau_sys::Error {
    match stop(error) {
        Stop::Refused(error) => error,
        _ => landau_sys::Error { call: "wait", errno: libc::EIO },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_can_be_named() {
        assert_eq!(NAMES.len(), Backend::ALL.len());
        for name in NAMES {
            assert_eq!(name.parse::<Backend>().unwrap().name(), *name);
        }
    }
}
